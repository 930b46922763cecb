"""Programs whose statements run natively: one call for all launches between two statements that Python computes.

A statement is tried on a tape of its own (`_kernels/_tape.py`): the tape must give the function's bits for other values of
its operands too. What does not is left to Python. The arrays that tapes use have one place in memory each; so it is for
programs whose arrays are small, where Python takes most of the time.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import is_
from typing import Any

import numpy as np

from tdt._compiled.lowering import same_bits
from tdt._compiled.program import Program, Statement
from tdt._kernels._launches import Launch, Trace, watch
from tdt._kernels._registry import SWITCHES
from tdt._kernels._tape import Tape, Watched, copies, held_arrays, is_held, plain

ndarray = np.ndarray
MOST_BYTES = (
    1 << 20
)  # of a program's arrays, which then stay in the cache, and whose ops Python takes most of the time for
MOST_NUMBERED = 1 << 24  # whole numbers that float32 has
MOST_RUNS = 1 << 12  # copies of neighbours in one launch
COPIED = 1 << 14  # bytes that are copied in the time that a launch saves
MOST_MISSES = 20  # calls in a row with other parameters, before the statements are tried anew
FAILURES = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
TURNS = 4  # with other values, before launches are known to give the function's bits
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 3e38])
MOST_PREPARED = 4  # times that statements are tried


class Lease:
    """Stands for the use of a program's saved arrays."""

    __slots__ = ("__weakref__",)


