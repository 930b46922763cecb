"""Pooling layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tdt._tensor import Tensor
from tdt.nn import functional as F
from tdt.nn.modules.conv import Numbers
from tdt.nn.modules.module import Module


class _MaxPool(Module):
    pool: Callable[..., Any]

    def __init__(self, kernel_size: Numbers, stride: Numbers | None = None, padding: Numbers = 0,
                 dilation: Numbers = 1, return_indices: bool = False,
                 ceil_mode: bool = False):  # fmt: skip
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.dilation, self.return_indices, self.ceil_mode = padding, dilation, return_indices, ceil_mode

    def forward(self, input: Tensor) -> Any:
        return type(self).pool(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        )

    def extra_repr(self) -> str:
        return (f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, dilation={self.dilation}, "
                f"ceil_mode={self.ceil_mode}")  # fmt: skip


class MaxPool1d(_MaxPool):
    """The largest value in each window over (N, C, L) or (C, L).

    >>> import tdt
    >>> tdt.nn.MaxPool1d(2)(tdt.tensor([[1.0, 2.0, 3.0, 4.0]]))
    tensor([[2., 4.]])
    """

    pool = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPool):
    """The largest value in each window over (N, C, H, W) or (C, H, W); see `nn.functional.max_pool2d`.

    >>> import tdt
    >>> tdt.nn.MaxPool2d(2)(tdt.ones(1, 3, 8, 8)).shape
    tdt.Size([1, 3, 4, 4])
    """

    pool = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPool):
    """The largest value in each window over (N, C, D, H, W) or (C, D, H, W).

    >>> import tdt
    >>> tdt.nn.MaxPool3d(2)(tdt.ones(1, 3, 4, 4, 4)).shape
    tdt.Size([1, 3, 2, 2, 2])
    """

    pool = staticmethod(F.max_pool3d)


class AvgPool1d(Module):
    """The mean of each window over (N, C, L) or (C, L).

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


class AvgPool2d(Module):
    """The mean of each window over (N, C, H, W) or (C, H, W); see `nn.functional.avg_pool2d`.

    >>> import tdt
    >>> tdt.nn.AvgPool2d(2)(tdt.ones(1, 3, 8, 8)).shape
    tdt.Size([1, 3, 4, 4])
    """

    def __init__(self, kernel_size: Numbers, stride: Numbers | None = None, padding: Numbers = 0, ceil_mode: bool = False,
                 count_include_pad: bool = True, divisor_override: int | None = None):  # fmt: skip
        super().__init__()
        self.kernel_size, self.stride, self.padding = kernel_size, kernel_size if stride is None else stride, padding
        self.ceil_mode, self.count_include_pad, self.divisor_override = ceil_mode, count_include_pad, divisor_override

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool2d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad,
                            self.divisor_override)  # fmt: skip

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _AdaptiveAvgPool(Module):
    pool: Callable[..., Any]

    def __init__(self, output_size: int | tuple[int | None, ...] | None):
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return type(self).pool(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """Means over as many windows as `output_size` says, over (N, C, L) or (C, L).

    >>> import tdt
    >>> tdt.nn.AdaptiveAvgPool1d(2)(tdt.tensor([[1.0, 2.0, 3.0, 4.0]]))
    tensor([[1.5000, 3.5000]])
    """

    pool = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """Means over windows placed so that the result is `output_size` (one number or two; None keeps the input's).

    >>> import tdt
    >>> tdt.nn.AdaptiveAvgPool2d(1)(tdt.ones(1, 3, 8, 8)).shape
    tdt.Size([1, 3, 1, 1])
    """

    pool = staticmethod(F.adaptive_avg_pool2d)
