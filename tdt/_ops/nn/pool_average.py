"""Average pooling in any number of dimensions: the mean of the cells under a window, or their root mean power.

avg_pool and avg_pool_grad are each other's gradient.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tdt import _backend
from tdt._backend.layout import empty_output, output_is_channels_last, to_last
from tdt._backend.waiting import repeatable
from tdt._backend.windows import output_sizes
from tdt._core.dtype import FLOATING, check_category, int64
from tdt._core.tensor import Tensor
from tdt._kernels import chosen, float_images, gpu_images, gpu_kernel, kernel, large_last, lazy, prepares, tiled_volumes
from tdt._ops._common import Ints, at_once, store_into
from tdt._ops.elementwise.piecewise import relu
from tdt._ops.nn._pooling import adaptive_size, check_size, framed, full_size, place, plain_windows, window_of
from tdt._ops.nn._resampling import Axis
from tdt._ops.nn._windows import tuple_of
from tdt._ops.nn.pool_max import max_pool1d, max_pool2d, max_pool3d
from tdt._ops.nn.resample import resample
from tdt.autograd._autocast import by_rank_of_pool
from tdt.autograd._node_names import by_windows, node_name
from tdt.autograd._op import op
from tdt.autograd._record import record_results
from tdt.autograd._remembered import calls_by_shape


def _avg_shape(x: tuple, *, kernel: tuple, stride: tuple, padding: tuple, ceil_mode: bool, **rest: Any) -> tuple:
    return (*x[:2], *output_sizes(x[2:], kernel, stride, padding, (1,) * len(kernel), ceil_mode))


def _divisor(xp: Any, size: tuple, out: tuple, kernel: tuple, stride: tuple, padding: tuple, include_pad: bool,
             divisor: int | None, dtype: Any) -> Any:  # fmt: skip
    """The divisor of each window's sum: the number of its cells, with or without those in the padding."""
    if divisor is not None:
        return dtype.type(divisor)
    counts = _counts(size, out, kernel, stride, padding, include_pad, dtype)
    return counts if counts.ndim == 0 else xp.asarray(counts)


@functools.lru_cache(64)
def _counts(
    size: tuple, out: tuple, kernel: tuple, stride: tuple, padding: tuple, include_pad: bool, dtype: Any
) -> Any:
    """The number of cells of each window; one number where all have the same."""
    counts: Any = np.ones((), dtype)
    for n, o, k, s, p in zip(size, out, kernel, stride, padding, strict=True):
        start = np.arange(o) * s - p
        end = np.minimum(start + k, n + p)
        cells = end - start if include_pad else np.minimum(end, n) - np.maximum(start, 0)
        counts = counts[..., None] * cells.astype(dtype)
    first = counts.flat[0] if counts.size else dtype.type(1)
    return first if (counts == first).all() else counts  # a number is faster than a table of it


_MEANS = (
    kernel("plane_pool_cpu:window_means", float_images),
    kernel("volume_pool_cpu:window_means", tiled_volumes),
)
_MEANS_GRAD = (
    kernel("plane_pool_cpu:window_means_vjp", float_images),
    kernel("volume_pool_cpu:window_means_vjp", tiled_volumes),
)


_GPU_MEANS, _GPU_MEANS_GRAD = ((gpu_kernel(f"pool_gpu:{name}", gpu_images),) for name in ("mean_pool", "mean_pool_vjp"))


@functools.lru_cache(256)
def _divisors(
    size: tuple, out: tuple, kernel: tuple, stride: tuple, padding: tuple, include_pad: bool, divisor: int | None
) -> Any:
    """`_divisor` for the kernels of float32: a vector of one number, or of one for each window."""
    found = _divisor(np, size, out, kernel, stride, padding, include_pad, divisor, np.dtype(np.float32))
    return np.ascontiguousarray(found, np.float32).reshape(-1)


