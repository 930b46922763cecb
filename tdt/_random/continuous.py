"""Normal, exponential and related numbers, within a few units in the last place of PyTorch's on the CPU.

PyTorch's own logarithm and cosine differ with the processor, so bits cannot be promised; those of normal numbers of float64 and
of exponential ones are the C library's, here as there. The generator's state after each draw is exactly PyTorch's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tdt._kernels import from_formula
from tdt._random._generator import Generator
from tdt._random._mersenne import MersenneTwister
from tdt._random._rounding import fma64
from tdt._random.draws import BLOCK, WHOLE, Shape, as_complex, narrow, real_of, uniform, unit64


def normal(gen: Generator, shape: Shape, dtype: Any, mean: float = 0.0, std: float = 1.0, *, dense: bool = True) -> Any:
    """Normal by Box and Muller (1958). `dense=False` draws as for a target that is not contiguous.

    A contiguous target of 16 or more elements uses uniforms of its own precision in blocks of 8 + 8; others use pairs in
    float64, of which the generator caches the second number for its next small draw. A complex dtype splits the variance.
    """
    dtype = np.dtype(dtype)
    if dtype.kind == "c":
        return as_complex(normal(gen, (*shape, 2), real_of(dtype), mean, std / math.sqrt(2), dense=dense), dtype)
    n = math.prod(shape)
    with gen.lock:
        if (drawn := gen.filled(shape, dtype, "normal" if dense else "pairs", (mean, std))) is not None:
            return drawn
        if dtype.itemsize == 2 and (flat := _normals_for_half(gen, n, (mean, std), dense)) is not None:
            return narrow(flat, dtype).reshape(shape)
        if gen.engine.xp is not np:
            flat = _normal_blocks(gen, -(-n // 16) * 16, dtype, mean, std)[:n]
        elif n < 16 or not dense:
            flat = fma64(_normal_pairs(gen, n), std, mean)
        else:
            flat = _normal_blocks(gen, n, dtype, mean, std)
    return narrow(flat, dtype).reshape(shape)


def _normals_for_half(gen: Generator, n: int, numbers: tuple[float, float], dense: bool) -> Any:
    """float32 numbers from which those of half precision are rounded, by a kernel; None, with nothing drawn, where none does."""
    if not isinstance(gen.engine, MersenneTwister):
        return None
    flat, whole = np.empty(n, np.float32), n // 16 * 16
    if n < 16 or not dense:
        return flat if gen.fill(flat, "pairs", numbers) else None
    if not gen.fill(flat[:whole], "normal", numbers):
        return None
    if whole < n:
        gen.fill(flat[n - 16 :], "normal", numbers)
    return flat


def _normal_pairs(gen: Generator, n: int) -> Any:
    """`n` standard normals in float64, beginning with the cached one; caches the unused half of the last pair."""
    engine = gen.engine
    from_cache = int(engine.cached is not None and n > 0)
    pairs = (n - from_cache + 1) // 2
    values = []
    if from_cache:
        values.append(engine.cached)
        engine.cached = None
    units = iter(unit64(gen, 2 * pairs).tolist())
    for turn, unit in zip(units, units, strict=True):
        radius, angle = math.sqrt(-2 * math.log1p(-unit)), 2 * math.pi * turn  # by the C library, as in the kernel
        values += radius * math.cos(angle), radius * math.sin(angle)
    if len(values) > n:
        engine.cached = values.pop()
    return np.array(values)


def _normal_blocks(gen: Generator, n: int, dtype: np.dtype, mean: float, std: float) -> Any:
    """`n` ≥ 16 normals; if 16 does not divide `n`, the last 16 are drawn again."""
    precision = np.float64 if dtype == np.float64 else np.float32
    whole = n // 16 * 16
    # float16 and bfloat16 draw whole blocks only; float32 and float64 a uniform per element, though the rest is unused.
    flat = uniform(gen, (n if dtype.itemsize >= 4 else whole,), precision)
    tail = uniform(gen, (16,), precision) if whole < n else None
    for start in range(0, whole, BLOCK):
        _box_muller(gen.engine.xp, flat[start : min(start + BLOCK, whole)], mean, std)
    if tail is None:
        return flat
    _box_muller(gen.engine.xp, tail, mean, std)
    return gen.engine.xp.concatenate([flat[: n - 16], tail])


def _box_muller(xp: Any, flat: Any, mean: float, std: float) -> None:
    """Turn uniforms into normals in place; of each 16, 8 become radii and 8 angles."""
    number = flat.dtype.type
    blocks = flat.reshape(-1, 2, 8)
    if xp is not np:
        radius = xp.sqrt(number(-2) * xp.log(1 - blocks[:, 0]))
        angle = number(2 * np.pi) * blocks[:, 1]
        blocks[:, 0], blocks[:, 1] = radius * xp.cos(angle), radius * xp.sin(angle)
    elif number == np.float32:
        radius, angle = _radius(xp, blocks[:, 0].copy()), blocks[:, 1].copy()
        blocks[:, 0], blocks[:, 1] = _along(xp, radius, angle), _across(xp, radius, angle)
    else:
        radius, angle = np.sqrt(-2 * _each(math.log, 1 - blocks[:, 0])), 2 * math.pi * blocks[:, 1]
        blocks[:, 0], blocks[:, 1] = radius * _each(math.cos, angle), radius * _each(math.sin, angle)
        flat[...] = fma64(flat, std, mean)
        return
    if std != 1:
        flat *= number(std)
    flat += number(mean)  # which makes 0 of -0


def _each(function: Callable[[float], float], x: np.ndarray) -> np.ndarray:
    """A function of the C library of each element, as kernels call it; NumPy has others on some processors."""
    return np.array([function(value) for value in x.ravel().tolist()]).reshape(x.shape)


TURN = np.float32(2 * np.pi)
_radius = from_formula("normal_radius", lambda xp, unit: xp.sqrt(-2 * xp.log(1 - unit)), 1, ())[0]
_along = from_formula("normal_along", lambda xp, radius, turn: radius * xp.cos(turn * float(TURN)), 2, ())[0]
_across = from_formula("normal_across", lambda xp, radius, turn: radius * xp.sin(turn * float(TURN)), 2, ())[0]


def log_normal(gen: Generator, shape: Shape, dtype: Any, mean: float = 1.0, std: float = 2.0) -> Any:
    """exp of a normal with that mean and deviation; always drawn in pairs, as a small normal draw is."""
    return narrow(np.exp(normal(gen, shape, np.float64, mean, std, dense=False)), np.dtype(dtype))


def exponential(gen: Generator, shape: Shape, dtype: Any, rate: float = 1.0) -> Any:
    """Exponential with that rate (mean 1/rate), by inversion of a 53-bit uniform."""
    dtype = np.dtype(dtype)
    with gen.lock:
        wide = dtype if dtype in WHOLE else np.dtype(np.float64)
        if (drawn := gen.filled(shape, wide, "exponential", (rate,))) is not None:
            return narrow(drawn, dtype)
        unit = uniform(gen, shape, np.float64)
    logarithm = gen.engine.xp.log1p(-unit) if gen.engine.xp is not np else _each(math.log1p, -unit)
    return narrow(logarithm * (-1.0 / rate), dtype)


def cauchy(gen: Generator, shape: Shape, dtype: Any, median: float = 0.0, sigma: float = 1.0) -> Any:
    """Cauchy (Lorentz) about `median` with half-width `sigma`, by inversion of a 53-bit uniform."""
    unit = uniform(gen, shape, np.float64)
    return narrow(median + sigma * gen.engine.xp.tan(math.pi * (unit - 0.5)), np.dtype(dtype))


def geometric(gen: Generator, shape: Shape, dtype: Any, p: float) -> Any:
    """The number of trials with probability `p` until the first success (1, 2, …), by inversion of a 53-bit uniform."""
    unit = uniform(gen, shape, np.float64)
    return narrow(gen.engine.xp.ceil(gen.engine.xp.log(unit) / math.log(1 - p)), np.dtype(dtype))
