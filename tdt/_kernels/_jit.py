"""`jit`: compiles Python functions to machine code, without Numba at run time.

Numba compiles a kernel once (about a second, with its import); the cache stores its object code. A later process maps
the code into memory (`_loader`) and calls it: a millisecond or less for each kernel, whereas importing
Numba and loading its own cache takes half a second. Numba's cache would also miss edits in helpers, and its index, if
several processes write it at once, can pair a signature with another one's code.

A kernel does the part `[first, last)` of its work, its first two parameters. It returns nothing, allocates nothing and
raises nothing: it writes into its argument arrays. Arguments are NumPy arrays, ints, floats and bools. Helpers are
`@jit` functions too, of any parameters; `@intrinsic` ones emit LLVM instructions.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from types import FunctionType
from typing import Any

import numpy as np

from tdt._kernels import _native
from tdt._kernels._addresses import address_of
from tdt._kernels._compilable import ENTRY, Compilable, Intrinsic
from tdt._kernels._loader import load
from tdt._kernels._native import Entry, entry_at

LETTERS = {int: "q", float: "d", bool: "?7x"}  # one word each, for `struct`
_alive: list[Any] = []  # what keeps the code of kernels in memory


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
            kind = value.__class__  # that of an array, too, whose use is noted for a tape
            if kind is np.ndarray:
                signature.append((value.dtype, value.ndim, value.flags.c_contiguous))
                # Numba's array struct: owner and parent (none), elements, bytes an element, address, shape, strides.
                words += 0, 0, value.size, value.itemsize, address_of(value), *value.shape, *value.strides
            else:
                signature.append(kind)
                words.append(value)
        key = tuple(signature)
        entry = self._loaded.get(key) or self._load(key)
        return entry, entry.pack(*words)

    def _load(self, key: tuple) -> Entry:
        from tdt._kernels import _cache  # which takes longer to import than all of this file's imports

        with _native._loading:
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
    _alive.append(memory)
    return entry_at(
        address, "".join("q" * (5 + 2 * part[1]) if isinstance(part, tuple) else LETTERS[part] for part in key)
    )
