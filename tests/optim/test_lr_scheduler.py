"""Schedules: PyTorch's rates to the last bit, its warnings, its state."""

from __future__ import annotations

import inspect
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
    ("MultiplicativeLR", {"lr_lambda": lambda epoch: 0.95}),
    ("MultiplicativeLR", {"lr_lambda": [lambda epoch: 1 / (1 + epoch), lambda epoch: 1.01]}),
    ("CosineAnnealingWarmRestarts", {"T_0": 7}),
    ("CosineAnnealingWarmRestarts", {"T_0": 5, "T_mult": 2, "eta_min": 0.01}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 7}),
    ("CyclicLR", {"base_lr": [0.01, 0.02], "max_lr": [0.1, 0.3], "step_size_up": 7, "step_size_down": 3,
                  "mode": "triangular2"}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 9, "mode": "exp_range", "gamma": 0.99}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 4, "scale_fn": lambda x: 1 / (1 + x),
                  "scale_mode": "iterations", "cycle_momentum": False}),
    *(CLOSED := [
        ("MultiStepLR", {"milestones": [3, 30, 12, 30, 60], "gamma": 0.5}),
        ("ConstantLR", {}),
        ("ConstantLR", {"factor": 0.3, "total_iters": 9}),
        ("LinearLR", {}),
        ("LinearLR", {"start_factor": 0.1, "end_factor": 0.9, "total_iters": 50}),
        ("ExponentialLR", {"gamma": 0.9}),
        ("PolynomialLR", {}),
        ("PolynomialLR", {"total_iters": 60, "power": 2.5}),
    ]),
]  # fmt: skip


def optimizer(library: object, name: str = "SGD", lr: object = 0.1, **options: object) -> object:
    a, b = library.zeros(1, requires_grad=True), library.zeros(1, requires_grad=True)
    if name == "SGD":
        options.setdefault("momentum", 0.9)
    return getattr(library.optim, name)([{"params": [a]}, {"params": [b], "lr": 0.05}], lr=lr, **options)


def rates(library: object, name: str, options: dict, count: int = 100, kind: str = "SGD") -> list:
    o = optimizer(library, kind)
    scheduler, recorded = getattr(library.optim.lr_scheduler, name)(o, **options), []
    for _ in range(count):
        momenta = [g.get("momentum", g.get("betas")) for g in o.param_groups]
        recorded.append((scheduler.get_last_lr(), [g["lr"] for g in o.param_groups], momenta))
        o.step()
        scheduler.step()
    return recorded


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize("name,options", CASES)
def test_a_hundred_rates_equal_pytorchs_to_the_last_bit(name, options, kind):
    assert rates(tdt, name, options, kind=kind) == rates(torch, name, options, kind=kind)


def test_two_schedules_and_a_hand_act_together():
    def run(library: object) -> list:
        o, recorded = optimizer(library), []
        first = library.optim.lr_scheduler.StepLR(o, 5)
        second = library.optim.lr_scheduler.CosineAnnealingLR(o, 20)
        for k in range(40):
            o.step()
            first.step()
            second.step()
            if k == 11:
                o.param_groups[0]["lr"] *= 3
            recorded.append([g["lr"] for g in o.param_groups])
        return recorded

    assert run(tdt) == run(torch)


@pytest.mark.parametrize("name,options", CASES)
def test_a_schedule_resumes_from_a_state_that_pytorch_saved(name, options):
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


@pytest.mark.parametrize("name,options", [*CASES[:3], *CLOSED])
def test_going_on_with_last_epoch_and_jumping_to_an_epoch(name, options):
    def run(library: object) -> list:
        o = optimizer(library)
        for g in o.param_groups:
            g["initial_lr"] = g["lr"]
        scheduler = getattr(library.optim.lr_scheduler, name)(o, last_epoch=8, **options)
        recorded = [scheduler.get_last_lr()]
        o.step()
        scheduler.step()
        with pytest.warns(UserWarning, match="epoch parameter in `scheduler.step"):
            scheduler.step(15)
        return [*recorded, scheduler.get_last_lr()]

    assert run(tdt) == run(torch)


COMBINED = {
    "warm-up": lambda kind, o: kind.SequentialLR(o, [kind.ConstantLR(o, 0.1, 20), kind.ExponentialLR(o, 0.9)], [20]),
    "three": lambda kind, o: kind.SequentialLR(
        o, [kind.LinearLR(o), kind.CosineAnnealingLR(o, 20), kind.StepLR(o, 5)], [5, 30]
    ),
    "restarts": lambda kind, o: kind.SequentialLR(
        o, [kind.LinearLR(o, 0.1, total_iters=4), kind.CosineAnnealingWarmRestarts(o, 10)], [4]
    ),
    "chained": lambda kind, o: kind.ChainedScheduler([kind.ConstantLR(o, 0.1, 2), kind.ExponentialLR(o, 0.9)]),
    "nested": lambda kind, o: kind.SequentialLR(
        o,
        [
            kind.SequentialLR(o, [kind.ConstantLR(o, 0.5, 3), kind.PolynomialLR(o, 30)], [6]),
            kind.CosineAnnealingLR(o, 9),
        ],
        [18],
    ),
}


