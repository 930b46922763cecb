"""Products, formulas and softmax of stacks of matrices, all of them for one matrix before the next one, in one call.

What stands between two of them is in the cache when it is read, and no Python runs in between. Products leave out what a causal
mask hides, as in `causal_cpu`, and the bits are those of whole arrays: where that is not sure, as sums are not finite, the chain
gives nothing.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tdt._kernels import causal_cpu
from tdt._kernels._code import Code, Value, native
from tdt._kernels._launches import WATCH
from tdt._kernels._pool import parallel
from tdt._kernels._rows import MANY as LANES
from tdt._kernels._threads import THREADS
from tdt._kernels.causal_cpu import Form
from tdt._kernels.product_cpu import plan_of_limited
from tdt._kernels.softmax_cpu import write_gradient, write_softmax

HEADER = 3  # words of a stage: its entry, the bytes before its own words, its blocks of a matrix
MOST_ARRAYS, MOST_WORDS = 16, 512
MOST_OPERANDS = 4  # of a formula
MANY = 4  # matrices for each thread from which on these need not share them equally


class Product(NamedTuple):
    """out = a product of `first` and `second`, as `form` says."""

    form: Form
    first: str
    second: str
    out: str


class Formula(NamedTuple):
    """out = a formula of the elements of operands, which may be `out`.

    Attributes:
        loop: its code, as NumPy's loops.
        operands: of each, its name, bytes to the next matrix, bytes to the next element. The first one is such as `out`.
    """

    loop: int
    operands: tuple[tuple[str, int, int], ...]
    out: str

    @property
    def stacks(self) -> list[str]:
        """Those of which each matrix has its own."""
        return [name for name, to_next, _ in self.operands if to_next]


class Weights(NamedTuple):
    """The softmax of scores, in their place: 0 behind the diagonal. low: less than a row's largest one, else they are not 0."""

    scores: str
    low: float


class Slopes(NamedTuple):
    """The gradient of scores, from that of weights, in the place of this one: both are 0 behind the diagonal."""

    gradient: str
    weights: str


class Zeros(NamedTuple):
    """Whether a value is 0 behind the diagonal, on which all else depends."""

    value: str


class Mask(NamedTuple):
    """What hides keys behind a query's own.

    Attributes:
        how: as of `causal_cpu.hides`, or "added".
        scale: of scores, before a mask is added.
        fills: what takes the place of hidden scores.
    """

    name: str
    how: str
    scale: float = 1.0
    fills: float = -math.inf

    def reach(self, mask: np.ndarray) -> float:
        """How large hidden scores may be; 0 where it has to be computed whole."""
        if self.how == "added":
            return causal_cpu.reach_of(mask, self.scale)
        return causal_cpu.MOST if causal_cpu.hides(mask, self.how, mask.shape[-1]) else 0.0


class Chain:
    """A function of arrays.

    Args:
        stages: in order of computation.
        reads: the names of the arrays.
        outs: of the results.
        flat: the names of those arrays that are one matrix for all.
        mask: one of them, which scores are computed for; None: `Zeros` shows what is hidden.
        otherwise: computes them where the chain cannot.
    """

    def __init__(self, stages: Sequence[Stage], reads: Sequence[str], outs: Sequence[str], flat: Sequence[str],
                 mask: Mask | None, otherwise: Callable[..., Any]):  # fmt: skip
        self.stages, self.reads, self.outs, self.mask, self.otherwise = stages, reads, outs, mask, otherwise
        self._flat = [reads.index(name) for name in flat]
        self._plans: dict[Any, _Plan | None] = {}

    def __call__(self, *arrays: np.ndarray) -> Any:
        found = self.computed(arrays)
        return self.otherwise(*arrays) if found is None else found

    def computed(self, arrays: tuple[np.ndarray, ...]) -> Any:
        """The results; None where another function has to compute them. arrays: of one shape and dtype in all calls."""
        memory = [*arrays]
        for k in self._flat:
            memory[k] = np.ascontiguousarray(memory[k])
        key = THREADS.count, os.getpid(), *[a.strides for a in memory]  # a forked child's products have other memory
        if key not in self._plans:
            values = dict(zip(self.reads, memory, strict=True))
            self._plans[key] = _Plan(self, values) if _fits(self.stages, values) else None
        plan = self._plans[key]
        if plan is None:
            return None
        reach = self.mask.reach(memory[self.reads.index(self.mask.name)]) if self.mask else causal_cpu.MOST
        if not reach:
            return None
        if (trace := WATCH.own()) is not None:
            trace.complete = False  # values decide: left to Python
        return plan.run(memory, reach)


