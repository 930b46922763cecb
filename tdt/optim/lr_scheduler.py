"""Schedules: `scheduler.step()` after each epoch (or step) sets the learning rate of every parameter group.

Schedules are chainable: where the formula allows, each rate is computed from the one in force, so that several
schedules, or a hand that changes a rate, act together. The formulas are PyTorch's to the order of operations, because
a rate that differs in its last bit is another run.
"""

from __future__ import annotations

import math
import types
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from tdt._tensor import Tensor, wrap
from tdt.optim._params import number
from tdt.optim.optimizer import Optimizer

Lambda = Callable[[int], float]


class LRScheduler:
    """Base class: give `get_lr`, the rates for `last_epoch`, and where there is one `_get_closed_form_lr`.

    last_epoch: -1 to start, which notes each group's rate as its "initial_lr"; to go on, the index of the last epoch,
    which needs groups that have one (KeyError otherwise).

    >>> import tdt
    >>> class Halving(LRScheduler):
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
        _check_optimizer(optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", _copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler with "
                    f"last_epoch={last_epoch}: load the optimizer's state first, or start with last_epoch=-1"
                )
        self.base_lrs = self._in_groups("initial_lr")
        self.last_epoch = last_epoch
        if not optimizer._scheduled:
            optimizer._scheduled, optimizer._opt_called = True, False
        self._step_count = 0
        self._is_initial = True
        self.step()
        self._is_initial = False

    def get_lr(self) -> list[Any]:
        """The rates for `last_epoch`, by group."""
        raise NotImplementedError(f"{type(self).__name__} must define get_lr")

    def get_last_lr(self) -> list[Any]:
        """The rates that were set last, by group."""
        return self._last_lr

    def step(self, epoch: int | None = None) -> None:
        """Go on by one epoch and set its rates. Call it after `optimizer.step()`: the other order warns.

        epoch: deprecated; go to that epoch instead.
        """
        if self._step_count == 1 and not self.optimizer._opt_called:
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`: call `optimizer.step()` first, else "
                "the first value of the learning rate schedule is skipped",
                UserWarning,
                stacklevel=2,
            )
        self._step_count += 1
        if epoch is not None:
            warnings.warn(
                "The epoch parameter in `scheduler.step()` is deprecated: call it without, once an epoch",
                UserWarning,
                stacklevel=2,
            )
        self._get_lr_called_within_step = True
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        closed_form = getattr(self, "_get_closed_form_lr", self.get_lr)
        values = self.get_lr() if epoch is None else closed_form()
        self._get_lr_called_within_step = False
        for group, value in zip(self.optimizer.param_groups, values, strict=True):
            _set(group, "lr", value)
        self._last_lr = self._in_groups("lr")

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {name: value for name, value in vars(self).items() if name not in self._not_saved}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave. The optimizer's own state holds the rates in force: load that too."""
        vars(self).update(state_dict)

    def _in_groups(self, name: str) -> list[Any]:
        return [_copied(group[name]) for group in self.optimizer.param_groups]

    def _warn_outside_step(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
                UserWarning,
                stacklevel=3,
            )


class LambdaLR(LRScheduler):
    """The initial rate times `lr_lambda(epoch)`; one function, or one for each group (ValueError if too few or many).

    A function's state is saved only if it is an object of a class with `__call__`.

    >>> import tdt
    >>> optimizer = tdt.optim.SGD([tdt.zeros(1, requires_grad=True)], lr=1.0)
    >>> LambdaLR(optimizer, lambda epoch: 1 / (epoch + 1)).get_last_lr()
    [1.0]
    """

    _not_saved = ("optimizer", "lr_lambdas")

    def __init__(self, optimizer: Optimizer, lr_lambda: Lambda | Sequence[Lambda], last_epoch: int = -1) -> None:
        self.lr_lambdas = _per_group(optimizer, lr_lambda, "lr_lambdas")
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
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


