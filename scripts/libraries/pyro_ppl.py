"""pyro: losses and parameters of variational inference, samples of Markov chains and densities are PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyro
import pyro.distributions as dist
import pyro.poutine as poutine
import torch
from pyro.distributions import constraints
from pyro.infer import (
    MCMC,
    NUTS,
    SVI,
    Predictive,
    RenyiELBO,
    Trace_ELBO,
    TraceEnum_ELBO,
    TraceGraph_ELBO,
    TraceMeanField_ELBO,
    autoguide,
    config_enumerate,
    infer_discrete,
)
from pyro.infer.mcmc import HMC
from pyro.nn import PyroModule, PyroSample
from pyro.optim import Adam, ClippedAdam, ExponentialLR
from torch import nn

COINS = torch.tensor([1.0] * 6 + [0.0] * 4)


def coin(data: torch.Tensor) -> None:
    fairness = pyro.sample("fairness", dist.Beta(10.0, 10.0))
    with pyro.plate("data", len(data)):
        pyro.sample("obs", dist.Bernoulli(fairness), obs=data)


def coin_guide(data: torch.Tensor) -> None:
    alpha = pyro.param("alpha", torch.tensor(15.0), constraint=constraints.positive)
    beta = pyro.param("beta", lambda: torch.tensor(15.0), constraint=constraints.positive)
    pyro.sample("fairness", dist.Beta(alpha, beta))


def regression(x: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
    weight = pyro.sample("weight", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
    bias = pyro.sample("bias", dist.Normal(0.0, 2.0))
    sigma = pyro.sample("sigma", dist.LogNormal(0.0, 0.5))
    mean = x @ weight + bias
    with pyro.plate("data", len(x)):
        pyro.sample("obs", dist.Normal(mean, sigma), obs=y)
    return mean


def line() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(12, 2)
    return x, x @ torch.tensor([1.5, -0.5]) + 0.3 + 0.1 * torch.randn(12)


def mixture(data: torch.Tensor) -> None:
    weights = pyro.sample("weights", dist.Dirichlet(0.5 * torch.ones(2)))
    with pyro.plate("components", 2):
        locs = pyro.sample("locs", dist.Normal(0.0, 10.0))
    with pyro.plate("data", len(data)):
        which = pyro.sample("which", dist.Categorical(weights), infer={"enumerate": "parallel"})
        pyro.sample("obs", dist.Normal(locs[which], 1.0), obs=data)


def trained(svi: SVI, steps: int, *data: Any) -> dict[str, Any]:
    losses = [svi.step(*data) for _ in range(steps)]
    return {"losses": losses, "params": {name: pyro.param(name) for name in sorted(pyro.get_param_store())}}


def fresh(case: Callable[[], Any]) -> Callable[[], Any]:
    """The case with an empty store of parameters and pyro's own seed."""

    def run() -> Any:
        pyro.clear_param_store()
        pyro.set_rng_seed(1)
        pyro.enable_validation(True)
        return case()

    return run


def svi_of_coins(loss: Any, optimizer: Any) -> Callable[[], Any]:
    return fresh(lambda: trained(SVI(coin, coin_guide, optimizer(), loss()), 15, COINS))


def svi_with(guide: Any, **options: Any) -> Callable[[], Any]:
    def case() -> Any:
        built_guide = guide(regression, **options)
        result = trained(SVI(regression, built_guide, Adam({"lr": 0.02}), Trace_ELBO()), 12, *line())
        return {**result, "median": built_guide.median(*line()) if hasattr(built_guide, "median") else None}

    return fresh(case)


def scheduled() -> Any:
    schedule = ExponentialLR({"optimizer": torch.optim.SGD, "optim_args": {"lr": 0.001}, "gamma": 0.9})
    svi, losses = SVI(coin, coin_guide, schedule, Trace_ELBO()), []
    for _ in range(5):
        losses.append(svi.step(COINS))
        schedule.step()
    return losses


