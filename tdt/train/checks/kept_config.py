"""What the config in a checkpoint or run folder may not do: it may come from anyone."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from tdt.train.config.imports import trusted
from tdt.vision.datasets._files import no_downloads

_WHY = (
    "the config that comes with a checkpoint or a run downloads nothing by itself; put the file there, write "
    "download=true on the command line, or give --trust"
)


def kept_config(overrides: Sequence[str] = ()) -> AbstractContextManager[None]:
    """The block in which the config of a checkpoint or a run is used: its data sets download nothing, and make no folders.

    Unless this process trusts configs (`--trust`), or `overrides`, which the user writes, ask for a download.
    """
    asked = any(text.startswith("data") and "download" in text for text in overrides)
    return nullcontext() if asked or trusted() else no_downloads(_WHY)
