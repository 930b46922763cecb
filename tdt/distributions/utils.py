"""What distributions share: parameters of one shape, probabilities and their logits, values computed on first use."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar, overload

import tdt
from tdt import Tensor

__all__ = [
    "broadcast_all", "clamp_probs", "euler_constant", "lazy_property", "logits_to_probs", "probs_to_logits",
    "tril_matrix_to_vec", "vec_to_tril_matrix",
]  # fmt: skip

T = TypeVar("T")
euler_constant = 0.5772156649015329  # Euler's γ


def broadcast_all(*values: Tensor | float) -> tuple[Tensor, ...]:
    """Numbers and tensors as tensors of one shape; a number takes the dtype of the first tensor, or the default one.

    >>> import tdt
    >>> from tdt.distributions.utils import broadcast_all
    >>> broadcast_all(0.5, tdt.zeros(2))
    (tensor([0.5000, 0.5000]), tensor([0., 0.]))
    """
    if not all(isinstance(value, (Tensor, int, float)) for value in values):
        kinds = ", ".join(type(value).__name__ for value in values)
        raise ValueError(f"Input arguments must all be instances of Number or Tensor, but they are: {kinds}")
    first = next((value for value in values if isinstance(value, Tensor)), None)
    kind = tdt.get_default_dtype() if first is None else first.dtype
    where = None if first is None else first.device
    tensors = [x if isinstance(x, Tensor) else tdt.tensor(x, dtype=kind, device=where) for x in values]
    return tuple(tdt.broadcast_tensors(*tensors))


def _standard_normal(shape: Sequence[int], dtype: tdt.dtype, device: tdt.device) -> Tensor:
    """Standard normal numbers, which libraries of distributions draw through this function."""
    return tdt.randn(tuple(shape), dtype=dtype, device=device)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities of logits: log-odds of one event, or unnormalised log-probabilities along the last dimension."""
    return logits.sigmoid() if is_binary else logits.softmax(-1)


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities, at least one rounding step away from 0 and 1."""
    eps = tdt.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """The finite logits of probabilities: log(p / (1-p)) of one event, log p of several."""
    inside = clamp_probs(probs)
    return inside.log() - (-inside).log1p() if is_binary else inside.log()


def sum_rightmost(value: Tensor, dims: int) -> Tensor:
    """The sum over the last `dims` dimensions."""
    return value.flatten(-dims).sum(-1) if dims > 0 and value.ndim else value


_sum_rightmost = sum_rightmost  # PyTorch's name, which libraries import


class lazy_property(Generic[T]):
    """An attribute computed when it is first read, with gradients, and cached."""

    def __init__(self, wrapped: Callable[..., T]) -> None:
        self.wrapped = wrapped
        functools.update_wrapper(self, wrapped)  # type: ignore[arg-type]

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> lazy_property[T]: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> T: ...
    def __get__(self, instance: object, owner: type | None = None) -> lazy_property[T] | T:
        if instance is None:
            return self
        with tdt.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The entries on and below a diagonal of (…, n, n), row by row: (…, m)."""
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    return mat[(..., *tdt.tril_indices(n, n, diag, device=mat.device))]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """The matrix (…, n, n) that `tril_matrix_to_vec` made the (…, m) entries of, with zeros elsewhere."""
    m = vec.shape[-1]
    n = next((n for n in range(1, m + 2 + abs(diag)) if _entries(n, diag) >= m), 0)
    if _entries(n, diag) != m:
        raise ValueError(f"The size of last dimension is {m} which cannot be expressed as "
                         "the lower triangular part of a square D x D matrix.")  # fmt: skip
    mat = vec.new_zeros(*vec.shape[:-1], n, n)
    mat[(..., *tdt.tril_indices(n, n, diag, device=vec.device))] = vec
    return mat


def _entries(n: int, diag: int) -> int:
    return sum(min(max(row + diag + 1, 0), n) for row in range(n))
