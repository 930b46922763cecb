"""CUDA graphs: a replay does what the captured calls would do, with the numbers that the host has by then."""

from __future__ import annotations

import gc
from collections.abc import Callable

import cupy
import pytest

import tdt
from tdt import nn
from tdt._kernels import capture_gpu, chains_gpu, graph_gpu
from tdt.nn import functional as F
from tests.gpu.steps import MODELS, NUMBERS

OPTIMIZERS = {
    "SGD": lambda params: tdt.optim.SGD(params, lr=0.1, momentum=0.9, weight_decay=1e-3),
    "AdamW": lambda params: tdt.optim.AdamW(params, lr=1e-2, capturable=True),
    "NAdam": lambda params: tdt.optim.NAdam(params, lr=1e-2),
}


def build(make: Callable[[], nn.Module], optimizer: str) -> tuple[nn.Module, tdt.optim.Optimizer]:
    tdt.manual_seed(3)
    model = make().cuda()
    return model, OPTIMIZERS[optimizer](model.parameters())


class Images(nn.Module):
    """Running statistics, and a count of batches, are in the graph too."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten())
        self.scores = nn.Linear(36, 10)

    def forward(self, x: tdt.Tensor) -> tdt.Tensor:
        return self.scores(self.layers(x))


NETWORKS = {**MODELS, "images": (Images, (2, 1, 8, 8), (2,))}


def batches(name: str, count: int) -> list[tuple[tdt.Tensor, tdt.Tensor]]:
    _, size, targets = NETWORKS[name]
    found = []
    for _ in range(count):
        x = tdt.tensor(NUMBERS.integers(0, 65, (2, size)) if isinstance(size, int) else NUMBERS.normal(size=size))
        x = x if x.dtype == tdt.int64 else x.float()
        found.append((x.cuda(), tdt.tensor(NUMBERS.integers(0, 10, targets)).cuda()))
    return found


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", ["mlp", "images", "gpt"])
def test_replayed_steps_are_those_without_a_graph(name: str, optimizer: str):
    """Dropout, learning rates that change, counts of steps: all as if each step were called."""
    data = batches(name, 8)
    results = []
    for graphed in (False, True):
        model, update = build(NETWORKS[name][0], optimizer)
        scheduler = tdt.optim.lr_scheduler.StepLR(update, 2, 0.5)
        x, y = (t.clone() for t in data[0])

        def step(model=model, update=update, x=x, y=y) -> tdt.Tensor:
            update.zero_grad()
            with tdt.device("cuda"):
                loss = F.cross_entropy(model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            update.step()
            return loss

        losses = []
        graph = tdt.cuda.CUDAGraph() if graphed else None
        for k, (inputs, targets) in enumerate(data):
            x.copy_(inputs)
            y.copy_(targets)
            if graph is None or k < 3:
                loss = step()
            else:
                if k == 3:
                    with tdt.cuda.graph(graph):
                        loss = step()
                graph.replay()
            losses.append(loss.item())
            scheduler.step()
        state = update.state_dict()["state"]
        values = [{k: v.cpu() if isinstance(v, tdt.Tensor) else v for k, v in each.items()} for each in state.values()]
        held = [t.detach().cpu() for t in (*model.parameters(), *model.buffers())]
        results.append((losses, held, values, tdt.cuda.get_rng_state()))
    tdt.testing.assert_close(results[1], results[0], rtol=0, atol=0)


def test_a_replay_is_one_launch_and_one_for_the_numbers(counted):
    model, update = build(MODELS["mlp"][0], "AdamW")
    (x, y), *_ = batches("mlp", 1)

    def step() -> None:
        update.zero_grad()
        F.cross_entropy(model(x), y).backward()
        update.step()

    for _ in range(3):
        step()
    graph = tdt.cuda.CUDAGraph()
    with tdt.cuda.graph(graph):
        step()
    with counted() as found:
        graph.replay()
    assert [(kind, name) for kind, name, _ in found] == [("launches", "set_numbers")] * 2 + [("launches", "graph")]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_graph_is_replayed_as_often_as_one_likes(optimizer: str):
    """Plans of optimizers on the CPU are built again after some steps; those on a GPU are not."""
    weights = []
    for graphed in (False, True):
        w = nn.Parameter(tdt.ones(4, device="cuda"))
        update = OPTIMIZERS[optimizer]([w])
        w.grad = tdt.ones(4, device="cuda")
        step = update.step
        step()
        if graphed:
            graph = tdt.cuda.CUDAGraph()
            with tdt.cuda.graph(graph):
                step()
            step = graph.replay
        for _ in range(50):
            step()
        weights.append(w.detach().cpu())
    tdt.testing.assert_close(weights[1], weights[0], rtol=0, atol=0)


def test_capturing_takes_no_step_and_draws_no_number():
    w = nn.Parameter(tdt.ones(4, device="cuda"))
    update = tdt.optim.AdamW([w], lr=0.1)
    w.grad = tdt.ones(4, device="cuda")
    update.step()
    before = w.detach().cpu(), update.state[w]["step"].item(), tdt.cuda.get_rng_state()
    with tdt.cuda.graph(tdt.cuda.CUDAGraph()):
        update.step()
        F.dropout(w, 0.5)
    after = w.detach().cpu(), update.state[w]["step"].item(), tdt.cuda.get_rng_state()
    tdt.testing.assert_close(after, before, rtol=0, atol=0)


def test_an_optimizer_whose_state_was_replaced_must_be_captured_again():
    w = nn.Parameter(tdt.ones(4, device="cuda"))
    update = tdt.optim.AdamW([w], lr=0.1)
    w.grad = tdt.ones(4, device="cuda")
    update.step()
    graph = tdt.cuda.CUDAGraph()
    with tdt.cuda.graph(graph):
        update.step()
    update.load_state_dict(update.state_dict())
    update.step()
    with pytest.raises(RuntimeError, match="capture again"):
        graph.replay()


def test_an_index_out_of_range_in_a_replay_is_an_error_at_the_next_read():
    index, table = tdt.tensor([0, 1], device="cuda"), tdt.randn(4, 2, device="cuda")
    F.embedding(index, table)
    tdt.cuda.synchronize()
    graph = tdt.cuda.CUDAGraph()
    with tdt.cuda.graph(graph):
        out = F.embedding(index, table)
    graph.replay()
    assert out.cpu().tolist() == table[:2].cpu().tolist()
    for _ in range(2):
        index.copy_(tdt.tensor([0, 9], device="cuda"))
        graph.replay()
        with pytest.raises(IndexError, match="an index is 9"):
            out.cpu()
        index.copy_(tdt.tensor([3, 2], device="cuda"))
        graph.replay()
        assert out.cpu().tolist() == table[[3, 2]].cpu().tolist()
    index.copy_(tdt.tensor([0, 7], device="cuda"))
    graph.replay()
    index.copy_(tdt.tensor([3, 2], device="cuda"))
    graph.replay()  # which does not forget the wrong index of the last one
    with pytest.raises(IndexError, match="an index is 7"):
        out.cpu()


def test_what_reads_or_uploads_cannot_be_captured_and_the_stream_is_free_again():
    x = tdt.ones(3, device="cuda")
    for wrong in (lambda: x.sum().item(), lambda: tdt.tensor([1.0], device="cuda"), lambda: x[x > 0]):
        with pytest.raises(RuntimeError, match="the current stream is capturing"), tdt.cuda.graph(tdt.cuda.CUDAGraph()):
            wrong()
        assert not tdt.cuda.is_current_stream_capturing()
        assert (x + 1).sum().item() == 6.0


def test_wrong_uses_of_graphs_are_refused():
    graph, other = tdt.cuda.CUDAGraph(), tdt.cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()
    with pytest.raises(RuntimeError, match="non-default stream"):
        graph.capture_begin()
    with pytest.raises(RuntimeError, match=r"capture_end\(\) without capture_begin\(\)"):
        graph.capture_end()
    with pytest.raises(ValueError, match="Unknown capture error mode"):
        graph.capture_begin(capture_error_mode="none")
    with tdt.cuda.graph(graph):
        assert tdt.cuda.is_current_stream_capturing()
        with pytest.raises(RuntimeError, match="inside each other"):
            other.capture_begin()
    with pytest.raises(RuntimeError, match="already owns a captured graph"), tdt.cuda.graph(graph):
        pass
    with tdt.cuda.graph(other, pool=graph.pool()):
        x = tdt.ones(3, device="cuda") * 2
    other.replay()
    assert x.cpu().tolist() == [2.0] * 3
    graph.reset()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.pool()


@pytest.mark.parametrize("kind", ["module", "function"])
def test_graphed_callables_have_the_values_and_gradients_of_the_originals(kind: str):
    tdt.manual_seed(0)
    plain = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3)).cuda()
    copy = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3)).cuda()
    copy.load_state_dict(plain.state_dict())
    if kind == "module":
        call = tdt.cuda.make_graphed_callables(copy, (tdt.randn(4, 5, device="cuda", requires_grad=True),))
        assert call is copy
    else:
        sample = (tdt.randn(4, 5, device="cuda", requires_grad=True),)
        call = tdt.cuda.make_graphed_callables(lambda x: x.tanh() * 2, sample)
        plain = lambda x: x.tanh() * 2  # noqa: E731
    for _ in range(3):
        x = tdt.randn(4, 5, device="cuda")
        a, b = (x.clone().requires_grad_() for _ in range(2))
        first, second = plain(a), call(b)
        tdt.testing.assert_close(second, first)
        first.square().sum().backward()
        second.square().sum().backward()
        tdt.testing.assert_close(b.grad, a.grad)
        if kind == "module":  # gradients of three passes add up
            tdt.testing.assert_close([p.grad for p in copy.parameters()], [p.grad for p in plain.parameters()])
    if kind == "module":
        copy.eval()
        tdt.testing.assert_close(copy(x), plain(x))


def test_callables_that_cannot_be_graphed_are_refused():
    module = nn.Linear(3, 3).cuda()
    with pytest.raises(RuntimeError, match="must contain only Tensors"):
        tdt.cuda.make_graphed_callables(module, (1.0,))
    with pytest.raises(RuntimeError, match="2 callables and 1 tuples"):
        tdt.cuda.make_graphed_callables((module, module), ((tdt.ones(3),),))
    module.register_forward_hook(lambda *args: None)
    with pytest.raises(RuntimeError, match="must not have hooks"):
        tdt.cuda.make_graphed_callables(module, (tdt.ones(3, device="cuda"),))


def test_memory_of_a_graph_counts_as_allocated():
    gc.collect()  # what other tests have left, which a capture would free
    before = tdt.cuda.memory_allocated()
    graph = tdt.cuda.CUDAGraph()
    with tdt.cuda.graph(graph):
        x = tdt.ones(1 << 20, device="cuda")
    assert tdt.cuda.memory_allocated() - before >= x.nbytes


def test_branches_of_a_graph_have_counters_and_workspaces_of_their_own():
    capture, streams = capture_gpu.Capture(tdt.cuda.graph_pool_handle()), [cupy.cuda.Stream(), cupy.cuda.Stream()]
    places = []
    for stream in (*streams, *streams):
        with stream:
            places.append((capture.tickets().data.ptr, capture.workspace(16).data.ptr))
    assert places[:2] == places[2:] and len({*places[0], *places[1]}) == 4


def test_no_kernel_waits_where_a_driver_does_not_say_which_nodes_a_graph_has(monkeypatch):
    assert chains_gpu.may_wait()
    monkeypatch.setattr(chains_gpu, "_has_driver", lambda: True)
    monkeypatch.setattr(chains_gpu, "_capture_info", lambda: None)
    with graph_gpu.capturing(graph_gpu.Graph(), cupy.cuda.Stream(), chains=True):
        assert capture_gpu.current().chains is None
