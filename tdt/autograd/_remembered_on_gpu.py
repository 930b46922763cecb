"""Calls on a GPU of the functions of `_remembered`, which go to their op's program at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any

from tdt import _backend, _kernels
from tdt._core.calls import TENSOR_TYPES
from tdt._core.mode import state
from tdt._kernels.programs_gpu import OutdatedProgramError
from tdt.autograd._layouts import ALIGNED, LayoutCall, call_of, may_repeat
from tdt.autograd._node_names import label
from tdt.autograd._record import record_repeated

if TYPE_CHECKING:
    from tdt.autograd._op import Op

MOST_SAVED = 500  # calls of a function; no further ones are remembered
INTS = frozenset([int])
# Types of arguments by whose values calls are remembered, as by those of floats.
PLAIN = frozenset((int, bool, str, NoneType))


class CallsOnGpu:
    """The calls of a function that makes its arguments the operands and attributes of one op.

    Args:
        watches: runs what its block does as usual, and notes the ops.
        finish: makes the function's result of the op's, where it returns several.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        watches: Callable[[], Any],
        finish: Callable[[tuple], Any] | None = None,
    ):
        self.function, self.watches, self.finish = function, watches, finish
        self.saved: tuple[dict, dict] = {}, {}  # calls that are not recorded, and others
        _kernels.UFUNCS.extend(self.saved)

    def __call__(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """The function's result. For calls that no handler sees: `state.fast_record` is not None."""
        record: Any = state.fast_record
        values = (*args, *kwargs.values()) if kwargs else args
        key: list[Any] = [*kwargs] if kwargs else []
        tensors: list[Any] = []
        arrays: list[Any] = []
        gpu: Any = _backend.GpuArray
        recorded = False
        for x in values:
            kind = x.__class__
            if kind in TENSOR_TYPES:
                a = x._a
                if a.__class__ is not gpu:
                    return self.function(*args, **kwargs)
                tensors.append(x)
                arrays.append(a)
                key += a.dtype, a.shape, a.strides, a.data.ptr & ALIGNED
                if record and (x._edge is not None or (x._view is not None and x._view.base._edge is not None)):
                    recorded = True
            elif kind is float:
                key.append(x or repr(x))  # 0.0 and -0.0 are equal
            elif kind in PLAIN or (kind is tuple and INTS.issuperset(map(type, x))):
                key += kind, x  # as are 1 and True
            else:
                return self.function(*args, **kwargs)
        calls = self.saved[recorded]
        found = calls.get(types := tuple(key))
        if found is None and may_repeat() and len(calls) < MOST_SAVED and len({*map(id, tensors)}) == len(tensors):
            with self.watches() as watch:
                result = self.function(*args, **kwargs)
            calls[types] = _call(watch.ops, result, tensors) or False
            return result
        if not found or (program := found.call.forward.program) is None or not may_repeat():
            return self.function(*args, **kwargs)
        if found.places is not None:
            arrays, tensors = found.placed(arrays), found.placed(tensors)
        try:
            results = program(arrays)
        except OutdatedProgramError:
            found.call.forward.program = None
            return self.function(*args, **kwargs)
        out = record_repeated(found.op, found.call, tensors, arrays, results, record, found.whole)
        if found.label:
            label(out[0] if found.whole else out, found.label)
        return self.finish(out) if found.whole and self.finish is not None else out


class _Call:
    """The call of an op that a function makes.

    Attributes:
        constants: the operands of the op, None in the place of tensors.
        places: of the tensors among the operands; None where all are tensors.
        label: name of the node, "" for the op's own.
        whole: whether the function returns all results of the op; else the first.
    """

    __slots__ = ("op", "call", "constants", "places", "label", "whole")

    def __init__(self, op: Op, call: LayoutCall, operands: Sequence[Any], label: str, whole: bool):
        self.op, self.call, self.label, self.whole = op, call, label, whole
        self.constants = [None if x.__class__ in TENSOR_TYPES else x for x in operands]
        places = [k for k, x in enumerate(operands) if x.__class__ in TENSOR_TYPES]
        self.places = places if len(places) < len(operands) else None

    def placed(self, values: list) -> list:
        """The operands of the op, not all tensors, of which `values` are the tensors or their arrays."""
        operands = [*self.constants]
        for place, value in zip(self.places, values, strict=True):  # type: ignore[arg-type]
            operands[place] = value
        return operands


def _call(ops: list[tuple], result: Any, tensors: list) -> _Call | None:
    """The call that was made; None where it was not one op of all tensors in their order, or is not remembered."""
    if len(ops) != 1:
        return None
    op, operands, attributes, found = ops[0]
    several, whole = found.__class__ is tuple and not op.multi_view, isinstance(result, tuple)
    results = [*result] if whole else [result]
    of_op = [*found] if several and whole else [found[0] if several else found]
    inputs = [x for x in operands if x.__class__ in TENSOR_TYPES]
    if not _are(results, of_op) or not _are(inputs, tensors):
        return None
    call, edge = call_of(op, operands, attributes)[0], results[0]._edge
    name = "" if edge is None else getattr(edge[0], "label", "")
    return None if call is None else _Call(op, call, operands, name, whole)


def _are(values: list, others: list) -> bool:
    """Whether two lists have the same objects in the same order."""
    return len(values) == len(others) and all(a is b for a, b in zip(values, others, strict=True))
