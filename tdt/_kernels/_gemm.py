"""The register tile of convolutions, as LLVM instructions on explicit vectors.

    out[places[i] + j] (+)= Σ_k a[rows[i] + cells[k]] · b[lines[k] + j]

for a few i and j whose sums stay in registers: a matrix product whose left matrix is never built. Its element (i, k)
is at the sum of two offsets, as the patches of a convolution are in a channels-last array; so the same tile computes
the forward pass and both gradients (E. Georganas et al., High-Performance Deep Learning via a Single Building Block,
2019). In depthwise convolutions, where every channel has its own kernel, column j reads a[… + j]: the `own_` tiles.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tdt._kernels._jit import intrinsic, jit

PANEL = 32  # columns of weights that are contiguous in memory: a multiple of every tile's columns
GRAIN = 1 << 21  # multiply-adds that a thread should at least have: about 40 µs

PATCH = 9  # rows of a `patch_` tile: the cells of a 3 × 3 kernel


def tile_shape() -> tuple[int, int, int]:
    """(rows, vectors per row, floats per vector) of a tile on this machine.

    The sums take up most of the vector registers: 32 with AVX-512, 16 with AVX2. Two vectors a row and eight rows keep
    the multipliers busy, as 16 products follow 10 loads. Elsewhere LLVM's shortest vector is used.
    """
    from numba.core.registry import cpu_target

    features = cpu_target.target_context.codegen()._tm_features.split(",")
    if "+avx512f" in features:
        return 8, 2, 16
    return (6, 2, 8) if "+avx2" in features and "+fma" in features else (6, 2, 4)


def _constant(index: int) -> Any:
    """An intrinsic without arguments: rows, or columns, of a tile."""

    def constant(typingctx: Any) -> Any:
        from numba.core import types

        rows, vectors, width = tile_shape()
        patch = vectors if width == 16 else 1
        numbers = rows, vectors * width, width, PATCH, patch * width, max(width, 8)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return context.get_constant(types.int64, numbers[index])

        return types.int64(), generate

    return intrinsic(constant)


tile_rows, tile_columns, vector_size, patch_rows, patch_columns, group_columns = map(_constant, range(6))


def _tile(narrow: bool, masked: bool, own: bool = False, patch: bool = False, few: int = 0) -> Any:
    """`tile(a, rows, row, last_row, cells, lines, start, stop, b, out, places, bias, columns, first)`.

    Arrays hold float32 (a, b, out, bias) or int64 offsets into them (rows, cells, lines, places). The tile begins at `row`;
    rows past `last_row` repeat it. `first`: the sum starts from `bias`, else it is added to `out`.
    narrow: one vector a row instead of two. masked: only `columns` of them exist in b, bias and out. own: in `a` too.
    patch: PATCH rows, of one vector each where registers are few. few: so many rows instead of the machine's.
    """

    def tile(typingctx: Any, a: Any, rows: Any, row: Any, last_row: Any, cells: Any, lines: Any, start: Any, stop: Any,
             b: Any, out: Any, places: Any, bias: Any, columns: Any, first: Any) -> Any:  # fmt: skip
        from numba.core import types

        count, vectors, width = tile_shape()
        short = narrow or (patch and width < 16)
        shape = few or (PATCH if patch else count), 1 if short else vectors, width

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            values = named_values(context, builder, tile_arguments, signature.args, args)
            Emitter(builder, shape, masked, own, values).emit()
            return context.get_dummy_value()

        return types.void(
            a, rows, row, last_row, cells, lines, start, stop, b, out, places, bias, columns, first
        ), generate

    tile_arguments = ("a", "rows", "row", "last_row", "cells", "lines", "start", "stop", "b", "out", "places", "bias",
                      "columns", "first")  # fmt: skip
    return intrinsic(tile)


def named_values(context: Any, builder: Any, names: tuple[str, ...], kinds: Any, args: Any) -> dict[str, Any]:
    """An intrinsic's arguments by name: the data address of an array; numbers unchanged."""
    from numba.core import types

    return {
        name: context.make_array(kind)(context, builder, value).data if isinstance(kind, types.Array) else value
        for name, kind, value in zip(names, kinds, args, strict=True)
    }


