"""Schedules that multiply the rate by a number: at some epochs, or at all."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from typing import Any

from tdt._core.tensor import Tensor
from tdt.optim.lr_scheduler._base import LRScheduler
from tdt.optim.optimizer import Optimizer


class StepLR(LRScheduler):
    """The rate times `gamma` after every `step_size` epochs.

    >>> import tdt
    >>> optimizer = tdt.optim.SGD([tdt.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = tdt.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    >>> rates = []
    >>> for epoch in range(4):
    ...     optimizer.step()
    ...     scheduler.step()
    ...     rates += scheduler.get_last_lr()
    >>> rates
    [1.0, 0.5, 0.5, 0.25]
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """The rates for `last_epoch`, by group."""
        self._warn_outside_step()
        if self.last_epoch == 0 or self.last_epoch % self.step_size != 0:
            return self._in_groups("lr")
        return [group["lr"] * self.gamma for group in self.optimizer.param_groups]

    def _get_closed_form_lr(self) -> list[float | Tensor]:
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """The rate times `gamma` at each of the epochs `milestones`; at one that is named twice, by its square.

    >>> import tdt
    >>> optimizer = tdt.optim.SGD([tdt.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = tdt.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[1, 3], gamma=0.5)
    >>> rates = []
    >>> for epoch in range(4):
    ...     optimizer.step()
    ...     scheduler.step()
    ...     rates += scheduler.get_last_lr()
    >>> rates
    [0.5, 0.5, 0.25, 0.25]
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        super().load_state_dict(state_dict)
        self.milestones = Counter(self.milestones)

    def get_lr(self) -> list[float | Tensor]:
        """The rates for `last_epoch`, by group."""
        self._warn_outside_step()
        rates, times = self._in_groups("lr"), self.milestones[self.last_epoch]
        return [rate * self.gamma**times for rate in rates] if times else rates

    def _get_closed_form_lr(self) -> list[float | Tensor]:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """Learning rate times `factor` for the first `total_iters` epochs.

    Raises:
        ValueError: when `factor` is outside [0, 1].

    >>> import tdt
    >>> optimizer = tdt.optim.SGD([tdt.zeros(1, requires_grad=True)], lr=1.0)
    >>> tdt.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5).get_last_lr()
    [0.5]
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if factor > 1.0 or factor < 0:
            raise ValueError(f"Constant multiplicative factor expected to be between 0 and 1, got {factor}")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """The rates for `last_epoch`, by group."""
        self._warn_outside_step()
        rates = self._in_groups("lr")
        if self.last_epoch == 0:
            return [rate * self.factor for rate in rates]
        return [rate * (1.0 / self.factor) for rate in rates] if self.last_epoch == self.total_iters else rates

    def _get_closed_form_lr(self) -> list[float | Tensor]:
        done = self.last_epoch >= self.total_iters
        return [base * (self.factor + done * (1 - self.factor)) for base in self.base_lrs]


class LinearLR(LRScheduler):
    """Learning rate times a factor that changes linearly from `start_factor` to `end_factor` in `total_iters` epochs.

    Raises:
        ValueError: when `start_factor` is outside (0, 1] or `end_factor` outside [0, 1].

    >>> import tdt
    >>> optimizer = tdt.optim.SGD([tdt.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = tdt.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.5, total_iters=2)
    >>> rates = scheduler.get_last_lr()
    >>> for epoch in range(3):
    ...     optimizer.step()
    ...     scheduler.step()
    ...     rates = rates + scheduler.get_last_lr()
    >>> rates
    [0.5, 0.75, 1.0, 1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueError(
                f"Starting multiplicative factor expected to be greater than 0 and less or equal to 1, got {start_factor}"
            )
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError(f"Ending multiplicative factor expected to be between 0 and 1, got {end_factor}")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """The rates for `last_epoch`, by group."""
        self._warn_outside_step()
        t, rates, rise = self.last_epoch, self._in_groups("lr"), self.end_factor - self.start_factor
        if t == 0:
            return [rate * self.start_factor for rate in rates]
        if self._is_initial or t > self.total_iters:
            return rates
        return [rate * (1.0 + rise / (self.total_iters * self.start_factor + (t - 1) * rise)) for rate in rates]

    def _get_closed_form_lr(self) -> list[float | Tensor]:
        done, rise = min(self.total_iters, self.last_epoch), self.end_factor - self.start_factor
        return [base * (self.start_factor + rise * done / self.total_iters) for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """The rate times `gamma` after every epoch.

    >>> import tdt
    >>> optimizer = tdt.optim.SGD([tdt.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = tdt.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> optimizer.step(); scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """The rates for `last_epoch`, by group."""
        self._warn_outside_step()
        rates = self._in_groups("lr")
        return rates if self._is_initial else [rate * self.gamma for rate in rates]

    def _get_closed_form_lr(self) -> list[float | Tensor]:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """The initial rate times (1 - epoch / total_iters) to the `power`, and 0 from `total_iters` on.

    >>> import tdt
    >>> optimizer = tdt.optim.SGD([tdt.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = tdt.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=4)
    >>> optimizer.step(); scheduler.step()
    >>> scheduler.get_last_lr()
    [0.75]
    """

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """The rates for `last_epoch`, by group."""
        self._warn_outside_step()
        t, total, rates = self.last_epoch, self.total_iters, self._in_groups("lr")
        if self._is_initial or t > total:
            return rates
        factor = ((1.0 - t / total) / (1.0 - (t - 1) / total)) ** self.power
        return [rate * factor for rate in rates]

    def _get_closed_form_lr(self) -> list[float | Tensor]:
        done = min(self.total_iters, self.last_epoch)
        return [base * (1.0 - done / self.total_iters) ** self.power for base in self.base_lrs]
