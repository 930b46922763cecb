"""Bags of embeddings: sums, means and maxima of a table's rows, a bag at a time."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from tdt import _backend, _kernels
from tdt._core.dtype import SCALAR_NAMES, bfloat16, float16, float32, float64, int32, int64, promote_types
from tdt._core.tensor import Tensor, wrap, wrap_new
from tdt._ops.nn.embedding import _embedding, check_type, embedding_grad
from tdt.autograd._arrays import unrecorded
from tdt.autograd._node_names import node_name
from tdt.autograd._op import op
from tdt.autograd._remembered import calls_by_shape

__all__ = ["embedding_bag"]

MODES = ("sum", "mean", "max")  # the position is the number of the mode in `tdt.embedding_bag`


@node_name("EmbeddingBagBackward0")
def embedding_bag(
    weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool = False, mode: int = 0,
    sparse: bool = False, per_sample_weights: Tensor | None = None, include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Sum, mean or maximum of the rows of `weight` in each bag of indices; 0 for an empty bag.

    Args:
        indices: integers.
        offsets: first index of each bag; the type of both together is int64 or int32.
        scale_grad_by_freq: divide the gradient of a row by the number of times it was used.
        mode: 0 sum, 1 mean, 2 maximum.
        sparse: whether the gradient of `weight` is a sparse tensor.
        per_sample_weights: factors of the rows, for mode 0.
        include_last_offset: whether `offsets` ends with the end of the last bag.
        padding_idx: index that is left out of the bags.
    Shape: weight (rows, D), indices (n,), offsets (B,), per_sample_weights (n,).
    Returns: the bags (B, D); the bag of each index (n,); the number of indices in each bag (B,); and in mode 2 the row
        of each maximum (B, D), else the numbers once more.
    Raises:
        RuntimeError: when an index is outside the table, or the mode or dtypes do not fit.
    Source: Joulin et al., "Bag of Tricks for Efficient Text Classification", 2017.

    >>> import tdt
    >>> tdt.embedding_bag(tdt.tensor([[1.0], [3.0]]), tdt.tensor([0, 1, 1]), tdt.tensor([0, 2]), mode=2)[0]
    tensor([[3.],
            [3.]])
    """
    if indices.dtype is not offsets.dtype:
        common = promote_types(indices.dtype, offsets.dtype)
        indices, offsets = indices.to(common), offsets.to(common)
    _check(weight, indices, offsets, mode, per_sample_weights, padding_idx, include_last_offset)
    xp = _backend.namespace(indices._a)
    at, count = indices._a.astype("int64"), len(offsets) - include_last_offset
    bag = _bag_of(xp, offsets._a, len(at))
    retained = bag < count
    if padding_idx is not None:
        retained &= at != operator.index(padding_idx) % len(weight)
    inside = bag
    if not retained.all():
        (retained,) = xp.nonzero(retained)
        at, inside = at[retained], bag[retained]
        per_sample_weights = None if per_sample_weights is None else per_sample_weights[wrap(retained)]
    sizes = xp.bincount(inside, minlength=count)
    if mode == 2:
        out, source = _maxima(xp, weight, at, sizes)
        return out, wrap(bag), wrap(sizes), source
    rows = _embedding(weight, wrap(at), padding_idx=None, by_frequency=scale_grad_by_freq, sparse=sparse)  # (n, D)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    out = embedding_grad(rows, wrap(inside), **_ADDS, rows=count)
    if mode == 1:
        out = out / wrap(xp.maximum(sizes, 1).astype(out._a.dtype)[:, None])
    return out, wrap(bag), wrap(sizes), wrap(sizes)


def plain_bags(
    weight: Tensor, indices: Tensor, offsets: Tensor | None, mean: bool, include_last: bool, scale_grad_by_freq: bool,
    sparse: bool,
) -> Tensor | None:  # fmt: skip
    """Sums or means by fewer steps, where bags have one length or nothing is recorded; None for others and wrong arguments.

    Shape: indices (B, L), or (n,) with offsets; see `embedding_bag`.
    """
    at = indices._a
    if at.__class__ is not np.ndarray or weight._a.__class__ is not np.ndarray:
        return None
    if not unrecorded(weight):
        if offsets is not None or not at.size or at.dtype.char not in "lqi" or weight._a.dtype.char not in "fd":
            return None
        return _bags_of(weight, indices, mean, scale_grad_by_freq, sparse)
    if offsets is None:
        first, last = _START, np.array(at.shape[1])
    elif offsets._a.__class__ is np.ndarray and len(offsets) and not offsets._a[0]:
        starts = offsets._a
        first, last = starts[:-1] if include_last else starts, starts[1:]
        last = last if include_last else np.append(last, starts.dtype.type(len(at)))
        if not len(last) or last[-1] != len(at):
            return None  # indices behind the last bag are checked, too
    else:
        return None
    out = _kernels.bags(weight._a, at, first, last)
    if mean and out is not None:
        np.divide(out, np.maximum(last - first, 1).astype(out.dtype)[..., None], out)
    return None if out is None else wrap_new(out)


_START = np.zeros((), np.int64)
_ADDS: dict[str, Any] = {"padding_idx": None, "by_frequency": False}


@op(
    dtypes=frozenset((float32, float64)), promote=(), broadcasts=False, node="EmbeddingBagBackward0",
    shape=lambda w, indices, **how: (indices[0], w[1]),
)  # fmt: skip
def _equal_bags(xp: Any, w: Any, indices: Any, *, mean: bool, by_frequency: bool, sparse: bool) -> Any:
    """The sums or means of the rows of w at indices (B, L)."""
    count, length = indices.shape
    out = _kernels.bags(w, indices, _START, np.array(length)) if xp is np else None
    if out is None:
        _check_rows(indices, len(w))
        rows = _embedding.forward(xp, w, indices.reshape(-1), padding_idx=None, by_frequency=False, sparse=False)
        out = embedding_grad.forward(xp, rows, xp.arange(count).repeat(length), **_ADDS, rows=count)
    return out / length if mean else out


