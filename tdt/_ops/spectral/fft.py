"""Discrete Fourier transforms: complex to complex, real to half a spectrum, and half a spectrum to real.

`norm` tells which direction is divided by the number of points: "backward" the inverse, "forward" the transform, "ortho"
both by its root. The adjoint of a transform is the one in the other direction, with "backward" and "forward" swapped.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from tdt._core.dtype import COMPLEX_ONLY, FLOATING
from tdt._core.tensor import Tensor
from tdt._kernels import prepares
from tdt.autograd._op import op

ADJOINT = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


@functools.cache
def _library(xp: ModuleType) -> ModuleType:
    """SciPy's transforms rather than NumPy's: they do several rows at once, in float32 in a quarter of the time."""
    return importlib.import_module("scipy.fft" if xp.__name__ == "numpy" else "cupyx.scipy.fft")


@functools.cache
def _pocketfft() -> Any:
    """SciPy's extension, before which SciPy takes longer than a small transform does; None in a release that has it elsewhere."""
    try:
        return importlib.import_module("scipy.fft._pocketfft.pypocketfft")
    except ImportError:
        return None


@functools.cache
def _of_last(kind: str, ndim: int, count: int, norm: str, **how: int) -> Callable[[Any], Any]:
    """SciPy's transform of a `kind` along the last `count` dimensions of NumPy's arrays."""
    library, dims, forward = _pocketfft(), tuple(range(ndim - count, ndim)), kind in ("fft", "rfft")
    if library is None:
        several = {"axes": dims} if count > 1 else {}
        return functools.partial(getattr(_library(np), kind + "n" * len(several)), norm=norm, **several, **how)
    scaling = 1 if norm == "ortho" else 0 if (norm == "backward") == forward else 2
    if kind == "irfft":
        return lambda x: library.c2r(x, dims, how["n"], forward, scaling, None, 1)
    function = library.r2c if kind == "rfft" else library.c2c
    return lambda x: function(x, dims, forward, scaling, None, 1)


def _transform(xp: ModuleType, kind: str, x: Any, dims: Sequence[int], order: list[int], norm: str, **how: int) -> Any:
    """SciPy's transform of a `kind` along `dims`, which are the last ones in `order`."""
    if xp is np:
        found = _of_last(kind, x.ndim, len(dims), norm, **how)(x.transpose(order))
    elif len(dims) == 1:  # with less to check
        found = getattr(_library(xp), kind)(x.transpose(order), norm=norm, **how)
    else:
        found = getattr(_library(xp), f"{kind}n")(x.transpose(order), axes=range(-len(dims), 0), norm=norm, **how)
    return _restore_order(xp, found, order)


def _prepare(kind: str, x: Any, dims: tuple[int, ...], norm: str, **how: int) -> Callable[[Any], Any] | None:
    """The transform of arrays in order along their last dimensions, which needs nothing around SciPy's; else None."""
    count = len(dims)
    in_order = dims == tuple(range(x.ndim - count, x.ndim)) and (kind != "irfft" or count == 1)
    return _of_last(kind, x.ndim, count, norm, **how) if in_order else None


def _by_stride(x: Any, dims: Iterable[int]) -> list[int]:
    return sorted(dims, key=lambda dim: -x.strides[dim])


def _order(x: Any, last: Sequence[int]) -> list[int]:
    """The order in which PyTorch lays out a result: the dimensions of the batch as they are laid out, then `last`."""
    return [*_by_stride(x, (dim for dim in range(x.ndim) if dim not in last)), *last]


def _restore_order(xp: ModuleType, result: Any, order: list[int]) -> Any:
    """Make a result whose dimensions are in `order` contiguous, and permute the dimensions back."""
    back = sorted(range(len(order)), key=order.__getitem__)
    return xp.ascontiguousarray(result).transpose(back)


@op(dtypes=COMPLEX_ONLY, node="FftC2CBackward0")
def fft_c2c(xp: ModuleType, x: Any, *, dims: tuple[int, ...], norm: str, forward: bool) -> Any:
    return _transform(xp, "fft" if forward else "ifft", x, dims, _order(x, _by_stride(x, dims)), norm)