class StepLR(LRScheduler):
    """The rate times `gamma` after every `step_size` epochs.

    >>> import tdt
    >>> optimizer = tdt.optim.SGD([tdt.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = StepLR(optimizer, step_size=2, gamma=0.5)
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

    def get_lr(self) -> list[Any]:
        """The rates for `last_epoch`, by group."""
        self._warn_outside_step()
        if self.last_epoch == 0 or self.last_epoch % self.step_size != 0:
            return self._in_groups("lr")
        return [group["lr"] * self.gamma for group in self.optimizer.param_groups]

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """From the initial rate to `eta_min` in `T_max` epochs along half a cosine (Loshchilov and Hutter, 2017), and on.

    It does not restart: after `T_max` epochs the rate climbs back along the cosine.

    >>> import tdt
    >>> optimizer = tdt.optim.SGD([tdt.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = CosineAnnealingLR(optimizer, T_max=2)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> round(scheduler.get_last_lr()[0], 6)
    0.5
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:  # noqa: N803
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
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

    def _get_closed_form_lr(self) -> list[Any]:
        low = self.eta_min
        return [
            low + (base - low) * (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2 for base in self.base_lrs
        ]


class OneCycleLR(LRScheduler):
    """One rise to `max_lr` and one fall, step by step (Smith and Topin, 2018); momentum the other way round.

    The rate starts at `max_lr / div_factor`, is at `max_lr` after the fraction `pct_start` of `total_steps` (or
    `epochs * steps_per_epoch`) and ends at the start over `final_div_factor`; with `three_phase` it is back at the
    start in between. anneal_strategy: "cos" or "linear". With `cycle_momentum` the momentum (Adam: β₁) runs from
    `max_momentum` down to `base_momentum` and back; ValueError if the optimizer has neither.
    Call `step` after each batch; a step beyond the last raises ValueError.

    >>> import tdt
    >>> optimizer = tdt.optim.SGD([tdt.zeros(1, requires_grad=True)], lr=0.1, momentum=0.9)
    >>> [round(lr, 4) for lr in OneCycleLR(optimizer, max_lr=1.0, total_steps=10).get_last_lr()]
    [0.04]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        _check_optimizer(optimizer)
        self.total_steps = _total_steps(total_steps, epochs, steps_per_epoch)
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in _ANNEAL:
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._anneal_func_type = anneal_strategy
        self._schedule_phases = _phases(self.total_steps, pct_start, three_phase)
        self.cycle_momentum = cycle_momentum
        peaks = _per_group(optimizer, max_lr, "max_lr")
        if last_epoch == -1:
            for group, peak in zip(optimizer.param_groups, peaks, strict=True):
                start = peak / div_factor
                group.update(initial_lr=start, max_lr=peak, min_lr=start / final_div_factor)
        if cycle_momentum:
            self._start_momentum(optimizer, max_momentum, base_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    def _start_momentum(self, optimizer: Optimizer, most: Any, least: Any, last_epoch: int) -> None:
        if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.use_beta1 = "betas" in optimizer.defaults
        highs, lows = _per_group(optimizer, most, "max_momentum"), _per_group(optimizer, least, "base_momentum")
        if last_epoch == -1:
            for group, high, low in zip(optimizer.param_groups, highs, lows, strict=True):
                self._set_momentum(group, high)
                group.update(max_momentum=high, base_momentum=low)

    def _set_momentum(self, group: dict[str, Any], value: float) -> None:
        if self.use_beta1:
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value

    def get_lr(self) -> list[Any]:
        """The rates for `last_epoch`, by group; sets the momentum too."""
        self._warn_outside_step()
        t = self.last_epoch
        if t > self.total_steps:
            raise ValueError(f"Tried to step {t} times. The specified number of total steps is {self.total_steps}")
        anneal, start = _ANNEAL[self._anneal_func_type], 0.0
        for phase in self._schedule_phases:
            if t <= phase["end_step"] or phase is self._schedule_phases[-1]:
                break
            start = phase["end_step"]
        done = (t - start) / (phase["end_step"] - start)
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(anneal(group[phase["start_lr"]], group[phase["end_lr"]], done))
            if self.cycle_momentum:
                self._set_momentum(group, anneal(group[phase["start_momentum"]], group[phase["end_momentum"]], done))
        return rates


def _cosine(start: Any, end: Any, done: float) -> Any:
    return end + (start - end) / 2.0 * (math.cos(math.pi * done) + 1)


def _linear(start: Any, end: Any, done: float) -> Any:
    return (end - start) * done + start


_ANNEAL = {"cos": _cosine, "linear": _linear}


def _phases(total: int, rising: float, three: bool) -> list[dict[str, Any]]:
    """From where to where rate and momentum go, and the step at which each phase ends."""

    def phase(end: float, rates: tuple[str, str], momenta: tuple[str, str]) -> dict[str, Any]:
        return {
            "end_step": end, "start_lr": rates[0], "end_lr": rates[1],
            "start_momentum": momenta[0], "end_momentum": momenta[1],
        }  # fmt: skip

    up = phase(float(rising * total) - 1, ("initial_lr", "max_lr"), ("max_momentum", "base_momentum"))
    if not three:
        return [up, phase(total - 1, ("max_lr", "min_lr"), ("base_momentum", "max_momentum"))]
    down = phase(float(2 * rising * total) - 2, ("max_lr", "initial_lr"), ("base_momentum", "max_momentum"))
    return [up, down, phase(total - 1, ("initial_lr", "min_lr"), ("max_momentum", "max_momentum"))]


def _total_steps(total: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
    """The number of steps, given or as a product. ValueError for anything but positive integers."""
    given = {"total_steps": total} if total is not None else {"epochs": epochs, "steps_per_epoch": steps_per_epoch}
    if None in given.values():
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    for name, value in given.items():
        if not isinstance(value, int) or value <= 0:
            raise ValueError(f"Expected positive integer {name}, but got {value}")
    return math.prod(value or 0 for value in given.values())


def _per_group(optimizer: Optimizer, value: Any, name: str) -> list[Any]:
    """A value for each group: the same for all, or the items of a list of that length (ValueError otherwise)."""
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [value] * count
    if len(value) != count:
        raise ValueError(f"Expected {count} {name}, but got {len(value)}: one for each parameter group")
    return list(value)


def _check_optimizer(optimizer: Any) -> None:
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def _copied(value: Any) -> Any:
    """A number as it is; a tensor as a copy, so that writing to it changes no group."""
    return wrap(value._a.copy()) if isinstance(value, Tensor) else value


def _set(group: dict[str, Any], name: str, value: Any) -> None:
    """Set an option; one that is a tensor is written to, so that whoever holds it sees the new value."""
    if isinstance(group[name], Tensor):
        group[name]._a[...] = number(value)
        group[name]._st.version += 1
    else:
        group[name] = value
