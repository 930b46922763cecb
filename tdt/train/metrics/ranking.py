"""Ranking metrics, which need no threshold: AUROC and average precision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from tdt import Tensor
from tdt._backend import namespace, to_device
from tdt._backend.device import CPU
from tdt.train.metrics.base import Metric
from tdt.train.metrics.classes import check_classes, check_paired


class Ranking(Metric):
    """The average over the classes of a number that a subclass computes from the scores of a class.

    Outputs are scores (n, classes, …) for targets that are classes (n, …); the softmax of each class is ranked (one
    against the rest). With a binary loss (BCEWithLogitsLoss), outputs and targets have one shape.

    average: "macro", all classes equally; "weighted", by how often each occurs; "micro", over the scores of all classes
        together.

    A class whose number is not defined is left out; the result is NaN if none is left or a score is NaN.
    Exact: all scores are kept until the end of the epoch.
    """

    state_names = ("parts",)
    keeps_batches = True

    def __init__(self, average: Literal["macro", "weighted", "micro"] = "macro") -> None:
        self.average = average
        super().__init__()

    def reset(self) -> None:
        self.scores: list[Any] = []  # (rows, classes) of each batch
        self.targets: list[Any] = []  # (rows,) of classes, or shaped like the scores
        self.parts: list[int] = []
        self._stored_batches = 0  # number of batches that are stored in parts

    def batch_sum(self, output: Tensor, target: Tensor, loss: Tensor) -> Any:
        scores, right = output._a, target._a
        if self.reading.threshold is not None:
            check_paired(self, output, target)
            shape = (-1, 1) if scores.ndim == 1 else (-1, scores.shape[1])
            return rows_of(scores).reshape(shape).copy(), rows_of(right.reshape(scores.shape) > 0.5).reshape(
                shape
            ).copy()
        check_classes(self, output, target)
        right = right.argmax(1) if target.is_floating_point() else right
        return rows_of(scores).reshape(-1, scores.shape[1]).copy(), right.reshape(-1).copy()

    def add(self, amount: tuple[Any, Any], count: int) -> None:
        self.scores.append(amount[0])
        self.targets.append(amount[1])

    def take(self, part: int) -> dict[str, np.ndarray]:
        new = {"scores": self.scores[self._stored_batches :], "targets": self.targets[self._stored_batches :]}
        self._stored_batches = len(self.scores)
        if not new["scores"]:
            return {}
        self.parts.append(part)
        return {name: _joined(batches) for name, batches in new.items()}

    def restore_rows(self, rows: Mapping[str, np.ndarray]) -> None:
        self.add((rows["scores"], rows["targets"]), len(rows["targets"]))
        self._stored_batches += 1

    def of_class(self, scores: np.ndarray, right: np.ndarray) -> float:
        """The number for one class from scores (n,) and whether each sample has it (n,); NaN if it is not defined."""
        raise NotImplementedError(f"{type(self).__name__} must define of_class")

    def compute(self) -> float:
        if not self.scores:
            return float("nan")
        scores, right = _joined(self.scores).astype(np.float64), _joined(self.targets)
        if self.reading.threshold is None:
            counted = right != self.reading.ignore_index
            scores, right = _softmax(scores[counted]), right[counted, None] == np.arange(scores.shape[1])
        if np.isnan(scores).any():
            return float("nan")
        if self.average == "micro":
            scores, right = scores.reshape(-1, 1), right.reshape(-1, 1)
        numbers = np.array([self.of_class(scores[:, i], right[:, i]) for i in range(scores.shape[1])])
        weights = right.sum(0) if self.average == "weighted" else np.ones(len(numbers))
        defined = ~np.isnan(numbers)
        total = weights[defined].sum()
        return float((numbers * weights)[defined].sum() / total) if total else float("nan")


def rows_of(scores: Any) -> Any:
    """Reshape (n, classes, …) to (rows, classes)."""
    return scores if scores.ndim < 3 else namespace(scores).moveaxis(scores, 1, -1)


def _joined(parts: list[Any]) -> np.ndarray:
    return np.concatenate([to_device(part, CPU) for part in parts])


def _softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max(1, keepdims=True, initial=-np.inf))
    return powers / powers.sum(1, keepdims=True)


def _steps(scores: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """True and false positives at each distinct score as threshold, from the highest: (steps,) each."""
    order = np.argsort(-scores, kind="stable")
    last = np.flatnonzero(np.append(np.diff(scores[order]), -1.0))  # of equal scores
    found = np.cumsum(right[order])[last]
    return found, last + 1 - found


class AUROC(Ranking):
    """Area under the ROC curve: the probability that a sample of a class has a higher score than one of another class.

    Ties count half. Source: Hanley & McNeil, *The Meaning and Use of the Area under a ROC Curve*, 1982.

    >>> import tdt
    >>> from tdt.train import metrics
    >>> auroc = metrics.AUROC()
    >>> auroc.update(tdt.tensor([[0.0, 1.0], [0.0, 3.0], [0.0, 2.0]]), tdt.tensor([0, 1, 1]), tdt.tensor(0.0))
    >>> auroc.compute()
    1.0
    """

    def of_class(self, scores: np.ndarray, right: np.ndarray) -> float:
        yes, no = int(right.sum()), int((~right).sum())
        if not yes or not no:
            return float("nan")
        found, wrong = _steps(scores, right)
        # Twice the area in integers: each false positive counts all true positives above it, and half of those tied with it.
        twice = (np.diff(wrong, prepend=0) * (2 * found - np.diff(found, prepend=0))).sum()
        return float(twice / (2 * yes * no))


class AveragePrecision(Ranking):
    """The mean over the samples of a class of the precision with their score as the threshold.

    Not defined for a class without samples.

    >>> import tdt
    >>> from tdt.train import metrics
    >>> precision = metrics.AveragePrecision()
    >>> precision.update(tdt.tensor([[0.0, 1.0], [0.0, 3.0], [0.0, 2.0]]), tdt.tensor([0, 1, 1]), tdt.tensor(0.0))
    >>> precision.compute()
    1.0
    """

    def of_class(self, scores: np.ndarray, right: np.ndarray) -> float:
        found, wrong = _steps(scores, right)
        if not right.any():
            return float("nan")
        return float((np.diff(found, prepend=0) * (found / (found + wrong))).sum() / found[-1])
