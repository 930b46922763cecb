"""Regression metrics."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tdt import Tensor
from tdt._backend import to_device
from tdt._backend.device import CPU
from tdt.train.metrics.base import Mean, Metric, beside
from tdt.train.metrics.classes import check_paired


def _pairs(metric: Metric, output: Tensor, target: Tensor) -> tuple[Any, Any]:
    """Outputs and targets in float64, of one shape. Raises ValueError unless each output has a number as target."""
    if (classes := metric.reading.of_classes) is not None:
        metrics = "accuracy, f1 or auroc"
        raise ValueError(f"{type(metric).__name__} compares numbers, but {classes} compares classes; use {metrics}")
    check_paired(metric, output, target)
    return output._a.astype("float64"), target._a.reshape(output._a.shape).astype("float64")


class MAE(Mean):
    """The mean absolute error over all elements.

    >>> import tdt
    >>> from tdt.train import metrics
    >>> mae = metrics.MAE()
    >>> mae.update(tdt.tensor([1.0, 2.0]), tdt.tensor([1.0, 5.0]), tdt.tensor(0.0))
    >>> mae.compute()
    1.5
    """

    higher_is_better = False

    def batch_sum(self, output: Tensor, target: Tensor, loss: Tensor) -> Any:
        predictions, targets = _pairs(self, output, target)
        return abs(predictions - targets).sum(), predictions.size


class MSE(Mean):
    """The mean squared error over all elements.

    >>> import tdt
    >>> from tdt.train import metrics
    >>> mse = metrics.MSE()
    >>> mse.update(tdt.tensor([1.0, 2.0]), tdt.tensor([1.0, 5.0]), tdt.tensor(0.0))
    >>> mse.compute()
    4.5
    """

    higher_is_better = False

    def batch_sum(self, output: Tensor, target: Tensor, loss: Tensor) -> Any:
        predictions, targets = _pairs(self, output, target)
        return ((predictions - targets) ** 2).sum(), predictions.size


class RMSE(MSE):
    """The root of the mean squared error, in the unit of the targets.

    >>> import tdt
    >>> from tdt.train import metrics
    >>> rmse = metrics.RMSE()
    >>> rmse.update(tdt.tensor([1.0, 2.0]), tdt.tensor([4.0, 5.0]), tdt.tensor(0.0))
    >>> rmse.compute()
    3.0
    """

    def compute(self) -> float:
        return math.sqrt(super().compute())


class R2(Metric):
    """Coefficient of determination: the fraction of the targets' variance that the outputs explain.

    Averaged over the numbers of a sample. NaN for fewer than 2 samples; for constant targets 1 if all outputs equal them,
    else 0.

    Means and variances are merged batch by batch without cancellation (Chan, Golub & LeVeque, *Updating Formulae and a
    Pairwise Algorithm for Computing Sample Variances*, 1979).

    >>> import tdt
    >>> from tdt.train import metrics
    >>> r2 = metrics.R2()
    >>> r2.update(tdt.tensor([1.0, 2.0, 2.0]), tdt.tensor([1.0, 2.0, 3.0]), tdt.tensor(0.0))
    >>> r2.compute()
    0.5
    """

    state_names = ("count", "mean", "spread", "missed")

    def reset(self) -> None:
        self.count = 0
        self.mean: Any = 0.0  # of the targets; this and the next two have one value per number of a sample
        self.spread: Any = 0.0  # sum of squared differences of the targets from their mean
        self.missed: Any = 0.0  # sum of squared differences of the targets from the outputs

    def batch_sum(self, output: Tensor, target: Tensor, loss: Tensor) -> Any:
        predictions, targets = (side.reshape(len(target), -1) for side in _pairs(self, output, target))
        mean = targets.mean(0)
        return mean, ((targets - mean) ** 2).sum(0), ((targets - predictions) ** 2).sum(0)

    def add(self, amount: tuple[Any, Any, Any], count: int) -> None:
        mean, spread, missed = amount
        self.count += count
        apart, share = mean - beside(self.mean, mean), count / self.count
        self.mean = beside(self.mean, mean) + apart * share
        self.spread = beside(self.spread, mean) + spread + apart**2 * (count * (1 - share))
        self.missed = beside(self.missed, mean) + missed

    def compute(self) -> float:
        if self.count < 2:
            return float("nan")
        spread, missed = (to_device(part, CPU) for part in (self.spread, self.missed))
        explained = 1 - np.divide(missed, spread, out=(missed != 0).astype(np.float64), where=spread != 0)
        return float(explained.mean())
