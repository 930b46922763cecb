"""Settings that may change when a run is resumed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tdt._did_you_mean import did_you_mean
from tdt.train.config import Config
from tdt.train.config.sections import Top

ALLOWED = (
    "device", "train.epochs", "train.steps", "train.time", "train.early_stopping.patience", "train.stall_timeout",
    "train.shard_optimizer", "train.compile", "checkpoint.every", "checkpoint.keep", "log", "data.eval_loader",
    "data.loader.num_workers", "data.loader.prefetch_factor", "data.loader.timeout",
)  # fmt: skip
_REASONS = {
    "data.loader.num_workers": "with train.shards: 1 the batches draw from each worker's generators",
    "name": "the run already has its name",
    "seed": "random numbers were drawn with the old one",
    "data": "the current epoch continues with the same batches",
    "dtype": "the weights have the old one",
    "model": "the weights belong to the old one",
    "optimizer": "its state was accumulated with the old value",
    "scheduler": "its state was accumulated with the old value",
    "weights": "the run is already initialised",
    "init": "the run is already initialised",
    "checkpoint.best": "the best score so far is of another metric",
}
_OTHER = "the result would differ from that of an uninterrupted run"


def refused(overrides: Sequence[str], sharded: bool = True) -> list[str]:
    """The overrides `key=value` that must not change on resume, each with the reason.

    sharded: whether the run has more than one shard, whose random numbers do not depend on the loader's workers.

    >>> from tdt.train.checks.resuming import refused
    >>> refused(["train.epochs=9", "optimizer.lr=0.1"])
    ['optimizer.lr=0.1: cannot change on resume: its state was accumulated with the old value']
    >>> refused(["train.epochz=9"])
    ["train.epochz=9: no such setting; did you mean 'train.epochs'?"]
    """
    found = []
    for text in overrides:
        key = text.partition("=")[0].strip()
        if not _below(key, ALLOWED) or (key == "data.loader.num_workers" and not sharded):
            why = next((reason for name, reason in _REASONS.items() if _below(key, (name,))), _OTHER)
            found.append(f"{text}: {_misspelt(key) or f'cannot change on resume: {why}'}")
    return found


def _misspelt(key: str) -> str | None:
    """The message for a key that configs do not have; None for others."""
    known = list(Top.model_fields)
    for name in ("train", "checkpoint", "data"):
        section = Top.model_fields[name].annotation
        known += [f"{name}.{field.alias or inner}" for inner, field in getattr(section, "model_fields", {}).items()]
    head = ".".join(key.split(".")[: 2 if key.startswith(("train.", "checkpoint.", "data.")) else 1])
    if head in known:
        return None
    return "; ".join(filter(None, ["no such setting", did_you_mean(head, known)]))


def _below(key: str, names: Sequence[str]) -> bool:
    return any(key == name or key.startswith(f"{name}.") for name in names)


def differences(before: Config, after: Config) -> list[str]:
    """A line for each setting that has changed: `train.epochs: 3 → 5`."""
    then, now = dict(_settings(before)), dict(_settings(after))
    shown = {key: (then.get(key), now.get(key)) for key in [*then, *(key for key in now if key not in then)]}
    return [f"{key}: {_text(a)} → {_text(b)}" for key, (a, b) in shown.items() if a != b]


def _settings(config: Config) -> Iterator[tuple[str, Any]]:
    sections = {"train": config.train, "checkpoint": config.checkpoint, "log": config.log}
    sections |= {"data.loader": config.data.loader, "data.eval_loader": config.data.eval_loader}
    yield "device", config.device
    for name, section in sections.items():
        yield from _flat(name, section.model_dump(by_alias=True, exclude_none=True))


def _flat(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, dict):
        yield path, value
        return
    for key, item in value.items():
        yield from _flat(f"{path}.{key}", item)


def _text(value: Any) -> str:
    return "not set" if value is None else str(value)
