"""Configs that `tdt init` writes for tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tdt._did_you_mean import did_you_mean
from tdt.train._printable import counted
from tdt.train.data.datasets._detect import Found, detect, detect_target
from tdt.train.data.datasets._values import is_missing, is_number, number_format, words
from tdt.train.data.datasets.table import read_rows
from tdt.train.data.starters.writing import (
    Tail,
    UnsupportedDataError,
    class_loss,
    config_text,
    relative,
    sequential,
)
from tdt.utils.data._splits import stratified_indices

TARGETS = ("target", "label", "class", "y")  # usual names of the column to predict
NUMBER_LOSS = (
    "targets: {scale: standard}     # (target - mean) / deviation for the loss; metrics and predictions undo it",
    "loss: MSELoss",
    "metrics: [mae, r2]",
)
MOST_WORDS, MOST_LENGTH = 20_000, 512  # of texts


def table(path: Path, file: Path, target: str | None = None) -> str:
    """A config that predicts a column of a CSV or TSV file, by default one called as in TARGETS, or the last.

    target: the column, or several with commas between them, all of numbers or all of booleans.
    """
    try:
        fields, lines = read_rows(path)
    except ValueError as error:
        raise UnsupportedDataError(str(error).removeprefix("Table: ")) from error
    if len(fields) < 2:
        raise UnsupportedDataError(f"{path} has one column, {next(iter(fields))}; there is nothing to predict it from")
    targets = _targets(path, fields, target)
    fields, numbers, dropped = _with_targets(path, fields, lines.tolist(), targets)
    kind, about = _kind_of_targets(path, fields, targets)
    described = {name: detect(name, texts, numbers) for name, texts in fields.items() if name not in targets}
    used = {name: found for name, found in described.items() if not found.useless}
    if not used:
        raise UnsupportedDataError(
            f"{path}: no column is left to predict {', '.join(targets)} from: each is the same, or another, in every row"
        )
    n = len(numbers)
    shares = {"valid": 0.15, "test": 0.15} if n >= 20 else {"valid": 0.25, "test": 0.0} if n >= 4 else {}
    texts = [name for name, found in used.items() if found.kind == "text"]
    size = _text_size([fields[name] for name in texts]) if texts else {}
    arguments: dict[str, Any] = {
        "type": "Table",
        "path": relative(path, file),
        "target": targets[0] if len(targets) == 1 else targets,
        "target_type": kind,
        **({"missing_target": "drop"} if dropped else {}),
        **_columns(described, used),
        **size,
    }
    stratify = {"stratify": True} if shares and kind != "number" else {}
    splits = {
        name: arguments | {"split": name, **shares, **stratify}
        for name in ("train", *(k for k, v in shares.items() if v))
    }
    first = fields[targets[0]]
    different = Counter(text.strip() for text in first) if kind == "category" else Counter()
    model = _table_model(texts, len(texts) < len(used), len(different) or len(targets), size.get("max_words", 0))
    if kind == "category":
        classes = [text.strip() for text in first]
        train = stratified_indices(classes, shares.get("valid", 0), shares.get("test", 0), seed=0)["train"]
        in_training = {classes[row] for row in train}
        tail = class_loss(different, len(in_training) == len(different))
    elif kind == "boolean":
        tail = Tail(["loss: BCEWithLogitsLoss", "metrics: [accuracy, f1, auroc]"])
    else:
        tail = Tail(list(NUMBER_LOSS))
    left_out = {name: f"; left out: {found.useless}" if found.useless else "" for name, found in described.items()}
    rows = [f"  {name}: {found.about}{left_out[name]}" for name, found in described.items()]
    rows += [f"  {name}: the target, {what}" for name, what in zip(targets, about, strict=True)]
    if dropped:
        written = ", ".join(map(repr, sorted({*dropped} - {""})))
        rest = f" (missing_target: drop){f'; {written} is read as missing' if written else ''}"
        rows.append(f"  left out: {counted(len(dropped), 'row')} without {' or '.join(targets)}{rest}")
    head = [f"{path.name}: {counted(n + len(dropped), 'row')}", *rows, *_about_names(fields)]
    return config_text(file, head, splits, [], n, model, tail)


def _targets(path: Path, fields: dict[str, list[str]], target: str | None) -> list[str]:
    """The names of the columns to predict."""
    if target is None:
        named = {name.lower(): name for name in fields}
        return [next((named[usual] for usual in TARGETS if usual in named), list(fields)[-1])]
    names = [target] if target in fields else [name.strip() for name in target.split(",")]
    for name in names:
        if name not in fields:
            raise UnsupportedDataError(
                f"{path} has no column {name!r}; {did_you_mean(name, fields, ', '.join(fields))}"
            )
    return list(dict.fromkeys(names))


def _with_targets(
    path: Path, fields: dict[str, list[str]], lines: list[int], targets: list[str]
) -> tuple[dict[str, list[str]], list[int], list[str]]:
    """The rows that have every target, their lines, and how the others write that one is missing."""
    remaining = [i for i in range(len(lines)) if not any(is_missing(fields[name][i]) for name in targets)]
    if not remaining:
        raise UnsupportedDataError(f"{path}: {', '.join(targets)}, the target, is missing in every row")
    if len(remaining) == len(lines):
        return fields, lines, []
    dropped = [
        next(filter(is_missing, row)).strip()
        for row in zip(*(fields[name] for name in targets), strict=True)
        if any(map(is_missing, row))
    ]
    rest = {name: [texts[i] for i in remaining] for name, texts in fields.items()}
    return rest, [lines[i] for i in remaining], dropped


def _kind_of_targets(path: Path, fields: dict[str, list[str]], targets: list[str]) -> tuple[str, list[str]]:
    """The type of the targets, and a description of each."""
    found = {name: detect_target(name, fields[name]) for name in targets}
    for name, one in found.items():
        if one.useless:
            raise UnsupportedDataError(f"{path}: {name}, the target, {one.useless}; --target chooses another column")
    kinds = {one.kind for one in found.values()}
    if len(targets) == 1:
        (kind,), different = kinds, {text.strip() for text in fields[targets[0]]}
        kind = "category" if kind == "boolean" and len(different) == 2 else kind
    elif kinds == {"boolean"}:
        kind = "boolean"
    elif all(number_format(fields[name]) is not None for name in targets):
        kind = "number"
    else:
        odd = next(name for name in targets if number_format(fields[name]) is None)
        raise UnsupportedDataError(
            f"{path}: several targets are all numbers or all booleans (yes/no, true/false, 0/1), but {odd} has the values "
            f"{found[odd].about}"
        )
    return kind, [one.about for one in found.values()]


def _columns(described: dict[str, Found], used: dict[str, Found]) -> dict[str, Any]:
    """The argument `columns` of the table; none where all columns are used with the type that `Table` finds."""
    texts = [name for name, found in used.items() if found.kind == "text"]
    kinds = {name: found.kind for name, found in used.items()}
    if texts and len(texts) < len(used):
        groups: dict[str, Any] = {"features": {name: kind for name, kind in kinds.items() if kind != "text"}}
        return {"columns": groups | {_text_input(i): {name: "text"} for i, name in enumerate(texts)}}
    if len(texts) > 1:
        return {"columns": {_text_input(i): {name: "text"} for i, name in enumerate(texts)}}
    if not all(found.guessed for found in used.values()):
        return {"columns": kinds}
    return {"columns": list(used)} if len(used) < len(described) else {}


def _text_input(i: int) -> str:
    """The name of the i-th input of a model that is a text."""
    return "text" if i == 0 else f"text{i + 1}"


def _text_size(columns: list[list[str]]) -> dict[str, int]:
    """Vocabulary and number of words that fit the texts: words that occur twice, and the whole of 19 texts of 20."""
    counts: Counter[str] = Counter()
    lengths: list[int] = []
    for texts in columns:
        for text in texts:
            found = words(text)
            counts.update(found)
            lengths.append(len(found))
    repeated = sum(count > 1 for count in counts.values())
    length = sorted(lengths)[int(0.95 * (len(lengths) - 1))]
    return {
        "max_words": min(max(repeated, 98) + 2, MOST_WORDS),
        "length": min(max(-(-length // 8) * 8, 8), MOST_LENGTH),
    }


def _table_model(texts: list[str], has_features: bool, outputs: int, max_words: int) -> list[str]:
    """The lines of the model."""
    bag = f"EmbeddingBag({max_words}, 64, padding_idx=0)"
    if not texts:
        layers = ["LazyLinear(64)", "ReLU", "Linear(64, 64)", "ReLU", f"Linear(64, {outputs})"]
        return sequential(layers)
    head = ["ReLU", "Dropout(0.2)", f"Linear(64, {outputs})"]
    if len(texts) == 1 and not has_features:
        return sequential([bag, "Linear(64, 64)", *head], "EmbeddingBag is the mean of the words' vectors")
    inputs = [*(["features"] if has_features else []), *map(_text_input, range(len(texts)))]
    lines = ["model:                  # EmbeddingBag is the mean of the words' vectors", "  graph:"]
    for name in inputs:
        layer = "LazyLinear(64)" if name == "features" else bag
        lines.append(f'    from_{name}: {{layer: "{layer}", from: {name}}}')
    joined = ", ".join(f"from_{name}" for name in inputs)
    lines += [
        f"    both: {{type: Concat, from: [{joined}]}}",
        f'    head: [ReLU, "Linear({64 * len(inputs)}, 64)", {", ".join(_item(layer) for layer in head)}]',
        f"  inputs: [{', '.join(inputs)}]",
    ]
    return lines


def _item(layer: str) -> str:
    """A layer in a list within brackets."""
    return f'"{layer}"' if "," in layer else layer


def _about_names(fields: Iterable[str]) -> list[str]:
    numeric_name = next(filter(is_number, fields), None)
    return (
        []
        if numeric_name is None
        else [f"  the names of columns are those in the first line, though {numeric_name} is a number"]
    )
