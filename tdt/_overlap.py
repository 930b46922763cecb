"""Whether memory may be written to: elements that are several of one tensor, operands that lie partly in the target."""

from __future__ import annotations

from typing import Any

from tdt import _backend
from tdt._tensor import Tensor
from tdt.autograd._mode import state

SHARED = (
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory location. "
    "Please clone() the tensor before performing the operation."
)


def check_memory(x: Tensor, repeats: bool = False) -> None:
    """Refuse to write where one element of memory is several of the tensor, but for ops that `repeats` allows it."""
    if not repeats and _backend.overlaps_itself(x._a):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
            "Please clone() the tensor before performing the operation."
        )
    if x._st.inference and not state.inference:
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed. Use clone() first."
        )


def check_overlap(x: Tensor, others: tuple) -> None:
    """Refuse operands that lie partly in x's memory: what they hold would change while it is read.

    Only tensors without gaps are compared, by their bounds; the same elements in the same order are allowed.
    """
    for t in others:
        if isinstance(t, Tensor) and t._st is x._st and t is not x and _dense(t._a) and _dense(x._a):
            a, b = _backend.byte_bounds(x._a), _backend.byte_bounds(t._a)
            if a[0] < b[1] and b[0] < a[1] and (a != b or t._a.shape != x._a.shape or _steps(t._a) != _steps(x._a)):
                raise RuntimeError(SHARED)


def refuse_shared(out: Any, *operands: Tensor) -> None:
    """Refuse operands that share any memory with `out=` (a tensor, several or None), for ops that read all before."""
    targets = () if out is None else out if isinstance(out, tuple | list) else (out,)
    if any(t is x or _backend.may_overlap(t._a, x._a) for x in targets for t in operands):
        raise RuntimeError(SHARED)


def _steps(array: Any) -> list[int]:
    """The strides, 0 for a dimension of one index, where it says nothing."""
    return [s if n > 1 else 0 for s, n in zip(array.strides, array.shape, strict=True)]


def _dense(array: Any) -> bool:
    """Whether the elements fill a block of memory, in any order of the dimensions."""
    low, high = _backend.byte_bounds(array)
    return high - low == array.size * array.itemsize and not _backend.overlaps_itself(array)