class Native:
    """A program, as a function of arrays, that runs on tapes.

    Args:
        parameters: the names of the arrays it is called with.
        own: those of them that are the same arrays in most calls. Others are copied.
        outs: the names of the arrays that it returns, each call anew.
        size: the bytes of the arrays that the function reads and computes.
        otherwise: the program in Python, for calls that cannot run so.
        generators: which statements may draw from.
        saved: of a forward program: the names of those that it returns where they are, for the backward program. While somebody
            has the `Lease` of a call, others are left to `otherwise`.
        forward: of a backward program: whose saved arrays its own are.
    """

    def __init__(self, program: Program, parameters: Sequence[str], own: Iterable[str], outs: Sequence[str],
                 size: int, otherwise: Callable[..., Any], generators: Sequence[Any], *, saved: Sequence[str] = (),
                 forward: Native | None = None):  # fmt: skip
        self.program, self.parameters, self.own, self.outs = program, parameters, frozenset(own), outs
        self.size = size
        self.otherwise, self.generators, self.saved, self.forward = otherwise, generators, saved, forward
        self.steps: list[_Launched | _Computed] = []
        self.values: dict[str, Any] = {}
        self.places: list[Any] = []
        self.disabled = not SWITCHES.kernels
        self._used: list[ndarray] = []
        self._lease: Callable[[], Lease | None] = lambda: None  # who has the saved arrays
        self._misses = self._prepared = 0
        self._lock = threading.Lock()

    def __call__(self, *arrays: Any) -> Any:
        """What the program gives for these arrays: gradients; or the results, what is saved, and the lease of that."""
        if self.disabled or not self._lock.acquire(blocking=False):
            return self._otherwise(arrays)
        try:
            if not self.steps and not self._prepare(arrays):
                return self._otherwise(arrays)
            if self._lease() is not None or not self._take(arrays):
                return self._otherwise(arrays)
            values = self.values
            for step in self.steps:
                found = step.run(values)
                if found is not None:
                    return self._rest(*found)
            return self._results(values)
        finally:
            self._lock.release()

    def _otherwise(self, arrays: Sequence[Any]) -> Any:
        found = self.otherwise(*arrays)
        return found if self.forward else (*found, None)

    def _take(self, arrays: Sequence[Any]) -> bool:
        """Put the arrays of a call in their places; whether its own ones are those that tapes use."""
        values, own = self.values, self.own
        for name, place, a in zip(self.parameters, self.places, arrays, strict=True):
            if place is None:
                values[name] = a
            elif place is not a:
                if name in own:
                    self._misses += 1
                    if self._misses > MOST_MISSES:  # they have been replaced for good
                        self._misses, self.steps, self._used = 0, [], []
                    return False
                place[...] = a
        self._misses = 0
        return True

    def _results(self, values: dict[str, Any]) -> Any:
        outs = tuple([_copy(values[name]) for name in self.outs])
        if self.forward:
            return outs
        lease = Lease()
        self._lease = weakref.ref(lease)
        return outs, tuple([values[name] for name in self.saved]), lease

    def _rest(self, at: int, found: dict[str, Any]) -> Any:
        """The results, with all statements from the one at a place on computed by Python. found: values that differ."""
        values = {**self.values, **found}
        for trial in self.trials[at:]:
            values.update(zip(trial.outs, trial.function(*[values[name] for name in trial.reads]), strict=True))
        outs = tuple([np.array(values[name], copy=True, order="K") for name in self.outs])
        return outs if self.forward else (outs, tuple([_mapped(_copy, values[name]) for name in self.saved]), None)

    def _prepare(self, arrays: Sequence[Any]) -> bool:
        """Try all statements; whether the program can run so with these arrays. Nothing has changed then."""
        forward, values = self.forward, {}
        if forward and not (forward.steps and all(map(is_, [forward.values[name] for name in forward.saved], arrays))):
            return False  # they are those of a call in Python
        self._prepared += 1
        if self.size > MOST_BYTES or self._prepared > MOST_PREPARED:
            self.disabled = True
            return False
        for name, a in zip(self.parameters, arrays, strict=True):
            values[name] = a if name in self.own else _mapped(_copy, a)
        states = [g.state_array() for g in self.generators]
        trials: list[_Trial] = []
        try:
            trials += (
                _Trial(each, self.program.constants, values, forward is None) for each in self.program.statements
            )
        finally:
            for trial in reversed(trials):
                trial.undo()
            for g, drawn in zip(self.generators, states, strict=True):
                g.set_state_array(drawn)
        self.disabled = not any(trial.launches for trial in trials)
        if not self.disabled:
            self._arrange(trials, values)
        return not self.disabled

    def _arrange(self, trials: list[_Trial], values: dict[str, Any]) -> None:
        """Make the steps of the tried statements."""
        written = [a for trial in trials for a, _ in trial.before]
        for trial in trials:
            if trial.outs and any(np.may_share_memory(a, r) for a in written for r in trial.results):
                trial.launches = None  # an array that is built anew in each call, and then written to
        used = [a for trial in trials for launch in trial.launches or () for a in held_arrays(launch.held)]
        for trial in trials:
            if trial.is_view and not any(_share(r, used) for r in trial.results):
                trial.launches = None  # of an array that may have another place in each call
        steps: list[_Launched | _Computed] = []
        first = 0
        while first < len(trials):
            last, is_native = first + 1, trials[first].launches is not None
            while last < len(trials) and (trials[last].launches is not None) == is_native:
                last += 1
            group = trials[first:last]
            if is_native:
                launches = [(launch, first + k) for k, trial in enumerate(group) for launch in trial.launches or ()]
                steps += [_Launched(launches)] if launches else []
            else:
                later = {name for trial in trials[last:] for name in trial.reads} | {*self.outs, *self.saved}
                steps.append(_Computed(group, later, self.program.constants, last))
            first = last
        self.values, self.trials, self.steps = values, trials, steps
        programs = [self, self.forward] if self.forward else [self]
        copied = sum(program._copied([*program._used, *used]) for program in programs)
        if copied > COPIED * sum(
            len(step.tape.launches) for p in programs for step in p.steps if isinstance(step, _Launched)
        ):
            self.disabled, self.values, self.steps = True, {}, []  # Python has no places to copy to
        else:
            self._use(used)

    def _copied(self, used: Sequence[ndarray]) -> int:
        """The bytes of what Python computes that are copied in a call, if tapes use these arrays."""
        names = [name for step in self.steps if isinstance(step, _Computed) for name in step.outs]
        values = [a for name in names for a in _arrays(self.values[name])]
        return sum(a.nbytes for a in values if _share(a, used))

    def _use(self, arrays: Sequence[ndarray]) -> None:
        """Let these arrays, which tapes use, keep their places. Others are passed on."""
        self._used += arrays
        fixed = {name for name, value in self.values.items() if any(_share(a, self._used) for a in _arrays(value))}
        fixed |= {name for name in self.parameters if name not in self.own or not self.forward}
        self.places = [self.values[name] if name in fixed else None for name in self.parameters]
        for step in self.steps:
            if isinstance(step, _Computed):
                step.fixed = [name in fixed for name in step.outs]
        if self.forward:
            self.forward._use(arrays)


