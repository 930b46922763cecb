"""The gates of LSTM, GRU and plain recurrences, and their gradients, as code for a vector of one sample's state."""

from __future__ import annotations

from typing import NamedTuple

from tdt._kernels._code import Code, Value
from tdt._kernels._exponential import exp, tanh
from tdt._kernels._inline import inline
from tdt._kernels._rows import load, store
from tdt._kernels.expression import Expression


def _sigmoid(x: Expression) -> Expression:
    return 1 / (1 + exp(-x))


class Place(NamedTuple):
    """Where a vector of a sample's state is: from element i on, in each part of a row; a part has `size` elements."""

    code: Code
    row: Value
    size: Value
    i: Value
    mask: Value | None

    def load(self, array: Value) -> Value:
        """The vector in an array whose rows have one part."""
        return self.parts(array, 1)[0]

    def parts(self, array: Value, parts: int) -> list[Value]:
        """The vectors of all parts."""
        return [load(self.code, array, self._at(part, parts), self.mask) for part in range(parts)]

    def store(self, array: Value, *values: Value) -> None:
        """Write the vectors of all parts."""
        for part, value in enumerate(values):
            store(self.code, value, array, self._at(part, len(values)), self.mask)

    def bias(self, array: Value, parts: int) -> list[Value]:
        """The vectors of an array that is the same for all samples."""
        return self.at(self.code.value(0, "i64")).parts(array, parts)

    def at(self, row: Value) -> Place:
        """The same elements of another row."""
        return self._replace(row=row)

    def _at(self, part: int, parts: int) -> Value:
        return (self.row * parts + part) * self.size + self.i


def lstm(code: Code, sums: list[Value], before: Value) -> tuple[list[Value], Value, Value]:
    """The four gates, the cell and h, of the sums of the gates and the cell before."""
    gates = [inline(code, tanh if k == 2 else _sigmoid, z) for k, z in enumerate(sums)]
    i, f, a, o = gates
    cell = f * before + i * a
    return gates, cell, o * inline(code, tanh, cell)


def lstm_grad(
    code: Code, gates: list[Value], before: Value, cell: Value, g: Value, g_cell: Value
) -> tuple[list[Value], Value]:
    """The gradients of the sums of the gates, and of the cell before, of those of h and the cell."""
    i, f, a, o = gates
    squashed = inline(code, tanh, cell)
    through = g_cell + g * (o * (1.0 - squashed * squashed))
    to_i, to_f, to_a = through * (a * i * (1.0 - i)), through * (before * f * (1.0 - f)), through * (i * (1.0 - a * a))
    return [to_i, to_f, to_a, g * (squashed * o * (1.0 - o))], through * f


def gru(code: Code, sums: list[Value], passed: Value, before: Value) -> tuple[list[Value], Value]:
    """The gates r, z, n and h; sums: those of n without `passed`, what h W + b gives to n."""
    r, z = (inline(code, _sigmoid, total) for total in sums[:2])
    n = inline(code, tanh, sums[2] + r * passed)
    return [r, z, n], n + z * (before - n)


def gru_grad(gates: list[Value], passed: Value, before: Value, g: Value) -> tuple[list[Value], Value]:
    """The gradients of n, r, z and of the part of n from h, and of the h before, of that of h."""
    r, z, n = gates
    to_n = g * (1.0 - z) * (1.0 - n * n)
    from_h = to_n * r
    return [to_n, from_h * passed * (1.0 - r), g * (before - n) * z * (1.0 - z), from_h], g * z


def rnn(code: Code, total: Value, relu: bool) -> Value:
    """h, of the sum."""
    return code.select(total <= 0.0, 0.0, total) if relu else inline(code, tanh, total)


def rnn_grad(code: Code, h: Value, g: Value, relu: bool) -> Value:
    """The gradient of the sum, of that of h."""
    return code.select(h <= 0.0, 0.0, g) if relu else g * (1.0 - h * h)
