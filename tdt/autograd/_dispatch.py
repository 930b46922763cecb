"""The call of an op on tensors, in four steps: gather the operands, compute, wrap the result, record the call.

`apply` takes every call. `unary`, `binary` and `ternary` gather the one to three operands of the common case without a loop; what
`Plan.fast_path` does not cover they hand to `apply`. All record by `finish` or, of several results, `record_call`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import getitem, itemgetter
from types import NoneType
from typing import TYPE_CHECKING, Any

import numpy as np

from tdt import _backend
from tdt._backend.waiting import CURRENT
from tdt._core.calls import TENSOR_TYPES, as_numbers
from tdt._core.dtype import dtype, of
from tdt._core.from_data import BITS, check_bits, check_numbers
from tdt._core.mode import INFERENCE, state
from tdt._core.sparse import SparseCOO, on_sparse
from tdt._core.tensor import LEAF, Tensor, alias
from tdt._kernels import LARGE_ARITHMETIC, LOWER, astype, quick_arithmetic
from tdt._kernels._threads import THREADS
from tdt.autograd._forward import computed_on_gpu, recover, run_forward
from tdt.autograd._layouts import LayoutCall, apart, call_of
from tdt.autograd._meta import meta, on_meta
from tdt.autograd._op_table import OPS
from tdt.autograd._plan import NUMBER, Plan, plan_for, ranks_of
from tdt.autograd._record import FINISH, GATHER, edges_of, record_call, repeated
from tdt.autograd._views import NOWHERE, edge_of, follow, may_require_grad
from tdt.autograd._wrap import WRAPPER, link_view, view_on_gpu, views, views_on_gpu, wrap_results

if TYPE_CHECKING:
    from tdt.autograd._op import Op

NO_ATTRIBUTES: dict[str, Any] = {}
TAKE_INDICES = frozenset(("embedding", "index"))  # ops whose indices need not be on the device of the values
MOST_UFUNCS = 1000  # of an op: by the values of its numbers
ndarray = np.ndarray
_ELSEWHERE = frozenset((ndarray, _backend.MetaArray, SparseCOO))
BUILT_IN = type(len)  # of the functions of `_quick_elementwise`, whose results are in PyTorch's order


def unary(op: Op, x: Any, attributes: dict = NO_ATTRIBUTES) -> Any:  # noqa: C901  (helper calls cost time)
    """`apply` for one operand: the fast path for a NumPy tensor, as far as `Plan.fast_path` allows it."""
    record = state.fast_record
    if record is None and (not op.autocast or state.inference):
        record = state.uncast_record
    try:
        a = x._a
        if op.layouts and a.__class__ is not ndarray:
            return apply(op, (x,), attributes)
        dtype = a.dtype
        plan = op.plans.get(dtype)
    except AttributeError:
        plan = None
    if plan is None or not plan.fast_path or a.__class__ is not ndarray or record is None:
        return apply(op, (x,), attributes)
    if not op.rules or not record:
        recorded = None
    else:
        recorded = plan
        if x._view is not None:
            edge_of(x)  # raises for a view that cannot follow its base
    ufunc: Any = None
    if op.ufuncs is not None and a.size < THREADS.elementwise:
        if not attributes:
            found = op.ufuncs.get(dtype)
        else:
            values = attributes.values()
            try:
                found = op.ufuncs.get((dtype, *attributes, *(values if all(values) else attribute_key(attributes))))
            except TypeError:  # a value that is not hashable
                found = None
        ufunc, numbers, named, _ = found or ufunc_of(op, [dtype], [a], attributes)
    if ufunc is not None:
        attributes, result = named, ufunc(a, *numbers) if numbers else ufunc(a)
    elif attributes:
        for value in attributes.values():
            if isinstance(value, Tensor):
                attributes = as_numbers(op.name, attributes)
                break
        if len(attributes) < len(op.attributes):
            attributes = {**op.defaults, **attributes}
        result = op.forward(np, a, **attributes)
    else:
        attributes, result = op.defaults, op.forward(np, a) if op.direct is None else op.direct(a)
    if op.lay and (not result.flags.c_contiguous if op.packed else a.base is not None and 0 in a.strides):
        result = op.lay(np, result, [a])
    if op.view:
        result = alias(result, None)
        link_view(op, x, result, attributes)
    elif result.__class__ is not ndarray:  # NumPy's scalar, of 0-d operands
        result = _backend.as_array(result)
    out = FINISH.call(op, recorded, (x,), (a,), attributes, result, None, None)
    if record is INFERENCE and not op.view:
        out._st.inference = True
    return out


def view_of(op: Op, x: Any, attributes: dict, how: Callable[[Any, Any], Any], argument: Any) -> Any:
    """`unary` for an op of all dtypes whose result is a view of `x`, or a tuple of several.

    Args:
        attributes: all of them, numbers or tuples of numbers.
        how: `how(array, argument)` is what the op gives of a NumPy array, or raises where the op raises.
    """
    record = state.fast_record
    if record is None and (not op.autocast or state.inference):
        record = state.uncast_record
    try:
        a = x._a
    except AttributeError:
        return apply(op, (x,), attributes)
    if a.__class__ is not ndarray or record is None:
        return _view_elsewhere(op, x, attributes, how, argument, record)
    edge = (x._edge if x._view is None else edge_of(x)) if record else None
    plan: Any = None
    if edge is not None and ((plan := op.plans.get(a.dtype)) is None or not plan.direct):
        return apply(op, (x,), attributes)
    try:
        result = how(a, argument)
    except (ValueError, IndexError):  # the op's errors have PyTorch's messages
        return apply(op, (x,), attributes)
    if result.__class__ is tuple:
        if not a.size:
            return apply(op, (x,), attributes)
        out: Any = views(op, x, result, attributes)
    else:
        out = WRAPPER.call(
            x, result, (op, attributes, None), None if record else "inference" if record is INFERENCE else "no_grad"
        )
        if out is None:
            if op.view is True:
                return apply(op, (x,), attributes)
            out = alias(result, None)
            link_view(op, x, out, attributes)
    return out if edge is None else FINISH.call(op, plan, (x,), (a,), attributes, out, None, None)


def _view_elsewhere(op: Op, x: Tensor, attributes: dict, how: Any, argument: Any, record: bool | None) -> Any:
    """`view_of` for other arrays than NumPy's: without `apply` on the only GPU."""
    a: Any = x._a
    plan = op.plans.get(a.dtype)
    if record is None or plan is None or plan.low is not None or op.kernels or x._a.__class__ is not _backend.GpuArray:
        return apply(op, (x,), attributes)
    if CURRENT.capture is not None or CURRENT.notes is not None or _backend.several_gpus():
        return apply(op, (x,), attributes)
    edge = (x._edge if x._view is None else edge_of(x)) if record else None
    if op.multi_view:
        out: Any = views_on_gpu(op, x, attributes, record)
    else:
        result = a[argument] if how is getitem else a.transpose(argument) if how is ndarray.transpose else None
        result = op.forward(_backend.gpu(), a, **attributes) if result is None else result
        out = view_on_gpu(op, x, result, attributes, record)
    if edge is not None:
        edges, outs = ((x, 0) if edge is LEAF else None if edge is NOWHERE else edge,), out if op.multi_view else (out,)
        record_call(op, plan, 1, edges, (x,), (a,), attributes, outs, call=call_of(op, (x,), attributes)[0])
    return out


