"""PyTorch's `torch.compiler`, for scripts that guard code with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import ParamSpec, TypeVar, overload

from tdt._compiled import compile as compile  # noqa: PLC0414

F = TypeVar("F")
_P = ParamSpec("_P")
_R = TypeVar("_R")


def is_compiling() -> bool:
    """Whether the code is being compiled: never."""
    return False


is_dynamo_compiling = is_exporting = is_compiling


@overload
def disable(fn: F, recursive: bool = True, *, reason: str | None = None) -> F: ...
@overload
def disable(fn: None = None, recursive: bool = True, *, reason: str | None = None) -> Callable[[F], F]: ...
def disable(fn: F | None = None, recursive: bool = True, *, reason: str | None = None) -> F | Callable[[F], F]:
    """Return `fn` unchanged, or a decorator that does so."""
    return (lambda function: function) if fn is None else fn


def allow_in_graph(fn: F) -> F:
    """Return `fn` unchanged."""
    return fn


assume_constant_result = nested_compile_region = wrap_numpy = allow_in_graph


def substitute_in_graph(
    original_fn: Callable[_P, _R],
    *,
    can_constant_fold_through: bool = False,
    skip_signature_check: bool = False,
    is_embedded_type: bool = False,
) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """A decorator that returns the function unchanged."""
    return allow_in_graph


class set_stance:
    """Set how the compiler treats new inputs, globally, in a block or for a function. No effect: there is no compiler."""

    def __init__(
        self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: str | None = None
    ) -> None:
        self.stance = stance

    def __call__(self, fn: F) -> F:
        return fn

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


def list_backends(exclude_tags: Sequence[str] | None = ("debug", "experimental")) -> list[str]:
    """The names of the compiler backends: an empty list."""
    return []


def cudagraph_mark_step_begin() -> None:
    """Do nothing: tdt records no CUDA graphs."""


def reset() -> None:
    """Do nothing: there is no compiled code to discard."""
