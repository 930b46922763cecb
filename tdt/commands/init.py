"""`tdt init`: a config to start from."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from tdt.commands import _complete
from tdt.commands._help import examples
from tdt.commands._options import Json, Traceback

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
        ),
    ] = None,
    json: Json = False,
    traceback: Traceback = False,
) -> int:
    """Write a config to start from: a template, or one made for a table or images, whose columns or classes it lists."""
    from tdt.train import starters

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
    is_table = path.is_file() and path.suffix.lower() in starters.TABLES
    if target is not None and not is_table:
        raise typer.BadParameter("--target is a column of a table", param_hint="--target")
    if path.is_file() and not is_table:
        raise typer.BadParameter(f"{what}: expected a {' or '.join(starters.TABLES)} file, a folder or a template")
    if is_table:
        text = starters.table(path, file, target)
    else:
        text = starters.images(path, file) if path.is_dir() else starters.template(what, file)
    with open(file, "x", encoding="utf-8") as new:
        new.write(text)
    if json:
        from tdt.commands._tables import print_json

        return print_json({"file": str(file)})
    else:
        found = [line for line in text.partition("\n\n")[0].splitlines() if is_table or path.is_dir()]
        print(
            *(line.removeprefix("#").removeprefix(" ") for line in found[1:-2]),
            f"{file} is written; next: tdt train {shlex.quote(str(file))}",
            sep="\n",
        )
    return 0


def _list(templates: dict[str, str], json: bool) -> int:
    from tdt.commands._tables import print_json, text

    if json:
        return print_json({"templates": templates})
    print(text(("template", ""), list(templates.items())), "to use one: tdt init TEMPLATE", sep="\n")
    return 0
