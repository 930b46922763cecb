"""`torch.sym_int` and its relatives: arithmetic that PyTorch also does on symbolic sizes, here on numbers.

>>> import tdt
>>> tdt.sym_int(3.7), tdt.sym_max(3, 4.0), tdt.sym_sum([1, 2, 3])
(3, 4.0, 6)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

__all__ = ["sym_float", "sym_fresh_size", "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not", "sym_sqrt", "sym_sum"]


def sym_int(a: Any) -> int:
    """`a` as an int, rounded towards 0."""
    return math.floor(a) if a >= 0 else math.ceil(a)


def sym_float(a: Any) -> float:
    """`a` as a float."""
    return float(a)


def sym_not(a: Any) -> bool:
    """Whether `a` is false."""
    return not a


def sym_sqrt(a: Any) -> float:
    """The square root of `a`."""
    return math.sqrt(a)


def _kind(a: Any, b: Any) -> type:
    for value in (a, b):
        if not isinstance(value, int | float):
            raise AssertionError(f"expected an int or a float, got {type(value)}")
    return float if isinstance(a, float) or isinstance(b, float) else int


def sym_max(a: Any, b: Any) -> Any:
    """The larger of two numbers; a float if one of them is."""
    return _kind(a, b)(max(a, b))


def sym_min(a: Any, b: Any) -> Any:
    """The smaller of two numbers; a float if one of them is."""
    return _kind(a, b)(min(a, b))


def sym_sum(args: Sequence[Any]) -> Any:
    """The sum of numbers."""
    return sum(args)


def sym_ite(b: bool, t: Any, f: Any) -> Any:
    """`t` if `b`, else `f`; both have one type."""
    if not isinstance(b, bool):
        raise AssertionError(f"expected SymBool or bool, got {type(b)}")
    if type(t) is not type(f):
        raise AssertionError(f"type mismatch: {type(t)} vs {type(f)}")
    return t if b else f


def sym_fresh_size(expr: Any) -> None:
    """Not offered: NotImplementedError."""
    raise NotImplementedError("sym_fresh_size: tdt does not trace with symbolic sizes")
