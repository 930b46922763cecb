"""Functions written for the compiler, and the symbols by which their object code is called."""

from __future__ import annotations

from types import FunctionType

# The function that Numba's code calls when the last reference to an array's owner is dropped. Our arrays have no owner, so
# it is never called, but the symbol must be defined for linking in processes that have not imported Numba.
RELEASE = "NRT_MemInfo_call_dtor"

# The symbol that every kernel's object code exports: see `_compile._add_entry`.
ENTRY = "tdt_kernel"


class Compilable:
    """A Python function that Numba compiles: a kernel, or a helper that a kernel calls."""

    function: FunctionType


class Intrinsic(Compilable):
    """A function that emits LLVM instructions: a Numba intrinsic, created when a kernel that uses it is compiled."""

    def __init__(self, function: FunctionType):
        self.function = function
