"""PyTorch's errors for tensors of indices that a function does not take."""

from __future__ import annotations

import numpy as np

from tdt._core import dtype as _dtype
from tdt._core.dtype import SCALAR_NAMES
from tdt._core.tensor import Tensor

# By function: the dtypes of an index; PyTorch's errors for one of several dimensions, and of another dtype.
_INTEGERS = _dtype.int64, _dtype.int32
_SUMMED = (
    _INTEGERS,
    (
        IndexError,
        "{name}_(): Index is supposed to be a vector, but got dim: {ndim} with type: {kind} and size: {shape}",
    ),
    (RuntimeError, "{name}_(): Expected dtype int32/int64 for index but got: {kind}"),
)
_INDICES: dict[str, tuple] = {
    "index_select": (
        _INTEGERS,
        (IndexError, "{name}(): Index is supposed to be a vector"),
        (RuntimeError, "{name}(): Expected dtype int32 or int64 for index"),
    ),
    "index_add": _SUMMED,
    "index_reduce": _SUMMED,
    "index_copy": (
        (_dtype.int64,),
        (IndexError, "{name}_(): Index should have dimension 1 or 0 (got {ndim})"),
        (RuntimeError, "{name}_(): Expected a long tensor for index, but got {kind}"),
    ),
    "index_fill": (
        (_dtype.int64,),
        (RuntimeError, "Index has to be a vector/scalar."),
        (IndexError, "{name}_(): Expected dtype int64 for index."),
    ),
}


def vector_index(name: str, index: Tensor) -> None:
    """The function's error for an index of several dimensions, or of another dtype than it takes."""
    ndim = index._a.ndim
    if ndim <= 1 and index._a.dtype == np.int64:
        return
    types, of_rank, of_type = _INDICES[name]
    wrong = [of_rank] * (ndim > 1) + [of_type] * (index.dtype not in types)
    if wrong:
        error, message = wrong[-1 if name == "index_fill" else 0]
        kind = SCALAR_NAMES[index.dtype]
        raise error(message.format(name=name, ndim=ndim, kind=kind, shape=list(index.shape)))


def check_places(input: Tensor, indices: Tensor) -> None:
    """RuntimeError for indices along a dimension that have another rank than `input`, or are not int64."""
    if input.ndim != indices.ndim:
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, but got "
            f"{input.ndim} dimensions for input, and {indices.ndim} dimensions for indices"
        )
    if indices.dtype is not _dtype.int64:
        raise RuntimeError(
            f"torch.take_along_dim(): dtype of indices should be Long but got {SCALAR_NAMES[indices.dtype]}"
        )
