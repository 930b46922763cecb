"""`tdt eval`: evaluate a checkpoint."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tdt.commands._complete import splits
from tdt.commands._help import examples
from tdt.commands._options import Checkpoint, Device, Json, Root, Traceback, Trust
from tdt.commands._output import one_line, print_lines

if TYPE_CHECKING:
    from tdt.train.loop.evaluation import Evaluation

EXAMPLE = examples(
    "tdt eval digits-cnn",
    "tdt eval digits-cnn/1 --split test --confusion --json",
    "tdt eval digits-cnn --data 'Digits(split=train)' --predictions p.csv",
)


def eval(
    checkpoint: Checkpoint,
    overrides: Annotated[
        list[str] | None,
        typer.Argument(help="Overrides of data, loss or metrics, as in metrics=[accuracy,f1].", metavar="KEY=VALUE..."),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            "--split", metavar="S", help="train, valid or test; default: valid, or else test.", autocompletion=splits
        ),
    ] = None,
    data: Annotated[
        str | None, typer.Option("--data", metavar="DATASET", help="Another dataset, as the test split (or --split).")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option("--batch-size", min=1, metavar="N", help="Samples per batch; overrides the config.")
    ] = None,
    confusion: Annotated[bool, typer.Option("--confusion", help="Show the confusion matrix.")] = False,
    per_class: Annotated[
        bool, typer.Option("--per-class", help="Show precision, recall, F1 and number of samples of each class.")
    ] = False,
    json: Json = False,
    predictions: Annotated[
        Path | None,
        typer.Option("--predictions", metavar="FILE", help="Write a CSV with target and prediction of each sample."),
    ] = None,
    device: Device = None,
    runs_root: Root = Path("runs"),
    trust: Trust = False,
    traceback: Traceback = False,
) -> int:
    """Evaluate a checkpoint, or the best (or else last) checkpoint of a run. Needs no other file of the run."""
    from tdt.train.loop.evaluation import evaluate_checkpoint
    from tdt.train.runs.checkpoint import CheckpointError
    from tdt.train.runs.run import find_checkpoint

    try:
        path = find_checkpoint(checkpoint, runs_root)
    except CheckpointError as error:
        raise typer.BadParameter(str(error)) from error
    changes = list(overrides or ())
    if data is not None:
        split = split or "test"
        changes.append(f"data.{split}={data}")
    try:
        with _progress() as progress:
            result = evaluate_checkpoint(path, split, device, changes, batch_size=batch_size, progress=progress)
        matrix = result.confusion().tolist() if confusion or per_class else None
    except LookupError as error:
        raise typer.BadParameter(error.args[0]) from error
    from_elsewhere = not path.resolve().is_relative_to(runs_root.resolve())
    if from_elsewhere and result.files and not any(text.startswith(f"data.{result.split}") for text in changes):
        others = f" and {len(result.files) - 1:,} more" if len(result.files) > 1 else ""
        source = f"data.{result.split}, named by the checkpoint: {result.files[0]}{others}"
        print_lines(one_line(source), file=sys.stderr)
    report = (_as_json if json else _as_text)(result, matrix if confusion else None, matrix if per_class else None)
    print_lines(report, whole=True)
    if predictions is not None:
        _write_csv(predictions, result)
    return 0


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """A progress bar over the batches, on a terminal; imports Rich only there."""
    if not sys.stderr.isatty():
        yield lambda done, of: None
        return
    import rich.console
    from rich.progress import Progress

    with Progress(console=rich.console.Console(stderr=True), transient=True) as bar:
        task = bar.add_task("batches")
        yield lambda done, of: bar.update(task, completed=done, total=of)


Matrix = list[list[Any]] | None


def _as_text(result: Evaluation, confusion: Matrix, per_class: Matrix) -> str:
    from tdt.commands import _tables
    from tdt.commands._console import number

    scores = " ".join(f"{name} {number(value)}" for name, value in result.scores.items())
    parts = [f"{result.path} (epoch {result.epoch}, step {result.step})\n{result.split} {scores}"]
    right = range(1, len(result.classes) + 1)
    if per_class:
        rows = [(name, *map(number, scores[:3]), str(scores[3])) for name, scores in _by_class(result, per_class)]
        parts.append(_tables.text(("class", "precision", "recall", "f1", "samples"), rows, range(1, 5)))
    if confusion and result.several:
        cells = [
            (name, *(str(count) for row in pair for count in row))
            for name, pair in zip(result.classes, confusion, strict=True)
        ]
        heads = ("class", "true no", "false yes", "false no", "true yes")
        parts.append(_tables.text(heads, cells, range(1, 5)))
    elif confusion:
        cells = [(name, *map(str, row)) for name, row in zip(result.classes, confusion, strict=True)]
        table = _tables.text(("", *result.classes), cells, right)
        parts.append(f"confusion matrix; rows: true class, columns: predicted class\n{table}")
    return "\n\n".join(parts)


def _by_class(result: Evaluation, matrix: list[list[Any]]) -> list[tuple[str, Any]]:
    import numpy as np

    from tdt.train.metrics.confusion import by_class

    return list(zip(result.classes, by_class(np.array(matrix)), strict=True))


def _as_json(result: Evaluation, confusion: Matrix, per_class: Matrix) -> str:
    import json

    about: dict[str, Any] = {"checkpoint": str(result.path), "which": result.path.stem, "step": result.step}
    about |= {"epoch": result.epoch, "split": result.split, "samples": len(result.targets)}
    # JSON has no nan and inf: written as strings, which float() can parse.
    about |= {name: value if abs(value) < float("inf") else repr(value) for name, value in result.scores.items()}
    about["hex"] = {name: value.hex() for name, value in result.scores.items()}
    if per_class:
        about["per_class"] = {name: scores._asdict() for name, scores in _by_class(result, per_class)}
    if confusion:
        about |= {"classes": result.classes, "confusion": confusion}
    return json.dumps(about)


def _write_csv(path: Path, result: Evaluation) -> None:
    import csv
    import io

    from tdt._files import replace_file
    from tdt.train._printable import csv_cell

    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(["index", "target", "prediction"])
    classes = dict(enumerate(result.classes))
    columns = [[classes.get(value, value) if isinstance(value, int) else value for value in values]
               for values in (result.targets, result.predictions)]  # fmt: skip
    cells = ([csv_cell(value) for value in column] for column in columns)
    writer.writerows(zip(range(len(result.targets)), *cells, strict=True))
    replace_file(path, text.getvalue().encode())
