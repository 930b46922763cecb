"""PyTorch's own test helpers, run over tdt: a copy of the function whose global name `torch` is tdt.

The op database holds lambdas such as `lambda x, other: x.expand_as(other)` and wrappers that call `torch.…`.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import types
from collections.abc import Callable
from typing import Any

import torch

import tdt

_GLOBALS: dict[str, dict[str, Any]] = {}


def over_tdt(function: Callable) -> Callable:
    """`function` from PyTorch's test code with tdt in place of PyTorch; other callables come back as they are."""
    if isinstance(function, functools.partial):
        return functools.partial(over_tdt(function.func), *function.args, **function.keywords)
    if not isinstance(function, types.FunctionType):
        return function
    module = function.__module__
    if module not in sys.modules or sys.modules[module].__dict__ is not function.__globals__:
        return function
    closure = function.__closure__
    if closure:
        closure = tuple(types.CellType(_value(cell.cell_contents)) for cell in closure)
    copy = types.FunctionType(function.__code__, _globals_of(module), function.__name__, function.__defaults__, closure)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def lookup(path: str) -> Any:
    """`tdt.<path>`, or None where tdt does not have it: `lookup("nn.functional.relu")`."""
    found: Any = tdt
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            return None
    return found


def _globals_of(module: str) -> dict[str, Any]:
    if module not in _GLOBALS:
        _GLOBALS[module] = names = dict(sys.modules[module].__dict__)
        names.update({name: _value(v) for name, v in list(names.items())})
        # PyTorch's generators are not tdt's; every case seeds both libraries itself.
        names["freeze_rng_state"] = contextlib.nullcontext
    return _GLOBALS[module]


def _value(value: Any) -> Any:
    if value is torch:
        return tdt
    if isinstance(value, types.ModuleType) and value.__name__.startswith("torch."):
        return lookup(value.__name__.removeprefix("torch."))
    is_test_code = isinstance(value, types.FunctionType) and value.__module__.startswith("torch.testing")
    if is_test_code and value.__globals__ is sys.modules[value.__module__].__dict__:
        return over_tdt(value)
    return value
