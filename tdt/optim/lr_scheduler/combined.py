"""Schedules made of schedules: one after the other, or all at once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from tdt.optim.lr_scheduler._base import LRScheduler, set_lr
from tdt.optim.lr_scheduler.plateau import ReduceLROnPlateau
from tdt.optim.optimizer import Optimizer


class _Combined(LRScheduler):
    """Several schedules of one optimizer, whose states are saved as a list."""

    _not_saved = ("optimizer", "_schedulers")
    _schedulers: Sequence[LRScheduler]

    def _check(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer) -> None:
        name = type(self).__name__
        for i, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(f"{name} at index {i} should have `optimizer` as its attribute, got {scheduler!r}")
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(
                    f"{name} does not support `ReduceLROnPlateau` scheduler as it requires additional kwargs to be "
                    f"specified when calling `step`, but got one at index {i} in the given schedulers sequence."
                )
            if scheduler.optimizer is not optimizer:
                raise ValueError(
                    f"{name} expects all schedulers to belong to the same optimizer, but got scheduler "
                    f"{type(scheduler).__name__} at index {i} of another {type(scheduler.optimizer).__name__}"
                )

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer, with the schedules' states."""
        return {**super().state_dict(), "_schedulers": [scheduler.state_dict() for scheduler in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        super().load_state_dict({name: value for name, value in state_dict.items() if name != "_schedulers"})
        for scheduler, state in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(state)


class SequentialLR(_Combined):
    """Several schedulers one after the other; the next one starts at each of the epochs `milestones`.

    Raises:
        ValueError: when there are no schedulers, the milestones are not one fewer, the optimizers differ, or a
            scheduler is
            ReduceLROnPlateau, which needs a metric.
        TypeError: when an element is not a scheduler.

    >>> import tdt
    >>> optimizer = tdt.optim.SGD([tdt.zeros(1, requires_grad=True)], lr=1.0)
    >>> warm = tdt.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=2)
    >>> fall = tdt.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> scheduler = tdt.optim.lr_scheduler.SequentialLR(optimizer, [warm, fall], milestones=[2])
    >>> rates = scheduler.get_last_lr()
    >>> for epoch in range(3):
    ...     optimizer.step()
    ...     scheduler.step()
    ...     rates = rates + scheduler.get_last_lr()
    >>> rates
    [0.5, 0.5, 1.0, 0.5]
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1
    ) -> None:
        if len(schedulers) < 1:
            raise ValueError(f"{type(self).__name__} expects at least one scheduler, but got no scheduler.")
        self._check(schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of milestone "
                f"points, but got number of schedulers {len(schedulers)} and the number of milestones to be equal to "
                f"{len(milestones)}"
            )
        self._schedulers, self._milestones, self.last_epoch = schedulers, milestones, last_epoch + 1
        self.optimizer = optimizer
        for (
            group
        ) in optimizer.param_groups:  # each schedule has taken its first step already: begin again with the first
            set_lr(group, group["initial_lr"])
        _undo(self)
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def step(self) -> None:  # type: ignore[override]
        """Go on by one epoch and set its rates."""
        self.last_epoch += 1
        i = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[i]
        if i > 0 and self._milestones[i - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


def _undo(scheduler: Any) -> None:
    """Take back the step that making a schedule took."""
    if isinstance(scheduler, _Combined):
        for part in scheduler._schedulers:
            _undo(part)
    else:
        scheduler.last_epoch -= 1


class ChainedScheduler(_Combined):
    """Several schedulers at once: each computes its learning rate from the one that those before it have set.

    Raises:
        ValueError: when there are no schedulers, their optimizers differ, or one is ReduceLROnPlateau, which needs a
            metric.
        TypeError: when an element is not a scheduler.

    >>> import tdt
    >>> optimizer = tdt.optim.SGD([tdt.zeros(1, requires_grad=True)], lr=1.0)
    >>> warm = tdt.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=2)
    >>> fall = tdt.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> scheduler = tdt.optim.lr_scheduler.ChainedScheduler([warm, fall])
    >>> optimizer.step(); scheduler.step()
    >>> scheduler.get_last_lr()
    [0.25]
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        if len(schedulers) < 1:
            raise ValueError(
                f"{type(self).__name__} expects at least one scheduler to be chained, but got no scheduler."
            )
        optimizer = optimizer or schedulers[0].optimizer
        self._check(schedulers, optimizer)
        self._schedulers, self.optimizer = schedulers, optimizer
        self._last_lr = self._in_groups("lr")

    def step(self) -> None:  # type: ignore[override]
        """Go on by one epoch with every schedule."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._in_groups("lr")
