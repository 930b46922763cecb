"""Products of sparse matrices with dense ones and with each other, by SciPy's or CuPy's compressed rows."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from tdt._core.sparse import SparseCOO
from tdt._core.tensor import Tensor
from tdt._ops.linalg import products
from tdt._ops.nn import linear
from tdt.autograd._dispatch import apply
from tdt.sparse._ops import form, is_coo


@form(products._matmul)
def _matmul(xp: ModuleType, x: Any, y: Any) -> Any:
    if not isinstance(x, SparseCOO):  # a dense one on the left: the transposed product
        flipped = _matmul.forward(xp, _flipped(y), x if x.ndim == 1 else x.swapaxes(-1, -2))
        return flipped if x.ndim == 1 else xp.ascontiguousarray(flipped.swapaxes(-1, -2))
    if isinstance(y, SparseCOO):
        return _both_sparse(x, y)
    if x.ndim == 3:
        return _batched(x, y)
    return x.xp.ascontiguousarray(csr(x) @ y)


def _flipped(x: SparseCOO) -> SparseCOO:
    turned = [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2]
    return SparseCOO(x.indices[turned], x.values, tuple([x.shape[d] for d in turned]))


def csr(x: SparseCOO) -> Any:
    """A matrix as SciPy's (or CuPy's) compressed rows."""
    library = importlib.import_module("scipy.sparse" if x.xp.__name__ == "numpy" else "cupyx.scipy.sparse")
    return library.coo_matrix((x.values, tuple(x.indices)), x.shape).tocsr()


def _both_sparse(x: SparseCOO, y: SparseCOO) -> SparseCOO:
    product = (csr(x) @ csr(y)).tocoo()
    indices = x.xp.stack([product.row, product.col]).astype("int64")
    return SparseCOO(indices, product.data, product.shape).coalesce()


def _batched(x: SparseCOO, y: Any) -> Any:
    """One product with the matrices of x along a diagonal, and those of y above each other."""
    b, n, m = x.shape
    batch, row, column = x.indices
    block_diagonal = SparseCOO(x.xp.stack([batch * n + row, batch * m + column]), x.values, (b * n, b * m))
    return (csr(block_diagonal) @ y.reshape(b * m, -1)).reshape(b, n, -1)


@products._matmul.sparse_form
def _matmul_front(x: Tensor, y: Tensor) -> Tensor:
    for t in (x, y):
        if is_coo(t) and t._a.values.ndim > 1:
            raise NotImplementedError(
                "matmul of a sparse tensor with dense dimensions is not implemented; call .to_dense()"
            )
    ranks = (x.ndim, y.ndim)
    if ranks not in ((2, 2), (2, 1), (1, 2), (3, 3)) or (ranks == (3, 3) and (not is_coo(x) or is_coo(y))):
        raise NotImplementedError(
            f"matmul of sparse tensors takes matrices, a matrix and a vector, or a sparse batch times a dense one; got "
            f"{list(x.shape)} and {list(y.shape)}; call .to_dense() first"
        )
    if (is_coo(x) and x.ndim == 1) or (is_coo(y) and y.ndim == 1):
        raise NotImplementedError("matmul of a sparse vector is not implemented; call .to_dense() first")
    return apply(_matmul, (x, y), {})


@linear._linear.sparse_form
def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    product = x @ weight.t()
    return product if bias is None else product + bias
