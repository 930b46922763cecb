"""Kullback–Leibler divergences: of one family by its own formula, of two as minus an entropy and a mean log-density."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import tdt
import tdt.nn.functional as F
from tdt import Tensor
from tdt.distributions._scale_tril import half_log_det, mahalanobis, solve_lower
from tdt.distributions.bernoulli import Bernoulli
from tdt.distributions.beta import Beta
from tdt.distributions.binomial import Binomial
from tdt.distributions.categorical import Categorical
from tdt.distributions.cauchy import Cauchy
from tdt.distributions.continuous_bernoulli import ContinuousBernoulli
from tdt.distributions.dirichlet import Dirichlet
from tdt.distributions.distribution import Distribution
from tdt.distributions.exponential import Exponential
from tdt.distributions.gamma import Gamma
from tdt.distributions.geometric import Geometric
from tdt.distributions.gumbel import Gumbel
from tdt.distributions.half_normal import HalfNormal
from tdt.distributions.independent import Independent
from tdt.distributions.laplace import Laplace
from tdt.distributions.lowrank_multivariate_normal import LowRankMultivariateNormal
from tdt.distributions.multivariate_normal import MultivariateNormal
from tdt.distributions.normal import Normal
from tdt.distributions.one_hot_categorical import OneHotCategorical
from tdt.distributions.pareto import Pareto
from tdt.distributions.poisson import Poisson
from tdt.distributions.transformed_distribution import TransformedDistribution
from tdt.distributions.uniform import Uniform
from tdt.distributions.utils import euler_constant, sum_rightmost

__all__ = ["kl_divergence", "register_kl"]

Formula = Callable[[Any, Any], Tensor]
_FORMULAS: dict[tuple[type, type], Formula] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Formula], Formula]:
    """Decorator that registers a function of p and q as the divergence of two classes and their subclasses.

    Raises:
        TypeError: when `type_p` or `type_q` is not a class.

    >>> import tdt
    >>> class Coin(tdt.distributions.Bernoulli):
    ...     pass
    >>> @tdt.distributions.register_kl(Coin, Coin)
    ... def _(p, q):
    ...     return tdt.zeros(())
    >>> tdt.distributions.kl_divergence(Coin(0.5), Coin(0.5))
    tensor(0.)
    """
    for name, kind in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(kind, type):  # any class: libraries have base classes of their own
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {kind}")

    def decorate(formula: Formula) -> Formula:
        _FORMULAS[type_p, type_q] = formula
        return formula

    return decorate


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """Kullback-Leibler divergence E[log p(x) - log q(x)] over x from p, in nats.

    Shape: result of the distributions' broadcast batch shape.
    Raises:
        NotImplementedError: when no formula is registered for these classes.
    Source: Kullback and Leibler, "On Information and Sufficiency", 1951.

    >>> import tdt
    >>> tdt.distributions.kl_divergence(tdt.distributions.Normal(0.0, 1.0), tdt.distributions.Normal(1.0, 1.0))
    tensor(0.5000)
    """
    fits = [pair for pair in _FORMULAS if isinstance(p, pair[0]) and isinstance(q, pair[1])]
    if not fits:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
        )
    far_p, far_q = type(p).__mro__.index, type(q).__mro__.index
    by_p = min(fits, key=lambda pair: (far_p(pair[0]), far_q(pair[1])))
    by_q = min(fits, key=lambda pair: (far_q(pair[1]), far_p(pair[0])))
    if _FORMULAS[by_p] is not _FORMULAS[by_q]:
        warnings.warn(
            f"Ambiguous kl_divergence({type(p).__name__}, {type(q).__name__}). "
            f"Please register_kl({by_p[0].__name__}, {by_q[1].__name__})",
            RuntimeWarning,
            stacklevel=2,
        )
    return _FORMULAS[by_p](p, q)


# Two of one family


@register_kl(Bernoulli, Bernoulli)
def _(p: Bernoulli, q: Bernoulli) -> Tensor:
    ones = p.probs * (F.softplus(-q.logits) - F.softplus(-p.logits))
    zeros = (1 - p.probs) * (F.softplus(q.logits) - F.softplus(p.logits))
    ones = ones.masked_fill(q.probs == 0, math.inf).masked_fill(p.probs == 0, 0)
    return ones + zeros.masked_fill(q.probs == 1, math.inf).masked_fill(p.probs == 1, 0)


@register_kl(Beta, Beta)
def _(p: Beta, q: Beta) -> Tensor:
    return kl_divergence(p._dirichlet, q._dirichlet)


@register_kl(Binomial, Binomial)
def _(p: Binomial, q: Binomial) -> Tensor:
    if (p.total_count < q.total_count).any():
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    of_one = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    return (p.total_count * of_one).masked_fill(p.total_count > q.total_count, math.inf)


@register_kl(Categorical, Categorical)
def _(p: Categorical, q: Categorical) -> Tensor:
    terms = p.probs * (p.logits - q.logits)
    return terms.masked_fill(q.probs == 0, math.inf).masked_fill(p.probs == 0, 0).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return kl_divergence(p._categorical, q._categorical)


@register_kl(Cauchy, Cauchy)
def _(p: Cauchy, q: Cauchy) -> Tensor:
    return ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log() - (4 * p.scale * q.scale).log()


@register_kl(Dirichlet, Dirichlet)
def _(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b, total = p.concentration, q.concentration, p.concentration.sum(-1)
    norms = total.lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
    return norms + ((a - b) * (a.digamma() - total.digamma().unsqueeze(-1))).sum(-1)


@register_kl(Exponential, Exponential)
def _(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(Gamma, Gamma)
def _(p: Gamma, q: Gamma) -> Tensor:
    a, b = p.concentration, q.concentration
    norms = b * (p.rate / q.rate).log() + b.lgamma() - a.lgamma()
    return norms + (a - b) * a.digamma() + (q.rate - p.rate) * (a / p.rate)


@register_kl(Geometric, Geometric)
def _(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Gumbel, Gumbel)
def _(p: Gumbel, q: Gumbel) -> Tensor:
    ratio, shift = p.scale / q.scale, (p.loc - q.loc) / q.scale
    return shift - ratio.log() + ratio * euler_constant + ((1 + ratio).lgamma() - shift).exp() - (1 + euler_constant)


@register_kl(HalfNormal, HalfNormal)
def _(p: HalfNormal, q: HalfNormal) -> Tensor:
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _(p: Laplace, q: Laplace) -> Tensor:
    ratio, shift = p.scale / q.scale, (p.loc - q.loc).abs()
    return shift / q.scale - ratio.log() + ratio * (-shift / p.scale).exp() - 1


@register_kl(MultivariateNormal, MultivariateNormal)
def _(p: MultivariateNormal, q: MultivariateNormal) -> Tensor:
    _check_sizes(p, q)
    ours, theirs = p._unbroadcasted_scale_tril, q._unbroadcasted_scale_tril
    batch = tdt.broadcast_shapes(ours.shape[:-2], theirs.shape[:-2])
    n = p.event_shape[0]
    trace = solve_lower(theirs.expand(*batch, n, n), ours.expand(*batch, n, n)).pow(2).sum((-2, -1))
    return half_log_det(theirs) - half_log_det(ours) + 0.5 * (trace + mahalanobis(theirs, q.loc - p.loc) - n)


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _(p: Any, q: LowRankMultivariateNormal) -> Tensor:
    _check_sizes(p, q)
    if isinstance(p, MultivariateNormal):
        trace, log_det = q.trace_of_quotient(p._unbroadcasted_scale_tril), 2 * half_log_det(p._unbroadcasted_scale_tril)
    else:
        diagonal = tdt.diag_embed(p._unbroadcasted_cov_diag.sqrt())
        trace = q.trace_of_quotient(p._unbroadcasted_cov_factor) + q.trace_of_quotient(diagonal)
        log_det = p.log_det()
    return 0.5 * (q.log_det() - log_det + trace + q.distance(q.loc - p.loc) - p.event_shape[0])


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _(p: LowRankMultivariateNormal, q: MultivariateNormal) -> Tensor:
    _check_sizes(p, q)
    factor, diagonal = p._unbroadcasted_cov_factor, tdt.diag_embed(p._unbroadcasted_cov_diag.sqrt())
    trace = tdt.zeros(())
    for part in (factor, diagonal):
        theirs = q._unbroadcasted_scale_tril
        batch = tdt.broadcast_shapes(theirs.shape[:-2], part.shape[:-2])
        solved = solve_lower(theirs.expand(*batch, -1, -1), part.expand(*batch, -1, -1))
        trace = trace + solved.pow(2).sum((-2, -1))
    distance = mahalanobis(q._unbroadcasted_scale_tril, q.loc - p.loc)
    return half_log_det(q._unbroadcasted_scale_tril) + 0.5 * (trace + distance - p.event_shape[0] - p.log_det())


def _check_sizes(p: Distribution, q: Distribution) -> None:
    if p.event_shape != q.event_shape:
        raise ValueError("KL-divergence between two Multivariate Normals with different event shapes cannot be "
                         f"computed: {tuple(p.event_shape)} and {tuple(q.event_shape)}")  # fmt: skip


@register_kl(Normal, Normal)
def _(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(Pareto, Pareto)
def _(p: Pareto, q: Pareto) -> Tensor:
    ratio = q.alpha / p.alpha
    divergence = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return divergence.masked_fill(p.scale < q.scale, math.inf)


@register_kl(Poisson, Poisson)
def _(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Uniform, Uniform)
def _(p: Uniform, q: Uniform) -> Tensor:
    divergence = ((q.high - q.low) / (p.high - p.low)).log()
    return divergence.masked_fill((q.low > p.low) | (q.high < p.high), math.inf)


@register_kl(Independent, Independent)
def _(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError(f"KL of Independent over {p.reinterpreted_batch_ndims} and over "
                                  f"{q.reinterpreted_batch_ndims} dimensions is not implemented")  # fmt: skip
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError(
            "KL of transformed distributions is implemented for equal transforms and event shapes"
        )
    return kl_divergence(p.base_dist, q.base_dist)


# Two families: -E[log q(x)] needs a few means over p


def _mean_log(p: Any) -> Tensor:
    """E[log x]."""
    if isinstance(p, Beta):
        return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    if isinstance(p, Exponential):
        return -euler_constant - p.rate.log()
    if isinstance(p, Pareto):
        return p.scale.log() + p.alpha.reciprocal()
    return _mean_log_between(p.low, p.high)


def _mean_log_between(low: Tensor, high: Tensor) -> Tensor:
    """E[log x] for an x uniform between two numbers."""
    return (high.xlogy(high) - low.xlogy(low)) / (high - low) - 1


def _mean_exp(p: Any, rate: Tensor) -> Tensor:
    """E[exp(-rate · x)]."""
    if isinstance(p, Exponential):
        return p.rate / (p.rate + rate)
    if isinstance(p, Gamma):
        return (1 + rate / p.rate).pow(-p.concentration)
    if isinstance(p, Normal):
        return (0.5 * (p.scale * rate).pow(2) - p.loc * rate).exp()
    return ((-rate * p.low).exp() - (-rate * p.high).exp()) / (rate * (p.high - p.low))


def _surprise_exponential(p: Any, q: Exponential) -> Tensor:
    return q.rate * p.mean - q.rate.log()


def _surprise_gamma(p: Any, q: Gamma) -> Tensor:
    a = q.concentration
    return a.lgamma() - a * q.rate.log() - (a - 1) * _mean_log(p) + q.rate * p.mean


def _surprise_gumbel(p: Any, q: Gumbel) -> Tensor:
    return q.scale.log() + (p.mean - q.loc) / q.scale + (q.loc / q.scale).exp() * _mean_exp(p, q.scale.reciprocal())


def _surprise_normal(p: Any, q: Normal) -> Tensor:
    square = p.variance + (p.mean - q.loc).pow(2)
    return 0.5 * math.log(2 * math.pi) + q.scale.log() + 0.5 * square / q.scale.pow(2)


def _surprise_laplace(p: Normal, q: Laplace) -> Tensor:
    shift = (p.loc - q.loc) / p.scale
    around = math.sqrt(2 / math.pi) * p.scale * (-0.5 * shift.pow(2)).exp()
    return (2 * q.scale).log() + (around + (p.loc - q.loc) * (shift * math.sqrt(0.5)).erf()) / q.scale


def _surprise_pareto(p: Uniform, q: Pareto) -> Tensor:
    return (q.alpha + 1) * _mean_log(p) - q.alpha.log() - q.alpha * q.scale.log()


def _surprise_beta(p: Uniform, q: Beta) -> Tensor:
    a, b = q.concentration1, q.concentration0
    log_beta = a.lgamma() + b.lgamma() - (a + b).lgamma()
    return log_beta - (a - 1) * _mean_log(p) - (b - 1) * _mean_log_between(1 - p.high, 1 - p.low)


def _surprise_uniform(p: Any, q: Uniform) -> Tensor:
    return (q.high - q.low).log()


def _surprise_continuous(p: Any, q: ContinuousBernoulli) -> Tensor:
    return -p.mean * q.logits - (-q.probs).log1p() - q._cont_bern_log_norm()


def _surprise_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return q.rate - p.probs * q.rate.log()


SURPRISE: dict[type, Formula] = {
    Beta: _surprise_beta, ContinuousBernoulli: _surprise_continuous, Exponential: _surprise_exponential,
    Gamma: _surprise_gamma, Gumbel: _surprise_gumbel, Laplace: _surprise_laplace, Normal: _surprise_normal,
    Pareto: _surprise_pareto, Poisson: _surprise_poisson, Uniform: _surprise_uniform,
}  # fmt: skip
FINITE: dict[type, tuple[type, ...]] = {
    Bernoulli: (Poisson,),
    Beta: (ContinuousBernoulli, Exponential, Gamma, Normal, Uniform),
    ContinuousBernoulli: (ContinuousBernoulli, Exponential, Normal, Uniform),
    Exponential: (Gamma, Gumbel, Normal),
    Gamma: (Exponential, Gumbel, Normal),
    Gumbel: (Normal,),
    Laplace: (Normal,),
    Normal: (Gumbel, Laplace),
    Pareto: (Exponential, Gamma, Normal),
    Uniform: (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Normal, Pareto),
}
# Where p has values that q has not.
INFINITE: dict[type, tuple[type, ...]] = {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gamma: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gumbel: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Laplace: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Normal: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Pareto: (Beta, ContinuousBernoulli, Uniform),
    Poisson: (Bernoulli, Binomial),
}


def _finite(surprise: Formula) -> Formula:
    def divergence(p: Any, q: Any) -> Tensor:
        value = surprise(p, q) - p.entropy()
        if isinstance(p, Pareto):  # the tail has no such moment
            return value.masked_fill(p.alpha <= (2 if isinstance(q, Normal) else 1), math.inf)
        if isinstance(q, Uniform):
            return value.masked_fill((q.low > 0) | (q.high < 1), math.inf)
        if isinstance(p, Uniform) and hasattr(q.support, "lower_bound"):
            high = getattr(q.support, "upper_bound", math.inf)
            return value.masked_fill((p.low < q.support.lower_bound) | (p.high > high), math.inf)
        return value

    return divergence


for kind_p, kinds_q in FINITE.items():
    for kind_q in kinds_q:
        register_kl(kind_p, kind_q)(_finite(SURPRISE[kind_q]))
for kind_p, kinds_q in INFINITE.items():
    for kind_q in kinds_q:
        register_kl(kind_p, kind_q)(lambda p, q: tdt.full_like(p.mean, math.inf))
