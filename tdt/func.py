"""Function transforms (gradients, Jacobians, `vmap`), and modules as functions of their parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tdt._core.tensor import Tensor
from tdt._function_transforms import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap
from tdt._ops.shape.join import stack
from tdt.nn.modules.module import Module
from tdt.nn.utils.stateless import call


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: dict[str, Tensor] | Sequence[dict[str, Tensor]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call `module(*args, **kwargs)` with other parameters and buffers, by name; the module itself is not changed.

    Args:
        parameter_and_buffer_dicts: tensors by name. A buffer that the call reassigns is stored in the dictionary.
        args: a tuple, or one argument.
        tie_weights: a tensor with several names is replaced under all of them.
        strict: every name must be in the dictionaries, and they must have no others.

    Raises:
        ValueError: when dictionaries share a name, or tied names have different values.
        RuntimeError: with `strict`, when names are missing or unexpected.

    >>> import tdt
    >>> layer, x = tdt.nn.Linear(1, 1), tdt.ones(1, 1)
    >>> tdt.func.functional_call(layer, {"weight": tdt.tensor([[2.0]]), "bias": tdt.tensor([3.0])}, x)
    tensor([[5.]])
    """
    tensors: Any = parameter_and_buffer_dicts
    if isinstance(tensors, Sequence):
        if not all(isinstance(part, dict) for part in tensors):
            raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
        names = [name for part in tensors for name in part]
        repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1]
        if repeated:
            raise ValueError(f"{repeated} appeared in multiple dictionaries; behavior of functional call is ambiguous")
        tensors = {name: tensor for part in tensors for name, tensor in part.items()}
    elif not isinstance(tensors, dict):
        raise ValueError("Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, "
                         f"but got {type(tensors)}")  # fmt: skip
    return call(module, tensors, args, kwargs, tie_weights=tie_weights, strict=strict)


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The parameters and the buffers of models of one class, each stacked along a new first dimension, by name.

    Raises:
        RuntimeError: when there is no model, or models differ in class, training mode or requires_grad.

    >>> import tdt
    >>> from tdt import nn
    >>> parameters, buffers = tdt.func.stack_module_state([nn.Linear(2, 3) for _ in range(4)])
    >>> parameters["weight"].shape
    tdt.Size([4, 3, 2])
    """
    if len(models) == 0:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({model.training for model in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if len({type(model) for model in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    return (
        _stacked([dict(model.named_parameters()) for model in models]),
        _stacked([dict(model.named_buffers()) for model in models]),
    )


def _stacked(states: list[dict[str, Any]]) -> dict[str, Tensor]:
    stacked = {}
    for name in states[0]:
        flags = {state[name].requires_grad for state in states}
        if len(flags) > 1:
            raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
        stacked[name] = stack([state[name] for state in states]).detach().requires_grad_(flags.pop())
    return stacked


def functionalize(func: Any, *, remove: str = "mutations") -> Any:
    """Not supported, as it serves compilers, which tdt does not have: raises NotImplementedError."""
    raise NotImplementedError("func.functionalize is not offered: it serves compilers; call the function as it is")


__all__ = [
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "stack_module_state",
    "vjp",
    "vmap",
]
