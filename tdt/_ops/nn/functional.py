"""Functions of `nn.functional` whose parameters differ from those of the function that `tdt` exports under the same name.

`tdt.dropout(input, p, train)` is in `dropout.py`, `nn.functional.dropout(input, p, training, inplace)` here.
"""

from __future__ import annotations

import warnings
from typing import Any

from tdt import _backend
from tdt._core.dtype import dtype, int64
from tdt._core.tensor import Tensor, wrap
from tdt._ops._common import Ints
from tdt._ops.elementwise._front import tensor_argument
from tdt._ops.nn import embedding_bag as _bag
from tdt._ops.nn import softmax as _softmax
from tdt._ops.nn.dropout import _check_probability, _drop
from tdt._ops.nn.embedding import _renorm, _rows_of, check_embedding
from tdt._ops.nn.embedding_bag import MODES
from tdt._ops.nn.pool_uneven import _adaptive_max_pool_nd


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero each element with probability `p` and scale the rest by 1 / (1 - p).

    Args:
        training: whether to drop; without it, the result is `input` itself.
        inplace: write into `input`.
    Shape: input (*); result the same.
    Raises:
        ValueError: when `p` is not in [0, 1].
    Source: Srivastava et al., "Dropout: A Simple Way to Prevent Neural Networks from Overfitting", 2014.

    >>> import tdt
    >>> tdt.nn.functional.dropout(tdt.ones(2), 0.5, training=False)
    tensor([1., 1.])
    """
    return _drop(input, _check_probability(p), training, inplace)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Replace each element with probability `p` by SELU's negative limit; mean 0 and variance 1 are kept.

    Args:
        training: whether to drop; without it, the result is `input` itself.
        inplace: write into `input`.
    Shape: input (*); result the same.
    Raises:
        ValueError: when `p` is not in [0, 1].
    Source: Klambauer et al., "Self-Normalizing Neural Networks", 2017.

    >>> import tdt
    >>> tdt.nn.functional.alpha_dropout(tdt.ones(2), 0.5)
    tensor([1., 1.])
    """
    return _drop(input, _check_probability(p), training, inplace, alpha=True)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Replace each channel with probability `p` by SELU's negative limit; mean 0 and variance 1 are kept.

    Args:
        training: whether to drop; without it, the result is `input` itself.
        inplace: write into `input`.
    Shape: input (N, C, *); result the same.
    Raises:
        ValueError: when `p` is not in [0, 1].
        RuntimeError: when `input` has fewer than 2 dimensions.
    Source: Klambauer et al., "Self-Normalizing Neural Networks", 2017.

    >>> import tdt
    >>> tdt.nn.functional.feature_alpha_dropout(tdt.ones(1, 2), 0.5)
    tensor([[1., 1.]])
    """
    return _drop(input, _check_probability(p), training, inplace, by_channel=True, alpha=True)


def embedding(input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None,
                         norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False) -> Tensor:  # fmt: skip
    """Rows of the embedding table `weight` at the indices `input`.

    Args:
        input: indices, int64 or int32.
        padding_idx: row that gets no gradient; a negative one is counted from the end.
        max_norm: used rows with a larger norm are first scaled down to it, in place.
        norm_type: order of that norm.
        scale_grad_by_freq: divide the gradient of a row by the number of times it was used.
        sparse: whether the gradient of `weight` is a sparse tensor.
    Shape: input (*), weight (rows, D); result (*, D).
    Raises:
        RuntimeError: when `input` is not int64 or int32, or `weight` is not 2-D.
        AssertionError: when `padding_idx` is not a row of `weight`.
        IndexError: when an index is outside the table.

    >>> import tdt
    >>> tdt.nn.functional.embedding(tdt.tensor([1]), tdt.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[3., 4.]])
    """
    if max_norm is not None:
        check_embedding(weight, input, padding_idx)
        _renorm(weight, input, max_norm, norm_type)
    return _rows_of(weight, input, padding_idx, scale_grad_by_freq, sparse)


def embedding_bag(
    input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: float | None = None, norm_type: float = 2,
    scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False, padding_idx: int | None = None,
) -> Tensor:  # fmt: skip
    """Sum, mean or maximum of the rows of `weight` in each bag of indices; 0 for an empty bag.

    Args:
        input: indices, int64 or int32.
        offsets: first index of each bag; None with a 2-D input, whose rows are the bags.
        max_norm, norm_type, scale_grad_by_freq: as for `embedding`.
        mode: "sum", "mean" or "max".
        sparse: whether the gradient of `weight` is a sparse tensor.
        per_sample_weights: factors of the rows, for mode="sum".
        include_last_offset: whether `offsets` ends with the end of the last bag.
        padding_idx: index that is left out of the bags.
    Shape: input (B, L) or (n,) with offsets (B,); weight (rows, D), per_sample_weights as input; result (B, D).
    Raises:
        ValueError: when shapes do not fit, or the mode is unknown or does not support the other arguments.
        NotImplementedError: when `per_sample_weights` is given with another mode than "sum".
        RuntimeError: when an index is outside the table, or dtypes do not fit.
    Source: Joulin et al., "Bag of Tricks for Efficient Text Classification", 2017.

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
    if max_norm is per_sample_weights is padding_idx is None and mode in ("sum", "mean"):
        if (offsets is None) == (input.ndim == 2) and 0 < input.ndim < 3 and (offsets is None or offsets.ndim == 1):
            mean = mode == "mean"
            out = _bag.plain_bags(weight, input, offsets, mean, include_last_offset, scale_grad_by_freq, sparse)
            if out is not None:
                return out
    if input.ndim == 2:
        if offsets is not None:
            raise ValueError("if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed "
                             f"length sequences. However, found offsets of type {type(offsets)}")  # fmt: skip
        xp, (bags, length) = _backend.namespace(input._a), input.shape
        offsets, include_last_offset = wrap((xp.arange(bags) * length).astype(input._a.dtype)), False
        input = input.reshape(-1)
        per_sample_weights = None if per_sample_weights is None else per_sample_weights.reshape(-1)
    elif input.ndim != 1:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}")
    elif offsets is None or offsets.ndim != 1:
        raise ValueError("offsets has to be a 1D Tensor" + (" but got None" if offsets is None else ""))
    _check_mode(mode, scale_grad_by_freq, sparse)
    if max_norm is not None:
        _renorm(weight, input, max_norm, norm_type)
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError("embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for "
                                  f"mode='sum' (got mode='{mode}').")  # fmt: skip
    return _bag.embedding_bag(weight, input, offsets, scale_grad_by_freq, MODES.index(mode), sparse, per_sample_weights,
                         include_last_offset, padding_idx)[0]  # fmt: skip


