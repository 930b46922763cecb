"""What `vmap` computes of all entries at once: the function runs on the first entry, each of its ops on the whole batch too.

The function's tensors are those of the first entry, so that it sees their shapes. Beside each that depends on the entry stands
one of the batch, (B, *shape). A rule computes an op's batch; an op without one is computed entry by entry. Where the function
does what is not an op of its tensors (it writes in place, reads values, draws numbers), `NotBatched` is raised, and `vmap` calls
it for each entry.
"""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from tdt._batching_rules import Operand, rule_of
from tdt._core.mode import _replace, _set, state
from tdt._core.tensor import LEAF, Tensor
from tdt.autograd._dispatch import apply
from tdt.autograd._op_table import OPS

MOST_OBJECTS = 20_000  # that a function refers to, in the search for tensors


class NotBatched(Exception):
    """The function has to run for each entry."""


FAILURES = (
    RuntimeError,
    ValueError,
    IndexError,
    TypeError,
)  # errors of ops, which name the entry that fails where it is alone


class Known(NamedTuple):
    """A tensor of the first entry, and its batch, None where it is the same for all entries."""

    tensor: Tensor
    version: int
    batch: Tensor | None


class Batching:
    """The run of a function on the first of `size` entries; the handler of its ops.

    Args:
        sources: where the function may have tensors from, besides its ops: the function itself and its arguments.
    """

    def __init__(self, size: int, sources: Sequence[Any]):
        self.size, self.sources = size, sources
        self.handler, self.recording, self.batching = state.handler, state.recording, state.batching
        self._tensors: dict[int, Known] = {}
        self._arrays: dict[int, Known] = {}  # by array: `detach` gives a tensor of the same one
        self._searched = False
        self.refused = False  # a function may catch `NotBatched`

    @staticmethod
    def may_run() -> bool:
        """Whether ops may have another handler."""
        if state.batching is not None:
            return True
        records = state.recording is not None and not getattr(state.recording, "is_watch", False)
        return state.handler is None and not records and not state.meta

    def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function whose ops are those of the entries."""
        before = _replace({"handler": self.handle, "recording": self, "batching": self})
        try:
            return function(*args, **kwargs)
        finally:
            _set(before)

    def outside(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function whose ops are not."""
        before = _replace({"handler": self.handler, "recording": self.recording, "batching": self.batching})
        try:
            return function(*args, **kwargs)
        finally:
            _set(before)

    def differentiate(self, source: Tensor, x: Tensor) -> None:
        """Make a copy of the batch of `source` the batch of `x`, a copy of `source` to differentiate by."""
        batch, outer = self.expanded(source), self.batching
        if x._edge is LEAF:
            leaf = batch.detach().requires_grad_()
            if outer is not None:
                outer.differentiate(source, x)
                outer.differentiate(batch, leaf)
        else:
            leaf = self.outside(batch.view_as, batch)
        self.add(x, leaf, alone=True)

    def gradients(self, compute: Callable[..., tuple], outputs: tuple, inputs: tuple, weights: Any) -> tuple:
        """The gradients that `compute(outputs, inputs, weights)` gives, of an entry and, in the graph of batches, of all."""
        if weights is None:
            weights = [_alone(y.new_ones, y.shape) for y in outputs]
            for w in weights:
                self.constant(w)
        outer = _alone if self.batching is None else self.batching.gradients
        found = self.outside(outer, compute, outputs, inputs, weights)
        batches = self.outside(
            outer, compute, *[tuple(map(self.expanded, each)) for each in (outputs, inputs, weights)]
        )
        for g, batch in zip(found, batches, strict=True):
            self.add(g, batch)
        return found

    def refuse(self, reason: str) -> NoReturn:
        """Called for what cannot be done for all entries at once."""
        self.refused = True
        raise NotBatched(reason)

    def computed(self, function: Callable[..., Any], arrays: Sequence[Any], result: Any) -> None:
        """Called with a result that was computed of arrays."""
        self.refuse("a tensor that was computed without an op")

    def check(self, check: Callable[[Any], None], array: Any) -> None:
        """Called with a check of values that the first entry has passed."""
        known = self._arrays.get(id(array))
        if known is None:
            self.refuse("values of a tensor are checked")
        if known.batch is not None:
            check(known.batch._a)

    def constant(self, created: Tensor) -> None:
        """Called with a tensor that was created from numbers."""
        self.add(created, None)
        if self.batching is not None:
            self.batching.constant(created)

    def add(self, tensor: Tensor, batch: Tensor | None, alone: bool = False) -> None:
        """Note the batch of which a tensor is the first entry. alone: not for other tensors of the same array."""
        known = self._tensors[id(tensor)] = Known(tensor, tensor._st.version, batch)
        if not alone:
            self._arrays.setdefault(id(tensor._a), known)

    def batch_of(self, tensor: Tensor) -> Tensor | None:
        """The batch of which a tensor of the function is the first entry; None if it is the same for all entries."""
        known = self._tensors.get(id(tensor)) or self._arrays.get(id(tensor._a))
        if known is None:
            self._search()
            known = self._arrays.get(id(tensor._a))
        if known is None:
            self.refuse("a tensor that was made without an op")
        if known.version != tensor._st.version:
            self.refuse("a tensor was written in place")
        batch = known.batch
        if batch is None or batch.requires_grad == tensor.requires_grad:
            return batch
        if tensor.requires_grad:
            self.refuse("a gradient is required of one entry alone")
        return self.outside(batch.detach)

    def expanded(self, tensor: Tensor) -> Tensor:
        """The batch for which a tensor stands, all entries equal where it does not depend on them."""
        batch = self.batch_of(tensor)
        return self.outside(tensor.expand, self.size, *tensor.shape) if batch is None else batch

    def _search(self) -> None:
        if not self._searched:
            self._searched = True
            for tensor in _tensors_of(self.sources):
                if id(tensor._a) not in self._arrays:
                    self.add(tensor, None)

    def handle(self, op: Any, operands: tuple, attributes: dict, target: Any) -> Any:
        """The call of an op."""
        if target is not None or op.random or op.data_dependent:
            self.refuse(op.name)
        inputs = []
        for x in operands:
            if not isinstance(x, Tensor):
                inputs.append(Operand(x, False, None))
                continue
            if x._a.__class__ is not np.ndarray:
                self.refuse("an operand is not a dense tensor on the CPU")
            batch = self.batch_of(x)
            inputs.append(Operand(x if batch is None else batch, batch is not None, x._a.shape))
        if any(isinstance(value, Tensor) for value in attributes.values()):
            self.refuse(op.name)
        return self.outside(self._computed, op, operands, inputs, attributes)

    def _computed(self, op: Any, operands: tuple, inputs: list[Operand], attributes: dict) -> Any:
        found = apply(op, operands, attributes)
        outs = found if found.__class__ is tuple else (found,)
        batches: Sequence[Tensor | None] = (None,) * len(outs)
        if any(x.mapped for x in inputs):
            try:
                batches = self._of_rule(op, inputs, {**op.defaults, **attributes}, outs)
            except FAILURES as error:
                self.refuse(str(error))
        for out, batch in zip(outs, batches, strict=True):
            self.add(out, batch)
        return found

    def _of_rule(self, op: Any, inputs: list[Operand], attributes: dict, outs: tuple) -> Sequence[Tensor]:
        """The results for the batch by the op's rule; one by one without a rule, or where it does not give what entries do."""
        rule = rule_of(op)
        found = rule and rule(op, inputs, self.size, attributes)
        if found is None:
            return self._one_by_one(op, inputs, attributes)
        batches = found if found.__class__ is tuple else (found,)
        for out, batch in zip(outs, batches, strict=True):
            if batch._a.shape != (self.size, *out._a.shape) or batch._a.dtype != out._a.dtype:
                return self._one_by_one(op, inputs, attributes)
        return batches

    def _one_by_one(self, op: Any, inputs: list[Operand], attributes: dict) -> list[Tensor]:
        rows = []
        for i in range(self.size):
            found = apply(op, tuple([x.value.select(0, i) if x.mapped else x.value for x in inputs]), attributes)
            rows.append(found if found.__class__ is tuple else (found,))
        return [OPS["stack"](*column, dim=0) for column in zip(*rows, strict=True)]


