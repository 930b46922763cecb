"""Class weights for the loss, inversely proportional to class frequency."""

from __future__ import annotations

from typing import Any

import numpy as np

import tdt
from tdt import nn
from tdt.train.config import ConfigErrors
from tdt.train.data.targets import targets_of

WEIGHTED = (nn.CrossEntropyLoss, nn.NLLLoss, nn.MultiMarginLoss)
KEY = "train.class_weights"


def balance_classes(dataset: Any, classes: int, loss: Any, errors: ConfigErrors) -> None:
    """Set the class weights of `loss` to samples / (classes · samples of the class), counted in `dataset`.

    Reports a loss that takes no class weights or already has some, targets that are not classes of the model, and a
    class without samples.
    """
    if not isinstance(loss, WEIGHTED) or loss.weight is not None:
        names = ", ".join(kind.__name__ for kind in WEIGHTED)
        why = (
            f"has no class weights; {names} have"
            if not isinstance(loss, WEIGHTED)
            else "already has weights; remove them"
        )
        errors.add(KEY, f"{type(loss).__name__} {why}", kind="unused")
        return
    targets = np.asarray(targets_of(dataset))
    if targets.dtype.kind not in "iu" or targets.size == 0 or targets.min() < 0 or targets.max() >= classes:
        message = f"balanced needs targets that are classes from 0 to {classes - 1}"
        errors.add(KEY, message)
        return
    counts = np.bincount(targets.reshape(-1), minlength=classes)
    if not counts.all():
        message = f"class {int(counts.argmin())} has no sample in data.train; set the weight of the loss instead"
        errors.add(KEY, message)
        return
    loss.weight = tdt.tensor((counts.sum() / (classes * counts)).tolist(), dtype=tdt.float32)
