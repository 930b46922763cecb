"""Max pooling in any number of dimensions: the largest of the cells under a window.

max_pool gives the values alone; max_pool_with_indices also where they were. pool_scatter and pool_gather, which
move values to and from such indices, are each other's gradient.
"""

from __future__ import annotations

import functools
import math
from typing import Any, Literal, overload

import numpy as np

from tdt._backend.layout import empty_output, to_layout_of
from tdt._backend.waiting import repeatable
from tdt._backend.windows import output_sizes
from tdt._core.dtype import FLOATING, REAL, REAL_NUMBERS, check_category
from tdt._core.tensor import Tensor
from tdt._kernels import (
    chosen,
    chosen_for,
    float_images,
    float_windows,
    gpu_images,
    gpu_kernel,
    kernel,
    large_windows,
    lazy,
    prepares,
    tiled_volumes,
    tiled_windows,
)
from tdt._ops._common import Ints
from tdt._ops.nn._pooling import check_size, framed, full_size, place, plain_windows, window_of
from tdt._ops.nn._windows import offsets, reached
from tdt.autograd._autocast import by_rank_of_pool
from tdt.autograd._node_names import by_windows, node_name
from tdt.autograd._op import Op, op
from tdt.autograd._record import record_results
from tdt.autograd._remembered import calls_by_shape


def _lowest(dtype: Any) -> Any:
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def _max_shape(x: tuple, *, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple, ceil_mode: bool) -> tuple:
    return (*x[:2], *output_sizes(x[2:], kernel, stride, padding, dilation, ceil_mode))


_SLOPES = (
    kernel("pool_cpu:max_pool_vjp", tiled_windows),
    kernel("pool_cpu:max_pool_any_vjp", large_windows, lines=True),
    kernel("plane_pool_cpu:max_pool_vjp", float_images),
    kernel("volume_pool_cpu:max_pool_vjp", tiled_volumes),
    gpu_kernel("pool_gpu:max_pool_vjp", gpu_images),
)
_TILES = kernel("pool_cpu:max_pool", tiled_windows)
_PLANES = kernel("plane_pool_cpu:max_pool", float_images)
_VOLUMES = kernel("volume_pool_cpu:max_pool", tiled_volumes)


@op(
    dtypes=REAL_NUMBERS,
    shape=_max_shape,
    node=by_windows("MaxPool{}DWithIndicesBackward0"),
    autocast=by_rank_of_pool,
    recomputed=True,
    linked=True,
    kernels=(
        _TILES,
        _PLANES,
        kernel("pool_cpu:max_pool_any", large_windows, lines=True),
        _VOLUMES,
        gpu_kernel("pool_gpu:max_pool", gpu_images),
    ),
)
def _max_pool(xp, x, *, kernel, stride, padding, dilation, ceil_mode):
    shape = _max_shape(x.shape, kernel=kernel, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil_mode)
    full = full_size(x.shape[2:], shape[2:], kernel, stride, padding, dilation)
    frame = framed(xp, x, full, padding, _lowest(x.dtype))
    out = empty_output(xp, shape, x.dtype, x)
    first = None
    for count, k in enumerate(offsets(kernel)):
        cells = frame[reached(k, stride, dilation, shape[2:])]
        if count == 0:
            first = cells
        else:
            xp.maximum(first if count == 1 else out, cells, out=out)
    if math.prod(kernel) == 1:
        out[...] = first
    return out


_PREPARED_TILES, _PREPARED_PLANES = lazy("pool_cpu:prepared_max_pool"), lazy("plane_pool_cpu:prepared_max_pool")
_PREPARED_VOLUMES = lazy("volume_pool_cpu:prepared_max_pool")


@prepares(_max_pool.forward)
def _(x, *, recorded, **how):
    function = chosen_for(_max_pool.kernels, (x,), how) if x.ndim > 2 else None
    if function is _VOLUMES.function:
        return _PREPARED_VOLUMES(x)
    if function is _TILES.function:
        return _PREPARED_TILES(x, recorded=recorded)
    return _PREPARED_PLANES(x, **how, recorded=recorded) if function is _PLANES.function else None


@_max_pool.vjp("x")
def _(g, x, kernel, stride, padding, dilation, ceil_mode):
    how = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation, "ceil_mode": ceil_mode}
    return pool_scatter(g, max_pool_with_indices(x.detach(), **how)[1], size=tuple(x.shape[2:]))


