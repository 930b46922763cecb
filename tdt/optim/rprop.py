"""Rprop: steps that follow the signs of gradients alone."""

from __future__ import annotations

from typing import Any

from tdt._core.tensor import Tensor
from tdt.optim._params import check_rates, number
from tdt.optim._planned import PlannedOptimizer
from tdt.optim.optimizer import Params


class Rprop(PlannedOptimizer):
    """Resilient backpropagation: step sizes follow the signs of gradients, which must be those of the whole data set.

    Each step, with gradient g (negated by `maximize`) and that of the step before: where the signs agree, the step size
    s
    is multiplied by etas[1]; where they differ, by etas[0], and g counts as 0. Then p = p - s · sign(g). At first s =
    lr.

    State of a parameter: "step", "prev" (the gradient before), "step_size" (s). `foreach`, `differentiable` and
    `capturable` as in `Adam`.

    Args:
        etas: factors that decrease and increase a step size.
        step_sizes: least and largest step size.
    Raises:
        ValueError: when lr is negative, or not 0 < etas[0] < 1 < etas[1].
    Source: Riedmiller and Braun, "A Direct Adaptive Method for Faster Backpropagation Learning: RPROP", 1993.

    >>> import tdt
    >>> p = tdt.zeros(2, requires_grad=True)
    >>> optimizer = tdt.optim.Rprop([p], lr=0.1)
    >>> (p * tdt.tensor([1.0, -2.0])).sum().backward()
    >>> optimizer.step()
    >>> p.detach()
    tensor([-0.1000,  0.1000])
    """

    _options = ("lr", "etas", "step_sizes", "maximize")

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rates(lr=lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}: expected 0 < etas[0] < 1 < etas[1]")
        defaults = {
            "lr": lr,
            "etas": etas,
            "step_sizes": step_sizes,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _arrays(self, group: dict[str, Any]) -> dict[str, float]:
        return {"prev": 0.0, "step_size": number(group["lr"])}

    def _change(self, xp: Any, g: Any, p: Any, state: list, numbers: tuple, **options: Any) -> Any:
        (before, size), (down, up), (least, most) = state, options["etas"], options["step_sizes"]
        agreement = g * before
        size[...] = xp.clip(xp.where(agreement > 0, size * up, xp.where(agreement < 0, size * down, size)), least, most)
        g = xp.where(agreement < 0, 0.0, g)
        before[...] = g
        return xp.sign(g) * -size
