"""Where tdt is allowed to differ from PyTorch's op database, and how results that are not unique are compared.

An entry of DEVIATIONS that no longer fails makes its test fail, so the table cannot outlive its reasons.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# (op, check, dtypes; "*" for all): reason.
DEVIATIONS: dict[tuple[str, str, str], str] = {
    ("view_as_complex", "value", "float16"): "there is no complex32",
    ("gather", "error", "*"): "a small out= gets new memory here; PyTorch's grows into the index behind it",
    ("logsumexp", "out= other dtype", "*"): "PyTorch alone drops the imaginary part in a real out=",
    ("nn.functional.avg_pool3d", "out= strided", "int64"): "PyTorch writes as if the target were contiguous",
    **{
        ("nn.functional.avg_pool3d", "refused", dtype): "PyTorch has it on GPUs, and one op serves both devices here"
        for dtype in ("float16", "bfloat16")
    },
    **{
        (f"nn.functional.conv{n}d", "refused", "*"): "small integers: PyTorch takes them too, unless there is dilation"
        for n in (1, 2, 3)
    },
}


# PyTorch's factorisations leave LAPACK's column order, and nonzero the transpose of its work array: no promise to users.
ANY_STRIDES = frozenset((
    "linalg.svd", "svd", "linalg.qr", "qr", "linalg.eigh", "linalg.inv", "linalg.inv_ex", "linalg.solve", "linalg.solve_ex",
    "linalg.cholesky", "linalg.cholesky_ex", "cholesky", "linalg.pinv", "pinverse", "argwhere", "nonzero", "multinomial",
    "linalg.matrix_power",
))  # fmt: skip


def _svd(args: tuple, kwargs: dict, result: Any) -> Any:
    u, s, vh = result
    k = s.shape[-1]
    return s, (u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :], u.mH @ u, vh @ vh.mH


def _old_svd(args: tuple, kwargs: dict, result: Any) -> Any:
    u, s, v = result
    k = s.shape[-1]
    return s, (u[..., :k] * s.unsqueeze(-2)) @ v[..., :k].mH


def _eigh(args: tuple, kwargs: dict, result: Any) -> Any:
    values, vectors = result
    return values, (vectors * values.unsqueeze(-2)) @ vectors.mH, vectors.mH @ vectors


def _qr(args: tuple, kwargs: dict, result: Any) -> Any:
    q, r = result
    return q @ r if q.numel() else r.abs(), r.abs()


def _chosen(at: int) -> Callable[[tuple, dict, Any], Any]:
    """Values, and what stands at the indices; `at`: which argument the dimension is."""

    def parts(args: tuple, kwargs: dict, result: Any) -> Any:
        values, index = result
        dim = kwargs.get("dim", args[at] if len(args) > at else -1)
        full = index if index.dim() == args[0].dim() else index.unsqueeze(dim)
        return values, args[0].gather(dim, full).reshape(values.shape)

    return parts


def _sorted(args: tuple, kwargs: dict, result: Any) -> Any:
    return result if kwargs.get("stable") else _chosen(1)(args, kwargs, result)


def _argsorted(args: tuple, kwargs: dict, result: Any) -> Any:
    if kwargs.get("stable") or not args[0].dim():
        return result
    return args[0].gather(kwargs.get("dim", args[1] if len(args) > 1 else -1), result)


# What of a result is unique: singular vectors, eigenvectors and the rows of R have a free sign or phase; where elements
# tie, which of their indices is reported is free.
UNIQUE: dict[str, Callable[[tuple, dict, Any], Any]] = {
    "sort": _sorted,
    "argsort": _argsorted,
    "linalg.svd": _svd,
    "svd": _old_svd,
    "linalg.eigh": _eigh,
    "linalg.qr": _qr,
    "qr": _qr,
    "topk": _chosen(2),
    "kthvalue": _chosen(2),
    "mode": _chosen(1),
}
