"""`torch.distributed.checkpoint.state_dict`: states of models and optimizers by the parameters' names, in one process.

>>> import tdt
>>> from tdt.compat.distributed.checkpoint.state_dict import get_model_state_dict, get_optimizer_state_dict
>>> model = tdt.nn.Linear(1, 1)
>>> list(get_model_state_dict(model))
['weight', 'bias']
>>> get_optimizer_state_dict(model, tdt.optim.SGD(model.parameters(), lr=0.1))["param_groups"][0]["params"]
['weight', 'bias']
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from tdt._core.tensor import Tensor
from tdt.nn import Module
from tdt.nn.parallel import DataParallel, DistributedDataParallel
from tdt.optim import Optimizer

__all__ = [
    "StateDictOptions", "get_model_state_dict", "get_optimizer_state_dict", "get_state_dict", "set_model_state_dict",
    "set_optimizer_state_dict", "set_state_dict",
]  # fmt: skip

Optimizers = Optimizer | Iterable[Optimizer]


@dataclasses.dataclass
class StateDictOptions:
    """Options of the functions of this module.

    Args:
        full_state_dict, broadcast_from_rank0, dsd_fqn_modifiers: without effect in one process.
        cpu_offload: copy the tensors to the CPU.
        ignore_frozen_params: leave out parameters that do not require gradients.
        keep_submodule_prefixes: with `submodules`, whether names begin with the submodule's own.
        strict: whether a state must have the model's names and no others.
        flatten_optimizer_state_dict: one dictionary, "state.<parameter>.<name>" and "param_groups.<parameter>.<option>".
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


def _unwrapped(model: Module) -> Module:
    return model.module if isinstance(model, DataParallel | DistributedDataParallel) else model


def _names(model: Module, options: StateDictOptions) -> dict[Tensor, str]:
    """The name of each parameter that options let through."""
    return {
        p: n for n, p in _unwrapped(model).named_parameters() if p.requires_grad or not options.ignore_frozen_params
    }


def _moved(value: Any, options: StateDictOptions) -> Any:
    if isinstance(value, dict):
        return {key: _moved(part, options) for key, part in value.items()}
    return value.detach().cpu() if options.cpu_offload and isinstance(value, Tensor) else value


def _listed(optimizers: Optimizers) -> list[Optimizer]:
    return [optimizers] if isinstance(optimizers, Optimizer) else list(optimizers)


