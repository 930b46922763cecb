"""Every distribution against PyTorch's: samples of the same seed, densities, moments, and gradients by the parameters."""

from __future__ import annotations

import math
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.special

import tdt
from tdt.distributions import _samples
from tests.helpers import require_torch
from tests.test_random import mkl_draws_bernoulli


def build(kind: str, *values: Any, **named: Any) -> Any:
    """A distribution from numbers and lists, which become tensors, times a factor that gradients are taken by."""

    def make(m: Any, p: Any) -> Any:
        def tensor(value: Any) -> Any:
            return m.tensor(value) * p if isinstance(value, list) else value

        arguments = {name: tensor(value) for name, value in named.items()}
        return getattr(m.distributions, kind)(*map(tensor, values), **arguments)

    return make


def joined(m: Any, p: Any) -> Any:
    return m.distributions.Independent(m.distributions.Normal(m.zeros(2, 3) * p, m.ones(3) * p), 1)


def mixture(m: Any, p: Any) -> Any:
    weights = m.distributions.Categorical(m.tensor([0.3, 0.7]))
    return m.distributions.MixtureSameFamily(weights, m.distributions.Normal(m.tensor([0.0, 3.0]) * p, 0.5))


def vector_mixture(m: Any, p: Any) -> Any:
    parts = m.distributions.Normal(m.arange(6.0).view(3, 2) * p, m.ones(3, 2))
    return m.distributions.MixtureSameFamily(
        m.distributions.Categorical(m.ones(3)), m.distributions.Independent(parts, 1)
    )


def squashed(m: Any, p: Any) -> Any:
    D = m.distributions
    return D.TransformedDistribution(D.Normal(m.zeros(3), m.ones(3) * p), [D.TanhTransform(cache_size=1)])


def flow(m: Any, p: Any) -> Any:
    D = m.distributions
    steps = [D.AffineTransform(1.0, 2.0 * p), D.SigmoidTransform(), D.ReshapeTransform((4,), (2, 2))]
    return D.TransformedDistribution(D.Normal(m.zeros(4) * p, m.ones(4)), steps)


