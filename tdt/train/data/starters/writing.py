"""The text of a config that `tdt init` writes."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tdt.train._printable import printable
from tdt.train.config.find import SCHEMA, SCHEMA_LINE
from tdt.train.data.datasets._columns import KINDS

OF_SPLIT = ("split", "valid", "test", "stratify")  # arguments of a dataset that `data.split` sets
PLAIN = frozenset(
    {"type", "split", "target_type", "missing_target", "damaged"}
)  # arguments whose values are plain words
YAML_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "nan", "inf"})  # in some version of YAML
SKEWED = 0.4  # a class is rare if its share is below this part of an equal share: of two classes below 20 %


class UnsupportedDataError(ValueError):
    """No config can be written for these data, or for this name."""


def sequential(layers: list[str], about: str = "LazyLinear finds its input size itself") -> list[str]:
    """The lines of `model:` as a list of layers."""
    return [f"model:                  # a list is Sequential(...); {about}", *(f"  - {layer}" for layer in layers)]


@dataclass
class Tail:
    """The lines of a config on loss and metrics, and settings of its section `train`."""

    lines: list[str]
    train: list[str] = field(default_factory=list)


def config_text(
    file: Path,
    report: list[str],
    splits: dict[str, dict[str, Any]],
    transform: list[str],
    n: int,
    model: list[str],
    tail: Tail,
) -> str:
    """A config for `n` training rows or images, with what was found in the data as comments at its head.

    splits: the dataset of each, as a mapping.
    """
    lines = [f"{SCHEMA_LINE}{SCHEMA}", *(f"# {printable(line)}" for line in report)]
    lines += [
        "#",
        f"#   tdt train {shlex.quote(str(file))}",
        "",
        f"name: {run_name(file)}",
        "seed: 0                # the same seed gives the same run",
    ]
    lines += ["", "data:", *(f"  {name}: {flow(settings)}" for name, settings in _divided(splits).items())]
    if "valid" not in splits:
        lines.append("  # valid: the same for rows or images kept apart, which choose the best checkpoint")
    if transform:
        lines += [
            f"  transform: [{', '.join(transform)}]",
            "  # augment: [RandomHorizontalFlip]     # of the training images alone",
        ]
    lines += [f"  loader: {{batch_size: {_batch_size(n)}}}", "", *model]
    epochs = _epochs(n)
    train = [f"epochs: {epochs}", *([f"early_stopping: {_patience(epochs)}"] if "valid" in splits else []), *tail.train]
    lines += ["", *tail.lines, "", "optimizer: Adam(lr=1e-3)", f"train: {{{', '.join(train)}}}"]
    if "valid" in splits:  # of few samples many have the same accuracy
        lines.append("checkpoint: {best: valid/loss}     # which weights the test and tdt predict take")
    return "\n".join(lines) + "\n"


def _divided(splits: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The datasets as `dataset` and `split`, if they are the parts of one; else as they are."""
    whole, *others = [{key: value for key, value in one.items() if key not in OF_SPLIT} for one in splits.values()]
    if not others or any(other != whole for other in others):
        return splits
    return {"dataset": whole, "split": {key: splits["train"][key] for key in OF_SPLIT[1:] if splits["train"].get(key)}}


def class_loss(counts: Counter[str], in_training: bool = True) -> Tail:
    """For a class per sample. in_training: whether every class occurs in the training rows."""
    n = len(counts)
    metrics = ["accuracy"] if n < 10 else ["accuracy", '"top_k(k=5)"']
    skewed = min(counts.values()) < SKEWED / n * counts.total()
    if skewed:
        metrics += ["f1", "auroc"]
    loss = ["loss: CrossEntropyLoss", f"metrics: [{', '.join(metrics)}]"]
    if skewed:
        loss.append("# classes are skewed: accuracy alone says little; class_weights makes each class count the same")
    return Tail(loss, ["class_weights: balanced"] if skewed and in_training else [])


def flow(settings: dict[str, Any]) -> str:
    """A mapping on one line, with strings quoted as in JSON if YAML could read them as another type."""
    shown = (f"{key}: {value if key in PLAIN else _quoted(value)}" for key, value in settings.items())
    return "{" + ", ".join(shown) + "}"


def _quoted(value: Any, kinds: bool = False) -> str:
    if isinstance(value, dict):  # columns: their names may be anything, their types are plain words
        return "{" + ", ".join(f"{_key(name)}: {_quoted(one, kinds=True)}" for name, one in value.items()) + "}"
    if kinds and value in KINDS:
        return str(value)
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() else json.dumps(value)


def _key(name: str) -> str:
    is_plain = re.fullmatch(r"[a-zA-Z]\w*", name, re.ASCII) and len(name) > 1 and name.lower() not in YAML_WORDS
    return name if is_plain else _quoted(name)


def relative(path: Path, file: Path) -> str:
    """The path relative to the config's folder."""
    return str(path) if path.is_absolute() else Path(os.path.relpath(path, file.parent)).as_posix()


def run_name(file: Path) -> str:
    """The stem of the file as the name of runs."""
    return "".join(c if c.isalnum() or c in "_.-" else "-" for c in file.stem).strip("-.") or "run"


def _batch_size(n: int) -> int:
    return next(size for size in (64, 32, 16, 8, 4) if size <= max(n // 10, 4))


def _patience(epochs: int) -> int:
    return max(epochs // 5, 2)


def _epochs(n: int) -> int:
    return 50 if n < 2_000 else 20 if n < 50_000 else 5
