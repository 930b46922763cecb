"""`torch.overrides`: helpers of classes and modes that take over calls of tdt's functions by `__torch_function__`.

A class that does not inherit from Tensor is asked once a tensor of a subclass, or a mode, has been used; before, functions
refuse it.

>>> import tdt
>>> from tdt.compat.overrides import has_torch_function, is_tensor_like
>>> has_torch_function((tdt.ones(1),)), is_tensor_like(tdt.ones(1)), is_tensor_like(1)
(False, True, False)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

from tdt._core import torch_function
from tdt._core.mode import state
from tdt._core.tensor import Tensor
from tdt._core.wrapping import wraps

__all__ = ["get_default_nowrap_functions", "get_ignored_functions", "get_overridable_functions", "get_testing_overrides",
           "handle_torch_function", "has_torch_function", "is_tensor_like", "is_tensor_method_or_property", "resolve_name",
           "wrap_torch_function"]  # fmt: skip


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether a mode is active, or an argument is of a class that takes calls over."""
    return bool(state.modes) or (state.subclasses and any(torch_function.is_overriding(type(x)) for x in relevant_args))


def has_torch_function_unary(input: Any) -> bool:
    """`has_torch_function` of one argument."""
    return has_torch_function((input,))


def has_torch_function_variadic(*relevant_args: Any) -> bool:
    """`has_torch_function` of arguments one by one."""
    return has_torch_function(relevant_args)


def is_tensor_like(inp: Any) -> bool:
    """Whether `inp` is a tensor, or of a class that has `__torch_function__`."""
    return isinstance(inp, Tensor) or hasattr(type(inp), "__torch_function__")


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """The result of the mode or class that takes over the call `public_api(*args, **kwargs)`.

    Args:
        relevant_args: the arguments whose classes are asked.
    Raises:
        TypeError: when none of them takes it over.
    """
    overriding = torch_function.overriding_arguments(relevant_args) if state.subclasses else []
    result = torch_function.call_handlers(public_api, overriding, args, kwargs)
    if result is NotImplemented:
        raise torch_function.refused(public_api, overriding)
    return result


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[[Any], Any]:
    """A decorator of functions that classes and modes may take over; `dispatcher` gives the arguments whose classes are asked."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(called, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return called

    return decorate


def get_overridable_functions() -> dict[str, list[Any]]:
    """The functions that classes and modes may take over, by the public module or class that has them."""
    found: dict[str, list[Any]] = {}
    for home, function in torch_function.functions():
        found.setdefault(home, []).append(function)
    found["tdt.Tensor"] = [shown for _, shown in torch_function.members()]
    return found


def get_ignored_functions() -> set[FunctionType]:
    """The functions of tdt that classes and modes do not see."""
    import tdt

    overridable = {function for _, function in torch_function.functions()}
    return {
        function for function in map(tdt.__dict__.get, tdt.__dir__()) if isinstance(function, FunctionType)
    } - overridable


def get_testing_overrides() -> dict[Any, Callable[..., Any]]:
    """A function of the same signature, which returns -1, for each that classes and modes may take over."""
    overrides: dict[Any, Callable[..., Any]] = {}
    for home in get_overridable_functions().values():
        for function in home:
            overrides[function] = _of_signature(function)
    return overrides


def _of_signature(function: Any) -> Callable[..., Any]:
    def stand_in(*args: Any, **kwargs: Any) -> int:
        return -1

    owner = getattr(function, "__self__", None)
    described: Any = owner.fget if isinstance(owner, property) else function
    stand_in.__signature__ = inspect.signature(described)  # type: ignore[attr-defined]
    return stand_in


def get_default_nowrap_functions() -> set[Any]:
    """The functions whose results keep their class, where others give the class of their arguments."""
    torch_function.begin()
    return set(torch_function.AS_THEY_ARE)


def is_tensor_method_or_property(func: Any) -> bool:
    """Whether a function, as handlers get it, is a method or property of Tensor."""
    return any(func == shown for _, shown in torch_function.members())


def resolve_name(f: Any) -> str | None:
    """The public name of a function, as handlers get it, with its module; None of one that cannot be taken over."""
    torch_function.begin()
    if f not in torch_function.NAMES and not is_tensor_method_or_property(f):
        return None
    return torch_function.name_of(f)


class TorchFunctionMode:
    """Base class of modes, which get the calls of all functions inside a `with` block.

    A subclass has a method `__torch_function__(self, func, types, args=(), kwargs=None)`. While it runs, the mode gets no calls.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The result of a call that the mode takes over; NotImplemented leaves it to classes of tensors."""
        raise NotImplementedError(f"{type(self).__name__} has no method __torch_function__")

    def __enter__(self) -> Any:
        torch_function.begin()
        state.modes = (*state.modes, self)
        return self

    def __exit__(self, *error: object) -> None:
        state.modes = state.modes[:-1]


BaseTorchFunctionMode = TorchFunctionMode


class DisableTorchFunctionSubclass:
    """Context manager in which classes of tensors take no calls over."""

    def __enter__(self) -> None:
        self._before, state.subclasses = state.subclasses, False

    def __exit__(self, *error: object) -> None:
        state.subclasses = self._before


class DisableTorchFunction(DisableTorchFunctionSubclass):
    """Context manager in which neither modes nor classes of tensors take calls over."""

    def __enter__(self) -> None:
        super().__enter__()
        self._modes, state.modes = state.modes, ()

    def __exit__(self, *error: object) -> None:
        state.modes = self._modes
        super().__exit__(*error)
