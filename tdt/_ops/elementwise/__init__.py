"""Elementwise ops. Each module's `__all__` lists its public functions."""

from typing import Any

from tdt._ops.elementwise import (
    arithmetic,
    binary_math,
    compare,
    complex_numbers,
    fills,
    math,
    powers,
    rounding,
    select,
    trigonometry,
)

MODULES = (arithmetic, binary_math, compare, complex_numbers, fills, math, powers, rounding, select, trigonometry)
__all__ = [name for module in MODULES for name in module.__all__]


def __getattr__(name: str) -> Any:
    for module in MODULES:
        if name in module.__all__:
            return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
