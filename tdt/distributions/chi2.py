"""The chi-squared distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from tdt import Tensor
from tdt.distributions import constraints
from tdt.distributions.gamma import Gamma

__all__ = ["Chi2"]


class Chi2(Gamma):
    """Chi-squared distribution: sum of squares of `df` standard normal variables.

    Args:
        df: degrees of freedom.
    Shape: df of the batch shape; event ().
    Raises:
        ValueError: when `df` is not positive.

    >>> import tdt
    >>> tdt.distributions.Chi2(3.0).mean
    tensor(3.)
    """

    arg_constraints = {"df": constraints.positive}

    @property
    def df(self) -> Tensor:
        return self.concentration * 2

    def __init__(self, df: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Self | None = None) -> Self:
        new = super().expand(batch_shape, _instance)
        new.concentration, new.rate = self.concentration.expand(batch_shape), self.rate.expand(batch_shape)
        return new
