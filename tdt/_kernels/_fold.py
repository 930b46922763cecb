"""Reductions in machine code: a fold with an associative operation in fixed blocks, along contiguous rows or over rows.

An array whose memory is dense is seen as groups of dimensions that are alternately folded and kept. The innermost group is
folded by `rows` where its elements lie side by side, else by `columns`, vectors of columns from row to row; the next groups
follow on the results. Blocks are folded in `block` type, lane by lane, and joined in the `wide` type (double precision for
sums). What is added to what follows from the shape alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tdt._kernels._code import SIZES, Code, Value, native
from tdt._kernels._syntax import FLOATS, element, vector, vector_length

STEPS = 16  # vectors, or rows, that a block has
BYTES = 256  # of the accumulators of a block: eight of AVX2's registers, four of AVX-512's
FEW = 4  # columns that are folded side by side, at least
NARROW = 8  # elements of the vectors that take what remains

Values = tuple[Value, ...]

# By NumPy's letter ("E" for bfloat16): the type in memory, and that which is computed in.
STORED = {"f": ("float", "float"), "d": ("double", "double"), "e": ("half", "float"), "E": ("i16", "float"),
          "?": ("i8", "i8"), "b": ("i8", "i8"), "B": ("i8", "i8"), "h": ("i16", "i16"), "H": ("i16", "i16"),
          "i": ("i32", "i32"), "I": ("i32", "i32"), "l": ("i64", "i64"), "L": ("i64", "i64"), "q": ("i64", "i64"),
          "Q": ("i64", "i64")}  # fmt: skip
UNSIGNED = "?BHILQ"
MASKS = {"float": "i32", "double": "i64"}  # by type: integers of its size


def read(code: Code, letter: str, address: Value, index: Any, count: int = 0, stride: Value | None = None) -> Value:
    """Elements of an array in the type that is computed in; those of a vector side by side, or `stride` apart."""
    stored, computed = STORED[letter]
    value = (
        code.load(stored, address, index, count)
        if stride is None
        else code.gather(stored, address, index, stride, count)
    )
    if letter == "E":  # the upper half of a float
        return code.bits(code.cast(value, "i32", signed=False) << 16, "float")
    return code.cast(value, computed)


def write(code: Code, letter: str, value: Value, address: Value, index: Any) -> None:
    """Write elements, converted to the array's type."""
    stored, computed = STORED[letter]
    value = code.cast(value, computed)
    if letter == "E":  # to the nearest, ties to even; NaN stays NaN
        bits = code.bits(value, "i32")
        rounded = bits + ((bits >> 16) & 1) + 0x7FFF
        bits = code.select(value != value, bits | 0x400000, rounded)
        value = code.cast(bits >> 16, "i16")
    code.store(code.cast(value, stored), address, index)


@dataclass(frozen=True)
class Fold:
    """A reduction.

    Attributes:
        block: the type that blocks are folded in, by the type of the elements; `wide`: that which blocks are joined in.
        begin: the values (one or more, for each accumulator) of an element. The second argument is a number for each
            result, where `shifted`.
        combine: of the accumulators of two parts.
        finish: a result, of the joined accumulators and two numbers (the first is the number of elements, for a mean).
        rounded: whether `finish` gets the accumulators rounded to the type of the elements: a mean whose sum is too large for
            that is infinite, as in PyTorch.
        of_numbers: `combine` where no element is NaN, if that takes less: blocks without NaN are folded so.
    """

    block: Callable[[str], str]
    wide: Callable[[str], str]
    begin: Callable[[Code, Value, Value | None, str], Values]
    combine: Callable[[Code, Values, Values], Values]
    finish: Callable[[Code, Values, Value, Value], Values]
    count: int = 1
    shifted: bool = False
    rounded: bool = False
    of_numbers: Callable[[Code, Values, Values], Values] | None = None


def _added(code: Code, a: Values, b: Values) -> Values:
    return tuple([x + y for x, y in zip(a, b, strict=True)])


def _multiplied(code: Code, a: Values, b: Values) -> Values:
    return (a[0] * b[0],)


