"""Settings that may change when a run is resumed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tdt._did_you_mean import did_you_mean
from tdt.train.config import Config
from tdt.train.config.sections import Top

ALLOWED = (
    "device", "train.epochs", "train.steps", "train.time", "train.early_stopping.patience", "checkpoint.every",
    "checkpoint.keep", "log", "data.eval_loader",
)  # fmt: skip
_REASONS = {
    "name": "the run has its name",
    "seed": "it stands behind all that was drawn so far",
    "data": "the epoch at work goes on with the same batches",
    "dtype": "the run has weights",
    "model": "the weights are this model's",
    "optimizer": "its state is that of the steps so far",
    "scheduler": "its state is that of the steps so far",
    "weights": "the run has weights",
    "init": "the run has weights",
    "checkpoint.best": "the best so far is one by another score",
}
_OTHER = "the run would not end as if it had not been stopped"


def refused(overrides: Sequence[str]) -> list[str]:
    """The overrides `key=value` that a resumed run cannot take, each with the reason.

    >>> refused(["train.epochs=9", "optimizer.lr=0.1"])
    ['optimizer.lr=0.1: its state is that of the steps so far']
    >>> refused(["train.epochz=9"])
    ["train.epochz=9: no setting is called so; did you mean 'train.epochs'?"]
    """
    found = []
    for text in overrides:
        key = text.partition("=")[0].strip()
        if not _below(key, ALLOWED):
            why = next((reason for name, reason in _REASONS.items() if _below(key, (name,))), _OTHER)
            found.append(f"{text}: {_misspelt(key) or why}")
    return found


def _misspelt(key: str) -> str | None:
    """What is wrong with a key that no config has."""
    known = list(Top.model_fields)
    for name in ("train", "checkpoint", "data"):
        section = Top.model_fields[name].annotation
        known += [f"{name}.{field.alias or inner}" for inner, field in getattr(section, "model_fields", {}).items()]
    head = ".".join(key.split(".")[: 2 if key.startswith(("train.", "checkpoint.", "data.")) else 1])
    if head in known:
        return None
    return "; ".join(filter(None, ["no setting is called so", did_you_mean(head, known)]))


def _below(key: str, names: Sequence[str]) -> bool:
    return any(key == name or key.startswith(f"{name}.") for name in names)


def differences(before: Config, after: Config) -> list[str]:
    """A line for each setting that is another one: `train.epochs: 3 → 5`."""
    then, now = dict(_settings(before)), dict(_settings(after))
    shown = {key: (then.get(key), now.get(key)) for key in [*then, *(key for key in now if key not in then)]}
    return [f"{key}: {_text(a)} → {_text(b)}" for key, (a, b) in shown.items() if a != b]


def _settings(config: Config) -> Iterator[tuple[str, Any]]:
    sections = {"train": config.train, "checkpoint": config.checkpoint, "log": config.log}
    sections["data.eval_loader"] = config.data.eval_loader
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
