"""The trainer behind the command `tdt`: config, build, loop, events, checkpoints, run folders.

For programs: `fit` trains, `evaluate` evaluates, `Run` reads a run, `list_runs` lists them; `tdt.load_model` loads a trained
model. `Callback` and `Metric` are base classes of the user's own. Below these, `tdt.train.config` loads configs,
`tdt.train.session.Session` trains them, and `tdt.train.registry` holds the names that a config may use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tdt.train.api import Run as Run
    from tdt.train.api import evaluate as evaluate
    from tdt.train.api import fit as fit
    from tdt.train.api import list_runs as list_runs
    from tdt.train.config import registry as registry
    from tdt.train.errors import StopTraining as StopTraining
    from tdt.train.logging.callbacks import Callback as Callback
    from tdt.train.metrics import Metric as Metric

_HOMES = {
    "Callback": "logging.callbacks",
    "Metric": "metrics",
    "Run": "api",
    "StopTraining": "errors",
    "evaluate": "api",
    "fit": "api",
    "list_runs": "api",
}


def __getattr__(name: str) -> Any:  # lazy: `tdt --help` needs none of them
    if name == "registry":
        return importlib.import_module("tdt.train.config.registry")
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES, "registry"])
