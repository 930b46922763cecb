"""Compile a Python function to object code. Only this module imports Numba; cached kernels do not need it."""

from __future__ import annotations

import ctypes
import functools
from types import FunctionType
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import compiler, cpu_options, types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target

from tdt._kernels._compilable import ENTRY, RELEASE, Compilable, Intrinsic

# Not `True`: nnan and ninf would delete every check for a non-finite value.
OPTIONS: dict[str, Any] = {"error_model": "numpy", "fastmath": {"reassoc", "contract", "nsz", "arcp"}}


@global_compiler_lock
def compiled(kernel: Compilable, key: tuple) -> bytes:
    """Object code of `kernel` for a range and the arguments of `key`. RuntimeError if it needs Numba at run time."""
    flags: Any = compiler.Flags()
    flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    flags.nrt = True  # a helper may return an array; `_check_stands_alone` rejects allocations
    flags.error_model = OPTIONS["error_model"]
    flags.fastmath = cpu_options.FastMathOptions(OPTIONS["fastmath"])
    result = compiler.compile_extra(
        cpu_target.typing_context, cpu_target.target_context, _resolved(kernel.function),
        (types.int64, types.int64, *map(_type_of, key)), types.void, flags, {},
    )  # fmt: skip
    _add_entry(result.library, result.fndesc)
    _, _, (code, _) = result.library.serialize_using_object_code()  # links the helpers in
    _check_stands_alone(kernel, result.library)
    return code


def _add_entry(library: Any, descriptor: Any) -> None:
    """Add the entry point `int64 ENTRY(int64 *words, int64 first, int64 last)`, whose signature all kernels share.

    words: the arguments after the range, in the layout of `Kernel.prepare`.
    """
    module = library.create_ir_module(ENTRY)
    word = ir.IntType(64)
    entry = ir.Function(module, ir.FunctionType(word, [word.as_pointer(), word, word]), ENTRY)
    builder = ir.IRBuilder(entry.append_basic_block())
    kernel = cpu_target.target_context.declare_function(module, descriptor)
    result, error, _, _, *rest = (argument.type for argument in kernel.args)
    call_args = [builder.alloca(result.pointee), builder.alloca(error.pointee), entry.args[1], entry.args[2]]
    for i, kind in enumerate(rest):
        value = builder.load(builder.gep(entry.args[0], [word(i)]))
        if isinstance(kind, ir.PointerType):
            value = builder.inttoptr(value, kind)
        elif isinstance(kind, ir.DoubleType):
            value = builder.bitcast(value, kind)
        elif kind != word:
            value = builder.trunc(value, kind)
        call_args.append(value)
    builder.ret(builder.sext(builder.call(kernel, call_args), word))
    library.add_ir_module(module)


def _type_of(part: Any) -> types.Type:
    if isinstance(part, tuple):
        dtype, ndim, contiguous = part
        return types.Array(numba.from_dtype(np.dtype(dtype)), ndim, "C" if contiguous else "A")
    return {int: types.int64, float: types.float64, bool: types.boolean}[part]


def _resolved(function: FunctionType) -> FunctionType:
    """`function` with the kernels and intrinsics among its globals replaced by Numba's dispatchers and intrinsics."""
    names = function.__code__.co_names
    known = {name: _for_numba(function.__globals__[name]) for name in names if name in function.__globals__}
    return FunctionType(
        function.__code__,
        {**function.__globals__, **known},
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )


def _for_numba(value: Any) -> Any:
    return _helper(value) if isinstance(value, Compilable) else value


@functools.cache
def _helper(value: Compilable) -> Any:
    """Numba's dispatcher of a helper; shared by all kernels that use it, so that it is typed and compiled once."""
    if isinstance(value, Intrinsic):
        return numba.extending.intrinsic(value.function)
    inside = {"forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # a call would end vectorising
    return numba.njit(**inside, **OPTIONS)(_resolved(value.function))


def _check_stands_alone(kernel: Compilable, library: Any) -> None:
    """RuntimeError if the code refers to a symbol outside of the C library: Numba's are missing when it is loaded."""
    process = ctypes.CDLL(None)
    functions = library._final_module.functions
    undefined = [f.name for f in functions if f.is_declaration and not f.name.startswith("llvm.")]
    foreign = [name for name in undefined if name != RELEASE and not hasattr(process, name)]
    if foreign:
        raise RuntimeError(
            f"kernel {kernel.name} refers to {', '.join(foreign)}, which only a process with Numba has; "
            "a kernel must not allocate, raise, or call Python"
        )
