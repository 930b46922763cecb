"""cuBLASLt on the host, under the name of NVIDIA's library: products are computed in the stream that they are put into."""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
import tempfile
from pathlib import Path

from cupy import cuda
from cupy._array import note
from cupy._raw import CACHE, compiler

SOURCE = Path(__file__).resolve().parents[2] / "cublas_lt.c"
NAME = "libcublasLt.so.13"
MEMORY = "operands a and b, the result, the bias"


class _Extent(ctypes.Structure):
    _fields_ = (("at", ctypes.c_void_p), ("bytes", ctypes.c_uint64))


def _find(extent):
    if not extent.at:
        return None
    found = cuda.memory.find(extent.at, extent.bytes)
    if found is None:
        raise cuda.CUDARuntimeError(f"cudaErrorIllegalAddress: {extent.bytes} bytes of {MEMORY}, at {extent.at:#x}")
    return found


def _matmul(job, size):
    """Put a product into its stream; memory that is not a GPU's is an error."""
    of = ctypes.string_at(job, size)
    tail = size - ctypes.sizeof(ctypes.c_void_p)
    stream = ctypes.c_void_p.from_buffer_copy(of, tail).value or 0
    extents = (_Extent * 4).from_buffer_copy(of, tail - ctypes.sizeof(_Extent * 4))
    try:
        held = [_find(extent) for extent in extents]
    except cuda.CUDARuntimeError as error:
        problems.append(str(error))
        return INVALID_VALUE
    note("launches", "cublasLtMatmul")
    cuda.Stream.all[stream - 1].put(lambda held=held: library.lt_run(of))
    return 0


INVALID_VALUE = 7
problems: list[str] = []
path = CACHE / hashlib.sha256(SOURCE.read_bytes() + b"-O3").hexdigest()[:20] / NAME
if not path.exists():
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        built = Path(folder, NAME)
        flags = ["-x", "c", "-shared", "-fPIC", "-O3", "-march=native", f"-Wl,-soname,{NAME}"]
        subprocess.run([compiler(), *flags, str(SOURCE), "-o", str(built)], check=True, timeout=120)
        built.rename(path)
library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
library.lt_run.restype = None
_callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)(_matmul)
ctypes.c_void_p.in_dll(library, "lt_matmul").value = ctypes.cast(_callback, ctypes.c_void_p).value