@pytest.mark.filterwarnings("ignore:Detected call of")  # of a schedule inside one inside another, in both libraries
@pytest.mark.parametrize("name", COMBINED)
def test_combined_schedules_have_pytorchs_rates_and_resume_from_their_state(name):
    results = []
    for library in (tdt, torch):
        kind, o = library.optim.lr_scheduler, optimizer(library)
        scheduler, recorded = COMBINED[name](kind, o), []
        for k in range(60):
            recorded.append((scheduler.get_last_lr(), [g["lr"] for g in o.param_groups]))
            o.step()
            scheduler.step()
            if k == 33:
                saved, again = scheduler.state_dict(), COMBINED[name](kind, o)
                for group, rate in zip(o.param_groups, scheduler.get_last_lr(), strict=True):
                    group["lr"] = rate
                again.load_state_dict(saved)
                scheduler = again
        results.append((recorded, scheduler.state_dict()))
    (ours, state), (theirs, their_state) = results
    assert ours == theirs
    assert state == their_state


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"patience": 2, "factor": 0.5},
        {"mode": "max", "patience": 1, "threshold": 0.2},
        {"mode": "max", "patience": 0, "threshold_mode": "abs", "threshold": 0.3, "cooldown": 2},
        {"patience": 0, "threshold_mode": "abs", "min_lr": [0.01, 0.02], "eps": 1e-3},
        {"patience": 0, "min_lr": 0.005, "cooldown": 1},
    ],
)
def test_a_plateau_is_found_where_pytorch_finds_it(options):
    metrics = [3.0, 2.0, 2.5, 2.4, 2.3, 1.0, float("nan"), 1.0, 1.0, 0.99999, 0.5, 1.5, float("inf"), *[0.7] * 30]
    results = []
    for library in (tdt, torch):
        o, recorded = optimizer(library), []
        scheduler = library.optim.lr_scheduler.ReduceLROnPlateau(o, **options)
        for k, metric in enumerate(metrics):
            o.step()
            scheduler.step(library.tensor(metric) if k % 2 else metric)
            recorded.append((scheduler.get_last_lr(), scheduler.in_cooldown, scheduler.num_bad_epochs))
            if k == 9:
                saved = scheduler.state_dict()
                scheduler = library.optim.lr_scheduler.ReduceLROnPlateau(o, **options)
                scheduler.load_state_dict(saved)
        with pytest.warns(UserWarning, match="The epoch parameter in `scheduler.step"):
            scheduler.step(0.1, 99)
        results.append((recorded, scheduler.state_dict()))
    assert results[0] == results[1]


def test_a_new_group_is_reduced_too_or_requires_a_min_lr():
    for library in (tdt, torch):
        for bound in (0.001, [0.001, 0.001]):
            o = optimizer(library)
            scheduler = library.optim.lr_scheduler.ReduceLROnPlateau(o, patience=0, min_lr=bound)
            o.add_param_group({"params": [library.zeros(1, requires_grad=True)], "lr": 1.0})
            scheduler.step(1.0)
            if isinstance(bound, list):
                with pytest.raises(RuntimeError, match="The number of param groups in the `optimizer`"):
                    scheduler.step(1.0)
            else:
                scheduler.step(1.0)
                assert o.param_groups[2]["lr"] == 0.1


def test_warm_restarts_go_to_fractions_of_an_epoch():
    results = []
    for library in (tdt, torch):
        for growth in (1, 2):
            o, recorded = optimizer(library), []
            scheduler = library.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 4, growth)
            for k in range(60):
                o.step()
                scheduler.step(k / 3)
                recorded.append((scheduler.get_last_lr(), scheduler.T_i, scheduler.last_epoch))
            with pytest.raises(ValueError, match="Expected non-negative epoch, but got -1"):
                scheduler.step(-1)
            results.append(recorded)
    assert results[:2] == results[2:]


def test_a_schedules_signature_is_pytorchs():
    for name in torch.optim.lr_scheduler.__all__:
        ours, theirs = (getattr(library.optim.lr_scheduler, name) for library in (tdt, torch))
        for a, b in ((ours, theirs), (ours.step, theirs.step)):
            a, b = (inspect.signature(f).parameters.values() for f in (a, b))
            assert [(p.name, p.kind, p.default) for p in a] == [(p.name, p.kind, p.default) for p in b], name


def test_a_step_that_was_replaced_is_reported_as_not_recorded():
    o = optimizer(tdt)
    scheduler = tdt.optim.lr_scheduler.StepLR(o, 1)
    o.step = lambda: None
    with pytest.warns(UserWarning, match="has been overridden after learning rate scheduler initialization"):
        scheduler.step()


