"""Built-in functions that call a ufunc's loop give what the ufunc gives, and leave to it what they do not take."""

from __future__ import annotations

import resource
import sys
import threading
import weakref

import numpy as np
import pytest

import tdt
from tdt import _kernels
from tdt._kernels import FEW_CALLS
from tdt._kernels._code import Code, Value
from tdt._kernels._gufunc import Operand, generalized
from tdt._kernels._quick import LARGE, quick

pytestmark = pytest.mark.skipif(not _kernels.enabled(), reason="kernels are off")


@generalized("(m,k),(k,n?),(n?)->(m,n?)", vectorize=False)
def _layer(code: Code, operands: list[Operand], sizes: list[Value]) -> None:
    """a @ b + bias, by loops."""
    a, b, bias, out = operands
    m, k, n = sizes
    with code.loop(0, m) as i, code.loop(0, n) as j:
        total = code.variable("double", code.load("double", bias.place(code, j)))
        with code.loop(0, k) as x:
            total.add(code.load("double", a.place(code, i, x)) * code.load("double", b.place(code, x, j)))
        code.store(total.get(), out.place(code, i, j))


@generalized("(n)->()", vectorize=False)
def _count(code: Code, operands: list[Operand], sizes: list[Value]) -> None:
    """How many of the bytes are not 0."""
    x, out = operands
    total = code.variable("i64", 0)
    with code.loop(0, sizes[0]) as i:
        total.add(code.cast(code.load("i8", x.place(code, i)) != 0, "i64", signed=False))
    code.store(total.get(), out.address)


def layer():
    ufunc = _layer("dddd")
    return ufunc, quick(ufunc)


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).integers(-9, 9, shape).astype(float)


SAME = {
    "matrices": (numbers(3, 4), numbers(4, 5), numbers(5)),
    "stacks": (numbers(2, 3, 4), numbers(2, 4, 5), numbers(2, 5)),
    "a stack and matrices": (numbers(3, 4), numbers(2, 4, 5), numbers(5)),
    "a stack of one": (numbers(1, 3, 4), numbers(2, 4, 5), numbers(1, 5)),
    "stacks of one": (numbers(1, 3, 4), numbers(1, 4, 5), numbers(5)),
    "strides": (numbers(4, 6).T[::2], numbers(5, 8)[:, ::-2].T, numbers(5)[::-1]),
    "equal bytes": (numbers(1, 1), numbers(1, 1), numbers(1)),
    "repeated": (np.broadcast_to(numbers(1, 4), (3, 4)), numbers(4, 5), np.broadcast_to(2.0, 5)),
    "read-only": (np.frombuffer(numbers(3, 4).tobytes()).reshape(3, 4), numbers(4, 5), numbers(5)),
}
OTHERS = {
    "a vector": (numbers(3, 4), numbers(4), np.array(2.0)),
    "two dimensions of stacks": (numbers(2, 2, 3, 4), numbers(4, 5), numbers(5)),
    "no rows": (numbers(0, 4), numbers(4, 5), numbers(5)),
    "nothing to sum": (numbers(3, 0), numbers(0, 5), numbers(5)),
    "no stack": (numbers(0, 3, 4), numbers(0, 4, 5), numbers(5)),
    "other types": (numbers(3, 4).astype("f"), numbers(4, 5).astype("i"), numbers(5)),
    "other bytes": (numbers(3, 4).astype(">f8"), numbers(4, 5), numbers(5)),
    "unaligned": (np.frombuffer(b"x" + numbers(3, 4).tobytes(), offset=1).reshape(3, 4), numbers(4, 5), numbers(5)),
    "lists": (numbers(3, 4).tolist(), numbers(4, 5), numbers(5)),
}


@pytest.mark.parametrize("arrays", [*SAME.values(), *OTHERS.values()], ids=[*SAME, *OTHERS])
def test_results_are_the_ufuncs(arrays):
    ufunc, function = layer()
    expected, found = ufunc(*arrays), function(*arrays)
    np.testing.assert_array_equal(found, expected, strict=True)
    assert found.flags.c_contiguous or arrays in OTHERS.values()
    assert found.base is None


def test_bytes_are_counted():
    ufunc = _count("?q")
    for x in (numbers(7) > 0, numbers(3, 7) > 0, (numbers(7, 3) > 0).T, numbers(2, 3, 7) > 0):
        np.testing.assert_array_equal(quick(ufunc)(x), ufunc(x))


SHAPES = [
    ((), ()), ((3,), ()), ((), (2, 3)), ((2, 3), (3,)), ((3,), (2, 3)), ((2, 3), (2, 1)), ((2, 1), (1, 3)), ((4, 1, 3), (2, 1)),
    ((2, 3, 4, 5), (3, 1, 5)), ((2, 3, 4, 5), (1, 4, 1)), ((1, 1), (1,)), ((2, 1, 3, 1, 2), (1, 4, 1, 5, 1)), ((7,), (1,)),
    ((6, 5), (6, 5)), ((3, 4, 5), (4, 5)), ((2,) * 8, (2, 1) * 4), ((70, 20), (20,)), ((70, 20), (70, 1)), ((70, 9), (70, 1)),
    ((9, 200), (200,)), ((9, 200), (9, 1)), ((3, 4, 150), (3, 1, 150)), ((3, 1, 5, 150), (4, 1, 1)), ((300, 130), (130,)),
    ((2, 3, 2, 3, 2), (3, 1, 3, 1)), ((40000,), ()), ((3, 0), (1,)), ((0,), ()), ((1,) * 9, (3,)),
]  # fmt: skip


