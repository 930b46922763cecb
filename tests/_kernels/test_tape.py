"""Tapes: what code launches is noted, and gives the same bits for other values; what cannot be noted is told."""

from __future__ import annotations

import numpy as np
import pytest

import tdt
from tdt._kernels._code import native
from tdt._kernels._launches import watch
from tdt._kernels._pool import parallel
from tdt._kernels._tape import Tape, Watched, copies, is_held, plain
from tdt.nn import functional as F

pytestmark = pytest.mark.skipif(not tdt.backends.kernels.enabled(), reason="portable code launches nothing")
RNG = np.random.default_rng(5)


def numbers(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def watched(function, *arrays):
    """The result of a function of arrays, and what it launched."""
    with watch() as trace:
        result = function(*[a.view(Watched) for a in arrays])
    return plain(result), trace


def product(x, w):
    from tdt._kernels import product

    return product(np, x, w)


FUNCTIONS = {
    "NumPy's ufunc": (np.add, numbers(4, 3), numbers(4, 3)),
    "broadcast": (np.multiply, numbers(4, 1, 3), numbers(5, 1)),
    "strided": (lambda x, y: np.subtract(x[::2], y[:, ::-1]), numbers(6, 5), numbers(3, 5)),
    "0-d": (np.add, np.asarray(np.float32(2)), np.asarray(np.float32(3))),
    "numbers": (lambda x: 2 - x * 0.5 + np.float32(1), numbers(3)),
    "no elements": (np.add, numbers(0, 3), numbers(0, 3)),
    "a condition": (lambda x: np.where(False, x, x) if x.ndim > 9 else x > 0, numbers(3)),
    "a product of matrices": (product, numbers(6, 5), numbers(5, 4)),
    "a stack of products": (product, numbers(2, 3, 6, 5), numbers(2, 3, 5, 4)),
    "into an array": (lambda x, y: np.add(x, y, out=y), numbers(4), numbers(4)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_tape_gives_the_functions_bits_for_other_values(name):
    function, *arrays = FUNCTIONS[name]
    result, trace = watched(function, *arrays)
    assert trace.complete and trace.launches
    for a in arrays:
        a[...] = RNG.normal(size=a.shape)
    expected = function(*[a.copy() for a in arrays])
    assert Tape(trace.launches).run()
    assert np.asarray(expected).tobytes() == np.asarray(result).tobytes()


def test_code_that_is_watched_sees_ordinary_arrays():
    received = []
    watched(
        lambda x: received.append((x.__class__ is np.ndarray, isinstance(x[1:], np.ndarray), (x + 1).__class__)),
        numbers(3),
    )
    assert received == [(True, True, np.ndarray)]


READS = {
    "sum": lambda x: x.sum(),
    "float": lambda x: float(np.add(x, 1)),
    "int": lambda x: int(np.add(x, 1)),
    "item": lambda x: np.add(x, 1).item(),
    "list": lambda x: np.add(x, 1).tolist(),
    "index": lambda x: [0, 1, 2][np.left_shift(x.view(np.int32), 31) * 0],
}


@pytest.mark.parametrize("name", READS)
def test_what_python_reads_or_numpy_reduces_makes_a_trace_incomplete(name):
    assert not watched(READS[name], np.asarray(np.float32(2)))[1].complete


def test_ufuncs_of_other_libraries_are_not_launched():
    from scipy.special import erf

    assert not watched(erf, RNG.normal(size=3))[1].complete


def test_a_condition_on_a_result_becomes_a_check():
    def function(x):
        if np.greater(x, 0):
            return x * 2
        return x * 3

    x = np.asarray(np.float32(1))
    result, trace = watched(function, x)
    tape = Tape(trace.launches)
    x[...] = 4
    assert tape.run() and result == 8
    x[...] = -1
    assert not tape.run() and tape.failed[0] == 1 and result == 8


@native("ppq")
def _double(code, first, last, arguments):
    x, out, _ = arguments
    with code.loop(first, last) as i:
        code.store(code.load("float", x, i) * 2.0, out, i)


@native("ppq", vectorize=False)
def _running_sum(code, first, last, arguments):
    x, out, count = arguments
    total = code.variable("float", 0.0)
    with code.loop(first, last) as i:
        total.set(total.get() + code.load("float", x, i))
        code.store(total.get(), out, i)


def test_a_kernel_that_python_calls_on_its_own_thread_stays_on_one():
    x, out = numbers(100_000), np.empty(100_000, np.float32)
    before = tdt.get_num_threads()
    tdt.set_num_threads(2)
    try:
        with watch() as trace:
            _running_sum()(0, len(x), x, out, len(x))
            _running_sum().run(len(x), [x, out], len(x))
        tape = Tape(trace.launches)
        for _ in range(20):
            out[...] = 0
            assert tape.run()
            assert np.array_equal(out, x.cumsum(dtype=np.float32))
    finally:
        tdt.set_num_threads(before)


@pytest.mark.parametrize("threads", [1, 2])
def test_kernels_are_shared_out_by_the_pool(threads):
    x, out = numbers(1000), np.empty(1000, np.float32)
    before = tdt.get_num_threads()
    tdt.set_num_threads(threads)
    try:
        with watch() as trace:
            parallel(_double(), 1000, x, out, 1000, grain=10)
        tape = Tape(trace.launches)
        for _ in range(20):
            x[...] = RNG.normal(size=1000)
            out[...] = 0
            assert tape.run()
            assert np.array_equal(out, x * 2)
    finally:
        tdt.set_num_threads(before)


def test_launches_with_addresses_of_arrays_that_nobody_holds_are_found():
    x, out = numbers(8), np.empty(8, np.float32)
    with watch() as trace:
        _double()(0, 8, x, out, 8)
        _double()(0, 8, x.ctypes.data, out, 8)
        table = np.array([x.ctypes.data])
        _double()(0, 1, table, out, 8)
    assert [is_held(launch) for launch in trace.launches] == [True, False, False]


def test_copies_of_elements():
    x = np.arange(6, dtype=np.float32)
    out = np.zeros(6, np.float32)
    tape = Tape([copies([(out[:2], x[4:]), (out[3:], x[:3])], (out, x))])
    assert tape.run()
    assert out.tolist() == [4, 5, 0, 0, 1, 2]


def test_another_thread_is_not_watched():
    import threading

    x = tdt.ones(64)
    with watch() as trace:
        thread = threading.Thread(target=lambda: F.gelu(x) @ x)
        thread.start()
        thread.join()
    assert trace.launches == []
