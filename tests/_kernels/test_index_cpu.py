"""Taking and placing by indices: against NumPy, errors included; equal bits for every number of threads."""

from __future__ import annotations

import os

import numpy as np
import pytest

import tdt
from tdt import _kernels
from tdt._kernels import index_cpu
from tests.helpers import require_torch

SHAPES = [((30, 40, 5), 1), ((1, 100, 70), 1), ((3000,), 0), ((7, 300), 1)]


def grid(shape: tuple[int, ...], index: np.ndarray, dim: int) -> tuple:
    return tuple(index if k == dim else np.arange(n).reshape([-1 if j == k else 1 for j in range(len(shape))])
                 for k, n in enumerate(shape))  # fmt: skip


@pytest.mark.parametrize(("shape", "dim"), SHAPES)
def test_take_and_put_equal_numpy(shape: tuple[int, ...], dim: int):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape).astype("f")
    index = rng.integers(0, shape[dim], shape)
    np.testing.assert_array_equal(index_cpu.take(x, index, dim, False), np.take_along_axis(x, index, dim))
    if len(shape) > 1:
        rows = rng.integers(0, shape[dim], 50)
        np.testing.assert_array_equal(index_cpu.take(x, rows - shape[dim], dim, True), np.take(x, rows, dim))
    source = rng.standard_normal(shape).astype("f")
    for how, ufunc in (("sum", np.add), ("amax", np.maximum)):
        got, expected = x.copy(), x.copy()
        assert index_cpu.put(got, index, source, dim, how, False)
        ufunc.at(expected, grid(shape, index, dim), source)
        np.testing.assert_array_equal(got, expected)


def test_an_index_out_of_range_is_refused():
    x = tdt.zeros(50, 60)
    index = tdt.zeros((50, 60), dtype=tdt.int64)
    index[49, 59] = 60
    with pytest.raises(RuntimeError, match="index 60 is out of bounds for dimension 1 with size 60"):
        x.gather(1, index)
    with pytest.raises(RuntimeError, match="out of bounds"):
        x.scatter_add(1, index, x)
    with pytest.raises(RuntimeError, match="out of range"):
        x.index_add(0, tdt.arange(50) + 1, x)
    with pytest.raises(IndexError, match="out of range"):
        x.index_select(0, tdt.arange(51))
    assert index_cpu.take(x.numpy(), index.numpy(), 1, False) is None


@pytest.mark.skipif(os.environ.get("TDT_KERNELS") == "reference", reason="kernels are off")
def test_placed_values_have_equal_bits_for_every_number_of_threads():
    rng = np.random.default_rng(1)
    index, source = rng.integers(0, 9, 4000), rng.standard_normal((4000, 200)).astype("f")
    before, results = tdt.get_num_threads(), []
    try:
        for threads in (1, 2, 3, 4):
            tdt.set_num_threads(threads)
            out = np.zeros((9, 200), "f")
            assert _kernels.placed(out, index, source, 0, "sum")
            results.append((out.tobytes(), _kernels.taken(source, index, 0).tobytes()))
    finally:
        tdt.set_num_threads(before)
    assert len(set(results)) == 1


@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("shape", [(60,), (9, 8), (3, 5, 7)])
def test_small_tensors_are_indexed_as_pytorch_does(dtype: str, shape: tuple[int, ...]):
    torch = require_torch()
    rng = np.random.default_rng(3)
    values = rng.integers(-9, 9, shape).astype(dtype)
    for dim, n in enumerate(shape):
        index, vector = rng.integers(0, n, shape), rng.integers(0, n, 40)
        added = rng.integers(-9, 9, (*shape[:dim], 40, *shape[dim + 1 :])).astype(dtype)
        ours, theirs = ([t.tensor(a) for a in (values, index, vector, added)] for t in (tdt, torch))
        for call in (
            lambda t, x, i, v, a, dim=dim: t.gather(x, dim, i),
            lambda t, x, i, v, a, dim=dim: t.scatter_add(x, dim, i, x),
            lambda t, x, i, v, a, dim=dim: t.index_select(x, dim, v),
            lambda t, x, i, v, a, dim=dim: t.index_add(x, dim, v, a),
        ):
            got = call(tdt, *ours)
            np.testing.assert_array_equal(got.numpy(), call(torch, *theirs).numpy())
            assert got.is_contiguous()
        index.flat[5] = n
        with pytest.raises(RuntimeError, match="out of bounds"):
            tdt.gather(ours[0], dim, tdt.tensor(index))
        with pytest.raises(RuntimeError, match="out of bounds"):
            tdt.scatter_add(ours[0], dim, tdt.tensor(index), ours[0])


