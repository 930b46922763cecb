"""ASGD: gradient descent with an average of the parameters on the side."""

from __future__ import annotations

from typing import Any

from tdt._core.dtype import get_default_dtype
from tdt._core.tensor import Tensor
from tdt.optim._params import check_rates, number
from tdt.optim._planned import PlannedOptimizer
from tdt.optim.optimizer import Params


class ASGD(PlannedOptimizer):
    """Averaged stochastic gradient descent, with the learning rates of Bottou's sgd 2.

    Step t, with gradient g (negated by `maximize`), to which weight_decay · p is added:
    p = (1 - lambd · η) p - η g; a = a + μ (p - a); then η = lr / (1 + lambd · lr · t)^alpha and
    μ = 1 / max(1, t - t0): until t0 steps are taken, a is p itself.

    State of a parameter: "step", "eta" (η), "mu" (μ), "ax" (a). `foreach`, `differentiable` and `capturable` as in
    `Adam`.

    Args:
        lambd: decay of the parameters.
        alpha: power of the learning rate's decay.
        t0: number of steps before averaging starts.
    Raises:
        ValueError: when lr or weight_decay is negative.
    Source: Polyak and Juditsky, "Acceleration of Stochastic Approximation by Averaging", 1992.

    >>> import tdt
    >>> p = tdt.zeros(2, requires_grad=True)
    >>> optimizer = tdt.optim.ASGD([p], lr=0.1)
    >>> (p * tdt.tensor([1.0, -2.0])).sum().backward()
    >>> optimizer.step()
    >>> p.detach(), optimizer.state[p]["ax"]
    (tensor([-0.1000,  0.2000]), tensor([-0.1000,  0.2000]))
    """

    _captured = "params, mus, etas, and state_steps"
    _options = ("lr", "lambd", "alpha", "t0", "weight_decay", "maximize")
    _reads_parameters = True

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_rates(lr=lr, weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _arrays(self, group: dict[str, Any]) -> dict[str, float]:
        return {"ax": 0.0}

    def _scalars(self, group: dict[str, Any]) -> dict[str, float]:
        return {"step": 0.0, "eta": number(group["lr"]), "mu": 1.0}

    def _advance(self, options: dict[str, Any], fresh: bool, *scalars: float) -> tuple[tuple, tuple]:
        (step, eta, mu), lr = scalars, number(options["lr"])
        rounded = get_default_dtype().np.type  # PyTorch computes them as tensors of the default dtype
        after = rounded(lr / (1 + options["lambd"] * lr * (step + 1)) ** options["alpha"])
        return (step + 1, float(after), float(rounded(1 / max(1, step + 1 - options["t0"])))), (eta, mu)

    def _change(self, xp: Any, g: Any, p: Any, state: list, numbers: tuple, **options: Any) -> Any:
        (average,), (eta, mu) = state, numbers
        change = -(options["lambd"] * eta) * p - eta * g
        if mu == 1:
            average[...] = p + change
        else:
            average += mu * (p + change - average)
        return change
