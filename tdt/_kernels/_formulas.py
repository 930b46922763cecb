"""Elementwise functions as machine code generated from their formulas, and conversions between float types."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from tdt import _backend
from tdt._backend.layout import in_order
from tdt._backend.waiting import launch_waiting, refuse_program, stop_deferring
from tdt._kernels._registry import SWITCHES, lazy
from tdt._kernels._threads import MANY, THREADS

MOST_READY = 1000  # calls of a formula, of other types or numbers each, whose functions are ready
FLOAT32, FLOAT16, BFLOAT16 = np.dtype(np.float32), np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)
FLOAT64 = np.dtype(np.float64)
LOWER = frozenset((FLOAT16, BFLOAT16))
INTEGERS = frozenset(np.dtype(letter) for letter in "bhilqBHILQ")
GENERATED = frozenset((FLOAT32, FLOAT16, BFLOAT16, np.dtype(np.float64))) | INTEGERS
CONVERTED = FLOAT32, FLOAT64, FLOAT16, BFLOAT16, *map(np.dtype, "?bBhil")
LARGE_CONVERSION = (
    1 << 15
)  # elements, from which generated code converts sooner than NumPy, if neither type is of 16 bits
# Generated functions by the types of source and target; None: not looked for, False: NumPy's is used.
CONVERSIONS: dict[tuple, Any] = dict.fromkeys(itertools.permutations(CONVERTED, 2))


def widen(arrays: Sequence[Any]) -> list:
    """Half-precision arrays as float32, others as they are."""
    return [astype(a, FLOAT32) if getattr(a, "dtype", None) in LOWER else a for a in arrays]


def narrow(results: Any, low: Any) -> Any:
    """float32 results rounded to the half-precision dtype `low`; other types as they are."""
    if isinstance(results, tuple):
        return tuple(narrow(r, low) for r in results)
    return astype(results, low) if getattr(results, "dtype", None) == FLOAT32 else results


def astype(x: Any, dtype: Any) -> Any:
    """`x.astype(dtype)`, by generated code where that is faster; to 16 bits by way of float32, as PyTorch rounds."""
    if x.__class__ is not np.ndarray:
        if x.dtype == FLOAT64 and dtype in LOWER:
            return astype(x.astype(FLOAT32), dtype)
        launch_waiting()
        if x.__class__ is _backend.GpuArray and SWITCHES.kernels and (found := _converted_on_gpu(x, dtype)) is not None:
            return found
        return x.astype(dtype)
    if function := conversion_for(x, dtype):
        result = function.small(x) if x.size < THREADS.elementwise else function.run((x,))
        return result if result.__class__ is np.ndarray else np.asarray(result)
    if (x.dtype in LOWER or (dtype in LOWER and x.dtype.kind in "biuf")) and FLOAT32 != x.dtype != dtype != FLOAT32:
        return astype(np.asarray(x.astype(FLOAT32)), dtype)
    return x.astype(dtype)


def conversion_for(x: np.ndarray, dtype: Any) -> Any:
    """The `generated.Function` that converts an array; None or False where NumPy does."""
    if not SWITCHES.kernels or (x.size < LARGE_CONVERSION and x.dtype not in LOWER and dtype not in LOWER):
        return None
    found = CONVERSIONS.get((x.dtype, dtype), False)
    if found is None:
        from tdt._kernels.generated import conversion

        found = CONVERSIONS[x.dtype, dtype] = conversion(x.dtype, dtype) or False
    return found


def conversion_like(x: np.ndarray, dtype: Any) -> Callable[[np.ndarray], np.ndarray]:
    """`astype(·, dtype)` as a function of arrays of the type and size of x, which has dimensions."""
    function = conversion_for(x, dtype)
    small = function and x.size < THREADS.elementwise
    return function.small if small else functools.partial(astype, dtype=dtype)  # type: ignore[no-any-return]


def convert_into(out: np.ndarray, x: np.ndarray) -> None:
    """Write the elements of an array, which broadcasts, to another one that shares no memory with it, as `astype` converts them.

    ValueError for shapes that do not fit.
    """
    if x.shape == out.shape and (function := conversion_for(x, out.dtype)):
        function.run((x,), out)
    else:
        np.copyto(out, astype(x, out.dtype) if out.dtype in LOWER else x, casting="unsafe")


_converted_on_gpu = lazy("formula_gpu:converted")


def from_formula(
    name: str, formula: Callable, count: int, attributes: Sequence[str]
) -> tuple[Callable, Callable | None]:
    """`formula(xp, *arrays, *attributes)`, computed for NumPy's arrays by machine code generated from it, and for
    CuPy's by CUDA C.

    The formula is of each element alone: it is traced once, by `functions` in place of NumPy. In float64 this holds for
    formulas whose only transcendental functions are exp and log, of integers for those that `_integers` has the functions of;
    NumPy computes the others.

    float16 and bfloat16 are computed in float32, and results rounded once, in the formula's own form too.

    Args:
        count: how many operands it takes: arrays of one type and of bool, numbers, None.
        attributes: the names of its further parameters.
    Returns: a function of the formula's parameters and `out`, and one of a NumPy array alone (None for other formulas).
    """
    generated = _Generated(name, formula, count, attributes)
    # By types of arrays and values: the function, the places of its arrays, what follows them; () where nothing is generated.
    ready: dict[tuple, tuple] = {}
    ufunc: Any = None

    def unary(x: Any) -> Any:
        """The fast path for one operand without attributes."""
        nonlocal ufunc
        if x.size < THREADS.elementwise and x.dtype == FLOAT32 and SWITCHES.kernels:
            if ufunc is None:
                call(np, x)
                ufunc = generated.kernels.functions["f",].ufunc  # which the call has loaded
            return ufunc(x)
        return call(np, x)

    def call(xp: Any, *args: Any, out: Any = None, **named: Any) -> Any:
        if (
            xp is np
            and SWITCHES.kernels
            and (generated.kernels or any(getattr(a, "dtype", None) in GENERATED for a in args))
        ):
            key = None
            if out is None and not named:  # as rules call it
                # 0.0 and -0.0 are equal, and so are 1 and True.
                key = tuple([
                    a.dtype if a.__class__ is np.ndarray else a if a and a is not True else repr(a) for a in args
                ])  # fmt: skip
                if (found := ready.get(key)) is not None:
                    if not found:
                        return formula(xp, *args)
                    function, places, numbers = found
                    arrays = [args[k] for k in places]
                    for a in arrays:
                        if a.size >= MANY:
                            return function.run([*arrays, *numbers])
                    return function.small(*arrays, *numbers)
            result = generated.on_cpu(args, named, out)
            if key is not None and len(ready) < MOST_READY and (prepared := generated.prepared(args, key)) is not None:
                ready[key] = prepared
            if result is not None:
                return result
        if xp is not np and (result := generated.on_gpu(xp, args, named, out)) is not None:
            return result
        return generated.as_written(xp, args, named, out)

    for function in (call, unary):  # neither is a kernel
        functools.update_wrapper(function, formula)
    call.function_for, call.ufunc_for = generated.function_for, generated.ufunc_for  # type: ignore[attr-defined]
    call.formula = formula, count, tuple(attributes)  # type: ignore[attr-defined]
    return call, unary if count == 1 and not attributes else None


class _Generated:
    """What is generated of a formula: when it is first called, as a short script needs no compiler.

    Attributes:
        kernels: of NumPy's arrays, a `generated.Elementwise`; None before.
    """

    def __init__(self, name: str, formula: Callable, count: int, attributes: Sequence[str]):
        """Arguments as of `from_formula`."""
        self.name, self.formula, self.count, self.attributes = name, formula, count, attributes
        code = formula.__code__  # a rule's operand may be named `out` too
        self.writes_out = "out" in code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
        self.kernels: Any = None
        self.gpu_kernels: Any = None

    def named(self, args: tuple, named: dict[str, Any]) -> dict[str, Any]:
        """The attributes by name, which may follow the operands."""
        return dict(zip(self.attributes, args[self.count :], strict=True)) if len(args) > self.count else named

    def on_cpu(self, args: tuple, named: dict[str, Any], out: Any) -> Any:
        """The result for NumPy's arrays; None where nothing is generated."""
        return self.load()(args[: self.count], self.named(args, named), out)

    def load(self) -> Any:
        """`kernels`, created if there are none."""
        if self.kernels is None:
            from tdt._kernels.generated import Elementwise

            self.kernels = Elementwise(self.name, self.formula)
        return self.kernels

    def prepared(self, args: tuple, key: tuple) -> tuple | None:
        """What `from_formula` keeps for later calls, after `on_cpu`; None where they go the long way."""
        function, places, numbers = self.kernels._prepare(args[: self.count], self.named(args, {}))
        if function is None:
            return None if LOWER.intersection(key) else ()
        return function, range(self.count) if places is None else places, numbers

    def on_gpu(self, xp: Any, args: tuple, named: dict[str, Any], out: Any) -> Any:
        """The result for CuPy's arrays; None where CuPy computes it."""
        if SWITCHES.kernels and _backend.is_gpu(xp):
            if self.gpu_kernels is None:
                from tdt._kernels.formula_gpu import Elementwise

                self.gpu_kernels = Elementwise(self.name, self.formula)
            result = self.gpu_kernels(args[: self.count], self.named(args, named), out)
            if result is not None:
                return result
            stop_deferring()
        refuse_program()
        return None

    def as_written(self, xp: Any, args: tuple, named: dict[str, Any], out: Any) -> Any:
        """The formula itself, of half precision in float32, rounded once."""
        formula = self.formula
        low = next((a.dtype for a in args if getattr(a, "dtype", None) in LOWER), None)
        if low is None and self.writes_out and out is not None:
            return formula(xp, *args, out=out, **named)
        result = formula(xp, *args, **named) if low is None else narrow(formula(xp, *widen(args), **named), low)
        if out is not None:
            out[...] = result
            return out
        # CuPy's results are contiguous.
        return in_order(xp, result, [*args[: self.count]]) if xp is not np and _backend.is_gpu(xp) else result

    def function_for(self, operands: tuple, named: dict[str, Any]) -> tuple[Any, tuple | None, tuple] | None:
        """The `generated.Function` for arrays of these types and for these numbers; None if there is none.

        Returns: the function, the places of the arrays among the operands (None if all are), the arguments after them.
        """
        if not SWITCHES.kernels:
            return None
        found: tuple = self.load()._prepare(operands, named)
        return None if found[0] is None else found

    def ufunc_for(self, operands: tuple, named: dict[str, Any]) -> tuple[Callable, tuple | None, tuple] | None:
        """As `function_for`, with the function's ufunc for one thread."""
        found = self.function_for(operands, named)
        return found and (found[0].small, *found[1:])


