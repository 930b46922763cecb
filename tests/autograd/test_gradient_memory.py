"""Elementwise rules write into the incoming gradient where nothing else refers to it, and only there."""

import tracemalloc

import numpy as np
import pytest

import tdt
import tdt.nn.functional as F
from tdt import _kernels
from tdt.autograd import _engine

SIZE = 1 << 18  # elements: a megabyte of float32


@pytest.fixture
def traced():
    tracemalloc.start()
    yield
    tracemalloc.stop()


def chain(x):
    for _ in range(4):
        x = F.leaky_relu(x, 0.5)
    return x


@pytest.mark.skipif(not _kernels.enabled(), reason="kernels are off")
def test_a_chain_of_activations_holds_one_gradient_at_a_time(traced):
    x = tdt.randn(SIZE, requires_grad=True)
    y, g = chain(x), tdt.ones(SIZE)
    y.backward(g, retain_graph=True)
    x.grad = None
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    y.backward(g)
    # The given gradient cannot be written to; its first successor becomes x.grad.
    assert tracemalloc.get_traced_memory()[1] - before < 1.5 * 4 * SIZE


def gradients(of):
    x = tdt.randn(SIZE, generator=tdt.Generator().manual_seed(3), requires_grad=True)
    found = of(x)
    return [x.grad.numpy(), *[t.numpy() for t in found]]


def passed_in(x):
    g = tdt.full((SIZE,), 3.0)
    chain(x).backward(g)
    return [g]


def retained(x):
    middle = [x]
    for _ in range(3):
        middle.append(F.gelu(middle[-1]))
        middle[-1].retain_grad()
    middle[-1].sum().backward()
    return [t.grad for t in middle[1:]]


def hooked(x):
    received, y = [], tdt.tanh(x)
    y.register_hook(received.append)
    F.silu(y * 2.0).backward(tdt.full((SIZE,), 2.0))
    return received


def pre_hooked(x):
    received, y = [], tdt.tanh(x)
    y.grad_fn.register_prehook(lambda g: received.extend(g))
    F.silu(y * 2.0).backward(tdt.full((SIZE,), 2.0))
    return received


def shared(x):
    a, b = tdt.tanh(x), tdt.sigmoid(x)
    (a + b).exp().sum().backward()  # both operands of + get one array
    return []


def saved_by_a_function(x):
    saved = []

    class Keep(tdt.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            saved.append(g * 5)
            return saved[0].view(-1)

    Keep.apply(tdt.tanh(tdt.sin(x))).sum().backward()
    return saved


def twice(x):
    y = F.softplus(tdt.sin(x)).sum()
    y.backward(retain_graph=True)
    y.backward()
    return []


def requested(x):
    y = tdt.sin(x)
    z = F.silu(y)
    found = tdt.autograd.grad(z.sum(), [y, z], retain_graph=True)
    z.sum().backward()
    return found


@pytest.mark.parametrize("of", [passed_in, retained, hooked, pre_hooked, shared, saved_by_a_function, twice, requested])
def test_gradients_that_others_hold_stay_as_they_are(of, monkeypatch):
    found = gradients(of)
    monkeypatch.setattr(_engine, "IN_PLACE", np.inf)
    for a, b in zip(found, gradients(of), strict=True):
        np.testing.assert_array_equal(a, b)
