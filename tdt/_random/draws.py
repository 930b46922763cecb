"""Uniform numbers, integers, permutations and coin flips, equal to PyTorch's bit for bit on the CPU.

Every function takes a Generator and gives a contiguous array on that generator's device; dtypes are NumPy's. (PyTorch
on an Intel processor draws `bernoulli_(p)` and dropout masks from another stream, MKL's; we follow what it does on all
others.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from tdt._kernels import LARGE_DRAW, enabled, lazy
from tdt._random._generator import Generator
from tdt._random._mersenne import WIDE_RANGE, MersenneTwister
from tdt._random._rounding import fma32, fma64

Shape = tuple[int, ...]

DIGITS = {np.dtype(np.float64): 53, np.dtype(np.float32): 24, np.dtype(np.float16): 11,
          np.dtype(ml_dtypes.bfloat16): 8}  # fmt: skip
WHOLE = np.dtype(np.float32), np.dtype(np.float64)  # dtypes that numbers are drawn in
DRAWN = {"below": np.bool_, "words32": np.uint32}
LARGE_SHUFFLE = LARGE_DRAW  # elements of a permutation
BLOCK = 1 << 15  # elements per block on the CPU: a block fits in its cache


def uniform(gen: Generator, shape: Shape, dtype: Any, low: float = 0.0, high: float = 1.0) -> Any:
    """Uniform on [low, high): 53-bit draws for float64, 24-bit ones otherwise; complex fills both parts."""
    dtype = np.dtype(dtype)
    if dtype.kind == "c":
        return as_complex(uniform(gen, (*shape, 2), real_of(dtype), low, high), dtype)
    n = math.prod(shape)
    with gen.lock:
        flat = gen.filled((n,), dtype if dtype.char == "d" else np.dtype(np.float32), "uniform", (low, high))
        if flat is None:
            draw = _uniform64 if dtype.char == "d" else _uniform32
            flat = in_blocks(gen, n, lambda n: draw(gen, n, low, high))
    if flat.dtype != dtype:
        flat = narrow(flat, dtype)
        flat[flat >= dtype.type(high)] = dtype.type(low)
    return flat.reshape(shape)


def _drawn(gen: Generator, n: int, how: str, bound: int = 0) -> Any:
    """Numbers of a CPU's generator by its kernel, or None."""
    return gen.engine.drawn(n, how, DRAWN[how], bound=bound) if isinstance(gen.engine, MersenneTwister) else None


def in_blocks(gen: Generator, n: int, draw: Callable[[int], Any]) -> Any:
    """`n` numbers, drawn in blocks by `draw(count)`."""
    if n <= BLOCK or gen.engine.xp is not np:
        return draw(n)
    first = draw(BLOCK)
    whole = np.empty(n, first.dtype)
    whole[:BLOCK] = first
    for start in range(BLOCK, n, BLOCK):
        stop = min(start + BLOCK, n)
        whole[start:stop] = draw(stop - start)
    return whole


def _uniform32(gen: Generator, n: int, low: float, high: float) -> Any:
    bits = gen.engine.raw(n)
    bits &= np.uint64(0xFFFFFF)
    if (low, high) == (0.0, 1.0):
        return bits.view(np.int64).astype(np.float32) * np.float32(2.0**-24)
    first, last = np.float32(low), np.float32(high)
    width = float(last - first)
    result = fma32(bits.view(np.int64).astype(np.float64) * 2.0**-24, width, float(first))
    if width * 2.0**-24 <= 2 * np.spacing(abs(last)):  # rounding may produce `high`, which is outside of the range
        result[result >= last] = first
    return result


def _uniform64(gen: Generator, n: int, low: float, high: float) -> Any:
    unit = unit64(gen, n)
    if (low, high) == (0.0, 1.0):
        return unit
    result = fma64(unit, high - low, low)
    result[result >= high] = low
    return result


def unit64(gen: Generator, n: int) -> Any:
    """53-bit uniforms on [0, 1), in float64."""
    return _low53(gen, n).view(np.int64).astype(np.float64) * 2.0**-53


def _low53(gen: Generator, n: int) -> Any:
    bits = gen.engine.raw64(n)
    bits &= np.uint64(2**53 - 1)
    return bits


def integers(gen: Generator, shape: Shape, dtype: Any, low: int, high: int) -> Any:
    """Integers on [low, high), of any real dtype: remainders of draws, so the first values are a little likelier."""
    dtype, span, n = np.dtype(dtype), high - low, math.prod(shape)
    with gen.lock:
        if (drawn := gen.filled(shape, dtype, "integers", (low, high))) is not None:
            return drawn
        bits = gen.engine.raw(n) if span < WIDE_RANGE else gen.engine.raw64(n)
    if span == 2**64:
        return narrow(bits.view(np.int64), dtype).reshape(shape)
    bits %= np.uint64(span)
    values = bits.view(np.int64)
    values += np.int64(low)
    return narrow(values, dtype).reshape(shape)


