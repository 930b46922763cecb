"""`tdt predict`: predictions of a trained model for new inputs."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tdt.commands import _startup
from tdt.commands._errors import paint
from tdt.commands._help import examples
from tdt.commands._options import Checkpoint, Device, Root, Traceback, Trust, check_output, existing_checkpoint
from tdt.commands._output import one_line, print_lines
from tdt.commands._progress import progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tdt.commands._predictions import Write
    from tdt.train.model.predictions import Prediction

EXAMPLE = examples(
    "tdt predict digits-cnn photo.png folder/ --top 3",
    "tdt predict pets/2 new.csv --output answers.csv",
    "tdt predict streets photos/ --output masks/",
    "echo 'def f' | tdt predict gpt - --json",
)

Inputs = Annotated[
    list[str],
    typer.Argument(
        help="Images, folders of images, a CSV with the training columns, an NPZ or a text file; - for stdin.",
        metavar="INPUT...",
    ),
]
Output = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write a .csv, .tsv, .jsonl or .npz file, or a folder of masks; - for CSV on stdout.",
    ),
]


def predict(
    checkpoint: Checkpoint,
    inputs: Inputs,
    top: Annotated[int, typer.Option("--top", min=1, metavar="N", help="Show the N most likely classes.")] = 1,
    output: Output = None,
    csv: Annotated[Path | None, typer.Option("--csv", metavar="FILE", hidden=True)] = None,
    json: Annotated[bool, typer.Option("--json", help="Print a JSON object per line, with full precision.")] = False,
    batch_size: Annotated[int, typer.Option("--batch-size", min=1, metavar="N", help="Inputs per batch.")] = 64,
    device: Device = None,
    runs_root: Root = Path("runs"),
    trust: Trust = False,
    traceback: Traceback = False,
) -> int:
    """Predict new inputs with a checkpoint, or the best (or else last) checkpoint of a run. Needs no dataset.

    Predictions are written as inputs are read. Those that cannot be read are listed on stderr, and the exit code is 1.
    """
    from tdt.commands import _predictions
    from tdt.train._agreement import by_first, watched
    from tdt.train._ranks import Ranks
    from tdt.train.loop.prediction import Predictor

    files = [Path(name) for name in (output, csv) if name is not None and str(name) != "-"]
    for file in files:
        check_output(file, inputs)
    ranks = Ranks.of_launch()
    path = by_first(ranks, lambda: existing_checkpoint(checkpoint, runs_root))
    predictor = Predictor(path, device, batch_size=batch_size, ranks=ranks)
    _startup.finish()
    answers = predictor.predict(predictor.read(inputs, lambda: by_first(ranks, sys.stdin.buffer.read)))
    with contextlib.ExitStack() as stack:
        stack.enter_context(watched(ranks, predictor.config.train.stall_timeout.seconds, "predicting"))
        sinks = [_predictions.to_path(file, top, predictor.outputs) for file in files if ranks.first]
        if json:
            sinks.append(_predictions.json_lines(None, top))
        elif output == "-":
            sinks.append(_predictions.delimited(None, ",", top, predictor.outputs))
        elif output is None:
            sinks.append(_predictions.table(path, top, predictor.outputs))
        writers = [stack.enter_context(sink) for sink in sinks]
        shows = stack.enter_context(progress("inputs", quiet=output is None and sys.stdout.isatty()))
        done, failed = _write(answers, writers, shows)
    for note in predictor.notes():
        print_lines(one_line(note), file=sys.stderr)
    if output not in (None, "-") and not json:
        print_lines(f"{path}\nwrote {done - failed:,} predictions to {output}")
    return 1 if failed else 0


def _write(
    answers: Iterable[Prediction], writers: Iterable[Write], shows: Callable[[int, int | None], None]
) -> tuple[int, int]:
    """Write each prediction, and print the inputs that could not be read. Returns the numbers of all inputs and of those."""
    done = failed = 0
    for answer in answers:
        done += 1
        shows(done, None)
        if answer.error is not None:
            failed += 1
            known = answer.error.startswith(f"{answer.name}:")
            message = one_line(answer.error if known else f"{answer.name}: {answer.error}")
            print_lines(f"error: {message}", file=sys.stderr, paint=paint)
        for write in writers:
            write(answer)
    return done, failed