@functools.lru_cache(1024)
def _sizes_of(
    shape: tuple, kernel: tuple, stride: tuple, padding: tuple, ceil_mode: bool, include_pad: bool, divisor: int | None
) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """The divisors of images of a shape, the kernel's other arguments, and the attributes of the op."""
    out = output_sizes(shape[2:], kernel, stride, padding, (1,) * len(kernel), ceil_mode)
    by = _divisors(shape[2:], out, kernel, stride, padding, include_pad, divisor)
    windows = {"kernel": kernel, "stride": stride, "padding": padding}
    attributes = {**windows, "ceil_mode": ceil_mode, "include_pad": include_pad, "divisor": divisor}
    return by, {**windows, "out": out}, attributes


@op(
    dtypes=FLOATING | {int64},
    shape=_avg_shape,
    node=by_windows("AvgPool{}DBackward0"),
    autocast=by_rank_of_pool,
    linked=True,
)
@repeatable
def _avg_pool(xp, x, *, kernel, stride, padding, ceil_mode, include_pad, divisor):
    shape = _avg_shape(x.shape, kernel=kernel, stride=stride, padding=padding, ceil_mode=ceil_mode)
    how = {"kernel": kernel, "stride": stride, "padding": padding}
    if fast := chosen(_MEANS, xp, x, ceil_mode=ceil_mode, **how):
        by = _divisors(x.shape[2:], shape[2:], kernel, stride, padding, include_pad, divisor)
        return fast(x, by, out=shape[2:], **how)
    if xp is not np and (fast := chosen(_GPU_MEANS, xp, x)) and math.prod(shape):
        return fast(x, shape[2:], include_pad, divisor, **how)
    total = _sums(xp, x, kernel, stride, padding, shape[2:])
    out = empty_output(xp, shape, x.dtype, x)
    by = _divisor(xp, x.shape[2:], shape[2:], kernel, stride, padding, include_pad, divisor, x.dtype)
    if x.dtype.kind == "i":
        out[...] = xp.trunc(total / by)
        return out
    return xp.divide(total, by, out=out)


_PREPARED, _PREPARED_VOLUMES = lazy("plane_pool_cpu:prepared_means"), lazy("volume_pool_cpu:prepared_means")


@prepares(_avg_pool.forward, large=True)
def _(x, *, kernel, stride, padding, ceil_mode, include_pad, divisor, recorded):
    windows = {"kernel": kernel, "stride": stride, "padding": padding, "ceil_mode": ceil_mode}
    if x.ndim < 3 or not chosen(_MEANS, np, x, **windows):
        return None
    by, how, _ = _sizes_of(x.shape, **windows, include_pad=include_pad, divisor=divisor)
    return _PREPARED(x, by, **how) if x.ndim < 5 else _PREPARED_VOLUMES(x, by)


_WINDOW_SUMS = (kernel("pool_cpu:window_sums", large_last),)
_WINDOW_SPREAD = (kernel("pool_cpu:window_spread", large_last),)


def _sums(xp: Any, x: Any, kernel: tuple, stride: tuple, padding: tuple, out: tuple) -> Any:
    """The sum of each window."""
    if _is_whole(x.shape[2:], out, kernel, padding):
        if output_is_channels_last(x):
            return to_last(x).reshape(x.shape[0], -1, x.shape[1]).sum(1).reshape(*x.shape[:2], *out)
        cells = math.prod(kernel)  # a product with ones takes a quarter of the time of sums over so few
        if xp is not np:
            return _backend.total(x.reshape(-1, cells), 1).reshape(*x.shape[:2], *out)
        return (x.reshape(-1, cells) @ np.ones(cells, x.dtype)).reshape(*x.shape[:2], *out)
    how = {"kernel": kernel, "stride": stride, "padding": padding}
    if fast := chosen(_WINDOW_SUMS, xp, x, out=out, **how):
        return fast(x, out=out, **how)
    full = full_size(x.shape[2:], out, kernel, stride, padding, (1,) * len(kernel))
    return _window_sums(framed(xp, x, full, padding, 0), kernel, stride, out)


def _is_whole(size: tuple, out: tuple, kernel: tuple, padding: tuple) -> bool:
    """Whether there is one window, the whole input."""
    return kernel == size and not any(padding) and out == (1,) * len(out)


