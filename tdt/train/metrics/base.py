"""What every metric does, and the loss as the first of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tdt import Tensor, nn
from tdt._backend import device_of, is_array, namespace, to_device
from tdt._backend.device import CPU

# Losses for which each output is a yes or no of its own → the output above which it is a yes
_THRESHOLDS = {nn.BCEWithLogitsLoss: 0.0, nn.BCELoss: 0.5, nn.MultiLabelSoftMarginLoss: 0.0, nn.SoftMarginLoss: 0.0}

# Losses that compare scores with classes, and losses that compare numbers: metrics of one kind say nothing of the other.
# BCELoss is neither: its outputs are probabilities, whose squared error is the Brier score.
_OF_CLASSES = (
    nn.BCEWithLogitsLoss, nn.CrossEntropyLoss, nn.KLDivLoss, nn.MultiLabelMarginLoss, nn.MultiLabelSoftMarginLoss,
    nn.MultiMarginLoss, nn.NLLLoss, nn.SoftMarginLoss,
)  # fmt: skip
_OF_NUMBERS = (nn.GaussianNLLLoss, nn.HuberLoss, nn.L1Loss, nn.MSELoss, nn.PoissonNLLLoss, nn.SmoothL1Loss)


@dataclass(frozen=True)
class Reading:
    """How a loss reads outputs and targets. Metrics read them as the loss of the config does.

    threshold: each output is a yes or no, yes above it (binary and multi-label targets); None: the largest of the
    outputs along dim 1 is the class. ignore_index: a class that marks targets that do not count. weight: what each
    class counts in the mean. is_sum: the loss is no mean but a sum. of_classes, of_numbers: the name of the loss, where
    it compares scores with classes, or numbers with numbers.
    """

    threshold: float | None = None
    ignore_index: int | None = None
    weight: Tensor | None = None
    is_sum: bool = False
    of_classes: str | None = None
    of_numbers: str | None = None

    @classmethod
    def of(cls, loss: Any) -> Reading:
        """How `loss` reads them.

        >>> Reading.of(nn.BCELoss()).threshold, Reading.of(nn.CrossEntropyLoss(ignore_index=0)).ignore_index
        (0.5, 0)
        """
        threshold = next((value for kind, value in _THRESHOLDS.items() if isinstance(loss, kind)), None)
        by_class = isinstance(loss, (nn.CrossEntropyLoss, nn.NLLLoss))
        weight = loss.weight if by_class else None
        name = type(loss).__name__
        return cls(
            threshold,
            getattr(loss, "ignore_index", None),
            weight,
            getattr(loss, "reduction", "mean") == "sum",
            name if isinstance(loss, _OF_CLASSES) else None,
            name if isinstance(loss, _OF_NUMBERS) else None,
        )

    def share(self, target: Tensor) -> Any:
        """What the mean loss of a batch counts beside others': its samples that count, by the weights of their classes."""
        if (self.ignore_index is None and self.weight is None) or target.is_floating_point():
            return len(target)
        classes, xp = target._a, namespace(target._a)
        size = classes.size // len(target)
        if self.weight is None:
            counted = xp.count_nonzero(classes != self.ignore_index)
            return counted if size == 1 else counted / size
        counts = xp.ones(classes.shape) if self.ignore_index is None else classes != self.ignore_index
        counts = xp.where(counts, self.weight._a[xp.where(counts, classes, 0)], 0)
        return counts.sum(dtype="float64") / size