class Emitter:
    """Writes one tile's instructions."""

    def __init__(self, builder: Any, shape: tuple[int, int, int], masked: bool, own: bool, values: dict[str, Any]):
        from llvmlite import ir

        self.ir, self.builder, self.own, self.values = ir, builder, own, values
        self.count, self.vectors, self.width = shape
        self.word, self.float = ir.IntType(64), ir.FloatType()
        self.vector = ir.VectorType(self.float, self.width)
        self.masks = [self._mask(v) if masked else None for v in range(self.vectors)]

    def emit(self) -> None:
        """Sum in registers over `cells[start:stop]`, then add the sums to `out`, or to `bias` if `first`."""
        from numba.core import cgutils

        builder, values = self.builder, self.values
        index = [self._clamped(r) for r in range(self.count)]
        lines = [self._at(values["a"], self._load(values["rows"], i)) for i in index]
        outs = [self._at(values["out"], self._load(values["places"], i)) for i in index]
        sums = self._loop(lines)
        first = cgutils.as_bool_bit(builder, values["first"])
        old = [
            self._read(builder.select(first, self._column(values["bias"], v), self._column(outs[r], v)), v)
            for r in range(self.count)
            for v in range(self.vectors)
        ]
        # All is read before anything is written: repeated rows write the same sums to the same place.
        for i, (before, total) in enumerate(zip(old, sums, strict=True)):
            row, v = divmod(i, self.vectors)
            self._write(builder.fadd(before, total), self._column(outs[row], v), v)

    def _loop(self, lines: list[Any]) -> list[Any]:
        """The loop over k; its sums."""
        ir, builder, values = self.ir, self.builder, self.values
        before, body, after = builder.block, *(builder.append_basic_block(name) for name in ("tile.k", "tile.end"))
        zero = ir.Constant(self.vector, [0.0] * self.width)
        builder.cbranch(builder.icmp_signed("<", values["start"], values["stop"]), body, after)
        builder.position_at_end(body)
        k = builder.phi(self.word)
        sums = [builder.phi(self.vector) for _ in range(self.count * self.vectors)]
        k.add_incoming(values["start"], before)
        right = self._at(values["b"], self._load(values["lines"], k))
        added = self._products(lines, self._load(values["cells"], k), right, sums)
        following = builder.add(k, ir.Constant(self.word, 1))
        for phi, value in zip([k, *sums], [following, *added], strict=True):
            phi.add_incoming(value, body)
        for phi in sums:
            phi.add_incoming(zero, before)
        again = builder.cbranch(builder.icmp_signed("<", following, values["stop"]), body, after)
        again.set_metadata("llvm.loop", self._not_unrolled())
        builder.position_at_end(after)
        results = []
        for value in added:
            result = builder.phi(self.vector)
            result.add_incoming(zero, before)
            result.add_incoming(value, body)
            results.append(result)
        return results

    def _not_unrolled(self) -> Any:
        """Loop metadata (a node that names itself first): unrolled, the loop's loads would push sums out of registers."""
        module = self.builder.module
        option = module.add_metadata(["llvm.loop.unroll.disable"])
        node = module.add_metadata([f"tile {len(module.metadata)}", option])
        node.operands = (node, option)
        return node

    def _products(self, lines: list[Any], cell: Any, b: Any, sums: list[Any]) -> list[Any]:
        builder = self.builder
        right = [self._read(self._column(b, v), v) for v in range(self.vectors)]
        fma = self._function("llvm.fma", self.vector, [self.vector] * 3)
        added = []
        for r, line in enumerate(lines):
            spread = None if self.own else self._spread(self._load(line, cell))
            for v in range(self.vectors):
                left = spread or self._read(self._column(self._at(line, cell), v), v)
                added.append(builder.call(fma, [left, right[v], sums[r * self.vectors + v]]))
        return added

    def _spread(self, value: Any) -> Any:
        ir, builder = self.ir, self.builder
        blank = ir.Constant(self.vector, ir.Undefined)
        single = builder.insert_element(blank, value, ir.Constant(ir.IntType(32), 0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), self.width), [0] * self.width)
        return builder.shuffle_vector(single, blank, zeros)

    def _clamped(self, r: int) -> Any:
        builder, last = self.builder, self.values["last_row"]
        index = builder.add(self.values["row"], self.ir.Constant(self.word, r))
        return builder.select(builder.icmp_signed("<", index, last), index, last)

    def _mask(self, v: int) -> Any:
        """The mask of the columns of vector `v` that are below `columns`."""
        ir, builder = self.ir, self.builder
        lanes = ir.VectorType(self.word, self.width)
        numbers = ir.Constant(lanes, [v * self.width + i for i in range(self.width)])
        single = builder.insert_element(
            ir.Constant(lanes, ir.Undefined), self.values["columns"], ir.Constant(ir.IntType(32), 0)
        )
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), self.width), [0] * self.width)
        return builder.icmp_signed("<", numbers, builder.shuffle_vector(single, single, zeros))

    def _function(self, name: str, result: Any, kinds: list[Any], ending: str = "") -> Any:
        """LLVM's intrinsic function `name` for vectors of this width."""
        from numba.core import cgutils

        kind = self.ir.FunctionType(result, kinds)
        return cgutils.get_or_insert_function(self.builder.module, kind, f"{name}.v{self.width}f32{ending}")

    def _at(self, pointer: Any, offset: Any) -> Any:
        return self.builder.gep(pointer, [offset])

    def _load(self, pointer: Any, index: Any) -> Any:
        return self.builder.load(self._at(pointer, index))

    def _column(self, pointer: Any, v: int) -> Any:
        return self._at(pointer, self.ir.Constant(self.word, v * self.width))

    def _read(self, pointer: Any, v: int) -> Any:
        ir, builder = self.ir, self.builder
        pointer = builder.bitcast(pointer, self.vector.as_pointer())
        if self.masks[v] is None:
            load = builder.load(pointer)
            load.align = 4
            return load
        kinds = [pointer.type, ir.IntType(32), self.masks[v].type, self.vector]
        function = self._function("llvm.masked.load", self.vector, kinds, ".p0")
        zero = ir.Constant(self.vector, [0.0] * self.width)
        return builder.call(function, [pointer, ir.Constant(ir.IntType(32), 4), self.masks[v], zero])

    def _write(self, value: Any, pointer: Any, v: int) -> None:
        ir, builder = self.ir, self.builder
        pointer = builder.bitcast(pointer, self.vector.as_pointer())
        if self.masks[v] is None:
            builder.store(value, pointer).align = 4
            return
        kinds = [self.vector, pointer.type, ir.IntType(32), self.masks[v].type]
        function = self._function("llvm.masked.store", ir.VoidType(), kinds, ".p0")
        builder.call(function, [value, pointer, ir.Constant(ir.IntType(32), 4), self.masks[v]])


