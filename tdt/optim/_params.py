"""What optimizers are handed, made uniform: parameters, loaded state, options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tdt import _backend
from tdt._core.mode import enable_grad
from tdt._core.sparse import SparseCOO
from tdt._core.tensor import Tensor, wrap


def unpack_params(group: dict[str, Any]) -> None:
    """Make `group["params"]` a list of tensors, and `group["param_names"]` their names if they came with names."""
    params = group["params"]
    if isinstance(params, Tensor):
        params = [params]
    elif isinstance(params, set):
        raise TypeError(
            "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets "
            "will change between runs. Please use a list instead."
        )
    params = list(params)
    names = [item[0] for item in params if isinstance(item, tuple)]
    if names and len(names) != len(params):
        raise ValueError("all optimizer params should be with/without names. Some param names are missing")
    group["params"] = [item[1] for item in params] if names else params
    if names:
        group["param_names"] = names


def placed(p: Tensor, value: Any, name: str | None = None) -> Any:
    """Loaded state as `p` needs it: tensors on its device and, if it is floating point, in its dtype; "step" as it is."""
    if isinstance(value, Tensor):
        if name == "step":
            return value
        if isinstance(value._a, SparseCOO):
            return wrap(value._a.astype(p._a.dtype))
        array = _backend.to_device(value._a, p.device)
        return wrap(array.astype(p._a.dtype, copy=False) if p.is_floating_point() else array)
    if isinstance(value, dict):
        return {key: placed(p, item, key) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(placed(p, item) for item in value)
    return value


def type_name(value: Any) -> str:
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def run_closure(closure: Callable[[], Any] | None) -> Any:
    """What `closure`, which computes the loss and its gradients, returns; None without one."""
    if closure is None:
        return None
    with enable_grad():
        return closure()


_NUMBERS = frozenset((float, int, bool))


def number(value: Any) -> Any:
    """An option that may be a one-element tensor, a NumPy scalar, or a sequence of such, with Python numbers."""
    if value.__class__ in _NUMBERS:
        return value
    if isinstance(value, (tuple, list)):  # of a list another object, as its items may be replaced
        is_fixed = isinstance(value, tuple) and _NUMBERS.issuperset(map(type, value))
        return value if is_fixed else tuple(map(number, value))
    return value.item() if isinstance(value, (Tensor, np.generic)) else value


def check_rates(**options: Any) -> None:
    """ValueError for an option below 0 or NaN, and for a tensor that has not one element."""
    for name, value in options.items():
        if isinstance(value, Tensor) and value.numel() != 1:
            raise ValueError(f"Tensor {name} must be 1-element")
        if not number(value) >= 0:
            raise ValueError(f"Invalid {_CALLED.get(name, f'{name} value')}: {value}")


def check_betas(betas: Any) -> None:
    """ValueError for a coefficient of a running mean that is not in [0, 1)."""
    for i, beta in enumerate(betas):
        if not 0.0 <= number(beta) < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")


_CALLED = {"lr": "learning rate", "eps": "epsilon value"}
