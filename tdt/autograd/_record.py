"""The record of a call: where the gradients of its operands go, and the node of the graph that it becomes."""

from __future__ import annotations

from types import NoneType
from typing import TYPE_CHECKING, Any

import numpy as np

from tdt import _backend, _kernels
from tdt._core.calls import TENSOR_TYPES
from tdt._core.dtype import ALL_DTYPES, FLOAT, FLOAT8
from tdt._core.mode import state, uncast_record
from tdt._core.tensor import LEAF, Storage, Tensor, View, alias, wrap, wrap_new
from tdt._kernels.programs_gpu import OutdatedProgramError
from tdt.autograd._layouts import LayoutCall, Layouts, call_of
from tdt.autograd._node import BackwardPlan, Node, node_of, numbers
from tdt.autograd._plan import Plan, plan_for
from tdt.autograd._views import NOWHERE, edge_of

if TYPE_CHECKING:
    from tdt.autograd._op import Op

ndarray = np.ndarray
DIFFERENTIABLE = frozenset(d.np for d in ALL_DTYPES + FLOAT8 if d.category >= FLOAT)


def edges_of(operands: tuple[Any, ...]) -> tuple[list[Any], int, int]:
    """Where the gradient of each operand goes; a bit set of those that have one; and of those that are views without a graph."""
    edges: list[Any] = []
    mask, nowhere, bit = 0, 0, 1
    for x in operands:
        edge = (x._edge if x._view is None else edge_of(x)) if isinstance(x, Tensor) else None
        if edge is not None:
            mask |= bit
            if edge is NOWHERE:
                edge, nowhere = None, nowhere | bit
        edges.append((x, 0) if edge is LEAF else edge)
        bit += bit
    return edges, mask, nowhere


def record_call(
    op: Op, plan: Plan, mask: int, edges: Any, operands: tuple, arrays: Any, attributes: dict, outs: tuple,
    nowhere: int = 0, aux: Any = None, call: LayoutCall | None = None, whole: bool = True,
) -> None:  # fmt: skip
    """Create a node of the graph, and set it as the grad_fn of the results `outs` that can have gradients.

    Args:
        mask: the operands that require gradients, as a bit set.
        edges: where the gradient of each operand goes.
        nowhere: the operands among them that are views made under no_grad, as a bit set.
        aux: values that the forward computed for fast_vjp.
        call: the remembered one that this is, on a GPU.
        whole: False if all results but the first are arrays, which nothing refers to.
    """
    key = (mask, nowhere) if nowhere else mask
    back = plan.backward_plans.get(key)
    if back is None:
        kinds = tuple(map(type, arrays))
        back = plan.backward_plans[key] = BackwardPlan(op, mask, len(operands), plan.low, nowhere, kinds)
    if not back.has_rule:
        return
    node = node_of(back, edges, operands, arrays, attributes, outs, aux, None, call, whole)
    if not (back.multiple_outputs and whole):
        t = outs[0]
        known = (t._a.dtype,)
        if known == back.dtypes or known[0] in DIFFERENTIABLE:
            back.dtypes, t._edge = known, (node, 0)
        return
    dtypes: list[Any] = []
    for k, t in enumerate(outs):
        dtype = t._a.dtype
        if op.nondiff and op.outputs[k] in op.nondiff:
            dtype = None
        elif dtype in DIFFERENTIABLE:
            t._edge = (node, k)
        else:
            dtype = False  # of another call, it may have a gradient
        dtypes.append(dtype)
    back.dtypes = tuple(dtypes[:1] if op.multi_view else dtypes)


def finish(
    op: Op, plan: Plan | None, operands: tuple, arrays: Any, attributes: dict, result: Any, aux: Any, call: Any
) -> Any:
    """The tensor around the result of a call, or the tuple of those around several.

    The call is recorded if an operand requires a gradient.

    Args:
        plan: None where nothing is recorded.
        result: an array, or the tensor, which is a view; or a tuple of these.
        call: the remembered one (`_remembered._Call`) that this is.
    """
    several = result.__class__ is tuple
    outs = tuple([r if r.__class__ is Tensor else wrap(r if r.__class__ is ndarray else _backend.as_array(r))
                  for r in (result if several else (result,))])  # fmt: skip
    if plan is not None:
        edges, mask, nowhere = edges_of(operands)
        if mask:
            record_call(op, plan, mask, edges, operands, arrays, attributes, outs, nowhere, aux)
            if call is not None and outs[0]._edge is not None:
                outs[0]._edge[0].call = call
    return outs if several else outs[0]


