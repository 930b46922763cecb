"""Dropout of elements and of channels, by zeros or by selu's lowest value.

The mask of the plain form is an output of its op, so that second derivatives see the mask that was drawn; the others are
products with a mask that `bernoulli_` draws.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

from tdt import _backend
from tdt._backend.layout import empty_in_order
from tdt._core.creation import empty_like
from tdt._core.dtype import FLOATING, check_category
from tdt._core.tensor import Tensor
from tdt._ops.elementwise._front import named, tensor_argument
from tdt._random import assign_in_memory_order, bernoulli, generator_for
from tdt.autograd._op import op


def _noise(xp: Any, x: Any, p: float, generator: Any) -> Any:
    """0 with probability `p`, else 1 / (1 - p), drawn in the order of `x`'s memory."""
    keep = bernoulli(generator_for(generator, _backend.device_of(x)), x.shape, 1 - p)
    real = x.real.dtype.type
    scale = real(1) / real(1 - p)
    if x.flags.c_contiguous:
        return xp.multiply(keep, scale, dtype=x.dtype)
    noise = empty_in_order(xp, x)
    assign_in_memory_order(noise, xp.multiply(keep, scale, dtype=x.dtype))
    return noise


@op(name="dropout", dtypes=FLOATING, outputs=("out", "noise"), nondiff=("noise",), random=True,
    shape=lambda x, **how: (x, x), node="MulBackward0")  # fmt: skip
def _dropout(xp, x, *, p, generator):
    noise = _noise(xp, x, p, generator)
    return x * noise, noise


@_dropout.vjp("x")
def _(g_out, noise):
    return g_out * noise


@_dropout.fast_vjp("x")
def _(g_out, noise):
    return g_out * noise


# Klambauer et al., 2017: what selu tends to for ever smaller x, without its sign.
_LOWEST = 1.7580993408473766


def _drop(
    input: Tensor, p: float, train: bool, inplace: bool = False, by_channel: bool = False, alpha: bool = False
) -> Tensor:
    """The four kinds of dropout. RuntimeError for `p` outside [0, 1], or for channels of what has none."""
    tensor_argument("dropout", input)
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p}")
    if p == 0 or not train or not input.numel():
        return input
    if p == 1:
        return input.mul_(False) if inplace else input * False
    check_category("dropout", FLOATING, input.dtype)
    if not (inplace or by_channel or alpha):
        return _dropout(input, p=float(p), generator=None)[0]
    noise = _blank(input, by_channel).bernoulli_(1 - p)
    if not alpha:
        noise.div_(1 - p)
        return input.mul_(noise) if inplace else input * noise
    scale = 1 / math.sqrt((_LOWEST * _LOWEST * p + 1) * (1 - p))
    shift = noise.add(-1).mul_(_LOWEST * scale).add_(_LOWEST * scale * p)
    noise.mul_(scale)
    return input.mul_(noise).add_(shift) if inplace else input * noise + shift


def _blank(input: Tensor, by_channel: bool) -> Tensor:
    """Where the mask is drawn: a number for each element of (N, C, *), or for each channel."""
    if not by_channel:
        return empty_like(input)
    if input.ndim < 2:
        raise RuntimeError(f"Feature dropout requires at least 2 dimensions in the input, but got {list(input.shape)}")
    return input.new_empty((*input.shape[:2], *(1,) * (input.ndim - 2)))


def _of_torch(name: str, doc: str, **kind: bool) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    """A kind of dropout as `torch` itself has it, and its form in place."""

    def function(input: Tensor, p: float, train: bool) -> Tensor:
        return _drop(input, p, train, False, **kind)

    def in_place(input: Tensor, p: float, train: bool) -> Tensor:
        return _drop(input, p, train, True, **kind)

    rest = "Where not `train`, the input itself. RuntimeError for `p` outside [0, 1]."
    call = "(tdt.ones(2, 2), 0.5, False)\ntensor([[1., 1.],\n        [1., 1.]])\n"
    return (
        named(function, name, f"{doc}\n\n{rest}\n\n>>> import tdt\n>>> tdt.{name}{call}"),
        named(in_place, f"{name}_", f"`{name}` in place.\n\n>>> import tdt\n>>> tdt.{name}_{call}"),
    )


