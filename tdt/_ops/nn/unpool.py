"""Max unpooling: values at the positions that a max pooling took them from, zeros elsewhere."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tdt._core.dtype import FLOATING, check_category, int64
from tdt._core.tensor import Tensor
from tdt._ops._common import Ints
from tdt._ops.index.scatter import scatter
from tdt._ops.nn._windows import tuple_of
from tdt._ops.shape.memory import output_format
from tdt.autograd._node_names import node_name


def _max_unpool_nd(nd: int, input: Tensor, indices: Tensor, kernel_size: Any, stride: Any, padding: Any,
                   output_size: Any) -> Tensor:  # fmt: skip
    name = f"max_unpool{nd}d"
    kernel = tuple_of(kernel_size, nd, "kernel_size")
    stride = kernel if stride is None else tuple_of(stride, nd, "stride")
    size = _unpool_size(input, kernel, stride, tuple_of(padding, nd, "padding"), output_size)
    check_category(name, FLOATING, input.dtype)
    if indices.dtype is not int64:
        raise RuntimeError(f"elements in indices should be type int64 but got: {indices.dtype}")
    if indices.shape != input.shape:
        raise RuntimeError(f"Expected shape of indices to be same as that of the input tensor ({list(input.shape)}) but got "
                           f"indices tensor with shape: {list(indices.shape)}")  # fmt: skip
    if nd == 3 and min(stride) < 1:
        raise RuntimeError(f"strides should be greater than zero, but got stride: {list(stride)}")
    if 0 in input.shape[-nd - 1 :]:
        raise RuntimeError(
            f"{name}: Expected input to have non-zero size for non-batch dimensions, but got {list(input.shape)}"
        )
    cells = math.prod(size)
    if indices.numel():
        for worst in (int(indices.max()), int(indices.min())):
            if not 0 <= worst < cells:
                raise RuntimeError(
                    f"Found an invalid max index: {worst} (output volumes are of size {'x'.join(map(str, size))})"
                )
    before = tuple(input.shape[:-nd])
    planes = input.new_zeros((*before, cells))
    out = scatter(planes, -1, indices.flatten(-nd), input.flatten(-nd)).reshape(*before, *size)
    return out.contiguous(memory_format=output_format(input)) if nd == 2 else out


def _unpool_size(
    input: Tensor, kernel: tuple, stride: tuple, padding: tuple, output_size: Sequence[int] | None
) -> tuple[int, ...]:
    """The result's size: `output_size`, which a pooling must map to the input's size; None is the smallest such size."""
    nd = len(kernel)
    if input.ndim not in (nd + 1, nd + 2):
        raise RuntimeError(
            f"Input to max_unpool{nd}d should be a {nd + 1}d or {nd + 2}d Tensor, but got {list(input.shape)}"
        )
    least = tuple(
        (n - 1) * s + k - 2 * p for n, s, k, p in zip(input.shape[-nd:], stride, kernel, padding, strict=True)
    )
    size = least
    if output_size is not None:
        size = tuple(output_size[2:] if len(output_size) == nd + 2 else output_size)
        if len(size) != nd:
            raise ValueError(f"output_size should be a sequence containing {nd} or {nd + 2} elements, but it has a length "
                             f"of '{len(size)}'")  # fmt: skip
        for d, (n, m, s) in enumerate(zip(size, least, stride, strict=True)):
            if not m - s < n < m + s:
                raise ValueError(f'invalid output_size "{size}" (dim {d} must be between {m - s} and {m + s})')
    for d, n in enumerate(size):
        if n < 0:
            raise ValueError(
                f"max_unpooling: output_size must contain non-negative spatial dimensions, but got output_size[{d}]={n}"
            )
    return size


def max_unpool1d(
    input: Tensor, indices: Tensor, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:  # fmt: skip
    """Values at the positions that `max_pool1d` returned, zeros elsewhere.

    Args:
        indices: positions along L, int64.
        kernel_size, stride, padding: those of the pooling.
        output_size: which of the sizes that are pooled to the input's size; None is the smallest.
    Shape: input and indices (N, C, L) or (C, L); result (N, C, L') or (C, L') with
        L' = (L - 1) stride - 2 padding + kernel_size unless `output_size` is given.
    Raises:
        ValueError: when `output_size` is not pooled to the input's size.
        RuntimeError: when shapes or dtypes do not fit, or an index is outside the result.
    Source: Zeiler and Fergus, "Visualizing and Understanding Convolutional Networks", 2014.

    >>> import tdt
    >>> tdt.nn.functional.max_unpool1d(tdt.tensor([[2.0, 4.0]]), tdt.tensor([[1, 2]]), 2)
    tensor([[0., 2., 4., 0.]])
    """
    return _max_unpool_nd(1, input, indices, kernel_size, stride, padding, output_size)


@node_name("MaxUnpool2DBackward0")
def max_unpool2d(
    input: Tensor, indices: Tensor, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:  # fmt: skip
    """Values at the positions that `max_pool2d` returned, zeros elsewhere.

    Args:
        indices: positions in the flattened H' × W', int64.
        kernel_size, stride, padding: those of the pooling; one number, or (height, width).
        output_size: which of the sizes that are pooled to the input's size; None is the smallest.
    Shape: input and indices (N, C, H, W) or (C, H, W); result (N, C, H', W') or (C, H', W') with
        H' = (H - 1) stride - 2 padding + kernel_size, W' likewise, unless `output_size` is given.
    Raises:
        ValueError: when `output_size` is not pooled to the input's size.
        RuntimeError: when shapes or dtypes do not fit, or an index is outside the result.
    Source: Zeiler and Fergus, "Visualizing and Understanding Convolutional Networks", 2014.

    >>> import tdt
    >>> x = tdt.tensor([[[1.0, 2.0], [4.0, 3.0]]])
    >>> tdt.nn.functional.max_unpool2d(*tdt.nn.functional.max_pool2d(x, 2, return_indices=True), 2)
    tensor([[[0., 0.],
             [4., 0.]]])
    """
    return _max_unpool_nd(2, input, indices, kernel_size, stride, padding, output_size)


@node_name("MaxUnpool3DBackward0")
def max_unpool3d(
    input: Tensor, indices: Tensor, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:  # fmt: skip
    """Values at the positions that `max_pool3d` returned, zeros elsewhere.

    Args:
        indices: positions in the flattened D' × H' × W', int64.
        kernel_size, stride, padding: those of the pooling; one number, or (depth, height, width).
        output_size: which of the sizes that are pooled to the input's size; None is the smallest.
    Shape: input and indices (N, C, D, H, W) or (C, D, H, W); result (N, C, D', H', W') or (C, D', H', W'), each size as
        for `max_unpool1d`.
    Raises:
        ValueError: when `output_size` is not pooled to the input's size.
        RuntimeError: when shapes or dtypes do not fit, or an index is outside the result.
    Source: Zeiler and Fergus, "Visualizing and Understanding Convolutional Networks", 2014.

    >>> import tdt
    >>> tdt.nn.functional.max_unpool3d(tdt.ones(1, 1, 1, 1), tdt.full((1, 1, 1, 1), 7), 2).flatten()
    tensor([0., 0., 0., 0., 0., 0., 0., 1.])
    """
    return _max_unpool_nd(3, input, indices, kernel_size, stride, padding, output_size)
