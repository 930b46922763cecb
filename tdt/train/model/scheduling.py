"""Build the learning-rate scheduler, try it on a dummy optimizer, and compare it with the run's length."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tdt
from tdt import nn
from tdt.optim.lr_scheduler import (
    ChainedScheduler,
    CosineAnnealingLR,
    LRScheduler,
    OneCycleLR,
    ReduceLROnPlateau,
    SequentialLR,
)
from tdt.optim.optimizer import Optimizer
from tdt.train._printable import counted
from tdt.train.config import Component, ConfigErrors, registry
from tdt.train.model.from_config import CONSTRUCTOR_ERRORS, create

if TYPE_CHECKING:
    from tdt.train.loop.parts import Parts

MOST_STEPS = 20_000  # scheduler steps that are tried
COMBINED = ("SequentialLR", "ChainedScheduler")


def build_scheduler(parts: Parts, errors: ConfigErrors, resumed: bool = False) -> Any:
    """The scheduler of `parts.optimizer`; None without one in the config, or after reporting mistakes.

    Warns of a schedule whose period is not the run's length, or with a learning rate of 0.
    resumed: the config is that of a resumed run, whose scheduler cannot change: messages advise a new run.
    """
    config = parts.config
    if config.scheduler is None or not _sequences_can_start(config.scheduler.component, errors):
        return None
    zeros = _try_steps(parts, errors, resumed)
    if zeros is None:
        return None
    scheduler = create(registry.schedulers, config.scheduler.component, errors, parts.optimizer)
    if scheduler is not None:
        _check_mode(parts, scheduler, errors)
        if not _check_periods(parts, scheduler, errors, resumed):
            _check_zeros(parts, zeros, errors, resumed)
    return scheduler


def chained(optimizer: Optimizer, schedulers: list[LRScheduler]) -> ChainedScheduler:
    """A ChainedScheduler as configs declare it: each scheduler computes its rate from that of the previous ones."""
    return ChainedScheduler(schedulers, optimizer)


def trial_groups(parts: Parts) -> list[dict[str, Any]]:
    """Parameter groups like those of `parts` with one number each, to try optimizers and schedulers on."""
    options = [{}, *(group.options for group in parts.config.optimizer.param_groups)]
    numbers = sorted({number for _, number in parts.groups})
    return [options[number] | {"params": [nn.Parameter(tdt.zeros(1))]} for number in numbers]


def _sequences_can_start(component: Component, errors: ConfigErrors) -> bool:
    """Whether every scheduler in a SequentialLR can start at a milestone: combined ones cannot, nor in PyTorch.

    Reports those that cannot.
    """
    valid = True
    parts = _parts_of(component)
    milestones = component.kwargs.get("milestones", component.args[1] if len(component.args) > 1 else ())
    for number, part in enumerate(parts):
        valid = _sequences_can_start(part, errors) and valid
        later = component.name == "SequentialLR" and 0 < number <= len(milestones) and milestones[number - 1] > 0
        if later and part.name in COMBINED:
            advice = (
                "write its schedulers and milestones into this list"
                if part.name == "SequentialLR"
                else "a ChainedScheduler can be the first of them alone"
            )
            message = f"a {part.name} cannot begin at a milestone of a SequentialLR (nor can it in PyTorch); {advice}"
            errors.add(part, message)
            valid = False
    return valid


def _parts_of(component: Component) -> list[Component]:
    """The schedulers inside one of `COMBINED`."""
    schedulers = component.kwargs.get("schedulers", component.args[0] if component.args else ())
    is_list = component.name in COMBINED and isinstance(schedulers, (list, tuple))
    return [part for part in schedulers if isinstance(part, Component)] if is_list else []


def _try_steps(parts: Parts, errors: ConfigErrors, resumed: bool) -> list[int] | None:
    """Run all steps of the scheduler on one number for each group, as some arguments fail only in a step (`StepLR(0)`).

    Returns:
        The steps (or epochs, by its interval), from 1, in which the scheduler sets a learning rate of 0; None after
        reporting a step that fails.
    """
    config = parts.config
    assert config.scheduler is not None
    optimizer = registry.optimizers.create(config.optimizer.component, trial_groups(parts))
    scheduler = create(registry.schedulers, config.scheduler.component, errors, optimizer)
    if scheduler is None or not _is_long_enough(parts, scheduler, errors, resumed):
        return None
    done, count, zeros = 0, min(_steps(parts) or 1, MOST_STEPS), []
    learns = any(group["lr"] for group in optimizer.param_groups)
    try:
        optimizer.step()
        if isinstance(scheduler, ReduceLROnPlateau):
            if config.scheduler.interval == "step":
                errors.add(config.scheduler.component, "needs the loss of whole epochs; write interval: epoch")
            return []
        while done < count:
            scheduler.step()
            done += 1
            if learns and done < count and not any(group["lr"] for group in optimizer.param_groups):
                zeros.append(done + 1)
    except CONSTRUCTOR_ERRORS as error:
        which = f"step {done + 1}" if done else "first step"
        errors.add(config.scheduler.component, f"its {which} fails: {error or type(error).__name__}")
        return None
    return zeros


def _steps(parts: Parts) -> int | None:
    """Number of scheduler steps in the run; None if unknown."""
    assert parts.config.scheduler is not None
    return parts.length.steps if parts.config.scheduler.interval == "step" else parts.length.epochs


def _is_long_enough(parts: Parts, scheduler: Any, errors: ConfigErrors, resumed: bool) -> bool:
    """Whether a scheduler with a fixed number of steps, such as OneCycleLR, has enough. Reports it if not."""
    config, count = parts.config.scheduler, _steps(parts)
    assert config is not None
    for component, part, start, end in _spans(config.component, scheduler, 0, count):
        total = getattr(part, "total_steps", None)
        if total is not None and end is not None and total < end - start:
            whole = f", or ${{run.{config.interval}s}}" if (start, end) == (0, count) else ""
            times = counted(end - start, "time")
            message = f"total_steps is {total}, but it is stepped {times}, once per {config.interval}"
            advice = _new_run(parts) if resumed else f"use total_steps={end - start}{whole}"
            errors.add(component, f"{message}; {advice}")
            return False
    return True


def _spans(
    component: Component, scheduler: Any, start: int, end: int | None
) -> Iterator[tuple[Component, Any, int, int | None]]:
    """The schedulers inside `scheduler` (or itself), each with its first step and the one after its last."""
    if not isinstance(scheduler, (SequentialLR, ChainedScheduler)):
        yield component, scheduler, start, end
        return
    bounds = [0, *scheduler._milestones] if isinstance(scheduler, SequentialLR) else []
    for number, (part, built) in enumerate(zip(_parts_of(component), scheduler._schedulers, strict=False)):
        first = start + bounds[number] if bounds else start
        ends = [x for x in (end, start + bounds[number + 1] if number + 1 < len(bounds) else None) if x is not None]
        last = min(ends, default=None)
        if last is None or first < last:
            yield from _spans(part, built, first, last)


def _new_run(parts: Parts) -> str:
    """The advice for a resumed run whose schedule does not fit."""
    run = Path(parts.config.file).parent
    return f"a resumed run keeps its schedule; for another one start a new run from its weights, weights.from={run}"


def _scheduled(parts: Parts) -> tuple[int, int] | None:
    """Number of steps (or epochs) in the run, and of those that the scheduler controls; None if unknown or irrelevant."""
    config, count, swa = parts.config.scheduler, _steps(parts), parts.config.train.swa
    if config is None or count is None or parts.config.train.overfit is not None:
        return None
    own = count
    if swa is not None and swa.lr is not None:  # SWALR takes over from there
        own = min(count, swa.start * (parts.length.steps_per_epoch if config.interval == "step" else 1))
    return count, own


def _check_periods(parts: Parts, scheduler: Any, errors: ConfigErrors, resumed: bool) -> bool:
    """Warn of a cosine or one-cycle schedule whose period is not the run's length. Returns whether there was one."""
    config, counts, warned = parts.config.scheduler, _scheduled(parts), len(errors.warnings)
    if config is None or counts is None:
        return False
    whole, count = counts
    for component, part, start, end in _spans(config.component, scheduler, 0, count):
        name = "T_max" if isinstance(part, CosineAnnealingLR) else "total_steps"
        period = getattr(part, name, None)
        if end is None or not isinstance(part, (CosineAnnealingLR, OneCycleLR)) or period is None:
            continue
        if period < end - start - 1:
            what = f"rises again from {config.interval} {start + period + 2} on"
        elif period > end - start and end == whole:
            what = f"is not at its minimum at the end, {config.interval} {end}"
        else:
            continue
        length = f"${{run.{config.interval}s}}" if (start, end) == (0, whole) else end - start
        lasts = f"the run has {counted(whole, config.interval)}" + (f", {end - start} of them with it" if start else "")
        message = f"{name} is {period}, but {lasts}: the learning rate {what}"
        errors.warn(component, f"{message}; {_new_run(parts) if resumed else f'write {name}={length}'}", kind="period")
    return len(errors.warnings) > warned


