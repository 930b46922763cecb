"""The distribution of Lewandowski, Kurowicka and Joe over Cholesky factors of correlation matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence

import tdt
from tdt import Tensor
from tdt.distributions import constraints
from tdt.distributions.beta import Beta
from tdt.distributions.distribution import Distribution
from tdt.distributions.utils import broadcast_all

__all__ = ["LKJCholesky"]


class LKJCholesky(Distribution):
    """Lower Cholesky factors of correlation matrices C, of density proportional to det(C)^(concentration - 1).

    Args:
        dim: number n of rows and columns.
        concentration: 1 is the uniform distribution over correlation matrices; above it, the identity is likelier.
    Shape: concentration of the batch shape; event (n, n).
    Raises:
        ValueError: when `dim` is below 2 or `concentration` not positive.
    Source: Lewandowski, Kurowicka and Joe, "Generating random correlation matrices based on vines and extended onion
        method",
        2009.

    >>> import tdt
    >>> tdt.distributions.LKJCholesky(2, 1.0).log_prob(tdt.eye(2))
    tensor(-0.6931)
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim: int, concentration: Tensor | float = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        rows = tdt.arange(dim - 1, dtype=self.concentration.dtype, device=self.concentration.device)
        rows = tdt.cat([rows.new_zeros(1), rows])
        marginal = (self.concentration + 0.5 * (dim - 2)).unsqueeze(-1)
        # Of the squared length of each row's part below the diagonal.
        self._beta = Beta(rows + 0.5, marginal - 0.5 * rows)
        super().__init__(self.concentration.shape, (dim, dim), validate_args)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        squares = self._beta.sample(sample_shape).unsqueeze(-1)
        normal = tdt.randn(self._extended_shape(sample_shape), dtype=squares.dtype, device=squares.device).tril(-1)
        directions = normal / normal.norm(dim=-1, keepdim=True)
        directions[..., 0, :] = 0.0  # the first row has nothing below the diagonal
        below = squares.sqrt() * directions
        diagonal = (1 - below.pow(2).sum(-1)).clamp(min=tdt.finfo(below.dtype).tiny).sqrt()
        return below + tdt.diag_embed(diagonal)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        below = self.dim - 1
        powers = self.dim - tdt.arange(2, self.dim + 1, device=self.concentration.device)
        powers = 2 * (self.concentration - 1).unsqueeze(-1) + powers
        density = (powers * value.diagonal(dim1=-2, dim2=-1)[..., 1:].log()).sum(-1)
        shape = self.concentration + 0.5 * below
        constant = 0.5 * below * math.log(math.pi) + tdt.mvlgamma(shape - 0.5, below) - below * shape.lgamma()
        return density - constant
