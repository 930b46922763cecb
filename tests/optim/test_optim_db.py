"""PyTorch's optimizer database run on every optimizer: signatures, trajectories, states, refusals."""

from __future__ import annotations

import importlib
import inspect
import warnings
from typing import Any

import numpy as np
import pytest

import tdt
from tests.helpers import require_torch
from tests.optim._pair import (
    MATRICES,
    NEEDS_CLOSURE,
    NEEDS_MATRICES,
    NEEDS_SPARSE,
    SMALL,
    Pair,
    to_tdt,
    to_torch,
)

torch = require_torch()
from torch.testing._internal.common_optimizers import OptimizerErrorEnum, optim_db  # noqa: E402

EXACT = {"rtol": 1e-10, "atol": 1e-10}

# What the database's inputs leave out.
MORE = {
    "Adadelta": [{"rho": 1.0, "eps": 1e-3}],
    "Adafactor": [{"eps": (1e-3, 0.5)}],
    "Adagrad": [{"eps": 0.1, "lr": 0.1}, {"initial_accumulator_value": 0.5}],
    "Adam": [{"decoupled_weight_decay": True, "weight_decay": 0.1}],
    "Adamax": [{"betas": (0.5, 0.6), "eps": 0.1}],
    "ASGD": [{"t0": 3, "alpha": 0.5, "lambd": 0.1}],
    "LBFGS": [{"max_iter": 3, "history_size": 2}, {"max_eval": 7, "line_search_fn": "strong_wolfe"},
              {"tolerance_change": 0.1, "lr": 0.01}],
    "Muon": [{"adjust_lr_fn": "match_rms_adamw"}, {"nesterov": False, "eps": 100.0}],
    "NAdam": [{"decoupled_weight_decay": True, "weight_decay": 0.1, "maximize": True, "betas": (0.5, 0.6)}],
    "RAdam": [{"betas": (0.5, 0.6), "eps": 0.1}, {"decoupled_weight_decay": True, "weight_decay": 0.1, "maximize": True}],
    "RMSprop": [{"momentum": 0.9}, {"alpha": 0.5, "eps": 0.1}, {"centered": True}],
    "Rprop": [{"step_sizes": (1e-3, 0.05)}],
    "SparseAdam": [{"betas": (0.5, 0.6), "eps": 0.1}],
}  # fmt: skip
INFOS = [pytest.param(info, id=info.name) for info in optim_db]


def tolerance(name: str, lr: Any) -> dict[str, float]:
    """Muon rounds products to bfloat16: a sum in another order is 2⁻⁸ apart now and then, and iterations enlarge that."""
    return {"rtol": 0, "atol": float(lr) * 2**-4} if name == NEEDS_MATRICES else EXACT


def options_of(info: Any) -> list[dict]:
    return [case.kwargs for case in info.optim_inputs_func("cpu")] + MORE.get(info.name, [])


CASES = [
    pytest.param(info.name, o, id="-".join([info.name, *(f"{k}={v}" for k, v in o.items())]))
    for info in optim_db
    for o in options_of(info)
]


@pytest.mark.parametrize(("name", "options"), CASES)
def test_fifty_steps_and_fifty_more_from_a_state_that_pytorch_saved(name, options):
    steps, near = 3 if name == NEEDS_CLOSURE else 50, tolerance(name, options.get("lr", 1e-3))
    pair = Pair(name, options).step(steps)
    pair.agree(**near)
    ours, theirs = to_torch(pair.our_optimizer.state_dict()), pair.their_optimizer.state_dict()
    assert ours["param_groups"] == theirs["param_groups"]
    for number, state in theirs["state"].items():
        assert set(ours["state"][number]) == set(state) - {"al"}  # of LBFGS, which starts it anew in each iteration
        for key, value in state.items():
            if isinstance(value, torch.Tensor) and isinstance(ours["state"][number][key], torch.Tensor):
                assert ours["state"][number][key].dtype == value.dtype, key
                torch.testing.assert_close(ours["state"][number][key], value, **near)
    pair.our_optimizer = pair.new(tdt, pair.ours)
    pair.our_optimizer.load_state_dict(to_tdt(theirs))
    pair.step(steps).agree(**near)
    ours = to_torch(pair.our_optimizer.state_dict())
    pair.their_optimizer = pair.new(torch, pair.theirs)
    pair.their_optimizer.load_state_dict(ours)
    pair.step(3).agree(**near)


@pytest.mark.parametrize("info", INFOS)
def test_constructors_have_pytorchs_parameters_and_print_as_they_do(info):
    ours, theirs = (inspect.signature(c).parameters.values() for c in (getattr(tdt.optim, info.name), info.optim_cls))
    assert [(p.name, p.kind, p.default) for p in ours] == [(p.name, p.kind, p.default) for p in theirs]
    pair = Pair(info.name, {})
    assert repr(pair.our_optimizer) == repr(pair.their_optimizer)
    assert pair.our_optimizer.defaults == pair.their_optimizer.defaults


