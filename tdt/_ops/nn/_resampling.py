"""Input positions and weights of each output position of a resampled axis.

Written into a table once for each axis: a row of taps (place, weight) for each output place. Its transpose, rows of taps
for each input place, serves the gradient. A table depends on sizes and settings alone.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tdt._backend.windows import adaptive_spans


class Axis(NamedTuple):
    """How one axis is resampled: from so many places to so many.

    scale: the scale factor, if positions are computed from it instead of from the sizes. turned: the transpose.
    """

    inside: int
    outside: int
    kind: str  # a key of FORMS
    scale: float | None = None
    align_corners: bool = False
    turned: bool = False

    def step(self, real: Any) -> Any:
        """Input places from one output place to the next, in the type it is computed with."""
        if self.align_corners:
            return real(self.inside - 1) / real(self.outside - 1) if self.outside > 1 else real(0)
        return real(1 / self.scale) if self.scale else real(self.inside) / real(self.outside)


@dataclass(frozen=True, eq=False)
class Taps:
    """Row i has the taps start[i] to before start[i + 1]: places `index` and their weights (None: 1 each).

    Integer weights are multiples of 2^-bits.
    """

    start: np.ndarray
    index: np.ndarray
    weight: np.ndarray | None
    bits: int

    @functools.cached_property
    def count(self) -> int:
        """The number of rows."""
        return len(self.start) - 1

    @functools.cached_property
    def each(self) -> int:
        """The number of taps of every row, 0 where they differ."""
        counts = np.diff(self.start)
        return int(counts[0]) if len(counts) and (counts == counts[0]).all() else 0

    @functools.cached_property
    def layers(self) -> list[tuple[np.ndarray | None, np.ndarray, np.ndarray | None]]:
        """The first taps of all rows that have one, then the second ones, …: (rows, None for all; places; weights)."""
        counts, layers = np.diff(self.start), []
        for t in range(counts.max(initial=0)):
            rows = np.flatnonzero(counts > t)
            at = self.start[rows] + t
            weight = None if self.weight is None else self.weight[at].reshape(-1, 1)
            layers.append((None if len(rows) == self.count else rows, self.index[at], weight))
        return layers


@functools.lru_cache(maxsize=256)
def taps(axis: Axis, letter: str) -> Taps:
    """The table of an axis for arrays of float32 ("f"), float64 ("d") or uint8 ("B")."""
    real = np.float32 if letter == "f" else np.float64
    index, weight = FORMS[axis.kind](axis, real)
    rows = np.broadcast_to(np.arange(axis.outside)[:, None], index.shape)
    used = np.ones(index.shape, bool) if weight is None else weight == weight  # NaN: no tap
    rows, index, weight = rows[used], index[used], None if weight is None else weight[used]
    bits = 0
    if letter == "B" and weight is not None:
        rows, index, weight, bits = _rounded(rows, index, weight, axis)
    count = axis.outside
    if axis.turned:
        order = np.argsort(index, kind="stable")
        rows, index, weight = index[order], rows[order], None if weight is None else weight[order]
        count = axis.inside
    start = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=count), out=start[1:])
    return Taps(start, index.astype(np.int64), weight, bits)


def _rounded(rows: np.ndarray, index: np.ndarray, weight: np.ndarray, axis: Axis) -> tuple[Any, Any, Any, int]:
    """Weights as 16-bit integers, with as many bits as the largest of them leaves room for (Pillow's way with bytes)."""
    whole = np.zeros((axis.outside, axis.inside))
    np.add.at(whole, (rows, index), weight)  # places at the border count several times
    bits = 0
    while bits < 22 and int(0.5 + whole.max() * (1 << (bits + 1))) < 1 << 15:
        bits += 1
    whole *= 1 << bits
    integers = np.trunc(whole + np.copysign(0.5, whole)).astype(np.int32)
    rows, index = np.nonzero(integers)
    return rows, index, integers[rows, index], bits


def _nearest(axis: Axis, real: Any) -> tuple[np.ndarray, None]:
    """The input pixel at the start of each output pixel; for "nearest-exact", the one at its centre."""
    places = np.arange(axis.outside)
    if axis.kind == "nearest-exact":
        places = np.floor((places.astype(real) + real(0.5)) * axis.step(real)).astype(np.int64)
    else:
        places = np.floor(places.astype(np.float32) * axis.step(np.float32)).astype(np.int64)
    return np.minimum(places, axis.inside - 1)[:, None], None


def _positions(axis: Axis, real: Any, clamp: bool) -> tuple[np.ndarray, np.ndarray]:
    """The position of each output pixel in the input: the index of the pixel before it, and the fractional distance."""
    at = np.arange(axis.outside).astype(real)
    at = axis.step(real) * at if axis.align_corners else axis.step(real) * (at + real(0.5)) - real(0.5)
    if clamp:
        at = np.maximum(at, real(0))
    before = np.minimum(np.floor(at), axis.inside - 1)
    return before.astype(np.int64), np.clip(at - before, 0, 1).astype(real)


def _linear(axis: Axis, real: Any) -> tuple[np.ndarray, np.ndarray]:
    """The two places around, by nearness."""
    before, fraction = _positions(axis, real, clamp=True)
    index = np.stack([before, np.minimum(before + 1, axis.inside - 1)], 1)
    return index, np.stack([1 - fraction, fraction], 1)


def _cubic(axis: Axis, real: Any) -> tuple[np.ndarray, np.ndarray]:
    """The four nearest pixels, weighted by cubic convolution; pixels beyond the border are replaced by those at the border."""
    before, fraction = _positions(axis, real, clamp=False)
    index = np.clip(before[:, None] + np.arange(-1, 3), 0, axis.inside - 1)
    return index, np.stack(cubic_weights(fraction), 1).astype(real)


def cubic_weights(fraction: Any) -> list[Any]:
    """The weights of the four pixels around a position that is `fraction` after the second one; for arrays and tensors."""
    return [_far(1 + fraction, -0.75), _near(fraction, -0.75), _near(1 - fraction, -0.75), _far(2 - fraction, -0.75)]


def _near(d: Any, a: float) -> Any:
    """Cubic convolution (Keys, 1981): the weight of a place at a distance of at most 1."""
    return ((a + 2) * d - (a + 3)) * d * d + 1


def _far(d: Any, a: float) -> Any:
    """As `_near`, at a distance of 1 to 2."""
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a


def _filtered(
    support: int, weight_at: Callable[[np.ndarray], np.ndarray]
) -> Callable[[Axis, Any], tuple[np.ndarray, np.ndarray]]:
    """Antialiasing: a filter over all pixels within `support` times the scale, with the weights `weight_at(distance)`."""

    def form(axis: Axis, real: Any) -> tuple[np.ndarray, np.ndarray]:
        step = axis.step(real)
        scale = max(step, real(1))
        middle = step * (np.arange(axis.outside).astype(real) + real(0.5))
        low = np.maximum((middle - support * scale + real(0.5)).astype(np.int64), 0)
        high = np.minimum((middle + support * scale + real(0.5)).astype(np.int64), axis.inside)
        index = low[:, None] + np.arange(2 * math.ceil(support * scale) + 1)
        weight = weight_at(np.abs((index - middle[:, None] + real(0.5)) / scale)).astype(real)
        weight = np.where(index < high[:, None], weight, 0)
        weight /= weight.sum(axis=1, keepdims=True)
        return index, np.where(index < high[:, None], weight, np.nan)

    return form


def _means(axis: Axis, real: Any) -> tuple[np.ndarray, np.ndarray]:
    """The mean of the places that an output place covers, wholly or in part, as adaptive pooling has them."""
    start, end = (cells[:, None] for cells in adaptive_spans(axis.inside, axis.outside))
    index = start + np.arange((end - start).max(initial=0))
    return index, np.where(index < end, real(1) / (end - start), np.nan).astype(real)


def _hat(distance: np.ndarray) -> np.ndarray:
    return np.maximum(1 - distance, 0)


def _bell(distance: np.ndarray) -> np.ndarray:
    return np.where(distance < 1, _near(distance, -0.5), np.where(distance < 2, _far(distance, -0.5), 0))


def _sinc(distance: np.ndarray) -> np.ndarray:
    return np.where(distance < 3, np.sinc(distance) * np.sinc(distance / 3), 0)


FORMS: dict[str, Callable[[Axis, Any], tuple[np.ndarray, Any]]] = {
    "nearest": _nearest, "nearest-exact": _nearest, "linear": _linear, "cubic": _cubic, "mean": _means,
    "linear antialias": _filtered(1, _hat), "cubic antialias": _filtered(2, _bell), "lanczos antialias": _filtered(3, _sinc),
}  # fmt: skip
