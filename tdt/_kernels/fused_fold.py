"""Reductions of formulas of arrays: what is folded is computed block by block, and is in the cache when it is folded.

Formulas are as in `fused`, the blocks those of `_fold`, so that a result has the bits that `fold_cpu` gives it for an array of
these values.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tdt._kernels import functions
from tdt._kernels._broadcast import OUTER, plan_of
from tdt._kernels._broadcast import Plan as Loop
from tdt._kernels._code import Code, Value, native
from tdt._kernels._fold import STEPS, Stage, fold_row, fold_tile, joined_tile, kind_of, quotient
from tdt._kernels._jit import address_of, entry_at
from tdt._kernels._launches import watched_copy
from tdt._kernels._pool import parallel
from tdt._kernels._row_fold import SHORT
from tdt._kernels.expression import Expression, as_expression
from tdt._kernels.fold_cpu import Plan, fold, letter_of, plan_for
from tdt._kernels.fused import MANY_ROWS, Layout, code_of

FEW = 1 << 12  # elements that arrays have at least: fewer stay in the cache in any case
COMPUTED = 1 << 13  # elements that are computed at a time
WIDE = COMPUTED // STEPS  # columns
MOST_ARRAYS = 40  # operands and results
# The first words: the formulas' code, how many arrays it has, which of them is folded, and whether that is one in memory, or
# each block of it is forgotten; results, accumulators; the first element, the sizes of the last dimensions of `ROWS`; those of
# a `Step`, of which rows have no width; for each array five as those of `ROWS` follow.
WORDS = ("loop", "arrays", "folded", "stored", "out", "buffer", "offset", "inner", "size1", "size2", "n", "width", "pieces",
         "piece", "units", "each", "number")  # fmt: skip


class Folding(NamedTuple):
    """A reduction.

    Attributes:
        name: of the fold, of `FOLDS`.
        layout: how the array lies that is folded.
        axis, keepdims: as of `fold_cpu.fold`.
        shape: of the result.
        packed: whether the result's elements lie in the order of its dimensions in any case.
    """

    name: str
    layout: Layout
    axis: tuple[int, ...] | None
    keepdims: bool
    shape: tuple[int, ...]
    packed: bool

    @property
    def plan(self) -> Plan | None:
        """How the array is folded; None where it should be one in memory."""
        if self.layout.dtype != np.float32 or not self.layout.dense:
            return None
        like = self.layout.like()
        plan = plan_for(self.name, like, self.axis, self.keepdims, None) if like.size >= FEW else None
        return None if plan is None or (plan.steps[0].along and plan.steps[0].sizes[0] < SHORT) else plan

    @property
    def number(self) -> float:
        """How many elements a result is of."""
        return float(np.prod(self.layout.shape) / np.prod(self.shape))


def fused_fold(
    outputs: Sequence[Expression], operands: Sequence[Layout], results: Sequence[Layout], folding: Folding, stored: bool
) -> Callable[..., Any] | None:
    """The function of arrays that lie as `operands`, which gives the first output folded, and an array for each other one.

    Args:
        outputs, results: as of `fused.fused`.
        stored: whether it gives an array for the first output too.
    Returns: None where it would save nothing, or the processor has no instructions for it.
    """
    plan, loop = folding.plan, plan_of([*operands, *results])
    if plan is None or loop is None or len(operands) + len(results) > MOST_ARRAYS:
        return None
    inner = loop.head[0]
    if inner < MANY_ROWS and inner < np.prod(results[0].shape):
        return None
    code = code_of(outputs, operands, results)
    return None if code is None else _FusedFold(code, loop, operands, results, folding, plan, stored)


@functools.lru_cache(1000)
def total_of_formula(
    formula: Callable[..., Any], count: int, shape: tuple[int, ...], attributes: tuple[str, ...]
) -> Callable[..., Any] | None:
    """The sum of what a formula gives of `count` contiguous float32 arrays of this shape, and of attributes, which follow them as
    float32 arrays without dimensions; None as of `fused_fold`."""
    inputs = [Expression("input", k) for k in range(count + len(attributes))]
    layout = Layout.contiguous(np.broadcast_to(np.float32(0), shape))
    number = Layout((), (), layout.dtype)
    folding = Folding("sum", layout, None, False, (), False)
    output = as_expression(formula(functions, *inputs[:count], **dict(zip(attributes, inputs[count:], strict=True))))
    return fused_fold([output], [layout] * count + [number] * len(attributes), [layout], folding, False)


class _FusedFold:
    """The machine code of formulas, called by that of a fold."""

    def __init__(self, code: Any, loop: Loop, operands: Sequence[Layout], results: Sequence[Layout],
                 folding: Folding, plan: Plan, stored: bool):  # fmt: skip
        self.ufunc, self.folding, self.plan, self.stored = code.ufunc, folding, plan, stored
        self.strides, self.templates = [each.strides for each in operands], [each.like() for each in results]
        self.step, self.number = plan.steps[0], folding.number
        self.head = *loop.head, *[1] * (OUTER - len(loop.head))
        self.steps = [(*each, *[0] * (OUTER + 1 - len(each))) for each in loop.steps]
        letter = letter_of(folding.layout.dtype)
        write = _rows if self.step.along else _columns
        self.kernel = write(folding.name, letter, letter if len(plan.steps) == 1 else "", kind_of(letter))
        self.loop, self.name = code.loop, self.kernel.name
        letters = "q" * (len(WORDS) - 1) + "d" + "qqqqq" * len(self.steps)
        self.entry = entry_at(self.kernel.entry.address, letters)

    def __call__(self, *arrays: np.ndarray) -> Any:
        outs = [np.empty_like(t) for t in self.templates[not self.stored :]]
        if any(a.strides != strides for a, strides in zip(arrays, self.strides, strict=True)):  # an expanded gradient
            folded = self._folded_in_memory(arrays, outs)
        else:
            folded = self._folded(arrays, outs)
        folded = folded.reshape(self.folding.shape)
        if self.folding.packed and not folded.flags.c_contiguous:
            folded = watched_copy(folded)
        return (folded, *outs) if outs else folded

    def _folded_in_memory(self, arrays: Sequence[np.ndarray], outs: Sequence[np.ndarray]) -> Any:
        """The fold of arrays that lie in another way."""
        every = outs if self.stored else [np.empty_like(self.templates[0]), *outs]
        self.ufunc(*arrays, out=tuple(every))
        name, _, axis, keepdims, *_ = self.folding
        return np.asarray(fold(name, every[0], axis, keepdims, None, self.number))

    def _folded(self, arrays: Sequence[np.ndarray], outs: Sequence[np.ndarray]) -> Any:
        step, plan = self.step, self.plan
        found = np.empty(step.results, step.dtype)
        buffer = np.empty(step.buffer, plan.wide) if step.buffer else found
        sizes = (step.sizes[0], 1, *step.sizes[1:]) if step.along else step.sizes
        parallel(_Job(self, sizes, 0, 0), step.blocks, found, buffer, *arrays, *outs, grain=step.grain)  # type: ignore[arg-type]
        if step.rest is not None:
            sizes, read, written = step.rest
            parallel(_Job(self, sizes, read, written), 1, found, found, *arrays, *outs)  # type: ignore[arg-type]
        return plan.shaped(plan.run(found, self.number, first=1))


class _Job:
    """A part of a fold as `parallel` calls it.

    Args:
        sizes: of the step.
        read, written: the places of the first element, and of the first result and its accumulators.
    """

    __slots__ = ("of", "name", "sizes", "read", "written")

    def __init__(self, of: _FusedFold, sizes: tuple, read: int, written: int):
        self.of, self.name, self.sizes, self.read, self.written = of, of.name, sizes, read, written

    def prepare(self, arrays: Sequence[np.ndarray]) -> tuple[Any, bytes]:
        """As `_jit.Kernel.prepare`."""
        of = self.of
        found, buffer, *others = arrays
        places = [*map(address_of, others)]
        at = len(of.strides)
        if not of.stored:
            places.insert(at, 0)
        before = self.written * found.itemsize
        outs = address_of(found) + before, address_of(buffer) + before
        words = [of.loop, len(places), at, int(of.stored), *outs, self.read, *of.head, *self.sizes]
        for place, steps in zip(places, of.steps, strict=True):
            words += place, *steps
        numbers = len(WORDS) - 1
        return of.entry, of.entry.pack(*words[:numbers], of.number, *words[numbers:])

    def __call__(self, first: int, last: int, *arrays: np.ndarray) -> None:
        entry, words = self.prepare(arrays)
        entry.call(words, first, last)


class _Formulas:
    """The code that computes what is folded: on the stack, or in its place if it is stored."""

    def __init__(self, code: Code, kind: str):
        """kind: of the elements."""
        self.code, self.kind = code, kind
        self.table = Value(code, "%words", "ptr")
        words = self.words = code.words(self.table, WORDS)
        self.args, self.steps = code.array("ptr", MOST_ARRAYS), code.array("i64", MOST_ARRAYS)
        self.count, self.buffer = code.array("i64", 1), code.array(kind, COMPUTED)
        with code.loop(0, words.arrays) as k:
            code.store(self._word(k, 1), self.steps, k)
        self.place = code.cast(self._word(words.folded, 0), "ptr")
        self.loop = code.cast(words.loop, "ptr")

    def _word(self, array: Value, k: int) -> Value:
        return self.code.load("i64", self.table, array * 5 + (len(WORDS) + k))

    def target(self, start: Value, shift: Any = 0) -> Value:
        """Where the elements from `start` on are to lie; `shift` elements from there where they are not stored."""
        code, words = self.code, self.words
        stored = code.at(self.kind, self.place, start + words.offset)
        return code.select(words.stored != 0, stored, code.at(self.kind, self.buffer, shift))

    def compute(self, start: Value, stop: Value, target: Value) -> None:
        """Compute elements [start, stop), in the order of memory; those that are folded lie at `target` then."""
        code, words = self.code, self.words
        at = code.variable("i64", start)
        with code.forever() as leave:
            leave(at.get() >= stop)
            place = at.get() + words.offset
            row = quotient(code, place, self.words.inner)
            column = place - row * words.inner
            rest = row // words.size2
            index = (rest // words.size1, rest % words.size1, row % words.size2)
            with code.loop(0, words.arrays) as k:
                offset = column * self._word(k, 1)
                for d, i in enumerate(index):
                    offset = offset + i * self._word(k, 2 + d)
                code.store(code.at("i8", code.cast(self._word(k, 0), "ptr"), offset), self.args, k)
            code.store(code.at(self.kind, target, at.get() - start), self.args, words.folded)
            count = code.minimum(words.inner - column, stop - at.get())
            code.store(count, self.count)
            arguments = ", ".join(f"ptr {each.name}" for each in (self.args, self.count, self.steps))
            code.lines.append(f"  call void {self.loop.name}({arguments}, ptr null)")
            at.add(count)


@native("", vectorize=False)
def _rows(code: Code, first: Value, last: Value, arguments: list[Value], name: str, source: str, target: str,
          kind: str) -> None:  # fmt: skip
    """As `_fold.rows`."""
    formulas = _Formulas(code, kind)
    words, stage = formulas.words, Stage(code, name, source, target, kind)
    out, numbers = code.cast(words.out, "ptr"), [code.bits(words.number, "double")] * 2
    variables = [code.variable(stage.wide) for _ in range(stage.fold.count)]
    some, total = code.variable("i64"), code.variable("i64")

    def fold(x: Value, count: Value) -> None:
        total.set(0)
        fold_row(stage, x, total, count, None, variables, some)

    def put(unit: Value) -> None:
        stage.put(tuple([v.get() for v in variables]), out, unit, numbers)

    def short(begin: Value, end: Value) -> None:
        """Several rows at a time."""
        several = code.value(COMPUTED, "i64") // words.n
        with code.loop(begin, end, several) as unit:
            until = code.minimum(unit + several, end)
            place = formulas.target(unit * words.n)
            formulas.compute(unit * words.n, until * words.n, place)
            with code.loop(unit, until) as row:
                some.set(0)
                fold(code.at(kind, place, (row - unit) * words.n), words.n)
                put(row)

    def long(begin: Value, end: Value) -> None:
        with code.loop(begin, end) as unit:
            row = quotient(code, unit, words.pieces)
            start = row * words.n + (unit - row * words.pieces) * words.piece
            stop = code.minimum(start + words.piece, row * words.n + words.n)
            some.set(0)
            with code.loop(start, stop, COMPUTED) as at:
                until = code.minimum(at + COMPUTED, stop)
                place = formulas.target(at)
                formulas.compute(at, until, place)
                fold(place, until - at)
            put(unit)

    begin, end = first * words.each, code.minimum(last * words.each, words.units)
    code.choose(words.n <= COMPUTED // 2, lambda: short(begin, end), lambda: long(begin, end))


@native("", vectorize=False)
def _columns(code: Code, first: Value, last: Value, arguments: list[Value], name: str, source: str, target: str,
             kind: str) -> None:  # fmt: skip
    """As `_fold.columns`."""
    formulas = _Formulas(code, kind)
    words, stage = formulas.words, Stage(code, name, source, target, kind)
    out, buffer = code.cast(words.out, "ptr"), code.cast(words.buffer, "ptr")
    numbers = [code.bits(words.number, "double")] * 2
    width, stride = words.width, code.variable("i64")
    with code.loop(first * words.each, code.minimum(last * words.each, words.units)) as unit:
        outer = quotient(code, unit, words.pieces)
        start = outer * words.n + (unit - outer * words.pieces) * words.piece
        stop = code.minimum(start + words.piece, outer * words.n + words.n)
        with code.loop(start, stop, STEPS) as top, code.loop(0, width, WIDE) as left:
            bottom, wide = code.minimum(top + STEPS, stop), code.minimum(width - left, WIDE)
            place = formulas.target(top * width + left)
            stride.set(code.select(words.stored != 0, width, wide))

            def each_row(top: Value = top, bottom: Value = bottom, left: Value = left, wide: Value = wide) -> None:
                with code.loop(top, bottom) as row:
                    begin = row * width + left
                    formulas.compute(begin, begin + wide, formulas.target(begin, (row - top) * wide))

            def at_once(top: Value = top, bottom: Value = bottom, place: Value = place) -> None:
                formulas.compute(top * width, bottom * width, place)

            code.choose(width <= WIDE, at_once, each_row)
            for b, count in stage.columns(wide):
                found = fold_tile(stage, place, (code.value(0, "i64"), bottom - top), stride.get(), b, count, None)
                at = unit * width + left + b
                joined_tile(stage, found, (out, buffer), at, (start, top, bottom, stop), numbers, count)
