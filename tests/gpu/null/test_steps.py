"""Training steps under the real CuPy: as many launches as the stand-in counts, no wait, no upload, no new memory."""

from __future__ import annotations

from collections import Counter

import pytest

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
    with wheel.watch() as calls:

        def on_event(event):
            if isinstance(event, StepDone):
                steps.append(Counter(call.kind for call in calls))
                calls.clear()

        with Session.start(loads(RUN, str(tmp_path / "net.yaml")), folder=tmp_path / "run") as session:
            session.train(on_event)
    inside = [steps[k] for k in (1, 2, 4, 5, 6)]  # neither the first nor those that log
    waits = [(step["wait"], step["download"], step["upload"], step["pinned upload"]) for step in inside]
    assert waits == [(0, 0, 0, 2)] * len(inside)
