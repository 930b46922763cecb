"""Helpers around training: data loading and TensorBoard, under PyTorch's names."""

from __future__ import annotations

import importlib
from typing import Any

from tdt.compat._find import module_getattr

_find = module_getattr("tdt.utils")


# Submodules come in on first use, so that the command line can name tdt.utils without loading NumPy.
def __getattr__(name: str) -> Any:
    return importlib.import_module("tdt.utils._swap").swap_tensors if name == "swap_tensors" else _find(name)
