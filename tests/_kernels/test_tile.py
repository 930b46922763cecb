"""The register tile: every shape, operand form and edge gives the sum in the order of k, rounded once a step, bit for bit."""

from __future__ import annotations

import ctypes
import itertools

import numpy as np
import pytest

from tdt._kernels._native import vector_width
from tdt._kernels._tile import LEFT, UNROLLED, WORDS, Shape, address, choose, choose_for, rates

BEST = [next(iter(rates(8))), next(iter(rates(16)))]
FORMS = [
    *((shape, left, True, left == "panel") for shape in BEST for left in LEFT),
    *((shape, "rows", shape.rows != 6, False) for shape in list(rates(8))[1:]),
    *((shape, left, left == "panel", True) for shape, left in zip(list(rates(16))[1:], LEFT, strict=True)),
]


def call(function: int, **words: int) -> None:
    ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * len(WORDS))(function)(*(words[name] for name in WORDS))


def in_order(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Σ_k a[i, k] b[k, j] with one rounding a step. A product of two floats is exact in float64; their sum there is exact
    too for integers as small as these over a power of two, so that only the rounding to float32 is left."""
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        total = (total.astype(np.float64) + a[:, k, None].astype(np.float64) * b[k].astype(np.float64)).astype(
            np.float32
        )
    return total


def numbers(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Sixteen bits of fraction: products have 32 and sums round in float32, but not in float64."""
    return (rng.integers(-(1 << 15), 1 << 15, shape) / (1 << 15)).astype(np.float32)


class Operands:
    """Memory for one tile: the left matrix as a tile of this kind finds it, b, and the result in a larger matrix."""

    def __init__(self, shape: Shape, left: str, panels: bool, places: bool, depth: int, cells: int, seed: int):
        rng = np.random.default_rng(seed)
        rows, columns = shape.rows, shape.columns
        a = self.a = numbers(rng, rows, depth * cells if left == "rows" else depth)
        self.b = numbers(rng, a.shape[1], columns)
        self.out, self.bias = numbers(rng, rows + 1, columns + 5), numbers(rng, columns)
        self.order = rng.permutation(rows + 1) if places else np.arange(rows + 1)
        lines = self.b if panels else np.concatenate([self.b, self.b[:, :1]], 1)
        tables = [np.zeros(1, np.int64)] * 2
        if left == "panel":
            memory = a.T.copy()
        elif left == "cells":
            order = rng.permutation(depth)
            memory = np.zeros((depth, rows + 3), np.float32)
            memory[order, :rows] = a.T
            tables = [tables[0], order * memory.shape[1]]
        else:
            order = rng.permutation(rows), rng.permutation(cells)
            memory = np.zeros((rows, cells, depth + 1), np.float32)
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
    function, bias = address("rows", shape, by_row=True), numbers(np.random.default_rng(1), shape.rows)
    for high, wide, first in ((shape.rows, shape.columns, 1), (shape.rows - 1, shape.columns - 1, 0), (1, 1, 1)):
        it = Operands(shape, "rows", True, False, 7, 1, high)
        expected = it.out.copy()
        total = in_order(it.a, it.b)[:high, :wide]
        expected[:high, :wide] = (total if first else it.out[:high, :wide] + total) + bias[:high, None]
        call(function, **it.words, bias=bias.ctypes.data, high=high, wide=wide, first=first)
        np.testing.assert_array_equal(it.out, expected)


def test_the_tile_for_some_columns_takes_the_least_time_for_them_and_their_padding():
    for width in (4, 8, 16):
        for columns in range(1, 200):
            times = {s: -(-columns // s.columns) * s.columns / rate for s, rate in rates(width).items()}
            assert choose(columns, width) == min(times, key=lambda shape: times[shape])
    assert [choose(n, 16)[:2] for n in (16, 24, 64, 96, 1000)] == [(12, 1), (12, 2), (6, 4), (8, 3), (8, 3)]
    assert [choose(n, 8)[:2] for n in (8, 16, 24, 100, 1000)] == [(12, 1), (6, 2), (4, 3), (6, 2), (6, 2)]


def test_the_tile_for_rows_that_are_few_or_lie_together_has_as_many_as_fill_it():
    assert choose_for(9, 40, 16) == Shape(9, 3, 16) and choose_for(48, 16, 16) == Shape(24, 1, 16)
    assert choose_for(3, 784, 16).rows == 3
    assert [choose_for(rows, 192, 8)[:2] for rows in (1, 2, 3, 5, 7)] == [(1, 7), (2, 4), (3, 3), (5, 2), (4, 3)]
    for rows in (8, 9, 48, 100):
        assert choose_for(rows, 70, 8) == choose(70, 8), "few registers hold the usual tiles alone"
    for rows, columns in itertools.product((1, 2, 3, 5, 7, 9, 48, 100), (16, 40, 70, 192)):
        for width, registers in ((8, 16), (16, 32)):
            high, wide, _ = choose_for(rows, columns, width)
            assert high * wide + wide + 1 <= registers, "sums, a line and an element of the left operand fit"


@pytest.mark.parametrize(
    "shape", [choose_for(9, 40, 16), choose_for(48, 16, 16), *(choose_for(n, 192, 8) for n in (1, 2))], ids=str
)
def test_tiles_of_any_number_of_rows_have_the_bits_of_the_sum_in_order(shape: Shape):
    if shape.width > vector_width():
        pytest.skip("a processor without vectors of sixteen")
    test_every_edge_has_the_bits_of_the_sum_in_order_and_nothing_else_is_written(shape, "panel", True, False)
    test_every_edge_has_the_bits_of_the_sum_in_order_and_nothing_else_is_written(shape, "cells", True, False)
