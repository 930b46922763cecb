"""`tdt eval`: the scores of a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tdt.commands._complete import checkpoints, splits
from tdt.commands._options import Device, Root, Traceback, Trust

if TYPE_CHECKING:
    from tdt.train.evaluation import Evaluation

EXAMPLE = "Examples:  tdt eval digits-cnn  |  tdt eval digits-cnn/1 --split test --json --predictions predictions.csv"


def eval(  # noqa: A001 - the verb
    checkpoint: Annotated[
        str,
        typer.Argument(help="A checkpoint file, or a run: name, name/number or folder.", autocompletion=checkpoints),
    ],
    split: Annotated[
        str | None,
        typer.Option("--split", help="train, valid or test; by default valid, else test.", autocompletion=splits),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object, with all digits.")] = False,
    predictions: Annotated[
        Path | None, typer.Option("--predictions", metavar="FILE", help="Write a CSV: a line per sample.")
    ] = None,
    device: Device = None,
    runs_root: Root = Path("runs"),
    trust: Trust = False,
    traceback: Traceback = False,
) -> int:
    """Score a checkpoint, or a run's best one, else its last. Needs no other file of the run."""
    from tdt.train.checkpoint import CheckpointError
    from tdt.train.evaluation import evaluate_checkpoint
    from tdt.train.run import find_checkpoint

    try:
        path = find_checkpoint(checkpoint, runs_root)
    except CheckpointError as error:
        raise typer.BadParameter(str(error)) from error
    try:
        result = evaluate_checkpoint(path, split, device)
    except LookupError as error:
        raise typer.BadParameter(error.args[0]) from error
    print(_as_json(result) if json else _as_text(result))
    if predictions is not None:
        _write_csv(predictions, result)
    return 0


def _as_text(result: Evaluation) -> str:
    scores = " ".join(f"{name} {value!r}" for name, value in result.scores.items())
    return f"{result.path} (epoch {result.epoch}, step {result.step})\n{result.split} {scores}"


def _as_json(result: Evaluation) -> str:
    import json

    about: dict[str, Any] = {"checkpoint": str(result.path), "which": result.path.stem, "step": result.step}
    about |= {"epoch": result.epoch, "split": result.split, "samples": len(result.targets)}
    # JSON has no nan and inf; as a string float() reads them.
    values = {name: value if abs(value) < float("inf") else repr(value) for name, value in result.scores.items()}
    return json.dumps(about | values | {"hex": {name: value.hex() for name, value in result.scores.items()}})


def _write_csv(path: Path, result: Evaluation) -> None:
    import csv

    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["index", "target", "prediction"])
        writer.writerows(zip(range(len(result.targets)), result.targets, result.predictions, strict=True))
