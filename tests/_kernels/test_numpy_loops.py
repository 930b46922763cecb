"""NumPy's own loops, called without its iterator, give what the ufuncs give."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from tdt import _kernels
from tdt._kernels import quick_arithmetic
from tdt._kernels._arithmetic import LOOPED, LOOPS

pytestmark = pytest.mark.skipif(not _kernels.enabled(), reason="kernels are off")
SHAPES = (
    ((), ()),
    ((3,), (3,)),
    ((2, 3), (2, 3)),
    ((5,), ()),
    ((), (2, 2)),
    ((3, 1), (1, 4)),
    ((0,), (0,)),
    ((2, 3), (3,)),
)


@pytest.mark.parametrize("name", sorted(LOOPS))
def test_results_are_those_of_the_ufunc(name):
    ufunc, rng, found = getattr(np, name), np.random.default_rng(0), 0
    for letter in sorted(LOOPED - {*"fd"}):
        quick = quick_arithmetic(name, np.dtype(letter))
        if quick is None:
            continue
        found += 1
        for shapes in SHAPES:
            a, b = (np.array(rng.integers(0, 100, shape)).astype(letter) for shape in shapes)
            turned = [(a.T, b.T)] if a.shape == b.shape else []
            for x, y in ((a, b), *turned, (a[..., ::-1] if a.ndim else a, b)):
                expected, result = ufunc(x, y), quick(x, y)
                np.testing.assert_array_equal(result, expected)
                assert (result.dtype, np.shape(result)) == (expected.dtype, np.shape(expected))
                out = np.empty(np.shape(expected), expected.dtype)
                assert quick(x, y, out) is out
                np.testing.assert_array_equal(out, expected)
    assert found > 5


def test_what_does_not_fit_is_left_to_the_ufunc():
    add = quick_arithmetic("add", np.dtype("l"))
    a, b = np.arange(3), np.arange(4)
    with pytest.raises(ValueError, match="broadcast"):
        add(a, b)
    out = np.empty(3, int)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        add(a, a, out)
    assert add(a, 2).tolist() == [2, 3, 4] and add(a, a.astype("d")).dtype == "d"
    out = np.empty(3, "d")
    assert add(a, np.array(1), out) is out and out.tolist() == [1, 2, 3]
    assert add(a, a, out=a) is a and a.tolist() == [0, 2, 4]
    watched = a, np.array(7), a.dtype
    before = [sys.getrefcount(each) for each in watched]
    for _ in range(100):
        add(a, watched[1])
        add(watched[1], watched[1], np.empty((), int))
        add(a, a, a)
    assert [sys.getrefcount(each) for each in watched] == before
