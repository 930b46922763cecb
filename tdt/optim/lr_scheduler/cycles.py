"""Schedules that move rate and momentum against each other, step by step."""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from typing import Any

from tdt._core.tensor import Tensor
from tdt.optim.lr_scheduler._base import LRScheduler, check_optimizer, per_group, set_lr
from tdt.optim.optimizer import Optimizer


class _Cycle(LRScheduler):
    """A schedule that may cycle the momentum, or Adam's β₁, too."""

    def _start_momentum(self, optimizer: Optimizer, least: Any, most: Any, last_epoch: int) -> tuple[list, list]:
        """Note the bounds in each group and start from the upper ones; returns both, by group."""
        if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.use_beta1 = "betas" in optimizer.defaults
        highs, lows = per_group(optimizer, most, "max_momentum"), per_group(optimizer, least, "base_momentum")
        if last_epoch == -1:
            for group, high, low in zip(optimizer.param_groups, highs, lows, strict=True):
                self._set_momentum(group, high)
                group.update(max_momentum=high, base_momentum=low)
        return lows, highs

    def _set_momentum(self, group: dict[str, Any], value: float) -> None:
        if self.use_beta1:
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value


class CyclicLR(_Cycle):
    """Learning rate that rises from `base_lr` to `max_lr` and falls back, in cycles; call `step` after each batch.

    Args:
        step_size_up, step_size_down: numbers of steps of a rise and of a fall; None for as many.
        mode: "triangular"; "triangular2", which halves the height with each cycle; "exp_range", which multiplies it by
            `gamma` with each step.
        scale_fn: factor of the height in the place of `mode`, a function of the number of the cycle, from 1, or with
            scale_mode="iterations" of the step.
        cycle_momentum: move the momentum (Adam: β₁) from `max_momentum` down to `base_momentum` and back.
    Raises:
        ValueError: when `mode` is unknown, or `cycle_momentum` is set and the optimizer has neither momentum nor betas.
    Source: Smith, "Cyclical Learning Rates for Training Neural Networks", 2017.

    >>> import tdt
    >>> optimizer = tdt.optim.SGD([tdt.zeros(1, requires_grad=True)], momentum=0.9)
    >>> scheduler = tdt.optim.lr_scheduler.CyclicLR(optimizer, base_lr=0.0, max_lr=1.0, step_size_up=2)
    >>> rates = []
    >>> for batch in range(4):
    ...     optimizer.step()
    ...     scheduler.step()
    ...     rates += scheduler.get_last_lr()
    >>> rates
    [0.5, 1.0, 0.5, 0.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        base_lrs = per_group(optimizer, base_lr, "base_lr")
        if last_epoch == -1:
            for group, lr in zip(optimizer.param_groups, base_lrs, strict=True):
                set_lr(group, lr)
        self.max_lrs = per_group(optimizer, max_lr, "max_lr")
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        if mode not in _SCALES and scale_fn is None:
            raise ValueError(
                f"mode is invalid and scale_fn is None: mode={mode!r}, expected one of {', '.join(_SCALES)}"
            )
        self.mode, self.gamma, self._scale_fn_custom = mode, gamma, scale_fn
        self.scale_mode = scale_mode if scale_fn is not None else _SCALES[mode][0]
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            bounds = self._start_momentum(optimizer, base_momentum, max_momentum, last_epoch)
            self.base_momentums, self.max_momentums = bounds
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """The part of the height that cycle, or step, `x` has."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        return _SCALES[self.mode][1](x, self.gamma)

    def get_lr(self) -> list[float | Tensor]:
        """The rates for step `last_epoch`, by group; sets the momentum too."""
        self._warn_outside_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            bounds = zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True)
            for group, low, high in bounds:
                self._set_momentum(group, high - (high - low) * height * scale)
        return [low + (high - low) * height * scale for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer; of a `scale_fn` that is an object, its attributes."""
        function = self._scale_fn_custom
        plain = function is None or isinstance(function, types.FunctionType)
        return {**super().state_dict(), "_scale_fn_custom": None if plain else dict(vars(function))}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        super().load_state_dict({**state_dict, "_scale_fn_custom": self._scale_fn_custom})
        own = state_dict["_scale_fn_custom"]
        if own is not None:
            vars(self._scale_fn_custom).update(own)


# For each mode: what the height depends on, and the part of it that is left.
_SCALES: dict[str, tuple[str, Callable[[float, float], float]]] = {
    "triangular": ("cycle", lambda x, gamma: 1.0),
    "triangular2": ("cycle", lambda x, gamma: 1 / 2.0 ** (x - 1)),
    "exp_range": ("iterations", lambda x, gamma: gamma**x),
}


class OneCycleLR(_Cycle):
    """Learning rate of one rise to `max_lr` and one fall, momentum the other way round; call `step` after each batch.

    It starts at max_lr / div_factor and ends at that over `final_div_factor`. A step beyond the last raises ValueError.

    Args:
        total_steps: number of steps; None stands for epochs · steps_per_epoch.
        pct_start: fraction of the steps that the rise takes.
        anneal_strategy: "cos" or "linear".
        cycle_momentum: move the momentum (Adam: β₁) from `max_momentum` down to `base_momentum` and back.
        three_phase: return to the start's learning rate before the last fall.
    Raises:
        ValueError: when the number of steps is not given or not positive, `pct_start` or `anneal_strategy` is another,
            or
            `cycle_momentum` is set and the optimizer has neither momentum nor betas.
    Source: Smith and Topin, "Super-Convergence: Very Fast Training Using Large Learning Rates", 2018.

    >>> import tdt
    >>> from tdt.optim import lr_scheduler
    >>> optimizer = tdt.optim.SGD([tdt.zeros(1, requires_grad=True)], lr=0.1, momentum=0.9)
    >>> [round(lr, 4) for lr in lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=10).get_last_lr()]
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
        check_optimizer(optimizer)
        self.total_steps = _total_steps(total_steps, epochs, steps_per_epoch)
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in _ANNEAL:
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._anneal_func_type = anneal_strategy
        self._schedule_phases = _phases(self.total_steps, pct_start, three_phase)
        self.cycle_momentum = cycle_momentum
        peaks = per_group(optimizer, max_lr, "max_lr")
        if last_epoch == -1:
            for group, peak in zip(optimizer.param_groups, peaks, strict=True):
                start = peak / div_factor
                group.update(initial_lr=start, max_lr=peak, min_lr=start / final_div_factor)
        if cycle_momentum:
            self._start_momentum(optimizer, base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """Learning rate of each group for `last_epoch`; sets the momentum too.

        Raises:
            ValueError: when more than `total_steps` steps were taken.
        """
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
    arguments = {"total_steps": total} if total is not None else {"epochs": epochs, "steps_per_epoch": steps_per_epoch}
    if None in arguments.values():
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    for name, value in arguments.items():
        if not isinstance(value, int) or value <= 0:
            raise ValueError(f"Expected positive integer {name}, but got {value}")
    return math.prod(value or 0 for value in arguments.values())
