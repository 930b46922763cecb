"""The real wheel of CuPy on a null driver: everything of CuPy's runs but the GPU.

The wheel is not changed. Fakes of the libraries that it links to (`libcuda.so.1`, `libcublas.so.13`, ...) are built by gcc
and loaded first, under the same names. The CUDA runtime is linked into the wheel's modules; they keep a symbol for each of
its functions, and those that `driver.c` has are overwritten in memory with a jump to it. NVRTC is the real one, so that
kernels are compiled for a GPU, and the null driver checks a launch by what the cubin says of the kernel. Usually only tdt's
own kernels are: CuPy's take minutes. TDT_NULL_COMPILE=all compiles them too.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import hashlib
import importlib
import importlib.util
import mmap
import os
import re
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tdt._kernels._cuda import PRELUDE
from tests.gpu.null import cubin

SOURCE = Path(__file__).with_name("driver.c")
CACHE = Path(os.environ.get("XDG_CACHE_HOME", tempfile.gettempdir())) / f"tdt-null-{os.getuid()}"
# What CuPy links to: the library, and the modules of the wheel that call it.
LIBRARIES = {
    "libcublas.so.13": ("cupy_backends/cuda/libs/cublas",),
    "libcusolver.so.12": ("cupy_backends/cuda/libs/cusolver", "cupyx/_cusolver"),
    "libcusparse.so.12": ("cupy_backends/cuda/libs/cusparse",),
    "libcurand.so.10": ("cupy_backends/cuda/libs/curand",),
    "libcufft.so.12": ("cupy/cuda/cufft",),
}
# What tdt itself calls: a library's source, and its pointer to a function that gets jobs. cuDNN may be absent: its name is not
# NVIDIA's, so that only tests of it find it.
CALLED = {
    "libcublasLt.so.13": ("cublas_lt.c", "lt_matmul", "cublasLtMatmul"),
    "libcudnn_fake.so.9": ("cudnn.c", "cudnn_execute", "cudnnBackendExecute"),
}
EMPTY = ("libnvJitLink.so.13",)  # what those need, and CuPy calls nothing of
KINDS = ("allocate", "free", "upload", "pinned upload", "download", "copy", "fill", "wait", "library", "event", "capture",
         "check")  # fmt: skip
WORK = frozenset(("launch", "library", "copy", "fill"))  # what the GPU does
NOTHING = re.compile(r"^cu[a-z]+(Dn)?(Set|Get|Create|Destroy)|_bufferSize$|BufferSize$")  # calls that start no work
NOT_COMPILED = b"not compiled"  # in a cubin's place
INVALID, RESOURCES, UNSUPPORTED, IMPLICIT = 1, 701, 900, 906  # CUDA's errors
REGISTERS, SHARED = 65536, 49152  # of a block: registers, bytes of shared memory


@dataclass
class Call:
    """What the GPU was asked for.

    Attributes:
        place: the line of tdt that asked.
        sizes: of a launch: blocks, threads of a block, bytes of shared memory.
        arguments: of a launch: the bytes of each parameter.
    """

    kind: str
    name: str
    place: str = ""
    size: int = 0
    stream: int = 0
    sizes: tuple[int, ...] = ()
    arguments: list[bytes] = field(default_factory=list)


watched: list[list[Call]] = []  # the lists to which calls are appended
refused: list[str] = []  # launches and calls that the driver refused, with the reason
modules: dict[int, dict[str, cubin.Kernel]] = {}
functions: dict[int, cubin.Kernel] = {}
captures: set[int] = set()  # the streams being captured
count = 0  # how much the GPU was asked for
reports_capture = True  # to CuPy, which then refuses what it cannot capture


@contextmanager
def watch() -> Iterator[list[Call]]:
    """A block whose calls are listed."""
    calls: list[Call] = []
    watched.append(calls)
    try:
        yield calls
    finally:
        watched[:] = [each for each in watched if each is not calls]


def _note(call: Call) -> None:
    if watched:
        frame = sys._getframe(2)
        while frame and f"{os.sep}tdt{os.sep}" not in frame.f_code.co_filename:
            frame = frame.f_back  # type: ignore[assignment]
        if frame:
            call.place = f"{frame.f_code.co_filename.partition(f'{os.sep}tdt{os.sep}')[2]}:{frame.f_lineno}"
        for calls in watched:
            calls.append(call)


def _refuse(error: int, why: str) -> int:
    refused.append(why)
    return error


def _on_call(kind: int, function: bytes, stream: int | None, size: int) -> int:
    name, what, stream = function.decode(), KINDS[kind], stream or 0
    if what == "library" and NOTHING.search(name):
        return 0
    if captures and what in ("wait", "check") and (name == "cudaDeviceSynchronize" or stream in captures or not stream):
        return _refuse(UNSUPPORTED, f"{name} during capture")
    if what in WORK and (error := _implicit(name, stream)):
        return error
    _count(what)
    _note(Call(what, name, size=size, stream=stream))
    return 0


def _count(kind: str) -> None:
    global count
    count += kind in WORK


def _implicit(name: str, stream: int) -> int:
    """An error for work of the default stream while one is captured that waits for it."""
    if stream == 0 and any(captured & 1 == 0 for captured in captures):
        return _refuse(IMPLICIT, f"{name} in the default stream during capture")
    return 0


class _Any(dict):
    """The kernels of a module that was not compiled: whichever is asked for."""

    def get(self, name: str, default: object = None) -> cubin.Kernel:
        return cubin.Kernel(name)


def _on_module(image: int) -> int:
    if ctypes.string_at(image, len(NOT_COMPILED)) == NOT_COMPILED:
        modules[len(modules) + 1] = _Any()
        return len(modules)
    size = cubin.size_of(ctypes.string_at(image, 64))
    modules[len(modules) + 1] = cubin.kernels(ctypes.string_at(image, size))
    return len(modules)


def _on_function(module: int, name: bytes) -> int:
    found = modules[module].get(name.decode())
    if found is None:
        return 0
    functions[len(functions) + 1] = found
    return len(functions)


def exceeded(kernel: cubin.Kernel, sizes: tuple[int, ...]) -> str | None:
    """Why a GPU cannot launch a kernel with so many blocks, threads and bytes of shared memory; None if it can."""
    *grid, bx, by, bz, shared = sizes
    threads = bx * by * bz
    if min(*grid, threads) < 1 or grid[0] >= 1 << 31 or max(grid[1:]) > 65535 or bz > 64 or threads > 1024:
        return f"{kernel.name}: {grid} blocks of {(bx, by, bz)} threads"
    if threads > kernel.threads or shared + kernel.shared > SHARED:
        return f"{kernel.name}: {threads} threads and {shared + kernel.shared} bytes of shared memory"
    # A warp takes its registers in units of 256.
    if (needed := -(-threads // 32) * -(-kernel.registers * 32 // 256) * 256) > REGISTERS:
        return f"{kernel.name}: {threads} threads of {kernel.registers} registers need {needed}"
    return None


def _on_launch(function: int, at: object, stream: int | None, parameters: object) -> int:
    kernel, sizes = functions[function], tuple(at[:7])  # type: ignore[index]
    if why := exceeded(kernel, sizes):
        return _refuse(RESOURCES if "registers" in why else INVALID, why)
    if error := _implicit(kernel.name, stream or 0):
        return error
    _count("launch")
    if watched:
        values = [ctypes.string_at(parameters[k], n) for k, (_, n) in enumerate(kernel.parameters)]  # type: ignore[index]
        _note(Call("launch", kernel.name, "", 0, stream or 0, sizes, values))
    return 0


def _on_capture(stream: int | None, begin: int) -> int:
    if begin and not stream:
        return _refuse(UNSUPPORTED, "capture of the default stream")
    if begin:
        captures.add(stream or 0)
    else:
        captures.remove(stream or 0)
    return 0


def _on_job(name: str, job: int, size: int) -> int:
    """A job of a library, which ends with its stream."""
    stream = _VOID.from_buffer_copy(ctypes.string_at(job + size - 8, 8)).value or 0
    if error := _implicit(name, stream):
        return error
    _count("library")
    _note(Call("library", name, stream=stream))
    return 0


_VOID, _INT, _SIZE = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
CALLBACKS: dict[str, tuple[Callable, Callable]] = {
    "null_call": (ctypes.CFUNCTYPE(_INT, _INT, ctypes.c_char_p, _VOID, _SIZE), _on_call),
    "null_module": (ctypes.CFUNCTYPE(_SIZE, _VOID), _on_module),
    "null_function": (ctypes.CFUNCTYPE(_SIZE, _VOID, ctypes.c_char_p), _on_function),
    "null_launch": (
        ctypes.CFUNCTYPE(_INT, _VOID, ctypes.POINTER(ctypes.c_uint), _VOID, ctypes.POINTER(_VOID)),
        _on_launch,
    ),
    "null_capture": (ctypes.CFUNCTYPE(_INT, _VOID, _INT), _on_capture),
    "null_work": (ctypes.CFUNCTYPE(_SIZE), lambda: count),
    "null_is_capturing": (ctypes.CFUNCTYPE(_INT, _VOID), lambda stream: reports_capture and (stream or 0) in captures),
}
SILENT = ("null_call", "null_launch", "null_work", "null_is_capturing")  # what may answer 0
_alive: list[object] = []  # callbacks, for as long as the process lives
_loaded: dict[str, ctypes.CDLL] = {}  # libraries, too


def start(gpus: int = 1) -> None:
    """Load CuPy on the null driver, with so many GPUs; once in a process, before anything imports it."""
    assert "cupy" not in sys.modules, "something has imported cupy before the null driver"
    packages, headers = _folder("cupy_backends").parent, _folder("nvidia") / "cu13" / "include"
    driver = _load(_built("libcuda.so.1", SOURCE.read_text(), headers))
    ctypes.c_int.in_dll(driver, "null_count").value = gpus
    for name, (kind, function) in CALLBACKS.items():
        callback = kind(function)
        _alive.append(callback)
        _VOID.in_dll(driver, name).value = ctypes.cast(callback, _VOID).value
    atexit.register(lambda: setattr(_VOID.in_dll(driver, "null_call"), "value", None))
    for library in EMPTY:
        _load(_built(library, "", headers))
    called("libcublasLt.so.13")
    for library, callers in LIBRARIES.items():
        paths = [path for caller in callers for path in packages.glob(f"{caller}.*.so")]
        assert len(paths) == len(callers), f"the wheel has not all of {callers}"
        _load(_built(library, _stubs(library.partition(".")[0][3:], paths), headers))
    redirect("cupy_backends.cuda.api.runtime", driver)
    all_kernels = os.environ.get("TDT_NULL_COMPILE") == "all"
    os.environ["CUPY_CACHE_DIR"] = str(CACHE / ("all kernels" if all_kernels else "kernels"))
    importlib.import_module("cupy")
    _zero_memory()
    if not all_kernels:
        _compile_nothing_of_cupys()
    for name in ("cupy.cuda.cub", "cupy.cuda.thrust"):
        redirect(name, driver)


@contextmanager
def silent() -> Iterator[None]:
    """A block in which the driver calls no Python: nothing is listed or checked, and the time is that of the host's own code."""
    driver, cupy = _loaded["libcuda.so.1"], importlib.import_module("cupy")
    pointers = [_VOID.in_dll(driver, name) for name in SILENT]
    pointers += [_VOID.in_dll(_loaded[name], pointer) for name, (_, pointer, _) in CALLED.items() if name in _loaded]
    before, allocator = [each.value for each in pointers], cupy.cuda.get_allocator()
    try:
        for each in pointers:
            each.value = ctypes.cast(driver.null_nothing, _VOID).value
        cupy.cuda.set_allocator(cupy.get_default_memory_pool().malloc)  # without zeros
        yield
    finally:
        cupy.cuda.set_allocator(allocator)
        for each, value in zip(pointers, before, strict=True):
            each.value = value


