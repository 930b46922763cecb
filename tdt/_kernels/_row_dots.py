"""Sums of products of few rows with many, along which vectors lie, in float32 on the CPU.

    out[o, c] = Σ_n Σ_p y[n, o, p] · x[n, c, p]       for y (N, O, P) of up to FEW rows O, x (N, C, P)

The weight gradient of a convolution of 1 × 1 with few channels on one side: each number of x is used so few times that to pack it
for a register tile takes longer than to multiply. All O rows meet some rows of x at a time, each of which is read once, from one
end to the other. A sum is of parts of CHAIN vectors, added one after the other; the order depends on shapes and the width of
vectors alone.
"""

from __future__ import annotations

import numpy as np

from tdt._kernels._code import Code, Value, native
from tdt._kernels._native import vector_width
from tdt._kernels._pool import parallel

FEW = 4  # rows of y, at most
# Rows of x that are read at a time, by rows of y: their sums, a vector of each row of y and one of x are in registers.
TOGETHER = {8: {1: 8, 2: 4, 3: 4, 4: 2}, 16: {1: 8, 2: 8, 3: 6, 4: 6}}
CHAIN = 128  # vectors that are summed one after another
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
