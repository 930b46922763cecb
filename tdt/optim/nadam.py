"""NAdam: Adam with Nesterov's momentum."""

from __future__ import annotations

from typing import Any

from tdt._core.tensor import Tensor
from tdt.optim._moments import Moments
from tdt.optim._params import check_betas, check_rates
from tdt.optim.optimizer import Params


class NAdam(Moments):
    """NAdam: Adam with Nesterov's momentum.

    Step t, with gradient g (negated by `maximize`), to which weight_decay · p is added, and m, v as in `Adam`:
    p = p - lr · ((1 - μₜ) / (1 - μ₁…μₜ) · g + μₜ₊₁ / (1 - μ₁…μₜ₊₁) · m) / (√v̂ + eps), where
    μₜ = β₁ (1 - ½ · 0.96^(t · momentum_decay)).

    State of a parameter: "step", "mu_product" (μ₁…μₜ), "exp_avg" (m), "exp_avg_sq" (v). `foreach`, `differentiable` and
    `capturable` as in `Adam`.

    Args:
        betas: weights β₁ and β₂ of the past in the running means.
        decoupled_weight_decay: multiply p by (1 - lr · weight_decay) and leave g as it is.
    Raises:
        ValueError: when an option is out of range.
    Source: Dozat, "Incorporating Nesterov Momentum into Adam", 2016.

    >>> import tdt
    >>> p = tdt.zeros(2, requires_grad=True)
    >>> optimizer = tdt.optim.NAdam([p], lr=0.1)
    >>> (p * tdt.tensor([1.0, -2.0])).sum().backward()
    >>> optimizer.step()
    >>> p.detach()
    tensor([-0.1056,  0.1056])
    """

    _captured = "params, mu_products and state_steps"
    _options = ("lr", "betas", "eps", "weight_decay", "momentum_decay", "decoupled_weight_decay", "maximize")

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rates(lr=lr, eps=eps, weight_decay=weight_decay, momentum_decay=momentum_decay)
        check_betas(betas)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _scalars(self, group: dict[str, Any]) -> dict[str, float]:
        return {"step": 0.0, "mu_product": 1.0}

    def _advance(self, options: dict[str, Any], fresh: bool, *scalars: float) -> tuple[tuple, tuple]:
        step, lr, (beta1, beta2) = scalars[0] + 1, options["lr"], options["betas"]
        root = (1 - beta2**step) ** 0.5
        mu, after = (beta1 * (1 - 0.5 * 0.96 ** (t * options["momentum_decay"])) for t in (step, step + 1))
        rounded = options["scalar_dtypes"][1].type  # the product so far is rounded after each step
        product = float(rounded(scalars[1]) * rounded(mu))
        a, b = after / (1 - product * after), (1 - mu) / (1 - product)
        return (step, product), (-lr * root * a, -lr * root * b, options["eps"] * root, True)
