"""`jit`: compiles Python functions to machine code, without Numba at run time.

Numba compiles a kernel once (about a second, with its import); the cache stores its object code. A later process maps
the code into memory (`_loader`) and calls it through ctypes: a millisecond or less for each kernel, whereas importing
Numba and loading its own cache takes half a second. Numba's cache would also miss edits in helpers, and its index, if
several processes write it at once, can pair a signature with another one's code.

A kernel does the part `[first, last)` of its work, its first two parameters. It returns nothing, allocates nothing and
raises nothing: it writes into its argument arrays. Arguments are NumPy arrays, ints, floats and bools. Helpers are
`@jit` functions too, of any parameters; `@intrinsic` ones emit LLVM instructions.
"""

from __future__ import annotations

import ctypes
import functools
import os
import struct
import threading
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from tdt._kernels._compilable import ENTRY, Compilable, Intrinsic
from tdt._kernels._loader import load

LETTERS = {int: "q", float: "d", bool: "?7x"}  # one word each, for `struct`

_loading = threading.RLock()


def _after_fork() -> None:
    """Reset the state of a forked child: it has none of its parent's threads, and its locks may be locked."""
    global _loading
    _loading = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

# The offset of the data pointer in an array object, which NumPy's C API guarantees. `__array_interface__` and `ctypes`
# take six times as long.
ADDRESS = object.__basicsize__
from_address = ctypes.c_size_t.from_address


def address_of(array: np.ndarray) -> int:
    """The address of the first element."""
    return from_address(id(array) + ADDRESS).value


class Entry(NamedTuple):
    """A loaded kernel for one combination of argument types: its ctypes function and its address."""

    call: Callable
    address: int
    pack: Callable[..., bytes]


def entry_at(address: int, letters: str) -> Entry:
    """The entry of a kernel at an address; letters: its arguments' types for `struct`."""
    call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64)(address)
    return Entry(call, address, struct.Struct("=" + letters).pack)


def c_function(capsule: Any, place: int, *kinds: Any) -> Any:
    """A function of a table of NumPy's C API by its place there; it returns an object of Python's."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = ctypes.cast(pointer(capsule, None), ctypes.POINTER(ctypes.c_void_p))
    return ctypes.PYFUNCTYPE(ctypes.py_object, *kinds)(table[place])


class Kernel(Compilable):
    """A function `(first, last, *args)` that is compiled, or loaded, once for each combination of argument types."""

    def __init__(self, function: FunctionType):
        functools.update_wrapper(self, function)
        self.function, self.name = function, function.__qualname__
        self.label = f"{function.__module__.rpartition('.')[2]}.{self.name}"
        self._loaded: dict[tuple, Entry] = {}

    def __call__(self, first: int, last: int, *args: Any) -> None:
        entry, words = self.prepare(args)
        if entry.call(words, first, last) != 0:
            raise RuntimeError(f"kernel {self.name} raised an error, which a kernel must not do")

    def prepare(self, args: Sequence[Any]) -> tuple[Entry, bytes]:
        """The machine code for arguments of these types, and the arguments packed into words of 8 bytes.

        The words contain the addresses of the arrays; the caller must keep references to the arrays.
        """
        signature: list[Any] = []
        words: list[Any] = []
        for value in args:
            kind = type(value)
            if kind is np.ndarray:
                signature.append((value.dtype, value.ndim, value.flags.c_contiguous))
                # Numba's array struct: owner and parent (none), elements, bytes an element, address, shape, strides.
                address = ctypes.c_size_t.from_address(id(value) + ADDRESS).value
                words += 0, 0, value.size, value.itemsize, address, *value.shape, *value.strides
            else:
                signature.append(kind)
                words.append(value)
        key = tuple(signature)
        entry = self._loaded.get(key) or self._load(key)
        return entry, entry.pack(*words)

    def _load(self, key: tuple) -> Entry:
        from tdt._kernels import _cache  # which takes longer to import than all of this file's imports

        with _loading:
            if key not in self._loaded:
                types = tuple((part[0].str, *part[1:]) if isinstance(part, tuple) else part for part in key)
                name = _file_name(self, types)
                code = _cache.load(name)
                if code is None:
                    from tdt._kernels._compile import compiled  # imports Numba

                    code = compiled(self, types)
                    _cache.keep(name, code)
                self._loaded[key] = _linked(code, key)
            return self._loaded[key]


def jit(function: Any) -> Any:
    """Compile `function` as a kernel.

    It runs without the GIL, divides by zero as NumPy does, and may be reordered and contracted, but sees NaN and
    infinities. Write selections so that NaN passes: `0 if v <= 0 else v`.
    """
    return Kernel(function)


def intrinsic(function: Any) -> Any:
    """Make `function(typingctx, *types) -> (signature, generate)` an intrinsic. It must be global in its module."""
    return Intrinsic(function)


def _file_name(kernel: Kernel, key: tuple) -> str:
    types = ("".join(map(str, part)) if isinstance(part, tuple) else part.__name__ for part in key)
    safe = {"<": "", ">": "big-", "|": "", "True": "c", "False": "s"}
    name = "_".join(types)
    for mark, replacement in safe.items():
        name = name.replace(mark, replacement)
    return f"{kernel.label}-{name}.o"


def _linked(code: bytes, key: tuple) -> Entry:
    """Link object code into this process."""
    [address], memory = load(code, [ENTRY])
    letters = "".join("q" * (5 + 2 * part[1]) if isinstance(part, tuple) else LETTERS[part] for part in key)
    entry: Any = entry_at(address, letters)
    entry.call.memory = memory  # owns the code
    return entry
