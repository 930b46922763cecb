"""Kernels of 1 × 1, and gradients of patches that do not overlap, as matrix products: PyTorch's values in its memory order."""

from __future__ import annotations

import functools
import os

import numpy as np
import pytest

from tdt._backend.layout import is_channels_last, to_front, to_last
from tdt._kernels import KERNELS, _pool, pointwise_cpu, volume_cpu
from tdt._kernels._conv_pieces import blocks_of_products
from tdt._kernels._row_dots import FEW
from tdt._kernels._tile import choose, choose_for
from tdt._ops.nn import conv as portable
from tests._kernels.guarded import at_the_end
from tests.helpers import require_torch

# (samples, channels in and out, size, kernel, stride): small ones go to NumPy.
CASES = [
    (3, 40, 65, (9, 11), (1, 1), (1, 1)),
    (2, 300, 33, (17, 16), (1, 1), (1, 1)),
    (9, 64, 100, (8, 7), (1, 1), (2, 2)),
    (40, 17, 40, (7, 7), (1, 1), (1, 1)),
    (30, 300, 100, (3, 3), (1, 1), (1, 1)),
    (8, 2100, 33, (3, 3), (1, 1), (1, 1)),  # as deep as may be for columns of several samples: see JOINED
    (4, 3, 70, (33, 34), (4, 4), (4, 4)),
    (2, 5, 7, (6, 9), (2, 3), (2, 3)),
    (5, 24, 6, (1, 1), (1, 1), (1, 1)),
    (2, 16, 16, (30, 300), (1, 1), (1, 3)),
    (2, 20, 2, (33, 40), (1, 1), (1, 1)),
    (2, 20, 2, (32, 32), (1, 1), (1, 1)),
    (2, 20, 33, (32, 64), (1, 1), (1, 1)),
    (2, 300, 520, (7, 7), (1, 1), (1, 1)),  # few pixels for many weights: rows are shared among threads, too
    (1, 520, 300, (7, 7), (1, 1), (1, 1)),
]
NAMES = "conv", "conv_input_grad", "conv_weight_grad"


