"""Quasirandom numbers: points that fill the unit cube more evenly than random ones."""

from __future__ import annotations

import functools
import importlib.util
import pathlib
from typing import Any

import numpy as np

from tdt import _public as tdt
from tdt._core.dtype import dtype as DType
from tdt._core.dtype import get_default_dtype
from tdt._core.tensor import Tensor, wrap
from tdt._random import Generator

__all__ = ["SobolEngine"]

BITS = 30
DIMENSIONS = 21201
_CHUNK = 1 << 22  # bits that `_scramble` multiplies at a time


class SobolEngine:
    """Points of a Sobol sequence, scrambled or not: PyTorch's numbers.

    Args:
        dimension: number of coordinates of a point, 1 to 21201.
        scramble: scramble the sequence (Owen's lower triangular matrices and a digital shift). The first point of an
            unscrambled sequence is 0.
        seed: of the scrambling; None takes one from the system.
    Raises:
        ValueError: when `dimension` is out of range.
    Source: Joe and Kuo, Constructing Sobol sequences with better two-dimensional projections, 2008; Owen, Scrambling Sobol and
        Niederreiter-Xing points, 1998. SciPy holds the direction numbers.

    >>> import tdt
    >>> engine = tdt.quasirandom.SobolEngine(dimension=2)
    >>> engine.draw(3)
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000],
            [0.7500, 0.2500]])
    """

    MAXBIT = BITS
    MAXDIM = DIMENSIONS

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if dimension > self.MAXDIM or dimension < 1:
            raise ValueError(f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]")
        self.seed = seed
        self.scramble = scramble
        self.dimension = dimension
        self.sobolstate = wrap(_directions(dimension))
        self.shift = tdt.zeros(dimension, dtype=tdt.int64, device="cpu")
        if scramble:
            self._scramble()
        self.quasi = self.shift.clone()
        self._first_point = (self.quasi / 2**BITS).reshape(1, -1)
        self.num_generated = 0

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: DType | None = None) -> Tensor:
        """The next `n` points.

        Args:
            out: tensor that takes the points; it is resized.
            dtype: float32 or float64; by default the default dtype.
        Shape: (n, dimension).
        Raises:
            NotImplementedError: for another dtype.
            RuntimeError: when `n` is negative.

        >>> import tdt
        >>> tdt.quasirandom.SobolEngine(1).draw(4).flatten()
        tensor([0.0000, 0.5000, 0.7500, 0.2500])
        """
        kind = get_default_dtype() if dtype is None else dtype
        if self.num_generated:
            result = self._next(n, self.num_generated - 1, kind)
        else:
            result = self._first_point.to(kind)
            if n != 1:
                result = tdt.cat((result, self._next(n - 1, 0, kind)))
        self.num_generated += n
        if out is None:
            return result
        return out.resize_as_(result).copy_(result)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: DType | None = None) -> Tensor:
        """The next 2ᵐ points; with those drawn before they must be a power of two, by which the points are balanced.

        Args:
            out, dtype: as those of `draw`.
        Shape: (2ᵐ, dimension).
        Raises:
            ValueError: when the number of points would be no power of two.

        >>> import tdt
        >>> tdt.quasirandom.SobolEngine(3).draw_base2(2).shape
        tdt.Size([4, 3])
        """
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                f"The balance properties of Sobol' points require n to be a power of 2. {self.num_generated} points have been "
                f"previously generated, then: n={self.num_generated}+2**{m}={total}. "
                "If you still want to do this, please use 'SobolEngine.draw()' instead."
            )
        return self.draw(n=n, out=out, dtype=dtype)

    def reset(self) -> SobolEngine:
        """Go back to the first point. Returns the engine.

        >>> import tdt
        >>> engine = tdt.quasirandom.SobolEngine(2, scramble=True)
        >>> tdt.equal(engine.draw(3), engine.reset().draw(3))
        True
        """
        self.quasi.copy_(self.shift)
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Skip `n` points. Returns the engine.

        >>> import tdt
        >>> tdt.quasirandom.SobolEngine(1).fast_forward(2).draw(2).flatten()
        tensor([0.7500, 0.2500])
        """
        first = self.num_generated == 0
        columns = _flipped(n - 1 if first else n, 0 if first else self.num_generated - 1)
        directions: Any = self.sobolstate.numpy()
        # A direction that is flipped twice is not flipped.
        odd = np.bincount(columns, minlength=BITS) % 2 == 1
        self.quasi ^= wrap(np.bitwise_xor.reduce(directions[:, odd], axis=1))
        self.num_generated += n
        return self

    def _next(self, n: int, start: int, dtype: DType) -> Tensor:
        """`n` points after the point of number `start`, which `quasi` holds; `quasi` becomes the last of them."""
        if dtype not in (tdt.float32, tdt.float64):
            raise NotImplementedError(f"SobolEngine.draw: expected dtype float32 or float64, got {dtype}")
        if n < 0:
            raise RuntimeError(f"SobolEngine.draw: expected a number of points of 0 or more, got {n}")
        points: Any = self.sobolstate.numpy().T[_flipped(n, start)]  # (n, dimension)
        if n:
            points[0] ^= self.quasi.numpy()
            np.bitwise_xor.accumulate(points, axis=0, out=points)
            self.quasi.copy_(wrap(points[-1].copy()))
        return wrap((points * 2.0**-BITS).astype(dtype.np))

    def _scramble(self) -> None:
        generator = Generator()
        if self.seed is None:
            generator.seed()
        else:
            generator.manual_seed(self.seed)
        bits = tdt.randint(2, (self.dimension, BITS), device="cpu", generator=generator)
        self.shift = (bits << tdt.arange(BITS)).sum(1)
        matrices = tdt.randint(2, (self.dimension, BITS, BITS), device="cpu", generator=generator).tril_()
        self.sobolstate = wrap(_scrambled(self.sobolstate.numpy(), matrices.numpy()))

    def __repr__(self) -> str:
        fields = [f"dimension={self.dimension}"]
        fields += ["scramble=True"] * self.scramble
        fields += [f"seed={self.seed}"] * (self.seed is not None)
        return f"{type(self).__name__}({', '.join(fields)})"


def _flipped(n: int, start: int) -> Any:
    """The direction that each of `n` points adds to the one before: the lowest 0 bit of the number of that one."""
    if n and start + n > 1 << BITS:
        raise RuntimeError(f"SobolEngine: the sequence has 2**{BITS} points, and {start + n} were asked for")
    lowest = ~np.arange(start, start + max(n, 0), dtype=np.int64)
    return np.frexp((lowest & -lowest).astype(np.float64))[1] - 1


@functools.lru_cache(maxsize=1)
def _table() -> tuple[Any, Any]:
    """Primitive polynomials and first direction numbers of all dimensions, from the file that SciPy's own engine reads."""
    scipy = importlib.util.find_spec("scipy")
    assert scipy is not None and scipy.origin is not None
    file = pathlib.Path(scipy.origin).parent / "stats" / "_sobol_direction_numbers.npz"
    with np.load(file) as numbers:
        return numbers["poly"], numbers["vinit"]