def called(library: str) -> ctypes.CDLL:
    """The fake of a library that tdt calls, which notes its jobs."""
    source, pointer, name = CALLED[library]
    headers = _folder("nvidia") / "cu13" / "include"
    folder = SOURCE.parents[1]
    text = re.sub(r'#include "(\w+\.h)"', lambda name: (folder / name[1]).read_text(), (folder / source).read_text())
    found = _load(_built(library, text, headers))
    on_job = ctypes.CFUNCTYPE(_INT, _SIZE, _SIZE)(functools.partial(_on_job, name))
    _alive.append(on_job)
    _VOID.in_dll(found, pointer).value = ctypes.cast(on_job, _VOID).value
    return found


def _zero_memory() -> None:
    """Let memory from CuPy's pool be zero, so that what kernels should have computed does not depend on what lay there."""
    cuda = importlib.import_module("cupy").cuda
    allocate = cuda.get_allocator()

    def zeroed(size: int) -> object:
        memory = allocate(size)
        ctypes.memset(memory.ptr, 0, size)
        return memory

    cuda.set_allocator(zeroed)


def _compile_nothing_of_cupys() -> None:
    """Let CuPy take `NOT_COMPILED` for the kernels that it writes itself."""
    compiler = importlib.import_module("cupy.cuda.compiler")
    compile_one = compiler._compile_using_nvrtc_no_warning

    @functools.wraps(compile_one)
    def compiled(source: str, options: tuple, arch: str, filename: str, names: list | None, *rest: object) -> tuple:
        if source.startswith(PRELUDE):
            return compile_one(source, options, arch, filename, names, *rest)
        return NOT_COMPILED, None if names is None else {name: name for name in names}

    compiler._compile_using_nvrtc_no_warning = compiled


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.submodule_search_locations, f"{package} is not installed"
    return Path(next(iter(spec.submodule_search_locations)))