def _alone(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function whose ops nothing handles."""
    before = _replace({"handler": None, "recording": None, "batching": None})
    try:
        return function(*args)
    finally:
        _set(before)


def _tensors_of(sources: Iterable[Any]) -> Iterator[Tensor]:
    """The tensors that functions, modules and containers refer to."""
    waiting, visited = list(sources), set()
    while waiting:
        value = waiting.pop()
        if id(value) in visited or isinstance(
            value, (str, bytes, int, float, complex, type, types.ModuleType, np.ndarray)
        ):
            continue
        visited.add(id(value))
        if len(visited) > MOST_OBJECTS:
            raise NotBatched("the function refers to too many objects")
        if isinstance(value, Tensor):
            yield value
        else:
            waiting += _parts(value)


def _parts(value: Any) -> list[Any]:
    """What an object refers to."""
    if isinstance(value, (list, tuple, set, frozenset)):
        return [*value]
    if isinstance(value, dict):
        return [*value.values()]
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, types.MethodType):
        return [value.__self__, value.__func__]
    if isinstance(value, types.FunctionType):
        return [*_cells(value), value.__defaults__, value.__kwdefaults__, *_globals(value)]
    return [*vars(value).values()] if hasattr(value, "__dict__") else []


def _cells(function: types.FunctionType) -> list[Any]:
    """The variables of enclosing functions that a function uses, as far as they are set."""
    found = []
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):
            found.append(cell.cell_contents)
    return found


def _globals(function: types.FunctionType) -> list[Any]:
    """The global variables whose names the code of a function has; none for this package's own functions."""
    if (function.__module__ or "").partition(".")[0] == "tdt":
        return []
    codes = [function.__code__]
    names: set[str] = set()
    while codes:
        code = codes.pop()
        names.update(code.co_names)
        codes += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return [function.__globals__[name] for name in names if name in function.__globals__]
