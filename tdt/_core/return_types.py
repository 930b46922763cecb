"""Named tuples that ops with several results return, as `tdt.return_types.max`."""

from __future__ import annotations

import functools
from collections import namedtuple
from typing import Any, cast

from tdt import _about


def return_type(name: str, fields: tuple[str, ...] = ("values", "indices")) -> Any:
    """The named tuple of an op with several outputs, e.g. `.values` and `.indices`."""
    return _class_of(name, fields)


@functools.cache
def _class_of(name: str, fields: tuple[str, ...]) -> Any:
    def shown(self: Any) -> str:
        parts = ",\n".join(f"{field}={value!r}" for field, value in zip(fields, self, strict=True))
        return f"{_about.prefix}.return_types.{name}(\n{parts})"

    cls = cast(Any, namedtuple)(name, fields)
    cls.__module__, cls.__repr__ = f"{_about.prefix}.return_types", shown
    cls.__reduce__ = lambda self: (_named, (name, fields, tuple(self)))  # the class is not an attribute of a module
    return cls


def _named(name: str, fields: tuple[str, ...], values: tuple) -> Any:
    """Recreate a named tuple from its pickle."""
    return _class_of(name, fields)(*values)
