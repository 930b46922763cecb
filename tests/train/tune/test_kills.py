"""Sweeps whose processes are killed at any point: every trial is done once, with the settings of an undisturbed sweep."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time

import pytest

from tdt.train.config import loads
from tdt.train.runs._lock import holder
from tdt.train.tune.sweep import JOURNAL, Sweep, cut_torn_line
from tests.commands.running import COMMAND, environment, tdt
from tests.helpers import require
from tests.train.tune import killed_sweep

CONFIG = killed_sweep.CONFIG.replace("epochs: 3", "epochs: 1").replace("trials: 8", "trials: 3")


def settings(sweep: Sweep) -> list[dict[str, object]]:
    return [dict(trial.params) for trial in sweep.trials()]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> list[dict[str, object]]:
    """The settings of the three trials, as one process draws them."""
    require("optuna")
    sweep = Sweep(tmp_path_factory.mktemp("whole"), loads(CONFIG), minimize=False)
    for number in (1, 2, 3):
        claimed = sweep.claim({})
        assert claimed is not None and claimed.number == number
        sweep.finish(claimed, "complete", 0.1 * number)
    return settings(sweep)


@pytest.mark.long
@pytest.mark.parametrize("point", ["asked:2", "drawn:3", "started:2", "ended:1", "told:2"])
def test_a_sweep_that_is_killed_at_any_point_continues(undisturbed, tmp_path, point):
    (tmp_path / "small.yaml").write_text(CONFIG)
    killed = subprocess.run(
        [*COMMAND, "tune", "small.yaml"],
        cwd=tmp_path,
        env=environment() | {"TDT_FAULT": f"tune.{point}"},
        capture_output=True,
        text=True,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    done = tdt("tune", "small.yaml", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert [(trial["state"], trial["settings"]) for trial in facts["trials"]] == [
        ("complete", values) for values in undisturbed
    ]
    for number in (1, 2, 3):
        lines = (tmp_path / "runs/small-tune" / str(number) / "metrics.jsonl").read_text().splitlines()
        assert [json.loads(line)["event"] for line in lines].count("EpochDone") == 1
    assert sorted(path.name for path in (tmp_path / "runs/small-tune").glob("[.0-9]*")) == ["1", "2", "3"]


@pytest.mark.parametrize("lost", [1, 20, 10_000])
def test_a_line_of_the_journal_that_was_cut_is_removed_before_the_next_is_written(undisturbed, tmp_path, lost):
    sweep = Sweep(tmp_path, loads(CONFIG), minimize=False)
    first = sweep.claim({})
    assert first is not None
    journal = tmp_path / JOURNAL
    whole = journal.read_bytes()
    last = whole.splitlines(keepends=True)[-1]
    journal.write_bytes(whole[: -min(lost, len(last))])  # the last line is of the last setting that was drawn
    first.release()
    again = Sweep(tmp_path, loads(CONFIG), minimize=False)
    adopted = again.claim({})
    assert adopted is not None and (adopted.number, adopted.values) == (1, first.values)
    again.finish(adopted, "complete", 0.5)
    for number in (2, 3):
        claimed = again.claim({})
        assert claimed is not None
        again.finish(claimed, "complete", 0.1 * number)
    third = Sweep(tmp_path, loads(CONFIG), minimize=False)
    assert settings(third) == undisturbed and third.finished
    assert all(json.loads(line) for line in journal.read_text().splitlines())


def test_a_journal_whose_only_line_was_cut_is_empty_then(tmp_path):
    (tmp_path / JOURNAL).write_bytes(b'{"op_code": 0')
    cut_torn_line(tmp_path / JOURNAL)
    cut_torn_line(tmp_path / JOURNAL)
    assert (tmp_path / JOURNAL).read_bytes() == b""


def test_a_sweep_whose_disk_was_full_continues(undisturbed, tmp_path):
    """No file may grow beyond the journal's size and a few bytes: the write is cut in the middle of a line."""
    sweep = Sweep(tmp_path, loads(CONFIG), minimize=False)
    first = sweep.claim({})
    assert first is not None
    sweep.finish(first, "complete", 0.1)
    before, limits = len(settings(sweep)), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((tmp_path / JOURNAL).stat().st_size + 100, limits[1]))
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with pytest.raises(OSError, match="File too large"):
            sweep.claim({})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert not (tmp_path / JOURNAL).read_bytes().endswith(b"\n") and before == 1
    again = Sweep(tmp_path, loads(CONFIG), minimize=False)
    for number in (2, 3):
        claimed = again.claim({})
        assert claimed is not None and claimed.number == number
        again.finish(claimed, "complete", 0.1 * number)
    assert settings(again) == undisturbed and again.claim({}) is None


def test_a_run_keeps_its_trial_claimed_after_its_worker_was_killed(undisturbed, tmp_path):
    """From its first moment, long before it has a folder: else another worker would begin the same run."""
    text = """
import subprocess, sys
from pathlib import Path
from tdt.train.config import loads
from tdt.train.tune.sweep import Sweep
claimed = Sweep(Path(sys.argv[1]), loads(sys.argv[2]), minimize=False).claim({})
command = [sys.executable, "-c", "import time; time.sleep(60)"]
process = subprocess.Popen(command, pass_fds=(claimed.lock.fileno(),), stdout=subprocess.DEVNULL)
print(process.pid, flush=True)
import os, signal
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run(
        [sys.executable, "-c", text, tmp_path, CONFIG], stdout=subprocess.PIPE, env=environment(), check=False
    )
    process = int(done.stdout)
    try:
        sweep = Sweep(tmp_path, loads(CONFIG), minimize=False)
        second = sweep.claim({})
        assert second is not None and second.number == 2
    finally:
        os.kill(process, signal.SIGKILL)
    while holder(tmp_path / "claims" / "1.lock"):
        time.sleep(0.01)
    first = sweep.claim({2: None})
    assert first is not None and (first.number, dict(first.trial.params)) == (1, undisturbed[0])
