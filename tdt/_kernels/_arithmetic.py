"""Arithmetic of two arrays, and numbers that fill one: of NumPy's or the generated functions, whichever is faster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tdt import _backend
from tdt._backend.waiting import refuse_program, stop_deferring
from tdt._kernels._conditions import LARGE_ARITHMETIC
from tdt._kernels._formulas import BFLOAT16, LOWER, from_formula
from tdt._kernels._registry import SWITCHES, Found, lazy
from tdt._kernels._stream import stream_from
from tdt._kernels._threads import MANY, THREADS

# NumPy's ufuncs whose loops set no flags of errors, and the types for which they are called without NumPy.
LOOPS = frozenset((
    "add", "subtract", "multiply", "minimum", "maximum", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal",
    "bitwise_and", "bitwise_or", "bitwise_xor", "logical_and", "logical_or", "logical_xor",
))  # fmt: skip
LOOPED = frozenset("?bBhHiIlLqQfd")
_quick_loop = lazy("_numpy_loops:quick_loop")
EXACT = 1 << 24  # integers up to which are numbers of float32


def arithmetic(how: str) -> Callable[..., Any] | None:
    """A ufunc of two operands for large arrays, repeated ones row by row and on all threads; None where there is none.

    The second operand may be a number. An array for the result may follow.
    """
    if how not in ("add", "subtract", "multiply", "true_divide"):
        return None
    ufunc, functions = getattr(np, how), {}

    def call(a: Any, b: Any, out: Any = None) -> Any:
        if SWITCHES.kernels and a.__class__ is np.ndarray and (char := a.dtype.char) in "fd":
            if (b.__class__ is float or (b.__class__ is int and -EXACT <= b <= EXACT)) and (
                THREADS.count > 1 or a.nbytes >= stream_from()
            ):
                b = np.array(b, char)
            if b.__class__ is np.ndarray and b.dtype.char == char:
                if (function := functions.get(char)) is None:
                    function = functions[char] = _OF_TWO[how].function_for((a, b), {})[0]
                return function.run((a, b), out)
        if how == "true_divide" and (found := complex_quotient(a, b, out)) is not None:
            return found
        return ufunc(a, b, out)

    return call


def complex_quotient(x: Any, y: Any, out: Any = None) -> Any:
    """x / y, of which one is an array of complex numbers, as `complex_cpu.quotient` says; None where no kernel applies."""
    like = y if y.__class__ is np.ndarray else x
    if like.__class__ is not np.ndarray or like.dtype.char not in "FD" or not like.size or not SWITCHES.kernels:
        return None
    return _complex_quotient(x, y, out)


def quick_arithmetic(how: str, dtype: Any) -> Any:
    """As NumPy's ufunc `how`, for arrays of one type, in half the time or less for small ones; None where there is none."""
    if how in _OF_TWO and dtype.char in "fd":
        found = _OF_TWO[how].ufunc_for((np.empty(1, dtype),) * 2, {})
        return found and found[0]
    return _quick_loop(how, dtype.char) if how in LOOPS and dtype.char in LOOPED and SWITCHES.kernels else None


def _choose(mask: Any, x: Any, out: Any = None) -> Any:
    found = np.where(mask, x, x.dtype.type(0))
    if out is None:
        return found
    out[...] = found
    return out


def _choice_of(dtype: Any) -> Any:
    """The generated form of `_choose`, for float32 and float64."""
    found = _chosen.ufunc_for((np.empty(1, bool), np.empty(1, dtype)), {}) if dtype.char in "fd" else None
    return found[0] if found and SWITCHES.kernels else _choose


def fill(a: Any, number: Any) -> None:
    """a[...] = number, of an array of the CPU; many elements by vectors, which NumPy does not use for those of several bytes."""
    if a.itemsize == 2:
        if a.dtype == np.float16 and number.__class__ is float:
            number = np.float32(number)  # rounded twice, as arrays of float64 are
        elif a.dtype == BFLOAT16:  # an array of an added type is filled one by one
            a, number = a.view(np.uint16), np.array(number, BFLOAT16).view(np.uint16)
    if a.size >= MANY and a.itemsize in (4, 8) and a.dtype.kind in "fiu" and a.flags.c_contiguous and SWITCHES.kernels:
        kind = "f" if a.itemsize == 4 else "d"  # whose bits are copied
        if function := _filler(kind):
            function.quick(np.array(number, a.dtype).view(kind), a.view(kind))
            return
    a.fill(number)


