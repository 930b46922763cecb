"""Batch normalisation by the statistics of all processes' batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tdt import distributed
from tdt._core.tensor import Tensor
from tdt._ops.shape.join import cat
from tdt.autograd.function import Function

if TYPE_CHECKING:
    from tdt.distributed import ProcessGroup


class Rows:
    """The processes of a group, which have a batch each. A subclass may put other parts of a batch in their place."""

    def __init__(self, group: ProcessGroup) -> None:
        self.group = group

    def size(self) -> int:
        """The number of parts."""
        return self.group.size()

    def rank(self) -> int:
        """The number of this part."""
        return self.group.rank()

    def gather(self, row: Tensor) -> Tensor:
        """The row (N,) of each part, stacked (parts, N)."""
        rows = row.new_empty((self.size(), len(row)))
        distributed.all_gather_into_tensor(rows, row, self.group)
        return rows

    def total(self, rows: Tensor) -> Tensor:
        """The sum of the tensors (parts, N) of all parts."""
        total = rows.clone()
        distributed.all_reduce(total, group=self.group)
        return total


class GatherRows(Function):
    """A row of each part (N,), stacked (parts, N); the gradient of a row is its sum over the parts."""

    @staticmethod
    def forward(ctx: Any, row: Tensor, parts: Rows) -> Tensor:
        ctx.parts = parts
        return parts.gather(row)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        return ctx.parts.total(g)[ctx.parts.rank()], None


def statistics(x: Tensor, parts: Rows) -> tuple[Tensor, Tensor, Tensor]:
    """Mean (C,) and biased variance (C,) of x (N, C, *) over all parts of a batch, and the number of values ().

    Source: Chan, Golub, LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances", 1979.
    """
    dims = [d for d in range(x.ndim) if d != 1]
    own = x.new_full((1,), x.numel() // x.shape[1])
    mean = x.sum(dims) / own.clamp(min=1)
    spread = ((x - _by_channel(mean, x)) ** 2).sum(dims)
    means, spreads, counts = GatherRows.apply(cat([mean, spread, own]), parts).split([len(mean), len(mean), 1], 1)
    count = counts.sum()
    total = (means * counts).sum(0) / count
    return total, (spreads.sum(0) + (counts * (means - total) ** 2).sum(0)) / count, count


def _by_channel(values: Tensor, x: Tensor) -> Tensor:
    return values.reshape(1, -1, *[1] * (x.ndim - 2))


def normalize(x: Tensor, mean: Tensor, var: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    """(x - mean) / √(var + eps) · weight + bias, by channel."""
    scale = (var + eps).rsqrt()
    if weight is not None:
        scale = scale * weight
    out = (x - _by_channel(mean, x)) * _by_channel(scale, x)
    return out if bias is None else out + _by_channel(bias, x)
