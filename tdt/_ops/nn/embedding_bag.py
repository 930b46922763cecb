"""Bags of embeddings: sums, means and maxima of a table's rows, a bag at a time."""

from __future__ import annotations

import math
import operator
import warnings
from typing import Any

from tdt import _backend
from tdt._core.dtype import SCALAR_NAMES, bfloat16, float16, float32, float64, int32, int64
from tdt._core.tensor import Tensor, wrap
from tdt._ops.elementwise._front import tensor_argument
from tdt._ops.nn.embedding import _embedding, _renorm, check_type, embedding_grad
from tdt.autograd._node_names import node_name

__all__ = ["embedding_bag"]

MODES = ("sum", "mean", "max")  # at these places stand the numbers that `tdt.embedding_bag` takes


def functional_embedding_bag(
    input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: float | None = None, norm_type: float = 2,
    scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False, padding_idx: int | None = None,
) -> Tensor:  # fmt: skip
    """The sum, mean or maximum of the rows of `weight` (rows, D) in each bag of indices; a bag of nothing gives 0.

    input: (B, L), a bag in each row; or (n,) with `offsets` (B,), where each bag begins, and with `include_last_offset`
    a last one where the last bag ends. per_sample_weights: factors of the rows, of the input's shape, for sums alone.
    padding_idx: an index that counts as absent. Returns (B, D). max_norm, norm_type, scale_grad_by_freq, sparse: as for
    `embedding`. ValueError for shapes that do not fit; RuntimeError for an index outside of the table.

    >>> import tdt
    >>> table = tdt.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> tdt.nn.functional.embedding_bag(tdt.tensor([0, 1, 2]), table, tdt.tensor([0, 2]))
    tensor([[2., 3.],
            [5., 6.]])
    """
    tensor_argument("embedding_bag", weight, "weight", 1)
    tensor_argument("embedding_bag", input, "indices", 2)
    if weight.dtype is int64 and input.is_floating_point():
        warnings.warn("Argument order of nn.functional.embedding_bag was changed. Usage `embedding_bag(weight, input, ...)` "
                      "is deprecated, and should now be `embedding_bag(input, weight, ...)`.", stacklevel=2)  # fmt: skip
        weight, input = input, weight
    if per_sample_weights is not None and input.shape != per_sample_weights.shape:
        raise ValueError(f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not None, then it must have "
                         f"the same shape as the input ({input.shape})")  # fmt: skip
    if weight.ndim != 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.ndim}")
    if input.ndim == 2:
        if offsets is not None:
            raise ValueError("if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed "
                             f"length sequences. However, found offsets of type {type(offsets)}")  # fmt: skip
        xp, (bags, length) = _backend.namespace(input._a), input.shape
        offsets, include_last_offset = wrap(xp.arange(bags) * length), False
        input = input.reshape(-1)
        per_sample_weights = None if per_sample_weights is None else per_sample_weights.reshape(-1)
    elif input.ndim != 1:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}")
    elif offsets is None or offsets.ndim != 1:
        raise ValueError("offsets has to be a 1D Tensor" + (" but got None" if offsets is None else ""))
    if mode not in MODES:
        raise ValueError(f"mode has to be one of sum, mean or max, not {mode!r}")
    if mode == "max" and (scale_grad_by_freq or sparse):
        what = "scaling the gradient by the frequency" if scale_grad_by_freq else "sparse weights"
        raise ValueError(f"max mode does not support {what}")
    if max_norm is not None:
        _renorm(weight, input, max_norm, norm_type)
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError("embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for "
                                  f"mode='sum' (got mode='{mode}').")  # fmt: skip
    return embedding_bag(weight, input, offsets, scale_grad_by_freq, MODES.index(mode), sparse, per_sample_weights,
                         include_last_offset, padding_idx)[0]  # fmt: skip


@node_name("EmbeddingBagBackward0")
def embedding_bag(
    weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool = False, mode: int = 0,
    sparse: bool = False, per_sample_weights: Tensor | None = None, include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """`nn.functional.embedding_bag` of indices (n,) and offsets; mode is a number: 0 sum, 1 mean, 2 max.

    Returns the bags (B, D), the bag of each index (n,), how many indices of each bag count (B,), and for maxima the row
    that each came from (B, D), else the sizes again.

    >>> import tdt
    >>> tdt.embedding_bag(tdt.tensor([[1.0], [3.0]]), tdt.tensor([0, 1, 1]), tdt.tensor([0, 2]), mode=2)[0]
    tensor([[3.],
            [3.]])
    """
    _check(weight, indices, offsets, mode, per_sample_weights, padding_idx, include_last_offset)
    xp = _backend.namespace(indices._a)
    at, count = indices._a.astype("int64"), len(offsets) - include_last_offset
    bag = _bag_of(xp, offsets._a, len(at))
    kept = bag < count
    if padding_idx is not None:
        kept &= at != operator.index(padding_idx) % len(weight)
    inside = bag
    if not kept.all():
        (kept,) = xp.nonzero(kept)
        at, inside = at[kept], bag[kept]
        per_sample_weights = None if per_sample_weights is None else per_sample_weights[wrap(kept)]
    sizes = xp.bincount(inside, minlength=count)
    if mode == 2:
        out, source = _maxima(xp, weight, at, sizes)
        return out, wrap(bag), wrap(sizes), source
    rows = _embedding(weight, wrap(at), padding_idx=None, by_frequency=scale_grad_by_freq, sparse=sparse)  # (n, D)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    out = embedding_grad(rows, wrap(inside), rows=count, padding_idx=None, by_frequency=False)
    if mode == 1:
        out = out / wrap(xp.maximum(sizes, 1).astype(out._a.dtype)[:, None])
    return out, wrap(bag), wrap(sizes), wrap(sizes)


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
    bad = (indices._a < 0) | (indices._a >= rows)
    if bad.any():
        i = int(bad.argmax())
        raise RuntimeError(
            f"Index {i} of input takes value {int(indices._a[i])} which is not in the valid range [0, {rows})"
        )
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
