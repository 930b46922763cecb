"""Create uninitialized tensors whose strides, or order of dimensions in memory, the caller names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tdt import _backend
from tdt._core.aliases import Device
from tdt._core.calls import front
from tdt._core.creation import _finished, _make_with_order, _shape_of, make
from tdt._core.dtype import dtype as Dtype
from tdt._core.tensor import Tensor

if TYPE_CHECKING:
    from tdt._core.layout import layout as Layout

__all__ = ["empty_permuted", "empty_strided"]


@front
def empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: Dtype | None = None,
    layout: Layout | None = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """An uninitialized tensor of the given size and strides.

    Args:
        stride: in elements, one for each dimension.
        pin_memory: has no effect.
    Shape: result of shape `size`.
    Raises:
        RuntimeError: when `size` and `stride` differ in length, or one of them has a negative entry.

    >>> import tdt
    >>> tdt.empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    size, stride = _shape_of((size,)), tuple(stride)
    if len(size) != len(stride):
        raise RuntimeError(
            f"dimensionality of sizes ({len(size)}) must match dimensionality of strides ({len(stride)})"
        )
    if any(s < 0 for s in stride):
        raise RuntimeError(f"strides must not be negative, but got sizes={list(size)} and strides={list(stride)}")
    extent = 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) if 0 not in size else 0
    memory = make("empty", (extent,), None, dtype, device)._a
    return _finished(_backend.as_strided(memory, size, [s * memory.itemsize for s in stride]), requires_grad)


def empty_permuted(
    size: Sequence[int], physical_layout: Sequence[int], *, dtype: Dtype | None = None, layout: Layout | None = None,
    device: Device = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """An uninitialized tensor whose dimensions lie in memory in the order `physical_layout`, without gaps.

    Args:
        physical_layout: the dimensions, outermost in memory first.
        pin_memory: has no effect.
    Shape: result of shape `size`.
    Raises:
        RuntimeError: when `physical_layout` is not a permutation of the dimensions, or a size is negative.

    >>> import tdt
    >>> tdt.empty_permuted((2, 3), (1, 0)).stride()
    (1, 2)
    """
    shape, order = _shape_of((size,)), tuple(physical_layout)
    if len(shape) != len(order):
        raise RuntimeError(
            "Number of dimensions in size does not match the length of the physical_layout; i.e. "
            f"len(size) = {len(shape)} is not equal to len(physical_layout) = {len(order)}"
        )
    for place, d in enumerate(order):
        if not 0 <= d < len(shape):
            raise RuntimeError(
                f"Dimension out of range (expected to be between 0 and {len(shape) - 1}, but got {d} at index {place})"
            )
        if d in order[:place]:
            raise RuntimeError(f"Duplicate dim not allowed: {d} in {order}")
    return _make_with_order("empty", shape, None, dtype, device, requires_grad, order)