class Metric:
    """A number that says how good a model is, over a whole data set rather than as a mean over batches.

    What counts of a batch is made of the tensors' arrays, since no gradient is wanted. On a GPU it stays there until it
    is read, so that counting a batch never waits for the device. `higher_is_better` decides which checkpoint is the
    best one; `reading` says what outputs and targets are; `kept` names the attributes that hold what was counted. What
    grows with the samples is not among these: `take` gives it, a part at a time, and `parts` are the numbers of those given.
    """

    higher_is_better = True
    reading = Reading()
    kept: tuple[str, ...] = ()
    parts: Sequence[int] = ()

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all samples."""
        raise NotImplementedError(f"{type(self).__name__} must define reset")

    def batch_sum(self, output: Tensor, target: Tensor, loss: Tensor) -> Any:
        """What `add` counts of a batch: the model's output (n, …), the targets (n, …) and their loss, a scalar."""
        raise NotImplementedError(f"{type(self).__name__} must define batch_sum")

    def add(self, amount: Any, count: int) -> None:
        """Count `count` more samples, of which `batch_sum` has made `amount`."""
        raise NotImplementedError(f"{type(self).__name__} must define add")

    def update(self, output: Tensor, target: Tensor, loss: Tensor) -> None:
        """Count a batch. ValueError where its shapes are none that the metric is defined for."""
        self.add(self.batch_sum(output, target, loss), len(target))

    def compute(self) -> float:
        """The number; NaN where it is not defined, as before the first sample."""
        raise NotImplementedError(f"{type(self).__name__} must define compute")

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` needs to go on in the middle of an epoch: numbers and NumPy arrays."""
        return {name: _on_host(getattr(self, name)) for name in self.kept}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state_dict`."""
        for name in self.kept:
            setattr(self, name, state[name])

    def take(self, part: int) -> dict[str, np.ndarray]:
        """What was counted by the sample since the last call, to be kept as the part of that number; empty for nothing."""
        return {}

    def put(self, rows: Mapping[str, np.ndarray]) -> None:
        """Go on from `state_dict` with the rows of each of its parts, in their order."""
        raise NotImplementedError(f"{type(self).__name__} must define put, as it does take")


class Mean(Metric):
    """The mean of what a subclass's `batch_sum` gives for a batch: (sum, weight of what was summed)."""

    kept = ("total", "weight", "count")

    def reset(self) -> None:
        self.total: Any = 0.0
        self.weight: Any = 0
        self.count = 0

    def add(self, amount: tuple[Any, Any], count: int) -> None:
        self.total = self.total + amount[0]
        self.weight = self.weight + amount[1]
        self.count += count

    def compute(self) -> float:
        return float(self.total) / float(self.weight) if self.weight else float("nan")


class Loss(Mean):
    """The mean loss per sample: what the loss gives for the whole data set as one batch.

    >>> import tdt
    >>> loss = Loss()
    >>> loss.update(tdt.zeros(3), tdt.zeros(3), tdt.tensor(1.0)); loss.update(tdt.zeros(1), tdt.zeros(1), tdt.tensor(5.0))
    >>> loss.compute()
    2.0
    """

    higher_is_better = False

    def batch_sum(self, output: Tensor, target: Tensor, loss: Tensor) -> Any:
        on_gpu = loss.is_cuda
        value: Any = loss._a.astype("float64") if on_gpu else loss._a.item()
        if self.reading.is_sum:
            return value, len(target)
        share = self.reading.share(target)
        # The mean loss of no samples is NaN, and counts nothing.
        if is_array(share) and on_gpu:  # a number of the GPU's: asking for it would be waiting
            known = namespace(loss._a).where(share == 0, 0.0, value)
        else:
            known = value if share else 0.0
        return known * share, share


def beside(total: Any, amount: Any) -> Any:
    """`total`, as a checkpoint may have brought it back, on the device of `amount`."""
    return to_device(total, device_of(amount)) if is_array(total) else total


def _on_host(value: Any) -> Any:
    """Arrays as NumPy's, and those without dimensions as numbers."""
    if isinstance(value, np.generic):
        return value.item()
    if not is_array(value):
        return value
    value = to_device(value, CPU)
    return value if value.ndim else value.item()


def scores_of(metrics: Mapping[str, Metric]) -> dict[str, float]:
    """What they measured, by name."""
    return {name: metric.compute() for name, metric in metrics.items()}


def tagged(split: str, scores: Mapping[str, float]) -> dict[str, float]:
    """The scores under the tags of a log: `split/metric`."""
    return {f"{split}/{name}": value for name, value in scores.items()}
