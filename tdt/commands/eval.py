"""`tdt eval`: evaluate a checkpoint."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tdt.commands import _startup
from tdt.commands._complete import splits
from tdt.commands._help import examples
from tdt.commands._options import Checkpoint, Device, Json, Root, Traceback, Trust, check_output, existing_checkpoint
from tdt.commands._output import one_line, print_lines
from tdt.commands._progress import image_progress, progress

if TYPE_CHECKING:
    from tdt.train.loop.evaluation import Evaluation, TaskResult

EXAMPLE = examples(
    "tdt eval digits-cnn",
    "tdt eval digits-cnn/1 --split test --confusion --json",
    "tdt eval pets --data new.csv --output answers.csv",
    "tdt eval digits-cnn --data 'Digits(split=train)'",
    "mpirun -n 4 tdt eval digits-cnn",
)

Overrides = Annotated[
    list[str] | None,
    typer.Argument(help="Settings of data, loss or metrics, as in metrics=[accuracy,f1].", metavar="KEY=VALUE..."),
]
Split = Annotated[
    str | None,
    typer.Option(
        "--split", metavar="S", help="train, valid or test; default: valid, or else test.", autocompletion=splits
    ),
]
Data = Annotated[
    str | None,
    typer.Option("--data", metavar="FILE|FOLDER|DATASET", help="Score these data, as the test split (or --split)."),
]
BatchSize = Annotated[
    int | None, typer.Option("--batch-size", min=1, metavar="N", help="Samples per batch; overrides the config.")
]
Output = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write target and prediction of each sample as .csv or .tsv; - for CSV on stdout, and scores on stderr.",
    ),
]


def eval(
    checkpoint: Checkpoint,
    overrides: Overrides = None,
    split: Split = None,
    data: Data = None,
    batch_size: BatchSize = None,
    confusion: Annotated[bool, typer.Option("--confusion", help="Show the confusion matrix.")] = False,
    per_class: Annotated[
        bool, typer.Option("--per-class", help="Show precision, recall, F1 and number of samples of each class.")
    ] = False,
    json: Json = False,
    output: Output = None,
    device: Device = None,
    runs_root: Root = Path("runs"),
    trust: Trust = False,
    traceback: Traceback = False,
) -> int:
    """Evaluate a checkpoint, or the best (or else last) checkpoint of a run. Needs no other file of the run."""
    from tdt.train._agreement import by_first
    from tdt.train._ranks import Ranks
    from tdt.train.loop.evaluation import evaluate_checkpoint

    ranks = Ranks.of_launch()
    path, changes = by_first(ranks, lambda: existing_checkpoint(checkpoint, runs_root)), list(overrides or ())
    if output not in (None, "-") and Path(str(output)).suffix.lower() not in (".csv", ".tsv"):
        raise typer.BadParameter(f"{output}: its ending says no format; use .csv or .tsv, or - for CSV on stdout")
    _startup.finish()
    try:
        with image_progress(), progress("batches") as shows:
            result = evaluate_checkpoint(
                path, split, device, changes, data=data, batch_size=batch_size, progress=shows, ranks=ranks
            )
        if output not in (None, "-"):
            by_first(ranks, lambda: check_output(str(output), result.files))
        tables = _matrices(result) if confusion or per_class else {}
    except LookupError as error:
        raise typer.BadParameter(error.args[0]) from error
    if data is None and not path.resolve().is_relative_to(runs_root.resolve()):
        _print_files(result, changes)
    for note in result.notes:
        print_lines(one_line(f"{'--data' if data else f'data.{result.split}'}: {note}"), file=sys.stderr)
    report = (_as_json if json else _as_text)(result, tables, confusion, per_class)
    print_lines(report, whole=True, file=sys.stderr if output == "-" else None)
    if output is not None and ranks.first:
        _write(output, result)
    return 0


def _print_files(result: Evaluation, changes: list[str]) -> None:
    """Print which data files a checkpoint from elsewhere named, unless the command line names the data."""
    if result.files and not any(text.startswith(f"data.{result.split}") for text in changes):
        others = f" and {len(result.files) - 1:,} more" if len(result.files) > 1 else ""
        source = f"data.{result.split}, named by the checkpoint: {result.files[0]}{others}"
        print_lines(one_line(source), file=sys.stderr)


Matrices = dict[str, tuple["TaskResult", list[Any]]]  # by task: its result and its confusion matrix


def _matrices(result: Evaluation) -> Matrices:
    """The confusion matrix of each output that predicts classes; of a single output under "". LookupError if none does."""
    found = {name: task for name, task in (result.tasks or {"": result}).items() if task.classes}
    if not found:
        raise LookupError(
            "--per-class, --confusion: the model predicts numbers, not classes; metrics=[mae,r2] scores numbers"
        )
    return {name: (task, task.confusion().tolist()) for name, task in found.items()}


def _as_text(result: Evaluation, tables: Matrices, confusion: bool, per_class: bool) -> str:
    from tdt.commands import _tables
    from tdt.train._printable import number

    scores = [f"{name} {number(value)}" for name, value in result.scores.items()]
    lines = _tables.packed([f"{result.split} {scores[0]}", *scores[1:]], _tables.terminal_width())
    parts = ["\n".join([f"{result.path} (epoch {result.epoch}, step {result.step})", *lines])]
    for name, (task, matrix) in tables.items():
        title = f"{name}\n" if name else ""
        if per_class:
            parts.append(title + _scores_table(task, matrix))
        if confusion:
            parts.append(title + _confusion_table(task, matrix))
    return "\n\n".join(parts)


def _scores_table(task: TaskResult, matrix: list[Any]) -> str:
    from tdt.commands import _tables
    from tdt.train._printable import number

    rows = [(name, *map(number, scores[:3]), str(scores[3])) for name, scores in _by_class(task, matrix)]
    return _tables.text(("class", "precision", "recall", "f1", "samples"), rows, range(1, 5))


def _confusion_table(task: TaskResult, matrix: list[Any]) -> str:
    from tdt.commands import _tables

    if task.several:
        cells = [
            (name, *(str(count) for row in pair for count in row))
            for name, pair in zip(task.classes, matrix, strict=True)
        ]
        return _tables.text(("class", "true no", "false yes", "false no", "true yes"), cells, range(1, 5))
    cells = [(name, *map(str, row)) for name, row in zip(task.classes, matrix, strict=True)]
    table = _tables.text(("", *task.classes), cells, range(1, len(task.classes) + 1))
    return f"confusion matrix; rows: true class, columns: predicted class\n{table}"


def _by_class(task: TaskResult, matrix: list[Any]) -> list[tuple[str, Any]]:
    import numpy as np

    from tdt.train.metrics.confusion import by_class

    return list(zip(task.classes, by_class(np.array(matrix)), strict=True))


def _as_json(result: Evaluation, tables: Matrices, confusion: bool, per_class: bool) -> str:
    import json

    about: dict[str, Any] = {"checkpoint": str(result.path), "which": result.path.stem, "step": result.step}
    about |= {"epoch": result.epoch, "split": result.split, "samples": len(result.targets)}
    # JSON has no nan and inf: written as strings, which float() can parse.
    about |= {name: value if abs(value) < float("inf") else repr(value) for name, value in result.scores.items()}
    about["hex"] = {name: value.hex() for name, value in result.scores.items()}
    if result.notes:
        about["notes"] = result.notes
    for name, (task, matrix) in tables.items():
        scores = {label: each._asdict() for label, each in _by_class(task, matrix)} if per_class else None
        counted = {"classes": task.classes, "confusion": matrix} if confusion else {}
        if not name:
            about |= ({} if scores is None else {"per_class": scores}) | counted
            continue
        if scores is not None:
            about.setdefault("per_class", {})[name] = scores
        if counted:
            about.setdefault("confusion", {})[name] = counted
    return json.dumps(about)


def _write(output: str, result: Evaluation) -> None:
    """A row per sample: its target and the prediction, of each output by name if there are several."""
    import csv
    import io

    from tdt._files import replace_file
    from tdt.train._printable import csv_cell

    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter="\t" if output.lower().endswith(".tsv") else ",")
    tasks = {f"{name}_": task for name, task in result.tasks.items()} or {"": result}
    writer.writerow(["index", *(f"{name}{side}" for name in tasks for side in ("target", "prediction"))])
    columns = []
    for task in tasks.values():
        classes = dict(enumerate(task.classes))
        columns += [
            [csv_cell(_shown(value, classes)) for value in values] for values in (task.targets, task.predictions)
        ]
    writer.writerows(zip(range(len(result.targets)), *columns, strict=True))
    if output == "-":
        print_lines(text.getvalue().replace("\r\n", "\n"), end="", whole=True)
    else:
        replace_file(output, text.getvalue().encode())


def _shown(value: Any, classes: dict[int, str]) -> Any:
    """The name of a class, and a number without the brackets of a target of one number; anything else as it is."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return classes.get(value, value) if isinstance(value, int) else value
