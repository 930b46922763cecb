"""Pooling in any number of dimensions: the largest or the mean of the cells under a window.

max_pool gives the values alone; max_pool_with_indices also where they were. pool_scatter and pool_gather, which
move values to and from such indices, are each other's gradient, as are avg_pool and avg_pool_grad.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tdt import _kernels
from tdt._dtype import FLOATING, REAL, REAL_NUMBERS, check_category, int64
from tdt._ops._common import store_into
from tdt._ops._windows import empty_as, is_channels_last, offsets, out_size, reached, tuple_of
from tdt._tensor import Tensor, wrap
from tdt.autograd._op import op


def _out(size: tuple, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple, ceil_mode: bool) -> tuple:
    return tuple(
        out_size(n, k, s, p, p, d, ceil_mode)
        for n, k, s, p, d in zip(size, kernel, stride, padding, dilation, strict=True)
    )


def _full(size: tuple, out: tuple, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple) -> tuple:
    """The input's spatial size with its borders, far enough for the last window."""
    return tuple(max(n + 2 * p, (o - 1) * s + d * (k - 1) + 1)
                 for n, o, k, s, p, d in zip(size, out, kernel, stride, padding, dilation, strict=True))  # fmt: skip


def _framed(xp: Any, x: Any, full: tuple, padding: tuple, fill: Any) -> Any:
    """`x` in the corner that `padding` says of an array of spatial size `full`, filled with `fill` around it."""
    if full == x.shape[2:]:
        return x
    framed = empty_as(xp, (*x.shape[:2], *full), x.dtype, is_channels_last(x))
    framed[...] = fill
    framed[_place(x.shape[2:], padding)] = x
    return framed


def _place(size: tuple, padding: tuple) -> tuple:
    return (slice(None), slice(None), *(slice(p, p + n) for n, p in zip(size, padding, strict=True)))


def _lowest(dtype: Any) -> Any:
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def _max_shape(x: tuple, *, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple, ceil_mode: bool) -> tuple:
    return (*x[:2], *_out(x[2:], kernel, stride, padding, dilation, ceil_mode))


@op(dtypes=REAL_NUMBERS, shape=_max_shape)
def _max_pool(xp, x, *, kernel, stride, padding, dilation, ceil_mode):
    shape = _max_shape(x.shape, kernel=kernel, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil_mode)
    full = _full(x.shape[2:], shape[2:], kernel, stride, padding, dilation)
    framed = _framed(xp, x, full, padding, _lowest(x.dtype))
    out = empty_as(xp, shape, x.dtype, is_channels_last(x))
    first = None
    for count, k in enumerate(offsets(kernel)):
        cells = framed[reached(k, stride, dilation, shape[2:])]
        if count == 0:
            first = cells
        else:
            xp.maximum(first if count == 1 else out, cells, out=out)
    if math.prod(kernel) == 1:
        out[...] = first
    return out


@_max_pool.vjp("x")
def _(g, x, kernel, stride, padding, dilation, ceil_mode):
    how = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation, "ceil_mode": ceil_mode}
    return pool_scatter(g, max_pool_with_indices(x.detach(), **how)[1], size=tuple(x.shape[2:]))


@_max_pool.fast_vjp("x")
def _(xp, g, x, out, kernel, stride, padding, dilation, ceil_mode):
    """The first cell in each window that equals the maximum takes the gradient; where none does (NaN), the last."""
    how = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation, "ceil_mode": ceil_mode}
    fast = _kernels.find("max_pool.vjp.x", "cpu" if xp is np else "cuda", (g, out, x), how)
    if fast:
        return fast(g, out, x, **how)
    size, last = x.shape[2:], is_channels_last(x)
    full = _full(size, out.shape[2:], kernel, stride, padding, dilation)
    framed = _framed(xp, x, full, padding, _lowest(x.dtype))
    if last and not is_channels_last(g):
        ordered = empty_as(xp, g.shape, g.dtype, True)
        ordered[...] = g
        g = ordered
    grad = empty_as(xp, framed.shape, g.dtype, last)
    # Windows that tile the input: every cell is written once, so nothing has to be zeroed and added.
    tiles = stride == kernel and full == tuple(o * k for o, k in zip(out.shape[2:], kernel, strict=True))
    if not tiles:
        grad[...] = 0
    free, final = None, tuple(k - 1 for k in kernel)
    for k in offsets(kernel):
        at = reached(k, stride, dilation, out.shape[2:])
        if k == final:
            hit = xp.ones(out.shape, bool) if free is None else free
        else:
            hit = framed[at] == out
            if free is None:
                free = ~hit
            else:
                hit &= free
                free ^= hit
        if tiles:
            xp.multiply(g, hit, out=grad[at])
        else:
            grad[at] += g * hit
    return grad[_place(size, padding)]


