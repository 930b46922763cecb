"""Activation checkpoints, beside PyTorch's."""

import gc
import importlib
import warnings
import weakref

import pytest

import tdt
from tdt import nn
from tdt.utils import checkpoint as cp
from tests.helpers import require_torch

torch = require_torch()

X = [[0.3, -1.2, 0.7], [1.1, 0.2, -0.5]]


def model():
    tdt.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 2))


def gradients(net, forward):
    tdt.manual_seed(3)
    net.zero_grad()
    x = tdt.tensor(X, requires_grad=True)
    forward(x).pow(2).sum().backward()
    return [x.grad, *(p.grad for p in net.parameters())]


def again(*args, **kwargs):
    return cp.checkpoint(*args, use_reentrant=False, **kwargs)


FORWARDS = {
    "reentrant": lambda m: lambda x: cp.checkpoint(m, x, use_reentrant=True),
    "not reentrant": lambda m: lambda x: again(m, x),
    "nested": lambda m: lambda x: again(lambda y: again(m[3:], again(m[:3], y)), x),
    "nested in reentrant": lambda m: lambda x: cp.checkpoint(lambda y: again(m, y), x, use_reentrant=True),
    "without early stop": lambda m: lambda x: again(m, x, early_stop=False),
    "sequential": lambda m: lambda x: cp.checkpoint_sequential(m, 3, x, use_reentrant=False),
    "sequential, reentrant": lambda m: lambda x: cp.checkpoint_sequential(m, 2, x, use_reentrant=True),
}


@pytest.mark.parametrize("name", FORWARDS)
def test_a_checkpoint_changes_no_gradient_though_dropout_draws(name):
    net = model()
    plain, found = gradients(net, net), gradients(net, FORWARDS[name](net))
    assert all(tdt.equal(a, b) for a, b in zip(plain, found, strict=True))


def test_the_generator_continues_as_without_a_checkpoint():
    net = model()
    ends = []
    for forward in (net, FORWARDS["reentrant"](net), FORWARDS["not reentrant"](net)):
        gradients(net, forward)
        ends.append(tdt.rand(1).item())
    assert len(set(ends)) == 1


def test_what_was_computed_between_is_freed_until_backward():
    references = []

    def f(x):
        y = x.exp()
        references.append(weakref.ref(y._st))
        return y.sin()

    gc.disable()
    try:
        x = tdt.ones(3, requires_grad=True)
        out = again(f, x)
        assert references[0]() is None
        out.sum().backward()
        assert len(references) == 2
        assert references[1]() is None
    finally:
        gc.enable()


def test_second_derivatives_and_grad_go_through():
    def slopes(forward):
        x = tdt.tensor(X, dtype=tdt.float64, requires_grad=True)
        (g,) = tdt.autograd.grad(forward(x).sum(), x, create_graph=True)
        (h,) = tdt.autograd.grad(g.pow(2).sum(), x)
        return g, h

    def f(x):
        return x.sin().exp_().cos()

    for a, b in zip(slopes(f), slopes(lambda x: again(f, x)), strict=True):
        assert tdt.equal(a, b)


