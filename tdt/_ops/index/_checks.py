"""PyTorch's errors for tensors of indices that a function does not take, or that are out of range."""

from __future__ import annotations

from typing import Any

import numpy as np

from tdt._core import dtype as _dtype
from tdt._core.dtype import SCALAR_NAMES
from tdt._core.tensor import Tensor
from tdt._ops._common import wrap_dim

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


def checked_dim(name: str, x: Tensor, dim: int, index: Tensor, src: Tensor | None = None) -> int:
    """`dim` from the front, after PyTorch's checks of index and source against x."""
    d = wrap_dim(dim, x._a.ndim)
    if src is None and index._a.shape == x._a.shape and index._a.dtype == np.int64:
        return d
    if index.numel() and index.dtype not in (_dtype.int64, _dtype.int32):
        shown = name if name == "gather" else "scatter"
        raise RuntimeError(f"{shown}(): Expected dtype int32/int64 for index")
    if src is not None and src.dtype is not x.dtype:
        raise RuntimeError(f"{name}(): Expected self.dtype to be equal to src.dtype")
    if not index.numel():
        return d
    if max(index.ndim, 1) != max(x.ndim, 1):
        raise RuntimeError("Index tensor must have the same number of dimensions as self tensor" if src is not None else
                           "Index tensor must have the same number of dimensions as input tensor")  # fmt: skip
    if src is not None and max(src.ndim, 1) != max(index.ndim, 1):
        raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")
    for k, n in enumerate(index._a.shape):
        small = x._a.shape[k] if x.ndim and k != d else n
        if n > small or (src is not None and src.ndim and n > src._a.shape[k]):
            also = f" and to be no larger than src {list(src._a.shape)}" if src is not None else ""
            if name == "gather":
                raise RuntimeError(
                    f"Size does not match at dimension {k} expected index {list(index.shape)} to be no larger than "
                    f"self {list(x.shape)} apart from dimension {d}"
                )
            raise RuntimeError(
                f"Expected index {list(index.shape)} to be no larger than self {list(x.shape)} apart from "
                f"dimension {d}{also}"
            )
    return d


UNSIGNED = {np.dtype(f"i{size}"): np.dtype(f"u{size}") for size in (1, 2, 4, 8)}


def unsigned(index: Any) -> Any:
    """The bits of integers read without sign."""
    kind = UNSIGNED.get(index.dtype)
    return index if kind is None else index.view(kind)


def all_in_range(index: Any, n: int) -> bool:
    """Whether all integers lie in [0, n): a negative one is a large one if its bits are read without sign."""
    if index.size == 1:
        return bool(0 <= index.item() < n)
    bits = unsigned(index)
    return bool((np.maximum.reduce(bits, None) if bits.__class__ is np.ndarray else bits.max()) < n)


def in_range(index: Any, n: int, dim: int) -> None:
    """RuntimeError for an index of NumPy outside [0, n)."""
    if index.size and isinstance(index, np.ndarray) and not all_in_range(index, n):
        bad = index[(index < 0) | (index >= n)].flat[0]
        raise RuntimeError(f"index {bad} is out of bounds for dimension {dim} with size {n}")
