"""Schedules: PyTorch's rates to the last bit, its warnings, its state."""

from __future__ import annotations

import warnings

import pytest

import tdt
from tests.helpers import require_torch

torch = require_torch()

CASES = [
    ("StepLR", {"step_size": 7, "gamma": 0.3}),
    ("CosineAnnealingLR", {"T_max": 13}),
    ("CosineAnnealingLR", {"T_max": 10, "eta_min": 0.003}),
    ("CosineAnnealingLR", {"T_max": 1}),
    ("LambdaLR", {"lr_lambda": lambda epoch: 0.95**epoch}),
    ("LambdaLR", {"lr_lambda": [lambda epoch: 1 / (1 + epoch), lambda epoch: epoch * 0.1]}),
    ("OneCycleLR", {"max_lr": 0.5, "total_steps": 101}),
    ("OneCycleLR", {"max_lr": [0.5, 0.2], "epochs": 10, "steps_per_epoch": 11, "three_phase": True}),
    ("OneCycleLR", {"max_lr": 1.0, "total_steps": 120, "anneal_strategy": "linear", "pct_start": 0.5}),
    (
        "OneCycleLR",
        {"max_lr": 1.0, "total_steps": 120, "cycle_momentum": False, "div_factor": 5.0, "final_div_factor": 7.0},
    ),
]


def optimizer(library: object, name: str = "SGD", lr: object = 0.1, **options: object) -> object:
    a, b = library.zeros(1, requires_grad=True), library.zeros(1, requires_grad=True)
    if name == "SGD":
        options.setdefault("momentum", 0.9)
    return getattr(library.optim, name)([{"params": [a]}, {"params": [b], "lr": 0.05}], lr=lr, **options)


def rates(library: object, name: str, options: dict, count: int = 100, kind: str = "SGD") -> list:
    o = optimizer(library, kind)
    scheduler, seen = getattr(library.optim.lr_scheduler, name)(o, **options), []
    for _ in range(count):
        momenta = [g.get("momentum", g.get("betas")) for g in o.param_groups]
        seen.append((scheduler.get_last_lr(), [g["lr"] for g in o.param_groups], momenta))
        o.step()
        scheduler.step()
    return seen


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize("name,options", CASES)
def test_a_hundred_rates_equal_pytorchs_to_the_last_bit(name, options, kind):
    assert rates(tdt, name, options, kind=kind) == rates(torch, name, options, kind=kind)


def test_two_schedules_and_a_hand_act_together():
    def run(library: object) -> list:
        o, seen = optimizer(library), []
        first = library.optim.lr_scheduler.StepLR(o, 5)
        second = library.optim.lr_scheduler.CosineAnnealingLR(o, 20)
        for k in range(40):
            o.step()
            first.step()
            second.step()
            if k == 11:
                o.param_groups[0]["lr"] *= 3
            seen.append([g["lr"] for g in o.param_groups])
        return seen

    assert run(tdt) == run(torch)


@pytest.mark.parametrize("name,options", CASES)
def test_a_schedule_goes_on_from_a_state_that_pytorch_saved(name, options):
    theirs, ours = optimizer(torch), optimizer(tdt)
    before, after = (getattr(lib.optim.lr_scheduler, name)(o, **options) for lib, o in ((torch, theirs), (tdt, ours)))
    for _ in range(17):
        theirs.step()
        before.step()
    ours.load_state_dict({"state": {}, "param_groups": theirs.state_dict()["param_groups"]})
    after.load_state_dict(before.state_dict())
    assert after.get_last_lr() == before.get_last_lr()
    for _ in range(30):
        theirs.step()
        ours.step()
        before.step()
        after.step()
        assert after.get_last_lr() == before.get_last_lr()
    assert set(after.state_dict()) == set(before.state_dict())


