"""Statements of a program, tried: which launches do what they do, for other values of their operands too."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from tdt._compiled.program import Statement
from tdt._kernels._addresses import address_of
from tdt._kernels._launches import Launch, Trace, watch
from tdt._kernels._tape import Tape, Watched, copies, is_held, is_ufunc, plain

ndarray = np.ndarray
MOST_NUMBERED = 1 << 24  # whole numbers that float32 has
MOST_RUNS = 1 << 12  # copies of neighbours in one launch
FAILURES = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
TURNS = 5  # with other values, before launches are known to give the function's bits
MORE_TURNS, FEW = 25, 256  # where the operands have so few elements together
LINE = 64  # bytes of a cache line
PERIOD = 16381  # a prime number
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 3e38])


class Trial:
    """A statement that is tried.

    Attributes:
        launches: what it launches; None where Python is to compute it.
        results: the arrays that it gives.
        before: where it writes to arrays, those that it reads and their values before.
        is_view: whether it only looks at its operands in another way.
        taped: where it is an optimizer's step, what prepares it.
        states: of the generators that it may draw from; drawn: the places of those that it draws from.
    """

    taped: Any = None
    states: Sequence[ndarray] = ()
    drawn: Sequence[int] = ()

    def __init__(
        self, statement: Statement, constants: dict[str, Any], values: dict[str, Any], states: Sequence[ndarray] = ()
    ):
        """states: of the generators that statements may draw from."""
        self.statement, self.states = statement, () if statement.repeatable else states
        self.reads, self.outs = list(dict.fromkeys(statement.reads)), [name.rstrip(",") for name in statement.outs]
        self.function = function_of([statement], self.reads, self.outs, constants)
        inputs = [values[name] for name in self.reads]
        arrays = arrays_in(tuple(inputs))
        self.before = [(a, copy_of(a)) for a in arrays] if statement.writes else []
        before = [copy_of(a) for a in self.states]
        with watch() as trace:
            try:
                found = self.function(*[mapped(lambda a: a.view(Watched), value) for value in inputs])
            except FAILURES:  # of code that looks at the type of arrays, or of the values themselves
                self.undo()
                trace.complete = False
                found = self.function(*inputs)
        results = [mapped(lambda r: np.asarray(plain(r)), value) for value in found]
        self.is_view = False
        roots = arrays_in(tuple([value for name, value in values.items() if name.startswith("r")]))
        self.launches = self._native(trace, inputs, arrays, leaves(results), roots)
        if self.launches is None:  # its own places, which no other array shares
            results = [mapped(strided_alike, value) for value in results]
        self.drawn = [k for k, (a, b) in enumerate(zip(self.states, before, strict=True)) if not np.array_equal(a, b)]
        self.results = arrays_in(tuple(results))
        values.update(zip(self.outs, results, strict=True))

    def _native(
        self, trace: Trace, inputs: list[Any], arrays: list[ndarray], results: list[Any], roots: list[ndarray]
    ) -> list[Launch] | None:
        """The launches that do what the function does."""
        statement = self.statement
        is_check = not (results or statement.writes)
        if not all(r.__class__ is ndarray for r in results):
            return None
        if not statement.repeatable and not (trace.launches and all(launch.entry for launch in trace.launches)):
            return None  # after a check Python would draw again
        if len(arrays) < len(leaves(inputs)):  # a number that another statement computes
            return None
        if not arrays and not trace.launches:
            return []  # constants
        if not self._may_try(arrays, roots, trace.launches):
            return None
        if statement.writes and any(share(a, arrays[:k]) for k, a in enumerate(arrays)):
            return None
        if not all(a.flags.writeable for a in arrays):
            return None
        tried = _OnCopies(self.function, inputs)
        checks_and_writes = self.before and any(not launch.entry for launch in trace.launches)
        if trace.complete and not checks_and_writes and all(map(is_held, trace.launches)) and tried.launch_like(trace):
            self.is_view = not trace.launches and bool(results) and all(share(r, arrays) for r in results)
            launches = trace.launches
            if (launches or self.is_view) and _gives_same(
                tried.launches, *tried.operands, self.states, odd=not statement.trusts, is_check=is_check
            ):
                return launches
        self.is_view = False
        may_move = results and statement.repeatable and not self.before
        moves = _moves(*tried.operands, (arrays, results)) if may_move else None
        return moves[1] if moves and _gives_same(moves[0], *tried.operands, odd=False) else None

    def _may_try(self, arrays: list[ndarray], roots: list[ndarray], launches: list[Launch]) -> bool:
        """Whether the function stands other integers: kernels trust those that other statements compute.

        Statements of a backward pass trust all that those of the forward pass have checked, unless they check themselves.
        """
        integers = [a for a in arrays if a.dtype.kind in "iu"]
        if launches and all(map(is_ufunc, launches)):
            return True
        checks = any(not launch.entry for launch in launches)
        return all(share(a, roots) for a in integers) and (not self.statement.trusts or checks or not integers)

    def undo(self) -> None:
        """Write back what was written to."""
        for a, old in self.before:
            a[...] = old


class _OnCopies:
    """A call of a function with copies of its arrays, which trials may write to: others may read the arrays themselves.

    Attributes:
        launches: of the call.
        operands: the function, the copies as its inputs and as a list, and the arrays that it gives.
    """

    def __init__(self, function: Callable[..., tuple], inputs: list[Any]):
        inputs = [mapped(strided_alike, value) for value in inputs]
        with watch() as trace:
            try:
                found = function(*[mapped(lambda a: a.view(Watched), value) for value in inputs])
            except FAILURES:
                trace.complete = False
                found = function(*inputs)
        results = leaves([mapped(lambda r: np.asarray(plain(r)), value) for value in found])
        self.launches, self._complete = trace.launches, trace.complete
        self.operands = function, inputs, arrays_in(tuple(inputs)), results

    def launch_like(self, trace: Trace) -> bool:
        """Whether the call launches what another one does, with other arrays."""
        own, others = (
            [(each.entry, each.blocks, each.grain, each.words.nbytes) for each in some]
            for some in (self.launches, trace.launches)
        )
        return self._complete and own == others


def strided_alike(value: Any) -> Any:
    """A copy of an array with its strides, and as far from a cache line's start."""
    a = np.asarray(value)
    low, high = byte_bounds(a)
    memory = np.empty(high - low + LINE, np.uint8)
    start = (low - byte_bounds(memory)[0]) % LINE
    copied = np.ndarray(a.shape, a.dtype, memory, start + address_of(a) - low, a.strides)
    copied[...] = a
    return copied


