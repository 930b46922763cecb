"""A running TensorBoard, asked over HTTP, in both of its loaders."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from tdt.train.events import StepDone, TensorBoardLog

Points = list[tuple[int, float]]


@contextmanager
def tensorboard(logdir: Path, load_fast: str) -> Iterator[str]:
    """The address of a TensorBoard that watches `logdir`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tensorboard.main", f"--logdir={logdir}", "--host=127.0.0.1", f"--port={port}"]
    command += [f"--load_fast={load_fast}", "--reload_interval=1"]
    log = logdir.parent / "tensorboard.log"
    with open(log, "wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=os.environ | {"NO_PROXY": "127.0.0.1"})
    try:
        yield f"http://127.0.0.1:{port}"
    except AssertionError as error:
        error.add_note(log.read_text())
        raise
    finally:
        process.terminate()
        process.wait()


def scalars(address: str, run: str, tag: str) -> Points:
    """The (step, value) points that the scalar charts draw; none while the run is not read or the server starts."""
    try:
        with urlopen(f"{address}/data/plugin/scalars/scalars?{urlencode({'run': run, 'tag': tag})}", timeout=10) as got:
            return [(step, value) for _, step, value in json.load(got)]
    except (URLError, ConnectionError):
        return []


def wait_for(address: str, run: str, tag: str, expected: Points) -> None:
    """Until TensorBoard shows exactly `expected`."""
    end = time.monotonic() + 40
    while scalars(address, run, tag) != expected:
        assert time.monotonic() < end, f"{run}: {scalars(address, run, tag)}\nexpected {expected}"
        time.sleep(0.2)


def train(log: TensorBoardLog, steps: range, loss: float) -> Points:
    for step in steps:
        log(StepDone(step=step, scalars={"train/loss": loss + step, "lr": 0.5}))
    return [(step, loss + step) for step in steps]


def killed(folder: Path) -> tuple[TensorBoardLog, dict[str, int], Points, Points]:
    """A run with a checkpoint at step 14 that came to step 20: its log, lengths, points kept and points lost."""
    log = TensorBoardLog(folder)
    kept = train(log, range(1, 15), 0.0)
    lengths = log.sync()
    lost = train(log, range(15, 21), 100.0)
    log.sync()
    return log, lengths, kept, lost


@pytest.mark.parametrize("load_fast", ["true", "false"])
def test_tensorboard_shows_every_point_once_before_and_after_a_resume(tmp_path, load_fast):
    before, live = tmp_path / "logs" / "digits" / "1", tmp_path / "logs" / "digits" / "2"
    log, lengths, kept, _ = killed(before)
    log.close()
    log = TensorBoardLog(before, lengths, 14)
    again = train(log, range(15, 18), 200.0)
    log.close()
    log, lengths, kept, lost = killed(live)
    with tensorboard(tmp_path / "logs", load_fast) as address:
        wait_for(address, "digits/1", "train/loss", kept + again)
        wait_for(address, "digits/2", "train/loss", kept + lost)
        log.close()
        log = TensorBoardLog(live, lengths, 14)  # resumed while TensorBoard watches
        again = train(log, range(15, 18), 200.0)
        log.sync()
        wait_for(address, "digits/2", "train/loss", kept + again)
        assert scalars(address, "digits/2", "lr") == [(step, 0.5) for step in range(1, 18)]
        with urlopen(f"{address}/data/plugin/scalars/tags", timeout=10) as got:
            assert {run: sorted(tags) for run, tags in json.load(got).items()} == {
                "digits/1": ["lr", "train/loss"],
                "digits/2": ["lr", "train/loss"],
            }
    log.close()
