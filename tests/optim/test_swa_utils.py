"""Averaged models, their batch norms, and the schedule that goes with them, as PyTorch has them."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import tdt
from tests.helpers import require_torch

torch = require_torch()
from tests.optim.test_lr_scheduler import optimizer  # noqa: E402  (it needs PyTorch too)


def model(library):
    """A small net with buffers, floating-point and integer ones."""
    net = library.nn.Sequential(library.nn.Linear(3, 4), library.nn.BatchNorm1d(4), library.nn.Linear(4, 2)).double()
    return perturb(library, net, 0)


def perturb(library, net, seed):
    random = np.random.default_rng(seed)
    with library.no_grad():
        for value in net.state_dict().values():
            new = random.normal(size=tuple(value.shape)) * 10 if value.is_floating_point() else random.integers(100)
            value.copy_(library.tensor(new))
    return net


AVERAGES = {
    "default": lambda kind: {},
    "ema": lambda kind: {"avg_fn": kind.get_ema_avg_fn(0.9)},
    "swa": lambda kind: {"avg_fn": kind.get_swa_avg_fn()},
    "ema of lists": lambda kind: {"multi_avg_fn": kind.get_ema_multi_avg_fn(0.9)},
    "swa of lists": lambda kind: {"multi_avg_fn": kind.get_swa_multi_avg_fn()},
    "own": lambda kind: {"avg_fn": lambda averaged, current, count: current + averaged / (count + 1)},
}


# PyTorch's mean of lists divides no integers: a model's count of batches among its buffers is an error there.
@pytest.mark.parametrize(
    "name,use_buffers", [(n, b) for n in AVERAGES for b in (False, True) if not b or n[:8] != "swa of l"]
)
def test_an_average_of_models_is_pytorchs(name, use_buffers):
    states = []
    for library in (tdt, torch):
        kind, net = library.optim.swa_utils, model(library)
        averaged = kind.AveragedModel(net, use_buffers=use_buffers, **AVERAGES[name](kind))
        for seed in range(1, 6):
            perturb(library, net, seed)
            averaged.update_parameters(net)
        again = kind.AveragedModel(model(library), use_buffers=use_buffers, **AVERAGES[name](kind))
        again.load_state_dict(averaged.state_dict())
        again.update_parameters(perturb(library, net, 9))
        states.append({key: value.numpy() for key, value in again.state_dict().items()})
        x = library.ones(2, 3, dtype=library.float64)
        assert library.equal(again(x), again.module(x)) is True
    assert list(states[0]) == list(states[1])
    for key, value in states[1].items():
        np.testing.assert_allclose(states[0][key], value, rtol=1e-12, atol=1e-12, err_msg=key)
    assert states[0]["n_averaged"] == 6


def test_batch_norms_compute_their_statistics_again():
    random, states = np.random.default_rng(0), []
    batches = [random.normal(size=(5, 3)) for _ in range(4)]
    for library in (tdt, torch):
        net = model(library).eval()
        loader = [library.tensor(b) if i % 2 else (library.tensor(b), i) for i, b in enumerate(batches)]
        library.optim.swa_utils.update_bn(loader, net, "cpu")
        assert not net.training and net[1].momentum == 0.1
        states.append({key: value.numpy() for key, value in net.state_dict().items()})
        plain = library.nn.Linear(1, 1)
        library.optim.swa_utils.update_bn(iter([None]), plain)  # nothing to do: no batch is read
    for key, value in states[1].items():
        np.testing.assert_allclose(states[0][key], value, rtol=1e-12, err_msg=key)


@pytest.mark.parametrize(
    "options",
    [
        {"swa_lr": 0.01},
        {"swa_lr": [0.2, 0.01], "anneal_epochs": 5, "anneal_strategy": "linear"},
        {"swa_lr": 0.01, "anneal_epochs": 0},
    ],
)
def test_swalr_has_pytorchs_rates_alone_and_after_another_schedule(options):
    results = []
    for library in (tdt, torch):
        o, rates = optimizer(library), []
        first, then = library.optim.lr_scheduler.StepLR(o, 2), library.optim.swa_utils.SWALR(o, **options)
        for k in range(20):
            o.step()
            (then if k > 4 else first).step()
            rates.append([group["lr"] for group in o.param_groups])
            if k == 8:
                saved, then = then.state_dict(), library.optim.swa_utils.SWALR(o, **options)
                for group, rate in zip(o.param_groups, rates[-1], strict=True):
                    group["lr"] = rate
                then.load_state_dict(saved)
        results.append((rates, then.state_dict()))
    assert results[0] == results[1]


REFUSED = [
    lambda kind, library: kind.get_ema_avg_fn(1.1),
    lambda kind, library: kind.get_ema_multi_avg_fn(-0.1),
    lambda kind, library: kind.AveragedModel(model(library), avg_fn=len, multi_avg_fn=len),
    lambda kind, library: kind.SWALR(optimizer(library), 0.1, anneal_strategy="sin"),
    lambda kind, library: kind.SWALR(optimizer(library), 0.1, anneal_epochs=-1),
    lambda kind, library: kind.SWALR(optimizer(library), [0.1]),
]


@pytest.mark.parametrize("make", REFUSED)
def test_what_pytorch_refuses_is_refused_with_its_message(make):
    errors = []
    for library in (torch, tdt):
        with pytest.raises((ValueError, AssertionError)) as caught:
            make(library.optim.swa_utils, library)
        errors.append(caught)
    assert errors[0].type is errors[1].type
    assert str(errors[0].value).split()[:5] == str(errors[1].value).split()[:5]


def test_signatures_are_pytorchs():
    for name in torch.optim.swa_utils.__all__:
        a, b = (inspect.signature(getattr(lib.optim.swa_utils, name)).parameters.values() for lib in (tdt, torch))
        assert [(p.name, p.kind, p.default) for p in a] == [(p.name, p.kind, p.default) for p in b], name
