"""A running TensorBoard, queried over HTTP, with both of its loaders."""

from __future__ import annotations

import json
import time
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from tdt.train.logging.events import StepDone, TensorBoardLog
from tests.utils.tensorboard.server import tensorboard

Points = list[tuple[int, float]]


def scalars(address: str, run: str, tag: str) -> Points:
    """The (step, value) points that the scalar charts draw; none while the run is not read."""
    try:
        with urlopen(f"{address}/data/plugin/scalars/scalars?{urlencode({'run': run, 'tag': tag})}", timeout=10) as got:
            return [(step, value) for _, step, value in json.load(got)]
    except HTTPError:
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
    saved = train(log, range(1, 15), 0.0)
    lengths = log.sync()
    lost = train(log, range(15, 21), 100.0)
    log.sync()
    return log, lengths, saved, lost


@pytest.mark.parametrize("load_fast", ["true", "false"])
def test_tensorboard_shows_every_point_once_before_and_after_a_resume(tmp_path, load_fast):
    before, live = tmp_path / "logs" / "digits" / "1", tmp_path / "logs" / "digits" / "2"
    log, lengths, saved, _ = killed(before)
    log.close()
    log = TensorBoardLog(before, lengths, 14)
    again = train(log, range(15, 18), 200.0)
    log.close()
    log, lengths, saved, lost = killed(live)
    with tensorboard(tmp_path / "logs", load_fast) as address:
        wait_for(address, "digits/1", "train/loss", saved + again)
        wait_for(address, "digits/2", "train/loss", saved + lost)
        log.close()
        log = TensorBoardLog(live, lengths, 14)  # resumed while TensorBoard watches
        again = train(log, range(15, 18), 200.0)
        log.sync()
        wait_for(address, "digits/2", "train/loss", saved + again)
        assert scalars(address, "digits/2", "lr") == [(step, 0.5) for step in range(1, 18)]
        with urlopen(f"{address}/data/plugin/scalars/tags", timeout=10) as got:
            assert {run: sorted(tags) for run, tags in json.load(got).items()} == {
                "digits/1": ["lr", "train/loss"],
                "digits/2": ["lr", "train/loss"],
            }
    log.close()