def _window_sums(x: Any, kernel: tuple, stride: tuple, out: tuple) -> Any:
    """The sum of each window of (N, C, *spatial), one dimension after the other: k + k additions instead of k · k."""
    for d, (k, s, n) in enumerate(zip(kernel, stride, out, strict=True), 2):
        cells = [x[_along(d, i, s, n)] for i in range(k)]
        x = cells[0] + 0  # a sum of -0 is 0
        for other in cells[1:]:
            x += other
    return x


@functools.lru_cache(1024)
def _along(d: int, start: int, step: int, count: int) -> tuple:
    """The index of every `step`-th entry along dimension d."""
    return (*(slice(None),) * d, slice(start, start + (count - 1) * step + 1, step))


@_avg_pool.vjp("x")
def _(g, x_shape, kernel, stride, padding, ceil_mode, include_pad, divisor):
    return avg_pool_grad(g, size=tuple(x_shape[2:]), kernel=kernel, stride=stride, padding=padding, ceil_mode=ceil_mode,
                         include_pad=include_pad, divisor=divisor)  # fmt: skip


@_avg_pool.fast_vjp("x")
@repeatable
def _(xp, g, x_shape, kernel, stride, padding, ceil_mode, include_pad, divisor):
    return avg_pool_grad.forward(xp, g, size=x_shape[2:], kernel=kernel, stride=stride, padding=padding, ceil_mode=ceil_mode,
                                 include_pad=include_pad, divisor=divisor)  # fmt: skip


@_avg_pool.prepares_vjp("x")
def _(xp, g, x_shape, kernel, stride, padding, ceil_mode, include_pad, divisor):
    size = tuple(x_shape[2:])
    how = {"size": size, "kernel": kernel, "stride": stride, "padding": padding}
    prepare = getattr(chosen(_MEANS_GRAD, xp, g, ceil_mode=ceil_mode, **how), "prepare", None)
    return prepare and prepare(g, _divisors(size, g.shape[2:], kernel, stride, padding, include_pad, divisor), **how)


@op(dtypes=FLOATING, shape=lambda y, *, size, **how: (*y[:2], *size))
def avg_pool_grad(xp, y, *, size, kernel, stride, padding, ceil_mode, include_pad, divisor):
    out = y.shape[2:]
    how = {"size": tuple(size), "kernel": kernel, "stride": stride, "padding": padding}
    y = xp.ascontiguousarray(y) if 0 in y.strides else y
    if fast := chosen(_MEANS_GRAD, xp, y, ceil_mode=ceil_mode, **how):
        return fast(y, _divisors(how["size"], out, kernel, stride, padding, include_pad, divisor), **how)
    if xp is not np and (fast := chosen(_GPU_MEANS_GRAD, xp, y)) and math.prod(size):
        return fast(y, include_pad=include_pad, divisor=divisor, **how)
    full = full_size(size, out, kernel, stride, padding, (1,) * len(kernel))
    grad = y / _divisor(xp, size, out, kernel, stride, padding, include_pad, divisor, y.dtype)
    if _is_whole(size, out, kernel, padding):
        return xp.broadcast_to(grad, (*y.shape[:2], *size)).copy()
    if fast := chosen(_WINDOW_SPREAD, xp, grad, **how):
        return fast(grad, **how)
    for d, (k, s, n) in enumerate(zip(kernel, stride, out, strict=True), 2):
        share = grad
        grad = empty_output(xp, (*y.shape[:2], *full[: d - 1], *out[d - 1 :]), y.dtype, y)
        grad[...] = 0
        for i in range(k):
            grad[_along(d, i, s, n)] += share
    return grad[place(size, padding)]


@avg_pool_grad.vjp("y")
def _(g, kernel, stride, padding, ceil_mode, include_pad, divisor):
    return _avg_pool(
        g, kernel=kernel, stride=stride, padding=padding, ceil_mode=ceil_mode, include_pad=include_pad, divisor=divisor
    )