def _larger_number(code: Code, a: Values, b: Values) -> Values:
    """The larger one, by one instruction of the processor; a where one is NaN."""
    (x,), (y,) = a, b
    return (code.select(y > x, y, x),)


def _smaller_number(code: Code, a: Values, b: Values) -> Values:
    (x,), (y,) = a, b
    return (code.select(y < x, y, x),)


def _larger(code: Code, a: Values, b: Values) -> Values:
    """The larger one; NaN if one is."""
    return _unless_nan(code, _larger_number(code, a, b), b)


def _smaller(code: Code, a: Values, b: Values) -> Values:
    return _unless_nan(code, _smaller_number(code, a, b), b)


def _unless_nan(code: Code, chosen: Values, b: Values) -> Values:
    """What was chosen; b where that is NaN."""
    (y,) = b
    return (code.select(y != y, y, chosen[0]),) if element(y.kind) in FLOATS else chosen


def _wider(kind: str) -> str:
    """The type that sums of a type are joined in."""
    return "double" if kind in FLOATS else "i64"


def _same(kind: str) -> str:
    return kind


def _sum_block(kind: str) -> str:
    return kind if kind in FLOATS else "i64"


def _itself(code: Code, x: Value, shift: Value | None, block: str) -> Values:
    return (code.cast(x, block),)


def _unsigned(code: Code, x: Value, shift: Value | None, block: str) -> Values:
    return (code.cast(x, block, signed=False),)


def _square(code: Code, x: Value, shift: Value | None, block: str) -> Values:
    return (x * x,)


def _magnitude(code: Code, x: Value, shift: Value | None, block: str) -> Values:
    return (code.call("fabs", x),)


def _without_nan(code: Code, x: Value, shift: Value | None, block: str) -> Values:
    return (code.select(x == x, x, 0.0),)


def _counted(code: Code, x: Value, shift: Value | None, block: str) -> Values:
    return (code.cast(x != 0, block, signed=False),)


def _true(code: Code, x: Value, shift: Value | None, block: str) -> Values:
    return (code.cast(x != 0, "i8", signed=False),)


def _exp_of_difference(code: Code, x: Value, shift: Value | None, block: str) -> Values:
    from tdt._kernels._inline import functions_of, inline  # which a process whose code is in the cache does without

    assert shift is not None
    exp = functions_of(x.kind).exp
    return (inline(code, lambda x, top: exp(x - top), x, shift),)


def _or(code: Code, a: Values, b: Values) -> Values:
    return (a[0] | b[0],)


def _and(code: Code, a: Values, b: Values) -> Values:
    return (a[0] & b[0],)


def _numbers(code: Code, x: Value, shift: Value | None, block: str) -> Values:
    return (code.select(x == x, x, 0.0), code.cast(code.cast(x == x, "i32", signed=False), block))


def _about(code: Code, x: Value, shift: Value | None, block: str) -> Values:
    assert shift is not None
    # In the wide type from the start: the squares of numbers with few digits round to one side in the narrow one.
    difference = code.cast(x, block) - code.cast(shift, block)
    return difference, difference * difference


def _first(code: Code, values: Values, number: Value, divisor: Value) -> Values:
    return values[:1]


def _total(code: Code, values: Values, number: Value, divisor: Value) -> Values:
    """The sum, which is 0 where it is -0, as if it began at 0: elements that fill up a vector do not change it."""
    (total,) = values
    return (total + 0.0,) if element(total.kind) in FLOATS else values


def _divided(code: Code, values: Values, number: Value, divisor: Value) -> Values:
    (total,) = _total(code, values, number, divisor)
    return (total / code.splat(number, vector_length(total.kind)),)


def _root(code: Code, values: Values, number: Value, divisor: Value) -> Values:
    return (code.call("sqrt", values[0]),)


def _ratio(code: Code, values: Values, number: Value, divisor: Value) -> Values:
    return ((values[0] + 0.0) / values[1],)


def _bits(code: Code, x: Value, shift: Value | None, block: str) -> Values:
    return (code.bits(code.cast(x, "double"), "i64") if element(x.kind) in FLOATS else code.cast(x, "i64"),)


def _exclusive(code: Code, a: Values, b: Values) -> Values:
    return (a[0] ^ b[0],)


def _variance(code: Code, values: Values, number: Value, divisor: Value) -> Values:
    """From the sums of differences from a number near the mean, and of their squares; number: how many elements there are."""
    sums, squares = values
    number, divisor = (code.splat(n, vector_length(sums.kind)) for n in (number, divisor))
    return ((squares - sums * sums / number) / divisor,)


def _deviation(code: Code, values: Values, number: Value, divisor: Value) -> Values:
    return (code.call("sqrt", *_variance(code, values, number, divisor)),)


def _always(kind: str) -> Callable[[str], str]:
    return lambda _: kind


FOLDS = {
    "sum": Fold(_sum_block, _wider, _itself, _added, _total),
    "sum_unsigned": Fold(_sum_block, _wider, _unsigned, _added, _first),
    "mean": Fold(_sum_block, _wider, _itself, _added, _divided, rounded=True),
    "centre": Fold(_wider, _wider, _itself, _added, _divided),
    "prod": Fold(_wider, _wider, _itself, _multiplied, _first),
    "prod_unsigned": Fold(_wider, _wider, _unsigned, _multiplied, _first),
    "max": Fold(_same, _same, _itself, _larger, _first, of_numbers=_larger_number),
    "min": Fold(_same, _same, _itself, _smaller, _first, of_numbers=_smaller_number),
    "norm1": Fold(_sum_block, _wider, _magnitude, _added, _first),
    "norm2": Fold(_sum_block, _wider, _square, _added, _root),
    "norm_inf": Fold(_same, _same, _magnitude, _larger, _first, of_numbers=_larger_number),
    "nansum": Fold(_sum_block, _wider, _without_nan, _added, _total),
    "nanmean": Fold(_sum_block, _wider, _numbers, _added, _ratio, count=2),
    "count": Fold(_always("i32"), _always("i64"), _counted, _added, _first),
    "var": Fold(_wider, _wider, _about, _added, _variance, count=2, shifted=True),
    "std": Fold(_wider, _wider, _about, _added, _deviation, count=2, shifted=True),
    "any": Fold(_always("i8"), _always("i8"), _true, _or, _first),
    "all": Fold(_always("i8"), _always("i8"), _true, _and, _first),
    "sum_exp": Fold(_same, _wider, _exp_of_difference, _added, _first, shifted=True),
    "hash": Fold(_always("i64"), _always("i64"), _bits, _exclusive, _first),
}


