"""Matrix products of groups: the experts of a mixture, each with as many rows as were sent to it."""

from __future__ import annotations

import itertools

from tdt._core.dtype import bfloat16, dtype, float16, float32, int32
from tdt._core.tensor import Tensor
from tdt._ops.shape.join import cat, stack


def grouped_mm(mat_a: Tensor, mat_b: Tensor, *, offs: Tensor | None = None, bias: None = None,
               out_dtype: dtype | None = None) -> Tensor:  # fmt: skip
    """Products of groups of matrices, as the experts of a mixture of experts compute them.

    Three-dimensional operands have a matrix for each of G groups; two-dimensional ones are cut into groups that end at `offs`,
    (M, K) with (K, N) along K. Rows or columns after the last group are 0.

    Args:
        offs: ends of the groups, an increasing vector (G), int32; None if both operands have 3 dimensions.
        bias: must be None, as in PyTorch.
        out_dtype: None or the dtype of mat_a.
    Shape: (G, M, K) and (G, K, N) give (G, M, N); (M, K) and (G, K, N), or (G, M, K) and (K, N), give (M, N); (M, K) and (K, N)
        give (G, M, N).
    Raises:
        RuntimeError: when shapes, dtypes or offsets do not fit, or bias is given.
    Source: Shazeer et al., "Outrageously Large Neural Networks: The Sparsely-Gated Mixture-of-Experts Layer", 2017.

    >>> import tdt
    >>> offs = tdt.tensor([1, 3], dtype=tdt.int32)
    >>> tdt.nn.functional.grouped_mm(tdt.ones(3, 2), tdt.tensor([[[1.0], [1.0]], [[2.0], [3.0]]]), offs=offs).tolist()
    [[2.0], [5.0], [5.0]]
    """
    _check(mat_a, mat_b, offs, bias, out_dtype)
    if offs is None:
        return mat_a @ mat_b
    ends = [0, *offs.tolist()]
    if ends != sorted(ends) or ends[-1] > _cut_size(mat_a, mat_b):
        raise RuntimeError(f"grouped_mm: offs must grow and end within {_cut_size(mat_a, mat_b)}, got {ends[1:]}")
    cuts = [slice(*pair) for pair in itertools.pairwise(ends)]
    if mat_a.dim() == mat_b.dim():
        return stack([mat_a[:, cut] @ mat_b[cut] for cut in cuts])
    if mat_a.dim() == 2:
        rest = mat_a.new_zeros(mat_a.shape[0] - ends[-1], mat_b.shape[2])
        return cat([*(mat_a[cut] @ b for cut, b in zip(cuts, mat_b, strict=True)), rest])
    rest = mat_a.new_zeros(mat_a.shape[1], mat_b.shape[1] - ends[-1])
    return cat([*(a @ mat_b[:, cut] for cut, a in zip(cuts, mat_a, strict=True)), rest], 1)


def _cut_size(a: Tensor, b: Tensor) -> int:
    """The size of the dimension that the offsets cut."""
    return a.shape[1 if b.dim() == 2 else 0] if a.dim() == 2 else b.shape[1]


def _check(a: Tensor, b: Tensor, offs: Tensor | None, bias: Tensor | None, out_dtype: dtype | None) -> None:
    def refuse(text: str) -> RuntimeError:
        return RuntimeError(f"{text} (mat_a {tuple(a.shape)}, mat_b {tuple(b.shape)})")

    for x, name in ((a, "mat_a"), (b, "mat_b")):
        if x.dtype not in (float32, bfloat16, float16):
            raise RuntimeError(f"Expected {name} to be Float32, BFloat16 or Float16 matrix, got {x.dtype}")
        if x.dim() not in (2, 3):
            raise refuse(f"{name} has to be 2 or 3d")
    if a.shape[-1] != b.shape[-2]:
        raise refuse("contraction dimension of mat_a and mat_b must match")
    if (offs is None) != (a.dim() == b.dim() == 3):
        raise refuse("Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d")
    if offs is not None and (offs.dtype is not int32 or offs.dim() != 1):
        raise RuntimeError(f"Offsets have to be int32, of one dimension; got {offs.dtype} {tuple(offs.shape)}")
    groups = {x.shape[0] for x in (a, b) if x.dim() == 3} | ({offs.shape[0]} if offs is not None else set())
    if len(groups) != 1:
        raise refuse(f"matrix batch sizes have to match, and the number of offsets; got {sorted(groups)}")
    if bias is not None:
        raise RuntimeError("Bias not supported yet; add it to the result")
    if out_dtype not in (None, a.dtype):
        raise RuntimeError(f"Grouped gemm output dtype must match `mat_a` dtype {a.dtype}, got {out_dtype}")
