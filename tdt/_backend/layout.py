"""How results lie in memory: this file decides, and ops ask it. The rules are PyTorch's:

- Elementwise results, and those of `sort`, have their dimensions in the order of the operands' strides (`in_order`); so have
  copies (`empty_in_order`), gaps left out.
- Convolutions, their gradients, pooling, padding by other than wrapping around, resampling and shuffling of images are
  channels-last where one of the operands is (`output_is_channels_last`, `empty_output`), else contiguous.
- Joined tensors are channels-last where all are (`joined`).
- The gradient of a convolution's weight has the memory order of the weight (`to_layout_of`).
- Normalizations keep inputs that are channels-last and make others contiguous, as do max unpooling and adaptive max pooling
  of images with their results (`output_format` in tdt/_ops/shape/memory.py).
- Gradients of leaves lie as the leaves, if these have no gaps (`_kernels.copy_in_order`).
- All other results are contiguous.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any


def is_channels_last(a: Any) -> bool:
    """Whether PyTorch would call the memory of this 4-d or 5-d array channels-last: (N, *spatial, C) in order.

    A size of 1 fits anywhere, so some arrays are both; those count as contiguous, as they do there.
    """
    if a.ndim not in (4, 5):
        return False
    shape, strides = a.shape, a.strides
    if strides[1] == 0 or strides[-1] < strides[1] * shape[1]:  # the second is what most arrays fail
        return False
    least = 0
    for d in (1, *range(a.ndim - 1, 1, -1), 0):
        if shape[d] == 0 or strides[d] < least or (d == 0 and least == strides[1]):
            return False
        least = strides[d] * max(shape[d], 1)
    return True


def output_is_channels_last(*operands: Any) -> bool:
    """Whether the result of a convolution or another op on images (N, C, *spatial) is channels-last."""
    return any(map(is_channels_last, operands))


def empty_output(xp: Any, shape: tuple[int, ...], dtype: Any, *operands: Any) -> Any:
    """Memory for the result (N, C, *spatial) of such an op."""
    return empty_as(xp, shape, dtype, output_is_channels_last(*operands))


def joined(xp: Any, result: Any, parts: Any) -> Any:
    """`result`, the concatenation of `parts`, contiguous unless all of them are channels-last."""
    if result.flags.c_contiguous or all(map(is_channels_last, parts)):
        return result
    return xp.ascontiguousarray(result)  # NumPy keeps the order of the dimensions in memory


def to_layout_of(xp: Any, a: Any, like: Any) -> Any:
    """`a` in the memory format of `like`, if that is contiguous or channels-last; else unchanged."""
    if like.flags.c_contiguous:
        return xp.ascontiguousarray(a)
    return to_front(xp.ascontiguousarray(to_last(a))) if is_channels_last(like) else a


def is_dense(a: Any) -> bool:
    """Whether `a` (N, C, *) is contiguous, or channels-last without gaps."""
    return a.flags.c_contiguous or (is_channels_last(a) and to_last(a).flags.c_contiguous)


def empty_as(xp: Any, shape: tuple[int, ...], dtype: Any, last: bool) -> Any:
    """An array of shape (N, C, *spatial), channels-last in memory if `last`."""
    if not last:
        return xp.empty(shape, dtype)
    return to_front(xp.empty((shape[0], *shape[2:], shape[1]), dtype))


def to_last(a: Any) -> Any:
    """View (N, C, *spatial) as (N, *spatial, C)."""
    return a.transpose(0, *range(2, a.ndim), 1)


def to_front(a: Any) -> Any:
    """View (N, *spatial, C) as (N, C, *spatial)."""
    return a.transpose(0, a.ndim - 1, *range(1, a.ndim - 1))


def dense(xp: Any, result: Any, operands: list) -> Any:
    """`result` as a contiguous array."""
    return result if result.flags.c_contiguous else xp.ascontiguousarray(result)


def is_descending(strides: tuple[int, ...]) -> bool:
    """Whether each dimension has a smaller stride than the one before it, so that they alone decide the order."""
    before = 1 << 62
    for s in strides:
        if not 0 < s < before:
            return False
        before = s
    return True


def lies_in_order(result: Any, operands: list) -> bool:
    """Whether `in_order` gives the result itself, as far as that is seen at once. operands: those that are arrays."""
    first = operands[0]
    if result.flags.c_contiguous and all(a.flags.c_contiguous for a in operands):
        return True
    if first.shape != result.shape:
        return False
    return bool(result.strides == first.strides and 0 not in first.strides) or (
        result.flags.c_contiguous and is_descending(first.strides)
    )


def in_order(xp: Any, result: Any, operands: list) -> Any:
    """`result` of an elementwise op in the memory order that PyTorch gives it; NumPy has it mostly, else it is copied.

    The order of two dimensions follows the first operand that has steps in both. NumPy asks them all. Where none has,
    which order results depends on the way of sorting, so this is PyTorch's: by insertion, from the innermost dimension on.
    """
    first = operands[0]
    decisive = getattr(first, "shape", None) == result.shape
    if result.flags.c_contiguous:
        if decisive and is_descending(first.strides):
            return result
        for a in operands:
            if hasattr(a, "flags") and not a.flags.c_contiguous:
                break
        else:
            return result
    if not result.size or (decisive and result.strides == first.strides and 0 not in first.strides):
        return result
    operands = [a for a in operands if getattr(a, "ndim", 0)]
    shape = result.shape
    order, strides = _order_and_strides(shape, result.itemsize, tuple([(a.shape, a.strides) for a in operands]))
    found = result.strides
    if found == strides or all(found[d] == strides[d] for d in range(result.ndim) if shape[d] != 1):
        return result
    out = _empty(xp, shape, result.dtype, order)
    out[...] = result
    return out


@functools.lru_cache(1024)
def _order_and_strides(shape: tuple[int, ...], itemsize: int, layouts: tuple) -> tuple[list[int], tuple[int, ...]]:
    """The order of an elementwise result's dimensions, and its strides; `layouts`: shape and strides of each operand."""
    order = _outermost_first(shape, layouts)
    strides, step = [0] * len(shape), itemsize
    for d in reversed(order):
        strides[d], step = step, step * shape[d]
    return order, tuple(strides)