def extent_of(a: ndarray) -> int:
    """The bytes from an array's first to its last, with those between its elements."""
    low, high = byte_bounds(a)
    return high - low


class TriedUpdate(Trial):
    """The step of an optimizer, which is not taken."""

    def __init__(self, statement: Statement, values: dict[str, Any], is_taped: bool):
        self.statement, self.reads, self.outs = statement, list(statement.reads), []
        self.function = lambda *grads: statement.update(*grads) or ()
        self.results, self.before, self.is_view = [], [], False
        self.taped = statement.update.taped([values[name] for name in self.reads]) if is_taped else None
        self.launches = None if self.taped is None else self.taped.launches


def mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """A value with the function's results in the place of its arrays, and of NumPy's scalars."""
    if isinstance(value, (ndarray, np.generic)):
        return function(value)
    return tuple([mapped(function, each) for each in value]) if value.__class__ is tuple else value


def leaves(values: Any) -> list[Any]:
    """What values and the tuples in them hold, without None."""
    found: list[Any] = []
    for value in values:
        found += leaves(value) if value.__class__ is tuple else [] if value is None else [value]
    return found


def arrays_in(value: Any) -> list[ndarray]:
    """The arrays in a value."""
    return [a for a in leaves((value,)) if a.__class__ is ndarray]


def share(a: ndarray, others: Iterable[ndarray]) -> bool:
    """Whether an array may share memory with one of others."""
    return any(np.may_share_memory(a, other) for other in others)


def copy_of(a: ndarray) -> ndarray:
    return a.copy(order="K")


def _moves(
    function: Callable[..., tuple],
    inputs: list[Any],
    arrays: list[ndarray],
    results: list[ndarray],
    others: tuple[list[ndarray], list[ndarray]],
) -> list[list[Launch]] | None:
    """What copies elements as a function does that only moves them, to `results`; None for other functions.

    Each element of the operands gets a number of its own, and is found again in the results.

    Args:
        others: arrays and results with the same strides, for which there are launches too.
    """
    if not all(a.dtype.char in "fd" and a.size for a in (*arrays, *results)) or len({a.dtype for a in arrays}) != 1:
        return None
    if not all(a.flags.writeable for a in arrays):
        return None
    ends = np.cumsum([1, *[a.size for a in arrays]]).tolist()
    if ends[-1] >= MOST_NUMBERED:
        return None
    before = [copy_of(a) for a in arrays]
    try:
        for a, start, end in zip(arrays, ends, ends[1:], strict=False):
            a[...] = np.arange(start, end).reshape(a.shape)
        with np.errstate(all="ignore"):
            found = [np.array(r, copy=True, order="K") for r in leaves(function(*inputs))]
    except FAILURES:  # values for which the function fails say nothing
        return None
    finally:
        for a, old in zip(arrays, before, strict=True):
            a[...] = old
    launches = [_copies_of(found, *each, ends) for each in ((arrays, results), others)]
    return None if None in launches else launches  # type: ignore[return-value]


