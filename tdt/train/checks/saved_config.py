"""Restrictions for configs from checkpoints and run folders, which may come from anyone."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from tdt.train.config.imports import trusted
from tdt.vision.datasets._files import no_downloads

_WHY = (
    "the config that comes with a checkpoint or a run downloads nothing by itself, without download=true on the "
    "command line or --trust"
)


def restrict_saved_config(overrides: Sequence[str] = ()) -> AbstractContextManager[None]:
    """Context manager in which the datasets of a config from a checkpoint or a run download nothing and create no folders.

    Does nothing if this process trusts configs (`--trust`), or if the user's `overrides` ask for a download.
    """
    requested = any(text.startswith("data") and "download" in text for text in overrides)
    return nullcontext() if requested or trusted() else no_downloads(_WHY)
