"""`torch.overrides`: tdt's functions do not call `__torch_function__`, so it overrides nothing.

>>> import tdt
>>> from tdt.compat.overrides import has_torch_function, is_tensor_like
>>> has_torch_function((tdt.ones(1),)), is_tensor_like(tdt.ones(1)), is_tensor_like(1)
(False, True, False)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tdt._core.tensor import Tensor
from tdt.compat._refusal import refused

__all__ = ["get_ignored_functions", "get_overridable_functions", "get_testing_overrides", "handle_torch_function",
           "has_torch_function", "is_tensor_like", "is_tensor_method_or_property", "resolve_name",
           "wrap_torch_function"]  # fmt: skip

_REASON = "tdt's functions do not call __torch_function__; override the methods of a Tensor subclass"


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether an argument overrides `__torch_function__`: always False."""
    return False


has_torch_function_unary = has_torch_function_variadic = has_torch_function


def is_tensor_like(inp: Any) -> bool:
    """Whether `inp` is a tensor, or of a class that has `__torch_function__`."""
    return isinstance(inp, Tensor) or hasattr(type(inp), "__torch_function__")


def wrap_torch_function(dispatcher: Callable[..., Any]) -> Callable[[Any], Any]:
    """A decorator that returns the function unchanged, since `__torch_function__` is not called."""
    return lambda function: function


class TorchFunctionMode:
    """Base class of modes that intercept function calls: it can be subclassed, but entering such a mode raises."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """PyTorch calls this method for every function; tdt never does."""
        raise NotImplementedError(f"{type(self).__name__}: {_REASON}")

    def __enter__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__}: {_REASON}")

    def __exit__(self, *error: object) -> None:
        pass


BaseTorchFunctionMode = TorchFunctionMode
get_ignored_functions = refused("get_ignored_functions", _REASON)
get_overridable_functions = refused("get_overridable_functions", _REASON)
get_testing_overrides = refused("get_testing_overrides", _REASON)
handle_torch_function = refused("handle_torch_function", _REASON)
is_tensor_method_or_property = refused("is_tensor_method_or_property", _REASON)
resolve_name = refused("resolve_name", _REASON)
