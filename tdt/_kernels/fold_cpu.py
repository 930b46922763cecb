"""Reductions of NumPy arrays over any dimensions by generated code: what `total` and the ops of `reduce` call."""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tdt._kernels._addresses import address_of
from tdt._kernels._column_fold import (
    WIDTH,
    column_fold,
    column_logsumexp,
    column_variance,
    cut_column_fold,
    cut_column_logsumexp,
    cut_column_variance,
)
from tdt._kernels._conditions import PIECE
from tdt._kernels._fold import FOLDS, STEPS, STORED, UNSIGNED, columns, kind_of, rows
from tdt._kernels._formulas import from_formula
from tdt._kernels._gufunc import MOST, for_arrays
from tdt._kernels._launches import WATCH, note, watched
from tdt._kernels._native import NativeKernel
from tdt._kernels._pool import shared, start
from tdt._kernels._row_fold import (
    ROWS,
    SHORT,
    row_fold,
    row_logsumexp,
    row_variance,
    short_row_fold,
    short_row_logsumexp,
    short_row_variance,
)
from tdt._kernels._spaced_fold import lies_as, spaced_rows
from tdt._kernels._syntax import FLOATS
from tdt._kernels._threads import THREADS
from tdt._kernels.complex_fold_cpu import prepared_product

UNITS = 1 << 13  # elements that a block of the pool's work has at least
LINES = 128  # rows of a part of (A, n, B), at least
PARTS = 16  # that the rows of (A, n, B) are cut into, at most
LEAST = 1 << 15  # elements that a thread should at least have
STACKS = 4  # (A, n, B) from which on threads share A
LETTERS = frozenset(STORED)
THREE, FOUR = struct.Struct("=qqq").pack, struct.Struct("=qqqq").pack
MOST_PLANS = 1000
LARGEST = 2 * PIECE  # elements of an array whose columns one call folds: plans read larger ones row by row
REAL_ONLY = ("norm1", "norm2", "norm_inf", "nansum", "nanmean", "var", "std", "mean", "logsumexp")

_KINDS = {"double": np.dtype("d"), "float": np.dtype("f"), "i64": np.dtype("q"), "i32": np.dtype("i"),
          "i16": np.dtype("h"), "i8": np.dtype("b")}  # fmt: skip


