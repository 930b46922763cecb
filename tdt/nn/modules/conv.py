"""Convolution layers: Conv1d, Conv2d and Conv3d are short fronts of one class."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

from tdt._creation import empty
from tdt._tensor import Tensor
from tdt.nn import functional as F
from tdt.nn import init
from tdt.nn.modules.module import Module
from tdt.nn.parameter import Parameter

Numbers = int | tuple[int, ...]  # one for all dimensions, or one each
PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


def _numbers(value: Any, count: int) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * count


class _Conv(Module):
    """What the convolutions share: their arguments, their parameters, how they print."""

    dims: int
    transposed = False
    convolve: Callable[..., Tensor]

    def __init__(self, in_channels: int, out_channels: int, kernel_size: Numbers, stride: Numbers = 1,
                 padding: Numbers | Literal["same", "valid"] = 0, dilation: Numbers = 1, groups: int = 1, bias: bool = True,
                 padding_mode: Literal["zeros", "reflect", "replicate", "circular"] = "zeros", device: Any = None,
                 dtype: Any = None):  # fmt: skip
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups:
            raise ValueError(f"in_channels must be divisible by groups; got {in_channels} and {groups}")
        if out_channels % groups:
            raise ValueError(f"out_channels must be divisible by groups; got {out_channels} and {groups}")
        if padding_mode not in PADDING_MODES:
            raise ValueError(
                f"padding_mode must be one of {', '.join(PADDING_MODES)}, but got padding_mode='{padding_mode}'"
            )
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.padding_mode = padding_mode
        self.kernel_size, self.stride, self.dilation = (_numbers(v, self.dims) for v in (kernel_size, stride, dilation))
        self.padding = padding if isinstance(padding, str) else _numbers(padding, self.dims)
        self.output_padding = (0,) * self.dims
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(f"Invalid padding string {padding!r}, should be one of 'same', 'valid'")
            if padding == "same" and any(s != 1 for s in self.stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        self.weight = Parameter(
            empty(out_channels, in_channels // groups, *self.kernel_size, device=device, dtype=dtype)
        )
        self.register_parameter("bias", Parameter(empty(out_channels, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew: uniform within ±1/√(in_channels / groups · kernel size)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in = math.prod(self.weight.shape[1:])
            if fan_in:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def _border(self) -> list[int]:
        """The padding as `F.pad` takes it: both sides, last dimension first."""
        if self.padding == "valid":
            return [0, 0] * self.dims
        if self.padding == "same":
            total = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size, strict=True)]
            return [side for t in reversed(total) for side in (t // 2, t - t // 2)]
        assert isinstance(self.padding, tuple)
        return [p for p in reversed(self.padding) for _ in range(2)]

    def forward(self, input: Tensor) -> Tensor:
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            input, padding = F.pad(input, self._border(), mode=self.padding_mode), 0
        return type(self).convolve(input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        if self.padding != (0,) * self.dims:
            text += f", padding={self.padding}"
        if self.dilation != (1,) * self.dims:
            text += f", dilation={self.dilation}"
        text += f", groups={self.groups}" * (self.groups != 1) + ", bias=False" * (self.bias is None)
        return text + f", padding_mode={self.padding_mode}" * (self.padding_mode != "zeros")


class Conv1d(_Conv):
    """Convolution over (N, C, L) or (C, L); see `Conv2d`.

    >>> import tdt
    >>> tdt.nn.Conv1d(3, 8, 5)(tdt.ones(2, 3, 9)).shape
    tdt.Size([2, 8, 5])
    """

    dims = 1
    convolve = staticmethod(F.conv1d)


class Conv2d(_Conv):
    """Convolution over images (N, C, H, W) or (C, H, W); see `nn.functional.conv2d` for sizes.

    padding: numbers, 'valid' or 'same'. padding_mode: what the border holds (zeros, reflect, replicate, circular).
    `weight` is (out, in / groups, KH, KW), `bias` (out,). ValueError for arguments that do not fit each other.

    >>> import tdt
    >>> tdt.nn.Conv2d(1, 32, 3, padding=1)
    Conv2d(1, 32, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))
    """

    dims = 2
    convolve = staticmethod(F.conv2d)


class Conv3d(_Conv):
    """Convolution over (N, C, D, H, W) or (C, D, H, W); see `Conv2d`.

    >>> import tdt
    >>> tdt.nn.Conv3d(1, 2, 3)(tdt.ones(1, 1, 3, 3, 3)).shape
    tdt.Size([1, 2, 1, 1, 1])
    """

    dims = 3
    convolve = staticmethod(F.conv3d)
