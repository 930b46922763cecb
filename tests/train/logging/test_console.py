"""The plain console: what a log file of a long run shows."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tdt.train.logging import console as module
from tdt.train.logging.console import Console
from tdt.train.logging.events import EpochDone, RunStarted, StepDone

TAGS = {"train/loss": 0.75, "train/accuracy": 0.5, "lr": 0.1, "time/samples_per_second": 1234.5}


@pytest.fixture
def clock(monkeypatch) -> Callable[[float], None]:
    """Sets the time."""
    now = [100.0]
    monkeypatch.setattr(module.time, "perf_counter", lambda: now[0])
    return lambda seconds: now.__setitem__(0, 100.0 + seconds)


def test_a_logged_step_is_printed_unless_a_line_was_shortly_before(clock):
    out = io.StringIO()
    console = Console(out)
    console(RunStarted(step=0, folder=Path("runs/a/1"), steps=1000, epochs=10))
    printed = []
    for step in range(1, 61):
        clock(step)
        console(StepDone(step=step, scalars=TAGS if step % 4 == 0 else {}))  # log.every: 4 steps
        if step == 30:
            console(EpochDone(step=step, scalars={"train_epoch/loss": 0.5}))
        if out.getvalue().splitlines()[-1].startswith(f"epoch  1/10  step {step:>4}/1000"):
            printed.append(step)
    assert printed == [12, 24, 40, 52]


def test_a_step_line_has_scores_rate_and_time_left(clock):
    out = io.StringIO()
    console = Console(out)
    console(RunStarted(step=0, folder=Path("runs/a/1"), steps=1000, epochs=10))
    for step in range(1, 12):
        clock(step)
        console(StepDone(step=step, scalars=TAGS if step > 1 else {}))
    line = out.getvalue().splitlines()[-1]
    assert line == "epoch  1/10  step   10/1000  loss 0.7500  accuracy 0.5000  1,234 samples/s  16:30 left"


def test_without_a_known_length_no_time_is_left(clock):
    out = io.StringIO()
    console = Console(out)
    console(RunStarted(step=0, folder=Path("runs/a/1"), steps=None, epochs=None))
    for step in (1, 2):
        clock(20 * step)
        console(StepDone(step=step, scalars=TAGS))
    assert re.fullmatch(r"epoch 1  step 2  loss 0\.7500 .* 1,234 samples/s", out.getvalue().splitlines()[-1])