Stage = Product | Formula | Weights | Slopes | Zeros


def _fits(stages: Sequence[Stage], arrays: dict[str, np.ndarray]) -> bool:
    """Whether there are matrices for all threads, few enough arrays, and the products are worth while."""
    values, count = {**arrays}, 0
    for each in stages:
        if isinstance(each, Product):
            a, b = each.form.operands(values[each.first], values[each.second])
            limit = each.form.limit
            if not causal_cpu.fits(a, b, limit) or any(plan_of_limited(a, b, limit).copied):
                return False
            values[each.out] = np.empty((*a.shape[:-1], b.shape[-1]), np.float32)
            count = math.prod(a.shape[:-2])
        elif isinstance(each, Formula):
            if not all(values[name].flags.c_contiguous for name in each.stacks) or not _in_rows(values[each.stacks[0]]):
                return False
            values[each.out] = values[each.stacks[0]]
        elif not all(_in_rows(values[name]) for name in each if isinstance(name, str)):
            return False
    enough = count % THREADS.count == 0 or count >= MANY * THREADS.count
    return enough and len(values) < MOST_ARRAYS  # one is for what has failed


def _in_rows(a: np.ndarray) -> bool:
    return a.dtype == np.float32 and a.flags.c_contiguous


class _Plan:
    """The words of the stages for arrays of certain shapes and strides.

    Attributes:
        matrices: how many there are.
    """

    def __init__(self, chain: Chain, arrays: dict[str, np.ndarray]):
        self.matrices = 0
        self._names = [*arrays]  # of the arrays whose addresses the code is given, in order
        # Shapes of further ones, and whether they begin as zeros.
        self._computed: list[tuple[tuple[int, ...], bool]] = []
        self._across: set[str] = set()  # values that are the transposes of arrays
        self._bounded: list[tuple[int, int]] = []  # places of operands that are looked at before
        self._held: list[Any] = []  # what words point into
        # Entry, blocks of a matrix, words, with names for addresses.
        self._stages: list[tuple[int, int, list[Any]]] = []
        for each in chain.stages:
            if isinstance(each, Product):
                self._add_product(each, arrays)
            elif isinstance(each, Formula):
                self._add_formula(each, arrays)
            elif isinstance(each, Weights):
                least = int(np.float64(each.low).view(np.int64))
                self._add(_weights().entry.address, 1, [each.scores, "", arrays[each.scores].shape[-1], least])
            elif isinstance(each, Slopes):
                self._add(_slopes().entry.address, 1, [*each, arrays[each.weights].shape[-1]])
            else:
                self._add(causal_cpu._look("zero").entry.address, 1, [each.value, "", arrays[each.value].shape[-1]])
        self._results = [(self._names.index(name), name in self._across) for name in chain.outs]
        self._table = self._written()

    def _add(self, entry: int, blocks: int, words: list[Any]) -> None:
        self._stages.append((entry, blocks, words))

    def _add_array(self, name: str, shape: tuple[int, ...], cleared: bool) -> None:
        """A further array that a stage writes to."""
        self._names.append(name)
        self._computed.append((shape, cleared))

    def _add_product(self, each: Product, values: dict[str, np.ndarray]) -> None:
        form, first, second = each.form, values[each.first], values[each.second]
        plan = plan_of_limited(*form.operands(first, second), form.limit)
        self._held.append(plan)
        self.matrices = math.prod(plan.shape[:-2])
        size = plan.shape[-2] * plan.shape[-1]
        if form.bounded:
            self._add_bound(each, first, second)
        result = np.empty(plan.shape, np.float32)
        values[each.out] = causal_cpu.turned(result) if form.across else result
        if form.across:
            self._across.add(each.out)
        self._add_array(each.out, plan.shape, form.bounded)
        left, right = (each.second, each.first) if form.swapped else (each.first, each.second)
        start = np.frombuffer(plan.start, np.int64).tolist()
        self._add(plan.entry.address, plan.pieces // self.matrices, [*start, left, right, each.out, 0, 0])
        if form.checked:
            self._add(_check().entry.address, 1, [each.out, size, ""])

    def _add_bound(self, each: Product, g: np.ndarray, v: np.ndarray) -> None:
        """See that sums are finite, of each matrix where these lie one after the other, else of all before."""
        if all(a.flags.c_contiguous or causal_cpu.turned(a).flags.c_contiguous for a in (g, v)):
            sizes = [a.shape[-2] * a.shape[-1] for a in (g, v)]
            self._add(_bound().entry.address, 1, [each.first, each.second, *sizes, v.shape[-1], ""])
        else:
            self._bounded.append((self._names.index(each.first), self._names.index(each.second)))

    def _add_formula(self, each: Formula, values: dict[str, np.ndarray]) -> None:
        like = values[each.stacks[0]]
        count = like.shape[-2] * like.shape[-1]
        self._add_like(each.out, like, values)
        places = [*each.operands, (each.out, 4 * count, 4)]
        places += [(each.out, 0, 0)] * (MOST_OPERANDS + 1 - len(places))
        self._add(_formula().entry.address, 1, [each.loop, count, *itertools.chain(*places)])

    def _add_like(self, name: str, like: np.ndarray, values: dict[str, np.ndarray]) -> None:
        """Take memory for a value, if it has none yet."""
        if name not in values:
            values[name] = like
            self._add_array(name, like.shape, cleared=False)

    def _written(self) -> np.ndarray:
        """The table that `_walk` takes: headers, words, and which words an address is added to."""
        table: list[int] = [0] * (HEADER * len(self._stages))
        moved: list[tuple[int, int]] = []
        places = {name: k for k, name in enumerate([*self._names, ""])}
        for k, (entry, blocks, words) in enumerate(self._stages):
            table[HEADER * k : HEADER * (k + 1)] = entry, 8 * len(table), blocks
            moved += [(len(table) + at, places[word]) for at, word in enumerate(words) if word.__class__ is str]
            table += [0 if word.__class__ is str else word for word in words]
        numbers = len(self._stages), len(table), len(moved)
        assert len(table) <= MOST_WORDS
        return np.array([*numbers, *table, *[word for pair in moved for word in pair]], np.int64)

    def run(self, arrays: list[np.ndarray], reach: float) -> Any:
        """The results; None where sums are not sure to be those of the whole products. reach: of hidden ones."""
        memory: list[Any] = [*arrays]
        for first, second in self._bounded:
            if not causal_cpu.are_bounded(arrays[first], arrays[second], reach):
                return None
        for shape, cleared in self._computed:
            memory.append((np.zeros if cleared else np.empty)(shape, np.float32))
        failed = np.array([0, np.float64(reach).view(np.int64)])
        others = [None] * (MOST_ARRAYS - len(memory) - 1)
        parallel(_walk(), self.matrices, self._table, *memory, failed, *others)  # type: ignore[arg-type]
        if failed[0]:
            return None
        results = [causal_cpu.turned(memory[k]) if across else memory[k] for k, across in self._results]
        return tuple(results) if len(results) > 1 else results[0]


@native("p" + "q" * MOST_ARRAYS, vectorize=False)
def _walk(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    """Call each stage on matrices [first, last), for one after the other."""
    table, addresses = arguments[0], Value(code, "%words", "ptr")
    stages, size, moved = (code.load("i64", table, k) for k in range(3))
    words = code.array("i64", MOST_WORDS)
    with code.loop(0, size) as k:
        code.store(code.load("i64", table, k + 3), words, k)
    with code.loop(0, moved) as k:
        at, which = (code.load("i64", table, size + (k * 2 + n)) for n in (3, 4))
        code.store(code.load("i64", words, at) + code.load("i64", addresses, which + 1), words, at)
    with code.loop(first, last) as matrix, code.loop(0, stages) as stage:
        entry, offset, blocks = (code.load("i64", words, stage * HEADER + k) for k in range(HEADER))
        function, place, start = code.cast(entry, "ptr"), code.at("i8", words, offset), matrix * blocks
        stop = start + blocks
        code.new("i64", f"call i64 {function.name}(ptr {place.name}, i64 {start.name}, i64 {stop.name})")


@native("pqp")
def _check(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    """Note where matrices have an element that is not finite, or -0: a row, or column, has all products, and shows what is not
    finite in an operand, and a sum that ends at -0 may be 0 with others."""
    x, count, failed = arguments
    with code.loop(first, last) as matrix:
        largest, has_zeros = causal_cpu.largest_and_zeros(code, code.at("i32", x, matrix * count), count)
        with code.when((largest >= causal_cpu.INFINITY) | (has_zeros != 0)):
            code.store(code.value(1, "i64"), failed)


@native("ppqq")
def _weights(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    """The softmax of matrices up to the diagonal, and zeros behind it; note where these may not be 0."""
    x, failed, n, low = arguments
    least = code.cast(code.bits(low, "double"), "float")
    with code.loop(first, last) as matrix, code.loop(0, n) as row:
        place, count = code.at("float", x, (matrix * n + row) * n), row + 1
        top, total = write_softmax(code, place, place, count)
        code.clear(code.at("float", place, count), (n - count) * 4)
        with code.when(~((top > least) & (total < math.inf))):
            code.store(code.value(1, "i64"), failed)


@native("ppq")
def _slopes(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    """The gradient of `_weights` in the place of that of weights."""
    gradient, weights, n = arguments
    with code.loop(first, last) as matrix, code.loop(0, n) as row:
        start, count = (matrix * n + row) * n, row + 1
        g, w = (code.at("float", x, start) for x in (gradient, weights))
        write_gradient(code, g, w, g, code.minimum((count + LANES - 1) & -LANES, n), count)
        code.clear(code.at("float", g, count), (n - count) * 4)


@native("ppqqqp")
def _bound(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    """Note where products of matrices may be too large, however sums of so many are rounded."""
    *operands, number, failed = arguments
    with code.loop(first, last) as matrix:
        bound = code.cast(number * 2, "double")
        for x, count in zip(operands[:2], operands[2:], strict=True):
            largest, _ = causal_cpu.largest_and_zeros(code, code.at("i32", x, matrix * count), count)
            bound = bound * code.cast(code.bits(largest, "float"), "double")
        with code.when(~(bound < code.load("double", failed, 1))):
            code.store(code.value(1, "i64"), failed)


@native("qq" + "qqq" * (MOST_OPERANDS + 1), vectorize=False)
def _formula(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    """A loop of NumPy's form on `count` elements of each matrix of operands and a result.

    Of each: its address, bytes to the next matrix, bytes to the next element.
    """
    loop, count, *places = arguments
    many = MOST_OPERANDS + 1
    args, steps, size = code.array("ptr", many), code.array("i64", many), code.array("i64", 1)
    code.store(count, size)
    function = code.cast(loop, "ptr")
    with code.loop(first, last) as matrix:
        for k in range(many):
            address, to_next, step = places[3 * k : 3 * k + 3]
            code.store(code.at("i8", code.cast(address, "ptr"), matrix * to_next), args, k)
            code.store(step, steps, k)
        code.lines.append(f"  call void {function.name}(ptr {args.name}, ptr {size.name}, ptr {steps.name}, ptr null)")
