"""Programs whose statements run natively: one call for all launches between two statements that Python computes.

A statement is tried on a tape of its own (`trials.py`): the tape must give the function's bits for other values of its
operands too. What does not is left to Python. The arrays that tapes use have one place in memory each; so it is for
programs whose arrays are small, where Python takes most of the time.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from operator import is_
from typing import Any

import numpy as np

from tdt._compiled.program import Program
from tdt._compiled.trials import (
    FAILURES,
    Trial,
    TriedUpdate,
    arrays_in,
    copy_of,
    extent_of,
    function_of,
    mapped,
    share,
    strided_alike,
)
from tdt._kernels._copies import copier
from tdt._kernels._launches import Launch
from tdt._kernels._registry import SWITCHES
from tdt._kernels._tape import Tape, held_arrays

ndarray = np.ndarray
# Bytes of the arrays of a program, each of which has its own place. Of larger ones Python takes little of the time, except where
# there are no more than so many bytes for a statement: then up to twice as many are held.
MOST_BYTES, BYTES_OF_STATEMENT = 1 << 23, 3 << 14
# Bytes of a program's arrays for each call that it waits for, and how many calls at most: it must be called often to be worth the
# trials, of which one takes as long as Python does for a hundred or two calls of its statement.
WAITED, MOST_WAITED = 1 << 14, 150
COPIED = 1 << 17  # bytes that are copied in the time that a launch saves
MOST_MISSES = 20  # calls in a row with other parameters, before the statements are tried anew
MOST_PREPARED = 4  # times that statements are tried


def may_hold(size: int, statements: int) -> bool:
    """Whether tapes may hold so many bytes of arrays of a program of so many statements."""
    return size <= MOST_BYTES or size <= min(2 * MOST_BYTES, BYTES_OF_STATEMENT * statements)


class Lease:
    """Stands for the use of a program's saved arrays."""

    __slots__ = ("__weakref__",)


