"""Several `tdt tune` processes share a sweep; some are killed. See scripts/killed_sweep."""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.commands.running import COMMAND, environment, tdt

CONFIG = """\
name: small
device: cpu
data:
  train: Digits(split=train)
  valid: Digits(split=valid)
  transform: [ToTensor]
  loader: {batch_size: 32}
model: [Flatten, "Linear(64, 16)", ReLU, "Linear(16, 10)"]
loss: CrossEntropyLoss
metrics: [accuracy]
optimizer: SGD(lr=0.1)
train: {epochs: 3}
sweep:
  metric: valid/accuracy
  search:
    optimizer.lr: log(1e-2, 1)
    data.loader.batch_size: [32, 64]
  sampler: random
  pruner: none
  trials: 8
"""
LONGEST = 1800  # seconds that a sweep may take


def sweep(work: Path, trials: int, workers: int, kills: int, seed: int) -> dict[str, int]:
    """Start `workers` processes on one sweep and kill `kills` of them, every other one together with its run.

    Returns counts. Raises AssertionError if a trial is missing, was done twice, or differs when it is trained again.
    """
    chance = random.Random(seed)
    (work / "small.yaml").write_text(CONFIG)
    arguments = [*COMMAND, "tune", "small.yaml", f"sweep.trials={trials}"]
    folder = work / "runs" / "small-tune"
    processes = []
    for number in range(workers):
        with open(work / f"worker{number}.txt", "wb") as out:
            processes.append(
                subprocess.Popen(arguments, cwd=work, env=environment(), stdout=out, stderr=out, start_new_session=True)
            )
    killed_runs = 0
    for number in range(kills):
        _wait(lambda: len(_training(folder)) > 1, processes)
        time.sleep(chance.random())
        own = re.findall(r"^trial (\d+) (?:begins|resumes)", (work / f"worker{number}.txt").read_text(), re.M)
        processes[number].kill()
        processes[number].wait()
        pids = _training(folder)
        if number % 2 == 0 and own and int(own[-1]) in pids:
            os.kill(pids[int(own[-1])], signal.SIGKILL)
            killed_runs += 1
    for process in processes[kills:]:
        assert process.wait(timeout=LONGEST) == 0, [path.read_text() for path in sorted(work.glob("worker*.txt"))]
    return _check(work, folder, trials) | {"killed workers": kills, "killed runs": killed_runs}


def _training(folder: Path) -> dict[int, int]:
    """The runs that are being trained now: number of the trial → process."""
    from tdt.train.runs._lock import holder

    found = {}
    for path in folder.glob("[0-9]*/run.lock"):
        text = holder(path)
        if text is not None and (match := re.match(r"by process (\d+) ", text)):
            found[int(path.parent.name)] = int(match[1])
    return found


def _wait(condition, processes) -> None:
    until = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < until and any(process.poll() is None for process in processes)
        time.sleep(0.02)


def _check(work: Path, folder: Path, trials: int) -> dict[str, int]:
    done = tdt("tune", "small.yaml", f"sweep.trials={trials}", "--json", cwd=work)  # finds nothing left to do
    facts = json.loads(done.stdout)
    assert [trial["trial"] for trial in facts["trials"]] == list(range(1, trials + 1))
    assert {trial["state"] for trial in facts["trials"]} == {"complete"}, facts
    assert sorted(int(path.name) for path in folder.iterdir() if path.name.isdecimal()) == list(range(1, trials + 1))
    text = "".join(path.read_text() for path in work.glob("worker*.txt"))
    ends = collections.Counter(re.findall(r"^trial (\d+) done", text, re.M))
    assert ends == {str(number): 1 for number in range(1, trials + 1)}, ends
    begun = collections.Counter(re.findall(r"^trial (\d+) begins", text, re.M))
    assert set(begun) == set(ends)
    for number in range(1, trials + 1):
        epochs = [event["epoch"] for event in _events(folder / str(number)) if event["event"] == "EpochDone"]
        assert epochs == [0, 1, 2], (number, epochs)
    again = tdt("train", "runs/small-tune/best.yaml", "--run-dir", "again", cwd=work)
    assert again.returncode == 0, again.stderr
    assert _scores(work / "again") == _scores(folder / str(facts["best"]))
    resumed = len(re.findall(r"^trial \d+ resumes", text, re.M))
    return {"trials": trials, "begun again": sum(begun.values()) - trials, "resumed": resumed}


def _events(run: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def _scores(run: Path) -> list[dict[str, object]]:
    """All that a run logged but times, memory and paths, in full precision."""
    prefixes = ("train/", "train_epoch/", "valid/", "lr", "grad_norm", "step", "epoch")
    return [
        {key: value for key, value in event.items() if key.startswith(prefixes)}
        for event in _events(run)
        if event["event"] in ("StepDone", "EpochDone", "Validated")
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/killed_sweep", description="Kill workers of a sweep and check it.")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--kills", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    print(f"seed {args.seed}", flush=True)
    with tempfile.TemporaryDirectory() as work:
        print(json.dumps(sweep(Path(work), args.trials, args.workers, args.kills, args.seed)))


if __name__ == "__main__":
    sys.exit(main())
