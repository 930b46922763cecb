"""Optimizer kernels beside the NumPy pieces, at every odd size, with non-finite and subnormal values."""

from __future__ import annotations

import itertools
import weakref

import numpy as np
import pytest

import tdt
from tdt._kernels import _pool
from tdt._kernels._table import BLOCK

SIZES = [0, 1, 2, 3, 5, 7, 13, 15, 16, 17, 31, 33, 127, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7, 140_001]
SPECIAL_VALUES = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 1e-30, 3e38]

OPTIMIZERS = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "weight_decay": 0.1, "maximize": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.2, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    *(
        (name, {"lr": 0.1, "amsgrad": a, "weight_decay": w, "maximize": m})
        for name, a, w, m in itertools.product(("Adam", "AdamW"), (False, True), (0.0, 0.1), (False, True))
    ),
    ("NAdam", {"lr": 0.1, "weight_decay": 0.1, "maximize": True}),
    ("NAdam", {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {"lr": 0.1, "weight_decay": 0.1}),
    ("RAdam", {"lr": 0.1, "betas": (0.5, 0.8), "eps": 0.01}),  # from the first step on with a divisor, or soon
    ("RMSprop", {"lr": 0.1, "weight_decay": 0.1, "maximize": True}),
    ("RMSprop", {"lr": 0.1, "momentum": 0.9}),
    ("Adamax", {"lr": 0.1, "weight_decay": 0.1, "maximize": True}),
    ("Adagrad", {"lr": 0.1, "weight_decay": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.1}),
]


def trajectory(
    name: str, options: dict, kernels: bool, dtype: str, special: bool = False, steps: int = 3
) -> list[np.ndarray]:
    """Parameters of all sizes, and their state, after some steps."""
    random = np.random.default_rng(1)
    params = [tdt.tensor(random.normal(size=n).astype(dtype), requires_grad=True) for n in SIZES]
    with tdt.backends.kernels(kernels):
        optimizer = getattr(tdt.optim, name)(params, **options)
        for _ in range(steps):
            for p in params:
                g = random.normal(size=p.numel()).astype(dtype)
                if special and g.size > len(SPECIAL_VALUES):
                    g[1 : 1 + len(SPECIAL_VALUES)] = g[-len(SPECIAL_VALUES) :] = SPECIAL_VALUES
                p.grad = tdt.tensor(g)
            optimizer.step()
        (plan,) = optimizer._plans.values()
        assert bool(plan.tables) is kernels
        assert bool(plan.pieces) is not kernels
    state = [v.numpy() for p in params for v in optimizer.state[p].values()]
    return [p.detach().numpy() for p in params] + state


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name,options", OPTIMIZERS)
def test_kernel_and_pieces_have_the_same_bits_at_every_size(name, options, dtype):
    fast, slow = (trajectory(name, options, kernels, dtype) for kernels in (True, False))
    for a, b in zip(fast, slow):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop"])
def test_a_small_group_goes_over_to_the_kernel_and_keeps_its_bits(name):
    found = []
    for kernels in (True, False):
        random = np.random.default_rng(3)
        params = [tdt.tensor(random.normal(size=n).astype("float32"), requires_grad=True) for n in (5, 33)]
        with tdt.backends.kernels(kernels):
            optimizer = getattr(tdt.optim, name)(params, lr=0.1)
            for _ in range(30):
                for p in params:
                    p.grad = tdt.tensor(random.normal(size=p.numel()).astype("float32"))
                optimizer.step()
            (plan,) = optimizer._plans.values()
            assert bool(plan.tables) is kernels
        found.append([p.detach().numpy().tobytes() for p in params])
    assert found[0] == found[1]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name,options", OPTIMIZERS)
def test_non_finite_and_subnormal_values_are_the_same_in_body_and_tail(name, options):
    fast, slow = (trajectory(name, options, kernels, "float32", special=True) for kernels in (True, False))
    for a, b in zip(fast, slow):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name,options", [OPTIMIZERS[3], OPTIMIZERS[-1]])
def test_bits_do_not_depend_on_the_number_of_threads(name, options):
    before, results = _pool.get_num_threads(), []
    for threads in (1, 2, 3, 7):
        _pool.set_num_threads(threads)
        results.append(b"".join(a.tobytes() for a in trajectory(name, options, True, "float32")))
    _pool.set_num_threads(before)
    assert len(set(results)) == 1


def test_bits_do_not_depend_on_where_a_value_lies_in_its_tensor():
    """A vector's body and its tail must round alike, or the same training in other shapes is another run."""
    for name, options in (OPTIMIZERS[2], OPTIMIZERS[-1]):
        values, grads = np.random.default_rng(0).normal(size=(2, 140_000)).astype(np.float32)
        results = []
        for shift in (0, 1, 5, 15):
            p = tdt.tensor(np.concatenate([np.zeros(shift, np.float32), values]), requires_grad=True)
            optimizer = getattr(tdt.optim, name)([p], **options)
            for _ in range(3):
                p.grad = tdt.tensor(np.concatenate([np.zeros(shift, np.float32), grads]))
                optimizer.step()
            results.append(p.detach().numpy()[shift:].tobytes())
        assert len(set(results)) == 1


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_gradients_do_not_persist_from_step_to_step(name):
    p = tdt.zeros(200_000, requires_grad=True)
    optimizer = getattr(tdt.optim, name)([p], lr=0.1)
    for _ in range(2):
        p.grad = tdt.ones(200_000)
        gradient = weakref.ref(p.grad._a)
        optimizer.step()
        assert gradient() is not None
        optimizer.zero_grad()
        assert gradient() is None
    p.grad = tdt.ones(200_000)
    for _ in range(2):  # the same array, with other numbers
        before = p.detach().clone()
        p.grad.mul_(-1)
        optimizer.step()
    assert not tdt.equal(before, p.detach())
