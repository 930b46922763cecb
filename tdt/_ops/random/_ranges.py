"""Integer ranges of dtypes for random numbers."""

from __future__ import annotations

import functools
import warnings

import ml_dtypes

from tdt._core import dtype as _dtype
from tdt._core.dtype import dtype as Dtype

LOWEST = -(2**63)


@functools.cache
def last_of(dtype: Dtype) -> int:
    """The largest integer of an integer dtype, or up to which a floating one holds them all."""
    if dtype.category == _dtype.BOOL:
        return 1
    if dtype.category == _dtype.INT:
        return _dtype.iinfo(dtype).max
    return 2 ** _digits(dtype)


LIMITS = {kind: (_dtype.iinfo(kind).min, _dtype.iinfo(kind).max) for kind in (_dtype.int64, _dtype.int32)}
LIMITS |= {_dtype.float32: (-(2**24), 2**24), _dtype.float64: (-(2**53), 2**53)}


def fits(dtype: Dtype, low: int, high: int) -> bool:
    """Whether `dtype` is a common one that holds all numbers in the range [low, high), which is not empty."""
    limits = LIMITS.get(dtype)
    return limits is not None and limits[0] <= low < high <= limits[1]


def ends_of(dtype: Dtype, low: int, high: int | None) -> tuple[int, int]:
    """The bounds [low, high) of a range, rounded to `dtype`; `high=None` is the largest value of `dtype`.

    RuntimeError for an empty range, for ends that the dtype does not reach and for complex dtypes. Where a floating
    dtype has gaps between integers the ends move inwards, so that no value rounds to one outside.
    """
    if dtype.category == _dtype.COMPLEX:
        raise RuntimeError("check_random_bounds handles only integral, floating-point and boolean types")
    if high is None:
        if low == LOWEST:
            return LOWEST, 2**63
        last = min(last_of(dtype), 2**63 - 1)
        low = _from(dtype, low)
        _check_bounds(dtype, low, last)
        return low, last + 1
    high = int(high)
    if fits(dtype, low, high):
        return low, high
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    low, high = _from(dtype, low), _to(dtype, high)
    if low >= high:
        raise RuntimeError(
            f"random_ expects 'from' casted to dtype to be less than 'to' casted to dtype, but got from={low} >= to={high}"
        )
    _check_bounds(dtype, low, high - 1)
    return low, high


def _digits(dtype: Dtype) -> int:
    return ml_dtypes.finfo(dtype.np).nmant + 1


def _from(dtype: Dtype, low: int) -> int:
    if dtype.category != _dtype.FLOAT or abs(low) > _dtype.finfo(dtype).max:
        return low
    above = int(dtype.np.type(low + 1))
    return low if above >= low else above + (1 << (abs(low + 1).bit_length() - _digits(dtype)))


def _to(dtype: Dtype, high: int) -> int:
    if dtype.category != _dtype.FLOAT or abs(high) > _dtype.finfo(dtype).max:
        return high
    below = int(dtype.np.type(high - 1))
    return high if below < high else below - (1 << (abs(high - 1).bit_length() - _digits(dtype)))


def _check_bounds(dtype: Dtype, low: int, last: int) -> None:
    if dtype.category == _dtype.FLOAT:
        _check_precision(dtype, low, last)
        return
    lowest = 0 if dtype.category == _dtype.BOOL else _dtype.iinfo(dtype).min
    for name, end in (("from", low), ("to - 1", last)):
        if not lowest <= end <= min(last_of(dtype), 2**63 - 1):
            raise RuntimeError(
                f"{name} is out of bounds for {dtype.name}: {end} is not within {lowest} … {last_of(dtype)}"
            )


def _check_precision(dtype: Dtype, low: int, last: int) -> None:
    digits, limit = _digits(dtype), _dtype.finfo(dtype).max
    for name, end in (("from", low), ("to - 1", last)):
        if abs(end) > limit:
            raise RuntimeError(f"{name} is out of bounds for {dtype.name}: {end} is not within ±{limit:g}")
        if abs(end) > 2**digits:
            warnings.warn(
                f"{name} is out of bounds [-(2^{digits}), 2^{digits}]. Due to precision limitations {dtype.name} can support "
                "discrete uniform distribution only within this range.",
                stacklevel=5,
            )