CLASSES = {
    "tensor": Tensor,
    "storage": Storage,
    "view": View,
    "plan": Plan,
    "backward_plan": BackwardPlan,
    "node": Node,
}
FINISH = _kernels.Tiered(finish, lambda: _kernels.finisher(CLASSES, LEAF, numbers, finish))


def _gathers_none(plans: dict, operands: tuple) -> None:
    """Leave all operands to Python."""


# See `_kernels._operands.gatherer`.
GATHER = _kernels.Tiered(_gathers_none, lambda: _kernels.gatherer(CLASSES) or _gathers_none)


def _writes_none(functions: dict, target: Any, operands: tuple, attributes: dict, record: Any, by_value: bool) -> bool:
    """Leave all writes to Python."""
    return False


# See `_kernels._writes.writer`.
WRITE = _kernels.Tiered(_writes_none, lambda: _kernels.writer(CLASSES) or _writes_none)


def repeated(
    op: Op, operands: tuple, attributes: dict, function: Layouts | None = None
) -> tuple[Any, LayoutCall | None]:
    """What `op` gives of tensors on a GPU by the program of such calls, None without one; and the remembered call.

    Args:
        function: that has these arguments, if not the op itself.
    """
    record = state.fast_record
    if record is None and (not op.autocast or state.inference):
        record = state.uncast_record
    if record is None:
        if state.handler is not None:
            return None, None
        record = False  # in inference mode
    call, arrays = call_of(function or op, operands, attributes)
    if call is None or (program := call.forward.program) is None:
        return None, call
    try:
        results = program(arrays)
    except OutdatedProgramError:
        call.forward.program = None
        return None, call
    return record_repeated(op, call, operands, arrays, results, record), call


def record_repeated(
    op: Op, call: LayoutCall, operands: Any, arrays: Any, results: Any, record: bool, whole: bool = True
) -> Any:
    """Tensors around what a program has computed; the aux values of `op` follow the results.

    Args:
        record: whether it is recorded.
        whole: whether all results are returned; else the first.
    """
    aux: Any = None
    if op.aux:
        results, *aux = results
    if results.__class__ is not tuple:
        outs: tuple = (alias(results, None),)
    elif whole:
        outs = tuple([alias(r, None) for r in results])
    else:
        outs = (alias(results[0], None), *results[1:])
    if record and op.rules:
        for x in operands:
            kind = x.__class__
            if kind in TENSOR_TYPES and (
                x._edge is not None or (x._view is not None and x._view.base._edge is not None)
            ):
                edges, mask, nowhere = edges_of(operands)
                if mask:
                    attributes = call.attributes
                    record_call(
                        op, call.plan, mask, edges, operands, arrays, attributes, outs, nowhere, aux, call, whole
                    )
                break
    elif not record and state.inference:
        for out in outs if whole else outs[:1]:
            out._st.inference = True
    return outs if whole and results.__class__ is tuple else outs[0]


def record_results(
    op: Op, operands: tuple, arrays: tuple, attributes: dict, results: tuple, call: LayoutCall | None = None
) -> tuple[Tensor, ...]:
    """Tensors around the results that a kernel has computed of its operands, recorded as a call of `op`.

    For calls that no handler sees, but autocast that leaves the op as it is; in inference mode they are not recorded.

    Args:
        arrays: the operands' arrays, of dtypes that the op takes as they are; None for an operand that is absent.
        attributes: all of them.
    """
    outs = tuple([wrap_new(r) for r in results])
    if uncast_record():
        edges, mask, nowhere = edges_of(operands)
        if mask:
            plan = op.plans.get(types := tuple([NoneType if a is None else a.dtype for a in arrays]))
            if plan is None:
                plan = plan_for(op, types, list(arrays))[1]
            record_call(op, plan, mask, edges, operands, arrays, attributes, outs, nowhere, None, call)
    return outs
