"""Write predictions as they come: a table for the terminal, JSON lines, CSV, TSV, NPZ, and masks as PNG images."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import typer

from tdt.commands._output import print_lines

if TYPE_CHECKING:
    from tdt.train.model.predictions import Prediction

CHUNK = 64  # rows of a table that are aligned before they are printed
ENDINGS = (".csv", ".tsv", ".jsonl", ".npz")
Write = Callable[["Prediction"], None]


def _predicted(write: Write) -> Write:
    """`write` without the inputs for which there is no prediction."""
    return lambda prediction: None if prediction.error is not None else write(prediction)


@contextlib.contextmanager
def table(title: object, top: int, outputs: Sequence[str]) -> Iterator[Write]:
    """Print an aligned table. Columns of later rows are at least as wide as those before."""
    from tdt.commands import _tables
    from tdt.train._printable import number

    rows: list[dict[str, Any]] = []
    widths: list[int] = []

    def flush() -> None:
        nonlocal widths
        if not rows:
            return
        head = list(rows[0])
        right = [i for i, (name, value) in enumerate(rows[0].items()) if i and not isinstance(value, str)]
        # A class of a text may be a blank.
        lines = [[_shown(value, number) for value in row.values()] for row in rows]
        if widths:
            filler = ["x" * width for width in widths]
            print_lines(_tables.text(filler, lines, right).partition("\n")[2], whole=True)
        else:
            print_lines(title, _tables.text(head, lines, right), whole=True)
        before = widths or list(map(len, head))
        widths = [max(was, *map(len, cells)) for was, *cells in zip(before, *lines, strict=True)]
        rows.clear()

    def write(prediction: Prediction) -> None:
        rows.append(cells(prediction, top, outputs, short=True))
        if len(rows) == CHUNK:
            flush()

    yield _predicted(write)
    flush()


def _shown(value: Any, number: Callable[[float], str]) -> str:
    if isinstance(value, str):
        return value if value.strip() else repr(value)
    return str(value) if isinstance(value, int) else number(value)


@contextlib.contextmanager
def json_lines(file: IO[bytes] | None, top: int) -> Iterator[Write]:
    """Write a JSON object per line to `file`, or to standard output; also for inputs without a prediction."""

    def write(prediction: Prediction) -> None:
        line = json.dumps(as_dict(prediction, top))
        if file is None:
            print_lines(line, whole=True)
        else:
            file.write(f"{line}\n".encode())

    yield write


@contextlib.contextmanager
def delimited(file: IO[bytes] | None, delimiter: str, top: int, outputs: Sequence[str]) -> Iterator[Write]:
    """Write CSV or TSV, with a header of the first prediction's columns, to `file` or to standard output."""
    from tdt.train._printable import csv_cell

    begun = False

    def row(values: Sequence[Any]) -> None:
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n", delimiter=delimiter).writerow([csv_cell(value) for value in values])
        if file is None:
            print_lines(text.getvalue(), end="", whole=True)
        else:
            file.write(text.getvalue().encode())

    def write(prediction: Prediction) -> None:
        nonlocal begun
        found = cells(prediction, top, outputs)
        if not begun:
            row([name.replace(" ", "_") for name in found])
        begun = True
        row([repr(value) if isinstance(value, float) else value for value in found.values()])

    yield _predicted(write)
    if not begun:
        row(["input"])


@contextlib.contextmanager
def npz(file: IO[bytes]) -> Iterator[Write]:
    """Write one NPZ file with an array for each field, a row per input; written as a whole at the end."""
    import numpy as np

    names: list[str] = []
    columns: dict[str, list[Any]] = {}
    labels: dict[str, Any] = {}

    def write(prediction: Prediction) -> None:
        names.append(prediction.name)
        for key, value in _arrays(prediction, "", labels):
            columns.setdefault(key, []).append(value)

    yield _predicted(write)
    arrays: dict[str, Any] = {"input": np.array(names, dtype=str)} | labels
    for key, values in columns.items():
        if len({np.shape(value) for value in values}) == 1:
            arrays[key] = np.array(values)
        else:  # images of different sizes
            arrays |= {f"{key}_{i}": np.asarray(value) for i, value in enumerate(values)}
    np.savez_compressed(file, **arrays)


