"""Tensors that machine code creates around arrays."""

import gc
import sys

import numpy as np
import pytest

import tdt
from tdt._core.tensor import Storage, Tensor, wrap
from tdt._kernels._wrapping import wrapper

SLOTS = "_a", "_st", "_grad", "_edge", "_view"


def test_tensors_are_as_wrap_creates_them():
    arrays = np.arange(3, dtype=np.float32), np.array(True)
    found = wrapper(Tensor, Storage, SLOTS, ())(arrays, ())
    for t, like, array in zip(found, map(wrap, arrays), arrays, strict=True):
        assert type(t) is Tensor and t._a is array and not vars(t)
        assert type(t._st) is Storage and t._st.version == 0 and not vars(t._st)
        assert [getattr(t, name) for name in SLOTS[2:]] == [getattr(like, name) for name in SLOTS[2:]]
        assert gc.is_tracked(t) and gc.is_tracked(t._st) is gc.is_tracked(like._st)
    assert found[0]._st is not found[1]._st
    found[0].requires_grad_().mul(2).sum().backward()
    assert found[0].grad.tolist() == [2, 2, 2]


def test_tensors_and_their_storages_are_freed():
    array, root, call = np.ones(4), tdt.ones(4), wrapper(Tensor, Storage, SLOTS, (0,))
    call((array,), (root,))
    counted = array, Tensor, Storage, None
    before = [*map(sys.getrefcount, counted)]
    for _ in range(100):
        call((array, array), (root,))
    after = [*map(sys.getrefcount, counted)]
    assert after[:3] == before[:3] and abs(after[3] - before[3]) < 50


def test_tensors_with_each_other_as_attributes_are_freed_by_the_collector():
    class Noted:
        count = 0

        def __del__(self):
            Noted.count += 1

    a, b = wrapper(Tensor, Storage, SLOTS, ())((np.ones(1), np.ones(1)), ())
    a.other, b.other, a.noted = b, a, Noted()
    del a, b
    gc.collect()
    assert Noted.count == 1


def test_no_arrays_are_an_empty_list_and_what_is_no_tuple_an_error():
    call = wrapper(Tensor, Storage, SLOTS, ())
    assert call((), ()) == []
    with pytest.raises(SystemError):
        call([np.ones(1)], ())


def test_a_class_without_slots_has_no_places():
    assert wrapper(tdt.nn.Linear, Storage, SLOTS, ()) is None


def test_the_last_arrays_become_gradients():
    roots = tdt.ones(1), tdt.ones(2, requires_grad=True), tdt.nn.Parameter(tdt.ones(3))
    roots[1].grad = before = tdt.zeros(2)
    arrays = np.array(5.0, np.float32), np.ones(3, np.float32), np.full(2, 7, np.float32)
    (result,) = wrapper(Tensor, Storage, SLOTS, (2, 1))(arrays, roots)
    assert result.item() == 5
    assert roots[0].grad is None and roots[1].grad.tolist() == [7, 7] and roots[2].grad.tolist() == [1, 1, 1]
    assert roots[1].grad is not before and sys.getrefcount(before) == 2
