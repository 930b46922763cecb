"""Look up the tdt module that replaces a PyTorch module."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any


def find_module(name: str) -> str | None:
    """Full name of the tdt module that replaces `torch.<name>`; None if tdt has no such module.

    Args:
        name: a dotted name below `torch`. A private module of tdt need not have the contents of PyTorch's module of
            that name, so for private names tdt.compat comes first.

    >>> from tdt.compat._find import find_module
    >>> find_module("nn.functional"), find_module("utils._pytree"), find_module("zeroes")
    ('tdt.nn.functional', 'tdt.compat.utils._pytree', None)
    """
    places = [f"tdt.{name}", f"tdt.compat.{name}"]
    if name.startswith("_") or "._" in name:
        places.reverse()
    return next((place for place in places if _exists(place)), None)


def _exists(module: str) -> bool:
    import importlib.util  # not at the start: a command line that never asks need not load it

    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError as error:
        if error.name and module.startswith(error.name):  # a parent that is missing or no package
            return False
        raise  # a library that a parent imports


def attribute(name: str) -> Any:
    """The module or object of tdt.compat that replaces `torch.<name>`; AttributeError if tdt.compat has no such name."""
    if _exists(f"tdt.compat.{name}") and name != "_names":
        return importlib.import_module(f"tdt.compat.{name}")
    return getattr(importlib.import_module("tdt.compat._names"), name)


def module_getattr(package: str) -> Callable[[str], ModuleType]:
    """A module's `__getattr__` that imports its submodules on first use, those of tdt.compat included.

    Args:
        package: the module's name, such as "tdt.utils".
    """

    def getter(name: str) -> ModuleType:
        module = None if name.startswith("__") else find_module(f"{package.partition('.')[2]}.{name}")
        if module is None:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        return importlib.import_module(module)

    return getter
