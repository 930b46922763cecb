"""`calls_one_op`: a call that is remembered gives what the first one gave."""

import math

import pytest

import tdt
from tests.helpers import require_torch


def bits(x):
    return x.numpy().tobytes(), x.dtype, x.shape


CALLS = {
    "clamp": lambda t, x, y: t.clamp(x, 0.25, 0.75),
    "clamp by tensors": lambda t, x, y: t.clamp(x, y, max=None),
    "clamp_max": lambda t, x, y: x.clamp_max(0.5),
    "addcmul": lambda t, x, y: t.addcmul(x, y, x, value=3),
    "lerp": lambda t, x, y: t.lerp(x, y, 0.3),
    "where": lambda t, x, y: t.where(y > 0.5, 1.0, x),
    "celu": lambda t, x, y: t.celu(x - 0.5, 2.0),
    "gelu": lambda t, x, y: t.nn.functional.gelu(x, approximate="tanh"),
    "round": lambda t, x, y: t.round(x),
    "nan_to_num": lambda t, x, y: t.nan_to_num(x / 0, posinf=3.0),
}


@pytest.mark.parametrize("name", CALLS)
def test_later_calls_and_their_gradients_are_pytorchs(name):
    torch = require_torch()
    call = CALLS[name]
    values = tdt.rand(2, 3, 4).numpy()
    for shape in ((3, 4), (12,), (2, 6)):
        found = []
        for t in (tdt, torch):
            x, y = (t.from_numpy(v.reshape(shape).copy()) for v in values)
            with t.no_grad():
                first, second = call(t, x, y), call(t, x, y)
            x.requires_grad_()
            third, fourth = call(t, x, y), call(t, x, y)
            fourth.sum().backward()
            assert bits(first) == bits(second) == bits(third.detach()) == bits(fourth.detach())
            found.append((first.numpy(), x.grad.numpy(), third.grad_fn.name(), fourth.grad_fn.name()))
        assert found[0][0] == pytest.approx(found[1][0], rel=1e-6, nan_ok=True)
        assert found[0][1] == pytest.approx(found[1][1], rel=1e-5, nan_ok=True)
        assert found[0][2:] == found[1][2:]


def test_equal_numbers_of_other_kinds_are_other_calls():
    x = tdt.tensor([-1.0, -0.0, 2.0])
    for _ in range(2):
        assert math.copysign(1, tdt.clamp(x, -0.0, 1.0)[0]) == -1
        assert math.copysign(1, tdt.clamp(x, 0.0, 1.0)[0]) == 1
    whole = tdt.tensor([1, 5])
    for _ in range(2):
        assert tdt.where(whole > 2, whole, 1).dtype is tdt.int64
        assert tdt.where(whole > 2, whole, 1.0).dtype is tdt.float32


def test_a_remembered_call_keeps_errors_out_and_modes():
    x, y = tdt.rand(3), tdt.rand(3)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="The size of tensor a .3. must match the size of tensor b .2."):
            tdt.lerp(x, tdt.rand(2), 0.5)
        with pytest.raises(TypeError, match="argument 'weight'"):
            tdt.lerp(x, y, "half")
    out = tdt.empty(3)
    assert tdt.clamp(x, 0.1, 0.2, out=out) is out
    assert bits(tdt.clamp(x, 0.1, 0.2)) == bits(out)
    with tdt.inference_mode():
        assert tdt.clamp(x, 0.1, 0.2).is_inference()
    assert tdt.clamp(x.half(), 0.1, 0.2).dtype is tdt.float16
    turned = tdt.rand(4, 3).t()
    assert tdt.clamp(turned, 0.1, 0.2).stride() == turned.stride()


def test_the_node_is_named_when_the_first_call_was_of_a_view_without_gradient():
    assert tdt.celu(tdt.rand(3, 3)[0]).grad_fn is None
    doubled = (tdt.rand(3, requires_grad=True) * 2)[:2]
    for _ in range(3):
        assert tdt.celu(doubled).grad_fn.name() == "CeluBackward0"


def test_switching_kernels_forgets_calls():
    x = tdt.rand(5)
    found = bits(tdt.clamp(x, 0.3, 0.6))
    before = tdt.backends.kernels.enabled()
    try:
        for on in (False, True, False):
            tdt.backends.kernels(on)
            assert bits(tdt.clamp(x, 0.3, 0.6)) == bits(tdt.clamp(x, 0.3, 0.6)) == found
    finally:
        tdt.backends.kernels(before)


@pytest.mark.parametrize("call", [
    lambda t, x: x * 1.5, lambda t, x: x / x, lambda t, x: t.sin(x), lambda t, x: t.clamp(x, 0, 1.5), lambda t, x: t.logit(x),
    lambda t, x: t.where(x > 1, x, 1.5), lambda t, x: x * 1j, lambda t, x: t.nn.functional.mse_loss(x * 2.0, x * 1.0),
])  # fmt: skip
def test_the_default_dtype_is_that_of_each_call(call):
    dtypes = []
    for t in (tdt, require_torch()):
        x, found = t.tensor([1, 2]), []
        try:
            for default in (t.float32, t.float64, t.bfloat16, t.float32):
                t.set_default_dtype(default)
                found += [str(call(t, x).dtype).split(".")[1] for _ in range(3)]
        finally:
            t.set_default_dtype(t.float32)
        dtypes.append(found)
    assert dtypes[0] == dtypes[1]
