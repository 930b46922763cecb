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
    """`fn` as it is, or a decorator that changes nothing."""
    return (lambda function: function) if fn is None else fn


def allow_in_graph(fn: Any) -> Any:
    """`fn` as it is."""
    return fn


assume_constant_result = nested_compile_region = wrap_numpy = allow_in_graph


def substitute_in_graph(original_fn: Any, **options: Any) -> Callable[[Any], Any]:
    """A decorator that changes nothing."""
    return allow_in_graph


class set_stance:
    """What the compiler does with new inputs, set for good, in a block or for a function: there is no compiler."""

    def __init__(self, stance: str = "default", **options: Any) -> None:
        self.stance = stance

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        return fn

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The names of the compilers: there is none."""
    return []


def cudagraph_mark_step_begin() -> None:
    """Nothing: no CUDA graphs are recorded."""


def reset() -> None:
    """Nothing: there is no compiled code to forget."""
