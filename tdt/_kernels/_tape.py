"""Tapes: launches of kernels in order, run natively. No Python runs between two launches.

A tape is made by watching Python code while it computes on `Watched` arrays: `watch` notes what it launches, NumPy's ufuncs
and kernels, with the addresses of their arrays, which stay in memory with the tape. A condition on a value that was computed
so becomes a check: where it has another truth, the tape stops and tells so.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from tdt._kernels import _jobs, _pool
from tdt._kernels._addresses import address_of
from tdt._kernels._code import Code, Value, native
from tdt._kernels._launches import PLAIN_UFUNCS, WATCH, Launch
from tdt._kernels._native import _libraries
from tdt._kernels._threads import THREADS

ndarray = np.ndarray
# Words of a launch on a tape: entry (0 for a check), words (the value), blocks (its truth), threads, blocks of a piece.
RECORD = 5
# Where NumPy's ABI has a ufunc's numbers of inputs and outputs, its loops, their data, how many there are, and their types.
INPUTS, OUTPUTS, LOOPS, DATA, COUNT, TYPES = 16, 20, 32, 40, 48, 64
MOST_ROWS = 1 << 14  # calls of a ufunc's inner loop in one launch
FIRST_ADDRESS, LAST_ADDRESS = 1 << 32, 1 << 47  # between them are addresses, but neither sizes nor floats
MOST_WORDS = 1 << 13  # of a table of addresses
LAST_TYPE = 255  # numbers of types that others add to NumPy, as bfloat16, are larger
TRUTHS = frozenset("?bBhHiIlLqQ")  # of the values that checks read


class Watched(ndarray):
    """An array in code that is watched. To that code it is an `ndarray`, but NumPy asks it what a ufunc does."""

    @property
    def __class__(self) -> type:  # type: ignore[override]  # code asks whether `x.__class__ is ndarray`
        return ndarray

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        inputs, out = tuple(map(plain, inputs)), options.pop("out", None)
        if out is not None:
            options["out"] = out if out is ... else tuple([o if o is ... else plain(o) for o in out])
        found = getattr(ufunc, method)(*inputs, **options)
        trace = WATCH.own()
        if trace is None:
            return found
        if method != "__call__":
            trace.complete = False
            return found
        results = found if found.__class__ is tuple else (found,)
        if any(r.__class__ is not ndarray for r in results):  # NumPy's scalars have no memory
            results = tuple(map(np.asarray, results))
            ufunc(*inputs, **{**options, "out": results})
        launch = _launch(ufunc, inputs, results) if options.keys() <= {"out", "order", "dtype"} else None
        if launch is None:
            trace.complete = False
            return found
        trace.launches.append(launch)
        results = tuple([r.view(Watched) for r in results])
        return results if found.__class__ is tuple else results[0]

    def __bool__(self) -> bool:
        own = plain(self)
        trace, truth = WATCH.own(), bool(own)
        if trace is not None:
            if own.dtype.char in TRUTHS:
                value = own.view(np.uint8) if own.ndim else own.reshape(1).view(np.uint8)
                trace.launches.append(Launch(0, value, int(truth), own.itemsize, own))
            else:
                trace.complete = False
        return truth

    def __float__(self) -> float:
        WATCH.lose()
        return float(plain(self))

    def __int__(self) -> int:
        WATCH.lose()
        return int(plain(self))

    def __index__(self) -> int:
        WATCH.lose()
        return plain(self).__index__()

    def item(self, *args: Any) -> Any:
        """As of an array."""
        WATCH.lose()
        return plain(self).item(*args)

    def tolist(self) -> Any:
        """As of an array."""
        WATCH.lose()
        return plain(self).tolist()


WATCH.array_type = Watched


def plain(value: Any) -> Any:
    """An array without those who watch it; any other value is returned unchanged."""
    return value.view(ndarray) if type(value) is Watched else value


def _launch(ufunc: np.ufunc, inputs: tuple, results: tuple) -> Launch | None:
    """The launch that writes a ufunc's results for these inputs; None where its inner loop would not be called so."""
    if ufunc not in PLAIN_UFUNCS:
        return None
    operands = [a.dtype if a.__class__ is ndarray else type(a) for a in inputs]
    try:  # numbers take the arrays' type
        types = ufunc.resolve_dtypes((*operands, *[r.dtype for r in results]))
    except (TypeError, ValueError):  # a type that NumPy does not know
        types = tuple([getattr(a, "dtype", None) for a in (*inputs, *results)])
    arrays = [
        a if isinstance(a, ndarray) else np.asarray(a, t) for a, t in zip((*inputs, *results), types, strict=True)
    ]
    if not all(a.dtype == t and a.flags.aligned for a, t in zip(arrays, types, strict=True)):
        return None
    found = _loop(ufunc, [a.dtype.num for a in arrays])
    if found is None:
        return None
    sizes = _elementwise(arrays) if ufunc.signature is None else _generalized(ufunc.signature, arrays)
    if sizes is None:
        return None
    table, dims, steps = sizes
    words = np.array([*found, *map(address_of, (table, dims, steps)), len(arrays)], np.int64)
    entry = _loop_calls()
    return Launch(entry.entry.address, words.view(np.uint8), len(table), 1 << 40, (arrays, ufunc, table, dims, steps))


