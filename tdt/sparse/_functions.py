"""`tdt.sparse`'s own functions, and the products with old names."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal, cast

import numpy as np

from tdt._core.dtype import FLOAT, FLOATING, SCALAR_NAMES, check_category, int64
from tdt._core.dtype import dtype as Dtype
from tdt._core.layout import layout as Layout
from tdt._core.layout import sparse_coo
from tdt._core.methods import function_alias
from tdt._core.mode import state
from tdt._core.sparse import SparseCOO
from tdt._core.tensor import Tensor, wrap
from tdt._ops._common import Dims
from tdt._ops.linalg import add_products, products
from tdt._ops.nn import softmax as dense_softmax
from tdt._ops.reduce import reductions as reduce
from tdt._ops.shape.views import wrap_dim
from tdt.sparse._ops import coalesced, coo, is_coo, masked, to_dense, to_layout, values_of


def mm(mat1: Tensor, mat2: Tensor, reduce: Literal["sum", "mean", "amax", "amin"] | None = None) -> Tensor:
    """Product of two matrices, at least one of them sparse; sparse if both are.

    The gradient of a sparse operand is sparse, with the same indices.

    Args:
        reduce: how the terms of each row's entries are reduced: "sum", "mean", "amax" or "amin"; for the last three mat1 must be
            in CSR layout and mat2 dense.
    Shape: mat1 (N, M), mat2 (M, P); result (N, P).
    Raises:
        ValueError: when `reduce` is unknown.
        NotImplementedError: when the layouts do not allow `reduce`.
        RuntimeError: when shapes or dtypes do not match.

    >>> import tdt
    >>> tdt.sparse.mm(tdt.eye(2).to_sparse(), tdt.tensor([[1.0], [2.0]]))
    tensor([[1.],
            [2.]])
    """
    if reduce is not None:
        return _reduced(mat1, mat2, reduce)
    return products.mm(masked(mat1), masked(mat2))


def _reduced(mat1: Tensor, mat2: Tensor, reduce: str) -> Tensor:
    check_category("spmm_reduce", FLOATING, mat1.dtype)
    if reduce == "sum":
        return mm(mat1, mat2)
    if reduce not in ("mean", "amax", "amin"):
        raise ValueError(f"sparse.mm: reduce must be one of sum, mean, amax and amin, got {reduce!r}")
    if not mat1.is_sparse_csr or is_coo(mat2):
        raise NotImplementedError(f"sparse.mm: reduce={reduce!r} takes mat1 from to_sparse_csr() and a dense mat2")
    row, column = (wrap(at) for at in mat1._a.indices)
    terms = values_of(mat1).unsqueeze(1) * mat2.index_select(0, column)
    start = terms.new_zeros(mat1.shape[0], mat2.shape[1])
    kind = cast("Literal['mean', 'amax', 'amin']", reduce)
    return start.scatter_reduce(0, row.unsqueeze(1).expand(terms.shape), terms, kind, include_self=False)


def sampled_addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1.0, alpha: float = 1.0, out: Tensor | None = None
) -> Tensor:
    """Sum beta · input + alpha · (mat1 @ mat2), computed only at the entries of a matrix `input` in CSR layout.

    Shape: input (N, P), mat1 (N, M), mat2 (M, P); result (N, P) in CSR layout.
    Raises:
        RuntimeError: when input is not in CSR layout, or shapes or dtypes do not match.

    >>> import tdt
    >>> eye = tdt.eye(2).to_sparse_csr()
    >>> tdt.sparse.sampled_addmm(eye, tdt.ones(2, 3), tdt.ones(3, 2)).to_dense()
    tensor([[4., 0.],
            [0., 4.]])
    """
    if not input.is_sparse_csr:
        raise RuntimeError(
            f"sampled_addmm: Expected input tensor to have sparse csr layout, but got {input.layout}; "
            "to_sparse_csr() makes one of it"
        )
    if (
        mat1.ndim != 2
        or mat2.ndim != 2
        or input.shape != (mat1.shape[0], mat2.shape[1])
        or mat1.shape[1] != mat2.shape[0]
    ):
        raise RuntimeError(
            f"sampled_addmm: mat1 {list(mat1.shape)} @ mat2 {list(mat2.shape)} does not fit input {list(input.shape)}"
        )
    if input.dtype.category < FLOAT or input.dtype.itemsize == 2:
        raise RuntimeError(
            "sparse_sampled_addmm: Expected self to be a floating-point or complex tensor, but got "
            f"{SCALAR_NAMES[input.dtype]}"
        )
    row, column = (wrap(at) for at in input._a.indices)
    terms = (mat1.index_select(0, row) * mat2.t().index_select(0, column)).sum(1)
    result = to_layout(coo(values_of(input) * beta + terms * alpha, input._a.indices, input.shape, True), "sparse_csr")
    return result if out is None else _written("sampled_addmm", result, out)


def _written(name: str, result: Tensor, out: Tensor) -> Tensor:
    """`out`, in the same layout and dtype, with the entries of `result`."""
    if state.grad and (result.requires_grad or out.requires_grad):
        raise RuntimeError(f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of "
                           "the arguments requires grad.")  # fmt: skip
    if out.layout is not result.layout or out.dtype is not result.dtype:
        found = [f"{t.layout} and {t.dtype}" for t in (result, out)]
        raise RuntimeError(f"{name}: Expected result to have sparse csr layout and the operands' dtype, that is {found[0]}, "
                           f"but got {found[1]}")  # fmt: skip
    out._a[...] = result._a
    out._st.bump_version()
    return out


def addmm(mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1.0, alpha: float = 1.0) -> Tensor:
    """Sum beta · mat + alpha · (mat1 @ mat2) with a sparse mat1, whose gradient is sparse, with the same indices.

    Shape: mat broadcastable to (N, P), mat1 (N, M), mat2 (M, P); result (N, P).
    Raises:
        RuntimeError: when shapes or dtypes do not match.

    >>> import tdt
    >>> tdt.sparse.addmm(tdt.ones(2, 1), tdt.eye(2).to_sparse(), tdt.tensor([[1.0], [2.0]]))
    tensor([[2.],
            [3.]])
    """
    return add_products.addmm(mat, masked(mat1), masked(mat2), beta=beta, alpha=alpha)


def sum(input: Tensor, dim: Dims = None, dtype: Dtype | None = None) -> Tensor:
    """Sum over dimensions of a sparse tensor, sparse if sparse dimensions remain; the gradient has the input's indices.

    Args:
        dim: one or several dimensions; None for all.
        dtype: dtype that the values are converted to first.
    Shape: input (*); result input's shape without `dim`.

    >>> import tdt
    >>> tdt.sparse.sum(tdt.eye(2).to_sparse(), 0).to_dense()
    tensor([1., 1.])
    """
    return reduce.sum(masked(input), dim, dtype=dtype)


def softmax(input: Tensor, dim: int, *, dtype: Dtype | None = None) -> Tensor:
    """Softmax along a dimension of a sparse tensor; elements without an entry count as -inf.

    Args:
        dtype: dtype that the values are converted to first.
    Shape: input (*); result the same.
    Raises:
        NotImplementedError: when input is not a sparse COO tensor.

    >>> import tdt
    >>> tdt.sparse.softmax(tdt.tensor([[2.0, 2.0, 0.0]]).to_sparse(), 1).to_dense()
    tensor([[0.5000, 0.5000, 0.0000]])
    """
    return _over_entries("softmax", input, dim, dtype)


def log_softmax(input: Tensor, dim: int, *, dtype: Dtype | None = None) -> Tensor:
    """Logarithm of the softmax along a dimension of a sparse tensor; elements without an entry count as -inf.

    Args:
        dtype: dtype that the values are converted to first.
    Shape: input (*); result the same.
    Raises:
        NotImplementedError: when input is not a sparse COO tensor.

    >>> import tdt
    >>> tdt.sparse.log_softmax(tdt.tensor([[2.0, 2.0, 0.0]]).to_sparse(), 1).to_dense()
    tensor([[-0.6931, -0.6931,  0.0000]])
    """
    return _over_entries("log_softmax", input, dim, dtype)


def _over_entries(name: str, input: Tensor, dim: int, dtype: Dtype | None) -> Tensor:
    if not is_coo(input):
        raise NotImplementedError(f"sparse.{name} takes a sparse tensor; tdt.{name} is the one for dense ones")
    x = coalesced(input if dtype is None else input.to(dtype))
    a, v, d = x._a, values_of(x), wrap_dim(dim, input.ndim)
    n = len(a.indices)
    if d >= n:
        return coo(getattr(dense_softmax, name)(v, d - n + 1), a.indices, a.shape, True)
    others = [*range(d), *range(d + 1, n)]
    line = SparseCOO(a.indices[others], a.values, tuple([a.shape[k] for k in others])).places
    _, group = a.xp.unique(line, return_inverse=True)
    count, group = int(group.max()) + 1 if group.size else 0, wrap(group.reshape(-1))
    # Subtract the largest entry of each line first: exp overflows float32 above 88.
    at = group.reshape(-1, *[1] * (v.ndim - 1)).expand(v.shape)
    top = v.detach().new_zeros(count, *v.shape[1:]).scatter_reduce(0, at, v.detach(), "amax", include_self=False)
    v = v - top.index_select(0, group)
    total = v.new_zeros(count, *v.shape[1:]).index_add(0, group, v.exp())
    result = v.exp() / total.index_select(0, group) if name == "softmax" else v - total.log().index_select(0, group)
    return coo(result, a.indices, a.shape, True)


def spdiags(diagonals: Tensor, offsets: Tensor, shape: tuple[int, int], layout: Layout | None = None) -> Tensor:
    """Sparse matrix with given diagonals: row k of `diagonals` on the diagonal `offsets[k]`, aligned by columns.

    Args:
        offsets: number of each diagonal, 0 for the main one, positive above it; int64, without duplicates.
        layout: None or tdt.sparse_coo.
    Shape: diagonals (D, N) or (N), offsets (D); result `shape`.
    Raises:
        RuntimeError: when offsets does not fit diagonals, is not int64 or has duplicates, or `shape` is not that of a matrix.
        NotImplementedError: when another layout is requested.

    >>> import tdt
    >>> tdt.sparse.spdiags(tdt.tensor([[1.0, 2.0], [3.0, 4.0]]), tdt.tensor([0, 1]), (2, 2)).to_dense()
    tensor([[1., 4.],
            [0., 2.]])
    """
    if layout not in (None, sparse_coo):
        raise NotImplementedError(f"spdiags: tensors are made in layout tdt.sparse_coo, not {layout}")
    if offsets.dtype is not int64:
        raise RuntimeError(f"Offset Tensor must have dtype Long but got {SCALAR_NAMES[offsets.dtype]}")
    rows = diagonals if diagonals.ndim == 2 else diagonals.unsqueeze(0)
    steps = offsets.reshape(-1).tolist()
    if len(rows) != len(steps):
        raise RuntimeError(f"Number of diagonals ({len(rows)}) does not match the number of offsets ({len(steps)})")
    if len(set(steps)) != len(steps):
        raise RuntimeError("Offset tensor contains duplicate values")
    if len(shape) != 2:
        raise RuntimeError(f"Output shape must be 2d, got {list(shape)}")
    spans = [range(max(0, k), min(rows.shape[1], shape[1], shape[0] + k)) for k in steps]
    place = [(i, c - k, c) for i, (k, span) in enumerate(zip(steps, spans, strict=True)) for c in span]
    i, row, column = wrap(np.array(place, "int64").reshape(-1, 3).T).to(diagonals.device)._a
    return coo(rows[wrap(i), wrap(column)], np.stack([row, column]), shape)


def as_sparse_gradcheck(gradcheck: Callable[..., bool]) -> Callable[..., bool]:
    """Make `gradcheck` accept functions of sparse tensors: it varies the values of their entries.

    Returns: a function with the parameters of `gradcheck`.

    >>> import tdt
    >>> x = tdt.eye(2, dtype=tdt.float64).to_sparse().requires_grad_()
    >>> tdt.sparse.as_sparse_gradcheck(tdt.autograd.gradcheck)(tdt.sparse.sum, x)
    True
    """

    @functools.wraps(gradcheck)
    def checked(func: Callable[..., Any], inputs: Any, *args: Any, **kwargs: Any) -> bool:
        inputs = inputs if isinstance(inputs, tuple) else (inputs,)
        detached = [coalesced(x.detach()) if is_coo(x) else x for x in inputs]
        varied = [
            values_of(x).detach().clone().requires_grad_(was.requires_grad) if is_coo(x) else x
            for x, was in zip(detached, inputs, strict=True)
        ]

        def again(v: Any, x: Any) -> Any:
            return to_layout(coo(v, x._a.indices, x.shape, True), x._a.layout) if is_coo(x) else v

        def on_values(*values: Any) -> Any:
            results = func(*[again(v, x) for v, x in zip(values, detached, strict=True)])
            return tuple(map(to_dense, results)) if isinstance(results, tuple) else to_dense(results)

        kwargs.pop("masked", None)
        return gradcheck(on_values, tuple(varied), *args, **kwargs)

    return checked


def hspmm(mat1: Tensor, mat2: Tensor) -> Tensor:
    """Product of a sparse and a dense matrix, as a sparse tensor of those rows in which mat1 has entries.

    Shape: mat1 (N, M), mat2 (M, P); result (N, P) with 1 sparse and 1 dense dimension.
    Raises:
        RuntimeError: when shapes or dtypes do not match.

    >>> import tdt
    >>> tdt.hspmm(tdt.tensor([[0.0, 0.0], [1.0, 0.0]]).to_sparse(), tdt.tensor([[1.0], [2.0]])).values()
    tensor([[1.]])
    """
    product, xp = products.mm(mat1, mat2), mat1._a.xp
    rows = xp.unique(mat1._a.indices[0])
    return coo(product.index_select(0, wrap(rows)), rows[None], product.shape, True)


def smm(input: Tensor, mat2: Tensor) -> Tensor:
    """Product of a sparse and a dense matrix, as a sparse matrix.

    Shape: input (N, M), mat2 (M, P); result (N, P).
    Raises:
        RuntimeError: when shapes or dtypes do not match.

    >>> import tdt
    >>> tdt.smm(tdt.tensor([[0.0, 0.0], [1.0, 0.0]]).to_sparse(), tdt.tensor([[1.0], [2.0]])).to_dense()
    tensor([[0.],
            [1.]])
    """
    rows = hspmm(input, mat2)
    xp, at, n = rows._a.xp, rows._a.indices[0], rows.shape[1]
    indices = xp.stack([xp.repeat(at, n), xp.tile(xp.arange(n), len(at))])
    return coo(values_of(rows).reshape(-1), indices, rows.shape, True)


def sspaddmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """Sum beta · input + alpha · (mat1 @ mat2) of sparse `input` and `mat1` and a dense `mat2`, as a sparse matrix.

    Shape: input (N, P), mat1 (N, M), mat2 (M, P); result (N, P).
    Raises:
        RuntimeError: when shapes or dtypes do not match.

    >>> import tdt
    >>> one = tdt.eye(1).to_sparse()
    >>> tdt.sspaddmm(one, one, tdt.tensor([[2.0]])).to_dense()
    tensor([[3.]])
    """
    return input * beta + smm(mat1, mat2) * alpha


spmm = function_alias("spmm", of=products.mm)
dsmm = function_alias("dsmm", of=products.mm)
hsmm = function_alias("hsmm", of=hspmm)