def outermost_first(shape: tuple[int, ...], operands: list) -> list[int]:
    """The dimensions of an elementwise result of `operands`, ordered by decreasing stride."""
    return _outermost_first(shape, [(a.shape, a.strides) for a in operands])


def _outermost_first(shape: tuple[int, ...], layouts: Sequence[tuple]) -> list[int]:
    steps = [_steps(own, strides, shape) for own, strides in layouts]
    order = [*reversed(range(len(shape)))]  # innermost first
    for place in range(1, len(order)):
        at = place
        for before in range(place - 1, -1, -1):
            answer = _compare(steps, shape, order[before], order[at])
            if answer < 0:
                break
            if answer:
                order[before], order[at] = order[at], order[before]
                at = before
    return order[::-1]


def empty_in_order(xp: Any, a: Any, dtype: Any = None) -> Any:
    """An array without gaps, of the shape and (by default) dtype of `a`, in the order of its memory: PyTorch's `empty_like`."""
    dtype = a.dtype if dtype is None else dtype
    return (
        xp.empty(a.shape, dtype) if a.flags.c_contiguous else _empty(xp, a.shape, dtype, outermost_first(a.shape, [a]))
    )


def _empty(xp: Any, shape: tuple[int, ...], dtype: Any, order: list[int]) -> Any:
    back = sorted(range(len(shape)), key=order.__getitem__)
    return xp.empty([shape[d] for d in order], dtype).transpose(back)


def _steps(own: tuple[int, ...], strides: tuple[int, ...], shape: tuple[int, ...]) -> list[int]:
    """The strides of an array of shape `own` broadcast to `shape`: 0 in broadcast dimensions."""
    extra = len(shape) - len(own)
    return [0] * extra + [0 if n != m else s for s, n, m in zip(strides, own, shape[extra:], strict=True)]


def _compare(steps: list, shape: tuple[int, ...], inner: int, outer: int) -> int:
    """1 if `inner` must be outside of `outer`, -1 if not, 0 if no operand determines it."""
    for s in steps:
        if s[outer] and s[inner]:
            if s[outer] != s[inner]:
                return 1 if s[outer] < s[inner] else -1
            if shape[outer] < shape[inner]:
                return 1
    return 0


def memory_order(a: Any) -> Any:
    """The elements of `a` as a flat view in the order of memory; None where there are gaps between them."""
    if a.flags.c_contiguous:
        return a.reshape(-1)
    if a.ndim == 4 and a.transpose(0, 2, 3, 1).flags.c_contiguous:
        return a.transpose(0, 2, 3, 1).reshape(-1)
    return None
