"""The short ways of dispatch give what the general one gives: bound ufuncs, direct writes, picks without a record."""

from __future__ import annotations

import operator
import os
import pickle
from typing import Any

import numpy as np
import pytest

import tdt
from tdt._kernels import _dots
from tdt.autograd._op import OPS
from tests.helpers import require_torch
from tests.oracles.rounding import assert_rounded_once


def signs(x: tdt.Tensor) -> list[bool]:
    return tdt.signbit(x).tolist()


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_a_bound_of_either_zero_keeps_its_sign(zero: float):
    for _ in range(3):  # the first call makes the plan, the second binds the function
        for other in (0.0, -0.0):
            tdt.clamp(tdt.tensor([-1.0]), min=other)
            assert signs(tdt.clamp(tdt.tensor([-1.0]), min=zero)) == [np.signbit(zero)]
            tdt.threshold(tdt.tensor([-1.0]), 0.5, other)
            assert signs(tdt.threshold(tdt.tensor([-1.0]), 0.5, zero)) == [np.signbit(zero)]


def test_numbers_of_one_call_are_not_those_of_the_next():
    x = tdt.tensor([-2.0, 3.0])
    for slope in (0.5, 0.25, 2, 0.5, 0):
        assert tdt.nn.functional.leaky_relu(x, slope).tolist() == [-2.0 * slope, 3.0]
        assert tdt.lerp(x, tdt.zeros(2), float(slope)).tolist() == [-2.0 * (1 - slope), 3.0 * (1 - slope)]


def test_a_tensor_as_a_setting_is_read_at_each_call():
    x, slope = tdt.tensor([-2.0, 3.0]), tdt.tensor(0.5)
    for value in (0.5, 0.25, 0.125):
        slope.fill_(value)
        assert tdt.nn.functional.leaky_relu(x, slope).tolist() == [-2.0 * value, 3.0]  # type: ignore[arg-type]


@pytest.mark.skipif(os.environ.get("TDT_KERNELS") == "reference", reason="kernels are off")
def test_switching_kernels_reaches_functions_that_were_bound(monkeypatch: pytest.MonkeyPatch):
    x = tdt.tensor([-2.0, 3.0])
    record = tdt.autograd._op_table.OPS["leaky_relu"]
    for _ in range(3):
        tdt.nn.functional.leaky_relu(x, 0.5)
    assert any(found[0] is not None for found in record.ufuncs.values())
    with tdt.backends.kernels(False):
        assert not record.ufuncs
        assert tdt.nn.functional.leaky_relu(x, 0.5).tolist() == [-1.0, 3.0]
        assert all(found[0] is None for found in record.ufuncs.values())
    assert tdt.nn.functional.leaky_relu(x, 0.5).tolist() == [-1.0, 3.0]
    assert any(found[0] is not None for found in record.ufuncs.values())


