"""Determinants, inverses, solutions, LU and QR decompositions of small matrices by machine code, beside LAPACK's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg

import tdt
from tdt import _kernels
from tdt._kernels import small_elimination

pytestmark = pytest.mark.skipif(not _kernels.enabled(), reason="kernels are off")
SHAPES = [(1, 1), (2, 2), (3, 7), (7, 3), (16, 16), (31, 9), (32, 32)]
DTYPES = ["f4", "f8"]


def matrices(shape: tuple[int, int], dtype: str) -> np.ndarray:
    return np.random.default_rng(shape[0]).normal(size=(3, *shape)).astype(dtype)


def close(found: np.ndarray, expected: np.ndarray, units: float) -> None:
    assert found.shape == expected.shape
    most = max(1.0, float(abs(expected).max()))
    np.testing.assert_allclose(found, expected, rtol=0, atol=units * np.finfo(found.dtype).eps * most)


def found(name: str, x: np.ndarray, *more: Any) -> list[np.ndarray]:
    """The results for a batch, which are those of each matrix, whatever its strides."""
    whole = small_elimination(name, x, *more)
    results = list(whole) if isinstance(whole, tuple) else [whole]
    for at, matrix in enumerate(x):
        others = [each[at] if isinstance(each, np.ndarray) else each for each in more]
        for turned in (matrix, np.asfortranarray(matrix), matrix[::-1].copy()[::-1]):
            one = small_elimination(name, turned, *others)
            for a, b in zip(one if isinstance(one, tuple) else (one,), results, strict=True):
                np.testing.assert_array_equal(a, b[at])
    return results


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_q_and_r_are_lapacks(shape, dtype):
    x = matrices(shape, dtype)
    for mode in ("reduced", "complete"):
        q, r = found("orthogonal", x, mode == "complete")
        for a, b in zip((q, r), np.linalg.qr(x.astype("f8"), mode), strict=True):
            close(a, b, 60)
        assert q[0].flags.f_contiguous and r[0].flags.f_contiguous
        assert not np.tril(r, -1).any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_factors_and_permutations_are_lapacks(shape, dtype):
    x, k = matrices(shape, dtype), min(shape)
    both, rows = found("factors", x)
    p, lower, upper = found("permuted", x)
    assert rows.dtype == np.int32 and both[0].flags.f_contiguous and p.flags.c_contiguous
    for at in range(3):
        lu, pivots = scipy.linalg.lu_factor(x[at].astype("f8"))
        close(both[at], lu, 200)
        np.testing.assert_array_equal(rows[at], pivots + 1)
        for a, b in zip((p[at], lower[at], upper[at]), scipy.linalg.lu(x[at].astype("f8")), strict=True):
            close(a, b, 200)
        np.testing.assert_array_equal(np.tril(both[at], -1)[:, :k], np.tril(lower[at], -1))
        np.testing.assert_array_equal(np.triu(both[at])[:k], upper[at])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 7, 16, 32])
def test_determinants_inverses_and_solutions_are_lapacks(n, dtype):
    x = matrices((n, n), dtype) / np.dtype(dtype).type(n) + np.eye(n, dtype=dtype)
    exact = x.astype("f8")
    close(found("determinant", x)[0], np.array([scipy.linalg.det(each) for each in exact]), 60)
    close(found("inverse", x)[0], np.linalg.inv(exact), 20)
    for count in (1, 3, 70):  # more columns than are solved at a time
        b = np.random.default_rng(count).normal(size=(3, n, count)).astype(dtype)
        solved = found("solution", x, b)[0]
        close(solved, np.linalg.solve(exact, b.astype("f8")), 60)
        np.testing.assert_array_equal(small_elimination("solution", x, b[..., -1:]), solved[..., -1:])


@pytest.mark.parametrize("dtype", DTYPES)
def test_singular_matrices_and_others_that_are_not_finite_are_left_to_lapack(dtype):
    good = matrices((3, 3), dtype)[0]
    singular, zero, infinite, nan = good.copy(), good * 0, good.copy(), good.copy()
    singular[2] = singular[1]
    infinite[1, 2], nan[2, 2] = np.inf, np.nan
    for bad in (zero, infinite, nan):
        for name in ("determinant", "inverse", "factors", "permuted"):
            result = small_elimination(name, bad)
            assert np.isnan((result[0] if isinstance(result, tuple) else result).flat[0])
        assert np.isnan(small_elimination("solution", bad, good)[0, 0])
    for bad in (infinite, nan):
        assert np.isnan(small_elimination("orthogonal", bad, False)[0][0, 0])
    for name in ("inv", "lu_factor"):
        with pytest.raises(tdt.linalg.LinAlgError):
            getattr(tdt.linalg, name)(tdt.from_numpy(zero))
    with pytest.raises(tdt.linalg.LinAlgError):
        tdt.linalg.solve(tdt.from_numpy(zero), tdt.from_numpy(good))
    assert tdt.linalg.det(tdt.from_numpy(zero)) == 0
    batch = tdt.from_numpy(np.stack([good, zero]))
    assert tdt.linalg.inv_ex(batch).info.tolist() == [0, 1] and tdt.linalg.lu_factor_ex(batch).info.tolist() == [0, 1]
    q, r = tdt.linalg.qr(tdt.from_numpy(singular))
    close((q @ r).numpy(), singular, 10)


@pytest.mark.parametrize("scale", [1e-200, 1e-160, 1e160, 1e300])
def test_squares_that_overflow_or_vanish_are_left_to_lapack(scale):
    x = matrices((5, 5), "f8")[0]
    q, r = tdt.linalg.qr(tdt.from_numpy(x * scale))
    expected = np.linalg.qr(x)
    close(q.numpy(), expected[0], 20)
    close(r.numpy() / scale, expected[1], 20)


def test_a_column_of_zeros_below_the_diagonal_needs_no_reflection():
    x = np.triu(matrices((4, 4), "f8")[0])
    q, r = small_elimination("orthogonal", x, False)
    np.testing.assert_array_equal(q, np.eye(4))
    np.testing.assert_array_equal(r, x)


def test_other_matrices_are_left_to_lapack():
    for x in (np.eye(33), np.ones((33, 2)), np.eye(2, dtype="D"), np.eye(2, dtype="i8"), np.empty((0, 2, 2))):
        assert all(small_elimination(name, x) is None for name in ("determinant", "inverse", "factors", "permuted"))


@pytest.mark.parametrize("vectors", [False, True])
def test_solve_gives_the_same_with_and_without_a_record(vectors):
    a, b = tdt.from_numpy(matrices((5, 5), "f4")), tdt.from_numpy(matrices((5, 1 if vectors else 4), "f4"))
    b = b.squeeze(-1) if vectors else b
    plain = tdt.linalg.solve(a, b)
    recorded = tdt.linalg.solve(a.detach().requires_grad_(), b)
    np.testing.assert_array_equal(plain.numpy(), recorded.detach().numpy())
    assert plain.shape == b.shape and recorded.requires_grad
    with pytest.raises(RuntimeError, match="floating point"):
        tdt.linalg.solve(tdt.eye(2).long(), tdt.eye(2).long())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["det", "inv_ex", "solve_ex", "lu_factor_ex", "lu", "qr", "cholesky_ex"])
def test_results_of_a_matrix_do_not_depend_on_others_in_the_batch(name, dtype):
    good = matrices((5, 5), dtype)
    good = good @ good.swapaxes(1, 2) if name == "cholesky_ex" else good
    right = np.ones((5, 2), dtype)

    def call(x: np.ndarray) -> list[np.ndarray]:
        operands = (x, np.broadcast_to(right, (len(x), 5, 2))) if name == "solve_ex" else (x,)
        result = getattr(tdt.linalg, name)(*[tdt.tensor(a) for a in operands])
        return [each.numpy() for each in (result if isinstance(result, tuple) else (result,))]

    expected = call(good)
    for bad in (-np.ones((5, 5)), np.full((5, 5), np.nan), np.diag([np.inf, 1, 1, 1, 1]), 1e-30 * np.eye(5)):
        for a, b in zip(call(np.concatenate([good, bad[None].astype(dtype)])), expected, strict=True):
            np.testing.assert_array_equal(a[:3], b)


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_right_side_for_many_matrices_is_solved_like_many(dtype):
    a, b = matrices((5, 5), dtype), matrices((5, 2), dtype)[0]
    many = tdt.linalg.solve(tdt.from_numpy(a), tdt.tensor(np.stack([b] * 3)))
    for x in (a, np.asfortranarray(a)):
        np.testing.assert_array_equal(tdt.linalg.solve(tdt.tensor(x), tdt.tensor(b)).numpy(), many.numpy())


def test_pivots_that_vanish_in_float32_are_zeros_to_lu_factor():
    x = tdt.tensor([[3e-38, 1e-38], [1e-38, 1e-38 / 3]])
    LU, _, info = tdt.linalg.lu_factor_ex(x)
    assert LU[1, 1] == 0 and info == 2
    assert tdt.linalg.lu_factor_ex(tdt.stack([tdt.eye(2), x])).info.tolist() == [0, 2]
    assert tdt.linalg.lu(x).U[1, 1] == 0
    with pytest.raises(tdt.linalg.LinAlgError, match=r"U\[2,2\] is zero"):
        tdt.linalg.lu_factor(x)
