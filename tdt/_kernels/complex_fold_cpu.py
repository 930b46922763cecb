"""Products of all complex numbers along dimensions, by generated code.

A row is folded in `LANES` lanes, of every eighth element each, which are joined in halves; what remains is multiplied in order.
Long rows are cut into pieces, whose products are multiplied in the same way. Whether a row lies along memory or across it, its
product has the same bits. Parts are of float64, and rounded once.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from tdt._kernels import memory_order
from tdt._kernels._code import Code, Value, Variable, native
from tdt._kernels._pool import parallel
from tdt._kernels._syntax import vector, vector_length

LANES = 8
COLUMNS = 4  # that are multiplied side by side
PIECE = 1 << 12  # numbers of a row; a multiple of LANES
GRAIN = 1 << 14  # numbers that a thread should at least multiply
Parts = tuple[Value, Value]


def _times(a: Parts, b: Parts) -> Parts:
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


class _Product:
    """The product so far, of one number or of several side by side."""

    def __init__(self, code: Code, count: int):
        self.parts: list[Variable] = [code.variable(vector("double", count)) for _ in range(2)]

    def get(self) -> Parts:
        return self.parts[0].get(), self.parts[1].get()

    def set(self, value: Parts) -> None:
        for part, new in zip(self.parts, value, strict=True):
            part.set(new)


class _Numbers:
    """Complex numbers in memory, and code that folds them.

    Args:
        kind: the type of their parts.
    """

    def __init__(self, code: Code, address: Value, kind: str):
        self.code, self.address, self.kind = code, address, kind

    def load(self, place: Value, count: int) -> Parts:
        """The parts of `count` numbers (0: one)."""
        code = self.code
        if not count:
            real, imaginary = (code.load(self.kind, self.address, place * 2 + k) for k in range(2))
        else:
            both = code.load(self.kind, self.address, place * 2, 2 * count)
            real, imaginary = (code.shuffle(both, both, range(k, 2 * count, 2)) for k in range(2))
        return code.cast(real, "double"), code.cast(imaginary, "double")

    def store(self, value: Parts, place: Value) -> None:
        code = self.code
        real, imaginary = (code.cast(part, self.kind) for part in value)
        if count := vector_length(real.kind):
            order = [k // 2 + count * (k % 2) for k in range(2 * count)]
            code.store(code.shuffle(real, imaginary, order), self.address, place * 2)
            return
        for k, part in enumerate((real, imaginary)):
            code.store(part, self.address, place * 2 + k)

    def fold(
        self, start: Value, stop: Value, count: int, at: Callable[[Value], Value], lanes: Callable[..., Parts]
    ) -> Parts:
        """The product of the rows [start, stop) of `count` columns; `at` gives their places, `lanes` joins those in lanes."""
        code = self.code
        total, rest = _Product(code, count), code.variable("i64")
        end = start + (stop - start) // LANES * LANES

        def by_lanes() -> None:
            total.set(lanes(start, end))
            rest.set(end)

        def one() -> None:
            total.set(self.load(at(start), count))
            rest.set(start + 1)

        code.choose(end > start, by_lanes, one)
        with code.loop(rest.get(), stop) as row:
            total.set(_times(total.get(), self.load(at(row), count)))
        return total.get()

    def along(self, start: Value, end: Value) -> Parts:
        """The joined lanes of a row, which lie side by side."""
        code, product = self.code, _Product(self.code, LANES)
        product.set(self.load(start, LANES))
        with code.loop(start + LANES, end, LANES) as place:
            product.set(_times(product.get(), self.load(place, LANES)))
        value = product.get()
        while vector_length(value[0].kind):
            (a, b), (c, d) = map(code.halves, value)
            value = _times((a, c), (b, d))
        return value

    def across(self, start: Value, end: Value, count: int, at: Callable[[Value], Value]) -> Parts:
        """The joined lanes of columns, each of them a row of its own."""
        products = [_Product(self.code, count) for _ in range(LANES)]
        for k, product in enumerate(products):
            product.set(self.load(at(start + k), count))
        with self.code.loop(start + LANES, end, LANES) as row:
            for k, product in enumerate(products):
                product.set(_times(product.get(), self.load(at(row + k), count)))
        values = [product.get() for product in products]
        while len(values) > 1:
            half = len(values) // 2
            values = [_times(a, b) for a, b in zip(values[:half], values[half:], strict=True)]
        return values[0]


@native("ppqqqq", vectorize=False)
def _multiply(code: Code, first: Value, last: Value, arguments: list[Value], source: str, target: str) -> None:
    """x (*, n, width), out (*, pieces, width), n, width, piece, pieces; source, target: the types of their parts."""
    x, out, n, width, piece, pieces = arguments
    factors, products = _Numbers(code, x, source), _Numbers(code, out, target)
    with code.loop(first, last) as unit:
        outer = unit // pieces
        start = outer * n + (unit - outer * pieces) * piece
        stop = code.minimum(start + piece, outer * n + n)

        def row(unit: Value = unit, start: Value = start, stop: Value = stop) -> None:
            products.store(factors.fold(start, stop, 0, lambda place: place, factors.along), unit)

        def columns(unit: Value = unit, start: Value = start, stop: Value = stop) -> None:
            done = code.variable("i64", 0)
            for count, step in ((COLUMNS, COLUMNS), (0, 1)):
                with code.loop(done.get(), width - (step - 1), step) as b:
                    at = lambda row, b=b: row * width + b  # noqa: E731
                    lanes = functools.partial(factors.across, count=count, at=at)
                    products.store(factors.fold(start, stop, count, at, lanes), unit * width + b)
                    done.set(b + step)

        code.choose(width == 1, row, columns)


def product(x: np.ndarray, axis: tuple[int, ...] | None, keepdims: bool) -> np.ndarray | None:
    """x.prod(axis, keepdims=keepdims) of complex numbers, of all in the order of memory; None where there are none."""
    axes = tuple(range(x.ndim)) if axis is None else tuple(sorted(axis))
    if len(axes) == x.ndim and (order := memory_order(x)) is not None:
        x = x.transpose(order)
    if not x.flags.c_contiguous or axes != tuple(range(axes[0], axes[-1] + 1) if axes else ()):
        shape = x.shape
        x = np.moveaxis(x, axes, range(x.ndim - len(axes), x.ndim))
        run = prepared_product(x.dtype, x.shape, tuple(range(x.ndim - len(axes), x.ndim)), False)
        out = None if run is None else run(np.ascontiguousarray(x))
        return np.expand_dims(out, axes) if keepdims and out is not None and len(shape) else out
    run = prepared_product(x.dtype, x.shape, axes, keepdims)
    return None if run is None else run(x)


@functools.lru_cache(1000)
def prepared_product(
    dtype: np.dtype, shape: tuple[int, ...], axes: tuple[int, ...] | None, keepdims: bool
) -> Callable[[np.ndarray], np.ndarray] | None:
    """`product` as a function of contiguous arrays of one type and shape; None where they have no elements, or `axes` other
    dimensions between them."""
    axes = tuple(range(len(shape))) if axes is None else tuple(sorted(axes))
    if not axes or 0 in shape or axes[-1] - axes[0] != len(axes) - 1:
        return None
    first, stop = axes[0], axes[-1] + 1
    outer, n, width = (math.prod(part) for part in (shape[:first], shape[first:stop], shape[stop:]))
    final = (*shape[:first], *[1] * (len(axes) * keepdims), *shape[stop:])
    own = "float" if dtype.itemsize == 8 else "double"
    steps = []
    source = own
    while n > 2 * PIECE:
        pieces = -(-n // PIECE)
        steps.append(
            (_multiply(source, "double"), (outer, pieces, width), np.dtype(np.complex128), (n, width, PIECE, pieces))
        )
        source, n = "double", pieces
    steps.append((_multiply(source, own), final, dtype, (n, width, n, 1)))

    def run(x: np.ndarray) -> np.ndarray:
        for code, sizes, kind, words in steps:
            out = np.empty(sizes, kind)
            parallel(code, outer * words[3], x, out, *words, grain=max(1, GRAIN // (words[2] * width)))
            x = out
        return x

    return run
