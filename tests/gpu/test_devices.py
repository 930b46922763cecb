"""Two GPUs in one process: work is done on the GPU of its operands, whichever is the current one."""

from __future__ import annotations

import copy
from collections import OrderedDict

import cupy
import numpy as np
import pytest

import tdt
from tdt import nn
from tdt.optim.swa_utils import AveragedModel

FIRST, SECOND = tdt.device("cuda:0"), tdt.device("cuda:1")


pytestmark = pytest.mark.usefixtures("two_gpus")


FACTORIES = {
    "zeros": lambda **where: tdt.zeros(3, **where),
    "full of bfloat16": lambda **where: tdt.full((3,), 2.0, dtype=tdt.bfloat16, **where),
    "arange": lambda **where: tdt.arange(2, 9, 3, **where),
    "linspace": lambda **where: tdt.linspace(0, 1, 5, **where),
    "logspace": lambda **where: tdt.logspace(0, 2, 3, **where),
    "eye": lambda **where: tdt.eye(3, **where),
    "tril_indices": lambda **where: tdt.tril_indices(3, 3, **where),
    "rand": lambda **where: tdt.rand(5, **where),
    "randn": lambda **where: tdt.randn(5, **where),
    "randint": lambda **where: tdt.randint(9, (5,), **where),
    "randperm": lambda **where: tdt.randperm(5, **where),
    "tensor": lambda **where: tdt.tensor([1.0, 2.0], **where),
    "empty_like": lambda **where: tdt.zeros_like(tdt.ones(3), **where),
}  # fmt: skip


@pytest.mark.parametrize("name", FACTORIES)
def test_a_factory_creates_on_the_named_gpu_the_default_one_or_the_current_one(name: str):
    by_name = FACTORIES[name](device="cuda:1")
    with tdt.device("cuda:1"):
        by_default = FACTORIES[name](device="cuda:1")
    with tdt.cuda.device(1):
        by_current = FACTORIES[name](device="cuda")
    tdt.cuda.set_device("cuda:1")
    try:
        after_set = FACTORIES[name](device="cuda")
    finally:
        tdt.cuda.set_device(0)
    assert {str(x.device) for x in (by_name, by_default, by_current, after_set)} == {"cuda:1"}
    assert {x._a.device.id for x in (by_name, by_default, by_current, after_set)} == {1}


def test_a_step_runs_on_the_second_gpu_and_gives_what_the_first_gives():
    weights = []
    for device in (FIRST, SECOND):
        tdt.manual_seed(1)
        model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.ReLU(), nn.Dropout(0.1), nn.Linear(4, 2)).to(device)
        average = AveragedModel(model)
        update = tdt.optim.AdamW(model.parameters())
        x, y = tdt.randn(3, 4).to(device), tdt.tensor([0, 1, 1], device=device)
        for _ in range(2):
            update.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            update.step()
            average.update_parameters(model)
        tensors = [*model.parameters(), *(p.grad for p in model.parameters()), *average.module.parameters(), norm]
        assert {t.device for t in tensors} == {device}
        weights.append([t.detach().cpu() for t in tensors])
    tdt.testing.assert_close(*weights, rtol=0, atol=0)


def test_copies_between_gpus_and_of_tensors_keep_values_and_devices():
    x = tdt.randn(3, 4).to(SECOND)
    assert tdt.equal(x.to(FIRST).cpu(), x.cpu()) and copy.deepcopy(x).device == SECOND
    y = tdt.zeros(3, 4, device=FIRST)
    y.copy_(x)
    assert y.device == FIRST and tdt.equal(y.cpu(), x.cpu())
    x[0] = 2.0
    x[tdt.tensor([1], device=SECOND)] = 3.0
    x[x > 2.5] = 4.0
    assert x[:2].tolist() == [[2.0] * 4, [4.0] * 4]


def test_a_copy_waits_for_the_stream_that_computes_its_source():
    stream = tdt.cuda.Stream(FIRST)
    with tdt.cuda.stream(stream):
        late = tdt.ones(4, device=FIRST) * 3
        moved = late.to(SECOND)
    assert moved.tolist() == [3.0] * 4


def test_an_event_belongs_to_the_gpu_of_the_stream_that_records_it():
    event, stream = tdt.cuda.Event(enable_timing=True), tdt.cuda.Stream(SECOND)
    assert event.query()
    event.synchronize()
    event.wait()
    with pytest.raises(ValueError, match="Both events must be recorded"):
        event.elapsed_time(tdt.cuda.Event(enable_timing=True))
    with tdt.cuda.stream(stream):
        x = tdt.ones(3, device=SECOND) * 2
        event.record()
    tdt.cuda.default_stream(FIRST).wait_event(event)
    end = tdt.cuda.default_stream(SECOND).record_event(tdt.cuda.Event(enable_timing=True))
    event.synchronize()
    assert event.elapsed_time(end) >= 0 and x.tolist() == [2.0] * 3


def test_operands_on_two_gpus_are_refused_even_numbers():
    x = tdt.ones(3, device=SECOND)
    for other in (tdt.ones(3, device=FIRST), tdt.tensor(2.0, device=FIRST), tdt.ones(3)):
        with pytest.raises(RuntimeError, match=r"same device.*cuda:1"):
            x + other
    assert (x + tdt.tensor(2.0)).device == SECOND
    with pytest.raises(RuntimeError, match="invalid device ordinal.*cuda:2; CuPy sees 2 GPUs"):
        x.to("cuda:2")


