"""Numbers at the limits of dtypes: values, errors and versions are PyTorch's."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

import tdt
from tests.helpers import require_torch

DTYPES = ["uint8", "int64", "uint64", "float16", "bfloat16", "float32", "complex64", "bool"]
NUMBERS = [300, -1, True, 2**31, 2**63, 2**64, -(2**63) - 1, 1e40, 70000.0, float("inf"), 1j]


def outcome(lib: ModuleType, compute: Any) -> tuple:
    """The values and dtype of a result, or the class of the error."""
    try:
        x = compute(lib)
    except (IndexError, NotImplementedError, OverflowError, RuntimeError, TypeError, ValueError) as error:
        return (type(error),)
    return str(x.tolist()), str(x.dtype).rpartition(".")[2]


def assert_same(compute: Any) -> None:
    assert outcome(tdt, compute) == outcome(require_torch(), compute)


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_to_fill_with_have_pytorchs_limits(dtype: str, number: Any):
    assert_same(lambda lib: lib.full((2,), number, dtype=getattr(lib, dtype)))
    assert_same(lambda lib: lib.zeros(2, dtype=getattr(lib, dtype)).fill_(number))
    assert_same(lambda lib: lib.zeros(0, dtype=getattr(lib, dtype)).fill_(number))
    if dtype != "uint64":
        assert_same(lambda lib: lib.zeros(2, dtype=getattr(lib, dtype)).masked_fill(lib.ones(2) > 0, number))


WITH_A_NUMBER = {
    "add": lambda lib, x, n: lib.add(x, x, alpha=n),
    "add_": lambda lib, x, n: x.add_(x, alpha=n),
    "addcmul": lambda lib, x, n: lib.addcmul(x, x, x, value=n),
    "addcmul_": lambda lib, x, n: x.addcmul_(x, x, value=n),
    "addcdiv": lambda lib, x, n: lib.addcdiv(x, x, x, value=n),
    "clamp": lambda lib, x, n: lib.clamp(x, 0, n),
    "clamp_": lambda lib, x, n: x.clamp_(min=n),
    "celu": lambda lib, x, n: lib.celu(x, n),
    "elu": lambda lib, x, n: lib.nn.functional.elu(x, n),
    "hardshrink": lambda lib, x, n: lib.hardshrink(x, n),
    "hardtanh": lambda lib, x, n: lib.nn.functional.hardtanh(x, 0, n),
    "index_add": lambda lib, x, n: x.index_add(0, lib.tensor([0]), x[:1], alpha=n),
    "isin": lambda lib, x, n: lib.isin(x, min(n, 2**62)),
    "leaky_relu": lambda lib, x, n: lib.nn.functional.leaky_relu(x, n),
    "lerp": lambda lib, x, n: lib.lerp(x, x, n),
    "constant_pad_nd": lambda lib, x, n: lib.constant_pad_nd(x, (1, 1), n),
    "softplus": lambda lib, x, n: lib.nn.functional.softplus(x, n).round(decimals=4),
    "threshold": lambda lib, x, n: lib.threshold(x, n, 1),
    "threshold_": lambda lib, x, n: lib.threshold_(x, 0, n),
    "where": lambda lib, x, n: lib.where(x > 0, x, n),
}


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64", "float16", "float32"])
@pytest.mark.parametrize("name", WITH_A_NUMBER)
def test_numbers_beside_a_tensor_have_pytorchs_limits(name: str, dtype: str):
    for number in [n for n in NUMBERS if n != 1j and not 2**63 < abs(n) < float("inf")]:
        assert_same(lambda lib, n=number: WITH_A_NUMBER[name](lib, lib.tensor([1, 0, 1], dtype=getattr(lib, dtype)), n))


@pytest.mark.parametrize("number", [*(n for n in NUMBERS if n != float("inf")), 0j, 1 + 0j])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64", "complex64"])
def test_factors_of_sums_with_products_have_pytorchs_limits(dtype: str, number: Any):
    def summed(lib: ModuleType, factor: str) -> Any:
        x = lib.ones(2, 2, dtype=getattr(lib, dtype))
        return lib.addmm(x, x, x, **{factor: number})

    for factor in ("alpha", "beta"):
        assert_same(lambda lib, factor=factor: summed(lib, factor))


@pytest.mark.parametrize("decimals", [38, 39, 308, 309, 400, -38, -39, -309, -400])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_numbers_are_rounded_to_decimals_beyond_those_of_a_dtype(dtype: str, decimals: int):
    assert_same(lambda lib: lib.tensor([0.0, 2.5, -1.0], dtype=getattr(lib, dtype)).round(decimals=decimals))


@pytest.mark.parametrize("ends", [(0, 10, -1), (0, 10, 0), (10, 0, 1), (0, 10, float("nan")), (0, 2**63), (0, 2**70)])
@pytest.mark.parametrize("dtype", [None, "int32", "int64", "float32"])
def test_arange_refuses_what_pytorch_does(dtype: str | None, ends: tuple):
    assert_same(lambda lib: lib.arange(*ends, dtype=dtype and getattr(lib, dtype)))


@pytest.mark.parametrize(("dtype", "n"), [("bfloat16", 300), ("bfloat16", 2**16), ("float16", 2050), ("int8", 300)])
def test_permutations_may_be_longer_than_bfloat16_can_tell_apart(dtype: str, n: int):
    def permutation(lib: ModuleType) -> Any:
        lib.manual_seed(0)
        return lib.randperm(n, dtype=getattr(lib, dtype))

    assert_same(permutation)


@pytest.mark.parametrize("dtype", ["int64", "bool", "complex64"])
@pytest.mark.parametrize(
    "fill", ["normal_", "exponential_", "log_normal_", "geometric_", "random_", "cauchy_", "uniform_"]
)
def test_random_numbers_of_an_empty_tensor(fill: str, dtype: str):
    args = (0.5,) if fill == "geometric_" else ()
    assert_same(lambda lib: getattr(lib.zeros(0, dtype=getattr(lib, dtype)), fill)(*args))


@pytest.mark.parametrize("shape", [(7, 3), (3, 7), (4, 3), (3, 3), (4, 4, 4)])
def test_fill_diagonal_counts_pytorchs_writes(shape: tuple[int, ...]):
    def version(lib: ModuleType, dtype: str) -> int:
        x = lib.zeros(shape, dtype=getattr(lib, dtype))
        x.fill_diagonal_(1.0, wrap=True)
        return x._version

    for dtype in ("float32", "int16"):
        assert version(tdt, dtype) == version(require_torch(), dtype)


@pytest.mark.parametrize("source", [(), (1,), (2,), (1, 3), (2, 3), (2, 4)])
@pytest.mark.parametrize("index", [[0], [1, 0], [0, 5], [0, -1], [[0, 1]]])
@pytest.mark.parametrize("shape", [(4, 3), (3,), ()])
def test_index_functions_refuse_what_pytorch_does(shape: tuple[int, ...], index: list, source: tuple[int, ...]):
    def run(lib: ModuleType, name: str, *args: Any) -> Any:
        return getattr(lib.ones(shape), name)(0, lib.tensor(index), lib.full(source, 2.0), *args)

    assert_same(lambda lib: run(lib, "index_add"))
    assert_same(lambda lib: run(lib, "index_copy"))
    for reduce in ("amax", "prod"):
        assert_same(lambda lib, reduce=reduce: run(lib, "index_reduce", reduce))


@pytest.mark.parametrize("index", [[], [0], [1, 0]])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_index_functions_refuse_a_source_without_dimensions(dim: int, index: list):
    def run(lib: ModuleType, name: str, *args: Any) -> Any:
        return getattr(lib.ones(4, 3), name)(dim, lib.tensor(index, dtype=lib.int64), lib.tensor(2.0), *args)

    for name, args in (("index_add", ()), ("index_copy", ()), ("index_reduce", ("amax",))):
        assert_same(lambda lib, name=name, args=args: run(lib, name, *args))


@pytest.mark.parametrize("number", [300, 2**40, float("nan")])
@pytest.mark.parametrize("size", [(0, 3), (2, 0), (1, 1)])
def test_a_number_is_not_looked_at_where_no_index_places_it(size: tuple[int, ...], number: float):
    def scatter(lib: ModuleType) -> Any:
        return lib.zeros(2, 3, dtype=lib.int8).scatter(0, lib.zeros(size, dtype=lib.int64), number)

    assert_same(scatter)


SUMMED = {
    "sum": lambda x, dim: x.sum(dim),
    "mean": lambda x, dim: x.mean(dim),
    "nansum": lambda x, dim: x.nansum(dim),
    "cumsum": lambda x, dim: x.cumsum(dim),
    "logcumsumexp": lambda x, dim: x.logcumsumexp(dim).select(dim, 0),
    "pooled": lambda x, dim: tdt.nn.functional.avg_pool1d(x[None], 1),
    "compiled": tdt.compile(lambda x, dim: (x * 1).sum(dim)),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("how", SUMMED)
def test_a_sum_of_negative_zeros_is_zero_in_any_layout(how: str, dtype: str):
    """As of a sum that begins at 0, as PyTorch's do; of one element as of many."""
    for shape in ((1, 1), (2, 3), (7, 5), (40, 300)):
        x = tdt.full(shape, -0.0, dtype=getattr(tdt, dtype))
        for layout in (x, x.T, x[:, ::2]):
            assert not any(SUMMED[how](layout, dim).signbit().any() for dim in (0, 1)), (shape, layout.stride())
    assert not tdt.dot(x[0, :1], tdt.ones(1, dtype=x.dtype)).signbit()
