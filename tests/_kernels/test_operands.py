"""Machine code gathers the operands of a call: their arrays, and the plan for their types."""

from __future__ import annotations

import gc
import sys

import pytest

import tdt
from tdt import _kernels
from tdt._kernels._operands import gatherer
from tdt.autograd._op_table import OPS
from tdt.autograd._plan import plan_for
from tdt.autograd._record import CLASSES

pytestmark = pytest.mark.skipif(not _kernels.enabled(), reason="kernels are off")
gather = gatherer(CLASSES)
X, Y = tdt.rand(3, requires_grad=True), tdt.nn.Parameter(tdt.rand(3))
tdt.stack([X, Y])  # loads the op
KINDS = X._a.dtype, Y._a.dtype
PLANS = {KINDS: plan_for(OPS["stack"], KINDS, [X._a, Y._a])[1]}


def test_arrays_and_plan_are_those_of_the_operands():
    plan, arrays = gather(PLANS, (X, Y))
    assert plan is PLANS[KINDS]
    assert [a is t._a for a, t in zip(arrays, (X, Y), strict=True)] == [True, True]
    assert gather({(X._a.dtype, float): plan}, (X, 2.0)) == (plan, (X._a, 2.0))


def test_what_python_has_to_look_at_is_left_to_it():
    base = X * 1
    view = base[1:]
    assert gather(PLANS, (view, view)) is not None
    base.mul_(2)
    plan = PLANS[KINDS]
    by_rank = type(plan)(None, None, True)
    by_rank.by_rank = {}
    assert [
        gather(PLANS, (view, view)),  # its place in the graph is outdated
        gather(PLANS, [X, Y]),
        gather(PLANS, (X, Y.double())),
        gather(PLANS, (X, tdt.rand(3, device="meta"))),
        gather({KINDS: type(plan)(None, None, False)}, (X, Y)),
        gather({KINDS: by_rank}, (X, Y)),
    ] == [None] * 6


def test_references_are_counted():
    operands = X, Y, 2.0
    kinds = X._a.dtype, Y._a.dtype, float
    plan = PLANS[kinds[:2]]
    plans, watched = {kinds: plan}, (operands, X, Y, X._a, Y._a, plan, *kinds)
    gc.collect()
    before = [sys.getrefcount(v) for v in watched]
    for _ in range(100):
        gather(plans, operands)
        gather({}, operands)
    assert [sys.getrefcount(v) for v in watched] == before
