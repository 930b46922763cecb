"""Writes into existing tensors: in-place ops, `out=`, and the update of the graph of a view's base."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from tdt import _backend
from tdt._core.calls import TENSOR_TYPES, check_call
from tdt._core.dtype import as_dtype, of, result_of
from tdt._core.from_data import BITS
from tdt._core.mode import INFERENCE, computed, state
from tdt._core.sparse import SparseCOO
from tdt._core.tensor import LEAF, Storage, Tensor, alias
from tdt._core.writing import check_cast, check_memory, check_overlap, rounded_twice, store
from tdt._kernels import LARGE_ARITHMETIC
from tdt._kernels._threads import THREADS
from tdt.autograd._dispatch import apply, converted, number_key, ufunc_of
from tdt.autograd._record import WRITE
from tdt.autograd._views import (
    check_view,
    edge_of,
    edge_without_hooks,
    may_require_grad,
    record_copy_slices,
    set_gradient_edge,
)
from tdt.autograd._writes_on_gpu import written

if TYPE_CHECKING:
    from tdt.autograd._op import Op

ndarray, may_share_memory, broadcast = np.ndarray, np.may_share_memory, np.broadcast
SEQUENCES = frozenset((list, tuple))


def write(  # noqa: C901  (one way for every op in place)
    op: Op, x: Tensor, rest: tuple, attributes: dict, repeats: bool | None = None
) -> Tensor:
    """Compute `x` = op(x, *rest) in x's own memory, which its views share.

    The op runs on an alias of `x`; then the edge of `x` is replaced by that of the result. For a view, `copy_slices`
    combines the old base and the new values, and its node becomes the base's. `repeats`: overrides op.repeats.
    """
    if op.writes_out and compute_into(op, x, (x, *rest), attributes):
        return x
    if not isinstance(x, Tensor):
        check_call()
        raise TypeError(f"{op.name}_(): argument 'input' (position 1) must be Tensor, not {type(x).__name__}")
    if x._a.__class__ is not ndarray and _backend.several_gpus() and (gpu := _backend.elsewhere([x._a])) is not None:
        with gpu:
            return write(op, x, rest, attributes, repeats)
    call = None
    if op.writes_out and x._a.__class__ is _backend.GpuArray:
        done, call = written(op, x, rest, attributes)
        if done:
            return x
    if not (op.writes_out or rest) and is_plain(x):
        write_result(x, op(x, **attributes))
        x._st.bump_version()
        return x
    recording = state.grad and any(isinstance(t, Tensor) and t.requires_grad for t in (x, *rest))
    if recording:
        check_inplace(x)
        for t in rest:  # as in PyTorch, a view whose base was modified is rejected before memory is checked
            if isinstance(t, Tensor):
                edge_of(t)
    if state.meta or x._a.__class__ is _backend.MetaArray:
        check_fits(x, apply(op, (alias(x._a, None, x._st), *(_on_device_of(x, t) for t in rest)), attributes))
        x._st.bump_version()
        return x
    check_memory(x, op.repeats if repeats is None else repeats)
    if op.broadcasts:
        check_overlap(x, rest)
    edge = edge_of(x) if recording else None
    if edge is not None and x._view is not None:
        edge = edge_without_hooks(x, edge)
    before = alias(x._a, (x, 0) if edge is LEAF else edge, x._st)
    if recording and op.operands[0] in _rule_params(op):
        before._a, before._st = computed(_copy, [x._a]), Storage()
    target = _direct_target(op, x, rest)
    try:
        result = apply(op, (before, *rest), attributes, target, None if target is None else call)
    except NotImplementedError:  # PyTorch looks first at whether the result could be written
        check_promotion(x, (x, *rest))
        raise
    if call is not None and result._a is not x._a:
        call.forward.program = None  # its launches are not all
    write_result(x, result)
    if state.recording is not None:
        state.recording.wrote(x, result)
    x._st.bump_version()
    if result._edge is not None:
        result = converted(result, of(x._a.dtype))
        point_at(result._edge, x)
        rebase_history(x, result._edge)
    return x


def _on_device_of(x: Tensor, operand: Any) -> Any:
    """An operand of an op in place that has no values; PyTorch takes it from any device where `x` is a meta tensor."""
    if x._a.__class__ is not _backend.MetaArray or not isinstance(operand, Tensor):
        return operand
    return alias(_backend.to_device(operand._a, x.device), None)


def is_plain(x: Any) -> bool:
    """Whether `x` is a contiguous NumPy tensor that may be written to without a record or a check."""
    if not is_unrecorded(x):
        return False
    a = x._a
    return a.__class__ is ndarray and a.flags.c_contiguous and (not x._st.inference or state.inference)


def is_unrecorded(x: Any) -> bool:
    """Whether `x` is a tensor of which nothing is recorded, by autograd or by anything else."""
    kind = x.__class__
    if kind not in TENSOR_TYPES or (state.grad and may_require_grad(x)):
        return False
    return state.fast_record is not None or state.uncast_record is not None


def compute_into(op: Op, out: Any, operands: tuple[Any, ...], attributes: dict) -> bool:  # noqa: C901  (helper calls cost time)
    """Compute into the memory of `out` without any detour, in the common case; False, with nothing done, in all others.

    The common case: nothing is recorded, `out` is a NumPy tensor whose elements are apart, and the operands are numbers, or
    NumPy tensors of its shape and dtype that are `out` itself or share no memory with it. Those of an elementwise op may be
    smaller, if they broadcast to its shape; those of an op that writes at places may have any shape and dtype.
    """
    record, kind = state.fast_record, out.__class__
    if record is None and (not op.autocast or state.inference):
        record = state.uncast_record
    if record is None or kind not in TENSOR_TYPES:
        return False
    if record and (out._edge is not None or (out._view is not None and out._view.base._edge is not None)):
        return False
    try:
        if WRITE.call(op.writes, out, operands, attributes, record, op.ufuncs is not None):
            return True
        a = out._a
        if a.__class__ is not ndarray:
            return False
        dtype, generated = a.dtype, op.ufuncs is not None and a.size < THREADS.elementwise
        arrays, key = _operands_of(op, out, operands, record, generated)
        if arrays is None:
            return False
        if generated:
            ufunc, numbers, _, pick = ufunc_of(op, key, arrays, attributes)
            if ufunc is not None:
                picked = arrays if pick is None else pick(arrays)
                ufunc(*picked, *numbers, a)
                out._st.bump_version()
                in_order = [*map(id, picked)] == [id(x) for x in arrays if x.__class__ is ndarray]
                if in_order and (op.elementwise or len(arrays) == 1):
                    _remember(op, arrays, attributes, True, (ufunc, *numbers))
                return True
            key = [dtype if x.__class__ is ndarray else x.__class__ for x in arrays]
        plan = op.plans.get(dtype if len(key) <= 2 and key[0] is dtype is key[-1] else tuple(key))
        if plan is None or not plan.direct or plan.by_rank is not None:
            return False
        if attributes and not TENSOR_TYPES.isdisjoint(map(type, attributes.values())):
            return False
        if op.ufunc and op.ufuncs is None and not attributes:
            large = op.large is not None and a.size >= LARGE_ARITHMETIC
            direct: Any = op.large if large else plan.function or op.direct
            direct(*arrays, a)
            if direct is plan.function:
                _remember(op, arrays, attributes, False, plan)
        else:
            attributes = {**op.defaults, **attributes} if op.defaults else attributes
            result = op.forward(np, *arrays, **attributes, out=a)
            if result is not a:
                write_result(out, alias(result, None))
    except (ValueError, OverflowError):
        return False  # the general path raises PyTorch's error
    out._st.bump_version()
    return True


def _operands_of(
    op: Op, out: Tensor, operands: tuple[Any, ...], record: Any, by_value: bool
) -> tuple[list[Any] | None, list[Any]]:
    """The operands' arrays and numbers, None where `compute_into` does not take them; and the key of their types.

    The key is that of `Op.ufuncs` if `by_value`, else that of `Op.plans`.
    """
    a = out._a
    dtype, smaller = a.dtype, False
    arrays: list[Any] = []
    key: list[Any] = []
    if out._st.inference and record is not INFERENCE:
        return None, key
    if not a.flags.c_contiguous and (not op.broadcasts or _backend.overlaps_itself(a)):
        return None, key
    if op.to_float and dtype.kind in "biu":
        return None, key
    for t in operands:
        kind = t.__class__
        if t is out:
            arrays.append(a)
            key.append(dtype)
        elif kind in TENSOR_TYPES:
            b = t._a
            if b is not a and not _may_read(op, t, out):
                return None, key
            if record and (t._edge is not None or (t._view is not None and t._view.base._edge is not None)):
                return None, key
            smaller = smaller or b.shape != a.shape
            arrays.append(b)
            key.append(b.dtype)
        elif (
            t is None
            or (kind is float and dtype.kind == "f")
            or (kind is int and dtype.kind in "fiu" and -BITS < t < BITS)
        ):
            arrays.append(t)
            key.append(number_key(t) if by_value else kind)
        else:
            return None, key
    if not op.broadcasts and sum([b is a for b in arrays]) > 1:  # it would read what it has written
        return None, key
    if smaller and op.broadcasts and operands[0] is not out and broadcast(*arrays).shape != a.shape:
        return None, key
    return arrays, key


def _may_read(op: Op, x: Tensor, out: Tensor) -> bool:
    """Whether an operand may be read while `out` is written to: it has other memory, and lies as the op needs it."""
    a, b = out._a, x._a
    if b.__class__ is not ndarray or not _is_apart(x, out):
        return False
    if not op.broadcasts:
        return True
    return b.dtype is a.dtype and (b.shape == a.shape or (bool(op.elementwise) and b.ndim <= a.ndim))


def _remember(op: Op, arrays: list[Any], attributes: dict, by_value: bool, found: Any) -> None:
    """Keep what computes into the target of a call, for `WRITE`."""
    key: list[Any] = []
    for x in arrays:
        key += (x.dtype,) if x.__class__ is ndarray else (x.__class__, x) if by_value else (x.__class__,)
    for name, value in attributes.items():
        key += name, value.__class__, value
    if len(op.writes) >= MOST_WRITES:
        op.writes.clear()
    op.writes[tuple(key)] = found


MOST_WRITES = 500  # of an op: by the values of its numbers


def _copy(a: Any) -> Any:
    return a.copy()


def _rule_params(op: Op) -> set[str]:
    return {p for rule in op.rules.values() for p in (*rule.params, *(rule.fast_params or ()))}


def _direct_target(op: Op, x: Tensor, rest: tuple) -> Any:
    """x's array if the forward may write into it directly: all shapes and dtypes are equal and no memory overlaps partially.

    An op that does not broadcast writes at places that other operands name, so that these may have any shape and dtype, but
    share no memory with `x`.
    """
    a = x._a
    if not op.writes_out or a.__class__ is SparseCOO or (op.to_float and a.dtype.kind in "biu"):
        return None
    of_any_type = op.promote == () and a.__class__ is _backend.GpuArray  # of masks, and of what is converted
    if op.repeats and _backend.overlaps_itself(a):
        return a
    if not op.broadcasts:
        others = [t._a for t in rest if isinstance(t, Tensor)]
        return None if any(type(b) is not type(a) or _backend.may_overlap(a, b) for b in others) else a
    for t in rest:
        if isinstance(t, Tensor):
            b = t._a
            if type(b) is not type(a) or (b.dtype != a.dtype and not of_any_type) or (b.ndim and b.shape != a.shape):
                return None
            same = a.strides == b.strides and _backend.byte_bounds(a) == _backend.byte_bounds(b)
            if b.shape == a.shape and not same and _backend.may_overlap(a, b):
                return None
        elif t is not None and not (isinstance(t, (int, float)) and a.dtype.kind == "f"):
            if t.__class__ is not int or a.dtype != np.int64:  # of int64, which Python's integers leave as it is
                return None
    return a


def check_inplace(x: Tensor, what: str = "is being") -> None:
    """Refuse writes that would make gradients wrong: to leaves, views of leaves, multi-views, views made without grad.

    As in PyTorch, a view of a leaf counts as a leaf until its edge is computed after an in-place write to its base.
    """
    view = x._view
    if view is not None:
        check_view(x, what)
        if x.requires_grad and view.base._edge in (None, LEAF):
            raise RuntimeError(f"a view of a leaf Variable that requires grad {what} used in an in-place operation.")
    if x._edge is LEAF or (x._edge is None and x.requires_grad):
        raise RuntimeError(f"a leaf Variable that requires grad {what} used in an in-place operation.")


def write_result(x: Tensor, result: Tensor) -> None:
    """Store the values of `result` in x's memory; RuntimeError if they do not fit."""
    a, r = x._a, result._a
    if r is not a:
        check_fits(x, result)
        r = r.dense() if r.__class__ is SparseCOO is not a.__class__ else r
        a[...] = rounded_twice(r, a.dtype)