def is_held(launch: Launch) -> bool:
    """Whether each word of a launch that may be an address is one of machine code, or of an array that the launch holds.

    So are the words of the arrays of integers that it holds, which may be tables of addresses.
    """
    if launch.entry in (0, _loop_calls().entry.address, _copies().entry.address):
        return True  # ufuncs are held, and with them what their loops point to
    code = {place for places, _ in _libraries.values() for place in places}
    arrays = [a for a in held_arrays(launch.held) if a.size]
    ranges = [byte_bounds(a) for a in arrays]
    heap = _heap()
    tables = [a.reshape(-1) for a in arrays if a.dtype == np.int64 and a.size <= MOST_WORDS]
    words = {int(word) for table in (launch.words.view(np.int64), *tables) for word in table}
    return all(
        word in code or any(low <= word < high for low, high in ranges)
        for word in words
        if FIRST_ADDRESS <= word < LAST_ADDRESS or heap[0] <= word < heap[1]
    )


def is_ufunc(launch: Launch) -> bool:
    """Whether a launch calls a ufunc, which takes any values of its operands."""
    return launch.entry == _loop_calls().entry.address


def held_arrays(value: Any) -> list[ndarray]:
    """The arrays in tuples and lists, and in what they are views of."""
    if isinstance(value, ndarray):
        return [plain(value), *held_arrays(getattr(value, "references", ()))]
    return [a for each in value for a in held_arrays(each)] if isinstance(value, (tuple, list)) else []


def _heap() -> tuple[int, int]:
    """Where a program that is not placed at random has its first memory: below 2³², where sizes are too."""
    try:
        with open("/proc/self/maps") as file:
            line = next((line for line in file if line.rstrip().endswith("[heap]")), "0-0 ")
    except OSError:  # only Linux has it
        line = "0-0 "
    low, _, high = line.split()[0].partition("-")
    return int(low, 16), int(high, 16)


def _loop(ufunc: np.ufunc, numbers: list[int]) -> tuple[int, int] | None:
    """The addresses of a ufunc's inner loop for exactly these types of NumPy's own, and of its data."""
    if max(numbers) > LAST_TYPE:
        return None
    word, number = ctypes.c_size_t.from_address, ctypes.c_int.from_address
    at = id(ufunc)
    types, count = word(at + TYPES).value, number(at + COUNT).value
    if number(at + INPUTS).value + number(at + OUTPUTS).value != len(numbers) or not types:
        return None
    for k in range(count):
        if ctypes.string_at(types + k * len(numbers), len(numbers)) == bytes(numbers):
            loop = word(word(at + LOOPS).value + 8 * k).value
            data = word(at + DATA).value
            return (loop, word(data + 8 * k).value if data else 0) if loop else None
    return None


def _elementwise(arrays: tuple) -> tuple[ndarray, ndarray, ndarray] | None:
    """The addresses of each row, the elements of a row, and the strides in it."""
    rows, count, strides = [], 0, ()
    if not all(a.size for a in arrays):
        return np.zeros((0, len(arrays)), np.int64), np.zeros(1, np.int64), np.zeros(len(arrays), np.int64)
    for chunk in np.nditer(list(arrays), flags=["external_loop"], op_flags=[["readonly"]] * len(arrays), order="K"):
        rows.append([part.__array_interface__["data"][0] for part in chunk])
        count, strides = chunk[0].size, [part.strides[0] for part in chunk]
        if len(rows) > MOST_ROWS:
            return None
    return np.array(rows, np.int64), np.array([count], np.int64), np.array(strides, np.int64)


def _generalized(signature: str, arrays: Sequence[ndarray]) -> tuple[ndarray, ndarray, ndarray] | None:
    """The addresses, the sizes and the strides of a generalised ufunc; a row of addresses for each but the last dimension."""
    required = signature.replace("?", "")  # arrays with less dimensions are refused
    cores = [core.split(",") if (core := part.partition(")")[0]) else [] for part in required.split("(")[1:]]
    sizes: dict[str, int] = {}
    rows, inner = [], []
    for a, core in zip(arrays, cores, strict=True):
        outer = a.ndim - len(core)
        if outer < 0:
            return None
        for name, n, stride in zip(core, a.shape[outer:], a.strides[outer:], strict=True):
            if name.isdigit() or sizes.setdefault(name, n) != n:
                return None
            inner.append(stride)
        rows.append(np.lib.stride_tricks.as_strided(a, a.shape[:outer], a.strides[:outer]))
    shape = np.broadcast_shapes(*[row.shape for row in rows])
    count, lead = (shape[-1], shape[:-1]) if shape else (1, ())
    if not count or not math.prod(lead) or math.prod(lead) > MOST_ROWS:
        return None
    spread = [np.broadcast_to(row, shape) for row in rows]
    table = [[address_of(row[at] if lead else row) for row in spread] for at in np.ndindex(*lead)]
    moves = [row.strides[-1] if shape and count > 1 else 0 for row in spread]
    return np.array(table, np.int64), np.array([count, *sizes.values()], np.int64), np.array([*moves, *inner], np.int64)


