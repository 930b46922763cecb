"""The scores of a checkpoint, from the checkpoint alone."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tdt
from tdt import Tensor
from tdt.train import checkpoint
from tdt.train.build import build
from tdt.train.config import loads
from tdt.train.state import load_model
from tdt.train.trainer import evaluate


@dataclass(frozen=True)
class Evaluation:
    """The checkpoint `path` of step `step`, after `epoch` epochs, on `split`: scores by metric, and for each sample its
    target and the model's prediction (the largest class, where targets are classes; else what the model gave)."""

    path: Path
    step: int
    epoch: int
    split: str
    scores: dict[str, float]
    targets: list[Any]
    predictions: list[Any]


def evaluate_checkpoint(path: str | os.PathLike[str], split: str = "valid", device: str | None = None) -> Evaluation:
    """Score the checkpoint on a split of the data that its config names, as the run that wrote it would: bit for bit.

    device: where, if not on the device of its config. LookupError if there is no such split; CheckpointError.
    """
    tensors, meta = checkpoint.load(path)
    config = loads(meta["config"], f"{path}:config", [] if device is None else [f"device={device}"])
    if split not in config.data.splits():
        raise LookupError(f"there is no split {split!r}; the config has {', '.join(config.data.splits())}")
    tdt.set_num_threads(meta["threads"])
    parts = build(config, training=False, splits=(split,))
    load_model(parts, tensors)
    outputs: list[Tensor] = []
    scores = evaluate(parts, parts.loaders[split], outputs)
    targets = tdt.cat([targets for _, targets in parts.loaders[split]])
    given = tdt.cat(outputs)
    classes = not targets.is_floating_point() and given.ndim > targets.ndim
    predictions = given.argmax(1) if classes else given
    return Evaluation(Path(path), meta["step"], meta["epoch"], split, scores, targets.tolist(), predictions.tolist())
