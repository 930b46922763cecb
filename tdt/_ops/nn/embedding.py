"""Embedding lookup; dense or sparse gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from tdt import _backend, _kernels
from tdt._backend.waiting import repeatable
from tdt._core.calls import integer
from tdt._core.dtype import ALL, FLOATING_AND_COMPLEX, SCALAR_NAMES, check_category, int32, int64
from tdt._core.sparse import SparseCOO
from tdt._core.tensor import Tensor, wrap
from tdt._kernels import chosen, float_lookup, gpu_kernel, gpu_lookup, gpu_table, kernel
from tdt._ops.elementwise._front import tensor_argument
from tdt._ops.index._checks import all_in_range, unsigned
from tdt.autograd._inplace import check_inplace
from tdt.autograd._op import op
from tdt.autograd._remembered import calls_by_shape


def check_type(function: str, name: str, t: Tensor, allowed: tuple) -> None:
    """PyTorch's RuntimeError for an argument of a dtype that is not among the `allowed`."""
    if t.dtype not in allowed:
        expected = ", ".join(SCALAR_NAMES[d] for d in allowed)
        raise RuntimeError(f"Expected tensor for argument #1 '{name}' to have one of the following scalar types: {expected}; "
                           f"but got torch.{SCALAR_NAMES[t.dtype]}Tensor instead (while checking arguments for "
                           f"{function})")  # fmt: skip


NO_ROW = "index out of range in self: an index is {value}, but the table has {limit} rows"


_LOOKUP = (gpu_kernel("embedding_gpu:embedding", gpu_table),)


@op(name="embedding", dtypes=ALL, promote=(), broadcasts=False, computes=False,
    shape=lambda w, indices, **how: (*indices, *w[1:]))  # fmt: skip
@repeatable
def _embedding(xp, w, indices, *, padding_idx, by_frequency, sparse):
    if w.__class__ is indices.__class__ is np.ndarray and (fast := _kernels.entries(w, indices)) is not None:
        return fast
    if xp is not np and (fast := chosen(_LOOKUP, xp, w, indices)):
        return fast(w, indices, message=NO_ROW)
    if xp is np:
        return _taken(w, indices)
    if indices.size:
        _backend.expect_below(unsigned(indices), len(w), NO_ROW)
    return w.take(indices, 0)


def _taken(w: Any, indices: Any) -> Any:
    if indices.size and not all_in_range(indices, len(w)):
        raise IndexError(f"index out of range in self: indices lie in [{int(indices.min())}, {int(indices.max())}], but the "
                         f"table has {len(w)} rows")  # fmt: skip
    return w.take(indices, 0)  # twice as fast as an index


@_kernels.prepares(_embedding.forward, strided=True, large=True)
def _(w, indices, *, recorded, **how):
    return _kernels.prepared_entries(w, indices) or _taken


def _counts(xp: Any, indices: Any, rows: int) -> Any:
    """How often each index occurs, in the shape of `indices` with one more dimension."""
    return xp.bincount(indices.reshape(-1), minlength=rows)[indices][..., None]


@_embedding.vjp("w")
def _(g, w_shape, indices, padding_idx, by_frequency, sparse):
    if sparse:
        _refuse_frequencies(by_frequency)
        return wrap(_rows(_backend.namespace(g._a), g._a, w_shape, indices._a, padding_idx))
    return embedding_grad(g, indices, rows=w_shape[0], padding_idx=padding_idx, by_frequency=by_frequency)


@_embedding.fast_vjp("w")
@repeatable
def _(xp, g, w_shape, indices, padding_idx, by_frequency, sparse):
    if sparse:
        _refuse_frequencies(by_frequency)
        return _rows(xp, g, w_shape, indices, padding_idx)
    how = {"rows": w_shape[0], "padding_idx": padding_idx, "by_frequency": by_frequency}
    if fast := chosen(embedding_grad.kernels, xp, g, indices, **how):
        return fast(g, indices, **how)
    return embedding_grad.forward(xp, g, indices, **how)


@_embedding.prepares_vjp("w")
def _(xp, g, w_shape, indices, padding_idx, by_frequency, sparse):
    how = {"rows": w_shape[0], "padding_idx": padding_idx, "by_frequency": by_frequency}
    prepare = None if sparse else getattr(chosen(embedding_grad.kernels, xp, g, indices, **how), "prepare", None)
    return prepare and prepare(g, indices, **how)


def _refuse_frequencies(by_frequency: bool) -> None:
    if by_frequency:
        raise RuntimeError("embedding_backward: scale_grad_by_freq not supported with sparse gradients")


def _rows(xp: Any, g: Any, w_shape: tuple, indices: Any, padding_idx: int | None) -> SparseCOO:
    """The gradient as one entry per looked-up row."""
    flat, values = indices.reshape(1, -1).astype("int64"), g.reshape(-1, *w_shape[1:])
    if padding_idx is not None:
        mask = flat[0] != padding_idx
        flat, values = flat[:, mask], values[mask]
    return SparseCOO(flat, values, w_shape)