def test_the_gradient_of_a_number_on_the_cpu_is_on_the_cpu():
    scale = tdt.tensor(2.0, requires_grad=True)
    (tdt.ones(3, device=SECOND) * (scale * 2)).sum().backward()
    assert scale.grad is not None and scale.grad.device.type == "cpu" and scale.grad.item() == 6


@pytest.mark.parametrize("graph", [False, True])
def test_gradients_of_both_gpus_meet_where_their_leaf_is(graph: bool):
    x = tdt.randn(2, 3).t().to(FIRST).requires_grad_()
    loss = (x.to(SECOND) * 2).sum() + (x * x).sum().to(SECOND)
    loss.backward(create_graph=graph)
    assert x.grad is not None and x.grad.device == FIRST
    tdt.testing.assert_close(x.grad.detach(), 2 + 2 * x.detach())


def test_a_loss_on_the_cpu_sends_gradients_to_two_gpus():
    first, second = nn.Linear(3, 4).to(FIRST), nn.Linear(4, 1).to(SECOND)
    optimizer = tdt.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1, momentum=0.9)
    before = [p.detach().cpu() for p in (first.weight, second.weight)]
    second(first(tdt.randn(5, 3, device=FIRST)).relu().to(SECOND)).cpu().square().sum().backward()
    total = nn.utils.clip_grad_norm_([*first.parameters(), *second.parameters()], 1.0)
    optimizer.step()
    assert [p.grad.device for p in (first.weight, second.weight)] == [FIRST, SECOND] and total.device == FIRST
    assert not any(tdt.equal(b, p.cpu()) for b, p in zip(before, (first.weight, second.weight), strict=True))


def test_each_gpu_has_numbers_of_its_own():
    tdt.manual_seed(3)
    one, other = tdt.randn(6, device=FIRST), tdt.randn(6, device=SECOND)
    assert tdt.equal(one.cpu(), other.cpu())  # of one seed
    states = tdt.cuda.get_rng_state_all()
    after = [tdt.rand(2, device=device).cpu() for device in (FIRST, SECOND)]
    tdt.cuda.set_rng_state_all(states)
    assert all(tdt.equal(a, tdt.rand(2, device=d).cpu()) for a, d in zip(after, (FIRST, SECOND), strict=True))


class Branches(nn.Module):
    """A model with a buffer, a shared parameter and results in a dict."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.b.weight = self.a.weight
        self.register_buffer("scale", tdt.tensor(0.5))

    def forward(self, x, shift=0.0):
        assert x.device == self.a.weight.device == self.scale.device
        return OrderedDict(out=self.b(self.a(x).tanh()) * self.scale + shift, norm=x.square().sum())


@pytest.mark.parametrize("batch", [1, 5, 6])
def test_data_parallel_gives_results_and_gradients_of_one_gpu(batch: int):
    model, x = Branches().cuda(), tdt.randn(batch, 4).cuda().requires_grad_()
    outcomes = []
    for called in (model, nn.DataParallel(model), nn.DataParallel(model, [0, 1], output_device=1)):
        model.zero_grad()
        x.grad = None
        result = called(x, **({"shift": 1.0} if batch > 1 else {}))
        (result["out"].square().sum() + result["norm"].sum().to(result["out"].device)).backward()
        assert {p.grad.device for p in (*model.parameters(), x)} == {FIRST}
        outcomes.append([t.detach().cpu() for t in (result["out"], x.grad, *(p.grad for p in model.parameters()))])
    for other in outcomes[1:]:
        tdt.testing.assert_close(other, outcomes[0])


def test_data_parallel_keeps_what_batch_norm_has_counted_on_the_first_gpu():
    model = nn.Sequential(nn.BatchNorm1d(4)).cuda()
    x = tdt.randn(6, 4)
    nn.DataParallel(model)(x.cuda()).sum().backward()
    alone = nn.BatchNorm1d(4)
    alone(x[:3])  # as in PyTorch, the first GPU's copy shares its buffers with the model
    tdt.testing.assert_close(model[0].running_mean.cpu(), alone.running_mean)


def test_checks_of_indices_wait_on_their_own_gpu():
    with pytest.raises(IndexError, match="Target 3"):
        nn.functional.cross_entropy(tdt.zeros(2, 3, device=SECOND), tdt.tensor([1, 3], device=SECOND)).item()


def test_metrics_printing_pickles_and_scalers_work_on_the_second_gpu(tmp_path):
    model = nn.Linear(2, 2).to(SECOND)
    tdt.save(model.state_dict(), tmp_path / "weights.pt")
    loaded = tdt.load(tmp_path / "weights.pt")
    assert {t.device for t in loaded.values()} == {SECOND} and "cuda:1" in repr(loaded["weight"])
    assert {t.device for t in tdt.load(tmp_path / "weights.pt", map_location="cuda:0").values()} == {FIRST}
    scaler, update = tdt.amp.GradScaler("cuda", init_scale=128.0), tdt.optim.SGD(model.parameters(), lr=0.1)
    with tdt.autocast("cuda", dtype=tdt.float16):
        loss = model(tdt.ones(1, 2, device=SECOND)).float().sum()
    scaler.scale(loss).backward()
    scaler.step(update)
    scaler.update()
    assert np.isfinite(model.weight.sum().item()) and not tdt.equal(model.weight.cpu(), loaded["weight"].cpu())


def test_cupy_itself_refuses_an_operand_of_another_gpu():
    with pytest.raises(ValueError, match="must be same as the current device"):
        tdt.ones(3, device=SECOND)._a + 1
    assert cupy.cuda.Device().id == 0
