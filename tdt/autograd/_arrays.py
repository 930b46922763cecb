"""Functions of several ops on the arrays of tensors: without tensors and nodes between the ops, where none are needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tdt import _backend
from tdt._core.calls import TENSOR_TYPES
from tdt._core.dtype import ALL_DTYPES
from tdt._core.mode import INFERENCE, state
from tdt._core.tensor import Tensor, wrap_new
from tdt._kernels import LARGE_ARITHMETIC, LOWER, chosen
from tdt._kernels._threads import THREADS
from tdt.autograd._dispatch import number_key, ufunc_of

if TYPE_CHECKING:
    from tdt.autograd._op import Op

FULL_PRECISION = frozenset(d.np for d in ALL_DTYPES) - LOWER  # ops round half precision after each one
ndarray = np.ndarray


def on_arrays(*tensors: Any) -> bool:
    """Whether a function of several ops may compute on the arrays of `tensors` by `compute`: nothing is recorded, no handler
    takes the calls of ops, and the arrays are NumPy's, contiguous and of one dtype.
    """
    record = state.fast_record
    if record is None and (record := state.uncast_record) is not INFERENCE:
        return False
    dtype = None
    for t in tensors:
        cls = t.__class__
        if cls not in TENSOR_TYPES or t._a.__class__ is not ndarray:
            return False
        if record and (t._edge is not None or (t._view is not None and t._view.base._edge is not None)):
            return False
        a = t._a
        if dtype is None:
            dtype = a.dtype
            if dtype not in FULL_PRECISION:
                return False
        elif a.dtype is not dtype:
            return False
        if not a.flags.c_contiguous:
            return False
    return True


def unrecorded(t: Tensor) -> bool:
    """Whether an op on a tensor need not be recorded nor given to a handler, and its array is NumPy's."""
    record = state.fast_record
    if (record is None and (record := state.uncast_record) is not INFERENCE) or t._a.__class__ is not ndarray:
        return False
    return not record or (t._edge is None and (t._view is None or t._view.base._edge is None))


def compute(op: Op, *arrays: Any, **attributes: Any) -> Any:
    """The result of an op of one output on arrays for which `on_arrays` holds, or on slices of them."""
    if op.ufuncs is not None and arrays[0].size < THREADS.elementwise:
        found = op.ufuncs.get(arrays[0].dtype) if len(arrays) == 1 and not attributes else None
        if found is None:
            key = [a.dtype if a.__class__ is ndarray else number_key(a) for a in arrays]
            found = ufunc_of(op, key, list(arrays), attributes)
        ufunc, numbers, _, pick = found
        if ufunc is not None:
            return ufunc(*arrays if pick is None else pick(arrays), *numbers)
    elif op.direct is not None and not attributes:
        large = op.large is not None and arrays[0].__class__ is ndarray and arrays[0].size >= LARGE_ARITHMETIC
        return (op.large if large else op.direct)(*arrays)  # type: ignore[misc]
    if op.kernels and (kernel := chosen(op.kernels, np, *arrays, **attributes)):
        return kernel(*arrays, **attributes)
    return op.forward(np, *arrays, **attributes)


def as_tensor(result: Any) -> Tensor:
    """A tensor of what was computed; a scalar of NumPy becomes a 0-d array."""
    return wrap_new(result if result.__class__ is ndarray else _backend.as_array(result))
