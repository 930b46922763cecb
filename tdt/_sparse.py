"""Sparse COO arrays: what an embedding's gradient is made of, and the tensor methods that look inside one.

A sparse tensor holds a `SparseCOO` where others hold a NumPy or CuPy array; ops refuse it unless their record lists it.
"""

from __future__ import annotations

from typing import Any

from tdt import _backend
from tdt._tensor import Tensor, wrap


class SparseCOO:
    """Coordinates and values: entry k is `values[k]` at `indices[:, k]`; entries at one place add up.

    indices: (sparse dims, nnz) int64. values: (nnz, *dense dims). shape: of the whole.
    """

    is_sparse = True
    base = None

    def __init__(self, indices: Any, values: Any, shape: tuple[int, ...], coalesced: bool = False):
        self.indices, self.values, self.shape, self.coalesced = indices, values, tuple(shape), coalesced
        self.dtype, self.ndim, self.itemsize = values.dtype, len(shape), values.dtype.itemsize
        self.size = 1
        for n in shape:
            self.size *= n
        self.device = getattr(values, "device", None)

    def copy(self) -> SparseCOO:
        """The same entries in memory of their own."""
        return SparseCOO(self.indices.copy(), self.values.copy(), self.shape, self.coalesced)

    def astype(self, dtype: Any) -> SparseCOO:
        """The same entries in another dtype."""
        return SparseCOO(self.indices, self.values.astype(dtype), self.shape, self.coalesced)

    def dense(self) -> Any:
        """The whole as a dense array."""
        xp = _backend.namespace(self.values)
        out = xp.zeros(self.shape, self.dtype)
        _backend.add_at(out, tuple(self.indices), self.values)
        return out

    def coalesce(self) -> SparseCOO:
        """The same array with sorted coordinates, each once."""
        if self.coalesced:
            return self
        xp = _backend.namespace(self.values)
        sparse_shape = self.shape[: len(self.indices)]
        flat = (
            xp.ravel_multi_index(tuple(self.indices), sparse_shape)
            if self.indices.size
            else self.indices.reshape(-1)[:0]
        )
        places, inverse = xp.unique(flat, return_inverse=True)
        values = xp.zeros((len(places), *self.values.shape[1:]), self.dtype)
        _backend.add_at(values, (inverse.reshape(-1),), self.values)
        indices = xp.stack(xp.unravel_index(places, sparse_shape)).astype("int64")
        return SparseCOO(indices, values, self.shape, True)

    def __add__(self, other: Any) -> Any:
        if isinstance(other, SparseCOO):
            xp = _backend.namespace(self.values)
            return SparseCOO(
                xp.concatenate([self.indices, other.indices], 1),
                xp.concatenate([self.values, other.values]),
                self.shape,
            )
        out = other.copy()
        _backend.add_at(out, tuple(self.indices), self.values)
        return out

    __radd__ = __add__


def _sparse(t: Tensor, what: str) -> SparseCOO:
    if not isinstance(t._a, SparseCOO):
        raise RuntimeError(f"{what} expected sparse coordinate tensor layout but got a dense (strided) tensor")
    return t._a


def to_dense(self: Tensor) -> Tensor:
    """A dense copy of a sparse tensor; a dense one is returned as it is."""
    return wrap(self._a.dense()) if isinstance(self._a, SparseCOO) else self


def coalesce(self: Tensor) -> Tensor:
    """A sparse tensor whose coordinates are sorted and occur once."""
    return wrap(_sparse(self, "coalesce").coalesce())


def is_coalesced(self: Tensor) -> bool:
    """Whether the coordinates are known to be sorted and to occur once."""
    return _sparse(self, "is_coalesced").coalesced


def indices(self: Tensor) -> Tensor:
    """Coordinates of a coalesced sparse tensor, (sparse dims, nnz)."""
    if not _sparse(self, "indices").coalesced:
        raise RuntimeError("Cannot get indices on an uncoalesced tensor, please call .coalesce() first")
    return wrap(self._a.indices)


def values(self: Tensor) -> Tensor:
    """Values of a coalesced sparse tensor, (nnz, *dense dims)."""
    if not _sparse(self, "values").coalesced:
        raise RuntimeError("Cannot get values on an uncoalesced tensor, please call .coalesce() first")
    return wrap(self._a.values)


def _indices(self: Tensor) -> Tensor:
    """Coordinates, coalesced or not."""
    return wrap(_sparse(self, "_indices").indices)


def _values(self: Tensor) -> Tensor:
    """Values, coalesced or not."""
    return wrap(_sparse(self, "_values").values)


def _nnz(self: Tensor) -> int:
    """How many entries are stored."""
    return len(_sparse(self, "_nnz").values)


for _method in (to_dense, coalesce, is_coalesced, indices, values, _indices, _values, _nnz):
    setattr(Tensor, _method.__name__, _method)
Tensor.is_sparse = property(
    lambda self: isinstance(self._a, SparseCOO), doc="Whether the tensor holds coordinates and values."
)