@_max_pool.fast_vjp("x")
@repeatable
def _(xp, g, x, out, kernel, stride, padding, dilation, ceil_mode):
    """The first cell in each window that equals the maximum takes the gradient; where there is NaN, the last NaN."""
    how = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation, "ceil_mode": ceil_mode}
    if fast := chosen(_SLOPES, xp, g, out, x, **how):
        return fast(g, out, x, **how)
    size = x.shape[2:]
    full = full_size(size, out.shape[2:], kernel, stride, padding, dilation)
    frame = framed(xp, x, full, padding, np.nan)  # the border equals nothing, not even a window of -inf
    g = to_layout_of(xp, g, x)
    cells = [(k, reached(at, stride, dilation, out.shape[2:])) for k, at in enumerate(offsets(kernel))]
    winner = xp.full_like(out, -1, dtype=np.int32)
    is_nan = None
    if xp is not np or np.isnan(out).any():  # the check would synchronize a GPU
        is_nan = framed(xp, x != x, full, padding, False)
    for k, at in reversed(cells):
        hit = frame[at] == out
        if is_nan is not None:
            hit |= is_nan[at] & (winner < 0)
        xp.copyto(winner, k, where=hit)
    grad = empty_output(xp, frame.shape, g.dtype, x)
    # Windows that tile the input: every cell is written once, so nothing has to be zeroed and added.
    tiles = stride == kernel and full == tuple(o * k for o, k in zip(out.shape[2:], kernel, strict=True))
    if not tiles:
        grad[...] = 0
    for k, at in cells:
        share = xp.where(winner == k, g, 0)
        if tiles:
            grad[at] = share
        else:
            grad[at] += share
    return grad[place(size, padding)]


@_max_pool.prepares_vjp("x")
def _(xp, g, x, out, kernel, stride, padding, dilation, ceil_mode):
    how = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation, "ceil_mode": ceil_mode}
    prepare = getattr(chosen(_SLOPES, xp, g, out, x, **how), "prepare", None)
    compute = prepare and prepare(g, out, x, **how)
    return compute and (lambda g, x, out: compute(g, out, x))


@op(dtypes=REAL_NUMBERS, outputs=("out", "indices"), nondiff=("indices",),
    shape=lambda x, **how: (_max_shape(x, **how), _max_shape(x, **how)),
    node=by_windows("MaxPool{}DWithIndicesBackward0"), autocast=by_rank_of_pool, linked=True)  # fmt: skip
def max_pool_with_indices(xp, x, *, kernel, stride, padding, dilation, ceil_mode):
    size = x.shape[2:]
    shape = _max_shape(x.shape, kernel=kernel, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil_mode)
    full = full_size(size, shape[2:], kernel, stride, padding, dilation)
    frame = framed(xp, x, full, padding, _lowest(x.dtype))
    out, indices = empty_output(xp, shape, x.dtype, x), empty_output(xp, shape, np.int64, x)
    out[...] = _lowest(x.dtype)
    few = xp is np and math.prod(shape[2:]) <= MAX_CACHED
    where, first = (_where, _first) if few else (_where.__wrapped__, _first.__wrapped__)
    indices[...] = first(xp, size, shape[2:], stride, padding, dilation)
    for k in offsets(kernel):
        cells = frame[reached(k, stride, dilation, shape[2:])]
        better = (cells > out) | (cells != cells)
        xp.copyto(out, cells, where=better)
        xp.copyto(indices, where(xp, k, size, shape[2:], stride, padding, dilation), where=better)
    return out, indices


MAX_CACHED = 1 << 12  # windows of an image whose indices are kept for the next call


@functools.lru_cache(256)
def _where(xp: Any, k: tuple, size: tuple, out: tuple, stride: tuple, padding: tuple, dilation: tuple) -> Any:
    """For every window, the flat index into the input of kernel cell `k`."""
    flat: Any = 0
    for d, n in enumerate(size):
        at = xp.arange(out[d]) * stride[d] + k[d] * dilation[d] - padding[d]
        flat = flat * n + at.reshape(-1, *(1,) * (len(size) - d - 1))
    return flat


