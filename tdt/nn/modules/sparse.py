"""Embedding and EmbeddingBag: tables of learned rows, looked up one by one or a bag at a time."""

from __future__ import annotations

from typing import Self

from tdt._core.creation import empty
from tdt._core.mode import no_grad
from tdt._core.tensor import Tensor
from tdt.nn import functional as F
from tdt.nn import init
from tdt.nn._types import Device, Dtype
from tdt.nn.modules.module import Module
from tdt.nn.parameter import Parameter


class _Table(Module):
    """What both layers hold: the table and how its rows are looked up."""

    def _set_up(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None, max_norm: float | None,
                norm_type: float, scale_grad_by_freq: bool, sparse: bool, weight: Tensor | None, freeze: bool,
                device: Device, dtype: Dtype) -> None:  # fmt: skip
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                name = "Padding_idx" if isinstance(self, Embedding) else "padding_idx"
                raise AssertionError(
                    f"{name} must be within num_embeddings; got {padding_idx} for {num_embeddings} rows"
                )
            padding_idx %= num_embeddings
        self.num_embeddings, self.embedding_dim, self.padding_idx = num_embeddings, embedding_dim, padding_idx
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        if weight is None:
            weight = empty(num_embeddings, embedding_dim, device=device, dtype=dtype)
            self.weight = Parameter(weight, requires_grad=not freeze)
            self.reset_parameters()
        elif list(weight.shape) != [num_embeddings, embedding_dim]:
            raise AssertionError(f"Shape of weight does not match num_embeddings and embedding_dim: {list(weight.shape)}, not "
                                 f"{[num_embeddings, embedding_dim]}")  # fmt: skip
        else:
            self.weight = Parameter(weight, requires_grad=not freeze)

    def reset_parameters(self) -> None:
        """Draw the table again, from the standard normal distribution."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)


def _sizes(embeddings: Tensor) -> tuple[int, int]:
    if embeddings.ndim != 2:
        raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
    rows, columns = embeddings.shape
    return rows, columns


class Embedding(_Table):
    """Table of learned vectors, looked up by index.

    Starts from the standard normal distribution.

    Args:
        num_embeddings: number of vectors.
        embedding_dim: numbers of each vector.
        _weight: initial vectors (num_embeddings, embedding_dim), in place of random ones.
        _freeze: whether the vectors are not trained.
        padding_idx: index whose vector starts as zeros and is not trained.
        max_norm: vectors of a larger norm are scaled down to it, in place, when they are looked up.
        norm_type: degree p of that norm.
        scale_grad_by_freq: divide gradients by how often an index occurs in the batch.
        sparse: give `weight` a sparse gradient, for `SGD`, `Adagrad` and `SparseAdam`.
    Shape: input (*) integers; result (*, embedding_dim); `weight` (num_embeddings, embedding_dim).
    Raises:
        AssertionError: when `padding_idx` is outside the table.

    >>> import tdt
    >>> tdt.nn.Embedding(10, 3)(tdt.tensor([1, 2])).shape
    tdt.Size([2, 3])
    """

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, max_norm: float | None = None,
                 norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False, _weight: Tensor | None = None,
                 _freeze: bool = False, device: Device = None, dtype: Dtype = None):  # fmt: skip
        super().__init__()
        self._set_up(num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, _weight,
                     _freeze, device, dtype)  # fmt: skip

    @classmethod
    def from_pretrained(cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None,
                        max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
                        sparse: bool = False) -> Self:  # fmt: skip
        """Embedding whose table is `embeddings` (rows, columns), not trained if `freeze`."""
        return cls(
            *_sizes(embeddings), padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, embeddings, freeze
        )

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse
        )

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.padding_idx is not None:
            text += f", padding_idx={self.padding_idx}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        return text + ", scale_grad_by_freq=True" * self.scale_grad_by_freq + ", sparse=True" * self.sparse


class EmbeddingBag(_Table):
    """Sums, means or maxima of embedding vectors over bags of indices, without storing the single vectors.

    Args:
        num_embeddings: number of vectors.
        embedding_dim: numbers of each vector.
        _weight: initial vectors (num_embeddings, embedding_dim), in place of random ones.
        max_norm: vectors of a larger norm are scaled down to it, in place, when they are looked up.
        norm_type: degree p of that norm.
        scale_grad_by_freq: divide gradients by how often an index occurs in the batch.
        mode: "sum", "mean" or "max".
        sparse: give `weight` a sparse gradient, for `SGD`, `Adagrad` and `SparseAdam`.
        include_last_offset: whether the last offset is the end of the last bag.
        padding_idx: index that no bag counts.
    Shape: input (B, N), or (N,) with offsets (B,); per_sample_weights as input; result (B, embedding_dim).
    Raises:
        AssertionError: when `padding_idx` is outside the table.

    >>> import tdt
    >>> tdt.nn.EmbeddingBag(10, 3)(tdt.tensor([[1, 2], [0, 4]])).shape
    tdt.Size([2, 3])
    """

    def __init__(self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None, norm_type: float = 2.0,
                 scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, _weight: Tensor | None = None,
                 include_last_offset: bool = False, padding_idx: int | None = None, device: Device = None,
                 dtype: Dtype = None):  # fmt: skip
        super().__init__()
        self._set_up(num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, _weight,
                     False, device, dtype)  # fmt: skip
        self.mode, self.include_last_offset = mode, include_last_offset

    @classmethod
    def from_pretrained(cls, embeddings: Tensor, freeze: bool = True, max_norm: float | None = None, norm_type: float = 2.0,
                        scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False,
                        include_last_offset: bool = False, padding_idx: int | None = None) -> Self:  # fmt: skip
        """EmbeddingBag whose table is `embeddings` (rows, columns), not trained if `freeze`."""
        module = cls(*_sizes(embeddings), max_norm, norm_type, scale_grad_by_freq, mode, sparse, embeddings,
                   include_last_offset, padding_idx)  # fmt: skip
        module.weight.requires_grad = not freeze
        return module

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        return F.embedding_bag(input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.mode,
                               self.sparse, per_sample_weights, self.include_last_offset, self.padding_idx)  # fmt: skip

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        text += ", scale_grad_by_freq=True" * self.scale_grad_by_freq + f", mode={self.mode!r}"
        return text if self.padding_idx is None else f"{text}, padding_idx={self.padding_idx}"
