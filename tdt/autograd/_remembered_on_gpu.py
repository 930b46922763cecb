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
PLAIN = frozenset(
    (int, bool, str, NoneType)
)  # types of arguments by whose values calls are remembered, as by those of floats


class CallsOnGpu:
    """The calls of a function that makes its arguments the operands and attributes of one op.

    Args:
        watches: runs what its block does as usual, and notes the ops.
        whole: whether the function returns all results of the op; else it returns the first.
    """

    def __init__(self, function: Callable[..., Any], watches: Callable[[], Any], whole: bool):
        self.function, self.watches, self.whole = function, watches, whole
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
            calls[types] = _call(watch.ops, result[0] if self.whole else result, tensors) or False
            return result
        if not found or (program := found.call.forward.program) is None or not may_repeat():
            return self.function(*args, **kwargs)
        arrays = found.placed(arrays)
        try:
            results = program(arrays)
        except OutdatedProgramError:
            found.call.forward.program = None
            return self.function(*args, **kwargs)
        out = record_repeated(found.op, found.call, found.placed(tensors), arrays, results, record, self.whole)
        if found.label:
            label(out[0] if self.whole else out, found.label)
        return out


class _Call:
    """The call of an op that a function makes.

    Attributes:
        constants: the operands of the op, None in the place of tensors.
        places: of the tensors among the operands; None where all are tensors.
        label: name of the node, "" for the op's own.
    """

    __slots__ = ("op", "call", "constants", "places", "label")

    def __init__(self, op: Op, call: LayoutCall, operands: Sequence[Any], label: str):
        self.op, self.call, self.label = op, call, label
        self.constants = [None if x.__class__ in TENSOR_TYPES else x for x in operands]
        places = [k for k, x in enumerate(operands) if x.__class__ in TENSOR_TYPES]
        self.places = places if len(places) < len(operands) else None

    def placed(self, values: list) -> list:
        """The operands of the op, of which `values` are the tensors or their arrays."""
        if self.places is None:
            return values
        operands = [*self.constants]
        for place, value in zip(self.places, values, strict=True):
            operands[place] = value
        return operands


def _call(ops: list[tuple], result: Any, tensors: list) -> _Call | None:
    """The call that was made; None where it was not one op of all tensors in their order, or is not remembered."""
    if len(ops) != 1:
        return None
    op, operands, attributes, found = ops[0]
    if (found[0] if found.__class__ is tuple and not op.multi_view else found) is not result:
        return None
    inputs = [x for x in operands if x.__class__ in TENSOR_TYPES]
    if len(inputs) != len(tensors) or any(a is not b for a, b in zip(inputs, tensors, strict=True)):
        return None
    call = call_of(op, operands, attributes)[0]
    edge = result._edge
    return None if call is None else _Call(op, call, operands, "" if edge is None else getattr(edge[0], "label", ""))
