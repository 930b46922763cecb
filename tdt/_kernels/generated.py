"""Elementwise functions of arrays, generated from formulas: real NumPy ufuncs, and their parallel form for large arrays.

A ufunc is made of the inner loop that `_emit` compiled, by NumPy's C function `PyUFunc_FromFuncAndData`, called through
ctypes: NumPy does the broadcasting, the strides and `out=`, and a call costs what one of its own costs.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tdt._backend.layout import memory_order
from tdt._kernels import _jit
from tdt._kernels._compilable import ENTRY, PARALLEL
from tdt._kernels._emit import BLOCK, LOOP, digest
from tdt._kernels._jit import Entry, address_of
from tdt._kernels._loader import load
from tdt._kernels._pool import parallel
from tdt._kernels.expression import Exact, Expression, as_expression

GRAIN = 4  # blocks that a thread should at least have

NUMBERS = frozenset((float, int))
MOST_PREPARED = 1000
NONE: dict[str, Any] = {}

_alive: list[Any] = []  # NumPy keeps pointers to these, and ufuncs live as long as the process


class Function:
    """A formula's machine code for some storage types.

    Attributes:
        ufunc: as NumPy calls it.
        entry: as the pool calls it.
    """

    __slots__ = ("ufunc", "entry", "name", "output")

    def __init__(self, ufunc: Callable[..., np.ndarray], entry: Entry, name: str, output: np.dtype):
        self.ufunc, self.entry, self.name, self.output = ufunc, entry, name, output

    def prepare(self, args: Sequence[Any]) -> tuple[Entry, bytes]:
        """As `_jit.Kernel.prepare`. args: flat arrays, or 0-d ones for all elements; the last is written to."""
        words = [args[-1].size]
        for array in args:
            words += address_of(array), array.itemsize if array.ndim else 0
        return self.entry, self.entry.pack(*words)

    def __call__(self, first: int, last: int, *args: Any) -> None:
        """Compute blocks [first, last) on the calling thread."""
        entry, words = self.prepare(args)
        entry.call(words, first, last)

    def parallel(self, arrays: Sequence[Any], out: np.ndarray | None) -> np.ndarray | None:
        """The result by all threads; None unless the arrays lie alike, without gaps, or have one element."""
        full = next((a for a in arrays if a.ndim), None)
        if full is None:
            return None
        layout = full.shape, full.strides
        if any(a.ndim and (a.shape, a.strides) != layout for a in arrays) or memory_order(full) is None:
            return None
        if out is None:
            out = np.empty_like(full, self.output)
        elif out.shape != full.shape or out.dtype != self.output:
            return None
        target = memory_order(out)
        scale = self.output.itemsize
        if target is None or any(
            s * scale != t * full.itemsize for s, t in zip(full.strides, out.strides, strict=True)
        ):
            return None
        flat = [memory_order(a) if a.ndim else a for a in arrays]
        parallel(self, -(-full.size // BLOCK), *flat, target, grain=GRAIN)  # type: ignore[arg-type]
        return out


class Elementwise:
    """A function of float32 or float64 arrays, computed as `formula(xp, *expressions, **attributes)` says of each element.

    Args:
        name: for messages and the ufunc's `__name__`.
        formula: a forward on arrays whose NumPy functions `expression` has.
    """

    def __init__(self, name: str, formula: Callable[..., Any]):
        self.name, self.formula = name, formula
        self.functions: dict[tuple, Function | None] = {}
        # By the values of the attributes too, with the numbers among these.
        self.prepared: dict[tuple, tuple[Function | None, tuple]] = {}

    def __call__(self, arrays: tuple, attributes: dict[str, Any] = NONE, out: np.ndarray | None = None) -> Any:
        """The result for arrays (and numbers) that broadcast, in `out` if given; None where float64 has no code.

        attributes: of the formula. Numbers are operands of the compiled function; for other values (a text, None, a bool)
        there is one function each.
        """
        first = arrays[0]
        key: Any = (first.dtype.char, len(arrays))
        if attributes:
            key += tuple([v or repr(v) for v in attributes.values()])  # 0.0 and -0.0 are equal
        prepared = self.prepared.get(key)
        if prepared is None:
            if len(self.prepared) > MOST_PREPARED:
                self.prepared.clear()
            numbers = tuple(np.array(v, first.dtype) for v in attributes.values() if v.__class__ in NUMBERS)
            prepared = self.prepared[key] = self._function(key[:2], attributes), numbers
        function, numbers = prepared
        if function is None:
            return None
        arrays += numbers
        if first.size >= PARALLEL:
            operands = [np.array(a, first.dtype) if a.__class__ in NUMBERS else a for a in arrays]
            result = function.parallel(operands, out)
            if result is not None:
                return result
        return function.ufunc(*arrays) if out is None else function.ufunc(*arrays, out=out)

    def _function(self, kind: tuple[str, int], attributes: dict[str, Any]) -> Function | None:
        """The function for arrays of a type (NumPy's letter, how many); one for all numbers among the attributes."""
        from tdt._kernels import _cache, expression

        key = (*kind, *[None if v.__class__ in NUMBERS else v for v in attributes.values()])
        with _jit._loading:
            if key not in self.functions:
                letter, count = kind
                inputs = [Expression("input", k) for k in range(count)]
                values = dict(attributes)
                for name, value in attributes.items():
                    if value.__class__ in NUMBERS:
                        values[name] = Expression("input", count)
                        count += 1
                try:
                    output = as_expression(self.formula(expression if letter == "f" else Exact, *inputs, **values))
                except AttributeError:
                    if letter == "f":
                        raise
                    self.functions[key] = None
                    return None
                types = letter * count + ("?" if output.logical else letter)
                name = f"{self.name}-{digest([output], types)}.o"
                code = _cache.load(name)
                if code is None:
                    from tdt._kernels._emit import compiled

                    code = compiled(output, types)
                    _cache.keep(name, code)
                self.functions[key] = linked(self.name, code, types)
            return self.functions[key]


def linked(name: str, code: bytes, types: str) -> Function:
    """The function of an object file."""
    (loop, entry), memory = load(code, [LOOP, ENTRY])
    call: Any = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64)(entry)
    numbers = bytes(np.dtype(letter).num for letter in types)
    functions, data = (ctypes.c_void_p * 1)(loop), (ctypes.c_void_p * 1)(None)
    text = name.encode()
    _alive.append((memory, functions, data, numbers, text))
    ufunc = _from_loop()(functions, data, numbers, 1, len(types) - 1, 1, -1, text, b"", 0)
    pack = struct.Struct("=q" + "qq" * len(types)).pack
    return Function(ufunc, Entry(call, entry, pack), name, np.dtype(types[-1]))


@functools.cache
def _from_loop() -> Any:
    """NumPy's `PyUFunc_FromFuncAndData`: (loops, data, types, ntypes, nin, nout, identity, name, doc, unused) → ufunc.

    The second entry of the table of functions that NumPy's C API fixes.
    """
    capsule = np._core._multiarray_umath._UFUNC_API  # type: ignore[attr-defined]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = ctypes.cast(pointer(capsule, None), ctypes.POINTER(ctypes.c_void_p))
    number, text = ctypes.c_int, ctypes.c_char_p
    kind = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, text, number, number, number, number, text, text, number
    )
    return kind(table[1])
