"""Machine code makes the tensors around results, and the nodes of the graph, that Python code makes."""

from __future__ import annotations

import gc
import sys

import numpy as np
import pytest

import tdt
from tdt import _kernels
from tdt._core.tensor import LEAF
from tdt._kernels._nodes import finisher
from tdt._kernels._objects import SLOTS
from tdt.autograd._node import numbers
from tdt.autograd._record import CLASSES, FINISH, finish

pytestmark = pytest.mark.skipif(not _kernels.enabled(), reason="kernels are off")
left: list[tuple] = []  # to Python


def otherwise(*args):
    left.append(args)
    return finish(*args)


native = finisher(CLASSES, LEAF, numbers, otherwise)
X = tdt.nn.Parameter(tdt.rand(3, 4))
Y = tdt.rand(4, requires_grad=True) * 2
VIEW = (tdt.rand(4, 4, requires_grad=True) * 1)[1:]
MASK = tdt.rand(3, 4) > 0.5
CALLS = {
    "saves nothing": lambda: X + X,
    "saves operands": lambda: X * X.detach(),
    "is broadcast": lambda: X * Y,
    "a number": lambda: X * 3.0,
    "the result": lambda: Y.exp(),
    "a view among the operands": lambda: VIEW * X,
    "a shape": lambda: X.sum(0),
    "attributes": lambda: X.softmax(1),
    "a view": lambda: X[0],
    "a chain of views": lambda: X.t()[1:],
    "three operands": lambda: tdt.where(MASK, X, Y),
    "an absent operand": lambda: tdt.nn.functional.linear(X, X, None),
    "a sequence": lambda: tdt.cat([X, VIEW.detach(), VIEW]),
    "numbers of the rule": lambda: X.clamp(0.2, 0.8),
    "several results": lambda: X.max(1)[0],
    "several views": lambda: X.chunk(2, 1)[1],
    "several results of a view": lambda: VIEW.topk(2)[0],
}


def described(out):
    node = out.grad_fn
    found = {name: getattr(node, name) for name in SLOTS["node"] if name not in ("number", "saved", "call")}
    saved = [(a.tolist() if isinstance(a, np.ndarray) else a, st is out._st, version) for a, st, version in node.saved]
    edges = [e and (id(e[0]) if isinstance(e[0], tdt.Tensor) else e[0].name(), e[1]) for e in node.edges]
    return {**found, "edges": edges, "kind": type(node.saved), "saved": saved, "called": type(node.call)}


@pytest.mark.parametrize("name", CALLS)
def test_nodes_are_those_of_python(name, monkeypatch):
    found = []
    for function in (otherwise, native, native):
        monkeypatch.setattr(FINISH, "call", function)
        for _ in range(5):
            out = CALLS[name]()
        left.clear()
        out = CALLS[name]()
        assert bool(left) == (function is otherwise)
        found.append((out.detach().numpy(), described(out), out.grad_fn.number))
    (values, node, _), *others = found
    for each, other, _ in others:
        np.testing.assert_array_equal(each, values)
        assert other == node
    assert others[0][2] < others[1][2]


def test_what_nothing_is_recorded_of_gets_a_tensor_alone():
    array = np.ones((2, 3))
    out = native(None, None, (), (), {}, array, None, None)
    assert type(out) is tdt.Tensor
    assert (out._a is array, out._edge, out._view, out._grad, out._version) == (True, None, None, None, 0)
    assert native(None, None, (), (), {}, np.float32(2), None, None).shape == ()
    several = native(None, None, (), (), {}, (array, np.float32(2)), None, None)
    assert [type(each) for each in several] == [tdt.Tensor] * 2 and several[0]._a is array


def test_what_python_refuses_is_left_to_it(monkeypatch):
    monkeypatch.setattr(FINISH, "call", native)
    with tdt.inference_mode():
        inferred = tdt.ones(3, 4)
    with tdt.no_grad():
        nowhere = X[0]
    for _ in range(3):
        with pytest.raises(RuntimeError, match="Inference tensors cannot be saved"):
            X * inferred
        assert (nowhere * 2).grad_fn.next_functions[0] == (None, 0)
    base = Y * 1
    view = base[1:]
    base.mul_(2)
    assert (view * 1).grad_fn.next_functions[0][0].next_functions[0] == (base.grad_fn, 0)


@pytest.mark.parametrize("several", [False, True])
def test_references_are_counted(several):
    x, y = tdt.rand(3, 4, requires_grad=True), tdt.rand(4, requires_grad=True)
    out = x.max(1)[0] if several else x * y
    node = out.grad_fn
    plan = next(p for p in node.backward_plan.op.plans.values() if node.backward_plan in p.backward_plans.values())
    attributes = {"a": 1}
    array = np.ones((3, 4), np.float32)
    operands = (x,) if several else (x, y)
    result = (array, np.ones((3, 4), np.int64)) if several else array
    args = node.backward_plan.op, plan, operands, tuple([t._a for t in operands]), attributes, result, None, None
    watched = (
        *args[:6],
        array,
        x,
        y,
        x._a,
        y._a,
        x._st,
        LEAF,
        node.backward_plan,
        array.dtype,
        x._edge,
        tdt.Tensor,
        type(node),
    )
    gc.collect()  # what other tests left
    before = [sys.getrefcount(v) for v in watched]
    for _ in range(100):
        native(*args)
    gc.collect()
    assert [sys.getrefcount(v) for v in watched] == before