@op(
    dtypes=ALL,
    promote=(),
    broadcasts=False,
    shape=lambda y, indices, *, rows, **how: (rows, *y[len(indices) :]),
    kernels=(
        kernel("embedding_cpu:embedding_grad", float_lookup),
        gpu_kernel("embedding_gpu:embedding_grad", gpu_lookup),
    ),
)
def embedding_grad(xp, y, indices, *, rows, padding_idx, by_frequency):
    if by_frequency:
        y = y / _counts(xp, indices, rows).astype(y.dtype)
    grad = xp.zeros((rows, *y.shape[indices.ndim :]), y.dtype)
    _backend.add_at(grad, (indices.reshape(-1),), y.reshape(indices.size, *y.shape[indices.ndim :]))
    if padding_idx is not None:
        grad[padding_idx] = 0
    return grad


@embedding_grad.vjp("y")
def _(g, indices, rows, padding_idx, by_frequency):
    if padding_idx is not None:
        keep = wrap(_backend.namespace(g._a).arange(rows) != padding_idx)
        g = g * keep.unsqueeze(-1).to(g.dtype)
    out = _embedding(g, indices, padding_idx=None, by_frequency=False, sparse=False)
    return out / wrap(_counts(_backend.namespace(g._a), indices._a, rows)) if by_frequency else out


@calls_by_shape
def _rows_of(weight: Any, indices: Any, padding_idx: Any, by_frequency: Any, sparse: Any) -> Tensor:
    """The op, once `check_embedding` has found its operands in order."""
    row = check_embedding(weight, indices, padding_idx)
    return _embedding(weight, indices, padding_idx=row, by_frequency=by_frequency, sparse=sparse)


def embedding(weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False,
              sparse: bool = False) -> Tensor:  # fmt: skip
    """Rows of the embedding table `weight` at `indices`.

    Args:
        indices: int64 or int32.
        padding_idx: row that gets no gradient; a negative index means no row.
        scale_grad_by_freq: divide the gradient of a row by the number of times it was used.
        sparse: whether the gradient of `weight` is a sparse tensor.
    Shape: weight (rows, D), indices (*); result (*, D).
    Raises:
        RuntimeError: when `indices` is not int64 or int32, or `weight` is not 2-D.
        AssertionError: when `padding_idx` is not a row of `weight`.
        IndexError: when an index is outside the table.

    >>> import tdt
    >>> tdt.embedding(tdt.tensor([[1.0, 2.0], [3.0, 4.0]]), tdt.tensor([1]))
    tensor([[3., 4.]])
    """
    return _rows_of(weight, indices, None if padding_idx < 0 else padding_idx, scale_grad_by_freq, sparse)


def check_embedding(weight: Tensor, indices: Tensor, padding_idx: int | None) -> int | None:
    """Check the arguments of `embedding`; returns the row that `padding_idx` names, counted from the first.

    Raises TypeError or RuntimeError for operands that do not fit, AssertionError for a row that does not exist.
    """
    tensor_argument("embedding", weight, "weight", 1)
    tensor_argument("embedding", indices, "indices", 2)
    check_type("embedding", "indices", indices, (int64, int32))
    if weight._a.ndim != 2:
        raise RuntimeError(f"'weight' must be 2-D, but got shape {list(weight.shape)}")
    if padding_idx is None:
        return None
    padding_idx = integer(padding_idx)
    if not -weight.shape[0] <= padding_idx < weight.shape[0]:
        raise AssertionError(f"Padding_idx must be within num_embeddings; got {padding_idx} for {weight.shape[0]} rows")
    return padding_idx % weight.shape[0]


def embedding_renorm_(input: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Scale the rows of `input` at `indices` down to the norm `max_norm`, in place; the other rows stay.

    Args:
        indices: int64 or int32.
        norm_type: order of the norm.
    Shape: input (rows, D), indices (*).
    Returns: `input`.
    Raises:
        RuntimeError: when `indices` is not int64 or int32, or `input` is a leaf that requires grad.

    >>> import tdt
    >>> tdt.embedding_renorm_(tdt.tensor([[3.0, 4.0], [3.0, 4.0]]), tdt.tensor([1]), 1.0, 2.0)
    tensor([[3.0000, 4.0000],
            [0.6000, 0.8000]])
    """
    check_type("embedding_renorm_", "indices", indices, (int64, int32))
    check_inplace(input)
    _renorm(input, indices, max_norm, norm_type)
    return input


def _renorm(weight: Tensor, input: Tensor, max_norm: float, norm_type: float) -> None:
    """Scale the rows of `weight` that `input` names down to `max_norm`, in place and unrecorded."""
    check_category("norm", FLOATING_AND_COMPLEX, weight.dtype)
    a = weight._a
    xp, max_norm, norm_type = _backend.namespace(a), float(max_norm), float(norm_type)
    used = xp.unique(input._a)
    norms = (xp.abs(a[used]) ** norm_type).sum(axis=-1, keepdims=True) ** (1 / norm_type)
    a[used] *= xp.where(norms > max_norm, max_norm / (norms + 1e-7), 1).astype(a.dtype)
    weight._st.bump_version()


__all__ = ["embedding", "embedding_renorm_"]
