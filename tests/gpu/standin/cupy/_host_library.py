"""A fake of one of NVIDIA's libraries, compiled from C for the host: its work is done in the stream that it is put into."""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
import tempfile
from pathlib import Path

from cupy import cuda
from cupy._array import note
from cupy._raw import CACHE, compiler

HERE = Path(__file__).resolve().parents[2]


class _Extent(ctypes.Structure):
    _fields_ = (("at", ctypes.c_void_p), ("bytes", ctypes.c_uint64))


class HostLibrary:
    """The library `name` of a source. Its jobs end with the memory that they use, some places, and the stream.

    start, run: its pointer to a function that gets a job, and its function that does one. launch: how launches are counted.
    places: of a job. headers: files that the source includes.
    """

    def __init__(
        self,
        source: str,
        name: str,
        start: str,
        run: str,
        launch: str,
        memory: str,
        refused: int,
        places: int,
        headers: tuple[str, ...] = ("numbers.h",),
    ):
        self.source, self.launch, self.memory, self.refused = HERE / source, launch, memory, refused
        self._extents, self._headers = _Extent * places, headers
        self.problems: list[str] = []
        self.path = self._built(name)
        self.library = ctypes.CDLL(str(self.path), mode=ctypes.RTLD_GLOBAL)
        self._run = self.library[run]
        self._run.restype = None
        self._callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)(self._start)
        ctypes.c_void_p.in_dll(self.library, start).value = ctypes.cast(self._callback, ctypes.c_void_p).value

    def _built(self, name):
        text = b"".join(self.source.with_name(each).read_bytes() for each in (self.source.name, *self._headers))
        path = CACHE / hashlib.sha256(text + b"-O3").hexdigest()[:20] / name
        if not path.exists():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=path.parent) as folder:
                built = Path(folder, name)
                flags = ["-x", "c", "-shared", "-fPIC", "-O3", "-march=native", f"-Wl,-soname,{name}"]
                subprocess.run([compiler(), *flags, str(self.source), "-o", str(built)], check=True, timeout=120)
                built.rename(path)
        return path

    def _find(self, extent):
        if not extent.at:
            return None
        found = cuda.memory.find(extent.at, extent.bytes)
        if found is None:
            raise cuda.CUDARuntimeError(
                f"cudaErrorIllegalAddress: {extent.bytes} bytes of {self.memory}, at {extent.at:#x}"
            )
        return found

    def _start(self, job, size):
        """Put a job into its stream; memory that is not a GPU's is an error."""
        of = ctypes.string_at(job, size)
        tail = size - ctypes.sizeof(ctypes.c_void_p)
        stream = ctypes.c_void_p.from_buffer_copy(of, tail).value or 0
        extents = self._extents.from_buffer_copy(of, tail - ctypes.sizeof(self._extents))
        try:
            held = [self._find(extent) for extent in extents]
        except cuda.CUDARuntimeError as error:
            self.problems.append(str(error))
            return self.refused
        note("launches", self.launch)
        cuda.Stream.all[stream - 1].put(lambda held=held: self._run(of))
        return 0
