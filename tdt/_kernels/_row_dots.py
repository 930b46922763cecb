"""Products of few rows with many, along which vectors lie, in float32 on the CPU: of up to FEW rows O

    out[o, c] = Σ_n Σ_p y[n, o, p] · x[n, c, p]       for y (N, O, P), x (N, C, P)      `sums_of_few`
    out[n, o, p] = Σ_c w[o, c] · x[n, c, p]           for w (O, C), x (N, C, P)         `products_of_few`

The weight gradient and the result of a convolution of 1 × 1 with few channels: each number of x is used so few times that tiles
wait for the memory. So a row of x is read once, from one end to the other or a block after the other, some rows at a time.

A sum along rows is of parts of CHAIN vectors, added one after the other; the order depends on shapes and the width of vectors
alone. A sum of rows is one of `fma` in their order, as in a register tile.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tdt._kernels._code import Code, Value, native
from tdt._kernels._native import vector_width
from tdt._kernels._pool import parallel

FEW = 4  # rows of y, at most
# Rows of x that are read at a time, by rows of y: their sums, a vector of each row of y and one of x are in registers.
TOGETHER = {8: {1: 8, 2: 4, 3: 4, 4: 2}, 16: {1: 8, 2: 8, 3: 6, 4: 6}}
CHAIN = 128  # vectors that are summed one after another
LINES, BLOCK = 8, 1024  # rows of x whose products are added at a time, and places of them
WORDS = ("depth", "places", "blocks")  # of `products_of_few`
GRAIN = 1 << 20  # multiply-adds that a thread should at least have


def sums_of_few(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Σ_n y[n] · x[n]' for contiguous y (N, O, P) of few rows, x (N, C, P)."""
    (count, few, places), rows = y.shape, x.shape[1]
    width = min(max(vector_width(), 8), 16)
    together = min(TOGETHER[width][few], rows)
    pieces, out = -(-rows // together), np.empty((few, rows), np.float32)
    grain = -(-GRAIN * pieces // (x.size * few))
    parallel(_dots(few, together, width), pieces, y, x, out, count, places, rows, grain=grain)
    return out


@native("qqqqqq", vectorize=False)
def _dots(code: Code, first: Value, last: Value, arguments: list[Value], few: int, together: int, width: int) -> None:
    """Pieces of `together` rows of x each; the last one begins sooner, if there are fewer left."""
    y, x, out, count, places, rows = arguments
    kind = f"<{width} x float>"
    with code.loop(first, last) as piece:
        row = code.minimum(piece * together, rows - together)
        totals = [code.variable(kind, 0.0) for _ in range(few * together)]
        with code.loop(0, count) as n:
            lines = [y + 4 * (n * few + k) * places for k in range(few)]
            others = [x + 4 * (n * rows + row + k) * places for k in range(together)]
            with code.loop(0, places, CHAIN * width) as begin:
                sums = [code.variable(kind, 0.0) for _ in totals]
                end = code.minimum(places - begin, CHAIN * width)
                whole = end // width * width

                def add(p: Value, masked: bool) -> None:
                    def vector(line: Value) -> Value:
                        place = code.cast(line + 4 * p, "ptr")
                        return (
                            code.load_first("float", place, places - p, width)
                            if masked
                            else code.load("float", place, 0, width)
                        )

                    left = [vector(line) for line in lines]
                    for j, other in enumerate(others):
                        value = vector(other)
                        for i, each in enumerate(left):
                            total = sums[i * together + j]
                            total.set(code.call("fma", each, value, total.get()))

                with code.loop(0, whole, width) as p:
                    add(begin + p, False)
                with code.when(whole < end):
                    add(begin + whole, True)
                for total, each in zip(totals, sums, strict=True):
                    total.set(total.get() + each.get())
        target = code.cast(out, "ptr")
        for k, total in enumerate(totals):
            value = total.get()
            while value.kind != "float":
                low, high = code.halves(value)
                value = low + high
            code.store(value, target, (k // together) * rows + row + k % together)


@native("qqqqp", vectorize=False)
def products_of_few(code: Code, first: Value, last: Value, arguments: list[Value], few: int, width: int) -> None:
    """Blocks of samples' products. The bias has a number for each row, or its address is 0."""
    w, x, bias, out, words = arguments
    p = code.words(words, WORDS)
    with code.loop(first, last) as number:
        n = number // p.blocks
        start = (number - n * p.blocks) * BLOCK
        wide = code.minimum(p.places - start, BLOCK)
        targets = [code.cast(out + 4 * ((n * few + k) * p.places + start), "ptr") for k in range(few)]
        for target in targets:
            code.clear(target, 4 * wide)
        whole = p.depth // LINES * LINES

        def add(row: Value, many: int) -> None:
            """Add the products of so many rows of x."""
            lines = [code.cast(x + 4 * ((n * p.depth + row + k) * p.places + start), "ptr") for k in range(many)]
            weights = [
                [code.load("float", code.cast(w + 4 * (i * p.depth + row + k), "ptr")) for k in range(many)]
                for i in range(few)
            ]

            def at(place: Value, count: int) -> None:
                values = [code.load("float", line, place, count) for line in lines]
                for target, own in zip(targets, weights, strict=True):
                    total = code.load("float", target, place, count)
                    for weight, value in zip(own, values, strict=True):
                        total = code.call("fma", code.splat(weight, count) if count else weight, value, total)
                    code.store(total, target, place)

            _each(code, wide, 2 * width, at)

        with code.loop(0, whole, LINES) as row:
            add(row, LINES)
        with code.loop(whole, p.depth) as row:
            add(row, 1)
        with code.when(bias != 0):
            for k, target in enumerate(targets):
                own = code.load("float", code.cast(bias + 4 * k, "ptr"))

                def biased(place: Value, count: int, own: Value = own, target: Value = target) -> None:
                    value = code.splat(own, count) if count else own
                    code.store(value + code.load("float", target, place, count), target, place)

                _each(code, wide, 2 * width, biased)


def _each(code: Code, places: Value, many: int, at: Callable[[Value, int], None]) -> None:
    """`at(place, count)` for `many` places at a time, and for single ones, whose count is 0, behind them."""
    whole = places // many * many
    with code.loop(0, whole, many) as place:
        at(place, many)
    with code.loop(whole, places) as place:
        at(place, 0)
