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
    """The mean of each window over (N, C, H, W) or (C, H, W); see `nn.functional.avg_pool2d`.

    >>> import tdt
    >>> tdt.nn.AvgPool2d(2)(tdt.ones(1, 3, 8, 8)).shape
    tdt.Size([1, 3, 4, 4])
    """

    pool = staticmethod(F.avg_pool2d)


class AvgPool3d(_AvgPool):
    """The mean of each window over (N, C, D, H, W) or (C, D, H, W); see `nn.functional.avg_pool2d`.

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


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """Means over windows of (N, C, D, H, W) or (C, D, H, W) placed so that the result is `output_size`.

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

    def forward(self, input: Tensor) -> Any:
        return type(self).pool(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """The largest value in each of `output_size` windows over (N, C, L) or (C, L).

    >>> import tdt
    >>> tdt.nn.AdaptiveMaxPool1d(2)(tdt.tensor([[1.0, 2.0, 3.0, 4.0]]))
    tensor([[2., 4.]])
    """

    pool = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """The largest value in windows placed so that the result is `output_size` (one number or two; None keeps the input's).

    return_indices: the result is a pair, with where in H × W each value came from.

    >>> import tdt
    >>> tdt.nn.AdaptiveMaxPool2d((5, None))(tdt.ones(1, 3, 8, 9)).shape
    tdt.Size([1, 3, 5, 9])
    """

    pool = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """The largest value in windows of (N, C, D, H, W) or (C, D, H, W); see `AdaptiveMaxPool2d`.

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

    def forward(self, input: Tensor) -> Any:
        return type(self).pool(input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
                               _random_samples=self._random_samples)  # fmt: skip


class FractionalMaxPool2d(_FractionalMaxPool):
    """The largest value in windows at random places of (N, C, H, W) or (C, H, W); see `nn.functional.fractional_max_pool2d`.

    One of `output_size` and `output_ratio` (between 0 and 1) says how large the result is; ValueError otherwise.

    >>> import tdt
    >>> tdt.nn.FractionalMaxPool2d(2, output_ratio=0.7)(tdt.ones(1, 3, 10, 10)).shape
    tdt.Size([1, 3, 7, 7])
    """

    dims = 2
    pool = staticmethod(F.fractional_max_pool2d)


class FractionalMaxPool3d(_FractionalMaxPool):
    """The largest value in windows at random places of (N, C, D, H, W) or (C, D, H, W); see `FractionalMaxPool2d`.

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
    """(Σ xᵖ)^(1/p) over each window of (N, C, L) or (C, L), with p = `norm_type`.

    >>> import tdt
    >>> tdt.nn.LPPool1d(2, 2)(tdt.tensor([[3.0, 4.0]]))
    tensor([[5.]])
    """

    pool = staticmethod(F.lp_pool1d)


class LPPool2d(_LPPool):
    """(Σ xᵖ)^(1/p) over each window of (N, C, H, W) or (C, H, W); see `nn.functional.lp_pool2d`.

    >>> import tdt
    >>> tdt.nn.LPPool2d(1, 2)(tdt.ones(1, 2, 2))
    tensor([[[4.]]])
    """

    pool = staticmethod(F.lp_pool2d)


class LPPool3d(_LPPool):
    """(Σ xᵖ)^(1/p) over each window of (N, C, D, H, W) or (C, D, H, W); see `LPPool2d`.

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
    """Values back to where a `MaxPool1d` with return_indices took them from, zeros elsewhere; see `MaxUnpool2d`.

    >>> import tdt
    >>> tdt.nn.MaxUnpool1d(2)(tdt.tensor([[2.0, 4.0]]), tdt.tensor([[1, 2]]))
    tensor([[0., 2., 4., 0.]])
    """

    dims = 1
    unpool = staticmethod(F.max_unpool1d)


class MaxUnpool2d(_MaxUnpool):
    """Values back to where a `MaxPool2d` with return_indices took them from, zeros elsewhere.

    Called with (values, indices), and an `output_size` where several sizes are pooled to one; see
    `nn.functional.max_unpool2d`.

    >>> import tdt
    >>> values, indices = tdt.nn.MaxPool2d(2, return_indices=True)(tdt.tensor([[[1.0, 2.0], [4.0, 3.0]]]))
    >>> tdt.nn.MaxUnpool2d(2)(values, indices)
    tensor([[[0., 0.],
             [4., 0.]]])
    """

    dims = 2
    unpool = staticmethod(F.max_unpool2d)


class MaxUnpool3d(_MaxUnpool):
    """Values back to where a `MaxPool3d` with return_indices took them from, zeros elsewhere; see `MaxUnpool2d`.

    >>> import tdt
    >>> tdt.nn.MaxUnpool3d(1)(tdt.ones(1, 1, 1, 2), tdt.tensor([[[[1, 0]]]]))
    tensor([[[[1., 1.]]]])
    """

    dims = 3
    unpool = staticmethod(F.max_unpool3d)