@prepares(fft_c2c.forward)
def _(x: Any, *, dims: tuple[int, ...], norm: str, forward: bool, recorded: bool) -> Any:
    return _prepare("fft" if forward else "ifft", x, dims, norm)


@fft_c2c.vjp("x")
def _(g: Tensor, dims: tuple[int, ...], norm: str, forward: bool) -> Tensor:
    return fft_c2c(g, dims=dims, norm=ADJOINT[norm], forward=not forward)


@fft_c2c.fast_vjp("x")
def _(xp: ModuleType, g: Any, dims: tuple[int, ...], norm: str, forward: bool) -> Any:
    return fft_c2c.forward(xp, g, dims=dims, norm=ADJOINT[norm], forward=not forward)


@op(dtypes=FLOATING, node="FftR2CBackward0")
def fft_r2c(xp: ModuleType, x: Any, *, dims: tuple[int, ...], norm: str) -> Any:
    """The half of the spectrum along the last of `dims`, whole along the others; the transform."""
    return _transform(xp, "rfft", x, dims, _order(x, [*_by_stride(x, dims[:-1]), dims[-1]]), norm)


@prepares(fft_r2c.forward)
def _(x: Any, *, dims: tuple[int, ...], norm: str, recorded: bool) -> Any:
    return _prepare("rfft", x, dims, norm)


@fft_r2c.vjp("x")
def _(g: Tensor, x_shape: tuple[int, ...], dims: tuple[int, ...], norm: str) -> Tensor:
    """The real part of what a half spectrum gives is the signal of the whole one that has half of it in either half."""
    n = x_shape[dims[-1]]
    return fft_c2r(_scaled(g, dim=dims[-1], n=n, by=0.5), dims=dims, norm=ADJOINT[norm], n=n)


@fft_r2c.fast_vjp("x")
def _(xp: ModuleType, g: Any, x_shape: tuple[int, ...], dims: tuple[int, ...], norm: str) -> Any:
    n = x_shape[dims[-1]]
    halves = _scaled.forward(xp, g, dim=dims[-1], n=n, by=0.5)
    return fft_c2r.forward(xp, halves, dims=dims, norm=ADJOINT[norm], n=n)


@op(dtypes=COMPLEX_ONLY, node="FftC2RBackward0")
def fft_c2r(xp: ModuleType, x: Any, *, dims: tuple[int, ...], norm: str, n: int) -> Any:
    """The inverse of a half spectrum along the last of `dims`, of `n` points there."""
    if len(dims) > 1:
        x = fft_c2c.forward(xp, x, dims=dims[:-1], norm=norm, forward=False)
    return _transform(xp, "irfft", x, dims[-1:], _order(x, dims[-1:]), norm, n=n)


@prepares(fft_c2r.forward)
def _(x: Any, *, dims: tuple[int, ...], norm: str, n: int, recorded: bool) -> Any:
    return _prepare("irfft", x, dims, norm, n=n)


@fft_c2r.vjp("x")
def _(g: Tensor, dims: tuple[int, ...], norm: str, n: int) -> Tensor:
    return _scaled(fft_r2c(g, dims=dims, norm=ADJOINT[norm]), dim=dims[-1], n=n, by=2.0)


@fft_c2r.fast_vjp("x")
def _(xp: ModuleType, g: Any, dims: tuple[int, ...], norm: str, n: int) -> Any:
    half = fft_r2c.forward(xp, g, dims=dims, norm=ADJOINT[norm])
    return _scaled.forward(xp, half, dim=dims[-1], n=n, by=2.0)


@op(name="fft_scaled", dtypes=COMPLEX_ONLY)
def _scaled(xp: ModuleType, x: Any, *, dim: int, n: int, by: float) -> Any:
    """A half spectrum of `n` points: the entries that represent their conjugates in the other half, too, times `by`."""
    half = x.shape[dim]
    weights = xp.ones((half,) + (1,) * (x.ndim - 1 - dim), x.real.dtype)
    weights[1 : 1 + n - half] = by
    return x * weights


_scaled.vjp("x")(lambda g, dim, n, by: _scaled(g, dim=dim, n=n, by=by))
