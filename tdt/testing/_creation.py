"""`make_tensor`: random tensors for tests, with PyTorch's values for the same seed."""

from __future__ import annotations

import math
import warnings
from typing import Any

from tdt import Tensor
from tdt._core import dtype as _dtype
from tdt._core.aliases import Device
from tdt._core.creation import make
from tdt._core.dtype import dtype as Dtype
from tdt._ops.elementwise.complex_numbers import view_as_real
from tdt._ops.random.creation import randint


def make_tensor(
    *shape: Any, dtype: Dtype, device: Device, low: float | None = None, high: float | None = None,
    requires_grad: bool = False, noncontiguous: bool = False, exclude_zero: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """A tensor of values drawn uniformly from [low, high).

    Args:
        low, high: clipped to the range of `dtype`. Default: [-9, 9) for floating point (real and imaginary part), [-9, 10)
            for signed and [0, 10) for unsigned integers, [0, 2) for bool.
        noncontiguous: return every second element along the last dimension of a larger tensor.
        exclude_zero: replace 0 by 1, or by the smallest normal number of a floating-point dtype.
    Raises:
        ValueError: when the range is empty, NaN or outside of the dtype's, noncontiguous is combined with memory_format, or
            requires_grad with an integer or bool dtype.

    >>> import tdt
    >>> x = tdt.testing.make_tensor(2, 3, dtype=tdt.float32, device="cpu", low=0, high=1)
    >>> tuple(x.shape), bool((x < 1).all())
    ((2, 3), True)
    """
    size = tuple(shape[0]) if len(shape) == 1 and not hasattr(shape[0], "__index__") else shape
    if noncontiguous and memory_format is not None:
        raise ValueError(
            "The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got "
            f"{noncontiguous=} and {memory_format=}"
        )
    integral = dtype.category < _dtype.FLOAT
    if requires_grad and integral:
        raise ValueError(f"`requires_grad=True` is not supported for boolean and integral dtypes, but got {dtype=}")
    strided = noncontiguous and math.prod(size) > 1
    if strided:
        size = (*size[:-1], 2 * size[-1])
    first, last = _limits(dtype, low, high)
    if integral:
        tensor = randint(math.ceil(first), math.ceil(last), size, dtype=dtype, device=device)
    else:
        tensor = make("empty", size, None, dtype, device)
        parts = view_as_real(tensor) if dtype.is_complex else tensor
        if last - first >= _dtype.finfo(dtype).max:  # a larger range than uniform_ supports
            parts.uniform_(first / 2, last / 2).mul_(2)
        else:
            parts.uniform_(first, last)
    if strided:
        tensor = tensor[..., 1::2]
    elif memory_format is not None:
        tensor = tensor.clone(memory_format=memory_format)
    if exclude_zero:
        tensor[tensor == 0] = 1 if integral else _dtype.finfo(dtype).tiny
    return tensor.requires_grad_() if requires_grad else tensor


def _limits(dtype: Dtype, low: float | None, high: float | None) -> tuple[float, float]:
    """low and high, or their defaults, clipped to the range of the dtype."""
    bounds: tuple[float, float]
    default: tuple[int, int]
    if dtype is _dtype.bool:
        bounds, default = (0, 2), (0, 2)
    elif dtype.category < _dtype.FLOAT:
        info = _dtype.iinfo(dtype)
        # randint's upper end is exclusive and an int64 itself.
        bounds, default = (info.min, info.max + (dtype is not _dtype.int64)), (-9, 10)
    else:
        bounds, default = (_dtype.finfo(dtype).min, _dtype.finfo(dtype).max), (-9, 9)
    low, high = default[0] if low is None else low, default[1] if high is None else high
    if any(isinstance(v, float) and math.isnan(v) for v in (low, high)):
        raise ValueError(f"`low` and `high` cannot be NaN, but got {low=} and {high=}")
    if low == high and dtype.category >= _dtype.FLOAT:
        warnings.warn(
            "Passing `low==high` to `testing.make_tensor` for floating or complex types is deprecated; use full()",
            FutureWarning,
            stacklevel=3,
        )
    elif low >= high:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    elif high < bounds[0] or low >= bounds[1]:
        raise ValueError(
            f"The value interval specified by `low` and `high` is [{low}, {high}), but {dtype} only supports "
            f"[{bounds[0]}, {bounds[1]})"
        )
    low, high = (min(max(v, bounds[0]), bounds[1]) for v in (low, high))
    return low, high
