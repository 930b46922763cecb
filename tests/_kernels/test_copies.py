"""Copies of the same arrays at each call."""

import sys

import numpy as np

from tdt._kernels._copies import copier


def test_copies_are_new_arrays_with_the_values_that_the_arrays_have_then():
    arrays = [np.arange(6, dtype=np.float32).reshape(2, 3), np.array(2.5), np.array([True, False]), np.zeros((0, 4))]
    copies = copier(arrays)
    for change in (0, 1):
        arrays[0] += change
        found = copies()
        assert type(found) is tuple
        for copied, array in zip(found, arrays, strict=True):
            assert (copied.dtype, copied.shape, copied.strides) == (array.dtype, array.shape, array.strides)
            assert copied.tobytes() == array.tobytes() and copied.flags.owndata and copied.flags.writeable
        found[0][...] = 0
        assert arrays[0][1, 2] == 5 + change


def test_copies_are_freed():
    arrays = [np.ones(4)]
    copies = copier(arrays)
    before = sys.getrefcount(arrays[0])
    for _ in range(10):
        (copied,) = copies()
    counts = sys.getrefcount(copied), sys.getrefcount(arrays[0])
    assert counts == (2, before)


def test_no_arrays_have_no_copies():
    assert copier([])() == ()
