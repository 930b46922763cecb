"""`tdt init`: write a new config."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Annotated, Literal

import typer

from tdt.commands import _complete
from tdt.commands._help import examples
from tdt.commands._options import Json, Traceback
from tdt.commands._output import print_lines
from tdt.commands._progress import image_progress

TABLES = (".csv", ".tsv")
EXAMPLE = examples("tdt init digits-cnn my.yaml", "tdt init flowers.csv --target species", "tdt init photos/")


def init(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="TEMPLATE|DATA",
            help="A template, a CSV or TSV file, or a folder of images: a subfolder per class, or images/ and masks/; "
            "default: list templates.",
            autocompletion=_complete.starts,
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="The config file to write; default: the name of the template or data."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            metavar="COLUMN",
            help="The column to predict, or several, as in a,b; default: target, label, class or y, or else the last one.",
            autocompletion=_complete.columns,
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the config file if it exists.")] = False,
    skip_damaged: Annotated[
        bool, typer.Option("--skip-damaged", help="Leave out images that cannot be read; default: list them and stop.")
    ] = False,
    json: Json = False,
    traceback: Traceback = False,
) -> int:
    """Write a config: a copy of a template, or one generated for your table or image folder.

    Beside it goes tdt.schema.json, from which editors complete and check the config.
    """
    from tdt._files import replace_file
    from tdt.train.data.starters import templates

    if what is None:
        return _list(templates.templates(), json)
    path = Path(what)
    if not what.isprintable():
        raise typer.BadParameter(
            f"{what!r}: a config cannot contain this path; rename the file without control or non-UTF-8 characters"
        )
    file = file or Path(f"{path.resolve().stem if path.exists() else path.name}.yaml")
    if os.path.lexists(file) and not force:
        raise typer.BadParameter(
            f"{file} already exists and is not overwritten; choose another name: tdt init {what} other.yaml, or "
            "overwrite it: --force"
        )
    text, report = _generate(path, file, target, skip_damaged)
    replace_file(file, text.encode())
    templates.copy_schema(file.parent)
    if json:
        from tdt.commands._tables import print_json

        return print_json({"file": str(file)})
    print_lines(*report, f"wrote {file}; next: tdt train {shlex.quote(str(file))}")
    return 0


def _generate(path: Path, file: Path, target: str | None, skip_damaged: bool) -> tuple[str, list[str]]:
    """The text of the config, and the report about the data from the comment at its top."""
    is_table = path.is_file() and path.suffix.lower() in TABLES
    if target is not None and not is_table:
        raise typer.BadParameter(f"--target needs a table ({' or '.join(TABLES)})", param_hint="--target")
    if skip_damaged and not path.is_dir():
        raise typer.BadParameter("--skip-damaged needs a folder of images", param_hint="--skip-damaged")
    if path.is_file() and not is_table:
        raise typer.BadParameter(f"{path}: expected a {' or '.join(TABLES)} file, a folder or a template")
    if not is_table and not path.is_dir():
        from tdt.train.data.starters.templates import template

        return template(str(path), file), []
    text = _for_table(path, file, target) if is_table else _for_images(path, file, skip_damaged)
    _, *report = text.partition("\n\n")[
        0
    ].splitlines()  # the first line points to the schema, the last two to `tdt train`
    return text, [line.removeprefix("#").removeprefix(" ") for line in report[:-2]]


def _for_table(path: Path, file: Path, target: str | None) -> str:
    from tdt.train.data.starters.tables import table

    return table(path, file, target)


def _for_images(path: Path, file: Path, skip_damaged: bool) -> str:
    from tdt.train.data.starters.images import images
    from tdt.train.data.starters.masks import find_pairs, masks

    damaged: Literal["error", "skip"] = "skip" if skip_damaged else "error"
    with image_progress():
        pairs = find_pairs(path)
        return masks(path, pairs, file, damaged) if pairs else images(path, file, damaged)


def _list(templates: dict[str, str], json: bool) -> int:
    from tdt.commands._tables import print_json, text

    if json:
        return print_json({"templates": templates})
    print_lines(text(("template", ""), list(templates.items())), "to copy one: tdt init TEMPLATE")
    return 0