WRITES: dict[str, Any] = {
    "zero_": lambda y: y.zero_(),
    "fill_": lambda y: y.fill_(2.0),
    "copy_": lambda y: y.copy_(tdt.ones(4)),
    "add_": lambda y: y.add_(tdt.ones(4)),
    "clamp_": lambda y: y.clamp_(0.0, 0.5),
    "lerp_": lambda y: y.lerp_(tdt.ones(4), 0.5),
    "out=": lambda y: tdt.add(tdt.ones(4), tdt.ones(4), out=y),
    "y[1] = number": lambda y: y.__setitem__(1, 2.0),
    "y[1:] = tensor": lambda y: y.__setitem__(slice(1, None), tdt.ones(3)),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_write_to_a_value_saved_for_backward_is_detected(write: Any):
    x = tdt.ones(4, requires_grad=True)
    for _ in range(2):
        y = x.exp()
        with tdt.no_grad():
            write(y.detach())
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


@pytest.mark.parametrize("write", ["add_", "copy_", "out=", "set"])
def test_operands_that_overlap_the_target_are_read_before_they_change(write: str):
    memory = np.arange(9, dtype=np.float32)
    for _ in range(2):
        shared = memory.copy()
        x, y = tdt.from_numpy(shared[1:]), tdt.from_numpy(shared[:-1])
        if write == "add_":
            x.add_(y)
        elif write == "copy_":
            x.copy_(y)
        elif write == "out=":
            tdt.add(y, y, out=x)
        else:
            x[:] = y
        expected = {"add_": memory[1:] + memory[:-1], "out=": 2 * memory[:-1]}.get(write, memory[:-1])
        assert x.tolist() == expected.tolist()


def test_numbers_that_the_dtype_cannot_hold_are_refused_by_direct_writes_too():
    x = tdt.zeros(3, dtype=tdt.float16)
    with pytest.raises(RuntimeError, match="overflow"):
        x.fill_(1e6)
    with pytest.raises(RuntimeError, match="overflow"):
        x.masked_fill_(tdt.tensor([True, False, True]), 1e6)
    assert x.fill_(float("inf")).tolist() == [float("inf")] * 3


@pytest.mark.parametrize("key", [tdt.tensor([2, 0]), tdt.tensor([True, False, True])], ids=["integers", "mask"])
def test_picked_elements_are_a_copy_with_a_gradient_where_one_is_recorded(key: tdt.Tensor):
    x = tdt.arange(6.0).reshape(3, 2)
    x[key].zero_()
    assert x.sum().item() == 15
    w = x.clone().requires_grad_()
    w[key].sum().backward()
    assert w.grad.tolist() == [[1.0, 1.0], [0.0, 0.0], [1.0, 1.0]]  # type: ignore[union-attr]


def test_a_pickled_array_leaves_the_fast_path_to_other_calls():
    x = tdt.from_numpy(pickle.loads(pickle.dumps(np.ones(2, np.float32))))
    y = tdt.ones(2)
    assert x._a.dtype is not y._a.dtype
    plans = OPS["add"].plans
    plans.clear()
    assert (x + y).tolist() == [2, 2]
    assert plans[y._a.dtype].fast_path


@pytest.mark.parametrize("first", [1, 1.0], ids=repr)
def test_equal_numbers_of_two_types_have_plans_of_their_own(first: float):
    choose = OPS["where"]
    choose.ufuncs.clear()
    choose.plans.clear()
    condition = tdt.tensor([True, False])
    x = tdt.tensor([2.0, 3.0], dtype=tdt.float64, requires_grad=True)
    second = 1 if first.__class__ is float else 1.0
    for number in (first, first, second):  # the second call finds a plan, and keeps a ufunc
        x.grad = None
        out = tdt.where(condition, x, number)
        out.sum().backward()
        assert out.tolist() == [2, 1]
        assert x.grad.tolist() == [1, 0]
    weighted = OPS["lerp"]
    weighted.ufuncs.clear()
    weighted.plans.clear()
    for number in (first, first):
        x.detach().clone().lerp_(x.detach(), number)
    assert tdt.lerp(x, x * 2, second).tolist() == [4, 6]


HALF = {
    "linear": ("F.linear(x, w, b)", ((80, 96), (160, 96), (160,))),
    "matmul": ("x @ w", ((2, 40, 96), (2, 96, 160))),
    "conv2d": ("F.conv2d(x, w, b, padding=1)", ((2, 16, 24, 24), (16, 16, 3, 3), (16,))),
    "layer_norm": ("F.layer_norm(x, (256,), w, b)", ((80, 256), (256,), (256,))),
    "batch_norm": ("F.batch_norm(x, None, None, w, b, True)", ((4, 16, 16, 16), (16,), (16,))),
    "softmax": ("F.softmax(x, -1)", ((80, 256),)),
    "attention": ("F.scaled_dot_product_attention(x, w, b)", ((1, 2, 64, 32),) * 3),
    "max_pool2d": ("F.max_pool2d(x, 2)", ((2, 32, 40, 40),)),
}


KEEP_ROUNDED_RESULTS = ("softmax", "layer_norm", "attention")  # whose rules use them
TERMS = {"linear": 160, "matmul": 160, "conv2d": 2 * 24 * 24}  # at most, in a sum of a result or a gradient


def results_of(name: str, dtype: tdt.dtype, computed_in: tdt.dtype, absolute: bool = False) -> list[tdt.Tensor]:
    """The result and the gradients, for operands of `dtype`; `absolute`: for their absolute values."""
    code, shapes = HALF[name]
    tdt.manual_seed(0)
    taken = tdt.abs if absolute else tdt.clone
    operands = [taken((tdt.randn(shape) * 0.3).to(dtype)).to(computed_in).requires_grad_() for shape in shapes]
    out = eval(code, {"F": tdt.nn.functional, **dict(zip("xwb", operands, strict=False))})
    g = taken(tdt.sin(tdt.arange(out.numel())).reshape(out.shape).to(dtype))
    return [out.detach(), *tdt.autograd.grad(out, operands, g.to(out.dtype))]


@pytest.mark.parametrize("name", HALF)
@pytest.mark.parametrize("dtype", [tdt.bfloat16, tdt.float16], ids=str)
def test_half_precision_is_float32s_result_and_gradients_rounded_once(
    name: str, dtype: tdt.dtype, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(_dots, "available", lambda: "")  # AMX and AVX-512-BF16 sum in an order of their own: see below
    (found, *gradients), (expected, *wide) = results_of(name, dtype, dtype), results_of(name, dtype, tdt.float32)
    assert tdt.equal(found, expected.to(dtype))
    for ours, exact in zip(gradients, wide, strict=True):
        assert ours.dtype is dtype
        tolerance = {"rtol": 0.05, "atol": 2e-2} if name in KEEP_ROUNDED_RESULTS else {"rtol": 0, "atol": 0}
        tdt.testing.assert_close(ours, exact.to(dtype), **tolerance)


@pytest.mark.parametrize("name", TERMS)
@pytest.mark.parametrize("way", ["", *_dots.EMULATED, *_dots.supported()])
def test_products_of_bfloat16_are_sums_in_float32_rounded_once(name: str, way: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_dots, "available", lambda: way)
    found = results_of(name, tdt.bfloat16, tdt.bfloat16)
    exact, magnitude = (results_of(name, tdt.bfloat16, tdt.float64, absolute) for absolute in (False, True))
    for arrays in zip(found, exact, magnitude, strict=True):
        assert_rounded_once(*(x._a for x in arrays), terms=TERMS[name])


@pytest.mark.parametrize("name", ["fill", "special.chebyshev_polynomial_t", "special.laguerre_polynomial_l"])
def test_results_of_numbers_lie_as_pytorchs_in_later_calls_too(name):
    torch = require_torch()
    strides = []
    for library in (tdt, torch):
        x, function = library.ones(4, 3).T, operator.attrgetter(name)(library)
        strides.append([tuple(function(x, 2).stride()) for _ in range(4)])
    assert strides[0] == strides[1]
