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
    assert tdt.autograd.gradgradcheck(lambda x, grid: sampled(tdt, x, grid, **how), small, fast_mode=True)


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


def gradients(x, grid, g, **how):
    """A result's values, and the gradients of image and grid."""
    x, grid = (tdt.from_numpy(a).requires_grad_() for a in (x, grid))
    out = sampled(tdt, x, grid, **how)
    out.backward(tdt.from_numpy(g))
    return out.detach().numpy(), x.grad.numpy(), grid.grad.numpy()


HOW = [
    {"mode": mode, "padding_mode": padding, "align_corners": align}
    for mode in ("bilinear", "nearest")
    for padding in ("zeros", "border", "reflection")
    for align in (False, True)
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_images_of_random_sizes_and_strides_are_sampled_as_by_pytorch(dtype):
    rng = np.random.default_rng(1)
    for trial in range(36):
        n, c, h, w, rows, columns = rng.integers(1, (4, 5, 12, 12, 30, 30))
        x = rng.standard_normal((n, c, w, h)).astype(dtype)
        grid = rng.uniform(-1.5, 1.5, (n, rows, columns, 4)).astype(dtype)

        def call(lib, x, grid, how=HOW[trial % len(HOW)]):
            return sampled(lib, x.transpose(2, 3), grid[..., ::2], **how)

        agree(call, x, grid)


@pytest.mark.parametrize("how", HOW, ids=lambda how: "-".join(map(str, how.values())))
def test_bits_depend_neither_on_threads_nor_on_the_batch(how):
    rng = np.random.default_rng(2)
    x, grid = rng.standard_normal((3, 5, 40, 33)), rng.uniform(-1.3, 1.3, (3, 50, 43, 2))
    g = rng.standard_normal((3, 5, 50, 43))
    threads = tdt.get_num_threads()
    for dtype in ("float32", "float64"):
        arrays = [a.astype(dtype) for a in (x, grid, g)]
        found = []
        try:
            for count in (1, 2):
                tdt.set_num_threads(count)
                found.append(gradients(*arrays, **how))
        finally:
            tdt.set_num_threads(threads)
        alone = zip(*(gradients(*(a[k : k + 1] for a in arrays), **how) for k in range(3)), strict=True)
        for one, two, parts in zip(*found, alone, strict=True):
            assert one.tobytes() == two.tobytes() == np.concatenate(parts).tobytes()


@pytest.mark.parametrize("how", HOW, ids=lambda how: "-".join(map(str, how.values())))
def test_gradients_are_those_of_finite_differences(how):
    rng = np.random.default_rng(3)
    x, grid = (
        tdt.from_numpy(a).requires_grad_()
        for a in (rng.standard_normal((2, 2, 4, 5)), rng.uniform(-1.4, 1.4, (2, 3, 7, 2)))
    )
    assert tdt.autograd.gradcheck(lambda x, grid: sampled(tdt, x, grid, **how), (x, grid))


@pytest.mark.parametrize("how", HOW, ids=lambda how: "-".join(map(str, how.values())))
def test_a_single_pixel_and_coordinates_far_away(how):
    grid = np.array([[[[np.nan, 0.1], [0.1, np.nan], [1e30, 0.1], [-1e9, 3.0], [0.2, -7e5]]]], "float32")
    for size in ((1, 1), (1, 4), (3, 1)):
        # PyTorch's gradients of NaN positions write out of bounds.
        agree(lambda lib, x, grid: sampled(lib, x.detach(), grid.detach(), **how), numbers(1, 2, *size), grid)


def test_without_samples_channels_or_positions():
    for n, c, rows in ((0, 2, 3), (2, 0, 3), (2, 2, 0)):
        x, grid = np.ones((n, c, 3, 4), "float32"), np.zeros((n, rows, 2, 2), "float32")
        agree(lambda lib, x, grid: sampled(lib, x, grid, align_corners=False), x, grid)


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