def spaced(out: np.ndarray, start: float, step: float, end: float | None = None) -> None:
    """Fill a vector of float32 or float64 with numbers from `start` on, `step` apart, each computed in float64.

    end: the last number, from which on those of the second half are counted down.
    """
    turn = out.size if end is None else out.size // 2
    fill = _spaced if out.size >= MANY and SWITCHES.kernels else SPACED[out.dtype]
    fill(out, turn, start, step, start if end is None else end)


def _spaced_by_numpy(out: np.ndarray, turn: int, start: float, step: float, end: float) -> None:
    out[:turn] = start + step * np.arange(turn, dtype=np.float64)
    out[turn:] = end - step * np.arange(out.size - 1 - turn, -1, -1, dtype=np.float64)


def add(a: Any, b: Any) -> Any:
    """a + b, of arrays."""
    if a.__class__ is not np.ndarray:
        return _half_sum(_backend.gpu(), a, b) if _are_alike_on_gpu(a, b) else a + b
    if a.dtype in LOWER and a.dtype == b.dtype:  # NumPy converts element by element
        return _half_sum(np, a, b)
    return a + b if a.size < LARGE_ARITHMETIC else _large_sum(a, b)


def add_to(a: Any, b: Any) -> None:
    """a += b, of arrays; b may be broadcast to a."""
    if a.__class__ is np.ndarray:
        if a.dtype == b.dtype and (a.dtype in LOWER or _is_large_and_apart(a, b)):
            _half_sum(np, a, b, out=a)
            return
        stop_deferring()
    elif (a.shape == b.shape or _fits_into(b.shape, a.shape)) and _are_alike_on_gpu(a, b):
        _half_sum(_backend.gpu(), a, b, out=a)
        return
    a += b


def _are_alike_on_gpu(a: Any, b: Any) -> bool:
    """Whether two arrays are CuPy's, and of one type."""
    if a.__class__ is _backend.GpuArray is b.__class__ and a.dtype == b.dtype:
        return True
    stop_deferring()
    refuse_program()
    return False


def _fits_into(shape: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    """Whether an array of a shape is broadcast to another one."""
    ends = whole[len(whole) - len(shape) :]
    return len(shape) <= len(whole) and all(n in (1, m) for n, m in zip(shape, ends, strict=True))


def _is_large_and_apart(a: Any, b: Any) -> bool:
    """Whether two arrays of a kernel's size have one shape, and no memory in common."""
    if a.size < LARGE_ARITHMETIC or not (SWITCHES.kernels and a.__class__ is np.ndarray is b.__class__):
        return False
    return a.shape == b.shape and not np.may_share_memory(a, b)


def quotient(a: Any, n: float) -> Any:
    """a / n, of an array and a number."""
    if a.__class__ is _backend.GpuArray:
        return _OF_TWO["true_divide"](_backend.gpu(), a, float(n))
    return a / n


def multiply(a: Any, b: Any) -> Any:
    """a · b, of arrays."""
    return a * b if a.__class__ is not np.ndarray or a.size < LARGE_ARITHMETIC else _large_multiple(a, b)


_filler, _spaced = lazy("generated:filler"), lazy("spaced_cpu:spaced")
_complex_quotient = lazy("complex_cpu:quotient")
# By dtype: `spaced`, with the place from which on numbers are counted down.
SPACED = Found(lambda dtype: _spaced if SWITCHES.kernels else _spaced_by_numpy, _spaced_by_numpy)
_half_sum = from_formula("sum_of_two", lambda xp, a, b: a + b, 2, ())[0]
_chosen = from_formula("chosen", lambda xp, mask, x: xp.where(mask, x, 0), 2, ())[0]
# By dtype: a function of a mask and an array, which is copied where the mask holds, and 0 elsewhere.
CHOICES = Found(_choice_of, _choose)
_OF_TWO: dict[str, Any] = {
    "add": _half_sum,
    "subtract": from_formula("difference_of_two", lambda xp, a, b: a - b, 2, ())[0],
    "multiply": from_formula("product_of_two", lambda xp, a, b: a * b, 2, ())[0],
    "true_divide": from_formula("quotient_of_two", lambda xp, a, b: a / b, 2, ())[0],
}
_large_sum: Any = arithmetic("add")
_large_multiple: Any = arithmetic("multiply")