def binary(op: Op, x: Any, y: Any) -> Any:  # noqa: C901  (helper calls cost time)
    """`apply` for two operands without attributes: the fast path for NumPy tensors, the second may be a number."""
    record = state.fast_record
    if record is None and (not op.autocast or state.inference):
        record = state.uncast_record
    try:
        a = x._a
        if op.layouts and a.__class__ is not ndarray:
            return apply(op, (x, y), {})
        kind = y.__class__
        if kind is float or kind is int:
            if kind is int and not -BITS < y < BITS:
                check_bits(y)
            b, plan = y, None if a.base is not None and 0 in a.strides else op.plans.get((a.dtype, kind))
        else:
            b, dtype = y._a, a.dtype
            plan = op.plans.get(dtype) if dtype is b.dtype else op.plans.get((dtype, b.dtype))
            if b.__class__ is not ndarray:
                plan = None
    except AttributeError:
        plan = None
    if plan is None or not plan.fast_path or a.__class__ is not ndarray or record is None:
        if plan is not None and record is not None and (plan.casts or plan.by_rank) and a.__class__ is ndarray:
            promoted = _promoted(op, plan, record, x, y)
            if promoted is not None:
                return binary(op, *promoted)
        return apply(op, (x, y), {})
    direct, numbers = plan.function, ()
    # Ufuncs keep the order of one array.
    ordered = a.flags.c_contiguous or (b is y and (direct is not None or op.ufuncs is not None))
    lay = None if ordered else op.lay
    if op.ufuncs is not None and a.size < THREADS.elementwise and (b is y or b.size < THREADS.elementwise):
        value = number_key(b) if b is y else b.dtype
        direct, numbers, _, _ = op.ufuncs.get((a.dtype, value)) or ufunc_of(op, [a.dtype, value], [a, b], NO_ATTRIBUTES)
    elif (
        op.large is not None
        and plan.low is None
        and (a.size >= LARGE_ARITHMETIC or (b is not y and b.size >= LARGE_ARITHMETIC))
    ):
        direct = op.large
    try:
        result = op.forward(np, a, b) if direct is None else direct(a, *numbers) if numbers else direct(a, b)
    except (ValueError, OverflowError) as error:
        result = recover(op, np, [a, b], op.defaults, error, (x, y) if record else ())
    if lay is not None and direct.__class__ is not BUILT_IN:
        result = lay(np, result, [a, b])
    if result.__class__ is not ndarray:  # NumPy's scalar, of 0-d operands
        result = _backend.as_array(result)
    out = FINISH.call(op, plan if record and op.rules else None, (x, y), (a, b), op.defaults, result, None, None)
    if record is INFERENCE:
        out._st.inference = True
    return out


