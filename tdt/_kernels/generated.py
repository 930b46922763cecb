"""Elementwise functions of arrays, generated from formulas: real NumPy ufuncs, and their parallel form for large arrays.

A ufunc is made of the inner loop that `_emit` compiled, by NumPy's C function `PyUFunc_FromFuncAndData`, called through
ctypes: NumPy does the broadcasting, the strides and `out=`, and a call costs what one of its own costs.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from tdt._backend.layout import memory_order
from tdt._kernels import _native
from tdt._kernels._addresses import address_of
from tdt._kernels._broadcast import FEW, GRAIN, GRAIN_OF_FEW, HEAD, Job, Plan, letters_of, plan_of
from tdt._kernels._compilable import ENTRY
from tdt._kernels._double import Double
from tdt._kernels._emit import digest
from tdt._kernels._emit_integers import INTEGERS
from tdt._kernels._emit_loops import BLOCK, LOOP, LOOPS, ROWS, module, operations
from tdt._kernels._integers import IntegerInput, Integers, are_integral
from tdt._kernels._launches import PLAIN_UFUNCS
from tdt._kernels._native import Entry, entry_at, linked, ufunc_function
from tdt._kernels._pool import parallel
from tdt._kernels._quick_elementwise import quick_elementwise
from tdt._kernels._registry import lazy
from tdt._kernels._threads import MANY, THREADS
from tdt._kernels.expression import Expression, as_expression, where

NUMBERS = frozenset((float, int))
# An operand's kind, as a letter: NumPy's of an array's type.
NUMBER, ABSENT, OTHER = "n", "-", "x"
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
LETTERS = {np.dtype(letter): letter for letter in "".join(["fde?", *INTEGERS])} | {BFLOAT16: "E"}
WORD = np.dtype(np.uint16)
STORED = {letter: dtype for dtype, letter in LETTERS.items()} | {"E": WORD}  # as NumPy's loops know them
COMPUTED = frozenset("fdeE").union(INTEGERS)  # types of formulas' results, unless these are bool
ARRAYS = frozenset(LETTERS.values())
KINDS = {float: NUMBER, int: NUMBER, type(None): ABSENT}
ndarray = np.ndarray
MOST_PREPARED = 1000
NONE: dict[str, Any] = {}

_contiguous_copy = lazy("moves_cpu:contiguous_copy")
_alive: list[Any] = []  # NumPy keeps pointers to these, and ufuncs live as long as the process


class Function:
    """A formula's machine code for some storage types.

    Attributes:
        ufunc: as NumPy calls it; `quick`: for arrays alone, without NumPy where it can; `small`: the same for bfloat16 as such.
        entry: as the pool calls it; `rows`: for arrays that are broadcast.
        output: the type of the results, uint16 for bfloat16.
        grain: blocks that a thread should at least have.
        as_words: whether arrays of bfloat16 are given as uint16, since NumPy has no loops for them.
    """

    __slots__ = ("ufunc", "quick", "small", "entry", "rows", "grain", "name", "output", "as_words", "bfloat16_out")

    def __init__(self, name: str, loop: int, loops: int, entry: int, rows: int, types: str, output: Expression):
        """loop, loops, entry, rows: addresses of machine code."""
        self.grain = GRAIN if len(operations([output])) > FEW else GRAIN_OF_FEW
        ufunc = ufunc_of(name, loop, types, 1)
        self.ufunc, self.name, self.output = ufunc, name, STORED[types[-1]]
        self.entry, self.rows = (entry_at(at, letters_of(n, len(types))) for at, n in ((entry, 1), (rows, HEAD)))
        self.quick = quick_elementwise(ufunc, loops, [STORED[letter] for letter in types], entry, rows)
        self.as_words, self.bfloat16_out = "E" in types, types[-1] == "E"
        self.small = self.quick
        if self.as_words:
            kinds = [BFLOAT16 if letter == "E" else STORED[letter] for letter in types]
            self.small = quick_elementwise(ufunc, loops, kinds, entry, rows, self._on_words)

    def run(self, operands: Sequence[Any], out: np.ndarray | None = None) -> Any:
        """The result for arrays of the types that the function is for, by all threads if there are many elements."""
        if self.as_words:
            operands = [a.view(WORD) if a.dtype.char == "E" else a for a in operands]
            if self.bfloat16_out:
                words = self._run(operands, None if out is None else out.view(WORD))
                return out if out is not None else np.asarray(words).view(BFLOAT16)
        return self._run(operands, out)

    def _on_words(self, *operands: np.ndarray) -> Any:
        count = len(operands) - 1
        if not self.bfloat16_out and count == self.ufunc.nin:  # type: ignore[attr-defined]  # written into bfloat16
            operands[count][...] = self._on_words(*operands[:count])
            return operands[count]
        result = self.ufunc(*[a.view(WORD) if a.dtype.char == "E" else a for a in operands])
        return result.view(BFLOAT16) if self.bfloat16_out else result

    def _run(self, operands: Sequence[Any], out: np.ndarray | None) -> Any:
        most = max([a.size for a in operands])
        if out is not None:
            operands = [*operands, out]
        if self.is_small(most) and all(a.size < MANY or a.flags.c_contiguous for a in operands):
            return self.quick(*operands)
        if most >= MANY and (result := self.by_rows(operands[: self.ufunc.nin], out)) is not None:
            return result
        return self.ufunc(*operands)

    def is_small(self, size: int) -> bool:
        """Whether arrays of so many elements are computed on the calling thread."""
        return size < THREADS.elementwise * (2 if self.grain > GRAIN else 1)

    def prepare(self, args: Sequence[Any]) -> tuple[Entry, bytes]:
        """As `_jit.Kernel.prepare`. args: dense arrays that lie alike, or 0-d ones; the last is written to."""
        words = [args[-1].size]
        for array in args:
            words += address_of(array), array.itemsize if array.ndim else 0
        return self.entry, self.entry.pack(*words)

    def __call__(self, first: int, last: int, *args: Any) -> None:
        """Compute blocks [first, last) on the calling thread."""
        entry, words = self.prepare(args)
        entry.call(words, first, last)

    def by_rows(self, arrays: Sequence[Any], out: np.ndarray | None) -> np.ndarray | None:
        """The result row by row, by all threads. None where NumPy is as fast on the only one, or operands of the result's shape
        lie in different orders."""
        full = next((a for a in arrays if a.ndim), None)
        if full is None or (out is not None and (out.dtype != self.output or any(map(_overlap, arrays, repeat(out))))):
            return None
        if (full.flags.c_contiguous or memory_order(full) is not None) and all(
            a is full or not a.ndim or _lie_alike(a, full) for a in arrays
        ):
            if THREADS.count == 1:
                return None
            out = np.empty_like(full, self.output) if out is None else out
            if _lie_alike(out, full):
                parallel(self, -(-full.size // BLOCK), *arrays, out, grain=self.grain)  # type: ignore[arg-type]
                return out
        found = _rows_of(
            tuple([a.shape for a in arrays]), tuple([a.strides for a in arrays]), self.output.itemsize, self.grain,
            None if out is None else _Layout(out.shape, out.strides),
        )  # fmt: skip
        if found is None:
            return self._turned(arrays, full, out)
        shape, like, plan = found
        if out is None:
            out = np.empty(shape, self.output) if like is None else np.empty_like(arrays[like], self.output)
        entry = self.rows if len(plan.head) > 1 else self.entry
        parallel(Job(self.name, entry, plan), plan.blocks, *arrays, out, grain=plan.grain)  # type: ignore[arg-type]
        return out

    def _turned(self, arrays: Sequence[Any], full: np.ndarray, out: np.ndarray | None) -> np.ndarray | None:
        """The result in the order of the first operand, `full`, like which others are copied first that lie across.

        None where they are few, of other shapes, or lie otherwise. NumPy would read a cache line for each element.
        """
        order = sorted(range(full.ndim), key=lambda d: -full.strides[d])
        if full.size < 2 * MANY or not full.transpose(order).flags.c_contiguous:
            return None
        turned: list[Any] = []
        for a in arrays:
            if a.ndim and not _lie_alike(a, full):
                copied = _contiguous_copy(a.transpose(order)) if a.shape == full.shape else None
                if copied is None:
                    return None
                a = copied.transpose(sorted(order, key=order.__getitem__))
            turned.append(a)
        return self._run(turned, out)


class _Layout(NamedTuple):
    """How an array lies in memory."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def falls_along(self, dims: Sequence[int], ndim: int) -> bool:
        """Whether the strides fall along dimensions of the `ndim` that this one broadcasts to, where it is not repeated."""
        first = ndim - len(self.shape)
        own = [self.strides[d - first] for d in dims if d >= first and self.shape[d - first] != 1]
        own = [stride for stride in own if stride]
        return own == sorted(own, reverse=True) and (not own or own[-1] > 0)