@pytest.mark.parametrize("name,options", CASES[:3])
def test_going_on_with_last_epoch_and_jumping_to_an_epoch(name, options):
    def run(library: object) -> list:
        o = optimizer(library)
        for g in o.param_groups:
            g["initial_lr"] = g["lr"]
        scheduler = getattr(library.optim.lr_scheduler, name)(o, last_epoch=8, **options)
        seen = [scheduler.get_last_lr()]
        o.step()
        scheduler.step()
        with pytest.warns(UserWarning, match="epoch parameter in `scheduler.step"):
            scheduler.step(15)
        return [*seen, scheduler.get_last_lr()]

    assert run(tdt) == run(torch)


def test_a_rate_in_a_tensor_is_written_in_place_and_handed_out_as_a_copy():
    rate = tdt.tensor(0.5)
    o = tdt.optim.SGD([tdt.zeros(1, requires_grad=True)], lr=rate)
    scheduler = tdt.optim.lr_scheduler.StepLR(o, 1, gamma=0.5)
    o.step()
    scheduler.step()
    assert o.param_groups[0]["lr"] is rate
    assert rate.item() == 0.25
    scheduler.get_last_lr()[0].fill_(9)
    assert rate.item() == 0.25


def test_a_step_before_the_optimizers_warns_and_the_right_order_does_not():
    o = optimizer(tdt)
    scheduler = tdt.optim.lr_scheduler.StepLR(o, 1)
    with pytest.warns(UserWarning, match="before `optimizer.step"):
        scheduler.step()
    o = optimizer(tdt)
    scheduler = tdt.optim.lr_scheduler.StepLR(o, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        o.step()
        scheduler.step()
    with pytest.warns(UserWarning, match="get_last_lr"):
        scheduler.get_lr()


def test_state_of_callable_objects_is_saved_and_of_functions_is_not():
    class Factor:
        def __init__(self, base: float):
            self.base = base

        def __call__(self, epoch: int) -> float:
            return self.base**epoch

    o = optimizer(tdt)
    saved = tdt.optim.lr_scheduler.LambdaLR(o, [Factor(0.5), lambda epoch: 1.0]).state_dict()
    assert saved["lr_lambdas"] == [{"base": 0.5}, None]
    other = tdt.optim.lr_scheduler.LambdaLR(o, [Factor(0.9), lambda epoch: 1.0])
    other.load_state_dict(saved)
    assert other.lr_lambdas[0].base == 0.5


ERRORS = [
    ("StepLR", {"step_size": 3, "last_epoch": 4}),
    ("LambdaLR", {"lr_lambda": [lambda e: 1.0]}),
    ("OneCycleLR", {"max_lr": 1.0}),
    ("OneCycleLR", {"max_lr": 1.0, "total_steps": 0}),
    ("OneCycleLR", {"max_lr": 1.0, "total_steps": 2.5}),
    ("OneCycleLR", {"max_lr": 1.0, "epochs": -1, "steps_per_epoch": 2}),
    ("OneCycleLR", {"max_lr": 1.0, "total_steps": 5, "pct_start": 2.0}),
    ("OneCycleLR", {"max_lr": 1.0, "total_steps": 5, "anneal_strategy": "sin"}),
    ("OneCycleLR", {"max_lr": [1.0], "total_steps": 5}),
]


@pytest.mark.parametrize("name,options", ERRORS)
def test_errors_have_pytorchs_class(name, options):
    with pytest.raises((ValueError, KeyError)) as theirs:
        getattr(torch.optim.lr_scheduler, name)(optimizer(torch), **options)
    with pytest.raises(theirs.type):
        getattr(tdt.optim.lr_scheduler, name)(optimizer(tdt), **options)


def test_one_cycle_ends_with_an_error_and_what_is_no_optimizer_is_refused():
    scheduler = tdt.optim.lr_scheduler.OneCycleLR(optimizer(tdt), 1.0, total_steps=2)
    scheduler.optimizer.step()
    scheduler.step()
    scheduler.step()
    with pytest.raises(ValueError, match="Tried to step 3 times"):
        scheduler.step()
    with pytest.raises(TypeError, match="int is not an Optimizer"):
        tdt.optim.lr_scheduler.StepLR(3, 1)
