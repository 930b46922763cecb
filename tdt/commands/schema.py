"""`tdt schema`: the JSON Schema of configs, from which editors complete and check them."""

from __future__ import annotations

from tdt.commands._help import examples
from tdt.commands._options import Traceback

EXAMPLE = examples("tdt schema > tdt.schema.json") + (
    "\n\nAn editor follows it in a config whose first line is\n\n\b\n  # yaml-language-server: $schema=tdt.schema.json"
)


def schema(traceback: Traceback = False) -> int:
    """Print the JSON Schema (draft 2020-12) of configs: sections, and every component with its arguments."""
    import json

    from tdt.train.config.schema import schema as made

    print(json.dumps(made(), indent=1))
    return 0
