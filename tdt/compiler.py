"""PyTorch's `torch.compiler`, for scripts that guard code with it: tdt compiles no Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tdt._switches import compile as compile  # noqa: PLC0414


def is_compiling() -> bool:
    """Whether the code is being compiled: never."""
    return False


is_dynamo_compiling = is_exporting = is_compiling


def disable(fn: Callable[..., Any] | None = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """`fn` as it is, or a decorator that changes nothing."""
    return (lambda function: function) if fn is None else fn


def reset() -> None:
    """Nothing: there is no compiled code to forget."""