def number_first(op: Op, number: Any, y: Any) -> Any:
    """`apply` for a number and a tensor: the fast path of `1 - x` and `1 / x`."""
    record = state.fast_record
    if record is None and (not op.autocast or state.inference):
        record = state.uncast_record
    b, kind = y._a, number.__class__
    check_numbers((number,))
    plan: Any = op.plans.get((kind, b.dtype)) if (kind is float or kind is int) and b.__class__ is ndarray else None
    usual = plan is not None and plan.fast_path and plan.low is None and plan.function is not None and op.ufuncs is None
    if not usual or record is None or not b.flags.c_contiguous or (op.large is not None and b.size >= LARGE_ARITHMETIC):
        if plan is not None and record is not None and plan.casts:
            promoted = _promoted(op, plan, record, number, y)
            if promoted is not None:
                return number_first(op, *promoted)
        return apply(op, (number, y), {})
    try:
        result = plan.function(number, b)
    except OverflowError:  # of an integer that is to be wrapped round
        return apply(op, (number, y), {})
    if result.__class__ is not ndarray:  # NumPy's scalar, of a 0-d operand
        result = _backend.as_array(result)
    plan = plan if record and op.rules else None
    out = FINISH.call(op, plan, (number, y), (number, b), op.defaults, result, None, None)
    if record is INFERENCE:
        out._st.inference = True
    return out


def _promoted(op: Op, plan: Plan, record: bool, x: Any, y: Any) -> tuple[Any, Any] | None:
    """The operands of `binary` in the types that `plan` has for them; None if they may be recorded, are large, or of other types.

    Args:
        y: a NumPy tensor, or a number.
    """
    operands = x, y
    arrays = [t._a if isinstance(t, Tensor) else t for t in operands]
    ranked = plan if plan.by_rank is None else plan.by_rank.get(ranks_of(arrays))
    if ranked is None or ranked.casts is None:  # until `apply` has made it
        return None
    promoted: list[Any] = []
    for t, a, cast in zip(operands, arrays, ranked.casts, strict=True):
        if a.__class__ is ndarray:
            if a.size >= THREADS.elementwise or (record and op.rules and may_require_grad(t)):
                return None
        if cast is None:
            promoted.append(t)
        elif (
            a.__class__ is not ndarray or cast is NUMBER or 0 in a.strides
        ):  # copies of expanded arrays have an order of their own
            return None
        elif a.dtype.char in COMMON and cast.char in COMMON:
            promoted.append(alias(a.astype(cast), None))
        elif a.dtype in LOWER and cast.char == "f":
            promoted.append(alias(astype(a, cast), None))
        else:
            return None
    return promoted[0], promoted[1]


COMMON = frozenset("?bBhilfd")  # types between which promotion is NumPy's conversion


def ternary(op: Op, x: Any, y: Any, z: Any) -> Any:
    """`apply` for three operands without attributes, of an op that is not elementwise: the third may be None."""
    record = state.fast_record
    if record is None and (not op.autocast or state.inference):
        record = state.uncast_record
    try:
        a, b, c = x._a, y._a, None if z is None else z._a
        plan = op.plans.get((a.dtype, b.dtype, NoneType if c is None else c.dtype))
    except AttributeError:
        plan = None
    if (
        plan is None or not plan.direct or plan.casts is not None or plan.by_rank is not None or record is None
        or not (a.__class__ is b.__class__ is ndarray) or not (c is None or c.__class__ is ndarray)
    ):  # fmt: skip
        return apply(op, (x, y, z), {})
    follow(x, y, z)
    result = op.forward(np, a, b, c)
    out = FINISH.call(op, plan if record else None, (x, y, z), (a, b, c), op.defaults, result, None, None)
    if record is INFERENCE:
        out._st.inference = True
    return out


