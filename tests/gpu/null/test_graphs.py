"""CUDA graphs under the real CuPy: what a capture asks the driver for, and what a replay launches."""

from __future__ import annotations

import pytest

import tdt
from tdt import nn
from tests.gpu.null import wheel
from tests.gpu.steps import LAUNCHES, MODELS, step_of

HARMLESS = {"allocate", "event", "capture", "wait", "download", "free", "check"}  # some before the capture begins


@pytest.mark.parametrize("name", MODELS)
def test_a_step_is_captured_and_replayed_by_one_launch(name: str):
    step = step_of(name, "AdamW")
    for _ in range(4):
        step()
    graph = tdt.cuda.CUDAGraph()
    with wheel.watch() as calls, tdt.cuda.graph(graph):
        step()
    assert {call.kind for call in calls} <= wheel.WORK | HARMLESS
    work = [call for call in calls if call.kind in wheel.WORK]
    # Flags of checked indices and counters of blocks are the graph's own, and begin from zero; the flags are kept over replays.
    places = "_backend/pending.py", "_kernels/capture_gpu.py", "_kernels/graph_gpu.py"
    own = [call for call in work if call.place.startswith(places)]
    assert {call.kind for call in own} <= {"fill", "launch"} and len(own) <= 10
    assert len(work) - len(own) == LAUNCHES[name]
    for _ in range(2):
        with wheel.watch() as calls:
            graph.replay()
        *numbers, launch = [call for call in calls if call.kind != "event"]
        assert {call.name for call in numbers} == {"set_numbers"} and launch.name == "cudaGraphLaunch"
        assert len(numbers) == (2 if name in ("mlp", "lenet", "lstm") else 1)  # those with dropout draw numbers


def test_a_capture_may_allocate_memory():
    graph = tdt.cuda.CUDAGraph()
    with wheel.watch() as calls, tdt.cuda.graph(graph):
        x = tdt.ones(3 << 20, device="cuda")
    assert [call.size for call in calls if call.kind == "allocate"] and x.shape == (3 << 20,)
    graph.replay()


def test_callables_are_graphed_with_their_gradients():
    layer = nn.Sequential(nn.Linear(5, 4), nn.Tanh()).cuda()
    call = tdt.cuda.make_graphed_callables(layer, (tdt.ones(3, 5, device="cuda", requires_grad=True),))
    for _ in range(2):
        out = call(tdt.ones(3, 5, device="cuda"))
        out.sum().backward()
    assert layer[0].weight.grad.shape == (4, 5)


@pytest.mark.refused
def test_a_read_in_a_capture_is_refused_and_the_stream_is_free_again():
    x = tdt.ones(3, device="cuda")
    with pytest.raises(RuntimeError, match="D2H transfers are disallowed"), tdt.cuda.graph(tdt.cuda.CUDAGraph()):
        x.sum().item()
    assert not tdt.cuda.is_current_stream_capturing()
    assert x.sum().item() == 0.0  # of kernels that compute nothing
