"""`tdt schema`: the JSON Schema of configs, from which editors complete and check them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tdt.commands._help import examples
from tdt.commands._options import Traceback
from tdt.commands._output import say

EXAMPLE = examples("tdt schema --output tdt.schema.json") + (
    "\n\nAn editor follows it in a config beside it whose first line is"
    "\n\n\b\n  # yaml-language-server: $schema=tdt.schema.json"
)


def schema(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it to a file, over what is there.")
    ] = None,
    traceback: Traceback = False,
) -> int:
    """Print the JSON Schema (draft 2020-12) of configs: sections, and every component with its arguments."""
    from tdt.train.config.schema import as_json
    from tdt.train.config.schema import schema as made

    text = as_json(made())
    if output is None:
        say(text, end="", whole=True)
    else:
        output.write_text(text, encoding="utf-8")
    return 0