wide_tile, wide_edge, narrow_edge = _tile(False, False), _tile(False, True), _tile(True, True)
FEW = 2  # rows that wait for each line of b to come from the cache no longer than they take to be multiplied
few_tile, few_edge = _tile(False, False, few=FEW), _tile(False, True, few=FEW)
own_wide_tile, own_wide_edge, own_narrow_edge = (
    _tile(*kind, own=True) for kind in ((False, False), (False, True), (True, True))
)


def packed(w: np.ndarray) -> np.ndarray:
    """Weights (KH, KW, in, out) as (panels, cells, PANEL), the last panel filled up with zeros."""
    cells, columns = math.prod(w.shape[:3]), w.shape[3]
    panels = (np.zeros if columns % PANEL else np.empty)((-(-columns // PANEL), *w.shape[:3], PANEL), np.float32)
    for i, panel in enumerate(panels):
        part = w[..., i * PANEL : (i + 1) * PANEL]
        panel[..., : part.shape[3]] = part
    return panels.reshape(-1, cells, PANEL)


@jit
def tiles(a, rows, low, high, cells, lines, start, stop, b, panel, out, places, bias, begins):
    """All tiles of rows [low, high) and of all columns, summed over cells [start, stop)."""
    step, columns = tile_rows(), bias.size
    for j in range(0, columns, tile_columns()):
        right = b[j // PANEL * panel + j % PANEL :]
        target, old, left = out[j:], bias[j:], columns - j
        if left >= tile_columns():
            for i in range(low, high, step):
                wide_tile(a, rows, i, high - 1, cells, lines, start, stop, right, target, places, old, left, begins)
        elif left > vector_size():
            for i in range(low, high, step):
                wide_edge(a, rows, i, high - 1, cells, lines, start, stop, right, target, places, old, left, begins)
        else:
            for i in range(low, high, step):
                narrow_edge(a, rows, i, high - 1, cells, lines, start, stop, right, target, places, old, left, begins)


@jit
def few_tiles(a, rows, low, high, cells, lines, start, stop, b, panel, out, places, bias, begins):
    """`tiles` for less than half as many rows as a tile has."""
    columns = bias.size
    for j in range(0, columns, tile_columns()):
        right = b[j // PANEL * panel + j % PANEL :]
        target, old, left = out[j:], bias[j:], columns - j
        for i in range(low, high, FEW):
            if left >= tile_columns():
                few_tile(a, rows, i, high - 1, cells, lines, start, stop, right, target, places, old, left, begins)
            else:
                few_edge(a, rows, i, high - 1, cells, lines, start, stop, right, target, places, old, left, begins)


patch_wide_tile, patch_wide_edge, patch_narrow_edge = (
    _tile(*kind, own=True, patch=True) for kind in ((False, False), (False, True), (True, True))
)