@pytest.mark.parametrize("shape", [(5,), (7, 33), (3, 6, 40), (2, 3, 4, 5)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32"])
def test_entries_are_added_in_order_by_a_vector_or_one_that_was_expanded(dtype: str, shape: tuple[int, ...]):
    rng = np.random.default_rng(5)
    for dim, n in enumerate(shape):
        for count in (1, 50):
            size = (*shape[:dim], count, *shape[dim + 1 :])
            x, source = ((rng.standard_normal(s) * 9).astype(dtype) for s in (shape, size))
            index = rng.integers(0, n, count)
            expected = x.copy()
            for k, place in enumerate(index):
                expected[(slice(None),) * dim + (place,)] += source.take(k, dim)
            t, i, strided = (
                tdt.from_numpy(x),
                tdt.from_numpy(index),
                tdt.from_numpy(source.T.copy()).permute(*range(len(shape))[::-1]),
            )
            spread = i.reshape([count if k == dim else 1 for k in range(len(shape))]).expand(size)
            for added in (tdt.from_numpy(source), strided):
                for result in (
                    t.index_add(dim, i, added),
                    t.scatter_add(dim, spread, added),
                    t.clone().index_add_(dim, i, added),
                ):
                    np.testing.assert_array_equal(result.numpy(), expected)
            i[-1] = n
            for call in (
                t.index_add,
                lambda dim, i, source: t.scatter_add(dim, spread, source),
            ):  # spread is a view of i
                with pytest.raises((IndexError, RuntimeError), match="out of"):
                    call(dim, i, tdt.from_numpy(source))


@pytest.mark.parametrize("shape, count", [((70, 9), 40), ((3, 20, 6), 33), ((2, 3, 300, 5), 600)])
def test_an_expanded_index_names_whole_entries(shape: tuple[int, ...], count: int):
    torch = require_torch()
    rng = np.random.default_rng(6)
    for dim in range(len(shape) - 1):
        size = (*shape[:dim], count, *shape[dim + 1 :])
        x, source = (rng.integers(-9, 9, s).astype(np.float32) for s in (shape, size))
        of_each = rng.integers(0, shape[dim], (*shape[:dim], count, *[1] * (len(shape) - dim - 1)))
        results = []
        for t in (torch, tdt):
            index = t.tensor(of_each).expand(size)
            a, b = t.tensor(x, requires_grad=True), t.tensor(source, requires_grad=True)
            for _ in range(3):  # the third call of a kind is prepared
                ways = [
                    t.gather(a, dim, index),
                    t.scatter_add(a, dim, index, b),
                    t.scatter(a.detach(), dim, index, 2.5),
                ]
                ways += [
                    t.scatter_reduce(a.detach(), dim, index, b.detach(), how, include_self=own)
                    for how in ("mean", "amax") for own in (True, False)
                ]  # fmt: skip
                grads = *t.autograd.grad((ways[0] * b).sum(), (a, b)), *t.autograd.grad((ways[1] ** 2).sum(), (a, b))
            results.append([y.detach().numpy() for y in (*ways, *grads)])
        for found, expected in zip(results[1], results[0], strict=True):
            np.testing.assert_allclose(found, expected, rtol=2e-7)
        with pytest.raises(RuntimeError, match="out of bounds"):
            tdt.gather(tdt.tensor(x), dim, tdt.tensor(of_each + shape[dim]).expand(size))


def test_nothing_is_added_to_a_tensor_without_elements():
    source, index = tdt.ones(40, 9), tdt.zeros((40, 9), dtype=tdt.int64)
    with pytest.raises(RuntimeError, match="index 0 is out of bounds"):
        tdt.zeros(0, 9).scatter_add(0, index, source)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="out of range"):
            tdt.zeros(0, 9).index_add(0, index[:, 0], source)


@pytest.mark.filterwarnings("ignore:torch.searchsorted")  # operands with gaps take longer there
@pytest.mark.parametrize("right", [False, True])
def test_small_tensors_are_searched_as_pytorch_does(right: bool):
    torch = require_torch()
    rng = np.random.default_rng(4)
    edges, x = np.sort(rng.integers(-5, 6, (3, 12)), -1).astype("f"), rng.integers(-7, 8, (3, 20)).astype("f")
    x[0, 3], edges[1, 10:] = np.nan, np.nan
    wide = np.repeat(x, 4, 1)[:, :77]  # searched for in vectors
    cases = (
        (edges, x),
        (edges[1], x),
        (edges[0].astype("l"), x[1:].astype("l")),
        (edges, wide),
        (edges.astype("d"), wide),
    )
    many = np.sort(wide, -1)
    for e, v in (*cases, (edges[:, ::2], wide), (many, wide), (many[1:].astype("l"), wide[1:].astype("l"))):
        for small in (False, True):
            ours, theirs = (
                t.searchsorted(t.from_numpy(e), t.tensor(v), right=right, out_int32=small) for t in (tdt, torch)
            )
            assert ours.dtype is (tdt.int32 if small else tdt.int64)
            np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int16", "bool"])
def test_few_rows_by_an_index_are_those_of_numpy_and_an_index_out_of_range_is_refused(dtype):
    rng = np.random.default_rng(0)
    for shape in ((33, 30), (5, 4, 9), (70,)):
        x = (rng.standard_normal(shape) * 9).astype(dtype)
        index = rng.integers(0, shape[0], 40)
        t, i = tdt.from_numpy(x), tdt.from_numpy(index)
        np.testing.assert_array_equal(t.index_select(0, i).numpy(), x[index])
        if len(shape) == 2:
            np.testing.assert_array_equal(tdt.nn.functional.embedding(i, t).numpy(), x[index])
        for bad in (-1, shape[0]):
            i[7] = bad
            with pytest.raises(IndexError, match="out of range"):
                t.index_select(0, i)
            if len(shape) == 2:
                with pytest.raises(IndexError, match="out of range"):
                    tdt.nn.functional.embedding(i, t)


@pytest.mark.parametrize("bad", [-1, 9])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_few_elements_by_an_index_out_of_range_are_refused_and_nothing_is_written(dim, bad):
    x, source = tdt.rand(9, 9), tdt.ones(9, 9)
    index = tdt.randint(9, (9, 9))
    index[4, 5] = bad
    before = x.clone()
    for call in (lambda: x.gather(dim, index), lambda: x.scatter_add(dim, index, source)):
        with pytest.raises(RuntimeError, match=f"index {bad} is out of bounds for dimension"):
            call()
    assert tdt.equal(x, before)
