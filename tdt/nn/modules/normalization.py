"""Layer, group and root-mean-square normalisation, and normalisation by neighbouring channels."""

from __future__ import annotations

from typing import Any

import numpy as np

from tdt._core.aliases import Ints
from tdt._core.creation import ones, zeros
from tdt._core.mode import no_grad
from tdt._core.tensor import Tensor
from tdt.nn import functional as F
from tdt.nn._types import Device, Dtype
from tdt.nn.modules._lookup import pair
from tdt.nn.modules.module import Module
from tdt.nn.parameter import Parameter


class _Affine(Module):
    """A `weight` of ones and a `bias` of zeros, or None for one that is switched off."""

    def _make(self, shape: Any, weight: bool, bias: bool | None, device: Device, dtype: Dtype) -> None:
        self.register_parameter("weight", Parameter(ones(shape, device=device, dtype=dtype)) if weight else None)
        if bias is not None:
            self.register_parameter(
                "bias", Parameter(zeros(shape, device=device, dtype=dtype)) if weight and bias else None
            )

    def reset_parameters(self) -> None:
        """Scale 1, shift 0."""
        with no_grad():
            for name, parameter in self.named_parameters(recurse=False):
                parameter.fill_(name == "weight")


class LayerNorm(_Affine):
    """Normalises the last dimensions to mean 0 and variance 1, then applies a learned scale and shift.

    Args:
        normalized_shape: sizes of the last dimensions, or one number for the last one.
        eps: added to the variance before its root is taken.
        elementwise_affine, bias: whether there is a learned scale, and a shift with it.
    Shape: input (*, *normalized_shape); result the same shape; `weight` and `bias` of normalized_shape.
    Raises:
        RuntimeError: when the input's last dimensions are not normalized_shape.
    Source: Ba, Kiros and Hinton, "Layer Normalization", 2016.

    >>> import tdt
    >>> tdt.nn.LayerNorm(4)(tdt.rand(2, 4)).shape
    tdt.Size([2, 4])
    """

    weight: Parameter
    bias: Parameter

    def __init__(self, normalized_shape: Ints, eps: float = 1e-5, elementwise_affine: bool = True, bias: bool = True,
                 device: Device = None, dtype: Dtype = None):  # fmt: skip
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self._make(self.normalized_shape, elementwise_affine, bias, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        weight, bias = pair(self, "_parameters", "weight", "bias")
        return F.layer_norm(input, self.normalized_shape, weight, bias, self.eps)

    def extra_repr(self) -> str:
        return (f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
                f"bias={self.bias is not None}")  # fmt: skip


class GroupNorm(_Affine):
    """Normalises each group of channels of each sample to mean 0 and variance 1, then applies a learned scale and shift.

    Args:
        num_groups: number of groups that the channels are divided into.
        num_channels: channels of the input.
        eps: added to the variance before its root is taken.
        affine, bias: whether there is a learned scale for each channel, and a shift with it.
    Shape: input (N, num_channels, *); result the same shape; `weight` and `bias` (num_channels,).
    Raises:
        ValueError: when `num_channels` is not divisible by `num_groups`.
    Source: Wu and He, "Group Normalization", 2018.

    >>> import tdt
    >>> tdt.nn.GroupNorm(2, 6)(tdt.rand(2, 6, 4, 4)).shape
    tdt.Size([2, 6, 4, 4])
    """

    weight: Parameter
    bias: Parameter

    def __init__(self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, device: Device = None,
                 dtype: Dtype = None, *, bias: bool = True):  # fmt: skip
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        self._make(num_channels, affine, bias, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        weight, bias = pair(self, "_parameters", "weight", "bias")
        return F.group_norm(input, self.num_groups, weight, bias, self.eps)

    def extra_repr(self) -> str:
        return (f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
                f"bias={self.bias is not None}")  # fmt: skip


class RMSNorm(_Affine):
    """Divides by the root mean square of the last dimensions, then applies a learned scale.

    Args:
        normalized_shape: sizes of the last dimensions, or one number for the last one.
        eps: added to the mean square; None stands for the machine epsilon of the dtype it is computed in.
        elementwise_affine: whether there is a learned scale.
    Shape: input (*, *normalized_shape); result the same shape; `weight` of normalized_shape.
    Source: Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.

    >>> import tdt
    >>> tdt.nn.RMSNorm(2)(tdt.tensor([3.0, -3.0])).tolist()
    [1.0, -1.0]
    """

    weight: Parameter

    def __init__(self, normalized_shape: Ints, eps: float | None = None, elementwise_affine: bool = True,
                 device: Device = None, dtype: Dtype = None):  # fmt: skip
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self._make(self.normalized_shape, elementwise_affine, None, device, dtype)

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


def _shape(shape: Any) -> tuple[int, ...]:
    return (int(shape),) if isinstance(shape, (int, np.integer)) else tuple(shape)


class LocalResponseNorm(Module):
    """Divides each value by a power of the squares in neighbouring channels: (k + alpha · mean of `size` squares)^beta.

    Args:
        alpha: factor of the mean of squares.
        beta: exponent of the divisor.
        k: added to the mean of squares.
        size: number of neighbouring channels.
    Shape: input (N, C, *); result the same shape.
    Raises:
        ValueError: when the input has fewer than 3 dimensions.
    Source: Krizhevsky, Sutskever and Hinton, "ImageNet Classification with Deep Convolutional Neural Networks", 2012.

    >>> import tdt
    >>> tdt.nn.LocalResponseNorm(2)(tdt.rand(2, 6, 4)).shape
    tdt.Size([2, 6, 4])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0):
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(Module):
    """`LocalResponseNorm` of images, over a window centred on each channel: the largest odd number up to `size`.

    Unlike PyTorch's, sums cover the neighbouring channels only, as published, and gradients are those of the results.

    Args:
        size: number of neighbouring channels.
        alpha: factor of the mean of squares.
        beta: exponent of the divisor.
        k: added to the mean of squares.
    Shape: input (N, C, H, W); result the same shape.
    Raises:
        ValueError: when the input does not have 4 dimensions.
    Source: Krizhevsky, Sutskever and Hinton, "ImageNet Classification with Deep Convolutional Neural Networks", 2012.

    >>> import tdt
    >>> tdt.nn.CrossMapLRN2d(3)(tdt.rand(2, 6, 4, 4)).shape
    tdt.Size([2, 6, 4, 4])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1):
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        window = self.size - 1 + self.size % 2
        return F.local_response_norm(input, window, self.alpha * window / self.size, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
