"""Writes of one value, or of the elements of another tensor: fill, and the ops of `fill_` and `copy_`."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from tdt import _kernels
from tdt._backend.waiting import refuse_program, repeatable
from tdt._core import dtype as _dtype
from tdt._core.calls import front
from tdt._core.dtype import FLOAT8S
from tdt._core.float8 import KINDS, astype
from tdt._core.from_data import LARGE, check_bits, fill_number
from tdt._core.tensor import Tensor
from tdt._core.writing import rounded_twice
from tdt._ops._common import Number
from tdt.autograd._dispatch import converted
from tdt.autograd._node_names import label
from tdt.autograd._op import op

__all__ = ["fill"]


_COPIED = (_kernels.gpu_kernel("formula_gpu:copied", _kernels.gpu_converted),)


@op(promote=(), computes=False, float8=FLOAT8S, node="CopyBackwards")
@repeatable
def _copy(xp: ModuleType, x: Any, source: Any, *, out: Any = None) -> Any:
    if out is not None and (fast := _kernels.chosen(_COPIED, xp, source, out)):
        return fast(source, out)
    refuse_program()
    if out is None:
        return xp.array(xp.broadcast_to(_convertible(source, x), x.shape), dtype=x.dtype)
    xp.copyto(out, _convertible(source, x), casting="unsafe")
    return out


def _convertible(source: Any, x: Any) -> Any:
    """`source` for a tensor like `x`: its real part for one of real numbers, rounded for float8 and float16."""
    if x.dtype in KINDS or source.dtype in KINDS:
        return astype(source, x.dtype)
    return rounded_twice(source.real if source.dtype.kind == "c" and x.dtype.kind not in "bc" else source, x.dtype)


_copy.vjp("x")(lambda g: g.new_zeros(g.shape))
_copy.fast_vjp("x")(lambda xp, g: xp.zeros(g.shape, g.dtype))
_copy.vjp("source")(lambda g, source_dtype: converted(g, _dtype.of(source_dtype)))


def _fill_name(node: Any) -> str:
    return f"FillBackward{2 if node.backward_plan.numbers >> 1 & 1 else 3}"


_FILLED = (_kernels.gpu_kernel("move_gpu:filled", _kernels.gpu_words),)


@op(promote=(), computes=False, repeats=True, float8=FLOAT8S, node=_fill_name)
@repeatable
def _fill(xp: ModuleType, x: Any, value: Any, *, out: Any = None) -> Any:
    value = fitting(xp, value, x.dtype)
    if xp is not np:
        if out is not None and isinstance(value, np.generic) and (fast := _kernels.chosen(_FILLED, xp, out)):
            return fast(out, value)
        refuse_program()
    out = xp.empty(x.shape, x.dtype) if out is None else out
    if xp is np and x.dtype == _dtype.bfloat16.np:
        _kernels.fill(out, value)
    else:
        out[...] = value
    return out


_fill.vjp("x")(lambda g: g.new_zeros(g.shape))
_fill.fast_vjp("x")(lambda xp, g: xp.zeros(g.shape, g.dtype))
_fill.vjp("value")(lambda g, value_dtype: converted(g.sum(), _dtype.of(value_dtype)))


@front
def fill(input: Tensor, value: Tensor | Number) -> Tensor:
    """A tensor of the shape and dtype of `input` with every element `value`.

    Args:
        value: a number or 0-d tensor.
    Shape: input (*), value (); result that of input.
    Raises:
        RuntimeError: when `value` has dimensions, or the dtype of `input` cannot hold it.

    >>> import tdt
    >>> tdt.fill(tdt.zeros(2), 3)
    tensor([3., 3.])
    """
    return label(_fill(input, value_of_fill(value)), f"FillBackward{int(isinstance(value, Tensor))}")


def value_of_fill(value: Tensor | Number) -> Tensor | Number:
    """`value`, a number or a 0-d tensor; RuntimeError for more elements."""
    if isinstance(value, Tensor) and value.ndim:
        raise RuntimeError(f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions.")
    if value.__class__ is int:
        check_bits(value)
    return value


def fitting(xp: ModuleType, value: Any, np_dtype: Any) -> Any:
    """A number or 0-d array as a 0-d array of the dtype, or a number; RuntimeError where the dtype cannot hold the value."""
    if value.__class__ is float and np_dtype.kind == "f" and (-LARGE < value < LARGE or value - value != 0):
        return np_dtype.type(value)
    if (
        xp is not np and hasattr(value, "dtype") and value.dtype.kind != "c"
    ):  # reading the value would synchronize with the GPU
        return value.astype(np_dtype)
    number = value.item() if isinstance(value, np.ndarray) else value
    filled = fill_number(number, _dtype.of(np_dtype), "value")[0]
    if xp is not np and np_dtype.kind in "biufc":  # a kernel takes it as a number, without an upload
        return astype(np.asarray(filled), np_dtype)[()]
    return astype(xp.asarray(filled), np_dtype)
