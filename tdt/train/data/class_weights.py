"""Class weights for the loss, inversely proportional to class frequency."""

from __future__ import annotations

from typing import Any

import numpy as np

import tdt
from tdt import nn
from tdt.train.config import ConfigErrors

WEIGHTED = (nn.CrossEntropyLoss, nn.NLLLoss, nn.MultiMarginLoss)
KEY = "train.class_weights"


def balance_classes(dataset: Any, classes: int, loss: Any, errors: ConfigErrors) -> None:
    """Give `loss` the weights samples / (classes · samples of the class), counted in `dataset`.

    What does not fit is reported: a loss without class weights, or that has some; targets that are no classes of the
    model; a class without samples.
    """
    if not isinstance(loss, WEIGHTED) or loss.weight is not None:
        names = ", ".join(kind.__name__ for kind in WEIGHTED)
        why = f"has no class weights; {names} have" if not isinstance(loss, WEIGHTED) else "has weights; remove these"
        errors.add(KEY, f"{type(loss).__name__} {why}", kind="unused")
        return
    known = getattr(dataset, "targets", None)
    targets = np.asarray([dataset[i][1] for i in range(len(dataset))] if known is None else known)
    if targets.dtype.kind not in "iu" or targets.size == 0 or targets.min() < 0 or targets.max() >= classes:
        message = f"balanced needs targets that are classes from 0 to {classes - 1}"
        errors.add(KEY, message)
        return
    counts = np.bincount(targets.reshape(-1), minlength=classes)
    if not counts.all():
        message = f"class {int(counts.argmin())} has no sample in data.train; give the loss weights of its own"
        errors.add(KEY, message)
        return
    loss.weight = tdt.tensor((counts.sum() / (classes * counts)).tolist(), dtype=tdt.float32)
