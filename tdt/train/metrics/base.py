"""Base class of metrics, and the mean loss."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tdt import Tensor, _backend, nn
from tdt._backend import device_of, is_array, namespace, to_device
from tdt._backend.device import CPU
from tdt._kernels import SWITCHES, lazy

_add_numbers = lazy("optim_gpu:add_numbers")

# Binary and multi-label losses → the output above which the prediction is 1
_THRESHOLDS = {nn.BCEWithLogitsLoss: 0.0, nn.BCELoss: 0.5, nn.MultiLabelSoftMarginLoss: 0.0, nn.SoftMarginLoss: 0.0}

# Losses of classification and of regression: the metrics of one kind are not defined for the other.
# BCELoss is neither: its outputs are probabilities, whose squared error is the Brier score.
_OF_CLASSES = (
    nn.BCEWithLogitsLoss, nn.CrossEntropyLoss, nn.KLDivLoss, nn.MultiLabelMarginLoss, nn.MultiLabelSoftMarginLoss,
    nn.MultiMarginLoss, nn.NLLLoss, nn.SoftMarginLoss,
)  # fmt: skip
_OF_NUMBERS = (nn.GaussianNLLLoss, nn.HuberLoss, nn.L1Loss, nn.MSELoss, nn.PoissonNLLLoss, nn.SmoothL1Loss)


@dataclass(frozen=True)
class Reading:
    """How a loss interprets outputs and targets; metrics do the same as the loss of the config.

    threshold: outputs above it predict 1 (binary and multi-label targets); None: the argmax along dim 1 is the class.
    ignore_index: the class of targets that do not count. weight: of each class in the mean. is_sum: whether the loss
    is a sum, not a mean. of_classes, of_numbers: the name of a classification or of a regression loss.
    """

    threshold: float | None = None
    ignore_index: int | None = None
    weight: Tensor | None = None
    is_sum: bool = False
    of_classes: str | None = None
    of_numbers: str | None = None

    @classmethod
    def of(cls, loss: Any) -> Reading:
        """The interpretation of `loss`.

        >>> import tdt
        >>> from tdt.train import metrics
        >>> metrics.Reading.of(tdt.nn.BCELoss()).threshold
        0.5
        >>> metrics.Reading.of(tdt.nn.CrossEntropyLoss(ignore_index=0)).ignore_index
        0
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
        """Weight of a batch's mean loss among others: its samples that count, by the weights of their classes."""
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
    """A score over a whole dataset rather than a mean over batches.

    Sums are computed on the tensors' arrays, since no gradient is needed. On a GPU they stay there until they are read,
    so that counting a batch never synchronises. `higher_is_better` decides which checkpoint is the best; `reading` says
    how to interpret outputs and targets; `state_names` are the attributes of the state. State that grows with the samples is
    not among these: `take` returns it part by part, and `parts` has the numbers of these parts. `keeps_batches` says whether
    `add` keeps what it gets, instead of adding it to a sum.
    """

    higher_is_better = True
    keeps_batches = False
    reading = Reading()
    state_names: tuple[str, ...] = ()
    parts: Sequence[int] = ()

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all samples."""
        raise NotImplementedError(f"{type(self).__name__} must define reset")

    def batch_sum(self, output: Tensor, target: Tensor, loss: Tensor) -> Any:
        """The contribution of a batch, for `add`. output: (n, …), target: (n, …), loss: a scalar."""
        raise NotImplementedError(f"{type(self).__name__} must define batch_sum")

    def add(self, amount: Any, count: int) -> None:
        """Add a result of `batch_sum` over `count` samples."""
        raise NotImplementedError(f"{type(self).__name__} must define add")

    def update(self, output: Tensor, target: Tensor, loss: Tensor) -> None:
        """Add a batch. Raises ValueError for shapes that the metric is not defined for."""
        self.add(self.batch_sum(output, target, loss), len(target))

    def compute(self) -> float:
        """The score; NaN if it is not defined, as before the first sample."""
        raise NotImplementedError(f"{type(self).__name__} must define compute")

    def state_dict(self) -> dict[str, Any]:
        """The state within an epoch: numbers and NumPy arrays."""
        return {name: _on_host(getattr(self, name)) for name in self.state_names}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a `state_dict`."""
        for name in self.state_names:
            setattr(self, name, state[name])

    def take(self, part: int) -> dict[str, np.ndarray]:
        """The per-sample state since the last call, to be stored as part number `part`; empty if there is none."""
        return {}

    def restore_rows(self, rows: Mapping[str, np.ndarray]) -> None:
        """Restore the per-sample state after `load_state_dict`, from the concatenated rows of its parts."""
        raise NotImplementedError(f"{type(self).__name__} must define restore_rows, since it defines take")


class Mean(Metric):
    """A mean, of which a subclass's `batch_sum` returns (sum, weight) for a batch."""

    state_names = ("total", "weight", "count")

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


def add_each(metrics: Iterable[tuple[Metric, Any]], count: int) -> None:
    """Add to each metric its result of `batch_sum` over `count` samples: in one launch what is to be added to sums on a GPU."""
    pairs: list[tuple[Any, Any]] = []
    for metric, amount in metrics:
        if not isinstance(metric, Mean) or type(metric).add is not Mean.add:
            metric.add(amount, count)
            continue
        for name, value in zip(("total", "weight"), amount, strict=True):
            known = getattr(metric, name)
            if _on_one_gpu(known, value):  # `known` is a sum that nothing else refers to
                pairs.append((known, value))
            else:
                setattr(metric, name, known + value)
        metric.count += count
    if pairs:
        with pairs[0][0].device:
            _add_numbers(pairs)


def _on_one_gpu(total: Any, amount: Any) -> bool:
    """Whether `add_numbers` takes both."""
    gpu: Any = _backend.GpuArray
    if total.__class__ is not gpu or amount.__class__ is not gpu or not SWITCHES.kernels:
        return False
    kinds = total.dtype.char + amount.dtype.char
    return total.ndim == amount.ndim == 0 and kinds in ("dd", "dl", "ll") and total.device == amount.device


class Loss(Mean):
    """The mean loss per sample: the loss of the whole dataset as one batch.

    >>> import tdt
    >>> from tdt.train import metrics
    >>> loss = metrics.Loss()
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
        # The mean loss of no samples is NaN: it has weight 0.
        if is_array(share) and on_gpu:  # reading it would synchronise the GPU
            known = namespace(loss._a).where(share == 0, 0.0, value)
        else:
            known = value if share else 0.0
        return known * share, share


def beside(total: Any, amount: Any) -> Any:
    """Move `total`, which may come from a checkpoint, to the device of `amount`."""
    return to_device(total, device_of(amount)) if is_array(total) else total


def _on_host(value: Any) -> Any:
    """Convert arrays to NumPy, and 0-d arrays to numbers."""
    if isinstance(value, np.generic):
        return value.item()
    if not is_array(value):
        return value
    value = to_device(value, CPU)
    return value if value.ndim else value.item()


def scores_of(metrics: Mapping[str, Metric]) -> dict[str, float]:
    """The scores by name."""
    return {name: metric.compute() for name, metric in metrics.items()}


def tagged(split: str, scores: Mapping[str, float]) -> dict[str, float]:
    """The scores by log tag: `split/metric`."""
    return {f"{split}/{name}": value for name, value in scores.items()}
