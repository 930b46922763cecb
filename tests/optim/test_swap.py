"""An optimizer with other parameters and states for a while."""

from __future__ import annotations

import copy

import pytest

import tdt
from tests.helpers import require_torch

torch = require_torch()


def stepped(library, name="Adam"):
    """An optimizer of two groups that has taken a step, its parameters, and others."""
    params, others = ([library.full((3,), value + i, requires_grad=True) for i in range(2)] for value in (1.0, 5.0))
    optimizer = getattr(library.optim, name)([{"params": [p], "lr": 0.1 * (i + 1)} for i, p in enumerate(params)])
    for p in (*params, *others):
        p.grad = library.tensor([1.0, -2.0, 0.5])
    optimizer.step()
    return optimizer, params, others


def numbers(value):
    """The tensors inside nested dicts and lists, one after the other, as numbers."""
    if isinstance(value, dict):
        return [x for item in value.values() for x in numbers(item)]
    if isinstance(value, (list, tuple)):
        return [x for item in value for x in numbers(item)]
    return value.reshape(-1).tolist() if hasattr(value, "tolist") else []


@pytest.mark.parametrize("name", ["Adam", "Adagrad"])
def test_steps_inside_change_only_the_passed_parameters_and_state(name):
    results = []
    for library in (tdt, torch):
        optimizer, params, others = stepped(library, name)
        state_dict, before = copy.deepcopy(optimizer.state_dict()), numbers(optimizer.state_dict())
        state_dict["param_groups"][1]["lr"] = 0.7
        with library.optim.swap_in_optimizer_params_and_state(optimizer, dict(enumerate(others)), state_dict):
            assert optimizer.param_groups[1]["params"][0] is others[1]
            optimizer.step()
            optimizer.step()
        assert numbers(optimizer.state_dict()) == before
        assert [group["lr"] for group in optimizer.param_groups] == [0.1, 0.2]
        optimizer.step()
        state = optimizer.state_dict()["state"]
        order = [state_dict["state"][i][key] for i in range(2) for key in sorted(state_dict["state"][i])]
        order += [state[i][key] for i in range(2) for key in sorted(state[i])]
        results.append(numbers([p.detach() for p in params + others] + order))
    assert results[0] == pytest.approx(results[1], rel=1e-6)


def test_an_optimizer_without_state_is_refused():
    for library in (tdt, torch):
        optimizer, _, others = stepped(library, "SGD")
        with pytest.raises(RuntimeError, match="requires initialized optimizer state"):
            with library.optim.swap_in_optimizer_params_and_state(
                optimizer, dict(enumerate(others)), optimizer.state_dict()
            ):
                pass


WRONG = [
    lambda state, others: (state["state"], others),
    lambda state, others: (3, others),
    lambda state, others: ({**state, "param_groups": ()}, others),
    lambda state, others: ({**state, "param_groups": state["param_groups"][:1]}, others),
    lambda state, others: ({**state, "param_groups": [3, 4]}, others),
    lambda state, others: ({**state, "param_groups": [{**g, "params": ["a"]} for g in state["param_groups"]]}, others),
    lambda state, others: ({**state, "param_groups": [{**g, "params": [0, 1]} for g in state["param_groups"]]}, others),
    lambda state, others: ({**state, "param_groups": [{"params": g["params"]} for g in state["param_groups"]]}, others),
    lambda state, others: ({**state, "state": {7: {}}}, others),
    lambda state, others: (state, others[:1]),
]


@pytest.mark.parametrize("spoil", WRONG)
def test_what_does_not_fit_is_refused(spoil):
    for library in (torch, tdt):
        optimizer, params, others = stepped(library)
        state, others = spoil(optimizer.state_dict(), others)
        with pytest.raises(RuntimeError, match="swap_in_optimizer_params_and_state requires|swapin_optim_state"):
            with library.optim.swap_in_optimizer_params_and_state(optimizer, dict(enumerate(others)), state):
                pass
        assert optimizer.param_groups[0]["params"][0] is params[0]
