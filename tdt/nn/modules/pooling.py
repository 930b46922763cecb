"""Pooling layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tdt._core.tensor import Tensor
from tdt.nn import functional as F
from tdt.nn.modules.conv import Numbers, each
from tdt.nn.modules.module import Module

Sizes = int | tuple[int | None, ...] | None  # of a result; None keeps the input's


class _MaxPool(Module):
    pool: Callable[..., Any]

    def __init__(self, kernel_size: Numbers, stride: Numbers | None = None, padding: Numbers = 0,
                 dilation: Numbers = 1, return_indices: bool = False,
                 ceil_mode: bool = False):  # fmt: skip
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.dilation, self.return_indices, self.ceil_mode = padding, dilation, return_indices, ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        return type(self).pool(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        )

    def extra_repr(self) -> str:
        return (f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, dilation={self.dilation}, "
                f"ceil_mode={self.ceil_mode}")  # fmt: skip


class MaxPool1d(_MaxPool):
    """Largest value of each window over sequences.

    Args:
        kernel_size, stride, dilation: one number for all spatial dimensions, or one each, in cells; stride None stands
            for
            the window's size.
        padding: cells of minus infinity added to each side.
        return_indices: also return where each maximum lies in the flattened spatial dimensions, for `MaxUnpool1d`.
        ceil_mode: round the size of the result up, so that the last window may cross the border.
    Shape: input (N, C, L) or (C, L); result (N, C, L_out), without N if the input has none; a pair of such tensors with
        return_indices.

    >>> import tdt
    >>> tdt.nn.MaxPool1d(2)(tdt.tensor([[1.0, 2.0, 3.0, 4.0]]))
    tensor([[2., 4.]])
    """

    pool = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPool):
    """Largest value of each window over images.

    Args:
        kernel_size, stride, dilation: one number for all spatial dimensions, or one each, in cells; stride None stands
            for
            the window's size.
        padding: cells of minus infinity added to each side.
        return_indices: also return where each maximum lies in the flattened spatial dimensions, for `MaxUnpool2d`.
        ceil_mode: round the size of the result up, so that the last window may cross the border.
    Shape: input (N, C, H, W) or (C, H, W); result (N, C, H_out, W_out), without N if the input has none; a pair of such
        tensors with return_indices.

    >>> import tdt
    >>> tdt.nn.MaxPool2d(2)(tdt.ones(1, 3, 8, 8)).shape
    tdt.Size([1, 3, 4, 4])
    """

    pool = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPool):
    """Largest value of each window over volumes.

    Args:
        kernel_size, stride, dilation: one number for all spatial dimensions, or one each, in cells; stride None stands
            for
            the window's size.
        padding: cells of minus infinity added to each side.
        return_indices: also return where each maximum lies in the flattened spatial dimensions, for `MaxUnpool3d`.
        ceil_mode: round the size of the result up, so that the last window may cross the border.
    Shape: input (N, C, D, H, W) or (C, D, H, W); result (N, C, D_out, H_out, W_out), without N if the input has none; a
        pair of such tensors with return_indices.

    >>> import tdt
    >>> tdt.nn.MaxPool3d(2)(tdt.ones(1, 3, 4, 4, 4)).shape
    tdt.Size([1, 3, 2, 2, 2])
    """

    pool = staticmethod(F.max_pool3d)


class AvgPool1d(Module):
    """Mean of each window over sequences.

    Args:
        kernel_size, stride: one number for all spatial dimensions, or one each, in cells; stride None stands for the
            window's size.
        padding: cells of zeros added to each side.
        ceil_mode: round the size of the result up, so that the last window may cross the border.
        count_include_pad: whether the mean counts the cells of padding.
    Shape: input (N, C, L) or (C, L); result (N, C, L_out), without N if the input has none.

    >>> import tdt
    >>> tdt.nn.AvgPool1d(2)(tdt.tensor([[1.0, 2.0, 3.0, 4.0]]))
    tensor([[1.5000, 3.5000]])
    """

    def __init__(self, kernel_size: Numbers, stride: Numbers | None = None, padding: Numbers = 0, ceil_mode: bool = False,
                 count_include_pad: bool = True):  # fmt: skip
        super().__init__()
        self.kernel_size, self.stride, self.padding = ((v,) if isinstance(v, int) else v for v in (
            kernel_size, kernel_size if stride is None else stride, padding))  # fmt: skip
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _AvgPool(Module):
    pool: Callable[..., Tensor]

    def __init__(self, kernel_size: Numbers, stride: Numbers | None = None, padding: Numbers = 0, ceil_mode: bool = False,
                 count_include_pad: bool = True, divisor_override: int | None = None):  # fmt: skip
        super().__init__()
        self.kernel_size, self.stride, self.padding = kernel_size, kernel_size if stride is None else stride, padding
        self.ceil_mode, self.count_include_pad, self.divisor_override = ceil_mode, count_include_pad, divisor_override

    def forward(self, input: Tensor) -> Tensor:
        return type(self).pool(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad,
                               self.divisor_override)  # fmt: skip

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(_AvgPool):
    """Mean of each window over images.

    Args:
        kernel_size, stride: one number for all spatial dimensions, or one each, in cells; stride None stands for the
            window's size.
        padding: cells of zeros added to each side.
        ceil_mode: round the size of the result up, so that the last window may cross the border.
        count_include_pad: whether the mean counts the cells of padding.
        divisor_override: number to divide each window's sum by, in the place of its size.
    Shape: input (N, C, H, W) or (C, H, W); result (N, C, H_out, W_out), without N if the input has none.

    >>> import tdt
    >>> tdt.nn.AvgPool2d(2)(tdt.ones(1, 3, 8, 8)).shape
    tdt.Size([1, 3, 4, 4])
    """

    pool = staticmethod(F.avg_pool2d)


class AvgPool3d(_AvgPool):
    """Mean of each window over volumes.

    Args:
        kernel_size, stride: one number for all spatial dimensions, or one each, in cells; stride None stands for the
            window's size.
        padding: cells of zeros added to each side.
        ceil_mode: round the size of the result up, so that the last window may cross the border.
        count_include_pad: whether the mean counts the cells of padding.
        divisor_override: number to divide each window's sum by, in the place of its size.
    Shape: input (N, C, D, H, W) or (C, D, H, W); result (N, C, D_out, H_out, W_out), without N if the input has none.

    >>> import tdt
    >>> tdt.nn.AvgPool3d(2)(tdt.ones(1, 3, 4, 4, 4)).shape
    tdt.Size([1, 3, 2, 2, 2])
    """

    pool = staticmethod(F.avg_pool3d)


class _AdaptiveAvgPool(Module):
    pool: Callable[..., Any]

    def __init__(self, output_size: Sizes):
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return type(self).pool(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """Means of windows that are placed so that the result has the size `output_size`.

    Args:
        output_size: one number for all spatial dimensions, or one each; None keeps the input's size.
    Shape: input (N, C, L) or (C, L); result (N, C, *output_size), without N if the input has none.

    >>> import tdt
    >>> tdt.nn.AdaptiveAvgPool1d(2)(tdt.tensor([[1.0, 2.0, 3.0, 4.0]]))
    tensor([[1.5000, 3.5000]])
    """

    pool = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """Means of windows that are placed so that the result has the size `output_size`.

    Args:
        output_size: one number for all spatial dimensions, or one each; None keeps the input's size.
    Shape: input (N, C, H, W) or (C, H, W); result (N, C, *output_size), without N if the input has none.

    >>> import tdt
    >>> tdt.nn.AdaptiveAvgPool2d(1)(tdt.ones(1, 3, 8, 8)).shape
    tdt.Size([1, 3, 1, 1])
    """

    pool = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """Means of windows that are placed so that the result has the size `output_size`.

    Args:
        output_size: one number for all spatial dimensions, or one each; None keeps the input's size.
    Shape: input (N, C, D, H, W) or (C, D, H, W); result (N, C, *output_size), without N if the input has none.

    >>> import tdt
    >>> tdt.nn.AdaptiveAvgPool3d((1, None, 2))(tdt.ones(1, 3, 4, 4, 4)).shape
    tdt.Size([1, 3, 1, 4, 2])
    """

    pool = staticmethod(F.adaptive_avg_pool3d)


class _AdaptiveMaxPool(Module):
    pool: Callable[..., Any]

    def __init__(self, output_size: Sizes, return_indices: bool = False):
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices

    def forward(self, input: Tensor) -> Tensor:
        return type(self).pool(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """Largest values of windows that are placed so that the result has the size `output_size`.

    Args:
        output_size: one number for all spatial dimensions, or one each; None keeps the input's size.
        return_indices: also return where each maximum lies in the flattened spatial dimensions.
    Shape: input (N, C, L) or (C, L); result (N, C, *output_size), without N if the input has none; a pair of such
        tensors with
        return_indices.

    >>> import tdt
    >>> tdt.nn.AdaptiveMaxPool1d(2)(tdt.tensor([[1.0, 2.0, 3.0, 4.0]]))
    tensor([[2., 4.]])
    """

    pool = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """Largest values of windows that are placed so that the result has the size `output_size`.

    Args:
        output_size: one number for all spatial dimensions, or one each; None keeps the input's size.
        return_indices: also return where each maximum lies in the flattened spatial dimensions.
    Shape: input (N, C, H, W) or (C, H, W); result (N, C, *output_size), without N if the input has none; a pair of such
        tensors with
        return_indices.

    >>> import tdt
    >>> tdt.nn.AdaptiveMaxPool2d((5, None))(tdt.ones(1, 3, 8, 9)).shape
    tdt.Size([1, 3, 5, 9])
    """

    pool = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """Largest values of windows that are placed so that the result has the size `output_size`.

    Args:
        output_size: one number for all spatial dimensions, or one each; None keeps the input's size.
        return_indices: also return where each maximum lies in the flattened spatial dimensions.
    Shape: input (N, C, D, H, W) or (C, D, H, W); result (N, C, *output_size), without N if the input has none; a pair
        of such tensors with
        return_indices.

    >>> import tdt
    >>> tdt.nn.AdaptiveMaxPool3d(2)(tdt.ones(1, 3, 4, 5, 6)).shape
    tdt.Size([1, 3, 2, 2, 2])
    """

    pool = staticmethod(F.adaptive_max_pool3d)


class _FractionalMaxPool(Module):
    _random_samples: Tensor | None
    dims: int
    pool: Callable[..., Any]

    def __init__(self, kernel_size: Numbers, output_size: Numbers | None = None,
                 output_ratio: float | tuple[float, ...] | None = None, return_indices: bool = False,
                 _random_samples: Tensor | None = None):  # fmt: skip
        super().__init__()
        self.kernel_size = each(kernel_size, self.dims)
        if self.dims == 3 and not all(k > 0 for k in self.kernel_size):
            raise ValueError(f"kernel_size must be greater than 0, but got {kernel_size}")
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else each(output_size, self.dims)
        self.output_ratio = None if output_ratio is None else each(output_ratio, self.dims)
        if output_size is None and output_ratio is None:
            raise ValueError(f"{type(self).__name__} requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < r < 1 for r in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Tensor) -> Tensor:
        return type(self).pool(input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
                               _random_samples=self._random_samples)  # fmt: skip


class FractionalMaxPool2d(_FractionalMaxPool):
    """Largest values of windows at pseudo-random places, so that sizes shrink by a factor that need not be whole.

    Args:
        kernel_size: height and width of a window, one number for both or one each.
        _random_samples: (N, C, 2) numbers in [0, 1) that place the windows, in place of random ones.
        output_size: size of the result, one number for all spatial dimensions or one each.
        output_ratio: the same as a fraction of the input's size, between 0 and 1; exactly one of the two must be given.
        return_indices: also return where each maximum lies in the flattened spatial dimensions.
    Shape: input (N, C, H, W) or (C, H, W); result (N, C, H_out, W_out), without N if the input has none; a pair of such
        tensors with
        return_indices.
    Raises:
        ValueError: when both or neither of output_size and output_ratio are given, or a ratio is outside (0, 1).
    Source: Graham, "Fractional Max-Pooling", 2014.

    >>> import tdt
    >>> tdt.nn.FractionalMaxPool2d(2, output_ratio=0.7)(tdt.ones(1, 3, 10, 10)).shape
    tdt.Size([1, 3, 7, 7])
    """

    dims = 2
    pool = staticmethod(F.fractional_max_pool2d)


class FractionalMaxPool3d(_FractionalMaxPool):
    """Largest values of windows at pseudo-random places, so that sizes shrink by a factor that need not be whole.

    Args:
        kernel_size: size of a window, one number for all three dimensions or one each.
        _random_samples: (N, C, 3) numbers in [0, 1) that place the windows, in place of random ones.
        output_size: size of the result, one number for all spatial dimensions or one each.
        output_ratio: the same as a fraction of the input's size, between 0 and 1; exactly one of the two must be given.
        return_indices: also return where each maximum lies in the flattened spatial dimensions.
    Shape: input (N, C, D, H, W) or (C, D, H, W); result (N, C, D_out, H_out, W_out), without N if the input has none; a
        pair of such tensors with
        return_indices.
    Raises:
        ValueError: when both or neither of output_size and output_ratio are given, or a ratio is outside (0, 1).
    Source: Graham, "Fractional Max-Pooling", 2014.

    >>> import tdt
    >>> tdt.nn.FractionalMaxPool3d(2, output_size=3)(tdt.ones(1, 3, 6, 6, 6)).shape
    tdt.Size([1, 3, 3, 3, 3])
    """

    dims = 3
    pool = staticmethod(F.fractional_max_pool3d)


class _LPPool(Module):
    pool: Callable[..., Tensor]

    def __init__(self, norm_type: float, kernel_size: Numbers, stride: Numbers | None = None, ceil_mode: bool = False):
        super().__init__()
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        return type(self).pool(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self) -> str:
        return (f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
                f"ceil_mode={self.ceil_mode}")  # fmt: skip


class LPPool1d(_LPPool):
    """Power mean without the division, (Σ xᵖ)^(1 / p), of each window over sequences.

    Args:
        norm_type: the power p; 1 gives sums, infinity gives maxima.
        kernel_size, stride: one number for all spatial dimensions, or one each, in cells; stride None stands for the
            window's size.
        ceil_mode: round the size of the result up, so that the last window may cross the border.
    Shape: input (N, C, L) or (C, L); result (N, C, L_out), without N if the input has none.

    >>> import tdt
    >>> tdt.nn.LPPool1d(2, 2)(tdt.tensor([[3.0, 4.0]]))
    tensor([[5.]])
    """

    pool = staticmethod(F.lp_pool1d)


class LPPool2d(_LPPool):
    """Power mean without the division, (Σ xᵖ)^(1 / p), of each window over images.

    Args:
        norm_type: the power p; 1 gives sums, infinity gives maxima.
        kernel_size, stride: one number for all spatial dimensions, or one each, in cells; stride None stands for the
            window's size.
        ceil_mode: round the size of the result up, so that the last window may cross the border.
    Shape: input (N, C, H, W) or (C, H, W); result (N, C, H_out, W_out), without N if the input has none.

    >>> import tdt
    >>> tdt.nn.LPPool2d(1, 2)(tdt.ones(1, 2, 2))
    tensor([[[4.]]])
    """

    pool = staticmethod(F.lp_pool2d)


class LPPool3d(_LPPool):
    """Power mean without the division, (Σ xᵖ)^(1 / p), of each window over volumes.

    Args:
        norm_type: the power p; 1 gives sums, infinity gives maxima.
        kernel_size, stride: one number for all spatial dimensions, or one each, in cells; stride None stands for the
            window's size.
        ceil_mode: round the size of the result up, so that the last window may cross the border.
    Shape: input (N, C, D, H, W) or (C, D, H, W); result (N, C, D_out, H_out, W_out), without N if the input has none.

    >>> import tdt
    >>> tdt.nn.LPPool3d(1, 2)(tdt.ones(1, 2, 2, 2))
    tensor([[[[8.]]]])
    """

    pool = staticmethod(F.lp_pool3d)


class _MaxUnpool(Module):
    dims: int
    unpool: Callable[..., Tensor]

    def __init__(self, kernel_size: Numbers, stride: Numbers | None = None, padding: Numbers = 0):
        super().__init__()
        self.kernel_size, self.padding = each(kernel_size, self.dims), each(padding, self.dims)
        self.stride = self.kernel_size if stride is None else each(stride, self.dims)

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        return type(self).unpool(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """Partial inverse of `MaxPool1d`: values put back where they were taken from, zeros elsewhere.

    Args:
        kernel_size, stride, padding: those of the `MaxPool1d` whose indices are given.
    Shape: input (N, C, L) or (C, L), indices the same shape; result (N, C, L_out), or of `output_size` if the call
        gives one.

    >>> import tdt
    >>> tdt.nn.MaxUnpool1d(2)(tdt.tensor([[2.0, 4.0]]), tdt.tensor([[1, 2]]))
    tensor([[0., 2., 4., 0.]])
    """

    dims = 1
    unpool = staticmethod(F.max_unpool1d)


class MaxUnpool2d(_MaxUnpool):
    """Partial inverse of `MaxPool2d`: values put back where they were taken from, zeros elsewhere.

    Args:
        kernel_size, stride, padding: those of the `MaxPool2d` whose indices are given.
    Shape: input (N, C, H, W) or (C, H, W), indices the same shape; result (N, C, H_out, W_out), or of `output_size` if
        the call gives one.

    >>> import tdt
    >>> values, indices = tdt.nn.MaxPool2d(2, return_indices=True)(tdt.tensor([[[1.0, 2.0], [4.0, 3.0]]]))
    >>> tdt.nn.MaxUnpool2d(2)(values, indices)
    tensor([[[0., 0.],
             [4., 0.]]])
    """

    dims = 2
    unpool = staticmethod(F.max_unpool2d)


class MaxUnpool3d(_MaxUnpool):
    """Partial inverse of `MaxPool3d`: values put back where they were taken from, zeros elsewhere.

    Args:
        kernel_size, stride, padding: those of the `MaxPool3d` whose indices are given.
    Shape: input (N, C, D, H, W) or (C, D, H, W), indices the same shape; result (N, C, D_out, H_out, W_out), or of
        `output_size` if the call gives one.

    >>> import tdt
    >>> tdt.nn.MaxUnpool3d(1)(tdt.ones(1, 1, 1, 2), tdt.tensor([[[[1, 0]]]]))
    tensor([[[[1., 1.]]]])
    """

    dims = 3
    unpool = staticmethod(F.max_unpool3d)
