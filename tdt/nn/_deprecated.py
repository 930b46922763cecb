"""Functions under the names that they had before."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def deprecated_alias(function: Callable[P, R], old: str, new: str) -> Callable[P, R]:
    """`function` under its former name: it works as before and warns.

    Args:
        old, new: dotted names for the warning, former and present.
    """
    name = old.rpartition(".")[2]

    @functools.wraps(function)
    def alias(*args: P.args, **kwargs: P.kwargs) -> R:
        warnings.warn(f"`{old}` is now deprecated in favor of `{new}`.", FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    alias.__name__ = alias.__qualname__ = name
    alias.__code__ = alias.__code__.replace(co_name=name, co_qualname=name)  # type: ignore[attr-defined]
    alias.__doc__ = f"Deprecated alias of `{new}`; warns with a FutureWarning."
    return alias
