"""Evaluation mode for a while."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tdt.nn import Module


@contextlib.contextmanager
def evaluating(model: Module) -> Iterator[None]:
    """Evaluation mode for all modules in this block; restores the mode of each afterwards."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode
