"""Reductions of large arrays with gaps between their elements, which are copied to a small buffer on the way, block by block.

A row has the blocks of `_fold.rows`, and so the bits of its contiguous copy.
"""

from __future__ import annotations

import math

from tdt._kernels._code import SIZES, Code, Value, native
from tdt._kernels._fold import STEPS, STORED, Stage, fold_row, quotient

BLOCKS = 4  # of a row that are copied together
TOGETHER = 8  # elements that are copied in a round
MOST_DIMS = 4


@native("pppqqqqq" + "q" * 7 + "dd", vectorize=False)
def spaced_rows(code: Code, first: Value, last: Value, arguments: list[Value], name: str, source: str, target: str,
                kind: str) -> None:  # fmt: skip
    """As `_fold.rows`, of an array of four dimensions: the sizes of the last three and all strides, in bytes, follow `each`."""
    x, out, shifts, n, pieces, piece, units, each, *lies = arguments[:-2]
    stage = Stage(code, name, source, target, kind)
    size = SIZES[STORED[source][0]]
    whole = BLOCKS * STEPS * stage.lanes
    buffer = code.array(f"i{8 * size}", whole)
    variables = [code.variable(stage.wide) for _ in range(stage.fold.count)]
    some, total = code.variable("i64"), code.variable("i64")
    with code.loop(first * each, code.minimum(last * each, units)) as unit:
        row = quotient(code, unit, pieces)
        start = row * n + (unit - row * pieces) * piece
        stop = code.minimum(start + piece, row * n + n)
        shift = code.load(stage.real, shifts, row) if stage.fold.shifted else None
        copy = _Copy(code, x, size, lies, start)
        some.set(0)
        with code.loop(start, stop, whole) as begin:
            count = code.minimum(stop - begin, whole)
            copy.to(buffer, count)
            total.set(0)
            fold_row(stage, buffer, total, count, shift, variables, some)
        stage.put(tuple([v.get() for v in variables]), out, unit, arguments[-2:])


class _Copy:
    """Copies of the elements of an array from element `start` on, in the order of its dimensions."""

    def __init__(self, code: Code, x: Value, size: int, lies: list[Value], start: Value):
        self.code, self.x, self.kind, self.size = code, x, f"i{8 * size}", size
        self.counts, self.strides = lies[:3], lies[3:]
        places, rest = [], start
        for count in reversed(self.counts):
            upper = rest // count
            places.append(code.variable("i64", rest - upper * count))
            rest = upper
        self.places = [code.variable("i64", rest), *reversed(places)]

    def to(self, buffer: Value, count: Value) -> None:
        """Copy the next `count` elements."""
        code, inner, step = self.code, self.places[-1], self.strides[-1]
        done = code.variable("i64", 0)
        with code.forever() as leave:
            leave(done.get() >= count)
            some = code.minimum(count - done.get(), self.counts[-1] - inner.get())
            offset = code.value(0, "i64")
            for place, stride in zip(self.places, self.strides, strict=True):
                offset = offset + place.get() * stride
            source, target = code.at("i8", self.x, offset), code.at(self.kind, buffer, done.get())
            whole = some // TOGETHER * TOGETHER

            def move(e: Value, many: int, source: Value = source, target: Value = target) -> None:
                found = [code.load(self.kind, code.at("i8", source, (e + u) * step)) for u in range(many)]
                for u, value in enumerate(found):
                    code.store(value, target, e + u)

            with code.loop(0, whole, TOGETHER) as e:
                move(e, TOGETHER)
            with code.loop(whole, some) as e:
                move(e, 1)
            done.add(some)
            inner.add(some)
            self._carry()

    def _carry(self) -> None:
        """Go on to the next row at the end of one."""
        code = self.code
        for d in range(MOST_DIMS - 1, 0, -1):
            with code.when(self.places[d].get() == self.counts[d - 1]):
                self.places[d].set(0)
                self.places[d - 1].add(1)


def lies_as(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...] | None:
    """The sizes and strides that `spaced_rows` takes of an array; None where it has more dimensions that lie apart."""
    dims: list[tuple[int, int]] = []
    for n, stride in zip(shape, strides, strict=True):
        if n == 1:
            continue
        if dims and dims[-1][1] == n * stride:
            dims[-1] = dims[-1][0] * n, stride
        else:
            dims.append((n, stride))
    if len(dims) > MOST_DIMS or not math.prod(shape):
        return None
    dims = [(1, 0)] * (MOST_DIMS - len(dims)) + dims
    return *[n for n, _ in dims[1:]], *[stride for _, stride in dims]
