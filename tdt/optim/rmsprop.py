"""RMSprop: steps divided by the root of a running mean of squared gradients."""

from __future__ import annotations

from typing import Any

from tdt._core.tensor import Tensor
from tdt._kernels import Kernel, kernel, some
from tdt.optim._params import check_rates
from tdt.optim._planned import PlannedOptimizer
from tdt.optim.optimizer import Params


class RMSprop(PlannedOptimizer):
    """RMSprop: steps scaled by the root of a running mean of squared gradients.

    Each step, with gradient g (negated by `maximize`), to which weight_decay · p is added: v = α v + (1 - α) g²;
    d = g / (√v + eps); p = p - lr · d, or with `momentum` b = momentum · b + d; p = p - lr · b.

    State of a parameter: "step", "square_avg" (v), with momentum "momentum_buffer" (b), with centered "grad_avg".
    `foreach`, `differentiable` and `capturable` as in `Adam`.

    Args:
        alpha: weight α of the past in the running mean.
        centered: subtract the square of a running mean of g from v, which then estimates the variance.
    Raises:
        ValueError: when an option is negative.
    Source: Hinton, "Neural Networks for Machine Learning", lecture 6e, 2012; centered: Graves, 2013.

    >>> import tdt
    >>> p = tdt.zeros(2, requires_grad=True)
    >>> optimizer = tdt.optim.RMSprop([p], lr=0.1)
    >>> (p * tdt.tensor([1.0, -2.0])).sum().backward()
    >>> optimizer.step()
    >>> p.detach()
    tensor([-1.0000,  1.0000])
    """

    _kernel = kernel("optim_cpu:rmsprop", some)
    _options = ("lr", "alpha", "eps", "weight_decay", "momentum", "centered", "maximize")

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rates(lr=lr, eps=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _arrays(self, group: dict[str, Any]) -> dict[str, float]:
        names = ["square_avg"] + ["momentum_buffer"] * (group["momentum"] > 0) + ["grad_avg"] * group["centered"]
        return dict.fromkeys(names, 0.0)

    def _kernel_for(self, group: dict[str, Any]) -> Kernel | None:
        return None if group["centered"] else self._kernel

    def _change(self, xp: Any, g: Any, p: Any, state: list, numbers: tuple, **options: Any) -> Any:
        alpha, momentum, (v, *others) = options["alpha"], options["momentum"], state
        v *= alpha
        v += (1 - alpha) * g * g
        if options["centered"]:
            mean = others[-1]
            mean += (1 - alpha) * (g - mean)
            v = v - mean * mean
        d = g / (xp.sqrt(v) + options["eps"])
        if momentum > 0:
            buffer = others[0]
            buffer *= momentum
            buffer += d
            d = buffer
        return -options["lr"] * d
