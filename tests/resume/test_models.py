"""Graphs, blocks and several losses: killed after any event, a run ends as an uninterrupted one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tdt.train.config import loads
from tdt.train.config.imports import trusting
from tdt.train.session import Session
from tests.fuzz.metadata import NUMBERS, write_points
from tests.resume.test_every_feature import Killed, at_event, kill, resume
from tests.train.loop.test_resume import assert_equal, result

CONFIG = """
name: heads
seed: 3
device: cpu
data:
  train: Digits(split=valid)
  valid: Digits(split=valid)
  transform: [ToTensor]
  augment: ["RandomCrop(8, padding=1)"]
  loader: {batch_size: 128}
blocks:
  dense(out): [LazyLinear(out), ReLU, Dropout(0.3)]
model:
  graph:
    flat: Flatten
    deep: ["dense(16)", "Repeat(2, Residual(dense(16)))"]
    both: {type: Concat, from: [flat, deep]}
    digit: {type: LazyLinear, out_features: 10, from: both}
    image: {from: deep, layer: ["Linear(16, 64)", "Unflatten(1, [1, 8, 8])"]}
  outputs: [digit, image]
loss:
  digit: {type: CrossEntropyLoss, input: output/digit}
  image: {type: MSELoss, input: output/image, target: input, weight_in_total: 2}
metrics: [accuracy]
optimizer: SGD(lr=0.1, momentum=0.9)
train: {epochs: 2, accumulate: 2}
checkpoint: {every: 1 step, keep: 2, best: valid/image}
log: {every: 1 step}
"""


def train(folder: Path, *listeners: Any, text: str = CONFIG) -> str:
    with Session.start(loads(text, str(folder.parent / "net.yaml")), folder=folder) as session:
        return session.train(*listeners).reason


def test_a_run_with_several_losses_that_is_killed_after_any_event_ends_the_same(tmp_path):
    events: list[Any] = []
    assert train(tmp_path / "whole", events.append) == "done"
    expected = result(tmp_path / "whole")
    assert len(events) > 8
    for number in range(2, len(events)):
        folder = tmp_path / str(number)
        with pytest.raises(Killed):
            train(folder, at_event(number, kill))
        assert resume(folder) == "done"
        assert_equal(result(folder), expected)


@pytest.mark.parametrize("most", [99, 4])
def test_a_run_with_scaled_targets_and_callbacks_that_is_killed_after_any_event_ends_the_same(tmp_path, most):
    """With a loss scale that overflows at first, and a callback that ends the run after its fourth step."""
    write_points(tmp_path)
    text = NUMBERS.replace("[Counts]", f"[Counts({most})]").replace("lr=0.01", "lr=0.01, momentum=0.9")
    text = text.replace("MSELoss", "{type: MSELoss, reduction: sum}")
    events: list[Any] = []
    with trusting():
        assert train(tmp_path / "whole", events.append, text=text) == "done"
        expected = result(tmp_path / "whole")
        meta = expected["last", "meta"]
        assert meta["callbacks"] and meta["data"]["targets"] and meta["amp"]["skipped"] > 0
        assert (meta["step"], meta["stopped_by"]) == ((6, None) if most == 99 else (4, "Counts: enough"))
        for number in range(2, len(events), 2):
            folder = tmp_path / str(number)
            with pytest.raises(Killed):
                train(folder, at_event(number, kill), text=text)
            assert resume(folder) == "done"
            assert_equal(result(folder), expected)
