"""`torch.ops.namespace.name`: the operators that a program defined through `torch.library`, and in `aten` tdt's own."""

from __future__ import annotations

from typing import Any

from tdt.compat import _aten
from tdt.compat._refusal import refused
from tdt.compat.library import OPERATORS

load_library = refused("ops.load_library", "tdt loads no operators written in C++; write an autograd.Function")
loaded_libraries: set[str] = set()


class Namespace:
    """The operators of one namespace."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, name: str) -> Any:
        if operator := OPERATORS.get(f"{self.name}::{name}"):
            return operator
        if self.name == "aten" and (own := _aten.operator(name)):
            return own
        raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{name}'")


def __getattr__(name: str) -> Namespace:
    if name.startswith("__"):
        raise AttributeError(name)
    return Namespace(name)
