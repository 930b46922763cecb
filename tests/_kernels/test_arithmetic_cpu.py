"""Sums, differences, products and quotients of large arrays beside NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

import tdt
from tdt import _kernels
from tdt._backend.layout import to_front, to_last
from tdt._kernels import _pool, arithmetic_cpu
from tdt._kernels.arithmetic_cpu import OPERATIONS, PIECE, combined

SPECIAL = [np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-45, -1e-45, 3e38]
PAIRS = [  # of shapes: rows, columns, both, in the middle; long rows that are cut, with and without a rest
    ((90, 100), (100,)),
    ((90, 100), (90, 1)),
    ((90, 1), (1, 33)),
    ((8, 5, 7, 9), (5, 1, 1)),
    ((8, 5, 7, 9), (8, 5, 1, 1)),
    ((4, 6, 5, 8), (4, 1, 1, 8)),
    ((13, 1, 77), (1, 5, 77)),
    ((3, 2 * PIECE + 1), (2 * PIECE + 1,)),
    ((3, 3 * PIECE), (3, 1)),
    ((40 * PIECE + 3,), (40 * PIECE + 3,)),
    ((40, 70), ()),
]


def values(shape: tuple[int, ...], dtype: type, seed: int) -> np.ndarray:
    x = np.random.default_rng(seed).standard_normal(shape).astype(dtype)
    np.put(x, np.arange(len(SPECIAL)) * 7 % max(x.size, 1), SPECIAL)
    return x


@pytest.fixture(autouse=True)
def arrays_of_any_size(monkeypatch):
    """Let the kernel take small arrays that lie densely too."""
    monkeypatch.setattr(arithmetic_cpu.THREADS, "count", 2)
    monkeypatch.setattr(arithmetic_cpu, "GRAIN", 0)


def check_against_numpy(how: str, x: np.ndarray, y: np.ndarray) -> None:
    with np.errstate(all="ignore"):
        expected = getattr(np, how)(x, y)
    found = combined(how, x, y)
    assert found is not None
    assert found.strides == expected.strides
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("how", OPERATIONS)
def test_values_and_strides_are_numpys(how, dtype):
    for shapes in PAIRS:
        a, b = (values(shape, dtype, seed) for seed, shape in enumerate(shapes))
        for x, y in ((a, b), (b, a)):
            check_against_numpy(how, x, y)


@pytest.mark.parametrize("how", OPERATIONS)
def test_slices_are_computed_where_they_lie(how):
    x, cube = values((90, 101), np.float32, 0), values((7, 9, 40), np.float32, 1)
    pairs = [(x[:, 1:], x[:, :-1]), (x[1:], x[:-1]), (x[::3], x[1::3]), (cube[1:, :-1], cube[:-1, 1:, :]), (x[:, 1:], x[0, 1:]),
             (cube[:, ::2, 3:20], cube[:, 0:1, 0:17])]  # fmt: skip
    for a, b in pairs:
        check_against_numpy(how, a, b)


def channels_last(image: np.ndarray) -> np.ndarray:
    return to_front(np.ascontiguousarray(to_last(image)))


@pytest.mark.parametrize("shape", [(4, 16, 9, 8), (16, 1, 1), (4, 16, 1, 1)])
def test_the_result_lies_in_memory_as_the_operand_of_its_shape(shape):
    image, other = channels_last(values((4, 16, 9, 8), np.float32, 0)), values(shape, np.float32, 1)
    other = channels_last(other) if other.shape == image.shape else other
    for x, y in ((image, other), (other, image)):
        found = combined("multiply", x, y)
        assert found is not None
        assert found.strides == image.strides
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(found, x * y)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (np.ones((64, 65), np.float32), np.ones((65, 64), np.float32).T),
        (np.ones((64, 64), np.float32)[:, ::2], np.ones((64, 32), np.float32)),
        (np.ones((64, 65), np.float32)[:, 1:].T, np.ones((64, 65), np.float32)[:, 1:].T),
        (np.ones((64, 64), np.float32), np.ones((64, 128), np.float32)[0, ::2]),
        (np.ones((64, 64), np.float32), np.ones(64, np.float64)),
        (np.ones((64, 64), np.int32), np.ones(64, np.int32)),
        (np.ones((64, 64), ">f4"), np.ones(64, ">f4")),
        (np.ones((64, 7), np.float32), np.ones(7, np.float32)),
        (np.ones((64, 7), np.float32), np.ones(8, np.float32)),
    ],
    ids=["orders", "gaps", "gaps in columns", "strided row", "types", "integers", "byte order", "short rows", "shapes"],
)
def test_other_operands_are_numpys(x, y):
    assert combined("add", x, y) is None


def test_bits_do_not_depend_on_the_number_of_threads():
    before, found = _pool.get_num_threads(), []
    a, b = values((1003, 301), np.float32, 0), values((301,), np.float32, 1)
    for threads in (1, 2, 5):
        _pool.set_num_threads(threads)
        found.append([combined("true_divide", x, b).tobytes() for x in (a, a[:2].copy())])
    _pool.set_num_threads(before)
    assert found[0] == found[1] == found[2]


@pytest.mark.skipif(not _kernels.enabled(), reason="kernels are off")
def test_large_tensors_and_their_gradients_take_it(monkeypatch):
    calls: list[tuple] = []
    spy = lambda how, a, b: calls.append((how, a.shape, np.shape(b)))  # noqa: E731
    monkeypatch.setattr("tdt._kernels._arrays._combined", spy)
    x, row = tdt.ones(400, 100).requires_grad_(), tdt.ones(100)
    _ = x * row + x  # the first call of types plans
    calls.clear()
    y = x * row + x
    y.backward(tdt.ones(400, 100))
    shapes = (400, 100), (100,)
    assert calls == [("multiply", *shapes), ("add", (400, 100), (400, 100)), ("multiply", *shapes),
                     ("add", (400, 100), (400, 100))]  # fmt: skip
    calls.clear()
    _ = tdt.ones(300, 100) - 1, row / 2, tdt.ones(300, 100).int() + row.int(), row - row
    assert all(how == "add" or np.shape(b) == () for how, a, b in calls)
    np.testing.assert_array_equal(x.grad.numpy(), np.full((400, 100), 2, np.float32))


def test_only_dense_arrays_are_left_to_numpy_on_one_thread(monkeypatch):
    monkeypatch.setattr(arithmetic_cpu.THREADS, "count", 1)
    x, by = np.random.default_rng(0).standard_normal((2, 3, 4096)).astype(np.float32), np.float32([[[2], [3], [5]]])
    np.testing.assert_array_equal(arithmetic_cpu.combined("multiply", x, by), x * by)
    assert arithmetic_cpu.combined("multiply", x, x) is None
    after, before = x[..., 1:], x[..., :-1]
    np.testing.assert_array_equal(arithmetic_cpu.combined("subtract", after, before), after - before)


@pytest.mark.parametrize("how", OPERATIONS)
@pytest.mark.parametrize("start", [0, 1, 15])
@pytest.mark.parametrize("shape", [(2 * PIECE + 5,), (16 * PIECE,), (7, 24), (9, 13)])
def test_an_operand_that_takes_the_result_is_read_once(how, start, shape):
    """Vectors at the ends of a row must not overlap: what was written there would be combined again."""
    size = int(np.prod(shape))
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(size + start).astype(np.float32)[start:].reshape(shape) for _ in range(2))
    expected = getattr(np, how)(a, b)
    assert combined(how, a, b, a) is a
    np.testing.assert_array_equal(a, expected)


def test_gradients_of_any_size_add_up():
    shape = (5, 19, 34, 22)
    x, first, second = tdt.randn(shape).requires_grad_(), tdt.randn(shape), tdt.randn(shape)
    y = x * 1.0
    ((y * first).sum() + (y * second).sum()).backward()
    assert tdt.equal(x.grad, first + second)
