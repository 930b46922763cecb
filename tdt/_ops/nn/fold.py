"""`unfold`: sliding windows as columns; and `fold`, its transpose, which adds the columns up."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tdt._backend.waiting import refuse_program, repeatable
from tdt._backend.windows import output_sizes
from tdt._core.dtype import BOOL, COMPLEX, FLOAT
from tdt._core.tensor import Tensor
from tdt._kernels import added_cells, chosen, gpu_kernel, gpu_view, kernel, some_cells
from tdt._ops.elementwise._front import tensor_argument
from tdt._ops.nn._windows import bordered, inner, offsets, reached, windows
from tdt._ops.nn.pad import pad_constant
from tdt.autograd._op import op
from tdt.autograd._remembered import calls_by_shape

_DTYPES = frozenset((BOOL, FLOAT, COMPLEX))
Pair = int | tuple[int, int]
_COPIED = (gpu_kernel("move_gpu:copied_view", gpu_view),)
_UNFOLD, _FOLD = (kernel("unfold_cpu:unfold", some_cells),), (kernel("unfold_cpu:fold", added_cells),)


def _columns(x: tuple, *, kernel: tuple, **how: Any) -> tuple:
    return x[0], x[1] * math.prod(kernel), math.prod(output_sizes(x[2:], kernel, **how))


@op(dtypes=_DTYPES, computes=False, shape=_columns)
@repeatable
def _im2col(xp, x, *, kernel, stride, padding, dilation):
    out = output_sizes(x.shape[2:], kernel, stride, padding, dilation)
    shape = _columns(x.shape, kernel=kernel, stride=stride, padding=padding, dilation=dilation)
    if fast := chosen(_UNFOLD, xp, x, cells=math.prod(shape)):
        how = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation}
        return fast(x, out, **how).reshape(shape)
    if xp is not np and any(padding):
        border = (0, 0, *padding)
        padded = pad_constant.forward(xp, x, before=border, after=border, value=0)
    else:
        padded = bordered(xp, x, padding, False)
    cells = windows(xp, padded, kernel, stride, dilation, out).transpose(0, 1, 4, 5, 2, 3)  # (N, C, *kernel, *out)
    if xp is not np:
        if copy := chosen(_COPIED, xp, padded, cells):
            return copy(padded, cells).reshape(shape)
        refuse_program()
    columns = xp.empty(cells.shape, x.dtype)
    columns[...] = cells
    return columns.reshape(shape)


@op(dtypes=_DTYPES, shape=lambda x, *, size, kernel, **how: (x[0], x[1] // math.prod(kernel), *size))
def _col2im(xp, x, *, size, kernel, stride, padding, dilation):
    out = output_sizes(size, kernel, stride, padding, dilation)
    cells = x.reshape(x.shape[0], -1 if x.size else x.shape[1] // math.prod(kernel), *kernel, *out)
    if fast := chosen(_FOLD, xp, cells, cells=cells.size):
        return fast(cells, tuple(size), kernel=kernel, stride=stride, padding=padding, dilation=dilation)
    padded = xp.zeros((*cells.shape[:2], *(n + 2 * p for n, p in zip(size, padding, strict=True))), x.dtype)
    for cell in offsets(kernel):
        padded[reached(cell, stride, dilation, out)] += cells[:, :, *cell]
    return xp.ascontiguousarray(padded[inner(padded.shape[2:], padding)])


@_im2col.vjp("x")
def _(g, x_shape, kernel, stride, padding, dilation):
    return _col2im(g, size=x_shape[2:], kernel=kernel, stride=stride, padding=padding, dilation=dilation)


@_col2im.vjp("x")
def _(g, kernel, stride, padding, dilation):
    return _im2col(g, kernel=kernel, stride=stride, padding=padding, dilation=dilation)


@_im2col.fast_vjp("x")
def _(xp, g, x_shape, kernel, stride, padding, dilation):
    how = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation}
    return _col2im.forward(xp, g, size=x_shape[2:], **how)


@_col2im.fast_vjp("x")
@repeatable
def _(xp, g, kernel, stride, padding, dilation):
    return _im2col.forward(xp, g, kernel=kernel, stride=stride, padding=padding, dilation=dilation)


def _attributes(output_size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> dict[str, Any]:
    """The arguments as pairs. RuntimeError for values that a window cannot have."""
    pairs = {"output_size": output_size, "kernel_size": kernel_size, "dilation": dilation, "padding": padding,
             "stride": stride}  # fmt: skip
    for name, value in pairs.items():
        pairs[name] = value = tuple(value) if isinstance(value, (tuple, list)) else (value, value)
        wrong = next((v for v in value if not hasattr(v, "__index__")), None)
        if wrong is not None:
            raise TypeError(
                f"argument '{name}' must be tuple of ints, but found element of type {type(wrong).__name__}"
            )
        if len(value) != 2:
            raise RuntimeError(f"It is expected {name} equals to 2, but got size {len(value)}")
    for name, words in (("kernel_size", "kernel size"), ("stride", "stride"), ("dilation", "dilation")):
        if min(pairs[name]) <= 0:
            raise RuntimeError(f"{words} should be greater than zero, but got {pairs[name]}")
    if min(pairs["padding"]) < 0:
        raise RuntimeError(f"padding should be non-negative, but got {pairs['padding']}")
    return {"size": pairs["output_size"], "kernel": pairs["kernel_size"], "stride": pairs["stride"],
            "padding": pairs["padding"], "dilation": pairs["dilation"]}  # fmt: skip


def _settings(how: dict[str, tuple]) -> str:
    return f"kernel_size={how['kernel']}, dilation={how['dilation']}, padding={how['padding']}"


@calls_by_shape
def unfold(input: Tensor, kernel_size: Pair, dilation: Pair = 1, padding: Pair = 0, stride: Pair = 1) -> Tensor:
    """Sliding windows of an image, each as a column.

    Args:
        kernel_size, dilation, padding, stride: one number, or (height, width).
    Shape: input (N, C, H, W) or (C, H, W); result (N, C KH KW, L) or (C KH KW, L) for L positions of the window.
    Raises:
        RuntimeError: when the shape or the arguments do not fit, or no window fits into the input.

    >>> import tdt
    >>> tdt.nn.functional.unfold(tdt.arange(6.0).reshape(1, 1, 2, 3), 2)
    tensor([[[0., 1.],
             [1., 2.],
             [3., 4.],
             [4., 5.]]])
    """
    how = _attributes(0, kernel_size, dilation, padding, stride)
    del how["size"]
    shape = tuple(tensor_argument("im2col", input).shape)
    if len(shape) not in (3, 4) or 0 in shape[-3:]:
        raise RuntimeError("Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for "
                           f"input, but got: {list(shape)}")  # fmt: skip
    places = output_sizes(shape[-2:], **how)
    if min(places) < 1:
        raise RuntimeError(f"Given input with spatial size {shape[-2:]}, {_settings(how)}, calculated shape of the array of "
                           f"sliding blocks as {places}, but its components must be at least one.")  # fmt: skip
    return _im2col(input, **how) if len(shape) == 4 else _im2col(input.unsqueeze(0), **how).squeeze(0)


@calls_by_shape
def fold(
    input: Tensor, output_size: Pair, kernel_size: Pair, dilation: Pair = 1, padding: Pair = 0, stride: Pair = 1
) -> Tensor:
    """Sum of columns of windows, each added at its position in the image: the transpose of `unfold`.

    Args:
        output_size: (H, W) of the image, or one number for both.
        kernel_size, dilation, padding, stride: one number, or (height, width).
    Shape: input (N, C KH KW, L) or (C KH KW, L) for L positions of the window; result (N, C, H, W) or (C, H, W).
    Raises:
        RuntimeError: when the shape or the arguments do not fit, or L is not the number of positions.

    >>> import tdt
    >>> tdt.nn.functional.fold(tdt.ones(1, 4, 2), (2, 3), 2)
    tensor([[[[1., 2., 1.],
              [1., 2., 1.]]]])
    """
    how = _attributes(output_size, kernel_size, dilation, padding, stride)
    shape = tuple(tensor_argument("col2im", input).shape)
    if len(shape) not in (2, 3) or 0 in shape[-2:]:
        raise RuntimeError("Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions "
                           f"for input, but got: {list(shape)}")  # fmt: skip
    rows, columns = shape[-2:]
    if rows % math.prod(how["kernel"]):
        raise RuntimeError("Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
                           f"input.size(1)={rows} and kernel_size={how['kernel']}.")  # fmt: skip
    places = output_sizes(**how)
    if math.prod(places) != columns or min(places) < 1:
        raise RuntimeError(f"Given output_size={how['size']}, {_settings(how)}, stride={how['stride']}, expected size of input's "
                           f"dimension 2 to match the calculated number of sliding blocks {places[0]} * {places[1]} = "
                           f"{math.prod(places)}, but got input.size(2)={columns}.")  # fmt: skip
    return _col2im(input, **how) if len(shape) == 3 else _col2im(input.unsqueeze(0), **how).squeeze(0)


__all__: list[str] = []