def get_model_state_dict(
    model: Module, *, submodules: set[Module] | None = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """The model's parameters and buffers by name, without the prefix of a data-parallel wrapper.

    Args:
        submodules: keep only these modules' tensors.
    """
    options = options or StateDictOptions()
    inner = _unwrapped(model)
    state = inner.state_dict()
    if options.ignore_frozen_params:
        frozen = {name for name, p in inner.named_parameters() if not p.requires_grad}
        state = {name: value for name, value in state.items() if name not in frozen}
    if submodules is not None:
        saved: dict[str, Any] = {}
        for name, module in inner.named_modules():
            if module in submodules:
                start = len(name) + 1 if name and not options.keep_submodule_prefixes else 0
                prefix = f"{name}." if name else ""
                saved |= {key[start:]: value for key, value in state.items() if key.startswith(prefix)}
        state = saved
    return _moved(state, options) if options.cpu_offload else state


def set_model_state_dict(
    model: Module, model_state_dict: dict[str, Any], *, options: StateDictOptions | None = None
) -> Any:
    """Load what `get_model_state_dict` returned. Returns the missing and the unexpected names.

    Raises:
        RuntimeError: when names are missing or unexpected and the options are strict.
    """
    options = options or StateDictOptions()
    inner = _unwrapped(model)
    state = dict(model_state_dict)
    if options.ignore_frozen_params:
        state = {n: p for n, p in inner.named_parameters() if not p.requires_grad} | state
    return inner.load_state_dict(state, strict=options.strict)


def get_optimizer_state_dict(
    model: Module, optimizers: Optimizers, *, submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The optimizers' state and groups, with the names of the model's parameters in the place of their numbers.

    Raises:
        KeyError: when an optimizer has a parameter that the model lacks.
    """
    options = options or StateDictOptions()
    names = _names(model, options)
    if submodules is not None:
        saved = {p for module in submodules for p in module.parameters()}
        names = {p: name for p, name in names.items() if p in saved}
    state: dict[str, Any] = {}
    groups = []
    for optimizer in _listed(optimizers):
        for group in optimizer.param_groups:
            _check(group["params"], model)
            inside = [p for p in group["params"] if p in names]
            state |= {names[p]: dict(optimizer.state[p]) for p in inside if optimizer.state.get(p)}
            groups.append({**_settings(group), "params": [names[p] for p in inside]})
    found = _moved({"state": state, "param_groups": groups}, options)
    return _flat(found) if options.flatten_optimizer_state_dict else found


def _check(parameters: Iterable[Tensor], model: Module) -> None:
    known = set(_unwrapped(model).parameters())
    if any(p not in known for p in parameters):
        raise KeyError("an optimizer has a parameter that the model lacks")


def _settings(group: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in group.items() if key not in ("params", "param_names")}


def _flat(found: dict[str, Any]) -> dict[str, Any]:
    flat = {f"state.{n}.{key}": value for n, state in found["state"].items() for key, value in state.items()}
    for group in found["param_groups"]:
        flat |= {f"param_groups.{n}.{key}": value for n in group["params"] for key, value in _settings(group).items()}
    return flat


def set_optimizer_state_dict(
    model: Module, optimizers: Optimizers, optim_state_dict: dict[str, Any], *, options: StateDictOptions | None = None
) -> None:
    """Load what `get_optimizer_state_dict` returned, flattened or not.

    Raises:
        KeyError: when a parameter's state or settings are missing and the options are strict.
    """
    options = options or StateDictOptions()
    names = _names(model, options)
    states, settings = _by_name(optim_state_dict)
    for optimizer in _listed(optimizers):
        loaded = optimizer.state_dict()
        for group, entry in zip(optimizer.param_groups, loaded["param_groups"], strict=True):
            inside = [names[p] for p in group["params"] if p in names]
            found = next((settings[name] for name in inside if name in settings), None)
            if found is None and inside and options.strict:
                raise KeyError(f"the optimizer's state has no settings of {', '.join(inside)}")
            entry |= found or {}
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        loaded["state"] = {i: states[names[p]] for i, p in enumerate(parameters) if names.get(p) in states}
        optimizer.load_state_dict(loaded)


def _by_name(found: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The state and the settings of each parameter, of a state that is flattened or not."""
    if "param_groups" in found:
        return found["state"], {n: _settings(group) for group in found["param_groups"] for n in group["params"]}
    parts: dict[str, dict[str, Any]] = {"state": {}, "param_groups": {}}
    for key, value in found.items():
        part, _, rest = key.partition(".")
        name, _, option = rest.rpartition(".")
        parts[part].setdefault(name, {})[option] = value
    return parts["state"], parts["param_groups"]


def get_state_dict(
    model: Module, optimizers: Optimizers, *, submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:  # fmt: skip
    """The results of `get_model_state_dict` and `get_optimizer_state_dict`."""
    return (
        get_model_state_dict(model, submodules=submodules, options=options),
        get_optimizer_state_dict(model, optimizers, submodules=submodules, options=options),
    )


def set_state_dict(
    model: Module, optimizers: Optimizers, *, model_state_dict: dict[str, Any], optim_state_dict: dict[str, Any],
    options: StateDictOptions | None = None,
) -> Any:  # fmt: skip
    """Load both of what `get_state_dict` returned. Returns the model's missing and unexpected names."""
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return set_model_state_dict(model, model_state_dict, options=options)
