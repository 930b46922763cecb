"""Compiled functions with layers and distributions that check values, and with tensors of numbers that they create."""

from __future__ import annotations

import numpy as np
import pytest

import tdt

D = tdt.distributions
LOSSES = {
    "categorical": lambda y, x, k: -D.Categorical(logits=y).log_prob(k).mean(),
    "normal": lambda y, x, k: -D.Normal(y[:, :2], y[:, 2:].exp()).log_prob(x[:, :2]).mean(),
    "divergence of numbers": lambda y, x, k: D.kl_divergence(D.Normal(y, y.exp()), D.Normal(0.0, 1.0)).mean(),
    "samples": lambda y, x, k: D.Normal(y[:, :2], tdt.nn.functional.softplus(y[:, 2:])).rsample().square().mean(),
    "bernoulli": lambda y, x, k: -D.Bernoulli(logits=y).log_prob((k[:, None] > 1).float()).mean(),
    "beta": lambda y, x, k: -D.Beta(y[:, :1].exp(), y[:, 1:2].exp()).log_prob(x[:, :1].sigmoid()).mean(),
    "created": lambda y, x, k: (
        (y @ tdt.eye(4) * tdt.tensor([1.0, -2.0, 3.0, 0.5]) - tdt.linspace(0, 1, 4)).square().sum()
    ),
    "triangle": lambda y, x, k: y.T.matmul(y)[tuple(tdt.tril_indices(4, 4))].abs().mean() * tdt.logspace(0, 1, 2).sum(),
}


def run(loss, compiled: bool) -> tuple[list[float], bytes, object]:
    """Losses of 40 steps, the weights then, and the step."""
    tdt.manual_seed(0)
    model = tdt.nn.Linear(8, 4)
    optimizer = tdt.optim.SGD(model.parameters(), lr=0.01)

    def step(x, k):
        optimizer.zero_grad()
        found = loss(model(x), x, k)
        found.backward()
        optimizer.step()
        return found

    step = tdt.compile(step, fullgraph=True) if compiled else step
    rng = np.random.default_rng(0)
    batches = [(rng.standard_normal((16, 8), np.float32), rng.integers(0, 4, 16)) for _ in range(40)]
    losses = [step(*map(tdt.from_numpy, batch)).item() for batch in batches]
    return losses, model.weight.detach().numpy().tobytes(), step


@pytest.mark.parametrize("name", LOSSES)
def test_steps_have_the_bits_of_eager(name: str):
    eager, compiled = (run(LOSSES[name], which)[:2] for which in (False, True))
    assert compiled == eager


@pytest.mark.parametrize(("name", "message"), [
    ("categorical", "parameter logits of Categorical .* 16 invalid values of 16"),
    ("normal", "parameter loc of Normal .* 32 invalid values of 32"),
])  # fmt: skip
def test_parameters_of_distributions_are_checked_in_every_call(name: str, message: str):
    step = run(LOSSES[name], True)[2]
    with pytest.raises(ValueError, match=message):
        step(tdt.full((16, 8), float("nan")), tdt.zeros(16, dtype=tdt.int64))


def test_values_outside_the_support_are_refused_in_every_call():
    step = run(LOSSES["categorical"], True)[2]
    with pytest.raises(ValueError, match="value argument of Categorical .* 16 invalid values of 16"):
        step(tdt.zeros(16, 8), tdt.full((16,), 4))


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_bags_of_embeddings(mode: str):
    def trained(compiled: bool):
        tdt.manual_seed(0)
        bag = tdt.nn.EmbeddingBag(10, 4, mode=mode)
        optimizer = tdt.optim.SGD(bag.parameters(), lr=0.1)

        def step(at):
            optimizer.zero_grad()
            loss = bag(at).square().sum()
            loss.backward()
            optimizer.step()
            return loss

        step = tdt.compile(step, fullgraph=True) if compiled else step
        rng = np.random.default_rng(0)
        losses = [step(tdt.from_numpy(rng.integers(0, 10, (6, 3)))).item() for _ in range(40)]
        return losses, bag.weight.detach().numpy().tobytes(), step

    eager, (losses, weights, step) = trained(False), trained(True)
    assert (losses, weights) == eager[:2]
    for wrong in (10, -1):
        with pytest.raises(RuntimeError, match=f"Index 0 of input takes value {wrong}"):
            step(tdt.full((6, 3), wrong))
