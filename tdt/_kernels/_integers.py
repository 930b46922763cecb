"""The functions that a formula of integers may call. Results wrap round, as NumPy's and PyTorch's do."""

from __future__ import annotations

from typing import Any

import numpy as np

from tdt._kernels.expression import (
    Expression,
    abs,
    as_expression,
    asarray,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    multiply,
    negative,
    sign,
    square,
    where,
    zeros_like,
)


class IntegerInput(Expression):
    """An operand of a formula of integers, by its place and NumPy's letter of its type, of which the formula may see a part."""

    __slots__ = ()

    @property
    def dtype(self) -> Any:
        return _IntegerType(np.dtype(self.args[1]))


class _IntegerType:
    def __init__(self, dtype: np.dtype):
        self.kind, self.itemsize, self.type = dtype.kind, dtype.itemsize, as_expression


def are_integral(expression: Expression) -> bool:
    """Whether all constants that lead to a value are integers."""
    visited: set[int] = set()
    stack: list[Any] = [expression]
    while stack:
        each = stack.pop()
        if id(each) in visited or not isinstance(each, Expression):
            continue
        visited.add(id(each))
        if each.op == "constant" and not float(each.args[0]).is_integer():
            return False
        stack += each.args
    return True


def maximum(x: Any, y: Any) -> Expression:
    """The larger one."""
    x, y = as_expression(x), as_expression(y)
    return where(y > x, y, x)


def minimum(x: Any, y: Any) -> Expression:
    """The smaller one."""
    x, y = as_expression(x), as_expression(y)
    return where(y < x, y, x)


def bitwise_and(x: Expression, y: Expression) -> Expression:
    """The bits that both have."""
    return x & y


def bitwise_or(x: Expression, y: Expression) -> Expression:
    """The bits that one has."""
    return x | y


def bitwise_xor(x: Expression, y: Expression) -> Expression:
    """The bits that exactly one has."""
    return x ^ y


def bitwise_not(x: Expression) -> Expression:
    """The bits that it has not."""
    return ~x


def left_shift(x: Any, y: Any) -> Expression:
    """x 2^y; y is less than the bits of the type, and not negative."""
    return Expression("shift_left", as_expression(x), as_expression(y))


def right_shift(x: Any, y: Any) -> Expression:
    """x / 2^y rounded down; y is less than the bits of the type, and not negative."""
    return Expression("shift_right", as_expression(x), as_expression(y))


def _quotient(x: Any, y: Any) -> tuple[Expression, Expression]:
    """x / y rounded towards 0, and the remainder; y is not 0."""
    quotient = Expression("quotient", as_expression(x), as_expression(y))
    return quotient, x - quotient * y


def _signs_differ(rest: Expression, y: Expression) -> Expression:
    return (rest != 0) & ((rest < 0) ^ (y < 0))


def floor_divide(x: Expression, y: Expression) -> Expression:
    """x / y rounded down; y is not 0."""
    quotient, rest = _quotient(x, y)
    return quotient - _signs_differ(rest, y)


def remainder(x: Expression, y: Expression) -> Expression:
    """What is left of x, with the sign of y, which is not 0."""
    _, rest = _quotient(x, y)
    return where(_signs_differ(rest, y), rest + y, rest)


def fmod(x: Expression, y: Expression) -> Expression:
    """What is left of x, with its sign; y is not 0."""
    return _quotient(x, y)[1]


class Integers:
    """NumPy's names."""


for _function in (
    abs, asarray, bitwise_and, bitwise_not, bitwise_or, bitwise_xor, floor_divide, fmod, left_shift, logical_and, logical_not,
    logical_or, logical_xor, maximum, minimum, multiply, negative, remainder, right_shift, sign, square, where, zeros_like,
):  # fmt: skip
    setattr(Integers, _function.__name__, staticmethod(_function))
for _name, _function in {"absolute": abs, "fmax": maximum, "fmin": minimum}.items():
    setattr(Integers, _name, staticmethod(_function))
