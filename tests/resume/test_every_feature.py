"""Every feature of `train:` alone, and all that go together: killed after any event, or stopped, a run ends the same."""

from __future__ import annotations

import functools
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tdt.train.config import loads
from tdt.train.logging.events import CheckpointSaved, Event, StepDone, Validated
from tdt.train.session import Session
from tests.train.loop.test_resume import assert_equal, result

pytestmark = pytest.mark.filterwarnings("error:.*lr_scheduler:UserWarning")

# 5 batches an epoch, so that a step on 2 batches has a short one; dropout, augmentation and shuffling, so that every
# generator matters.
CONFIG = """
name: small
seed: 3
device: cpu
data:
  train: Digits(split=train)
  valid: Digits(split=valid)
  transform: [ToTensor]
  augment: ["RandomCrop(8, padding=1)"]
  loader: {batch_size: 256, num_workers: %d}
model: [Flatten, "Linear(64, 16)", BatchNorm1d(16), ReLU, Dropout(0.3), "Linear(16, 10)"]
loss: CrossEntropyLoss
metrics: [accuracy]
optimizer: {type: Adam, lr: 1e-2, param_groups: [{params: "*.bias", lr: 2e-2}]}
scheduler: %s
train: {%s}
checkpoint: {every: 2 steps, keep: 2}
log: {every: 2 steps}
"""
STEP = "{type: ExponentialLR, gamma: 0.9, interval: step}"
PLATEAU = "ReduceLROnPlateau(patience=0, threshold=0.5, factor=0.5)"
SEQUENCE = "SequentialLR([LinearLR(total_iters=2), CosineAnnealingLR(5)], milestones=[1])"
EVERYTHING = (
    "epochs: 4, steps: 11, accumulate: 2, clip_grad_norm: 1.0, clip_grad_value: 0.05, warmup: 4 steps, validate: 2 steps, "
    "early_stopping: {patience: 5, min_delta: 0.01}, freeze: ['1.*'], class_weights: balanced, mixup: 0.4"
)
FEATURES = {
    "everything with ema": (PLATEAU, EVERYTHING + ", ema: 0.8"),
    "everything with swa": (SEQUENCE, EVERYTHING + ", swa: {start: 1, lr: 0.05, anneal_epochs: 2}, amp: float16"),
    "steps": (STEP, "steps: 8"),
    "accumulate": (STEP, "epochs: 2, accumulate: 3"),
    "warmup": (STEP, "epochs: 2, warmup: 1 epoch"),
    "validate": (PLATEAU, "epochs: 2, validate: 3 steps"),
    "early_stopping": (SEQUENCE, "epochs: 9, early_stopping: {patience: 1, min_delta: 5.0, metric: train/loss}"),
    "ema": (STEP, "epochs: 2, ema: 0.5"),
    "swa": (STEP, "epochs: 3, swa: 1"),
    "freeze": (STEP, "epochs: 2, freeze: ['1.*', '2.*']"),
    "mixup": (STEP, "epochs: 2, mixup: 1.0"),
    "class_weights": (STEP, "epochs: 2, class_weights: balanced"),
    "float16": (STEP, "epochs: 2, amp: float16, accumulate: 2, clip_grad_norm: 1.0, warmup: 3 steps, ema: 0.5"),
    "bfloat16": (STEP, "epochs: 2, amp: bfloat16, accumulate: 2, mixup: 0.4, ema: 0.5"),
    "overfit": (STEP, "epochs: 4, overfit: 2"),
}


class Killed(BaseException):
    """Ends a run as suddenly as a signal that cannot be caught: nothing more is written."""


def at_event(number: int, act: Any) -> Any:
    """Act at the n-th event."""
    received = []

    def on_batch(event: Event) -> None:
        received.append(event)
        if len(received) == number:
            act(event)

    return on_batch


def kill(event: Event) -> None:
    raise Killed


def stop(event: Event) -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def train(folder: Path, feature: str, *listeners: Any, workers: int = 0, overrides: tuple[str, ...] = ()) -> str:
    config = loads(CONFIG % (workers, *FEATURES[feature]), "small.yaml", overrides)
    with Session.start(config, folder=folder) as session:
        return session.train(*listeners).reason


def resume(folder: Path, *listeners: Any, overrides: tuple[str, ...] = ()) -> str:
    with Session.resume(folder, overrides=overrides) as session:
        return session.train(*listeners).reason


class Whole(NamedTuple):
    """An uninterrupted run, and copies of its folder: what a kill after some of the events would have left."""

    events: list[Event]
    result: dict[str, Any]
    copies: dict[int, Path]  # by the number of the event, the last one's excluded


