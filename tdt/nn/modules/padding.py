"""Layers that add a border: constant, reflected, replicated or circular, in one to three dimensions."""

from __future__ import annotations

from collections.abc import Iterable

from tdt._core.tensor import Tensor
from tdt.nn import functional as F
from tdt.nn.modules.module import Module

Borders = int | tuple[int, ...]


class _Pad(Module):
    """The border (left, right, top, bottom, front, back) as far as there are dimensions, or one number for all sides."""

    mode = "constant"
    dims = 1

    def __init__(self, padding: Borders):
        super().__init__()
        self.padding = tuple(padding) if isinstance(padding, Iterable) else (padding,) * (2 * self.dims)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    def __init__(self, padding: Borders, value: float):
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _CircularPad(_Pad):
    mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (self.dims + 1, self.dims + 2):
            raise ValueError(f"expected {self.dims + 1}D or {self.dims + 2}D input (got {input.dim()}D input)")
        return super().forward(input)


class _ReflectionPad(_Pad):
    mode = "reflect"


class _ReplicationPad(_Pad):
    mode = "replicate"


class ConstantPad1d(_ConstantPad):
    """Adds a border of cells of `value`.

    Args:
        padding: (left, right) cells, or one number for all sides; negative numbers crop.
    Shape: input (N, C, L) or (C, L); result (N, C, L + left + right), without N if the
        input has none.

    >>> import tdt
    >>> tdt.nn.ConstantPad1d((1, 2), 9.0)(tdt.tensor([[0.0, 1.0, 2.0]]))
    tensor([[9., 0., 1., 2., 9., 9.]])
    """


class ConstantPad2d(_ConstantPad):
    """Adds a border of cells of `value`.

    Args:
        padding: (left, right, top, bottom) cells, or one number for all sides; negative numbers crop.
    Shape: input (N, C, H, W) or (C, H, W); result (N, C, H + top + bottom, W + left + right), without N if the
        input has none.

    >>> import tdt
    >>> tdt.nn.ConstantPad2d(1, 9.0)(tdt.ones(3, 3, 3)).shape
    tdt.Size([3, 5, 5])
    """

    dims = 2


class ConstantPad3d(_ConstantPad):
    """Adds a border of cells of `value`.

    Args:
        padding: (left, right, top, bottom, front, back) cells, or one number for all sides; negative numbers crop.
    Shape: input (N, C, D, H, W) or (C, D, H, W); result (N, C, D + front + back, H + top + bottom, W + left + right),
        without N if the
        input has none.

    >>> import tdt
    >>> tdt.nn.ConstantPad3d(1, 9.0)(tdt.ones(3, 3, 3, 3)).shape
    tdt.Size([3, 5, 5, 5])
    """

    dims = 3


class ZeroPad1d(ConstantPad1d):
    """Adds a border of zeros.

    Args:
        padding: (left, right) cells, or one number for all sides; negative numbers crop.
    Shape: input (N, C, L) or (C, L); result (N, C, L + left + right), without N if the
        input has none.

    >>> import tdt
    >>> tdt.nn.ZeroPad1d((1, 2))(tdt.tensor([[0.0, 1.0, 2.0]]))
    tensor([[0., 0., 1., 2., 0., 0.]])
    """

    def __init__(self, padding: Borders):
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad2d(ConstantPad2d):
    """Adds a border of zeros.

    Args:
        padding: (left, right, top, bottom) cells, or one number for all sides; negative numbers crop.
    Shape: input (N, C, H, W) or (C, H, W); result (N, C, H + top + bottom, W + left + right), without N if the
        input has none.

    >>> import tdt
    >>> tdt.nn.ZeroPad2d(1)(tdt.ones(3, 3, 3)).shape
    tdt.Size([3, 5, 5])
    """

    def __init__(self, padding: Borders):
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad3d(ConstantPad3d):
    """Adds a border of zeros.

    Args:
        padding: (left, right, top, bottom, front, back) cells, or one number for all sides; negative numbers crop.
    Shape: input (N, C, D, H, W) or (C, D, H, W); result (N, C, D + front + back, H + top + bottom, W + left + right),
        without N if the
        input has none.

    >>> import tdt
    >>> tdt.nn.ZeroPad3d(1)(tdt.ones(3, 3, 3, 3)).shape
    tdt.Size([3, 5, 5, 5])
    """

    def __init__(self, padding: Borders):
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ReflectionPad1d(_ReflectionPad):
    """Adds a border that mirrors the cells next to the edge; it must be narrower than the input.

    Args:
        padding: (left, right) cells, or one number for all sides; negative numbers crop.
    Shape: input (N, C, L) or (C, L); result (N, C, L + left + right), without N if the
        input has none.

    >>> import tdt
    >>> tdt.nn.ReflectionPad1d((1, 2))(tdt.tensor([[0.0, 1.0, 2.0]]))
    tensor([[1., 0., 1., 2., 1., 0.]])
    """


