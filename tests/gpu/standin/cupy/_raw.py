"""CUDA C on the host: `RawKernel` compiles its source with the C++ compiler and runs a block after the other.

Usually a block has one thread, as every kernel of tdt is correct for any number of threads: then barriers have nothing to wait
for, and kernels are as fast as C. With `all_threads` set each block has those that the launch says, as fibers that change at
barriers and warp shuffles; a barrier that some threads of a block do not reach is an error.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import mmap
import os
import re
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path

import numpy as np

from cupy import cuda
from cupy._array import _check_device, ndarray, note

HEADER = Path(__file__).with_name("cuda_on_host.h").read_text()
BLOCKS = Path(__file__).with_name("blocks_on_host.cpp").read_text()
FLAGS = [
    "-shared",
    "-nostdlib",  # the libraries are those that _built gets: linking those of C++ takes a third of the time
    "-fPIC",
    "-std=c++17",
    "-O1",
    "-march=native",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-w",
]
# Without the first g++ lets all libraries share the shared memory of a template, by its name, whatever its type.
FLAGS_OF_GCC = ["-fno-gnu-unique", "-fno-use-linker-plugin"]
ABORTED = 1
CACHE = Path(os.environ.get("XDG_CACHE_HOME", tempfile.gettempdir())) / f"tdt-standin-{os.getuid()}"
# What a pointer of CUDA C may point to.
POINTS_TO = {"float": "f", "double": "d", "bool": "?", "half_bits": "e", "bfloat_bits": "E", "long long": "q", "int": "i",
             "unsigned int": "I", "unsigned long long": "Q", "unsigned char": "B", "unsigned short": "H",
             "signed char": "b", "short": "h"}  # fmt: skip

# Float16 as the prelude of kernels has it for GPUs alone: by the compiler's own type.
HALVES = """
static inline float load(half_bits x) { _Float16 y; __builtin_memcpy(&y, &x, 2); return y; }
static inline void store(half_bits* at, float x) { const _Float16 y = x; __builtin_memcpy(at, &y, 2); }
"""

# What kernels begin with. Here they are static: of a source's others than the one that is called no code is made.
KERNEL = r'extern "C" __global__ void (?:__launch_bounds__\(\d+\) )?'

all_threads = False
sources: dict[str, str] = {}  # every kernel that was called, by name and hash: what a compiler for GPUs should accept


class RawKernel:
    """`cupy.RawKernel`: called with (blocks), (threads), (arguments)."""

    def __init__(self, code, name, options=(), backend="nvrtc", *, translate_cucomplex=False,
                 enable_cooperative_groups=False, jitify=False):  # fmt: skip
        if not isinstance(code, str) or not isinstance(options, tuple) or backend != "nvrtc":
            raise TypeError("code is a text, options a tuple of texts, and NVRTC the compiler")
        self.code, self.name, self.options, self._function = code, name, options, None

    def __call__(self, grid, block, args, *, shared_mem=0):
        function = self._compiled()
        grid, block = ((*sizes, 1, 1)[:3] for sizes in (grid, block))
        if not all(isinstance(n, int) and n > 0 for n in (*grid, *block)):
            raise cuda.CUDARuntimeError(f"CUDA_ERROR_INVALID_VALUE: invalid argument: {grid} blocks, {block} threads")
        if np.prod(block) > 1024 or grid[1] > 65535 or grid[2] > 65535:
            raise cuda.CUDARuntimeError(f"CUDA_ERROR_INVALID_VALUE: invalid argument: {grid} blocks, {block} threads")
        words = self._words(args)
        note("launches", self.name)
        threads = block if all_threads else (1, 1, 1)

        def run(held=[getattr(each, "_h", each) for each in args]):  # noqa: B006 - the memory, not the arrays
            pointers = (ctypes.c_void_p * max(len(words), 1))(*[ctypes.addressof(word) for word in words])
            if function((ctypes.c_uint * 6)(*grid, *threads), pointers, _memory()) == ABORTED:
                raise RuntimeError(f"{self.name}: a barrier that not all threads of a block or warp reach")

        cuda.get_current_stream().put(run)

    @property
    def kernel(self):
        """CuPy's `Function` on the current GPU."""
        return self

    def _compiled(self):
        if self._function is None:
            sources[self.name + hashlib.sha256(self.code.encode()).hexdigest()[:8]] = self.code
            self._types, self._function = compiled(self.code, self.name)
        return self._function

    def _words(self, args):
        """The memory of each argument, as CuPy makes it: int is long long, float is double, an array its address."""
        if len(args) != len(self._types):
            raise TypeError(f"{self.name} has {len(self._types)} parameters, and got {len(args)} arguments")
        _check_device(list(args))
        return [_word(self.name, kind, value) for kind, value in zip(self._types, args, strict=True)]