class _Launched:
    """Launches, with the place of the statement of each, that run on a tape."""

    def __init__(self, launches: list[tuple[Launch, int]]):
        self.tape, self.places = Tape([launch for launch, _ in launches]), [place for _, place in launches]

    def run(self, values: dict[str, Any]) -> tuple[int, dict[str, Any]] | None:
        """Run the tape. Where a check fails, the place of its statement, from which on Python is to go on."""
        return None if self.tape.run() else (self.places[int(self.tape.failed[0])], {})


class _Computed:
    """Statements that Python computes. Results that tapes use are then copied to their places.

    Args:
        later: the names that are read afterwards.
        following: the place of the statement after them.
    """

    def __init__(self, trials: Sequence[_Trial], later: set[str], constants: dict[str, Any], following: int):
        built: dict[str, None] = {}
        reads: dict[str, None] = {}
        for trial in trials:
            reads.update((name, None) for name in trial.reads if name not in built)
            built.update(dict.fromkeys(trial.outs))
        self.reads, self.outs, self.next = list(reads), [name for name in built if name in later], following
        self.function = _function([trial.statement for trial in trials], self.reads, self.outs, constants)
        self.fixed = [True] * len(self.outs)

    def run(self, values: dict[str, Any]) -> tuple[int, dict[str, Any]] | None:
        """Compute them. Where results are of another kind than they were, these, and the place after the statements."""
        results = self.function(*[values[name] for name in self.reads])
        for name, result, is_fixed in zip(self.outs, results, self.fixed, strict=True):
            place = values[name]
            if not (_put(place, result) if is_fixed else (place is None) == (result is None)):
                return self.next, dict(zip(self.outs, results, strict=True))
            if not is_fixed:
                values[name] = result
        return None


