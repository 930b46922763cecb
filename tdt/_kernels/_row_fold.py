"""Reductions of small arrays over their last dimension, as NumPy's generalised ufuncs: the blocks of `_fold`, row by row.

A row has the bits that `_fold.rows` gives it, up to the length from which that cuts rows into pieces.
"""

from __future__ import annotations

from collections.abc import Callable

from tdt._kernels._code import SIZES, Code, Value
from tdt._kernels._fold import NARROW, STORED, Stage, Values, fold_blocks, fold_row, kind_of, read, write
from tdt._kernels._gufunc import Operand, contiguous, generalized, pool_of
from tdt._kernels._jobs import COUNT, LEAST, LIMIT, run, taken
from tdt._kernels._syntax import vector

SHORT = 2 * NARROW  # elements that a row has fewer than, for whole vectors of rows to be folded side by side
ROWS = 16  # of such a vector
MOST_BLOCKS = 256  # of a row that threads share


def _folded(
    code: Code, name: str, x: Operand, n: Value, source: str, shift: Value | None = None, shares: bool = False
) -> tuple[Stage, Values]:
    """The accumulators of a row, and the stage that finishes them. shares: the pool's threads fold blocks of a long row."""
    stage = Stage(code, name, source, source, kind_of(source))
    stored, size = STORED[source][0], stage.size
    buffer = code.array(stored, size)
    variables = [code.variable(stage.wide) for _ in range(stage.fold.count)]
    some, total, state = code.variable("i64", 0), code.variable("i64"), code.variable("i64", 0)

    def alone() -> None:
        with code.loop(0, n, size) as start:
            count = code.minimum(n - start, size)
            chunk = contiguous(code, x, stored, start, count, buffer)
            total.set(0)
            fold_row(stage, chunk, total, count, shift, variables, some)

    def by_pool() -> None:
        blocks = n // size
        found = _blocks_by_pool(stage, state.get(), x.address, n, blocks)
        with code.loop(0, blocks) as k:
            stage.join(variables, stage.taken_wide(found, k, 0), some.get() == 0)
            some.set(1)
        total.set(blocks * size)
        fold_row(stage, x.address, total, n, shift, variables, some)

    if not shares:
        alone()
    else:
        pool = pool_of(code)
        fits = (n >= code.load("i64", pool, LIMIT)) & (n < MOST_BLOCKS * size) & (x.strides[0] == SIZES[stored])
        with code.when(fits):
            state.set(taken(code, pool))
        code.choose(state.get() != 0, by_pool, alone)
    return stage, tuple([v.get() for v in variables])