dropout, dropout_ = _of_torch(
    "dropout", "Zero each element with probability `p` and scale the rest by 1 / (1 - p) (Srivastava et al., 2014)."
)
feature_dropout, feature_dropout_ = _of_torch(
    "feature_dropout", "`dropout` of whole channels of (N, C, *) (Tompson et al., 2015).", by_channel=True
)
alpha_dropout, alpha_dropout_ = _of_torch(
    "alpha_dropout",
    "Put selu's lowest value in place of each element with probability `p`; mean 0 and variance 1 stay (Klambauer et al., 2017).",
    alpha=True,
)
feature_alpha_dropout, feature_alpha_dropout_ = _of_torch(
    "feature_alpha_dropout", "`alpha_dropout` of whole channels of (N, C, *).", by_channel=True, alpha=True
)


def _checked(p: float) -> float:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    return p


def functional_dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero each element with probability `p` and scale the rest by 1 / (1 - p) (Srivastava et al., 2014).

    The input itself when not training. ValueError for `p` outside [0, 1].

    >>> import tdt
    >>> tdt.nn.functional.dropout(tdt.ones(2), 0.5, training=False)
    tensor([1., 1.])
    """
    return _drop(input, _checked(p), training, inplace)


def functional_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Put selu's lowest value in place of each element with probability `p`; mean 0 and variance 1 stay.

    From Klambauer et al., 2017. The input itself when not training. ValueError for `p` outside [0, 1].

    >>> import tdt
    >>> tdt.nn.functional.alpha_dropout(tdt.ones(2), 0.5)
    tensor([1., 1.])
    """
    return _drop(input, _checked(p), training, inplace, alpha=True)


def functional_feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """`alpha_dropout` of whole channels of (N, C, *).

    >>> import tdt
    >>> tdt.nn.functional.feature_alpha_dropout(tdt.ones(1, 2), 0.5)
    tensor([[1., 1.]])
    """
    return _drop(input, _checked(p), training, inplace, by_channel=True, alpha=True)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """`dropout` of whole channels of (N, C, L) or (C, L) (Tompson et al., 2015).

    RuntimeError for another number of dimensions, ValueError for `p` outside [0, 1].

    >>> import tdt
    >>> tdt.nn.functional.dropout1d(tdt.ones(1, 3, 4), 1.0).sum()
    tensor(0.)
    """
    _checked(p)
    if input.ndim not in (2, 3):
        raise RuntimeError(f"dropout1d: Expected 2D or 3D input, but received a {input.ndim}D input: it drops channels of "
                           f"(N, C, L) or (C, L), not of {list(input.shape)}")  # fmt: skip
    return _with_batch(input, p, training, inplace, 3)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """`dropout` of whole channels of (N, C, H, W) (Tompson et al., 2015).

    As in PyTorch, three dimensions are (N, C, L); for them and for other numbers than four it warns.

    >>> import tdt
    >>> tdt.nn.functional.dropout2d(tdt.ones(1, 3, 4, 4), 1.0).sum()
    tensor(0.)
    """
    _checked(p)
    if input.ndim == 3:
        warnings.warn("dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior is "
                      "desired, on (N, C, L). Use dropout1d for that; (C, H, W) needs a batch.", stacklevel=2)  # fmt: skip
    elif input.ndim != 4:
        _warn_of_dimensions("dropout2d", input)
    return _drop(input, p, training, inplace, by_channel=True)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """`dropout` of whole channels of (N, C, D, H, W) or (C, D, H, W) (Tompson et al., 2015); it warns for others.

    >>> import tdt
    >>> tdt.nn.functional.dropout3d(tdt.ones(1, 3, 4, 4, 4), 1.0).sum()
    tensor(0.)
    """
    _checked(p)
    if input.ndim not in (4, 5):
        _warn_of_dimensions("dropout3d", input)
    return _with_batch(input, p, training, inplace, 5)


def _with_batch(input: Tensor, p: float, training: bool, inplace: bool, ndim: int) -> Tensor:
    """Channel dropout of (N, C, *) with `ndim` dimensions; what has another number gets one in front."""
    if input.ndim == ndim:
        return _drop(input, p, training, inplace, by_channel=True)
    dropped = _drop(input.unsqueeze(0), p, training, inplace, by_channel=True)
    return input if inplace else dropped.squeeze(0)


def _warn_of_dimensions(name: str, input: Tensor) -> None:
    warnings.warn(f"{name}: Received a {input.ndim}-D input to {name}, which is deprecated and will result in an error in a "
                  "future release. Use dropout, or dropout1d, 2d or 3d for 1 to 3 spatial dimensions.",
                  stacklevel=3)  # fmt: skip


__all__ = [
    "alpha_dropout", "alpha_dropout_", "dropout", "dropout_", "feature_alpha_dropout", "feature_alpha_dropout_",
    "feature_dropout", "feature_dropout_",
]  # fmt: skip
