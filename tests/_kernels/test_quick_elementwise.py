"""Machine code of elementwise calls takes arrays of any strides, and gives what NumPy and `in_order` give."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tdt import _kernels
from tdt._backend.layout import in_order
from tdt._kernels import _pool, quick_arithmetic

pytestmark = pytest.mark.skipif(not _kernels.enabled(), reason="kernels are off")


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype("f")


def strided(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """An array that broadcasts to a shape: with its dimensions in any order, gaps, repeated or reversed elements."""
    own = [1 if rng.random() < 0.25 else n for n in shape]
    if rng.random() < 0.3:
        own = own[rng.integers(0, len(own)) :]
    order, whole = rng.permutation(len(own)), [n * int(rng.integers(1, 3)) for n in own]
    array = rng.standard_normal([whole[d] for d in order]).astype("f").transpose(np.argsort(order))
    array = array[tuple(slice(None, None, many // n) for many, n in zip(whole, own, strict=True))]
    if rng.random() < 0.1 and array.ndim:
        array = array[::-1]
    return np.broadcast_to(array, np.broadcast_shapes(array.shape, shape)) if rng.random() < 0.2 else array


@pytest.mark.parametrize("seed", range(20))
def test_arrays_of_any_strides_are_added_as_by_numpy(seed):
    rng, add = np.random.default_rng(seed), quick_arithmetic("add", np.dtype("f"))
    for _ in range(50):
        shape = tuple(rng.integers(1, 5, rng.integers(1, 6)))
        a, b = strided(rng, shape), strided(rng, shape)
        found, expected = add(a, b), in_order(np, np.add(a, b), [a, b])
        np.testing.assert_array_equal(found, expected, strict=True)
        for n, step, other in zip(found.shape, found.strides, expected.strides, strict=True):
            assert n == 1 or step == other, (a.shape, a.strides, b.shape, b.strides)


def test_all_orders_of_four_dimensions_are_those_of_the_first_operand():
    multiply, b = quick_arithmetic("multiply", np.dtype("f")), numbers(2, 3, 4, 5)
    for order in itertools.permutations(range(4)):
        a = numbers(*[b.shape[d] for d in order]).transpose(np.argsort(order))
        found = multiply(a, b)
        assert found.strides == a.strides
        np.testing.assert_array_equal(found, a * b)


def test_what_machine_code_does_not_take_is_in_order_too():
    add = quick_arithmetic("add", np.dtype("f"))
    a, b = numbers(4, *[1] * 7, 3).T, numbers(3, *[1] * 7, 4)  # of more dimensions
    for operands in ((a, b), (b, a)):
        found, expected = add(*operands), in_order(np, np.add(*operands), [*operands])
        np.testing.assert_array_equal(found, expected, strict=True)
        assert found.strides == expected.strides
    unaligned = np.frombuffer(b"\0" + numbers(6).tobytes(), "u1")[1:].view("f")
    np.testing.assert_array_equal(add(unaligned, unaligned), unaligned + unaligned, strict=True)


@pytest.mark.parametrize("n", [1, 4095, 40_000, 100_003])
def test_the_pool_computes_many_elements_unless_it_works_for_others(n):
    add, a, b, before = (
        quick_arithmetic("add", np.dtype("f")),
        numbers(n),
        numbers(n)[::-1].copy(),
        _pool.get_num_threads(),
    )
    try:
        _pool.set_num_threads(3)
        pool = _pool._running_pool()
        pool.share()
        _pool.SHARED[_pool.LIMIT] = 16_384
        pool.state[_pool.BLOCKS] = 0
        assert pool.busy.acquire()
        np.testing.assert_array_equal(add(a, b), a + b)
        assert pool.state[_pool.BLOCKS] == 0
        pool.busy.release()
        np.testing.assert_array_equal(add(a, b), a + b)
        assert pool.state[_pool.BLOCKS] == (-(-n // 4096) if n >= 16_384 else 0)
        expected = a + b
        assert add(a, b, a) is a
        np.testing.assert_array_equal(a, expected)
        assert pool.busy.acquire()  # it was given back
        pool.busy.release()
    finally:
        _pool.set_num_threads(before)
