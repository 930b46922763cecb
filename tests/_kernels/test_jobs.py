"""Machine code hands jobs to the pool: the same bits for every number of threads, and on one thread while the pool is busy."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tdt
from tdt import _kernels
from tdt._kernels import _jobs, _pool, quick_arithmetic
from tdt._kernels._code import Code, Value, native
from tdt._kernels._gufunc import Operand, generalized
from tdt._kernels._row_fold import row_fold
from tdt._kernels.fold_cpu import fold, prepared_fold, variance
from tdt._kernels.softmax_cpu import softmax
from tests._kernels.forked import check_children

pytestmark = pytest.mark.skipif(not _kernels.enabled(), reason="kernels are off")
# Around the elements from which threads take part, from which a row is cut, and from which plans fold columns.
SIZES = (65_535, 65_537, 131_073, 262_145, 1_000_003)


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = _pool.get_num_threads()
    _pool.set_num_threads(3)
    _pool.start()
    yield
    _pool.set_num_threads(before)


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).standard_normal(shape).astype("f")


def alike(compute: Callable[[], Any]) -> np.ndarray:
    """The result, whose bits must be those of one, two and three threads."""
    found = []
    for threads in (1, 2, 3, 3):
        _pool.set_num_threads(threads)
        found.append(np.array(compute()))
    assert len({each.tobytes() for each in found}) == 1
    return found[0]


def blocks() -> int:
    """How many blocks the pool's last job had; then forgotten."""
    assert _pool._pool is not None
    found, _pool._pool.state[_jobs.BLOCKS] = int(_pool._pool.state[_jobs.BLOCKS]), 0
    return found


@generalized("(n),(),(k)->(n,k),()", vectorize=False)
def outer(code: Code, operands: list[Operand], sizes: list[Value]) -> None:
    """The products of a row with a number and another row; and the number of the row's elements, doubled."""
    x, factor, y, out, count = operands
    n, k = sizes
    with code.loop(0, n) as i, code.loop(0, k) as j:
        a, b = code.load("double", x.place(code, i)), code.load("double", y.place(code, j))
        code.store(a * b * code.load("double", factor.address), out.place(code, i, j))
    code.store(code.cast(n * 2, "double"), count.address)


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 64, 1001])
def test_the_pool_computes_rows_of_a_generalised_ufunc(rows):
    rng = np.random.default_rng(rows)
    x, factor, y = rng.standard_normal((rows, 40)), rng.standard_normal(rows), rng.standard_normal((rows, 50))[:, ::-1]
    ufunc = outer("ddddd")
    blocks()
    products, counts = ufunc(x, factor, y)
    assert blocks() == (rows if rows * 2000 >= _jobs.LEAST_SHARED else 0)
    np.testing.assert_array_equal(products, x[:, :, None] * y[:, None] * factor[:, None, None])
    np.testing.assert_array_equal(counts, 80.0)
    # Operands that are the same for all rows, rows that are not side by side, two dimensions of them.
    products, _ = ufunc(x[0], factor[::-1], y)
    np.testing.assert_array_equal(products, x[0, :, None] * y[:, None] * factor[::-1, None, None])
    both, _ = ufunc(x[:, None], factor[:2], y[:, None])
    for k in range(len(factor[:2])):
        np.testing.assert_array_equal(both[:, k], x[:, :, None] * y[:, None] * factor[k])


def test_rows_are_computed_on_the_calling_thread_while_the_pool_is_busy():
    x, total = numbers(100, 1000), row_fold("ff", "sum", "f", "f")
    expected = total(x)
    assert blocks() == 100
    assert _pool._pool is not None and _pool._pool.busy.acquire()
    try:
        np.testing.assert_array_equal(total(x), expected)
        np.testing.assert_array_equal(tdt.tensor(x)._a + x[0], x + x[0])
        assert blocks() == 0
    finally:
        _pool._pool.busy.release()
    np.testing.assert_array_equal(total(x), expected)
    assert blocks() == 100  # it was given back


@native("pq", vectorize=False)
def fails_at(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    counts, bad = arguments
    with code.loop(first, last) as i:
        with code.when(i == bad):
            code.fail()
        code.store(code.value(1, "i64"), counts, i)


def test_a_kernel_that_fails_raises_an_error_and_gives_the_pool_back():
    counts = np.zeros(100, np.int64)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="fails_at raised an error"):
            _pool.parallel(fails_at(), 100, counts, 50)
        _pool.parallel(fails_at(), 100, counts, 100)
        assert counts.all()
        counts[:] = 0


def test_a_job_for_more_threads_than_the_pool_has_is_shared_by_those_it_has():
    counts, pool = np.zeros(1000, np.int64), _pool._running_pool()
    entry, words = fails_at().prepare((counts, -1))
    assert _jobs.run_job()(words, entry.address, 1000, pool.threads + 10) == _jobs.DONE
    assert counts.all()
    assert pool.state[_jobs.OTHERS] == pool.threads


