"""Places of arrays in memory: what shares memory, and what lay where others lie now."""

from __future__ import annotations

import weakref
from types import ModuleType

import numpy as np
import pytest

import tdt
from tdt._compiled.places import Places


def test_views_share_memory_and_others_do_not():
    places, a = Places(), np.zeros((4, 6))
    for name, array in {
        "whole": a,
        "left": a[:, :3],
        "top": a[:2],
        "bottom": a[2:],
        "other": np.zeros(24),
        "none": a[:0],
    }.items():
        places.name(array, name)
    known = places.by_name
    for one in known:
        for other in known:
            views = {"whole", "left", "top", "bottom"}
            together = one in views and other in views and {one, other} != {"top", "bottom"}
            assert known[one].shares(known[other]) == (together or (one == other == "other"))


def test_a_view_whose_array_object_is_gone_still_shares_memory():
    places, a = Places(), np.zeros(8)
    places.name(a, "whole")
    places.name(a[2:4], "part")
    assert places.by_name["part"].shares(places.by_name["whole"])
    places.name(a[3:], "rest")
    assert places.by_name["part"].shares(places.by_name["rest"])


def test_memory_that_is_used_again_is_not_shared():
    places = Places()
    for k in range(50):
        a = np.zeros(1 << 12)
        places.name(a, f"a{k}")
        del a
    known = [*places.by_name.values()]
    found = any(x.low < y.high and y.low < x.high for x in known for y in known if x is not y)
    assert found  # the allocator gives the same memory again
    assert not any(x.shares(y) for x in known for y in known if x is not y)


def test_names_end_with_their_arrays():
    places, a, b = Places(), np.zeros(3), np.zeros(3)
    places.name(a, "first")
    places.name(a, "second")
    assert places.name_of(a) == "second"
    assert places.name_of(b) is None
    key = id(a)
    del a
    assert key not in places._names


@pytest.mark.parametrize("graph", [False, True])
def test_arrays_are_freed_while_a_call_is_recorded(graph):
    counts = ModuleType("counts")  # of calls, and of those in which the array was freed; guards do not look at it
    counts.calls = counts.freed = 0

    @tdt.compile(fullgraph=True)
    def function(x):
        y = x + 1
        reference = weakref.ref(y._a)
        y = y + 2  # of which the gradient takes nothing
        counts.calls, counts.freed = counts.calls + 1, counts.freed + (reference() is None)
        return y.exp()

    x = tdt.ones(1000, requires_grad=graph)
    results = [function(x).detach().numpy().tobytes() for _ in range(3)]
    assert counts.calls == counts.freed == 2  # recorded, and compared
    assert results == [(x + 1 + 2).exp().detach().numpy().tobytes()] * 3
