"""Elementwise functions of arrays that broadcast, or have gaps, beside NumPy's: row by row, and on several threads."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import tdt
from tdt import _kernels
from tdt._backend.layout import to_front, to_last
from tdt._kernels import _broadcast, _pool, generated
from tdt._kernels._emit_loops import BLOCK, BUFFER

SPECIAL = [np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-45, -1e-45, 3e38]
OPERATIONS = {
    "add": lambda xp, a, b: a + b,
    "subtract": lambda xp, a, b: a - b,
    "multiply": lambda xp, a, b: a * b,
    "true_divide": lambda xp, a, b: a / b,
}
# Of shapes: rows, columns, both, in the middle; rows shorter than a vector, or longer by any number of elements; long rows that
# are cut, and such that cannot be.
PAIRS = [
    ((90, 100), (100,)),
    ((90, 100), (90, 1)),
    ((90, 1), (1, 33)),
    ((8, 5, 7, 9), (5, 1, 1)),
    ((8, 5, 7, 9), (8, 5, 1, 1)),
    ((4, 6, 5, 8), (4, 1, 1, 8)),
    ((13, 1, 77), (1, 5, 77)),
    ((2 * BUFFER + 3, 1), (3,)),
    ((300, 7), (7,)),
    ((3, 2, 5, 16), (3, 1, 5, 1)),
    ((3, 2 * BLOCK + 1), (2 * BLOCK + 1,)),
    ((3, 3 * BLOCK), (3, 1)),
    ((40 * BLOCK + 3,), (40 * BLOCK + 3,)),
    ((40, 70), ()),
]


def values(shape: tuple[int, ...], dtype: type, seed: int) -> np.ndarray:
    x = np.random.default_rng(seed).standard_normal(shape).astype(dtype)
    np.put(x, np.arange(len(SPECIAL)) * 7 % max(x.size, 1), SPECIAL)
    return x


@pytest.fixture(autouse=True)
def two_threads(monkeypatch):
    """Let threads share small arrays too."""
    monkeypatch.setattr(generated.THREADS, "count", 2)
    with np.errstate(all="ignore"):
        yield


@functools.cache
def function(how: str, dtype: np.dtype) -> generated.Function:
    [found, _, _] = generated.Elementwise(how, OPERATIONS[how])._prepare((np.empty(1, dtype),) * 2, {})
    assert found is not None
    found.grain = 0
    return found


def by_rows(how: str, x: np.ndarray, y: np.ndarray, out: np.ndarray | None = None) -> np.ndarray | None:
    return function(how, x.dtype).by_rows([x, y], out)


def check_against_numpy(how: str, x: np.ndarray, y: np.ndarray) -> None:
    expected = getattr(np, how)(x, y)
    found = by_rows(how, x, y)
    assert found is not None
    assert found.strides == expected.strides
    np.testing.assert_array_equal(found, expected)
    quick = function(how, x.dtype).quick(x, y)
    assert quick.strides == expected.strides
    np.testing.assert_array_equal(quick, expected)


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
             (cube[:, ::2, 3:20], cube[:, 0:1, 0:17]), (x[:, ::2], x[:, 1::2][:, :1]), (x[:, ::2], x[:1, ::2])]  # fmt: skip
    for a, b in pairs:
        check_against_numpy(how, a, b)


def channels_last(image: np.ndarray) -> np.ndarray:
    return to_front(np.ascontiguousarray(to_last(image)))


@pytest.mark.parametrize("shape", [(4, 16, 9, 8), (16, 1, 1), (4, 16, 1, 1)])
def test_the_result_lies_in_memory_as_the_operand_of_its_shape(shape):
    image, other = channels_last(values((4, 16, 9, 8), np.float32, 0)), values(shape, np.float32, 1)
    other = channels_last(other) if other.shape == image.shape else other
    for x, y in ((image, other), (other, image)):
        check_against_numpy("multiply", x, y)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (np.ones((64, 65), np.float32), np.ones((65, 64), np.float32).T),
        (np.ones((4, 16, 9, 8), np.float32), channels_last(np.ones((4, 16, 9, 8), np.float32))),
        (np.ones((64, 7), np.float32), np.ones(8, np.float32)),
        (np.ones((64, 1), np.float32), np.ones((1, 0), np.float32)),
        (np.ones((2, 3, 2, 3, 2, 3), np.float32), np.ones((1, 3, 1, 3, 1, 3), np.float32)),
    ],
    ids=["orders", "orders of images", "shapes", "no elements", "dimensions"],
)
def test_other_operands_are_numpys(x, y):
    assert by_rows("add", x, y) is None
    if x.shape[-1] != 7:
        np.testing.assert_array_equal(function("add", x.dtype).run([x, y]), x + y)


def test_bits_do_not_depend_on_the_number_of_threads():
    before, found = _pool.get_num_threads(), []
    a, b = values((1003, 301), np.float32, 0), values((301,), np.float32, 1)
    for threads in (1, 2, 5):
        _pool.set_num_threads(threads)
        found.append([by_rows("true_divide", x, b).tobytes() for x in (a, a[:2].copy())])
    _pool.set_num_threads(before)
    assert found[0] == found[1] == found[2]


@pytest.mark.skipif(not _kernels.enabled(), reason="kernels are off")
def test_large_tensors_and_their_gradients_take_it(monkeypatch):
    calls: list[tuple] = []
    run = generated.Function.run

    def spy(self, operands, out=None):
        calls.append((self.name, *map(np.shape, operands)))
        return run(self, operands, out)

    monkeypatch.setattr(generated.Function, "run", spy)
    x, row = tdt.ones(400, 100).requires_grad_(), tdt.ones(100)
    _ = x * row + x  # the first call of types plans
    calls.clear()
    y = x * row + x
    y.backward(tdt.ones(400, 100))
    shapes, alike = ((400, 100), (100,)), ((400, 100), (400, 100))
    product, total = "product_of_two", "sum_of_two"
    assert calls == [(product, *shapes), (total, *alike), (product, *shapes), (total, *alike)]
    np.testing.assert_array_equal(x.grad.numpy(), np.full((400, 100), 2, np.float32))


def test_only_dense_arrays_are_left_to_numpy_on_one_thread(monkeypatch):
    monkeypatch.setattr(generated.THREADS, "count", 1)
    x, by = np.random.default_rng(0).standard_normal((2, 3, 4096)).astype(np.float32), np.float32([[[2], [3], [5]]])
    np.testing.assert_array_equal(by_rows("multiply", x, by), x * by)
    assert by_rows("multiply", x, x) is None
    after, before = x[..., 1:], x[..., :-1]
    np.testing.assert_array_equal(by_rows("subtract", after, before), after - before)


@pytest.mark.parametrize("how", OPERATIONS)
@pytest.mark.parametrize("start", [0, 1, 15])
@pytest.mark.parametrize("shape", [(2 * BLOCK + 5,), (16 * BLOCK,), (7, 24), (9, 13), (300, 21)])
def test_an_operand_that_takes_the_result_is_read_once(how, start, shape):
    """Vectors at the ends of a row must not overlap: what was written there would be combined again."""
    size = int(np.prod(shape))
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(size + start).astype(np.float32)[start:].reshape(shape) for _ in range(2))
    for other in (b, b[..., :1], b[:1]):
        x = np.array(a)
        expected = getattr(np, how)(x, other)
        assert by_rows(how, x, other, x) is x
        np.testing.assert_array_equal(x, expected)


def test_an_operand_that_shares_other_memory_with_the_result_is_left_to_numpy():
    x = values((50, 300), np.float32, 0)
    for operands, out in (((x, x[3]), x), ((x[1:], x[:-1]), x[1:]), ((x[:, :1], x), x)):
        assert by_rows("multiply", *operands, out) is None
        expected = np.multiply(*operands)
        np.testing.assert_array_equal(function("multiply", x.dtype).run(operands, out), expected)


@pytest.mark.parametrize("place", [(1, 300), (300,), (50, 1)])
def test_an_array_for_the_result_that_has_not_its_shape_is_left_to_numpy(place):
    x, around = values((50, 300), np.float32, 0), np.zeros(60 * 300, np.float32)
    out = around[: int(np.prod(place))].reshape(place)
    assert by_rows("add", out, x, out) is None
    with pytest.raises(ValueError, match="output"):
        function("add", x.dtype).run((out, x), out)
    assert not around.any()
    larger = np.zeros((2, 50, 300), np.float32)
    assert function("add", x.dtype).run((x, x[:1]), larger) is larger
    np.testing.assert_array_equal(larger, np.stack([x + x[:1]] * 2))


def test_a_large_tensor_that_is_smaller_than_the_other_operand_is_not_written_to():
    x, y = tdt.ones(1, 40000), tdt.ones(5, 40000)
    for write in (x.add_, x.mul_, x.copysign_, lambda y: x.add_(y, alpha=0.5)):
        with pytest.raises(RuntimeError, match="output with shape"):
            write(y)
    assert x.eq(1).all()


def test_a_result_with_gaps_is_written_where_it_lies():
    x, row, out = values((50, 30), np.float32, 0), values((30,), np.float32, 1), np.zeros((50, 64), np.float32)
    for place in (out[:, 3:33], out[:, ::2][:, :30]):
        assert by_rows("subtract", x, row, place) is place
        np.testing.assert_array_equal(place, x - row)
        place[...] = 0
        assert not out.any()


@pytest.mark.parametrize("letter", "efdE")
def test_conditions_and_other_types_are_rows_too(letter):
    dtype = generated.STORED[letter] if letter != "E" else generated.BFLOAT16
    x, y = values((40, 1, 37), np.float32, 0).astype(dtype), values((1, 21, 37), np.float32, 1).astype(dtype)
    [found, _, _] = generated.Elementwise("below", lambda xp, a, b: a < b)._prepare((x, y), {})
    np.testing.assert_array_equal(found.run([x, y]), x < y)
    mask = values((40, 21, 1), np.float32, 2) > 0
    [found, _, _] = generated.Elementwise("chosen", lambda xp, c, a, b: xp.where(c, a, b))._prepare((mask, x, y), {})
    chosen = found.run([mask, x, y])
    assert chosen.dtype == x.dtype
    np.testing.assert_array_equal(chosen.astype(np.float64), np.where(mask, x, y).astype(np.float64))


def test_long_rows_are_cut_into_equal_parts():
    plan = _broadcast.plan_of([np.empty((2, 6 * BLOCK)), np.empty((2, 1)), np.empty((2, 6 * BLOCK))], cut=True)
    assert plan is not None
    assert (plan.blocks, plan.head[0]) == (12, BLOCK)


def test_gradients_of_any_size_add_up():
    shape = (5, 19, 34, 22)
    x, first, second = tdt.randn(shape).requires_grad_(), tdt.randn(shape), tdt.randn(shape)
    y = x * 1.0
    ((y * first).sum() + (y * second).sum()).backward()
    assert tdt.equal(x.grad, first + second)


@pytest.mark.parametrize("letter", "fdeilqBb?H")
def test_arrays_of_any_size_and_layout_are_filled(letter):
    for shape in ((3,), (100, 100), (0,), ()):
        for number in (0, 1, -0.0, 3.25):
            plain = np.zeros(shape, letter)
            arrays = (
                [plain, plain.T]
                if plain.ndim == 1
                else [plain, plain.T, np.zeros((*shape[:-1], 200), letter)[..., ::2]]
            )
            for x in arrays:
                _kernels.fill(x, number)
                np.testing.assert_array_equal(x, np.full(x.shape, number, letter))
                assert x.tobytes() == np.full(x.shape, number, letter).tobytes()
