"""Checks of `train` and `checkpoint` against the rest: the run ends, scores exist, all settings have an effect."""

from __future__ import annotations

from tdt.train.config import registry
from tdt.train.config.components import add_unknown_name
from tdt.train.config.config import SPLITS, SchedulerConfig
from tdt.train.config.errors import ConfigErrors
from tdt.train.config.nodes import Mapping, Node, at, child
from tdt.train.config.sections import Section, Top
from tdt.train.config.source import Source


def check_training(
    top: Top, root: Mapping, measured: list[str], scheduler: SchedulerConfig | None, errors: ConfigErrors
) -> None:
    """Add mistakes in `train` and `checkpoint` to `errors` that concern several settings.

    measured: the names of losses and metrics.
    """
    train, section = top.train, at(root, "train")
    if train.epochs is None and train.steps is None and train.time is None:
        message = "is missing; a run needs a number of epochs or steps, or a time limit"
        empty = next(
            (node.where for key in ("epochs", "steps", "time") if (node := child(section, key)) is not None), None
        )
        errors.add(empty or section.key_source or section.source, message, kind="missing", key="train.epochs")
    if top.checkpoint.best is not None:
        where = at(root, "checkpoint", "best").where
        _check_score(top.checkpoint.best, where, "checkpoint.best", top, measured, errors)
    if top.sweep is not None:
        _check_score(top.sweep.metric, at(root, "sweep", "metric").where, "sweep.metric", top, measured, errors)
    if scheduler is not None and isinstance(scheduler.monitor, str) and scheduler.monitored_at is not None:
        _check_score(scheduler.monitor, scheduler.monitored_at, "scheduler.monitor", top, measured, errors)
    if train.early_stopping is not None:
        metric = train.early_stopping.metric
        if metric is not None:
            where = at(section, "early_stopping", "metric").where
            _check_score(metric, where, "train.early_stopping.metric", top, measured, errors)
        elif top.data.valid is None and top.checkpoint.best is None:
            message = "there is no valid split to evaluate; add data.valid, or metric: train/loss"
            errors.add(at(section, "early_stopping").where, message, kind="unused", key="train.early_stopping")
    if train.swa is not None and train.ema is not None:
        message = "the weights have one average; remove train.ema or this"
        errors.add(at(section, "swa").where, message, key="train.swa")
    if train.swa is not None and train.epochs is not None and train.swa.start >= train.epochs:
        message = f"the average begins after epoch {train.swa.start}, but the run has {train.epochs}; lower swa.start"
        errors.add(at(section, "swa").where, message, kind="unused", key="train.swa")
    if train.amp is not None and top.dtype != "float32":
        message = f"mixed precision computes in {train.amp} and float32, but dtype is {top.dtype}; remove one of them"
        errors.add(at(section, "amp").where, message, key="train.amp")
    _check_used(top, section, errors)


def _check_used(top: Top, section: Node, errors: ConfigErrors) -> None:
    """Report settings that have no effect. Defaults may be written, as in the config that a run keeps."""
    train = top.train
    unused: list[tuple[Section, str, tuple[str, ...], str]] = []
    if top.data.valid is None:
        unused += [(train, "validate_every", ("validate",), "there is no valid split")]
    if train.freeze is None:
        unused += [(train, "freeze_statistics", ("freeze_statistics",), "nothing is frozen")]
    if train.swa is not None and train.swa.lr is None:
        names = ("anneal_epochs", "anneal_strategy")
        unused += [(train.swa, name, ("swa", name), "there is no swa.lr to anneal to") for name in names]
    for settings, name, path, why in unused:
        if getattr(settings, name) != type(settings).model_fields[name].default:
            node = at(section, *path)
            key = ".".join(("train", *path))
            errors.add(node.key_source or node.source, f"is not used: {why}", kind="unused", key=key)


def _check_score(score: str, where: Source, key: str, top: Top, measured: list[str], errors: ConfigErrors) -> None:
    """Report a score that is not computed, or of a split that must not choose the model."""
    split, slash, metric = score.partition("/")
    if not slash or split not in SPLITS:
        suggestion = registry.closest(score, [f"valid/{m}" for m in measured])
        errors.add(where, f"expected split/metric, got {score!r}", suggestion, key=key)
    elif split == "test":
        errors.add(where, "the test split must not choose the model; use the valid split", f"valid/{metric}", key=key)
    elif getattr(top.data, split) is None:
        errors.add(where, f"there is no {split} split; add data.{split} or remove this", kind="unused", key=key)
    elif metric not in measured and registry.metrics.find(metric) is None:
        if near := registry.closest(metric, measured):
            errors.add(where, f"no metric is called {metric!r}", near, kind="unknown-name", key=key)
        else:
            add_unknown_name(where, key, metric, registry.metrics, errors)
    elif metric not in measured and not any(problem.key.startswith("metrics") for problem in errors.problems):
        errors.add(where, f"{metric} is not measured; add it to metrics", kind="unused", key=key)