def full_range(gen: Generator, shape: Shape, dtype: Any) -> Any:
    """Integers on [0, largest value] of an integer dtype, or [0, 2^digits] of a floating one: `random_()`."""
    dtype = np.dtype(dtype)
    n = math.prod(shape)
    if dtype.kind == "b":
        last = 1
    elif dtype in DIGITS:
        last = 2 ** DIGITS[dtype]
    else:
        last = int(np.iinfo(dtype).max)
    if last < WIDE_RANGE:
        return integers(gen, shape, dtype, 0, last + 1)
    with gen.lock:
        bits = gen.engine.raw64(n) if dtype.itemsize == 8 else gen.engine.raw(n)
    if last < 2**64 - 1:
        bits %= np.uint64(last + 1)
    return narrow(bits, dtype).reshape(shape)


_shuffled = lazy("mersenne_cpu:shuffled")


def permutation(gen: Generator, n: int, dtype: Any = np.int64) -> Any:
    """A random order of 0 … n-1 by the forward Fisher–Yates shuffle (on a GPU by sorting random keys)."""
    xp = gen.engine.xp
    with gen.lock:
        if xp is not np:
            return xp.argsort(gen.engine.raw64(n)).astype(dtype)
        draws = max(n - 1, 0)
        # Above 2³²/20 elements the remainder of a 32-bit draw would be visibly uneven.
        few = n < (2**32 - 1) // 20
        words = _drawn(gen, draws, "words32") if few and draws else None
        if words is not None or (draws >= LARGE_SHUFFLE and enabled()):
            return _shuffled(gen.engine.raw64(draws) if words is None else words, n).astype(dtype, copy=False)
        bits = gen.engine.raw(draws) if few else gen.engine.raw64(draws)
    bits %= np.arange(n, 1, -1, dtype=np.uint64)
    bits += np.arange(draws, dtype=np.uint64)
    order = list(range(n))
    for i, j in enumerate(bits.tolist()):
        order[i], order[j] = order[j], order[i]
    return np.array(order, dtype)


def bernoulli(gen: Generator, shape: Shape, p: float) -> Any:
    """True with probability `p`, by a 53-bit draw per element, for `bernoulli_(p)` and dropout."""
    bound = np.uint64(math.ceil(p * 2.0**53))
    n = math.prod(shape)
    with gen.lock:
        drawn = _drawn(gen, n, "below", bound=int(bound))
        if drawn is None:
            drawn = in_blocks(gen, n, lambda n: _low53(gen, n) < bound)
        return drawn.reshape(shape)


def bernoulli_each(gen: Generator, p: Any) -> Any:
    """1 with the probability of each element of `p`, else 0, in its dtype or as bools: 53-bit draws for float64,
    24-bit ones otherwise.
    """
    if p.dtype in WHOLE and p.flags.c_contiguous and isinstance(gen.engine, MersenneTwister):
        with gen.lock:
            drawn = gen.engine.flips(p)
        if drawn is None:
            _refuse_probability()
        if drawn is not False:
            return drawn
    if p.size and not bool(((p >= 0) & (p <= 1)).all()):
        _refuse_probability()
    dtype = np.float64 if p.dtype == np.float64 else np.float32
    return uniform(gen, p.shape, dtype) < p.astype(dtype, copy=False)


def _refuse_probability() -> None:
    raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false: probabilities lie in [0, 1]")


def narrow(values: Any, dtype: np.dtype) -> Any:
    """`values` in `dtype`; 16-bit floats are reached through float32, as a C++ cast does."""
    if values.dtype == dtype:
        return values
    if dtype.itemsize == 2 and dtype in DIGITS:
        values = values.astype(np.float32, copy=False)
    return values.astype(dtype)


def real_of(dtype: np.dtype) -> np.dtype:
    """The dtype of a complex dtype's parts."""
    return np.dtype(np.float32 if dtype.itemsize == 8 else np.float64)


def as_complex(parts: Any, dtype: np.dtype) -> Any:
    """(…, 2) real and imaginary parts as complex (…)."""
    return parts.view(dtype)[..., 0]


def in_memory_order(array: Any) -> Any:
    """A view of `array` with its dimensions in the order of its memory, the order in which PyTorch draws."""
    return array.transpose(sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis])))


def assign_in_memory_order(target: Any, values: Any) -> None:
    """Write `values` into `target` in the order of its memory."""
    view = in_memory_order(target)
    view[...] = values.reshape(view.shape)
