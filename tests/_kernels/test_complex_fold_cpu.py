"""Products of complex numbers by a kernel: near to extended precision, and one value for each layout and number of threads."""

from __future__ import annotations

import numpy as np
import pytest

import tdt
from tdt import _kernels
from tdt._kernels.complex_fold_cpu import LANES, PIECE, product

pytestmark = pytest.mark.skipif(not _kernels.enabled(), reason="kernels are off")

COUNTS = [1, 3, LANES - 1, LANES, LANES + 1, 3 * LANES, 100, 2 * PIECE - 1, 2 * PIECE, 2 * PIECE + 1, 3 * PIECE + 5]


def numbers(shape: tuple[int, ...], letter: str) -> np.ndarray:
    """Numbers near to the unit circle, of which no product overflows."""
    rng = np.random.default_rng(0)
    return (np.exp(1j * rng.uniform(0, 6, shape)) * rng.uniform(0.999, 1.001, shape)).astype(letter)


@pytest.mark.parametrize("letter", "FD")
@pytest.mark.parametrize("n", COUNTS)
def test_products_are_numpys_and_the_same_along_memory_and_across_it(letter: str, n: int):
    x = numbers((2, n, 6), letter)
    expected = x.astype("D").prod(1)
    across, along = product(x, (1,), False), product(np.ascontiguousarray(x.swapaxes(1, 2)), (2,), False)
    np.testing.assert_allclose(across, expected, rtol=1e-6 if letter == "F" else n * 1e-15)
    np.testing.assert_array_equal(across, along)
    np.testing.assert_array_equal(product(x[:, :, 1:4], (1,), False), across[:, 1:4])
    np.testing.assert_array_equal(product(x.transpose(2, 0, 1), (2,), False), across.T)
    alone = [product(np.ascontiguousarray(x[0, :, k]), None, True) for k in range(6)]
    np.testing.assert_array_equal(np.concatenate(alone), across[0])


@pytest.mark.parametrize("shape", [(5,), (4, 3), (3, 40, 5), (2, 3, 4, 5), (20, 9000), (0, 3), (3, 0)])
def test_prod_over_every_dimension_has_the_shape_and_dtype_of_numpys(shape: tuple[int, ...]):
    x = numbers(shape, "F")
    for turned in (False, True):
        t = tdt.from_numpy(x.T.copy()).permute(*range(x.ndim)[::-1]) if turned else tdt.from_numpy(x)
        for dim, keepdim in ((None, False), *[(d, keep) for d in range(x.ndim) for keep in (False, True)]):
            for _ in range(2):  # by the op, and prepared
                found = t.prod() if dim is None else t.prod(dim, keepdim)
                expected = x.astype("D").prod(dim, keepdims=keepdim)
                assert found.dtype is tdt.complex64
                np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)
                assert found.shape == expected.shape


@pytest.mark.parametrize("shape", [(4, 30, 5), (40, 300, 5)])
def test_all_numbers_are_multiplied_in_the_order_of_memory_by_every_call(shape: tuple[int, ...]):
    there = tdt.from_numpy(numbers(shape, "D"))
    x, leaf = there.permute(2, 0, 1), there.clone().permute(2, 0, 1).requires_grad_()
    found = [t.prod().item() for t in (there, leaf, *[x] * 4)]  # the op, and by what later calls remember
    found.append(tdt.prod(x, out=tdt.empty((), dtype=x.dtype)).item())
    assert len(set(found)) == 1


@pytest.mark.parametrize("letter", "FD")
def test_products_have_equal_bits_for_every_number_of_threads(letter: str):
    before, found = tdt.get_num_threads(), []
    arrays = [tdt.from_numpy(numbers(shape, letter)) for shape in ((300_001,), (3000, 101), (101, 3000))]
    try:
        for threads in (1, 2, 3):
            tdt.set_num_threads(threads)
            found.append([x.prod(dim).numpy().tobytes() for x in arrays for dim in range(x.ndim)])
    finally:
        tdt.set_num_threads(before)
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("n", [2, LANES + 3, 2 * PIECE + 1])
def test_a_product_is_not_finite_where_a_number_is_not_and_zero_where_one_is(n: int):
    x = numbers((n,), "D")
    for value in (np.inf, np.nan, complex(0, -np.inf)):
        x[n // 2] = value
        assert not np.isfinite(product(x, None, False))
    x[n // 2] = 0
    assert product(x, None, False) == 0