def problem(case: tuple, last: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict]:
    count, channels, out, size, kernel, stride = case
    rng = np.random.default_rng(0)
    result = tuple((n - k) // s + 1 for n, k, s in zip(size, kernel, stride, strict=True))
    x, y = (rng.standard_normal(s, np.float32) for s in ((count, channels, *size), (count, out, *result)))
    x, y = (to_front(np.ascontiguousarray(to_last(a))) if last else a for a in (x, y))
    w, b = rng.standard_normal((out, channels, *kernel), np.float32), rng.standard_normal(out, np.float32)
    return x, w, b, y, {"stride": stride, "padding": (0, 0), "dilation": (1, 1), "groups": 1}


def all_three(x, w, b, y, how) -> list[np.ndarray]:
    here = w.shape[2:] == (1, 1) or is_channels_last(x)
    return [
        (pointwise_cpu if here else volume_cpu).conv(x, w, b, **how),
        pointwise_cpu.conv_input_grad(y, w, None, size=x.shape[2:], **how),
        pointwise_cpu.conv_weight_grad(y, x, kernel=w.shape[2:], **how),
    ]


@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels-last"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_values_are_those_of_pytorch(case, last):
    torch = require_torch()
    x, w, b, y, how = problem(case, last)
    leaves = [torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in (x, w, b)]
    out = torch.nn.functional.conv2d(*leaves, **how)
    out.backward(torch.tensor(y, dtype=torch.float64))
    found = all_three(x, w, b, y, how)
    for value, reference in zip(found, (out.detach(), leaves[0].grad, leaves[1].grad), strict=True):
        np.testing.assert_allclose(value, reference.numpy(), rtol=0, atol=1e-5 * np.abs(reference.numpy()).max())
    assert [is_channels_last(a) for a in found[:2]] == [last and max(a.shape[2:]) > 1 for a in found[:2]]


@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels-last"])
@pytest.mark.parametrize("case", [*(CASES[k] for k in (1, 2, 3, 5, 6)), *CASES[-2:]], ids=str)
def test_bits_do_not_depend_on_the_number_of_threads(case, last, monkeypatch):
    monkeypatch.setattr(pointwise_cpu, "GRAIN", 1)
    before, found = _pool.get_num_threads(), set()
    for threads in (1, 2, 3, 4):
        _pool.set_num_threads(threads)
        found.add(b"".join(a.tobytes() for a in all_three(*problem(case, last))))
    _pool.set_num_threads(before)
    assert len(found) == 1


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize(("count", "rows", "tiles", "most", "highest"), [(1, 2048, 7, 4, None), (1, 512, 4, 12, None),
                         (3, 300, 5, 12, None), (1, 256, 8, 4, 192), (2, 512, 32, 12, 192)])  # fmt: skip
def test_threads_share_few_blocks_of_products_evenly(count, rows, tiles, most, highest, threads):
    height, width = blocks_of_products(count, rows, tiles, most, 6, threads, highest)
    assert width <= most and (highest is None or height < highest + 6)
    down, across = [min(height, rows - top) for top in range(0, rows, height)], range(0, tiles, width)
    blocks = [high * min(width, tiles - left) for high in down for _ in range(count) for left in across]
    shares = [blocks[len(blocks) * k // threads : len(blocks) * (k + 1) // threads] for k in range(threads)]
    assert sum(blocks) == count * rows * tiles
    assert max(map(sum, shares)) <= 1.25 * sum(blocks) / threads


def test_an_input_gradient_adds_its_bias():
    x, w, _, y, how = problem(CASES[2], False)  # a transposed convolution: also where no window lies
    plain, added = (
        pointwise_cpu.conv_input_grad(y, w, b, size=x.shape[2:], **how) for b in (None, np.ones(64, np.float32))
    )
    np.testing.assert_allclose(added, plain + 1, rtol=1e-6)


@pytest.mark.skipif(os.environ.get("TDT_KERNELS") == "reference", reason="kernels are off")
@pytest.mark.parametrize(
    ("kernel", "more", "chosen"),
    [
        ((1, 1), {}, NAMES),
        ((1, 1), {"stride": (2, 2)}, NAMES),
        ((4, 4), {"stride": (4, 4)}, NAMES[1:]),
        ((1, 1), {"padding": (1, 1)}, ()),
        ((3, 3), {}, ()),
        ((2, 2), {"stride": (2, 2), "dilation": (2, 2)}, ()),
        ((1, 1), {"groups": 2}, ()),
    ],
)
def test_products_are_chosen_for_windows_that_do_not_overlap(kernel, more, chosen):
    x, y, w = (np.zeros(shape, np.float32) for shape in ((2, 4, 8, 8), (2, 6, 8, 8), (6, 4, *kernel)))
    how = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1, **more}
    for name, arrays, extra in zip(
        NAMES, ((x, w, None), (y, w, None), (y, x)), ({}, {"size": (8, 8)}, {"kernel": kernel}), strict=True
    ):
        assert getattr(portable, name).kernels
        when = KERNELS[f"pointwise_cpu:{name}"].when
        assert when(arrays, {**how, **extra}) == (name in chosen)
        assert not when(tuple(a if a is None else a.astype(np.float64) for a in arrays), {**how, **extra})


@pytest.mark.skipif(os.environ.get("TDT_KERNELS") == "reference", reason="kernels are off")
def test_results_of_large_channels_last_patches_are_products_of_their_copies():
    when = KERNELS["pointwise_cpu:conv"].when
    for side, last, chosen in ((16, True, False), (32, True, True), (32, False, False)):
        x, w, b, _, how = problem((2, 3, 20, (2 * side, 3 * side + 1), (side, side), (side, side)), last)
        assert when((x, w, b), how) == chosen


@pytest.mark.parametrize("case", [(3, 40, 65, (20, 10)), (2, 300, 3, (16, 18)), (1, 7, 20, (5, 49))], ids=str)
def test_images_that_are_read_where_they_lie_give_the_bits_of_packed_ones(case, monkeypatch):
    x, w, b, y, how = problem((*case, (1, 1), (1, 1)), False)

    def computed() -> list[np.ndarray]:
        pointwise_cpu._plan_of_threads.cache_clear()
        plain = pointwise_cpu.conv(x, w, b, **how), pointwise_cpu.conv(x, w, None, **how)
        return [*plain, pointwise_cpu.conv_input_grad(y, w, None, size=x.shape[2:], **how)]

    in_place = computed()
    monkeypatch.setattr(pointwise_cpu, "CACHED", 0)
    for value, expected in zip(computed(), in_place, strict=True):
        np.testing.assert_array_equal(value, expected)
    pointwise_cpu._plan_of_threads.cache_clear()


def narrow_vectors(monkeypatch) -> None:
    """Plans for vectors of eight."""
    monkeypatch.setattr(pointwise_cpu, "vector_width", lambda: 8)
    for name, tile in (("choose", choose), ("choose_for", choose_for)):
        monkeypatch.setattr(pointwise_cpu, name, functools.partial(tile, width=8))
    pointwise_cpu._plan_of_threads.cache_clear()


@pytest.mark.parametrize("out", [1, 2, 3, 5, 16], ids=str)
def test_lines_in_one_set_of_a_cache_are_packed_for_vectors_of_eight_if_several_tiles_read_them(out, monkeypatch):
    x, w, b, _, how = problem((2, 20, out, (32, 32), (1, 1), (1, 1)), False)
    pointwise_cpu._plan_of_threads.cache_clear()
    expected = pointwise_cpu.conv(x, w, b, **how)
    narrow_vectors(monkeypatch)
    plan, found = pointwise_cpu._plan_in_place, []
    monkeypatch.setattr(pointwise_cpu, "_plan_in_place", lambda *shape: found.append(shape) or plan(*shape))
    np.testing.assert_array_equal(pointwise_cpu.conv(x, w, b, **how), expected)
    assert bool(found) == (out == 5), "one tile of rows reads each line once, and fewer rows are no tile"
    pointwise_cpu._plan_of_threads.cache_clear()


@pytest.mark.parametrize("width", [8, None], ids=str)
@pytest.mark.parametrize("out", [1, 2, 3, 4, 5, 6, 7, 8, 9], ids=str)
def test_any_number_of_last_pixels_beside_whole_tiles_is_computed(out, width, monkeypatch):
    if width:
        narrow_vectors(monkeypatch)
    for pixels in range(330, 430):
        x, w, b, _, how = problem((1, 70, out, (1, pixels), (1, 1), (1, 1)), False)
        found = pointwise_cpu.conv(x, w, b, **how)[0, :, 0]
        expected = w[:, :, 0, 0].astype(np.float64) @ x[0, :, 0] + b[:, None]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)
    pointwise_cpu._plan_of_threads.cache_clear()


@pytest.mark.parametrize("size", [(32, 32), (49, 61), (7, 300)], ids=str)
@pytest.mark.parametrize("channels", [1, 7, 8, 21, 256])
@pytest.mark.parametrize("out", range(1, FEW + 1))
def test_results_of_few_channels_have_the_bits_of_tiles(out, channels, size, monkeypatch):
    x, w, b, _, how = problem((2, channels, out, size, (1, 1), (1, 1)), False)
    x = at_the_end(x)

    def computed() -> list[np.ndarray]:
        pointwise_cpu._plan_of_threads.cache_clear()
        return [pointwise_cpu.conv(x, w, bias, **how) for bias in (b, None)]

    found = computed()
    monkeypatch.setattr(pointwise_cpu, "FEW", 0)
    for value, expected in zip(found, computed(), strict=True):
        np.testing.assert_array_equal(value, expected)
    pointwise_cpu._plan_of_threads.cache_clear()