class Cube(tdt.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * g * x * x


def test_a_function_of_the_users_may_stand_in_a_checkpoint():
    x = tdt.tensor(X, requires_grad=True)
    again(lambda x: Cube.apply(x.sin()).exp(), x).sum().backward()
    (expected,) = tdt.autograd.grad((x.sin() ** 3).exp().sum(), x)
    assert tdt.allclose(x.grad, expected)


def test_graphs_may_be_retained_and_gradients_computed_inside():
    x = tdt.tensor(X, requires_grad=True)
    y = again(lambda x: x.exp().sin(), x).sum()
    y.backward(retain_graph=True)
    once = x.grad.clone()
    y.backward()
    assert tdt.equal(x.grad, once + once)

    def inner(x):
        z = x.sin()
        (slope,) = tdt.autograd.grad(z.cos().sum(), x, create_graph=True)
        return slope * z

    (expected,) = tdt.autograd.grad(inner(x).sum(), x)
    (found,) = tdt.autograd.grad(again(inner, x).sum(), x)
    assert tdt.equal(found, expected)


def runs(lib, module, name):  # noqa: C901  (a table of scenarios, each a few lines)
    """How often the function ran, what it returned, the gradients and the class of an error: one scenario in a library."""
    count = 0
    x = lib.tensor(X, dtype=lib.float64, requires_grad=True)
    w = lib.tensor(2.0, dtype=lib.float64, requires_grad=True)

    def f(x, scale=1.0, flip=False):
        nonlocal count
        count += 1
        if name == "another shape" and count > 1:
            x = x[:1]
        if name == "more ops" and count > 1:
            return (x.exp().sin() * w * scale).exp()
        if name == "fewer ops" and count > 1:
            return x * scale
        if flip:
            return x.exp() * scale, 3
        return x.exp().sin() * w * scale

    try:
        if name == "keyword arguments":
            y = module.checkpoint(f, x, use_reentrant=False, scale=w)
        elif name == "several outputs":
            y, _ = module.checkpoint(f, x, 2.0, True, use_reentrant=False)
        elif name == "keyword arguments, reentrant":
            y = module.checkpoint(f, x, use_reentrant=True, scale=w)
        elif name == "grad, reentrant":
            y = module.checkpoint(f, x, use_reentrant=True)
            return lib.autograd.grad(y.sum(), x)
        elif name == "no_grad":
            with lib.no_grad():
                y = module.checkpoint(f, x, use_reentrant=False)
            return y.requires_grad, count
        elif name == "nothing asks, reentrant":
            y = module.checkpoint(f, x.detach(), use_reentrant=True)
            return y.requires_grad, count
        elif name == "nothing asks":
            y = module.checkpoint(f, x.detach(), use_reentrant=False)
        elif name == "unknown check":
            y = module.checkpoint(f, x, use_reentrant=False, determinism_check="strict")
        elif name == "another shape, unchecked":
            y = module.checkpoint(f, x, use_reentrant=False, determinism_check="none")
        elif name == "twice":
            y = module.checkpoint(f, module.checkpoint(f, x, use_reentrant=False), use_reentrant=False)
        elif name == "without early stop":
            with module.set_checkpoint_early_stop(False):
                y = module.checkpoint(f, x, use_reentrant=False)
        elif name == "hooks inside":
            with lib.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t * 1):
                y = module.checkpoint(f, x, use_reentrant=False)
        elif name == "contexts":
            y = module.checkpoint(f, x, use_reentrant=False, context_fn=lambda: (lib.no_grad(), lib.no_grad()))
            return y.requires_grad, count
        elif name == "contexts, reentrant":
            y = module.checkpoint(f, x, use_reentrant=True, context_fn=lambda: (lib.no_grad(), lib.no_grad()))
        elif name == "the argument is written to":
            z = x * 1
            y = module.checkpoint(f, z, use_reentrant=False)
            z.add_(1)
        elif name == "unknown keyword of sequential":
            y = module.checkpoint_sequential([f], 1, x, use_reentrant=False, scale=2)
        elif name == "detach_variable of a list":
            return module.detach_variable([x])
        else:
            y = module.checkpoint(f, x, use_reentrant=False)
        y.sum().backward()
    except Exception as error:  # noqa: BLE001 (the error is the answer that is compared)
        return type(error).__name__, count
    return count, *[None if t.grad is None else t.grad.reshape(-1).tolist() for t in (x, w)]


@pytest.mark.parametrize(
    "name",
    ["plain", "keyword arguments", "several outputs", "keyword arguments, reentrant", "grad, reentrant", "no_grad",
     "nothing asks", "nothing asks, reentrant", "unknown check", "another shape", "fewer ops", "more ops", "twice",
     "without early stop", "hooks inside", "contexts", "contexts, reentrant", "the argument is written to",
     "unknown keyword of sequential", "detach_variable of a list"],
)  # fmt: skip
def test_a_checkpoint_does_as_in_pytorch(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, ours = runs(torch, importlib.import_module("torch.utils.checkpoint"), name), runs(tdt, cp, name)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert a == (pytest.approx(b, rel=1e-12) if isinstance(b, list) else b)


def test_debug_lists_what_both_runs_did():
    calls = []

    def f(x):
        calls.append(0)
        return x.exp().sin() if len(calls) == 1 else x.cos()

    with pytest.raises(
        cp.CheckpointError, match=r"(?s)Forward: ExpBackward0, SinBackward0.*Recomputation: CosBackward0"
    ):
        again(f, tdt.ones(3, requires_grad=True), debug=True).sum().backward()


def test_leaving_use_reentrant_out_warns():
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
        cp.checkpoint(lambda x: x * 2, tdt.ones(1, requires_grad=True))
