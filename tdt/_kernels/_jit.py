"""`jit`: Python functions as machine code, without Numba at run time.

Numba compiles a kernel once (about a second, with its import), and what is kept is the bare object code. A later
process links that with llvmlite and calls it through ctypes: 40 ms for the first kernel and 2 ms for each further one,
where importing Numba and letting it load its own cache takes half a second. Numba's cache would also miss edits in
helpers, and its index, written by several processes at once, can pair a signature with another one's code.

A kernel returns nothing, allocates nothing and raises nothing: it writes into the arrays it is given. Arguments are
NumPy arrays, ints, floats and bools. Helpers are `@jit` functions too; `@intrinsic` ones emit LLVM instructions.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from tdt._kernels import _cache

# What Numba's code calls when the last reference to an array's owner goes. Our arrays come without an owner, so it is
# never reached, but it has to be linked to something where Numba has not been imported.
RELEASE = "NRT_MemInfo_call_dtor"

# Numba's code is handed a slot for its result (None: it stores a null) and one for an error. Nobody reads them.
_slots = ctypes.create_string_buffer(16)
_SLOTS = ctypes.addressof(_slots), ctypes.addressof(_slots) + 8

_loading = threading.Lock()


class Kernel:
    """A function that is compiled, or loaded, once for each combination of argument types."""

    def __init__(self, function: FunctionType):
        functools.update_wrapper(self, function)
        self.function, self.name = function, function.__qualname__
        self._loaded: dict[tuple, Callable] = {}

    def __call__(self, *args: Any) -> None:
        signature: list[Any] = []
        words: list[Any] = []
        for value in args:
            kind = type(value)
            if kind is np.ndarray:
                signature.append((value.dtype.str, value.ndim, value.flags.c_contiguous))
                # Numba's array struct: owner and parent (none), elements, bytes an element, address, shape, strides.
                address = value.__array_interface__["data"][0]
                words += 0, 0, value.size, value.itemsize, address, *value.shape, *value.strides
            else:
                signature.append(kind)
                words.append(value)
        key = tuple(signature)
        call = self._loaded.get(key) or self._load(key)
        if call(*_SLOTS, *words) != 0:
            raise RuntimeError(f"kernel {self.name} raised an error, which a kernel must not do")

    def _load(self, key: tuple) -> Callable:
        with _loading:
            if key not in self._loaded:
                name = _file_name(self, key)
                kept = _cache.load(name)
                if kept is None:
                    from tdt._kernels._compile import compiled  # imports Numba

                    symbol, code = compiled(self, key)
                    kept = symbol.encode() + b"\0" + code
                    _cache.keep(name, kept)
                symbol, _, code = kept.partition(b"\0")
                self._loaded[key] = _linked(symbol.decode(), code, key)
            return self._loaded[key]


class Intrinsic:
    """A function that emits LLVM instructions: Numba's `intrinsic`, made only when a kernel that uses it is compiled."""

    def __init__(self, function: FunctionType):
        self.function = function


def jit(function: Any) -> Any:
    """Make `function` a kernel.

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
    for mark, spelled in safe.items():
        name = name.replace(mark, spelled)
    return f"{kernel.__module__.rpartition('.')[2]}.{kernel.name}-{name}.o"


def _linked(symbol: str, code: bytes, key: tuple) -> Callable:
    """The function `symbol` of an object file, linked into this process."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    if llvm.address_of_symbol(RELEASE) is None:
        llvm.add_symbol(RELEASE, ctypes.cast(ctypes.CDLL(None).abort, ctypes.c_void_p).value)
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    types: list[Any] = [ctypes.c_void_p, ctypes.c_void_p]
    for part in key:
        if isinstance(part, tuple):
            types += [ctypes.c_void_p] * 2 + [ctypes.c_int64] * 2 + [ctypes.c_void_p] + [ctypes.c_int64] * 2 * part[1]
        else:
            types.append({int: ctypes.c_int64, float: ctypes.c_double, bool: ctypes.c_bool}[part])
    call: Any = ctypes.CFUNCTYPE(ctypes.c_int32, *types)(engine.get_function_address(symbol))
    call.engine = engine  # owns the code
    return call
