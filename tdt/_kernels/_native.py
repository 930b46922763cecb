"""From LLVM IR to a kernel, without Numba: compile, keep on disk, load, call. All that writes IR itself goes through here.

IR is written by `_emit` (formulas) and `_code` (Python with `Value`s) as text, and with `_assembler.Assembler` by `_tile`,
`_pack`, `_turn`, `_planes_emit` and `_winograd`. Only `compiled` and what it calls import llvmlite, so a process
whose kernels are all in the cache does without.
"""

from __future__ import annotations

import ctypes
import functools
import os
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tdt._kernels import _aligned, _builtin
from tdt._kernels._addresses import address_of, c_function
from tdt._kernels._launches import WATCH, note
from tdt._kernels._loader import load

ndarray = np.ndarray
# LLVM's passes for code that states its vectors: a tenth of the time of all passes, which also look for vectors in loops.
FEW_PASSES = ("sroa", "simplify_cfg", "new_gvn", "instruction_combine", "simplify_cfg")
ALIGNED = "aligned"  # the module that is linked before all others: it places arrays where code with vectors is fast
_libraries: dict[str, tuple[list[int], Any]] = {}  # by name: the functions' addresses, and what keeps their memory
_loading = threading.RLock()


def _after_fork_in_child() -> None:
    """A lock of the child's own: threads of its parent that wait for the old one are not there to take it."""
    global _loading
    _loading = threading.RLock()


# A fork waits until no other thread compiles: LLVM's and Numba's locks, and those of imports, would stay locked in the child.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lambda: _loading.acquire(),  # the lock that there is then
        after_in_parent=lambda: _loading.release(),
        after_in_child=_after_fork_in_child,
    )


def linked(
    name: str, symbols: Sequence[str], write: Callable[[], Any], *, optimize: bool = False, vectorize: bool = True
) -> list[int]:
    """The addresses of a module's functions: linked before, or from the cache, or compiled now.

    Args:
        name: of the module, in the cache; all that `write` depends on, except for this package's sources.
        symbols: the functions' names in the module.
        write: returns the module, as text or llvmlite's, or a list of modules that call each other; None if this processor
            lacks an instruction for it. The result is an empty list then, in later processes too.
        optimize: run LLVM's optimizer on IR that is text; else it is compiled as it is written.
        vectorize: let the optimizer make vectors of loops over numbers; else it runs `FEW_PASSES`.
    """
    library = _libraries.get(name)
    if library is None:
        if name != ALIGNED and _aligned.default_allocator():
            write_allocator = lambda: _aligned.code(target_triple())  # noqa: E731
            _aligned.align_arrays(linked(ALIGNED, _aligned.FUNCTIONS, write_allocator, optimize=True, vectorize=False))
        from tdt._kernels import _cache  # which takes longer to import than all of this file's imports

        with _loading:
            library = _libraries.get(name)
            if library is None:
                code = _cache.load(f"{name}.o")
                if code is None:
                    module = write()
                    code = b"" if module is None else compiled(module, optimize=optimize, vectorize=vectorize)
                    _cache.keep(f"{name}.o", code)
                library = _libraries[name] = load(code, symbols) if code else ([], None)
                # Code is never freed: the pool's threads still run it while the interpreter ends and clears its modules.
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(library))
    return library[0]


class Entry(NamedTuple):
    """A loaded kernel for one combination of argument types: a function that calls it, and its address."""

    call: Callable[[bytes, int, int], int]
    address: int
    pack: Callable[..., bytes]


def entry_at(address: int, letters: str) -> Entry:
    """The entry of a kernel at an address; letters: its arguments' types for `struct`."""
    return Entry(_builtin_of(_builtin.CALL, address), address, struct.Struct("=" + letters).pack)


def _builtin_of(name: str, *how: Any) -> Callable[..., Any]:
    """`_builtin.builtin` without the address of its code."""
    return _builtin.builtin(name, _builtin_code(name), *how)


def applied(*how: Any) -> Callable[..., Any]:
    """`_builtin.applied` without the address of its code."""
    return _builtin.applied(_builtin_code(_builtin.APPLY), *how)


def _builtin_code(name: str) -> int:
    write = lambda: f'target triple = "{target_triple()}"\n{_builtin.CODE}'  # noqa: E731
    return linked("builtin", _builtin.FUNCTIONS, write)[_builtin.FUNCTIONS.index(name)]


