"""`tdt init`: a config to start from."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from tdt.commands import _complete
from tdt.commands._help import examples
from tdt.commands._options import Json, Traceback
from tdt.commands._output import say

EXAMPLE = examples("tdt init digits-cnn my.yaml", "tdt init flowers.csv --target species", "tdt init photos/")


def init(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="TEMPLATE|DATA",
            help="A template, a CSV or TSV file, or a folder with a folder of images for each class. Without it: the templates.",
            autocompletion=_complete.starts,
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="The config to write; by default named as what it starts from."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            metavar="COLUMN",
            help="The column to predict; by default target, label, class or y, else the last.",
            autocompletion=_complete.columns,
        ),
    ] = None,
    json: Json = False,
    traceback: Traceback = False,
) -> int:
    """Write a config to start from: a template, or one made for a table or images, whose columns or classes it lists."""
    from tdt.train.data import starters

    if what is None:
        return _list(starters.templates(), json)
    path = Path(what)
    if not what.isprintable():
        raise typer.BadParameter(f"{what!r}: a config cannot name it; rename what is no letter, or no UTF-8")
    file = file or Path(f"{path.resolve().stem if path.exists() else path.name}.yaml")
    if file.exists():
        raise typer.BadParameter(
            f"{file} is there already, and is not overwritten; name another: tdt init {what} other.yaml"
        )
    text, report = _written(path, file, target)
    with open(file, "x", encoding="utf-8") as new:
        new.write(text)
    if json:
        from tdt.commands._tables import print_json

        return print_json({"file": str(file)})
    say(*report, f"{file} is written; next: tdt train {shlex.quote(str(file))}")
    return 0


def _written(path: Path, file: Path, target: str | None) -> tuple[str, list[str]]:
    """The config, and what was found in the data, which it begins with."""
    from tdt.train.data import starters

    is_table = path.is_file() and path.suffix.lower() in starters.TABLES
    if target is not None and not is_table:
        raise typer.BadParameter("--target is a column of a table", param_hint="--target")
    if path.is_file() and not is_table:
        raise typer.BadParameter(f"{path}: expected a {' or '.join(starters.TABLES)} file, a folder or a template")
    if not is_table and not path.is_dir():
        return starters.template(str(path), file), []
    text = starters.table(path, file, target) if is_table else starters.images(path, file)
    _, *report = text.partition("\n\n")[0].splitlines()  # below the schema's line, above the command to train
    return text, [line.removeprefix("#").removeprefix(" ") for line in report[:-2]]


def _list(templates: dict[str, str], json: bool) -> int:
    from tdt.commands._tables import print_json, text

    if json:
        return print_json({"templates": templates})
    say(text(("template", ""), list(templates.items())), "to use one: tdt init TEMPLATE")
    return 0