MATRIX = [[2.0, 0.5], [0.5, 1.0]]
DISTRIBUTIONS = {
    "Normal": build("Normal", [0.0, 1.0, -2.0], [1.0, 2.0, 0.5]),
    "Normal of numbers": build("Normal", 0.3, 2.0),
    "Laplace": build("Laplace", [0.0, 1.0], [1.0, 2.0]),
    "Cauchy": build("Cauchy", [0.0, 1.0], [1.0, 2.0]),
    "Uniform": build("Uniform", [0.0, 1.0], [1.0, 3.0]),
    "Exponential": build("Exponential", [0.5, 2.0]),
    "Poisson": build("Poisson", [0.5, 2.0, 30.0]),
    "Bernoulli": build("Bernoulli", [0.2, 0.5, 0.9]),
    "Bernoulli of logits": build("Bernoulli", logits=[0.2, -5.0, 0.9]),
    "Geometric": build("Geometric", [0.2, 0.5, 0.9]),
    "Categorical": build("Categorical", [[0.2, 0.5, 0.3], [1.0, 2.0, 3.0]]),
    "Categorical of logits": build("Categorical", logits=[0.2, 0.5, -0.3]),
    "OneHotCategorical": build("OneHotCategorical", [[0.2, 0.5, 0.3], [1.0, 2.0, 3.0]]),
    "straight through": build("OneHotCategoricalStraightThrough", logits=[0.2, 0.5, 0.3]),
    "Binomial": build("Binomial", 10, [0.2, 0.5, 0.9]),
    "Binomial of logits": build("Binomial", 5, logits=[0.2, 0.0, -0.9]),
    "NegativeBinomial": build("NegativeBinomial", 4, [0.2, 0.5, 0.8]),
    "Multinomial": build("Multinomial", 7, [[0.2, 0.5, 0.3], [1.0, 2.0, 3.0]]),
    "Gamma": build("Gamma", [0.3, 1.0, 5.0], [1.0, 2.0, 3.0]),
    "Chi2": build("Chi2", [1.0, 4.0]),
    "StudentT": build("StudentT", [0.8, 1.5, 4.0], 1.0, 2.0),
    "Dirichlet": build("Dirichlet", [[0.5, 2.0, 3.0], [1.0, 1.0, 4.0]]),
    "Beta": build("Beta", [0.5, 2.0], [1.5, 3.0]),
    "Beta of numbers": build("Beta", 2.0, 3.0),
    "FisherSnedecor": build("FisherSnedecor", [3.0, 5.0], [4.5, 6.0]),
    "MultivariateNormal": build("MultivariateNormal", [1.0, 2.0], MATRIX),
    "of a precision": build("MultivariateNormal", [[0.0, 0.0], [1.0, 2.0]], precision_matrix=MATRIX),
    "of factors": build(
        "MultivariateNormal", [0.0, 1.0], scale_tril=[[[2.0, 0.0], [0.5, 1.0]], [[1.0, 0.0], [0.5, 1.0]]]
    ),
    "LowRankMultivariateNormal": build(
        "LowRankMultivariateNormal", [[0.0, 1.0, 2.0]], [[1.0, 0.5], [0.0, 2.0], [-1.0, 0.3]], [1.0, 0.5, 2.0]
    ),
    "low rank of batches": build("LowRankMultivariateNormal", [0.0, 1.0], [[[1.0], [0.5]], [[2.0], [0.1]]], [1.0, 0.5]),
    "Independent": joined,
    "mixture": mixture,
    "mixture of vectors": vector_mixture,
    "LogNormal": build("LogNormal", [0.0, 1.0], [1.0, 0.5]),
    "LogisticNormal": build("LogisticNormal", [0.0, 1.0], [1.0, 0.5]),
    "HalfNormal": build("HalfNormal", [1.0, 0.5]),
    "HalfCauchy": build("HalfCauchy", [1.0, 0.5]),
    "Gumbel": build("Gumbel", [1.0, 0.5], [1.0, 2.0]),
    "Weibull": build("Weibull", [1.0, 0.5], [1.5, 2.0]),
    "Pareto": build("Pareto", [1.0, 0.5], [2.5, 3.0]),
    "Kumaraswamy": build("Kumaraswamy", [1.0, 0.5], [1.5, 3.0]),
    "InverseGamma": build("InverseGamma", [1.0, 3.5], [1.5, 3.0]),
    "RelaxedBernoulli": lambda m, p: m.distributions.RelaxedBernoulli(
        m.tensor(0.5) * p, logits=m.tensor([0.2, -1.0]) * p
    ),
    "RelaxedOneHot": lambda m, p: m.distributions.RelaxedOneHotCategorical(
        m.tensor(0.5) * p, logits=m.tensor([0.2, -1.0])
    ),
    # Below a concentration of 1 diagonals come close to 0, where the root of 1 - x shows the last bits of x.
    "LKJCholesky": lambda m, p: m.distributions.LKJCholesky(3, m.tensor([1.5, 3.0]) * p),
    "VonMises": build("VonMises", [0.0, 1.0], [1.0, 4.0]),
    "ContinuousBernoulli": build("ContinuousBernoulli", [0.2, 0.5, 0.9]),
    "Wishart": build("Wishart", 4.5, MATRIX),
    "Wishart of factors": build("Wishart", [3.0, 5.0], scale_tril=[[1.5, 0.0], [0.5, 1.0]]),
    "tanh of a normal": squashed,
    "flow": flow,
}
OF_GAMMA = {
    "LKJCholesky", "Gamma", "Chi2", "StudentT", "Dirichlet", "Beta",
    "Beta of numbers", "FisherSnedecor", "InverseGamma",
}  # fmt: skip
FROM_BERNOULLI = ("Bernoulli", "Bernoulli of logits")  # which MKL draws in another way


