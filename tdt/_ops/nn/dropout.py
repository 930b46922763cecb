"""Dropout of elements and of channels, by zeros or by selu's lowest value.

The mask is an output of the op that draws it, so that second derivatives see what was drawn. In place, and with SELU's
limit, the input is multiplied by numbers made of it.
"""

from __future__ import annotations

import functools
import math
import warnings
from typing import Any

import numpy as np

from tdt import _backend
from tdt._backend.layout import empty_in_order
from tdt._backend.waiting import ends_by_formula, refuse_program, repeatable
from tdt._core.creation import empty_like
from tdt._core.dtype import FLOATING, check_category
from tdt._core.tensor import Tensor
from tdt._kernels import chosen, from_formula, gpu_elements, gpu_kernel, prepares
from tdt._kernels._threads import THREADS
from tdt._ops.elementwise._front import tensor_argument
from tdt._ops.elementwise.select import where
from tdt._random import assign_in_memory_order, bernoulli, generator_for
from tdt.autograd._op import op
from tdt.autograd._remembered import calls_by_shape


def _channels(x: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of one number for each channel of (N, C, *)."""
    return (*x[:2], *(1,) * (len(x) - 2))


def _remaining(xp: Any, x: Any, mask: Any, scale: float) -> Any:
    return xp.where(mask, x * scale, x * 0)


# x times the scale or 0, in one pass where a kernel is generated.
_product: Any = from_formula("dropout", _remaining, 2, ("scale",))[0]


# One number or another: NumPy's `where` of two numbers takes many times as long.
_either = from_formula("either", lambda xp, mask, a, b: xp.where(mask, a, b), 3, ())[0]


@functools.lru_cache
def _scale(kind: Any, p: float) -> float:
    """1 / (1 - p), divided as PyTorch does and rounded to a dtype."""
    wide = np.float64 if kind == np.float64 else np.float32
    return float(kind.type(wide(1) / wide(1 - p)))


_DRAWN = (gpu_kernel("random_gpu:dropout", gpu_elements),)


def _mask(xp: Any, x: Any, p: float, by_channel: bool, source: Any) -> Any:
    """Which elements remain, drawn in the order of x's memory, or which channels, in that of the dimensions.

    It lies in memory as x does. A mask of bool takes a quarter of the memory of one of numbers.
    """
    like = x[(slice(None), slice(None), *(slice(1),) * (x.ndim - 2))] if by_channel else x
    mask = bernoulli(source, like.shape, 1 - p)
    if not x.flags.c_contiguous:
        drawn, mask = mask, empty_in_order(xp, like, bool)
        if by_channel:
            mask[...] = drawn
        else:
            assign_in_memory_order(mask, drawn)
    return mask


@op(name="dropout", dtypes=FLOATING, outputs=("out", "mask"), nondiff=("mask",), random=True, half="everywhere",
    shape=lambda x, *, by_channel=False, **how: (x, _channels(x) if by_channel else x), node="MulBackward0")  # fmt: skip
@repeatable
def _dropout(xp, x, *, p, generator, by_channel=False):
    source = functools.partial(generator_for, generator, _backend.device_of(x))
    if not by_channel and (fast := chosen(_DRAWN, xp, x)):
        return fast(x, p=p, scale=_scale(x.dtype, p), source=source)
    refuse_program()
    mask = _draw(xp, x, p=p, generator=generator, by_channel=by_channel)
    return _scaled(xp, x, mask, p=p), mask


def _draw(xp, x, *, p, generator, by_channel):
    return _mask(xp, x, p, by_channel, generator_for(generator, _backend.device_of(x)))


def _scaled(xp, x, mask, *, p, **how):
    return _product(xp, x, mask, scale=_scale(x.dtype, p))


_dropout.parts = _draw, _scaled
_dropout.traced["drawn"] = _dropout.traced["x"] = lambda xp, x, mask, p: _remaining(
    xp, x, mask, _scale(np.dtype(np.float32), p)
)


@prepares(_dropout.forward)
def _(x, *, p, generator, by_channel, recorded):
    if generator is not None:
        return None
    source, shape = generator_for(None, _backend.device_of(x)), _channels(x.shape) if by_channel else x.shape
    product = _prepared_product(x, p)

    def dropped(x):
        mask = bernoulli(source, shape, 1 - p)
        return (product(x, mask), mask) if recorded else product(x, mask)

    return product and dropped


def _prepared_product(x: Any, p: float) -> Any:
    """`_product` of arrays of these types with a mask, on the calling thread; None where there is no code for it."""
    found = _product.ufunc_for((x, _MASK), {"scale": _scale(x.dtype, p)})
    return found and functools.partial(_call, found[0], found[2])


def _call(ufunc: Any, numbers: tuple, x: Any, mask: Any) -> Any:
    return ufunc(x, mask, *numbers)


_MASK = np.ones((), bool)


@_dropout.vjp("x")
def _(g_out, mask, p):
    return where(mask, g_out * _scale(g_out._a.dtype, p), g_out * 0)


@_dropout.fast_vjp("x")
@ends_by_formula
def _(xp, g_out, mask, p):
    return _product(xp, g_out, mask, scale=_scale(g_out.dtype, p))


@_dropout.prepares_vjp("x")
def _(xp, g_out, mask, p):
    return _prepared_product(g_out, p) if g_out.size < THREADS.elementwise else None


# Klambauer et al., 2017: the negated limit of selu(x) for x → -inf.
_LOWEST = 1.7580993408473766


@functools.lru_cache
def _alpha_values(kind: Any, p: float) -> tuple[Any, Any, Any]:
    """What an element that remains is multiplied by, what is added to it, and what replaces one that does not.

    Each step is rounded to the dtype, as PyTorch's are.
    """
    wide = np.float64 if kind == np.float64 else np.float32
    scale = 1 / math.sqrt((_LOWEST * _LOWEST * p + 1) * (1 - p))
    lowest, shift = (kind.type(wide(value)) for value in (-_LOWEST * scale, _LOWEST * scale * p))
    return kind.type(wide(scale)), shift, kind.type(wide(lowest) + wide(shift))


@op(dtypes=FLOATING, outputs=("factor", "shift"), nondiff=("factor", "shift"), random=True, computes=False,
    shape=lambda x, *, by_channel, **how: (_channels(x) if by_channel else x,) * 2)  # fmt: skip
def _alpha_noise(xp, x, *, p, by_channel, generator):
    mask = _mask(xp, x, p, by_channel, generator_for(generator, _backend.device_of(x)))
    factor, remaining, dropped = _alpha_values(x.dtype, p)
    pairs = (factor, x.dtype.type(0)), (remaining, dropped)
    if xp is np:
        return tuple([_either(np, mask, np.asarray(a), np.asarray(b)) for a, b in pairs])
    return tuple([_backend.where(xp, mask, a, b) for a, b in pairs])


def _drop(
    input: Tensor, p: float, train: bool, inplace: bool = False, by_channel: bool = False, alpha: bool = False
) -> Tensor:
    """All kinds of dropout: of elements or of channels, by zeros or (`alpha`) by SELU's negative limit.

    RuntimeError for `p` outside [0, 1], and for channels of an input with fewer than 2 dimensions.
    """
    if train and not inplace and not alpha and p.__class__ is float and 0 < p < 1:
        return _dropped(input, p, by_channel)
    tensor_argument("dropout", input)
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p}")
    if p == 0 or not train or not input.numel():
        return input
    if p == 1:
        return input.mul_(False) if inplace else input * False
    _check_input(input, by_channel)
    if alpha:
        factor, shift = _alpha_noise(input, p=float(p), by_channel=by_channel, generator=None)
        return input.mul_(factor).add_(shift) if inplace else input * factor + shift
    if not inplace:
        return _dropout(input, p=float(p), generator=None, by_channel=by_channel)[0]
    noise = input.new_empty(_channels(input.shape)) if by_channel else empty_like(input)
    return input.mul_(noise.bernoulli_(1 - p).div_(1 - p))


@calls_by_shape
def _dropped(input: Tensor, p: float, by_channel: bool) -> Tensor:
    """`input` without some elements or channels, in the common case."""
    tensor_argument("dropout", input)
    if not input.numel():
        return input
    _check_input(input, by_channel)
    return _dropout(input, p=p, generator=None, by_channel=by_channel)[0]


def _check_input(input: Tensor, by_channel: bool) -> None:
    check_category("dropout", FLOATING, input.dtype)
    if by_channel and input.ndim < 2:
        raise RuntimeError(f"Feature dropout requires at least 2 dimensions in the input, but got {list(input.shape)}")


def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Zero each element with probability `p` and scale the rest by 1 / (1 - p).

    Args:
        train: whether to drop; without it, the result is `input` itself.
    Shape: input (*); result the same.
    Raises:
        RuntimeError: when `p` is not in [0, 1].
    Source: Srivastava et al., "Dropout: A Simple Way to Prevent Neural Networks from Overfitting", 2014.

    >>> import tdt
    >>> tdt.dropout(tdt.ones(2, 2), 0.5, False)
    tensor([[1., 1.],
            [1., 1.]])
    """
    return _drop(input, p, train)


def dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """In-place version of `dropout`.

    >>> import tdt
    >>> tdt.dropout_(tdt.ones(2, 2), 0.5, False)
    tensor([[1., 1.],
            [1., 1.]])
    """
    return _drop(input, p, train, inplace=True)


def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Zero each channel with probability `p` and scale the rest by 1 / (1 - p).

    Args:
        train: whether to drop; without it, the result is `input` itself.
    Shape: input (N, C, *); result the same.
    Raises:
        RuntimeError: when `p` is not in [0, 1], or `input` has fewer than 2 dimensions.
    Source: Tompson et al., "Efficient Object Localization Using Convolutional Networks", 2015.

    >>> import tdt
    >>> tdt.feature_dropout(tdt.ones(2, 2), 0.5, False)
    tensor([[1., 1.],
            [1., 1.]])
    """
    return _drop(input, p, train, by_channel=True)


def feature_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """In-place version of `feature_dropout`.

    >>> import tdt
    >>> tdt.feature_dropout_(tdt.ones(2, 2), 0.5, False)
    tensor([[1., 1.],
            [1., 1.]])
    """
    return _drop(input, p, train, inplace=True, by_channel=True)


def alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Replace each element with probability `p` by SELU's negative limit; mean 0 and variance 1 are mask.

    Args:
        train: whether to drop; without it, the result is `input` itself.
    Shape: input (*); result the same.
    Raises:
        RuntimeError: when `p` is not in [0, 1].
    Source: Klambauer et al., "Self-Normalizing Neural Networks", 2017.

    >>> import tdt
    >>> tdt.alpha_dropout(tdt.ones(2, 2), 0.5, False)
    tensor([[1., 1.],
            [1., 1.]])
    """
    return _drop(input, p, train, alpha=True)


def alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """In-place version of `alpha_dropout`.

    >>> import tdt
    >>> tdt.alpha_dropout_(tdt.ones(2, 2), 0.5, False)
    tensor([[1., 1.],
            [1., 1.]])
    """
    return _drop(input, p, train, inplace=True, alpha=True)


def feature_alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Replace each channel with probability `p` by SELU's negative limit; mean 0 and variance 1 are mask.

    Args:
        train: whether to drop; without it, the result is `input` itself.
    Shape: input (N, C, *); result the same.
    Raises:
        RuntimeError: when `p` is not in [0, 1], or `input` has fewer than 2 dimensions.
    Source: Klambauer et al., "Self-Normalizing Neural Networks", 2017.

    >>> import tdt
    >>> tdt.feature_alpha_dropout(tdt.ones(2, 2), 0.5, False)
    tensor([[1., 1.],
            [1., 1.]])
    """
    return _drop(input, p, train, by_channel=True, alpha=True)


def feature_alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """In-place version of `feature_alpha_dropout`.

    >>> import tdt
    >>> tdt.feature_alpha_dropout_(tdt.ones(2, 2), 0.5, False)
    tensor([[1., 1.],
            [1., 1.]])
    """
    return _drop(input, p, train, inplace=True, by_channel=True, alpha=True)


def _check_probability(p: float) -> float:
    """`p`; ValueError outside [0, 1]."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    return p


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero each channel of (N, C, L) with probability `p` and scale the rest by 1 / (1 - p).

    Args:
        training: whether to drop; without it, the result is `input` itself.
        inplace: write into `input`.
    Shape: input (N, C, L) or (C, L); result the same.
    Raises:
        ValueError: when `p` is not in [0, 1].
        RuntimeError: when `input` is not 2-D or 3-D.
    Source: Tompson et al., "Efficient Object Localization Using Convolutional Networks", 2015.

    >>> import tdt
    >>> tdt.nn.functional.dropout1d(tdt.ones(1, 3, 4), 1.0).sum()
    tensor(0.)
    """
    _check_probability(p)
    if input.ndim not in (2, 3):
        raise RuntimeError(f"dropout1d: Expected 2D or 3D input, but received a {input.ndim}D input: it drops channels of "
                           f"(N, C, L) or (C, L), not of {list(input.shape)}")  # fmt: skip
    return _with_batch(input, p, training, inplace, 3)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero each channel of (N, C, H, W) with probability `p` and scale the rest by 1 / (1 - p).

    A 3-D input is taken as (N, C, L), with a warning; other numbers of dimensions than 4 warn too.

    Args:
        training: whether to drop; without it, the result is `input` itself.
        inplace: write into `input`.
    Shape: input (N, C, H, W); result the same.
    Raises:
        ValueError: when `p` is not in [0, 1].
    Source: Tompson et al., "Efficient Object Localization Using Convolutional Networks", 2015.

    >>> import tdt
    >>> tdt.nn.functional.dropout2d(tdt.ones(1, 3, 4, 4), 1.0).sum()
    tensor(0.)
    """
    _check_probability(p)
    if input.ndim == 3:
        warnings.warn("dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior is "
                      "desired, on (N, C, L). Use dropout1d for that; (C, H, W) needs a batch.", stacklevel=2)  # fmt: skip
    elif input.ndim != 4:
        _warn_dimensions("dropout2d", input)
    return _drop(input, p, training, inplace, by_channel=True)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero each channel of (N, C, D, H, W) with probability `p` and scale the rest by 1 / (1 - p).

    Other numbers of dimensions than 4 and 5 warn.

    Args:
        training: whether to drop; without it, the result is `input` itself.
        inplace: write into `input`.
    Shape: input (N, C, D, H, W) or (C, D, H, W); result the same.
    Raises:
        ValueError: when `p` is not in [0, 1].
    Source: Tompson et al., "Efficient Object Localization Using Convolutional Networks", 2015.

    >>> import tdt
    >>> tdt.nn.functional.dropout3d(tdt.ones(1, 3, 4, 4, 4), 1.0).sum()
    tensor(0.)
    """
    _check_probability(p)
    if input.ndim not in (4, 5):
        _warn_dimensions("dropout3d", input)
    return _with_batch(input, p, training, inplace, 5)


def _with_batch(input: Tensor, p: float, training: bool, inplace: bool, ndim: int) -> Tensor:
    """Channel dropout of (N, C, *) with `ndim` dimensions; an input without the batch dimension gets one."""
    if input.ndim == ndim:
        return _drop(input, p, training, inplace, by_channel=True)
    dropped = _drop(input.unsqueeze(0), p, training, inplace, by_channel=True)
    return input if inplace else dropped.squeeze(0)


def _warn_dimensions(name: str, input: Tensor) -> None:
    warnings.warn(f"{name}: Received a {input.ndim}-D input to {name}, which is deprecated and will result in an error in a "
                  "future release. Use dropout, or dropout1d, 2d or 3d for 1 to 3 spatial dimensions.",
                  stacklevel=3)  # fmt: skip


__all__ = [
    "alpha_dropout", "alpha_dropout_", "dropout", "dropout_", "feature_alpha_dropout", "feature_alpha_dropout_",
    "feature_dropout", "feature_dropout_",
]  # fmt: skip
