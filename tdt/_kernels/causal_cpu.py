"""Products of causal attention written by hand, without what its mask hides, to the bits of the whole products.

Weights behind the mask are 0, and so are their products with finite numbers; scores behind it are not read. Each function gives
None where the whole product has to be computed: for other masks, small matrices, and sums that may have another value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tdt._kernels._code import Code, Value, Variable, native
from tdt._kernels._launches import WATCH
from tdt._kernels._native import vector_width
from tdt._kernels._registry import SWITCHES
from tdt._kernels.product_cpu import limited

FLOAT32 = np.dtype(np.float32)
MOST = 1e20  # gradients that are smaller stay finite as they are scaled
VANISHES = 256.0  # the exponential of a smaller number than its negative is 0
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

    def __call__(
        self, first: np.ndarray, second: np.ndarray, shows: np.ndarray, how: str = "zero"
    ) -> np.ndarray | None:
        """The product, or None. shows: the array that shows, as of `hides`, that the mask is causal."""
        left, right = self.operands(first, second)
        if not (fits(left, right, self.limit) and hides(shows, how, self.side(left, right))):
            return None
        if (trace := WATCH.own()) is not None:
            trace.complete = False  # values decide: left to Python
        if self.bounded and not are_bounded(first, second, MOST):
            return None
        out = limited(left, right, self.limit)
        if self.checked:
            largest, has_negative_zero = _found(out)
            # A row, or column, has all products, and shows what is not finite in an operand. A sum that ends at -0 may be 0 with
            # others.
            if largest >= INFINITY or has_negative_zero:
                return None
        return turned(out) if self.across else out

    def side(self, left: np.ndarray, right: np.ndarray) -> int:
        """The rows, or columns, of the mask."""
        return int((right if self.limit in ("columns", "from column") else left).shape[-1])


# q @ keys for keys (*, E, T); not computed behind the mask, where nothing is read, or 0, where a mask is added.
SCORES = Form(False, False, False, "columns", checked=False)
SCORES_BEFORE_SUM = SCORES._replace(bounded=True)
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


def fits(a: np.ndarray, b: np.ndarray, limit: str) -> bool:
    """Whether the product is one of large matrices of float32, with a square mask."""
    if not (SWITCHES.kernels and vector_width() >= 8 and a.dtype == b.dtype == FLOAT32 and a.ndim == b.ndim > 1):
        return False
    rows, columns = {"columns": (a.shape[-2], b.shape[-1]), "from column": b.shape[-2:]}.get(limit, a.shape[-2:])
    is_large = rows >= LEAST_ROWS and a.size * b.shape[-1] >= LEAST_WORK
    return a.shape[:-2] == b.shape[:-2] and rows == columns and is_large


def hides(x: np.ndarray, how: str, n: int) -> bool:
    """Whether matrices (*, n, n) show that each query's keys behind its own are hidden.

    how: they are "true" or "false" there, of one mask for all; or "zero", of weights and all that is 0 with these.
    """
    if x.dtype != (FLOAT32 if how == "zero" else np.bool_) or x.shape[-2:] != (n, n):
        return False
    if how != "zero" and (
        x.size != n * n or x.item(1) != (how == "true")
    ):  # most other masks show the second key to the first
        return False
    found = np.zeros(1, np.int64)
    _look(how).run(x.size // (n * n), (np.ascontiguousarray(x), found), n)
    return not found.item()


def reach_of(mask: np.ndarray, scale: float) -> float:
    """How large hidden scores may be, so that they have no weight when `scale` times these are added to a mask (*, n, n).

    0 where the mask hides too little, or is not causal.
    """
    n = mask.shape[-1]
    if mask.dtype != FLOAT32 or mask.size != n * n or mask.shape[-2:] != (n, n) or not mask.item(1) < -VANISHES:
        return 0.0
    found = np.empty(2, np.float32)
    _bounds().run(1, (np.ascontiguousarray(mask), found), n)
    largest, own = found.tolist()
    return min(max(own - largest - VANISHES, 0.0) / (2 * abs(scale)), MOST) if scale else 0.0


def behind(code: Code, kind: str, x: Value, n: Value, body: Callable[[Value, Value], None]) -> None:
    """`body(elements, which)` for vectors of a matrix (n, n), n >= LANES, and which of the elements are behind the diagonal."""
    places = Value(code, f"<{', '.join(f'i32 {k}' for k in range(LANES))}>", f"<{LANES} x i32>")
    with code.loop(0, n - 1) as row, code.loop((row + 1) & -LANES, n, LANES) as column:
        first = code.minimum(column, n - LANES)
        body(code.load(kind, x, row * n + first, LANES), places > code.splat(code.cast(row - first, "i32"), LANES))


@native("ppq")
def _look(code: Code, first: Value, last: Value, arguments: list[Value], how: str) -> None:
    """Note whether something behind the diagonal of matrices is not what hides a key."""
    x, found, n = arguments
    some = code.variable(f"<{LANES} x i32>", 0)

    def add(elements: Value, which: Value) -> None:
        elements = elements << 1 if how == "zero" else code.cast(elements, "i32", signed=False)
        some.set(some.get() | code.select(which, elements ^ 1 if how == "true" else elements, 0))

    with code.loop(first, last) as matrix:
        kind = "i32" if how == "zero" else "i8"
        behind(code, kind, code.at(kind, x, matrix * n * n), n, add)
    for k in range(LANES):
        with code.when(code.extract(some.get(), k) != 0):
            code.store(code.value(1, "i64"), found)


@native("ppq")
def _bounds(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    """The largest number behind a matrix's diagonal, and the smallest one on it; NaN where these have one."""
    x, found, n = arguments
    largest, own = code.variable(f"<{LANES} x float>", -math.inf), code.variable("float", math.inf)

    def add(elements: Value, which: Value) -> None:
        largest.set(code.select(which & ~(elements <= largest.get()), elements, largest.get()))

    behind(code, "float", x, n, add)
    with code.loop(0, n) as row:
        element = code.load("float", x, row * (n + 1))
        own.set(code.select(element >= own.get(), own.get(), element))
    most = code.variable("float", -math.inf)
    for k in range(LANES):
        element = code.extract(largest.get(), k)
        most.set(code.select(element <= most.get(), most.get(), element))
    code.store(most.get(), found, 0)
    code.store(own.get(), found, 1)


def are_bounded(g: np.ndarray, v: np.ndarray, most: float) -> bool:
    """Whether g @ vᵀ, however it is rounded, has no element as large as that."""
    return bool(2 * _largest(g) * _largest(v) * v.shape[-1] < most)


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
