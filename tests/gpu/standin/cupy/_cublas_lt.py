"""cuBLASLt on the host, under the name of NVIDIA's library."""

from __future__ import annotations

from cupy._host_library import HostLibrary

INVALID_VALUE = 7
LIBRARY = HostLibrary(
    "cublas_lt.c", "libcublasLt.so.13", "lt_matmul", "lt_run", "cublasLtMatmul",
    "operands a and b, the result, the bias", INVALID_VALUE, 4,
)  # fmt: skip
SOURCE, library, problems = LIBRARY.source, LIBRARY.library, LIBRARY.problems
