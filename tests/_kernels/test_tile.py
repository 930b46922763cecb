"""The register tile: every shape, operand form and edge gives the sum in the order of k, rounded once a step, bit for bit."""

from __future__ import annotations

import ctypes
import itertools

import numpy as np
import pytest

from tdt._kernels._native import vector_width
from tdt._kernels._packing_tile import PackingEmitter, packing_address
from tdt._kernels._tile import LEFT, UNROLLED, WORDS, Shape, address, choose, choose_for, rates
from tests._kernels.guarded import at_the_end

BEST = [next(iter(rates(*each))) for each in ((8,), (16,), (4, 8), (8, 8))]
FORMS = [
    *((shape, left, True, left == "panel") for shape in BEST for left in LEFT),
    *((shape, "rows", shape.rows != 6, False) for shape in [*rates(8), *rates(4, 8)] if shape not in BEST),
    *((shape, left, left == "panel", True) for shape, left in zip(list(rates(16))[1:], LEFT, strict=True)),
]


def call(function: int, names: tuple[str, ...] = WORDS, **words: int) -> None:
    ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * len(names))(function)(*(words[name] for name in names))


def in_order(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Σ_k a[i, k] b[k, j] with one rounding a step. A product of two numbers is exact in the next longer type; their sum there
    is exact too for integers as small as these over a power of two, so that only the rounding of the result is left."""
    total, longer = np.zeros((a.shape[0], b.shape[1]), a.dtype), np.float64 if a.itemsize == 4 else np.longdouble
    for k in range(a.shape[1]):
        total = (total.astype(longer) + a[:, k, None].astype(longer) * b[k].astype(longer)).astype(a.dtype)
    return total


def numbers(rng: np.random.Generator, *shape: int, item: int = 4) -> np.ndarray:
    """Fractions of 15 bits, of float64 29: sums of their products round in their type, but not in the next longer one."""
    bits, dtype = (15, np.float32) if item == 4 else (29, np.float64)
    return (rng.integers(-(1 << bits), 1 << bits, shape) / (1 << bits)).astype(dtype)


class Operands:
    """Memory for one tile: the left matrix as a tile of this kind finds it, b, and the result in a larger matrix."""

    def __init__(self, shape: Shape, left: str, panels: bool, places: bool, depth: int, cells: int, seed: int):
        rng = np.random.default_rng(seed)
        rows, columns, item = shape.rows, shape.columns, shape.item
        a = self.a = numbers(rng, rows, depth * cells if left == "rows" else depth, item=item)
        self.b = numbers(rng, a.shape[1], columns, item=item)
        self.out, self.bias = numbers(rng, rows + 1, columns + 5, item=item), numbers(rng, columns, item=item)
        self.order = rng.permutation(rows + 1) if places else np.arange(rows + 1)
        lines = self.b if panels else np.concatenate([self.b, self.b[:, :1]], 1)
        tables = [np.zeros(1, np.int64)] * 2
        if left == "panel":
            memory = a.T.copy()
        elif left == "cells":
            order = rng.permutation(depth)
            memory = np.zeros((depth, rows + 3), a.dtype)
            memory[order, :rows] = a.T
            tables = [tables[0], order * memory.shape[1]]
        else:
            order = rng.permutation(rows), rng.permutation(cells)
            memory = np.zeros((rows, cells, depth + 1), a.dtype)
            memory[order[0][:, None], order[1], :depth] = a.reshape(rows, cells, depth)
            tables = [order[0] * cells * (depth + 1), order[1] * (depth + 1)]
        table = self.order * self.out.shape[1]
        self.references = memory, lines, table, tables
        self.words = {
            "a": memory.ctypes.data, "rows": tables[0].ctypes.data, "cells": tables[1].ctypes.data,
            "count": cells if left == "rows" else depth, "run": depth, "b": lines.ctypes.data, "step": lines.shape[1],
            "c": self.out.ctypes.data, "pitch": table.ctypes.data if places else self.out.shape[1],
        }  # fmt: skip


@pytest.mark.parametrize(("shape", "left", "panels", "places"), FORMS, ids=str)
def test_every_edge_has_the_bits_of_the_sum_in_order_and_nothing_else_is_written(shape, left, panels, places):
    function = address(left, shape, panels=panels, places=places)
    heights = {1, 2, shape.rows // 2, shape.rows - 1, shape.rows} & {*range(1, shape.rows + 1)}
    widths = {1, shape.width - 1, shape.width, shape.columns - 1, shape.columns}
    for seed, (high, wide) in enumerate((h, w) for h in heights for w in widths):
        depth, cells = (0, 1, UNROLLED, 2 * UNROLLED + 3)[seed % 4], 1 + seed % 3
        it = Operands(shape, left, panels, places, depth, cells, seed)
        first, bias = seed % 2, seed // 2 % 2
        expected = it.out.copy()
        where = np.ix_(it.order[:high], range(wide))
        total = in_order(it.a, it.b)[:high, :wide]
        total = total if first else it.out[where] + total
        expected[where] = total + it.bias[:wide] if bias else total
        call(function, **it.words, bias=it.bias.ctypes.data if bias else 0, high=high, wide=wide, first=first)
        np.testing.assert_array_equal(it.out, expected)


@pytest.mark.parametrize(("shape", "left"), [*itertools.product(BEST, ("panel", "rows"))], ids=str)
def test_a_tile_that_packs_writes_the_panel_and_reads_only_the_columns_that_exist(shape: Shape, left: str):
    function = packing_address(left, shape)
    for seed, wide in enumerate((1, shape.width, shape.columns - 1, shape.columns)):
        depth, high = UNROLLED + seed, max(1, shape.rows - seed)
        it = Operands(shape, left, True, False, depth, 1, seed)
        lines, panel = at_the_end(it.b[:, :wide]), np.full((depth + 1, shape.columns), 7, it.b.dtype)
        expected = it.out.copy()
        expected[:high, :wide] = in_order(it.a, it.b)[:high, :wide] + it.bias[:wide]
        words = {**it.words, "b": lines.ctypes.data, "step": wide, "panel": panel.ctypes.data}
        call(function, PackingEmitter.words, **words, bias=it.bias.ctypes.data, high=high, wide=wide, first=1)
        np.testing.assert_array_equal(it.out, expected)
        np.testing.assert_array_equal(panel[:depth, :wide], lines)
        assert not panel[:depth, wide:].any() and (panel[depth] == 7).all()


@pytest.mark.parametrize("run", [1, 2, 3])
@pytest.mark.parametrize("shape", BEST, ids=str)
def test_a_tile_for_one_length_of_runs_has_the_bits_of_the_sum_in_order(shape: Shape, run: int):
    function = address("rows", shape, places=True, run=run)
    assert function != address("rows", shape, places=True)
    for cells in (1, 2, 7):
        it = Operands(shape, "rows", True, True, run, cells, cells)
        expected = it.out.copy()
        expected[np.ix_(it.order[: shape.rows], range(shape.columns))] = in_order(it.a, it.b)
        call(function, **{**it.words, "run": 0}, bias=0, high=shape.rows, wide=shape.columns, first=1)
        np.testing.assert_array_equal(it.out, expected)


@pytest.mark.parametrize("shape", BEST, ids=str)
def test_a_bias_by_row_is_added_to_all_columns_of_its_row_after_the_sum(shape: Shape):
    function, bias = address("rows", shape, by_row=True), numbers(np.random.default_rng(1), shape.rows, item=shape.item)
    for high, wide, first in ((shape.rows, shape.columns, 1), (shape.rows - 1, shape.columns - 1, 0), (1, 1, 1)):
        it = Operands(shape, "rows", True, False, 7, 1, high)
        expected = it.out.copy()
        total = in_order(it.a, it.b)[:high, :wide]
        expected[:high, :wide] = (total if first else it.out[:high, :wide] + total) + bias[:high, None]
        call(function, **it.words, bias=bias.ctypes.data, high=high, wide=wide, first=first)
        np.testing.assert_array_equal(it.out, expected)


def test_the_tile_for_some_columns_takes_the_least_time_for_them_and_their_padding():
    for width, item in ((4, 4), (8, 4), (16, 4), (4, 8), (8, 8)):
        for columns in range(1, 200):
            times = {s: -(-columns // s.columns) * s.columns / rate for s, rate in rates(width, item).items()}
            assert choose(columns, width, item) == min(times, key=lambda shape: times[shape])
    assert [choose(n, 16)[:2] for n in (16, 24, 64, 96, 1000)] == [(12, 1), (12, 2), (6, 4), (8, 3), (8, 3)]
    assert [choose(n, 8)[:2] for n in (8, 16, 24, 100, 1000)] == [(12, 1), (6, 2), (4, 3), (6, 2), (6, 2)]


def test_the_tile_for_rows_that_are_few_or_lie_together_has_as_many_as_fill_it():
    assert choose_for(9, 40, 16) == Shape(9, 3, 16) and choose_for(48, 16, 16) == Shape(24, 1, 16)
    assert choose_for(3, 784, 16).rows == 3
    assert [choose_for(rows, 192, 8)[:2] for rows in (1, 2, 3, 5, 7)] == [(1, 7), (2, 4), (3, 3), (5, 2), (4, 3)]
    for rows in (8, 9, 48, 100):
        assert choose_for(rows, 70, 8) == choose(70, 8), (
            "of rows that lie apart few registers hold the usual tiles alone"
        )
    together = [choose_for(*sizes, 8, together=True)[:2] for sizes in ((8, 96), (9, 16), (64, 64), (8, 8), (7, 192))]
    assert together == [(4, 3), (5, 2), (6, 2), (8, 1), (4, 3)]
    for rows, columns in itertools.product((1, 2, 3, 5, 7, 9, 48, 100), (16, 40, 70, 192)):
        for width, item, registers in ((8, 4, 16), (16, 4, 32), (4, 8, 16), (8, 8, 32)):
            for together in (False, True):
                high, wide = choose_for(rows, columns, width, item, together)[:2]
                assert high * wide + wide + 1 <= registers, "sums, a line and an element of the left operand fit"


@pytest.mark.parametrize(
    "shape",
    [choose_for(9, 40, 16), choose_for(48, 16, 16), *(choose_for(n, 192, 8) for n in (1, 2)), Shape(5, 2, 8)],
    ids=str,
)
def test_tiles_of_any_number_of_rows_have_the_bits_of_the_sum_in_order(shape: Shape):
    if shape.width > vector_width():
        pytest.skip("a processor without vectors of sixteen")
    test_every_edge_has_the_bits_of_the_sum_in_order_and_nothing_else_is_written(shape, "panel", True, False)
    test_every_edge_has_the_bits_of_the_sum_in_order_and_nothing_else_is_written(shape, "cells", True, False)