@functools.lru_cache(1000)
def _rows_of(
    shapes: tuple[tuple[int, ...], ...],
    strides: tuple[tuple[int, ...], ...],
    size: int,
    grain: int,
    out: _Layout | None,
) -> tuple[tuple[int, ...], int | None, Plan] | None:
    """The result's shape, the number of the operand as which it lies (None: it is contiguous), and the loop.

    None where operands that lie in different orders leave it to NumPy how the result lies, where an array for the result has not
    its shape, and where the loop has too many dimensions.

    Args:
        size: the bytes of the result's elements; out: how it lies, if it is there.
        grain: as of `plan_of`.
    """
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        return None
    if 0 in shape or (out is not None and out.shape != shape):
        return None
    arrays = [_Layout(*each) for each in zip(shapes, strides, strict=True)]
    dims, like = range(len(shape)), None
    if not all(each.falls_along(dims, len(shape)) for each in arrays):
        like = next((k for k, each in enumerate(arrays) if each.shape == shape and all(each.strides)), None)
        if like is None:
            return None
        dims = sorted(dims, key=lambda d: -arrays[like].strides[d])
        if not all(each.falls_along(dims, len(shape)) for each in arrays):
            return None
    result = [0] * len(shape)
    step = size
    for d in reversed(dims):
        result[d] = step
        step *= shape[d]
    plan = plan_of([*arrays, _Layout(shape, tuple(result)) if out is None else out], grain, cut=True)
    return None if plan is None else (shape, like, plan)


