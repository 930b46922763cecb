"""The thread pool: every block is done once, errors reach the caller, a fork does not hang."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from tdt._kernels import _pool

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def four_threads():
    before = _pool.get_num_threads()
    _pool.set_num_threads(4)
    yield
    _pool.set_num_threads(before)


def add_one(first: int, last: int, counts: np.ndarray) -> None:
    counts[first:last] += 1


@pytest.mark.parametrize("blocks", [0, 1, 2, 3, 4, 5, 97, 1000])
def test_every_block_is_done_once(blocks):
    counts = np.zeros(blocks, np.int64)
    _pool.parallel(add_one, blocks, counts)
    np.testing.assert_array_equal(counts, 1)


def test_small_work_stays_on_the_calling_thread():
    seen = []
    _pool.parallel(lambda first, last: seen.append((threading.current_thread(), first, last)), 7, grain=4)
    assert seen == [(threading.current_thread(), 0, 7)]


def test_an_error_in_any_part_reaches_the_caller_and_the_pool_goes_on():
    def fail_late(first: int, last: int) -> None:
        if last == 8:
            raise ValueError("the last part")

    with pytest.raises(ValueError, match="the last part"):
        _pool.parallel(fail_late, 8)
    counts = np.zeros(8, np.int64)
    _pool.parallel(add_one, 8, counts)
    np.testing.assert_array_equal(counts, 1)


def test_calls_from_several_threads_do_not_mix():
    counts = [np.zeros(100, np.int64) for _ in range(8)]
    threads = [threading.Thread(target=_pool.parallel, args=(add_one, 100, c)) for c in counts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    np.testing.assert_array_equal(counts, 1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_makes_its_own_pool():
    code = """
import os, sys
import numpy as np
from tdt._kernels import _pool
from tdt._kernels.gelu_cpu import gelu
_pool.set_num_threads(3)
x = np.linspace(-3, 3, 200_000, dtype=np.float32)
before = gelu(x, approximate="none")  # the parent's pool is running
def child():
    assert _pool._pool is None
    assert np.array_equal(gelu(x, approximate="none"), before)
    assert _pool._pool is not None
children = []
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        try:
            child()
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(1)
        os._exit(0)
    children.append(pid)
codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
assert np.array_equal(gelu(x, approximate="none"), before)
sys.exit(max(codes))
"""
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True,
                          text=True, timeout=60)  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, "2"])
def test_set_num_threads_refuses_what_is_no_positive_integer(bad):
    with pytest.raises(RuntimeError, match="expects a positive integer"):
        _pool.set_num_threads(bad)


def test_omp_num_threads_is_the_default():
    code = "from tdt._kernels._pool import get_num_threads; print(get_num_threads())"
    for value, expected in {"3": "3", "5,2": "5"}.items():
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": value}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == expected


def test_single_threaded_holds_for_kernels_and_blas():
    threadpoolctl = pytest.importorskip("threadpoolctl")
    np.ones((4, 4)) @ np.ones((4, 4))
    _pool.set_num_threads(2)
    assert {p["num_threads"] for p in threadpoolctl.threadpool_info() if "numpy.libs" in p["filepath"]} == {2}
    _pool.single_threaded()
    assert _pool.get_num_threads() == 1
    assert {p["num_threads"] for p in threadpoolctl.threadpool_info() if "numpy.libs" in p["filepath"]} == {1}
