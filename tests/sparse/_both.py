"""The same sparse program in PyTorch and here: its result and the gradients of its leaves."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

import tdt
from tests.helpers import require_torch

torch = require_torch()

SHAPES = {  # sparse shape, dense shape, entries
    "matrix": ((3, 4), (), 7), "empty": ((3, 4), (), 0), "no rows": ((0, 4), (), 0), "vector": ((5,), (), 6),
    "cube": ((2, 3, 2), (), 6), "hybrid": ((3, 4), (2,), 7), "rows": ((4,), (3,), 6), "no columns": ((3,), (0,), 4),
}  # fmt: skip


def parts(kind: str, seed: int = 0, dtype: str = "float64") -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """Random indices, with some that occur twice, values and a size."""
    rng = np.random.default_rng(seed)
    sparse, dense, nnz = SHAPES[kind]
    indices = np.stack([rng.integers(0, max(n, 1), nnz) for n in sparse])
    values = np.round(rng.normal(size=(nnz, *dense)) * 4, 1)
    if dtype.startswith("complex"):
        values = values + 1j * np.round(rng.normal(size=values.shape) * 4, 1)
    return indices, values.astype(dtype), (*sparse, *dense)


def leaves(lib: Any, kind: str, coalesced: bool, seed: int = 0, dtype: str = "float64") -> SimpleNamespace:
    """x: sparse. d: dense of its shape. m, v: a matrix and a vector that it can be multiplied by. All want gradients."""
    indices, values, size = parts(kind, seed, dtype)
    rng = np.random.default_rng(seed + 1)
    x = lib.sparse_coo_tensor(lib.tensor(indices), lib.tensor(values), size, check_invariants=True)
    x = (x.coalesce() if coalesced else x).detach()
    dense = {"d": size, "m": (size[-1], 2), "v": (size[-1],), "s": ()}
    tensors = {k: lib.tensor(np.asarray(np.round(rng.normal(size=n) * 4, 1).astype(dtype))) for k, n in dense.items()}
    return SimpleNamespace(**{k: t.requires_grad_() for k, t in {"x": x, **tensors}.items()})


def plain(t: Any) -> Any:
    """A tensor as (is sparse, dtype, dense values); what is no tensor as it is."""
    if isinstance(t, (tuple, list)):
        return [plain(part) for part in t]
    if not isinstance(t, (torch.Tensor, tdt.Tensor)):
        return t
    return t.is_sparse, str(t.dtype).rpartition(".")[2], t.detach().to_dense().numpy()


def run(lib: Any, program: Callable[..., Any], kind: str, coalesced: bool, dtype: str = "float64") -> tuple[Any, dict]:
    """The result of program(lib, leaves) and each leaf's gradient of its weighted sum, dense."""
    z = leaves(lib, kind, coalesced, dtype=dtype)
    out = program(lib, z)
    if not (isinstance(out, (torch.Tensor, tdt.Tensor)) and out.requires_grad):
        return plain(out), {}
    dense = out.to_dense()
    weights = np.cos(np.arange(dense.numel())).reshape(dense.shape)
    total = (dense * lib.tensor(np.asarray(weights)).to(dense.dtype)).sum()
    (total.real if dtype.startswith("complex") else total).backward()
    return plain(out), {k: plain(t.grad) for k, t in vars(z).items() if t.grad is not None}


def assert_same(ours: Any, theirs: Any) -> None:
    """Equal results: the same layouts and dtypes, values to rounding."""
    if isinstance(theirs, list):
        for a, b in zip(ours, theirs, strict=True):
            assert_same(a, b)
    elif isinstance(theirs, tuple):
        assert ours[:2] == theirs[:2]
        rtol, atol = (1e-6, 1e-7) if "32" in theirs[1] else (1e-10, 1e-12)
        np.testing.assert_allclose(ours[2], theirs[2], rtol=rtol, atol=atol)
    else:
        assert ours == theirs