@native("qqppp" + "q", vectorize=False)
def _loop_calls(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    """Rows [first, last) of a table of addresses, given to a ufunc's inner loop."""
    loop, data, table, dims, steps, count = arguments
    with code.loop(first, last) as i:
        row = code.at("i64", table, i * count)
        code.lines.append(
            f"  call void {code.cast(loop, 'ptr').name}(ptr {row.name}, ptr {dims.name}, ptr {steps.name}, "
            f"ptr {code.cast(data, 'ptr').name})"
        )


@native("ppqpp", vectorize=False)
def _walk(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    """Launches [first, last) of a tape. 1 where a check fails, whose number is written to `failed`.

    arguments: the launches, `failed`, the address of the code that leads a job of the pool, its words, and the pool's state.
    """
    launches, failed, lead, words, state = arguments
    with code.loop(first, last) as i:
        entry, own, blocks, threads, piece = (code.load("i64", launches, i * RECORD + k) for k in range(RECORD))

        def check() -> None:
            value = code.cast(own, "ptr")
            total = code.variable("i8", 0)
            with code.loop(0, piece) as byte:
                total.set(total.get() | code.load("i8", value, byte))
            truth = code.cast(total.get() != 0, "i64", signed=False)
            with code.when(truth != blocks):
                code.store(i, failed)
                code.fail()

        def share() -> None:
            job = (entry, own, blocks, piece, threads - 1)
            for word, value in zip(range(_jobs.ENTRY, _jobs.OTHERS + 1), job, strict=True):
                code.store(value, state, word)
            _called(code, lead, words, code.value(0, "i64"), blocks)

        def alone() -> None:
            _called(code, entry, code.cast(own, "ptr"), code.value(0, "i64"), blocks)

        code.choose(entry == 0, check, lambda: code.choose(threads > 1, share, alone))


@native("pp", vectorize=False)
def _copies(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    """Copies [first, last) of a table: the addresses of the target and of the source, and the bytes."""
    (table, _) = arguments
    with code.loop(first, last) as i:
        target, source, size = (code.load("i64", table, 3 * i + k) for k in range(3))
        code.copy(target, source, size)


def copies(moves: Sequence[tuple[ndarray, ndarray]], held: Any) -> Launch:
    """The launch that copies the bytes of arrays without gaps: (target, source) of each. held: what they are views of."""
    table = np.array([(address_of(t), address_of(s), t.nbytes) for t, s in moves], np.int64)
    entry, words = _copies().prepare((table, 0))
    return Launch(entry.address, np.frombuffer(words, np.uint8).copy(), len(moves), 1 << 40, (table, moves, held))


def _called(code: Code, entry: Value, words: Value, first: Value, last: Value) -> None:
    target = code.cast(entry, "ptr").name
    code.new("i64", f"call i64 {target}(ptr {words.name}, i64 {first.name}, i64 {last.name})")


class Tape:
    """Launches that are run in order.

    Attributes:
        failed: the number of the check that failed last, in an array.
    """

    def __init__(self, launches: Sequence[Launch]):
        self.launches, self.failed = launches, np.zeros(1, np.int64)
        self.records = np.zeros((len(launches), RECORD), np.int64)
        for record, each in zip(self.records, launches, strict=True):
            threads = max(1, min(THREADS.count, each.blocks // each.grain)) if each.entry and each.grain else 1
            piece = max(1, each.blocks // (threads * _jobs.SHARES)) if each.entry else each.grain
            record[:] = each.entry, address_of(each.words), each.blocks, threads, piece
        self._alone = self.records.copy()
        self._alone[:, 3] = 1
        entry, words = _walk().prepare((self._alone, self.failed, 0, 0, 0))
        self._run, self._words, self._shared = entry.call, words, bool((self.records[:, 3] > 1).any())
        self._pool: Any = None
        self._words_of_pool: tuple = ()

    def run(self) -> bool:
        """Run all launches; whether all checks held. On several threads unless the pool works for another thread."""
        if not self._shared:
            return self._run(self._words, 0, len(self.launches)) == 0
        pool = _pool._running_pool()
        if not pool.busy.acquire():
            return self._run(self._words, 0, len(self.launches)) == 0
        try:
            if pool is not self._pool:
                lead = np.frombuffer(pool.words, np.uint8)
                _, words = _walk().prepare((self.records, self.failed, pool.lead.address, lead, pool.state))
                self._pool, self._words_of_pool = pool, (words, lead)
            return self._run(self._words_of_pool[0], 0, len(self.launches)) == 0
        finally:
            pool.busy.release()