class ReflectionPad2d(_ReflectionPad):
    """Adds a border that mirrors the cells next to the edge; it must be narrower than the input.

    Args:
        padding: (left, right, top, bottom) cells, or one number for all sides; negative numbers crop.
    Shape: input (N, C, H, W) or (C, H, W); result (N, C, H + top + bottom, W + left + right), without N if the
        input has none.

    >>> import tdt
    >>> tdt.nn.ReflectionPad2d(1)(tdt.ones(3, 3, 3)).shape
    tdt.Size([3, 5, 5])
    """

    dims = 2


class ReflectionPad3d(_ReflectionPad):
    """Adds a border that mirrors the cells next to the edge; it must be narrower than the input.

    Args:
        padding: (left, right, top, bottom, front, back) cells, or one number for all sides; negative numbers crop.
    Shape: input (N, C, D, H, W) or (C, D, H, W); result (N, C, D + front + back, H + top + bottom, W + left + right),
        without N if the
        input has none.

    >>> import tdt
    >>> tdt.nn.ReflectionPad3d(1)(tdt.ones(3, 3, 3, 3)).shape
    tdt.Size([3, 5, 5, 5])
    """

    dims = 3


class ReplicationPad1d(_ReplicationPad):
    """Adds a border of copies of the cells at the edge.

    Args:
        padding: (left, right) cells, or one number for all sides; negative numbers crop.
    Shape: input (N, C, L) or (C, L); result (N, C, L + left + right), without N if the
        input has none.

    >>> import tdt
    >>> tdt.nn.ReplicationPad1d((1, 2))(tdt.tensor([[0.0, 1.0, 2.0]]))
    tensor([[0., 0., 1., 2., 2., 2.]])
    """


class ReplicationPad2d(_ReplicationPad):
    """Adds a border of copies of the cells at the edge.

    Args:
        padding: (left, right, top, bottom) cells, or one number for all sides; negative numbers crop.
    Shape: input (N, C, H, W) or (C, H, W); result (N, C, H + top + bottom, W + left + right), without N if the
        input has none.

    >>> import tdt
    >>> tdt.nn.ReplicationPad2d(1)(tdt.ones(3, 3, 3)).shape
    tdt.Size([3, 5, 5])
    """

    dims = 2


class ReplicationPad3d(_ReplicationPad):
    """Adds a border of copies of the cells at the edge.

    Args:
        padding: (left, right, top, bottom, front, back) cells, or one number for all sides; negative numbers crop.
    Shape: input (N, C, D, H, W) or (C, D, H, W); result (N, C, D + front + back, H + top + bottom, W + left + right),
        without N if the
        input has none.

    >>> import tdt
    >>> tdt.nn.ReplicationPad3d(1)(tdt.ones(3, 3, 3, 3)).shape
    tdt.Size([3, 5, 5, 5])
    """

    dims = 3


class CircularPad1d(_CircularPad):
    """Adds a border of the cells at the opposite edge; it must not be wider than the input.

    Args:
        padding: (left, right) cells, or one number for all sides; negative numbers crop.
    Shape: input (N, C, L) or (C, L); result (N, C, L + left + right), without N if the
        input has none.
    Raises:
        ValueError: when the input has another number of dimensions.

    >>> import tdt
    >>> tdt.nn.CircularPad1d((1, 2))(tdt.tensor([[0.0, 1.0, 2.0]]))
    tensor([[2., 0., 1., 2., 0., 1.]])
    """


class CircularPad2d(_CircularPad):
    """Adds a border of the cells at the opposite edge; it must not be wider than the input.

    Args:
        padding: (left, right, top, bottom) cells, or one number for all sides; negative numbers crop.
    Shape: input (N, C, H, W) or (C, H, W); result (N, C, H + top + bottom, W + left + right), without N if the
        input has none.
    Raises:
        ValueError: when the input has another number of dimensions.

    >>> import tdt
    >>> tdt.nn.CircularPad2d(1)(tdt.ones(3, 3, 3)).shape
    tdt.Size([3, 5, 5])
    """

    dims = 2


class CircularPad3d(_CircularPad):
    """Adds a border of the cells at the opposite edge; it must not be wider than the input.

    Args:
        padding: (left, right, top, bottom, front, back) cells, or one number for all sides; negative numbers crop.
    Shape: input (N, C, D, H, W) or (C, D, H, W); result (N, C, D + front + back, H + top + bottom, W + left + right),
        without N if the
        input has none.
    Raises:
        ValueError: when the input has another number of dimensions.

    >>> import tdt
    >>> tdt.nn.CircularPad3d(1)(tdt.ones(3, 3, 3, 3)).shape
    tdt.Size([3, 5, 5, 5])
    """

    dims = 3
