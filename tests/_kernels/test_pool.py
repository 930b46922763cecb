"""The thread pool: every block is done once, by several threads; a fork does not hang; idle threads cost nothing."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from tdt._kernels import _pool, enabled
from tdt._kernels._code import native
from tdt._kernels._jit import jit
from tests._kernels.forked import check_children

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def four_threads():
    before = _pool.get_num_threads()
    _pool.set_num_threads(4)
    yield
    _pool.set_num_threads(before)


@jit
def add_one(first, last, counts):
    for i in range(first, last):
        counts[i] += 1


@native("p")
def wait_for_all(code, first, last, arguments):
    """Block 0 and the others wait for each other: it ends only if several threads take part."""
    arrived, looks = _pool.State(code, arguments[0]), code.variable("i64", 0)
    arrived.add(1, 0)
    with code.forever() as leave:
        leave((arrived.read(0) >= 2) | (looks.get() >= 200_000_000))
        looks.add(1)
        arrived.pause()


def end_pool() -> None:
    """Close the pool, so that the next job makes one."""
    if _pool._pool is not None:
        _pool._pool.close()
        _pool._pool = None


def names() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("tdt-kernel")]


@pytest.mark.parametrize("blocks", [0, 1, 2, 3, 4, 5, 97, 1000])
def test_every_block_is_done_once(blocks):
    counts = np.zeros(blocks, np.int64)
    for _ in range(20):  # jobs that follow each other closely share one state
        _pool.parallel(add_one, blocks, counts)
    np.testing.assert_array_equal(counts, 20)


def test_blocks_of_jobs_at_random_intervals_are_done_once():
    rng = np.random.default_rng(0)
    counts = np.zeros(64, np.int64)
    for _ in range(200):
        _pool.parallel(add_one, 64, counts)
        time.sleep(rng.choice([0, 0, 0, 1e-4, 2e-3]))  # awake, about to sleep, asleep
    np.testing.assert_array_equal(counts, 200)


def test_several_threads_take_part():
    arrived = np.zeros(1, np.int64)
    start = time.perf_counter()
    _pool.parallel(wait_for_all(), 4, arrived)
    assert arrived[0] == 4
    assert time.perf_counter() - start < 4, "the blocks ran one after the other"


def test_small_work_starts_no_thread():
    end_pool()
    before = names()
    counts = np.zeros(7, np.int64)
    _pool.parallel(add_one, 7, counts, grain=4)
    np.testing.assert_array_equal(counts, 1)
    assert set(names()) <= set(before)  # those of pools that were closed are ending
    assert _pool._pool is None


def test_a_kernel_that_fails_is_reported_and_the_pool_continues(monkeypatch):
    counts = np.zeros(8, np.int64)
    _pool.parallel(add_one, 8, counts)
    entry, _ = add_one.prepare((counts,))
    failing = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(lambda *_: 1)
    broken = entry._replace(address=ctypes.cast(failing, ctypes.c_void_p).value)
    monkeypatch.setattr(add_one, "prepare", lambda args: (broken, b""))
    with pytest.raises(RuntimeError, match="kernel add_one raised an error"):
        _pool.parallel(add_one, 8, counts)
    monkeypatch.undo()
    _pool.parallel(add_one, 8, counts)
    np.testing.assert_array_equal(counts, 2)


def test_calls_from_several_threads_do_not_mix():
    counts = [np.zeros(100, np.int64) for _ in range(8)]

    def add_often(own: np.ndarray) -> None:
        for _ in range(50):
            _pool.parallel(add_one, 100, own)

    threads = [threading.Thread(target=add_often, args=(c,)) for c in counts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    np.testing.assert_array_equal(counts, 50)


def test_idle_threads_sleep():
    counts = np.zeros(8, np.int64)
    _pool.parallel(add_one, 8, counts)
    deadline = time.monotonic() + 20
    while _pool._pool.state[_pool.ASLEEP] < _pool._pool.threads and time.monotonic() < deadline:
        time.sleep(0.01)
    assert _pool._pool.state[_pool.ASLEEP] == _pool._pool.threads
    before = time.process_time()
    time.sleep(0.2)
    assert time.process_time() - before < 0.1


def test_more_threads_replace_the_pool_and_end_the_old_one():
    end_pool()
    counts = np.zeros(64, np.int64)
    _pool.parallel(add_one, 64, counts)
    old = _pool._pool
    _pool.set_num_threads(6)
    _pool.parallel(add_one, 64, counts)
    np.testing.assert_array_equal(counts, 2)
    assert _pool._pool is not old
    deadline = time.monotonic() + 20
    while len(names()) > 5 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(names()) == 5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_creates_its_own_pool():
    check_children(
        """
import numpy as np
from tdt._kernels import _pool, enabled
from tdt._kernels.generated import Elementwise
add = Elementwise("add", lambda xp, a, b: a + b)
_pool.set_num_threads(3)
x = np.linspace(-3, 3, 2_000_000, dtype=np.float32)
before = add((x, x))  # the parent's pool is running
def child():
    assert _pool._pool is None
    assert np.array_equal(add((x, x)), before)
    assert _pool._pool is not None
""",
        after="assert np.array_equal(add((x, x)), before)",
    )


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


def test_the_blas_leaves_the_cores_to_the_pool():
    threadpoolctl = pytest.importorskip("threadpoolctl")

    def threads() -> set[int]:
        return {p["num_threads"] for p in threadpoolctl.threadpool_info() if "numpy.libs" in p["filepath"]}

    np.ones((4, 4)) @ np.ones((4, 4))
    with threadpoolctl.threadpool_limits(3):
        assert threads() == {3}
        end_pool()
        _pool.parallel(add_one, 8, np.zeros(8, np.int64))
        assert threads() == {1}
    with threadpoolctl.threadpool_limits(3):
        _pool.single_threaded()
        assert threads() == {1}
        assert _pool.get_num_threads() == 1


def test_the_blas_of_scipy_keeps_to_the_calling_thread():
    pytest.importorskip("threadpoolctl")
    code = (
        "import numpy, threadpoolctl, tdt\n"
        "tdt.linalg.solve_triangular(tdt.eye(3), tdt.ones(3, 2), upper=False)\n"
        "print({p['num_threads'] for p in threadpoolctl.threadpool_info() if 'scipy.libs' in p['filepath']} - {1})"
    )
    environment = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"


@pytest.mark.skipif(not enabled(), reason="kernels are off")
def test_a_process_whose_threads_are_awake_ends_without_an_error():
    code = (
        "import tdt\nfrom tdt._kernels import _pool\ntdt.set_num_threads(4)\n_pool.SPINS = 1 << 40\n"
        "tdt.conv2d(tdt.ones(4, 16, 32, 32), tdt.ones(32, 16, 3, 3))\nassert _pool._pool is not None"
    )
    completed = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert completed.returncode == 0, completed.stderr
