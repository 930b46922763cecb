"""A batch norm in evaluation mode, which only scales and shifts, folded into the layer before it."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, TypeVar

from tdt._core.creation import ones_like, zeros_like
from tdt._core.tensor import Tensor
from tdt.nn._types import M
from tdt.nn.parameter import Parameter

if TYPE_CHECKING:
    from tdt.nn.modules.batchnorm import _BatchNorm
    from tdt.nn.modules.linear import Linear

Fused = tuple[Parameter, Parameter]

L = TypeVar("L", bound="Linear")


def fuse_conv_bn_eval(conv: M, bn: _BatchNorm, transpose: bool = False) -> M:
    """A copy of `conv` that does what `conv` and then `bn` do; `transpose` for a transposed convolution.

    AssertionError unless both are in evaluation mode and `bn` has running statistics.

    >>> import tdt
    >>> from tdt import nn
    >>> conv, bn, x = nn.Conv2d(1, 2, 3).eval(), nn.BatchNorm2d(2).eval(), tdt.ones(1, 1, 4, 4)
    >>> tdt.allclose(nn.utils.fuse_conv_bn_eval(conv, bn)(x), bn(conv(x)), atol=1e-6)
    True
    """
    fused, statistics = _ready(conv, bn)
    fused.weight, fused.bias = fuse_conv_bn_weights(fused.weight, fused.bias, *statistics, transpose)
    return fused


def fuse_conv_bn_weights(conv_w: Tensor, conv_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float,
                         bn_w: Tensor | None, bn_b: Tensor | None, transpose: bool = False) -> Fused:  # fmt: skip
    """Weight and bias of one convolution that equals a convolution followed by batch normalisation in evaluation mode.

    Args:
        conv_b, bn_w, bn_b: bias of the convolution, scale and shift of the normalisation; None for those that it lacks.
        bn_rm, bn_rv: running mean and variance.
        transpose: whether it is a transposed convolution.
    Shape: conv_w (C_out, C_in, *), or (C_in, C_out, *) with transpose; all others (C_out,); result a pair as conv_w,
        (C_out,).

    >>> import tdt
    >>> one = tdt.ones(1)
    >>> weight, bias = tdt.nn.utils.fuse_conv_bn_weights(tdt.ones(1, 1, 1), None, one, 4 * one, 0.0, None, None)
    >>> weight.item(), bias.item()
    (0.5, -0.5)
    """
    scale = (bn_rv + bn_eps).rsqrt() * (ones_like(bn_rm) if bn_w is None else bn_w)
    shape = [-1 if d == int(transpose) else 1 for d in range(conv_w.ndim)]
    return _parameters(conv_w, conv_w * scale.reshape(shape), conv_b, bn_rm, scale, bn_b)


def fuse_linear_bn_eval(linear: L, bn: _BatchNorm) -> L:
    """Copy of `linear` that equals `linear` followed by `bn`, both in evaluation mode.

    Raises:
        AssertionError: when a layer is in training mode, `bn` has no running statistics, or the features differ.

    >>> import tdt
    >>> from tdt import nn
    >>> linear, bn, x = nn.Linear(2, 3).eval(), nn.BatchNorm1d(3).eval(), tdt.ones(4, 2)
    >>> tdt.allclose(nn.utils.fuse_linear_bn_eval(linear, bn)(x), bn(linear(x)), atol=1e-6)
    True
    """
    fused, statistics = _ready(linear, bn)
    if bn.num_features not in (linear.out_features, 1):
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, "
            f"got linear.out_features={linear.out_features} and bn.num_features={bn.num_features}"
        )
    fused.weight, fused.bias = fuse_linear_bn_weights(fused.weight, fused.bias, *statistics)
    return fused


def fuse_linear_bn_weights(linear_w: Tensor, linear_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float,
                           bn_w: Tensor, bn_b: Tensor) -> Fused:  # fmt: skip
    """Weight and bias of one linear layer that equals a linear layer followed by batch normalisation in evaluation mode.

    Args:
        linear_b: bias of the layer; None if it has none.
        bn_rm, bn_rv: running mean and variance.
    Shape: linear_w (out_features, in_features), all others (out_features,); result a pair of the layer's shapes.

    >>> import tdt
    >>> one = tdt.ones(1)
    >>> weight, bias = tdt.nn.utils.fuse_linear_bn_weights(tdt.ones(1, 1), None, one, 4 * one, 0.0, one, one)
    >>> weight.item(), bias.item()
    (0.5, 0.5)
    """
    scale = bn_w * (bn_rv + bn_eps).rsqrt()
    return _parameters(linear_w, linear_w * scale.unsqueeze(-1), linear_b, bn_rm, scale, bn_b)


def _ready(layer: Any, bn: Any) -> tuple[Any, tuple[Any, Any, Any, Any, Any]]:
    """A copy of `layer`, and what the functions on weights want of `bn`."""
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")
    return copy.deepcopy(layer), (bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias)


def _parameters(old: Tensor, weight: Tensor, old_bias: Tensor | None, mean: Tensor, scale: Tensor,
                shift: Tensor | None) -> Fused:  # fmt: skip
    before = zeros_like(mean) if old_bias is None else old_bias
    bias = (before - mean) * scale + (zeros_like(mean) if shift is None else shift)
    kind = old.dtype if old_bias is None else old_bias.dtype
    return (
        Parameter(weight.to(old.dtype), old.requires_grad),
        Parameter(bias.to(kind), before.requires_grad),
    )


__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]
