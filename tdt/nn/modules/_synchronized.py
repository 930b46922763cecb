"""Batch normalisation by the statistics of all processes' batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tdt import _backend, distributed
from tdt._core.tensor import Tensor, wrap
from tdt._ops.nn.batch_norm import _batch_norm, _batch_norm_eval, grad_sums, input_grad
from tdt.autograd.function import Function, once_differentiable

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


class SyncNorm(Function):
    """(x - mean) / √(var + eps) · weight + bias, for a part x (N, C, *) of a batch; and what `statistics` says of all parts.

    Each part computes its sums by itself. The parts exchange them in the forward pass and, where x needs a gradient, in the
    backward pass: once each.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None, parts: Rows, eps: float
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        mean, var, count = statistics(x, parts)
        ctx.save_for_backward(weight, x, mean, (var + eps).rsqrt(), count)
        ctx.parts = parts
        ctx.mark_non_differentiable(mean, var, count)
        return _batch_norm_eval(x, mean, var, weight, bias, eps=eps), mean, var, count

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor, *_: Any) -> tuple[Tensor | None, Tensor | None, Tensor | None, None, None]:
        weight, (x, mean, rstd, count) = ctx.saved_tensors[0], (t._a for t in ctx.saved_tensors[1:])
        xp, needs = _backend.namespace(x), ctx.needs_input_grad
        gb, gw = grad_sums(xp, g._a, x, mean)
        gx = None
        if needs[0]:
            of_all, towards = ctx.parts.total(wrap(xp.stack([gb, gw]).reshape(1, -1)))._a.reshape(2, -1)
            scale = rstd if weight is None else rstd * weight._a
            gx = wrap(
                input_grad(xp, g._a, x, mean, scale, scale * rstd * rstd * towards / count, scale * of_all / count)
            )
        return gx, wrap(gw * rstd) if needs[1] else None, wrap(gb) if needs[2] else None, None, None


def statistics(x: Tensor, parts: Rows) -> tuple[Tensor, Tensor, Tensor]:
    """Mean (C,) and biased variance (C,) of x (N, C, *) over all parts of a batch, and the number of values ().

    Source: Chan, Golub, LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances", 1979.
    """
    a, xp = x._a, _backend.namespace(x._a)
    channels, kind = a.shape[1], a.dtype.type
    own = a.size // channels
    row = xp.zeros(2 * channels + 1, a.dtype)
    row[-1] = own
    if own:
        _, mean, _, unbiased = _batch_norm(x, None, None, eps=1.0)
        row[:channels] = mean._a
        row[channels:-1] = unbiased._a * kind(own - 1) if own > 1 else 0
    rows = parts.gather(wrap(row))._a
    means, spreads, counts = rows[:, :channels], rows[:, channels:-1], rows[:, -1:]
    count = counts.sum()
    total = (means * counts).sum(0) / count
    var = (spreads.sum(0) + (counts * (means - total) ** 2).sum(0)) / count
    return wrap(total), wrap(var), wrap(xp.asarray(count))
