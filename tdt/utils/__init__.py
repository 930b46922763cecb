"""Helpers around training: data loading and TensorBoard, under PyTorch's names."""

import importlib
from types import ModuleType


def __getattr__(name: str) -> ModuleType:
    # On first use, so that the command line can name tdt.utils without loading NumPy.
    if name in ("benchmark", "checkpoint", "data", "dlpack", "tensorboard"):
        return importlib.import_module(f"tdt.utils.{name}")
    raise AttributeError(f"module 'tdt.utils' has no attribute '{name}'")
