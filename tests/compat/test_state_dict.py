"""`torch.distributed.checkpoint.state_dict` in one process, against PyTorch's."""

from __future__ import annotations

import copy
import importlib

import pytest

import tdt
from tdt.compat.distributed.checkpoint import state_dict as ours
from tests.helpers import require_torch


def trained(library, optimizer="Adam"):
    library.manual_seed(0)
    model = library.nn.Sequential(library.nn.Linear(2, 3), library.nn.BatchNorm1d(3))
    model.eval()[0].bias.requires_grad_(False)
    options = {"lr": 0.1, "momentum": 0.9} if optimizer == "SGD" else {"lr": 0.1}
    opt = getattr(library.optim, optimizer)([p for p in model.parameters() if p.requires_grad], **options)
    weights = library.arange(12.0).reshape(4, 3)
    (model(library.arange(8.0).reshape(4, 2)) * weights).pow(2).sum().backward()
    opt.step()
    return model, opt


def plain(value):
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list):
        return [plain(part) for part in value]
    return pytest.approx(value.flatten().tolist(), rel=1e-5, abs=1e-6) if hasattr(value, "tolist") else value


@pytest.mark.parametrize("optimizer", ["Adam", "SGD"])
@pytest.mark.parametrize("options", [{}, {"ignore_frozen_params": True}, {"flatten_optimizer_state_dict": True},
                                     {"full_state_dict": True, "cpu_offload": True}])  # fmt: skip
def test_states_have_pytorchs_names_and_values(options: dict, optimizer: str):
    torch = require_torch()
    theirs = importlib.import_module("torch.distributed.checkpoint.state_dict")
    found = []
    for library, module in ((tdt, ours), (torch, theirs)):
        model, opt = trained(library, optimizer)
        settings = module.StateDictOptions(**options)
        found.append(module.get_state_dict(model, opt, options=settings))
    assert list(found[0][0]) == list(found[1][0])
    assert set(found[0][1]) == set(found[1][1])
    for own, other in zip(found[0], found[1], strict=True):
        assert plain(other) == {key: plain_value(value) for key, value in own.items()}


def plain_value(value):
    if isinstance(value, dict):
        return {key: plain_value(part) for key, part in value.items()}
    if isinstance(value, list):
        return [plain_value(part) for part in value]
    return value.flatten().tolist() if hasattr(value, "tolist") else value


@pytest.mark.parametrize("flat", [False, True])
def test_a_state_comes_back_and_training_goes_on(flat: bool):
    options = ours.StateDictOptions(flatten_optimizer_state_dict=flat)
    model, opt = trained(tdt)
    states, optim_states = ours.get_state_dict(model, opt, options=options)
    states, optim_states = copy.deepcopy((states, optim_states))  # which a state shares with the model
    other, second = trained(tdt)
    for p in other.parameters():
        p.data.mul_(3)
    second.param_groups[0]["lr"] = 5.0
    keys = ours.set_state_dict(other, second, model_state_dict=states, optim_state_dict=optim_states, options=options)
    assert not keys.missing_keys
    assert not keys.unexpected_keys
    assert second.param_groups[0]["lr"] == 0.1
    for m, o in ((model, opt), (other, second)):
        o.zero_grad()
        m(tdt.ones(4, 2)).sum().backward()
        o.step()
    assert all(tdt.equal(p, q) for p, q in zip(model.parameters(), other.parameters(), strict=True))


def test_strict_states_must_be_complete():
    model, opt = trained(tdt)
    with pytest.raises(RuntimeError, match="Missing key"):
        ours.set_model_state_dict(model, {"other": tdt.ones(1)})
    lenient = ours.StateDictOptions(strict=False)
    assert ours.set_model_state_dict(model, {"other": tdt.ones(1)}, options=lenient).unexpected_keys == ["other"]
    with pytest.raises(KeyError, match="0.weight"):
        ours.set_optimizer_state_dict(model, opt, {"state": {}, "param_groups": []})
    with pytest.raises(KeyError, match="lacks"):
        ours.get_optimizer_state_dict(model, tdt.optim.SGD(tdt.nn.Linear(1, 1).parameters(), lr=0.1))


def test_parts_of_a_model_and_wrapped_models():
    model, opt = trained(tdt)
    whole = ours.get_model_state_dict(model)
    assert list(ours.get_model_state_dict(tdt.nn.DataParallel(model))) == list(whole)
    assert list(ours.get_model_state_dict(model, submodules={model[0]})) == ["0.weight", "0.bias"]
    short = ours.StateDictOptions(keep_submodule_prefixes=False)
    assert list(ours.get_model_state_dict(model, submodules={model[0]}, options=short)) == ["weight", "bias"]
    part = ours.get_optimizer_state_dict(model, opt, submodules={model[0]})
    assert list(part["state"]) == ["0.weight"]
    assert part["param_groups"][0]["params"] == ["0.weight"]
