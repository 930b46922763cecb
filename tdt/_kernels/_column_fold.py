"""Reductions of small arrays over dimensions before the last, as NumPy's generalised ufuncs: the blocks of `_fold.columns`.

A column has the bits that `fold_cpu`'s plans give it. Where these cut the rows into pieces, the ufuncs `cut_…` take the rows of
a piece as their second argument.
"""

from __future__ import annotations

from collections.abc import Callable

from tdt._kernels._code import Code, Value
from tdt._kernels._fold import STEPS, Stage, Values, fold_tile, kind_of, write
from tdt._kernels._gufunc import Operand, generalized
from tdt._kernels._row_fold import finite_or_0, log_and_add

WIDTH = 64  # columns, at least: fewer are folded as more, several rows in one

Each = Callable[[Stage, Value, int, Values], None]


def _over_columns(stage: Stage, x: Value, n: Value, width: Value, shifts: Value | None, each: Each,
                  piece: Value | None = None) -> None:  # fmt: skip
    """`each(stage, column, count, values)` for the folded columns of x (n, width), `count` side by side at a time (0: one).

    piece: the rows of the pieces that are folded by themselves.
    """
    code = stage.code
    for b, count in stage.columns(width):
        shift = None if shifts is None else code.load(stage.real, shifts, b, count)
        if piece is None:
            each(stage, b, count, _blocks(stage, x, (code.value(0, "i64"), n), width, b, count, shift))
            continue
        totals: list = []
        with code.loop(0, n, piece) as start:
            values = _blocks(stage, x, (start, code.minimum(start + piece, n)), width, b, count, shift)
            totals = totals or [code.variable(value.kind) for value in values]
            stage.join(totals, values, start == 0)
        each(stage, b, count, tuple([total.get() for total in totals]))


def _blocks(stage: Stage, x: Value, rows: tuple[Value, Value], width: Value, b: Value, count: int,
            shift: Value | None) -> Values:  # fmt: skip
    """The accumulators of `count` columns of some rows."""
    code, (start, stop) = stage.code, rows
    totals: list = []
    with code.loop(start, stop, STEPS) as top:
        block = fold_tile(stage, x, (top, code.minimum(top + STEPS, stop)), width, b, count, shift)
        totals = totals or [code.variable(value.kind) for value in block]
        stage.join(totals, block, top == start)
    return tuple([total.get() for total in totals])


def _folded(code: Code, name: str, operand: Operand, sizes: list[Value], source: str, joins: bool, each: Each,
            cut: list[Operand], shifts: Value | None = None) -> None:  # fmt: skip
    """`each` for the folded columns of an operand (n, m).

    Args:
        joins: several of its rows are folded as one, as its m is small.
        cut: the operand that holds the rows of a piece, if they are cut.
    """
    (n, m), x = sizes, operand.address
    stage = Stage(code, name, source, "", kind_of(source))
    if not joins:
        _over_columns(stage, x, n, m, shifts, each, code.load("i64", cut[0].address) if cut else None)
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


def _column_fold(code: Code, operands: list[Operand], sizes: list[Value], name: str, source: str, target: str,
                joins: bool) -> None:  # fmt: skip
    """A fold of `FOLDS` whose `finish` needs the number of elements at most; of a contiguous x, as all of these."""
    x, *cut, out = operands
    number = code.cast(sizes[0], "double")

    def put(stage: Stage, b: Value, count: int, values: Values) -> None:
        write(code, target, stage.finished(values, [number, number]), out.address, b)

    _folded(code, name, x, sizes, source, joins, put, cut)


def _column_variance(code: Code, operands: list[Operand], sizes: list[Value], name: str, source: str, correction: int,
                    joins: bool) -> None:  # fmt: skip
    """ "var" or "std" of float32 or float64, about the rounded mean; the divisor is n - correction, 0 if that is negative."""
    x, *cut, out = operands
    number = code.cast(sizes[0], "double")
    free = sizes[0] - correction
    divisor = code.cast(code.select(free > 0, free, 0), "double")

    def put(divisor: Value) -> Each:
        return lambda stage, b, count, values: write(
            code, source, stage.finished(values, [number, divisor]), out.address, b
        )

    _folded(code, "centre", x, sizes, source, joins, put(number), cut)  # the results' memory holds the means until then
    _folded(code, name, x, sizes, source, joins, put(divisor), cut, out.address)


def _column_logsumexp(code: Code, operands: list[Operand], sizes: list[Value], source: str, joins: bool) -> None:
    """log Σ exp(x) of float32 or float64, about the largest element where that is finite."""
    x, *cut, out = operands

    def put_top(stage: Stage, b: Value, count: int, values: Values) -> None:
        code.store(finite_or_0(code, values[0]), out.address, b)

    def put(stage: Stage, b: Value, count: int, values: Values) -> None:
        top = code.load(stage.kind, out.address, b, count)
        code.store(log_and_add(code, stage, values, top), out.address, b)

    _folded(code, "max", x, sizes, source, joins, put_top, cut)
    _folded(code, "sum_exp", x, sizes, source, joins, put, cut, out.address)


column_fold, column_variance, column_logsumexp = map(
    generalized("(n,m)->(m)", vectorize=False), (_column_fold, _column_variance, _column_logsumexp)
)
cut_column_fold, cut_column_variance, cut_column_logsumexp = map(
    generalized("(n,m),()->(m)", vectorize=False), (_column_fold, _column_variance, _column_logsumexp)
)