@functools.lru_cache(64)
def _first(xp: Any, size: tuple, out: tuple, stride: tuple, padding: tuple, dilation: tuple) -> Any:
    """For every window, the flat index of its first cell inside of the input."""
    flat: Any = 0
    for d, n in enumerate(size):
        at = xp.arange(out[d]) * stride[d] - padding[d]
        at = xp.where(at < 0, at + -(at // dilation[d]) * dilation[d], at)
        flat = flat * n + at.reshape(-1, *(1,) * (len(size) - d - 1))
    return flat


def gives_gradients_to_maxima(pool: Op) -> None:
    """Define the gradient of an op that returns maxima and their indices."""

    @pool.vjp("x")
    def _(g_out, x_shape, indices):
        return pool_scatter(g_out, indices, size=tuple(x_shape[2:]))

    @pool.fast_vjp("x")
    def _(xp, g_out, x_shape, indices):
        return pool_scatter.forward(xp, g_out, indices, size=x_shape[2:])


gives_gradients_to_maxima(max_pool_with_indices)


def _at(xp: Any, indices: Any, cells: int) -> Any:
    """Indices within each (sample, channel) as indices into the whole array; beyond the cells: the last one's."""
    rows, indices = math.prod(indices.shape[:2]), xp.minimum(indices, cells - 1)
    return (indices.reshape(rows, math.prod(indices.shape[2:])) + xp.arange(rows)[:, None] * cells).reshape(-1)


_SCATTER = (kernel("adaptive_pool_cpu:pool_scatter", float_windows),)


@op(dtypes=REAL, promote=(), broadcasts=False, shape=lambda y, indices, *, size: (*y[:2], *size))
def pool_scatter(xp, y, indices, *, size):
    if fast := chosen(_SCATTER, xp, y):
        return fast(y, indices, size=size)
    cells = math.prod(size)
    y = xp.where(indices < cells, y, y.dtype.type(0))  # a window of dilated cells may lie in the padding as a whole
    flat = xp.bincount(_at(xp, indices, cells), weights=y.reshape(-1), minlength=math.prod(y.shape[:2]) * cells)
    return flat.astype(y.dtype).reshape(*y.shape[:2], *size)


@pool_scatter.vjp("y")
def _(g, indices):
    return pool_gather(g, indices)


@op(dtypes=REAL, promote=(), broadcasts=False, shape=lambda x, indices: indices)
def pool_gather(xp, x, indices):
    cells = math.prod(x.shape[2:])
    values = x.reshape(-1)[_at(xp, indices, cells)].reshape(indices.shape)
    return xp.where(indices < cells, values, x.dtype.type(0))


@pool_gather.vjp("x")
def _(g, x_shape, indices):
    return pool_scatter(g, indices, size=tuple(x_shape[2:]))


def _max_pool_nd(name: str, nd: int, input: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
                 ceil_mode: bool, indices: bool) -> Any:  # fmt: skip
    if not indices and (how := plain_windows(nd, input, kernel_size, stride, padding, dilation, bool(ceil_mode))):
        fast = chosen(_max_pool.kernels, np, input._a, **how)
        if fast is not None:
            return record_results(_max_pool, (input,), (input._a,), how, (fast(input._a, **how),))[0]
    single, x, sizes = window_of(
        name, nd, input, kernel_size=kernel_size, stride=stride, padding=padding, dilation=dilation
    )
    how = dict(zip(("kernel", "stride", "padding", "dilation"), sizes, strict=True), ceil_mode=bool(ceil_mode))
    check_size(x, _max_shape(x._a.shape, **how))
    if indices:
        out, at = max_pool_with_indices(x, **how)
        return (out.squeeze(0), at.squeeze(0)) if single else (out, at)
    out = _max_pool(x, **how)
    return out.squeeze(0) if single else out


@overload
def max_pool1d(
    input: Tensor, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, dilation: Ints = 1,
    ceil_mode: bool = False, return_indices: Literal[False] = False,
) -> Tensor: ...  # fmt: skip
@overload
def max_pool1d(
    input: Tensor, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, dilation: Ints = 1,
    ceil_mode: bool = False, *, return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
@overload
def max_pool1d(
    input: Tensor, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, dilation: Ints = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]: ...  # fmt: skip
@calls_by_shape
def max_pool1d(
    input: Tensor, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, dilation: Ints = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """Maximum of each window of a 1-D signal; NaN is larger than every number.

    Args:
        stride: distance of the windows; None is `kernel_size`.
        padding: cells of -inf at both ends, at most half of `kernel_size`.
        ceil_mode: round the number of windows up: the last one may reach beyond the end.
        return_indices: return also the position of each maximum along L, int64.
    Shape: input (N, C, L) or (C, L); result (N, C, L') or (C, L') with
        L' = (L + 2 padding - dilation (kernel_size - 1) - 1) // stride + 1.
    Raises:
        RuntimeError: when sizes do not fit.

    >>> import tdt
    >>> tdt.max_pool1d(tdt.tensor([[1.0, 2.0, 3.0, 4.0]]), 2)
    tensor([[2., 4.]])
    """
    if not return_indices:
        check_category("max_pool1d", FLOATING, input.dtype)
    return _max_pool_nd("max_pool1d", 1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@overload
def max_pool2d(
    input: Tensor, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, dilation: Ints = 1,
    ceil_mode: bool = False, return_indices: Literal[False] = False,
) -> Tensor: ...  # fmt: skip
@overload
def max_pool2d(
    input: Tensor, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, dilation: Ints = 1,
    ceil_mode: bool = False, *, return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
@overload
def max_pool2d(
    input: Tensor, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, dilation: Ints = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]: ...  # fmt: skip
@calls_by_shape
@node_name("MaxPool2DWithIndicesBackward0")
def max_pool2d(
    input: Tensor, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, dilation: Ints = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """Maximum of each window of images; NaN is larger than every number.

    Args:
        kernel_size, stride, padding, dilation: one number, or (height, width).
        stride: distance of the windows; None is `kernel_size`.
        padding: cells of -inf on all sides, at most half of `kernel_size`.
        ceil_mode: round the number of windows up: the last one may reach beyond the end.
        return_indices: return also the position of each maximum in the flattened H × W, int64; the first of equal ones.
    Shape: input (N, C, H, W) or (C, H, W); result (N, C, H', W') or (C, H', W') with
        H' = (H + 2 padding - dilation (kernel_size - 1) - 1) // stride + 1, W' likewise.
    Raises:
        RuntimeError: when sizes do not fit.

    >>> import tdt
    >>> tdt.max_pool2d(tdt.tensor([[[1.0, 2.0], [3.0, 4.0]]]), 2)
    tensor([[[4.]]])
    """
    return _max_pool_nd("max_pool2d", 2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@overload
def max_pool3d(
    input: Tensor, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, dilation: Ints = 1,
    ceil_mode: bool = False, return_indices: Literal[False] = False,
) -> Tensor: ...  # fmt: skip
@overload
def max_pool3d(
    input: Tensor, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, dilation: Ints = 1,
    ceil_mode: bool = False, *, return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
@overload
def max_pool3d(
    input: Tensor, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, dilation: Ints = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]: ...  # fmt: skip
@calls_by_shape
@node_name("MaxPool3DWithIndicesBackward0")
def max_pool3d(
    input: Tensor, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, dilation: Ints = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """Maximum of each window of volumes; NaN is larger than every number.

    Args:
        kernel_size, stride, padding, dilation: one number, or (depth, height, width).
        stride: distance of the windows; None is `kernel_size`.
        padding: cells of -inf on all sides, at most half of `kernel_size`.
        ceil_mode: round the number of windows up: the last one may reach beyond the end.
        return_indices: return also the position of each maximum in the flattened D × H × W, int64; the first of equal ones.
    Shape: input (N, C, D, H, W) or (C, D, H, W); result (N, C, D', H', W') or (C, D', H', W'), each size as for
        `max_pool1d`.
    Raises:
        RuntimeError: when sizes do not fit.

    >>> import tdt
    >>> tdt.max_pool3d(tdt.arange(8.0).reshape(1, 2, 2, 2), 2)
    tensor([[[[7.]]]])
    """
    return _max_pool_nd("max_pool3d", 3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool1d_with_indices(
    input: Tensor, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, dilation: Ints = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`max_pool1d` with the position of each maximum.

    Args:
        return_indices: has no effect.
    Shape: input (N, C, L) or (C, L); both results (N, C, L') or (C, L') as for `max_pool1d`.
    Returns: the maxima, and their positions along L, int64.

    >>> import tdt
    >>> tdt.max_pool1d_with_indices(tdt.tensor([[1.0, 2.0, 4.0, 3.0]]), 2)
    (tensor([[2., 4.]]), tensor([[1, 2]]))
    """
    return _max_pool_nd("max_pool1d", 1, input, kernel_size, stride, padding, dilation, ceil_mode, True)


def max_pool2d_with_indices(
    input: Tensor, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, dilation: Ints = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`max_pool2d` with the position of each maximum.

    Args:
        return_indices: has no effect.
    Shape: input (N, C, H, W) or (C, H, W); both results (N, C, H', W') or (C, H', W') as for `max_pool2d`.
    Returns: the maxima, and their positions in the flattened H × W, int64.

    >>> import tdt
    >>> tdt.nn.functional.max_pool2d_with_indices(tdt.tensor([[[1.0, 2.0], [4.0, 3.0]]]), 2)
    (tensor([[[4.]]]), tensor([[[2]]]))
    """
    return _max_pool_nd("max_pool2d", 2, input, kernel_size, stride, padding, dilation, ceil_mode, True)


def max_pool3d_with_indices(
    input: Tensor, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, dilation: Ints = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`max_pool3d` with the position of each maximum.

    Args:
        return_indices: has no effect.
    Shape: input (N, C, D, H, W) or (C, D, H, W); both results (N, C, D', H', W') or (C, D', H', W') as for `max_pool3d`.
    Returns: the maxima, and their positions in the flattened D × H × W, int64.

    >>> import tdt
    >>> tdt.nn.functional.max_pool3d_with_indices(tdt.arange(8.0).reshape(1, 2, 2, 2), 2)[1]
    tensor([[[[7]]]])
    """
    return _max_pool_nd("max_pool3d", 3, input, kernel_size, stride, padding, dilation, ceil_mode, True)


__all__ = ["max_pool1d", "max_pool1d_with_indices", "max_pool2d", "max_pool3d"]