_total_of_formula = lazy("fused_fold:total_of_formula")


def total_of(function: Any, *arrays: Any, **attributes: Any) -> Any:
    """The sum of what `function`, made by `from_formula`, gives of the elements of float32 arrays, in one pass over memory.

    It has the bits of `total`. None for small arrays, for those of several shapes or with gaps, and where no code computes it.

    attributes: of the formula, numbers.
    """
    first = arrays[0]
    if not SWITCHES.kernels or not all(
        a.__class__ is np.ndarray and a.dtype == FLOAT32 and a.flags.c_contiguous and a.shape == first.shape
        for a in arrays
    ):
        return None
    run = _total_of_formula(function.formula[0], len(arrays), first.shape, tuple(attributes))
    return run and run(*arrays, *[np.array(value, FLOAT32) for value in attributes.values()])


def rounded(number: Any, dtype: Any) -> Any:
    """A number as elements of half precision hold it, by way of float32; all else, and for other types, as it is."""
    if dtype not in LOWER or not isinstance(number, (int, float)) or number.__class__ is bool:
        return number
    return float(dtype.type(np.float32(number)))


def rounding_numbers(function: Any) -> Callable:
    """`function`, made by `from_formula`, of numbers that are rounded to the arrays' type where that is half precision."""

    def both(args: Sequence[Any], named: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        dtype = next(a.dtype for a in args if hasattr(a, "dtype"))
        return tuple([rounded(a, dtype) for a in args]), {name: rounded(value, dtype) for name, value in named.items()}

    @functools.wraps(function)
    def call(xp: Any, *args: Any, **named: Any) -> Any:
        args, named = both(args, named)
        return function(xp, *args, **named)

    call.ufunc_for = lambda operands, named: function.ufunc_for(*both(operands, named))  # type: ignore[attr-defined]
    return call


def for_small_arrays(function: Any, attributes: dict[str, Any]) -> Callable[[Any, Any], Any]:
    """`function(np, a, b, **attributes)`, made by `from_formula`, of two arrays of the same types in each call, or a number."""
    found: tuple | None = None

    def call(a: Any, b: Any) -> Any:
        nonlocal found
        if not SWITCHES.kernels or b.__class__ is not np.ndarray or max(a.size, b.size) >= THREADS.elementwise:
            return function(np, a, b, **attributes)
        if found is None:
            found = function.ufunc_for((a, b), attributes) or ()
        return found[0](a, b, *found[2]) if found else function(np, a, b, **attributes)

    return call