def _check_mode(mode: str, scale_grad_by_freq: bool, sparse: bool) -> None:
    """ValueError for an unknown mode of `embedding_bag`, or one that does not support the other arguments."""
    if mode not in MODES:
        raise ValueError(f"mode has to be one of sum, mean or max, not {mode!r}")
    if mode == "max" and (scale_grad_by_freq or sparse):
        what = "scaling the gradient by the frequency" if scale_grad_by_freq else "sparse weights"
        raise ValueError(f"max mode does not support {what}")


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: dtype | None = None) -> Tensor:
    """exp(x) / Σ exp(x) along `dim`; a slice of all -inf gives NaN.

    Args:
        dim: None warns and takes 0 for an input of 0, 1 or 3 dimensions, else 1.
        dtype: convert the input to it first.
    Shape: input (*); result the same.
    Raises:
        IndexError: when `dim` is out of range.

    >>> import tdt
    >>> tdt.nn.functional.softmax(tdt.zeros(1, 2), dim=1)
    tensor([[0.5000, 0.5000]])
    """
    return _softmax.softmax(input, _softmax.implicit_dim("softmax", input, dim, _stacklevel), dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: dtype | None = None) -> Tensor:
    """Logarithm of `softmax` along `dim`, computed without its loss of precision.

    Args:
        dim: None warns and takes 0 for an input of 0, 1 or 3 dimensions, else 1.
        dtype: convert the input to it first.
    Shape: input (*); result the same.
    Raises:
        IndexError: when `dim` is out of range.

    >>> import tdt
    >>> tdt.nn.functional.log_softmax(tdt.zeros(1, 2), dim=1)
    tensor([[-0.6931, -0.6931]])
    """
    return _softmax.log_softmax(input, _softmax.implicit_dim("log_softmax", input, dim, _stacklevel), dtype)


def adaptive_max_pool1d(input: Tensor, output_size: Ints, return_indices: bool = False) -> Any:
    """Maximum over `output_size` windows that cover the input evenly.

    Args:
        return_indices: return also the position of each maximum along L, int64.
    Shape: input (N, C, L) or (C, L); result (N, C, output_size) or (C, output_size).
    Raises:
        RuntimeError: when shapes do not fit, or a dimension other than the batch is empty.

    >>> import tdt
    >>> tdt.nn.functional.adaptive_max_pool1d(tdt.tensor([[1.0, 4.0, 3.0, 2.0]]), 2)
    tensor([[4., 3.]])
    """
    return _adaptive_max_pool_nd("adaptive_max_pool1d", 1, input, output_size, return_indices)


__all__: list[str] = []
