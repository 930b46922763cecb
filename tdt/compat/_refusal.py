"""Placeholders for PyTorch functions and classes that tdt does not support: they can be imported, and raise when called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn


def refused(name: str, reason: str) -> Callable[..., NoReturn]:
    """A function that raises NotImplementedError: "<name>: <reason>"."""

    def function(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"{name}: {reason}")

    function.__name__ = function.__qualname__ = name.rpartition(".")[2]
    function.__doc__ = f"Not offered: {reason}."
    return function


def refused_class(name: str, reason: str, *bases: type) -> type:
    """A class without instances: it can be imported, subclassed and named in `isinstance`; NotImplementedError on a call."""
    body = {"__init__": refused(name, reason), "__doc__": f"Not offered: {reason}."}
    return type(name.rpartition(".")[2], bases, body)


def unchanged(fn: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Return `fn` unchanged; without `fn`, return a decorator that does so."""
    return unchanged if fn is None else fn