def elementwise(op: Op, operands: tuple[Any, ...], attributes: dict) -> Any:
    """The fast path for ops with a generated ufunc, on small NumPy tensors and numbers; None for all others."""
    record = state.fast_record
    if record is None and ((op.autocast and not state.inference) or (record := state.uncast_record) is None):
        return None
    key: list[Any] = []
    arrays: list[Any] = []
    recorded, contiguous = False, True
    for x in operands:
        kind = x.__class__
        if kind in TENSOR_TYPES:
            a = x._a
            if a.__class__ is not ndarray or a.size >= THREADS.elementwise:
                return None
            contiguous = contiguous and a.flags.c_contiguous
            arrays.append(a)
            key.append(a.dtype)
            recorded = recorded or x._edge is not None or (x._view is not None and x._view.base._edge is not None)
        elif kind is float or kind is int or x is None:
            arrays.append(x)
            key.append(number_key(x))
        else:
            return None
    try:
        found = op.ufuncs.get((*key, *attributes, *attribute_key(attributes)) if attributes else tuple(key))
    except TypeError:  # a value that is not hashable
        found = None
    ufunc, numbers, attributes, pick = found or ufunc_of(op, key, arrays, attributes)
    if ufunc is None or not (contiguous or (ufunc.__class__ is BUILT_IN and not op.packed)):
        return None
    try:
        result = ufunc(*arrays if pick is None else pick(arrays), *numbers)
    except ValueError:  # `apply` raises PyTorch's error
        return None
    plan = None
    if recorded and record and op.rules:
        kinds = tuple([a.dtype if a.__class__ is ndarray else a.__class__ for a in arrays])
        plan = op.plans.get(kinds) or plan_for(op, kinds, arrays)[1]
    out = FINISH.call(op, plan, operands, arrays, attributes, result, None, None)
    if record is INFERENCE:
        out._st.inference = True
    return out


NO_UFUNC: tuple = (None, (), NO_ATTRIBUTES, None)


def number_key(x: float | None) -> Any:
    """A number in a key of `Op.ufuncs`: 0.0 and -0.0 are equal, and so are 1 and 1.0, which have plans of their own."""
    return (x,) if x.__class__ is int else x or repr(x)


def attribute_key(attributes: dict) -> Any:
    """The values of attributes in a key of `Op.ufuncs`: 0.0 and -0.0 are equal."""
    values = attributes.values()
    return values if all(values) else [value or repr(value) for value in values]


def ufunc_of(op: Op, key: list, arrays: list, attributes: dict) -> tuple:
    """(ufunc, the numbers that follow the arrays, all attributes, a function that picks the arrays unless all are arrays).

    The ufunc is None where none is generated. What is found is kept in `op.ufuncs`.

    Args:
        key: the types of arrays and the `number_key` of numbers.
    """
    if attributes:
        key += attributes
        key += attribute_key(attributes)
    check_numbers(arrays)
    types: Any = tuple(key) if len(key) > 1 else key[0]
    try:
        found = op.ufuncs.get(types)
    except TypeError:  # a value that is not hashable
        return NO_UFUNC
    if found is not None:
        return found
    kinds = tuple([a.dtype if a.__class__ is ndarray else a.__class__ for a in arrays])
    plan = op.plans.get(kinds) or plan_for(op, kinds, arrays)[1]
    if plan.by_rank is not None or not plan.fast_path:
        return NO_UFUNC
    if not TENSOR_TYPES.isdisjoint(map(type, attributes.values())):
        return NO_UFUNC
    attributes = {**op.defaults, **attributes}
    try:
        ufunc, places, numbers = op.forward.ufunc_for(tuple(arrays), attributes) or (None, None, ())
    except OverflowError:  # a number that the type cannot hold
        return NO_UFUNC
    if ufunc is None and len(kinds) == 2 and kinds[0] == kinds[1] and kinds[0].__class__ is kinds[1].__class__:
        ufunc = quick_arithmetic(op.name, kinds[0])
    if len(op.ufuncs) > MOST_UFUNCS:
        op.ufuncs.clear()
    pick = None
    if places is not None:
        pick = itemgetter(*places) if len(places) > 1 else itemgetter(slice(places[0], places[0] + 1))
    found = op.ufuncs[types] = ufunc, numbers, attributes, pick
    return found


