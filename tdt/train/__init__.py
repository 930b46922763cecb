"""The trainer behind the command `tdt`: config, build, loop, events, checkpoints, run folders.

For programs: `tdt.train.config` loads configs, `tdt.train.session.Session` trains them, `tdt.train.registry` holds the names
that a config may use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tdt.train.config import registry as registry


def __getattr__(name: str) -> Any:
    if name == "registry":  # lazy: `tdt --help` does not need it
        return importlib.import_module("tdt.train.config.registry")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