class _Trial:
    """A statement that is tried.

    Attributes:
        launches: what it launches; None where Python is to compute it.
        results: the arrays that it gives.
        before: where it writes to arrays, those that it reads and their values before.
        is_view: whether it only looks at its operands in another way.
    """

    def __init__(self, statement: Statement, constants: dict[str, Any], values: dict[str, Any], is_forward: bool):
        self.is_forward = is_forward
        self.statement, self.repeatable = statement, statement.repeatable
        self.reads, self.outs = list(dict.fromkeys(statement.reads)), [name.rstrip(",") for name in statement.outs]
        self.function = _function([statement], self.reads, self.outs, constants)
        inputs = [values[name] for name in self.reads]
        arrays = _arrays(tuple(inputs))
        self.before = [(a, _copy(a)) for a in arrays] if statement.writes else []
        with watch() as trace:
            try:
                found = self.function(*[_mapped(lambda a: a.view(Watched), value) for value in inputs])
            except FAILURES:  # of code that looks at the type of arrays, or of the values themselves
                self.undo()
                trace.complete = False
                found = self.function(*inputs)
        results = [_mapped(lambda r: np.asarray(plain(r)), value) for value in found]
        self.is_view = False
        roots = _arrays(tuple([value for name, value in values.items() if name.startswith("r")]))
        self.launches = self._native(trace, inputs, arrays, _leaves(results), roots)
        if self.launches is None:  # its own places, which no other array shares
            results = [_mapped(_copy, value) for value in results]
        self.results = _arrays(tuple(results))
        values.update(zip(self.outs, results, strict=True))

    def _native(
        self, trace: Trace, inputs: list[Any], arrays: list[ndarray], results: list[Any], roots: list[ndarray]
    ) -> list[Launch] | None:
        """The launches that do what the function does."""
        if not (self.repeatable and (results or self.before) and all(r.__class__ is ndarray for r in results)):
            return None
        if len(arrays) < len(_leaves(inputs)):  # a number that another statement computes
            return None
        if not arrays and not trace.launches:
            return []  # constants
        if not self._may_try(arrays, roots, trace.launches):
            return None
        checks_and_writes = self.before and any(not launch.entry for launch in trace.launches)
        if trace.complete and not checks_and_writes and all(map(is_held, trace.launches)):
            self.is_view = not trace.launches and bool(results) and all(_share(r, arrays) for r in results)
            launches = trace.launches
            if (launches or self.is_view) and _gives_same(
                launches, self.function, inputs, arrays, results, odd=self.is_forward
            ):
                return launches
        moves = None if self.before else _moves(self.function, inputs, arrays, results)
        return moves if moves and _gives_same(moves, self.function, inputs, arrays, results, odd=False) else None

    def _may_try(self, arrays: list[ndarray], roots: list[ndarray], launches: list[Launch]) -> bool:
        """Whether the function stands other integers: kernels trust those that other statements compute.

        A backward pass trusts all that the forward pass has checked, unless it checks them itself.
        """
        integers = [a for a in arrays if a.dtype.kind in "iu"]
        checks = any(not launch.entry for launch in launches)
        return all(_share(a, roots) for a in integers) and (self.is_forward or checks or not integers)

    def undo(self) -> None:
        """Write back what was written to."""
        for a, old in self.before:
            a[...] = old


def _put(place: Any, result: Any) -> bool:
    """Copy a statement's result to its place, with the arrays in it; whether it is of that kind."""
    if place.__class__ is ndarray:
        if not isinstance(result, (ndarray, np.generic)) or (result.shape, result.dtype) != (place.shape, place.dtype):
            return False
        if place is not result:
            place[...] = result
        return True
    if place.__class__ is tuple:
        return result.__class__ is tuple and len(place) == len(result) and all(map(_put, place, result))
    return place is result or (place.__class__ is result.__class__ and bool(place == result))


def _mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """A value with the function's results in the place of its arrays, and of NumPy's scalars."""
    if isinstance(value, (ndarray, np.generic)):
        return function(value)
    return tuple([_mapped(function, each) for each in value]) if value.__class__ is tuple else value


def _leaves(values: Any) -> list[Any]:
    """What values and the tuples in them hold, without None."""
    found: list[Any] = []
    for value in values:
        found += _leaves(value) if value.__class__ is tuple else [] if value is None else [value]
    return found


def _arrays(value: Any) -> list[ndarray]:
    """The arrays in a value."""
    return [a for a in _leaves((value,)) if a.__class__ is ndarray]


def _share(a: ndarray, others: Iterable[ndarray]) -> bool:
    """Whether an array may share memory with one of others."""
    return any(np.may_share_memory(a, other) for other in others)


def _copy(a: ndarray) -> ndarray:
    return a.copy(order="K")


