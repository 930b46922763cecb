"""The stand-in refuses what CuPy refuses, and counts."""

from __future__ import annotations

import cupy
import numpy as np
import pytest

import tdt

X = cupy.arange(6, dtype="f").reshape(2, 3)
MASK = X > 2
REFUSED = {
    "a host array as operand": (lambda: X + np.ones(3), TypeError),
    "the same by a function": (lambda: cupy.concatenate([X, np.ones((1, 3))]), TypeError),
    "and by NumPy's function": (lambda: np.add(X, np.ones(3)), TypeError),
    "conversion to the host": (lambda: np.asarray(X), TypeError),
    "a condition of Python": (lambda: cupy.where(True, X, X), TypeError),
    "an option that a ufunc lacks": (lambda: cupy.add(X, X, where=MASK), TypeError),
    "a parameter that a function lacks": (lambda: X.max(initial=0), TypeError),
    "a name that CuPy lacks": (lambda: cupy.spacing, AttributeError),
    "a running maximum": (lambda: cupy.maximum.accumulate(X), NotImplementedError),
    "a product at places": (lambda: cupy.multiply.at(X, 0, 2), NotImplementedError),
    "complex numbers added at places": (lambda: cupy.add.at(X.astype("F"), 0, 1), TypeError),
    "counts in an array": (lambda: cupy.repeat(X, cupy.array([1, 2])), ValueError),
    "text": (lambda: cupy.array(["a"]), ValueError),
}


@pytest.mark.parametrize("what", REFUSED)
def test_it_refuses(what: str):
    call, error = REFUSED[what]
    with pytest.raises(error):
        call()


def test_bfloat16_with_a_float_is_float32_as_in_cupy():
    x = tdt.ones(2, dtype=tdt.bfloat16, device="cuda")._a
    kinds = {"x + x": x + x, "x * 2": x * 2, "exp": cupy.exp(x), "sum": x.sum()}
    assert {name: value.dtype for name, value in kinds.items()} == dict.fromkeys(kinds, x.dtype)
    wider = {"x + 1.0": x + 1.0, "where": cupy.where(x > 0, x, x), "with float32": x + X[0, :2]}
    assert {name: value.dtype for name, value in wider.items()} == dict.fromkeys(wider, np.dtype("f"))


def test_launches_uploads_and_waits_are_counted(counted):
    with counted() as found:
        y = (X * 2).sum()
        float(y)
        cupy.asarray(np.ones(3))
    assert [(kind, name) for kind, name, _ in found] == [
        ("launches", "multiply"), ("launches", "sum"), ("syncs", "get"), ("uploads", "array")
    ]  # fmt: skip


def test_a_view_shares_memory_and_a_gather_does_not():
    x = cupy.zeros((2, 3))
    cupy.broadcast_to(x[0], (4, 3))[0] = 1
    x.T[2][1] = 5
    x[:, cupy.array([0])][:] = 9
    np.testing.assert_array_equal(x.get(), [[1, 1, 1], [0, 0, 5]])


def test_work_of_another_stream_is_done_when_something_waits_for_it():
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        late = X * 2
    assert not np.array_equal(late._h, X._h * 2)
    stream.synchronize()
    np.testing.assert_array_equal(late.get(), X.get() * 2)
