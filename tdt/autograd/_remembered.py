"""`@calls_one_op`: public functions of one op, whose calls are remembered by types and values of arguments."""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from tdt import _backend, _kernels
from tdt._core.calls import TENSOR_TYPES, refusing_bools, renamed_keywords
from tdt._core.mode import INFERENCE, _replace, _set, state
from tdt._core.tensor import Tensor, wrap, wrap_new
from tdt._core.wrapping import wraps
from tdt._kernels import chosen_for, narrow, widen
from tdt._kernels._threads import THREADS
from tdt.autograd._call_counts import CallCounts
from tdt.autograd._dispatch import apply, number_key, ufunc_of
from tdt.autograd._inplace import copy_into
from tdt.autograd._node import BackwardPlan, kind_of, node_of
from tdt.autograd._node_names import label
from tdt.autograd._plan import ranks_of
from tdt.autograd._record import FINISH, edges_of
from tdt.autograd._remembered_on_gpu import CallsOnGpu
from tdt.autograd._remembered_writes import INTS, PLAIN, writes

if TYPE_CHECKING:
    from tdt.autograd._op import Op

F = TypeVar("F", bound=Callable[..., Any])
LARGEST = 1 << 20  # elements up to which the steps of a call that threads share take long enough to count
MOST_SAVED = 500  # calls of a function that differ in an argument's value; no further ones are remembered
FAILURES = ValueError, OverflowError, IndexError, RuntimeError
ndarray, asarray = np.ndarray, np.asarray
_start_threads = _kernels.lazy("_pool:start")


def calls_one_op(function: F) -> F:
    """`front` for a function that makes its arguments the operands and attributes of one elementwise op, and calls it.

    How it does so may depend on the types of its tensors and on the values of its other arguments, not on the shapes or
    elements of tensors, and it has no other effect. Further calls with such arguments go straight to the op's computation.
    """
    return _remembering(function, False)


def calls_by_shape(function: F) -> F:
    """`calls_one_op` for a function that may depend on the shapes of its tensors, too, and need not be elementwise.

    It may call several ops; a call that is recorded is remembered if it is one. Of an op with several results the function
    returns the first. An op's forward or kernel may have a form for such calls, see `tdt._kernels.prepares`.
    """
    return _remembering(function, True)


def calls_by_shape_with_all_results(function: F) -> F:
    """`calls_by_shape` for a function that returns all results of its op; only the first can have a gradient."""
    return _remembering(function, True, True)


def _remembering(function: F, by_shape: bool, whole: bool = False) -> F:  # noqa: C901  (one frame: helper calls cost time)
    """`function`, with a memory of its calls. whole: it returns all results of its op, else the first."""
    function = refusing_bools(function)
    private = function.__name__.startswith("_")  # a part of a public function, whose errors are that one's
    calls = _Calls(function, by_shape, whole)
    saved, on_gpu = calls.saved, CallsOnGpu(function, Watch)

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:  # noqa: C901
        try:
            if kwargs and kwargs.get("out") is not None:
                return calls.write_out(called, args, kwargs)
            record = state.fast_record
            casting: Any = None
            if record is None:
                record, casting = state.uncast_record, state.handler
            if record is not None:
                values = (*args, *kwargs.values()) if kwargs else args
                key: list[Any] = [*kwargs] if kwargs else []
                if casting is not None:
                    key.append(casting.kind)
                arrays: list[Any] = []
                recorded = False
                for x in values:
                    kind = x.__class__
                    if kind in TENSOR_TYPES:
                        a = x._a
                        if by_shape and a.__class__ is ndarray:
                            key += a.dtype, a.shape, a.strides
                        elif a.__class__ is ndarray and a.size < THREADS.elementwise and a.flags.c_contiguous:
                            key.append(a.dtype)
                        elif a.__class__ is _backend.GpuArray and record is not INFERENCE and casting is None:
                            return on_gpu(args, kwargs)
                        else:
                            break
                        arrays.append(a)
                        if record and (x._edge is not None or (x._view is not None and x._view.base._edge is not None)):
                            recorded = True
                    elif kind is float:
                        key.append(x or repr(x))  # 0.0 and -0.0 are equal
                    elif kind in PLAIN or (kind is tuple and INTS.issuperset(map(type, x))):
                        key += kind, x  # as are 1 and True
                    else:
                        break
                else:
                    call = saved[recorded].get(types := tuple(key))
                    if call is None and (watched := calls.to_watch(args, kwargs, types, recorded)) is not None:
                        with Watch() as watch:
                            result = function(*watched[0], **watched[1])
                        if calls.remember(watch, result, watched, types, recorded) or watched[0] is args:
                            return result
                    elif call and (result := call.repeat(arrays, values, record)) is not None:
                        return result
            return function(*args, **kwargs) if kwargs else function(*args)
        except Exception as error:
            renamed = None if private else renamed_keywords(function, args, kwargs, error, sys._getframe().f_code)
            if renamed is None:
                raise
        return called(*args, **renamed)

    called.written = calls.written
    return cast("F", called)