def _load(path: Path) -> ctypes.CDLL:
    library = _loaded[path.name] = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    return library


def _built(name: str, source: str, headers: Path) -> Path:
    """The shared library `name`, compiled from C once; its symbols have its name as their version, as NVIDIA's have."""
    folder = CACHE / hashlib.sha256(source.encode()).hexdigest()[:20]
    if not (folder / name).exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as place:
            Path(place, "fake.c").write_text(source)
            Path(place, "fake.map").write_text(f"{name} {{ global: *; }};\n")
            flags = ["-shared", "-fPIC", "-O1", "-w", f"-Wl,-soname,{name}", f"-Wl,--version-script={place}/fake.map"]
            subprocess.run(
                ["gcc", *flags, f"-I{headers}", f"{place}/fake.c", "-o", f"{place}/{name}"], check=True, timeout=120
            )
            Path(place, name).rename(folder / name)
    return folder / name


def _stubs(prefix: str, callers: list[Path]) -> str:
    """C of every function that modules of the wheel take from a library: it is noted, and succeeds."""
    names = {name for path in callers for name, _, section in cubin.symbols_of(path.read_bytes(), ".dynsym")
             if section == 0 and name.startswith(prefix)}  # fmt: skip
    lines = ["#include <stddef.h>", "int null_tell(int, const char*, const void*, size_t);"]
    for name in sorted(names):
        kind, answers = next((rule[1:] for rule in ANSWERS if re.search(rule[0], name)), ("int", {}))
        parameters = ", ".join(f"size_t a{k}" for k in range(1, max(answers, default=0) + 1)) or "void"
        writes = "".join(f"*({kind}*)a{k} = {value}; " for k, value in answers.items())
        lines.append(
            f'int {name}({parameters}) {{ {writes}return null_tell({KINDS.index("library")}, "{name}", NULL, 0); }}'
        )
    return "\n".join(lines) + "\n"


