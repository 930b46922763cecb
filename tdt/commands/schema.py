"""`tdt schema`: the JSON Schema of configs, for completion and validation in editors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tdt.commands._help import examples
from tdt.commands._options import Traceback
from tdt.commands._output import print_lines

EXAMPLE = examples("tdt schema --output tdt.schema.json") + (
    "\n\nEditors use the schema for configs in the same folder that begin with this line:"
    "\n\n\b\n  # yaml-language-server: $schema=tdt.schema.json"
)


def schema(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file; overwrites it.")
    ] = None,
    traceback: Traceback = False,
) -> int:
    """Print the JSON Schema (draft 2020-12) of configs, with every component and its arguments."""
    from tdt.train.config.schema import as_json
    from tdt.train.config.schema import schema as config_schema

    text = as_json(config_schema())
    if output is None:
        print_lines(text, end="", whole=True)
    else:
        output.write_text(text, encoding="utf-8")
    return 0