def _word(name, kind, value):
    if isinstance(value, cuda.function.CPointer):
        return ctypes.c_char.from_address(value.ptr)
    if kind.endswith("*"):
        if value is None or isinstance(value, cuda.memory.MemoryPointer):
            return ctypes.c_void_p(0 if value is None else value.ptr)
        letter = POINTS_TO[kind[:-1].removeprefix("const ").strip()]
        dtype = value.dtype if isinstance(value, ndarray) else None
        fits = str(dtype) == "bfloat16" if letter == "E" else dtype is not None and dtype == np.dtype(letter)
        if not fits:
            raise TypeError(f"{name}: an argument for {kind} is {type(value).__name__} of {dtype}")
        return ctypes.c_void_p(value._h.ctypes.data)
    if kind == "long long" and type(value) is int:
        return ctypes.c_longlong(value)
    if kind == "double" and type(value) is float:
        return ctypes.c_double(value)
    if type(value) is np.ndarray and value.size == 1 and value.dtype.type is np.void and not value.dtype.names:
        return (ctypes.c_char * value.nbytes).from_buffer_copy(value.tobytes())
    raise TypeError(f"{name}: an argument for {kind} is {type(value).__name__}")


def _memory():
    """The address of this thread's memory for the threads of a block. Only what they use takes memory."""
    if not hasattr(_own, "memory"):
        size = ctypes.CDLL(str(_blocks())).bytes_of_memory
        size.restype = ctypes.c_ulong
        _own.memory = mmap.mmap(-1, size(), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return ctypes.addressof(ctypes.c_char.from_buffer(_own.memory))


_own = threading.local()


def compiler():
    found = next(filter(None, map(shutil.which, (os.environ.get("CXX", "c++"), "g++", "clang++"))), None)
    if found is None:
        raise RuntimeError(
            "the stand-in for CuPy compiles CUDA C for the host, and finds no C++ compiler (c++, g++, clang++)"
        )
    return found


def compiled(code, name):
    """(types of the parameters, the function) of a kernel: from the cache, or compiled."""
    found = re.search(rf"{KERNEL}{name}\(([^)]*)\)", code)
    if found is None:
        raise RuntimeError(f'no extern "C" __global__ void {name}(...) in the source')
    types = [re.sub(r"\s*\b\w+$", "", part.strip()) for part in found[1].split(",")]
    for known, new in re.findall(r"^typedef ([\w ]+) (\w+);", code, re.MULTILINE):
        types = [re.sub(rf"\b{new}\b", known, kind) for kind in types]
    call = ", ".join(f"*({kind}*)words[{k}]" for k, kind in enumerate(types))
    text = (
        f"{HEADER}\n{re.sub(KERNEL, 'static void ', code)}\n{HALVES if 'struct half_bits {' in code else ''}"
        f"static void body(void** words) {{ {name}({call}); }}\n"
        'extern "C" int run(const unsigned int* sizes, void** words, char* own) {\n'
        "    return run_blocks(&here, body, words, sizes, own);\n}\n"
    )
    function = ctypes.CDLL(str(_built(text, str(_blocks()), "-lgcc"))).run
    function.argtypes, function.restype = [ctypes.c_void_p] * 3, ctypes.c_int
    return types, function


@functools.cache
def _blocks():
    """The library that runs the blocks of all kernels, and brings those of C."""
    return _built(HEADER + BLOCKS, "-lm", "-lc", "-lgcc")


def _built(text, *libraries):
    """The library of a source: from the cache, or compiled."""
    name = compiler()
    command = [name, *FLAGS, *(FLAGS_OF_GCC if "clang" not in name else ())]
    path = CACHE / f"{hashlib.sha256(' '.join([text, *command, *libraries]).encode()).hexdigest()}.so"
    if not path.exists():
        CACHE.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as folder:
            source, library = Path(folder, "kernel.cpp"), Path(folder, "kernel.so")
            source.write_text(text)
            command += [str(source), "-o", str(library), *libraries]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(f"CompileException: {done.stderr}")
            library.rename(path)
    return path