# Functions that answer: a pattern, the type of the answers, and what is written through which parameter, counted from 1.
HANDLE, WORKSPACE = 0x4000, 64
ANSWERS: list[tuple[str, str, dict[int, int]]] = [
    (r"cufftCreate$", "int", {1: 1}),
    (r"cufftMakePlan1d$", "size_t", {5: 0}),
    (r"cufftMakePlanMany$", "size_t", {12: 0}),
    (r"cufftXtMakePlanMany$", "size_t", {13: 0}),
    (r"^cu(blas|solverDn|solverSp|sparse|rand)Create(_v2|Generator|)$", "size_t", {1: HANDLE}),
    (r"^cusolverDnCreate(Params|SyevjInfo|GesvdjInfo)$", "size_t", {1: HANDLE}),
    (r"^cusparseCreate\w+(Info|Descr)$", "size_t", {1: HANDLE}),
    (r"^cusparseCreate(Coo|Csr|DnMat|DnVec|SpVec)$", "size_t", {1: HANDLE}),
    (r"^cublasGet(Version_v2|PointerMode_v2|MathMode)$", "int", {2: 0}),
    (r"^cusparseGetVersion$", "int", {2: 12000}),
    (r"Xsyevd_bufferSize$", "size_t", {12: WORKSPACE, 13: WORKSPACE}),
    (r"(gesvd|gebrd)_bufferSize$", "int", {4: WORKSPACE}),
    (r"sytrf_bufferSize$", "int", {5: WORKSPACE}),
    (r"(potrf|getrf|geqrf)_bufferSize$", "int", {6: WORKSPACE}),
    (r"(orgqr|ungqr|syevd|heevd|syevj|heevj|syevjBatched|heevjBatched)_bufferSize$", "int", {8: WORKSPACE}),
    (r"(ormqr|unmqr|gesvdjBatched)_bufferSize$", "int", {12: WORKSPACE}),
    (r"gesvdj_bufferSize$", "int", {13: WORKSPACE}),
    (r"gesvdaStridedBatched_bufferSize$", "int", {17: WORKSPACE}),
    (r"cusparseSpMM_bufferSize$", "size_t", {11: WORKSPACE}),
    (r"cusparseSpMV_bufferSize$", "size_t", {10: WORKSPACE}),
]


def redirect(module: str, driver: ctypes.CDLL) -> int:
    """Overwrite the CUDA runtime that is linked into a module, in memory, as far as `driver` has its functions."""
    path = os.path.realpath(str(importlib.import_module(module).__file__))
    base = min(int(line.split("-")[0], 16) for line in Path("/proc/self/maps").read_text().splitlines() if path in line)
    protect, count = ctypes.CDLL(None).mprotect, 0
    for name, address, section in cubin.symbols_of(Path(path).read_bytes(), ".symtab"):
        if not section or not re.match(r"cuda[A-Z]", name) or not hasattr(driver, name):
            continue
        target, at = ctypes.cast(getattr(driver, name), _VOID).value, base + address
        page = at & -mmap.PAGESIZE
        if protect(_VOID(page), _SIZE(at + 12 - page), mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC):
            raise OSError(f"the memory of {path} cannot be changed")
        ctypes.memmove(at, b"\x48\xb8" + struct.pack("<Q", target) + b"\xff\xe0", 12)  # mov rax, target; jmp rax
        count += 1
    return count
