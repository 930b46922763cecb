"""Adagrad: steps divided by the root of the sum of squared gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from tdt import _backend
from tdt._core.creation import full_like
from tdt._core.tensor import Tensor, wrap
from tdt._kernels import kernel, some
from tdt.optim._params import check_rates, number
from tdt.optim._plan import scalar_dtype
from tdt.optim._planned import PlannedOptimizer, check_implementation
from tdt.optim.optimizer import Params


class Adagrad(PlannedOptimizer):
    """Adagrad: learning rates fall where gradients were large.

    Step t, with gradient g (negated by `maximize`), to which weight_decay · p is added: s = s + g²;
    p = p - lr / (1 + (t - 1) · lr_decay) · g / (√s + eps), where s starts at `initial_accumulator_value`.

    State of a parameter, present from the start: "step", "sum" (s). Sparse gradients change only their rows, and
    exclude
    weight decay (RuntimeError). `foreach`, `fused` and `differentiable` as in `Adam`.

    Raises:
        ValueError: when an option is negative.
    Source: Duchi, Hazan and Singer, "Adaptive Subgradient Methods for Online Learning and Stochastic Optimization",
        2011.

    >>> import tdt
    >>> p = tdt.zeros(2, requires_grad=True)
    >>> optimizer = tdt.optim.Adagrad([p], lr=0.1)
    >>> (p * tdt.tensor([1.0, -2.0])).sum().backward()
    >>> optimizer.step()
    >>> p.detach()
    tensor([-0.1000,  0.1000])
    """

    _kernel = kernel("optim_cpu:adagrad", some)
    _options = ("lr", "lr_decay", "eps", "weight_decay", "maximize")

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        first = initial_accumulator_value
        check_rates(lr=lr, lr_decay=lr_decay, weight_decay=weight_decay, initial_accumulator_value=first, eps=eps)
        check_implementation(foreach, fused, differentiable)
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": first,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:
            for p in group["params"]:
                value = complex(first, first) if p.is_complex() else first
                self.state[p] = {"step": wrap(np.zeros((), scalar_dtype())), "sum": full_like(p, value)}

    def _arrays(self, group: dict[str, Any]) -> dict[str, float]:
        return {"sum": self.defaults["initial_accumulator_value"]}

    def _advance(self, options: dict[str, Any], fresh: bool, *scalars: float) -> tuple[tuple, tuple]:
        (step,) = scalars
        return (step + 1,), (-options["lr"] / (1 + step * options["lr_decay"]),)

    def _change(self, xp: Any, g: Any, p: Any, state: list, numbers: tuple, **options: Any) -> Any:
        (total,), (rate,) = state, numbers
        total += g * g
        return rate * g / (xp.sqrt(total) + options["eps"])

    def _update_sparse(self, group: dict[str, Any], p: Tensor) -> None:
        if group["weight_decay"] != 0:
            raise RuntimeError(
                "weight_decay option is not compatible with sparse gradients: make them dense by p.grad.to_dense()"
            )
        g: Any = p._grad._a.coalesce()  # type: ignore[union-attr]
        own, rows = self.state[p], tuple(g.indices)
        if "sum" not in own:
            first = self.defaults["initial_accumulator_value"]
            own.update(step=wrap(np.zeros((), scalar_dtype())), sum=full_like(p, first))
        after, numbers = self._advance({name: number(group[name]) for name in self._options}, False, own["step"].item())
        own["step"]._a[...] = after[0]
        values = -g.values if group["maximize"] else g.values
        total = own["sum"]._a[rows]
        p._a[rows] += self._change(_backend.namespace(values), values, None, [total], numbers, eps=group["eps"])
        own["sum"]._a[rows] = total