def _check_zeros(parts: Parts, zeros: list[int], errors: ConfigErrors, resumed: bool) -> None:
    """Warn of a learning rate of 0 for an epoch or longer. zeros: the steps with a rate of 0."""
    config, counts = parts.config.scheduler, _scheduled(parts)
    if config is None or counts is None:
        return
    zeros = [step for step in zeros if step <= counts[1]]
    if len(zeros) < (parts.length.steps_per_epoch if config.interval == "step" else 1):
        return
    unit = config.interval
    when = f"in {unit} {zeros[0]}" if len(zeros) == 1 else f"in {counted(len(zeros), unit)}, first in {unit} {zeros[0]}"
    message = f"the learning rate is 0 {when}, of {counts[0]}: nothing is learnt then"
    advice = _new_run(parts) if resumed else f"make the schedule as long as the run, ${{run.{unit}s}}"
    errors.warn(config.component, f"{message}; {advice}", kind="period")


def _check_mode(parts: Parts, scheduler: Any, errors: ConfigErrors) -> None:
    """Report a ReduceLROnPlateau whose mode does not match its score."""
    setting = parts.config.scheduler
    if isinstance(scheduler, ReduceLROnPlateau) and setting is not None and setting.monitor is not None:
        metric = setting.monitor.partition("/")[2]
        mode, better = ("max", "higher") if parts.higher_is_better(metric) else ("min", "lower")
        if scheduler.mode != mode:
            message = f"{setting.monitor} is better when {better}; write mode: {mode}"
            errors.add(setting.component, message)
