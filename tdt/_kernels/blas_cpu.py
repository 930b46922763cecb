"""Large matrix products on the pool's threads: NumPy's BLAS, called for blocks of the result. For processors on which
`product_cpu` has no vectors of eight.

One pool for kernels and products: two would wait for each other's threads on the same cores. The blocks are cut by
shapes alone, so the bits of a product do not depend on the number of threads.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tdt._kernels._addresses import address_of
from tdt._kernels._intrinsics import array_at
from tdt._kernels._jit import intrinsic, jit
from tdt._kernels._pool import blas_functions, parallel

PIECE = 1 << 20  # multiply-adds of a block, at least: some 20 µs
SHORTEST = 256  # least rows or columns of a block: with fewer, the BLAS packs the other matrix too often
MOST = 16  # blocks of one matrix; as all numbers of them a power of two, which two threads or four can share
EDGE = 32  # rows or columns that the BLAS works on at a time; those of a block are a multiple
NAMES = {"f": ("scipy_cblas_sgemm64_", "cblas_sgemm64_"), "d": ("scipy_cblas_dgemm64_", "cblas_dgemm64_")}
ROW_MAJOR, AS_IT_IS, TRANSPOSED = 101, 111, 112  # cblas.h


@functools.cache
def address(kind: str) -> int:
    """The address of NumPy's `gemm` for float32 ("f") or float64 ("d"); 0 if this NumPy has none with 64-bit sizes."""
    return next(iter(blas_functions(NAMES[kind])), 0)


def product(a: np.ndarray, b: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    """a @ b for (..., M, K) and (..., K, N) of one floating dtype and the same leading sizes, plus a bias (N,)."""
    *batch, rows, depth = a.shape
    columns = b.shape[-1]
    out = np.empty((*batch, rows, columns), a.dtype)
    (a, a_how), (b, b_how) = _readable(a), _readable(b)
    by_rows = rows > columns
    longer, shorter = max(rows, columns), min(rows, columns)
    least = max(SHORTEST, -(-PIECE // (shorter * depth)))
    pieces = min(MOST, max(longer // least, 2 if longer >= least else 1))
    size = -(-longer // (1 << (pieces.bit_length() - 1)))
    size += -size % EDGE
    pieces = -(-longer // size)
    item = a.itemsize
    # Bytes from one block to the next, in a and b (one of the two stays) and in the result.
    steps = (a.strides[1] * size, 0, columns * item * size) if by_rows else (0, b.strides[2] * size, item * size)
    matrices = (
        _matrix(a, a_how, steps[0]), _matrix(b, b_how, steps[1]),
        (address_of(out), rows * columns * item, steps[2], columns),
    )  # fmt: skip
    parallel(
        _blocks, a.shape[0] * pieces, address(a.dtype.char), pieces, size, by_rows, rows, columns, depth,
        *(part for matrix in matrices for part in matrix), out.reshape(-1)[:0] if bias is None else np.ascontiguousarray(bias),
    )  # fmt: skip
    return out


def _readable(x: np.ndarray) -> tuple[np.ndarray, int]:
    """x as (batch, rows, columns) that a BLAS can read, and how it is to read it."""
    x = x.reshape(-1, *x.shape[-2:])
    for how, line, step in ((AS_IT_IS, 1, 2), (TRANSPOSED, 2, 1)):
        if (
            x.strides[step] == x.itemsize
            and x.strides[line] % x.itemsize == 0
            and x.strides[line] >= x.shape[step] * x.itemsize
        ):
            return x, how
    return np.ascontiguousarray(x), AS_IT_IS


def _matrix(x: np.ndarray, how: int, step: int) -> tuple[int, int, int, int, int]:
    """Address, bytes to the next of the batch, bytes to the next block, how to read it, elements from line to line."""
    return address_of(x), x.strides[0], step, how, x.strides[1 if how == AS_IT_IS else 2] // x.itemsize


@intrinsic
def gemm(typingctx: Any, function: Any, a_how: Any, b_how: Any, m: Any, n: Any, k: Any, a: Any, lda: Any, b: Any,
         ldb: Any, c: Any, ldc: Any, like: Any) -> Any:  # fmt: skip
    """The C function `cblas_?gemm` at an address: c = a b, row by row, for matrices of `like`'s dtype at addresses."""
    from llvmlite import ir
    from numba.core import types

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        short = ir.IntType(32)
        real = context.get_data_type(like.dtype)
        call, a_how, b_how, m, n, k, a, lda, b, ldb, c, ldc, _ = args
        call_args = [short(ROW_MAJOR), builder.trunc(a_how, short), builder.trunc(b_how, short), m, n, k, real(1.0), a, lda, b,
                 ldb, real(0.0), c, ldc]  # fmt: skip
        kind = ir.FunctionType(ir.VoidType(), [value.type for value in call_args])
        builder.call(builder.inttoptr(call, kind.as_pointer()), call_args)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 12, like), generate


@jit
def _blocks(first, last, function, pieces, size, by_rows, rows, columns, depth, a, a_next, a_step, a_how, lda, b, b_next,
            b_step, b_how, ldb, c, c_next, c_step, ldc, bias):  # fmt: skip
    for number in range(first, last):
        i = number // pieces
        j = number - i * pieces
        m = min(size, rows - j * size) if by_rows else rows
        n = columns if by_rows else min(size, columns - j * size)
        target = c + i * c_next + j * c_step
        gemm(function, a_how, b_how, m, n, depth, a + i * a_next + j * a_step, lda, b + i * b_next + j * b_step, ldb,
             target, ldc, bias)  # fmt: skip
        if bias.size:
            added = bias if by_rows else bias[j * size : j * size + n]
            for row in range(m):
                line = array_at(target + row * ldc * bias.itemsize, n, bias)
                for column in range(n):
                    line[column] += added[column]