def _arrays(prediction: Prediction, prefix: str, labels: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    import numpy as np

    if prediction.tasks:
        for name, part in prediction.tasks.items():
            yield from _arrays(part, f"{prefix}{name}/", labels)
    elif prediction.classes:
        names = labels.setdefault(f"{prefix}classes", np.array(prediction.names))
        chances = dict(prediction.classes)
        yield f"{prefix}class", prediction.classes[0][0]
        yield f"{prefix}probabilities", [chances[name] for name in names.tolist()]
    elif prediction.labels:
        labels.setdefault(f"{prefix}labels", np.array([name for name, _ in prediction.labels]))
        labels.setdefault(f"{prefix}threshold", np.array(prediction.threshold))
        yield f"{prefix}probabilities", [chance for _, chance in prediction.labels]
    elif prediction.positions is not None:
        labels.setdefault(f"{prefix}classes", np.array(prediction.names))
        yield f"{prefix}{'sequence' if prediction.positions.ndim == 1 else 'mask'}", prediction.positions
    else:
        yield f"{prefix}values", np.reshape(prediction.values, prediction.shape or -1)


@contextlib.contextmanager
def masks(folder: Path) -> Iterator[Write]:
    """Write the class of each pixel as a PNG per input into `folder`, with a color for each class. A pixel's value is the
    number of its class. The masks of several tasks are `NAME.TASK.png`."""
    import numpy as np
    from PIL import Image

    from tdt._files import replacing
    from tdt.train.logging.pictures import palette

    folder.mkdir(parents=True, exist_ok=True)
    taken: dict[str, str] = {}

    def save(prediction: Prediction, ending: str) -> None:
        if prediction.positions is None or prediction.positions.ndim != 2:
            raise typer.BadParameter(f"{folder}: this model predicts no mask, which a folder is for; end --output in "
                             f"{', '.join(ENDINGS)}")  # fmt: skip
        stem = re.sub(r"\.\w+(\[\d+\])?$", r"\1", Path(prediction.name).name)  # an array's row is called x.npz[3]
        path = folder / f"{stem}{ending}.png"
        if taken.setdefault(path.name.lower(), prediction.name) != prediction.name:
            both = f"{taken[path.name.lower()]} and {prediction.name}"
            raise typer.BadParameter(f"{path}: {both} have the same name; predict their folders separately")
        few = len(prediction.names) <= 256
        image = Image.fromarray(prediction.positions.astype(np.uint8 if few else np.uint16))
        if few:
            image.putpalette(palette(len(prediction.names)))
        with replacing(path) as file:
            image.save(file, "PNG")

    def write(prediction: Prediction) -> None:
        for name, part in (prediction.tasks or {"": prediction}).items():
            if not prediction.tasks:
                save(part, "")
            elif part.positions is not None:
                save(part, f".{name}")

    yield _predicted(write)


@contextlib.contextmanager
def to_path(path: Path, top: int, outputs: Sequence[str]) -> Iterator[Write]:
    """Write in the format of the path's ending; a path without one, or with a final slash, is a folder for masks."""
    from tdt._files import replacing

    ending = path.suffix.lower()
    if path.is_dir() or not ending:
        with masks(path) as write:
            yield write
        return
    if ending not in ENDINGS:
        raise typer.BadParameter(f"{path}: its ending says no format; use {', '.join(ENDINGS)}, or a folder for masks")
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(replacing(path))
        if ending == ".npz":
            sink = npz(file)
        elif ending == ".jsonl":
            sink = json_lines(file, top)
        else:
            sink = delimited(file, "\t" if ending == ".tsv" else ",", top, outputs)
        yield stack.enter_context(sink)


def cells(
    prediction: Prediction, top: int, outputs: Sequence[str], short: bool = False, prefix: str = ""
) -> dict[str, Any]:
    """A prediction as columns. short: for a terminal, the labels that are present only, with their probabilities."""
    found: dict[str, Any] = {} if prefix else {"input": prediction.name}
    if prediction.tasks:
        for name, part in prediction.tasks.items():
            found |= cells(part, top, (), short, f"{prefix}{name} ")
    elif prediction.classes:
        for number, (name, chance) in enumerate(prediction.classes[:top], 1):
            end = "" if number == 1 else f" {number}"
            found |= {f"{prefix}class{end}": name, f"{prefix}probability{end}": chance}
    elif prediction.labels:
        if short:
            chances = dict(prediction.labels)
            found[f"{prefix}labels"] = ", ".join(f"{name} {chances[name]:.4f}" for name in prediction.present) or "none"
        else:
            found[f"{prefix}labels"] = ", ".join(prediction.present)
            found |= {f"{prefix}probability {name}": chance for name, chance in prediction.labels}
        found[f"{prefix}threshold"] = prediction.threshold
    elif prediction.positions is not None:
        if prediction.positions.ndim == 1:
            found[f"{prefix}classes"] = " ".join(prediction.names[number] for number in prediction.positions)
        else:
            found |= {f"{prefix}pixels {name}": count for name, count in prediction.counts.items()}
    elif prediction.shape:
        values = prediction.values
        found[f"{prefix}shape"] = "x".join(map(str, prediction.shape))
        found |= {f"{prefix}mean": sum(values) / len(values), f"{prefix}min": min(values), f"{prefix}max": max(values)}
    else:
        values = prediction.values
        names = outputs if len(outputs) == len(values) else [f"output {i}" for i in range(len(values))]
        if prefix and len(values) == 1:
            names = ["value"]
        found |= {f"{prefix}{name}": value for name, value in zip(names, values, strict=True)}
    return found


def as_dict(prediction: Prediction, top: int) -> dict[str, Any]:
    """A prediction in JSON types; nan and inf, which JSON lacks, as texts that float() can parse."""
    found: dict[str, Any] = {} if not prediction.name else {"input": prediction.name}
    if prediction.error is not None:
        return found | {"error": prediction.error}
    if prediction.tasks:
        parts = {name: as_dict(part, top) for name, part in prediction.tasks.items()}
        return found | {"tasks": {name: _without_input(part) for name, part in parts.items()}}
    if prediction.classes:
        first, chance = prediction.classes[0]
        ranked = [{"class": name, "probability": _strict(value)} for name, value in prediction.classes[:top]]
        return found | {"class": first, "probability": _strict(chance), "top": ranked}
    if prediction.labels:
        chances = {name: _strict(chance) for name, chance in prediction.labels}
        return found | {"labels": list(prediction.present), "probabilities": chances, "threshold": prediction.threshold}
    if prediction.positions is not None and prediction.positions.ndim == 1:
        each = [] if prediction.chances is None else [_strict(chance) for chance in prediction.chances.tolist()]
        return found | {"classes": [prediction.names[i] for i in prediction.positions], "probabilities": each}
    if prediction.positions is not None:
        return found | {"shape": list(prediction.positions.shape), "pixels": prediction.counts}
    shape = {"shape": list(prediction.shape)} if prediction.shape else {}
    return found | shape | {"values": [_strict(value) for value in prediction.values]}


def _without_input(part: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in part.items() if key != "input"}


def _strict(value: float) -> Any:
    return value if abs(value) < float("inf") else repr(value)
