"""Window functions that `tdt` itself exports; `tdt.signal.windows` has more, symmetric by default."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from tdt._backend.device import as_device
from tdt._core import dtype as _dtype
from tdt._core.creation import ones
from tdt._core.dtype import SCALAR_NAMES
from tdt._core.dtype import dtype as Dtype
from tdt._core.layout import layout as Layout
from tdt._core.mode import no_grad
from tdt._core.ranges import arange
from tdt._core.tensor import Tensor
from tdt._ops._common import Device
from tdt._ops.elementwise.special import i0

__all__ = ["bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window"]


def _window(
    name: str, length: Any, periodic: bool, shape: Callable[[Tensor, int], Tensor],
    dtype: Dtype | None, layout: Any, device: Any, requires_grad: bool,
) -> Tensor:  # fmt: skip
    """Window of `length` points: `shape(n, last)` at n = 0, …, length - 1, with last = length if periodic, else length - 1.

    Half precision is computed in float32 and rounded once.
    """
    try:
        length = operator.index(length)
    except TypeError:
        raise TypeError(
            f"{name}(): argument 'window_length' (position 1) must be int, not {type(length).__name__}"
        ) from None
    dtype, where = _dtype.get_default_dtype() if dtype is None else _dtype.as_dtype(dtype), as_device(device)
    if getattr(layout, "name", "strided") != "strided":
        raise RuntimeError(f"{name} is not implemented for sparse types, got: {layout}")
    if dtype.category < _dtype.FLOAT:
        raise RuntimeError(f"{name} expects floating point dtypes, got: {SCALAR_NAMES[dtype]}")
    if length < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got window_length={length}")
    with no_grad():
        if length < 2:
            window = ones(length, dtype=dtype, device=where)
        else:
            precision = _dtype.float32 if dtype.itemsize == 2 else dtype
            window = shape(arange(length, dtype=precision, device=where), length if periodic else length - 1).to(dtype)
    return window.requires_grad_() if requires_grad else window


def bartlett_window(
    window_length: int, periodic: bool = True, *, dtype: Dtype | None = None, layout: Layout | None = None,
    device: Device = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Bartlett window: a triangle from 0 to 1 and back to 0.

    Args:
        periodic: leave out the last point of a window of one more, so that repeated windows join; else it is symmetric.
        dtype: None is the default dtype.
        pin_memory: has no effect.
    Shape: result (window_length,).
    Raises:
        RuntimeError: when `window_length` is negative, the dtype is not floating-point, or the layout is sparse.

    >>> import tdt
    >>> tdt.bartlett_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """

    def shape(n: Tensor, last: int) -> Tensor:
        n = n * (2 / last)
        return n.minimum(2 - n)

    return _window("bartlett_window", window_length, periodic, shape, dtype, layout, device, requires_grad)


def blackman_window(
    window_length: int, periodic: bool = True, *, dtype: Dtype | None = None, layout: Layout | None = None,
    device: Device = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Blackman window: 0.42 - 0.5 cos(2πn/N) + 0.08 cos(4πn/N).

    Args:
        periodic: N is the number of points, so that repeated windows join; else one less, and the window is symmetric.
        dtype: None is the default dtype.
        pin_memory: has no effect.
    Shape: result (window_length,).
    Raises:
        RuntimeError: when `window_length` is negative, the dtype is not floating-point, or the layout is sparse.
    Source: Blackman and Tukey, "The Measurement of Power Spectra", 1958.

    >>> import tdt
    >>> tdt.blackman_window(3, periodic=False).round(decimals=4).abs()
    tensor([0., 1., 0.])
    """

    def shape(n: Tensor, last: int) -> Tensor:
        n = n * (math.pi / last)
        return (n * 4).cos() * 0.08 - (n * 2).cos() * 0.5 + 0.42

    return _window("blackman_window", window_length, periodic, shape, dtype, layout, device, requires_grad)


def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *, dtype: Dtype | None = None,
    layout: Layout | None = None, device: Device = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Hamming window: alpha - beta · cos(2πn/N).

    Args:
        periodic: N is the number of points, so that repeated windows join; else one less, and the window is symmetric.
        dtype: None is the default dtype.
        pin_memory: has no effect.
    Shape: result (window_length,).
    Raises:
        RuntimeError: when `window_length` is negative, the dtype is not floating-point, or the layout is sparse.
    Source: Blackman and Tukey, "The Measurement of Power Spectra", 1958.

    >>> import tdt
    >>> tdt.hamming_window(4)
    tensor([0.0800, 0.5400, 1.0000, 0.5400])
    """
    return _cosine("hamming_window", window_length, periodic, alpha, beta, dtype, layout, device, requires_grad)


def hann_window(
    window_length: int, periodic: bool = True, *, dtype: Dtype | None = None, layout: Layout | None = None,
    device: Device = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Hann window: 0.5 - 0.5 cos(2πn/N).

    Args:
        periodic: N is the number of points, so that repeated windows join; else one less, and the window is symmetric.
        dtype: None is the default dtype.
        pin_memory: has no effect.
    Shape: result (window_length,).
    Raises:
        RuntimeError: when `window_length` is negative, the dtype is not floating-point, or the layout is sparse.
    Source: Blackman and Tukey, "The Measurement of Power Spectra", 1958.

    >>> import tdt
    >>> tdt.hann_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _cosine("hann_window", window_length, periodic, 0.5, 0.5, dtype, layout, device, requires_grad)


def _cosine(name: str, length: Any, periodic: bool, alpha: float, beta: float, *how: Any) -> Tensor:
    def shape(n: Tensor, last: int) -> Tensor:
        return (n * (2 * math.pi / last)).cos() * -beta + alpha

    return _window(name, length, periodic, shape, *how)


def kaiser_window(
    window_length: int, periodic: bool = True, beta: float = 12.0, *, dtype: Dtype | None = None,
    layout: Layout | None = None, device: Device = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Kaiser window: I₀(beta · √(1 - (2n/N - 1)²)) / I₀(beta).

    Args:
        periodic: N is the number of points, so that repeated windows join; else one less, and the window is symmetric.
        beta: the larger, the lower the side lobes and the wider the main lobe.
        dtype: None is the default dtype.
        pin_memory: has no effect.
    Shape: result (window_length,).
    Raises:
        RuntimeError: when `window_length` is negative, the dtype is not floating-point, or the layout is sparse.
    Source: Kaiser, "Nonrecursive Digital Filter Design Using the I₀-sinh Window Function", 1974.

    >>> import tdt
    >>> tdt.kaiser_window(4, beta=2.0)
    tensor([0.4387, 0.8348, 1.0000, 0.8348])
    """

    def shape(n: Tensor, last: int) -> Tensor:
        inner = 1 - (n * (2 / last) - 1).square()
        return i0(beta * inner.clamp(min=0).sqrt()) / i0(n.new_full((), beta))

    return _window("kaiser_window", window_length, periodic, shape, dtype, layout, device, requires_grad)