def check_promotion(target: Tensor, operands: tuple) -> None:
    """RuntimeError where the type to which operands are promoted is not written to `target`."""
    tensors = [(t.dtype, not t.ndim) for t in operands if isinstance(t, Tensor)]
    numbers = [as_dtype(type(t)) for t in operands if isinstance(t, (bool, int, float, complex))]
    check_cast(alias(np.empty(0, result_of(tensors, numbers).np), None), target)


def check_fits(x: Tensor, result: Tensor) -> None:
    """Whether `result` may be stored in `x`; RuntimeError for another shape, a type that does not fit, or no values."""
    a, r = x._a, result._a
    if r.__class__ is _backend.MetaArray is not a.__class__ and not state.meta:
        raise RuntimeError(f"Tensor on device meta is not on the expected device {x.device}!")
    if r.shape != a.shape:
        raise RuntimeError(f"output with shape {list(a.shape)} doesn't match the broadcast shape {list(r.shape)}")
    check_cast(result, x)


def point_at(edge: tuple, x: Tensor) -> None:
    """Make the node save x's memory instead of the temporary result, so that a later write to `x` is detected."""
    node = edge[0]
    for slot, i in enumerate(node.backward_plan.keep):
        if i - len(node.edges) == edge[1]:
            node.saved[slot] = (x._a, x._st, x._st.version)


