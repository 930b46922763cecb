"""Images: data sets, how to prepare them (`transforms`), networks for them (`models`), and writing them (`utils`)."""

import importlib
from types import ModuleType

PARTS = ("datasets", "models", "ops", "transforms", "utils")


def __getattr__(name: str) -> ModuleType:
    # Imported on first use, so that the command line can import tdt.vision without NumPy.
    if name in PARTS:
        return importlib.import_module(f"tdt.vision.{name}")
    raise AttributeError(f"module 'tdt.vision' has no attribute '{name}'")
