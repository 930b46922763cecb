"""Options that several verbs have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tdt.commands._complete import devices

Device = Annotated[
    str | None,
    typer.Option(
        "--device", metavar="D", help="cpu, cuda, cuda:1 or auto, instead of the config's.", autocompletion=devices
    ),
]
Root = Annotated[Path, typer.Option("--runs-root", metavar="DIR", help="The folder of all runs.")]
Traceback = Annotated[bool, typer.Option("--traceback", help="Show where in the program an error arose.")]
