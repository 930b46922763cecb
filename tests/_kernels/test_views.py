"""Machine code expands arrays as NumPy's `broadcast_to`, and makes the tensors around views that Python code makes."""

from __future__ import annotations

import gc
import sys

import numpy as np
import pytest

import tdt
from tdt import _kernels
from tdt._core.tensor import View
from tdt._kernels._views import MOST_DIMS, VIEW_SLOTS, expand, view_wrapper
from tdt.autograd._wrap import wrap_view

pytestmark = pytest.mark.skipif(not _kernels.enabled(), reason="kernels are off")
wrap = view_wrapper(tdt.Tensor, View)
STEP = ("an op", {}, None)


def numbers(*shape: int, dtype: str = "f") -> np.ndarray:
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


@pytest.mark.parametrize(
    ("array", "shape"),
    [
        (numbers(3, 1), (3, 4)),
        (numbers(3, 1), (2, 3, 4)),
        (numbers(1), (5,)),
        (numbers(), (2, 3)),
        (numbers(2, 3), (2, 3)),
        (numbers(4, 1, 3).T, (3, 7, 4)),
        (numbers(6, 1)[::-2], (3, 2)),
        (numbers(1, 3), (0, 3)),
        (numbers(0, 1), (0, 4)),
        (numbers(2, 1, dtype="F"), (2, 2)),
        (numbers(), ()),
    ],
)
def test_arrays_are_expanded_as_by_numpy(array, shape):
    found, expected = expand()(array, shape), np.broadcast_to(array, shape)
    np.testing.assert_array_equal(found, expected, strict=True)
    assert np.may_share_memory(found, array) or not found.size
    assert found.flags.writeable and found.flags.aligned == array.flags.aligned
    assert found.base is (array if array.base is None else array.base)
    assert found.flags.c_contiguous == expected.flags.c_contiguous
    strides = [s for s, n in zip(found.strides, shape, strict=True) if n > 1]
    assert strides == [s for s, n in zip(expected.strides, shape, strict=True) if n > 1] or not found.size


def test_what_cannot_be_written_to_stays_so():
    array = numbers(3, 1)
    array.flags.writeable = False
    assert not expand()(array, (3, 2)).flags.writeable


@pytest.mark.parametrize("shape", [(4, 3), (3,), (3, -1), [3, 4], (1,) * MOST_DIMS + (3, 1), 3])
def test_what_does_not_fit_is_left_alone(shape):
    assert expand()(numbers(3, 1), shape) is None


def test_sizes_that_are_no_integers_raise_pythons_error():
    with pytest.raises(TypeError):
        expand()(numbers(3, 1), (3, "4"))
    with pytest.raises(OverflowError):
        expand()(numbers(3, 1), (3, 1 << 70))


def test_only_arrays_of_numpy_are_expanded():
    assert expand()(numbers(3, 1).view(np.matrix), (3, 2)) is None
    assert expand()(None, (3, 2)) is None


def described(t: tdt.Tensor) -> dict:
    found = {name: getattr(t._view, name) for name in VIEW_SLOTS}
    return {**found, "array": t._a, "storage": t._st, "edge": t._edge, "grad": t._grad}


BASE = tdt.ones(3, 4)
VIEW_OF_BASE = BASE[1:]


@pytest.mark.parametrize("meta", [None, "no_grad", "multi"])
@pytest.mark.parametrize("x", [BASE, VIEW_OF_BASE, tdt.nn.Parameter(tdt.ones(2, 3)), tdt.from_numpy(numbers(4, 2).T)])
def test_tensors_of_views_are_those_of_python(x, meta):
    array = x._a[::2]
    found, expected = wrap(x, array, STEP, meta), wrap_view(x, array, STEP, meta)
    assert type(found) is tdt.Tensor
    expected = described(expected)
    for name, value in described(found).items():
        assert value is expected[name] or value == expected[name], name
    found.note = 1
    assert found.note == 1 and found._view.step is STEP


def test_a_view_of_another_mode_keeps_it():
    with tdt.no_grad():
        view = tdt.ones(3)[1:]
    assert wrap(view, view._a[1:], STEP, None)._view.creation_meta == "no_grad"


@pytest.mark.parametrize(
    ("x", "array"),
    [
        (BASE, numbers(3)),
        (BASE, BASE._a.copy()[1:]),
        (tdt.ones(0, 3), numbers(0, 3)),
        (VIEW_OF_BASE, np.float32(1)),
    ],
)
def test_arrays_of_other_memory_are_left_alone(x, array):
    assert wrap(x, array, STEP, None) is None
    assert wrap_view(x, np.asarray(array), STEP, None) is None


def test_what_is_no_tensor_is_left_alone():
    assert wrap(numbers(3), numbers(3), STEP, None) is None
    assert wrap(None, numbers(3), STEP, None) is None


def test_references_are_counted():
    x, array, shape = tdt.ones(3, 1), numbers(3, 1), (3, 2)
    step = ("an op", {"x": 1}, None)
    watched = (x, x._a, x._st, step, array, array.dtype, shape)
    view = x._a[1:]
    gc.collect()  # what other tests left
    before = [sys.getrefcount(v) for v in watched]
    for _ in range(100):
        wrap(x, view, step, None), wrap(x, array, step, None), expand()(array, shape), expand()(array, (2, 2))
    gc.collect()
    assert [sys.getrefcount(v) for v in watched] == before


def test_the_version_is_that_of_the_storage():
    x = tdt.zeros(3)
    x.add_(1)
    assert wrap(x, x._a[1:], STEP, None)._view.version == x._version == 1
