"""Machine code writes small results into their tensors: what it takes, what it leaves, and what it counts."""

from __future__ import annotations

import gc
import sys
from typing import Any

import numpy as np
import pytest

import tdt
from tdt import _kernels
from tdt._kernels._writes import writer
from tdt.autograd._op_table import OPS
from tdt.autograd._plan import plan_for
from tdt.autograd._record import CLASSES

pytestmark = pytest.mark.skipif(not _kernels.enabled(), reason="kernels are off")
write: Any = writer(CLASSES)
FLOAT32 = np.dtype(np.float32)


def functions() -> dict[tuple, Any]:
    """What computes sums of two tensors, and of one and a number; and a tuple's function, by the value of a number."""
    tdt.ones(1).add_(tdt.ones(1)).add_(1.0)  # loads the op
    op, ones = OPS["add"], np.ones(1, np.float32)
    plans = [plan_for(op, kinds, [ones, b])[1] for kinds, b in (((FLOAT32,) * 2, ones), ((FLOAT32, float), 2.0))]
    for plan in plans:
        plan.function = plan.function or np.add
    return {
        (FLOAT32, FLOAT32): plans[0],
        (FLOAT32, float): plans[1],
        (FLOAT32, float, 2.0): (np.add, np.float32(2.0)),
        (FLOAT32, "alpha", int, 3): (np.add, np.float32(3.0)),
    }


def test_results_are_written_and_counted():
    found = functions()
    x, y = tdt.tensor([1.0, 2.0]), tdt.tensor([10.0, 20.0])
    assert write(found, x, (x, y), {}, True, False)
    assert write(found, x, (x, 2.0), {}, True, False)
    assert write(found, x, (x, 2.0), {}, True, True)
    assert write(found, x, (x,), {"alpha": 3}, True, True)
    assert x.tolist() == [18.0, 29.0]
    assert x._version == 4
    assert write(found, x, (x, tdt.tensor(1.0)), {}, False, False)
    assert write(found, x[1:], (x[1:], tdt.tensor([1.0])), {}, False, False) is False  # each is another tensor
    part = x[1:]
    assert write(found, part, (part, y[:1]), {}, True, False)
    assert x.tolist() == [19.0, 40.0]
    assert x._version == 6
    assert write(found, y, (x, x), {}, True, False)
    assert y.tolist() == [38.0, 80.0]


def test_what_python_has_to_look_at_is_left_to_it():
    found = functions()
    x, y = tdt.ones(2, 3), tdt.ones(2, 3)
    leaf = tdt.ones(2, 3, requires_grad=True)
    with tdt.inference_mode():
        marked = tdt.ones(2, 3)
        assert write(found, marked, (marked, 2.0), {}, 0, False)
    large = tdt.ones(1 << 15)
    calls = [
        (x, (x, y), {}, None), (leaf, (leaf, y), {}, True), (x, (x, leaf), {}, True), (x, (x, leaf[0]), {}, True),
        (x, (x, tdt.ones(3, 2).t()), {}, True), (tdt.ones(3, 2).t(), (x, y), {}, True), (x, (x, y.double()), {}, True),
        (x, (x, tdt.ones(2, 1, 3)), {}, True), (x, (x, tdt.ones(4)), {}, True), (x, (tdt.ones(3), tdt.ones(3)), {}, True),
        (marked, (marked, y), {}, True), (large, (large, 2.0), {}, True), (x, (x, True), {}, True), (x, (x, None), {}, True),
        (x, (x, y), {"alpha": 2}, True), (x, (x,), {}, True), (x, [x, y], {}, True), (x, (), {}, True),
        (x, (x, tdt.ones(2, 3, device="meta")), {}, True), (tdt.ones(2, 3, device="meta"), (x, y), {}, True),
        (x, (x, x[0]), {}, True), (2.0, (x, y), {}, True),
    ]  # fmt: skip
    for target, operands, attributes, record in calls[1:]:
        assert write(found, target, operands, attributes, record, False) is False
    for number in (0.0, -0.0, 5.0):
        assert write(found, x, (x, number), {}, True, True) is False
    assert write({}, x, (x, y), {}, True, False) is False
    assert x.sum().item() == 6
    assert x._version == leaf._version == 0
    with tdt.no_grad():
        assert write(found, leaf, (leaf, y), {}, False, False)
    assert leaf._version == 1
    shared = np.ones(6, np.float32)
    parts = [tdt.from_numpy(shared[k : k + 4]) for k in (0, 2)]
    assert write(found, parts[0], (parts[0], parts[1]), {}, True, False) is False


def test_errors_are_pythons():
    def fails(*arrays: Any) -> None:
        raise ValueError("no")

    x = tdt.ones(2)
    with pytest.raises(ValueError, match="no"):
        write({(FLOAT32,): (fails,)}, x, (x,), {}, True, False)
    assert x._version == 0


def test_references_are_counted():
    found = functions()
    x, y, attributes = tdt.ones(2), tdt.ones(2), {"alpha": 3}
    operands, with_number, alone = (x, y), (x, 2.0), (x,)
    watched = found, x, y, x._a, y._a, operands, with_number, alone, attributes, *found.values(), FLOAT32, float, int
    for _ in range(300):  # the plan's function is replaced meanwhile
        write(found, x, operands, {}, True, False)
    gc.collect()
    before = [sys.getrefcount(v) for v in watched]
    for _ in range(300):
        assert write(found, x, operands, {}, True, False)
        assert write(found, x, with_number, {}, True, True)
        assert write(found, x, alone, attributes, True, True)
        assert not write(found, x, (x, y), attributes, True, True)
        assert not write(found, x, (x, 0.0), {}, True, True)
    assert [sys.getrefcount(v) for v in watched] == before


@pytest.mark.parametrize("dtype", [tdt.float32, tdt.float64, tdt.int64, tdt.int32])
def test_repeated_writes_have_the_results_of_new_tensors(dtype):
    y = tdt.tensor([[3, 5, 7], [2, 4, 8]], dtype=dtype)
    row, one = y[0], tdt.tensor(3, dtype=dtype)
    calls = [
        (lambda x, b: x.add_(b), lambda x, b: x + b), (lambda x, b: x.sub_(b), lambda x, b: x - b),
        (lambda x, b: x.mul_(b), lambda x, b: x * b),
    ]  # fmt: skip
    if dtype.is_floating_point:
        calls += [
            (lambda x, b: x.div_(b), lambda x, b: x / b),
            (lambda x, b: x.add_(b, alpha=0.5), lambda x, b: tdt.add(x, b, alpha=0.5)),
            (lambda x, b: x.addcmul_(b, b, value=0.25), lambda x, b: tdt.addcmul(x, b, b, value=0.25)),
            (lambda x, b: x.lerp_(b.expand(2, 3), 0.125), lambda x, b: tdt.lerp(x, b.expand(2, 3), 0.125)),
        ]
    numbers = (2, 2.5, -3) if dtype.is_floating_point else (2, -3)
    for place, call in calls:
        for other in (y, row, one, y.clone(), *numbers):
            if not isinstance(other, tdt.Tensor) and place not in (calls[0][0], calls[2][0]):
                continue
            for _ in range(30):
                x = tdt.tensor([[1, 2, 3], [4, 5, 6]], dtype=dtype)
                expected, version = call(x, other), x._version
                assert place(x, other) is x
                assert x.tolist() == expected.tolist()
                assert x._version == version + 1
