"""Sparse tensors under PyTorch's names: `tdt.sparse.mm`, `sum`, `softmax`, `spdiags`, …

A sparse tensor, made by `tdt.sparse_coo_tensor` or `Tensor.to_sparse`, holds the coordinates and the values of its entries;
`sparse_csr_tensor` and `to_sparse_csr` make matrices that show their rows compressed.
Products with dense tensors, arithmetic with numbers and with other sparse tensors, sums, functions that map 0 to 0, indexing and
joining support them; other operations raise an error that names `to_dense()`. All of them are differentiable. The functions
here differ from those of the same names in `tdt` in the gradient of a sparse operand: it is sparse, with the same places.
"""

from tdt.sparse import _products  # noqa: F401  (which tells matmul of them)
from tdt.sparse._check import check_sparse_tensor_invariants
from tdt.sparse._functions import addmm, as_sparse_gradcheck, log_softmax, mm, sampled_addmm, softmax, spdiags, sum
from tdt.sparse._types import SPARSE_TYPES

__all__ = [
    "addmm", "as_sparse_gradcheck", "check_sparse_tensor_invariants", "log_softmax", "mm", "sampled_addmm", "softmax",
    "spdiags", "sum",
]  # fmt: skip
globals().update(SPARSE_TYPES)  # FloatTensor and its kin, by which old programs create sparse tensors
__all__ += list(SPARSE_TYPES)
