"""Events reach their subscribers; logs can be cut at a checkpoint and go on as if nothing had happened."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tdt.train.logging.events import (
    CheckpointSaved,
    EpochDone,
    Event,
    Events,
    MetricsLog,
    RunStarted,
    RunStopped,
    StepDone,
    TensorBoardLog,
    TestDone,
    Validated,
)
from tests.utils.tensorboard.readers import event_files, points, untimed

ROOT = Path(__file__).parents[3]


def lines(folder: Path) -> list[dict]:
    """The lines of metrics.jsonl as strict JSON, without what two equal runs may differ in."""
    text = (folder / "metrics.jsonl").read_text()
    found = [json.loads(line, parse_constant=pytest.fail) for line in text.splitlines()]
    return [{key: value for key, value in line.items() if not key.startswith("time/")} for line in found]


def opened(folder: Path, lengths: dict[str, int] | None = None, step: int = 0) -> Events:
    events = Events()
    events.subscribe(MetricsLog(folder, lengths))
    events.subscribe(TensorBoardLog(folder, lengths, step))
    return events


def train(events: Events, first: int, end: int) -> None:
    """The steps from `first` to before `end`, whose numbers depend on the step alone."""
    for step in range(first, end):
        events.emit(StepDone(step=step, epoch=step // 5, scalars={"train/loss": 1 / step}))
        if step % 5 == 0:
            events.emit(Validated(step=step, epoch=step // 5, scalars={"valid/loss": 2 / step}))


def test_subscribers_get_the_kinds_they_subscribed_to_in_order():
    events, all_, some = Events(), [], []
    events.subscribe(all_.append)
    events.subscribe(some.append, Validated, RunStopped)
    emitted = [
        RunStarted(step=0, folder=Path("x"), steps=2, epochs=1),
        StepDone(step=1, samples=64),
        EpochDone(step=1),
        Validated(step=1, best=True),
        CheckpointSaved(step=1, path=Path("y")),
        TestDone(step=1),
        RunStopped(step=1),
    ]
    for event in emitted:
        events.emit(event)
    assert all_ == emitted
    assert some == [emitted[3], emitted[6]]


def test_what_a_subscriber_raises_reaches_the_trainer():
    events = Events()
    events.subscribe(lambda event: 1 / event.step)
    with pytest.raises(ZeroDivisionError):
        events.emit(Event(step=0))


def test_close_closes_every_log_even_where_one_fails():
    class Log:
        closed = False

        def __call__(self, event):
            pass

        def close(self):
            self.closed = True
            raise OSError("full")

    events = Events()
    logs = [events.subscribe(Log()) for _ in range(3)]
    with pytest.raises(OSError, match="full"):
        events.close()
    assert all(log.closed for log in logs)


def test_metrics_are_strict_json_and_exact(tmp_path):
    numbers = {"a": 0.1 + 0.2, "b": 5e-324, "c": -0.0, "d": math.nan, "e": math.inf, "f": -math.inf, "g": 3}
    log = MetricsLog(tmp_path)
    log(Validated(step=3, epoch=1, scalars=numbers))
    log(StepDone(step=4))
    log.close()
    (line,) = lines(tmp_path)
    assert (line.pop("event"), line.pop("step"), line.pop("epoch")) == ("Validated", 3, 1)
    assert {tag: float(value).hex() for tag, value in line.items()} == {
        tag: float(value).hex() for tag, value in numbers.items()
    }


def test_a_new_log_never_overwrites(tmp_path):
    MetricsLog(tmp_path).close()
    with pytest.raises(FileExistsError):
        MetricsLog(tmp_path)


def test_sync_names_every_log_with_its_length_on_disk(tmp_path):
    events = opened(tmp_path)
    train(events, 1, 12)
    lengths = events.sync()
    assert lengths == {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert len(lengths) == 2
    events.close()


def resumed_twice(folder: Path) -> None:
    """Steps 1–29 as a run that was killed at 19, again before its next checkpoint, and resumed each time."""
    events = opened(folder)
    train(events, 1, 15)
    lengths = events.sync()  # the checkpoint of step 14
    train(events, 15, 20)
    events.close()
    events = opened(folder, lengths, 14)
    train(events, 15, 17)
    events.close()
    events = opened(folder, lengths, 14)  # the file of the second try is not known to the checkpoint
    train(events, 15, 23)
    lengths = events.sync()  # the checkpoint of step 22
    train(events, 23, 25)
    events.close()
    events = opened(folder, lengths, 22)
    train(events, 23, 30)
    events.close()


def test_a_resumed_run_logs_what_an_unbroken_one_does(tmp_path):
    (tmp_path / "whole").mkdir()
    (tmp_path / "broken").mkdir()
    events = opened(tmp_path / "whole")
    train(events, 1, 30)
    events.close()
    resumed_twice(tmp_path / "broken")
    assert lines(tmp_path / "broken") == lines(tmp_path / "whole")
    assert points(tmp_path / "broken") == points(tmp_path / "whole")
    assert len(points(tmp_path / "whole")["train/loss"]) == 29
    assert len(event_files(tmp_path / "broken")) == 3


def test_a_continued_event_file_opens_with_the_start_record_behind_the_checkpoint(tmp_path):
    events = opened(tmp_path)
    lengths = events.sync()
    events.close()
    opened(tmp_path, lengths, 14).close()
    records = untimed(event_files(tmp_path)[1])
    assert records[-1].session_log.status == records[-1].session_log.START
    assert records[-1].step == 15


def test_a_half_line_of_a_killed_process_is_cut(tmp_path):
    events = opened(tmp_path)
    train(events, 1, 3)
    lengths = events.sync()
    events.close()
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write('{"event": "Step')
    events = opened(tmp_path, lengths, 2)
    train(events, 3, 4)
    events.close()
    assert [line["step"] for line in lines(tmp_path)] == [1, 2, 3]


def test_deleted_logs_are_reported_and_restarted(tmp_path):
    events = opened(tmp_path)
    train(events, 1, 3)
    lengths = events.sync()
    events.close()
    for path in tmp_path.iterdir():
        path.unlink()
    with pytest.warns(UserWarning, match="has 0 bytes but had") as caught:
        events = opened(tmp_path, lengths, 2)
    assert len(caught) == 2
    train(events, 3, 4)
    assert events.sync().keys() == {path.name for path in tmp_path.iterdir()}
    events.close()
    assert points(tmp_path) == {"train/loss": [(3, pytest.approx(1 / 3))]}


def test_a_full_disk_is_an_error_that_names_the_file(tmp_path):
    code = """
import resource, sys
from pathlib import Path
from tdt.train.logging.events import MetricsLog, StepDone
resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))
log = MetricsLog(Path(sys.argv[1]))
try:
    for step in range(10):
        log(StepDone(step=step, scalars={"a": 1.0}))
except OSError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, cwd=ROOT)
    assert "metrics could not be written: File too large" in done.stdout
    assert "metrics.jsonl" in done.stdout


def test_importing_events_and_runs_loads_no_numpy_tensorboard_or_safetensors():
    code = """
import sys
import tdt.train.runs.checkpoint, tdt.train.logging.events, tdt.train.runs.run
print(sorted({"numpy", "tensorboard", "safetensors", "google_crc32c", "typer", "rich"} & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=dict(os.environ))
    assert (done.stdout, done.stderr) == ("[]\n", "")
