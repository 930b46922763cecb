"""Tensors around what an op computed: those of views share their base's storage, and know how they came about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tdt import _backend, _kernels
from tdt._core.mode import INFERENCE, state
from tdt._core.tensor import Storage, Tensor, View, alias

if TYPE_CHECKING:
    from tdt.autograd._op import Op

ndarray = np.ndarray
_new = object.__new__


def wrap_results(op: Op, results: tuple, operands: tuple, attributes: dict) -> tuple[Tensor, ...]:
    """Tensors around the results; NumPy's scalars become 0-d arrays."""
    fast = op.multi_view and (state.fast_record is not None or state.inference)
    if fast and type(operands[0]._a) is ndarray and operands[0]._a.size:
        return views(op, operands[0], results, attributes)
    outs = []
    for k, r in enumerate(results):
        t = alias(r if r.__class__ is ndarray else _backend.as_array(r), None)
        if op.view:
            link_view(op, operands[0], t, attributes, k if op.multi_view else None)
        if state.inference and t._view is None:
            t._st.inference = True
        outs.append(t)
    return tuple(outs)


def views(op: Op, x: Tensor, results: tuple, attributes: dict) -> tuple[Tensor, ...]:
    """Tensors around several views of the memory of `x`, which has elements."""
    creation_meta = "multi" if state.fast_record else "inference" if state.inference else "no_grad"
    wrap = WRAPPER.call
    return tuple([wrap(x, r, (op, attributes, k), creation_meta) for k, r in enumerate(results)])


def wrap_view(x: Tensor, array: Any, step: tuple, creation_meta: str | None) -> Tensor | None:
    """The tensor around an array that is a view of x's, by `step`; None for an array of another memory, and for empty ones.

    Args:
        creation_meta: of this call; None for that of `x`.
    """
    a, base = x._a, array.base
    if not a.size or (base is not a and array is not a and (base is None or base is not a.base)):
        return None
    return _wrapped(x, array, step, creation_meta)


def _wrapped(x: Tensor, array: Any, step: tuple, creation_meta: str | None) -> Tensor:
    """`wrap_view` of what is known to be a view, and not empty."""
    t = _new(Tensor)
    t._a = array
    t._edge = t._grad = None
    st = t._st = x._st
    source = x._view
    if source is None:
        t._view = View(x, None, step, st.version, creation_meta or "", x._a)
    else:
        inherited = source.creation_meta if creation_meta is None else creation_meta
        t._view = View(source.base, source, step, st.version, inherited, source.base_array)
    return t


WRAPPER = _kernels.Tiered(wrap_view, lambda: _kernels.view_wrapper(Tensor, View, ndarray) or wrap_view)
# The same for CuPy's arrays that are known to be views, and not empty.
GPU_WRAPPER = _kernels.Tiered(_wrapped, lambda: _kernels.view_wrapper(Tensor, View, _backend.GpuArray) or _wrapped)


def view_on_gpu(op: Op, x: Tensor, array: Any, attributes: dict, record: bool | None) -> Tensor:
    """The tensor around a view that `op` gives of x, or around a copy. record: see `state.fast_record`."""
    wrap = GPU_WRAPPER.call if op.view is True and array.size else wrap_view
    out = wrap(x, array, (op, attributes, None), None if record else "inference" if record is INFERENCE else "no_grad")
    if out is None:
        out = alias(array, None)
        link_view(op, x, out, attributes)
    return out


MOST_PLACES = 2000  # ways to divide arrays that are remembered
# By op, attributes and how an array lies: shape, strides and offset of each view.
_places: dict[tuple, list[tuple]] = {}


def views_on_gpu(op: Op, x: Tensor, attributes: dict, record: bool | None) -> tuple[Tensor, ...]:
    """The tensors around several views that `op` gives of x, on the only GPU."""
    a: Any = x._a
    dtype, data = a.dtype, a.data
    places = _places.get(key := (op, dtype, a.shape, a.strides, *attributes.values()))
    if places is None:
        arrays = op.forward(_backend.gpu(), a, **attributes)
        if not arrays or not all(each.size for each in arrays):
            return wrap_results(op, arrays, (x,), attributes)
        if len(_places) >= MOST_PLACES:
            _places.clear()
        places = _places[key] = [(each.shape, each.strides, each.data.ptr - data.ptr) for each in arrays]
    kind: Any = _backend.GpuArray
    new = super(kind, kind).__new__
    meta = "inference" if record is INFERENCE else "multi" if record else "no_grad"
    wrap, outs = GPU_WRAPPER.call, []
    for k, (shape, strides, offset) in enumerate(places):
        array = new(kind)  # as a part of `a` in half the time
        array._init(shape, dtype, data + offset, strides)
        outs.append(wrap(x, array, (op, attributes, k), meta))
    return tuple(outs)


def link_view(op: Op, x: Tensor, t: Tensor, attributes: dict, k: int | None = None) -> None:
    """Let `t`, a result of a view op on `x`, share x's storage, and store its View unless the data was copied."""
    t._view = None
    if op.view is not True:
        base = t._a.base
        if base is not x._a and (base is None or base is not x._a.base) and not _backend.may_overlap(t._a, x._a):
            t._st = Storage()
            if state.inference:
                t._st.inference = True
            return
    if not t._a.size and not any(t._a.strides):
        again = op.forward(_backend.namespace(x._a), _backend.with_strides(x._a), **attributes)
        t._a = again if k is None else again[k]
    st = t._st = x._st
    recorded = state.fast_record or state.uncast_record
    creation_meta = "" if recorded else "inference" if state.inference else "no_grad"
    if op.multi_view:
        creation_meta = creation_meta or "multi"
    source, step = x._view, (op, attributes, k)
    if source is None:
        t._view = View(x, None, step, st.version, creation_meta, x._a)
    else:
        t._view = View(source.base, source, step, st.version, creation_meta or source.creation_meta, source.base_array)
