"""Adamax: Adam with the largest gradient in place of the root of the mean square."""

from __future__ import annotations

from typing import Any

from tdt._core.tensor import Tensor
from tdt._kernels import kernel, some
from tdt.optim._params import check_betas, check_rates
from tdt.optim._planned import PlannedOptimizer
from tdt.optim.optimizer import Params


class Adamax(PlannedOptimizer):
    """Adamax: Adam in the infinity norm, steps scaled by the largest recent gradient.

    Each step, with gradient g (negated by `maximize`), to which weight_decay · p is added:
    m = β₁ m + (1 - β₁) g; u = max(β₂ u, |g| + eps); p = p - lr / (1 - β₁ᵗ) · m / u.

    State of a parameter: "step", "exp_avg" (m), "exp_inf" (u). `foreach`, `differentiable` and `capturable` as in
    `Adam`.

    Args:
        betas: weights β₁ and β₂ of the past.
    Raises:
        ValueError: when an option is out of range.
    Source: Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2015, section 7.1.

    >>> import tdt
    >>> p = tdt.zeros(2, requires_grad=True)
    >>> optimizer = tdt.optim.Adamax([p], lr=0.1)
    >>> (p * tdt.tensor([1.0, -2.0])).sum().backward()
    >>> optimizer.step()
    >>> p.detach()
    tensor([-0.1000,  0.1000])
    """

    _kernel = kernel("optim_cpu:adamax", some)
    _options = ("lr", "betas", "eps", "weight_decay", "maximize")

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_rates(lr=lr, eps=eps, weight_decay=weight_decay)
        check_betas(betas)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _arrays(self, group: dict[str, Any]) -> dict[str, float]:
        return {"exp_avg": 0.0, "exp_inf": 0.0}

    def _advance(self, options: dict[str, Any], fresh: bool, *scalars: float) -> tuple[tuple, tuple]:
        step = scalars[0] + 1
        return (step,), (-options["lr"] / (1 - options["betas"][0] ** step),)

    def _change(self, xp: Any, g: Any, p: Any, state: list, numbers: tuple, **options: Any) -> Any:
        (m, u), (rate,), (beta1, beta2) = state, numbers, options["betas"]
        m += (1 - beta1) * (g - m)
        u[...] = norm = xp.maximum(beta2 * u, abs(g) + options["eps"])
        return rate * m / norm
