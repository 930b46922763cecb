"""Configs that `tdt init` writes: from a template, or for data."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tdt._did_you_mean import did_you_mean
from tdt.train._printable import counted, printable
from tdt.train.config.find import SCHEMA, SCHEMA_LINE, bundled, bundled_folder

TABLES = (".csv", ".tsv")
TARGETS = ("target", "label", "class", "y")  # usual names of the column to predict
SIDES = (128, 96, 64, 32)  # to which images of different sizes are resized
LOOKED_AT = 200  # images whose size is read
NAMED = 5  # unreadable files that a message lists


class UnsupportedDataError(ValueError):
    """No config can be written for these data, or for this name."""


def template(name: str, file: Path) -> str:
    """The text of the bundled config `name`, with `file` as its name."""
    known = bundled()
    if name not in known:
        meant = did_you_mean(name, known, f"templates: {', '.join(known)}")
        raise UnsupportedDataError(f"{name}: no such file or folder, and no template; {meant}")
    text = known[name].read_text(encoding="utf-8").replace(f"\nname: {name}", f"\nname: {_name(file)}", 1)
    for data in bundled_folder().glob("*.csv"):  # paths are relative to the config file, which moves
        text = text.replace(f"path: {data.name},", f"path: {json.dumps(str(data))},")
    return text.replace(f"tdt train {name}", f"tdt train {shlex.quote(str(file))}")


def templates() -> dict[str, str]:
    """The bundled configs: name → description from the first comment after the schema line."""
    texts = {
        name: path.read_text(encoding="utf-8").removeprefix(f"{SCHEMA_LINE}{SCHEMA}\n")
        for name, path in bundled().items()
    }
    return {
        name: re.split(r" \(|[:,.]? *\n|[:,.] ", text.removeprefix("# "), maxsplit=1)[0] for name, text in texts.items()
    }


def copy_schema(folder: Path) -> None:
    """Copy the schema, which the first line of a config names to editors, to a config's folder if there is none yet.

    That line has a path relative to the config, so that it also holds on another machine.
    """
    with suppress(FileExistsError), open(folder / SCHEMA, "xb") as new:
        new.write((bundled_folder() / SCHEMA).read_bytes())


def table(path: Path, file: Path, target: str | None = None) -> str:
    """A config that predicts the column `target` of a CSV or TSV file, by default one called as in TARGETS, or the last."""
    from tdt.train.data.datasets._columns import fit_target, is_missing
    from tdt.train.data.datasets.table import read_rows

    try:
        fields, lines = read_rows(path)
    except ValueError as error:
        raise UnsupportedDataError(str(error).removeprefix("Table: ")) from error
    if len(fields) < 2:
        raise UnsupportedDataError(f"{path} has one column, {next(iter(fields))}; there is nothing to predict it from")
    if target is None:
        target = next((name for name in fields if name.lower() in TARGETS), list(fields)[-1])
    if target not in fields:
        raise UnsupportedDataError(
            f"{path} has no column {target!r}; {did_you_mean(target, fields, ', '.join(fields))}"
        )
    missing = [int(line) for line, text in zip(lines, fields[target], strict=True) if is_missing(text)]
    if missing:
        where, which = f"{path}:{missing[0]}: {target}", "it" if len(missing) == 1 else "them"
        raise UnsupportedDataError(f"{where}, the target, is missing in {counted(len(missing), 'row')}; remove {which}")
    chosen = fit_target(target, fields[target], None, lines)
    described = {name: _column(texts, lines.tolist()) for name, texts in fields.items() if name != target}
    used = [name for name, (_, why) in described.items() if not why]
    if not used:
        raise UnsupportedDataError(
            f"{path}: no column is left to predict {target} from: each is the same, or another, in every row"
        )
    n = len(lines)
    if chosen.kind == "category" and len(chosen.categories) < 2:
        raise UnsupportedDataError(f"{path}: {target}, the target, is {fields[target][0]!r} in every row")
    tail = (
        _classes(len(chosen.categories))
        if chosen.kind == "category"
        else _values(statistics.fmean(filter(math.isfinite, map(float, fields[target]))))
    )
    rows = [f"  {name}: {what}{f'; left out: {why}' if why else ''}" for name, (what, why) in described.items()]
    counts = Counter(text.strip() for text in fields[target])
    rows.append(f"  {target}: the target, {_counted(counts) if chosen.kind == 'category' else _range(fields[target])}")
    shares = {"valid": 0.15, "test": 0.15} if n >= 20 else {"valid": 0.25, "test": 0.0} if n >= 4 else {}
    arguments: dict[str, Any] = {
        "type": "Table",
        "path": _relative(path, file),
        "target": target,
        "target_type": chosen.kind,
    }
    if len(used) < len(described):
        arguments["columns"] = used
    splits = {
        name: _flow(arguments | {"split": name, **shares}) for name in ("train", *(k for k, v in shares.items() if v))
    }
    return _config(
        file,
        [f"{path.name}: {counted(n, 'row')}", *rows, *_about_names(fields)],
        splits,
        [],
        n,
        ["LazyLinear(64)", "ReLU", "Linear(64, 64)", "ReLU", f"Linear(64, {len(chosen.categories) or 1})"],
        tail,
    )


def images(folder: Path, file: Path) -> str:
    """A config that classifies images in one folder per class.

    They may be below folders train, valid (or val) and test; missing splits are drawn from the training images of each
    class.
    """
    parts, found = _open_images(folder)
    classes, paths = found["train"].classes, [path for path, _ in found["train"].samples]
    sizes = _sizes(paths)
    widths, heights = (sorted(size[i] for size in sizes) for i in (0, 1))
    alike = len(set(sizes)) == 1
    shown = (
        f"all {widths[0]} x {heights[0]}"
        if alike
        else f"{widths[0]} to {widths[-1]} pixels wide, {heights[0]} to {heights[-1]} high"
    )
    counts = Counter(classes[label] for label in found["train"].targets)
    images = [f"{counted(len(data), 'image')} in {name}" for name, data in found.items()]
    report = [f"{folder.name}: {', '.join(images)}, {shown}"]
    side = next((side for side in SIDES if side <= statistics.median(map(min, sizes))), SIDES[-1])
    resize = [] if alike and max(sizes[0]) <= SIDES[0] else [f'"Resize([{side}, {side}])"']
    blocks = [(3, 32), (32, 64), (64, 128)]
    layers = [layer for i, o in blocks for layer in (f"Conv2d({i}, {o}, 3, padding=1)", "ReLU", "MaxPool2d(2)")]
    layers += [
        "AdaptiveAvgPool2d(4)",
        "Flatten",
        "LazyLinear(128)",
        "ReLU",
        "Dropout(0.2)",
        f"Linear(128, {len(classes)})",
    ]
    return _config(
        file,
        [*report, f"  {_counted(counts, 'classes')}"],
        {name: _flow(settings) for name, settings in _image_splits(parts, file, min(counts.values())).items()},
        [*resize, "ToTensor", '"Normalize(0.5, 0.5)"'],
        len(paths),
        layers,
        _classes(len(classes)),
    )


def _image_splits(parts: dict[str, Path], file: Path, fewest: int) -> dict[str, dict[str, Any]]:
    """The dataset arguments of each split. fewest: images of the smallest class, of which each split needs some."""
    drawn = ("valid", "test") if fewest >= 7 else ("valid",) if fewest >= 4 else ()
    shares: dict[str, Any] = {name: 0.15 for name in drawn if name not in parts}
    splits = {}
    for name in ("train", *(name for name in ("valid", "test") if name in parts or name in shares)):
        root = _relative(parts.get(name, parts["train"]), file)
        apart = {"split": name, **shares} if shares and (name == "train" or name in shares) else {}
        splits[name] = {"type": "ImageFolder", "root": root, **apart}
    return splits


def _open_images(folder: Path) -> tuple[dict[str, Path], dict[str, Any]]:
    """The folder and the dataset of each split, all with the same classes, at least two."""
    from tdt.vision.datasets import ImageFolder

    parts: dict[str, Path] = {}
    for name, own in {"train": ("train",), "valid": ("valid", "val", "validation"), "test": ("test",)}.items():
        there = [folder / place for place in own if (folder / place).is_dir()]
        parts |= {name: there[0]} if there else {}
    if "train" not in parts:
        parts = {"train": folder}
    try:
        found = {name: ImageFolder(part) for name, part in parts.items()}
    except FileNotFoundError as error:
        raise UnsupportedDataError(str(error).removeprefix("ImageFolder: ")) from error
    classes = found["train"].classes
    for name, other in found.items():
        if other.classes != classes:
            raise UnsupportedDataError(
                f"{parts[name]} has the classes {', '.join(other.classes)}, but train {', '.join(classes)}"
            )
    if len(classes) < 2:
        raise UnsupportedDataError(
            f"{parts['train']}: one folder, {classes[0]}; images of two classes are needed, a folder for each"
        )
    return parts, found


def _sizes(paths: Sequence[str]) -> list[tuple[int, int]]:
    """Width and height of some images, spread over all."""
    from tdt.vision._images import open_image

    sizes, unread = [], []
    for path in paths[:: -(-len(paths) // LOOKED_AT)]:
        try:
            with open_image(path, path) as image:
                sizes.append(image.size)
        except (OSError, ValueError) as error:
            unread.append(str(error))
    if unread:
        others = f" and {len(unread) - NAMED:,} more" if len(unread) > NAMED else ""
        advice = "remove or replace it" if len(unread) == 1 else f"remove these{others}"
        raise UnsupportedDataError("\n".join([*unread[:NAMED], advice]))
    return sizes


def _config(
    file: Path,
    report: list[str],
    splits: dict[str, str],
    transform: list[str],
    n: int,
    layers: list[str],
    tail: list[str],
) -> str:
    lines = [f"{SCHEMA_LINE}{SCHEMA}", *(f"# {printable(line)}" for line in report)]
    lines += [
        "#",
        f"#   tdt train {shlex.quote(str(file))}",
        "",
        f"name: {_name(file)}",
        "seed: 0                # the same seed gives the same run",
    ]
    lines += ["", "data:", *(f"  {name}: {data}" for name, data in splits.items())]
    if "valid" not in splits:
        lines.append("  # valid: the same for rows or images kept apart, which choose the best checkpoint")
    if transform:
        lines += [
            f"  transform: [{', '.join(transform)}]",
            "  # augment: [RandomHorizontalFlip]     # of the training images alone",
        ]
    lines += [f"  loader: {{batch_size: {_batch_size(n)}}}", ""]
    lines += ["model:                  # a list is Sequential(...); LazyLinear finds its input size itself"]
    lines += [f"  - {layer}" for layer in layers]
    lines += ["", *tail, "", "optimizer: Adam(lr=1e-3)", f"train: {{epochs: {_epochs(n)}}}"]
    if "valid" in splits:  # of few samples many have the same accuracy
        lines.append("checkpoint: {best: valid/loss}     # which weights the test and tdt predict take")
    return "\n".join(lines) + "\n"


def _classes(n: int) -> list[str]:
    metrics = ["accuracy"] if n < 10 else ["accuracy", '"top_k(k=5)"']
    return ["loss: CrossEntropyLoss", f"metrics: [{', '.join(metrics)}]"]


def _values(mean: float) -> list[str]:
    rule = (
        f'init: [{{params: "4.bias", with: "constant_(val={mean:.6g})"}}]     # the mean of the target: a start near it'
    )
    return [rule, "loss: MSELoss", "metrics: [mae, r2]"]


def _column(texts: Sequence[str], lines: Sequence[int]) -> tuple[str, str]:
    """Description of a column, and why it is useless for predictions ("" if it is not)."""
    from tdt.train.data.datasets._columns import is_missing, is_number

    present = [text.strip() for text in texts if not is_missing(text)]
    different = len(set(present))
    lacking = f", {len(texts) - len(present):,} missing" if len(present) < len(texts) else ""
    if different <= 1:
        return f"{different} value{lacking}", "the same in every row"
    unparsed = [
        (line, text.strip())
        for line, text in zip(lines, texts, strict=True)
        if not is_missing(text) and not is_number(text)
    ]
    if not unparsed:
        return f"number, {_range(present)}{lacking}", "the number of the row" if _counts(present) else ""
    many = different > max(20, len(present) // 2)
    if many and len(unparsed) <= len(present) // 10:
        line, text = unparsed[0]
        others = f" and {len(unparsed) - 1:,} others are" if len(unparsed) > 1 else " is"
        numbers = _range([text for text in present if is_number(text)])
        return f"number, {numbers}{lacking}", f"{text[:30]!r} in line {line}{others} no number"
    return f"category, {_counted(Counter(present))}{lacking}", "nearly every row has another" if many else ""


def _counts(texts: Sequence[str]) -> bool:
    """Whether the column is an index: 0, 1, 2, … or 1, 2, 3, …"""
    return any(all(text == str(i) for i, text in enumerate(texts, start)) for start in (0, 1)) and len(texts) >= 10


def _about_names(fields: Iterable[str]) -> list[str]:
    from tdt.train.data.datasets._columns import is_number

    numeric_name = next(filter(is_number, fields), None)
    return (
        []
        if numeric_name is None
        else [f"  the names of columns are those in the first line, though {numeric_name} is a number"]
    )


def _range(texts: Sequence[str]) -> str:
    values = sorted(float(text) for text in texts)
    infinite = sum(map(math.isinf, values))
    return f"{values[0]:g} to {values[-1]:g}" + (f", {infinite:,} infinite" if infinite else "")


def _counted(counts: Counter[str], what: str = "values") -> str:
    shown = ", ".join(f"{' '.join(name.split())[:30]} {count:,}" for name, count in counts.most_common(5))
    return f"{len(counts)} {what}: {shown}{', …' * (len(counts) > 5)}"


def _flow(settings: dict[str, Any]) -> str:
    """A mapping on one line, with strings quoted as in JSON if YAML could read them as another type."""
    plain = {"type", "split", "target_type"}
    shown = (f"{key}: {value if key in plain else _quoted(value)}" for key, value in settings.items())
    return "{" + ", ".join(shown) + "}"


def _quoted(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() else json.dumps(value)


def _relative(path: Path, file: Path) -> str:
    """The path relative to the config's folder."""
    return str(path) if path.is_absolute() else Path(os.path.relpath(path, file.parent)).as_posix()


def _name(file: Path) -> str:
    """The stem of the file as the name of runs."""
    return "".join(c if c.isalnum() or c in "_.-" else "-" for c in file.stem).strip("-.") or "run"


def _batch_size(n: int) -> int:
    return next(size for size in (64, 32, 16, 8, 4) if size <= max(n // 10, 4))


def _epochs(n: int) -> int:
    return 50 if n < 2_000 else 20 if n < 50_000 else 5