@pytest.mark.parametrize("info", [p for p in INFOS if p.values[0].supports_param_groups])
def test_groups_join_rates_change_and_gradients_appear_and_vanish(info):
    shapes = (*(MATRICES if info.name in (NEEDS_MATRICES, NEEDS_SPARSE) else SMALL), (4, 2), (2, 2))
    options = {"SGD": {"momentum": 0.9}, "ASGD": {"t0": 3}, "RMSprop": {"momentum": 0.5}}.get(info.name, {})
    pair = Pair(info.name, {**options, "lr": 0.02}, shapes, groups=[((0, 2), {"lr": 0.05}), ((1,), {})])

    def without(step, i):
        return (step + i * i) % 5 < 2 or (i == 2 and step < 9)

    pair.step(15, without=without)
    for optimizer, params in ((pair.our_optimizer, pair.ours), (pair.their_optimizer, pair.theirs)):
        optimizer.add_param_group({"params": params[-2:], "lr": 0.3})
        for group in optimizer.param_groups:
            group["lr"] *= 0.5
    pair.step(15, without=without).agree(**tolerance(info.name, 0.15))


@pytest.mark.parametrize("info", [p for p in INFOS if p.values[0].supported_impls])
def test_flags_that_name_one_of_pytorchs_implementations_change_nothing(info):
    plain = Pair(info.name, {})
    plain.step(3)
    for flag in [flag for flag in info.supported_impls if flag != "differentiable"]:
        flagged = Pair(info.name, {flag: True}).step(3)
        assert flagged.our_optimizer.param_groups[0][flag] is True
        for a, b in zip(plain.ours, flagged.ours, strict=True):
            assert tdt.equal(a, b)


@pytest.mark.parametrize("info", [p for p in INFOS if p.values[0].supports_complex])
def test_complex_parameters_are_pairs_of_real_ones(info):
    for options in options_of(info)[-3:]:
        steps = 5 if info.step_requires_closure else 20
        Pair(info.name, options, ((3, 4), (5,)), "complex128").step(steps).agree(**EXACT)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("info", [p for p in INFOS if p.id not in (NEEDS_SPARSE, NEEDS_CLOSURE)])
def test_parameters_of_two_bytes_end_where_pytorchs_do_within_the_rounding_of_their_steps(info, dtype):
    eps = inspect.signature(info.optim_cls).parameters.get("eps")
    small = eps is not None and isinstance(eps.default, float)  # 1e-8 is 0 in float16
    pair = Pair(info.name, {"eps": 1e-3} if small else {})
    start = [p.detach().clone() for p in pair.ours]
    results = []
    for library, params in ((tdt, pair.ours), (torch, pair.theirs)):
        kind = getattr(library, dtype)
        halves = [p.detach().to(kind).requires_grad_() for p in params]
        optimizer = pair.new(library, halves)
        for step in range(5):
            for p, goal in zip(halves, pair.goals, strict=True):
                p.grad = library.tensor(goal + step / 4).to(kind)
            optimizer.step()
        assert all(p.dtype is kind for p in halves)
        results.append([p.detach().double().numpy() for p in halves])
    unit = 2.0**-7 if dtype == "bfloat16" else 2.0**-10
    for ours, theirs, before in zip(*results, start, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=4 * unit, atol=unit)
        assert not np.array_equal(ours, before.numpy())


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")  # of PyTorch's, about its own Adagrad
@pytest.mark.parametrize("info", [p for p in INFOS if p.values[0].supports_sparse])
def test_sparse_gradients_are_accepted_where_pytorch_accepts_them(info):
    for options in [case.kwargs for case in info.optim_inputs_func("cpu") if not case.kwargs.get("weight_decay")]:
        pair = Pair(info.name, options, ((3, 4), (5, 1)))
        pair.sparse = True
        pair.step(10).agree(**EXACT)


@pytest.mark.parametrize("info", [p for p in INFOS if not (p.values[0].supports_sparse or p.id == NEEDS_CLOSURE)])
def test_gradients_of_the_other_layout_are_refused_with_pytorchs_message(info):
    pair = Pair(info.name, {}, ((3, 4),))
    pair.sparse = not pair.sparse
    pair.theirs[0].grad, pair.ours[0].grad = pair.gradients((3, 4))
    with pytest.raises(RuntimeError) as theirs:
        pair.their_optimizer.step()
    with pytest.raises(RuntimeError) as ours:
        pair.our_optimizer.step()
    kinds = {NEEDS_SPARSE: "SparseAdam does not support dense", "AdamW": "Adam does not support sparse"}
    assert str(theirs.value).startswith(kinds.get(info.name, f"{info.name} does not support sparse"))
    assert str(ours.value).split(" ")[1:5] == str(theirs.value).split(" ")[1:5]


