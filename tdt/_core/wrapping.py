"""`functools.wraps` for decorators of the core: tracebacks, too, show the decorated function's name."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def wraps(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """Give a wrapper name, docstring and signature of `function`, and its code object the name.

    A traceback shows the name of the code object, which `functools.wraps` does not change.
    """

    def decorate(wrapper: Any) -> Any:
        name = getattr(function, "__name__", wrapper.__name__)
        wrapper.__code__ = wrapper.__code__.replace(co_name=name, co_qualname=getattr(function, "__qualname__", name))
        return functools.wraps(function)(wrapper)

    return decorate
