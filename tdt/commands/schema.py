"""`tdt schema`: the JSON Schema of configs, from which editors complete and check them."""

from __future__ import annotations

from tdt.commands._options import Traceback

EXAMPLE = (
    "Example:  tdt schema > tdt.schema.json, and in a config the first line "
    "'# yaml-language-server: $schema=tdt.schema.json'"
)


def schema(traceback: Traceback = False) -> int:
    """Print the JSON Schema (draft 2020-12) of configs: sections, and every component with its arguments."""
    import json

    from tdt.train.config.schema import schema as made

    print(json.dumps(made(), indent=1))
    return 0
