"""Remembered calls in place and with `out=`: their results are written into a tensor without the steps between."""

from __future__ import annotations

from collections.abc import Callable
from types import NoneType
from typing import Any

import numpy as np

from tdt._core.calls import TENSOR_TYPES
from tdt._core.mode import INFERENCE, state
from tdt._kernels._threads import THREADS

FEW = 1 << 15  # elements that are copied in less time than the write of some of them takes
INTS = frozenset([int])
PLAIN = {int, bool, str, NoneType}  # types of arguments by whose values calls are remembered, as by those of floats
ndarray, may_share_memory = np.ndarray, np.may_share_memory


def writes(  # noqa: C901
    calls: dict[tuple, Any], by_shape: bool
) -> Callable[[Any, tuple, dict[str, Any], bool], bool]:
    """`(target, args, kwargs, apart)`: whether the result of a function's remembered call is now in `target`; else nothing is.

    `target` is small and contiguous, and has the result's shape and dtype; nothing is recorded of it and of the arguments. It
    is the first argument, before `args`, of a call in place; or, of one with `out=`, shares no memory with tensors (`apart`).

    Args:
        calls: the remembered calls, by types and values of arguments, and `by_shape`.
    """

    def written(target: Any, args: tuple, kwargs: dict[str, Any], apart: bool) -> bool:  # noqa: C901  (one frame)
        record, kind = state.fast_record, target.__class__
        if record is None and (record := state.uncast_record) is not INFERENCE:
            return False
        if kind not in TENSOR_TYPES:
            return False
        a, storage = target._a, target._st
        if a.__class__ is not ndarray or not a.flags.c_contiguous or (storage.inference and record is not INFERENCE):
            return False
        if a.size > FEW and not (apart and a.size < THREADS.elementwise):
            return False
        if record and (target._edge is not None or (target._view is not None and target._view.base._edge is not None)):
            return False
        key: list[Any] = [*kwargs] if kwargs else []
        arrays: list[Any] = []
        if not apart:
            arrays.append(a)
            if by_shape:
                key += a.dtype, a.shape, a.strides
            else:
                key.append(a.dtype)
        for x in (*args, *kwargs.values()) if kwargs else args:
            kind = x.__class__
            if kind in TENSOR_TYPES:
                b = x._a
                if by_shape and b.__class__ is ndarray:
                    key += b.dtype, b.shape, b.strides
                elif b.__class__ is ndarray and b.size < THREADS.elementwise and b.flags.c_contiguous:
                    key.append(b.dtype)
                else:
                    return False
                if x._st is storage and (apart or x is not target):
                    return False
                if apart and (a.base is not None or b.base is not None) and may_share_memory(a, b):
                    return False
                if record and (x._edge is not None or (x._view is not None and x._view.base._edge is not None)):
                    return False
                arrays.append(b)
            elif kind is float:
                key.append(x or repr(x))  # 0.0 and -0.0 are equal
            elif kind in PLAIN or (kind is tuple and INTS.issuperset(map(type, x))):
                key += kind, x  # as are 1 and True
            else:
                return False
        call = calls.get(tuple(key))
        if not call or not call.write(arrays, a, apart):
            return False
        storage.bump_version()
        return True

    return written
