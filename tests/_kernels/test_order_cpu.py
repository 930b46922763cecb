"""Sorting and ranks by keys: NumPy's stable sort, with nan last, equal elements in order and any number of threads."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import tdt
from tdt._kernels import order_cpu
from tdt._kernels._threads import THREADS
from tests.helpers import require_torch

SHAPES = [(40, 30), (5, 300), (2, 2500), (1200, 30)]


def rows(letter: str, shape: tuple[int, int]) -> np.ndarray:
    rng = np.random.default_rng(0)
    x = (rng.standard_normal(shape) * 30).astype(letter)
    x[:, 4] = x[:, 2]
    if letter in "fd":
        x[0, 3], x[:, 5:9] = np.nan, [0.0, -0.0, np.inf, -np.inf]
        x[1, 9] = -np.nan
    return x


@pytest.mark.parametrize("letter", "fdlib")
def test_indices_are_those_of_a_stable_sort(letter: str):
    for shape in SHAPES[:: 1 if letter in "fl" else 2]:
        x, n = rows(letter, shape), shape[1]
        order = np.argsort(x, axis=-1, kind="stable")
        down = np.flip(n - 1 - np.argsort(np.flip(x, -1), axis=-1, kind="stable"), -1)
        np.testing.assert_array_equal(order_cpu.argsort(x, False), order)
        np.testing.assert_array_equal(order_cpu.argsort(x, True), down)
        if letter in "bi":
            continue
        k = n // 3
        np.testing.assert_array_equal(order_cpu.ranked(x, k, "kth"), order[:, k])
        np.testing.assert_array_equal(order_cpu.ranked(x, k, "lowest"), np.sort(order[:, :k], -1))
        np.testing.assert_array_equal(order_cpu.ranked(x, k, "lowest", True), np.sort(down[:, :k], -1))


def test_medians_of_rows_with_nan():
    x = rows("f", (5, 300))
    bad = np.isnan(x)
    order = np.argsort(x, axis=-1, kind="stable")
    expected = np.where(bad.any(-1), bad.argmax(-1), order[:, 149])
    np.testing.assert_array_equal(order_cpu.ranked(x, 149, "median"), expected)
    middle = (300 - bad.sum(-1) - 1) // 2
    np.testing.assert_array_equal(order_cpu.ranked(x, 0, "nanmedian"), order[np.arange(5), middle])
    assert np.isnan(tdt.from_numpy(x).median().item())


def test_public_functions_of_large_tensors_are_pytorchs():
    torch = require_torch()
    rng = np.random.default_rng(1)
    x = rng.standard_normal((60, 50)).astype("f")
    whole = rng.integers(-40, 40, (60, 50))
    for call in (
        lambda t, v: v.sort(0)[0],
        lambda t, v: v.sort(dim=1, descending=True, stable=True)[1],
        lambda t, v: v.topk(7, 0)[0],
        lambda t, v: v.topk(7, 1, largest=False)[0],
        lambda t, v: v.kthvalue(11, 0)[0],
        lambda t, v: v.median(),
        lambda t, v: v.median(1)[0],
        lambda t, v: v.mode(1)[0],
        lambda t, v: v.unique(return_inverse=True)[1],
        lambda t, v: v.unique(return_counts=True)[1],
        lambda t, v: v.unique(),
    ):
        for values in (x, whole):
            np.testing.assert_array_equal(
                call(tdt, tdt.from_numpy(values)).numpy(), call(torch, torch.from_numpy(values)).numpy()
            )


def test_the_order_has_equal_bits_for_every_number_of_threads():
    x = np.random.default_rng(2).standard_normal((300, 200)).astype("f")
    before, results = tdt.get_num_threads(), []
    try:
        for threads in (1, 2, 3, 4):
            tdt.set_num_threads(threads)
            results.append((order_cpu.argsort(x, False).tobytes(), order_cpu.ranked(x, 9, "kth").tobytes()))
    finally:
        tdt.set_num_threads(before)
    assert len(set(results)) == 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(33,), (65,), (5, 7, 3), (40, 1), (40, 2), (40, 3), (40, 5), (2, 3000)])
def test_small_tensors_are_sorted_as_pytorch_does(dtype: str, shape: tuple[int, ...]):
    torch = require_torch()
    values = (np.random.default_rng(2).standard_normal(shape) * 9).round().astype(dtype)
    if dtype.startswith("float"):
        values.flat[::5], values.flat[1::7], values.flat[2] = -0.0, np.nan, np.inf
    for dim in range(len(shape)):
        k = min(3, shape[dim])
        calls = (
            lambda t, x, dim=dim: t.sort(x, dim=dim, stable=True),
            lambda t, x, dim=dim: t.sort(x, dim=dim, descending=True, stable=True),
            lambda t, x, dim=dim, k=k: t.topk(x, k, dim).values,
            lambda t, x, dim=dim, k=k: t.topk(x, k, dim, False).values,
            lambda t, x, dim=dim: t.median(x, dim).values,
            lambda t, x, dim=dim: t.nanmedian(x, dim, True).values,
            lambda t, x, dim=dim, k=k: t.kthvalue(x, k, dim, True).values,
        )
        for call in calls if dtype == "float32" else calls[::3]:
            expected = call(torch, torch.tensor(values))
            for _ in range(2):  # by the general dispatch, and by the fast path
                got = call(tdt, tdt.tensor(values))
                for ours, theirs in zip(*([r] if hasattr(r, "dtype") else r for r in (got, expected)), strict=True):
                    np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
    for whole in ("median", "nanmedian"):
        ours, theirs = (getattr(x, whole)() for x in (tdt.tensor(values), torch.tensor(values)))
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


def test_gradients_of_small_sorted_tensors_go_to_their_places():
    x = tdt.tensor(np.random.default_rng(3).permutation(40).astype("f").reshape(8, 5), requires_grad=True)
    for call in (
        lambda x: x.sort(0)[0][1],
        lambda x: x.topk(2, 0)[0][1],
        lambda x: x.median(0)[0],
        lambda x: x.median(),
    ):
        for _ in range(2):
            x.grad = None
            call(x).sum().backward()
            chosen = call(x.detach()).numpy().reshape(-1)
            np.testing.assert_array_equal(x.grad.numpy() != 0, np.isin(x.detach().numpy(), chosen))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32"])
@pytest.mark.parametrize("shape", [(3, 1000), (200, 33), (2, 70_001), (1, 16)])
def test_the_first_of_a_row_are_those_of_a_stable_sort_one_by_one_and_by_vectors(dtype, shape, monkeypatch):
    values = (5 * np.random.default_rng(0).standard_normal(shape)).astype(dtype)
    if dtype.startswith("float"):
        for step, special in ((37, np.nan), (41, -0.0), (43, 0.0), (29, np.inf)):
            values.flat[5::step] = special
    monkeypatch.setattr(THREADS, "elementwise", sys.maxsize)
    for x in (tdt.tensor(values), tdt.tensor(values.T.copy()).T):
        for k, largest in ((1, True), (5, False), (16, True), (20, False), (200, True)):
            if k > shape[1]:
                continue
            expected = tdt.sort(x, dim=1, descending=largest, stable=True)
            for _ in range(2):  # by the general dispatch, and by the fast path
                found = tdt.topk(x, k, 1, largest)
                for a, b in zip(found, expected, strict=True):
                    np.testing.assert_array_equal(a.numpy(), b.numpy()[:, :k])
