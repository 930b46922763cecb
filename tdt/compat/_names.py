"""Functions and classes of the `torch` namespace that only PyTorch programs use.

>>> from tdt.compat._names import _assert
>>> _assert(1 + 1 == 2, "wrong sum")
"""

from __future__ import annotations

import importlib
from typing import Any

from tdt.compat._checks import *  # noqa: F403
from tdt.compat._foreach import *  # noqa: F403
from tdt.compat._refusal import refused_class
from tdt.compat.jit import ScriptFunction, ScriptModule  # noqa: F401

_SYMBOLIC = "tdt does not trace with symbolic sizes; sizes are ints"
SymInt = refused_class("SymInt", _SYMBOLIC)
SymFloat = refused_class("SymFloat", _SYMBOLIC)
SymBool = refused_class("SymBool", _SYMBOLIC)
PyTorchFileReader = refused_class("PyTorchFileReader", "tdt reads files through tdt.load, without this class")
ScriptObject = refused_class("ScriptObject", "tdt has no TorchScript")


def _assert(condition: object, message: str) -> None:
    """`assert condition, message`, as a function."""
    if not condition:
        raise AssertionError(message)


def __getattr__(name: str) -> Any:
    modules = {"Future": "futures", "ScriptFunction": "jit", "ScriptModule": "jit", "fork": "jit", "wait": "jit"}
    if name in modules:  # imported lazily: `jit` imports tdt.nn, which takes too long for a single name
        return getattr(importlib.import_module(f"tdt.compat.{modules[name]}"), name)
    raise AttributeError(f"module 'tdt' has no attribute '{name}'")
