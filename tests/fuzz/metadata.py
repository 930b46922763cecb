"""Checkpoints whose metadata were changed at random, with checksums that are right: none may end in a traceback."""

from __future__ import annotations

import copy
import io
import random
import shutil
import traceback
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

from tdt import cli
from tdt.train.config import loads
from tdt.train.config.imports import trusting
from tdt.train.logging.events import Event, StepDone
from tdt.train.runs import checkpoint
from tdt.train.session import Session

CONFIG = """\
name: net
device: cpu
data: {train: Digits(split=valid), valid: Digits(split=valid), transform: [ToTensor], loader: {batch_size: 128}}
model: [Flatten, "Linear(64, 8)", BatchNorm1d(8), ReLU, Dropout(0.1), "Linear(8, 10)"]
loss: CrossEntropyLoss
metrics: [accuracy, f1, auroc]
optimizer: Adam(lr=1e-2)
scheduler: {type: OneCycleLR, max_lr: 0.1, total_steps: 6, interval: step}
train: {epochs: 2, ema: 0.5, early_stopping: {patience: 1}}
checkpoint: {every: 1 step, keep: 1}
"""
NUMBERS = """\
name: numbers
device: cpu
imports: [./counts.py]
callbacks: [Counts]
data:
  train: {type: NPZ, path: points.npz, split: train, valid: 0.25}
  valid: {type: NPZ, path: points.npz, split: valid, valid: 0.25}
  loader: {batch_size: 10}
targets: {scale: standard}
model: ["Linear(3, 8)", Tanh, "Linear(8, 2)"]
loss: MSELoss
metrics: [mae, r2]
optimizer: SGD(lr=0.01)
train: {epochs: 2, amp: float16}
checkpoint: {every: 1 step, keep: 1}
sweep: {metric: valid/mae, trials: 2, search: {optimizer.lr: [0.1, 0.2]}}
"""
COUNTS = """\
import numpy as np

from tdt.train import Callback, StopTraining


class Counts(Callback):
    def __init__(self, most: int = 99):
        self.most, self.steps, self.total = most, 0, np.zeros(3)

    def on_step(self, event, parts):
        self.steps, self.total = self.steps + 1, self.total + parts.model[0].bias.detach().numpy()[:3]
        if self.steps == self.most:
            raise StopTraining("enough")

    def state_dict(self):
        return {"steps": self.steps, "total": self.total}

    def load_state_dict(self, state):
        self.steps, self.total = state["steps"], state["total"]
"""
VALUES: tuple[Any, ...] = (
    *(None, "", "x", "\udcff", -1, 0, 7, 2**63, 0.5, 1e400, float("nan"), True, [], {}, [[None]], {"x": None}),
    *({"array": 0}, {"array": 99}, {"array": None}),
)
Key = str | int


class _Killed(BaseException):
    """As sudden as a signal that cannot be caught."""


def _kill(event: Event) -> None:
    if isinstance(event, StepDone) and event.step == 5:
        raise _Killed


def write_points(folder: Path) -> None:
    """The data and the callback of `NUMBERS`."""
    x = np.random.default_rng(0).normal(size=(40, 3))
    np.savez(folder / "points.npz", x=x, y=np.stack([x @ [1.0, 2.0, 3.0] * 1e5, x[:, 0] * 1e-4], 1))
    (folder / "counts.py").write_text(COUNTS)


def killed_run(folder: Path, text: str = CONFIG) -> Path:
    """A run in `folder` that was killed in its second epoch; its data, if the config needs any, are beside."""
    folder.parent.mkdir(exist_ok=True)
    write_points(folder.parent)
    try:
        with (
            trusting(),
            Session.start(loads(text, str(folder.parent / "net.yaml")), folder=folder) as session,
        ):
            session.train(_kill)
    except _Killed:
        return folder
    raise AssertionError("the run was not killed")


def places(value: Any, at: tuple[Key, ...] = ()) -> Iterator[tuple[Key, ...]]:
    """The keys that lead to everything in `value`."""
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in below:
        yield (*at, key)
        yield from places(item, (*at, key))


def forged(meta: dict[str, Any], rng: random.Random) -> tuple[str, dict[str, Any]]:
    """What was changed, and the metadata with that change: another value, a missing key, or one too many."""
    changed = copy.deepcopy(meta)
    kinds = list(dict.fromkeys(keys[0] for keys in places(meta)))
    chosen = rng.choice(kinds)  # else optimizer and loaders, which have most of the keys, would be most of the changes
    *path, last = rng.choice([keys for keys in places(meta) if keys[0] == chosen])
    parent: Any = changed
    for key in path:
        parent = parent[key]
    dotted = ".".join(map(str, (*path, last)))
    how = rng.random()
    if how < 0.1:
        del parent[last]
        return f"{dotted} removed", changed
    if how < 0.2 and isinstance(parent, dict):
        parent["step"] = rng.choice(VALUES)
        return f"{'.'.join(map(str, path))} has a step: {parent['step']!r}", changed
    parent[last] = copy.deepcopy(rng.choice(VALUES))
    return f"{dotted} = {parent[last]!r}", changed


def fault(run: Path, place: Path, meta: dict[str, Any]) -> str | None:
    """What goes wrong, beyond an exit code, where a copy of the run has this metadata: a traceback."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(run, place)
    last = place / "checkpoints" / "last.safetensors"
    tensors, _ = checkpoint.load(last)
    last.unlink()
    try:
        checkpoint.save(last, tensors, meta)
    except checkpoint.CheckpointError:
        return None  # it cannot be written at all
    for arguments in (["eval", last], ["predict", last, "x.png"], ["train", "--resume", place]):
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            try:
                code = cli.run([*map(str, arguments), "--trust"])
            except Exception:  # noqa: BLE001 - what the command line has no message for
                return f"{arguments[0]}: {traceback.format_exc()}"
        if code not in (0, 1, 2, 3):
            return f"{arguments[0]} ended with {code}"
    return None
