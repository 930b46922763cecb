"""SGD: stochastic gradient descent with momentum."""

from __future__ import annotations

from typing import Any

from tdt._core.sparse import SparseCOO
from tdt._core.tensor import Tensor, wrap
from tdt._kernels import kernel, some
from tdt.optim._params import number
from tdt.optim._planned import PlannedOptimizer, check_implementation
from tdt.optim.optimizer import Params


class SGD(PlannedOptimizer):
    """Stochastic gradient descent, with momentum and Nesterov's form as options.

    Each step, with gradient g (negated by `maximize`) and d = g + weight_decay · p:
    buffer = momentum · buffer + (1 - dampening) · d, at first buffer = d; p = p - lr · buffer, or with `nesterov`
    p = p - lr · (d + momentum · buffer). Without momentum p = p - lr · d.

    State of a parameter: "momentum_buffer". Sparse gradients change only their rows (and make the buffer sparse).

    Args:
        dampening: fraction of each gradient that does not enter the buffer.
        foreach, fused: accepted without effect; there is one implementation.
        differentiable: autograd records the step; the parameters must then be results of operations.
    Raises:
        ValueError: when an option is negative, or Nesterov's form has no momentum or dampening.
    Source: Robbins and Monro, 1951; momentum: Sutskever et al., "On the importance of initialization and momentum",
        2013.

    >>> import tdt
    >>> p = tdt.zeros(2, requires_grad=True)
    >>> optimizer = tdt.optim.SGD([p], lr=0.1)
    >>> (p * tdt.tensor([1.0, 2.0])).sum().backward()
    >>> optimizer.step()
    >>> p.detach()
    tensor([-0.1000, -0.2000])
    """

    _kernel = kernel("optim_cpu:sgd", some)
    _foreach_records = True
    _options = ("lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize")

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        for name, value in (("learning rate", lr), ("momentum value", momentum), ("weight_decay value", weight_decay)):
            if number(value) < 0.0:
                raise ValueError(f"Invalid {name}: {value}")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        check_implementation(foreach, fused, differentiable)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)

    def _arrays(self, group: dict[str, Any]) -> dict[str, float]:
        return {"momentum_buffer": 0.0} if group["momentum"] != 0 else {}

    def _scalars(self, group: dict[str, Any]) -> dict[str, float]:
        return {}

    def _advance(self, options: dict[str, Any], fresh: bool, *scalars: float) -> tuple[tuple, tuple]:
        return (), (1.0 if fresh else 1 - options["dampening"], fresh)

    def _change(self, xp: Any, g: Any, p: Any, state: list, numbers: tuple, **options: Any) -> Any:
        momentum, (fraction, fresh) = options["momentum"], numbers
        if momentum != 0:
            (buffer,) = state
            buffer *= momentum
            # PyTorch's first buffer is a constant to autograd.
            entering = g.detach() if fresh and isinstance(g, Tensor) else g
            buffer += entering if fraction == 1 else entering * fraction
            g = g + buffer * momentum if options["nesterov"] else buffer
        return g * -options["lr"]

    def _update_sparse(self, group: dict[str, Any], p: Tensor) -> None:
        if group["weight_decay"] != 0:
            raise RuntimeError(
                "add(sparse, dense) is not supported: weight_decay needs dense gradients (p.grad.to_dense())"
            )
        if group["fused"]:
            raise RuntimeError("`fused=True` does not support sparse gradients")
        g: Any = p._grad._a.coalesce()  # type: ignore[union-attr]
        if group["maximize"]:
            g = _times(g, -1)
        if group["momentum"] != 0:
            previous = self.state[p].get("momentum_buffer")
            buffer = g
            if previous is not None:
                buffer = _times(g, 1 - group["dampening"]) + _times(previous._a, group["momentum"])
                buffer = buffer.coalesce() if isinstance(buffer, SparseCOO) else buffer
            self.state[p]["momentum_buffer"] = wrap(buffer)
            g = g + _times(buffer, group["momentum"]) if group["nesterov"] else buffer
        p._a[...] = _times(g, -number(group["lr"])) + p._a


def _times(a: Any, factor: float) -> Any:
    """An array times a number, sparse if it is."""
    return SparseCOO(a.indices, a.values * factor, a.shape, a.coalesced) if isinstance(a, SparseCOO) else a * factor