def test_rates_in_tensors_are_scheduled_as_in_pytorch():
    for name, options in CASES:
        if name in ("LambdaLR", "OneCycleLR"):
            continue
        results = []
        for library in (tdt, torch):
            rate = library.tensor(0.5, dtype=library.float64)
            o = library.optim.SGD([library.zeros(1, requires_grad=True)], lr=rate, momentum=0.9)
            if any(isinstance(value, list) and name != "MultiStepLR" for value in options.values()):
                continue
            scheduler = getattr(library.optim.lr_scheduler, name)(o, **options)
            for _ in range(20):
                o.step()
                scheduler.step()
            assert o.param_groups[0]["lr"] is rate
            results.append(rate.item())
        assert not results or results[0] == pytest.approx(results[1], rel=1e-12), name


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
    ("MultiplicativeLR", {"lr_lambda": 3}),
    ("ConstantLR", {"factor": 1.5}),
    ("LinearLR", {"start_factor": 0.0}),
    ("LinearLR", {"end_factor": 2.0}),
    ("CosineAnnealingWarmRestarts", {"T_0": 0}),
    ("CosineAnnealingWarmRestarts", {"T_0": 2, "T_mult": 1.5}),
    ("CosineAnnealingWarmRestarts", {"T_0": 2, "eta_min": "low"}),
    ("CyclicLR", {"base_lr": 0.1, "max_lr": 1.0, "mode": "square"}),
    ("CyclicLR", {"base_lr": [0.1], "max_lr": 1.0}),
    ("ReduceLROnPlateau", {"factor": 1.0}),
    ("ReduceLROnPlateau", {"mode": "least"}),
    ("ReduceLROnPlateau", {"threshold_mode": "part"}),
    ("ReduceLROnPlateau", {"min_lr": [0.1]}),
    ("SequentialLR", {"schedulers": [], "milestones": []}),
    ("SequentialLR", {"schedulers": [3], "milestones": []}),
    ("OneCycleLR", {"max_lr": 1.0}),
    ("OneCycleLR", {"max_lr": 1.0, "total_steps": 0}),
    ("OneCycleLR", {"max_lr": 1.0, "total_steps": 2.5}),
    ("OneCycleLR", {"max_lr": 1.0, "epochs": -1, "steps_per_epoch": 2}),
    ("OneCycleLR", {"max_lr": 1.0, "total_steps": 5, "pct_start": 2.0}),
    ("OneCycleLR", {"max_lr": 1.0, "total_steps": 5, "anneal_strategy": "sin"}),
    ("OneCycleLR", {"max_lr": [1.0], "total_steps": 5}),
]


@pytest.mark.parametrize("name,options", ERRORS)
def test_errors_have_pytorchs_class_and_begin_with_its_message(name, options):
    with pytest.raises((ValueError, KeyError, TypeError)) as theirs:
        getattr(torch.optim.lr_scheduler, name)(optimizer(torch), **options)
    with pytest.raises(theirs.type) as ours:
        getattr(tdt.optim.lr_scheduler, name)(optimizer(tdt), **options)
    assert str(ours.value).split()[:4] == str(theirs.value).split()[:4]


MISMATCHED = [
    lambda kind, o, other: kind.SequentialLR(o, [kind.StepLR(o, 1), kind.StepLR(other, 1)], [3]),
    lambda kind, o, other: kind.SequentialLR(o, [kind.StepLR(o, 1), kind.ReduceLROnPlateau(o)], [3]),
    lambda kind, o, other: kind.SequentialLR(o, [kind.StepLR(o, 1), kind.StepLR(o, 1)], [3, 4]),
    lambda kind, o, other: kind.ChainedScheduler([]),
    lambda kind, o, other: kind.ChainedScheduler([kind.StepLR(o, 1), kind.StepLR(other, 1)]),
    lambda kind, o, other: kind.ChainedScheduler([kind.ReduceLROnPlateau(o)]),
    lambda kind, o, other: kind.ChainedScheduler([3], o),
    lambda kind, o, other: kind.CyclicLR(other, 0.1, 1.0),
]


@pytest.mark.parametrize("make", MISMATCHED)
def test_schedules_that_do_not_fit_together_are_refused(make):
    errors = []
    for library in (torch, tdt):
        with pytest.raises((ValueError, TypeError)) as caught:
            make(library.optim.lr_scheduler, optimizer(library), optimizer(library, "Adagrad"))
        errors.append(caught)
    assert errors[0].type is errors[1].type
    assert str(errors[0].value).split()[:6] == str(errors[1].value).split()[:6]


def test_one_cycle_ends_with_an_error_and_what_is_no_optimizer_is_refused():
    scheduler = tdt.optim.lr_scheduler.OneCycleLR(optimizer(tdt), 1.0, total_steps=2)
    scheduler.optimizer.step()
    scheduler.step()
    scheduler.step()
    with pytest.raises(ValueError, match="Tried to step 3 times"):
        scheduler.step()
    with pytest.raises(TypeError, match="int is not an Optimizer"):
        tdt.optim.lr_scheduler.StepLR(3, 1)
