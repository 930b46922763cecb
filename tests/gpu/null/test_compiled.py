"""`tdt.compile` under the real CuPy: calls are captured by its rules and CUDA's, and replayed by few launches."""

from __future__ import annotations

import pytest

import tdt
from tdt._compiled import graphed
from tdt._compiled.graphed import Graphed
from tdt._compiled.values import Values
from tdt.nn import functional as F
from tests import gpu_kernels, gpu_speed
from tests.gpu.null import wheel
from tests.gpu.steps import MODELS, model_and_batch, step_of


@pytest.fixture(autouse=True)
def values_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels compute nothing: results are what was in memory before."""
    monkeypatch.setattr(Values, "are", lambda self, other: True)
    monkeypatch.setattr(graphed, "same_bits", lambda a, b: a.strides == b.strides and a.dtype == b.dtype)


def graphs(compiled: object) -> list[Graphed]:
    of_kinds = compiled._compiled.recordings.values()
    return [r.recording for of_kind in of_kinds for r in of_kind if r.recording is not None and r.recording.verified]


def launched(calls: list[wheel.Call]) -> list[str]:
    """The names of all that is launched, in order; nothing waits for the GPU or uploads."""
    assert {call.kind for call in calls} <= wheel.WORK | {
        "event",
        "allocate",
        "capture",
    }  # CuPy asks whether one is running
    return [call.name for call in calls if call.kind in wheel.WORK or call.name == "cudaGraphLaunch"]


@pytest.mark.parametrize("name", MODELS)
def test_a_whole_step_is_captured_and_replayed(name: str):
    step = tdt.compile(step_of(name, "AdamW"), fullgraph=True)
    for _ in range(4):
        step()
    (graph,) = graphs(step)
    step()
    with wheel.watch() as calls:
        loss = step()
    assert loss.shape == ()
    numbers = 2 if name in ("mlp", "lenet", "lstm") else 1  # those with dropout draw numbers
    copies = 1 + -(-len(graph.gradients) // 100)  # of the loss, and of the gradients
    assert launched(calls) == ["set_numbers"] * numbers + ["cudaGraphLaunch"] + ["copy_each"] * copies


@pytest.mark.parametrize("name", MODELS)
def test_a_loss_and_its_gradients_are_captured_and_replayed(name: str):
    model, x, y = model_and_batch(name)

    @tdt.compile(fullgraph=True)
    def losses(x: tdt.Tensor, y: tdt.Tensor) -> tdt.Tensor:
        with tdt.device("cuda"):
            return F.cross_entropy(model(x), y)

    for _ in range(7):
        model.zero_grad()
        losses(x, y).backward()
    assert len(graphs(losses)) == 1
    model.zero_grad()
    with wheel.watch() as calls:
        loss = losses(x, y)
    numbers = 1 if name in ("mlp", "lenet", "lstm") else 0
    inputs = 2 if x.is_floating_point() else 1
    assert launched(calls) == ["copy_each"] * inputs + ["set_numbers"] * numbers + ["cudaGraphLaunch", "copy_each"]
    with wheel.watch() as calls:
        loss.backward()
    ones, *rest = launched(calls)
    assert rest == ["copy_each", "cudaGraphLaunch", "copy_each"], ones
    assert all(p.grad is not None for p in model.parameters())


@pytest.mark.refused
def test_a_read_is_the_reason_why_a_function_is_called_as_it_is():
    x = tdt.ones(3, device="cuda")
    mask = tdt.ones(3, device="cuda") > 0
    f = tdt.compile(lambda x: x[mask])
    with pytest.warns(UserWarning, match="D2H transfers are disallowed"):
        results = [f(x) for _ in range(6)]
    assert len(results) == 6 and graphs(f) == []
    assert not tdt.cuda.is_current_stream_capturing()


def test_the_stages_of_gpu_check_are_accepted():
    found = dict(gpu_kernels.check_compiled("cuda"))
    assert len(found) == 6 and all(wrong is None or wrong.startswith("losses") for wrong in found.values()), found


@pytest.mark.parametrize("name", gpu_speed.WORKLOADS)
def test_the_workloads_of_gpu_check_are_accepted(name: str):
    contestants = {how: (tdt, how) for how in ("", "compiled", "compiled step", "graph")}
    found = gpu_speed.measure(name, "small", "cuda", contestants, 2)
    assert all("ms" in row for row in found.values()), found
