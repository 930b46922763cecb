"""Another set of parameters and states for an optimizer, for a while."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from tdt._core.tensor import Tensor
from tdt.optim.optimizer import Optimizer


@contextlib.contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer, swapin_parameters: dict[str, Tensor], swapin_optim_state: dict[str, Any]
) -> Iterator[None]:
    """Context in which `optimizer` has other parameters, state and options; afterwards its own again.

    Args:
        swapin_parameters: by name, in the order of the groups.
        swapin_optim_state: as `optimizer.state_dict()` returns it; steps write into its tensors.
    Raises:
        RuntimeError: when either does not fit the optimizer, which must have taken a step.

    >>> import tdt
    >>> p, other = tdt.zeros(1, requires_grad=True), tdt.ones(1, requires_grad=True)
    >>> optimizer = tdt.optim.SGD([p], lr=0.5, momentum=0.9)
    >>> p.grad = other.grad = tdt.ones(1)
    >>> optimizer.step()
    >>> with tdt.optim.swap_in_optimizer_params_and_state(optimizer, {"p": other}, optimizer.state_dict()):
    ...     optimizer.step()
    >>> p.item(), other.item()
    (-0.5, 0.050000011920928955)
    """
    states, groups = _checked(optimizer, swapin_optim_state)
    params = list(swapin_parameters.values())
    if len(params) < sum(len(group["params"]) for group in groups):
        raise RuntimeError(
            _NEEDS + "the explicit parameter state to match optimizer.param_groups ordering: too few given"
        )
    own_state, own_groups = optimizer.state, [dict(group) for group in optimizer.param_groups]
    state: defaultdict[Any, Any] = defaultdict(dict)
    rest = iter(params)
    try:
        for live, group in zip(optimizer.param_groups, groups, strict=True):
            chosen = [next(rest) for _ in group["params"]]
            live.update(group, params=chosen)
            state.update({p: dict(states.get(number, {})) for p, number in zip(chosen, group["params"], strict=True)})
        optimizer.state = state
        yield
    finally:
        for p, number in zip(params, (n for group in groups for n in group["params"]), strict=False):
            _write_back(states.get(number, {}), state.get(p, {}))
        for live, before in zip(optimizer.param_groups, own_groups, strict=True):
            live.clear()
            live.update(before)
        optimizer.state = own_state


def _write_back(saved: dict[str, Any], used: dict[str, Any]) -> None:
    """Put what steps have made of a parameter's state into the tensors that it came with: a plan keeps its own."""
    for name, tensor in saved.items():
        if isinstance(tensor, Tensor) and isinstance(used.get(name), Tensor) and used[name] is not tensor:
            tensor._a[...] = used[name]._a
            tensor._st.bump_version()


_NEEDS = "swap_in_optimizer_params_and_state requires "


def _checked(optimizer: Optimizer, state_dict: Any) -> tuple[dict[int, dict], list[dict[str, Any]]]:
    """States and groups of a state_dict that fits the optimizer."""
    if not optimizer.state:
        raise RuntimeError(_NEEDS + "initialized optimizer state: take a step first")
    if not isinstance(state_dict, dict) or not isinstance(state_dict.get("state"), dict):
        raise RuntimeError(_NEEDS + f"a state_dict with states by parameter number, got {type(state_dict).__name__}")
    states, groups = state_dict["state"], state_dict.get("param_groups")
    if not isinstance(groups, list) or not all(isinstance(group, dict) for group in groups):
        raise RuntimeError(_NEEDS + f"param_groups to be a list of dicts, got {type(groups).__name__}")
    if len(groups) != len(optimizer.param_groups):
        raise RuntimeError(
            "swapin_optim_state has a different number of parameter groups than the live optimizer: "
            f"{len(groups)}, not {len(optimizer.param_groups)}"
        )
    for i, (live, group) in enumerate(zip(optimizer.param_groups, groups, strict=True)):
        numbers = group.get("params")
        if not isinstance(numbers, list) or not all(isinstance(number, int) for number in numbers):
            raise RuntimeError(_NEEDS + f"the params of group {i} to be numbers, got {numbers!r}")
        if len(numbers) != len(live["params"]):
            raise RuntimeError(
                f"swapin_optim_state param group {i} has a different number of params than the live optimizer param group: "
                f"{len(numbers)}, not {len(live['params'])}"
            )
        if group.keys() != live.keys():
            raise RuntimeError(
                _NEEDS + f"the options of group {i} to be the optimizer's: {sorted(group.keys() ^ live.keys())}"
            )
    known = {number for group in groups for number in group["params"]}
    wrong = [key for key, value in states.items() if key not in known or not isinstance(value, dict)]
    if wrong:
        raise RuntimeError(_NEEDS + f"a dict of state for parameter numbers alone; got extra keys {wrong!r}")
    return states, groups