@_equal_bags.vjp("w")
def _(g: Tensor, w_shape: tuple, indices: Tensor, mean: bool, by_frequency: bool, sparse: bool) -> Any:
    count, length = indices.shape
    rows = (g / length if mean else g).unsqueeze(1).expand(count, length, w_shape[1]).reshape(-1, w_shape[1])
    return _embedding.rules["w"].function(rows, w_shape, indices.reshape(-1), None, by_frequency, sparse)


def _each_row(g: Any, length: int, mean: bool) -> Any:
    """The gradients (B · L, D) of the rows in the bags, from theirs."""
    return (g / length if mean else g).repeat(length, 0)


@_equal_bags.fast_vjp("w")
def _(xp: Any, g: Any, w_shape: tuple, indices: Any, mean: bool, by_frequency: bool, sparse: bool) -> Any:
    rows = _each_row(g, indices.shape[1], mean)
    fast: Any = _embedding.rules["w"].fast
    return fast(xp, rows, w_shape, indices.reshape(-1), None, by_frequency, sparse)


@_equal_bags.prepares_vjp("w")
def _(xp: Any, g: Any, w_shape: tuple, indices: Any, mean: bool, by_frequency: bool, sparse: bool) -> Any:
    length, prepare = indices.shape[1], _embedding.rules["w"].prepare
    rows = _each_row(g, length, mean)
    add: Any = prepare and prepare(xp, rows, w_shape, indices.reshape(-1), None, by_frequency, sparse)
    return add and (lambda g, indices: add(_each_row(g, length, mean), indices.reshape(-1)))


@calls_by_shape
def _bags_of(weight: Tensor, indices: Tensor, mean: bool, by_frequency: bool, sparse: bool) -> Tensor:
    return _equal_bags(weight, indices, mean=mean, by_frequency=by_frequency, sparse=sparse)


def _bag_of(xp: Any, offsets: Any, n: int) -> Any:
    """The bag of each of `n` indices: how many bags have begun before it, or with it."""
    if len(offsets) and int(offsets[0]):
        raise RuntimeError("offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. "
                           f"However, got {int(offsets[0])}")  # fmt: skip
    if len(offsets) and int(offsets[-1]) > n:
        raise RuntimeError(f"offsets[-1] can not be greater than input's length {n} but got offsets[-1] of "
                           f"{int(offsets[-1])}")  # fmt: skip
    if (offsets[1:] < offsets[:-1]).any():
        raise RuntimeError("offsets have to ascend: a bag ends where the next one begins")
    begun = xp.zeros(n + 1, "int64")
    _backend.add_at(begun, (offsets[1:].astype("int64"),), 1)
    return begun[:n].cumsum() if len(offsets) else begun[:n]


def _maxima(xp: Any, weight: Tensor, at: Any, sizes: Any) -> tuple[Tensor, Tensor]:
    """The largest element of each column in each bag, and the row that it is in. Bags are filled up to one length L."""
    place = xp.arange(max(1, int(sizes.max()) if len(sizes) else 0))
    inside = place < sizes[:, None]  # (B, L)
    first = sizes.cumsum() - sizes
    filled = wrap(xp.append(at, 0)[xp.where(inside, first[:, None] + place, len(at))])  # (B, L), 0 where there is none
    rows = _embedding(weight, filled, padding_idx=None, by_frequency=False, sparse=False)  # (B, L, D)
    largest, which = rows.masked_fill(wrap(~inside).unsqueeze(2), -math.inf).max(1)
    nothing = wrap(sizes == 0).unsqueeze(1)
    return largest.masked_fill(nothing, 0), filled.gather(1, which).masked_fill(nothing, 0)


def _check(
    weight: Tensor, indices: Tensor, offsets: Tensor, mode: int, per_sample_weights: Tensor | None,
    padding_idx: int | None, include_last_offset: bool,
) -> None:  # fmt: skip
    """PyTorch's errors for arguments of `tdt.embedding_bag`."""
    check_type("embedding_bag", "indices", indices, (int64, int32))
    check_type("embedding_bag", "offsets", offsets, (int64, int32))
    check_type("embedding_bag", "weight", weight, (float16, bfloat16, float32, float64))
    if mode not in (0, 1, 2):
        raise RuntimeError("`mode` must be sum, mean, or max.")
    rows = len(weight)
    _check_rows(indices._a, rows)
    if per_sample_weights is not None:
        if mode:
            raise RuntimeError("embedding_bag: per_sample_weights only supported with mode='sum'")
        if per_sample_weights.dtype is not weight.dtype:
            a, b = (SCALAR_NAMES[t.dtype] for t in (weight, per_sample_weights))
            raise RuntimeError("Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 "
                               f"'per_sample_weights'; but type {a} does not equal {b} (while checking arguments for "
                               "embedding_bag)")  # fmt: skip
    if include_last_offset and not len(offsets):
        raise RuntimeError("include_last_offset: number of offset should be at least 1")
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise RuntimeError(f"padding_idx must be within the number of embeddings, {-rows} through {rows - 1}, but got "
                           f"{padding_idx}")  # fmt: skip


def _check_rows(indices: Any, rows: int) -> None:
    """RuntimeError unless the indices lie in a table of so many rows."""
    bad = (indices < 0) | (indices >= rows)
    if bad.any():
        i = int(bad.argmax())
        value = int(indices.reshape(-1)[i])
        raise RuntimeError(f"Index {i} of input takes value {value} which is not in the valid range [0, {rows})")