def amortised() -> Any:
    """A variational autoencoder."""
    encoder, decoder = nn.Linear(6, 4), nn.Linear(2, 6)

    def model(x: torch.Tensor) -> None:
        pyro.module("decoder", decoder)
        with pyro.plate("data", x.shape[0]):
            z = pyro.sample("latent", dist.Normal(x.new_zeros(len(x), 2), x.new_ones(len(x), 2)).to_event(1))
            pyro.sample("obs", dist.Bernoulli(decoder(z).sigmoid()).to_event(1), obs=x)

    def guide(x: torch.Tensor) -> None:
        pyro.module("encoder", encoder)
        with pyro.plate("data", x.shape[0]):
            loc, scale = encoder(x).chunk(2, -1)
            pyro.sample("latent", dist.Normal(loc, scale.exp()).to_event(1))

    return trained(
        SVI(model, guide, ClippedAdam({"lr": 0.01}), TraceMeanField_ELBO()), 8, (torch.rand(5, 6) > 0.5).float()
    )


def enumerated() -> Any:
    data = torch.tensor([0.0, 1.0, 10.0, 11.0, 12.0])
    guide = autoguide.AutoDelta(poutine.block(mixture, expose=["weights", "locs"]))
    result = trained(SVI(mixture, guide, Adam({"lr": 0.1}), TraceEnum_ELBO(max_plate_nesting=1)), 10, data)
    trained_model = poutine.replay(mixture, trace=poutine.trace(guide).get_trace(data))
    inferred = infer_discrete(config_enumerate(trained_model), temperature=0, first_available_dim=-2)
    return {**result, "which": poutine.trace(inferred).get_trace(data).nodes["which"]["value"]}


