"""Schedules given as Python functions."""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any

from tdt._core.tensor import Tensor
from tdt.optim.lr_scheduler._base import LRScheduler, per_group
from tdt.optim.optimizer import Optimizer

Lambda = Callable[[int], float]


class LambdaLR(LRScheduler):
    """The initial rate times `lr_lambda(epoch)`; one function, or one for each group (ValueError if too few or many).

    A function's state is saved only if it is an object of a class with `__call__`.

    >>> import tdt
    >>> optimizer = tdt.optim.SGD([tdt.zeros(1, requires_grad=True)], lr=1.0)
    >>> tdt.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (epoch + 1)).get_last_lr()
    [1.0]
    """

    _not_saved = ("optimizer", "lr_lambdas")

    def __init__(self, optimizer: Optimizer, lr_lambda: Lambda | Sequence[Lambda], last_epoch: int = -1) -> None:
        self.lr_lambdas = _functions(optimizer, lr_lambda)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """The rates for `last_epoch`, by group."""
        self._warn_outside_step()
        return [base * factor(self.last_epoch) for factor, base in zip(self.lr_lambdas, self.base_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and functions; of callable objects, their attributes."""
        plain = [isinstance(f, types.FunctionType) for f in self.lr_lambdas]
        own = [None if is_plain else dict(vars(f)) for f, is_plain in zip(self.lr_lambdas, plain, strict=True)]
        return {**super().state_dict(), "lr_lambdas": own}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        super().load_state_dict({name: value for name, value in state_dict.items() if name != "lr_lambdas"})
        for function, own in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=True):
            if own is not None:
                vars(function).update(own)


class MultiplicativeLR(LambdaLR):
    """Current learning rate times `lr_lambda(epoch)`, at each epoch.

    The state of a function is saved only if it is an object of a class with `__call__`.

    Args:
        lr_lambda: one function, or one for each group.
    Raises:
        TypeError: when `lr_lambda` is not callable.
        ValueError: when the number of functions is not that of the groups.

    >>> import tdt
    >>> optimizer = tdt.optim.SGD([tdt.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = tdt.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda epoch: 0.5)
    >>> optimizer.step(); scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, lr_lambda: Lambda | Sequence[Lambda], last_epoch: int = -1) -> None:
        for function in _functions(optimizer, lr_lambda):
            if not callable(function):
                raise TypeError(f"lr_lambda should be a function, but got {type(function).__name__}")
        super().__init__(optimizer, lr_lambda, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """The rates for `last_epoch`, by group."""
        self._warn_outside_step()
        rates = self._in_groups("lr")
        if self._is_initial:
            return rates
        return [rate * factor(self.last_epoch) for factor, rate in zip(self.lr_lambdas, rates, strict=True)]


def _functions(optimizer: Optimizer, functions: Lambda | Sequence[Lambda]) -> list[Lambda]:
    """A function for each group."""
    count = len(functions) if isinstance(functions, (list, tuple)) else 0
    return per_group(optimizer, functions, "", f"Expected {len(optimizer.param_groups)} lr_lambdas, but got {count}")
