"""Metrics of predicted classes, or of binary predictions per output."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

import tdt
from tdt import Tensor
from tdt._backend import namespace, to_device
from tdt._backend.device import CPU
from tdt.nn.functional import cross_entropy
from tdt.train.metrics.base import Mean, Metric, beside

Average = Literal["micro", "macro", "weighted"]


def decisions(metric: Metric, output: Tensor, target: Tensor) -> tuple[Any, Any, Any]:
    """Predictions, true values, and a mask of those that count (None for all).

    output: (n, classes, …) with targets (n, …) of class indices, or (n, classes, …) of probabilities; for binary outputs,
    both of one shape. Results are class indices (n, …), or Booleans. Raises ValueError for other shapes.
    """
    reading = metric.reading
    if reading.threshold is not None:
        check_paired(metric, output, target)
        yes = output._a > reading.threshold
        return yes, target._a.reshape(yes.shape) > 0.5, None
    check_classes(metric, output, target)
    decided, right = output._a.argmax(1), target._a
    if target.is_floating_point():
        return decided, right.argmax(1), None
    return decided, right, None if reading.ignore_index is None else right != reading.ignore_index


def check_paired(metric: Metric, output: Tensor, target: Tensor) -> None:
    """Raise ValueError unless output and target have one shape, up to dimensions of size 1."""
    if [size for size in output.shape if size != 1] != [size for size in target.shape if size != 1]:
        sizes = f"got outputs {tuple(output.shape)} and targets {tuple(target.shape)}"
        raise ValueError(f"{type(metric).__name__} compares each output with a target of its own; {sizes}")


def check_classes(metric: Metric, output: Tensor, target: Tensor) -> None:
    """Raise ValueError unless outputs are scores (n, classes, …) for targets (n, …) or of their own shape."""
    output_shape, target_shape = output._a.shape, target._a.shape
    numbers = metric.reading.of_numbers
    if numbers is not None or (target.is_floating_point() and output_shape[1:2] == (1,)):
        learnt = f"{numbers} compares numbers" if numbers else "with one score for each target these are numbers"
        raise ValueError(f"{type(metric).__name__} compares classes, but {learnt}; use mse, rmse, mae or r2")
    if len(output_shape) < 2 or target_shape != (
        output_shape if target.is_floating_point() else output_shape[:1] + output_shape[2:]
    ):
        raise ValueError(
            f"{type(metric).__name__} needs a score per class, outputs (n, classes, …), and targets (n, …) that are "
            f"classes; got outputs {output_shape} and {target.dtype} targets {target_shape}. "
            "For binary targets use BCEWithLogitsLoss; for numbers mse or r2"
        )


class Accuracy(Mean):
    """The fraction of correct predictions: of samples, of pixels or tokens if each has a target, or of binary outputs.

    output: (n, classes, …) scores; the largest is the prediction, the first of equal ones; target: (n, …) class
    indices, or (n, classes, …) probabilities. With a binary loss (BCEWithLogitsLoss) both have one shape.

    >>> import tdt
    >>> from tdt.train import metrics
    >>> accuracy = metrics.Accuracy()
    >>> accuracy.update(tdt.tensor([[0.1, 0.9], [0.8, 0.2]]), tdt.tensor([1, 1]), tdt.tensor(0.0))
    >>> accuracy.compute()
    0.5
    """

    def batch_sum(self, output: Tensor, target: Tensor, loss: Tensor) -> Any:
        decided, right, counts = decisions(self, output, target)
        hits, count = decided == right, namespace(decided).count_nonzero  # a third of the time of a sum
        return (count(hits), hits.size) if counts is None else (count(hits & counts), count(counts))


class TopK(Mean):
    """The fraction of samples whose class is among the `k` with the largest scores.

    Of equal scores the first counts as the largest, so that top_k(k=1) is the accuracy; NaN is larger than all others.
    Raises ValueError for k < 1 or more than the number of classes.

    >>> import tdt
    >>> from tdt.train import metrics
    >>> top = metrics.TopK(k=2)
    >>> top.update(tdt.tensor([[0.1, 0.5, 0.4], [0.8, 0.1, 0.1]]), tdt.tensor([2, 2]), tdt.tensor(0.0))
    >>> top.compute()
    0.5
    """

    def __init__(self, k: int = 5) -> None:
        if k < 1:
            raise ValueError(f"TopK: k must be at least 1, got {k}")
        self.k = k
        super().__init__()

    def batch_sum(self, output: Tensor, target: Tensor, loss: Tensor) -> Any:
        if self.reading.threshold is not None or output.ndim < 2:
            raise ValueError(f"TopK needs a score per class; got outputs {tuple(output.shape)} for binary targets")
        _, right, counts = decisions(self, output, target)
        scores, xp = output._a, namespace(output._a)
        if self.k > scores.shape[1]:
            raise ValueError(f"TopK: k={self.k}, but there are {scores.shape[1]} classes")
        place = xp.expand_dims(right if counts is None else xp.where(counts, right, 0), 1)
        own = xp.take_along_axis(scores, place, 1)
        number = xp.arange(scores.shape[1]).reshape(-1, *[1] * (scores.ndim - 2))
        before = ~(scores <= own) | ((scores == own) & (number < place))  # a NaN is not <= anything
        hits = before.sum(1) < self.k
        return (hits.sum(), hits.size) if counts is None else ((hits & counts).sum(), counts.sum())


class Perplexity(Mean):
    """exp of the mean cross entropy of the targets: the number of equally likely tokens that would be as hard to predict.

    output: (n, classes, …) logits or log-probabilities; target: (n, …) classes. Targets that the loss ignores are left
    out; its class weights and label smoothing are not applied.

    >>> import tdt
    >>> from tdt.train import metrics
    >>> perplexity = metrics.Perplexity()
    >>> perplexity.update(tdt.zeros(2, 8), tdt.tensor([0, 7]), tdt.tensor(0.0))
    >>> round(perplexity.compute(), 4)
    8.0
    """

    higher_is_better = False

    def batch_sum(self, output: Tensor, target: Tensor, loss: Tensor) -> Any:
        check_classes(self, output, target)
        index = -100 if self.reading.ignore_index is None else self.reading.ignore_index
        with tdt.no_grad():
            each = cross_entropy(output, target, ignore_index=index, reduction="none")._a
        counts = each.size if target.is_floating_point() else (target._a != index).sum()
        return each.sum(dtype="float64"), counts

    def compute(self) -> float:
        mean = super().compute()
        return math.exp(mean) if not mean > 709 else math.inf


class ByClass(Metric):
    """A ratio of counts per class, which a subclass defines, and its average over the classes.

    average: "macro", all classes equally, without those that neither occur nor were predicted; "weighted", by how often
        each occurs; "micro", the ratio of the counts over all classes.

    For binary outputs, 1 of each output is a class, so that with one output all three are the ratio for 1. A ratio x/0
    is 0. The values are those of scikit-learn.
    """

    state_names = ("counts",)

    def __init__(self, average: Average = "macro") -> None:
        self.average = average
        super().__init__()

    def reset(self) -> None:
        self.counts: Any = 0

    def batch_sum(self, output: Tensor, target: Tensor, loss: Tensor) -> Any:
        decided, right, counts = decisions(self, output, target)
        xp = namespace(decided)
        if self.reading.threshold is not None:
            found = (decided & right, decided, right)
            return xp.stack([_per_output(part).sum(0, dtype="int64") for part in found])
        classes = output.shape[1]

        def count(of: Any, where: Any) -> Any:
            chosen = of if where is None else xp.where(where, of, classes)  # one more class for ignored targets
            return xp.bincount(chosen.reshape(-1), minlength=classes + 1)[:classes]

        hits = decided == right if counts is None else (decided == right) & counts
        return xp.stack([count(decided, hits), count(decided, counts), count(right, counts)])

    def add(self, amount: Any, count: int) -> None:
        self.counts = beside(self.counts, amount) + amount

    def ratio(self, hits: np.ndarray, decided: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Numerator and denominator from the counts per class of true positives, predictions and targets."""
        raise NotImplementedError(f"{type(self).__name__} must define ratio")

    def compute(self) -> float:
        if isinstance(self.counts, int):
            return float("nan")
        counts = to_device(self.counts, CPU)
        if self.reading.threshold is None:
            counts = counts[:, counts[1:].any(0)]
        if self.average == "micro" and counts.size:
            counts = counts.sum(1, keepdims=True)
        above, below = self.ratio(*counts)
        ratios = np.divide(above, below, out=np.zeros(len(above)), where=below != 0)
        weights = counts[2] if self.average == "weighted" else np.ones(len(ratios))
        total = weights.sum()
        return float((ratios * weights).sum() / total) if total else 0.0 if ratios.size else float("nan")


