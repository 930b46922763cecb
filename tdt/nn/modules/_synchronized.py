"""Batch normalisation by the statistics of all processes' batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tdt import distributed
from tdt._core.tensor import Tensor
from tdt._ops.shape.join import cat
from tdt.autograd.function import Function

if TYPE_CHECKING:
    from tdt.distributed import ProcessGroup


class GatherRows(Function):
    """A row of each process (N,), stacked (processes, N); the gradient of a row is its sum over the processes."""

    @staticmethod
    def forward(ctx: Any, row: Tensor, group: ProcessGroup) -> Tensor:
        ctx.group = group
        rows = row.new_empty((group.size(), len(row)))
        distributed.all_gather_into_tensor(rows, row, group)
        return rows

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        total = g.clone()
        distributed.all_reduce(total, group=ctx.group)
        return total[ctx.group.rank()], None


def statistics(x: Tensor, group: ProcessGroup) -> tuple[Tensor, Tensor, Tensor]:
    """Mean (C,) and biased variance (C,) of x (N, C, *) over the batches of all processes, and the number of values ().

    Source: Chan, Golub, LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances", 1979.
    """
    dims = [d for d in range(x.ndim) if d != 1]
    own = x.new_full((1,), x.numel() // x.shape[1])
    mean = x.sum(dims) / own.clamp(min=1)
    spread = ((x - _by_channel(mean, x)) ** 2).sum(dims)
    means, spreads, counts = GatherRows.apply(cat([mean, spread, own]), group).split([len(mean), len(mean), 1], 1)
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
