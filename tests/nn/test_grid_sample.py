"""Sampling at given places, and the places of affine maps, beside PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

import tdt
from tests.helpers import require_torch
from tests.nn._compare import agree, agree_error, numbers

torch = require_torch()

KINDS = [
    (mode, dims) for mode in ("bilinear", "nearest", "bicubic") for dims in (2, 3) if (mode, dims) != ("bicubic", 3)
]


def sampled(lib, x, grid, **how):
    return lib.nn.functional.grid_sample(x, grid, **how)


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize(("mode", "dims"), KINDS)
def test_values_and_gradients_are_pytorchs(mode, dims, padding, align):
    how = {"mode": mode, "padding_mode": padding, "align_corners": align}
    rng = np.random.default_rng(0)
    for size in ((5, 6, 4), (1, 3, 2)):
        x = numbers(2, 3, *size[:dims], dtype="float64")
        grid = rng.uniform(-2.6, 2.6, (2, *(4, 5, 3)[:dims], dims))
        agree(lambda lib, x, grid: sampled(lib, x, grid, **how), x, grid)
        agree(
            lambda lib, x, grid: sampled(lib, x, grid, **how),
            x.astype("float32"),
            rng.uniform(-1, 1, grid.shape).astype("float32"),
        )
    small = [tdt.from_numpy(a).requires_grad_() for a in (numbers(1, 1, *(3, 4, 2)[:dims], dtype="float64"),
                                                         rng.uniform(-0.9, 0.9, (1, *(2,) * dims, dims)))]  # fmt: skip
    assert tdt.autograd.gradgradcheck(lambda x, grid: sampled(tdt, x, grid, **how), small)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_places_on_the_border_and_pixels_have_pytorchs_gradients(padding):
    x = numbers(1, 2, 3, 4, dtype="float64")
    places = np.stack(np.meshgrid(np.linspace(-1, 1, 4), np.linspace(-1, 1, 3)), -1)[None]
    for mode in ("bilinear", "nearest"):
        how = {"mode": mode, "padding_mode": padding, "align_corners": True}
        agree(lambda lib, x, grid: sampled(lib, x, grid, **how), x, places)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_places_that_are_not_finite_or_far_away(mode, padding):
    grid = np.array([[[[np.nan, 0.1], [0.1, np.nan], [1e30, 0.1], [np.inf, 0.1]]]], "float32")
    how = {"mode": mode, "padding_mode": padding, "align_corners": False}
    agree(
        lambda lib, x, grid: sampled(lib, x.detach(), grid.detach(), **how),
        numbers(1, 2, 3, 4),
        grid[:, :, : 3 + (padding == "zeros")],
    )


def test_an_infinite_pixel_outside_of_the_sample_does_not_reach_it():
    x = numbers(1, 1, 3, 4)
    x[0, 0, 0, 0], x[0, 0, 2, 3] = np.inf, np.nan
    grid = np.random.default_rng(0).uniform(-1.5, 1.5, (1, 7, 7, 2)).astype("float32")
    for padding in ("zeros", "border"):
        agree(
            lambda lib, x, grid: sampled(lib, x.detach(), grid.detach(), padding_mode=padding, align_corners=False),
            x,
            grid,
        )


def test_the_nearest_pixel_has_no_slope_even_where_it_is_nan():
    x, grid = numbers(1, 2, 3, 4), np.random.default_rng(0).uniform(-1, 1, (1, 5, 5, 2)).astype("float32")
    x[0, 0, 1], x[0, 1, 0] = np.nan, np.inf
    agree(lambda lib, x, grid: sampled(lib, x, grid, mode="nearest", align_corners=False), x, grid)


def test_a_channels_last_image_returns_a_contiguous_one_as_in_pytorch():
    found = []
    for lib in (tdt, torch):
        x = lib.from_numpy(numbers(2, 3, 4, 5)).contiguous(memory_format=lib.channels_last)
        found.append(sampled(lib, x, lib.zeros(2, 6, 7, 2), align_corners=False).stride())
    assert found[0] == found[1]


@pytest.mark.parametrize("call", [
    lambda lib: sampled(lib, lib.ones(1, 1, 3, 4), lib.zeros(1, 2, 2, 1), align_corners=False),
    lambda lib: sampled(lib, lib.ones(1, 1, 3, 4), lib.zeros(2, 2, 2), align_corners=False),
    lambda lib: sampled(lib, lib.ones(1, 1, 3, 4), lib.zeros(2, 2, 2, 2), align_corners=False),
    lambda lib: sampled(lib, lib.ones(1, 1, 0, 4), lib.zeros(1, 2, 2, 2), align_corners=False),
    lambda lib: sampled(lib, lib.ones(1, 1, 3, 4, 2), lib.zeros(1, 2, 2, 2, 3), mode="bicubic", align_corners=False),
    lambda lib: sampled(lib, lib.ones(1, 1, 3, 4), lib.zeros(1, 2, 2, 2), mode="cubic"),
    lambda lib: sampled(lib, lib.ones(1, 1, 3, 4), lib.zeros(1, 2, 2, 2), padding_mode="same"),
    lambda lib: lib.nn.functional.affine_grid(lib.ones(2, 2, 4), (2, 1, 3, 3), align_corners=False),
    lambda lib: lib.nn.functional.affine_grid(lib.ones(2, 2, 3), (2, 1, 3), align_corners=False),
    lambda lib: lib.nn.functional.affine_grid(lib.ones(2, 2, 3).long(), (2, 1, 3, 3), align_corners=False),
    lambda lib: lib.nn.functional.affine_grid(lib.ones(2, 2, 3), (2, 1, 0, 3), align_corners=False),
])  # fmt: skip
def test_what_pytorch_refuses_is_refused_with_its_message(call):
    agree_error(call)


def test_dtypes_and_counts_that_do_not_fit_are_refused_with_pytorchs_class():
    x, grid = (1, 1, 3, 4), (1, 2, 2, 2)
    agree_error(lambda lib: sampled(lib, lib.ones(x), lib.zeros(grid, dtype=lib.float64), align_corners=False),
                "expected input and grid of one dtype")  # fmt: skip
    agree_error(
        lambda lib: sampled(lib, lib.ones(x).long(), lib.zeros(grid).long(), align_corners=False), "not implemented for"
    )
    agree_error(lambda lib: lib.nn.functional.affine_grid(lib.ones(2, 2, 3), (3, 1, 2, 2), align_corners=False),
                "expected as many maps as samples")  # fmt: skip


@pytest.mark.filterwarnings("ignore:Since version 1.3.0, affine_grid")
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("size", [(2, 3, 4, 5), (2, 3, 1, 5), (2, 1, 3, 4, 2)], ids=str)
def test_affine_grid_is_pytorchs(size, align):
    dims = len(size) - 2
    theta = numbers(2, dims, dims + 1, dtype="float64")
    agree(lambda lib, theta: lib.nn.functional.affine_grid(theta, size, align_corners=align), theta)
    agree(lambda lib, theta: lib.nn.functional.affine_grid(theta, size, align_corners=align), theta.astype("float32"))


def test_without_align_corners_both_warn():
    for lib in (tdt, torch):
        with pytest.warns(UserWarning, match="Default grid_sample and affine_grid behavior"):
            sampled(lib, lib.ones(1, 1, 3, 4), lib.zeros(1, 2, 2, 2))
        with pytest.warns(UserWarning, match="Default grid_sample and affine_grid behavior"):
            lib.nn.functional.affine_grid(lib.ones(2, 2, 3), (2, 1, 3, 3))
