"""Convolution in groups of two, four or eight channels, as many in as out, with a vector over several groups.

    out[places[i] + j] (+)= Σ_k Σ_t a[rows[i] + cells[k] + first of j's group + t] · b[lines[k] + t · pitch + j]

as the `own_` tiles of `_gemm`, but column j takes all numbers of its group in turn: those of a vector are spread within it,
so that no lane is idle. The weight gradient has a sum for each t instead, at out[places[i] + t · pitch + j].
"""

from __future__ import annotations

from typing import Any

from tdt._kernels._gemm import Emitter, group_columns, named_values, tile_rows, tile_shape
from tdt._kernels._jit import intrinsic, jit
from tdt._kernels._taps import ROWS

CHANNELS = 32  # of the weight gradient that are one piece of work: a multiple of every tile's columns
SUMS = 8  # of a tile of the weight gradient: rows times channels of a group


def _tile(per: int, summed: bool) -> Any:
    """A tile of `_gemm` without `first`, which is `not summed`, and with `pitch`; of its columns `columns` exist."""

    def tile(typingctx: Any, a: Any, rows: Any, row: Any, last_row: Any, cells: Any, lines: Any, start: Any, stop: Any,
             b: Any, out: Any, places: Any, bias: Any, columns: Any, pitch: Any) -> Any:  # fmt: skip
        from numba.core import types

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            values = named_values(context, builder, names, signature.args, args)
            values["first"] = context.get_constant(types.boolean, not summed)
            _Emitter(builder, per, summed, values).emit()
            return context.get_dummy_value()

        kinds = a, rows, row, last_row, cells, lines, start, stop, b, out, places, bias, columns, pitch
        return types.void(*kinds), generate

    names = ("a", "rows", "row", "last_row", "cells", "lines", "start", "stop", "b", "out", "places", "bias", "columns",
             "pitch")  # fmt: skip
    return intrinsic(tile)


class _Emitter(Emitter):
    """Writes one tile's instructions: a vector of columns, with one sum a row, or `per` of them."""

    def __init__(self, builder: Any, per: int, summed: bool, values: dict[str, Any]):
        rows, _, width = tile_shape()
        shape = (SUMS // per, per, max(width, 8)) if summed else (rows, 1, max(width, 8))
        super().__init__(builder, shape, False, True, values)
        self.per, self.summed = per, summed
        self.masks = [self._mask(0)] * per

    def _column(self, pointer: Any, v: int) -> Any:
        """The address of the t-th of a column's numbers."""
        return self._at(pointer, self.builder.mul(self.values["pitch"], self.ir.Constant(self.word, v)))

    def _products(self, lines: list[Any], cell: Any, b: Any, sums: list[Any]) -> list[Any]:
        fma = self._function("llvm.fma", self.vector, [self.vector] * 3)
        right = [self._read(self._column(b, t), 0) for t in range(1 if self.summed else self.per)]
        added = []
        for r, line in enumerate(lines):
            values = self._read(self._at(line, cell), 0)
            spread = [self._in_groups(values, t) for t in range(self.per)]
            if self.summed:
                added += [self.builder.call(fma, [x, right[0], sums[r * self.per + t]]) for t, x in enumerate(spread)]
            else:
                total = sums[r]
                for x, w in zip(spread, right, strict=True):
                    total = self.builder.call(fma, [x, w, total])
                added.append(total)
        return added

    def _in_groups(self, values: Any, t: int) -> Any:
        """Each lane with the t-th number of its group."""
        ir = self.ir
        order = ir.Constant(
            ir.VectorType(ir.IntType(32), self.width), [i - i % self.per + t for i in range(self.width)]
        )
        return self.builder.shuffle_vector(values, values, order)


pairs, fours, eights = (_tile(per, False) for per in (2, 4, 8))
pairs_summed, fours_summed, eights_summed = (_tile(per, True) for per in (2, 4, 8))


@jit
def outputs(
    first, last, image, step, rows, cells, lines, runs, w, out, out_step, places, bias, count, samples, per
):  # fmt: skip
    """Runs [first, last) of `depthwise_cpu._gather`, counted over groups of samples."""
    pitch = bias.size
    for number in range(first, last):
        group = number // runs.shape[0]
        run = runs[number - group * runs.shape[0]]
        here = min(samples, count - group * samples)
        low, high, start, stop = run[0] + run[2], run[0] + min(run[3], run[1] * here), run[4], run[5]
        for j in range(0, pitch, group_columns()):
            a, b, target = image[group * samples * step + j :], w[j:], out[group * samples * out_step + j :]
            old, left = bias[j:], pitch - j
            for i in range(low, high, tile_rows()):
                if per == 2:
                    pairs(a, rows, i, high - 1, cells, lines, start, stop, b, target, places, old, left, pitch)
                elif per == 4:
                    fours(a, rows, i, high - 1, cells, lines, start, stop, b, target, places, old, left, pitch)
                else:
                    eights(a, rows, i, high - 1, cells, lines, start, stop, b, target, places, old, left, pitch)


@jit
def weights(
    first, last, image, step, rows, places, windows, lines, parts, count, samples, y, y_step, out, bias, per
):  # fmt: skip
    """Channels of the weight gradient, by CHANNELS; `out` is zero at first, and `bias`, as long as a row, is not read."""
    pitch = bias.size
    for number in range(first, last):
        for base in range(0, count, samples):
            for part in parts:
                stop = part[2] + part[3] * min(samples, count - base)
                for start in range(part[2], stop, ROWS):
                    end = min(start + ROWS, stop)
                    for j in range(number * CHANNELS, min((number + 1) * CHANNELS, pitch), group_columns()):
                        a, b, target, left = image[base * step + j :], y[base * y_step + j :], out[j:], pitch - j
                        for i in range(part[0], part[1], SUMS // per):
                            final = part[1] - 1
                            if per == 2:
                                pairs_summed(
                                    a, rows, i, final, windows, lines, start, end, b, target, places, bias, left, pitch
                                )
                            elif per == 4:
                                fours_summed(
                                    a, rows, i, final, windows, lines, start, end, b, target, places, bias, left, pitch
                                )
                            else:
                                eights_summed(
                                    a, rows, i, final, windows, lines, start, end, b, target, places, bias, left, pitch
                                )