def _blocks_by_pool(stage: Stage, state: Value, x: Value, n: Value, blocks: Value) -> Value:
    """Where the accumulators of each of a row's blocks are, which the threads of the pool fold whose state was `taken`."""
    code, pool = stage.code, pool_of(stage.code)
    found, job = code.array(stage.wide, MOST_BLOCKS * stage.fold.count), code.array("ptr", 2)
    code.store(x, job, 0)
    code.store(found, job, 1)
    inner = Code()
    inner.declared = code.declared
    inner_stage = Stage(inner, stage.fold_name, stage.source, "", stage.kind)
    fold_blocks(inner_stage, *[Value(inner, name, "i64") for name in ("%first", "%last")], *inner.arguments("pp"))
    head = "define internal i64 @blocks(ptr %words, i64 %first, i64 %last) noinline {"
    code.functions.append("\n".join([head, "entry:", *inner.variables, *inner.lines, "  ret i64 0", "}"]))
    entry = Value(code, "ptrtoint (ptr @blocks to i64)", "i64")
    run(code, state, entry, job, blocks, code.minimum(code.load("i64", pool, COUNT), n // LEAST))
    return found


def _result(code: Code, stage: Stage, values: Values, numbers: list[Value], target: str) -> Value:
    """The result that `_fold` would write for an array of the type `target`, in the type that this is computed in."""
    return code.cast(stage.finished(values, numbers), kind_of(target))


def _folded_short(stage: Stage, x: Operand, row: Value, n: Value, count: int, shift: Value | None = None) -> Values:
    """The accumulators of `count` short rows (0: one) side by side, in the order in which `fold_row` joins each of them."""
    code = stage.code
    totals = [code.variable(vector(stage.wide, count)) for _ in range(stage.fold.count)]
    done = code.variable("i64", 1)

    def element(k: Value | int) -> Values:
        stride = n if count else None
        return stage.fold.begin(
            code, read(code, stage.source, x.address, row * n + k, count, stride), shift, stage.block
        )

    def join(values: Values, first: bool) -> None:
        stage.join(totals, stage.widened(values), code.value(first, "i1"))

    def begin_with_block() -> None:
        parts = [element(k) for k in range(NARROW)]
        while len(parts) > 1:
            half = len(parts) // 2
            parts = [stage.combine(a, b) for a, b in zip(parts[:half], parts[half:], strict=True)]
        join(parts[0], True)
        done.set(NARROW)

    code.choose(n < NARROW, lambda: join(element(0), True), begin_with_block)
    with code.loop(done.get(), n) as k:
        join(element(k), False)
    return tuple([total.get() for total in totals])


def _each_short(code: Code, rows: Value, write_rows: Callable[[Value, int], None]) -> None:
    """`write_rows(row, count)` for vectors of rows, then for the last ones."""
    whole = rows & -ROWS
    with code.loop(0, whole, ROWS) as row:
        write_rows(row, ROWS)
    with code.loop(whole, rows) as row:
        write_rows(row, 0)


def finite_or_0(code: Code, top: Value) -> Value:
    """What logsumexp subtracts: the largest element where that is finite."""
    return code.select(code.call("fabs", top) < float("inf"), top, 0.0)


def log_and_add(code: Code, stage: Stage, values: Values, top: Value) -> Value:
    """log Σ exp(x - top) + top, of the accumulators of that sum."""
    from tdt._kernels._inline import functions_of, inline

    log = functions_of(stage.kind).log
    return inline(code, lambda total, top: log(total) + top, code.cast(values[0], stage.kind), top)


@generalized("(n)->()", vectorize=False)
def row_fold(code: Code, operands: list[Operand], sizes: list[Value], name: str, source: str, target: str) -> None:
    """A fold of `FOLDS` whose `finish` needs the number of elements at most."""
    (x, out), (n,) = operands, sizes
    stage, values = _folded(code, name, x, n, source, shares=True)
    number = code.cast(n, "double")
    write(code, target, _result(code, stage, values, [number, number], target), out.address, 0)


@generalized("(n)->()", vectorize=False)
def row_variance(
    code: Code, operands: list[Operand], sizes: list[Value], name: str, source: str, correction: int
) -> None:
    """ "var" or "std", about the rounded mean; the divisor is n - correction, 0 if that is negative."""
    (x, out), (n,) = operands, sizes
    number = code.cast(n, "double")
    stage, values = _folded(code, "centre", x, n, source)
    middle = "d" if source == "d" else "f"
    mean = _result(code, stage, values, [number, number], middle)
    stage, values = _folded(code, name, x, n, source, mean)
    free = n - correction
    divisor = code.cast(code.select(free > 0, free, 0), "double")
    write(code, source, _result(code, stage, values, [number, divisor], source), out.address, 0)


@generalized("(n)->()", vectorize=False)
def row_logsumexp(code: Code, operands: list[Operand], sizes: list[Value], source: str) -> None:
    """log Σ exp(x), about the largest element where that is finite."""
    (x, out), (n,) = operands, sizes
    stage, (top,) = _folded(code, "max", x, n, source)
    top = finite_or_0(code, top)
    stage, values = _folded(code, "sum_exp", x, n, source, top)
    write(code, source, log_and_add(code, stage, values, top), out.address, 0)


@generalized("(r,n)->(r)", vectorize=False)
def short_row_fold(
    code: Code, operands: list[Operand], sizes: list[Value], name: str, source: str, target: str
) -> None:
    """`row_fold` of a contiguous x whose rows have fewer than SHORT elements."""
    (x, out), (rows, n) = operands, sizes
    number = code.cast(n, "double")
    stage = Stage(code, name, source, source, kind_of(source))

    def write_rows(row: Value, count: int) -> None:
        values = _folded_short(stage, x, row, n, count)
        write(code, target, _result(code, stage, values, [number, number], target), out.address, row)

    _each_short(code, rows, write_rows)


@generalized("(r,n)->(r)", vectorize=False)
def short_row_variance(
    code: Code, operands: list[Operand], sizes: list[Value], name: str, source: str, correction: int
) -> None:
    """`row_variance` of such an x."""
    (x, out), (rows, n) = operands, sizes
    number, free = code.cast(n, "double"), n - correction
    divisor = code.cast(code.select(free > 0, free, 0), "double")
    centre, stage = (Stage(code, each, source, source, kind_of(source)) for each in ("centre", name))

    def write_rows(row: Value, count: int) -> None:
        values = _folded_short(centre, x, row, n, count)
        mean = _result(code, centre, values, [number, number], "d" if source == "d" else "f")
        values = _folded_short(stage, x, row, n, count, mean)
        write(code, source, _result(code, stage, values, [number, divisor], source), out.address, row)

    _each_short(code, rows, write_rows)


@generalized("(r,n)->(r)", vectorize=False)
def short_row_logsumexp(code: Code, operands: list[Operand], sizes: list[Value], source: str) -> None:
    """`row_logsumexp` of such an x."""
    (x, out), (rows, n) = operands, sizes
    largest, stage = (Stage(code, each, source, source, kind_of(source)) for each in ("max", "sum_exp"))

    def write_rows(row: Value, count: int) -> None:
        (top,) = _folded_short(largest, x, row, n, count)
        top = finite_or_0(code, top)
        write(
            code, source, log_and_add(code, stage, _folded_short(stage, x, row, n, count, top), top), out.address, row
        )

    _each_short(code, rows, write_rows)