class _Calls:
    """The remembered calls of a function.

    Attributes:
        saved: those that are not recorded, and those that are: by the types of tensors and the values of all else; False for
            what cannot be repeated.
        written: see `writes`; None for a function that returns several results.
    """

    def __init__(self, function: Callable[..., Any], by_shape: bool, whole: bool):
        self.function, self.by_shape, self.whole = function, by_shape, whole
        self.saved: tuple[dict, dict] = {}, {}
        _kernels.UFUNCS.extend(self.saved)
        self.counts = CallCounts()
        self.written = None if whole else writes(self.saved[0], by_shape)

    def to_watch(self, args: tuple, kwargs: dict[str, Any], key: tuple, recorded: bool) -> tuple[tuple, dict] | None:
        """The arguments of a call that is to be remembered, as it was made a few times; None for others."""
        values = (*args, *kwargs.values())
        often = len(self.saved[recorded]) < MOST_SAVED and self.counts.often((recorded, key))
        if not often or ((repeats := _repeats(values)) and recorded):
            return None
        if not repeats:
            return args, kwargs
        # A call of other tensors of these arrays is remembered instead.
        values = tuple([wrap(x._a) if isinstance(x, Tensor) else x for x in values])
        return values[: len(args)], dict(zip(kwargs, values[len(args) :], strict=True))

    def remember(self, watch: Watch, result: Any, watched: tuple[tuple, dict], key: tuple, recorded: bool) -> bool:
        """Keep a call that was watched, of these arguments; whether it can be repeated."""
        values = (*watched[0], *watched[1].values())
        call = watch.call(result[0] if self.whole else result, values, self.by_shape, recorded, self.whole)
        if call is None or call.label is not None or not recorded:  # else a later one may become a node
            self.saved[recorded][key] = call or False
        return call is not None

    def write_out(self, called: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
        """The function's result in `out`, a keyword argument. called: the function, with its memory."""
        others = {**kwargs}
        out = others.pop("out")
        if self.written is not None and self.written(out, args, others, True):
            return out
        copied = copy_into(out, called, args, others)
        return self.function(*args, **kwargs) if copied is None else copied


def _repeats(args: Sequence[Any]) -> bool:
    """Whether a tensor is passed twice: such a call does not show which argument an op takes."""
    tensors = [id(x) for x in args if x.__class__ in TENSOR_TYPES]
    return len(tensors) > len({*tensors})


def _has_view(args: Sequence[Any]) -> bool:
    """Whether a tensor is a view, whose record may be refused: a call that draws numbers is not to be made twice."""
    return any(isinstance(x, Tensor) and x._view is not None for x in args)


class _Unprepared(dict):
    """The prepared gradients of a call that several threads may compute: none."""

    def get(self, key: Any, default: Any = None) -> Any:
        """False for all keys."""
        return False


class _Call:
    """What a public function makes of arguments of some types and values.

    Attributes:
        function, numbers: compute the result, from the arrays of the tensors and these numbers; None if nothing does.
        into: computes it into an array that follows; None if nothing does, and for a call that draws random numbers.
        in_place: the same, where that array may be that of the only tensor.
        kind: dtype and shape of the result; None if the shape differs from call to call.
        keeps: whether dtype and shape of the result are always those of the first tensor.
        op, plan, attributes: of the op that the function calls.
        recorded, whole: whether the call is recorded, and returns all results of the op; else the first.
        several: whether `function` gives several results, of which the call's is the first.
        constants: the operands of the op, None in the place of tensors.
        places: of the tensors among the operands.
        tail: the constants, where they follow all tensors; else None.
        kinds: of the op's results, see `kind_of`; None until a call is recorded.
        gradients: prepared functions that compute the operands' gradients, by `key_of`; False where nothing is
            prepared; None for a call that is remembered whatever the shapes.
        draws: whether the op draws random numbers.
        label: name of the node, "" for the op's own; None if the call that was watched has none.
    """

    __slots__ = ("attributes", "constants", "draws", "function", "gradients", "in_place", "into", "keeps", "kind", "kinds",
                 "label", "numbers", "op", "places", "plan", "recorded", "several", "tail", "whole")  # fmt: skip
    plan: Any
    label: str | None

    def __init__(
        self, op: Op, operands: tuple[Any, ...], attributes: dict, result: Tensor, by_shape: bool, recorded: bool,
        whole: bool = False,
    ):  # fmt: skip
        self.op, self.several = op, len(op.outputs) > 1 or bool(op.aux)
        self.recorded, self.whole = recorded, whole
        self.kinds: list | None = None
        self.draws = op.random
        self.gradients: dict[tuple, Any] | None = {} if by_shape else None
        self.places = [place for place, x in enumerate(operands) if x.__class__ in TENSOR_TYPES]
        self.constants = [None if x.__class__ in TENSOR_TYPES else x for x in operands]
        count = len(self.places)
        self.tail = tuple(self.constants[count:]) if self.places == [*range(count)] else None
        self.label = None if result._edge is None else getattr(result._edge[0], "label", "")
        arrays: list[Any] = [x._a if isinstance(x, Tensor) else x for x in operands]
        self.plan = op.plans.get(tuple([a.dtype if a.__class__ is ndarray else a.__class__ for a in arrays]))
        self.function, self.attributes = None, {**op.defaults, **attributes}
        self.numbers: tuple = ()
        elementwise = op.ufuncs is not None
        if elementwise and by_shape:  # else only such arrays are asked for
            elementwise = all(
                arrays[k].size < THREADS.elementwise and arrays[k].flags.c_contiguous for k in self.places
            )
        if elementwise:
            key = [a.dtype if a.__class__ is ndarray else number_key(a) for a in arrays]
            function, *found, _ = ufunc_of(op, key, arrays, attributes)
            if function is not None:
                self.function, (self.numbers, self.attributes) = function, found
        generated = self.function is not None
        if generated or (op.ufuncs is not None and not elementwise):
            pass
        elif by_shape and self.plan is not None and hasattr(op.forward, "prepare"):
            self.function = self._of_shape(arrays, recorded or whole)
        elif self.plan is not None and self.plan.low is not None:
            if by_shape and op.lower is None:
                self.function = self._of_shape(arrays, recorded or whole)
        elif op.elementwise and self.plan is not None and self.plan.fast_path and self.tail is not None:
            if getattr(op.forward, "prepares_all_shapes", False) and not self.tail:
                self.function = op.forward.prepare(*arrays, **self.attributes, recorded=recorded)
                generated = self.function is not None
            if self.function is None:
                plain = op.direct is not None and not attributes
                # No function is generated for integers; half precision without kernels is computed by more than the formula.
                of_integers = elementwise and all(arrays[k].dtype.kind in "biu" for k in self.places)
                forward = op.forward.formula[0] if of_integers else op.forward
                self.function = op.direct if plain else functools.partial(forward, np, **self.attributes)
                self.numbers = self.tail
        elif by_shape and self.plan is not None:
            self.function = self._of_shape(arrays, recorded or whole)
        into = self.function if generated else getattr(self.function, "into", None)
        self.into = None if self.draws else into
        self.kind = _kind(result._a) if by_shape else None
        keeps = bool(self.places) and _kind(result._a) == _kind(arrays[self.places[0]])
        self.keeps = keeps and (by_shape or len(self.places) == 1)
        self.in_place = self.into if self.keeps and len(self.places) == 1 else None

    def _of_shape(self, arrays: list[Any], recorded: bool) -> Callable[..., Any] | None:
        """What computes the op for arrays of these shapes, if no more belongs to a call; several results if `recorded`."""
        op, count = self.op, len(self.places)
        if self.plan.by_rank is not None:
            self.plan = self.plan.by_rank[ranks_of(arrays)]
        if self.plan.casts is not None or op.view or op.sparse:
            return None
        if (op.variadic or op.random) and not hasattr(op.forward, "prepare"):
            return None
        most = max([arrays[k].size for k in self.places], default=0)
        small = most < THREADS.rows
        if not small:
            self.gradients = _Unprepared()
            _start_threads()
        small = small or (not recorded and getattr(op.forward, "prepares_large", False))
        if not small and most > LARGEST:
            return None
        if self.plan.low is None or op.half:
            compute = self._computed(arrays, recorded, small)
        elif (compute := self._computed(widen(arrays), recorded, small)) is not None:
            compute = _rounding(compute, len(op.outputs), self.plan.low)
        if compute is None:
            return None
        if count == len(arrays):
            return compute
        if self.tail is not None:
            tail = self.tail
            return lambda *tensors: compute(*tensors, *tail)
        return lambda *tensors: compute(*self._among_constants(tensors))

    def _computed(self, arrays: list[Any], recorded: bool, small: bool) -> Callable[..., Any] | None:
        """The kernel or forward of the op for operands like these; several results if `recorded`.

        Of those that are not `small` nothing is prepared, as several threads may compute them.
        """
        op = self.op
        contiguous = all(arrays[k].flags.c_contiguous for k in self.places)
        kernel = chosen_for(op.kernels, arrays, self.attributes) if op.kernels else None
        for forward in (op.forward, kernel):
            prepare = getattr(forward, "prepare", None) if small else None
            if prepare is not None and (contiguous or getattr(forward, "prepares_strided", False)):
                compute: Callable[..., Any] | None = prepare(*arrays, **self.attributes, recorded=recorded)
                if compute is not None:
                    self.several = self.several and recorded
                    return compute
        compute = functools.partial(kernel or functools.partial(op.forward, np), **self.attributes)
        if op.lay is not None and not contiguous:
            return None
        if len(op.outputs) > 1 and op.aux:
            compute = _in_one_row(compute)
        return _packing(compute) if op.packed else compute

    def repeat(self, arrays: list[Any], args: tuple, record: Any) -> Any:
        """The function's result for the tensors among `args`; None where the function is to compute it, or to raise an error.

        Args:
            arrays: those of the tensors.
            record: see `state.fast_record`.
        """
        if self.draws and self.recorded and _has_view(args):
            return None
        numbers = self.numbers
        try:
            result = self.function(*arrays, *numbers) if numbers else self.function(*arrays)  # type: ignore[misc]
        except FAILURES:  # the function's errors have PyTorch's messages
            return None
        rest: Sequence[Any] = ()
        if self.several:
            result, *rest = result
        if self.recorded:
            out = self._record(result, arrays, args, rest)
        else:
            out = FINISH.call(self.op, None, (), (), self.attributes, result, None, None)
            if record is INFERENCE:
                out._st.inference = True
        return (out, *map(wrap_new, rest)) if self.whole and out is not None else out

    def write(self, arrays: list[Any], target: np.ndarray, apart: bool) -> bool:
        """Whether the function's result is now in the array `target`; else nothing is.

        Args:
            arrays: those of the tensors, as of `repeat`.
            apart: whether `target` is none of them; else it is the first.
        """
        into, numbers = self.in_place, self.numbers
        if apart:
            into = self.into if self.kind == (target.dtype, target.shape) else None
        try:
            if into is not None:
                into(*arrays, *numbers, target)
                return True
            if self.draws:
                return False
            result = self.function(*arrays, *numbers) if numbers else self.function(*arrays)  # type: ignore[misc]
        except FAILURES:
            return False
        if self.several:
            result = result[0]
        if (apart or not self.keeps) and (result.shape != target.shape or result.dtype is not target.dtype):
            return False
        target[...] = result
        return True

    def _record(self, result: Any, arrays: Sequence[Any], args: tuple, rest: Sequence[Any]) -> Tensor | None:
        """The tensor around the result, whose call is recorded; None if a tensor is a view made under no_grad."""
        operands = args if len(args) == len(arrays) else tuple([x for x in args if x.__class__ in TENSOR_TYPES])
        if len(self.constants) > len(arrays):
            if self.tail is not None:
                operands, arrays = operands + self.tail, (*arrays, *self.tail)
            else:
                operands, arrays = self._among_constants(operands), self._among_constants(arrays)
        further, remembered = len(self.op.outputs) - 1, None if self.gradients is None else self
        if not further:
            plan, aux = self.plan if self.op.rules else None, rest or None
            out = FINISH.call(self.op, plan, operands, arrays, self.attributes, result, aux, remembered)
            if self.label and out._edge is not None:
                label(out, self.label)
            return out
        edges, mask, nowhere = edges_of(operands)
        if nowhere:
            return None
        out = wrap(result if result.__class__ is ndarray else asarray(result))
        if mask and self.op.rules:
            back = self.plan.backward_plans.get(mask)
            if back is None:
                back = BackwardPlan(self.op, mask, len(operands), self.plan.low, 0, tuple(map(type, arrays)))
                self.plan.backward_plans[mask] = back
            if back.has_rule:
                outs = (out, *[r if r.__class__ is ndarray else asarray(r) for r in rest[:further]])
                if self.kinds is None:
                    self.kinds = [kind_of(out), *[(r.shape, r.dtype, np) for r in outs[1:]]]
                node = node_of(back, edges, operands, arrays, self.attributes, outs, rest[further:] or None, remembered)
                out._edge = (node, 0)
                if self.label:
                    label(out, self.label)
        return out

    def _among_constants(self, values: Sequence[Any]) -> tuple:
        """The operands of the op, of which `values` are the tensors or their arrays."""
        operands = [*self.constants]
        for place, value in zip(self.places, values, strict=True):
            operands[place] = value
        return tuple(operands)


def _kind(array: Any) -> tuple:
    return array.dtype, array.shape


def _in_one_row(compute: Callable[..., Any]) -> Callable[..., Any]:
    """`compute`, with several results and what it keeps for gradients in one tuple."""

    def in_one_row(*arrays: Any) -> tuple:
        results, *aux = compute(*arrays)
        return (*results, *aux)

    return in_one_row


def _packing(compute: Callable[..., Any]) -> Callable[..., Any]:
    """`compute`, with its result in the order of its dimensions."""

    def packing(*arrays: Any) -> Any:
        result = compute(*arrays)
        return result if result.flags.c_contiguous else result.copy("C")

    return packing


def _rounding(compute: Callable[..., Any], count: int, low: Any) -> Callable[..., Any]:
    """`compute`, of half precision in float32; its first `count` results are rounded once."""

    def rounding(*arrays: Any) -> Any:
        results = compute(*widen(arrays))
        if results.__class__ is not tuple:
            return narrow(results, low)
        return *narrow(results[:count], low), *results[count:]

    return rounding


class Watch:
    """Runs ops as usual, and notes them."""

    def __init__(self) -> None:
        self.ops: list[tuple] = []

    def __enter__(self) -> Watch:
        casting: Any = state.handler  # autocast alone, whose casts are noted as well
        self.within = {"handler": casting and casting.below}
        self.before = _replace({"handler": casting.over(self.handle) if casting else self.handle})
        return self

    def __exit__(self, *error: object) -> None:
        _set(self.before)

    def handle(self, op: Op, operands: tuple, attributes: dict, target: Any) -> Any:
        before = _replace(self.within)
        try:
            result = apply(op, operands, attributes, target)
        finally:
            _set(before)
        self.ops.append((op, operands, attributes, result))
        return result

    def call(self, result: Any, args: tuple, by_shape: bool, recorded: bool, whole: bool) -> _Call | None:
        """The call that was made; None where it was not one op of all tensors in their order, or cannot be repeated."""
        if by_shape and len(self.ops) > 1:
            return None if recorded or whole else self._program(result, args)
        if len(self.ops) != 1:
            return None
        op, inputs, attributes, found = self.ops[0]
        found = found[0] if by_shape and found.__class__ is tuple and not op.multi_view else found
        if found is not result:
            return None
        tensors, operands = ([id(x) for x in xs if x.__class__ in TENSOR_TYPES] for xs in (args, inputs))
        if tensors != operands:  # such as x @ x
            return None if not by_shape or recorded or whole else self._program(result, args)
        call = _Call(op, inputs, attributes, found, by_shape, recorded, whole)
        if call.function is None or (recorded and call.plan is None):  # another thread has just switched kernels
            return None
        return call

    def _program(self, result: Any, args: tuple) -> _Call | None:
        """The calls that were made, one after the other, as one of arrays that is not recorded."""
        own = [id(x) for x in args if x.__class__ in TENSOR_TYPES]
        places = {each: k for k, each in enumerate(own)}
        of_inputs = {*own}  # and their views
        steps: list[tuple] = []
        used: set[int] = set()
        call: Any = None
        for op, operands, attributes, found in self.ops:
            tensors = [id(x) for x in operands if x.__class__ in TENSOR_TYPES]
            if not isinstance(found, Tensor) or found._st.version or not places.keys() >= {*tensors}:
                return None  # several results, a tensor that was written to, or one of another origin
            call = _Call(op, operands, attributes, found, True, False)
            if op.view and len(operands) == 1:
                if id(operands[0]) in of_inputs:
                    of_inputs.add(id(found))
                if found is not result or id(found) not in of_inputs:  # else the result is a view for the caller, too
                    call.function = functools.partial(op.forward, np, **call.attributes)
            if call.function is None:
                return None
            used.update(tensors)
            steps.append((call.function, call.numbers, [places[each] for each in tensors], call.several))
            places[id(found)] = len(own) + len(steps) - 1
        if self.ops[-1][-1] is not result or not used >= {*own}:  # of an unused tensor elements may have been read
            return None

        def program(*arrays: Any) -> Any:
            values = [*arrays]
            for function, numbers, inputs, several in steps:
                value = function(*[values[k] for k in inputs], *numbers)
                values.append(value[0] if several else value)
            return values[-1]

        function, numbers, inputs, several = steps[0]
        if len(steps) == 1 and len(inputs) > 1 and not (numbers or several):
            chosen = operator.itemgetter(*inputs)
            program = lambda *arrays: function(*chosen(arrays))  # noqa: E731
        call.function, call.into, call.in_place, call.numbers, call.several = program, None, None, (), False
        call.keeps = isinstance(args[0], Tensor) and call.kind == _kind(args[0]._a)
        return call
