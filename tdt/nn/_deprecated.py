"""Functions under the names that they had before."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any


def before(new: Callable[..., Any], message: str) -> Callable[..., Any]:
    """`new`, whose name ends in an underscore, under the name without it: works as before, and warns with `message`."""
    name = new.__name__[:-1]

    @functools.wraps(new)
    def old(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(message, FutureWarning, stacklevel=2)
        return new(*args, **kwargs)

    old.__name__, old.__doc__ = name, f"`{name}_` under its old name, with a FutureWarning."
    return old