class Stage:
    """What the two forms of a fold have in common.

    Args:
        source: the letter of the array's elements; "" for the accumulators of an earlier stage, `source_kind`.
        target: the letter of the results; "" for accumulators.
    """

    def __init__(self, code: Code, name: str, source: str, target: str, kind: str):
        self.code, self.fold, self.source, self.target = code, FOLDS[name], source, target
        self.fold_name = name
        self.kind = kind  # that the elements at the first stage are computed in
        self.wide = self.fold.wide(kind)
        self.block = self.fold.block(kind) if source else self.wide
        self.lanes = BYTES // max(SIZES[self.block], SIZES[kind]) // self.fold.count
        self.size = self.lanes * STEPS  # elements of a block of a row
        self.real = "double" if kind == "double" else "float"  # of what `shifted` folds subtract

    def take(self, address: Value, index: Value, count: int, shift: Value | None) -> Values:
        """The accumulators' values of `count` elements (0: one)."""
        code = self.code
        if not self.source:  # the accumulators of an element lie side by side where there are several
            return self.taken_wide(address, index, count)
        return self.fold.begin(code, read(code, self.source, address, index, count), shift, self.block)

    def taken_wide(self, address: Value, index: Value, count: int) -> Values:
        code, each = self.code, self.fold.count
        if each == 1:
            return (code.load(self.wide, address, index, count),)
        values = code.load(self.wide, address, index * each, each * count)
        if not count:
            return tuple([code.load(self.wide, address, index * each + k) for k in range(each)])
        return tuple([code.shuffle(values, values, range(k, each * count, each)) for k in range(each)])

    def columns(self, width: Value) -> Iterator[tuple[Value, int]]:
        """Loops over `width` columns: the first of those folded side by side, and their number (0: one).

        Few columns are folded with as many accumulators as they are, since each waits for its last addition.
        """
        column, count = self.code.variable("i64", 0), self.lanes
        while count >= FEW:
            with self.code.loop(column.get(), width - (count - 1), count) as b:
                yield b, count
            done = column.get()
            column.set(done + (width - done) // count * count)
            count //= 2
        with self.code.loop(column.get(), width) as b:
            yield b, 0

    def put(self, values: Values, address: Value, index: Value, numbers: list[Value]) -> None:
        """Write a result, or accumulators, in the wide type."""
        code, each = self.code, self.fold.count
        if self.target:
            result = self.finished(values, numbers)
            write(code, self.target, result, address, index)
            return
        self.put_wide(values, address, index, each)

    def finished(self, values: Values, numbers: list[Value]) -> Value:
        """A result, of the accumulators of all its elements."""
        if self.fold.rounded:
            values = tuple([self.code.cast(self.code.cast(v, self.kind), self.wide) for v in values])
        return self.fold.finish(self.code, values, *numbers)[0]

    def put_wide(self, values: Values, address: Value, index: Value, each: int) -> None:
        code, count = self.code, vector_length(values[0].kind)
        if each == 1:
            code.store(values[0], address, index)
        elif not count:
            for k, value in enumerate(values):
                code.store(value, address, index * each + k)
        else:
            places = [k * count + i for i in range(count) for k in range(each)]
            code.store(code.shuffle(values[0], values[1], places), address, index * each)

    def widened(self, values: Values) -> Values:
        return tuple([self.code.cast(v, self.wide) for v in values])

    def combine(self, a: Values, b: Values) -> Values:
        return self.fold.combine(self.code, a, b)

    def join(self, variables: list, values: Values, first: Value) -> None:
        """Set variables to a block's accumulators if it is the first one, else join these with them."""

        def put(values: Values) -> None:
            for variable, value in zip(variables, values, strict=True):
                variable.set(value)

        self.code.choose(
            first, lambda: put(values), lambda: put(self.combine(tuple([v.get() for v in variables]), values))
        )

    def across(self, values: Values, combine: Callable[[Code, Values, Values], Values] | None = None) -> Values:
        """The accumulators of all lanes joined, in halves, as the fold's `combine` does, or another one."""
        while vector_length(values[0].kind):
            pairs = [self.code.halves(v) for v in values]
            left, right = (tuple([p[k] for p in pairs]) for k in range(2))
            values = (combine or self.fold.combine)(self.code, left, right)
        return values


def _joined(variables: list, stage: Stage, values: Values, some: Any) -> None:
    """Join a block's accumulators with those so far; `some` says whether there are any."""
    stage.join(variables, stage.widened(values), some.get() == 0)
    some.set(1)


@native("pppqqqqqdd", vectorize=False)
def rows(code: Code, first: Value, last: Value, arguments: list[Value], name: str, source: str, target: str,
         kind: str) -> None:  # fmt: skip
    """Fold rows that are contiguous; a block is `each` of the pieces of `piece` elements that rows are cut into.

    x, out, shift, n (elements of a row), pieces (of a row), piece, units (all pieces), each; two numbers for `finish`.
    """
    x, out, shifts, n, pieces, piece, units, each, *numbers = arguments
    stage = Stage(code, name, source, target, kind)
    variables = [code.variable(stage.wide) for _ in range(stage.fold.count)]
    some = code.variable("i64")
    total = code.variable("i64")
    with code.loop(first * each, code.minimum(last * each, units)) as unit:
        row = quotient(code, unit, pieces)
        start = row * n + (unit - row * pieces) * piece
        stop = code.minimum(start + piece, row * n + n)
        shift = code.load(stage.real, shifts, row) if stage.fold.shifted else None
        some.set(0)
        total.set(start)
        fold_row(stage, x, total, stop, shift, variables, some)
        stage.put(tuple([v.get() for v in variables]), out, unit, numbers)


def fold_row(stage: Stage, x: Value, total: Any, stop: Value, shift: Value | None, variables: list, some: Any) -> None:
    """Join the contiguous elements [total, stop) with `variables`, in blocks; `some` says whether these have a value."""
    for count, steps in ((stage.lanes, STEPS), (stage.lanes, 0), (NARROW, 0)):
        _fold_vectors(stage, x, total, stop, shift, count, steps, variables, some)
    with stage.code.loop(total.get(), stop) as i:
        _joined(variables, stage, stage.take(x, i, 0, shift), some)


def fold_blocks(stage: Stage, first: Value, last: Value, x: Value, out: Value) -> None:
    """Fold blocks [first, last) of a row x, each alone; out: the accumulators."""
    code = stage.code
    variables = [code.variable(stage.wide) for _ in range(stage.fold.count)]
    some, total = code.variable("i64"), code.variable("i64")
    with code.loop(first, last) as k:
        some.set(0)
        total.set(k * stage.size)
        _fold_vectors(stage, x, total, (k + 1) * stage.size, None, stage.lanes, STEPS, variables, some)
        stage.put_wide(tuple([v.get() for v in variables]), out, k, stage.fold.count)


def quotient(code: Code, a: Value, b: Value) -> Value:
    """a // b, without a division where b is 1."""
    result = code.variable("i64", a)
    with code.when(b != 1):
        result.set(a // b)
    return result.get()


def _fold_vectors(stage: Stage, x: Value, total: Any, stop: Value, shift: Value | None, count: int, steps: int,
                  variables: list, some: Any) -> None:  # fmt: skip
    """Fold blocks of `steps` vectors of `count` elements as long as there are; with steps = 0, one block of those left."""
    code = stage.code
    kind = f"<{count} x {stage.block}>"
    spread = None if shift is None else code.splat(shift, count)

    def block(begin: Value, end: Value) -> None:
        if count == stage.lanes and stage.fold.of_numbers is not None and stage.block in MASKS:
            _block_of_numbers(stage, x, begin, end, count, variables, some, lambda: block_of_any(begin, end))
        else:
            block_of_any(begin, end)

    def block_of_any(begin: Value, end: Value) -> None:
        accumulators = [code.variable(kind, v) for v in stage.take(x, begin, count, spread)]
        with code.loop(begin + count, end, count) as i:
            joined = stage.combine(tuple([a.get() for a in accumulators]), stage.take(x, i, count, spread))
            for accumulator, value in zip(accumulators, joined, strict=True):
                accumulator.set(value)
        _joined(variables, stage, stage.across(tuple([a.get() for a in accumulators])), some)

    left = stop - total.get()
    if steps:
        blocks = left // (count * steps)
        begin = total.get()
        with code.loop(0, blocks) as k:
            start = begin + k * (count * steps)
            block(start, start + count * steps)
        total.set(begin + blocks * (count * steps))
    else:
        whole = left // count * count
        with code.when(whole > 0):
            begin = total.get()
            block(begin, begin + whole)
            total.set(begin + whole)


def _block_of_numbers(stage: Stage, x: Value, begin: Value, end: Value, count: int, variables: list, some: Any,
                      of_any: Callable[[], None]) -> None:  # fmt: skip
    """Fold a block by `of_numbers` if no element of it is NaN; else call `of_any`."""
    code, combine = stage.code, stage.fold.of_numbers
    assert combine is not None

    def missing(value: Value) -> Value:
        """Bits in a vector of NARROW, if an element is NaN: one comparison finds that of two of them."""
        a, b = code.halves(value)
        kind = vector(MASKS[stage.block], count // 2)
        found = code.new(vector("i1", count // 2), f"fcmp uno {a.kind} {a.name}, {b.name}")
        found = code.new(kind, f"sext {found.kind} {found.name} to {kind}")
        while vector_length(found.kind) > NARROW:
            found = Value.__or__(*code.halves(found))
        return found

    (value,) = stage.take(x, begin, count, None)
    nan = missing(value)
    best, any_nan = code.variable(value.kind, value), code.variable(nan.kind, nan)
    with code.loop(begin + count, end, count) as i:
        (value,) = stage.take(x, i, count, None)
        best.set(combine(code, (best.get(),), (value,))[0])
        any_nan.set(any_nan.get() | missing(value))
    (bits,) = stage.across((any_nan.get(),), lambda code, a, b: (a[0] | b[0],))
    code.choose(bits != 0, of_any, lambda: _joined(variables, stage, stage.across((best.get(),), combine), some))


@native("ppppqqqqqqdd", vectorize=False)
def columns(code: Code, first: Value, last: Value, arguments: list[Value], name: str, source: str, target: str,
            kind: str) -> None:  # fmt: skip
    """Fold x (A, n, B) over its middle dimension; a block is `each` of the A · pieces parts.

    x, out, buffer (A · pieces, B) for accumulators, shift (A, B), n, B, pieces, piece (rows of a part), units (A · pieces),
    each; two numbers.
    """
    _, _, _, _, n, width, pieces, piece, units, each, *_ = arguments
    stage = Stage(code, name, source, target, kind)
    with code.loop(first * each, code.minimum(last * each, units)) as unit:
        outer = quotient(code, unit, pieces)
        start = outer * n + (unit - outer * pieces) * piece
        stop = code.minimum(start + piece, outer * n + n)
        with code.loop(start, stop, STEPS) as top:
            bottom = code.minimum(top + STEPS, stop)
            for b, count in stage.columns(width):
                _fold_tile(stage, arguments, unit, outer, (start, top, bottom, stop), b, count)


def fold_tile(stage: Stage, x: Value, rows: tuple[Value, Value], width: Value, b: Value, count: int,
              shift: Value | None) -> Values:  # fmt: skip
    """The accumulators, in the wide type, of some rows of `count` columns of x (*, width)."""
    code, (top, bottom) = stage.code, rows
    accumulators = [code.variable(v.kind, v) for v in stage.take(x, top * width + b, count, shift)]
    with code.loop(top + 1, bottom) as row:
        joined = stage.combine(tuple([a.get() for a in accumulators]), stage.take(x, row * width + b, count, shift))
        for accumulator, value in zip(accumulators, joined, strict=True):
            accumulator.set(value)
    return stage.widened(tuple([a.get() for a in accumulators]))


def _fold_tile(stage: Stage, arguments: list[Value], unit: Value, outer: Value, bounds: tuple, b: Value,
               count: int) -> None:  # fmt: skip
    """Fold rows [top, bottom) of `count` columns, and join them with the rows above."""
    x, out, buffer, shifts, _, width, *_ = arguments
    _, top, bottom, _ = bounds
    shift = stage.code.load(stage.real, shifts, outer * width + b, count) if stage.fold.shifted else None
    values = fold_tile(stage, x, (top, bottom), width, b, count, shift)
    joined_tile(stage, values, (out, buffer), unit * width + b, bounds, arguments[-2:], count)


def joined_tile(stage: Stage, values: Values, arrays: tuple[Value, Value], place: Value, bounds: tuple,
                numbers: list[Value], count: int) -> None:  # fmt: skip
    """Join the accumulators of rows [top, bottom) with those of the rows above, and write them, or results.

    Args:
        arrays: of results and accumulators, of which those of the columns lie at `place`.
        bounds: (start, top, bottom, stop), of the rows of a part that begins at `start`.
    """
    code, (out, buffer), (start, top, bottom, stop) = stage.code, arrays, bounds
    results = [code.variable(v.kind, v) for v in values]
    with code.when(top != start):
        before = stage.taken_wide(buffer, place, count)
        for result, value in zip(results, stage.combine(before, tuple([r.get() for r in results])), strict=True):
            result.set(value)
    values = tuple([r.get() for r in results])
    code.choose(
        bottom == stop,
        lambda: stage.put(values, out, place, numbers),
        lambda: stage.put_wide(values, buffer, place, stage.fold.count),
    )


def kind_of(letter: str) -> str:
    """The type that elements of a letter are computed in."""
    return STORED[letter][1]