def _per_output(answers: Any) -> Any:
    """(n,) or (n, labels, …) as (rows, labels)."""
    return answers.reshape(-1, 1) if answers.ndim == 1 else namespace(answers).moveaxis(answers, 1, -1).reshape(
        -1, answers.shape[1]
    )  # fmt: skip


class Precision(ByClass):
    """True positives / predictions of a class, averaged over the classes.

    >>> import tdt
    >>> from tdt.train import metrics
    >>> precision = metrics.Precision(average="micro")
    >>> precision.update(tdt.eye(3), tdt.tensor([0, 1, 1]), tdt.tensor(0.0))
    >>> round(precision.compute(), 4)
    0.6667
    """

    def ratio(self, hits: np.ndarray, decided: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return hits, decided


class Recall(ByClass):
    """True positives / samples of a class, averaged over the classes.

    >>> import tdt
    >>> from tdt.train import metrics
    >>> recall = metrics.Recall()
    >>> recall.update(tdt.eye(3), tdt.tensor([0, 1, 1]), tdt.tensor(0.0))
    >>> recall.compute()
    0.5
    """

    def ratio(self, hits: np.ndarray, decided: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return hits, right


class F1(ByClass):
    """The harmonic mean of precision and recall of a class, averaged over the classes.

    >>> import tdt
    >>> from tdt.train import metrics
    >>> f1 = metrics.F1()
    >>> f1.update(tdt.eye(3), tdt.tensor([0, 1, 1]), tdt.tensor(0.0))
    >>> round(f1.compute(), 4)
    0.5556
    """

    def ratio(self, hits: np.ndarray, decided: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return 2 * hits, decided + right


class IoU(ByClass):
    """Intersection over union of a class (Jaccard index), averaged over the classes: of pixels with a mask as target.

    Targets that the loss ignores (`ignore_index`) are left out.

    >>> import tdt
    >>> from tdt.train import metrics
    >>> iou = metrics.IoU()
    >>> iou.update(tdt.eye(3), tdt.tensor([0, 1, 1]), tdt.tensor(0.0))
    >>> round(iou.compute(), 4)
    0.5
    """

    def ratio(self, hits: np.ndarray, decided: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return hits, decided + right - hits


class Dice(ByClass):
    """Dice coefficient of a class, 2 · intersection / (predicted + true), averaged over the classes: the F1 of pixels.

    Targets that the loss ignores (`ignore_index`) are left out.

    >>> import tdt
    >>> from tdt.train import metrics
    >>> dice = metrics.Dice()
    >>> dice.update(tdt.eye(3), tdt.tensor([0, 1, 1]), tdt.tensor(0.0))
    >>> round(dice.compute(), 4)
    0.5556
    """

    def ratio(self, hits: np.ndarray, decided: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return 2 * hits, decided + right
