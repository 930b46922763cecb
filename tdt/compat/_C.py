"""`torch._C`, the names of PyTorch's C++ module that libraries look up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tdt._core.memory_format import preserve_format
from tdt._core.mode import state
from tdt._core.size import Size  # noqa: F401
from tdt._core.tensor import Tensor
from tdt._core.torch_function import disabled as _disabled_torch_function_impl  # noqa: F401
from tdt._ops.shape.memory import _parse_to as _arguments_of_to
from tdt._random import Generator  # noqa: F401
from tdt.compat._refusal import refused_class
from tdt.compat.futures import Future  # noqa: F401
from tdt.compat.jit import (
    ScriptFunction,  # noqa: F401
    ScriptModule,  # noqa: F401
)
from tdt.compat.overrides import DisableTorchFunction, DisableTorchFunctionSubclass  # noqa: F401
from tdt.nn.parallel.distributed import Reducer
from tdt.utils.hooks import RemovableHandle  # noqa: F401

TensorBase = _TensorBase = Tensor
_TensorMeta = type(Tensor)


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """Device, dtype, non_blocking and memory format from the arguments of `Module.to`; None for an omitted one.

    >>> import tdt
    >>> from tdt.compat._C import _parse_to
    >>> _parse_to("cpu", tdt.float64)
    (device(type='cpu'), tdt.float64, False, None)
    """
    non_blocking = bool(kwargs.get("non_blocking")) or any(arg is True for arg in args)
    target, kind, _, layout = _arguments_of_to(args, kwargs)
    return target, kind, non_blocking, None if layout is preserve_format else layout


Graph = refused_class("_C.Graph", "tdt has no TorchScript")
Value = refused_class("_C.Value", "tdt has no TorchScript")

_nn = SimpleNamespace(_parse_to=_parse_to)
_distributed_c10d = SimpleNamespace(Reducer=Reducer)


def _get_tracing_state() -> None:
    """The state of `jit.trace`: None, since nothing is traced."""


def _log_api_usage_once(event: str) -> None:
    """Do nothing: tdt does not log API usage."""


def _are_functorch_transforms_active() -> bool:
    """Whether this is called inside `vmap`. Gradients of functions are autograd's own, for which code needs no other way."""
    return state.batching is not None


def _is_tracing() -> bool:
    """Whether operations are being recorded: never."""
    return False


def _jit_set_profiling_executor(enabled: bool) -> bool:
    """Do nothing: tdt compiles no Python. Returns False, the current setting."""
    return False


_jit_set_profiling_mode = _jit_set_profiling_executor


def __getattr__(name: str) -> Any:
    raise AttributeError(f"module 'torch._C' of tdt has no attribute '{name}': tdt has no C++ module of that name")
