"""Recording of a function's ops: a dispatch handler that writes each call into a Program, as a function of arrays."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from tdt._compiled import moves
from tdt._compiled.again import CHEAP
from tdt._compiled.elements import Element, folding_of, of_drawn, of_op
from tdt._compiled.gradients import Gradients
from tdt._compiled.lowering import in_place, lowered
from tdt._compiled.places import Places
from tdt._compiled.program import Call, Program, Refusal, copy_in_memory
from tdt._core.calls import TENSOR_TYPES, as_numbers
from tdt._core.mode import _replace, _set
from tdt._core.tensor import LEAF, Tensor
from tdt._kernels._launches import copy_to
from tdt._kernels.fused import Layout
from tdt._kernels.fused_fold import Folding
from tdt.autograd._dispatch import _cast, apply
from tdt.autograd._node import Node, number
from tdt.autograd._op import Op
from tdt.autograd._plan import plan_for

ndarray = np.ndarray
PACKAGE = str(Path(__file__).parents[1])
FUNCTION = str(Path(__file__).with_name("function.py"))  # which calls what is recorded
CALLERS = "_record", "_verify"
LIBRARIES = "cupy", "cupy_backends", "numpy"


class Recorder:
    """Records the ops that run in its block: `with Recorder(roots) as recorder: …`.

    Arrays are known by identity: those of the roots, of constants, and of results. An op on another array, one that some
    code has computed without an op, ends the recording with `Refusal`, and so does all else that a replay would not repeat.
    Arrays are freed when they are without a recording.

    Attributes:
        program: what was recorded. The names of the roots' arrays are r0, r1, …
        refusal: why the function cannot be compiled; None if it can. module: the innermost module that ran then.
        aux: names of the aux values of nodes, by node.
        first: no node of the graph that is recorded has a smaller number.
        written: for each root that ops have written to, by its place, how often.
        gradients: what is done to `.grad` of the roots.
        places: of the arrays in memory, and their names.
    """

    def __init__(self, roots: Sequence[Tensor], arguments: int):
        """arguments: how many of the roots, the first, are arguments of the call. Others are the function's own tensors."""
        self.program = Program()
        self.roots, self.arguments = roots, arguments
        self.refusal: str | None = None
        self.module: Any = None
        self.first = number()
        self.aux: dict[int, list[str]] = {}
        self.written: dict[int, int] = {}
        self.generators: list[Any] = []
        self.places = Places()
        self._saved: list[Any] = []  # nodes that aux values are found by must not be freed
        self._constants: list[tuple[ndarray, ndarray]] = []
        self._functions: dict[tuple, Any] = {}
        self._targets: set[str] = set()  # names of arrays that ops have written to
        self._versions: dict[int, list[Any]] = {}  # (storage, its version if only recorded ops wrote to it)
        for k, t in enumerate(roots):
            if t._a.__class__ is not ndarray:
                raise Refusal(f"a tensor is not a dense CPU tensor: {type(t._a).__name__}")
            if self.name_of(t._a) is not None:
                raise Refusal("two tensors that it reads, or is called with, are one array")
            self.places.name(t._a, f"r{k}")
            self.sees(t)
        self.gradients = Gradients(self)

    def __enter__(self) -> Recorder:
        self._before = _replace({"handler": self.handle, "recording": self})
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        _set(self._before)

    def refuse(self, reason: str) -> None:
        """Note why the function cannot be compiled. It goes on running, without being recorded."""
        if self.refusal is None:
            place, self.module = place_of()
            self.refusal = f"{reason}{place}"

    def name_of(self, value: Any) -> str | None:
        """The name of an array; None if its origin is unknown."""
        return self.places.name_of(value)

    def constant(self, created: Tensor) -> None:
        """Take the array of a tensor that was created from numbers as a constant."""
        array = created._a
        if array.__class__ is not ndarray:
            return
        first = array.copy(order="K")
        self._constants.append((array, first))
        self.places.name(array, self._constant(array, first))
        self.sees(created)

    def ones(self, like: ndarray) -> str:
        """The name of a new array of ones, as those of `like` are."""
        return self._constant(like, like.copy(order="K"))

    def _constant(self, array: ndarray, first: ndarray) -> str:
        name = self.program.name(array)
        self.program.call(copy_in_memory, (self.program.constant(first),), (name,))
        return name

    def handle(self, op: Op, operands: tuple, attributes: dict, target: Any) -> Any:
        """The call of an op: run it as always, and record it."""
        if self.refusal is not None:
            return self._run(op, operands, attributes, target)
        try:
            plan, arrays = self._plan_of(op, operands, attributes)
            if plan.casts is not None:
                return apply(op, _cast(operands, plan.casts), attributes, target if plan.casts[0] is None else None)
        except Refusal as refusal:
            self.refuse(str(refusal))
            return self._run(op, operands, attributes, target)
        for x in operands:
            if isinstance(x, Tensor):
                self.sees(x)
        found = self._run(op, operands, attributes, target)
        outs = found if found.__class__ is tuple else (found,)
        try:
            self._record(op, plan, operands, arrays, {**op.defaults, **attributes}, target, outs)
        except Refusal as refusal:
            self.refuse(str(refusal))
        return found

    def _run(self, op: Op, operands: tuple, attributes: dict, target: Any) -> Any:
        before = _replace({"handler": None})
        try:
            return apply(op, operands, attributes, target)
        finally:
            _set(before)

    def _plan_of(self, op: Op, operands: tuple, attributes: dict) -> tuple[Any, list[Any]]:
        """The plan of a call, and its operands with arrays in the place of tensors."""
        if op.data_dependent:
            raise Refusal(
                f"{op.name}: the shape of its result depends on values (modules beside it can be compiled by `module.compile()`)"
            )
        if op.name == "as_strided" and any(
            np.may_share_memory(operands[0]._a, t._a) for t in self.roots[: self.arguments]
        ):
            raise Refusal("as_strided: it looks at the memory around an argument")
        for value in attributes.values():
            if holds_arrays(value):
                as_numbers(op.name, attributes)
                raise Refusal(f"{op.name}: an attribute is a tensor")
        arrays: list[Any] = []
        types: list[Any] = []
        for x in operands:
            if isinstance(x, Tensor):
                if x._a.__class__ is not ndarray:
                    raise Refusal(f"{op.name}: an operand is not a dense CPU tensor")
                arrays.append(x._a)
                types.append(x._a.dtype)
            else:
                if x is not None and x.__class__ not in (bool, int, float, complex):
                    raise Refusal(f"{op.name}: an operand is of type {type(x).__name__}")
                arrays.append(x)
                types.append(x.__class__)
        return plan_for(op, tuple(types), list(arrays))[1], arrays

    def _record(
        self, op: Op, plan: Any, operands: tuple, arrays: list, attributes: dict, target: Any, outs: tuple
    ) -> None:
        names = []
        for a in arrays:
            if a.__class__ is ndarray:
                if (name := self.name_of(a)) is None:
                    raise Refusal(
                        f"{op.name}: an operand of shape {list(a.shape)} was computed or created without an op"
                    )
                names.append(name)
        if op.random and (generator := attributes.get("generator")) is not None:
            self.generators.append(generator)
        if target is not None:
            if len(outs) == 1 and outs[0]._a is target and not op.aux and (at := self.name_of(target)) is not None:
                function = in_place(op, plan, operands, attributes)
                self.program.call(function, (*names, at), (), repeatable=not op.random)
                self._targets.add(at)
                return
            raise Refusal(f"{op.name}_: written in place in a way that is not recorded")
        results = [t._a for t in outs]
        if any(a.__class__ is not ndarray for a in results):
            raise Refusal(f"{op.name}: a result is not a dense CPU tensor")
        if op.parts is not None and plan.low is None and results[0].ndim:
            self._append_drawn(op, arrays[0], attributes, names[0], outs, results)
            return
        function = self._function(op, plan, operands, arrays, attributes, outs, results)
        simple = plan.low is None and len(results) == 1
        known = op, arrays, attributes, names, results[0]
        element = of_op(*known) or moves.of_op(*known) if simple else None
        folding = folding_of(op, arrays[0], attributes, results[0]) if simple and op.fold else None
        numbers = tuple([None if a.__class__ is ndarray else a for a in arrays])
        self._append(Call(op, None, numbers, False, attributes), function, names, outs, results, element, folding)

    def _function(self, op: Op, plan: Any, operands: tuple, arrays: list, attributes: dict, *results: Any) -> Any:
        """The function of arrays that a call of an op is; that of an earlier one with the same operands and attributes."""
        others = [a if (name := self.name_of(a)) is None else name for a in arrays]
        key = id(op), id(plan), repr(others), repr(sorted(attributes.items()))
        if key not in self._functions:
            function = self.without_recording(lowered, op, plan, operands, arrays, attributes, *results)
            self._functions[key] = function, plan
        return self._functions[key][0]

    def without_recording(self, function: Any, *args: Any) -> Any:
        """Call a function whose ops are not recorded."""
        before = _replace({"handler": None, "recording": None})
        try:
            return function(*args)
        finally:
            _set(before)

    def _append(
        self, call: Call, function: Any, names: Sequence[str], outs: tuple, results: list[Any], element: Element | None,
        folding: Folding | None,
    ) -> None:  # fmt: skip
        op = call.op
        program, cheap = self.program, op.name in CHEAP
        node = next((t._edge[0] for t in outs if t._edge is not None and t._edge[0].__class__ is Node), None)
        own = [program.name(a) for a in results]
        found = [name if a.ndim else program.name() for name, a in zip(own, results, strict=True)]
        further = [program.name() for _ in op.aux]
        if further and node is not None and node.aux is not None:
            self.aux[id(node)] = further
            self._saved.append(node)
        several = len(op.outputs) > 1 or op.multi_view or bool(op.aux)
        text = f"{{0}}({', '.join(f'{{{k + 1}}}' for k in range(len(names)))})"
        if not several:
            form = f"{program.constant(np.asarray)}({text})" if not results[0].ndim else text
            program.call(function, names, own, form, element, not op.random, folding=folding, cheap=cheap, call=call)
        else:
            several_names = [*found, *further] if len(own) + len(further) > 1 else [f"{found[0]},"]
            program.call(function, names, several_names, text, repeatable=not op.random, cheap=cheap)
            for number, name in zip(found, own, strict=True):
                if number != name:
                    program.call(np.asarray, (number,), (name,))
        for name, t in zip(own, outs, strict=True):
            self.places.name(t._a, name)
            self.sees(t)

    def _append_drawn(self, op: Op, x: ndarray, attributes: dict, name: str, outs: tuple, results: list[Any]) -> None:
        """Record what an op draws for an array that lies as its operand, and what it computes of that, as two calls."""
        program, (out, drawn) = self.program, results
        draw, compute = (functools.partial(part, np, **attributes) for part in op.parts or ())
        at, by = program.name(out), program.name(drawn)
        program.call(functools.partial(draw, Layout.of(x).like()), (), (by,), repeatable=False)
        element = of_drawn(op, x, drawn, attributes["p"], (name, by), out)
        program.call(compute, (name, by), (at,), element=element, call=Call(op))
        for t, each in zip(outs, (at, by), strict=True):
            self.places.name(t._a, each)
            self.sees(t)

    def sees(self, t: Tensor) -> None:
        """Take note of a tensor that only recorded ops may write to."""
        if id(t._st) not in self._versions:
            self._versions[id(t._st)] = [t._st, t._st.version]

    def wrote(self, x: Tensor, result: Tensor) -> None:
        """Take note of an op in place: `result` is the memory of `x`, or its values have been copied there."""
        if self.refusal is not None:
            return
        at, value = self.name_of(x._a), self.name_of(result._a)
        if at is None or value is None:
            self.refuse("a tensor is written to that was computed or created without an op")
            return
        if result._a is not x._a:
            self.program.call(copy_to, (at, value), ())
            self._targets.add(at)
        for k, t in enumerate(self.roots):
            if t._st is x._st or np.may_share_memory(t._a, x._a):  # without its storage, of `t.data`
                if k < self.arguments or t._edge not in (None, LEAF):
                    self.refuse("an argument, or a tensor that was computed before, is written to in place")
                self.written[k] = self.written.get(k, 0) + (t._st is x._st)
        self.is_written(x)

    def writes_to_shared(self) -> bool:
        """Whether an op has written to an array that has memory in common with another one, as with a view."""
        known = self.places.by_name
        return any(at != name and known[at].shares(place) for at in self._targets for name, place in known.items())

    def unwritten(self, updated: Collection[int]) -> Callable[[str], bool]:
        """Whether a value is what it was when it was computed, at the end of the program too: nothing writes to its memory.

        updated: the places of roots that are written to only after all else.
        """
        known = self.places.by_name
        targets = {*self._targets, *[f"r{place}" for place in self.written if place not in updated]}
        places = [known[name] for name in targets]

        def holds(name: str) -> bool:
            place = known.get(name)
            return place is None or not any(map(place.shares, places))  # only results of ops are written to

        return holds

    def is_written(self, t: Tensor) -> None:
        """Take note that what is recorded has written to a tensor."""
        self.sees(t)
        self._versions[id(t._st)][1] += 1

    def updated(self, place: int) -> None:
        """Take note that an optimizer has written to a root."""
        self.written[place] = self.written.get(place, 0) + 1
        self.is_written(self.roots[place])

    def check(self, check: Any, array: ndarray) -> None:
        """Record a call that raises an error for some values of an array."""
        if self.refusal is not None:
            return
        if (name := self.name_of(array)) is None:
            self.refuse("the values of a tensor are checked that was computed or created without an op")
            return
        self.program.call(check, (name,), (), writes=False)

    def computed(self, function: Any, arrays: Sequence[Any], result: ndarray) -> None:
        """Record a call of a function of arrays that is not an op."""
        names = [self.name_of(a) for a in arrays]
        if self.refusal is not None:
            return
        if None in names or result.__class__ is not ndarray:
            self.refuse("values are used that were computed or created without an op")
            return
        name = self.program.name(result)
        self.program.call(function, names, (name,))  # type: ignore[arg-type]
        self.places.name(result, name)

    def finish(self) -> None:
        """Refuse what has not been recorded as ops."""
        for storage, version in self._versions.values():
            if storage.version != version:
                self.refuse("a tensor was written to without an op that is recorded")
        targets = [self.places.by_name[name] for name in self._targets]
        for array, first in self._constants:
            if array.tobytes() != first.tobytes() and not any(map(self.places.of(array).shares, targets)):
                self.refuse("a new tensor was filled without an op that is recorded")


