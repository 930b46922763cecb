"""Running sums, products and extremes: NumPy's in double precision, bit for bit, for every number of threads."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import tdt
from tdt import _kernels
from tdt._kernels import scan_cpu
from tdt._kernels._threads import THREADS
from tests.helpers import require_torch

SHAPES = [((30, 40, 5), 1), ((1, 50, 70), 1), ((3000,), 0), ((7, 300), 1), ((300, 9), 0)]


@pytest.mark.parametrize(("shape", "dim"), SHAPES)
def test_running_sums_and_products_are_rounded_once(shape: tuple[int, ...], dim: int):
    x = np.random.default_rng(0).standard_normal(shape).astype("f")
    wide = x.astype("d")
    before = tdt.get_num_threads()
    try:
        for threads in (1, 3):
            tdt.set_num_threads(threads)
            np.testing.assert_array_equal(scan_cpu.scan("sum", x, dim, "f"), wide.cumsum(dim).astype("f"))
            backwards = np.flip(np.flip(wide, dim).cumsum(dim), dim).astype("f")
            np.testing.assert_array_equal(scan_cpu.scan("sum", x, dim, "f", True), backwards)
            np.testing.assert_array_equal(scan_cpu.scan("prod", x, dim, "f"), wide.cumprod(dim).astype("f"))
    finally:
        tdt.set_num_threads(before)


@pytest.mark.skipif(not _kernels.enabled(), reason="kernels are off")
@pytest.mark.parametrize(("shape", "dim"), [*SHAPES, ((3, 5, 4, 11), 1), ((40, 67), 0), ((2, 600, 3), 1)])
def test_columns_in_one_call_have_the_bits_of_the_pool(shape: tuple[int, ...], dim: int, monkeypatch):
    for letter in "fdl":
        x = (3 * np.random.default_rng(0).standard_normal(shape)).astype(letter)
        for how, backwards in (("sum", False), ("sum", True), ("prod", False)):
            expected = scan_cpu.scan(how, x, dim, letter, backwards)
            for layout in (x, np.asfortranarray(x)):
                monkeypatch.setattr(THREADS, "elementwise", sys.maxsize)
                np.testing.assert_array_equal(_kernels.scanned(how, layout, dim, backwards), expected)
                monkeypatch.undo()


@pytest.mark.parametrize(("shape", "dim"), SHAPES)
def test_running_extremes_keep_nan_and_the_last_of_equal_elements(shape: tuple[int, ...], dim: int):
    x = np.random.default_rng(1).integers(-9, 9, shape).astype("f")
    x[..., -1] = np.nan
    values, indices = scan_cpu.extremes("max", x, dim, "f")
    np.testing.assert_array_equal(values, np.maximum.accumulate(x, dim))
    moved, at = np.moveaxis(x, dim, 0), np.moveaxis(indices, dim, 0)
    best, place = moved[0].copy(), np.zeros(moved[0].shape, int)
    for k in range(1, len(moved)):
        replaces = (moved[k] >= best) | np.isnan(moved[k])
        best, place = np.where(replaces, moved[k], best), np.where(replaces, k, place)
        np.testing.assert_array_equal(at[k], place)


@pytest.mark.skipif(not _kernels.enabled(), reason="kernels are off")
@pytest.mark.parametrize("letter", ["f", "d"])
def test_narrow_sums_of_small_and_of_large_rows_are_numpys(letter: str):
    for shape in ((1, 600), (3, 50_000)):
        x = np.random.default_rng(0).random(shape).astype(letter)
        np.testing.assert_array_equal(_kernels.scanned("narrow", x, 1), np.cumsum(x, axis=1, dtype=letter))


def test_the_gradient_of_logcumsumexp_does_not_overflow():
    x = tdt.tensor([1.0, 200.0, -300.0, 400.0] * 600, requires_grad=True)
    x.logcumsumexp(0).sum().backward()
    got = x.grad.numpy()
    assert np.isfinite(got).all()
    np.testing.assert_allclose(got.sum(), 2400, rtol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("shape", [(40,), (5, 7, 3), (40, 1)])
def test_scans_and_extremes_of_small_tensors_are_pytorchs(dtype: str, shape: tuple[int, ...]):
    torch = require_torch()
    values = np.random.default_rng(5).integers(-3, 4, shape).astype(dtype)
    if dtype.startswith("float"):
        values.flat[7], values.flat[30] = -0.0, np.nan
    for dim in range(len(shape)):
        for call in (
            lambda t, x, dim=dim: [t.cumsum(x, dim), t.cumprod(x, dim)],
            lambda t, x, dim=dim: [*t.cummax(x, dim), *t.cummin(x, dim)],
            lambda t, x, dim=dim: [*t.max(x, dim), *t.min(x, dim, True)],
            lambda t, x, dim=dim: [t.max(x), t.min(x)],
        ):
            expected = call(torch, torch.tensor(values))
            for _ in range(2):  # by the general dispatch, and by the fast path
                for ours, theirs in zip(call(tdt, tdt.tensor(values)), expected, strict=True):
                    np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
                    assert ours.is_contiguous()


def test_gradients_of_small_scans_are_pytorchs():
    torch = require_torch()
    values = np.random.default_rng(6).standard_normal((4, 9)).astype("f")
    for call in (
        lambda x: x.cumsum(0), lambda x: x.cumprod(1), lambda x: x.cummax(1)[0], lambda x: x.max(0)[0], lambda x: x.min(),
    ):  # fmt: skip
        theirs = torch.tensor(values, requires_grad=True)
        (call(theirs) * 2).sum().backward()
        for _ in range(2):
            ours = tdt.tensor(values, requires_grad=True)
            (call(ours) * 2).sum().backward()
            np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("letter", "fdbhil")
@pytest.mark.parametrize(
    ("shape", "dim"), [((5, 7, 3), 1), ((4, 25, 6, 63), 0), ((3, 2048), 0), ((60, 4, 700), 1), ((3, 0), 0)]
)
def test_extremes_along_any_dimension_and_their_places_are_numpys(shape: tuple[int, ...], dim: int, letter: str):
    """The first of equal ones, or the first NaN; also in calls that are repeated."""
    x = (9 * np.random.default_rng(2).standard_normal(shape)).astype(letter)
    if letter in "fd":
        x.reshape(-1)[::7] = np.nan
    before = tdt.get_num_threads()
    try:
        for threads in (1, 3):
            tdt.set_num_threads(threads)
            for how, keepdim in (("max", False), ("min", True)):
                place = getattr(np, f"arg{how}")(x, dim, keepdims=True)
                value = np.take_along_axis(x, place, dim)
                if not keepdim:
                    place, value = place.squeeze(dim), value.squeeze(dim)
                for _ in range(6):
                    found = getattr(tdt.from_numpy(x), how)(dim, keepdim)
                    np.testing.assert_array_equal(found.values.numpy(), value)
                    np.testing.assert_array_equal(found.indices.numpy(), place)
                    alone = getattr(tdt.from_numpy(x), f"arg{how}")(dim, keepdim)
                    np.testing.assert_array_equal(alone.numpy(), place)
    finally:
        tdt.set_num_threads(before)


def test_the_first_in_order_along_columns_are_those_of_rows_on_every_number_of_threads():
    before = tdt.get_num_threads()
    try:
        for threads in (1, 2):
            tdt.set_num_threads(threads)
            for shape, k in (((40, 30, 50), 5), ((200, 400), 30), ((6, 9, 8), 2)):
                x = tdt.randn(shape)
                rows = x.transpose(-1, -2).contiguous()
                for _ in range(6):
                    found, expected = x.topk(k, -2), rows.topk(k)
                    for one, other in zip(found, expected, strict=True):
                        assert one.is_contiguous() and one.equal(other.transpose(-1, -2))
    finally:
        tdt.set_num_threads(before)


def test_places_of_extremes_of_a_number_are_0_in_every_call():
    x = tdt.tensor(3.0)
    for _ in range(6):
        for place in (x.argmax(), x.argmin(0), x.argmax(-1, True), x.max(0).indices):
            assert place.shape == () and place.item() == 0