@op(dtypes=REAL_NUMBERS, outputs=("out", "indices"), nondiff=("indices",),
    shape=lambda x, **how: (_max_shape(x, **how), _max_shape(x, **how)))  # fmt: skip
def max_pool_with_indices(xp, x, *, kernel, stride, padding, dilation, ceil_mode):
    size = x.shape[2:]
    shape = _max_shape(x.shape, kernel=kernel, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil_mode)
    full = _full(size, shape[2:], kernel, stride, padding, dilation)
    framed = _framed(xp, x, full, padding, _lowest(x.dtype))
    last = is_channels_last(x)
    out, indices = empty_as(xp, shape, x.dtype, last), empty_as(xp, shape, np.int64, last)
    out[...] = _lowest(x.dtype)
    for count, k in enumerate(offsets(kernel)):
        cells = framed[reached(k, stride, dilation, shape[2:])]
        where = _where(xp, k, size, shape[2:], stride, padding, dilation)
        if count == 0:
            indices[...] = _first(xp, size, shape[2:], stride, padding, dilation)
        better = (cells > out) | (cells != cells)
        xp.copyto(out, cells, where=better)
        xp.copyto(indices, xp.broadcast_to(where, shape), where=better)
    return out, indices


def _where(xp: Any, k: tuple, size: tuple, out: tuple, stride: tuple, padding: tuple, dilation: tuple) -> Any:
    """For every window, the flat index into the input of kernel cell `k`."""
    flat: Any = 0
    for d, n in enumerate(size):
        at = xp.arange(out[d]) * stride[d] + k[d] * dilation[d] - padding[d]
        flat = flat * n + at.reshape(-1, *(1,) * (len(size) - d - 1))
    return flat


