"""Generated code of integers: NumPy's results for all values, layouts and sizes; divisions by numbers of any size."""

from __future__ import annotations

import numpy as np
import pytest

import tdt
from tdt._kernels import _integers, enabled, from_formula
from tdt._kernels.expression import Expression

DTYPES = ["int8", "uint8", "int16", "int32", "int64", "uint32", "uint64"]
SIZES = [1, 2, 7, 33, 1000, 70_001]
FORMULAS = {
    "add": lambda xp, x, y: x + y,
    "products": lambda xp, x, y: x * y - y,
    "maximum": lambda xp, x, y: xp.maximum(x, y),
    "minimum": lambda xp, x, y: xp.minimum(x, y),
    "where": lambda xp, x, y: xp.where(x > y, x, y * y),
    "bits": lambda xp, x, y: (x & y) ^ ~(x | y),
    "logical": lambda xp, x, y: xp.logical_and(x, y) | ~(x == y),
    "absolute": lambda xp, x, y: xp.absolute(x) - -y,
    "sign": lambda xp, x, y: xp.sign(x) * xp.square(y),
}


def values(dtype: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Two arrays with the smallest and the largest numbers, few digits and many."""
    info, rng = np.iinfo(dtype), np.random.default_rng(n)
    x = rng.integers(info.min, info.max, n, dtype=dtype, endpoint=True)
    y = x[::-1] >> rng.integers(0, 8 * np.dtype(dtype).itemsize, n).astype(dtype)
    edges = np.array([info.min, info.max, info.min + 1, info.max - 1, 0, 1], dtype)[:n]
    x[: len(edges)] = edges
    return x, y


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FORMULAS)
def test_formulas_have_numpys_values_at_any_size_and_stride(name, dtype):
    function = from_formula(f"integers_{name}", FORMULAS[name], 2, ())[0]
    for n in SIZES:
        x, y = values(dtype, n)
        for part in (np.s_[:], np.s_[::2], np.s_[::-1]):
            expected = FORMULAS[name](np, x[part], y[part])
            found = function(np, x[part], y[part])
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)
    assert (function.function_for((x, y), {}) is not None) == enabled()


@pytest.mark.parametrize("dtype", DTYPES[:5])
@pytest.mark.parametrize("call", ["x // y", "x % y", "t.fmod(x, y)", "t.div(x, y, rounding_mode='trunc')"])
def test_divisions_are_exact_for_all_values(call, dtype):
    for n in SIZES:
        x, y = values(dtype, n)
        y[y == 0] = 3
        exact_x, exact_y = x.astype(object), y.astype(object)
        down, towards = exact_x // exact_y, abs(exact_x) // abs(exact_y) * np.sign(exact_x) * np.sign(exact_y)
        expected = {"//": down, "%": exact_x - down * exact_y, "fmod": exact_x - towards * exact_y, "div": towards}
        which = next(key for key in expected if key in call)
        wrapped = np.array([int(v) for v in expected[which]], object) & (2 ** (8 * x.itemsize) - 1)
        found = eval(call, {"t": tdt, "x": tdt.from_numpy(x), "y": tdt.from_numpy(y)}).numpy()
        np.testing.assert_array_equal(found.view(f"u{x.itemsize}").astype(object), wrapped)


@pytest.mark.parametrize("dtype", DTYPES[:5])
def test_divisions_by_zero_are_refused_beside_any_numbers(dtype):
    x = tdt.ones(50_000, dtype=getattr(tdt, dtype))
    y = x.clone()
    y[-1] = 0
    for call in (
        lambda: x // y,
        lambda: x % y,
        lambda: x.fmod(y),
        lambda: x.div(y, rounding_mode="trunc"),
        lambda: x // 0,
    ):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            call()


@pytest.mark.parametrize("dtype", DTYPES[:5])
def test_shifts_by_all_counts(dtype):
    bits = 8 * np.dtype(dtype).itemsize
    for n in SIZES:
        x, _ = values(dtype, n)
        counts = np.resize(np.arange(max(-3, np.iinfo(dtype).min), bits + 3).astype(dtype), n)
        inside, few = (counts >= 0) & (counts < bits), np.clip(counts, 0, bits - 1).astype(dtype)
        left = np.where(inside, np.left_shift(x, few), 0)
        right = np.where(inside, np.right_shift(x, few), np.where(x < 0, -1, 0))
        t, u = tdt.from_numpy(x), tdt.from_numpy(counts)
        np.testing.assert_array_equal((t << u).numpy(), left)
        np.testing.assert_array_equal((t >> u).numpy(), right)
        np.testing.assert_array_equal(
            (t << int(counts[-1])).numpy(), np.left_shift(x, few[-1]) if inside[-1] else 0 * x
        )


def test_formulas_that_integers_do_not_have_are_left_to_numpy():
    for formula in (lambda xp, x: x * 0.5, lambda xp, x: xp.exp(x), lambda xp, x: xp.sqrt(x)):
        function = from_formula("no_integers", formula, 1, ())[0]
        assert function.function_for((np.arange(3),), {}) is None
        np.testing.assert_array_equal(function(np, np.arange(3)), formula(np, np.arange(3)))
    assert not _integers.are_integral(Expression("constant", 0.5))
    scaled = from_formula("scaled_integers", lambda xp, x, *, factor: x * factor, 1, ("factor",))[0]
    np.testing.assert_array_equal(scaled(np, np.arange(3), factor=1.5), [0, 1.5, 3])


IN_PLACE = [
    "add_(y)",
    "mul_(3)",
    "sub_(1)",
    "relu_()",
    "clamp_(1, 3)",
    "exp_()",
    "bitwise_xor_(y)",
    "masked_fill_(y > 1, 2)",
]


@pytest.mark.parametrize("dtype", ["int32", "uint8", "float32", "float64", "bfloat16"])
@pytest.mark.parametrize("call", IN_PLACE)
def test_writes_into_arrays_with_gaps_are_those_into_contiguous_ones(call, dtype):
    if call == ("exp_()" if "int" in dtype else "bitwise_xor_(y)"):
        return
    for rows, columns in ((5, 9), (300, 200)):
        y = (tdt.arange(rows * columns) % 5).view(rows, columns).to(getattr(tdt, dtype))
        expected = eval(f"x.{call}", {"x": (y * 3 % 7).contiguous(), "y": y})
        for part in (
            lambda a: a[:, ::2],
            lambda a: a[::2, :columns],
            lambda a: a.mT[: a.shape[1] // 2, : a.shape[0] // 2].mT,
        ):
            whole = tdt.full((2 * rows, 2 * columns), 7, dtype=y.dtype)
            x = part(whole)[:rows, :columns]
            x.copy_(y * 3 % 7)
            version = x._version
            assert eval(f"x.{call}", {"x": x, "y": y}) is x
            assert x._version == version + 1
            assert tdt.equal(x, expected)
            x.fill_(7)
            assert bool((whole == 7).all())


def test_writes_into_expanded_arrays_are_refused():
    x = tdt.zeros(1, 3, dtype=tdt.int32).expand(4, 3)
    with pytest.raises(RuntimeError, match="single memory location"):
        x.add_(1)
    assert x[0].tolist() == [0, 0, 0]