def _copies_of(
    found: list[ndarray], arrays: list[ndarray], results: list[ndarray], ends: list[int]
) -> list[Launch] | None:
    """What copies the elements to `results` whose numbers are in `found`."""
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
    target, values = result.transpose(order), numbered.transpose(order).reshape(-1)
    if not target.flags.c_contiguous or any(s < 0 or s % a.itemsize for a in arrays for s in a.strides):
        return None
    target, sources = target.reshape(-1), [*map(_memory_of, arrays)]
    if not np.array_equal(values, values.astype(np.int64)) or values.min() < 0 or values.max() >= ends[-1]:
        return None
    begins = np.cumsum([0, *[a.size for a in sources]])
    where = np.concatenate([[0], *[begin + _offsets(a) for begin, a in zip(begins, arrays, strict=False)]])
    # Zeros, which no operand has here, are copied from an array of their own, the last source.
    lies = np.where(values == 0, np.arange(values.size) - values.size, where[values.astype(np.int64)])
    starts = np.searchsorted(begins, lies, "right") - 1
    cuts = np.flatnonzero((np.diff(lies) != 1) | (np.diff(starts) != 0)) + 1
    bounds = [0, *cuts.tolist(), len(lies)]
    if (values == 0).any():
        sources.append(np.zeros(int(np.diff(bounds).max()), result.dtype))
    pairs = []
    for low, high in itertools.pairwise(bounds):
        source, at = sources[starts[low]], lies[low] - begins[starts[low]] if starts[low] >= 0 else 0
        pairs.append((target[low:high], source[at : at + high - low]))
    return pairs


