"""Functions written for the compiler, and the symbols by which their object code is called."""

from __future__ import annotations

from types import FunctionType

# What Numba's code calls when the last reference to an array's owner goes. Our arrays come without an owner, so it is
# never reached, but it has to be linked to something where Numba has not been imported.
RELEASE = "NRT_MemInfo_call_dtor"

# The symbol that every kernel's object code offers: see `_compile._add_entry`.
ENTRY = "tdt_kernel"


class Compilable:
    """A Python function that Numba compiles: a kernel, or a helper that a kernel calls."""

    function: FunctionType


class Intrinsic(Compilable):
    """A function that emits LLVM instructions: Numba's `intrinsic`, made only when a kernel that uses it is compiled."""

    def __init__(self, function: FunctionType):
        self.function = function