def _overlap(a: np.ndarray, out: np.ndarray) -> bool:
    """Whether arrays have elements in common that are not at the same place of both."""
    same = a is out or (address_of(a) == address_of(out) and a.strides == out.strides and a.shape == out.shape)
    return not same and np.may_share_memory(a, out)


def _lie_alike(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays have one shape, and strides of as many elements."""
    if a.itemsize == b.itemsize:
        return a.strides == b.strides and a.shape == b.shape
    sizes = a.itemsize, b.itemsize
    return a.shape == b.shape and all(s * sizes[1] == t * sizes[0] for s, t in zip(a.strides, b.strides, strict=True))


class Elementwise:
    """A function of arrays of numbers, computed as `formula(xp, *expressions, **attributes)` says of each element.

    Args:
        name: for messages and the ufunc's `__name__`.
        formula: a forward on arrays whose NumPy functions `functions` has; for integers, `_integers`.
    """

    def __init__(self, name: str, formula: Callable[..., Any]):
        self.name, self.formula = name, formula
        self.functions: dict[tuple, Function | None] = {}
        # By the values of numbers too, which are kept as arrays.
        self.prepared: dict[tuple, tuple[Function | None, tuple | None, tuple]] = {}

    def __call__(self, arrays: tuple, attributes: dict[str, Any] = NONE, out: np.ndarray | None = None) -> Any:
        """The result for operands that broadcast, in `out` if given; None where their type has no code, or for other operands.

        arrays: of one type, some of bool; numbers, which take the arrays' type; None for an absent operand.
        float16 and bfloat16 are computed in float32, and the result rounded once.
        attributes: of the formula. Numbers are operands of the compiled function; for other values (a text, None, a bool)
        there is one function each.
        """
        key: Any = tuple([a.dtype if a.__class__ is ndarray else _key(a) for a in arrays])
        if attributes:
            # 0.0 and -0.0 are equal, and so are 1 and True.
            key += tuple([v if v and v is not True else repr(v) for v in attributes.values()])
        prepared = self.prepared.get(key)
        if prepared is None:
            if len(self.prepared) > MOST_PREPARED:
                self.prepared.clear()
            prepared = self.prepared[key] = self._prepare(arrays, attributes)
        function, places, numbers = prepared
        if function is None:
            return None
        if places is not None:
            arrays = tuple([arrays[k] for k in places])
        if out is not None and function.bfloat16_out != (out.dtype == BFLOAT16):
            out[...] = function.run(arrays + numbers)
            return out
        return function.run(arrays + numbers, out)

    def _prepare(self, operands: tuple, attributes: dict[str, Any]) -> tuple[Function | None, tuple | None, tuple]:
        """The function for such operands (None if there is none), the places of the arrays unless all are, the numbers."""
        letters = "".join([LETTERS.get(a.dtype, OTHER) if (kind := a.__class__) is ndarray else KINDS.get(kind, OTHER)
                           for a in operands])  # fmt: skip
        stored = COMPUTED.intersection(letters)
        if OTHER in letters or len(stored) != 1:
            return None, None, ()
        (result,) = stored
        real = result if result == "d" or result in INTEGERS else "f"
        places = tuple(k for k, letter in enumerate(letters) if letter in ARRAYS)
        numbers = [a for a, letter in zip(operands, letters, strict=True) if letter == NUMBER]
        numbers += [v for v in attributes.values() if v.__class__ in NUMBERS]
        if result in INTEGERS and not all(map(_holds(result), numbers)):
            return None, None, ()
        return (
            self._function(letters, real, result, attributes),
            None if len(places) == len(operands) else places,
            tuple(np.array(n, real) for n in numbers),
        )

    def _function(self, letters: str, real: str, result: str, attributes: dict[str, Any]) -> Function | None:
        """The function for operands of these types, computed in `real`, with results stored as `result`."""
        key = (letters, *[NUMBERS if v.__class__ in NUMBERS else v for v in attributes.values()])
        with _native._loading:
            if key not in self.functions:
                arrays = [place for place, letter in enumerate(letters) if letter in ARRAYS]
                rest = [place for place, letter in enumerate(letters) if letter == NUMBER]
                types = "".join([letters[place] for place in arrays]) + real * len(rest)
                operands: list[Any] = [None] * len(letters)
                for k, place in enumerate(arrays + rest):
                    operands[place] = _input(k, types[k])
                values = dict(attributes)
                for name, value in attributes.items():
                    if value.__class__ in NUMBERS:
                        values[name] = _input(len(types), real)
                        types += real
                output = self._traced(real, operands, values)
                if output is None:
                    self.functions[key] = None
                    return None
                types += "?" if output.logical else result
                name = f"{self.name}-{digest([output], types)}"
                self.functions[key] = _compiled(self.name, name, output, types)
            return self.functions[key]

    def _traced(self, real: str, operands: list, attributes: dict[str, Any]) -> Expression | None:
        """What the formula computes; None where it calls functions that float64 or integers do not have."""
        from tdt._kernels import functions

        if real == "f":
            return as_expression(self.formula(functions, *operands, **attributes))
        try:
            if real == "d":
                return as_expression(self.formula(Double, *operands, **attributes))
            output = as_expression(self.formula(Integers, *operands, **attributes))
        except AttributeError:
            return None
        return output if are_integral(output) else None


def _input(place: int, letter: str) -> Expression:
    """An operand of a formula, by its place among the arrays and numbers."""
    return (
        IntegerInput("input", place, letter)
        if letter in INTEGERS
        else Expression("input", place, logical=letter == "?")
    )


def _holds(letter: str) -> Callable[[Any], bool]:
    """Whether a type of integers has a number."""
    limits = np.iinfo(letter)
    return lambda number: number.__class__ is int and limits.min <= number <= limits.max


def _compiled(name: str, file: str, output: Expression, types: str) -> Function | None:
    """The function of an expression, from the cache if it is there; None where the processor cannot compute it."""
    addresses = linked(file, [LOOP, LOOPS, ENTRY, ROWS], lambda: module([output], types))
    return Function(name, *addresses, types, output) if addresses else None


@functools.cache
def filler(kind: str) -> Function | None:
    """The function of a number and an array, which it fills with the number: of float ("f") or double ("d") ones."""
    return _compiled("fill", f"fill-{kind}", Expression("input", 0), 2 * kind)


def conversion(source: np.dtype, target: np.dtype) -> Function | None:
    """The function that converts arrays between two types: floats to the nearest, ties to even; to integers as C does."""
    types = LETTERS[source] + LETTERS[target]
    x = Expression("input", 0, logical=types[0] == "?")
    return _compiled(
        "convert", f"convert-{types}", where(x, 1, 0) if x.logical else x != 0 if types[1] == "?" else x, types
    )


def _key(operand: Any) -> Any:
    """What stands for an operand that is no array: a number's value, or its type."""
    kind = operand.__class__
    if kind is float or kind is int:
        return operand or repr(operand)  # 0.0 and -0.0 are equal
    return kind


def ufunc_of(name: str, loop: int, types: str, outputs: int) -> Any:
    """NumPy's ufunc of an inner loop at an address; types: letters of the arrays, of which the last are the outputs'."""
    numbers = bytes(STORED[letter].num for letter in types)
    functions, data = (ctypes.c_void_p * 1)(loop), (ctypes.c_void_p * 1)(None)
    text = name.encode()
    _alive.append((functions, data, numbers, text))
    ufunc = _from_loop()(functions, data, numbers, 1, len(types) - outputs, outputs, -1, text, b"", 0)
    PLAIN_UFUNCS.add(ufunc)
    return ufunc


@functools.cache
def _from_loop() -> Any:
    """NumPy's `PyUFunc_FromFuncAndData`: (loops, data, types, ntypes, nin, nout, identity, name, doc, unused) → ufunc.

    The second entry of the table of functions that NumPy's C API fixes.
    """
    number, text = ctypes.c_int, ctypes.c_char_p
    return ufunc_function(1, ctypes.c_void_p, ctypes.c_void_p, text, number, number, number, number, text, text, number)
