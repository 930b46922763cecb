"""Products of causal attention written by hand, without what its mask hides, to the bits of the whole products.

Weights behind the mask are 0, and so are their products with finite numbers; scores behind it are not read. Each function gives
None where the whole product has to be computed: for other masks, small matrices, and sums that may have another value.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tdt._kernels._code import Code, Value, Variable, native
from tdt._kernels._launches import WATCH
from tdt._kernels._native import vector_width
from tdt._kernels._registry import SWITCHES
from tdt._kernels.product_cpu import limited

FLOAT32 = np.dtype(np.float32)
LARGEST = float(np.finfo(np.float32).max)
LEAST_ROWS, LEAST_WORK = 96, 1 << 22  # queries, and multiply-adds of a product, that are worth while
INFINITY, NEGATIVE_ZERO = 0x7F800000, -(1 << 31)  # bits of float32
LANES = 16  # elements of a vector


class Form(NamedTuple):
    """How a product with a mask's zeros is one of a left and a right operand with a limit, as of `product_cpu.limited`.

    Attributes:
        swapped: whether the left operand is the second one.
        left_turned, right_turned: whether the left, or right, operand is the transpose.
        limit: of `limited`.
        across: whether the result is the transpose of that product.
        checked: whether the sums that are computed must be finite, and not -0.
        bounded: whether the other sums must be finite, as bounds of the operands show.
    """

    swapped: bool
    left_turned: bool
    right_turned: bool
    limit: str
    across: bool = False
    checked: bool = True
    bounded: bool = False

    def operands(self, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The left and the right one."""
        left, right = (second, first) if self.swapped else (first, second)
        return (turned(left) if self.left_turned else left), (turned(right) if self.right_turned else right)

    def __call__(self, first: np.ndarray, second: np.ndarray, mask: np.ndarray) -> np.ndarray | None:
        """The product, or None."""
        left, right = self.operands(first, second)
        if not (fits(left, right, mask, self.limit) and is_causal(mask)):
            return None
        if (trace := WATCH.own()) is not None:
            trace.complete = False  # values decide: left to Python
        if self.bounded and not are_bounded(first, second):
            return None
        out = limited(left, right, self.limit)
        if self.checked:
            largest, has_negative_zero = _found(out)
            # A row, or column, has all products, and shows what is not finite in an operand. A sum that ends at -0 may be 0 with
            # others.
            if largest >= INFINITY or has_negative_zero:
                return None
        return turned(out) if self.across else out


# q @ keys for keys (*, E, T); 0 behind the mask, where nothing is read.
SCORES = Form(False, False, False, "columns", checked=False)
# g @ vᵀ, and 0 behind the mask, where it is then multiplied by weights, which are 0.
GRADIENT_OF_WEIGHTS = Form(False, False, True, "columns", checked=False, bounded=True)
# a @ b and a @ bᵀ, for an a that is 0 behind the mask.
OF_WEIGHTS, BY_TURNED = Form(False, False, False, "to row"), Form(False, False, True, "to row")
# Of b and a aᵀ @ b, for an a, or a b, that is 0 behind the mask; the same as the transpose of bᵀ @ a.
OF_TURNED_WEIGHTS, BY_WEIGHTS = Form(True, True, False, "from row"), Form(True, True, False, "from column")
OF_WEIGHTS_ACROSS = Form(False, True, False, "from column", across=True)
BY_WEIGHTS_ACROSS = Form(False, True, False, "from row", across=True)


def turned(a: np.ndarray) -> np.ndarray:
    """Matrices with rows in the place of columns; a vector, of which nothing is left out, as it is."""
    return a.swapaxes(-1, -2) if a.ndim > 1 else a


def fits(a: np.ndarray, b: np.ndarray, mask: np.ndarray, limit: str) -> bool:
    """Whether the product is one of large matrices of float32, and the mask one for each of them."""
    if not (SWITCHES.kernels and vector_width() >= 8 and a.dtype == b.dtype == FLOAT32 and a.ndim == b.ndim > 1):
        return False
    square = {"columns": (a.shape[-2], b.shape[-1]), "from column": b.shape[-2:]}.get(limit, a.shape[-2:])
    n = square[0]
    return (
        a.shape[:-2] == b.shape[:-2]
        and n >= LEAST_ROWS
        and a.size * b.shape[-1] >= LEAST_WORK
        and mask.dtype == np.bool_
        and mask.shape[-2:] == square == (n, n)
        and mask.size == n * n
    )


def is_causal(mask: np.ndarray) -> bool:
    """Whether a mask (*, n, n) of n² elements hides from each query all keys behind its own."""
    if not mask.item(1):  # the second key, which other masks mostly show to the first query
        return False
    reached = np.empty(1, np.int64)
    _look().run(1, (np.ascontiguousarray(mask), reached), mask.shape[-1])
    return not reached.item()


@native("ppq")
def _look(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    """Whether a query sees a key behind its own."""
    mask, reached, n = arguments
    some = code.variable("i8", 0)
    with code.loop(0, n) as row, code.loop(row + 1, n) as key:
        some.set(some.get() | (code.load("i8", mask, row * n + key) ^ 1))
    code.store(code.cast(some.get(), "i64", signed=False), reached)


def are_bounded(g: np.ndarray, v: np.ndarray) -> bool:
    """Whether g @ vᵀ is finite, however it is rounded."""
    return bool(2 * _largest(g) * _largest(v) * v.shape[-1] < LARGEST)


def _largest(x: np.ndarray) -> float:
    """The largest magnitude; infinity or NaN where an element is that."""
    order = sorted(range(x.ndim), key=lambda dim: -x.strides[dim])
    return float(_found(np.ascontiguousarray(x.transpose(order)))[:1].view(np.float32)[0])


def _found(x: np.ndarray) -> np.ndarray:
    """The largest bits of a contiguous array's elements without their sign, and whether one of them is -0."""
    found = np.empty(2, np.int32)
    _search().run(1, (x, found), x.size)
    return found


@native("ppq")
def _search(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    x, found, count = arguments
    for place, result in enumerate(largest_and_zeros(code, x, count)):
        code.store(result, found, place)


def largest_and_zeros(code: Code, x: Value, count: Value) -> tuple[Value, Value]:
    """The largest bits of elements without their sign, and whether one of them is -0."""
    largest, zeros = (code.variable(f"<{LANES} x i32>", 0) for _ in range(2))
    whole = count & -LANES
    with code.loop(0, whole, LANES) as i:
        _take(code, code.load("i32", x, i, LANES), largest, zeros)
    results = code.variable("i32", 0), code.variable("i32", 0)
    for k in range(LANES):
        results[0].set(code.maximum(results[0].get(), code.extract(largest.get(), k)))
        results[1].set(results[1].get() | code.extract(zeros.get(), k))
    with code.loop(whole, count) as i:
        _take(code, code.load("i32", x, i), *results)
    return results[0].get(), results[1].get()


def _take(code: Code, bits: Value, largest: Variable, zeros: Variable) -> None:
    size = bits & 0x7FFFFFFF
    largest.set(code.maximum(largest.get(), size))
    zeros.set(zeros.get() | code.select(bits == NEGATIVE_ZERO, 1, bits ^ bits))
