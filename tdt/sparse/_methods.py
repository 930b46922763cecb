"""Making sparse tensors, looking inside, and turning one kind into another: the functions and methods by PyTorch's names."""

from __future__ import annotations

from typing import Any

import numpy as np

from tdt._core import dtype as _dtype
from tdt._core import legacy_constructor
from tdt._core.creation import as_tensor, no_entries
from tdt._core.dtype import dtype as Dtype
from tdt._core.layout import layout as Layout
from tdt._core.layout import sparse_coo, sparse_csr
from tdt._core.methods import method
from tdt._core.sparse import SparseCOO
from tdt._core.tensor import LEAF, Tensor, wrap
from tdt.sparse import _check
from tdt.sparse._ops import coalesced, coo, entries, is_coo, to_layout, values_of
from tdt.sparse._ops import to_dense as _to_dense
from tdt.sparse._ops import to_sparse as _to_sparse


def sparse_coo_tensor(
    indices: Any = None, values: Any = None, size: Any = None, *, dtype: Dtype | None = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False, check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> Tensor:  # fmt: skip
    """A sparse tensor with `values[k]` at `indices[:, k]`, and 0 elsewhere; values at one place add up.

    Args:
        indices: the coordinates, integers; one column for each entry.
        values: the entries; gradients flow to them.
        size: of the whole tensor; by default the smallest that holds all indices. Given alone, the tensor has no entries.
        check_invariants: False skips the check that the indices lie inside `size`; True also checks `is_coalesced`.
        is_coalesced: whether the indices are known to be sorted and unique.
    Shape: indices (sparse_dim, nnz), values (nnz, *dense sizes); result `size`, which is (*sparse sizes, *dense sizes).
    Raises:
        TypeError: when neither `values` nor `size` is given, or `size` is not a tuple or list.
        RuntimeError: when the sizes do not fit, an index is negative or outside `size`, `is_coalesced` is checked and wrong,
            or requires_grad=True is given for a dtype that is neither floating-point nor complex.

    >>> import tdt
    >>> tdt.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3)).to_dense()
    tensor([[0., 0., 3.],
            [4., 0., 0.]])
    """
    if values is None:
        size, indices = (indices if size is None else size), None
        if size is None:
            raise TypeError('sparse_coo_tensor() missing 1 required positional arguments: "size"')
        return _finished(wrap(no_entries(tuple(size), len(size), dtype, device)), requires_grad)
    if size is not None and not isinstance(size, (tuple, list)):
        raise TypeError(f"sparse_coo_tensor(): argument 'size' must be tuple of ints, not {type(size).__name__}")
    values = as_tensor(values, dtype=dtype, device=device)
    values = values if values.ndim else values.unsqueeze(0)
    at = as_tensor(indices, device=values.device)
    at = (at.coalesce().to_dense() if is_coo(at) else at)._a.astype("int64")
    size = _check.shape(at, values, size)
    if check_invariants is not False:
        _check.bounds(at, size)
        if (
            is_coalesced
            and (check_invariants or _check.check_sparse_tensor_invariants.enabled)
            and not _check.in_order(SparseCOO(at, values._a, size))
        ):
            raise RuntimeError("cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor")
    tensor = coo(values, at, size, at.shape[1] < 2 if is_coalesced is None else is_coalesced)
    return _finished(tensor, requires_grad)


def sparse_csr_tensor(
    crow_indices: Any, col_indices: Any, values: Any, size: Any = None, *, dtype: Dtype | None = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False, check_invariants: bool | None = None,
) -> Tensor:  # fmt: skip
    """A sparse matrix by compressed rows: entries crow_indices[i] to crow_indices[i + 1] stand in row i, in order of columns.

    Args:
        values: the entries, row after row; gradients flow to them.
        size: of the matrix; by default the smallest that holds all indices.
        check_invariants: False skips the check of the indices.
    Shape: crow_indices (rows + 1), col_indices and values (nnz); result (rows, columns).
    Raises:
        NotImplementedError: when an argument is not a vector: tdt has no batches of such matrices.
        RuntimeError: when the indices are checked and do not fit each other, `values` or `size`, or requires_grad=True is
            given for a dtype that is neither floating-point nor complex.

    >>> import tdt
    >>> tdt.sparse_csr_tensor([0, 1, 3], [1, 0, 2], [4.0, 5.0, 6.0]).to_dense()
    tensor([[0., 4., 0.],
            [5., 0., 6.]])
    """
    values = as_tensor(values, dtype=dtype, device=device)
    starts, columns = (as_tensor(part, device=values.device)._a.astype("int64") for part in (crow_indices, col_indices))
    if starts.ndim != 1 or columns.ndim != 1 or values.ndim != 1:
        raise NotImplementedError(
            f"sparse_csr_tensor takes vectors of indices and values, got {list(starts.shape)}, {list(columns.shape)} and "
            f"{list(values.shape)}; for batches, multiply one by one"
        )
    if size is None:
        size = (len(starts) - 1, int(columns.max()) + 1 if columns.size else 0)
    if check_invariants is not False:
        _check.rows(starts, columns, len(values), size)
    at = SparseCOO.of_rows(starts, columns, values._a, size).indices
    return _finished(to_layout(coo(values, at, size, True), "sparse_csr"), requires_grad)


def _finished(tensor: Tensor, requires_grad: bool) -> Tensor:
    if requires_grad and not tensor.requires_grad:
        if tensor.dtype.category < _dtype.FLOAT:
            raise RuntimeError(
                f"Only Tensors of floating point and complex dtype can require gradients, not {tensor.dtype}"
            )
        tensor._edge = LEAF
    return tensor


def _sparse(t: Tensor, what: str) -> SparseCOO:
    if not t.is_sparse:
        kind = "SparseCsr" if is_coo(t) else "Strided"
        raise RuntimeError(
            f"{what} expected sparse coordinate tensor layout but got {kind}; .to_sparse() makes one of it"
        )
    return t._a


@method()
def to_dense(self: Tensor, dtype: Dtype | None = None, *, masked_grad: bool | None = None) -> Tensor:
    """A dense copy of a sparse tensor; a dense tensor is returned unchanged.

    Args:
        masked_grad: False passes on the whole gradient; True and None pass on only the gradient at the entries.
    Shape: self (*); result the same.

    >>> import tdt
    >>> tdt.sparse_coo_tensor([[2]], [5.0], (3,)).to_dense()
    tensor([0., 0., 5.])
    """
    self = self if dtype is None else self.to(dtype)
    return _to_dense(self, masked_grad is not False)


@method()
def to_sparse(
    self: Tensor, sparse_dim: int | None = None, *, layout: Layout | None = None, blocksize: Any = None,
    dense_dim: int | None = None,
) -> Tensor:  # fmt: skip
    """The elements of a dense tensor that are not 0, with their coordinates in the first `sparse_dim` dimensions (all).

    Args:
        layout: sparse_coo (the default), or sparse_csr for a matrix whose rows are compressed.
    Shape: self (*); result the same.
    Raises:
        NotImplementedError: when `layout` is another one, `blocksize` is given, or sparse_csr is asked of a tensor that is not
            a matrix.
        RuntimeError: when `sparse_dim` is not from 1 to the number of dimensions (0 for a tensor without dimensions), or
            differs from that of a tensor that is already sparse.

    >>> import tdt
    >>> tdt.tensor([0.0, 3.0, 0.0, 4.0]).to_sparse().indices()
    tensor([[1, 3]])
    """
    if layout is sparse_csr:
        return to_sparse_csr(self, dense_dim)
    if layout not in (None, sparse_coo) or blocksize is not None:
        raise NotImplementedError(f"to_sparse: tensors are made in layouts sparse_coo and sparse_csr, not {layout}")
    n = self.ndim - (dense_dim or 0) if sparse_dim is None else sparse_dim
    if is_coo(self):
        if sparse_dim not in (None, len(self._a.indices)):
            raise RuntimeError(
                "to_sparse: conversion from Sparse to Sparse with sparse_dim argument !=self.sparse_dim() is not supported"
            )
        return to_layout(self, "sparse_coo")
    if not 0 <= n <= self.ndim:
        raise RuntimeError(f"dense_to_sparse: sparse_dim argument must be in [0,{self.ndim}] range, but {n} is given")
    if self.ndim and not n:
        raise RuntimeError("dense_to_sparse: sparse_dim argument must be in >0 when self.dim()>0")
    return _to_sparse(self, n)


@method()
def to_sparse_coo(self: Tensor) -> Tensor:
    """`to_sparse()`: the elements that are not 0, with their coordinates.

    Shape: self (*); result the same.

    >>> import tdt
    >>> tdt.tensor([0.0, 3.0]).to_sparse_coo().values()
    tensor([3.])
    """
    return to_sparse(self)


@method()
def to_sparse_csr(self: Tensor, dense_dim: int | None = None) -> Tensor:
    """A matrix, dense or sparse, as a sparse one whose rows are compressed.

    Shape: self (m, n); result the same.
    Raises:
        NotImplementedError: when the tensor is not a matrix, or dense dimensions are asked for.

    >>> import tdt
    >>> tdt.eye(2).to_sparse_csr().crow_indices()
    tensor([0, 1, 2])
    """
    if self.ndim != 2 or dense_dim or (is_coo(self) and len(self._a.indices) != 2):
        raise NotImplementedError(
            f"to_sparse_csr takes a matrix without dense dimensions, got {list(self.shape)}; to_sparse() takes any tensor"
        )
    return to_layout(_to_sparse(self, 2), "sparse_csr")


def _unsupported_layout(name: str) -> NotImplementedError:
    return NotImplementedError(
        f"{name}: tdt has no layouts compressed by columns or blocks; use to_sparse_csr() or to_sparse()"
    )


@method()
def to_sparse_csc(self: Tensor, *args: Any, **options: Any) -> Tensor:
    """Not supported: a sparse matrix compressed by columns; see `to_sparse_csr`.

    Shape: self (m, n); there is no result.
    Raises:
        NotImplementedError: always.

    >>> import tdt
    >>> try:
    ...     tdt.zeros(2, 2).to_sparse_csc()
    ... except NotImplementedError as error:
    ...     print(str(error).split(":")[0])
    to_sparse_csc
    """
    raise _unsupported_layout("to_sparse_csc")


@method()
def to_sparse_bsr(self: Tensor, *args: Any, **options: Any) -> Tensor:
    """Not supported: a sparse matrix compressed by rows of blocks; see `to_sparse_csr`.

    Shape: self (m, n); there is no result.
    Raises:
        NotImplementedError: always.

    >>> import tdt
    >>> try:
    ...     tdt.zeros(2, 2).to_sparse_bsr()
    ... except NotImplementedError as error:
    ...     print(str(error).split(":")[0])
    to_sparse_bsr
    """
    raise _unsupported_layout("to_sparse_bsr")


@method()
def to_sparse_bsc(self: Tensor, *args: Any, **options: Any) -> Tensor:
    """Not supported: a sparse matrix compressed by columns of blocks; see `to_sparse_csr`.

    Shape: self (m, n); there is no result.
    Raises:
        NotImplementedError: always.

    >>> import tdt
    >>> try:
    ...     tdt.zeros(2, 2).to_sparse_bsc()
    ... except NotImplementedError as error:
    ...     print(str(error).split(":")[0])
    to_sparse_bsc
    """
    raise _unsupported_layout("to_sparse_bsc")


def _rows_compressed(t: Tensor, what: str) -> SparseCOO:
    if not t.is_sparse_csr:
        kind = "Sparse" if is_coo(t) else "Strided"
        raise RuntimeError(
            f"{what} expected sparse row compressed tensor layout but got {kind}; .to_sparse_csr() makes one of it"
        )
    return t._a


@method()
def crow_indices(self: Tensor) -> Tensor:
    """Of a matrix with compressed rows: the number of entries before each row, and last the number of all entries.

    Shape: self (rows, columns); result (rows + 1).
    Raises:
        RuntimeError: when the layout is not sparse_csr.

    >>> import tdt
    >>> tdt.tensor([[0.0, 4.0], [5.0, 6.0]]).to_sparse_csr().crow_indices()
    tensor([0, 1, 3])
    """
    return wrap(_rows_compressed(self, "crow_indices").starts)


@method()
def col_indices(self: Tensor) -> Tensor:
    """Of a matrix with compressed rows: the column of each entry.

    Shape: self (rows, columns); result (nnz).
    Raises:
        RuntimeError: when the layout is not sparse_csr.

    >>> import tdt
    >>> tdt.tensor([[0.0, 4.0], [5.0, 6.0]]).to_sparse_csr().col_indices()
    tensor([1, 0, 1])
    """
    return wrap(_rows_compressed(self, "col_indices").indices[1])


@method()
def sparse_mask(self: Tensor, mask: Tensor) -> Tensor:
    """The elements of a tensor, dense or sparse, at the places where the sparse `mask` has entries.

    Shape: self (*), mask the same; result the same.
    Raises:
        RuntimeError: when the layout of `mask` is not sparse_coo, or the shapes differ.

    >>> import tdt
    >>> mask = tdt.tensor([1.0, 0.0, 1.0]).to_sparse()
    >>> tdt.tensor([7.0, 8.0, 9.0]).sparse_mask(mask).to_dense()
    tensor([7., 0., 9.])
    """
    at = _sparse(mask, "sparse_mask")
    if self.shape != mask.shape:
        raise RuntimeError(
            f"sparse_mask(): operands have incompatible sizes; self has size {list(self.shape)} but mask has size "
            f"{list(mask.shape)}"
        )
    return coo(entries(self, at.indices), at.indices, self.shape, at.coalesced)


@method()
def coalesce(self: Tensor) -> Tensor:
    """The same sparse tensor with sorted, unique coordinates; values at equal coordinates are added.

    Shape: self (*); result the same.
    Raises:
        RuntimeError: when the layout is not sparse_coo.

    >>> import tdt
    >>> tdt.sparse_coo_tensor([[1, 1]], [2.0, 3.0], (2,)).coalesce().values()
    tensor([5.])
    """
    _sparse(self, "coalesce")
    return coalesced(self)


@method()
def is_coalesced(self: Tensor) -> bool:
    """Whether the coordinates are known to be sorted and unique.

    Shape: self (*); result a bool.
    Raises:
        RuntimeError: when the layout is not sparse_coo.

    >>> import tdt
    >>> x = tdt.sparse_coo_tensor([[1, 1]], [2.0, 3.0], (2,))
    >>> x.is_coalesced(), x.coalesce().is_coalesced()
    (False, True)
    """
    return _sparse(self, "is_coalesced").coalesced


@method()
def _coalesced_(self: Tensor, coalesced: bool) -> Tensor:
    """Set the flag that the coordinates are sorted and unique, without a check."""
    _sparse(self, "_coalesced_").coalesced = coalesced
    return self


@method()
def indices(self: Tensor) -> Tensor:
    """Coordinates of the entries of a coalesced sparse tensor.

    Shape: self (*); result (sparse_dim, nnz).
    Raises:
        RuntimeError: when the layout is not sparse_coo, or the tensor is not coalesced.

    >>> import tdt
    >>> tdt.eye(2).to_sparse().indices()
    tensor([[0, 1],
            [0, 1]])
    """
    if not _sparse(self, "indices").coalesced:
        raise RuntimeError("Cannot get indices on an uncoalesced tensor, please call .coalesce() first")
    return wrap(self._a.indices)


@method()
def values(self: Tensor) -> Tensor:
    """Values of the entries of a coalesced sparse tensor; gradients flow through them.

    Shape: self (*); result (nnz, *dense sizes).
    Raises:
        RuntimeError: when the tensor is dense, or not coalesced.

    >>> import tdt
    >>> tdt.tensor([0.0, 3.0, 4.0]).to_sparse().values()
    tensor([3., 4.])
    """
    if not is_coo(self):
        raise RuntimeError("values expected sparse tensor layout but got Strided; .to_sparse() makes one of it")
    if not self._a.coalesced:
        raise RuntimeError("Cannot get values on an uncoalesced tensor, please call .coalesce() first")
    return values_of(self)


@method()
def _indices(self: Tensor) -> Tensor:
    """Coordinates, coalesced or not."""
    return wrap(_sparse(self, "_indices").indices)


@method()
def _values(self: Tensor) -> Tensor:
    """Values, coalesced or not, without their gradient."""
    return wrap(_sparse(self, "_values").values)


@method()
def _nnz(self: Tensor) -> int:
    """How many entries are stored."""
    return len((self if is_coo(self) else _sparse(self, "_nnz"))._a.values)


@method()
def sparse_resize_(self: Tensor, size: Any, sparse_dim: int, dense_dim: int) -> Tensor:
    """Change the size of a sparse tensor in place, keeping its entries.

    Args:
        sparse_dim: number of leading dimensions that the coordinates index.
        dense_dim: number of the remaining dimensions.
    Shape: self (*); result `size`.
    Raises:
        RuntimeError: when the layout is not sparse_coo, `size` does not have sparse_dim + dense_dim dimensions, or a tensor
            with entries would shrink or change its number of sparse or dense dimensions.
        TypeError: when `size` is not a tuple or list.

    >>> import tdt
    >>> tdt.tensor([0.0, 3.0]).to_sparse().sparse_resize_((4,), 1, 0).to_dense()
    tensor([0., 3., 0., 0.])
    """
    a, size = _sparse(self, "sparse_resize_"), _sizes("sparse_resize_", size, sparse_dim, dense_dim)
    if len(a.values):
        same = sparse_dim == len(a.indices) and dense_dim == a.ndim - sparse_dim
        if not same or any(new < old for new, old in zip(size, a.shape, strict=True)):
            raise RuntimeError(
                f"sparse_resize_: with entries, sizes may only grow and dimensions stay sparse or dense: from {list(a.shape)} "
                f"with {len(a.indices)} sparse dimensions to {list(size)} with {sparse_dim}; use sparse_resize_and_clear_"
            )
        values = a.xp.zeros((len(a.values), *size[sparse_dim:]), a.dtype)
        values[tuple([slice(0, n) for n in a.values.shape])] = a.values
        a[...] = SparseCOO(a.indices, values, size, a.coalesced)
        return self
    return sparse_resize_and_clear_(self, size, sparse_dim, dense_dim)


@method()
def sparse_resize_and_clear_(self: Tensor, size: Any, sparse_dim: int, dense_dim: int) -> Tensor:
    """Change the size of a sparse tensor in place and remove all entries.

    Args:
        sparse_dim: number of leading dimensions that the coordinates index.
        dense_dim: number of the remaining dimensions.
    Shape: self (*); result `size`.
    Raises:
        RuntimeError: when the layout is not sparse_coo, or `size` does not have sparse_dim + dense_dim dimensions.
        TypeError: when `size` is not a tuple or list.

    >>> import tdt
    >>> tdt.tensor([0.0, 3.0]).to_sparse().sparse_resize_and_clear_((3,), 1, 0).to_dense()
    tensor([0., 0., 0.])
    """
    a, size = _sparse(self, "sparse_resize_and_clear_"), _sizes("sparse_resize_", size, sparse_dim, dense_dim)
    a[...] = no_entries(size, sparse_dim, self.dtype, self.device)
    return self


def _sizes(name: str, size: Any, sparse_dim: int, dense_dim: int) -> tuple[int, ...]:
    if not isinstance(size, (tuple, list)):
        raise TypeError(f"{name}(): argument 'size' (position 1) must be tuple of ints, not {type(size).__name__}")
    if len(size) != sparse_dim + dense_dim:
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(size)}, sparse_dim = {sparse_dim}, "
            f"dense_dim = {dense_dim}"
        )
    return tuple(size)


@method()
def new(self: Tensor, *args: Any, device: Any = None) -> Tensor:
    """Legacy constructor: a tensor with the dtype and device of `self`, from sizes, a sequence, a tensor or a storage.

    A tensor made from sizes is uninitialized. For a sparse `self`: `x.new(indices, values, size)`, or without entries
    `x.new(2, 3)`.

    Shape: self (*); result the given sizes, or the shape of the given data.
    Raises:
        TypeError: when a dense `self` gets a tensor of another dtype or device, or one number that is not an integer.
        RuntimeError: when a size is negative, or the parts of a sparse tensor do not fit.

    >>> import tdt
    >>> tdt.zeros(3, dtype=tdt.int64).new([1, 2])
    tensor([1, 2])
    """
    if not isinstance(self._a, SparseCOO):
        return legacy_constructor.new(self, *args, device=device)
    if not (args and isinstance(args[0], Tensor)):
        args = np.empty((len(args) or 1, 0), np.int64), [], args or (0,)
    return sparse_coo_tensor(*args, dtype=self.dtype, device=device or self.device)
