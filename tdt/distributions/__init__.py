"""Probability distributions: samples, log-probabilities, entropies and divergences, with gradients by their parameters.

>>> import tdt
>>> policy = tdt.distributions.Categorical(logits=tdt.zeros(2))
>>> policy.entropy()
tensor(0.6931)
"""

from tdt import Tensor as _Tensor  # noqa: F401  (loads the core: from here on tensors have their methods)
from tdt.distributions import constraints, kl, transforms
from tdt.distributions.bernoulli import Bernoulli
from tdt.distributions.beta import Beta
from tdt.distributions.binomial import Binomial
from tdt.distributions.categorical import Categorical
from tdt.distributions.cauchy import Cauchy
from tdt.distributions.chi2 import Chi2
from tdt.distributions.constraint_registry import biject_to, transform_to
from tdt.distributions.continuous_bernoulli import ContinuousBernoulli
from tdt.distributions.dirichlet import Dirichlet
from tdt.distributions.distribution import Distribution
from tdt.distributions.exp_family import ExponentialFamily
from tdt.distributions.exponential import Exponential
from tdt.distributions.fishersnedecor import FisherSnedecor
from tdt.distributions.gamma import Gamma
from tdt.distributions.geometric import Geometric
from tdt.distributions.gumbel import Gumbel
from tdt.distributions.half_cauchy import HalfCauchy
from tdt.distributions.half_normal import HalfNormal
from tdt.distributions.independent import Independent
from tdt.distributions.inverse_gamma import InverseGamma
from tdt.distributions.kl import kl_divergence, register_kl
from tdt.distributions.kumaraswamy import Kumaraswamy
from tdt.distributions.laplace import Laplace
from tdt.distributions.lkj_cholesky import LKJCholesky
from tdt.distributions.log_normal import LogNormal
from tdt.distributions.logistic_normal import LogisticNormal
from tdt.distributions.lowrank_multivariate_normal import LowRankMultivariateNormal
from tdt.distributions.mixture_same_family import MixtureSameFamily
from tdt.distributions.multinomial import Multinomial
from tdt.distributions.multivariate_normal import MultivariateNormal
from tdt.distributions.negative_binomial import NegativeBinomial
from tdt.distributions.normal import Normal
from tdt.distributions.one_hot_categorical import OneHotCategorical, OneHotCategoricalStraightThrough
from tdt.distributions.pareto import Pareto
from tdt.distributions.poisson import Poisson
from tdt.distributions.relaxed_bernoulli import RelaxedBernoulli
from tdt.distributions.relaxed_categorical import RelaxedOneHotCategorical
from tdt.distributions.studentT import StudentT
from tdt.distributions.transformed_distribution import TransformedDistribution
from tdt.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    CatTransform,
    ComposeTransform,
    CorrCholeskyTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    PowerTransform,
    ReshapeTransform,
    SigmoidTransform,
    SoftmaxTransform,
    SoftplusTransform,
    StackTransform,
    StickBreakingTransform,
    TanhTransform,
    Transform,
    identity_transform,
)
from tdt.distributions.uniform import Uniform
from tdt.distributions.von_mises import VonMises
from tdt.distributions.weibull import Weibull
from tdt.distributions.wishart import Wishart

__all__ = [
    "AbsTransform", "AffineTransform", "Bernoulli", "Beta", "Binomial", "CatTransform", "Categorical", "Cauchy",
    "Chi2", "ComposeTransform", "ContinuousBernoulli", "CorrCholeskyTransform", "CumulativeDistributionTransform",
    "Dirichlet", "Distribution", "ExpTransform", "Exponential", "ExponentialFamily", "FisherSnedecor", "Gamma",
    "Geometric", "Gumbel", "HalfCauchy", "HalfNormal", "Independent", "IndependentTransform", "InverseGamma",
    "Kumaraswamy", "LKJCholesky", "Laplace", "LogNormal", "LogisticNormal", "LowRankMultivariateNormal",
    "LowerCholeskyTransform", "MixtureSameFamily", "Multinomial", "MultivariateNormal", "NegativeBinomial", "Normal",
    "OneHotCategorical", "OneHotCategoricalStraightThrough", "Pareto", "Poisson", "PositiveDefiniteTransform",
    "PowerTransform", "RelaxedBernoulli", "RelaxedOneHotCategorical", "ReshapeTransform", "SigmoidTransform",
    "SoftmaxTransform", "SoftplusTransform", "StackTransform", "StickBreakingTransform", "StudentT", "TanhTransform",
    "Transform", "TransformedDistribution", "Uniform", "VonMises", "Weibull", "Wishart", "biject_to", "constraints",
    "identity_transform", "kl", "kl_divergence", "register_kl", "transform_to", "transforms",
]  # fmt: skip
