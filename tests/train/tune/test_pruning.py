"""Trials that a pruner ends, and sweeps that a limit ends or that get more trials."""

from __future__ import annotations

import json
import re

import pytest

from tdt.train.runs import checkpoint, history
from tdt.train.runs.run import RunFolder
from tests.commands.running import tdt_here
from tests.helpers import require

# A trial trains for a second, long enough for a signal to come before its end.
CONFIG = """\
name: small
device: cpu
data: {train: Digits(split=train), valid: Digits(split=valid), transform: [ToTensor], loader: {batch_size: 4}}
model: [Flatten, "Linear(64, 10)"]
loss: CrossEntropyLoss
metrics: [accuracy]
optimizer: SGD(lr=0.1)
train: {epochs: 8}
checkpoint: {keep: 1}
log: {config: false, hparams: false, charts: false}
sweep: {metric: valid/accuracy, sampler: grid, pruner: %s, search: {optimizer.lr: [%s]}}
"""
LINES = re.compile(r"^trial (\d+) (begins|resumes|done|pruned|failed)", re.M)


def tune(folder, *overrides, pruner="none", rates="0.5, 0.1"):
    (folder / "small.yaml").write_text(CONFIG % (pruner, rates))
    return tdt_here("tune", "small.yaml", *overrides, cwd=folder)


def facts(folder, *overrides):
    done = tdt_here("tune", "small.yaml", *overrides, "--json", cwd=folder)
    return json.loads(done.stdout)


@pytest.mark.long
@pytest.mark.parametrize(
    ("pruner", "rates"),
    [
        ("halving", "0.1, 0.05, 1e-9, 1e-8"),  # the second trial is the first that is compared
        ("hyperband", "0.1, 0.05, 0.02, 1e-9, 1e-8, 1e-7"),
        ("median", "0.1, 0.05, 0.02, 0.01, 0.005, 1e-9"),  # the first five trials give the median
    ],
)
def test_a_pruned_trial_ends_by_a_signal_with_a_checkpoint(tmp_path, pruner, rates):
    require("optuna")
    done = tune(tmp_path, pruner=pruner, rates=rates)
    assert done.returncode == 0, done.stderr
    ends = {int(number): how for number, how in LINES.findall(done.stdout) if how in ("done", "pruned", "failed")}
    pruned = [number for number, how in ends.items() if how == "pruned"]
    assert len(ends) == len(rates.split(",")) and ends[1] == "done" and pruned and "failed" not in ends.values()
    for number in pruned:
        run = tmp_path / "runs/small-tune" / str(number)
        _, meta = checkpoint.load(run / "checkpoints/last.safetensors")
        last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
        assert (last["event"], last["reason"], last["by"]) == ("RunStopped", "interrupted", "SIGTERM")
        assert 0 < meta["step"] == last["step"] < 8 * 288
        assert history.read(RunFolder(run)).state == "pruned"
    again = facts(tmp_path)
    assert [trial["trial"] for trial in again["trials"] if trial["state"] == "pruned"] == pruned
    assert again["best"] not in pruned


@pytest.mark.long
def test_a_finished_sweep_gets_more_trials(tmp_path):
    require("optuna")
    rates = ("0.5, 0.1, 0.2", "train.epochs=1")
    done = tune(tmp_path, "sweep.trials=1", rates[1], rates=rates[0])
    assert LINES.findall(done.stdout) == [("1", "begins"), ("1", "done")]
    more = tune(tmp_path, "sweep.trials=2", rates[1], "sweep.pruner=median", rates=rates[0])
    assert LINES.findall(more.stdout) == [("2", "begins"), ("2", "done")]
    none = tune(tmp_path, "sweep.trials=2", rates[1], rates=rates[0])
    assert none.returncode == 0 and LINES.findall(none.stdout) == [] and "best: trial" in none.stdout
    found = [(trial["state"], trial["settings"]) for trial in facts(tmp_path, "sweep.trials=2", rates[1])["trials"]]
    assert found == [("complete", {"optimizer.lr": "0.5"}), ("complete", {"optimizer.lr": "0.1"})]


@pytest.mark.long
def test_no_trial_begins_after_the_time_and_those_that_run_end(tmp_path):
    require("optuna")
    done = tune(tmp_path, "sweep.time=1 second", "train.epochs=4", "sweep.parallel.cpus=2")
    ends = LINES.findall(done.stdout)
    assert done.returncode == 0 and sorted(ends)[:4:2] == [("1", "begins"), ("2", "begins")]
    assert {how for _, how in ends} == {"begins", "done"} and len(ends) == 4
    late = tune(tmp_path, "sweep.time=0.01 seconds", "train.epochs=4", rates="0.5, 0.1")
    assert late.returncode == 0 and LINES.findall(late.stdout) == []


@pytest.mark.long
def test_a_sweep_in_which_every_trial_fails_ends_with_an_error(tmp_path):
    require("optuna")
    done = tune(tmp_path, "train.epochs=3", rates="1e+38, 2e+38")
    assert done.returncode == 1 and "no trial has completed" in done.stderr
    assert done.stdout.count("failed: the loss became") == 2 and "Traceback" not in done.stdout + done.stderr
    assert "Trials: 0 completed, 2 failed" in (tmp_path / "runs/small-tune/report.html").read_text()
