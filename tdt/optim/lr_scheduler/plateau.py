"""A schedule that waits for a metric to stop improving."""

from __future__ import annotations

import math
from typing import Any, SupportsFloat

from tdt.optim.lr_scheduler._base import LRScheduler, check_optimizer, per_group, set_lr, warn_of_epoch
from tdt.optim.optimizer import Optimizer


class ReduceLROnPlateau(LRScheduler):
    """Learning rate times `factor` when a metric has not improved for more than `patience` epochs; call `step(metric)`.

    Args:
        mode: "min" if a smaller metric is better, else "max".
        threshold: least difference that counts as an improvement.
        threshold_mode: "rel" for a fraction of the best metric so far, "abs" for an absolute difference.
        cooldown: number of epochs after a reduction that do not count.
        min_lr: least learning rate, one for all groups or a list.
        eps: least change; smaller ones are not made.
    Raises:
        ValueError: when `factor` is 1 or more, a mode is unknown, or `min_lr` has another length than the groups.
        TypeError: when `optimizer` is not an Optimizer.

    >>> import tdt
    >>> optimizer = tdt.optim.SGD([tdt.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = tdt.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1, factor=0.5)
    >>> rates = []
    >>> for loss in [3.0, 2.0, 2.0, 2.0]:
    ...     optimizer.step()
    ...     scheduler.step(loss)
    ...     rates += scheduler.get_last_lr()
    >>> rates
    [1.0, 1.0, 1.0, 0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: list[float] | float = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError(f"Factor should be < 1.0, got {factor}")
        check_optimizer(optimizer)
        for words, value, known in (("mode", mode, ("min", "max")), ("threshold mode", threshold_mode, ("rel", "abs"))):
            if value not in known:
                raise ValueError(f"{words} {value} is unknown! Expected one of {', '.join(known)}")
        self.factor, self.optimizer = factor, optimizer
        groups, length = len(optimizer.param_groups), len(min_lr) if isinstance(min_lr, (list, tuple)) else None
        self.default_min_lr = None if length is not None else min_lr
        self.min_lrs = per_group(optimizer, min_lr, "min_lr", f"expected {groups} min_lrs, got {length}")
        self.patience, self.cooldown, self.eps, self.last_epoch = patience, cooldown, eps, 0
        self.mode, self.threshold, self.threshold_mode = mode, threshold, threshold_mode
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self._last_lr = self._in_groups("lr")
        self._reset()

    def _reset(self) -> None:
        """Forget what was seen."""
        self.best, self.cooldown_counter, self.num_bad_epochs = self.mode_worse, 0, 0

    @property
    def in_cooldown(self) -> bool:
        """Whether epochs do not count yet after a reduction."""
        return self.cooldown_counter > 0

    def step(self, metrics: SupportsFloat, epoch: int | None = None) -> None:  # type: ignore[override]
        """Take note of an epoch's metric, and reduce the rates where it is due."""
        current = float(metrics)
        if epoch is not None:
            warn_of_epoch(stacklevel=2)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(current, self.best):
            self.best, self.num_bad_epochs = current, 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr()
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = self._in_groups("lr")

    def _reduce_lr(self) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"The number of param groups in the `optimizer` ({len(groups)}) differs from when "
                    f"`ReduceLROnPlateau` was initialized ({len(self.min_lrs)}): add to its `min_lrs` for new groups"
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, least in zip(groups, self.min_lrs, strict=True):
            old = float(group["lr"])
            new = max(old * self.factor, least)
            if old - new > self.eps:
                set_lr(group, new)

    def _is_better(self, a: float, best: float) -> bool:
        """Whether `a` improves on `best` by more than the threshold."""
        relative, sign = self.threshold_mode == "rel", -1 if self.mode == "min" else 1
        bound = best * (1.0 + sign * self.threshold) if relative else best + sign * self.threshold
        return a < bound if self.mode == "min" else a > bound

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        super().load_state_dict(state_dict)
        self.mode_worse = math.inf if self.mode == "min" else -math.inf
