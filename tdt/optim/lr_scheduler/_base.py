"""What all schedules are: the base class, and access to the options of parameter groups."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from tdt._core.tensor import Tensor, wrap
from tdt.optim._params import number
from tdt.optim.optimizer import Optimizer


class LRScheduler:
    """Base class of schedulers: a subclass writes `get_lr`, the learning rates for `last_epoch`.

    A subclass may write `_get_closed_form_lr` too, from which `step(epoch)` jumps.

    Args:
        last_epoch: index of the last epoch; -1 to start, which stores each group's learning rate as its "initial_lr".
    Raises:
        KeyError: when a later `last_epoch` is given and a group has no "initial_lr".
        TypeError: when `optimizer` is not an Optimizer.

    >>> import tdt
    >>> class Halving(tdt.optim.lr_scheduler.LRScheduler):
    ...     def get_lr(self):
    ...         return [base / 2**self.last_epoch for base in self.base_lrs]
    >>> optimizer = tdt.optim.SGD([tdt.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = Halving(optimizer)
    >>> optimizer.step(); scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    _get_lr_called_within_step = False
    _is_initial = False
    _not_saved: tuple[str, ...] = ("optimizer",)

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler with "
                    f"last_epoch={last_epoch}: load the optimizer's state first, or start with last_epoch=-1"
                )
        self.base_lrs = self._in_groups("initial_lr")
        self.last_epoch = last_epoch
        if not optimizer._scheduled:
            optimizer._scheduled, optimizer._opt_called = True, False
        self._initial_step()

    def _initial_step(self) -> None:
        """Set the rates of the first epoch."""
        self._step_count = 0
        self._is_initial = True
        self.step()
        self._is_initial = False

    def get_lr(self) -> list[float | Tensor]:
        """Learning rate of each group for `last_epoch`; subclasses write it.

        Raises:
            NotImplementedError: when a subclass does not write it.
        """
        raise NotImplementedError(f"{type(self).__name__} must define get_lr")

    def get_last_lr(self) -> list[float | Tensor]:
        """The rates that were set last, by group."""
        return self._last_lr

    def step(self, epoch: int | None = None) -> None:
        """Go on by one epoch and set its rates. Call it after `optimizer.step()`: the other order warns.

        epoch: deprecated; go to that epoch instead.
        """
        if self._step_count == 1:
            self._check_order()
        self._step_count += 1
        if epoch is not None:
            warn_of_epoch(stacklevel=3)
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        """Go on by one epoch, or to that one by the closed form where there is one, and set its rates."""
        self._get_lr_called_within_step = True
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        closed_form = getattr(self, "_get_closed_form_lr", self.get_lr)
        values = self.get_lr() if epoch is None else closed_form()
        self._get_lr_called_within_step = False
        self._set_lr(values)

    def _set_lr(self, values: Sequence[Any]) -> None:
        for group, value in zip(self.optimizer.param_groups, values, strict=True):
            set_lr(group, value)
        self._last_lr = self._in_groups("lr")

    def _check_order(self) -> None:
        """Warn where the optimizer's first step was not taken before the schedule's, or cannot be noticed."""
        if "step" in vars(self.optimizer):
            text = (
                "Seems like `optimizer.step()` has been overridden after learning rate scheduler initialization: "
                "whether it is called before `lr_scheduler.step()` cannot be checked"
            )
        elif self.optimizer._opt_called:
            return
        else:
            text = (
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`: call `optimizer.step()` first, else "
                "the first value of the learning rate schedule is skipped"
            )
        warnings.warn(text, UserWarning, stacklevel=3)

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {name: value for name, value in vars(self).items() if name not in self._not_saved}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave. The optimizer's own state holds the rates in force: load that too."""
        vars(self).update(state_dict)

    def _in_groups(self, name: str) -> list[Any]:
        return [copied(group[name]) for group in self.optimizer.param_groups]

    def _warn_outside_step(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
                UserWarning,
                stacklevel=3,
            )


def warn_of_epoch(stacklevel: int) -> None:
    """Warn that `step` was given an epoch."""
    warnings.warn(
        "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible: call it "
        "without, once an epoch",
        UserWarning,
        stacklevel=stacklevel + 1,
    )


def per_group(optimizer: Optimizer, value: Any, name: str, refusal: str | None = None) -> list[Any]:
    """A value for each group: the same for all, or the items of a list of that length (ValueError otherwise).

    refusal: what the error says instead of PyTorch's usual words.
    """
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        value = [value] * count
    if len(value) != count:
        raise ValueError(
            refusal
            or f"{name} must have the same length as optimizer.param_groups. "
            f"{name} has {len(value)} values, param_groups has {count}."
        )
    return [copied(item) for item in value]


def check_optimizer(optimizer: Any) -> None:
    """TypeError for what is no optimizer."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def copied(value: Any) -> Any:
    """A number as it is; a tensor as a copy, so that writing to it changes no group."""
    return wrap(value._a.copy()) if isinstance(value, Tensor) else value


def set_lr(group: dict[str, Any], value: Any) -> None:
    """Set the learning rate; one that is a tensor is written to, so that all references have the new value."""
    if isinstance(group["lr"], Tensor):
        group["lr"]._a[...] = number(value)
        group["lr"]._st.bump_version()
    else:
        group["lr"] = value
