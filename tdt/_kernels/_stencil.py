"""Depthwise convolution by a 3 × 3 kernel, for windows that are entirely inside of the image.

    out[places[i] + j] = bias[j] + Σ_k a[rows[i] + cells[k] + j] · b[lines[k] + j]

as the `own_` tiles of `_gemm`, but here it is the weights that stay in registers, while windows pass by: with so few cells
a tile would spend as much time on its beginning and end as on its sums.
"""

from __future__ import annotations

from typing import Any

from tdt._kernels._gemm import PATCH, Emitter, named_values, tile_shape
from tdt._kernels._jit import intrinsic


def _stencil(masked: bool) -> Any:
    """`stencil(a, rows, low, high, cells, lines, start, b, out, places, bias, columns)`: see above.

    Cells are those from `start` on. One vector of columns, of which, if `masked`, only `columns` exist; else two where there
    are registers for so many weights.
    """

    def stencil(typingctx: Any, a: Any, rows: Any, low: Any, high: Any, cells: Any, lines: Any, start: Any, b: Any,
                out: Any, places: Any, bias: Any, columns: Any) -> Any:  # fmt: skip
        from numba.core import types

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            width = tile_shape()[2]
            values = named_values(context, builder, names, signature.args, args)
            _Stencil(builder, (1, 2 if width == 16 and not masked else 1, width), masked, True, values).emit()
            return context.get_dummy_value()

        return types.void(a, rows, low, high, cells, lines, start, b, out, places, bias, columns), generate

    names = "a", "rows", "low", "high", "cells", "lines", "start", "b", "out", "places", "bias", "columns"
    return intrinsic(stencil)


class _Stencil(Emitter):
    """Writes the loop over windows."""

    def emit(self) -> None:
        from numba.core import cgutils

        builder, values = self.builder, self.values
        columns = range(self.vectors)
        index = [builder.add(values["start"], self.ir.Constant(self.word, k)) for k in range(PATCH)]
        cells = [self._load(values["cells"], k) for k in index]
        lines = [self._at(values["b"], self._load(values["lines"], k)) for k in index]
        weights = [[self._read(self._column(line, v), v) for v in columns] for line in lines]
        bias = [self._read(self._column(values["bias"], v), v) for v in columns]
        fma = self._function("llvm.fma", self.vector, [self.vector] * 3)
        with cgutils.for_range_slice(builder, values["low"], values["high"], self.ir.Constant(self.word, 1)) as (i, _):
            here = self._at(values["a"], self._load(values["rows"], i))
            target = self._at(values["out"], self._load(values["places"], i))
            for v in columns:
                total = bias[v]
                for cell, line in zip(cells, weights, strict=True):
                    total = builder.call(fma, [self._read(self._column(self._at(here, cell), v), v), line[v], total])
                self._write(total, self._column(target, v), v)


stencil, stencil_edge = _stencil(False), _stencil(True)
