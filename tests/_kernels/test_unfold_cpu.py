"""Columns of images by generated code: the portable code's bits, for windows of every kind."""

import sys

import numpy as np
import pytest

import tdt
from tdt._kernels._threads import THREADS
from tdt._ops.nn.fold import _FOLD, _UNFOLD, _col2im, _im2col
from tests._kernels.guarded import at_the_end
from tests.helpers import require_torch

F = tdt.nn.functional


def windows(rng):
    """Settings, sizes of images that at least one window fits into, and of the columns."""
    while True:
        kernel, stride, padding, dilation = (tuple(int(n) for n in rng.integers(low, 5, 2)) for low in (1, 1, 0, 1))
        size = tuple(int(n) for n in rng.integers(1, 9, 2))
        out = [(n + 2 * p - d * (k - 1) - 1) // s + 1
               for n, k, s, p, d in zip(size, kernel, stride, padding, dilation, strict=True)]  # fmt: skip
        if min(out) >= 1:
            how = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation}
            yield how, size, out[0] * out[1]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bool", "complex64"])
def test_small_windows_have_the_bits_of_portable_code(dtype):
    rng = np.random.default_rng(5)
    source = windows(rng)
    for _ in range(150):
        how, size, places = next(source)
        x = rng.standard_normal((2, 3, *size)).astype(dtype)
        columns = rng.standard_normal((2, 3 * how["kernel"][0] * how["kernel"][1], places)).astype(dtype)
        if dtype == "float32":
            x.flat[0], columns.flat[0] = np.nan, np.inf
        if dtype == "float32" and tdt.backends.kernels.enabled():
            assert _UNFOLD[0].when((x,), {"cells": columns.size})
            assert _FOLD[0].when((columns,), {"cells": columns.size})
        found = [(_im2col.forward(np, x, **how), _col2im.forward(np, columns, size=size, **how))]
        with tdt.backends.kernels(False):
            found.append((_im2col.forward(np, x, **how), _col2im.forward(np, columns, size=size, **how)))
        for a, b in zip(*found, strict=True):
            assert a.shape == b.shape
            assert a.dtype == b.dtype
            assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("step", [1, 2])
def test_wide_images_have_the_bits_of_portable_code_on_one_thread_and_several(step, monkeypatch):
    rng = np.random.default_rng(1)
    how = {"kernel": (3, 2), "stride": (step, step), "padding": (1, 1), "dilation": (1, 2)}
    x = rng.standard_normal((5, 7, 33, 45)).astype(np.float32)
    with tdt.backends.kernels(False):
        columns = _im2col.forward(np, x, **how)
        g = rng.standard_normal(columns.shape).astype(np.float32)
        image = _col2im.forward(np, g, size=(33, 45), **how)
    before = tdt.get_num_threads()
    for threads, elements in ((1, sys.maxsize), (3, 0)):
        tdt.set_num_threads(threads)
        monkeypatch.setattr(THREADS, "elementwise", elements)
        np.testing.assert_array_equal(_im2col.forward(np, x, **how), columns)
        np.testing.assert_array_equal(_col2im.forward(np, g, size=(33, 45), **how), image)
    tdt.set_num_threads(before)


@pytest.mark.parametrize(("kernel", "padding"), [(1, 0), (2, 0), (3, 1)])
def test_every_other_pixel_of_rows_of_any_width_is_read_where_it_is(kernel, padding):
    how = {"kernel": (1, kernel), "stride": (1, 2), "padding": (0, padding), "dilation": (1, 1)}
    for width in range(kernel, 42):
        x = at_the_end(np.random.default_rng(width).standard_normal((2, 3, width), np.float32))[:, None]
        found = _im2col.forward(np, x, **how)
        with tdt.backends.kernels(False):
            np.testing.assert_array_equal(found, _im2col.forward(np, x, **how))


@pytest.mark.parametrize("turned", [False, True])
def test_later_calls_and_gradients_are_pytorchs(turned):
    torch = require_torch()
    rng = np.random.default_rng(6)
    source = windows(rng)
    for _ in range(20):
        how, size, _ = next(source)
        settings = {"dilation": how["dilation"], "padding": how["padding"], "stride": how["stride"]}
        for _ in range(2):
            x = rng.standard_normal((2, 3, *size)).astype(np.float32)
            x = x.transpose(1, 0, 2, 3) if turned else x
            found = []
            for lib in (tdt, torch):
                image = lib.from_numpy(x).requires_grad_()
                columns = lib.nn.functional.unfold(image, how["kernel"], **settings)
                again = lib.nn.functional.fold(columns, size, how["kernel"], **settings)
                weight = lib.arange(float(again.numel())).reshape(again.shape)
                found.append([t.detach().numpy() for t in (columns, again, *lib.autograd.grad(again, image, weight))])
            for a, b in zip(*found, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
