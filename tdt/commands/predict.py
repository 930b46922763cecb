"""`tdt predict`: predictions of a trained model for new inputs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tdt.commands._help import examples
from tdt.commands._options import Checkpoint, Device, Root, Traceback, Trust
from tdt.commands._output import one_line, print_lines

if TYPE_CHECKING:
    from tdt.train.loop.prediction import Prediction

EXAMPLE = examples(
    "tdt predict digits-cnn photo.png folder/ --top 3",
    "tdt predict pets/2 new.csv --csv answers.csv",
    "echo 'def f' | tdt predict gpt - --json",
)


def predict(
    checkpoint: Checkpoint,
    inputs: Annotated[
        list[str],
        typer.Argument(
            help="Images, folders of images, a CSV with the training columns, an NPZ or a text file; - for stdin.",
            metavar="INPUT...",
        ),
    ],
    top: Annotated[int, typer.Option("--top", min=1, metavar="N", help="Show the N most likely classes.")] = 1,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write a CSV with one line per input.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print a JSON list, with full precision.")] = False,
    device: Device = None,
    runs_root: Root = Path("runs"),
    trust: Trust = False,
    traceback: Traceback = False,
) -> int:
    """Predict new inputs with a checkpoint, or the best (or else last) checkpoint of a run. Needs no dataset.

    Inputs that cannot be read are listed on stderr, and the exit code is 1; all others are predicted.
    """
    from tdt.train.runs.checkpoint import CheckpointError
    from tdt.train.runs.run import find_checkpoint

    try:
        path = find_checkpoint(checkpoint, runs_root)
    except CheckpointError as error:
        raise typer.BadParameter(str(error)) from error
    from tdt.commands._console import number
    from tdt.train.loop.prediction import Predictor

    predictor = Predictor(path, device)
    answers, failed = [], 0
    for answer in predictor.predict(predictor.read(inputs, sys.stdin.buffer.read)):
        answers.append(answer)
        if answer.error is not None:
            failed += 1
            print_lines(one_line(_error_line(answer.name, answer.error)), file=sys.stderr)
    if json:
        print_lines(_as_json(answers, top), whole=True)
    elif failed < len(answers):
        print_lines(path, _as_table(_cells(answers, top, predictor.outputs, number)), whole=True)
    if csv is not None:
        from tdt._files import replace_file

        replace_file(csv, _as_csv(_cells(answers, top, predictor.outputs, repr)).encode())
    return 1 if failed else 0


def _error_line(name: str, error: str) -> str:
    return error if error.startswith(f"{name}:") else f"{name}: {error}"


def _as_json(answers: list[Prediction], top: int) -> str:
    import json

    def as_dict(answer: Prediction) -> dict[str, Any]:
        if answer.error is not None:
            return {"input": answer.name, "error": answer.error}
        if answer.values:
            return {"input": answer.name, "values": [_strict(value) for value in answer.values]}
        first, chance = answer.classes[0]
        ranked = [{"class": name, "probability": _strict(value)} for name, value in answer.classes[:top]]
        return {"input": answer.name, "class": first, "probability": _strict(chance), "top": ranked}

    return json.dumps([as_dict(answer) for answer in answers], indent=1)


def _strict(value: float) -> Any:
    """The value, or its repr if it is nan or inf, which JSON lacks; float() can parse it."""
    return value if abs(value) < float("inf") else repr(value)


Cells = tuple[list[str], list[list[str]]]


def _cells(answers: list[Prediction], top: int, outputs: Sequence[str], spell: Callable[[float], str]) -> Cells:
    """Header and rows of the inputs that were predicted."""
    predicted = [answer for answer in answers if answer.error is None]
    rows = [
        [answer.name, *(spell(value) for value in answer.values)]
        + [cell for name, chance in answer.classes[:top] for cell in (name, spell(chance))]
        for answer in predicted
    ]
    values, ranks = (max((len(getattr(a, part)) for a in predicted), default=0) for part in ("values", "classes"))
    ends = ["", *(f" {number}" for number in range(2, min(ranks, top) + 1))][: min(ranks, top)]
    named = outputs if len(outputs) == values else [f"output {i}" for i in range(values)]
    head = ["input", *named]
    return head + [f"{what}{end}" for end in ends for what in ("class", "probability")], rows


def _as_table(cells: Cells) -> str:
    from tdt.commands import _tables

    head, rows = cells
    rows = [[cell if cell.strip() else repr(cell) for cell in row] for row in rows]  # a class of a text may be a blank
    return _tables.text(head, rows, [i for i, name in enumerate(head) if i and not name.startswith("class")])


def _as_csv(cells: Cells) -> str:
    import csv
    import io

    from tdt.train._printable import csv_cell

    text = io.StringIO(newline="")
    head, rows = cells
    lines = [[name.replace(" ", "_") for name in head], *rows]
    csv.writer(text, lineterminator="\n").writerows([[csv_cell(cell) for cell in line] for line in lines])
    return text.getvalue()