class Native:
    """A program, as a function of arrays, that runs on tapes.

    Args:
        parameters: the names of the arrays it is called with.
        own: those of them that are the same arrays in most calls. Others are copied, to places with the same strides.
        outs: the names of the arrays that it returns, each call anew.
        size, count: the bytes of the arrays that the function reads and computes, and how many statements were recorded.
        otherwise: the program in Python, for calls that cannot run so.
        generators: which statements may draw from.
        saved: of a forward program: the names of those that it returns where they are, for the backward program. While somebody
            has the `Lease` of a call, others are left to `otherwise`.
        forward: of a backward program: whose saved arrays its own are.
    """

    def __init__(self, program: Program, parameters: Sequence[str], own: Iterable[str], outs: Sequence[str],
                 size: int, count: int, otherwise: Callable[..., Any], generators: Sequence[Any], *, saved: Sequence[str] = (),
                 forward: Native | None = None):  # fmt: skip
        self.program, self.parameters, self.own, self.outs = program, parameters, frozenset(own), outs
        self.size, self.count = size, count
        self.otherwise, self.generators, self.saved, self.forward = otherwise, generators, saved, forward
        self.steps: list[_Launched | _Computed] = []
        self.values: dict[str, Any] = {}
        self.copies: list[Callable[[Any], Any]] = []  # of each result, which keep its strides
        self._copied_at_once: Callable[[], tuple] | None = None  # the results, where all are launched
        self.places: list[Any] = []
        self.updates: list[Any] = []  # steps of optimizers that tapes take, and the generators that they draw from
        self.disabled = not SWITCHES.kernels
        self._used: list[ndarray] = []
        self._lease: Callable[[], Lease | None] = lambda: None  # who has the saved arrays
        self._misses = self._prepared = self._calls = 0
        self._lock = threading.Lock()

    def __call__(self, *arrays: Any) -> Any:
        """What the program gives for these arrays: gradients; or the results, what is saved, and the lease of that."""
        if self.disabled or not self._lock.acquire(False):
            return self._otherwise(arrays)
        try:
            if not self.steps and (self._waits() or not self._prepare(arrays)):
                return self._otherwise(arrays)
            if self._lease() is not None or not self._take(arrays):
                return self._otherwise(arrays)
            values = self.values
            for update in self.updates:
                if not update.prepare():
                    self._forget()
                    return self._otherwise(arrays)
            for step in self.steps:
                found = step.run(values)
                if found is not None:
                    return self._rest(*found)
            return self._results(values)
        finally:
            self._lock.release()

    @property
    def is_small(self) -> bool:
        """Whether tapes may run the program, or do, but for what its statements are."""
        return may_hold(self.size, self.count) and not self.disabled

    def _waits(self) -> bool:
        """Whether the program has been called too seldom to be tried. A backward program follows its forward program."""
        self._calls += 1
        return self.forward is None and self._calls <= min(self.size // WAITED, MOST_WAITED)

    def _otherwise(self, arrays: Sequence[Any]) -> Any:
        found = self.otherwise(*arrays)
        return found if self.forward else (*found, None)

    def _take(self, arrays: Sequence[Any]) -> bool:
        """Put the arrays of a call in their places; whether its own ones are those that tapes use."""
        values, own = self.values, self.own
        if all(map(is_, self.places, arrays)):  # no one has to be passed on, or copied
            self._misses = 0
            return True
        for name, place, a in zip(self.parameters, self.places, arrays, strict=True):
            if place is None:
                values[name] = a
            elif place is not a:
                if name in own:
                    self._misses += 1
                    if self._misses > MOST_MISSES:  # they have been replaced for good
                        self._forget()
                    return False
                place[...] = a
        self._misses = 0
        return True

    def _forget(self) -> None:
        """Let the statements be tried anew."""
        self._misses, self.steps, self._used, self.updates = 0, [], [], []

    def _results(self, values: dict[str, Any]) -> Any:
        if self._copied_at_once is not None:
            outs = self._copied_at_once()
        else:
            outs = tuple([copied(values[name]) for name, copied in zip(self.outs, self.copies, strict=True)])
        if self.forward:
            return outs
        if not self.saved:
            return outs, (), None
        lease = Lease()
        self._lease = weakref.ref(lease)
        return outs, tuple([values[name] for name in self.saved]), lease

    def _rest(self, at: int, found: dict[str, Any]) -> Any:
        """The results, with all statements from the one at a place on computed by Python. found: values that differ."""
        values = {**self.values, **found}
        for trial in self.trials[at:]:
            values.update(zip(trial.outs, trial.function(*[values[name] for name in trial.reads]), strict=True))
        copies = [strided_alike if copied is strided_alike else copy_of for copied in self.copies]
        outs = tuple([copied(np.asarray(values[name])) for name, copied in zip(self.outs, copies, strict=True)])
        return outs if self.forward else (outs, tuple([mapped(copy_of, values[name]) for name in self.saved]), None)

    def _prepare(self, arrays: Sequence[Any]) -> bool:
        """Try all statements; whether the program can run so with these arrays. Nothing has changed then."""
        forward, values = self.forward, {}
        if forward and not (forward.steps and all(map(is_, [forward.values[name] for name in forward.saved], arrays))):
            return False  # they are those of a call in Python
        self._prepared += 1
        named = dict(zip(self.parameters, arrays, strict=True))
        extent = sum(extent_of(a) for name, value in named.items() if name not in self.own for a in arrays_in(value))
        if not may_hold(max(self.size, extent), self.count) or self._prepared > MOST_PREPARED:
            self.disabled = True
            return False
        values.update({name: a if name in self.own else mapped(strided_alike, a) for name, a in named.items()})
        trials: list[Trial] = []
        try:
            for each in self.program.statements:
                if each.update is not None:
                    trials.append(TriedUpdate(each, values, self._updates_once(each.update)))
                elif each.repeatable:
                    trials.append(Trial(each, self.program.constants, values))
                else:
                    with _same_draws(self.generators) as states:
                        trials.append(Trial(each, self.program.constants, values, states))
        except FAILURES:  # of the function, too: Python raises it, when all before is done that a call does
            return False
        finally:
            for trial in reversed(trials):
                trial.undo()
        self.disabled = not any(trial.launches for trial in trials)
        if not self.disabled:
            self._arrange(trials, values)
        return not self.disabled

    def _updates_once(self, update: Any) -> bool:
        """Whether the program has no other step of the optimizer with the same parameters: tapes prepare one at a time."""
        return sum(s.update is not None and s.update.group is update.group for s in self.program.statements) == 1

    def _arrange(self, trials: list[Trial], values: dict[str, Any]) -> None:
        """Make the steps of the tried statements."""
        written = [a for trial in trials for a, _ in trial.before]
        for trial in trials:
            if trial.launches == [] and not trial.is_view and any(share(r, written) for r in trial.results):
                trial.launches = None  # a constant that is written to
        used = [a for trial in trials for launch in trial.launches or () for a in held_arrays(launch.held)]
        for trial in trials:
            if trial.is_view and not any(share(r, used) for r in trial.results):
                trial.launches = None  # of an array that may have another place in each call
        steps: list[_Launched | _Computed] = []
        first = 0
        while first < len(trials):
            last, how = first + 1, self._how(trials[first])
            while last < len(trials) and self._how(trials[last]) == how:
                last += 1
            group = trials[first:last]
            if how is not None:
                launches = [(launch, first + k) for k, trial in enumerate(group) for launch in trial.launches or ()]
                updates = [(trial.taped, first + k) for k, trial in enumerate(group) if trial.taped is not None]
                steps += [_Launched(launches, updates, Draws(how) if how else None)] if launches else []
            else:
                later = {name for trial in trials[last:] for name in trial.reads} | {*self.outs, *self.saved}
                steps.append(_Computed(group, later, self.program.constants, last))
            first = last
        self.values, self.trials, self.steps = values, trials, steps
        by_python = {name for step in steps if isinstance(step, _Computed) for name in step.outs}
        self.copies = [self._copy(values[name], name in by_python) for name in self.outs]
        at_once = self.own.isdisjoint(self.outs) and all(copied is ndarray.copy for copied in self.copies)
        self._copied_at_once = copier([values[name] for name in self.outs]) if at_once else None
        self.updates = [trial.taped for trial in trials if trial.taped is not None]
        self.updates += [step.draws for step in steps if isinstance(step, _Launched) and step.draws is not None]
        programs = [self, self.forward] if self.forward else [self]
        copied = sum(program._copied([*program._used, *used]) for program in programs)
        if copied > COPIED * sum(
            len(step.tape.launches) for p in programs for step in p.steps if isinstance(step, _Launched)
        ):
            self.disabled, self.values, self.steps, self.updates = True, {}, [], []  # Python has no places to copy to
        else:
            self._use(used)

    def _copy(self, a: ndarray, by_python: bool) -> Callable[[Any], Any]:
        """What copies a result. by_python: the array may have other strides in another call."""
        if a.flags.c_contiguous and not by_python:
            return ndarray.copy
        return copy_of if copy_of(a).strides == a.strides else strided_alike

    def _how(self, trial: Trial) -> list[Any] | None:
        """The generators that a statement draws from on a tape, of its own, so that others wait for them no longer than that."""
        return None if trial.launches is None else [self.generators[k] for k in trial.drawn]

    def _copied(self, used: Sequence[ndarray]) -> int:
        """The bytes that are copied in a call, if tapes use these arrays: of what Python computes, arguments and results."""
        names = [name for step in self.steps if isinstance(step, _Computed) for name in step.outs]
        values = [a for name in names for a in arrays_in(self.values[name]) if share(a, used)]
        others = {*self.outs, *(name for name in self.parameters if name not in self.own)}
        return sum(a.nbytes for a in (*values, *(a for name in others for a in arrays_in(self.values[name]))))

    def _use(self, arrays: Sequence[ndarray]) -> None:
        """Let these arrays, which tapes use, keep their places. Others are passed on."""
        self._used += arrays
        fixed = {name for name, value in self.values.items() if any(share(a, self._used) for a in arrays_in(value))}
        fixed |= {name for name in self.parameters if name not in self.own or not self.forward}
        self.places = [self.values[name] if name in fixed else None for name in self.parameters]
        for step in self.steps:
            if isinstance(step, _Computed):
                step.fixed = [name in fixed for name in step.outs]
        if self.forward:
            self.forward._use(arrays)


class Draws:
    """Generators of which kernels on a tape draw: they write to their states, which lie where they did."""

    def __init__(self, generators: Sequence[Any]):
        self.states = [(g, g.engine.words) for g in generators]

    def prepare(self) -> bool:
        """Whether their states lie there still. A forked child has others."""
        return all(g.engine.words is words for g, words in self.states)

    def run(self, tape: Tape) -> bool:
        """Run a tape, while no other thread draws."""
        with ExitStack() as stack:
            for g, _ in self.states:
                stack.enter_context(g.lock)
            return tape.run()


@contextmanager
def _same_draws(generators: Sequence[Any]) -> Iterator[list[ndarray]]:
    """A block after which generators, whose states it gets, are where they were before; no other thread draws meanwhile."""
    with ExitStack() as stack:
        for g in generators:
            stack.enter_context(g.lock)
        before = [g.state_array() for g in generators]
        try:
            yield [g.engine.words for g in generators]
        finally:
            for g, state in zip(generators, before, strict=True):
                g.set_state_array(state)


class _Launched:
    """Launches and optimizers' updates, with the place of the statement of each, that run on a tape.

    draws: the generators that the launches draw from.
    """

    def __init__(self, launches: list[tuple[Launch, int]], updates: list[tuple[Any, int]], draws: Draws | None):
        self.tape, self.places = Tape([launch for launch, _ in launches]), [place for _, place in launches]
        self.updates, self.draws = updates, draws

    def run(self, values: dict[str, Any]) -> tuple[int, dict[str, Any]] | None:
        """Run the tape. Where a check fails, the place of its statement, from which on Python is to go on."""
        succeeds = self.draws.run(self.tape) if self.draws else self.tape.run()
        end = None if succeeds else self.places[int(self.tape.failed[0])]
        for update, place in self.updates:
            if end is None or place < end:
                update.keep()
        return None if end is None else (end, {})


class _Computed:
    """Statements that Python computes. Results that tapes use are then copied to their places.

    Args:
        later: the names that are read afterwards.
        following: the place of the statement after them.
    """

    def __init__(self, trials: Sequence[Trial], later: set[str], constants: dict[str, Any], following: int):
        built: dict[str, None] = {}
        reads: dict[str, None] = {}
        for trial in trials:
            reads.update((name, None) for name in trial.reads if name not in built)
            built.update(dict.fromkeys(trial.outs))
        self.reads, self.outs, self.next = list(reads), [name for name in built if name in later], following
        self.function = function_of([trial.statement for trial in trials], self.reads, self.outs, constants)
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
