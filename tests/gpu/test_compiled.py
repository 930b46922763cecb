"""`tdt.compile` of functions on a GPU: a CUDA graph of the first calls does what the further ones would do, to the bit."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import cupy
import numpy as np
import pytest

import tdt
from benchmarks import workloads
from tdt import nn
from tdt._compiled.captured import Captured
from tdt._compiled.function import Compiled
from tdt._compiled.graphed import Graphed
from tdt._kernels import copy_gpu
from tdt.nn import functional as F

IMAGES = lambda: nn.Sequential(  # noqa: E731
    nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.2), nn.Flatten(), nn.Linear(144, 10)
)
NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], tuple[int, ...]]] = {
    "mlp": (lambda: nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, 10)), (4, 8), (4,)),
    "images": (IMAGES, (4, 1, 8, 8), (4,)),
    "gpt": (lambda: workloads.gpt_model(tdt, 1, 2, 16, 8, 65), (2, 8), (16,)),
}


def batches(name: str, count: int) -> list[tuple[tdt.Tensor, tdt.Tensor]]:
    """Batches on the GPU, the same ones in each call."""
    numbers = np.random.default_rng(7)
    _, size, targets = NETWORKS[name]
    found = []
    for _ in range(count):
        x = (
            tdt.tensor(numbers.integers(0, 65, size))
            if name == "gpt"
            else tdt.tensor(numbers.normal(size=size)).float()
        )
        found.append((x.cuda(), tdt.tensor(numbers.integers(0, 10, targets)).cuda()))
    return found


def network(name: str) -> nn.Module:
    tdt.manual_seed(3)
    with tdt.device("cuda"):
        return NETWORKS[name][0]().cuda()


def losses_of(name: str, model: nn.Module) -> Callable[[tdt.Tensor, tdt.Tensor], tdt.Tensor]:
    def losses(x: tdt.Tensor, y: tdt.Tensor) -> tdt.Tensor:
        with tdt.device("cuda"):
            return F.cross_entropy(model(x), y)

    return losses


def graphs(compiled: Any) -> list[Graphed]:
    """The verified graphs of a compiled function."""
    compiled = getattr(compiled, "_compiled", compiled)
    recordings = [each.recording for of_kind in compiled.recordings.values() for each in of_kind]
    return [each for each in recordings if each is not None and each.verified]


def held(model: nn.Module, *others: Any) -> list[Any]:
    tensors = [*model.parameters(), *model.buffers(), *[p.grad for p in model.parameters() if p.grad is not None]]
    return [[t.detach().cpu() for t in tensors], tdt.cuda.get_rng_state(), *others]


def state_of(optimizer: tdt.optim.Optimizer) -> list[Any]:
    return [v.cpu() if isinstance(v, tdt.Tensor) else v for s in optimizer.state.values() for v in s.values()]


def alike(found: Any, expected: Any) -> None:
    tdt.testing.assert_close(found, expected, rtol=0, atol=0)


OPTIMIZERS = {
    "Adam": lambda params: tdt.optim.Adam(params, lr=1e-2),
    "AdamW": lambda params: tdt.optim.AdamW(params, lr=1e-2, capturable=True),
    "SGD": lambda params: tdt.optim.SGD(params, lr=0.1, momentum=0.9),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", NETWORKS)
def test_whole_steps_have_the_bits_of_those_that_are_not_compiled(name: str, optimizer: str):
    """Losses, parameters, running statistics, gradients, random numbers, the optimizer's state, with rates that change."""
    if optimizer != "Adam" and name != "mlp":
        return
    results = []
    for compiles in (False, True):
        model = network(name)
        update = OPTIMIZERS[optimizer](model.parameters())
        scheduler = tdt.optim.lr_scheduler.StepLR(update, 3, 0.7)
        losses = losses_of(name, model)

        def step(x: tdt.Tensor, y: tdt.Tensor, update=update, losses=losses, model=model) -> tdt.Tensor:
            update.zero_grad()
            loss = losses(x, y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            update.step()
            return loss

        call = tdt.compile(step, fullgraph=True) if compiles else step
        found = []
        for x, y in batches(name, 20):
            found.append(call(x, y))
            scheduler.step()
        results.append(held(model, [t.cpu() for t in found], state_of(update)))
        assert not compiles or len(graphs(call)) == 1
    alike(results[1], results[0])


@pytest.mark.parametrize("name", NETWORKS)
def test_a_loss_and_its_gradients_have_the_bits_of_those_that_are_not_compiled(name: str):
    results = []
    for compiles in (False, True):
        model = network(name)
        update = OPTIMIZERS["Adam"](model.parameters())
        losses = losses_of(name, model)
        call = tdt.compile(losses, fullgraph=True) if compiles else losses
        found = []
        for x, y in batches(name, 20):
            x = x.requires_grad_() if x.is_floating_point() else x
            update.zero_grad()
            loss = call(x, y)
            loss.backward()
            update.step()
            found += [loss.detach(), *([] if x.grad is None else [x.grad])]
        results.append(held(model, [t.cpu() for t in found]))
        if compiles:
            (graph,) = graphs(call)
            (backward,) = [function for function, _ in graph.backwards.values()]
            assert [kind.__class__.__name__ for kind in backward._calls.values()] == ["tuple"]
    alike(results[1], results[0])


@pytest.mark.parametrize("where", ["inside", "around"])
def test_mixed_precision_inside_of_a_function_and_around_it(where: str):
    results = []
    for compiles in (False, True):
        model = network("mlp")
        update = OPTIMIZERS["Adam"](model.parameters())

        def losses(x: tdt.Tensor, y: tdt.Tensor, model=model) -> tdt.Tensor:
            with tdt.autocast("cuda", dtype=tdt.bfloat16, enabled=where == "inside"):
                return F.cross_entropy(model(x).float(), y)

        call = tdt.compile(losses, fullgraph=True) if compiles and where == "inside" else losses
        if where == "around":
            scores = tdt.compile(model, fullgraph=True) if compiles else model
            call = lambda x, y, scores=scores: F.cross_entropy(scores(x).float(), y)  # noqa: E731
        found = []
        for x, y in batches("mlp", 12):
            update.zero_grad()
            with tdt.autocast("cuda", dtype=tdt.bfloat16, enabled=where == "around"):
                loss = call(x, y)
            loss.backward()
            update.step()
            found.append(loss.detach())
        results.append(held(model, [t.cpu() for t in found]))
        if compiles:
            assert len(graphs(call if where == "inside" else scores)) == 1
    alike(results[1], results[0])


def test_a_module_is_compiled_in_training_and_evaluation_with_grad_and_without():
    plain, model = network("images"), network("images")
    compiled = tdt.compile(model, fullgraph=True)
    for k in range(24):
        x, _ = batches("images", k + 1)[k]
        training, grad = k % 2 == 0, k % 3 != 0
        plain.train(training)
        compiled.train(training)
        tdt.manual_seed(k)
        with tdt.set_grad_enabled(grad):
            expected = plain(x)
        tdt.manual_seed(k)
        with tdt.set_grad_enabled(grad):
            found = compiled(x)
        assert found.requires_grad == expected.requires_grad == grad
        alike(found.detach().cpu(), expected.detach().cpu())
    assert len(graphs(compiled)) == 4


def test_further_kinds_of_calls_are_captured_anew():
    """Other shapes and dtypes, layers that are frozen or not, and numbers that a function depends on."""
    layer, factor = nn.Linear(8, 3).cuda(), [1.0]

    def f(x: tdt.Tensor, power: int = 2) -> tdt.Tensor:
        return (layer(x.float()) * factor[0]).pow(power).sum()

    compiled = tdt.compile(f, fullgraph=True)

    def check(*args: Any) -> None:
        for _ in range(6):
            grads = []
            for call in (f, compiled):
                layer.zero_grad()
                out = call(*args)
                if out.requires_grad:
                    out.backward()
                grads.append([out.detach().cpu(), *[p.grad.cpu() for p in layer.parameters() if p.grad is not None]])
            alike(grads[1], grads[0])

    x = tdt.randn(5, 8).cuda()
    check(x)
    check(x[:3].clone())
    check(x.double())
    check(x.t().contiguous().t())
    layer.bias.requires_grad_(False)
    check(x)
    layer.bias.requires_grad_(True)
    check(x)
    factor[0] = 2.0
    check(x, 3)
    assert len(graphs(compiled)) == 6


def test_results_of_a_call_are_not_overwritten_by_the_next_ones():
    layer = nn.Linear(8, 3).cuda()
    compiled = tdt.compile(lambda x: {"scores": layer(x), "sums": (x.sum(0), x.t()[:2] * 1)}, fullgraph=True)
    inputs = [tdt.randn(5, 8).cuda() for _ in range(8)]
    with tdt.no_grad():
        found = [compiled(x) for x in inputs]
        for x, out in zip(inputs, found, strict=True):
            alike(out["scores"].cpu(), layer(x).cpu())
            alike(out["sums"][0].cpu(), x.sum(0).cpu())
            alike(out["sums"][1].cpu(), x.t()[:2].cpu())


def test_gradients_that_are_held_are_not_overwritten():
    layer = nn.Linear(8, 3).cuda()

    @tdt.compile(fullgraph=True)
    def step(x: tdt.Tensor) -> tdt.Tensor:
        layer.zero_grad()
        loss = layer(x).square().sum()
        loss.backward()
        return loss

    inputs, found = [tdt.randn(5, 8).cuda() for _ in range(8)], []
    for x in inputs:
        step(x)
        found.append(layer.weight.grad)
    for x, grad in zip(inputs, found, strict=True):
        layer.zero_grad()
        layer(x).square().sum().backward()
        alike(grad.cpu(), layer.weight.grad.cpu())


def test_a_call_before_the_backward_pass_of_the_last_one_leaves_what_that_requires():
    plain, layer = nn.Linear(8, 3).cuda(), nn.Linear(8, 3).cuda()
    layer.load_state_dict(plain.state_dict())
    compiled = tdt.compile(lambda x: layer(x).tanh().sum(), fullgraph=True)
    for _ in range(6):
        a, b = tdt.randn(5, 8).cuda(), tdt.randn(5, 8).cuda()
        for call, of in ((lambda x: plain(x).tanh().sum(), plain), (compiled, layer)):
            of.zero_grad()
            first, second = call(a), call(b)
            second.backward()
            first.backward(retain_graph=True)
            first.backward()
        alike(layer.weight.grad.cpu(), plain.weight.grad.cpu())
    assert len(graphs(compiled)) == 2


def test_two_calls_before_one_backward_pass_have_a_graph_each():
    """As of two views of a batch; of three calls, one is computed as it is."""
    results = []
    for compiles in (False, True):
        model = network("images")
        call = tdt.compile(model, fullgraph=True) if compiles else model
        found = []
        for k, ((a, _), (b, _)) in enumerate(zip(batches("images", 24)[::2], batches("images", 24)[1::2], strict=True)):
            model.zero_grad()
            loss = (call(a) * call(b)).mean() if k < 10 else (call(a) * call(b) * call(a + b)).mean()
            loss.backward()
            found.append(loss.detach())
        results.append(held(model, [t.cpu() for t in found]))
        assert not compiles or len(graphs(call)) == 2
    alike(results[1], results[0])


def test_gradients_add_up_over_several_calls():
    plain, layer = nn.Linear(8, 3).cuda(), nn.Linear(8, 3).cuda()
    layer.load_state_dict(plain.state_dict())
    compiled = tdt.compile(lambda x: layer(x).tanh().mean(), fullgraph=True)
    for _ in range(7):
        x = tdt.randn(5, 8).cuda()
        (plain(x).tanh().mean() / 4).backward()
        (compiled(x) / 4).backward()
        alike(layer.weight.grad.cpu(), plain.weight.grad.cpu())


def test_gradients_are_added_to_where_the_function_does_not_clear_them():
    """`zero_grad(set_to_none=False)`, and no clearing at all: gradients stay where they are, and are written to."""
    for clears in (False, True):
        results = []
        for compiles in (False, True):
            tdt.manual_seed(0)
            layer = nn.Linear(8, 3).cuda()

            def step(x: tdt.Tensor, layer=layer, clears=clears) -> None:
                if clears:
                    for p in layer.parameters():
                        if p.grad is not None:
                            p.grad.zero_()
                layer(x).tanh().mean().backward()

            call = tdt.compile(step) if compiles else step
            found = []
            for k in range(8):
                call(tdt.full((5, 8), k / 8).cuda())
                found.append(layer.weight.grad.cpu())
            layer.zero_grad()
            call(tdt.ones(5, 8).cuda())
            results.append([*found, layer.weight.grad.cpu()])
            assert not compiles or len(graphs(call)) == 1
        alike(results[1], results[0])


def test_an_optimizer_whose_state_is_loaded_is_captured_again():
    results = []
    for compiles in (False, True):
        tdt.manual_seed(0)
        layer = nn.Linear(8, 3).cuda()
        update = tdt.optim.Adam(layer.parameters(), lr=0.1)

        def step(x: tdt.Tensor, layer=layer, update=update) -> tdt.Tensor:
            update.zero_grad()
            loss = layer(x).tanh().mean()
            loss.backward()
            update.step()
            return loss

        call = tdt.compile(step, fullgraph=True) if compiles else step
        found = []
        for k in range(14):
            found.append(call(tdt.full((5, 8), k / 8).cuda()))
            if k == 6:
                update.load_state_dict(update.state_dict())
        results.append([[t.cpu() for t in found], state_of(update)])
        assert not compiles or len(graphs(call)) == 1
    alike(results[1], results[0])


def test_hooks_around_a_step_of_an_optimizer_are_called_in_each():
    layer = nn.Linear(8, 3).cuda()
    update = tdt.optim.SGD(layer.parameters(), lr=0.1)
    calls: list[int] = []
    update.register_step_post_hook(lambda *_: calls.append(1))

    def step(x: tdt.Tensor) -> None:
        update.zero_grad()
        layer(x).sum().backward()
        update.step()

    compiled = Compiled(step)
    with pytest.warns(UserWarning, match="hooks around its step"):
        _ = [compiled(tdt.ones(5, 8).cuda()) for _ in range(8)]
    assert graphs(compiled) == [] and compiled.count == 1 and len(calls) >= 8


def test_generators_of_the_users_own_advance():
    results = []
    for compiles in (False, True):
        generator = tdt.Generator("cuda").manual_seed(5)

        def f(x: tdt.Tensor, generator=generator) -> tdt.Tensor:
            return x * tdt.rand(4, device="cuda", generator=generator) + tdt.randn(4, device="cuda")

        call = tdt.compile(f, fullgraph=True) if compiles else f
        tdt.manual_seed(1)
        found = []
        for k in range(10):
            found.append(call(tdt.ones(4, device="cuda")))
            if k == 7:
                generator.manual_seed(3)
        results.append([[t.cpu() for t in found], generator.get_offset(), tdt.cuda.get_rng_state()])
        assert not compiles or len(graphs(call)) == 1
    alike(results[1], results[0])


def test_a_parameter_that_is_written_to_before_the_backward_pass_is_an_error():
    layer = nn.Linear(8, 3).cuda()
    compiled = tdt.compile(lambda x: layer(x).tanh().sum(), fullgraph=True)
    for _ in range(6):
        loss = compiled(tdt.randn(5, 8).cuda().requires_grad_())
        with tdt.no_grad():
            layer.weight.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()
        del loss
    assert len(graphs(compiled)) == 1
    with pytest.raises(RuntimeError, match="differentiated twice"):
        compiled(tdt.ones(5, 8).cuda().requires_grad_()).backward(create_graph=True)


W = tdt.ones(3)
REFUSED = {
    "item": (lambda x: x * x.sum().item(), r"item\(\) reads values of a tensor, .*, at .*test_compiled.py:"),
    "branch": (lambda x: x * 2 if x.sum() > 0 else x, r"reads values of a tensor"),
    "upload": (lambda x: x + tdt.tensor([1.0, 2.0, 3.0], device="cuda"), r"as a CUDA graph: .*H2D .*, at .*_compiled.py:"),
    "choice": (lambda x: x[x > 0], "captured as a CUDA graph: .* transfers are disallowed"),
    "synchronize": (lambda x: (tdt.cuda.synchronize(), x * 2)[1], r"synchronize\(\) waits for the GPU"),
    "memory": (lambda x: x * tdt.cuda.memory_allocated(), "a statistic of memory waits for the GPU, or reads"),
    "the CPU": (lambda x: x.cpu() * 2, "reads values of a tensor|D2H transfers"),
    "a tensor on the CPU": (lambda x: x * W.sum(), "tensors on a GPU and others that are not"),
    "random numbers on the CPU": (lambda x: x * float(tdt.rand(1)), "reads values|random numbers on the CPU"),
    "random numbers of NumPy": (lambda x: x * np.random.rand(), "it draws random numbers on the CPU"),
    "an argument in place": (lambda x: x.mul_(2), "an argument is written to in place"),
    "a view": (lambda x: x[:2], "a result shares memory with an argument"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_captured_is_called_as_it_is_with_the_reason_as_a_warning(name: str):
    function, reason = REFUSED[name]
    compiled = Compiled(function)
    inputs = [tdt.tensor([1.0, -2.0, k + 3.0]).cuda() for k in range(8)]
    with pytest.warns(UserWarning, match=f"is called as it is: .*({reason})") as found:
        results = [compiled(x) for x in inputs]
    assert all(result.sum().isfinite() for result in results)
    assert len(found) == 1 and graphs(compiled) == []
    if name not in ("random numbers of NumPy", "random numbers on the CPU", "memory"):
        x = tdt.tensor([3.0, -1.0, 2.0])
        alike(compiled(x.cuda()).cpu(), function(x.cuda()).cpu())
    strict = tdt.compile(function, fullgraph=True)
    with pytest.raises(RuntimeError, match="fullgraph=True"):
        _ = [strict(tdt.ones(3).cuda()) for _ in range(8)]


def test_a_graph_with_other_bits_than_a_call_is_not_used(monkeypatch: pytest.MonkeyPatch):
    replay = Captured.replay

    def wrong(captured: Captured, inputs: list[tdt.Tensor]) -> None:
        replay(captured, [x + 1 for x in inputs])

    monkeypatch.setattr(Captured, "replay", wrong)
    compiled = Compiled(lambda x: x * 2)
    x = tdt.zeros(3, device="cuda")
    with pytest.warns(
        UserWarning, match=r"a CUDA graph of it differs from a call in its result \(3 of 3 elements"
    ) as found:
        results = [compiled(x) for _ in range(8)]
    assert len(found) == 1 and graphs(compiled) == []
    for result in results:
        alike(result.cpu(), x.cpu())


def test_sums_in_no_particular_order_may_have_other_bits(monkeypatch: pytest.MonkeyPatch):
    """As CuPy's `add.at`, which here rounds another way in each call."""
    add_at, calls = cupy.add.at, []

    def at(out: Any, index: Any, values: Any) -> None:
        calls.append(1)
        add_at(out, index, values)
        out *= 1 + 1e-7 * len(calls)

    monkeypatch.setattr(type(cupy.add), "at", staticmethod(at))
    index = tdt.tensor([0, 2, 2, 1]).cuda()
    table = nn.Parameter(tdt.randn(3, 4).cuda())
    sums = tdt.compile(lambda x: tdt.zeros(3, 4, device="cuda").index_add(0, index, x), fullgraph=True)
    losses = tdt.compile(lambda x: (tdt.gather(table, 0, index[:, None].expand(4, 4)) * x).sum(), fullgraph=True)
    for _ in range(7):
        x, table.grad = tdt.randn(4, 4).cuda(), None
        found = sums(x)
        expected = tdt.zeros(3, 4, device="cuda").index_add(0, index, x)
        tdt.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
        losses(x).backward()
        tdt.testing.assert_close(table.grad, found, rtol=1e-3, atol=1e-3)
    assert calls and len(graphs(sums)) == len(graphs(losses)) == 1


def test_a_function_that_seeds_a_generator_is_not_captured():
    def f(x: tdt.Tensor) -> tdt.Tensor:
        tdt.cuda.manual_seed(3)
        return x + tdt.rand(3, device="cuda")

    compiled = Compiled(f)
    x = tdt.zeros(3, device="cuda")
    with pytest.warns(UserWarning, match="it seeds a generator of random numbers"):
        results = [compiled(x) for _ in range(8)]
    for result in results:
        alike(result.cpu(), results[0].cpu())


def test_a_compiled_function_inside_of_another_and_inside_of_a_graph():
    inner = tdt.compile(lambda x: x.tanh() * 2, fullgraph=True)
    outer = tdt.compile(lambda x: inner(x) + 1, fullgraph=True)
    for k in range(8):
        x = tdt.full((3,), k / 8).cuda()
        alike(outer(x).cpu(), (x.tanh() * 2 + 1).cpu())
    assert len(graphs(outer)) == 1
    for _ in range(6):
        inner(x)
    assert len(graphs(inner)) == 1
    graph = tdt.cuda.CUDAGraph()
    with tdt.cuda.graph(graph):
        out = inner(x)
    graph.replay()
    alike(out.cpu(), (x.tanh() * 2).cpu())


def test_switches_of_the_gpu_are_part_of_the_kind_of_a_call():
    compiled = tdt.compile(lambda x: x @ x, fullgraph=True)
    x = tdt.randn(4, 4).cuda()
    for allowed in (False, True, False):
        tdt.backends.cuda.matmul.allow_tf32 = allowed
        try:
            for _ in range(6):
                alike(compiled(x).cpu(), (x @ x).cpu())
        finally:
            tdt.backends.cuda.matmul.allow_tf32 = False
    assert len(graphs(compiled)) == 2


def test_the_second_gpu_has_its_own_graphs(two_gpus):
    layer = nn.Linear(4, 2).to("cuda:1")
    compiled = tdt.compile(lambda x: layer(x).tanh().sum(), fullgraph=True)
    for _ in range(7):
        x = tdt.randn(3, 4).to("cuda:1")
        layer.zero_grad()
        compiled(x).backward()
        found = layer.weight.grad.cpu()
        layer.zero_grad()
        layer(x).tanh().sum().backward()
        alike(found, layer.weight.grad.cpu())
    assert len(graphs(compiled)) == 1
    mixed = Compiled(lambda x: x.to("cuda:0") * tdt.ones(3, 4, device="cuda:0"))
    for _ in range(6):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            alike(mixed(x).cpu(), x.cpu())


def test_another_thread_calls_the_function_as_it_is():
    compiled = tdt.compile(lambda x: x.tanh() * 2, fullgraph=True)
    x = tdt.randn(3).cuda()
    for _ in range(6):
        compiled(x)
    assert len(graphs(compiled)) == 1
    with ThreadPoolExecutor(1) as pool:
        alike(pool.submit(compiled, x).result().cpu(), (x.tanh() * 2).cpu())


def test_a_call_is_captured_where_its_arguments_begin_as_their_copies_will(counted):
    compiled = tdt.compile(lambda x: x.tanh() * 2, fullgraph=True)
    x = tdt.randn(8, 3).cuda()
    for _ in range(6):
        compiled(x[1:4])
    assert graphs(compiled) == []
    compiled(x[:3])
    assert len(graphs(compiled)) == 1
    with counted() as found:
        out = compiled(x[1:4])
    assert ("launches", "graph") in [each[:2] for each in found]
    alike(out.cpu(), (x[1:4].tanh() * 2).cpu())


def test_copies_in_one_piece_have_the_values_and_strides_of_arrays(counted):
    a = cupy.arange(24, dtype="f").reshape(4, 6)
    arrays = [
        a,
        a.T,
        a[:, 1::2],
        a[::-1],
        cupy.broadcast_to(a[0], (3, 6)),
        a > 3,
        a.astype("d"),
        a[:0],
        a.sum(),
        a.astype("F"),
    ]
    copies = copy_gpu.Copies(arrays)
    for k in range(2):
        a += k
        with counted() as found:
            copied = copies()
        assert sum(name == "copy_each" for _, name, _ in found) == 3  # for elements of 1, 4 and 8 bytes
        for each, array in zip(copied, arrays, strict=True):
            assert (each.get() == array.get()).all() and each.dtype == array.dtype and each.data.ptr % 512 == 0
            assert each.strides == array.strides or min(array.strides) < 0
        copied[0][...] = -1
        assert (a.get() != -1).all()


def test_memory_is_free_again_when_the_function_is_gone():
    layer = nn.Linear(64, 64).cuda()
    gc.collect()
    before = tdt.cuda.memory_allocated()
    compiled = tdt.compile(lambda x: layer(x).tanh().sum(), fullgraph=True)
    x = tdt.randn(256, 64).cuda()
    for _ in range(7):
        compiled(x).backward()
    assert len(graphs(compiled)) == 1
    layer.zero_grad()
    assert tdt.cuda.memory_allocated() - before > 2 * x.nbytes
    del compiled, x
    gc.collect()
    assert tdt.cuda.memory_allocated() <= before + 4096


def test_a_call_is_one_launch_and_those_of_copies(counted):
    model = network("mlp")
    update = tdt.optim.Adam(model.parameters())

    @tdt.compile(fullgraph=True)
    def step(x: tdt.Tensor, y: tdt.Tensor) -> tdt.Tensor:
        update.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        update.step()
        return loss

    (x, y), *_ = batches("mlp", 1)
    for _ in range(5):
        step(x, y)
    tdt.cuda.synchronize()  # what ordinary steps have checked is read
    step(x, y)
    with counted() as found:
        step(x, y)
    assert [(kind, name) for kind, name, _ in found] == [
        ("launches", "copy_each"), ("launches", "copy_each"),  # float32 and int64 arguments
        ("launches", "set_numbers"), ("launches", "set_numbers"), ("launches", "graph"),
        ("launches", "copy_each"), ("launches", "copy_each"),  # the loss, and the gradients
    ]  # fmt: skip
