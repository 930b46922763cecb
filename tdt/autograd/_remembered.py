"""`@calls_one_op`: public functions of one elementwise op, whose calls are remembered by types and values of arguments."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from tdt import _kernels
from tdt._core.calls import TENSOR_TYPES, renamed_keywords
from tdt._core.mode import _replace, _set, state
from tdt._core.tensor import Storage, Tensor
from tdt._core.wrapping import wraps
from tdt._kernels._threads import THREADS
from tdt.autograd._dispatch import _edges_of, _record, apply, number_key, ufunc_of

if TYPE_CHECKING:
    from tdt.autograd._op import Op

F = TypeVar("F", bound=Callable[..., Any])
MOST_SAVED = 500  # calls of a function that differ in an argument's value; no further ones are remembered
PLAIN = {int, bool, str, NoneType}  # types of arguments by whose values calls are remembered, as by those of floats
ndarray, asarray = np.ndarray, np.asarray
_new = object.__new__


def calls_one_op(function: F) -> F:  # noqa: C901  (one frame: helper calls cost time)
    """`front` for a function that makes its arguments the operands and attributes of one elementwise op, and calls it.

    How it does so may depend on the types of its tensors and on the values of its other arguments, not on the shapes or
    elements of tensors, and it has no other effect. Further calls with such arguments go straight to the op's computation.
    """
    saved: tuple[dict, dict] = {}, {}  # calls that are not recorded, and others
    _kernels.UFUNCS.extend(saved)

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:  # noqa: C901
        try:
            record = state.fast_record
            if record is not None:
                key: list[Any] = [*kwargs] if kwargs else []
                arrays: list[Any] = []
                recorded = False
                for x in (*args, *kwargs.values()) if kwargs else args:
                    kind = x.__class__
                    if kind in TENSOR_TYPES:
                        a = x._a
                        if a.__class__ is not ndarray or a.size >= THREADS.elementwise or not a.flags.c_contiguous:
                            break
                        arrays.append(a)
                        key.append(a.dtype)
                        if record and (x._edge is not None or x._view is not None):
                            recorded = True
                    elif kind is float:
                        key.append(x or repr(x))  # 0.0 and -0.0 are equal
                    elif kind in PLAIN:
                        key.append((kind, x))  # as are 1 and True
                    else:
                        break
                else:
                    calls = saved[recorded]
                    call = calls.get(types := tuple(key))
                    if call is None and len(calls) < MOST_SAVED:
                        with _Watch() as watch:
                            result = function(*args, **kwargs)
                        calls[types] = watch.call(result, (*args, *kwargs.values())) or False
                        return result
                    if call:
                        numbers = call.numbers
                        try:
                            result = call.function(*arrays, *numbers) if numbers else call.function(*arrays)
                        except (ValueError, OverflowError):  # the function's errors have PyTorch's messages
                            return function(*args, **kwargs)
                        out = _new(Tensor)
                        out._a = result if result.__class__ is ndarray else asarray(result)
                        out._st = Storage()
                        out._edge = out._view = out._grad = None
                        if not recorded or call.record(out, arrays, (*args, *kwargs.values()) if kwargs else args):
                            return out
                        if call.label is None:  # for which a recorded call is watched
                            calls.pop(types, None)
            return function(*args, **kwargs) if kwargs else function(*args)
        except Exception as error:
            renamed = renamed_keywords(function, args, kwargs, error, sys._getframe().f_code)
            if renamed is None:
                raise
        return called(*args, **renamed)

    return cast("F", called)


class _Call:
    """What a public function makes of arguments of some types and values.

    Attributes:
        function, numbers: compute the result, from the arrays of the tensors and these numbers; None if nothing does.
        op, plan, attributes: of the op that the function calls.
        constants: the operands of the op, None in the place of tensors.
        places: of the tensors among the operands.
        label: name of the node, "" for the op's own; None if the call that was watched has none.
    """

    __slots__ = ("attributes", "constants", "function", "label", "numbers", "op", "places", "plan")
    plan: Any
    label: str | None

    def __init__(self, op: Op, operands: tuple[Any, ...], attributes: dict, result: Tensor):
        self.op = op
        self.places = [place for place, x in enumerate(operands) if x.__class__ in TENSOR_TYPES]
        self.constants = [None if x.__class__ in TENSOR_TYPES else x for x in operands]
        self.label = None if result._edge is None else getattr(result._edge[0], "label", "")
        arrays: list[Any] = [x._a if isinstance(x, Tensor) else x for x in operands]
        self.plan = op.plans.get(tuple([a.dtype if a.__class__ is ndarray else a.__class__ for a in arrays]))
        self.function, self.numbers, self.attributes = None, (), {**op.defaults, **attributes}
        if op.ufuncs is not None:
            key = [a.dtype if a.__class__ is ndarray else number_key(a) for a in arrays]
            self.function, self.numbers, self.attributes, _ = ufunc_of(op, key, arrays, attributes)
        elif op.elementwise and self.plan is not None and self.plan.fast_path and len(self.places) == len(operands):
            self.function = functools.partial(op.forward, np, **self.attributes)

    def record(self, out: Tensor, arrays: Sequence[Any], args: tuple) -> bool:
        """Record the call; False if a tensor is a view made without a graph, which `apply` treats, or the label is unknown."""
        operands = args if len(args) == len(arrays) else tuple([x for x in args if x.__class__ in TENSOR_TYPES])
        if len(self.constants) > len(arrays):
            operands, arrays = self._among_constants(operands), self._among_constants(arrays)
        edges, mask, nowhere = _edges_of(operands)
        if nowhere or (mask and self.label is None):
            return False
        if mask and self.op.rules:
            _record(self.op, self.plan, mask, edges, operands, arrays, self.attributes, (out,))
            if self.label and out._edge is not None:
                out._edge[0].label = self.label
        return True

    def _among_constants(self, values: Sequence[Any]) -> tuple:
        """The operands of the op, of which `values` are the tensors or their arrays."""
        operands = [*self.constants]
        for place, value in zip(self.places, values, strict=True):
            operands[place] = value
        return tuple(operands)


class _Watch:
    """Runs ops as usual, and notes them."""

    def __init__(self) -> None:
        self.ops: list[tuple] = []

    def __enter__(self) -> _Watch:
        self.before = _replace({"handler": self.handle})
        return self

    def __exit__(self, *error: object) -> None:
        _set(self.before)

    def handle(self, op: Op, operands: tuple, attributes: dict, target: Any) -> Any:
        _set(self.before)
        try:
            result = apply(op, operands, attributes, target)
        finally:
            _replace({"handler": self.handle})
        self.ops.append((op, operands, attributes, result))
        return result

    def call(self, result: Any, args: tuple) -> _Call | None:
        """The call that was made; None where it was not one op of all tensors in their order, or cannot be repeated."""
        if len(self.ops) != 1 or self.ops[0][-1] is not result:
            return None
        tensors, operands = ([id(x) for x in xs if x.__class__ in TENSOR_TYPES] for xs in (args, self.ops[0][1]))
        if tensors != operands:
            return None
        call = _Call(*self.ops[0])
        return call if call.function is not None else None