def _moves(
    function: Callable[..., tuple], inputs: list[Any], arrays: list[ndarray], results: list[ndarray]
) -> list[Launch] | None:
    """What copies elements as a function does that only moves them, to `results`; None for other functions.

    Each element of the operands gets a number of its own, and is found again in the results.
    """
    if not all(a.dtype.char in "fd" and a.size for a in (*arrays, *results)) or len({a.dtype for a in arrays}) != 1:
        return None
    if not all(a.flags.writeable for a in arrays):
        return None
    ends = np.cumsum([1, *[a.size for a in arrays]]).tolist()
    if ends[-1] >= MOST_NUMBERED:
        return None
    before = [_copy(a) for a in arrays]
    try:
        for a, start, end in zip(arrays, ends, ends[1:], strict=False):
            a[...] = np.arange(start, end).reshape(a.shape)
        with np.errstate(all="ignore"):
            found = [np.array(r, copy=True, order="K") for r in _leaves(function(*inputs))]
    except FAILURES:  # values for which the function fails say nothing
        return None
    finally:
        for a, old in zip(arrays, before, strict=True):
            a[...] = old
    pairs = []
    for result, numbered in zip(results, found, strict=True):
        if any(np.may_share_memory(result, a) for a in arrays) or numbered.shape != result.shape:
            return None
        pairs += (runs := _runs(result, numbered, arrays, ends)) or []
        if runs is None or len(pairs) > MOST_RUNS:
            return None
    return [copies(pairs, (arrays, results))]


def _runs(result: ndarray, numbered: ndarray, arrays: list[ndarray], ends: list[int]) -> list | None:
    """(target, source): parts of `result` that are copied whole, of arrays whose elements are numbered."""
    order = np.argsort([-s for s in result.strides], kind="stable")
    target, numbers = result.transpose(order), numbered.transpose(order)
    sources = [a.transpose(np.argsort([-s for s in a.strides], kind="stable")) for a in arrays]
    if not target.flags.c_contiguous or not all(a.flags.c_contiguous for a in sources):
        return None
    target, sources = target.reshape(-1), [a.reshape(-1) for a in sources]
    places = np.concatenate(
        [
            np.arange(s, e).reshape(a.shape).transpose(np.argsort([-t for t in a.strides], kind="stable")).reshape(-1)
            for a, s, e in zip(arrays, ends, ends[1:], strict=False)
        ]
    )
    where = np.zeros(ends[-1], np.int64)
    where[places] = np.arange(1, ends[-1])  # where each number lies in memory, from 1
    values = numbers.reshape(-1)
    if not np.array_equal(values, values.astype(np.int64)) or values.min() < 1 or values.max() >= ends[-1]:
        return None
    lies = where[values.astype(np.int64)]
    starts = np.searchsorted(ends, lies, "right") - 1
    cuts = np.flatnonzero((np.diff(lies) != 1) | (np.diff(starts) != 0)) + 1
    pairs = []
    for low, high in zip([0, *cuts.tolist()], [*cuts.tolist(), len(lies)], strict=True):
        source, at = sources[starts[low]], lies[low] - ends[starts[low]]
        pairs.append((target[low:high], source[at : at + high - low]))
    return pairs


def _gives_same(
    launches: list[Launch],
    function: Callable[..., tuple],
    inputs: list[Any],
    arrays: list[ndarray],
    results: list[ndarray],
    *,
    odd: bool,
) -> bool:
    """Whether the launches give the function's bits for other values of its arrays too, which are restored then.

    odd: try values out of range, too.
    """
    if not all(a.flags.writeable for a in (*arrays, *results)):
        return False
    tape, random = Tape(launches), np.random.default_rng(len(launches))
    before = [_copy(a) for a in (*arrays, *results)]
    try:
        with np.errstate(all="ignore"):
            for turn in range(TURNS):
                for a, old in zip(arrays, before, strict=False):
                    other = _others(old, random, turn)
                    if other is None:
                        return False
                    a[...] = other
                if not _alike(tape, function, inputs, arrays, results):
                    return False
            for a in arrays if odd else ():
                for values in _odd(a, random):
                    for each, old in zip(arrays, before, strict=False):
                        each[...] = old
                    a[...] = values
                    if not _stops_like(launches, function, inputs, arrays, results):
                        return False
    except FAILURES:  # values for which the function fails say nothing
        return False
    finally:
        for a, old in zip((*arrays, *results), before, strict=True):
            a[...] = old
    return True


