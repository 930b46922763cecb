"""PyTorch's `torch.compiler`, for scripts that guard code with it: tdt compiles no Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tdt.compat._switches import compile as compile  # noqa: PLC0414


def is_compiling() -> bool:
    """Whether the code is being compiled: never."""
    return False


is_dynamo_compiling = is_exporting = is_compiling


def disable(fn: Callable[..., Any] | None = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Return `fn` unchanged, or a decorator that does so."""
    return (lambda function: function) if fn is None else fn


def allow_in_graph(fn: Any) -> Any:
    """Return `fn` unchanged."""
    return fn


assume_constant_result = nested_compile_region = wrap_numpy = allow_in_graph


def substitute_in_graph(original_fn: Any, **options: Any) -> Callable[[Any], Any]:
    """A decorator that returns the function unchanged."""
    return allow_in_graph


class set_stance:
    """Set how the compiler treats new inputs, globally, in a block or for a function. No effect: there is no compiler."""

    def __init__(self, stance: str = "default", **options: Any) -> None:
        self.stance = stance

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        return fn

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The names of the compiler backends: an empty list."""
    return []


def cudagraph_mark_step_begin() -> None:
    """Do nothing: tdt records no CUDA graphs."""


def reset() -> None:
    """Do nothing: there is no compiled code to discard."""
