"""Options that several verbs have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tdt.commands._complete import checkpoints, configs, devices, overrides

# Of a verb's own Typer: help as plain text (cli.py says why), and no options for completion, which `tdt` has.
PLAIN: dict[str, Any] = {"add_completion": False, "rich_markup_mode": None}


def _trust(context: typer.Context, allowed: bool) -> bool:
    if not context.resilient_parsing:  # what completion parses is not run
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
        help="Other values, as in optimizer.lr=0.1, or ~scheduler.",
        metavar="KEY=VALUE...",
        autocompletion=overrides,
    ),
]
Device = Annotated[
    str | None,
    typer.Option(
        "--device", metavar="D", help="cpu, cuda, cuda:1 or auto, instead of the config's.", autocompletion=devices
    ),
]
Root = Annotated[Path, typer.Option("--runs-root", metavar="DIR", help="The folder of all runs.")]
Traceback = Annotated[bool, typer.Option("--traceback", help="Show where in the program an error arose.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, with all digits.")]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Run the Python that the config imports (read it first); let a checkpoint's config download data.",
        callback=_trust,
    ),
]
