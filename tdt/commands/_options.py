"""Arguments and options shared by several commands."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from tdt.commands._complete import checkpoints, configs, devices, overrides
from tdt.commands._output import print_lines

# Settings of a command's Typer: plain-text help (see cli.py), and no completion options, which only `tdt` has.
PLAIN: dict[str, Any] = {"add_completion": False, "rich_markup_mode": None}


def _trust(context: typer.Context, allowed: bool) -> bool:
    if not context.resilient_parsing:  # set while the shell completes: nothing will run
        from tdt.train.config.imports import trust

        trust(allowed)
    return allowed


ConfigName = Annotated[
    str,
    typer.Argument(
        help="A YAML file, or the name of a config that comes with tdt.", metavar="CONFIG", autocompletion=configs
    ),
]
Checkpoint = Annotated[
    str,
    typer.Argument(
        metavar="RUN|CHECKPOINT",
        help="A run: name, name/number or folder; or a checkpoint file.",
        autocompletion=checkpoints,
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        help="Settings of the config, as in optimizer.lr=0.1; ~scheduler removes one.",
        metavar="KEY=VALUE...",
        autocompletion=overrides,
    ),
]
Device = Annotated[
    str | None,
    typer.Option(
        "--device", metavar="D", help="cpu, cuda, cuda:1 or auto; overrides the config.", autocompletion=devices
    ),
]
Root = Annotated[Path, typer.Option("--runs-root", metavar="DIR", help="The folder that contains all runs.")]
Traceback = Annotated[bool, typer.Option("--traceback", help="Print errors with their Python traceback.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, with full precision.")]
Yes = Annotated[bool, typer.Option("-y", "--yes", help="Answer yes to questions, which are only asked on a terminal.")]
Wide = Annotated[bool, typer.Option("--wide", help="Do not cut lines to the width of the terminal.")]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Run the Python code that the config imports (read it first); let the config of a run or checkpoint download data.",
        callback=_trust,
    ),
]


Verbose = Annotated[
    bool,
    typer.Option(
        "-v",
        "--verbose",
        help="Show the optimizer's parameter group of each parameter; of a run also whether steps are compiled, or why not.",
    ),
]


def confirmed(question: str) -> bool:
    """Ask a question on the terminal. Raises BadParameter, the end with code 2, where there is none."""
    if not sys.stdin.isatty():
        raise typer.BadParameter(f"{question.partition('?')[0]}? There is no terminal to answer on: give --yes")
    print_lines(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def existing_checkpoint(name: str, runs_root: Path) -> Path:
    """The file of a checkpoint, or of the best (or else last) one of a run. Raises BadParameter if there is none."""
    from tdt.train.runs.checkpoint import CheckpointError
    from tdt.train.runs.run import find_checkpoint

    try:
        return find_checkpoint(name, runs_root)
    except CheckpointError as error:
        raise typer.BadParameter(str(error)) from error


def check_output(output: str | os.PathLike[str], inputs: Iterable[str | os.PathLike[str]]) -> None:
    """Raise BadParameter if the file `output` is one of the inputs, or the folder `output` holds one directly."""
    target = Path(output)
    for source in map(Path, inputs if target.exists() else ()):
        if source.exists() and target.samefile(source):
            raise typer.BadParameter(f"{output}: is an input, and would be replaced; name another --output")
        if target.is_dir() and source.is_file() and target.samefile(source.parent):
            raise typer.BadParameter(f"{output}: holds the input {source.name}; name another folder as --output")
