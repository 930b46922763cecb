"""Adadelta: steps in the unit of the parameters, without a learning rate."""

from __future__ import annotations

from typing import Any

from tdt._core.tensor import Tensor
from tdt.optim._params import check_rates, number
from tdt.optim._planned import PlannedOptimizer
from tdt.optim.optimizer import Params


class Adadelta(PlannedOptimizer):
    """Adadelta: steps scaled by the root mean square of past steps over that of past gradients.

    Each step, with gradient g (negated by `maximize`), to which weight_decay · p is added: v = ρ v + (1 - ρ) g²;
    d = √(u + eps) / √(v + eps) · g; u = ρ u + (1 - ρ) d²; p = p - lr · d.

    State of a parameter: "step", "square_avg" (v), "acc_delta" (u). `foreach`, `differentiable` and `capturable` as in
    `Adam`.

    Args:
        rho: weight ρ of the past in both means.
    Raises:
        ValueError: when an option is out of range.
    Source: Zeiler, "ADADELTA: An Adaptive Learning Rate Method", 2012.

    >>> import tdt
    >>> p = tdt.zeros(2, requires_grad=True)
    >>> optimizer = tdt.optim.Adadelta([p], eps=0.01)
    >>> (p * tdt.tensor([1.0, -2.0])).sum().backward()
    >>> optimizer.step()
    >>> p.detach()
    tensor([-0.3015,  0.3123])
    """

    _options = ("lr", "rho", "eps", "weight_decay", "maximize")

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rates(lr=lr, rho=rho, eps=eps, weight_decay=weight_decay)
        if number(rho) > 1:
            raise ValueError(f"Invalid rho value: {rho}")
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _arrays(self, group: dict[str, Any]) -> dict[str, float]:
        return {"square_avg": 0.0, "acc_delta": 0.0}

    def _change(self, xp: Any, g: Any, p: Any, state: list, numbers: tuple, **options: Any) -> Any:
        (v, u), rho, eps = state, options["rho"], options["eps"]
        v *= rho
        v += (1 - rho) * g * g
        d = xp.sqrt(u + eps) / xp.sqrt(v + eps) * g
        u *= rho
        u += (1 - rho) * d * d
        return -options["lr"] * d