class Bayesian(PyroModule):
    def __init__(self) -> None:
        super().__init__()
        self.linear = PyroModule[nn.Linear](2, 1)
        self.linear.weight = PyroSample(dist.Normal(0.0, 1.0).expand([1, 2]).to_event(2))

    def forward(self, x: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
        mean = self.linear(x).squeeze(-1)
        with pyro.plate("data", len(x)):
            pyro.sample("obs", dist.Normal(mean, 0.5), obs=y)
        return mean


def bayesian() -> Any:
    model = Bayesian()
    guide = autoguide.AutoDiagonalNormal(model)
    result = trained(SVI(model, guide, Adam({"lr": 0.03}), Trace_ELBO()), 8, *line())
    x = torch.ones(2, 2)
    return {**result, "predictive": Predictive(model, guide=guide, num_samples=4, return_sites=("obs", "_RETURN"))(x)}


def chain(kernel: Any) -> Callable[[], Any]:
    def case() -> Any:
        mcmc = MCMC(kernel(), num_samples=6, warmup_steps=4, disable_progbar=True)
        mcmc.run(*line())
        return mcmc.get_samples()

    return fresh(case)


def handlers() -> Any:
    x, y = line()
    trace = poutine.trace(poutine.condition(regression, data={"sigma": torch.tensor(0.5)})).get_trace(x, y)
    changed = poutine.trace(poutine.do(regression, data={"bias": torch.tensor(1.0)})).get_trace(x)
    scaled = poutine.trace(poutine.scale(coin, scale=0.5)).get_trace(COINS)
    masked = poutine.trace(poutine.mask(coin, mask=False)).get_trace(COINS)
    return [
        trace.log_prob_sum(),
        list(trace.nodes),
        changed.nodes["obs"]["value"],
        scaled.log_prob_sum(),
        masked.log_prob_sum(),
    ]


DENSITIES: dict[str, Callable[[], Any]] = {
    "BetaBinomial": lambda: dist.BetaBinomial(2.0, 3.0, 10),
    "Delta": lambda: dist.Delta(torch.tensor(1.0)),
    "DirichletMultinomial": lambda: dist.DirichletMultinomial(torch.tensor([1.0, 2.0, 3.0]), total_count=6),
    "GammaPoisson": lambda: dist.GammaPoisson(2.0, 1.5),
    "HalfCauchy": lambda: dist.HalfCauchy(2.0),
    "InverseGamma": lambda: dist.InverseGamma(3.0, 2.0),
    "LKJCholesky": lambda: dist.LKJCholesky(3, 1.5),
    "Logistic": lambda: dist.Logistic(0.5, 2.0),
    "MixtureOfDiagNormals": lambda: dist.MixtureOfDiagNormals(
        torch.zeros(2, 3), torch.ones(2, 3), torch.tensor([0.2, 0.8])
    ),
    "MultivariateNormal": lambda: dist.MultivariateNormal(torch.zeros(2), torch.tensor([[2.0, 0.5], [0.5, 1.0]])),
    "OrderedLogistic": lambda: dist.OrderedLogistic(torch.tensor(0.3), torch.tensor([-1.0, 0.5])),
    "ProjectedNormal": lambda: dist.ProjectedNormal(torch.tensor([1.0, 2.0])),
    "SoftLaplace": lambda: dist.SoftLaplace(0.0, 1.0),
    "VonMises": lambda: dist.VonMises(0.5, 3.0),
    "Weibull": lambda: dist.Weibull(2.0, 1.5),
    "ZeroInflatedPoisson": lambda: dist.ZeroInflatedPoisson(torch.tensor(2.0), gate=torch.tensor(0.3)),
}


def density(make: Callable[[], Any]) -> Callable[[], Any]:
    def case() -> Any:
        distribution = make()
        values = distribution.sample((4,))
        return {"sample": values, "log_prob": distribution.log_prob(values), "shape": list(distribution.batch_shape)}

    return fresh(case)


def flow() -> Any:
    transform = dist.transforms.planar(3)
    spline = dist.transforms.spline(3)
    flow = dist.TransformedDistribution(dist.Normal(torch.zeros(3), torch.ones(3)), [spline, transform])
    return flow.rsample((4,))


CASES: dict[str, Callable[[], Any]] = {
    "SVI": svi_of_coins(Trace_ELBO, lambda: Adam({"lr": 0.01, "betas": (0.9, 0.999)})),
    "SVI TraceGraph": svi_of_coins(TraceGraph_ELBO, lambda: Adam({"lr": 0.01})),
    "SVI mean field": svi_of_coins(TraceMeanField_ELBO, lambda: ClippedAdam({"lr": 0.01})),
    "SVI Renyi": svi_of_coins(lambda: RenyiELBO(alpha=0.5, num_particles=2), lambda: Adam({"lr": 0.01})),
    "SVI particles": svi_of_coins(
        lambda: Trace_ELBO(num_particles=3, vectorize_particles=True), lambda: Adam({"lr": 0.01})
    ),
    "AutoNormal": svi_with(autoguide.AutoNormal),
    "AutoDiagonalNormal": svi_with(autoguide.AutoDiagonalNormal),
    "AutoMultivariateNormal": svi_with(autoguide.AutoMultivariateNormal),
    "AutoLowRankMultivariateNormal": svi_with(autoguide.AutoLowRankMultivariateNormal, rank=2),
    "AutoDelta": svi_with(autoguide.AutoDelta),
    "AutoLaplaceApproximation": svi_with(autoguide.AutoLaplaceApproximation),
    "AutoIAFNormal": svi_with(autoguide.AutoIAFNormal),
    "scheduled": fresh(scheduled),
    "autoencoder": fresh(amortised),
    "enumeration": fresh(enumerated),
    "PyroModule": fresh(bayesian),
    "NUTS": chain(lambda: NUTS(regression)),
    "HMC": chain(lambda: HMC(regression, step_size=0.05, num_steps=3)),
    "Predictive": fresh(lambda: Predictive(regression, num_samples=3)(torch.ones(2, 2))),
    "handlers": fresh(handlers),
    "flow": fresh(flow),
    **{f"density of {name}": density(make) for name, make in DENSITIES.items()},
}
