"""Schedules along a cosine."""

from __future__ import annotations

import math

from tdt._core.tensor import Tensor
from tdt.optim.lr_scheduler._base import LRScheduler
from tdt.optim.optimizer import Optimizer


class CosineAnnealingLR(LRScheduler):
    """Learning rate along half a cosine, from the initial value to `eta_min` in `T_max` epochs.

    There is no restart: after `T_max` epochs the learning rate rises again along the cosine.

    Source: Loshchilov and Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts", 2017.

    >>> import tdt
    >>> optimizer = tdt.optim.SGD([tdt.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = tdt.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=2)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> round(scheduler.get_last_lr()[0], 6)
    0.5
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """The rates for `last_epoch`, by group."""
        self._warn_outside_step()
        t, low, groups = self.last_epoch, self.eta_min, self.optimizer.param_groups
        if self._is_initial:
            return self._in_groups("lr")
        if self._step_count == 1 and t > 0:
            return [low + (base - low) * (1 + math.cos(t * math.pi / self.T_max)) / 2 for base in self.base_lrs]
        if (t - 1 - self.T_max) % (2 * self.T_max) == 0:  # the rate is eta_min, so no factor leads away from it
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            return [group["lr"] + (base - low) * rise for base, group in zip(self.base_lrs, groups, strict=True)]
        factor = (1 + math.cos(math.pi * t / self.T_max)) / (1 + math.cos(math.pi * (t - 1) / self.T_max))
        return [factor * (group["lr"] - low) + low for group in groups]

    def _get_closed_form_lr(self) -> list[float | Tensor]:
        low = self.eta_min
        return [
            low + (base - low) * (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2 for base in self.base_lrs
        ]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Learning rate along half a cosine, from the initial value to `eta_min`, with restarts.

    `step(epoch)` moves to an epoch, which may be a fraction: `step(epoch + batch / batches)` after each batch anneals
    within
    epochs.

    Args:
        T_0: number of epochs until the first restart.
        T_mult: factor by which each further cycle is longer than the one before.
    Raises:
        ValueError: when T_0 or T_mult is not a positive integer, or `eta_min` is not a number.
    Source: Loshchilov and Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts", 2017.

    >>> import tdt
    >>> optimizer = tdt.optim.SGD([tdt.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = tdt.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
    >>> rates = []
    >>> for epoch in range(4):
    ...     optimizer.step()
    ...     scheduler.step()
    ...     rates += scheduler.get_last_lr()
    >>> rates
    [0.5, 1.0, 0.5, 1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0, self.T_i, self.T_mult, self.eta_min = T_0, T_0, T_mult, eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """The rates for the place `T_cur` in a fall of `T_i` epochs, by group."""
        self._warn_outside_step()
        low = self.eta_min
        return [low + (base - low) * (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2 for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Move to the next epoch, or to `epoch`, and set its learning rates.

        Raises:
            ValueError: when `epoch` is negative.
        """
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        elif epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        else:
            self._find(epoch)
        self.last_epoch = math.floor(epoch)
        self._get_lr_called_within_step = True
        values = self.get_lr()
        self._get_lr_called_within_step = False
        self._set_lr(values)

    def _find(self, epoch: float) -> None:
        """Set the place of an epoch in its fall."""
        first, growth = self.T_0, self.T_mult
        if epoch < first:
            self.T_i, self.T_cur = first, epoch
        elif growth == 1:
            self.T_cur = epoch % first
        else:
            n = int(math.log(epoch / first * (growth - 1) + 1, growth))
            self.T_i, self.T_cur = first * growth**n, epoch - first * (growth**n - 1) / (growth - 1)
