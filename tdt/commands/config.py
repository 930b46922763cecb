"""`tdt config`: a config as it is resolved, with the origin of each value, and in what two differ."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tdt.commands._complete import runs
from tdt.commands._help import Command, Group, examples
from tdt.commands._options import PLAIN, ConfigName, Json, Overrides, Root, Traceback, Trust
from tdt.commands._output import say
from tdt.commands._tables import print_json, text

EXAMPLE = examples("tdt config show digits-cnn optimizer.lr=0.1", "tdt config diff digits-mlp digits-cnn")

config = typer.Typer(
    cls=Group,
    help="Show what a config comes to, and in what two differ.",
    epilog=EXAMPLE,
    no_args_is_help=True,
    **PLAIN,
)

Either = Annotated[
    str,
    typer.Argument(metavar="CONFIG|RUN", help="A YAML file, a bundled config or a run.", autocompletion=runs),
]


@config.command(
    "show", cls=Command, epilog=examples("tdt config show digits-cnn", "tdt config show my.yaml train.epochs=3 --json")
)
def show(
    config: ConfigName,
    overrides: Overrides = None,
    json: Json = False,
    trust: Trust = False,
    traceback: Traceback = False,
) -> int:
    """Print a config with extends, references, overrides and defaults resolved, and where each value comes from."""
    from tdt.train.config import load
    from tdt.train.config.writer import settings

    checked = load(config, overrides or ())
    if json:
        values = settings(checked.resolved(), checked.file)
        return print_json(
            {key: {"value": value, "origin": checked.origin(tuple(key.split(".")))} for key, value in values.items()}
        )
    say(checked.annotated(), end="", whole=True)
    return 0


@config.command(
    "diff",
    cls=Command,
    epilog=examples("tdt config diff digits-mlp digits-cnn", "tdt config diff my.yaml digits-cnn/1"),
)
def diff(
    a: Either,
    b: Either,
    json: Json = False,
    runs_root: Root = Path("runs"),
    trust: Trust = False,
    traceback: Traceback = False,
) -> int:
    """Show the values in which two configs or runs differ."""
    from tdt.train.config.writer import settings
    from tdt.train.runs.history import differing

    rows = differing([settings(_text(name, runs_root), name) for name in (a, b)])
    if json:
        return print_json({"configs": [a, b], "settings": rows})
    if not rows:
        say("the same settings")
        return 0
    settled = [(key, *("-" if one is None else one for one in row)) for key, row in rows.items()]
    say(text(("setting", a, b), settled), whole=True)
    return 0


def _text(name: str, root: Path) -> str:
    """The resolved config of a file, of a bundled config, or of a run."""
    from tdt.train.config import bundled, load

    if Path(name).is_file() or name in bundled() or Path(name).suffix in (".yaml", ".yml"):
        return load(name).resolved()
    from tdt.train.runs.run import Run

    return Run.open(name, root).config_text()
