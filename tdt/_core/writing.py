"""Checks of writes for `out=` and in-place ops (overlap, casts), and copying of results."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from tdt import _backend
from tdt._core.dtype import SCALAR_NAMES, can_cast
from tdt._core.mode import state
from tdt._core.tensor import DETACHED, Tensor
from tdt._kernels import astype

SHARED = (
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory location. "
    "Please clone() the tensor before performing the operation."
)


def check_memory(x: Tensor, repeats: bool = False) -> None:
    """Reject writes to a tensor whose elements share memory (as after `expand`), unless `repeats` allows it for the op.

    A function that `vmap` runs on a whole batch is called for each entry instead, before it has written anything.
    """
    if state.batching is not None:
        state.batching.refuse("a tensor is written to")
    if not repeats and _backend.overlaps_itself(x._a):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
            "Please clone() the tensor before performing the operation."
        )
    refuse_inference(x)


def refuse_inference(x: Tensor) -> None:
    """Reject writes to tensors of inference mode outside of it.

    One that was detached from such a tensor may be written to as a whole, but not by way of its parts.
    """
    if x._st.inference and not state.inference and (x._view is not None or x._st.inference is not DETACHED):
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed. Use clone() first."
        )


def is_same_data(x: Tensor, y: Tensor) -> bool:
    """Whether y's elements are those of x, in the same places: to copy them writes nothing."""
    a, b = x._a, y._a
    return x is y or (
        x._st is y._st
        and (a.dtype, a.shape, a.strides) == (b.dtype, b.shape, b.strides)
        and _backend.byte_bounds(a) == _backend.byte_bounds(b)
    )


def check_overlap(x: Tensor, others: tuple) -> None:
    """Reject operands that partly overlap x's memory: writing would change them while they are read.

    Only tensors without gaps are compared, by their bounds; the same elements in the same order are allowed.
    """
    for t in others:
        if isinstance(t, Tensor) and t._st is x._st and t is not x and fills_block(t._a) and fills_block(x._a):
            a, b = _backend.byte_bounds(x._a), _backend.byte_bounds(t._a)
            if a[0] < b[1] and b[0] < a[1] and (a != b or t._a.shape != x._a.shape or _steps(t._a) != _steps(x._a)):
                raise RuntimeError(SHARED)


def refuse_shared(out: Any, *operands: Tensor) -> None:
    """Reject operands that share memory with `out=` (a tensor, several or None)."""
    targets = () if out is None else out if isinstance(out, tuple | list) else (out,)
    if any(t is x or _backend.may_overlap(t._a, x._a) for x in targets for t in operands):
        raise RuntimeError(SHARED)


def _steps(array: Any) -> list[int]:
    """The strides, with 0 for dimensions of size 1, whose strides have no effect."""
    return [s if n > 1 else 0 for s, n in zip(array.strides, array.shape, strict=True)]


def fills_block(array: Any) -> bool:
    """Whether the elements fill a block of memory without gaps, in any order of dimensions."""
    low, high = _backend.byte_bounds(array)
    return high - low == array.size * array.itemsize and not _backend.overlaps_itself(array)


def check_cast(result: Tensor, x: Tensor) -> None:
    """Check that results of this dtype can be stored in `x`: not in a lower category (complex, float, integer, bool)."""
    if not can_cast(result.dtype, x.dtype):
        raise RuntimeError(
            f"result type {SCALAR_NAMES[result.dtype]} can't be cast to the desired output type {SCALAR_NAMES[x.dtype]}"
        )


def store(t: Tensor, r: Tensor) -> None:
    """Copy `r` into `t`, an `out=` target: resize it if its shape differs (with a warning unless it was empty)."""
    a, b = t._a, r._a
    if a.__class__ is np.ndarray is b.__class__ and a.dtype is b.dtype and a.shape == b.shape and a.flags.c_contiguous:
        if t._st.inference or state.batching is not None:
            check_memory(t)
        np.copyto(a, b)
        t._st.bump_version()
        return
    check_cast(r, t)
    if r.device != t.device:
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, {r.device} and {t.device}!"
        )
    if t._a.shape != r._a.shape:
        if t._a.size:
            warnings.warn(
                f"An output with one or more elements was resized since it had shape {list(t._a.shape)}, which does not "
                f"match the required output shape {list(r._a.shape)}. Resize it to zero elements first: t.resize_(0).",
                stacklevel=4,
            )
        with _backend.on_gpu_of(t._a):
            t._a = _backend.namespace(t._a).empty_like(r._a, dtype=t._a.dtype)
    check_memory(t)
    with _backend.on_gpu_of(t._a):
        t._a[...] = rounded_twice(r._a, t._a.dtype)
    t._st.bump_version()


def rounded_twice(a: Any, dtype: Any) -> Any:
    """An array of float64 that is to be stored as float16: as PyTorch, rounded to float32 first. Others as they are."""
    return astype(a, dtype) if dtype == np.float16 and a.dtype == np.float64 else a