@pytest.mark.parametrize("letter", "fd")
@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_elementwise_results_are_numpys(a, b, letter):
    x, y = numbers(*a).astype(letter), numbers(*b).astype(letter) + 0.5
    for how in ("add", "subtract", "multiply", "true_divide"):
        function, ufunc = _kernels.quick_arithmetic(how, np.dtype(letter)), getattr(np, how)
        np.testing.assert_array_equal(function(x, y), ufunc(x, y), strict=True)
        np.testing.assert_array_equal(function(y, x), ufunc(y, x), strict=True)


def test_elementwise_calls_of_other_arrays_are_the_ufuncs():
    x, function = numbers(4, 6), _kernels.quick_arithmetic("subtract", np.dtype("d"))
    for a, b in ((x.T, x.T), (x[:, ::2], x[:, 1::2]), (x[::-1], x), (np.broadcast_to(x[0], (4, 6)), x), (x, x.astype("f")),
                 (x, 2), (x.tolist(), x), (np.frombuffer(b"x" + x.tobytes(), offset=1).reshape(4, 6), x)):  # fmt: skip
        np.testing.assert_array_equal(function(a, b), np.subtract(a, b), strict=True)
    assert function(x.T, x.T).flags.f_contiguous
    out = np.empty_like(x)
    assert function(x, x[0], out) is out
    np.testing.assert_array_equal(out, x - x[0])
    assert function(x, x[0], out=out) is out
    assert function(x, x, order="F").flags.f_contiguous
    with pytest.raises(TypeError, match="keyword"):
        function(x, x, other=1)
    with pytest.raises(ValueError, match="could not be broadcast"):
        function(x, x.T.copy())
    for arrays in ((), (x,), (x,) * 4):
        with pytest.raises(TypeError, match="positional arguments"):
            function(*arrays)


def test_three_operands_broadcast():
    x, y, w = (tdt.tensor(numbers(*shape)) for shape in ((4, 1, 5), (3, 1), (2, 1, 3, 5)))
    for _ in range(2):
        np.testing.assert_array_equal(tdt.lerp(x, y, w).numpy(), tdt.lerp(*tdt.broadcast_tensors(x, y, w)).numpy())
        mask = x > y
        np.testing.assert_array_equal(tdt.where(mask, w, 1.5).numpy(), np.where(mask.numpy(), w.numpy(), 1.5))


def test_arithmetic_has_one_value_before_and_after_its_quick_form_is_loaded():
    x, y = (tdt.tensor(np.random.default_rng(k).standard_normal((7, 5)).astype("f")) for k in range(2))
    for row in (y, y[:1].contiguous()):
        found = [(x / row + x * row - row).numpy().tobytes() for _ in range(3 * FEW_CALLS)]
        assert len(set(found)) == 1


def test_a_copy_for_repeated_elements_is_freed():
    x, y, function = numbers(100, 20), numbers(100, 1), _kernels.quick_arithmetic("add", np.dtype("d"))
    function(x, y)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(20_000):  # of 16 kB
        function(x, y)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


def test_errors_are_the_ufuncs():
    function = layer()[1]
    for arrays in (
        (numbers(3, 4), numbers(5, 5), numbers(5)),
        (numbers(3, 4), numbers(4, 5), numbers(4)),
        (numbers(2, 3, 4), numbers(3, 4, 5), numbers(5)),
    ):
        with pytest.raises(ValueError, match=r"core dimension|broadcast"):
            function(*arrays)
    for arrays in ((), (numbers(3, 4),), (numbers(3, 4),) * 5):
        with pytest.raises(TypeError, match="positional arguments"):
            function(*arrays)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_glu_is_the_same_in_every_call(dim):
    x = tdt.tensor(np.random.default_rng(0).standard_normal((4, 6, 8)).astype("f"))
    a, b = np.split(x.numpy().astype(float), 2, dim)
    found = [tdt.nn.functional.glu(x, dim).numpy() for _ in range(5)]
    np.testing.assert_allclose(found[0], a / (1 + np.exp(-b)), rtol=1e-6)
    assert {each.tobytes() for each in found} == {found[0].tobytes()}


def test_keywords_are_handed_on():
    ufunc, function = layer()
    arrays, out = SAME["stacks"], np.empty((2, 3, 5))
    assert function(*arrays, out=out) is out
    np.testing.assert_array_equal(out, ufunc(*arrays))
    assert function(*arrays, order="F").strides == ufunc(*arrays, order="F").strides


def test_arrays_that_are_watched_are_left_to_the_ufunc():
    a, b, bias = numbers(3, 4), numbers(4, 5), numbers(5)

    class Noted(np.ndarray):
        def __array_ufunc__(self, *args: object) -> str:
            return "noted"

    for arrays in ((a.view(Noted), b, bias), (a, b, bias.view(Noted))):
        assert layer()[1](*arrays) == "noted"


def test_no_references_remain():
    arrays, function = SAME["stacks"], layer()[1]
    before = [sys.getrefcount(each) for each in arrays]
    for _ in range(100):
        out = function(*arrays)
    assert [sys.getrefcount(each) for each in arrays] == before
    reference = weakref.ref(out)
    del out
    assert reference() is None


def test_other_threads_run_during_a_large_product():
    size = 2 * round(LARGE ** (1 / 3))
    a, turns, done = numbers(size, size), [], threading.Event()
    started = threading.Event()

    def count() -> None:
        started.set()
        while not done.is_set():
            turns.append(1)

    thread = threading.Thread(target=count)
    thread.start()
    started.wait()
    function, results = layer()[1], []
    for _ in range(20):
        results.append(function(a, a, a[0]))
    done.set()
    thread.join()
    for found in results:
        np.testing.assert_array_equal(found, a @ a + a[0])
    assert turns