def holds_arrays(value: Any) -> bool:
    """Whether a value is, or has as an item, a tensor or an array."""
    if value.__class__ in TENSOR_TYPES or isinstance(value, (ndarray, np.generic, Tensor)):
        return True
    return isinstance(value, (list, tuple)) and any(map(holds_arrays, value))


def place_of() -> tuple[str, Any]:
    """Where the function is that is being recorded, outside this package; and the innermost module that is running."""
    return _place_in(sys._getframe(1))


def reason_of(error: BaseException) -> tuple[str, Any]:
    """An error that a function has raised, and where, as `place_of`; the innermost module that was running."""
    trace: Any = error.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    place, module = _place_in(trace.tb_frame)
    return f"{str(error) or type(error).__name__}{place}", module


def _place_in(frame: Any) -> tuple[str, Any]:
    module = None
    while frame is not None and not (frame.f_code.co_name in CALLERS and frame.f_code.co_filename == FUNCTION):
        if module is None and frame.f_code.co_varnames[:1] == ("self",):
            own = frame.f_locals.get("self")
            module = own if "_parameters" in getattr(own, "__dict__", ()) else None
        library = frame.f_globals.get("__name__", "").partition(".")[0] in LIBRARIES
        if not library and not frame.f_code.co_filename.startswith(PACKAGE):
            return f", at {frame.f_code.co_filename}:{frame.f_lineno}", module
        frame = frame.f_back
    return "", module
