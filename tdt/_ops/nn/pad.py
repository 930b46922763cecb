"""Borders: constant, reflected, replicated or circular; negative sizes crop."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tdt import _kernels
from tdt._backend.layout import empty_output, output_is_channels_last
from tdt._backend.waiting import repeatable
from tdt._core.dtype import ALL, FLOAT8_SIGNED, NUMBERS, check_category
from tdt._core.from_data import held
from tdt._core.tensor import Tensor, wrap
from tdt._kernels import chosen, gpu_kernel, gpu_words
from tdt.autograd._dispatch import unary
from tdt.autograd._op import op
from tdt.autograd._remembered import calls_by_shape

SHORT = 32  # elements of a row: filling all of shorter ones takes less time than filling both ends


def _pad_shape(x: tuple, *, before: tuple, after: tuple, **how: Any) -> tuple:
    return tuple(n + b + a for n, b, a in zip(x, before, after, strict=True))


def _pad_border_node_name(node: Any) -> str:
    kind = {"reflect": "Reflection", "replicate": "Replication"}.get(node.attributes["mode"])
    return f"{kind}Pad{len(node.attributes['before'])}DBackward0" if kind else "PadCircularBackward0"


_PADDED = (gpu_kernel("place_gpu:padded", gpu_words),)


@op(dtypes=ALL, computes=False, shape=_pad_shape, node="ConstantPadNdBackward0", float8=FLOAT8_SIGNED)
@repeatable
def pad_constant(xp, x, *, before, after, value):
    if (bordered := _bordered(x, before, after, "constant", value)) is not None:
        return bordered(x)
    shape, source, target, grows = _places(x.shape, before, after)
    if xp is not np and 0 not in shape and (fast := chosen(_PADDED, xp, x[source])):
        return fast(x[source], shape, [(part.start, 1) for part in target], value, x)
    out = empty_output(xp, shape, x.dtype, x)
    if grows and shape[-1] < SHORT:
        out[...] = value
    elif grows:
        for d, remaining in enumerate(target):
            for border in (slice(0, remaining.start), slice(remaining.stop, None)):
                out[(*target[:d], border)] = value
    if not _kernels.moved(out[target], x[source]):
        out[target] = x[source]
    return out


def _bordered(x, before, after, mode, value=0):
    """A function that gives arrays such as x a border by a kernel; None where there is none."""
    if x.__class__ is not np.ndarray or not _kernels.enabled() or output_is_channels_last(x):
        return None
    return _kernels.bordered(x, before, after, _INDEX[mode], value)


@_kernels.prepares(pad_constant.forward)
def _(x, *, before, after, value, recorded):
    return _bordered(x, before, after, "constant", value)


@functools.lru_cache(1024)
def _places(shape: tuple, before: tuple, after: tuple) -> tuple[tuple, tuple, tuple, bool]:
    """The padded shape, the index of the part of the input that is kept, its place in the result, and whether cells are added."""
    source, target = [], []
    for n, b, a in zip(shape, before, after, strict=True):
        source.append(slice(max(0, -b), n - max(0, -a)))
        target.append(slice(max(0, b), max(0, b) + n - max(0, -a) - max(0, -b)))
    grows = max(before + after, default=0) > 0
    return _pad_shape(shape, before=before, after=after), tuple(source), tuple(target), grows


@pad_constant.vjp("x")
def _(g, before, after):
    return pad_constant(g, before=tuple(-b for b in before), after=tuple(-a for a in after), value=0)


@pad_constant.fast_vjp("x")
@repeatable
def _(xp, g, before, after):
    return pad_constant.forward(xp, g, before=tuple([-b for b in before]), after=tuple([-a for a in after]), value=0)


@pad_constant.prepares_vjp("x")
def _(xp, g, before, after):
    return _bordered(g, tuple([-b for b in before]), tuple([-a for a in after]), "constant")


def _reflect(n: int, before: int, after: int) -> np.ndarray:
    period = max(2 * (n - 1), 1)
    at = np.arange(-before, n + after) % period
    return np.minimum(at, period - at) if n > 1 else at


def _nowhere(n: int, before: int, after: int) -> np.ndarray:
    at = np.arange(-before, n + after)
    return np.where((at < 0) | (at >= n), -1, at)


_INDEX = {
    "constant": _nowhere,
    "reflect": _reflect,
    "replicate": lambda n, before, after: np.clip(np.arange(-before, n + after), 0, n - 1),
    "circular": lambda n, before, after: np.arange(-before, n + after) % n,
}
_LIMIT = {"reflect": -1, "circular": 0}


# Where a border before and one behind the cells from b to `end` have their values from.
_SOURCE = {
    "reflect": lambda b, end, a: (slice(2 * b, b, -1), slice(end - 2, end - 2 - a if end - 2 >= a else None, -1)),
    "replicate": lambda b, end, a: (slice(b, b + 1), slice(end - 1, end)),
    "circular": lambda b, end, a: (slice(end - b, end), slice(b, b + a)),
}


@functools.lru_cache(1024)
def _borders(x: tuple, before: tuple, after: tuple, mode: str) -> list[tuple[int, tuple, tuple]]:
    """Each border around `x`: its dimension, the index of the border, and the index of the cells that it repeats.

    Dimensions are padded in order, so a border includes the borders of earlier dimensions.
    """
    found = []
    for d, (n, b, a) in enumerate(zip(x, before, after, strict=True)):
        places = slice(0, b), slice(b + n, b + n + a)
        for width, place, source in zip((b, a), places, _SOURCE[mode](b, b + n, a), strict=True):
            if width:
                found.append((d, (slice(None),) * d + (place,), (slice(None),) * d + (source,)))
    return found


@functools.lru_cache(1024)
def _middle(x: tuple, before: tuple) -> tuple:
    return tuple(slice(b, b + n) for n, b in zip(x, before, strict=True))


@op(dtypes=ALL, computes=False, shape=_pad_shape, node=_pad_border_node_name)
def pad_border(xp, x, *, before, after, mode):
    if (bordered := _bordered(x, before, after, mode)) is not None:
        return bordered(x)
    shape = _pad_shape(x.shape, before=before, after=after)
    out = xp.empty(shape, x.dtype) if mode == "circular" else empty_output(xp, shape, x.dtype, x)
    out[_middle(x.shape, before)] = x
    for _, place, source in _borders(x.shape, before, after, mode):
        out[place] = out[source]
    return out


@_kernels.prepares(pad_border.forward)
def _(x, *, before, after, mode, recorded):
    return _bordered(x, before, after, mode)


@op(dtypes=NUMBERS, shape=lambda x, *, size, **how: size)
def pad_border_grad(xp, x, *, size, before, after, mode):
    """The sum over the cells that repeat each cell: along the first dimension first, and one after the other."""
    if (gradient := _border_gradient(x, size, before, after, mode)) is not None:
        return gradient(x)
    summed = x.copy(order="K")
    for d, place, source in _borders(size, before, after, mode):
        border, cells = summed[place].swapaxes(0, d), summed[source].swapaxes(0, d)
        if mode == "replicate":
            for row in border:
                cells[0] += row
        else:
            cells += border
    return summed[_middle(size, before)].copy(order="K")


def _border_gradient(g, size, before, after, mode):
    """A function that gives the gradient from such as g by a kernel; None where there is none."""
    if g.__class__ is not np.ndarray or not _kernels.enabled() or output_is_channels_last(g):
        return None
    return _kernels.border_gradient(g, size, before, after, _INDEX[mode])


@pad_border.vjp("x")
def _(g, x_shape, before, after, mode):
    return pad_border_grad(g, size=x_shape, before=before, after=after, mode=mode)


@pad_border.fast_vjp("x")
def _(xp, g, x_shape, before, after, mode):
    return pad_border_grad.forward(xp, g, size=x_shape, before=before, after=after, mode=mode)


@pad_border.prepares_vjp("x")
def _(xp, g, x_shape, before, after, mode):
    return _border_gradient(g, x_shape, before, after, mode)


@pad_border_grad.vjp("x")
def _(g, before, after, mode):
    return pad_border(g, before=before, after=after, mode=mode)


@calls_by_shape
def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """`input` with cells added at the ends of its last dimensions; negative numbers crop.

    Args:
        pad: numbers of cells (left, right, top, bottom, …), in pairs from the last dimension on.
        mode: "constant" (of `value`), "reflect" (mirrored, without the edge), "replicate" (of the edge) or "circular".
        value: for mode "constant"; None is 0.
    Shape: input (*); result (*), each size plus its pair of `pad`. Other modes than "constant" pad the last 1, 2 or 3
        dimensions of an input with one or two more.
    Raises:
        RuntimeError: when a reflected or circular border is wider than the input allows, or a size becomes negative.
        NotImplementedError: when the mode is unknown or does not support the numbers of dimensions.
        ValueError: when another mode than "constant" gets a `value` other than 0.

    >>> import tdt
    >>> tdt.nn.functional.pad(tdt.tensor([1.0, 2.0]), (1, 2), value=9.0)
    tensor([9., 1., 2., 9., 9.])
    """
    if mode == "constant":
        return constant_pad_nd(input, pad, 0 if value is None else value if isinstance(value, Tensor) else float(value))
    before, after = _check_border(input, pad, mode, value)
    if min(before + after) >= 0 and input.numel():
        return pad_border(input, before=before, after=after, mode=mode)
    for d, (n, b, a) in enumerate(zip(input.shape, before, after, strict=True)):
        if b or a:
            if mode == "circular":
                index = _INDEX[mode](n + min(b, 0) + min(a, 0), max(b, 0), max(a, 0)) + max(-b, 0)
            else:
                index = _INDEX[mode](n, max(b, 0), max(a, 0))
                index = index[max(-b, 0) : len(index) + min(a, 0)]
            input = input.index_select(d, wrap(index).to(input.device))
    return input


def _check_border(input: Tensor, pad: Sequence[int], mode: str, value: float | None) -> tuple[tuple[int, ...], ...]:
    """The cells before and after each dimension. Raises the error for what a mode other than "constant" does not take."""
    before, after = _sides(input, pad)
    if mode not in _INDEX:
        raise NotImplementedError(f"Unrecognised padding mode {mode}; use {', '.join(_INDEX)}")
    if len(pad) // 2 not in (input.ndim - 1, input.ndim - 2) or len(pad) > 6:
        raise NotImplementedError(
            f"Padding size {len(pad)} is not supported for {input.ndim}D input tensor: mode '{mode}' pads the last 1, 2 or "
            "3 dimensions of an input that has one or two more"
        )
    if value is not None and value != 0:
        raise ValueError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if mode != "circular":
        check_category(f"{mode}_pad", NUMBERS, input.dtype)
        if 0 in input.shape[-(len(pad) // 2) - 1 :]:
            raise RuntimeError(
                f"Expected an input in which only the batch may be empty, for mode '{mode}', but got {list(input.shape)}"
            )
    sizes = _pad_shape(input.shape, before=before, after=after)[-(len(pad) // 2) :]
    if min(sizes) < 0 or (mode != "circular" and max(sizes) < 1):
        raise RuntimeError(f"input {list(input.shape)} is too small: padding {list(pad)} gives sizes {list(sizes)}")
    for d, (n, b, a) in enumerate(zip(input.shape, before, after, strict=True)):
        remaining = n + min(b, 0) + min(a, 0) if mode == "circular" else n  # cropped cells are not repeated
        if mode in _LIMIT and max(b, a) > remaining + _LIMIT[mode] and (b or a):
            raise RuntimeError(f"Padding size should be less than the corresponding input dimension, but got: padding "
                               f"({b}, {a}) at dimension {d} of input {list(input.shape)}")  # fmt: skip
    return before, after


def constant_pad_nd(input: Tensor, pad: Sequence[int], value: float = 0) -> Tensor:
    """`input` with cells of `value` added at the ends of its last dimensions; negative numbers crop.

    Args:
        pad: numbers of cells (left, right, top, bottom, …), in pairs from the last dimension on.
    Shape: input (*); result (*), each size plus its pair of `pad`.
    Raises:
        RuntimeError: when `pad` does not fit the dimensions, or a size becomes negative.

    >>> import tdt
    >>> tdt.constant_pad_nd(tdt.ones(1), (1, 1), 2.0)
    tensor([2., 1., 2.])
    """
    before, after = _sides(input, pad)
    for n, b, a in zip(input._a.shape, before, after, strict=True):
        if n + b + a < 0:
            raise RuntimeError(
                f"The input size {n}, plus negative padding {b} and {a}, resulted in a negative output size"
            )
        if n + min(b, 0) + min(a, 0) < 0:
            raise RuntimeError(
                f"narrow(): length must be non-negative: padding {b} and {a} crop more than the size {n}"
            )
    value = held(value, input.dtype) if any(n > 0 for n in before + after) else 0
    return unary(pad_constant, input, {"before": before, "after": after, "value": value})


def _sides(input: Tensor, pad: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The cells before and after each dimension, from pairs that begin at the last one."""
    ndim = input._a.ndim
    if len(pad) % 2:
        raise RuntimeError(f"Padding length must be divisible by 2, but got {len(pad)} numbers")
    if len(pad) > 2 * ndim:
        raise RuntimeError(f"Padding length should be less than or equal to two times the input dimension but got padding "
                           f"length {len(pad)} and input of dimension {ndim}")  # fmt: skip
    rest = (0,) * (ndim - len(pad) // 2)
    return rest + tuple(pad[-2::-2]), rest + tuple(pad[-1::-2])


__all__ = ["constant_pad_nd"]