def _avg_pool_nd(name: str, nd: int, input: Tensor, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool,
                 count_include_pad: bool, divisor_override: int | None, out: Tensor | None = None) -> Tensor:  # fmt: skip
    if divisor_override == 0:
        raise RuntimeError("divisor must be not zero")
    if out is None and (how := plain_windows(nd, input, kernel_size, stride, padding, 1, bool(ceil_mode))):
        a = input._a
        if fast := chosen(_MEANS, np, a, **how):
            by, numbers, how = _sizes_of(
                a.shape,
                how["kernel"],
                how["stride"],
                how["padding"],
                how["ceil_mode"],
                bool(count_include_pad),
                divisor_override,
            )
            return record_results(_avg_pool, (input,), (a,), how, (fast(a, by, **numbers),))[0]
    single, x, sizes = window_of(name, nd, input, kernel_size=kernel_size, stride=stride, padding=padding)
    how = dict(zip(("kernel", "stride", "padding"), sizes, strict=True), ceil_mode=bool(ceil_mode))
    check_size(x, _avg_shape(x._a.shape, **how))
    result = _avg_pool(x, **how, include_pad=bool(count_include_pad), divisor=divisor_override)
    result = result.squeeze(0) if single else result
    return result if out is None else store_into(out, result, exact=True)


