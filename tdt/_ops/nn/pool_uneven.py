"""Max pooling over windows of uneven size or spacing: adaptive (a fixed output size) and fractional (random windows)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tdt._backend.windows import adaptive_spans
from tdt._core.dtype import FLOATING, check_category, int64
from tdt._core.memory_format import contiguous_format
from tdt._core.ranges import arange
from tdt._core.tensor import Tensor
from tdt._kernels import chosen_for, float_windows, kernel, lazy, prepares
from tdt._ops._common import Ints
from tdt._ops.nn._pooling import adaptive_size
from tdt._ops.nn._windows import tuple_of
from tdt._ops.nn.pool_max import _max_pool_nd, gives_gradients_to_maxima
from tdt._ops.random.creation import rand
from tdt._ops.shape.join import cat
from tdt._ops.shape.memory import output_format
from tdt.autograd._node_names import node_name
from tdt.autograd._op import op
from tdt.autograd._remembered import calls_by_shape


def _cells_shape(x: tuple, *cells: tuple) -> tuple:
    return ((*x[:2], *(c[2] for c in cells)),) * 2


@op(dtypes=FLOATING | {int64}, promote=(), broadcasts=False, outputs=("out", "indices"), nondiff=("indices",),
    shape=_cells_shape, linked=True)  # fmt: skip
def max_of_cells(xp, x, *cells):
    """The largest cell of every window of x (N, C, *size), the last NaN where there is one, and its flat index.

    cells[d]: (N or 1, C or 1, windows, cells), where along dimension d the window's cells lie. The dimensions are worked
    off one by one, the last one first: so the first of equals in a row of a window meets those of the rows below it.
    """
    return _of_cells(xp, x, cells)


def _of_cells(xp: Any, x: Any, cells: Sequence[Any]) -> tuple[Any, Any]:
    size = x.shape[2:]
    out, indices = x, xp.broadcast_to(xp.arange(math.prod(size)).reshape(size), x.shape)
    for axis in range(x.ndim - 1, 1, -1):
        places = cells[axis - 2]
        best, index = (_take(xp, a, places[..., 0], axis) for a in (out, indices))
        for k in range(1, places.shape[3]):
            value, at = (_take(xp, a, places[..., k], axis) for a in (out, indices))
            better = (value > best) | (value != value)
            xp.copyto(best, value, where=better)
            xp.copyto(index, at, where=better)
        out, indices = best, index
    return out, indices


def _take(xp: Any, a: Any, places: Any, axis: int) -> Any:
    """Gather from `a` (N, C, *size) the indices `places` (N or 1, C or 1, windows) along a dimension: a new array."""
    if places.shape[:2] == (1, 1):
        return xp.take(a, places[0, 0], axis=axis)
    at = places.reshape(*places.shape[:2], *(places.shape[2] if d == axis else 1 for d in range(2, a.ndim)))
    shape = *a.shape[:axis], places.shape[2], *a.shape[axis + 1 :]
    return xp.take_along_axis(a, xp.broadcast_to(at, shape), axis)


@op(
    dtypes=FLOATING,
    promote=(),
    broadcasts=False,
    outputs=("out", "indices"),
    nondiff=("indices",),
    shape=lambda x, *, windows: ((*x[:2], *windows),) * 2,
    linked=True,
    kernels=(kernel("adaptive_pool_cpu:adaptive_max", float_windows),),
)
def adaptive_max(xp, x, *, windows):
    """`max_of_cells` of windows that cover x (N, C, *) evenly, so many along each dimension."""
    return _of_cells(xp, x, [xp.asarray(adaptive_cells(n, m)) for n, m in zip(x.shape[2:], windows, strict=True)])


_PREPARED = lazy("adaptive_pool_cpu:prepared_adaptive_max")


@prepares(adaptive_max.forward)
def _(x, *, windows, recorded):
    return _PREPARED(x, windows=windows, recorded=recorded) if chosen_for(adaptive_max.kernels, (x,), {}) else None


gives_gradients_to_maxima(max_of_cells)
gives_gradients_to_maxima(adaptive_max)


def _adaptive_max_pool_nd(name: str, nd: int, input: Tensor, output_size: Any, indices: bool) -> Any:
    out = adaptive_size(name, nd, input, output_size)
    size = tuple(input.shape[-nd:])
    check_category(name, FLOATING, input.dtype)
    _check_cells(name, input, nd)
    if all(o and not n % o for n, o in zip(size, out, strict=True)):
        kernel = tuple(n // o for n, o in zip(size, out, strict=True))
        found = _max_pool_nd(name, nd, input, kernel, kernel, 0, 1, False, indices)
    else:
        found = _pooled(input, nd, functools.partial(adaptive_max, windows=out), indices)
    layout = output_format(input) if nd == 2 else contiguous_format
    if indices:
        return tuple(t.contiguous(memory_format=layout) for t in found)
    return found.contiguous(memory_format=layout)


@functools.lru_cache(256)
def adaptive_cells(size: int, out: int) -> np.ndarray:
    """(1, 1, out, cells): a window shorter than the longest names its last cell several times."""
    start, end = adaptive_spans(size, out)
    cells = np.arange((end - start).max(initial=1))
    return np.minimum(start[:, None] + cells, end[:, None] - 1)[None, None]


def _pooled(input: Tensor, nd: int, pool: Callable[[Tensor], tuple[Tensor, Tensor]], indices: bool) -> Any:
    """`pool` of an input with or without a batch; values alone, or both."""
    single = input.ndim == nd + 1
    found = pool(input.unsqueeze(0) if single else input)
    out, at = (t.squeeze(0) for t in found) if single else found
    return (out, at) if indices else out


def _check_cells(name: str, input: Tensor, nd: int) -> None:
    """RuntimeError where another dimension than the batch is empty."""
    for d in range(input.ndim - nd - 1, input.ndim):
        if not input.shape[d]:
            raise RuntimeError(f"{name}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes "
                               f"{list(input.shape)} with dimension {d} being empty")  # fmt: skip


def adaptive_max_pool1d(input: Tensor, output_size: Ints) -> tuple[Tensor, Tensor]:
    """Maximum over `output_size` windows that cover the input evenly, and the position of each.

    Shape: input (N, C, L) or (C, L); both results (N, C, output_size) or (C, output_size).
    Returns: the maxima, and their positions along L, int64.
    Raises:
        RuntimeError: when shapes do not fit, or a dimension other than the batch is empty.

    >>> import tdt
    >>> tdt.adaptive_max_pool1d(tdt.tensor([[1.0, 4.0, 3.0, 2.0]]), 2)
    (tensor([[4., 3.]]), tensor([[1, 2]]))
    """
    return _adaptive_max_pool_nd("adaptive_max_pool1d", 1, input, output_size, True)


@calls_by_shape
@node_name("AdaptiveMaxPool2DBackward0")
def adaptive_max_pool2d(
    input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: bool = False
) -> Any:
    """Maximum over windows that cover the input evenly, so that the result has the size `output_size`.

    Along a dimension of n cells and m windows, window i covers the cells ⌊i n / m⌋ to ⌈(i + 1) n / m⌉.

    Args:
        output_size: (OH, OW), or one number for both; None keeps the input's size.
        return_indices: return also the position of each maximum in the flattened H × W, int64.
    Shape: input (N, C, H, W) or (C, H, W); result (N, C, OH, OW) or (C, OH, OW).
    Raises:
        RuntimeError: when shapes do not fit, or a dimension other than the batch is empty.

    >>> import tdt
    >>> tdt.nn.functional.adaptive_max_pool2d(tdt.tensor([[[1.0, 2.0], [3.0, 4.0]]]), (2, 1))
    tensor([[[2.],
             [4.]]])
    """
    return _adaptive_max_pool_nd("adaptive_max_pool2d", 2, input, output_size, return_indices)


@calls_by_shape
@node_name("AdaptiveMaxPool3DBackward0")
def adaptive_max_pool3d(
    input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: bool = False
) -> Any:
    """Maximum over windows that cover the input evenly, so that the result has the size `output_size`.

    Args:
        output_size: (OD, OH, OW), or one number for all; None keeps the input's size.
        return_indices: return also the position of each maximum in the flattened D × H × W, int64.
    Shape: input (N, C, D, H, W) or (C, D, H, W); result (N, C, OD, OH, OW) or (C, OD, OH, OW).
    Raises:
        RuntimeError: when shapes do not fit, or a dimension other than the batch is empty.

    >>> import tdt
    >>> tdt.nn.functional.adaptive_max_pool3d(tdt.arange(8.0).reshape(1, 2, 2, 2), 1)
    tensor([[[[7.]]]])
    """
    return _adaptive_max_pool_nd("adaptive_max_pool3d", 3, input, output_size, return_indices)


def adaptive_max_pool1d_with_indices(
    input: Tensor, output_size: Ints, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """`adaptive_max_pool1d` with the position of each maximum.

    Args:
        return_indices: has no effect.
    Shape: input (N, C, L) or (C, L); both results (N, C, output_size) or (C, output_size).
    Returns: the maxima, and their positions along L, int64.

    >>> import tdt
    >>> tdt.nn.functional.adaptive_max_pool1d_with_indices(tdt.tensor([[1.0, 4.0, 3.0, 2.0]]), 1)
    (tensor([[4.]]), tensor([[1]]))
    """
    return _adaptive_max_pool_nd("adaptive_max_pool1d", 1, input, output_size, True)


def adaptive_max_pool2d_with_indices(
    input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """`adaptive_max_pool2d` with the position of each maximum.

    Args:
        return_indices: has no effect.
    Shape: input (N, C, H, W) or (C, H, W); both results (N, C, OH, OW) or (C, OH, OW).
    Returns: the maxima, and their positions in the flattened H × W, int64.

    >>> import tdt
    >>> tdt.nn.functional.adaptive_max_pool2d_with_indices(tdt.tensor([[[1.0, 2.0], [4.0, 3.0]]]), 1)
    (tensor([[[4.]]]), tensor([[[2]]]))
    """
    return _adaptive_max_pool_nd("adaptive_max_pool2d", 2, input, output_size, True)


def adaptive_max_pool3d_with_indices(
    input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """`adaptive_max_pool3d` with the position of each maximum.

    Args:
        return_indices: has no effect.
    Shape: input (N, C, D, H, W) or (C, D, H, W); both results (N, C, OD, OH, OW) or (C, OD, OH, OW).
    Returns: the maxima, and their positions in the flattened D × H × W, int64.

    >>> import tdt
    >>> tdt.nn.functional.adaptive_max_pool3d_with_indices(tdt.arange(8.0).reshape(1, 2, 2, 2), 1)[1]
    tensor([[[[7]]]])
    """
    return _adaptive_max_pool_nd("adaptive_max_pool3d", 3, input, output_size, True)


def _fractional_max_pool_nd(nd: int, input: Tensor, kernel_size: Any, output_size: Any, output_ratio: Any,
                            samples: Tensor | None, indices: bool) -> Any:  # fmt: skip
    name = f"fractional_max_pool{nd}d"
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    if input.ndim not in (nd + 1, nd + 2):
        raise IndexError(f"{name}: expected {nd + 1}D or {nd + 2}D input, but got {list(input.shape)}")
    check_category(name, FLOATING, input.dtype)
    _check_cells(name, input, nd)
    size = input.shape[-nd:]
    if output_size is None:
        ratios = tuple(output_ratio) if isinstance(output_ratio, (tuple, list)) else (output_ratio,) * nd
        if len(ratios) != nd:
            raise ValueError(f"{name} requires output_ratio to be one number or {nd}, but got {output_ratio}")
        output_size = tuple(int(n * r) for n, r in zip(size, ratios, strict=True))
    kernel, out = tuple_of(kernel_size, nd, "kernel_size"), tuple_of(output_size, nd, "output_size")
    for what, n, o, k in zip(("time", "height", "width")[-nd:], size, out, kernel, strict=True):
        if k < 1 or o < 0:
            raise RuntimeError(
                f"{name}: kernel_size must be positive and output_size not negative, but got {kernel}, {out}"
            )
        if o + k - 1 > n - (nd == 3):
            raise RuntimeError(f"{name}(): pool {what} {k} too large relative to input {what} {n}")
    batch, channels = (1 if input.ndim == nd + 1 else input.shape[0]), input.shape[-nd - 1]
    if samples is None:
        samples = rand(batch, channels, nd, dtype=input.dtype, device=input.device)
    _check_samples(samples, input, batch, channels, nd)
    # In two dimensions the first random number is the width's, in three the depth's: PyTorch's order.
    order = (1, 0) if nd == 2 else (0, 1, 2)
    cells = [
        _fractional_cells(samples[:batch, :, i], n, o, k) for i, n, o, k in zip(order, size, out, kernel, strict=True)
    ]
    return _pooled(input, nd, lambda x: max_of_cells(x, *cells), indices)


def _check_samples(samples: Tensor, input: Tensor, batch: int, channels: int, nd: int) -> None:
    if samples.dtype is not input.dtype:
        raise RuntimeError(f"Expect _random_samples to have the same dtype as input: {samples.dtype}, {input.dtype}")
    if samples.ndim != 3:
        raise RuntimeError(f"Expect _random_samples to have 3 dimensions, got {samples.ndim}")
    if samples.shape[0] < batch:
        raise RuntimeError(
            f"Expect _random_samples.size(0) no less then input batch size: {samples.shape[0]} < {batch}"
        )
    if samples.shape[1] != channels:
        raise RuntimeError(
            f"Expect _random_samples.size(1) equals to input channel size: {samples.shape[1]}, {channels}"
        )
    if samples.shape[2] != nd:
        raise RuntimeError(f"Expect _random_samples.size(2) equals to {nd}; got {samples.shape[2]}.")


def _fractional_cells(sample: Tensor, size: int, out: int, kernel: int) -> Tensor:
    """(N, C, out, kernel): the cells of windows a random, slowly growing distance apart; the last ends with the input."""
    steps = arange(max(out - 1, 0), dtype=sample.dtype, device=sample.device)
    # A tensor, not a number: in half precision PyTorch rounds it too.
    interval = sample.new_full((), size - kernel) / sample.new_full((), max(out - 1, 1))
    start = ((steps + sample.unsqueeze(-1)) * interval).to(int64) - (sample * interval).to(int64).unsqueeze(-1)
    last = start.new_full((*sample.shape, min(out, 1)), size - kernel)
    return cat((start, last), -1).unsqueeze(-1) + arange(kernel, device=sample.device)


@node_name("FractionalMaxPool2DBackward0")
def fractional_max_pool2d(
    input: Tensor, kernel_size: Ints, output_size: Ints | None = None,
    output_ratio: float | Sequence[float] | None = None, return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:  # fmt: skip
    """Maximum over windows at pseudo-random positions, at distances whose mean is not a whole number.

    Args:
        kernel_size: size of the windows.
        output_size: (OH, OW), or one number for both.
        output_ratio: instead of `output_size`, its ratio to the input's size, in (0, 1).
        return_indices: return also the position of each maximum in the flattened H × W, int64.
        _random_samples: (N, C, 2) in [0, 1), where the windows of each channel start; drawn if None.
    Shape: input (N, C, H, W) or (C, H, W); result (N, C, OH, OW) or (C, OH, OW).
    Raises:
        ValueError: when neither `output_size` nor `output_ratio` is given.
        RuntimeError: when the windows do not fit the input.
    Source: Graham, "Fractional Max-Pooling", 2014.

    >>> import tdt
    >>> tdt.nn.functional.fractional_max_pool2d(tdt.ones(1, 3, 7, 7), 2, output_size=(4, 5)).shape
    tdt.Size([1, 3, 4, 5])
    """
    return _fractional_max_pool_nd(2, input, kernel_size, output_size, output_ratio, _random_samples, return_indices)


@node_name("FractionalMaxPool3DBackward0")
def fractional_max_pool3d(
    input: Tensor, kernel_size: Ints, output_size: Ints | None = None,
    output_ratio: float | Sequence[float] | None = None, return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:  # fmt: skip
    """Maximum over windows at pseudo-random positions, at distances whose mean is not a whole number.

    Args:
        kernel_size: size of the windows.
        output_size: (OD, OH, OW), or one number for all.
        output_ratio: instead of `output_size`, its ratio to the input's size, in (0, 1).
        return_indices: return also the position of each maximum in the flattened D × H × W, int64.
        _random_samples: (N, C, 3) in [0, 1), where the windows of each channel start; drawn if None.
    Shape: input (N, C, D, H, W) or (C, D, H, W); result (N, C, OD, OH, OW) or (C, OD, OH, OW).
    Raises:
        ValueError: when neither `output_size` nor `output_ratio` is given.
        RuntimeError: when the windows do not fit the input.
    Source: Graham, "Fractional Max-Pooling", 2014.

    >>> import tdt
    >>> tdt.nn.functional.fractional_max_pool3d(tdt.ones(1, 7, 7, 7), 2, output_ratio=0.5).shape
    tdt.Size([1, 3, 3, 3])
    """
    return _fractional_max_pool_nd(3, input, kernel_size, output_size, output_ratio, _random_samples, return_indices)


def fractional_max_pool2d_with_indices(
    input: Tensor, kernel_size: Ints, output_size: Ints | None = None,
    output_ratio: float | Sequence[float] | None = None, return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`fractional_max_pool2d` with the position of each maximum.

    Args:
        return_indices: has no effect.
    Shape: input (N, C, H, W) or (C, H, W); both results (N, C, OH, OW) or (C, OH, OW).
    Returns: the maxima, and their positions in the flattened H × W, int64.
    Source: Graham, "Fractional Max-Pooling", 2014.

    >>> import tdt
    >>> tdt.nn.functional.fractional_max_pool2d_with_indices(tdt.arange(9.0).reshape(1, 3, 3), 2, 1)
    (tensor([[[8.]]]), tensor([[[8]]]))
    """
    return _fractional_max_pool_nd(2, input, kernel_size, output_size, output_ratio, _random_samples, True)


def fractional_max_pool3d_with_indices(
    input: Tensor, kernel_size: Ints, output_size: Ints | None = None,
    output_ratio: float | Sequence[float] | None = None, return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`fractional_max_pool3d` with the position of each maximum.

    Args:
        return_indices: has no effect.
    Shape: input (N, C, D, H, W) or (C, D, H, W); both results (N, C, OD, OH, OW) or (C, OD, OH, OW).
    Returns: the maxima, and their positions in the flattened D × H × W, int64.
    Source: Graham, "Fractional Max-Pooling", 2014.

    >>> import tdt
    >>> tdt.nn.functional.fractional_max_pool3d_with_indices(tdt.arange(27.0).reshape(1, 3, 3, 3), 2, 1)[1]
    tensor([[[[26]]]])
    """
    return _fractional_max_pool_nd(3, input, kernel_size, output_size, output_ratio, _random_samples, True)


__all__ = ["adaptive_max_pool1d"]
