"""The statistics by which numeric targets are scaled (`targets` of the config), and a warning where that would help."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tdt import _about, nn
from tdt.train._types import Json
from tdt.train.config import ConfigErrors
from tdt.train.data.targets import is_float, known_targets, targets_of
from tdt.train.errors import EXPECTED_ERRORS, reason
from tdt.train.model.objective import Objective, Term, part_of

KEY = "targets"
SCALED = (nn.GaussianNLLLoss, nn.HuberLoss, nn.L1Loss, nn.MSELoss, nn.SmoothL1Loss)  # and the user's own losses
USUAL = 0.01, 10.0  # standard deviations of targets that models learn well without scaling


def fit_targets(dataset: Any, loss: Objective, kind: str, errors: ConfigErrors) -> Json:
    """The arguments of `TargetScale` for each target that a loss compares with numbers, by its path.

    Reports targets that cannot be scaled.

    Args:
        dataset: the training rows. Values that are not finite do not count: training reports their samples.
        kind: "standard" or "minmax".
    """
    terms = list(_numeric(loss))
    if not terms:
        names = " and ".join(dict.fromkeys(type(term.loss).__name__ for term in loss.terms))
        errors.add(KEY, f"is not used: no loss compares numbers with the targets of data.train, but {names}; "
                   "remove it", kind="unused")  # fmt: skip
        return {}
    try:
        targets = targets_of(dataset)
    except EXPECTED_ERRORS as error:
        errors.add(KEY, f"a target of data.train cannot be read: {reason(error)}")
        return {}
    found: Json = {}
    for term in terms:
        values = part_of(term.target, {"target": targets})
        if not isinstance(values, np.ndarray) or not is_float(values):
            got = f"are {values.dtype}" if isinstance(values, np.ndarray) else "are several tensors"
            errors.add(KEY, f"numbers are scaled, but those of data.train that {type(term.loss).__name__} compares {got}; "
                       "let the dataset return one float tensor (Table: target_type: number)")  # fmt: skip
            continue
        found[term.target] = _statistics(values, kind)
    return found


def saved_targets(saved: Json, dataset: Any, loss: Objective, errors: ConfigErrors) -> Json:
    """The statistics in a checkpoint. Reports those that are not of the targets of `dataset`, the training rows."""
    _, target = dataset[0]
    for term in _numeric(loss):
        value, found = part_of(term.target, {"target": target}), saved.get(term.target, {})
        columns = tuple(value.shape) if value.ndim == 1 else ()
        if any(np.shape(found.get(name)) != columns for name in ("shift", "scale")):
            errors.add(KEY, "the checkpoint has no statistics of the targets of data.train, or of others")
    return saved


def check_targets(dataset: Any, loss: Objective, errors: ConfigErrors) -> None:
    """Warn about numbers whose mean or deviation is so far from 1 that models learn them slowly or not at all."""
    targets = None
    for term in _numeric(loss):
        targets = known_targets(dataset) if targets is None else targets
        if targets is None:
            return
        values = part_of(term.target, {"target": targets})
        if not isinstance(values, np.ndarray) or not is_float(values):
            continue
        values = values[np.isfinite(values)].astype(np.float64)
        mean, deviation = (float(values.mean()), float(values.std())) if values.size else (0.0, 0.0)
        if deviation and not (USUAL[0] <= deviation <= USUAL[1] and abs(mean) <= USUAL[1]):
            place = "loss" if term.name == "loss" else f"loss.{term.name}"
            errors.warn(place, f"the targets of data.train have a mean of {mean:.4g} and a standard deviation of "
                        f"{deviation:.4g}; models learn numbers near 1 best: add targets: {{scale: standard}}, which "
                        "metrics and predictions undo")  # fmt: skip


def _numeric(loss: Objective) -> Iterator[Term]:
    """The terms whose loss compares numbers with the target."""
    for term in loss.terms:
        own = not _about.home(type(term.loss)).startswith("tdt.")
        if term.target.split("/")[0] == "target" and (own or isinstance(term.loss, SCALED)):
            yield term


def _statistics(values: np.ndarray, kind: str) -> Json:
    """Shift and scale of each column of (n, columns), else of all values."""
    axis = 0 if values.ndim == 2 else None
    finite = np.ma.masked_invalid(values.astype(np.float64))
    shift, scale = (
        (finite.mean(axis), finite.std(axis)) if kind == "standard" else (finite.min(axis), np.ma.ptp(finite, axis))
    )
    filled = [np.ma.filled(side, 0.0) for side in (np.ma.asarray(shift), np.ma.asarray(scale))]
    return {"shift": filled[0].tolist(), "scale": np.where(filled[1] > 0, filled[1], 1.0).tolist()}