def _directions(dimension: int) -> Any:
    """Direction numbers, (dimension, 30), by the recurrence of their primitive polynomials."""
    polynomials, first = _table()
    polynomials = polynomials[:dimension]
    degrees = np.frexp(polynomials.astype(np.float64))[1] - 1
    directions = np.ones((dimension, BITS), np.int64)
    for degree in range(1, int(degrees.max(initial=0)) + 1):
        rows = np.flatnonzero(degrees == degree)
        part = np.empty((len(rows), BITS), np.int64)
        part[:, :degree] = first[rows, :degree]
        taps = polynomials[rows, None] >> np.arange(degree - 1, -1, -1) & 1  # of the terms before, the nearest first
        shifts = np.arange(1, degree + 1)
        for j in range(degree, BITS):
            terms = part[:, j - shifts] << shifts
            part[:, j] = part[:, j - degree] ^ np.bitwise_xor.reduce(terms * taps, axis=1)
        directions[rows] = part
    return directions << np.arange(BITS - 1, -1, -1)


def _scrambled(directions: Any, matrices: Any) -> Any:
    """Direction numbers times a lower triangular matrix of bits with a unit diagonal for each dimension, modulo 2."""
    result = np.empty_like(directions)
    powers = np.arange(BITS - 1, -1, -1)
    step = max(1, _CHUNK // BITS**2)
    for start in range(0, len(directions), step):
        rows = slice(start, start + step)
        lower = matrices[rows].astype(np.float32)
        lower[:, np.arange(BITS), np.arange(BITS)] = 1
        # Sums of 30 bits are exact in float32.
        bits = (directions[rows, None, :] >> powers[:, None] & 1).astype(np.float32)  # (rows, bit, direction)
        result[rows] = ((lower @ bits).astype(np.int64) % 2 << powers[:, None]).sum(1)
    return result