def _first(xp: Any, size: tuple, out: tuple, stride: tuple, padding: tuple, dilation: tuple) -> Any:
    """For every window, the flat index of its first cell that lies in the input."""
    flat: Any = 0
    for d, n in enumerate(size):
        at = xp.arange(out[d]) * stride[d] - padding[d]
        at = xp.where(at < 0, at + -(at // dilation[d]) * dilation[d], at)
        flat = flat * n + at.reshape(-1, *(1,) * (len(size) - d - 1))
    return flat


@max_pool_with_indices.vjp("x")
def _(g_out, x_shape, indices):
    return pool_scatter(g_out, indices, size=tuple(x_shape[2:]))


def _at(xp: Any, indices: Any, cells: int) -> Any:
    """Indices within each (sample, channel) as indices into the whole array."""
    rows = math.prod(indices.shape[:2])
    return (indices.reshape(rows, math.prod(indices.shape[2:])) + xp.arange(rows)[:, None] * cells).reshape(-1)


@op(dtypes=REAL, promote=(), broadcasts=False, shape=lambda y, indices, *, size: (*y[:2], *size))
def pool_scatter(xp, y, indices, *, size):
    cells = math.prod(size)
    flat = xp.bincount(_at(xp, indices, cells), weights=y.reshape(-1), minlength=math.prod(y.shape[:2]) * cells)
    return flat.astype(y.dtype).reshape(*y.shape[:2], *size)


@pool_scatter.vjp("y")
def _(g, indices):
    return pool_gather(g, indices)


@op(dtypes=REAL, promote=(), broadcasts=False, shape=lambda x, indices: indices)
def pool_gather(xp, x, indices):
    return x.reshape(-1)[_at(xp, indices, math.prod(x.shape[2:]))].reshape(indices.shape)


@pool_gather.vjp("x")
def _(g, x_shape, indices):
    return pool_scatter(g, indices, size=tuple(x_shape[2:]))


def _avg_shape(x: tuple, *, kernel: tuple, stride: tuple, padding: tuple, ceil_mode: bool, **rest: Any) -> tuple:
    return (*x[:2], *_out(x[2:], kernel, stride, padding, (1,) * len(kernel), ceil_mode))


def _divisor(xp: Any, size: tuple, out: tuple, kernel: tuple, stride: tuple, padding: tuple, include_pad: bool,
             divisor: int | None, dtype: Any) -> Any:  # fmt: skip
    """By what each window's sum is divided: its cells, with or without those in the border."""
    if divisor is not None:
        return dtype.type(divisor)
    counts: Any = np.ones((), dtype)
    for n, o, k, s, p in zip(size, out, kernel, stride, padding, strict=True):
        start = np.arange(o) * s - p
        end = np.minimum(start + k, n + p)
        cells = end - start if include_pad else np.minimum(end, n) - np.maximum(start, 0)
        counts = counts[..., None] * cells.astype(dtype)
    return xp.asarray(counts)


@op(dtypes=FLOATING | {int64}, shape=_avg_shape)
def _avg_pool(xp, x, *, kernel, stride, padding, ceil_mode, include_pad, divisor):
    shape = _avg_shape(x.shape, kernel=kernel, stride=stride, padding=padding, ceil_mode=ceil_mode)
    ones = (1,) * len(kernel)
    framed = _framed(xp, x, _full(x.shape[2:], shape[2:], kernel, stride, padding, ones), padding, 0)
    total = _window_sums(framed, kernel, stride, shape[2:])
    out = empty_as(xp, shape, x.dtype, is_channels_last(x))
    by = _divisor(xp, x.shape[2:], shape[2:], kernel, stride, padding, include_pad, divisor, x.dtype)
    out[...] = total / by if x.dtype.kind == "f" else xp.trunc(total / by)
    return out


def _window_sums(x: Any, kernel: tuple, stride: tuple, out: tuple) -> Any:
    """The sum of each window of (N, C, *spatial), one dimension after the other: k + k additions instead of k · k."""
    for d, (k, s, n) in enumerate(zip(kernel, stride, out, strict=True), 2):
        cells = [x[_along(d, i, s, n)] for i in range(k)]
        x = cells[0].copy(order="K")
        for other in cells[1:]:
            x += other
    return x


def _along(d: int, start: int, step: int, count: int) -> tuple:
    """The index of every `step`-th entry along dimension d."""
    return (*(slice(None),) * d, slice(start, start + (count - 1) * step + 1, step))


@_avg_pool.vjp("x")
def _(g, x_shape, kernel, stride, padding, ceil_mode, include_pad, divisor):
    return avg_pool_grad(g, size=tuple(x_shape[2:]), kernel=kernel, stride=stride, padding=padding, ceil_mode=ceil_mode,
                         include_pad=include_pad, divisor=divisor)  # fmt: skip


@op(dtypes=FLOATING, shape=lambda y, *, size, **how: (*y[:2], *size))
def avg_pool_grad(xp, y, *, size, kernel, stride, padding, ceil_mode, include_pad, divisor):
    out, last = y.shape[2:], is_channels_last(y)
    full = _full(size, out, kernel, stride, padding, (1,) * len(kernel))
    grad = y / _divisor(xp, size, out, kernel, stride, padding, include_pad, divisor, y.dtype)
    for d, (k, s, n) in enumerate(zip(kernel, stride, out, strict=True), 2):
        share = grad
        grad = empty_as(xp, (*y.shape[:2], *full[: d - 1], *out[d - 1 :]), y.dtype, last)
        grad[...] = 0
        for i in range(k):
            grad[_along(d, i, s, n)] += share
    return grad[_place(size, padding)]


@avg_pool_grad.vjp("y")
def _(g, kernel, stride, padding, ceil_mode, include_pad, divisor):
    return _avg_pool(
        g, kernel=kernel, stride=stride, padding=padding, ceil_mode=ceil_mode, include_pad=include_pad, divisor=divisor
    )


def _window(name: str, nd: int, input: Tensor, **sizes: Any) -> tuple[bool, Tensor, list[tuple[int, ...]]]:
    """Check and spell out the arguments of a pooling: (is unbatched, batched input, [kernel, stride, padding, …])."""
    if not isinstance(input, Tensor):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    if sizes["stride"] is None or sizes["stride"] == ():
        sizes["stride"] = sizes["kernel_size"]
    values = []
    for what, value in sizes.items():
        try:
            values.append(tuple_of(value, nd, what))
        except RuntimeError as error:
            raise RuntimeError(
                f"{name}: {what} must either be a single int, or a tuple of {nd} ints, but got {value}"
            ) from error
    kernel, stride, padding = values[:3]
    dilation = values[3] if len(values) > 3 else (1,) * nd
    for what, given, words in (
        ("kernel_size", kernel, "kernel size should be greater than zero"),
        ("stride", stride, "stride should not be zero"),
        ("dilation", dilation, "dilation should be greater than zero"),
    ):
        if min(given) <= 0:
            words = f"max_pool1d() {what} must be greater than zero" if name == "max_pool1d" else words
            raise RuntimeError(f"{words}, but got {min(given)}")
    if min(padding) < 0:
        raise RuntimeError(f"pad must be non-negative, but got pad: {min(padding)}")
    for k, p, d in zip(kernel, padding, dilation, strict=True):
        if p > (d * (k - 1) + 1) // 2:
            raise RuntimeError(
                f"pad should be at most half of effective kernel size, but got pad={p}, kernel_size={k} and dilation={d}"
            )
    single = input.ndim == nd + 1
    if (not single and input.ndim != nd + 2) or 0 in input.shape[0 if single else 1 :]:
        raise RuntimeError(f"{name}: non-empty {nd + 1}D or {nd + 2}D (batch mode) tensor expected for input, "
                           f"but got size {list(input.shape)}")  # fmt: skip
    return single, input.unsqueeze(0) if single else input, values


def _check_size(x: Tensor, shape: tuple) -> None:
    if min(shape[2:]) < 1:
        given, made = ("x".join(map(str, s[1:])) for s in (x.shape, shape))
        raise RuntimeError(f"Given input size: ({given}). Calculated output size: ({made}). Output size is too small")


def _max_pool_nd(name: str, nd: int, input: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
                 ceil_mode: bool, indices: bool) -> Any:  # fmt: skip
    single, x, sizes = _window(
        name, nd, input, kernel_size=kernel_size, stride=stride, padding=padding, dilation=dilation
    )
    how = dict(zip(("kernel", "stride", "padding", "dilation"), sizes, strict=True), ceil_mode=bool(ceil_mode))
    _check_size(x, _max_shape(x._a.shape, **how))
    if indices:
        out, at = max_pool_with_indices(x, **how)
        return (out.squeeze(0), at.squeeze(0)) if single else (out, at)
    out = _max_pool(x, **how)
    return out.squeeze(0) if single else out


def max_pool1d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
               ceil_mode: bool = False, return_indices: bool = False) -> Any:  # fmt: skip
    """The largest value in each window over (N, C, L) or (C, L); see `max_pool2d`.

    >>> import tdt
    >>> max_pool1d(tdt.tensor([[1.0, 2.0, 3.0, 4.0]]), 2)
    tensor([[2., 4.]])
    """
    if not return_indices:
        check_category("max_pool1d", FLOATING, input.dtype)
    return _max_pool_nd("max_pool1d", 1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool2d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
               ceil_mode: bool = False, return_indices: bool = False) -> Any:  # fmt: skip
    """The largest value in each window over (N, C, H, W) or (C, H, W); `stride` is the window's size if not given.

    padding: cells of -inf around the input. ceil_mode: let the last window stick out. return_indices: also where in
    H × W each came from (the first of equals). NaN wins over numbers. RuntimeError where sizes do not fit.

    >>> import tdt
    >>> max_pool2d(tdt.tensor([[[1.0, 2.0], [3.0, 4.0]]]), 2)
    tensor([[[4.]]])
    """
    return _max_pool_nd("max_pool2d", 2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool3d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
               ceil_mode: bool = False, return_indices: bool = False) -> Any:  # fmt: skip
    """The largest value in each window over (N, C, D, H, W) or (C, D, H, W); see `max_pool2d`.

    >>> import tdt
    >>> max_pool3d(tdt.arange(8.0).reshape(1, 2, 2, 2), 2)
    tensor([[[[7.]]]])
    """
    return _max_pool_nd("max_pool3d", 3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def _avg_pool_nd(name: str, nd: int, input: Tensor, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool,
                 count_include_pad: bool, divisor_override: int | None, out: Tensor | None = None) -> Tensor:  # fmt: skip
    if divisor_override == 0:
        raise RuntimeError("divisor must be not zero")
    single, x, sizes = _window(name, nd, input, kernel_size=kernel_size, stride=stride, padding=padding)
    how = dict(zip(("kernel", "stride", "padding"), sizes, strict=True), ceil_mode=bool(ceil_mode))
    _check_size(x, _avg_shape(x._a.shape, **how))
    result = _avg_pool(x, **how, include_pad=bool(count_include_pad), divisor=divisor_override)
    result = result.squeeze(0) if single else result
    return result if out is None else store_into(out, result, exact=True)


def avg_pool1d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
               count_include_pad: bool = True) -> Tensor:  # fmt: skip
    """The mean of each window over (N, C, L) or (C, L); see `avg_pool2d`.

    >>> import tdt
    >>> avg_pool1d(tdt.tensor([[1.0, 2.0, 3.0, 4.0]]), 2)
    tensor([[1.5000, 3.5000]])
    """
    return _avg_pool_nd("avg_pool1d", 1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


def avg_pool2d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
               count_include_pad: bool = True, divisor_override: int | None = None, *,
               out: Tensor | None = None) -> Tensor:  # fmt: skip
    """The mean of each window over (N, C, H, W) or (C, H, W); `stride` is the window's size if not given.

    The sum is divided by the window's cells, those in the border counted (`count_include_pad`) or not, or by
    `divisor_override`. RuntimeError where sizes do not fit.

    >>> import tdt
    >>> avg_pool2d(tdt.tensor([[[1.0, 2.0], [3.0, 4.0]]]), 2)
    tensor([[[2.5000]]])
    """
    return _avg_pool_nd(
        "avg_pool2d", 2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, out
    )


def avg_pool3d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
               count_include_pad: bool = True, divisor_override: int | None = None, *,
               out: Tensor | None = None) -> Tensor:  # fmt: skip
    """The mean of each window over (N, C, D, H, W) or (C, D, H, W); see `avg_pool2d`.

    >>> import tdt
    >>> avg_pool3d(tdt.arange(8.0).reshape(1, 2, 2, 2), 2)
    tensor([[[[3.5000]]]])
    """
    return _avg_pool_nd(
        "avg_pool3d", 3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, out
    )


