"""`torch._C`, the names of PyTorch's C++ module that libraries look up."""

from __future__ import annotations

from typing import Any

from tdt._random import Generator  # noqa: F401
from tdt._size import Size  # noqa: F401
from tdt._tensor import Tensor
from tdt.compat.futures import Future  # noqa: F401
from tdt.compat.jit import (
    ScriptFunction,  # noqa: F401
    ScriptModule,  # noqa: F401
)
from tdt.utils.hooks import RemovableHandle  # noqa: F401

TensorBase = _TensorBase = Tensor


def _get_tracing_state() -> None:
    """The state of `jit.trace`: None, since nothing is traced."""


def _log_api_usage_once(event: str) -> None:
    """Nothing: usage is not counted."""


def _is_tracing() -> bool:
    """Whether operations are being recorded: never."""
    return False


def _jit_set_profiling_executor(enabled: bool) -> bool:
    """Nothing: nothing is compiled. Returns False, the setting in force."""
    return False


_jit_set_profiling_mode = _jit_set_profiling_executor


def __getattr__(name: str) -> Any:
    raise AttributeError(f"module 'torch._C' of tdt has no attribute '{name}': tdt has no C++ module of that name")
