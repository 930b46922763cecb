"""Reductions of small arrays over dimensions before the last, as NumPy's generalised ufuncs: the blocks of `_fold.columns`.

A column has the bits that `fold_cpu`'s plans give it, as long as these do not cut the rows into pieces.
"""

from __future__ import annotations

from collections.abc import Callable

from tdt._kernels._code import Code, Value
from tdt._kernels._fold import NARROW, STEPS, Stage, Values, fold_tile, kind_of, write
from tdt._kernels._gufunc import Operand, generalized
from tdt._kernels._row_fold import finite_or_0, log_and_add

WIDTH = 64  # columns, at least: fewer are folded as more, several rows in one

Each = Callable[[Stage, Value, int, Values], None]


def _over_columns(stage: Stage, x: Value, n: Value, width: Value, shifts: Value | None, each: Each) -> None:
    """`each(stage, column, count, values)` for the folded columns of x (n, width), `count` side by side at a time (0: one)."""
    code = stage.code
    column = code.variable("i64", 0)
    for count in (stage.lanes, NARROW, 0):
        with code.loop(column.get(), width - (max(count, 1) - 1), max(count, 1)) as b:
            shift = None if shifts is None else code.load(stage.real, shifts, b, count)
            totals: list = []
            with code.loop(0, n, STEPS) as top:
                bottom = code.minimum(top + STEPS, n)
                block = fold_tile(stage, x, (top, bottom), width, b, count, shift)
                totals = totals or [code.variable(value.kind) for value in block]
                stage.join(totals, block, top == 0)
            each(stage, b, count, tuple([total.get() for total in totals]))
        if count:
            done = column.get()
            column.set(done + (width - done) // count * count)


def _folded(code: Code, name: str, operand: Operand, sizes: list[Value], source: str, joins: bool, each: Each,
            shifts: Value | None = None) -> None:  # fmt: skip
    """`each` for the folded columns of an operand (n, m); joins: several of its rows are folded as one, as its m is small."""
    (n, m), x = sizes, operand.address
    stage = Stage(code, name, source, "", kind_of(source))
    if not joins:
        _over_columns(stage, x, n, m, shifts, each)
        return
    joined = code.value(WIDTH, "i64") // m
    lines, count = n // joined, stage.fold.count
    parts = code.array(stage.wide, (WIDTH + WIDTH // 2) * count)
    wider = shifts
    if shifts is not None:
        wider = code.array(stage.real, WIDTH)
        with code.loop(0, joined * m) as k:
            code.store(code.load(stage.real, shifts, k % m), wider, k)

    def keep(stage: Stage, b: Value, size: int, values: Values) -> None:
        stage.put_wide(values, parts, b, count)

    def keep_rest(stage: Stage, b: Value, size: int, values: Values) -> None:
        stage.put_wide(values, parts, joined * m + b, count)

    _over_columns(stage, x, lines, joined * m, wider, keep)
    used, rows = lines * joined, code.variable("i64", joined)
    with code.when(used != n):
        behind = operand.place(code, used, 0)
        _over_columns(stage, behind, n - used, m, shifts, keep_rest)
        rows.add(1)
    _over_columns(Stage(code, name, "", "", kind_of(source)), parts, rows.get(), m, None, each)


@generalized("(n,m)->(m)")
def column_fold(code: Code, operands: list[Operand], sizes: list[Value], name: str, source: str, target: str,
                joins: bool) -> None:  # fmt: skip
    """A fold of `FOLDS` whose `finish` needs the number of elements at most; of a contiguous x, as all of these."""
    x, out = operands
    number = code.cast(sizes[0], "double")

    def put(stage: Stage, b: Value, count: int, values: Values) -> None:
        write(code, target, stage.finished(values, [number, number]), out.address, b)

    _folded(code, name, x, sizes, source, joins, put)


@generalized("(n,m)->(m)")
def column_variance(code: Code, operands: list[Operand], sizes: list[Value], name: str, source: str, correction: int,
                    joins: bool) -> None:  # fmt: skip
    """ "var" or "std" of float32 or float64, about the rounded mean; the divisor is n - correction, 0 if that is negative."""
    x, out = operands
    number = code.cast(sizes[0], "double")
    free = sizes[0] - correction
    divisor = code.cast(code.select(free > 0, free, 0), "double")

    def put(divisor: Value) -> Each:
        return lambda stage, b, count, values: write(
            code, source, stage.finished(values, [number, divisor]), out.address, b
        )

    _folded(code, "centre", x, sizes, source, joins, put(number))  # the results' memory holds the means until then
    _folded(code, name, x, sizes, source, joins, put(divisor), out.address)


@generalized("(n,m)->(m)")
def column_logsumexp(code: Code, operands: list[Operand], sizes: list[Value], source: str, joins: bool) -> None:
    """log Σ exp(x) of float32 or float64, about the largest element where that is finite."""
    x, out = operands

    def put_top(stage: Stage, b: Value, count: int, values: Values) -> None:
        code.store(finite_or_0(code, values[0]), out.address, b)

    def put(stage: Stage, b: Value, count: int, values: Values) -> None:
        top = code.load(stage.kind, out.address, b, count)
        code.store(log_and_add(code, stage, values, top), out.address, b)

    _folded(code, "max", x, sizes, source, joins, put_top)
    _folded(code, "sum_exp", x, sizes, source, joins, put, out.address)