def _memory_of(a: ndarray) -> ndarray:
    """The elements from an array's first one in memory to its last, those of others between them too."""
    return np.lib.stride_tricks.as_strided(a, (extent_of(a) // a.itemsize,), (a.itemsize,))


def _offsets(a: ndarray) -> ndarray:
    """The place of each element of an array in `_memory_of` it."""
    found = np.zeros((), np.int64)
    for n, stride in zip(a.shape, a.strides, strict=True):
        found = np.add.outer(found, np.arange(n) * (stride // a.itemsize))
    return found.reshape(-1)


def _gives_same(
    launches: list[Launch],
    function: Callable[..., tuple],
    inputs: list[Any],
    arrays: list[ndarray],
    results: list[ndarray],
    states: Sequence[ndarray] = (),
    *,
    odd: bool,
    is_check: bool = False,
) -> bool:
    """Whether the launches give the function's bits for other values of its arrays too, which are restored then.

    Args:
        states: of the generators that the function draws from, which move on.
        odd: try values out of range, too.
        is_check: the function computes nothing, and fails for some values.
    """
    if not all(a.flags.writeable for a in (*arrays, *results)):
        return False
    tape, random = Tape(launches), np.random.default_rng(len(launches))
    before = [copy_of(a) for a in (*arrays, *results)]
    operands = launches, function, inputs, arrays, results, states
    try:
        with np.errstate(all="ignore"):
            few = sum(a.size for a in arrays) <= FEW
            for turn in range(MORE_TURNS if few else TURNS):
                for a, old in zip(arrays, before, strict=False):
                    other = _others(old, random, turn, all(map(is_ufunc, launches)))
                    if other is None:
                        return False
                    a[...] = other
                if not (_stops_like(*operands) if is_check else _alike(tape, *operands[1:], turn % 2 == 1)):
                    return False
            for a in arrays if odd else ():
                for values in _odd(a, random, is_check):
                    for each, old in zip(arrays, before, strict=False):
                        each[...] = old
                    a[...] = values
                    if not _stops_like(*operands):
                        return False
    except FAILURES:  # values for which the function fails say nothing
        return False
    finally:
        for a, old in zip((*arrays, *results), before, strict=True):
            a[...] = old
    return True


def _alike(
    tape: Tape,
    function: Callable[..., tuple],
    inputs: list[Any],
    arrays: list[ndarray],
    results: list[ndarray],
    states: Sequence[ndarray],
    may_stop: bool = False,
) -> bool:
    """Whether a tape gives the function's bits for the values that its arrays have, those that it writes to among them.

    may_stop: or stops at a check before it has written to an array, for values that are not of the usual kind.
    """
    changed = *arrays, *states
    initial = [copy_of(a) for a in changed]
    found = [*map(np.asarray, leaves(function(*inputs)))]
    if not all(map(_lie_alike, found, results)):
        return False
    expected = [copy_of(a) for a in (*found, *changed)]
    for a, old in zip(changed, initial, strict=True):
        a[...] = old
    if tape.run():
        return all(map(_same, expected, (*results, *changed)))
    return may_stop and all(map(_same, initial, changed))


def _lie_alike(a: ndarray, b: ndarray) -> bool:
    """Whether arrays of one shape have the same strides, where these count."""
    strides = zip(a.shape, a.strides, b.strides, strict=False)
    return a.shape == b.shape and all(n == 1 or s == t for n, s, t in strides)


def _same(a: ndarray, b: ndarray) -> bool:
    """Whether arrays have the same bits, wherever they lie."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def _stops_like(
    launches: list[Launch],
    function: Callable[..., tuple],
    inputs: list[Any],
    arrays: list[ndarray],
    results: list[ndarray],
    states: Sequence[ndarray],
) -> bool:
    """Whether launches stop at a check for values for which the function goes another way, by other launches or an error.

    They are run only as far as the function's own are the same.
    """
    initial = [copy_of(a) for a in arrays]
    with watch() as trace:
        try:
            function(*[mapped(lambda a: a.view(Watched), value) for value in inputs])
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
    return not fails and own == others and _alike(Tape(launches), function, inputs, arrays, results, states)


def _odd(values: ndarray, random: np.random.Generator, is_check: bool) -> Iterator[ndarray]:
    """Values of which functions often take notice: classes that are ignored, places out of range, masks of one value.

    is_check: numbers that are not finite, too.
    """
    if values.dtype.kind == "f" and is_check:
        for odd in (np.nan, np.inf, -np.inf):
            yield np.where(np.arange(values.size).reshape(values.shape) == random.integers(values.size), odd, values)
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


def _others(values: ndarray, random: np.random.Generator, turn: int, any_integers: bool) -> ndarray | None:
    """Other values: random numbers, in every other turn special ones too; or the array's integers in other places.

    None where all integers are alike: others may be out of range.
    """
    kind = values.dtype.kind
    if kind == "b":
        return random.integers(0, 2, values.shape).astype(bool)
    if kind in "iu" and any_integers:
        return random.integers(0, 100, values.shape).astype(values.dtype)
    if kind != "f":
        known = np.array([*dict.fromkeys(values.reshape(-1).tolist())], values.dtype)  # np.unique would load numpy.ma
        if len(known) < 2:
            return None if values.size else values
        others = random.choice(known, values.shape)
        while np.array_equal(others, values):
            others = random.choice(known, values.shape)
        return others
    if turn == 2:  # of sums and copies only those of -0 differ
        return np.full(values.shape, -0.0, values.dtype)
    start = int(random.integers(PERIOD))
    return np.resize(_numbers(turn % 2 == 1)[start:], values.shape).astype(values.dtype)


@functools.cache
def _numbers(some_special: bool) -> ndarray:
    """Random numbers, with special ones among them, that are repeated with a period that no array's dimension has."""
    random = np.random.default_rng(PERIOD)
    numbers = random.normal(size=2 * PERIOD)
    if some_special:
        special = random.integers(0, 3, numbers.shape) == 0
        numbers = np.where(special, random.choice(SPECIAL, numbers.shape), numbers)
    return numbers


def function_of(
    statements: Sequence[Statement], reads: Sequence[str], outs: Sequence[str], constants: dict[str, Any]
) -> Callable[..., tuple]:
    """Statements as a function of what they read, which gives a tuple."""
    lines = [f"def run({', '.join(reads)}):"]
    for each in statements:
        lines.append(f"    {', '.join(each.outs)} = {each.text}" if each.outs else f"    {each.text}")
    names = {**constants, "__name__": __name__}
    exec("\n".join([*lines, f"    return ({''.join(f'{name}, ' for name in outs)})"]), names)
    return names["run"]
