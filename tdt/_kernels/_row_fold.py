"""Reductions of small arrays over their last dimension, as NumPy's generalised ufuncs: the blocks of `_fold`, row by row.

A row has the bits that `_fold.rows` gives it, up to the length from which that cuts rows into pieces.
"""

from __future__ import annotations

from tdt._kernels._code import Code, Value
from tdt._kernels._fold import STEPS, STORED, Stage, Values, fold_row, kind_of, write
from tdt._kernels._gufunc import Operand, contiguous, generalized


def _folded(
    code: Code, name: str, x: Operand, n: Value, source: str, shift: Value | None = None
) -> tuple[Stage, Values]:
    """The accumulators of a row, and the stage that finishes them."""
    stage = Stage(code, name, source, source, kind_of(source))
    stored, block = STORED[source][0], stage.lanes * STEPS
    buffer = code.array(stored, block)
    variables = [code.variable(stage.wide) for _ in range(stage.fold.count)]
    some, total = code.variable("i64", 0), code.variable("i64")
    with code.loop(0, n, block) as start:
        count = code.minimum(n - start, block)
        chunk = contiguous(code, x, stored, start, count, buffer)
        total.set(0)
        fold_row(stage, chunk, total, count, shift, variables, some)
    return stage, tuple([v.get() for v in variables])


def _result(code: Code, stage: Stage, values: Values, numbers: list[Value], target: str) -> Value:
    """The result that `_fold` would write for an array of the type `target`, in the type that this is computed in."""
    return code.cast(stage.finished(values, numbers), kind_of(target))


@generalized("(n)->()")
def row_fold(code: Code, operands: list[Operand], sizes: list[Value], name: str, source: str, target: str) -> None:
    """A fold of `FOLDS` whose `finish` needs the number of elements at most."""
    (x, out), (n,) = operands, sizes
    stage, values = _folded(code, name, x, n, source)
    number = code.cast(n, "double")
    write(code, target, _result(code, stage, values, [number, number], target), out.address, 0)


@generalized("(n)->()")
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


@generalized("(n)->()")
def row_logsumexp(code: Code, operands: list[Operand], sizes: list[Value], source: str) -> None:
    """log Σ exp(x), about the largest element where that is finite."""
    from tdt._kernels._emit import functions_of, inline

    (x, out), (n,) = operands, sizes
    stage, values = _folded(code, "max", x, n, source)
    (top,) = values
    top = code.select(code.call("fabs", top) < float("inf"), top, 0.0)
    stage, values = _folded(code, "sum_exp", x, n, source, top)
    log = functions_of(stage.kind).log
    value = inline(code, lambda total, top: log(total) + top, code.cast(values[0], stage.kind), top)
    write(code, source, value, out.address, 0)