def outcome(make: Any, m: Any, act: Any) -> Any:
    """What an act on a distribution gives, with the gradient by the factor of its parameters; or an error's class."""
    m.manual_seed(0)
    factor = m.tensor(1.0, requires_grad=True)
    try:
        result = act(m, make(m, factor))
        if getattr(result, "requires_grad", False):
            result.sum().backward()
    except (AttributeError, IndexError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
        return "error", type(error).__name__.lstrip("_")
    if not hasattr(result, "requires_grad"):
        return "value", result
    return "value", result.detach().numpy(), None if factor.grad is None else factor.grad.numpy()


def same(make: Any, act: Any, gradient: float = 2e-4) -> None:
    """The outcome is PyTorch's: values to float32's precision, gradients to `gradient`."""
    torch = require_torch()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = outcome(make, tdt, act), outcome(make, torch, act)
    if theirs[0] == "error" or len(theirs) == 2:
        assert ours == theirs
        return
    assert ours[0] == "value", ours
    assert ours[1].shape == theirs[1].shape
    assert ours[1].dtype == theirs[1].dtype
    np.testing.assert_allclose(ours[1], theirs[1], rtol=2e-5, atol=2e-6)
    assert (ours[2] is None) == (theirs[2] is None)
    if ours[2] is not None:
        np.testing.assert_allclose(ours[2], theirs[2], rtol=gradient, atol=gradient / 10)


def shapes(m: Any, d: Any) -> Any:
    return (
        tuple(d.batch_shape),
        tuple(d.event_shape),
        bool(d.has_rsample),
        bool(d.has_enumerate_support),
        d.support.event_dim,
    )


def each(names: Any = DISTRIBUTIONS) -> Any:
    return pytest.mark.parametrize("name", names)


@each()
def test_shapes_and_moments_are_pytorchs(name: str):
    make = DISTRIBUTIONS[name]
    same(make, shapes)
    for moment in ("mean", "mode", "variance", "stddev"):
        same(make, lambda m, d, moment=moment: getattr(d, moment))
    same(make, lambda m, d: d.entropy())
    same(make, lambda m, d: d.enumerate_support())


@each([name for name in DISTRIBUTIONS if name not in FROM_BERNOULLI])
def test_the_same_seed_draws_the_same_samples(name: str):
    make = DISTRIBUTIONS[name]
    # PyTorch's own gradient of a gamma number is an approximation, good to three digits.
    gradient = 2e-3 if name in OF_GAMMA else 2e-4
    for shape in ((), (20, 2)):
        same(make, lambda m, d, shape=shape: d.sample(shape))
        if not (shape and name.startswith("Wishart")):  # PyTorch overwrites a mask that its backward needs, and raises
            same(make, lambda m, d, shape=shape: d.rsample(shape), gradient)
    same(make, lambda m, d: d.expand((4, *d.batch_shape)).sample())


@each(FROM_BERNOULLI)
def test_the_same_seed_draws_the_same_coins(name: str):
    if mkl_draws_bernoulli(require_torch()):
        pytest.skip("this PyTorch draws coins from MKL")
    same(DISTRIBUTIONS[name], lambda m, d: d.sample((20, 2)))


@each()
def test_densities_and_distribution_functions_are_pytorchs(name: str):
    make = DISTRIBUTIONS[name]
    tdt.manual_seed(3)
    values = make(tdt, 1.0).sample((5,)).numpy()
    for function in ("log_prob", "cdf"):
        same(make, lambda m, d, function=function: getattr(d, function)(m.tensor(values)))
    same(make, lambda m, d: d.icdf(m.full(d.batch_shape + d.event_shape, 0.3)))
    same(make, lambda m, d: d.log_prob(m.full((7, 7, 7), math.nan)))  # neither its shape nor its values fit
    same(lambda m, p: make(m, -1.0), lambda m, d: d.sample())


SIMPLE = [
    "Bernoulli", "Beta", "Categorical", "Cauchy", "ContinuousBernoulli", "Dirichlet", "Exponential", "Gamma", "Geometric",
    "Gumbel", "HalfNormal", "Independent", "Laplace", "LogNormal", "MultivariateNormal", "Normal", "OneHotCategorical",
    "LowRankMultivariateNormal", "Pareto", "Poisson", "Uniform", "low rank of batches", "of factors",
]  # fmt: skip


@each(SIMPLE)
def test_divergences_are_pytorchs(name: str):
    for other in SIMPLE:
        factor = 1.0 if other in ("Bernoulli", "ContinuousBernoulli", "Geometric") else 1.1
        same(
            DISTRIBUTIONS[name],
            lambda m, d, o=other, f=factor: m.distributions.kl_divergence(d, DISTRIBUTIONS[o](m, f)),
        )


def test_gradients_of_gamma_and_beta_numbers_are_those_of_the_quantiles():
    shape, place = np.meshgrid([0.05, 0.3, 1.0, 2.5, 40.0, 3e4], [0.02, 0.3, 0.5, 0.8, 0.99])
    step = 1e-4 * shape

    def slope(quantile):
        at = [quantile(shape + n * step) for n in (-2, -1, 1, 2)]
        return (at[0] - at[3] + 8 * (at[2] - at[1])) / (12 * step)

    found = _samples.gamma_gradient(shape, scipy.special.gammaincinv(shape, place))
    np.testing.assert_allclose(found, slope(lambda a: scipy.special.gammaincinv(a, place)), rtol=1e-6)
    found = _samples.beta_gradient(shape, 2.5, scipy.special.betaincinv(shape, 2.5, place))
    np.testing.assert_allclose(found, slope(lambda a: scipy.special.betaincinv(a, 2.5, place)), rtol=1e-5)


def test_a_second_gradient_of_a_gamma_number_is_refused():
    shape = tdt.tensor([2.0], requires_grad=True)
    sample = tdt.distributions.Gamma(shape, 1.0).rsample()
    (first,) = tdt.autograd.grad(sample.pow(2).sum(), shape, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        first.sum().backward()


def test_wrong_parameters_and_values_are_named():
    with pytest.raises(ValueError, match=r"Expected parameter scale \(Tensor of shape \(\)\) of distribution Normal"):
        tdt.distributions.Normal(0.0, -1.0)
    normal = tdt.distributions.Normal(tdt.zeros(3), 1.0)
    with pytest.raises(ValueError, match="not broadcastable with batch_shape"):
        normal.log_prob(tdt.zeros(2))
    with pytest.raises(ValueError, match="must be a Tensor"):
        normal.log_prob(0.0)
    with pytest.raises(ValueError, match="within the support"):
        tdt.distributions.Exponential(1.0).log_prob(tdt.tensor(-1.0))
    with pytest.raises(ValueError, match="Either `probs` or `logits` must be specified, but not both"):
        tdt.distributions.Categorical()
    with pytest.raises(NotImplementedError, match="p type Normal and q type Poisson"):
        tdt.distributions.kl_divergence(normal, tdt.distributions.Poisson(1.0))
    assert tdt.distributions.Normal(0.0, -1.0, validate_args=False).scale == -1


def test_a_users_distribution_must_define_expand():
    class Shifted(tdt.distributions.Normal):
        def __init__(self, by):
            super().__init__(by, 1.0)

    class Named(tdt.distributions.Normal):
        pass

    with pytest.raises(NotImplementedError, match=r"custom \.expand\(\)"):
        Shifted(2.0).expand([3])
    assert type(Named(0.0, 1.0).expand([3])) is Named


def test_pytorchs_text_and_a_copy_by_pickle():
    categorical = tdt.distributions.Categorical(tdt.ones(2, 3))
    assert repr(categorical) == "Categorical(probs: tdt.Size([2, 3]))"
    assert repr(tdt.distributions.Normal(0.0, 1.0)) == "Normal(loc: 0.0, scale: 1.0)"
    copied = pickle.loads(pickle.dumps(DISTRIBUTIONS["flow"](tdt, 1.0)))
    value = copied.sample()
    assert copied.log_prob(value).equal(DISTRIBUTIONS["flow"](tdt, 1.0).log_prob(value))


@pytest.mark.parametrize("arguments", ["", "wrong=1", "*range(9)"])
def test_wrong_calls_of_every_class_raise_pytorchs_type_error(arguments: str):
    torch = require_torch()
    names = [name for name in torch.distributions.__all__ if hasattr(tdt.distributions, name)]

    def errors(m: Any) -> dict[str, str]:
        found = {}
        for name in names:
            try:
                eval(f"m.distributions.{name}({arguments})", {"m": m})
            except TypeError as error:
                found[name] = str(error)
            except ValueError:
                pass  # a call that Python accepts
        return found

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert errors(tdt) == errors(torch)