class Step:
    """A stage of a plan: the code, and the sizes that it is called with.

    Attributes:
        results, dtype: of the array that it writes, with `extra` elements for those of `rest`.
        grain: blocks that a thread should at least have.
        buffer: elements that it needs for accumulators.
        joined: how many rows are folded as one.
        rest: the sizes of a second call, for rows that are left over, and the places where it reads and writes.
    """

    __slots__ = (
        "routine",
        "along",
        "sizes",
        "blocks",
        "grain",
        "how",
        "results",
        "dtype",
        "buffer",
        "rest",
        "extra",
        "joined",
    )

    def __init__(self, routine: NativeKernel, along: bool, sizes: tuple, blocks: int, elements: int, how: tuple):
        """elements: of a block; how: the fold, the letters of source and target, and the type that is computed in."""
        self.routine, self.along, self.sizes, self.blocks, self.how = routine, along, sizes, blocks, how
        self.grain = max(1, LEAST // elements)
        self.results, self.extra, self.buffer = 0, 0, 0
        self.dtype: Any = None
        self.rest: tuple | None = None
        self.joined = 1

    def call(self, args: tuple, *arrays: np.ndarray) -> None:
        """Run the code, on several threads where there are many blocks. arrays: those whose addresses the arguments are."""
        if WATCH.trace is not None:
            self.call_here(self.blocks, args, *arrays)
        else:
            self.launch(self.routine.entry.pack(*args))

    def launch(self, words: bytes) -> None:
        """Run the code for arguments that are packed, on several threads where there are many blocks."""
        entry = self.routine.entry
        if not shared(entry, words, self.blocks, self.grain):
            entry.call(words, 0, self.blocks)

    def call_here(self, blocks: int, args: tuple, *arrays: np.ndarray) -> None:
        """Run the code on the calling thread."""
        entry = self.routine.entry
        words = entry.pack(*args)
        if WATCH.trace is not None:
            note(entry, words, blocks, self.grain, arrays)
        entry.call(words, 0, blocks)


class Plan:
    """How an array of one shape and strides is folded.

    Attributes:
        simple: whether there is one step, without accumulators in memory, whose results lie as the caller wants them.
        shape, order: of the result; None where it lies in the order of its dimensions.
        shift_shape: of the numbers that `shifted` folds take.
        first_shift_shape: of those that their first step takes.
    """

    __slots__ = ("steps", "wide", "count", "shape", "order", "shift_shape", "first_shift_shape", "simple")

    def run(self, x: np.ndarray, number: float, divisor: float = 1.0, shift: np.ndarray | None = None,
            first: int = 0) -> np.ndarray:  # fmt: skip
        """The results, in the order of x's memory. first: the step that takes x, which are accumulators after another one."""
        source, numbers, size = address_of(x), (number, divisor), x.itemsize
        before = buffer = x
        for step in self.steps[first:]:
            out = np.empty(step.results, step.dtype)
            target = address_of(out)
            wider, subtracted = x, source
            if shift is not None and step is self.steps[0]:
                wider = np.tile(shift, (1, step.joined)) if step.joined > 1 else shift
                subtracted = address_of(wider)
            if step.along:
                args = source, target, subtracted, *step.sizes, *numbers
            else:
                buffer = np.empty(step.buffer, self.wide) if step.buffer else out
                args = source, target, address_of(buffer), subtracted, *step.sizes, *numbers
            step.call(args, before, out, wider, buffer)
            if step.rest is not None:
                sizes, read, written = step.rest
                target += written * out.itemsize
                subtracted = source if shift is None else address_of(shift)
                args = source + read * size, target, target, subtracted, *sizes, *numbers
                step.call_here(1, args, before, out, x if shift is None else shift)
            before, source, size = out, address_of(out), out.itemsize
        return before

    def prepared(self, number: float) -> Callable[[np.ndarray], Any]:
        """`run` and `shaped`, with numbers that are packed once for many calls."""
        calls = []
        for step in self.steps:
            kind = "=" + "q" * len(step.sizes) + "dd"
            size = step.buffer * self.wide.itemsize if not step.along else 0
            calls.append((step, size, struct.pack(kind, *step.sizes, number, 1.0)))
        alone = all(step.rest is None for step in self.steps)

        def fold(x: np.ndarray) -> np.ndarray:
            if WATCH.trace is not None or not alone:
                return self.shaped(self.run(x, number))
            source, before = address_of(x), x
            for step, size, words in calls:
                out = np.empty(step.results, step.dtype)
                target = address_of(out)
                if step.along:
                    words = THREE(source, target, source) + words
                else:
                    buffer = np.empty(size, np.uint8) if size else out
                    words = FOUR(source, target, address_of(buffer), source) + words
                step.launch(words)
                before, source = out, target
            return self.shaped(before)

        return fold

    def shaped(self, results: np.ndarray) -> np.ndarray:
        """The results in the shape that the caller wants."""
        results = results.reshape(self.shape)
        return results if self.order is None else results.transpose(self.order)


_plans: dict[tuple, Any] = {}
_at_once_by: dict[tuple, AtOnce | None] = {}


def letter_of(dtype: np.dtype) -> str:
    """The letter of an array's type in `STORED`; "" if it has none."""
    if dtype.char in LETTERS and dtype.isnative:
        return dtype.char
    return "E" if dtype.name == "bfloat16" else ""


def fold(name: str, x: np.ndarray, axis: Any, keepdims: bool, dtype: Any = None, number: float = 0.0) -> Any:
    """x folded over `axis` (an int, several, None for all); None where no code can: x has gaps, another type, no elements.

    Small rows are folded by a NumPy ufunc, which takes a third of the time to call and gives the same bits.

    Args:
        name: the fold, of `FOLDS`.
        dtype: of the result; None for x's.
        number: what the fold's `finish` needs.
    """
    result = _at_once(name, watched(x), axis, keepdims, dtype)
    if result is not None:
        return result
    plan = plan_for(name, x, axis, keepdims, dtype)
    if plan is None:
        return _fold_spaced(name, x, axis, keepdims, dtype, number) if x.size >= LARGEST else None
    if not plan.simple:
        return plan.shaped(plan.run(x, number))
    (step,) = plan.steps  # most calls: one step
    out = np.empty(plan.shape, step.dtype)
    source, target = address_of(x), address_of(out)
    between = (source,) if step.along else (target, source)
    step.call((source, target, *between, *step.sizes, number, 1.0), x, out)
    return out


def _fold_spaced(name: str, x: np.ndarray, axis: Any, keepdims: bool, dtype: Any, number: float) -> Any:
    """`fold` of a large array with gaps, as of its contiguous copy, which is not made; None where it has to be."""
    strides = [x.itemsize * math.prod(x.shape[d + 1 :]) for d in range(x.ndim)]
    like = np.lib.stride_tricks.as_strided(x, strides=strides)  # whose elements are not read
    plan, lies = plan_for(name, like, axis, keepdims, dtype), lies_as(x.shape, x.strides)
    if plan is None or lies is None or not plan.steps[0].along:
        return None
    step = plan.steps[0]
    out, source = np.empty(step.results, step.dtype), address_of(x)
    elements = step.sizes[2] * step.sizes[-1]  # of a block
    spaced = Step(spaced_rows(*step.how), True, (*step.sizes, *lies), step.blocks, elements, step.how)
    spaced.call((source, address_of(out), source, *spaced.sizes, number, 1.0), x, out)
    return plan.shaped(plan.run(out, number, first=1))


def _at_once(name: str, x: np.ndarray, axis: Any, keepdims: bool, final: Any) -> Any:
    """x folded by one call of a ufunc; None where there is none, or a plan is to fold it."""
    if not x.size or not x.flags.c_contiguous or not (x.size <= LARGEST or x.shape[-1] < SHORT):
        return None
    key = (name, x.dtype, x.ndim, axis, keepdims, final)
    found = _at_once_by.get(key, False)
    if found is False:
        if len(_at_once_by) > MOST_PLANS:
            _at_once_by.clear()
        found = _at_once_by[key] = at_once(*key)
    if x.size >= THREADS.rows:
        start()
    return found(x) if found is not None and found.takes(x.shape) else None


def at_once(name: str, dtype: np.dtype, ndim: int, axis: Any, keepdims: bool, final: Any) -> AtOnce | None:
    """What folds small contiguous arrays of a type in one call; None if there is no code, or other dimensions lie between.

    Args:
        final: type of the results; None for that of the array. For "var" and "std" the correction, 0 or 1.
    """
    axes = range(ndim) if axis is None else axis if isinstance(axis, Sequence) else (axis,)
    dims = sorted({a % ndim for a in axes}) if ndim else []
    if not dims or dims[-1] - dims[0] != len(dims) - 1:
        return None
    forms = ("rows", "short rows") if dims[-1] == ndim - 1 else ("columns", "joined columns", "cut columns")
    ufuncs = [_ufunc(name, dtype, final, form) for form in forms]
    return None if ufuncs[0] is None else AtOnce(dims[0], dims[-1] + 1, dims[-1] == ndim - 1, keepdims, ufuncs)


def prepared_fold(
    name: str, dtype: np.dtype, shape: tuple[int, ...], axis: Any, keepdims: bool, final: Any
) -> Callable[[np.ndarray], Any] | None:
    """A function that folds contiguous arrays of one type and shape, of which it does not look at either; None if there is no
    code. Arguments as of `at_once`."""
    if math.prod(shape) >= THREADS.rows:
        start()
    if dtype.kind == "c":
        return prepared_product(dtype, shape, axis, keepdims) if name == "prod" else None
    found = at_once(name, dtype, len(shape), axis, keepdims, final)
    run = found.for_shape(shape, dtype) if found is not None and found.takes(shape) else None
    if run is not None or not math.prod(shape):
        return run
    count = math.prod(shape if axis is None else [shape[d] for d in axis])
    if name in ("var", "std"):
        return lambda x: variance(name, x, axis, keepdims, count, count - final)
    if name == "logsumexp":
        return lambda x: logsumexp(x, axis, keepdims)
    plan = plan_for(name, np.empty(shape, dtype), axis, keepdims, final)
    return plan and plan.prepared(float(count))


class AtOnce:
    """Folds contiguous arrays over their dimensions [first, stop) by one call of a ufunc; None for what a plan is to fold.

    Args:
        rows: whether no dimensions follow.
        ufuncs: functions that give the ufunc of rows and that of many short rows; or of columns, of few columns, and of
            columns that are cut.
    """

    __slots__ = ("first", "stop", "rows", "keepdims", "ufuncs", "known")

    def __init__(self, first: int, stop: int, rows: bool, keepdims: bool, ufuncs: Sequence[Any]):
        self.first, self.stop, self.rows, self.keepdims, self.ufuncs = first, stop, rows, keepdims, ufuncs
        self.known: dict[tuple[int, ...], tuple] = {}

    def __call__(self, x: np.ndarray) -> Any:
        """The result."""
        found = self.known.get(x.shape)
        if found is None:
            if len(self.known) > MOST_PLANS:
                self.known.clear()
            found = self.known[x.shape] = self._prepare(x.shape)
        function, visible, shape = found
        if visible is not None:
            x = x.reshape(visible)
        elif function is None:
            return None
        result = function(x)
        return result if shape is None else np.reshape(result, shape)

    def for_shape(self, shape: tuple[int, ...], dtype: np.dtype) -> Callable[[np.ndarray], Any] | None:
        """The function of arrays of one shape and type, which does not look at it; None for what a plan is to fold."""
        function, visible, final = self._prepare(shape)
        if function is None or math.prod(shape) > MOST:
            return function and self
        a = np.zeros(shape, dtype)
        view = a if visible is None else a.reshape(visible)
        ufunc, *rest = function.args if getattr(function, "func", None) is _on_pieces else (function,)
        found = np.asarray(function(view))
        out = found if final is None else np.empty(final, found.dtype)
        run = for_arrays(lambda x, *rest: self(x), ufunc, [view, *rest], [(out, out.reshape(found.shape))])
        return (lambda x: run(x, *rest)) if rest else run

    def takes(self, shape: tuple[int, ...]) -> bool:
        """Whether one call takes less time for arrays of a shape than a plan, whose blocks all threads share.

        Those of the ufunc share rows, and stacks of columns. Rows that are short take a plan several times as long.
        """
        size = math.prod(shape)
        if self.has_short_rows(shape):
            return True
        if (
            WATCH.trace is not None and size >= THREADS.elementwise
        ):  # a tape's threads share what is noted with its blocks
            return False
        if self.rows or size <= PIECE:
            return size <= PIECE
        return size <= LARGEST and (THREADS.count == 1 or math.prod(shape[: self.first]) >= STACKS)

    def has_short_rows(self, shape: tuple[int, ...]) -> bool:
        """Whether there are many rows, of few elements."""
        return self.rows and math.prod(shape[self.first :]) < SHORT and math.prod(shape[: self.first]) >= ROWS

    def _prepare(self, shape: tuple[int, ...]) -> tuple:
        """The ufunc (or None), and the shapes that it is to see and to give, None where they are so."""
        first, stop = self.first, self.stop
        lead, n, behind = shape[:first], math.prod(shape[first:stop]), shape[stop:]
        outer, width = math.prod(lead), math.prod(behind)
        if self.rows:
            short = self.has_short_rows(shape)
            visible, natural = ((outer, n), (outer,)) if short else ((*lead, n), lead)
            function = self.ufuncs[short]
        else:
            visible, natural = (*lead, n, width), (*lead, width)
            if n < 2 or width < 2:
                return None, None, None
            joins, pieces = rows_as_one(outer, n, width) > 1, pieces_of(outer, n, width)
            function = self.ufuncs[1 if joins else 0 if pieces == 1 else 2]
        required = (*lead, *[1] * (stop - first if self.keepdims else 0), *behind)
        ufunc = function()
        if not self.rows and function is self.ufuncs[2]:
            ufunc = functools.partial(_on_pieces, ufunc, np.array(-(-n // pieces), "q"))
        return ufunc, None if visible == shape else visible, None if required == natural else required


def row_function(name: str, dtype: np.dtype, final: Any = None) -> Callable[[np.ndarray], Any] | None:
    """The ufunc that folds the last dimension of arrays of a type, or None if there is no code.

    Args:
        final: type of the results; None for that of the array. For "var" and "std" the correction, 0 or 1.
    """
    found = _ufunc(name, dtype, final, "rows")
    return found and found()


# By form: the ufuncs of folds, of "var" and "std", and of "logsumexp", the types of operands after the first, and their
# last parameters.
FORMS: dict[str, tuple[tuple[Callable[..., Callable], ...], str, tuple]] = {
    "rows": ((row_fold, row_variance, row_logsumexp), "", ()),
    "short rows": ((short_row_fold, short_row_variance, short_row_logsumexp), "", ()),
    "columns": ((column_fold, column_variance, column_logsumexp), "", (False,)),
    "joined columns": ((column_fold, column_variance, column_logsumexp), "", (True,)),
    "cut columns": ((cut_column_fold, cut_column_variance, cut_column_logsumexp), "q", (False,)),
}


def _ufunc(name: str, dtype: np.dtype, final: Any, form: str) -> Callable[[], Any] | None:
    """A function that gives the ufunc of a form that folds arrays of a type; None if there is no code.

    Args:
        final: as in `row_function`.
    """
    letter = letter_of(dtype)
    if not letter or _unsupported(name, letter):
        return None
    own = name in ("var", "std", "logsumexp")
    target = letter if final is None or own else letter_of(np.dtype(final))
    if not target or (own and "columns" in form and letter not in "fd"):
        return None
    (fold, spread, logarithm), further, options = FORMS[form]
    if name == "logsumexp":
        make, parameters = logarithm, (letter,)
    else:
        make, parameters = (spread, (name, letter, final)) if own else (fold, (name, letter, target))

    @functools.cache
    def ufunc() -> Callable[[np.ndarray], Any]:
        code = make(letter + further + target, *parameters, *options)
        return code if "E" not in letter + target else functools.partial(_on_words, code, dtype, letter, target)

    return ufunc


def _on_words(code: Callable, dtype: np.dtype, letter: str, target: str, x: np.ndarray, *rest: np.ndarray) -> Any:
    """A ufunc that takes bfloat16 as uint16, on arrays of it."""
    result = code(x.view(np.uint16) if letter == "E" else x, *rest)
    return np.asarray(result).view(dtype) if target == "E" else result


def _on_pieces(code: Callable, piece: np.ndarray, x: np.ndarray) -> Any:
    """The ufunc of columns that are cut, on pieces of so many rows."""
    return code(x, piece)


def _unsupported(name: str, letter: str) -> bool:
    kind = kind_of(letter)
    return kind not in FLOATS and (name in REAL_ONLY or (letter in UNSIGNED and name in ("max", "min")))


def variance(name: str, x: np.ndarray, axis: Any, keepdims: bool, count: int, divisor: float) -> Any:
    """The variance or ("std") its square root, of `count` elements; None as for `fold`.

    The differences are from the rounded mean; their sum, which is not 0 then, corrects the sum of the squares.
    """
    correction = count - divisor
    if correction in (0, 1):
        result = _at_once(name, x, axis, keepdims, int(correction))
        if result is not None:
            return result
    plan = plan_for(name, x, axis, keepdims, None)
    if plan is None:
        return None
    middle = plan_for("centre", x, axis, keepdims, np.float64 if x.dtype.char == "d" else np.float32)
    shift = middle.run(x, float(count)).reshape(plan.shift_shape)
    shift = np.ascontiguousarray(np.broadcast_to(shift, plan.first_shift_shape))
    return plan.shaped(plan.run(x, float(count), divisor, shift))


_log_and_add = from_formula("log_and_add", lambda xp, total, top: xp.log(total) + top, 2, ())[0]


def logsumexp(x: np.ndarray, axis: Any, keepdims: bool) -> Any:
    """log Σ exp(x), about the largest element where that is finite; None as for `fold`."""
    result = _at_once("logsumexp", x, axis, keepdims, None)
    if result is not None:
        return result
    plan = plan_for("sum_exp", x, axis, keepdims, None) if x.dtype.char in "fd" else None
    if plan is None:
        return None
    top = plan_for("max", x, axis, keepdims, None).run(x, 0.0)  # type: ignore[union-attr]
    top[~np.isfinite(top)] = 0
    shift = np.ascontiguousarray(np.broadcast_to(top.reshape(plan.shift_shape), plan.first_shift_shape))
    return plan.shaped(_log_and_add(np, plan.run(x, 0.0, 1.0, shift), top))


def rows_as_one(outer: int, n: int, width: int) -> int:
    """How many rows of (outer, n, width) are folded as one over the middle dimension, since they are short."""
    return WIDTH // width if outer == 1 and width <= WIDTH // 2 and n >= 4 * (WIDTH // width) else 1


def pieces_of(outer: int, n: int, width: int) -> int:
    """Into how many pieces the middle dimension of (outer, n, width) is cut."""
    return max(1, min(PARTS, n // LINES, n * width // UNITS)) if outer < PARTS and n >= 2 * LINES else 1


def plan_for(name: str, x: np.ndarray, axis: Any, keepdims: bool, dtype: Any) -> Plan | None:
    """The plan of a fold, which is kept for the next call."""
    key = (name, x.dtype, x.shape, x.strides, axis, keepdims, dtype)
    plan = _plans.get(key, False)
    if plan is False:
        if len(_plans) > MOST_PLANS:
            _plans.clear()
        plan = _plans[key] = _planned(name, x, axis, keepdims, dtype)
    return plan


def _planned(name: str, x: np.ndarray, axis: Any, keepdims: bool, dtype: Any) -> Plan | None:
    letter, ndim = letter_of(x.dtype), x.ndim
    final = x.dtype if dtype is None else np.dtype(dtype)
    if not letter or not letter_of(final) or not x.size:
        return None
    axes = range(ndim) if axis is None else axis if isinstance(axis, Sequence) else (axis,)
    folded = {a % ndim for a in axes} if ndim else set()
    order = sorted(range(ndim), key=lambda d: -abs(x.strides[d]))  # innermost in memory last
    expected, groups = x.itemsize, []
    for d in reversed(order):
        n = x.shape[d]
        if n == 1:
            continue
        if x.strides[d] != expected:
            return None
        expected *= n
        if groups and groups[-1][0] == (d in folded):
            groups[-1][1] *= n
        else:
            groups.append([d in folded, n])
    groups.reverse()
    if not any(g[0] for g in groups):
        return None
    plan = Plan()
    kind, spec = kind_of(letter), FOLDS[name]
    if _unsupported(name, letter):
        return None
    widths = [1 if g[0] else g[1] for g in groups]
    place = len(groups) - 1 if groups[-1][0] else len(groups) - 2
    plan.shift_shape = tuple(widths)
    plan.first_shift_shape = tuple([1 if k == place else g[1] for k, g in enumerate(groups)])
    plan.wide, plan.count = _KINDS[spec.wide(kind)], spec.count
    plan.steps = list(_steps(name, letter, letter_of(final), final, [tuple(g) for g in groups], plan))
    remaining = [d for d in order if d not in folded]
    if keepdims:
        shape = [1 if d in folded else x.shape[d] for d in order]
        places = list(np.argsort(order))
    else:
        shape = [x.shape[d] for d in remaining]
        places = list(np.argsort(remaining))
    several = [place for place in places if shape[place] != 1]  # others have no order
    turns = several != sorted(several)
    plan.shape = tuple(shape) if turns else tuple([shape[place] for place in places])
    plan.order = tuple([int(place) for place in places]) if turns else None
    (first, *more) = plan.steps
    plan.simple = not (more or first.buffer or first.rest or first.extra) and plan.order is None
    return plan


def _steps(name: str, letter: str, out: str, final: np.dtype, groups: list, plan: Plan) -> Iterator[Step]:
    """The stages that fold an array whose memory consists of `groups` (folded, elements), the innermost last."""
    source, kind, count = letter, kind_of(letter), plan.count

    def units_of(size: int, units: int) -> tuple[int, int, int]:
        each = max(1, UNITS // size)
        return units, each, -(-units // each)

    while any(g[0] for g in groups):
        if groups[-1][0]:  # rows
            n = groups.pop()[1]
            outer = math.prod(g[1] for g in groups)
            pieces = -(-n // PIECE)
            if pieces > 1:
                groups.append((True, pieces))
            target = "" if any(g[0] for g in groups) else out
            units, each, blocks = units_of(min(n, PIECE), outer * pieces)
            how, sizes = (name, source, target, kind), (n, pieces, min(n, PIECE), units, each)
            step = Step(rows(*how), True, sizes, blocks, each * min(n, PIECE), how)
        else:
            (_, n), (_, width) = groups[-2:]
            del groups[-2:]
            outer = math.prod(g[1] for g in groups)
            joined = rows_as_one(outer, n, width)
            if joined > 1:  # several rows are folded as one; those left over, behind it
                left = n % joined
                n, width = n // joined, width * joined
                groups += [(True, joined + (left > 0)), (False, width // joined)]
            pieces = pieces_of(outer, n, width) if joined == 1 else 1
            piece = -(-n // pieces)
            pieces = -(-n // piece)
            if pieces > 1:
                groups.append((True, pieces))
            if joined == 1:
                groups.append((False, width))
            if len(groups) > 1 and not groups[-2][0]:
                groups[-2:] = [(False, groups[-2][1] * groups[-1][1])]
            target = "" if any(g[0] for g in groups) else out
            units, each, blocks = units_of(piece * width, outer * pieces)
            how, sizes = (name, source, target, kind), (n, width, pieces, piece, units, each)
            step = Step(columns(*how), False, sizes, blocks, each * piece * width, how)
            step.buffer = units * width * count if target and piece > STEPS else 0
            if joined > 1 and left:
                rest = width // joined
                step.rest = (left, rest, 1, left, 1, 1), n * width * (1 if source else count), width * count
                step.extra = rest * count
            units *= width
            step.joined = joined
        step.results, step.dtype = units * (1 if target else count) + step.extra, final if target else plan.wide
        yield step
        source = ""
