"""tdt's own kernels, watched: compiled for every kind of GPU, and what each launch hands to the driver compared."""

from __future__ import annotations

import functools
import os
import struct
from collections.abc import Callable
from typing import Any

import cupy
import numpy as np
from cupy.cuda import compiler

from tdt._kernels import _cuda
from tests.gpu.null import cubin, wheel

ARCHITECTURES = ("80", "90", "100")  # A100, H100 and H200, B200
HERE = "90"  # the null driver's
EVERYTHING = os.environ.get("TDT_NULL_COMPILE") == "all"
launched: dict[tuple[str, str], Checked] = {}  # (name, source) → the kernel


class Checked:
    """A kernel as `_cuda.compiled` gives it, of which each launch is compared with what the driver got.

    Written by hand, it is compiled for all architectures; generated from a formula, for one alone, unless everything is to be
    compiled.
    """

    def __init__(self, source: str, name: str, before: str = ""):
        self.source, self.name, self.kernel = before + source, name, _compiled(source, name, before)
        generated = name.startswith("elementwise_") and not EVERYTHING
        self.others = {} if generated else {arch: self._for(arch) for arch in ARCHITECTURES if arch != HERE}

    def _for(self, arch: str) -> cubin.Kernel:
        """The kernel compiled for an architecture."""
        code = _cuda.PRELUDE + self.source
        module = compiler._compile_module_with_cache(code, _cuda.OPTIONS, arch=arch)
        module.get_function(self.name)
        return list(wheel.functions.values())[-1]

    def __call__(self, grid: tuple, block: tuple, args: tuple, further: Callable[[], tuple] = tuple) -> None:
        launched[self.name, self.source] = self
        drawn: list[tuple] = []

        def last() -> tuple:
            drawn[:] = [further()]
            return drawn[0]

        with wheel.watch() as calls:
            self.kernel(grid, block, args, last)
        (call,) = [call for call in calls if call.kind == "launch"]
        sizes = *(*grid, 1, 1)[:3], *(*block, 1, 1)[:3], 0
        assert (call.name, call.sizes) == (self.name, sizes), f"{self.name}: launched as {call.name} {call.sizes}"
        expected = [as_bytes(value) for value in (*args, *drawn[0])]
        assert call.arguments == expected, f"{self.name}: {call.arguments} reached the driver, not {expected}"
        for arch, kernel in self.others.items():
            assert not (why := wheel.exceeded(kernel, sizes)), f"sm_{arch}: {why}"
            assert [n for _, n in kernel.parameters] == [len(value) for value in expected]


def as_bytes(value: Any) -> bytes:
    """What `_cuda.compiled` promises of an argument."""
    if value is None:
        return bytes(8)
    if isinstance(value, cupy.ndarray):
        return struct.pack("<Q", value.data.ptr)
    if isinstance(value, np.ndarray) and value.size == 1 and value.dtype.type is np.void and not value.dtype.names:
        return value.tobytes()
    if type(value) in (int, float):
        return struct.pack("<q" if type(value) is int else "<d", value)
    raise TypeError(f"an argument of a kernel is {type(value).__name__}")


_compiled = _cuda.compiled.__wrapped__


def watch() -> None:
    """Let all kernels of tdt be `Checked`, in this process."""
    _cuda.compiled = functools.cache(Checked)
