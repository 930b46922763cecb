"""Reductions by generated code: against float64, for strides, types and special values; equal bits for all threads."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
import pytest

import tdt
from tdt import _kernels
from tdt._kernels import _arrays, fold_cpu
from tdt._kernels._fold import FOLDS
from tdt._kernels._threads import PARALLEL, THREADS
from tdt._kernels.fold_cpu import fold, logsumexp, variance

REFERENCES = {
    "sum": np.sum,
    "mean": np.mean,
    "max": np.max,
    "min": np.min,
    "prod": np.prod,
    "norm1": lambda x, axis: np.sum(abs(x), axis),
    "norm2": lambda x, axis: np.sqrt(np.sum(x * x, axis)),
    "norm_inf": lambda x, axis: np.max(abs(x), axis),
    "nansum": np.nansum,
    "nanmean": np.nanmean,
    "count": np.count_nonzero,
}
CASES = [
    ((70, 3, 70, 5), (0, 2)),
    ((40_001,), None),
    ((3, 70), (0, 1)),
    ((5, 1100), (1,)),
    ((1111, 7), (0,)),
    ((3, 300, 90), (1,)),
    ((2100, 33), (0,)),
    ((2, 3, 17, 9), (0, 3)),
]


@pytest.mark.parametrize(
    ("name", "letter"), [*((name, "f") for name in REFERENCES), ("sum", "d"), ("max", "d"), ("sum", "e"), ("mean", "e")]
)
def test_fold_equals_the_reduction_in_double_precision(name: str, letter: str):
    rng = np.random.default_rng(0)
    for shape, axis in CASES if (name, letter) in (("sum", "f"), ("nanmean", "f")) else CASES[3:6:2]:
        values = rng.standard_normal(shape)
        x = (1 + values / 100 if name == "prod" else values).astype(letter)
        x = np.ascontiguousarray(x.T).T if len(shape) == 3 else x
        count = math.prod(shape[d] for d in axis) if axis else x.size
        got = fold(name, x, axis, False, "int64" if name == "count" else None, float(count))
        expected = REFERENCES[name](x.astype("d"), axis)
        scale = (
            REFERENCES["norm2"](x.astype("d"), axis) if name in ("sum", "nansum", "mean", "nanmean") else abs(expected)
        )
        error = {"f": 4e-7, "d": 5e-15, "e": 1e-3}[letter]
        assert got.shape == np.shape(expected)
        assert np.all(np.abs(got - expected) <= error * (scale + np.abs(expected)) + 1e-20), (shape, axis)


@pytest.mark.parametrize(("letter", "error"), [("f", 3e-7), ("d", 1e-13)])
def test_variance_of_numbers_far_from_zero(letter: str, error: float):
    rng = np.random.default_rng(1)
    for shape, axis in CASES:
        x = (100 + 0.01 * rng.standard_normal(shape)).astype(letter)
        count = math.prod(shape[d] for d in axis) if axis else x.size
        got = variance("std", x, axis, False, count, count - 1.0)
        np.testing.assert_allclose(got, np.std(x.astype("d"), axis=axis, ddof=1), rtol=error)


@pytest.mark.parametrize("name", ["sum", "max", "min"])
@pytest.mark.parametrize("axis", [0, 1])
def test_fold_passes_nan_and_infinities_as_numpy_does(name: str, axis: int):
    x = np.random.default_rng(2).integers(-50, 50, (90, 90)).astype("f")
    for k, value in enumerate([np.nan, np.inf, -np.inf, np.nan]):
        x[7 * k, 11 * k] = x[80 - k, 5 * k] = value
    np.testing.assert_allclose(fold(name, x, axis, False), REFERENCES[name](x.astype("d"), axis), rtol=1e-5)


def test_integers_and_bools_are_summed_in_64_bits():
    x = np.full((3, 5000), 200, "B")
    np.testing.assert_array_equal(_kernels.total(x, 1, "int64"), [1_000_000] * 3)
    np.testing.assert_array_equal(_kernels.total(-x.view("b"), 1, "int64"), [280_000] * 3)
    np.testing.assert_array_equal(_kernels.total(x > 0, None, "int64"), 15_000)


@pytest.mark.parametrize("letter", "?bBhHiIl")
@pytest.mark.parametrize("shape", [(7,), (3, 5000), (5000, 3), (40, 4, 30), (0, 4)])
def test_products_of_integers_wrap_around_in_64_bits(letter: str, shape: tuple[int, ...]):
    x = (
        np.random.default_rng(3)
        .integers(0 if letter in "?BHI" else -99, 2 if letter == "?" else 100, shape)
        .astype(letter)
    )
    x[x == 0] = 1
    if x.size and letter == "?":
        x[(-1,) * x.ndim] = False
    for axis in (None, *range(x.ndim)):
        for a in (x, x.T, x[::2]):
            result = tdt.from_numpy(a).prod() if axis is None else tdt.from_numpy(a).prod(axis)
            assert result.dtype is tdt.int64
            np.testing.assert_array_equal(result.numpy(), a.prod(axis, np.int64))


@pytest.mark.parametrize("name", ["sum", "nanmean"])
def test_results_have_equal_bits_for_every_number_of_threads(name: str):
    rng = np.random.default_rng(3)
    before, results = tdt.get_num_threads(), []
    arrays = [rng.standard_normal(s).astype("f") for s in ((600_001,), (30_000, 9), (500, 600))]
    try:
        for threads in (1, 2, 3, 4):
            tdt.set_num_threads(threads)
            results.append([fold(name, x, axis, False).tobytes() for x, axis in itertools.product(arrays, (0, None))])
            results[-1].append(tdt.logsumexp(tdt.tensor(arrays[0].astype("d")), 0).numpy().tobytes())
            results[-1].append(variance("var", arrays[2], 0, False, 500, 499.0).tobytes())
    finally:
        tdt.set_num_threads(before)
    assert all(r == results[0] for r in results)


def test_arrays_with_gaps_and_without_elements_are_left_to_numpy():
    x = np.ones((200, 200), "f")
    assert fold("sum", x[:, ::2], None, False) is None
    assert fold("sum", x[:0], 0, False) is None
    assert fold("max", x.astype("B"), 0, False) is None


@pytest.mark.skipif(not _kernels.enabled(), reason="kernels are off")
@pytest.mark.parametrize("n", [1, 7, 9, 64, 1025])
@pytest.mark.parametrize("name", ["sum", "mean", "amax", "std", "logsumexp"])
def test_a_row_has_one_value_however_many_there_are(name: str, n: int):
    rows = 1 + PARALLEL // n
    x = np.random.default_rng(4).standard_normal((rows, n)).astype("f")
    reduce = getattr(tdt, name)
    many = reduce(tdt.tensor(x), 1).numpy()
    for count in (1, 3):
        few = reduce(tdt.tensor(x[:count]), 1)
        assert few.numpy().tobytes() == reduce(tdt.tensor(x[:count]), (1,)).numpy().tobytes() == many[:count].tobytes()
    assert reduce(tdt.tensor(x[0]), 0).numpy().tobytes() == many[0].tobytes()


@pytest.mark.skipif(not _kernels.enabled(), reason="kernels are off")
@pytest.mark.parametrize("letter", "fdei")
@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 15])
@pytest.mark.parametrize("rows", [16, 37, 20_000])
def test_short_rows_have_the_same_bits_one_by_one_and_side_by_side(rows, n, letter, monkeypatch):
    x = (10 * np.random.default_rng(0).standard_normal((rows, n))).astype(letter)
    x.flat[3] = np.nan if letter != "i" else 0
    found = []
    for short in (fold_cpu.SHORT, 0):
        monkeypatch.setattr(fold_cpu, "SHORT", short)
        monkeypatch.setattr(fold_cpu, "_at_once_by", {})
        names = (
            ("sum", "max", "count") if letter == "i" else ("sum", "mean", "max", "prod", "norm2", "nanmean", "count")
        )
        results = [fold(name, x, (1,), True, "int64" if name == "count" else None, float(n)) for name in names]
        if letter != "i":
            results += [variance("var", x, (1,), False, n, n - 1.0)]
        if letter in "fd":
            results += [logsumexp(x, (1,), False)]
        found.append([a.tobytes() for a in results])
    assert found[0] == found[1]


@pytest.mark.parametrize("letter", "fdi")
@pytest.mark.parametrize(("shape", "axis"), [((200, 5), (0,)), ((20, 50), (0,)), ((7, 20, 9), (1,)), ((7, 20, 9), (0, 1)),
                                             ((129, 32), (0,)), ((300, 100), (0,)), ((1100, 47), (0,)), ((3, 700, 39), (1,)),
                                             ((2600, 64), (0,))])  # fmt: skip
def test_columns_have_the_same_bits_in_one_call_and_by_a_plan(shape, axis, letter, monkeypatch):
    x = (10 * np.random.default_rng(0).standard_normal(shape)).astype(letter)
    count = math.prod(shape[d] for d in axis)

    def results() -> list:
        real = [variance(name, x, axis, True, count, count - 1.0) for name in ("var", "std")] if letter != "i" else []
        names = [name for name in FOLDS if name not in ("centre", "sum_exp")]
        names = [name for name in ("sum", "max", "count", "hash") if letter == "i"] or names
        found = [fold(name, x, axis, False, None, float(count)) for name in names if name not in ("var", "std")]
        return real + found + ([logsumexp(x, axis, False)] if letter != "i" else [])

    with monkeypatch.context() as without_plans:
        without_plans.setattr(THREADS, "count", 1)
        without_plans.setattr(fold_cpu, "_planned", lambda *_: None)
        at_once = results()
    monkeypatch.setattr(fold_cpu, "_at_once", lambda *_: None)
    monkeypatch.setattr(fold_cpu, "_plans", {})
    for a, b in zip(at_once, results(), strict=True):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        assert a.tobytes() == np.ascontiguousarray(b).tobytes()


@pytest.mark.parametrize("shape", [(3, 5), (700, 61)])
@pytest.mark.parametrize("dim", [0, (0, 1)])
def test_logsumexp_over_any_dimensions(shape: tuple[int, int], dim):
    x = np.random.default_rng(5).standard_normal(shape) * 20
    x[0, 1], x[1:, 2] = np.inf, -np.inf
    x[0, 3] = np.nan
    top = np.where(np.isfinite(x), x, 0).max(dim, keepdims=True)
    expected = (np.log(np.exp(x - top).sum(dim, keepdims=True)) + top).squeeze(dim)
    np.testing.assert_allclose(tdt.logsumexp(tdt.tensor(x.astype("f")), dim).numpy(), expected, rtol=3e-7)


def test_the_fast_path_takes_arguments_of_the_right_types_alone():
    x = tdt.ones(2, 3)
    for _ in range(3):
        assert tdt.sum(x, 1).tolist() == [3, 3]
        assert tdt.sum(x, (1,)).tolist() == [3, 3]
        for wrong in (1.0, (1.0,), "1"):
            with pytest.raises(TypeError):
                tdt.sum(x, wrong)
        assert tdt.var(x, 1).tolist() == [0, 0]
        assert tdt.var(x, True).item() == 0
        with pytest.raises(IndexError):
            tdt.sum(x, 2)


def test_a_small_reduction_is_recorded():
    x = tdt.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    for _ in range(3):
        (tdt.sum(x, 1) * tdt.tensor([1.0, 2.0])).sum().backward()
    assert x.grad.tolist() == [[3, 3], [6, 6]]
    with tdt.no_grad():
        assert not tdt.mean(x, 0).requires_grad


@pytest.mark.skipif(not tdt._kernels.enabled(), reason="kernels are off")
@pytest.mark.parametrize(("shape", "dims"), [((4, 8, 8, 8), (0, 2)), ((8, 16, 16), (0, 2)), ((2, 3, 4, 5, 6), (1, 3))])
@pytest.mark.parametrize("name", ["sum", "mean", "max", "var"])
def test_dimensions_with_others_between_them_have_the_same_bits_by_a_prepared_call(name, shape, dims):
    x = np.random.default_rng(3).normal(2, 3, shape).astype(np.float32)
    count, final = math.prod(shape[d] for d in dims), 1 if name == "var" else None
    found = fold_cpu.prepared_fold(name, x.dtype, shape, dims, True, final)(x)
    spread = name == "var"
    expected = variance(name, x, dims, True, count, count - 1) if spread else fold(name, x, dims, True, None, count)
    np.testing.assert_array_equal(found, expected)
    exact = REFERENCES.get(name, functools.partial(np.var, ddof=1))(x.astype(float), axis=dims)
    np.testing.assert_allclose(found.reshape(exact.shape), exact, rtol=1e-5, atol=1e-6)


@pytest.mark.skipif(not _kernels.enabled(), reason="kernels are off")
@pytest.mark.parametrize("shape", [(9, 16), (120, 300)])
def test_arrays_with_gaps_are_folded_as_their_copies(shape: tuple[int, int]):
    x = tdt.from_numpy(np.random.default_rng(3).standard_normal(shape).astype("f"))
    functions = [
        tdt.sum,
        tdt.mean,
        tdt.std,
        tdt.amax,
        tdt.prod,
        tdt.logsumexp,
        tdt.linalg.vector_norm,
        tdt.count_nonzero,
    ]
    for view in (x[:, ::2], x[:, 1:], x[:, :1].expand(shape), x[:1].expand(shape), x.t()[::3]):
        for function, dim in itertools.product(functions, (0, 1, (0, 1))):
            if function is tdt.prod and isinstance(dim, tuple):  # which it refuses
                continue
            expected = function(view.contiguous(), dim=dim)
            for _ in range(5):
                found = function(view, dim=dim)
                assert found.is_contiguous() and found.numpy().tobytes() == expected.numpy().tobytes()


@pytest.mark.skipif(not _kernels.enabled(), reason="kernels are off")
def test_many_repeated_elements_are_not_copied(monkeypatch):
    x = np.broadcast_to(np.ones((1, 1), "f"), (3000, 50))
    assert _kernels.folded("sum", x, (0, 1), False) == 150000
    monkeypatch.setattr("tdt._kernels._arrays.MOST_REPEATED", 1000)
    assert _kernels.folded("sum", x, (0, 1), False) is None and tdt.from_numpy(x).sum().item() == 150000
    assert _kernels.folded("sum", np.ones((3000, 100), "f")[:, ::2], (0, 1), False) == 150000


@pytest.mark.parametrize("letter", "fd")
@pytest.mark.parametrize("name", ["max", "min", "norm_inf"])
def test_extremes_find_nan_at_any_place_and_no_other_number(name, letter):
    rng = np.random.default_rng(0)
    for n in (70, 1000, 1024, 5000, 70_001):
        x = rng.standard_normal((1, n)).astype(letter)
        x[0, rng.integers(n)] = np.inf
        x[0, rng.integers(n)] = -np.inf
        expected = {"max": np.max, "min": np.min, "norm_inf": lambda x: np.abs(x).max()}[name](x)
        assert fold(name, x, (0, 1), False) == fold(name, x, (1,), False)[0] == expected
        for place in {0, n - 1, *rng.integers(0, n, 40).tolist()}:
            before, x[0, place] = x[0, place], np.nan
            assert np.isnan(fold(name, x, (0, 1), False)) and np.isnan(fold(name, x, (1,), False)[0])
            x[0, place] = before


@pytest.mark.skipif(not _kernels.enabled(), reason="kernels are off")
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int32", "uint8", "bool"])
@pytest.mark.parametrize("name", ["sum", "amax", "prod", "all", "count_nonzero", "nansum", "norm"])
def test_large_arrays_with_gaps_fold_to_the_bits_of_contiguous_ones_without_a_copy(name, dtype, monkeypatch):
    if (name in ("prod", "nansum", "norm") and "float" not in dtype) or (name == "amax" and dtype in ("uint8", "bool")):
        return  # which NumPy folds
    x = (tdt.arange(4 * 700 * 600) % 97 - 40).view(2, 2, 700, 600).to(getattr(tdt, dtype))
    x = x + tdt.rand(x.shape).to(x.dtype) if "float" in dtype else x
    parts = [x[:, 1], x[..., 1::2], x[:, :, ::3], x.permute(1, 3, 0, 2)[:, 1:], x[:1, :1, :600].expand(4, 2, 600, 600)]
    calls = [lambda a: getattr(a, name)()]
    if name in ("sum", "amax", "nansum", "norm"):
        calls += [lambda a: getattr(a, name)(dim=-1), lambda a: getattr(a, name)(dim=(-2, -1))]
    expected = [[call(part.contiguous()) for call in calls] for part in parts]
    monkeypatch.setattr(_arrays, "contiguous_copy", None)  # a call of it fails
    for part, results in zip(parts, expected, strict=True):
        for call, result in zip(calls, results, strict=True):
            np.testing.assert_array_equal(call(part).double().numpy(), result.double().numpy())


@pytest.mark.skipif(not _kernels.enabled(), reason="kernels are off")
@pytest.mark.parametrize("shape", [(8, 2000), (130, 64), (4, 6)])
@pytest.mark.parametrize("name", ["sum", "mean", "amax", "prod", "var"])
def test_folds_of_turned_arrays_have_contiguous_results_in_every_call(name, shape):
    x = tdt.rand(shape).t()
    for dim in (0, 1):
        expected = (1, 1) if dim else (shape[0], 1)
        assert all(getattr(x, name)(dim, keepdim=True).stride() == expected for _ in range(6))


def test_counts_of_turned_arrays_have_contiguous_results_in_every_call():
    x = tdt.rand(16, 2, 4, 3).permute(2, 1, 0, 3)
    assert all(x.count_nonzero(3).stride() == (32, 16, 1) for _ in range(6))
