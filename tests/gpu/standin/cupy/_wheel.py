"""What the real wheel offers: `wheel.txt`, made by `tests/gpu/listing.py`."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np

_LINES = Path(__file__).parents[1].joinpath("wheel.txt").read_text().splitlines()
VERSION = _LINES[0].split()[-1]

LOOPS: dict[str, list[list[list[np.dtype]]]] = {}  # ufunc → [dtypes of the operands, of the results], in CuPy's order
_PARAMETERS: dict[str, str] = {}  # function or method → "(a, axis=0)"
for _line in _LINES[1:]:
    _name, _bracket, _rest = _line.partition("(")
    if _bracket:
        _PARAMETERS[_name] = "(" + _rest
    else:
        _name, *_types = _line.split()
        LOOPS[_name] = [
            [[np.dtype(code) for code in side] for side in types.split("->")] for types in _types if "E" not in types
        ]  # without complex numbers of float16, which NumPy has not


def signature(name: str) -> inspect.Signature:
    """The parameters of a function or method, by its full name; AttributeError if the wheel has none of that name."""
    if name not in _PARAMETERS:
        module, _, last = name.rpartition(".")
        raise AttributeError(f"module {module!r} has no attribute {last!r} in CuPy {VERSION}")
    scope: dict = {}
    exec(f"def function{_PARAMETERS[name]}: pass", scope)
    return inspect.signature(scope["function"])


def check(name: str, args: tuple, options: dict) -> None:
    """TypeError, as the wheel raises, for a call that its signature does not allow."""
    if name not in _checked:
        _checked[name] = signature(name)
    try:
        _checked[name].bind(*args, **options)
    except TypeError as error:
        raise TypeError(f"{name}: {error}") from None


_checked: dict[str, inspect.Signature] = {}
