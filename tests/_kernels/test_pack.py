"""Packing into panels and turning of blocks: every element in its place, nothing read or written beyond."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tdt._kernels._pack import packer, turner
from tdt._kernels._turn import separator

TYPES = {4: np.float32, 8: np.float64}


def call(function: int, *words: int) -> None:
    ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * len(words))(function)(*words)


@pytest.mark.parametrize(
    ("columns", "width", "item"),
    [
        (6, 8, 4),
        (12, 8, 4),
        (16, 8, 4),
        (8, 16, 4),
        (24, 16, 4),
        (48, 16, 4),
        (6, 4, 8),
        (8, 4, 8),
        (6, 8, 8),
        (24, 8, 8),
    ],
)
@pytest.mark.parametrize("form", ["lines", "columns"])
def test_panels_hold_every_element_and_finite_padding(form, columns, width, item):
    function, dtype = packer(form, columns, width, item=item), TYPES[item]
    rng = np.random.default_rng(columns)
    for high in (1, columns - 1, columns, columns + 3, 3 * columns):
        for count in (0, 1, 7, 8, 17):
            x = rng.normal(size=(count, high) if form == "lines" else (high, count)).astype(dtype)
            panels = -(-high // columns)
            out = np.full(panels * count * columns + 1, 7, dtype)
            call(function, x.ctypes.data, x.shape[1], count, out.ctypes.data, 0, high)
            assert out[-1] == 7 and np.isfinite(out).all()
            found = out[:-1].reshape(panels, count, columns).transpose(1, 0, 2).reshape(count, panels * columns)
            np.testing.assert_array_equal(found[:, :high], x if form == "lines" else x.T)


@pytest.mark.parametrize(("high", "item"), [*((n, 4) for n in range(1, 9)), *((n, 8) for n in range(1, 5))])
def test_a_block_is_turned_into_its_place_alone(high, item):
    rng, dtype = np.random.default_rng(high), TYPES[item]
    for count in (0, 1, 7, 8, 17):
        x, out = rng.normal(size=(high, count)).astype(dtype), np.full((count, 11), 7, dtype)
        call(turner(item), x.ctypes.data, count, count, out.ctypes.data, 11, high)
        np.testing.assert_array_equal(out[:, :high], x.T)
        assert (out[:, high:] == 7).all()


@pytest.mark.parametrize("width", [8, 16])
@pytest.mark.parametrize("cells", range(2, 8))
def test_elements_of_columns_are_taken_apart_to_the_lines_of_a_table(cells, width):
    rng = np.random.default_rng(cells)
    for high in (1, width - 1, width, 2 * width + 3):
        for count in (0, 1, 3):
            x = rng.normal(size=(count, high + 2, cells)).astype(np.float32)  # rows go on with another panel's columns
            lines, out = rng.permutation(count * cells), np.full((count * cells, high + 5), 7, np.float32)
            step, pitch = (high + 2) * cells, high + 5
            call(separator(cells, width), x.ctypes.data, step, count, out.ctypes.data, pitch, lines.ctypes.data, high)
            expected = x[:, :high].transpose(0, 2, 1).reshape(-1, high)
            np.testing.assert_array_equal(out[lines, :high], expected)
            assert (out[:, high:] == 7).all()
