"""How many kernels, and how many other functions, a recording calls."""

from __future__ import annotations

import dis
import functools
from collections.abc import Callable
from types import BuiltinFunctionType
from typing import Any

import numpy as np

from tdt._compiled.recording import Recording


def counts(recording: Recording) -> tuple[int, int]:
    """The calls of kernels and of Python functions in a call, and in the backward pass from all results with gradients."""
    functions: list[Any] = [recording.forward]
    functions += [backward for chosen, (backward, _) in recording.backwards.items() if all(chosen)]
    called = [_is_kernel(function) for each in functions for function in _called(each)]
    return sum(called), len(called) - sum(called)


def _called(function: Any) -> list[Callable[..., Any]]:
    """The functions that are called by a function that was written for a program, each as often as it is."""
    names = (i.argval for i in dis.get_instructions(function.__code__) if i.opname == "LOAD_GLOBAL")
    return [value for name in names if callable(value := function.__globals__.get(name))]


def _is_kernel(function: Any) -> bool:
    """Whether it is a ufunc or a kernel, with numbers for its last arguments, or one that is followed by another."""
    if isinstance(function, BuiltinFunctionType) and function.__name__.startswith("tdt_"):  # of `_builtin`
        return True
    if isinstance(function, np.ufunc) or (getattr(function, "__module__", None) or "").startswith("tdt._kernels"):
        return True
    if isinstance(function, functools.partial):
        return _is_kernel(function.func)
    is_wrapper = (getattr(function, "__module__", None) or "").startswith("tdt._compiled")
    inner = [cell.cell_contents for cell in (getattr(function, "__closure__", None) or ()) if is_wrapper]
    return any(_is_kernel(each) for each in inner if callable(each))
