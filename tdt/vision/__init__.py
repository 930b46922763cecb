"""Images: data sets, how to prepare them (`transforms`), networks for them (`models`), and writing them (`utils`)."""

import importlib
from types import ModuleType

PARTS = ("datasets", "models", "ops", "transforms", "utils")


def __getattr__(name: str) -> ModuleType:
    # On first use, so that the command line can name tdt.vision without loading NumPy.
    if name in PARTS:
        return importlib.import_module(f"tdt.vision.{name}")
    raise AttributeError(f"module 'tdt.vision' has no attribute '{name}'")
