"""Text: networks for tokens (`models`), named and computed as Hugging Face transformers' are."""

import importlib
from types import ModuleType

PARTS = ("models",)


def __getattr__(name: str) -> ModuleType:
    # Imported on first use, so that the command line can import tdt.text without NumPy.
    if name in PARTS:
        return importlib.import_module(f"tdt.text.{name}")
    raise AttributeError(f"module 'tdt.text' has no attribute '{name}'")