def whole_run(folder: Path, feature: str, first: int, step: int, workers: int = 0) -> Whole:
    """first, step: the events whose copies are kept."""
    events: list[Event] = []
    copies: dict[int, Path] = {}

    def on_event(event: Event) -> None:
        events.append(event)
        number = len(events)
        if number >= first and (number - first) % step == 0:
            copies[number] = folder / str(number)
            shutil.copytree(folder / "run", copies[number], symlinks=True)

    assert train(folder / "run", feature, on_event, workers=workers) == "done"
    copies.pop(len(events), None)
    return Whole(events, result(folder / "run"), copies)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Callable[[str], Whole]:
    """An uninterrupted run of each feature."""

    @functools.cache
    def get(feature: str) -> Whole:
        first, step = (2, 3) if feature.startswith("everything") else (4, 7)
        return whole_run(tmp_path_factory.mktemp("undisturbed"), feature, first, step)

    return get


@pytest.mark.parametrize("feature", FEATURES)
def test_a_run_killed_after_any_event_ends_as_if_it_had_not_been(undisturbed, feature: str):
    whole = undisturbed(feature)
    assert whole.copies
    for folder in whole.copies.values():
        assert resume(folder) == "done"
        assert_equal(result(folder), whole.result)


@pytest.mark.parametrize("feature", ["everything with ema", "everything with swa"])
def test_a_run_with_workers_ends_as_if_it_had_not_been_killed(tmp_path, feature: str):
    whole = whole_run(tmp_path, feature, 19, 99, workers=2)
    saved, folder = whole.events[18], whole.copies[19]
    assert isinstance(saved, CheckpointSaved) and saved.step == 8  # in the middle of an epoch
    assert resume(folder) == "done"
    assert_equal(result(folder), whole.result)


def test_a_run_with_workers_that_stay_ends_as_if_it_had_not_been_killed(tmp_path, monkeypatch):
    """They are seeded once, so that a validation by new ones would draw a number that the whole run does not."""
    monkeypatch.setitem(globals(), "CONFIG", CONFIG.replace("%d}", "%d, persistent_workers: true}"))
    whole = whole_run(tmp_path, "accumulate", 1, 1, workers=1)
    folder = whole.copies[len(whole.events) - 3]
    assert resume(folder) == "done"
    assert_equal(result(folder), whole.result)


@pytest.mark.parametrize("feature", FEATURES)
def test_a_run_stopped_by_a_signal_ends_as_if_it_had_not_been(undisturbed, tmp_path, feature: str):
    events, expected, _ = undisturbed(feature)
    steps = [number for number, event in enumerate(events, 1) if isinstance(event, StepDone)]
    for number in steps[::2] if feature.startswith("everything") else steps[len(steps) // 2 :: 3]:
        folder = tmp_path / str(number)
        reason = train(folder, feature, at_event(number, stop))
        assert reason in ("SIGTERM", "done")  # done: it came after the last step, and was not looked for again
        assert reason == "done" or resume(folder) == "done"
        assert_equal(result(folder), expected)


@pytest.mark.parametrize("feature", ["everything with ema", "everything with swa", "early_stopping", "validate"])
@pytest.mark.parametrize("steps", [4, 5])
def test_a_run_extended_after_its_end_trains_as_if_it_had_been_this_long_from_the_start(
    undisturbed, tmp_path, feature: str, steps: int
):
    """Its first end is within an epoch, or between two validations: what is computed there alone changes nothing."""
    whole = undisturbed(feature).result
    length = "train.steps=11" if feature.startswith("everything") else "train.steps=null"
    assert train(tmp_path, feature, overrides=(f"train.steps={steps}",)) == "done"
    assert resume(tmp_path, overrides=(length,)) == "done"
    extended = result(tmp_path)
    assert extended["last"] == whole["last"]
    chosen = ("config", "best")  # validations at both ends choose the best checkpoint
    states = [{k: v for k, v in found["last", "meta"].items() if k not in chosen} for found in (extended, whole)]
    assert states[0] == states[1]
    assert [line for line in whole["metrics"] if line not in extended["metrics"]] == []


def test_the_features_do_what_they_are_tested_for(undisturbed):
    events, found, _ = undisturbed("everything with ema")
    assert any(name.startswith("ema/") for name in found["last"]) and found["last", "meta"]["step"] == 11
    assert [event.step for event in events if isinstance(event, Validated)] == [2, 4, 6, 8, 10, 11]
    assert any(name.startswith("swa/") for name in undisturbed("everything with swa").result["last"])
    assert undisturbed("early_stopping").result["last", "meta"]["step"] == 10
