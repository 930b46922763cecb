"""Windows under the old top-level names; `tdt.signal.windows` has more of them, symmetric unless told otherwise."""

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
from tdt._core.mode import no_grad
from tdt._core.ranges import arange
from tdt._core.tensor import Tensor
from tdt._ops.elementwise.special import i0

__all__ = ["bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window"]


def _window(
    name: str, length: Any, periodic: bool, shape: Callable[[Tensor, int], Tensor],
    dtype: Dtype | None, layout: Any, device: Any, requires_grad: bool,
) -> Tensor:  # fmt: skip
    """`shape(n, last)` at the points n = 0, …, length - 1, where the window ends at `last`: one later if it is periodic.

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
            made = ones(length, dtype=dtype, device=where)
        else:
            wide = _dtype.float32 if dtype.itemsize == 2 else dtype
            made = shape(arange(length, dtype=wide, device=where), length if periodic else length - 1).to(dtype)
    return made.requires_grad_() if requires_grad else made


def bartlett_window(
    window_length: int, periodic: bool = True, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A triangle from 0 to 1 and back; the last point, a 0 again, is left out of a periodic one.

    >>> import tdt
    >>> tdt.bartlett_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """

    def shape(n: Tensor, last: int) -> Tensor:
        n = n * (2 / last)
        return n.minimum(2 - n)

    return _window("bartlett_window", window_length, periodic, shape, dtype, layout, device, requires_grad)


def blackman_window(
    window_length: int, periodic: bool = True, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """0.42 - 0.5 cos(2πn/N) + 0.08 cos(4πn/N) (Blackman and Tukey, 1958).

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
    layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """alpha - beta · cos(2πn/N) (Hamming).

    >>> import tdt
    >>> tdt.hamming_window(4)
    tensor([0.0800, 0.5400, 1.0000, 0.5400])
    """
    return _cosine("hamming_window", window_length, periodic, alpha, beta, dtype, layout, device, requires_grad)


def hann_window(
    window_length: int, periodic: bool = True, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """0.5 - 0.5 cos(2πn/N) (von Hann): moved by half its length and added, it is 1 everywhere.

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
    window_length: int, periodic: bool = True, beta: float = 12.0, *, dtype: Dtype | None = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """I₀(beta · √(1 - (2n/N - 1)²)) / I₀(beta) (Kaiser, 1974): the larger beta, the smaller the side lobes.

    >>> import tdt
    >>> tdt.kaiser_window(4, beta=2.0)
    tensor([0.4387, 0.8348, 1.0000, 0.8348])
    """

    def shape(n: Tensor, last: int) -> Tensor:
        inner = 1 - (n * (2 / last) - 1).square()
        return i0(beta * inner.clamp(min=0).sqrt()) / i0(n.new_full((), beta))

    return _window("kaiser_window", window_length, periodic, shape, dtype, layout, device, requires_grad)