class NativeKernel:
    """A kernel `int64 (int64 *words, int64 first, int64 last)`: it is called, and shared out by the pool, as `_jit`'s are.

    Arguments are a word each: an array, of which the kernel gets the address, None (0), an integer, or a float.
    """

    __slots__ = ("entry", "letters", "name", "_launch", "_pack")

    def __init__(self, name: str, address: int, letters: str):
        """letters: the type of each argument: "q" for an array or an integer, "d" for a float."""
        self.name, self.letters, self.entry = name, letters, entry_at(address, letters)
        self._launch, self._pack = (_builtin_of(how, address, letters) for how in (_builtin.LAUNCH, _builtin.PACK))

    def prepare(self, args: Sequence[Any]) -> tuple[Entry, bytes]:
        """As `_jit.Kernel.prepare`."""
        return self.entry, self._pack(*args)

    def run(self, blocks: int, arrays: Sequence[np.ndarray], *numbers: float) -> None:
        """Compute all blocks on the calling thread. The first arguments of the kernel are arrays, the others numbers."""
        if WATCH.trace is not None:
            note(self.entry, self._pack(*arrays, *numbers), blocks, 0, arrays)
        self._launch(0, blocks, *arrays, *numbers)

    def with_last(self, blocks: int, *last: Any) -> Callable[..., None]:
        """`run` of the first arrays alone, with the `last` arrays and numbers packed once for many calls."""
        letters = self.letters[: len(self.letters) - len(last)]
        words = [address_of(a) if isinstance(a, ndarray) else a for a in last]
        tail = struct.pack("=" + self.letters[len(letters) :], *words)
        entry, pack = self.entry, self._pack
        call = _builtin_of(_builtin.RUN, entry.address, letters, blocks, tail)

        def run(*arrays: np.ndarray | None, held: Any = last) -> None:
            if WATCH.trace is not None:
                note(entry, pack(*arrays, *held), blocks, 0, arrays, held)
            call(*arrays)

        return run

    def __call__(self, first: int, last: int, *args: Any) -> bool:
        """Compute blocks [first, last) on the calling thread; whether the code did not fail."""
        if WATCH.trace is not None:
            note(self.entry, self._pack(*args), last, 0, args)
        return self._launch(first, last, *args) == 0


def ufunc_function(place: int, *kinds: Any) -> Any:
    """A function of the table that NumPy's C API for ufuncs fixes, by its place there; it returns a new ufunc.

    Args:
        kinds: ctypes' types of its parameters.
    """
    return c_function(np._core._multiarray_umath._UFUNC_API, place, *kinds)  # type: ignore[attr-defined]


# Everything below but `vector_width` imports llvmlite.


def compiled(module: Any, *, optimize: bool = False, vectorize: bool = True) -> bytes:
    """The object code of a module, or of a list of them, as `linked` says. optimize: loops are not unrolled."""
    import llvmlite.binding as llvm

    modules = module if isinstance(module, list) else [module]
    parsed = [llvm.parse_assembly(str(each)) for each in modules]
    for each, written in zip(parsed, modules, strict=True):
        if optimize and isinstance(written, str):
            _optimize(each, vectorize)
    for other in parsed[1:]:
        parsed[0].link_in(other)
    parsed[0].verify()
    return target_machine().emit_object(parsed[0])


def _optimize(module: Any, vectorize: bool) -> None:
    """Run LLVM's optimizer on a module of llvmlite's."""
    import llvmlite.binding as llvm

    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_unrolling = False
    builder = llvm.create_pass_builder(target_machine(), options)
    if vectorize:
        passes = builder.getModulePassManager()
        builder = llvm.create_pass_builder(target_machine(), options)  # the first one's state is spent
    else:
        passes = llvm.create_new_module_pass_manager()
        for name in FEW_PASSES:
            getattr(passes, f"add_{name}_pass")()
    passes.run(module, builder)


@functools.cache
def target_machine() -> Any:
    """LLVM's code generator for this processor."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    name, features = processor()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(cpu=name, features=features, opt=2, codemodel="large", reloc="static")


@functools.cache
def target_triple() -> str:
    """LLVM's name of the platform, which every module states."""
    import llvmlite.binding as llvm

    return llvm.get_process_triple()


def has_feature(name: str) -> bool:
    """Whether this processor has what LLVM calls a feature, such as "f16c"."""
    return f"+{name}" in processor()[1].split(",")


@functools.cache
def processor() -> tuple[str, str]:
    """LLVM's name of this processor and its features, or those that Numba's settings name instead."""
    import llvmlite.binding as llvm

    name = os.environ.get("NUMBA_CPU_NAME") or llvm.get_host_cpu_name()
    return name, os.environ.get("NUMBA_CPU_FEATURES") or llvm.get_host_cpu_features().flatten()


@functools.cache
def vector_width() -> int:
    """The float32 numbers in a register. It is stored beside the compiled code, as importing llvmlite takes 50 ms or more."""
    from tdt._kernels import _cache

    stored = _cache.load("width")
    if stored is None:
        width = 16 if has_feature("avx512f") else 8 if has_feature("avx2") else 4
        _cache.keep("width", bytes([width]))
        return width
    return stored[0]
