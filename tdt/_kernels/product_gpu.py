"""Products of matrices on a GPU, by cuBLASLt: any strides that it can read, stacks, a bias in the same launch.

cuBLAS counts elements column by column. Read so, the memory of a matrix in rows holds its transpose: D = A B in rows is
Dᵀ = Bᵀ Aᵀ in columns, so the operands change places and nothing is copied.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tdt import _backend
from tdt._backend.waiting import refuse_program
from tdt._kernels import _cublas_lt
from tdt._kernels._cublas_lt import EPILOGUE_BGRADB, EPILOGUE_BIAS, EPILOGUE_DEFAULT, OP_N, OP_T, Matrix, Problem
from tdt._kernels._cuda import LETTERS
from tdt._kernels._registry import SWITCHES
from tdt._kernels.programs_gpu import MEMORY, launched

ALIGNED = 256  # bytes; memory from CuPy's pool is, views of it may not be
MOST_PLANS = 4096
_plans: dict[tuple, tuple] = {}  # how operands lie → (plan, shape of the result), or () where there is none


def fits(arrays: Sequence[Any], attributes: dict) -> bool:
    """Two matrices, vectors or stacks that are not empty, of one floating-point type."""
    a, b = arrays
    kind = LETTERS.get(a.dtype, "?")
    return kind != "?" and a.dtype == b.dtype and a.size > 0 and b.size > 0 and _cublas_lt.library() is not None


def product(a: Any, b: Any, bias: Any = None, dtype: Any = None) -> Any:
    """a @ b plus a bias for each column, summed in float32 or float64 and rounded once; dtype: of the result."""
    if dtype is not None and dtype != a.dtype:  # half precision, to give float32
        wide = np.dtype(np.float32)
        return product(a.astype(wide), b.astype(wide), None if bias is None else bias.astype(wide))
    if a.ndim == 1 or b.ndim == 1:
        rows, columns = a[None] if a.ndim == 1 else a, b[:, None] if b.ndim == 1 else b
        out = product(rows, columns)
        out = out[..., 0] if b.ndim == 1 else out
        out = out[..., 0, :] if a.ndim == 1 < b.ndim else out[..., 0] if a.ndim == 1 else out
        return out if bias is None else out + bias
    if a.ndim > 2 == b.ndim and a.flags.c_contiguous:  # one product of more rows
        return product(a.reshape(-1, a.shape[-1]), b, bias).reshape(*a.shape[:-1], b.shape[-1])
    if bias is not None and (bias.dtype != a.dtype or not bias.flags.c_contiguous or b.shape[-1] == 1):
        refuse_program()
        out = product(a, b)
        out += bias
        return out
    epilogue = EPILOGUE_DEFAULT if bias is None else EPILOGUE_BIAS
    out = _computed(a, b, bias, epilogue)
    if out is not None:
        return out
    refuse_program()
    out = _backend.gpu().matmul(a, b) if bias is None else product(a, b)
    return out if bias is None else _backend.gpu().add(out, bias, out=out)


def weight_gradients(rows: Any, x: Any) -> tuple[Any, Any]:
    """(rowsᵀ x, the sum of `rows`): the gradients of the weights and the bias of a linear layer, in one launch."""
    sums = MEMORY.empty(rows.shape[1], rows.dtype)
    out = _computed(rows.T, x, sums, EPILOGUE_BGRADB) if x.shape[1] > 1 else None
    return (product(rows.T, x), _backend.total(rows, 0)) if out is None else (out, sums)


def _computed(a: Any, b: Any, bias: Any, epilogue: int) -> Any:
    """a @ b of matrices and stacks; None where cuBLASLt has no algorithm."""
    key = (a.shape, a.strides, b.shape, b.strides, a.dtype, epilogue, a.data.ptr % ALIGNED, b.data.ptr % ALIGNED,
           0 if bias is None else bias.data.ptr % ALIGNED, a.device.id, SWITCHES.tf32)  # fmt: skip
    found = _plans.get(key)
    if found is None:
        if len(_plans) >= MOST_PLANS:
            _plans.clear()
        found = _plans[key] = _planned(a, b, bias, epilogue)
    plan, shape, copied = found
    if any(copied):
        return _computed(
            *(_whole(x, shape) if copy else x for x, copy in zip((a, b), copied, strict=True)), bias, epilogue
        )
    if plan is None:
        return None
    out = MEMORY.empty(shape, a.dtype)
    launched(plan, b, a, out, bias)
    return out


def _whole(x: Any, shape: tuple[int, ...]) -> Any:
    """A contiguous copy of stacks that are broadcast to those of a result."""
    xp = _backend.gpu()
    return xp.array(xp.broadcast_to(x, (*shape[:-2], *x.shape[-2:])), order="C")


def _planned(a: Any, b: Any, bias: Any, epilogue: int) -> tuple:
    """(the plan or None, shape of the result, which of the operands must be copied first)."""
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    shape = (*lead, a.shape[-2], b.shape[-1])
    left, right, stacks = _matrix(a), _matrix(b), _stacks(lead, a, b)
    if left is None or right is None:
        return None, shape, (left is None, right is None)
    if stacks is None:
        return None, shape, tuple(not x.flags.c_contiguous or x.shape[:-2] != lead for x in (a, b))
    batch, a_step, b_step = stacks
    m, n = shape[-2:]
    problem = Problem(
        LETTERS[a.dtype], SWITCHES.tf32 and a.dtype == np.float32, epilogue, 0 if bias is None else _alignment(bias),
        batch, right._replace(batch_step=b_step), left._replace(batch_step=a_step), Matrix(OP_N, n, m, n, m * n, ALIGNED),
    )  # fmt: skip
    return _cublas_lt.plan(a.device.id, problem), shape, (False, False)


def _alignment(x: Any) -> int:
    address = x.data.ptr | ALIGNED
    return address & -address


def _matrix(x: Any) -> Matrix | None:
    """How the matrices of x lie, as their transposes in columns; None where neither rows nor columns lie without steps."""
    rows, columns = x.shape[-2:]
    down, right = (s // x.itemsize for s in x.strides[-2:])
    if (columns == 1 or right == 1) and (rows == 1 or down >= columns):
        return Matrix(OP_N, columns, rows, down if rows > 1 else columns, 0, _alignment(x))
    if (rows == 1 or down == 1) and (columns == 1 or right >= rows):
        return Matrix(OP_T, rows, columns, right if columns > 1 else rows, 0, _alignment(x))
    return None


def _stacks(lead: tuple[int, ...], a: Any, b: Any) -> tuple[int, int, int] | None:
    """(how many products, elements between the left matrices, between the right ones); None without one such step."""
    steps = []
    for x in (a, b):
        own = [0 if n == 1 else s // x.itemsize for n, s in zip(x.shape[:-2], x.strides, strict=False)]
        steps.append([0] * (len(lead) - len(own)) + own)
    sizes = [(n, *each) for n, *each in zip(lead, *steps, strict=True) if n != 1]
    for (_, *outer), (n, *inner) in itertools.pairwise(sizes):
        if any(step != n * within for step, within in zip(outer, inner, strict=True)):
            return None
    return (math.prod(lead), sizes[-1][1], sizes[-1][2]) if sizes else (1, 0, 0)