def rebase_history(x: Tensor, edge: tuple) -> None:
    """Set the edge of `x` after a write.

    If `x` is a view, the base gets the edge of `copy_slices`, and the view's own edge is derived from that.
    """
    view = x._view
    if view is None:
        set_gradient_edge(x, edge)
        return
    set_gradient_edge(view.base, record_copy_slices(view, alias(x._a, edge)))
    view.version = -1
    edge_of(x)


def copy_into(out: Any, call: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
    """Write the results of `call(*args, **kwargs)` without `out=` into `out`, in the common case; None in all others.

    So small tensors are written by the short way of a function, which has none for `out=`. The common case: nothing is
    recorded, each result has the shape and dtype of its target, whose memory is contiguous and no argument's.

    Returns:
        `out`; of several results the named tuple that the function gives, of the targets.
    """
    if out.__class__ is tuple:
        return _copy_several(out, call, args, kwargs)
    if state.handler is not None or not _takes_copies(out):
        return None
    for x in (*args, *kwargs.values()) if kwargs else args:
        kind = x.__class__
        if not (_is_apart(x, out) if kind in TENSOR_TYPES else kind not in SEQUENCES or _are_apart(x, (out,))):
            return None
    found: Any = call(*args, **kwargs) if kwargs else call(*args)
    kind = found.__class__
    if kind not in TENSOR_TYPES or found._edge is not None:
        return None
    return out if write_array(out, found._a) else None


def takes_result(out: Any, x: Tensor, y: Tensor | None = None) -> bool:
    """Whether a small result computed from tensors of which nothing is recorded may be written into `out`."""
    return _takes_copies(out) and _is_apart(x, out) and (y is None or _is_apart(y, out))


def write_array(out: Tensor, result: Any) -> bool:
    """Whether `result` is an array of out's shape and dtype, and now in its memory."""
    a = out._a
    if (
        result.__class__ is not ndarray
        or result.shape != a.shape
        or (result.dtype is not a.dtype and result.dtype != a.dtype)
    ):
        return False
    a[...] = result
    out._st.bump_version()
    return True


def _copy_several(targets: tuple, call: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
    """`copy_into` of several results."""
    if state.handler is not None or not all(map(_takes_copies, targets)):
        return None
    if len({id(t._st) for t in targets}) < len(targets) or not _are_apart((*args, *kwargs.values()), targets):
        return None
    found: Any = call(*args, **kwargs)
    if not isinstance(found, tuple) or len(found) != len(targets):
        return None
    for t, r in zip(targets, found, strict=True):
        if r._edge is not None or r._a.shape != t._a.shape or r._a.dtype != t._a.dtype:
            return None
    for t, r in zip(targets, found, strict=True):
        write_array(t, r._a)
    return targets if found.__class__ is tuple else found.__class__(*targets)


def _takes_copies(t: Any) -> bool:
    """Whether `t` is a small contiguous tensor of NumPy, of which nothing is recorded."""
    kind = t.__class__
    if kind not in TENSOR_TYPES:
        return False
    a = t._a
    if a.__class__ is not ndarray or a.size >= THREADS.elementwise or not a.flags.c_contiguous:
        return False
    if t._st.inference and not state.inference:
        return False
    return not may_require_grad(t)


def _are_apart(values: Iterable[Any], targets: tuple) -> bool:
    """Whether the tensors among the values, and in lists among them, share no memory with the targets."""
    for x in values:
        kind = x.__class__
        if kind in TENSOR_TYPES:
            if not all(_is_apart(x, t) for t in targets):
                return False
        elif kind in SEQUENCES and not _are_apart(x, targets):
            return False
    return True


def _is_apart(x: Tensor, t: Tensor) -> bool:
    """Whether two tensors of NumPy share no memory."""
    a, b = x._a, t._a
    return x._st is not t._st and ((a.base is None and b.base is None) or not may_share_memory(a, b))


def write_out(op: Op, out: Any, operands: tuple, attributes: dict) -> Any:
    """Run `op` and store its result(s) in `out`: resized where empty, cast where the category allows; no gradients."""
    if op.writes_out and op.elementwise and compute_into(op, out, operands, attributes):
        return out
    targets = tuple(out) if isinstance(out, (tuple, list)) else (out,)
    for t in targets:
        if not isinstance(t, Tensor):
            raise TypeError(f"{op.name}(): argument 'out' must be Tensor, not {type(t).__name__}")
    tensors = [t for t in (*operands, *targets) if isinstance(t, Tensor)]
    if state.grad and any(t.requires_grad for t in tensors):
        raise RuntimeError(
            f"{op.name}(): functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad."
        )
    if op.broadcasts:
        for t in targets:
            if op.elementwise:
                check_memory(t)
            check_overlap(t, operands)
    try:
        results = op(*operands, **attributes)
    except NotImplementedError:
        check_promotion(targets[0], operands)
        raise
    results = results if isinstance(results, tuple) else (results,)
    if len(results) != len(targets):
        raise TypeError(f"{op.name}(): argument 'out' must be a tuple of {len(results)} Tensors, got {len(targets)}")
    for t, r in zip(targets, results, strict=True):
        if op.elementwise and any(t is x for x in operands):  # which keeps its shape
            check_fits(t, r)
        store(t, r)
    return out
