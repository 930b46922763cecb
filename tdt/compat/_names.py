"""Functions and classes of the `torch` namespace that only PyTorch programs use.

>>> from tdt.compat._names import _assert
>>> _assert(1 + 1 == 2, "wrong sum")
"""

from __future__ import annotations

import importlib
from typing import Any

import tdt
from tdt import _about
from tdt.compat._checks import *  # noqa: F403
from tdt.compat._devices import *  # noqa: F403
from tdt.compat._foreach import *  # noqa: F403
from tdt.compat._internal_ops import *  # noqa: F403
from tdt.compat._refusal import refused_class
from tdt.compat._symbolic import *  # noqa: F403
from tdt.compat.jit import ScriptFunction, ScriptModule  # noqa: F401

_SYMBOLIC = "tdt does not trace with symbolic sizes; sizes are ints"
SymInt = refused_class("SymInt", _SYMBOLIC)
SymFloat = refused_class("SymFloat", _SYMBOLIC)
SymBool = refused_class("SymBool", _SYMBOLIC)
PyTorchFileReader = refused_class("PyTorchFileReader", "tdt reads files through tdt.load, without this class")
ScriptObject = refused_class("ScriptObject", "tdt has no TorchScript")


class _AbsentDtype:
    """A dtype of PyTorch's that no tensor of tdt has: programs compare dtypes with it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"{_about.prefix}.{self.name}"


complex32 = chalf = _AbsentDtype("complex32")


def _assert(condition: object, message: str) -> None:
    """`assert condition, message`, as a function."""
    if not condition:
        raise AssertionError(message)


def _convert_indices_from_coo_to_csr(input: Any, size: int, *, out_int32: bool = False) -> Any:
    """Of the ascending row numbers of elements, where each of `size` rows begins, and where the last one ends."""
    ends = tdt.bincount(input, minlength=size).cumsum(0)
    return tdt.cat([ends.new_zeros(1), ends]).to(tdt.int32 if out_int32 else tdt.int64)


def _convert_indices_from_csr_to_coo(
    crow_indices: Any, col_indices: Any, *, out_int32: bool = False, transpose: bool = False
) -> Any:
    """The row and column number of each element, of where the rows begin and the column numbers."""
    rows = tdt.arange(len(crow_indices) - 1, device=col_indices.device).repeat_interleave(crow_indices.diff())
    both = [col_indices, rows] if transpose else [rows, col_indices]
    return tdt.stack([i.to(tdt.int32 if out_int32 else tdt.int64) for i in both])


def __getattr__(name: str) -> Any:
    modules = {"Future": "futures", "ScriptFunction": "jit", "ScriptModule": "jit", "fork": "jit", "wait": "jit"}
    if name in modules:  # imported lazily: `jit` imports tdt.nn, which takes too long for a single name
        return getattr(importlib.import_module(f"tdt.compat.{modules[name]}"), name)
    if name == "torch":  # as torch.torch is torch
        return importlib.import_module(_about.prefix)
    raise AttributeError(f"module 'tdt' has no attribute '{name}'")
