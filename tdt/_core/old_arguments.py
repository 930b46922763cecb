"""Removed argument names and deprecated argument orders of PyTorch: decorators for the functions that had them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar, cast

from tdt._core.wrapping import wraps

# Function → its removed keyword arguments → their replacements.
F = TypeVar("F", bound=Callable[..., Any])

REMOVED_ARGUMENTS = {
    "backward": {"retain_variables": "retain_graph"},
    "grad": {"retain_variables": "retain_graph"},
    "TensorDataset": {
        "data_tensor": "TensorDataset(data, target), by position",
        "target_tensor": "TensorDataset(data, target), by position",
    },
}


def refuses_removed_arguments(function: F) -> F:
    """Decorate a function so that its TypeError for an argument in REMOVED_ARGUMENTS names the replacement."""
    name = function.__qualname__.removesuffix(".__init__")
    replacements = REMOVED_ARGUMENTS[name]

    @wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        for removed in replacements if kwargs else ():
            if removed in kwargs:
                raise TypeError(f"{name}() got an unexpected keyword argument '{removed}'; use {replacements[removed]}")
        return function(*args, **kwargs)

    return cast(F, checked)


def accepts_old_order(
    tensors: int, *scalars: str, stacklevel: int = 2
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let a function take scalars by position, between its tensors: `add(x, 2, y)` is `add(x, y, alpha=2)`.

    PyTorch took them so before 1.5, and still does, with a warning: `add_(2, y)`, `addcmul_(v, a, b)`,
    `addmm(beta, x, alpha, a, b)`, `x.addmm_(beta, alpha, a, b)`.

    Args:
        tensors: how many tensors the function takes.
        scalars: names of its scalar arguments, in the old order.
        stacklevel: of the warning.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def ordered(*args: Any, **kwargs: Any) -> Any:
            if len(args) <= tensors:
                return function(*args, **kwargs) if kwargs else function(*args)
            first, rest = args[: len(scalars) + 1], args[len(scalars) + 1 :]
            numbers = dict(zip(scalars, (arg for arg in first if isinstance(arg, (int, float, complex))), strict=False))
            if len(args) != tensors + len(numbers):
                return function(*args, **kwargs)  # which raises the error
            new = ", ".join(f"{name}={value}" for name, value in numbers.items())
            message = f"{function.__name__}: numbers before tensors are deprecated; write {new}"
            warnings.warn(message, stacklevel=stacklevel)
            first = tuple(arg for arg in first if not isinstance(arg, (int, float, complex)))
            return function(*first, *rest, **numbers, **kwargs)

        return ordered

    return decorate
