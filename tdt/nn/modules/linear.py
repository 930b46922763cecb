"""Linear layers: y = x Wᵀ + b, with the input's size given or taken from the first input."""

from __future__ import annotations

import math
from typing import Any

from tdt._core.creation import empty
from tdt._core.tensor import Tensor
from tdt.nn import init
from tdt.nn._types import Device, Dtype
from tdt.nn.functional import bilinear, linear
from tdt.nn.modules._lookup import pair
from tdt.nn.modules.lazy import OneSize
from tdt.nn.modules.module import Module
from tdt.nn.parameter import Parameter, UninitializedParameter


class Identity(Module):
    """Layer that returns its input; it accepts and ignores any arguments.

    Shape: input (*); result the input itself.

    >>> import tdt
    >>> tdt.nn.Identity(54, unused=True)(tdt.ones(1))
    tensor([1.])
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Module):
    """Affine map y = x Wᵀ + b with learned weight and bias.

    Both start uniform within ±1 / √in_features.

    Args:
        bias: whether there is a bias.
    Shape: input (*, in_features); result (*, out_features); `weight` (out_features, in_features), `bias`
        (out_features,).

    >>> import tdt
    >>> tdt.nn.Linear(3, 2)(tdt.ones(5, 3)).shape
    tdt.Size([5, 2])
    """

    weight: Parameter
    bias: Parameter  # None with bias=False

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Device = None, dtype: Dtype = None
    ):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(empty(out_features, in_features, device=device, dtype=dtype))
        self.register_parameter("bias", Parameter(empty(out_features, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias again."""
        # kaiming_uniform_ with a = √5 is uniform within ±1/√in, but rounds as PyTorch's default does.
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in = self.weight.shape[1]
            bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        return linear(input, *pair(self, "_parameters", "weight", "bias"))

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class NonDynamicallyQuantizableLinear(Linear):
    """A Linear by the name that PyTorch's attention layers show for their last one.

    >>> import tdt
    >>> from tdt.nn.modules.linear import NonDynamicallyQuantizableLinear
    >>> NonDynamicallyQuantizableLinear(3, 2)(tdt.ones(5, 3)).shape
    tdt.Size([5, 2])
    """


class Bilinear(Module):
    """Bilinear map of two inputs, y = x1ᵀ W x2 + b, with learned weight and bias.

    Both start uniform within ±1 / √in1_features.

    Args:
        in1_features, in2_features: features of the first and of the second input.
        out_features: features of the result.
        bias: whether there is a bias.
    Shape: input1 (*, in1_features), input2 (*, in2_features); result (*, out_features); `weight` (out_features,
        in1_features, in2_features), `bias` (out_features,).
    Raises:
        ValueError: when `in1_features` is not positive.

    >>> import tdt
    >>> tdt.nn.Bilinear(3, 4, 2)(tdt.ones(5, 3), tdt.ones(5, 4)).shape
    tdt.Size([5, 2])
    """

    weight: Parameter
    bias: Parameter  # None with bias=False

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Device = None,
        dtype: Dtype = None,
    ):
        super().__init__()
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight = Parameter(empty(out_features, in1_features, in2_features, device=device, dtype=dtype))
        self.register_parameter("bias", Parameter(empty(out_features, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias again.

        Raises:
            ValueError: when `in1_features` is not positive.
        """
        if self.in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got (in1_features={self.in1_features})")
        bound = 1 / math.sqrt(self.weight.shape[1])
        for p in self._parameters.values():
            if p is not None:
                init.uniform_(p, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class LazyLinear(OneSize, Linear):
    """`Linear` that takes `in_features` from its first input; that call draws its weights and makes it a plain Linear.

    Shape: input (*, in_features); result (*, out_features).

    >>> import tdt
    >>> layer = tdt.nn.LazyLinear(2)
    >>> _ = layer(tdt.ones(5, 3))
    >>> layer
    Linear(in_features=3, out_features=2, bias=True)
    """

    cls_to_become = Linear
    unknown = "in_features"

    def __init__(self, out_features: int, bias: bool = True, device: Device = None, dtype: Dtype = None):
        super().__init__(0, 0, False)
        self.out_features = out_features
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def _size(self, input: Tensor) -> int:
        return input.shape[-1]

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {"weight": (self.out_features, self.in_features), "bias": (self.out_features,)}
