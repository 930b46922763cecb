"""Training steps under the real CuPy: as many launches as the stand-in counts, no wait, no upload, no new memory."""

from __future__ import annotations

from collections import Counter

import pytest

from tdt._compiled.values import Values
from tdt.train.config import loads
from tdt.train.logging.events import StepDone
from tdt.train.session import Session
from tests.gpu.null import wheel
from tests.gpu.steps import LAUNCHES, MODELS, RUN, step_of

HARMLESS = {"event"}  # of CuPy's pool of pinned memory


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
@pytest.mark.parametrize("name", MODELS)
def test_a_step_launches_what_the_stand_in_counts_and_nothing_else(name: str, optimizer: str):
    step = step_of(name, optimizer)
    for _ in range(4):
        with wheel.watch() as calls:
            step()
    other = [(call.kind, call.name, call.place) for call in calls if call.kind not in wheel.WORK | HARMLESS]
    assert other == []  # the fourth step: caches are filled, and the pool has what it needs
    assert sum(call.kind in wheel.WORK for call in calls) == LAUNCHES[name]


def test_a_run_waits_where_it_logs_and_uploads_batches_alone(tmp_path):
    steps: list[Counter[str]] = []
    names: list[list[str]] = []
    with wheel.watch() as calls:

        def on_event(event):
            if isinstance(event, StepDone):
                steps.append(Counter(call.kind for call in calls))
                names.append([call.name for call in calls if call.kind in wheel.WORK or call.name == "cudaGraphLaunch"])
                calls.clear()

        with Session.start(loads(RUN, str(tmp_path / "net.yaml")), folder=tmp_path / "run") as session:
            assert session.train(on_event).reason == "done"  # a signal to the process ends a run early
    inside = [steps[k] for k in (1, 2, 4, 5, 6)]  # neither the first nor those that log
    waits = [(step["wait"], step["download"], step["upload"], step["pinned upload"]) for step in inside]
    assert waits == [(0, 0, 0, 2)] * len(inside)
    # A replay computes what metrics take of a batch too; each of them is added to two means, with its weight, at once.
    own, sums = names[6][:5], names[6][5:]
    assert own == ["copy_each"] * 2 + ["set_numbers"] * 2 + ["cudaGraphLaunch"]
    assert sums == ["add_numbers"]


PARTS = {"float16": "amp: float16", "several batches, mixup and float16": "accumulate: 2, mixup: 0.2, amp: float16"}


@pytest.mark.parametrize("name", PARTS)
def test_steps_of_several_parts_are_two_graphs(name: str, tmp_path, monkeypatch: pytest.MonkeyPatch):
    """Nothing waits for the GPU, which keeps the loss scale. Kernels compute nothing, so nothing is compared."""
    monkeypatch.setattr(Values, "are", lambda self, other: True)
    text = RUN.replace("steps: 8", f"steps: 12, {PARTS[name]}")
    counts: list[Counter[str]] = []
    with wheel.watch() as calls:

        def on_event(event):
            if isinstance(event, StepDone):
                counts.append(Counter(call.name if call.name == "cudaGraphLaunch" else call.kind for call in calls))
                calls.clear()

        with Session.start(loads(text, str(tmp_path / "net.yaml")), folder=tmp_path / "run") as session:
            assert session.train(on_event).reason == "done"  # a signal to the process ends a run early
    assert str(session.compilation).endswith("a step is launched as CUDA graphs, in 2 parts")
    assert counts[10]["cudaGraphLaunch"] == (2 if "accumulate" in PARTS[name] else 1) + 1
    assert (counts[10]["wait"], counts[10]["upload"]) == (0, 0)
    assert counts[10]["download"] == 1  # of the scale, to pinned memory
