"""Invertible functions with the log of the determinant of their Jacobian: what new distributions are made with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import tdt
import tdt.nn.functional as F
from tdt import Size, Tensor, linalg
from tdt.distributions import constraints
from tdt.distributions._transform import (
    ComposeTransform,
    IndependentTransform,
    ReshapeTransform,
    Transform,
    identity_transform,
    needs,
)
from tdt.distributions.utils import broadcast_all, sum_rightmost, tril_matrix_to_vec, vec_to_tril_matrix

if TYPE_CHECKING:
    from tdt.distributions.distribution import Distribution

__all__ = [
    "AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform",
    "CumulativeDistributionTransform", "ExpTransform", "IndependentTransform", "LowerCholeskyTransform",
    "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform", "SigmoidTransform", "SoftmaxTransform",
    "SoftplusTransform", "StackTransform", "StickBreakingTransform", "TanhTransform", "Transform", "identity_transform",
]  # fmt: skip


class _Same(Transform):
    """A function without parameters: all of one class are equal."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    __hash__ = object.__hash__


class ExpTransform(_Same):
    """Exponential y = exp(x).

    Shape: x (*); result the same shape.
    Raises:
        ValueError: when `cache_size` is neither 0 nor 1.

    >>> import tdt
    >>> tdt.distributions.ExpTransform().inv(tdt.tensor(1.0))
    tensor(0.)
    """

    domain, codomain = constraints.real, constraints.positive
    bijective, sign = True, +1

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class PowerTransform(Transform):
    """Power y = x^exponent of positive numbers.

    Shape: x (*), exponent broadcastable to it; result the same shape.
    Raises:
        ValueError: when `cache_size` is neither 0 nor 1.

    >>> import tdt
    >>> tdt.distributions.PowerTransform(2.0)(tdt.tensor([1.0, 3.0]))
    tensor([1., 9.])
    """

    domain, codomain = constraints.positive, constraints.positive
    bijective = True

    @property
    def sign(self) -> Tensor | int:
        return self.exponent.sign()

    def __init__(self, exponent: Tensor | float, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        (self.exponent,) = broadcast_all(exponent)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and bool((self.exponent == other.exponent).all())

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Size) -> Size:
        return tdt.broadcast_shapes(shape, self.exponent.shape)

    inverse_shape = forward_shape


class SigmoidTransform(_Same):
    """Logistic function y = 1 / (1 + exp(-x)), clamped so that results are never exactly 0 or 1.

    Shape: x (*); result the same shape.
    Raises:
        ValueError: when `cache_size` is neither 0 nor 1.

    >>> import tdt
    >>> tdt.distributions.SigmoidTransform()(tdt.tensor(0.0))
    tensor(0.5000)
    """

    domain, codomain = constraints.real, constraints.unit_interval
    bijective, sign = True, +1

    def _call(self, x: Tensor) -> Tensor:
        return _inside(x.sigmoid())

    def _inverse(self, y: Tensor) -> Tensor:
        y = _inside(y)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -F.softplus(-x) - F.softplus(x)


def _inside(probs: Tensor) -> Tensor:
    kind = tdt.finfo(probs.dtype)
    return probs.clamp(min=kind.tiny, max=1.0 - kind.eps)


class SoftplusTransform(_Same):
    """Softplus y = log(1 + exp(x)).

    Shape: x (*); result the same shape.
    Raises:
        ValueError: when `cache_size` is neither 0 nor 1.

    >>> import tdt
    >>> tdt.distributions.SoftplusTransform()(tdt.tensor(0.0))
    tensor(0.6931)
    """

    domain, codomain = constraints.real, constraints.positive
    bijective, sign = True, +1

    def _call(self, x: Tensor) -> Tensor:
        return F.softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -F.softplus(-x)