def _adaptive_avg_pool_nd(name: str, nd: int, input: Tensor, output_size: Any) -> Tensor:
    if nd > 1 and isinstance(output_size, (tuple, list)) and input.ndim <= len(output_size):
        raise ValueError(f"Input dimension should be at least {len(output_size) + 1}; {name} got {list(input.shape)}")
    if input.ndim not in (nd + 1, nd + 2):
        raise RuntimeError(f"{name}(): Expected {nd + 1}D or {nd + 2}D tensor, but got {list(input.shape)}")
    check_category(name, FLOATING, input.dtype)
    size = input.shape[-nd:]
    wanted = output_size if isinstance(output_size, (tuple, list)) else (output_size,) * nd
    if len(wanted) != nd:
        raise RuntimeError(f"{name}: output_size must be {nd} numbers, but got {output_size}")
    out = tuple(n if w is None else int(w) for n, w in zip(size, wanted, strict=True))
    if any(o < 0 for o in out):
        raise RuntimeError(
            f"{name}: elements of output_size must be greater than or equal to 0 but received {list(out)}"
        )
    if all(o and not n % o for n, o in zip(size, out, strict=True)):
        kernel = tuple(n // o for n, o in zip(size, out, strict=True))
        return _avg_pool_nd(name, nd, input, kernel, kernel, 0, False, True, None)
    for d, (n, o) in enumerate(zip(size, out, strict=True), input.ndim - nd):
        # Output cell i is the mean of inputs floor(i n / o) … ceil((i + 1) n / o): one product by a matrix of weights.
        start, end = np.arange(o) * n // max(o, 1), -(-(np.arange(o) + 1) * n // max(o, 1))
        at = np.arange(n)[:, None]
        weights = ((at >= start) & (at < end)) / np.maximum(end - start, 1)
        matrix = wrap(weights.astype(input._a.dtype)).to(input.device)
        input = (input.transpose(d, -1) @ matrix).transpose(d, -1)
    return input


def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """Means over as many windows as `output_size` says; see `adaptive_avg_pool2d`.

    >>> import tdt
    >>> adaptive_avg_pool1d(tdt.tensor([[1.0, 2.0, 3.0, 4.0]]), 2)
    tensor([[1.5000, 3.5000]])
    """
    return _adaptive_avg_pool_nd("adaptive_avg_pool1d", 1, input, output_size)


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Means over windows placed so that the result is `output_size` (one number or two; None keeps the input's).

    >>> import tdt
    >>> adaptive_avg_pool2d(tdt.tensor([[[1.0, 2.0], [3.0, 4.0]]]), 1)
    tensor([[[2.5000]]])
    """
    return _adaptive_avg_pool_nd("adaptive_avg_pool2d", 2, input, output_size)


def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Means over as many windows as `output_size` says; see `adaptive_avg_pool2d`.

    >>> import tdt
    >>> adaptive_avg_pool3d(tdt.arange(8.0).reshape(1, 2, 2, 2), 1)
    tensor([[[[3.5000]]]])
    """
    return _adaptive_avg_pool_nd("adaptive_avg_pool3d", 3, input, output_size)


__all__ = ["adaptive_avg_pool1d", "avg_pool1d", "max_pool1d", "max_pool2d", "max_pool3d"]