def apply(op: Op, operands: tuple, attributes: dict, target: Any = None, call: LayoutCall | None = None) -> Any:
    """Run `op`: find the plan, compute, wrap the result and record it.

    Args:
        target: an array to compute into.
        call: the remembered call of another function of these operands, which has no program.
    """
    if op.layouts and call is None and target is None:
        out, call = repeated(op, operands, attributes)
        if out is not None:
            return out
    if op.ufuncs is not None and target is None and (out := elementwise(op, operands, attributes)) is not None:
        return out
    for value in attributes.values():
        if isinstance(value, Tensor):
            return apply(op, operands, as_numbers(op.name, attributes), target)
    record = state.fast_record
    if record is None and (not op.autocast or state.inference):
        record = state.uncast_record
    if record is None:
        if state.handler is not None:
            return state.handler(op, operands, attributes, target)
        record = INFERENCE if state.inference else False
    check_numbers(operands)
    if target is None and (found := GATHER.call(op.plans, operands)) is not None:
        return _directly(op, record, found[0], found[1], operands, attributes)
    return _by_plan(op, record, operands, attributes, target, call)


def _directly(op: Op, record: bool, plan: Plan, arrays: Any, operands: tuple, attributes: dict) -> Any:
    """`apply` for a plan that is `direct`, on NumPy's arrays."""
    if len(attributes) < len(op.attributes):
        attributes = {**op.defaults, **attributes} if attributes else op.defaults
    try:
        result = op.forward(np, *arrays, **attributes)
    except (ValueError, OverflowError) as error:
        result = recover(op, np, [*arrays], attributes, error)
    if op.lay is not None:
        result = op.lay(np, result, arrays)
    if op.view:
        outs = wrap_results(op, result if result.__class__ is tuple else (result,), operands, attributes)
        result = outs if result.__class__ is tuple else outs[0]
    return finished(op, record, plan, operands, arrays, attributes, result)


def finished(
    op: Op,
    record: bool,
    plan: Plan | None,
    operands: tuple,
    arrays: Any,
    attributes: dict,
    result: Any,
    aux: Any = None,
) -> Any:
    """The tensors around what was computed of NumPy's arrays, or the views; recorded if `record`, marked in inference mode."""
    out = FINISH.call(op, plan if record and op.rules else None, operands, arrays, attributes, result, aux, None)
    if record is INFERENCE and not op.view:
        for each in out if out.__class__ is tuple else (out,):
            each._st.inference = True
    return out


def _by_plan(  # noqa: C901  (one path for every op, each step an option of its record)
    op: Op, record: bool, operands: tuple, attributes: dict, target: Any, call: LayoutCall | None
) -> Any:
    """`apply` for all operands."""
    arrays, types, recorded, viewed, xp = _gathered(operands)
    if recorded and xp is None and ndarray in map(type, arrays):
        operands, arrays = _moved_numbers(operands, arrays)
    recorded = recorded and bool(record and op.rules)
    if recorded and viewed:
        follow(*operands)
    if call is None and xp is None and target is None:
        call = call_of(op, operands, attributes)[0]
    if call is not None or (xp is None and _are_on_the_gpu(arrays)):
        xp = _backend.gpu()
    elif xp is None:
        if _backend.several_gpus() and (gpu := _backend.elsewhere(arrays)) is not None:
            with gpu:
                return apply(op, operands, attributes, target)
        if other := _of_other_kind(op, arrays):
            return other(op, operands, attributes)
    plan = op.plans.get(types)
    if plan is None or plan.by_rank is not None or xp is None:
        xp, plan = plan_for(op, types, arrays)
    if plan.casts is not None:
        return apply(op, _cast(operands, plan.casts), attributes, target if plan.casts[0] is None else None)
    if xp is np and plan.direct and target is None:
        return _directly(op, record, plan, arrays, operands, attributes)
    if len(attributes) < len(op.attributes):
        attributes = {**op.defaults, **attributes} if attributes else op.defaults
    aux = None
    if xp is np:
        result = run_forward(op, xp, arrays, attributes, plan.low, target)
    else:
        if call is not None:
            call.plan, call.attributes = plan, attributes
        if call is not None and not op.view and call.forward.takes_notes():
            own = apart(arrays)
            result = call.forward.noted(partial(computed_on_gpu, op, plan, xp, own, attributes, target), own)
        else:
            result = computed_on_gpu(op, plan, xp, arrays, attributes, target)
    if op.aux:
        result, *aux = result
    if op.lay is not None and target is None and xp is np:
        result = op.lay(xp, result, arrays)
    if xp is np and not op.view:
        return finished(op, record, plan if recorded else None, operands, arrays, attributes, result, aux)
    outs = wrap_results(op, result if result.__class__ is tuple else (result,), operands, attributes)
    if recorded:
        edges, mask, nowhere = edges_of(operands)
        if mask:
            record_call(op, plan, mask, edges, operands, arrays, attributes, outs, nowhere, aux, call)
    return outs if result.__class__ is tuple else outs[0]