class TanhTransform(_Same):
    """Hyperbolic tangent y = tanh(x).

    Args:
        cache_size: 1 keeps the last x and y: near ±1 the computed inverse is inexact.
    Shape: x (*); result the same shape.
    Raises:
        ValueError: when `cache_size` is neither 0 nor 1.

    >>> import tdt
    >>> tdt.distributions.TanhTransform()(tdt.tensor(0.0))
    tensor(0.)
    """

    domain, codomain = constraints.real, constraints.interval(-1.0, 1.0)
    bijective, sign = True, +1

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return 2.0 * (math.log(2.0) - x - F.softplus(-2.0 * x))  # of log(1 - y²) nothing would be left near 1


class AbsTransform(_Same):
    """Absolute value y = |x|; its inverse returns the positive x.

    Args:
        cache_size: 1 keeps the last x and y, so that the inverse of a value just computed is exact.
    Shape: x (*); result the same shape.
    Raises:
        ValueError: when `cache_size` is neither 0 nor 1.

    >>> import tdt
    >>> tdt.distributions.AbsTransform()(tdt.tensor([-1.0, 2.0]))
    tensor([1., 2.])
    """

    domain, codomain = constraints.real, constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class AffineTransform(Transform):
    """Affine map y = loc + scale · x of each element.

    Args:
        event_dim: number of dimensions that make one event.
        cache_size: 1 keeps the last x and y, so that the inverse of a value just computed is exact.
    Shape: x (*), loc and scale broadcastable to it; result the same shape.
    Raises:
        ValueError: when `cache_size` is neither 0 nor 1.

    >>> import tdt
    >>> tdt.distributions.AffineTransform(1.0, 2.0)(tdt.tensor([0.0, 3.0]))
    tensor([1., 7.])
    """

    bijective = True

    def __init__(self, loc: Tensor | float, scale: Tensor | float, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> constraints.Constraint:
        return constraints.independent(constraints.real, self.event_dim) if self.event_dim else constraints.real

    codomain = domain

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AffineTransform) and all(
            bool(same.all()) if isinstance(same, Tensor) else same
            for same in (self.loc == other.loc, self.scale == other.scale)
        )

    __hash__ = object.__hash__

    @property
    def sign(self) -> Tensor | int:
        return self.scale.sign() if isinstance(self.scale, Tensor) else (self.scale > 0) - (self.scale < 0)

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        scale = self.scale
        logs = scale.abs().log() if isinstance(scale, Tensor) else tdt.full_like(x, math.log(abs(scale)))
        return sum_rightmost(logs.expand(x.shape) if self.event_dim else logs, self.event_dim).expand(
            x.shape[: x.ndim - self.event_dim]
        )

    def forward_shape(self, shape: Size) -> Size:
        return tdt.broadcast_shapes(shape, *(x.shape for x in (self.loc, self.scale) if isinstance(x, Tensor)))

    inverse_shape = forward_shape


class SoftmaxTransform(_Same):
    """Softmax along the last dimension; it has no true inverse, `inv` returns one of the x that fit.

    Shape: x (*, n); result the same shape.
    Raises:
        ValueError: when `cache_size` is neither 0 nor 1.

    >>> import tdt
    >>> tdt.distributions.SoftmaxTransform()(tdt.zeros(2))
    tensor([0.5000, 0.5000])
    """

    domain, codomain = constraints.real_vector, constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        return x.softmax(-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Size) -> Size:
        needs(shape, 1)
        return shape

    inverse_shape = forward_shape


