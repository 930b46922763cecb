"""RAdam: Adam that starts carefully."""

from __future__ import annotations

from typing import Any

from tdt._core.tensor import Tensor
from tdt.optim._moments import Moments
from tdt.optim._params import check_betas, check_rates
from tdt.optim.optimizer import Params


class RAdam(Moments):
    """Rectified Adam: steps are scaled by the second moment only once it rests on enough gradients.

    Step t, with gradient g (negated by `maximize`), to which weight_decay · p is added, and m̂, v̂ as in `Adam`:
    ρ = 2 / (1 - β₂) - 1; ρₜ = ρ - 2 t β₂ᵗ / (1 - β₂ᵗ). Where ρₜ > 5, p = p - lr · r · m̂ / (√v̂ + eps / √(1 - β₂ᵗ)),
    with
    r² = (ρₜ - 4) (ρₜ - 2) ρ / ((ρ - 4) (ρ - 2) ρₜ); before that p = p - lr · m̂.

    State of a parameter: "step", "exp_avg" (m), "exp_avg_sq" (v). `foreach`, `differentiable` and `capturable` as in
    `Adam`.

    Args:
        betas: weights β₁ and β₂ of the past in the running means.
        decoupled_weight_decay: multiply p by (1 - lr · weight_decay) and leave g as it is.
    Raises:
        ValueError: when an option is out of range.
    Source: Liu et al., "On the Variance of the Adaptive Learning Rate and Beyond", 2020.

    >>> import tdt
    >>> p = tdt.zeros(2, requires_grad=True)
    >>> optimizer = tdt.optim.RAdam([p], lr=0.1)
    >>> (p * tdt.tensor([1.0, -2.0])).sum().backward()
    >>> optimizer.step()
    >>> p.detach()
    tensor([-0.1000,  0.2000])
    """

    _options = ("lr", "betas", "eps", "weight_decay", "decoupled_weight_decay", "maximize")

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rates(lr=lr, eps=eps, weight_decay=weight_decay)
        check_betas(betas)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _advance(self, options: dict[str, Any], fresh: bool, *scalars: float) -> tuple[tuple, tuple]:
        step, (beta1, beta2) = scalars[0] + 1, options["betas"]
        rate, rest = -options["lr"] / (1 - beta1**step), 1 - beta2**step
        most = 2 / (1 - beta2) - 1
        length = most - 2 * step * beta2**step / rest  # of the running mean, in gradients
        if length <= 5:
            return (step,), (rate, 0.0, 0.0, False)
        rectified = (length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length)
        return (step,), (rate * (rectified * rest) ** 0.5, 0.0, options["eps"], True)
