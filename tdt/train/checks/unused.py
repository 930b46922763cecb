"""Settings that have no effect: reported as mistakes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tdt.optim.lr_scheduler import ReduceLROnPlateau
from tdt.train._printable import counted
from tdt.train.config import ConfigErrors, registry
from tdt.train.config.patterns import matching
from tdt.train.config.source import COMMAND_LINE
from tdt.train.model.scheduling import MOST_STEPS, trial_groups

if TYPE_CHECKING:
    from tdt.train.loop.parts import Parts


def check_used(parts: Parts, resumed: bool, errors: ConfigErrors) -> None:
    """Add settings that have no effect to `errors`.

    A setting that the run is too short for is a mistake only if the file sets the length: not if the command line makes
    the run short, nor in the config of a `resumed` run. Early stopping that a short run leaves no time for is a warning.
    """
    _check_init(parts, errors)
    _check_options(parts, errors)
    config = parts.config
    if config.train.reduce_dtype is not None and config.dtype == "float64":
        _add(errors, "train.reduce_dtype", "with dtype: float64 gradients stay float64; leave one of them out")
    length_overridden = any(config.source(f"train.{key}").file == COMMAND_LINE for key in ("epochs", "steps", "time"))
    if resumed or config.train.overfit is not None or errors:
        return
    if length_overridden:
        if parts.length.steps is not None:
            _check_patience(parts, parts.length.steps, errors.warn)
        return
    _check_accumulate(parts, errors)
    if parts.length.steps is not None and parts.length.epochs is not None:
        _check_warmup(parts, parts.length.steps, errors)
        _check_patience(parts, parts.length.steps, errors.add)
        _check_scheduler(parts, parts.length.steps, parts.length.epochs, errors)


def _add(errors: ConfigErrors, place: Any, message: str) -> None:
    errors.add(place, f"is not used: {message}", kind="unused")


def _check_init(parts: Parts, errors: ConfigErrors) -> None:
    """Report rules whose parameters are all initialised again by later rules."""
    names = [{name for name, _ in matching(parts.model, rule.params)} for rule in parts.config.init]
    for number, rule in enumerate(parts.config.init):
        later = set().union(*names[number + 1 :])
        if names[number] and names[number] <= later:
            _add(errors, rule, "later rules initialise the same parameters again; put it after them")


def _check_options(parts: Parts, errors: ConfigErrors) -> None:
    """Report options of the optimizer that every parameter group overrides."""
    optimizer = parts.config.optimizer
    at_work = {number for _, number in parts.groups}
    if not at_work or 0 in at_work:
        return
    for name in optimizer.component.kwargs:
        if all(name in optimizer.param_groups[number - 1].options for number in at_work):
            _add(errors, f"optimizer.{name}", "the param_groups contain every parameter, and each sets it")


def _check_accumulate(parts: Parts, errors: ConfigErrors) -> None:
    accumulate, batches = parts.config.train.accumulate, parts.length.batches
    if accumulate > batches:
        errors.add(
            "train.accumulate",
            f"a step takes {counted(accumulate, 'batch', 'batches')}, but an epoch has {batches}",
            kind="unused",
        )


def _check_warmup(parts: Parts, steps: int, errors: ConfigErrors) -> None:
    warmup = parts.config.train.warmup
    if warmup is not None:
        needed = warmup.count * (parts.length.steps_per_epoch if warmup.unit == "epoch" else 1)
        if needed > steps:
            message = f"the learning rate rises over {counted(needed, 'step')}, but the run has {steps}"
            errors.add("train.warmup", message, kind="unused")


def _validations(parts: Parts, steps: int) -> int:
    """Number of validations of the run, with the last one."""
    every = parts.config.train.validate_every
    return -(-steps // (every.count * (parts.length.steps_per_epoch if every.unit == "epoch" else 1)))


def _check_patience(parts: Parts, steps: int, report: Callable[..., None]) -> None:
    stopping = parts.config.train.early_stopping
    if stopping is not None:
        validations = _validations(parts, steps)
        if stopping.patience >= validations:
            patience = counted(stopping.patience, "validation")
            message = f"waits for {patience} without a better score, but the run has {validations}"
            report("train.early_stopping", message, kind="unused")


def _check_scheduler(parts: Parts, steps: int, epochs: int, errors: ConfigErrors) -> None:
    """Report a scheduler that changes no learning rate during the run. Tries it on one parameter per group."""
    config, swa = parts.config.scheduler, parts.config.train.swa
    if config is None:
        return
    count, unit = (steps, "step") if config.interval == "step" else (epochs, "epoch")
    if swa is not None and swa.lr is not None and swa.start == 0 and unit == "epoch":
        _add(errors, config.component, "train.swa sets the learning rate from the first epoch on")
    elif isinstance(parts.scheduler, ReduceLROnPlateau):
        scores = epochs if (config.monitor or "").startswith("train/") else _validations(parts, steps)
        if parts.scheduler.patience + 2 >= scores:
            waits = f"waits for more than {parts.scheduler.patience} scores that are no better"
            _add(errors, config.component, f"{waits}, but the run has {scores}")
    elif count <= MOST_STEPS:
        optimizer = registry.optimizers.create(parts.config.optimizer.component, trial_groups(parts))
        before = [group["lr"] for group in optimizer.param_groups]
        scheduler = registry.schedulers.create(config.component, optimizer)
        optimizer.step()
        for _ in range(count):
            if [group["lr"] for group in optimizer.param_groups] != before:
                break
            scheduler.step()
        else:
            _add(errors, config.component, f"in the run's {counted(count, unit)} it changes no learning rate")