def _gathered(operands: tuple) -> tuple[list, tuple, bool, bool, Any]:
    """The operands' arrays and types, whether one may require a gradient, whether one is a view, NumPy if all arrays are its."""
    arrays: list[Any] = []
    types: list[Any] = []
    recorded, viewed = False, False
    xp: Any = np
    for x in operands:
        if isinstance(x, Tensor):
            a = x._a
            if a.__class__ is not ndarray:
                xp = None
            arrays.append(a)
            types.append(a.dtype)
            if x._view is not None:
                viewed = True
                recorded = recorded or x._edge is not None or x._view.base._edge is not None
            elif x._edge is not None:
                recorded = True
        else:
            arrays.append(x)
            types.append(x.__class__)
    return arrays, tuple(types), recorded, viewed, xp


def _are_on_the_gpu(arrays: list) -> bool:
    """Whether all arrays are dense ones on the only GPU."""
    kinds = {*map(type, arrays)}
    return _backend.GpuArray in kinds and kinds.isdisjoint(_ELSEWHERE) and not _backend.several_gpus()


def _of_other_kind(op: Op, arrays: list) -> Any:
    """The function that runs `op` if an operand is a meta tensor, or is sparse and the op does not support that; else None."""
    kinds = set(map(type, arrays))
    return _on_meta if _backend.MetaArray in kinds else on_sparse if SparseCOO in kinds and not op.sparse else None


def _on_meta(op: Op, operands: tuple, attributes: dict) -> Any:
    """Shapes alone, for tensors on the device "meta"; nothing is recorded."""
    _check_devices(op, operands)
    host = [alias(x._a.view(ndarray), None) if type(getattr(x, "_a", 0)) is _backend.MetaArray else x for x in operands]
    with meta():
        return on_meta(apply(op, tuple(host), attributes))


def _check_devices(op: Op, operands: tuple) -> None:
    """RuntimeError for tensors on the device "meta" and others; 0-d ones, and indices, may be on the CPU."""
    expected: Any = None
    for x in operands:
        if isinstance(x, Tensor) and (x.ndim or x.is_meta) and op.name not in TAKE_INDICES:
            expected = expected or x.device
            if x.device != expected:
                raise RuntimeError(f"Tensor on device {x.device} is not on the expected device {expected}!")


def _moved_numbers(operands: tuple, arrays: list) -> tuple[tuple, list]:
    """Operands and their arrays: 0-d tensors on the CPU are moved to the GPU of the others by a recorded op."""
    home = next((_backend.device_of(a) for a in arrays if _backend.is_array(a) and not isinstance(a, ndarray)), None)
    if home is None:
        return operands, arrays
    operands = tuple(
        unary(OPS["to_device"], x, {"target": home, "source": _backend.device_of(x._a)})
        if isinstance(x, Tensor) and x._a.__class__ is ndarray and not x.ndim and x.requires_grad
        else x
        for x in operands
    )
    return operands, [x._a if isinstance(x, Tensor) else x for x in operands]


def _cast(operands: tuple, casts: tuple) -> tuple:
    """The operands converted to the promoted type, by a recorded op, so that their gradients are converted back."""
    return tuple(
        x if c is None else x.item() if c is NUMBER else converted(x, of(c))
        for x, c in zip(operands, casts, strict=True)
    )


def converted(x: Any, dtype: dtype) -> Any:
    """`x` in another dtype: a tensor is converted by a recorded op, a Python number is returned unchanged."""
    if isinstance(x, Tensor):
        return x if x._a.dtype == dtype.np else unary(OPS["convert"], x, {"dtype": dtype})
    return x if isinstance(x, (bool, int, float, complex)) else np.asarray(x, dtype.np)
