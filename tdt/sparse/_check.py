"""What the parts of a sparse tensor must be to one another."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from tdt._core.sparse import SparseCOO
from tdt._core.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])


def shape(indices: Any, values: Tensor, size: Any) -> tuple[int, ...]:
    """The size, given or inferred from the largest indices; RuntimeError where the parts do not fit."""
    if indices.ndim != 2:
        if size is not None and indices.ndim:
            _refuse_ranks(size, len(indices), values.ndim - 1)
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(indices.shape)}")
    if indices.shape[1] != len(values):
        raise RuntimeError(
            f"indices and values must have same nnz, but got nnz from indices: {indices.shape[1]}, nnz from values: "
            f"{len(values)}"
        )
    if size is None:
        for d, row in enumerate(indices):
            if row.size and row.min() < 0:
                raise RuntimeError(f"found negative index {int(row.min())} for dim {d}")
        return (*[int(row.max()) + 1 if row.size else 0 for row in indices], *values.shape[1:])
    if len(size) != len(indices) + values.ndim - 1:
        _refuse_ranks(size, len(indices), values.ndim - 1)
    expected = [len(values), *size[len(indices) :]]
    if expected != list(values.shape):
        raise RuntimeError(f"values has incorrect size, expected {expected}, got {list(values.shape)}")
    return tuple([int(n) for n in size])


def _refuse_ranks(size: Any, sparse_dim: int, dense_dim: int) -> None:
    raise RuntimeError(
        f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(size)}, sparse_dim = {sparse_dim}, "
        f"dense_dim = {dense_dim}"
    )


def bounds(indices: Any, size: tuple[int, ...]) -> None:
    """RuntimeError for an index outside the size."""
    for d, (n, row) in enumerate(zip(size, indices, strict=False)):
        if row.size and row.min() < 0:
            raise RuntimeError(f"found negative index {int(row.min())} for dim {d}")
        if row.size and row.max() >= n:
            raise RuntimeError(
                f"size is inconsistent with indices: for dim {d}, size is {n} but found index {int(row.max())}"
            )


def in_order(x: SparseCOO) -> bool:
    """Whether the coordinates are sorted and occur once."""
    places = x.places
    return bool((places[1:] > places[:-1]).all())


def rows(starts: Any, columns: Any, nnz: int, size: Any) -> None:
    """RuntimeError for compressed rows that do not fit each other or the size, or whose columns are not in order."""
    if len(size) != 2 or len(starts) != size[0] + 1:
        raise RuntimeError(
            f"crow_indices.shape[-1] must be equal to nrows + 1 as defined by size, got {len(starts)} for {list(size)}"
        )
    if len(columns) != nnz:
        raise RuntimeError(f"number of col_indices and values must be the same, got {len(columns)} and {nnz}")
    steps = starts[1:] - starts[:-1]
    if starts[0] != 0 or starts[-1] != nnz or (steps < 0).any():
        raise RuntimeError(f"crow_indices must rise from 0 to nnz = {nnz}, got {starts.tolist()}")
    if nnz and not (columns.min() >= 0 and columns.max() < size[1]):
        raise RuntimeError(f"col_indices must lie in [0, {size[1]}), got {columns.tolist()}")
    falls = columns[1:] <= columns[:-1]
    first = starts[1:-1]
    falls[first[(first > 0) & (first < nnz)] - 1] = False  # the last column of a row and the first of the next
    if falls.any():
        raise RuntimeError("col_indices must be sorted and distinct along each row")


class check_sparse_tensor_invariants:
    """Whether the invariants of new sparse tensors are checked: `with`, a decorator, or enable() and disable().

    Sizes and bounds are always checked; this adds the order of indices that are declared coalesced.

    >>> import tdt
    >>> with tdt.sparse.check_sparse_tensor_invariants():
    ...     tdt.sparse.check_sparse_tensor_invariants.is_enabled()
    True
    """

    enabled = False

    @staticmethod
    def is_enabled() -> bool:
        """Whether the checks are on."""
        return check_sparse_tensor_invariants.enabled

    @staticmethod
    def enable() -> None:
        """Turn the checks on."""
        check_sparse_tensor_invariants.enabled = True

    @staticmethod
    def disable() -> None:
        """Turn the checks off."""
        check_sparse_tensor_invariants.enabled = False

    def __init__(self, enable: bool = True):
        self.on, self.before = enable, False

    def __enter__(self) -> None:
        self.before, check_sparse_tensor_invariants.enabled = check_sparse_tensor_invariants.enabled, self.on

    def __exit__(self, *error: object) -> None:
        check_sparse_tensor_invariants.enabled = self.before

    def __call__(self, function: F) -> F:
        """`function`, run with the checks on or off."""

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.on):
                return function(*args, **kwargs)

        return cast("F", wrapper)
