"""Convolutions and transposed convolutions, for one to three dimensions, and forms that wait for `in_channels`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

from tdt._core.creation import empty
from tdt._core.tensor import Tensor
from tdt.nn import functional as F
from tdt.nn import init
from tdt.nn._types import Device, Dtype
from tdt.nn.modules._lookup import pair
from tdt.nn.modules.lazy import LazyModuleMixin, OneSize
from tdt.nn.modules.module import Module
from tdt.nn.parameter import Parameter, UninitializedParameter

Numbers = int | tuple[int, ...]  # one for all dimensions, or one each
PaddingMode = Literal["zeros", "reflect", "replicate", "circular"]
PADDING_MODES = get_args(PaddingMode)


def each(value: Any, count: int) -> tuple[Any, ...]:
    """`value` for each of so many dimensions."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * count


class _Conv(Module):
    """What convolutions and transposed convolutions share: their arguments, their parameters, how they print."""

    weight: Parameter
    bias: Parameter  # None with bias=False

    dims: int
    transposed = False
    convolve: Callable[..., Tensor]

    def __init__(self, in_channels: int, out_channels: int, kernel_size: Numbers, stride: Numbers = 1,
                 padding: Numbers | Literal["same", "valid"] = 0, dilation: Numbers = 1, groups: int = 1, bias: bool = True,
                 padding_mode: PaddingMode = "zeros", device: Device = None, dtype: Dtype = None):  # fmt: skip
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
        self.kernel_size, self.stride, self.dilation = (each(v, self.dims) for v in (kernel_size, stride, dilation))
        self.padding = padding if isinstance(padding, str) else each(padding, self.dims)
        self.output_padding = (0,) * self.dims
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(f"Invalid padding string {padding!r}, should be one of 'same', 'valid'")
            if padding == "same" and any(s != 1 for s in self.stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        self.weight = Parameter(empty(self._weight_shape(), device=device, dtype=dtype))
        self.register_parameter("bias", Parameter(empty(out_channels, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def _weight_shape(self) -> tuple[int, ...]:
        first, second = self.out_channels, self.in_channels
        if self.transposed:
            first, second = second, first
        return first, second // self.groups, *self.kernel_size

    def reset_parameters(self) -> None:
        """Draw weight and bias anew: uniform within ±1/√(weight.shape[1] · kernel size)."""
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
        weight, bias = pair(self, "_parameters", "weight", "bias")
        return type(self).convolve(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        if self.padding != (0,) * self.dims:
            text += f", padding={self.padding}"
        if self.dilation != (1,) * self.dims:
            text += f", dilation={self.dilation}"
        if self.output_padding != (0,) * self.dims:
            text += f", output_padding={self.output_padding}"
        text += f", groups={self.groups}" * (self.groups != 1) + ", bias=False" * (self.bias is None)
        return text + f", padding_mode={self.padding_mode}" * (self.padding_mode != "zeros")


_ConvNd = _Conv  # PyTorch's name, by which scripts tell convolutions from other layers


class Conv1d(_Conv):
    """Convolution of sequences with learned kernels, and a bias for each output channel.

    Each size of the result is floor((size + 2 padding - dilation (kernel_size - 1) - 1) / stride + 1). `weight` and
    `bias`
    start uniform within ±1 / √(C_in / groups · kernel cells).

    Args:
        kernel_size, stride, dilation: one number for all spatial dimensions, or one each, in cells.
        padding: cells added to each side, "valid" (none) or "same" (result as large as the input; stride 1 only).
        groups: number of parts of the channels that are convolved apart; in_channels groups make it depthwise.
        padding_mode: what the border holds: "zeros", "reflect", "replicate" or "circular".
    Shape: input (N, C_in, L) or (C_in, L); result (N, C_out, L_out), without N if the input has none;
        `weight` (C_out, C_in / groups, K), `bias` (C_out,).
    Raises:
        ValueError: when channels are not divisible by `groups`, or a padding or its mode is not one of those above.

    >>> import tdt
    >>> tdt.nn.Conv1d(3, 8, 5)(tdt.ones(2, 3, 9)).shape
    tdt.Size([2, 8, 5])
    """

    dims = 1
    convolve = staticmethod(F.conv1d)


class Conv2d(_Conv):
    """Convolution of images with learned kernels, and a bias for each output channel.

    Each size of the result is floor((size + 2 padding - dilation (kernel_size - 1) - 1) / stride + 1). `weight` and
    `bias`
    start uniform within ±1 / √(C_in / groups · kernel cells).

    Args:
        kernel_size, stride, dilation: one number for all spatial dimensions, or one each, in cells.
        padding: cells added to each side, "valid" (none) or "same" (result as large as the input; stride 1 only).
        groups: number of parts of the channels that are convolved apart; in_channels groups make it depthwise.
        padding_mode: what the border holds: "zeros", "reflect", "replicate" or "circular".
    Shape: input (N, C_in, H, W) or (C_in, H, W); result (N, C_out, H_out, W_out), without N if the input has none;
        `weight` (C_out, C_in / groups, KH, KW), `bias` (C_out,).
    Raises:
        ValueError: when channels are not divisible by `groups`, or a padding or its mode is not one of those above.

    >>> import tdt
    >>> tdt.nn.Conv2d(1, 32, 3, padding=1)
    Conv2d(1, 32, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))
    """

    dims = 2
    convolve = staticmethod(F.conv2d)


class Conv3d(_Conv):
    """Convolution of volumes with learned kernels, and a bias for each output channel.

    Each size of the result is floor((size + 2 padding - dilation (kernel_size - 1) - 1) / stride + 1). `weight` and
    `bias`
    start uniform within ±1 / √(C_in / groups · kernel cells).

    Args:
        kernel_size, stride, dilation: one number for all spatial dimensions, or one each, in cells.
        padding: cells added to each side, "valid" (none) or "same" (result as large as the input; stride 1 only).
        groups: number of parts of the channels that are convolved apart; in_channels groups make it depthwise.
        padding_mode: what the border holds: "zeros", "reflect", "replicate" or "circular".
    Shape: input (N, C_in, D, H, W) or (C_in, D, H, W); result (N, C_out, D_out, H_out, W_out), without N if the input
        has none;
        `weight` (C_out, C_in / groups, KD, KH, KW), `bias` (C_out,).
    Raises:
        ValueError: when channels are not divisible by `groups`, or a padding or its mode is not one of those above.

    >>> import tdt
    >>> tdt.nn.Conv3d(1, 2, 3)(tdt.ones(1, 1, 3, 3, 3)).shape
    tdt.Size([1, 2, 1, 1, 1])
    """

    dims = 3
    convolve = staticmethod(F.conv3d)


class _ConvTranspose(_Conv):
    transposed = True

    def __init__(self, in_channels: int, out_channels: int, kernel_size: Numbers, stride: Numbers = 1, padding: Numbers = 0,
                 output_padding: Numbers = 0, groups: int = 1, bias: bool = True, dilation: Numbers = 1,
                 padding_mode: PaddingMode = "zeros", device: Device = None, dtype: Dtype = None):  # fmt: skip
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode,
                         device, dtype)  # fmt: skip
        self.output_padding = each(output_padding, self.dims)

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        more = self.output_padding if output_size is None else self._spare(input, output_size)
        return type(self).convolve(
            input, self.weight, self.bias, self.stride, self.padding, more, self.groups, self.dilation
        )

    def _spare(self, input: Tensor, output_size: Sequence[int]) -> list[int]:
        """The output padding that makes the result `output_size`, given with or without the dimensions before it."""
        before = 2 if input.dim() == self.dims + 2 else 1
        size = list(output_size[before:] if len(output_size) == before + self.dims else output_size)
        if len(size) != self.dims:
            raise ValueError(f"ConvTranspose{self.dims}D: for {input.dim()}D input, output_size must have {self.dims} or "
                             f"{before + self.dims} elements (got {len(size)})")  # fmt: skip
        padding = each(self.padding, self.dims)
        every = zip(input.shape[before:], self.stride, padding, self.dilation, self.kernel_size, strict=True)
        least = [(n - 1) * s - 2 * p + d * (k - 1) + 1 for n, s, p, d, k in every]
        most = [n + s - 1 for n, s in zip(least, self.stride, strict=True)]
        if not all(low <= n <= high for low, n, high in zip(least, size, most, strict=True)):
            raise ValueError(f"requested an output size of {size}, but valid sizes range from {least} to {most} "
                             f"(for an input of {input.shape[before:]})")  # fmt: skip
        return [n - low for n, low in zip(size, least, strict=True)]


class ConvTranspose1d(_ConvTranspose):
    """Transposed convolution of sequences: the gradient of `Conv1d` by its input, used to enlarge it.

    Each size of the result is (size - 1) stride - 2 padding + dilation (kernel_size - 1) + output_padding + 1. With a
    stride,
    inputs of several sizes are convolved to one: `output_padding`, or `output_size` in the call, selects which to
    restore.

    Args:
        kernel_size, stride, dilation: one number for all spatial dimensions, or one each, in cells.
        padding: cells removed from each side of the result.
        output_padding: cells added to one side of the result.
        groups: number of parts of the channels that are convolved apart.
        padding_mode: "zeros" only.
    Shape: input (N, C_in, L) or (C_in, L); result (N, C_out, L_out), without N if the input has none;
        `weight` (C_in, C_out / groups, K), `bias` (C_out,).
    Raises:
        ValueError: when channels are not divisible by `groups`, the padding mode is another one, or `output_size` is
            not
            among the possible sizes.

    >>> import tdt
    >>> tdt.nn.ConvTranspose1d(3, 8, 4, stride=2)(tdt.ones(2, 3, 5)).shape
    tdt.Size([2, 8, 12])
    """

    dims = 1
    convolve = staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_ConvTranspose):
    """Transposed convolution of images: the gradient of `Conv2d` by its input, used to enlarge it.

    Each size of the result is (size - 1) stride - 2 padding + dilation (kernel_size - 1) + output_padding + 1. With a
    stride,
    inputs of several sizes are convolved to one: `output_padding`, or `output_size` in the call, selects which to
    restore.

    Args:
        kernel_size, stride, dilation: one number for all spatial dimensions, or one each, in cells.
        padding: cells removed from each side of the result.
        output_padding: cells added to one side of the result.
        groups: number of parts of the channels that are convolved apart.
        padding_mode: "zeros" only.
    Shape: input (N, C_in, H, W) or (C_in, H, W); result (N, C_out, H_out, W_out), without N if the input has none;
        `weight` (C_in, C_out / groups, KH, KW), `bias` (C_out,).
    Raises:
        ValueError: when channels are not divisible by `groups`, the padding mode is another one, or `output_size` is
            not
            among the possible sizes.

    >>> import tdt
    >>> up = tdt.nn.ConvTranspose2d(16, 3, 3, stride=2, padding=1)
    >>> up(tdt.ones(1, 16, 4, 4)).shape, up(tdt.ones(1, 16, 4, 4), output_size=(8, 8)).shape
    (tdt.Size([1, 3, 7, 7]), tdt.Size([1, 3, 8, 8]))
    """

    dims = 2
    convolve = staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_ConvTranspose):
    """Transposed convolution of volumes: the gradient of `Conv3d` by its input, used to enlarge it.

    Each size of the result is (size - 1) stride - 2 padding + dilation (kernel_size - 1) + output_padding + 1. With a
    stride,
    inputs of several sizes are convolved to one: `output_padding`, or `output_size` in the call, selects which to
    restore.

    Args:
        kernel_size, stride, dilation: one number for all spatial dimensions, or one each, in cells.
        padding: cells removed from each side of the result.
        output_padding: cells added to one side of the result.
        groups: number of parts of the channels that are convolved apart.
        padding_mode: "zeros" only.
    Shape: input (N, C_in, D, H, W) or (C_in, D, H, W); result (N, C_out, D_out, H_out, W_out), without N if the input
        has none;
        `weight` (C_in, C_out / groups, KD, KH, KW), `bias` (C_out,).
    Raises:
        ValueError: when channels are not divisible by `groups`, the padding mode is another one, or `output_size` is
            not
            among the possible sizes.

    >>> import tdt
    >>> tdt.nn.ConvTranspose3d(1, 2, 3)(tdt.ones(1, 1, 1, 1, 1)).shape
    tdt.Size([1, 2, 3, 3, 3])
    """

    dims = 3
    convolve = staticmethod(F.conv_transpose3d)


class _LazyConv(OneSize, _Conv):
    unknown = "in_channels"

    def __init__(self, out_channels: int, kernel_size: Numbers, stride: Numbers = 1,
                 padding: Numbers | Literal["same", "valid"] = 0, dilation: Numbers = 1, groups: int = 1, bias: bool = True,
                 padding_mode: PaddingMode = "zeros", device: Device = None, dtype: Dtype = None):  # fmt: skip
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode)
        self._wait(out_channels, bias, device, dtype)

    def _wait(self, out_channels: int, bias: bool, device: Device, dtype: Dtype) -> None:
        self.out_channels = out_channels
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def _size(self, input: Tensor) -> int:
        if input.dim() not in (self.dims + 1, self.dims + 2):
            raise RuntimeError(f"Expected {self.dims + 1}D (unbatched) or {self.dims + 2}D (batched) input to "
                               f"{type(self).__name__}, but got input of size: {input.shape}")  # fmt: skip
        channels = input.shape[-self.dims - 1]
        if channels % self.groups:
            raise ValueError(f"in_channels must be divisible by groups; got {channels} and {self.groups}")
        return channels

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {"weight": self._weight_shape(), "bias": (self.out_channels,)}


class _LazyConvTranspose(_LazyConv, _ConvTranspose):
    def __init__(self, out_channels: int, kernel_size: Numbers, stride: Numbers = 1, padding: Numbers = 0,
                 output_padding: Numbers = 0, groups: int = 1, bias: bool = True, dilation: Numbers = 1,
                 padding_mode: PaddingMode = "zeros", device: Device = None, dtype: Dtype = None):  # fmt: skip
        LazyModuleMixin.__init__(self, 0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation,
                                 padding_mode)  # fmt: skip
        self._wait(out_channels, bias, device, dtype)


class LazyConv1d(_LazyConv, Conv1d):
    """`Conv1d` that takes `in_channels` from its first input; that call draws its weights and makes it a Conv1d.

    Shape: input (N, C_in, L) or (C_in, L); result (N, C_out, L_out), without N if the input has none.

    >>> import tdt
    >>> layer = tdt.nn.LazyConv1d(8, 3)
    >>> _ = layer(tdt.ones(2, 3, 5))
    >>> layer
    Conv1d(3, 8, kernel_size=(3,), stride=(1,))
    """

    cls_to_become = Conv1d


class LazyConv2d(_LazyConv, Conv2d):
    """`Conv2d` that takes `in_channels` from its first input; that call draws its weights and makes it a Conv2d.

    Shape: input (N, C_in, H, W) or (C_in, H, W); result (N, C_out, H_out, W_out), without N if the input has none.

    >>> import tdt
    >>> layer = tdt.nn.LazyConv2d(8, 3)
    >>> _ = layer(tdt.ones(2, 3, 5, 5))
    >>> layer
    Conv2d(3, 8, kernel_size=(3, 3), stride=(1, 1))
    """

    cls_to_become = Conv2d


class LazyConv3d(_LazyConv, Conv3d):
    """`Conv3d` that takes `in_channels` from its first input; that call draws its weights and makes it a Conv3d.

    Shape: input (N, C_in, D, H, W) or (C_in, D, H, W); result (N, C_out, D_out, H_out, W_out), without N if the input
        has none.

    >>> import tdt
    >>> layer = tdt.nn.LazyConv3d(8, 3)
    >>> _ = layer(tdt.ones(2, 3, 5, 5, 5))
    >>> layer
    Conv3d(3, 8, kernel_size=(3, 3, 3), stride=(1, 1, 1))
    """

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):
    """`ConvTranspose1d` that takes `in_channels` from its first input; that call draws its weights and makes it a
    ConvTranspose1d.

    Shape: input (N, C_in, L) or (C_in, L); result (N, C_out, L_out), without N if the input has none.

    >>> import tdt
    >>> layer = tdt.nn.LazyConvTranspose1d(8, 3)
    >>> _ = layer(tdt.ones(2, 3, 5))
    >>> layer
    ConvTranspose1d(3, 8, kernel_size=(3,), stride=(1,))
    """

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):
    """`ConvTranspose2d` that takes `in_channels` from its first input; that call draws its weights and makes it a
    ConvTranspose2d.

    Shape: input (N, C_in, H, W) or (C_in, H, W); result (N, C_out, H_out, W_out), without N if the input has none.

    >>> import tdt
    >>> layer = tdt.nn.LazyConvTranspose2d(8, 3)
    >>> _ = layer(tdt.ones(2, 3, 5, 5))
    >>> layer
    ConvTranspose2d(3, 8, kernel_size=(3, 3), stride=(1, 1))
    """

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):
    """`ConvTranspose3d` that takes `in_channels` from its first input; that call draws its weights and makes it a
    ConvTranspose3d.

    Shape: input (N, C_in, D, H, W) or (C_in, D, H, W); result (N, C_out, D_out, H_out, W_out), without N if the input
        has none.

    >>> import tdt
    >>> layer = tdt.nn.LazyConvTranspose3d(8, 3)
    >>> _ = layer(tdt.ones(2, 3, 5, 5, 5))
    >>> layer
    ConvTranspose3d(3, 8, kernel_size=(3, 3, 3), stride=(1, 1, 1))
    """

    cls_to_become = ConvTranspose3d
