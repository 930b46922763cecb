"""Sizes that depend on dynamic dimensions: known by their values in several traces of a model.

A model is traced with several sizes of its dynamic dimensions. What differs between the traces is a `Size`: an integer with
one value for each trace. Arithmetic on it is arithmetic on the values; when a graph must compute it, it is written as a
polynomial of the dynamic dimensions that has these values.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


class Size:
    """An integer that depends on dynamic dimensions: `values[t]` in trace t.

    >>> from tdt.onnx._sizes import Size, size
    >>> batch = Size((2, 3))
    >>> (4 * batch).values, size([8, 8])
    ((8, 12), 8)
    """

    __slots__ = ("values",)

    def __init__(self, values: Sequence[int]) -> None:
        self.values = tuple(values)

    def _with(self, other: Any, function: Callable[[int, int], int]) -> Any:
        if not isinstance(other, (int, Size)):
            return NotImplemented
        others = other.values if isinstance(other, Size) else (other,) * len(self.values)
        return size([function(a, b) for a, b in zip(self.values, others, strict=True)])

    def __add__(self, other: Any) -> Any:
        return self._with(other, operator.add)

    def __sub__(self, other: Any) -> Any:
        return self._with(other, operator.sub)

    def __rsub__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: b - a)

    def __mul__(self, other: Any) -> Any:
        return self._with(other, operator.mul)

    def __floordiv__(self, other: Any) -> Any:
        return self._with(other, operator.floordiv)

    __radd__, __rmul__ = __add__, __mul__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Size) and other.values == self.values

    def __hash__(self) -> int:
        return hash(self.values)

    def __repr__(self) -> str:
        return f"Size{self.values}"


class Differing:
    """A value that differs between the traces, and is no size."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = list(values)

    def __repr__(self) -> str:
        return " or ".join(dict.fromkeys(map(repr, self.values)))


def size(values: Sequence[int]) -> int | Size:
    """An integer if all values are equal, else a Size."""
    return values[0] if all(value == values[0] for value in values) else Size(values)


def same(values: Sequence[Any]) -> Any:
    """What the values of one attribute in all traces have in common: integers that differ become a Size, in tuples too."""
    first = values[0]
    if any(type(value) is not type(first) for value in values):
        return Differing(values)
    if type(first) is int:
        return size(values)
    if isinstance(first, (tuple, list)):
        if any(len(value) != len(first) for value in values):
            return Differing(values)
        parts = [same(part) for part in zip(*values, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)
    equal = all(value is first or bool(np.all(value == first)) for value in values)
    return first if equal or first != first else Differing(values)


def corners(starts: Sequence[int]) -> list[tuple[int, ...]]:
    """The sizes of the dynamic dimensions in each trace: every mixture of n and n + 1, and one larger, which confirms."""
    mixed = list(itertools.product(*[(n, n + 1) for n in starts]))
    return [*mixed, tuple(n + 4 for n in starts)] if starts else mixed


def polynomial(values: Sequence[int], sizes: Sequence[tuple[int, ...]]) -> dict[tuple[int, ...], int] | None:
    """The coefficients of products of dynamic dimensions whose sum has these values; None where there are none.

    Args:
        values: one for each trace.
        sizes: of the dynamic dimensions in each trace.
    Returns: coefficient by the numbers of the dimensions that are multiplied, () for the constant.

    >>> from tdt.onnx._sizes import polynomial
    >>> polynomial([7, 10, 19], [(2,), (3,), (6,)])
    {(): 1, (0,): 3}
    """
    count = len(sizes[0])
    products = [s for n in range(count + 1) for s in itertools.combinations(range(count), n)]
    matrix = np.array([[np.prod([row[i] for i in s], initial=1) for s in products] for row in sizes], float)
    found = np.rint(np.linalg.lstsq(matrix, np.array(values, float), rcond=None)[0])
    if not np.array_equal(matrix @ found, values):
        return None
    return {s: int(c) for s, c in zip(products, found, strict=True) if c}