def test_other_threads_find_a_pool_when_it_can_be_used():
    check_children("""
import threading
import tdt
from tdt._kernels import _pool
tdt.set_num_threads(3)
x, share, found = tdt.randn(300, 1000), _pool._Pool.share, []
def late(pool):
    other.start()
    other.join(0.5)
    share(pool)
_pool._Pool.share = late
def child():
    global other
    other = threading.Thread(target=lambda: found.append(x.sum()))
    assert x.sum() == (x.sum(), other.join(), found[0])[2]
""")


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", ["sum", "mean", "max", "norm2", "nanmean", "std"])
def test_folds_have_the_same_bits_for_all_numbers_of_threads(name, n):
    for shape, axis in (
        ((n,), None), ((n // 7, 7), 1), ((n // 300, 300), 1), ((n // 300, 300), 0), ((7, n // 7), 0), ((7, n // 7), 1),
        ((5, n // 200, 40), 1), ((n // 35, 5, 7), 1), ((2, 3, n // 6), (0, 2)),
    ):  # fmt: skip
        x = numbers(*shape)
        count = x.size if axis is None else int(np.prod([shape[d] for d in np.atleast_1d(axis)]))

        def compute(x: np.ndarray = x, axis: Any = axis, count: int = count) -> Any:
            if name == "std":
                return variance(name, x, axis, False, count, count - 1)
            return fold(name, x, axis, False, None, count)

        found = alike(compute)
        dims = (axis,) if isinstance(axis, int) else axis
        prepared = prepared_fold(name, x.dtype, shape, dims, False, 1 if name == "std" else None)
        np.testing.assert_array_equal(prepared(x), found)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.sum(1), lambda x: x.amax(0), lambda x: tdt.aminmax(x).max, lambda x: x.softmax(1), lambda x: x.softmax(0),
        lambda x: x.mean(), lambda x: x.cumsum(1), lambda x: x.argmax(1), lambda x: x.topk(3, 1).values,
        lambda x: x.norm(dim=1), lambda x: x * x[0], lambda x: x * x[:, :1], lambda x: x + x.T.contiguous().T,
        lambda x: tdt.nn.functional.layer_norm(x, x.shape[1:]), lambda x: tdt.nn.functional.mse_loss(x, x * 2),
        lambda x: tdt.nn.functional.huber_loss(x, x * 2), lambda x: tdt.nn.functional.l1_loss(x, x * 2, reduction="sum"),
        lambda x: tdt.nn.functional.group_norm(x[:, :64].reshape(-1, 8, 8), 4), lambda x: x.gather(1, (x > 0).long()),
        lambda x: tdt.nn.functional.adaptive_avg_pool2d(x[:, :64].reshape(1, -1, 8, 8), 1),
    ],
)  # fmt: skip
def test_repeated_calls_and_gradients_have_the_same_bits_for_all_numbers_of_threads(call, n):
    x = tdt.tensor(numbers(n // 250, 250))

    def both() -> np.ndarray:
        for _ in range(4):  # of which later ones go a short way
            leaf = x.detach().requires_grad_()
            recorded = call(leaf)
            if recorded.requires_grad:
                recorded.sum().backward()
            parts = [call(x), recorded.detach(), *([leaf.grad] if leaf.grad is not None else [])]
        return np.concatenate([part.numpy().reshape(-1).view("u1") for part in parts])

    alike(both)


@pytest.mark.parametrize("seed", range(10))
def test_the_pool_adds_arrays_that_broadcast(seed):
    rng, add = np.random.default_rng(seed), quick_arithmetic("add", np.dtype("f"))
    for _ in range(10):
        shape = [int(n) for n in rng.integers(1, 12, rng.integers(1, 6))]
        shape[int(rng.integers(len(shape)))] *= max(1, int(rng.integers(30_000, 200_000)) // int(np.prod(shape)))
        a, b = (numbers(*[1 if rng.random() < 0.3 else n for n in shape]) for _ in range(2))
        if rng.random() < 0.3:
            a = a.T.copy().T
        if rng.random() < 0.2:
            b = b[..., ::-1]
        blocks()
        expected, found = a + b, add(a, b)
        np.testing.assert_array_equal(found, expected)
        loops = sum(n > 1 for n in expected.shape)
        if expected.size >= _jobs.LEAST_SHARED and loops <= 4:
            assert blocks() > 0
        if a.shape == expected.shape and a.flags.c_contiguous and b.flags.c_contiguous:
            assert add(a, b, a) is a
            np.testing.assert_array_equal(a, expected)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_computes_rows_by_threads_of_its_own():
    check_children("""
import tdt
from tdt._kernels import _pool
tdt.set_num_threads(3)
x = tdt.randn(300, 1000)
def compute():
    return [f() for _ in range(4) for f in (lambda: x.softmax(1), lambda: x.sum(1), lambda: x * x[0], lambda: x.sum())]
before = compute()
def child():
    assert _pool._pool is None
    assert all((a == b).all() for a, b in zip(compute(), before))
    assert _pool._pool is not None
""")


def test_softmax_of_many_rows_uses_the_pool():
    x = numbers(200, 500)
    blocks()
    found = softmax(x, dim=1)
    assert blocks() == 200
    np.testing.assert_allclose(found.sum(1), 1, rtol=1e-5)
