"""Sparse COO arrays, and how ops run on them.

A sparse tensor has a `SparseCOO` in place of a NumPy or CuPy array. Ops raise an error for it, unless their record says how they
take it (`sparse`, `sparse_values`), or a function is registered as their `sparse_form`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

from tdt import _backend

BY_VALUE: dict[
    str, Callable[[Any], Callable[..., Any]]
] = {}  # the form of an op, by `sparse_values`: from `tdt.sparse`


def on_sparse(op: Any, operands: tuple, attributes: dict) -> Any:
    """Run `op` on operands, some of them sparse; NotImplementedError if it does not support sparse tensors."""
    if op.on_sparse is None:
        if not op.sparse_values:
            raise NotImplementedError(f"{op.name} is not implemented for sparse tensors; call .to_dense() first")
        op.on_sparse = BY_VALUE[op.sparse_values](op)
    return op.on_sparse(*operands, **attributes)


def densify_unsupported(op: Any, grads: list) -> list:
    """The gradients for the backward of `op`, with sparse ones converted to dense if its rules do not support them."""
    if op.sparse or op.sparse_gradients:
        return grads
    return [g if g is None or not getattr(g, "is_sparse", False) else _dense(g) for g in grads]


def _dense(g: Any) -> Any:
    return g.dense() if isinstance(g, SparseCOO) else g.to_dense()


class SparseCOO:
    """Coordinates and values: entry k is `values[k]` at `indices[:, k]`; entries at one place add up.

    indices: (sparse dims, nnz) int64. values: (nnz, *dense dims). shape: of the whole. layout: "sparse_csr" for a matrix, in
    order, that shows its rows compressed; it computes as any other.
    """

    is_sparse = True
    base = None
    __array_ufunc__ = None  # makes NumPy call our reflected operators for `array + self`
    flags = SimpleNamespace(c_contiguous=False)

    def __init__(self, indices: Any, values: Any, shape: tuple[int, ...], coalesced: bool = False,
                 layout: str = "sparse_coo"):  # fmt: skip
        self.layout = layout
        self.indices, self.values, self.shape, self.coalesced = indices, values, tuple(shape), coalesced
        self.dtype, self.ndim, self.itemsize = values.dtype, len(shape), values.dtype.itemsize
        self.strides = (0,) * self.ndim
        self.size = 1
        for n in shape:
            self.size *= n
        self.device = getattr(values, "device", None)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise RuntimeError(
            f"a sparse tensor has no elements in memory to look at (for {name!r}); call .to_dense() first"
        )

    @property
    def xp(self) -> ModuleType:
        """The array module of the coordinates and values: numpy or cupy."""
        return _backend.namespace(self.values)

    @property
    def places(self) -> Any:
        """The linear index of each entry, in row-major order."""
        flat = self.xp.zeros(self.indices.shape[1], "int64")
        for n, row in zip(self.shape, self.indices, strict=False):
            flat = flat * n + row
        return flat

    def with_values(self, values: Any) -> SparseCOO:
        """The same indices with other values, of any dtype."""
        return SparseCOO(self.indices, values, self.shape, self.coalesced, self.layout)

    @staticmethod
    def of_rows(starts: Any, columns: Any, values: Any, shape: tuple[int, ...]) -> SparseCOO:
        """The matrix with this compressed-row (CSR) representation."""
        xp = _backend.namespace(values)
        rows = xp.searchsorted(starts, xp.arange(len(columns)), "right") - 1
        return SparseCOO(xp.stack([rows, columns]).astype("int64"), values, shape, True, "sparse_csr")

    def to_layout(self, layout: str) -> SparseCOO:
        """The same entries in another layout."""
        return SparseCOO(self.indices, self.values, self.shape, self.coalesced, layout)

    @property
    def parts(self) -> dict[str, Any]:
        """The arrays of the entries in this layout, by PyTorch's names."""
        if self.layout == "sparse_coo":
            return {"indices": self.indices, "values": self.values}
        return {"crow_indices": self.starts, "col_indices": self.indices[1], "values": self.values}

    @property
    def starts(self) -> Any:
        """The row pointers of a CSR matrix: the number of entries before each row, and their total."""
        return self.xp.searchsorted(self.indices[0], self.xp.arange(self.shape[0] + 1)).astype("int64")

    def copy(self) -> SparseCOO:
        """A copy."""
        return SparseCOO(self.indices.copy(), self.values.copy(), self.shape, self.coalesced, self.layout)

    def astype(self, dtype: Any) -> SparseCOO:
        """The same entries in another dtype."""
        return self.with_values(self.values.astype(dtype))

    def to_device(self, target: Any) -> SparseCOO:
        """The same entries on another device."""
        indices, values = _backend.to_device(self.indices, target), _backend.to_device(self.values, target)
        return SparseCOO(indices, values, self.shape, self.coalesced, self.layout)

    def dense(self) -> Any:
        """The dense array."""
        return self.added_to(self.xp.zeros(self.shape, self.dtype))

    def added_to(self, out: Any) -> Any:
        """Add the entries to the dense array `out`, in place."""
        # One more dimension, so that a tensor without sparse dimensions has an index too.
        _backend.add_at(out[None], (self.xp.zeros_like(self.places), *self.indices), self.values)
        return out

    def coalesce(self) -> SparseCOO:
        """The same array with sorted, unique indices."""
        if self.coalesced:
            return self
        _, first, inverse = self.xp.unique(self.places, return_index=True, return_inverse=True)
        values = self.xp.zeros((len(first), *self.values.shape[1:]), self.dtype)
        _backend.add_at(values, (inverse.reshape(-1),), self.values)
        return SparseCOO(self.indices[:, first], values, self.shape, True)

    def __setitem__(self, where: Any, other: SparseCOO) -> None:
        """Replace the contents by another array, cast to this dtype: `x[...] = other` stores results of in-place ops."""
        assert where is ... and isinstance(other, SparseCOO)
        self.__init__(other.indices, other.values.astype(self.dtype), other.shape, other.coalesced, other.layout)  # type: ignore[misc]

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, SparseCOO):
            return self.added_to(other.copy())
        if self.indices.shape == other.indices.shape and bool((self.indices == other.indices).all()):
            values = self.values + other.values
            return SparseCOO(self.indices, values, self.shape, self.coalesced and other.coalesced, self.layout)
        indices = self.xp.concatenate([self.indices, other.indices], 1)
        both = SparseCOO(indices, self.xp.concatenate([self.values, other.values]), self.shape)
        return both.coalesce().to_layout(self.layout) if self.coalesced and other.coalesced else both

    __radd__ = __add__
