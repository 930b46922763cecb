"""Forwards call their array library only in ways that CuPy has too: held to a NumPy that refuses what CuPy refuses."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tdt
from tdt import _backend
from tdt._backend.scatter import _combine_by_place, accumulate
from tdt.autograd._op import op
from tdt.autograd._op_table import OPS
from tdt.train.metrics.base import Loss
from tests.on_gpu import sampled_ops
from tests.samples import TABLE

BFLOAT16 = tdt.bfloat16.np
UFUNC_OPTIONS = {"out", "dtype", "casting"}
ACCUMULATES = {"add", "multiply"}


class Strict:
    """NumPy without what CuPy lacks; not the NumPy module itself, so that code takes the same branches as for CuPy."""

    __name__ = "numpy"  # for what chooses between SciPy and cupyx
    cuda = SimpleNamespace(
        Device=lambda: SimpleNamespace(id=0),
        get_current_stream=lambda: SimpleNamespace(synchronize=lambda: None),
    )

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        return StrictUfunc(found) if isinstance(found, np.ufunc) else found

    @staticmethod
    def where(condition: Any, *choices: Any) -> Any:
        if not isinstance(condition, np.ndarray | np.generic):
            raise TypeError(f"Unsupported type {type(condition)}")
        if any(getattr(value, "dtype", None) == BFLOAT16 for value in choices):
            raise TypeError("where has no loop for bfloat16 and would give float32")
        return np.where(condition, *choices)

    @staticmethod
    def broadcast_to(array: Any, shape: Any) -> Any:
        if not isinstance(array, np.ndarray):
            raise TypeError(f"Unsupported type {type(array)}")
        return np.broadcast_to(array, shape)


class StrictUfunc:
    def __init__(self, ufunc: np.ufunc):
        self._ufunc, self.__name__ = ufunc, ufunc.__name__

    def __call__(self, *args: Any, **options: Any) -> Any:
        if wrong := options.keys() - UFUNC_OPTIONS:
            raise TypeError(f"{self.__name__}: wrong arguments {wrong}")
        return self._ufunc(*args, **options)

    def __getattr__(self, name: str) -> Any:
        if name == "accumulate" and self.__name__ not in ACCUMULATES:
            raise NotImplementedError(f"{self.__name__}.accumulate is not supported yet")
        if name in ("at", "reduceat"):
            raise NotImplementedError(f"{self.__name__}.{name} is not supported for every type")
        return getattr(self._ufunc, name)


STRICT: Any = Strict()


def _expect_below(bits: Any, limit: int, message: str) -> None:
    assert bits.max() < limit, message


@pytest.fixture(autouse=True)
def _extension(monkeypatch):
    """The only function of cupyx that is called by name, and a check of indices that reads arrays of the host."""
    monkeypatch.setitem(sys.modules, "cupyx", SimpleNamespace(errstate=lambda **options: nullcontext()))
    monkeypatch.setattr(_backend, "expect_below", _expect_below)


@pytest.mark.parametrize("name", [n for n in sampled_ops() if not OPS[n].random])
def test_a_forward_uses_nothing_that_only_numpy_has(name):
    record = OPS[name]
    for call in TABLE[name].calls:
        try:
            expected = record.forward(np, *_copies(call.operands), **{**record.defaults, **call.attributes})
        except (AttributeError, TypeError, ValueError):  # operands that are cast before they come to a forward
            continue
        got = record.forward(STRICT, *_copies(call.operands), **{**record.defaults, **call.attributes})
        for g, e in zip(*(r if isinstance(r, tuple) else (r,) for r in (got, expected)), strict=True):
            if isinstance(e, np.ndarray | np.generic):
                np.testing.assert_allclose(g, e, rtol=1e-9, atol=1e-12)


def _copies(operands: tuple) -> list:
    return [a.copy(order="K") if isinstance(a, np.ndarray) else a for a in operands]


@pytest.mark.parametrize(
    "name, attributes", [("tril", {}), ("triu", {"diagonal": 1}), ("masked_fill", {}), ("where", {})]
)
def test_bfloat16_is_chosen_among_without_a_wider_type(name, attributes):
    x = np.array([[1.5, -2.0], [np.nan, np.inf]], BFLOAT16)
    mask = np.array([[True, False], [False, True]])
    operands = {"masked_fill": (x, mask, 3.5), "where": (mask, x, 3.5)}.get(name, (x,))
    record = OPS[name]
    got = record.forward(STRICT, *operands, **{**record.defaults, **attributes})
    promoted = [a.astype(np.float32) if isinstance(a, np.ndarray) and a is x else a for a in operands]
    expected = record.forward(np, *promoted, **{**record.defaults, **attributes})
    assert got.dtype == BFLOAT16
    np.testing.assert_array_equal(got.astype(np.float32), expected)


@pytest.mark.parametrize("function", ["add", "multiply", "maximum", "minimum"])
@pytest.mark.parametrize("kind", ["float64", "complex128", "int8"])
def test_values_of_one_place_are_combined_as_by_numpy(function, kind):
    draw = np.random.default_rng(0)
    for shape, n in (((7,), 40), ((3, 4), 25), ((5,), 1), ((1,), 9)):
        index = tuple(draw.integers(0, size, n) for size in shape)
        values = draw.integers(-3, 4, n).astype(kind)
        out = draw.integers(-3, 4, shape).astype(kind)
        expected = out.copy()
        getattr(np, function).at(expected, index, values)
        _combine_by_place(np, function, out, index, values)
        np.testing.assert_array_equal(out, expected)


def test_a_nan_reaches_the_maximum_of_its_place():
    out = np.zeros(2)
    _combine_by_place(np, "maximum", out, (np.array([0, 0, 0, 1]),), np.array([1.0, np.nan, 2.0, 3.0]))
    np.testing.assert_array_equal(out, [np.nan, 3.0])


@pytest.mark.parametrize("length", [1, 2, 3, 8, 13])
def test_running_results_without_accumulate_are_those_of_numpy(length):
    x = np.random.default_rng(1).normal(size=(2, length, 3))
    for name in ("maximum", "logaddexp"):
        expected = getattr(np, name).accumulate(x, axis=1)
        np.testing.assert_allclose(accumulate(STRICT, getattr(STRICT, name), x, 1), expected, rtol=1e-12)


class DeviceArray:
    """What a forward gives that moves its operand to a GPU."""

    __cuda_array_interface__: dict = {}
    dtype, flags = np.dtype("float32"), SimpleNamespace(c_contiguous=True)

    def __array__(self, *args: Any, **options: Any) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")


DeviceArray.__module__ = "cupy"


def test_a_result_on_a_gpu_is_not_brought_back_by_the_short_way(monkeypatch):
    monkeypatch.setattr("tdt.autograd._op.OPS", {})
    move = op(lambda xp, x: DeviceArray(), name="move_to_gpu")
    x = tdt.ones(3)
    assert isinstance(move(x)._a, DeviceArray)
    assert move.plans[x._a.dtype,].fast_path, "the second call takes the short way"
    assert isinstance(move(x)._a, DeviceArray)
    assert isinstance(_backend.as_array(np.float32(1)), np.ndarray)


def test_a_mean_loss_on_a_gpu_is_weighed_by_numbers_and_by_arrays():
    loss: Any = SimpleNamespace(is_cuda=True, _a=np.array(2.0, np.float32))
    target = tdt.tensor([1, 0, 1])
    measured = Loss()
    assert measured.batch_sum(target, target, loss) == (6.0, 3)
    measured.reading = SimpleNamespace(is_sum=False, share=lambda target: np.array(0))
    assert measured.batch_sum(target, target, loss) == (0.0, 0)
    assert _backend.is_array(measured.reading.share(target))