class StickBreakingTransform(_Same):
    """Unconstrained vectors of n numbers mapped to n + 1 probabilities, each a sigmoid's part of what those before left.

    Shape: x (*, n); result (*, n + 1), sums 1.
    Raises:
        ValueError: when `cache_size` is neither 0 nor 1.

    >>> import tdt
    >>> tdt.distributions.StickBreakingTransform()(tdt.zeros(1))
    tensor([0.5000, 0.5000])
    """

    domain, codomain = constraints.real_vector, constraints.simplex
    bijective = True

    @staticmethod
    def _offset(x: Tensor) -> Tensor:
        return tdt.arange(x.shape[-1], 0, -1, dtype=x.dtype, device=x.device).log()  # equal shares at x = 0

    def _call(self, x: Tensor) -> Tensor:
        z = _inside((x - self._offset(x)).sigmoid())
        return F.pad(z, [0, 1], value=1) * F.pad((1 - z).cumprod(-1), [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        first = y[..., :-1]
        left = (1 - first.cumsum(-1)).clamp(min=tdt.finfo(y.dtype).tiny)
        return first.log() - left.log() + self._offset(first)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        x = x - self._offset(x)
        return (-x + F.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Size) -> Size:
        needs(shape, 1)
        return Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Size) -> Size:
        needs(shape, 1)
        return Size((*shape[:-1], shape[-1] - 1))


class LowerCholeskyTransform(_Same):
    """Square matrices mapped to lower triangular ones with positive diagonal, the exponential of the given one.

    Shape: x (*, n, n); result the same shape.
    Raises:
        ValueError: when `cache_size` is neither 0 nor 1.

    >>> import tdt
    >>> tdt.distributions.LowerCholeskyTransform()(tdt.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain, codomain = constraints.independent(constraints.real, 2), constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(_Same):
    """Square matrices mapped to positive definite ones, through their Cholesky factor.

    Shape: x (*, n, n); result the same shape.
    Raises:
        ValueError: when `cache_size` is neither 0 nor 1.

    >>> import tdt
    >>> tdt.distributions.PositiveDefiniteTransform()(tdt.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain, codomain = constraints.independent(constraints.real, 2), constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(linalg.cholesky(y))


class CorrCholeskyTransform(Transform):
    """Unconstrained vectors of n (n - 1) / 2 numbers mapped to Cholesky factors of n × n correlation matrices.

    Shape: x (*, n (n - 1) / 2); result (*, n, n), lower triangular.
    Raises:
        ValueError: when `cache_size` is neither 0 nor 1.
    Source: Lewandowski, Kurowicka and Joe, "Generating random correlation matrices based on vines", 2009.

    >>> import tdt
    >>> tdt.distributions.CorrCholeskyTransform()(tdt.zeros(1))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain, codomain = constraints.real_vector, constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        x = x.tanh()
        eps = tdt.finfo(x.dtype).eps
        r = vec_to_tril_matrix(x.clamp(min=-1 + eps, max=1 - eps), -1)
        left = (1 - r**2).sqrt().cumprod(-1)
        r = r + tdt.eye(r.shape[-1], dtype=r.dtype, device=r.device)
        return r * F.pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        left = F.pad((1 - (y * y).cumsum(-1))[..., :-1], [1, 0], value=1)
        return (tril_matrix_to_vec(y, -1) / tril_matrix_to_vec(left, -1).sqrt()).atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        left = tril_matrix_to_vec(1 - (y * y).cumsum(-1), -2)
        return 0.5 * left.log().sum(-1) - 2 * (x + F.softplus(-2 * x) - math.log(2.0)).sum(-1)

    def forward_shape(self, shape: Size) -> Size:
        needs(shape, 1)
        n = round((0.25 + 2 * shape[-1]) ** 0.5 + 0.5)
        if n * (n - 1) // 2 != shape[-1]:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return Size((*shape[:-1], n, n))

    def inverse_shape(self, shape: Size) -> Size:
        needs(shape, 2)
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return Size((*shape[:-2], shape[-1] * (shape[-1] - 1) // 2))


class _Parts(Transform):
    """Functions of the parts of a value along the dimension `dim`."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.transforms = [part.with_cache(cache_size) for part in tseq] if cache_size else list(tseq)
        self.dim = dim

    @property
    def bijective(self) -> bool:
        return all(part.bijective for part in self.transforms)

    def _split(self, x: Tensor) -> Sequence[Tensor]:
        raise NotImplementedError

    def _join(self, parts: list[Tensor]) -> Tensor:
        raise NotImplementedError

    def _call(self, x: Tensor) -> Tensor:
        return self._join([one(part) for one, part in zip(self.transforms, self._split(x), strict=True)])

    def _inverse(self, y: Tensor) -> Tensor:
        return self._join([one.inv(part) for one, part in zip(self.transforms, self._split(y), strict=True)])

    def _logs(self, x: Tensor, y: Tensor) -> list[Tensor]:
        pairs = zip(self.transforms, self._split(x), self._split(y), strict=True)
        return [one.log_abs_det_jacobian(a, b) for one, a, b in pairs]


class CatTransform(_Parts):
    """Transforms of stretches of the dimension `dim`, each as long as `lengths` says.

    Args:
        lengths: length of each transform's stretch; None stands for 1 each.
        cache_size: 1 keeps the last x and y, so that the inverse of a value just computed is exact.
    Shape: x (*, sum of lengths, *); result the same shape.
    Raises:
        AssertionError: when the lengths are not as many as the transforms.

    >>> import tdt
    >>> from tdt import distributions
    >>> parts = [distributions.ExpTransform(), distributions.AbsTransform()]
    >>> distributions.CatTransform(parts, lengths=[1, 2])(tdt.tensor([0.0, -1.0, -2.0]))
    tensor([1., 1., 2.])
    """

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(f"lengths ({len(self.lengths)}) must match transforms ({len(self.transforms)})")

    @property
    def event_dim(self) -> int:
        return max(part.event_dim for part in self.transforms)

    def _split(self, x: Tensor) -> Sequence[Tensor]:
        return x.split(self.lengths, self.dim)

    def _join(self, parts: list[Tensor]) -> Tensor:
        return tdt.cat(parts, self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        logs = [
            sum_rightmost(log, self.event_dim - one.event_dim)
            for one, log in zip(self.transforms, self._logs(x, y), strict=True)
        ]
        dim = (self.dim - x.ndim if self.dim >= 0 else self.dim) + self.event_dim
        return tdt.cat(logs, dim) if dim < 0 else sum(logs[1:], logs[0])

    @constraints.dependent_property
    def domain(self) -> constraints.Constraint:
        return constraints.cat([part.domain for part in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> constraints.Constraint:
        return constraints.cat([part.codomain for part in self.transforms], self.dim, self.lengths)


class StackTransform(_Parts):
    """Transform of its own for each entry of the dimension `dim`.

    Args:
        cache_size: 1 keeps the last x and y, so that the inverse of a value just computed is exact.
    Shape: x (*, number of transforms, *); result the same shape.

    >>> import tdt
    >>> from tdt import distributions
    >>> distributions.StackTransform([distributions.ExpTransform(), distributions.AbsTransform()])(tdt.tensor([0.0, -2.0]))
    tensor([1., 2.])
    """

    def _split(self, x: Tensor) -> Sequence[Tensor]:
        return x.unbind(self.dim)

    def _join(self, parts: list[Tensor]) -> Tensor:
        return tdt.stack(parts, self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return tdt.stack(self._logs(x, y), self.dim)

    @constraints.dependent_property
    def domain(self) -> constraints.Constraint:
        return constraints.stack([part.domain for part in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> constraints.Constraint:
        return constraints.stack([part.codomain for part in self.transforms], self.dim)


class CumulativeDistributionTransform(Transform):
    """Probability integral transform y = distribution.cdf(x).

    Shape: x (*), broadcastable with the distribution's batch shape; result the broadcast shape, within [0, 1].
    Raises:
        ValueError: when `cache_size` is neither 0 nor 1.

    >>> import tdt
    >>> tdt.distributions.CumulativeDistributionTransform(tdt.distributions.Normal(0.0, 1.0))(tdt.tensor(0.0))
    tensor(0.5000)
    """

    bijective, codomain, sign = True, constraints.unit_interval, +1

    @property
    def domain(self) -> constraints.Constraint:
        return self.distribution.support

    def __init__(self, distribution: Distribution, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)