def _alike(
    tape: Tape, function: Callable[..., tuple], inputs: list[Any], arrays: list[ndarray], results: list[ndarray]
) -> bool:
    """Whether a tape gives the function's bits for the values that its arrays have, those that it writes to among them."""
    initial = [_copy(a) for a in arrays]
    expected = [np.array(r, copy=True, order="K") for r in _leaves(function(*inputs))]
    expected += [_copy(a) for a in arrays]
    for a, old in zip(arrays, initial, strict=True):
        a[...] = old
    return tape.run() and all(map(same_bits, expected, (*results, *arrays)))


def _stops_like(
    launches: list[Launch],
    function: Callable[..., tuple],
    inputs: list[Any],
    arrays: list[ndarray],
    results: list[ndarray],
) -> bool:
    """Whether launches stop at a check for values for which the function goes another way, by other launches or an error.

    They are run only as far as the function's own are the same.
    """
    initial = [_copy(a) for a in arrays]
    with watch() as trace:
        try:
            function(*[_mapped(lambda a: a.view(Watched), value) for value in inputs])
            fails = False
        except FAILURES:
            fails = True
    for a, old in zip(arrays, initial, strict=True):
        a[...] = old
    own, others = ([(each.entry, each.entry or each.blocks) for each in some] for some in (launches, trace.launches))
    at = next((k for k, (a, b) in enumerate(zip(own, others, strict=False)) if a != b), None)
    if at is not None:
        is_check = not launches[at].entry and not trace.launches[at].entry
        return is_check and not Tape(launches[: at + 1]).run()
    return not fails and own == others and _alike(Tape(launches), function, inputs, arrays, results)


def _odd(values: ndarray, random: np.random.Generator) -> Iterator[ndarray]:
    """Values of which functions often take notice: classes that are ignored, places out of range, masks of one value."""
    if values.dtype.kind == "b":
        yield np.zeros_like(values)
        yield np.ones_like(values)
    elif values.dtype.kind in "iu" and values.size:
        limits = np.iinfo(values.dtype)
        for odd in (-100, -1, int(values.max()) + 1):
            if limits.min <= odd <= limits.max:
                others = values.copy()
                others.reshape(-1)[random.integers(values.size)] = odd
                yield others


def _others(values: ndarray, random: np.random.Generator, turn: int) -> ndarray | None:
    """Other values: random numbers, in every other turn special ones too; or the array's integers in other places.

    None where all integers are alike: others may be out of range.
    """
    kind = values.dtype.kind
    if kind == "b":
        return random.integers(0, 2, values.shape).astype(bool)
    if kind != "f":
        known = np.unique(values)
        if len(known) < 2:
            return None if values.size else values
        others = random.choice(known, values.shape)
        while np.array_equal(others, values):
            others = random.choice(known, values.shape)
        return others
    numbers = np.asarray(random.normal(size=values.shape))
    if turn % 2:
        special = random.integers(0, 3, values.shape) == 0
        numbers = np.where(special, random.choice(SPECIAL, values.shape), numbers)
    return numbers.astype(values.dtype)


def _function(
    statements: Sequence[Statement], reads: Sequence[str], outs: Sequence[str], constants: dict[str, Any]
) -> Callable[..., tuple]:
    """Statements as a function of what they read, which gives a tuple."""
    lines = [f"def run({', '.join(reads)}):"]
    for each in statements:
        lines.append(f"    {', '.join(each.outs)} = {each.text}" if each.outs else f"    {each.text}")
    names = {**constants, "__name__": __name__}
    exec("\n".join([*lines, f"    return ({''.join(f'{name}, ' for name in outs)})"]), names)
    return names["run"]
