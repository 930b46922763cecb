"""SparseAdam: Adam for embeddings whose gradients are sparse."""

from __future__ import annotations

import math
from typing import Any

from tdt._core.creation import zeros_like
from tdt._core.tensor import Tensor
from tdt.optim._params import check_betas, check_rates, number
from tdt.optim._tensorwise import TensorwiseOptimizer
from tdt.optim.optimizer import Params


class SparseAdam(TensorwiseOptimizer):
    """Adam that updates only the rows that a sparse gradient contains, their moments included.

    The moments of other rows stay unchanged, so it differs from Adam with a dense gradient of many zeros. Parameters
    are
    dense, as those of `nn.Embedding(sparse=True)`; a step raises RuntimeError for a dense gradient.

    State of a parameter: "step" (an int), "exp_avg", "exp_avg_sq".

    Args:
        betas: weights of the past in the running means of the gradient and of its square.
    Raises:
        ValueError: when an option is out of range, or a parameter is sparse or complex.
    Source: Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2015.

    >>> import tdt
    >>> table = tdt.nn.Embedding.from_pretrained(tdt.zeros(3, 2), freeze=False, sparse=True)
    >>> optimizer = tdt.optim.SparseAdam(table.parameters(), lr=0.1)
    >>> table(tdt.tensor([1])).sum().backward()
    >>> optimizer.step()
    >>> table.weight.detach()
    tensor([[ 0.0000,  0.0000],
            [-0.1000, -0.1000],
            [ 0.0000,  0.0000]])
    """

    _sparse = True

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        check_rates(lr=lr, eps=eps)
        if number(lr) == 0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if eps == 0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        check_betas(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        places = [(i, j, p) for i, group in enumerate(self.param_groups) for j, p in enumerate(group["params"])]
        if sparse := [[i, j] for i, j, p in places if p.is_sparse]:
            raise ValueError(f"Sparse params at indices {sparse}: SparseAdam requires dense parameter tensors")
        if complex_ := [[i, j] for i, j, p in places if p.is_complex()]:
            raise ValueError(f"Complex params at indices {complex_}: SparseAdam does not support complex parameters")

    def _update(self, group: dict[str, Any], p: Any) -> None:
        g, own, (beta1, beta2) = p._grad._a.coalesce(), self.state[p], group["betas"]
        if not own:
            own.update(step=0, exp_avg=zeros_like(p), exp_avg_sq=zeros_like(p))
        own["step"] += 1
        values = -g.values if group["maximize"] else g.values
        rows = tuple(g.indices) or (slice(len(values)),)  # of a tensor without dimensions, which is a row here
        x, average, average_sq = (t._a if p.ndim else t._a.reshape(1) for t in (p, own["exp_avg"], own["exp_avg_sq"]))
        m, v = average[rows], average_sq[rows]
        m += (1 - beta1) * (values - m)
        v += (1 - beta2) * (values * values - v)
        average[rows], average_sq[rows] = m, v
        rate = number(group["lr"] * math.sqrt(1 - beta2 ** own["step"]) / (1 - beta1 ** own["step"]))
        x[rows] -= rate * m / (v**0.5 + group["eps"])
