"""Arrays begin at multiples of 64 bytes once a kernel is used, and keep their values when they grow and shrink."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import tdt
from tdt import _kernels

pytestmark = pytest.mark.skipif(
    not (_kernels.enabled() and sys.platform.startswith("linux")), reason="needs kernels and Linux"
)


@pytest.fixture(autouse=True)
def kernel():
    tdt.ones(8).exp()


@pytest.mark.parametrize("size", [1, 7, 100, 5000, 3_000_001])
def test_arrays_begin_at_multiples_of_64_bytes(size: int):
    arrays = [np.empty(size, "f"), np.zeros(size), np.arange(size), np.ones(size, "f") + 1]
    assert [a.ctypes.data % 64 for a in arrays] == [0] * 4
    assert not arrays[1].any()
    assert (np.diff(arrays[2]) == 1).all()
    assert (arrays[3] == 2).all()


@pytest.mark.parametrize(("before", "after"), [(3, 5), (10, 200_000), (200_000, 9), (1 << 20, 1 << 23), (5, 0)])
def test_an_array_that_changes_its_size_keeps_its_values(before: int, after: int):
    x = np.arange(before)
    x.resize(after, refcheck=False)
    remaining = min(before, after)
    assert x.ctypes.data % 64 == 0
    np.testing.assert_array_equal(x[:remaining], np.arange(remaining))
    assert not x[remaining:].any()


EARLY = """
import numpy as np
early = np.arange(1000)
import tdt
tdt.ones(8).exp()
late = early + 1
early.resize(5000, refcheck=False)
assert early[:1000].tolist() == list(range(1000)) and late.ctypes.data % 64 == 0
del early, late
"""


def test_arrays_from_before_are_freed_as_they_were_allocated():
    done = subprocess.run([sys.executable, "-c", EARLY], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


LAST = """
import numpy as np
import tdt
tdt.ones(8).exp()
np.kept = [np.ones(1000) for _ in range(50)]  # NumPy's module is cleared after those of tdt
"""


def test_arrays_that_outlive_the_modules_of_tdt_are_freed_too():
    done = subprocess.run([sys.executable, "-X", "dev", "-c", LAST], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
