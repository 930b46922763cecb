"""Products of causal attention written by hand, without what its mask hides, to the bits of the whole products.

Weights behind the mask are 0, and so are their products with finite numbers; scores behind it are not read. Each function gives
None where the whole product has to be computed: for other masks, small matrices, and sums that may have another value.
"""

from __future__ import annotations

import functools

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


def scores(q: np.ndarray, keys: np.ndarray, mask: np.ndarray) -> np.ndarray | None:
    """q @ keys for keys (*, E, T); 0 behind the mask, where nothing is read."""
    return limited(q, keys, "columns") if _fits(q, keys, mask, "columns") else None


def gradient_of_weights(g: np.ndarray, v: np.ndarray, mask: np.ndarray) -> np.ndarray | None:
    """g @ vᵀ, and 0 behind the mask, where it is then multiplied by weights, which are 0."""
    v = _turned(v)
    if (
        not _fits(g, v, mask, "columns") or not 2 * _largest(g) * _largest(v) * v.shape[-2] < LARGEST
    ):  # sums are rounded
        return None
    return limited(g, v, "columns")


def of_weights(a: np.ndarray, b: np.ndarray, mask: np.ndarray) -> np.ndarray | None:
    """a @ b, for an a that is 0 behind the mask."""
    return _checked(a, b, mask, "to row")


def by_turned(a: np.ndarray, b: np.ndarray, mask: np.ndarray) -> np.ndarray | None:
    """a @ bᵀ, for an a that is 0 behind the mask."""
    return of_weights(a, _turned(b), mask)


def of_turned_weights(b: np.ndarray, a: np.ndarray, mask: np.ndarray) -> np.ndarray | None:
    """aᵀ @ b, for an a that is 0 behind the mask."""
    return _checked(_turned(a), b, mask, "from row")


def by_weights(b: np.ndarray, a: np.ndarray, mask: np.ndarray) -> np.ndarray | None:
    """aᵀ @ b, for a b that is 0 behind the mask."""
    return _checked(_turned(a), b, mask, "from column")


def of_weights_across(b: np.ndarray, a: np.ndarray, mask: np.ndarray) -> np.ndarray | None:
    """As `of_turned_weights`, the transpose of bᵀ @ a."""
    found = by_weights(a, b, mask)
    return None if found is None else _turned(found)


def by_weights_across(b: np.ndarray, a: np.ndarray, mask: np.ndarray) -> np.ndarray | None:
    """As `by_weights`, the transpose of bᵀ @ a."""
    found = of_turned_weights(a, b, mask)
    return None if found is None else _turned(found)


def _checked(a: np.ndarray, b: np.ndarray, mask: np.ndarray, limit: str) -> np.ndarray | None:
    if not _fits(a, b, mask, limit):
        return None
    out = limited(a, b, limit)
    largest, has_negative_zero = _found(out)
    # A row, or column, has all products, and shows what is not finite in an operand. A sum that ends at -0 may be 0 with others.
    return out if largest < INFINITY and not has_negative_zero else None


def _turned(a: np.ndarray) -> np.ndarray:
    """Matrices with rows in the place of columns; a vector, of which nothing is left out, as it is."""
    return a.swapaxes(-1, -2) if a.ndim > 1 else a


def _fits(a: np.ndarray, b: np.ndarray, mask: np.ndarray, limit: str) -> bool:
    """Whether the product is one of large matrices of float32, and the mask hides from each query all keys behind its own."""
    if not (SWITCHES.kernels and vector_width() >= 8 and a.dtype == b.dtype == FLOAT32 and a.ndim == b.ndim > 1):
        return False
    square = {"columns": (a.shape[-2], b.shape[-1]), "from column": b.shape[-2:]}.get(limit, a.shape[-2:])
    n = square[0]
    fits = (
        a.shape[:-2] == b.shape[:-2]
        and n >= LEAST_ROWS
        and a.size * b.shape[-1] >= LEAST_WORK
        and mask.dtype == np.bool_
        and mask.shape[-2:] == square == (n, n)
        and mask.size == n * n
        and mask.item(1)  # the second key, which other masks mostly show to the first query
        and bool(np.asarray(mask.reshape(n, n) | _visible(n)).all())
    )
    if fits and (trace := WATCH.own()) is not None:
        trace.complete = False  # values decide: left to Python
    return fits


@functools.lru_cache(8)
def _visible(n: int) -> np.ndarray:
    """For each query the keys up to its own, in the memory of a single row."""
    return np.lib.stride_tricks.sliding_window_view(np.arange(2 * n - 1) < n, n)[::-1]


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
    for place, result in enumerate(results):
        code.store(result.get(), found, place)


def _take(code: Code, bits: Value, largest: Variable, zeros: Variable) -> None:
    size = bits & 0x7FFFFFFF
    largest.set(code.maximum(largest.get(), size))
    zeros.set(zeros.get() | code.select(bits == NEGATIVE_ZERO, 1, bits ^ bits))