@calls_by_shape
def avg_pool1d(
    input: Tensor, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:  # fmt: skip
    """Mean of each window of a 1-D signal.

    Args:
        stride: distance of the windows; None is `kernel_size`.
        padding: cells of 0 at both ends, at most half of `kernel_size`.
        ceil_mode: round the number of windows up: the last one may reach beyond the end.
        count_include_pad: count cells of the padding in the mean.
    Shape: input (N, C, L) or (C, L); result (N, C, L') or (C, L') with
        L' = (L + 2 padding - kernel_size) // stride + 1.
    Raises:
        RuntimeError: when sizes do not fit.

    >>> import tdt
    >>> tdt.avg_pool1d(tdt.tensor([[1.0, 2.0, 3.0, 4.0]]), 2)
    tensor([[1.5000, 3.5000]])
    """
    return _avg_pool_nd("avg_pool1d", 1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


@calls_by_shape
def avg_pool2d(
    input: Tensor, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None, *, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Mean of each window of images.

    Args:
        kernel_size, stride, padding: one number, or (height, width).
        stride: distance of the windows; None is `kernel_size`.
        padding: cells of 0 on all sides, at most half of `kernel_size`.
        ceil_mode: round the number of windows up: the last one may reach beyond the end.
        count_include_pad: count cells of the padding in the mean.
        divisor_override: divide each window's sum by this instead of by its number of cells.
    Shape: input (N, C, H, W) or (C, H, W); result (N, C, H', W') or (C, H', W') with
        H' = (H + 2 padding - kernel_size) // stride + 1, W' likewise.
    Raises:
        RuntimeError: when sizes do not fit, or `divisor_override` is 0.

    >>> import tdt
    >>> tdt.nn.functional.avg_pool2d(tdt.tensor([[[1.0, 2.0], [3.0, 4.0]]]), 2)
    tensor([[[2.5000]]])
    """
    return _avg_pool_nd(
        "avg_pool2d", 2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, out
    )


@calls_by_shape
def avg_pool3d(
    input: Tensor, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None, *, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Mean of each window of volumes.

    Args:
        kernel_size, stride, padding: one number, or (depth, height, width).
        stride: distance of the windows; None is `kernel_size`.
        padding: cells of 0 on all sides, at most half of `kernel_size`.
        ceil_mode: round the number of windows up: the last one may reach beyond the end.
        count_include_pad: count cells of the padding in the mean.
        divisor_override: divide each window's sum by this instead of by its number of cells.
    Shape: input (N, C, D, H, W) or (C, D, H, W); result (N, C, D', H', W') or (C, D', H', W') with
        D' = (D + 2 padding - kernel_size) // stride + 1, H' and W' likewise.
    Raises:
        RuntimeError: when sizes do not fit, or `divisor_override` is 0.

    >>> import tdt
    >>> tdt.nn.functional.avg_pool3d(tdt.arange(8.0).reshape(1, 2, 2, 2), 2)
    tensor([[[[3.5000]]]])
    """
    return _avg_pool_nd(
        "avg_pool3d", 3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, out
    )


def _adaptive_avg_pool_nd(name: str, nd: int, input: Tensor, output_size: Any) -> Tensor:
    if output_size == 1 or output_size == (1,) * nd:
        try:
            whole = input._a.shape[2:]
        except AttributeError:
            whole = ()
        if len(whole) == nd and 0 not in input._a.shape and at_once(input):
            if nd < 3 and chosen(_MEANS, np, input._a, kernel=whole):
                return _avg_pool_nd(name, nd, input, whole, whole, 0, False, True, None)
    out = adaptive_size(name, nd, input, output_size)
    check_category(name, FLOATING, input.dtype)
    size = input._a.shape[-nd:]
    if 0 not in out and not any(n % o for n, o in zip(size, out, strict=True)):
        kernel = tuple([n // o for n, o in zip(size, out, strict=True)])
        return _avg_pool_nd(name, nd, input, kernel, kernel, 0, False, True, None)
    single = input.ndim == nd + 1
    axes = tuple(None if n == o else Axis(n, o, "mean") for n, o in zip(size, out, strict=True))
    result = resample(input.unsqueeze(0) if single else input, axes=axes)
    return result.squeeze(0) if single else result


@calls_by_shape
def adaptive_avg_pool1d(input: Tensor, output_size: Ints) -> Tensor:
    """Mean over `output_size` windows that cover the input evenly.

    Shape: input (N, C, L) or (C, L); result (N, C, output_size) or (C, output_size).
    Raises:
        RuntimeError: when shapes do not fit.

    >>> import tdt
    >>> tdt.adaptive_avg_pool1d(tdt.tensor([[1.0, 2.0, 3.0, 4.0]]), 2)
    tensor([[1.5000, 3.5000]])
    """
    return _adaptive_avg_pool_nd("adaptive_avg_pool1d", 1, input, output_size)


@calls_by_shape
@node_name("AdaptiveAvgPool2DBackward0")
def adaptive_avg_pool2d(input: Tensor, output_size: int | Sequence[int | None] | None) -> Tensor:
    """Mean over windows that cover the input evenly, so that the result has the size `output_size`.

    Along a dimension of n cells and m windows, window i covers the cells ⌊i n / m⌋ to ⌈(i + 1) n / m⌉.

    Args:
        output_size: (OH, OW), or one number for both; None keeps the input's size.
    Shape: input (N, C, H, W) or (C, H, W); result (N, C, OH, OW) or (C, OH, OW).
    Raises:
        RuntimeError: when shapes do not fit.

    >>> import tdt
    >>> tdt.nn.functional.adaptive_avg_pool2d(tdt.tensor([[[1.0, 2.0], [3.0, 4.0]]]), 1)
    tensor([[[2.5000]]])
    """
    return _adaptive_avg_pool_nd("adaptive_avg_pool2d", 2, input, output_size)


@calls_by_shape
@node_name("AdaptiveAvgPool3DBackward0")
def adaptive_avg_pool3d(input: Tensor, output_size: int | Sequence[int | None] | None) -> Tensor:
    """Mean over windows that cover the input evenly, so that the result has the size `output_size`.

    Args:
        output_size: (OD, OH, OW), or one number for all; None keeps the input's size.
    Shape: input (N, C, D, H, W) or (C, D, H, W); result (N, C, OD, OH, OW) or (C, OD, OH, OW).
    Raises:
        RuntimeError: when shapes do not fit.

    >>> import tdt
    >>> tdt.nn.functional.adaptive_avg_pool3d(tdt.arange(8.0).reshape(1, 2, 2, 2), 1)
    tensor([[[[3.5000]]]])
    """
    return _adaptive_avg_pool_nd("adaptive_avg_pool3d", 3, input, output_size)


def _lp_pool_nd(nd: int, input: Tensor, norm_type: Any, kernel_size: Any, stride: Any, ceil_mode: bool) -> Tensor:
    if norm_type in (math.inf, -math.inf):
        sign = 1 if norm_type > 0 else -1
        return sign * MAX_POOL[nd](sign * input.abs(), kernel_size, stride, 0, 1, ceil_mode)
    cells = math.prod(tuple_of(kernel_size, nd, "kernel_size"))
    mean = AVG_POOL[nd](input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
    # relu does not change the value, and stops the infinite gradient of the root at 0.
    return (mean.sign() * relu(mean.abs()) * cells).pow(1.0 / norm_type)


def lp_pool1d(
    input: Tensor, norm_type: int | float, kernel_size: Ints, stride: Ints | None = None, ceil_mode: bool = False
) -> Tensor:
    """(Σ xᵖ)^(1/p) over each window of a 1-D signal, p = `norm_type`.

    Args:
        norm_type: 1 gives the sum, ∞ the largest |x|. Where the sum is 0, so is the gradient.
        stride: distance of the windows; None is `kernel_size`.
        ceil_mode: round the number of windows up: the last one may reach beyond the end.
    Shape: input (N, C, L) or (C, L); result (N, C, L') or (C, L') with L' = (L - kernel_size) // stride + 1.
    Raises:
        RuntimeError: when sizes do not fit.

    >>> import tdt
    >>> tdt.nn.functional.lp_pool1d(tdt.tensor([[3.0, 4.0, 6.0, 8.0]]), 2, 2)
    tensor([[ 5., 10.]])
    """
    return _lp_pool_nd(1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: Tensor, norm_type: int | float, kernel_size: Ints, stride: Ints | None = None, ceil_mode: bool = False
) -> Tensor:
    """(Σ xᵖ)^(1/p) over each window of images, p = `norm_type`.

    Args:
        norm_type: 1 gives the sum, ∞ the largest |x|. Where the sum is 0, so is the gradient.
        kernel_size, stride: one number, or (height, width).
        stride: distance of the windows; None is `kernel_size`.
        ceil_mode: round the number of windows up: the last one may reach beyond the end.
    Shape: input (N, C, H, W) or (C, H, W); result (N, C, H', W') or (C, H', W') with
        H' = (H - kernel_size) // stride + 1, W' likewise.
    Raises:
        RuntimeError: when sizes do not fit.

    >>> import tdt
    >>> tdt.nn.functional.lp_pool2d(tdt.tensor([[[1.0, 1.0], [1.0, 1.0]]]), 2, 2)
    tensor([[[2.]]])
    """
    return _lp_pool_nd(2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    input: Tensor, norm_type: int | float, kernel_size: Ints, stride: Ints | None = None, ceil_mode: bool = False
) -> Tensor:
    """(Σ xᵖ)^(1/p) over each window of volumes, p = `norm_type`.

    Args:
        norm_type: 1 gives the sum, ∞ the largest |x|. Where the sum is 0, so is the gradient.
        kernel_size, stride: one number, or (depth, height, width).
        stride: distance of the windows; None is `kernel_size`.
        ceil_mode: round the number of windows up: the last one may reach beyond the end.
    Shape: input (N, C, D, H, W) or (C, D, H, W); result (N, C, D', H', W') or (C, D', H', W') with
        D' = (D - kernel_size) // stride + 1, H' and W' likewise.
    Raises:
        RuntimeError: when sizes do not fit.

    >>> import tdt
    >>> tdt.nn.functional.lp_pool3d(tdt.ones(1, 2, 2, 2), 1, 2)
    tensor([[[[8.]]]])
    """
    return _lp_pool_nd(3, input, norm_type, kernel_size, stride, ceil_mode)


AVG_POOL = {1: avg_pool1d, 2: avg_pool2d, 3: avg_pool3d}
MAX_POOL = {1: max_pool1d, 2: max_pool2d, 3: max_pool3d}

__all__ = ["adaptive_avg_pool1d", "avg_pool1d"]