def to_params(params: Any) -> Any:
    """The parameters of an error case, as ours."""
    if isinstance(params, torch.Tensor):
        if params.is_sparse:
            sparse = tdt._core.sparse.SparseCOO(
                params._indices().numpy(), params._values().numpy(), tuple(params.shape)
            )
            return tdt._core.tensor.wrap(sparse)
        p = tdt.tensor(params.detach().numpy().copy(), requires_grad=params.requires_grad)
        p.grad = None if params.grad is None else to_tdt(params.grad)
        return p
    if isinstance(params, dict):
        return {k: to_params(v) for k, v in params.items()}
    converted = {id(p): to_params(p) for p in params} if isinstance(params, (list, tuple)) else {}
    return type(params)(converted[id(p)] for p in params) if converted else params


@pytest.mark.parametrize("info", INFOS)
def test_refusals_have_pytorchs_class_and_message(info):
    shape = (2, 3) if info.name in (NEEDS_MATRICES, NEEDS_SPARSE) else (3,)
    for case in info.optim_error_inputs_func("cpu", torch.float32):
        error_input, theirs = case.optimizer_error_input, torch.zeros(shape, requires_grad=True)
        params = error_input.params if error_input.params is not None else [theirs]
        if isinstance(params, list) and any(isinstance(p, dict) for p in params):
            params = [dict(p) for p in params]  # a group that was refused keeps what it was given
        ours = {id(p): to_params(p) for p in params} if isinstance(params, list) else {}
        ours = [ours[id(p)] for p in params] if ours else to_params(params)
        if "across param groups" in error_input.desc:
            ours[1]["params"] = ours[0]["params"]
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            with pytest.raises(case.error_type, match=case.error_regex):  # noqa: PT012 (either call may be the one)
                optimizer = getattr(tdt.optim, info.name)(ours, **to_tdt(error_input.kwargs))
                assert case.error_on is OptimizerErrorEnum.STEP_ERROR, error_input.desc
                optimizer.step()


@pytest.mark.parametrize("info", [p for p in INFOS if p.values[0].has_capturable_arg])
def test_a_capturable_step_on_the_cpu_is_refused_with_pytorchs_message(info):
    errors = []
    for library in (tdt, torch):
        p = library.ones(2, requires_grad=True)
        optimizer = getattr(library.optim, info.name)([p], capturable=True)
        optimizer.step()  # nothing to update
        p.grad = library.ones(2)
        with pytest.raises(AssertionError, match="If capturable=True, ") as caught:
            optimizer.step()
        errors.append(str(caught.value).partition(":")[0])
    assert errors[0] == errors[1]


@pytest.mark.parametrize("info", [p for p in INFOS if "differentiable" in p.values[0].supported_impls])
def test_a_step_over_lists_is_recorded_where_pytorch_records_it(info):
    errors = []
    for library in (tdt, torch):
        p = library.ones(2, requires_grad=True).clone()
        p.grad = library.ones(2)
        try:
            getattr(library.optim, info.name)([p], differentiable=True, foreach=True).step()
            errors.append("")
        except AssertionError as error:
            errors.append(str(error).partition(":")[0])
    assert errors[0] == errors[1]


def test_every_name_of_torch_optim_is_here():
    assert set(torch.optim.__all__) <= set(dir(tdt.optim))
    assert set(torch.optim.lr_scheduler.__all__) <= set(dir(tdt.optim.lr_scheduler))
    assert set(importlib.import_module("torch.optim.optimizer").__all__) <= set(dir(tdt.optim.optimizer))


@pytest.mark.parametrize("info", [p for p in INFOS if p.id not in (NEEDS_SPARSE, NEEDS_CLOSURE)])
@pytest.mark.parametrize(("default", "dtype"), [("float64", "float64"), ("float64", "float32"), ("float32", "float64")])
def test_state_has_pytorchs_dtypes_and_scalars_under_each_default_dtype(info, default, dtype):
    def state(library: Any, optimizer: Any) -> list[dict]:
        return [
            {name: (str(value.dtype).split(".")[-1], value.item() if value.ndim == 0 else None) for name, value in own.items()}
            for own in optimizer.state_dict()["state"].values()
        ]  # fmt: skip

    try:
        tdt.set_default_dtype(getattr(tdt, default))
        torch.set_default_dtype(getattr(torch, default))
        pair = Pair(info.name, {}, MATRICES, dtype).step(3)
        assert state(tdt, pair.our_optimizer) == state(torch, pair.their_optimizer)
        pair.our_optimizer.load_state_dict(to_tdt(pair.their_optimizer.state_dict()))
        pair.their_optimizer.load_state_dict(pair.their_optimizer.state_dict())
        pair.step(3)
        assert state(tdt, pair.our_optimizer) == state(torch, pair.their_optimizer)
    finally:
        tdt.set_default_dtype(tdt.float32)
        torch.set_default_dtype(torch.float32)


def test_sparse_adam_takes_tensors_without_dimensions():
    found = []
    for lib in (tdt, torch):
        p = lib.nn.Parameter(lib.tensor(0.7))
        optimizer = lib.optim.SparseAdam([p], 0.1)
        for g in (2.0, 0.0, -1.0):
            p.grad = lib.tensor(g).to_sparse()
            optimizer.step()
            found.append(p.item())
    assert found[:3] == pytest.approx(found[3:])
