"""Adam: steps scaled by running moments of the gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from tdt._tensor import Tensor
from tdt.optim import _recorded
from tdt.optim._params import number
from tdt.optim._plan import Piece, Plan
from tdt.optim._planned import PlannedOptimizer, check_implementation
from tdt.optim.optimizer import Params


class Adam(PlannedOptimizer):
    """Adam (Kingma and Ba, 2015); with `amsgrad` the variant of Reddi et al. (2018).

    Each step, with gradient g (negated by `maximize`), to which weight_decay · p is added:
    m = β₁ m + (1 - β₁) g; v = β₂ v + (1 - β₂) g²; p = p - lr · m̂ / (√v̂ + eps), where m̂ = m / (1 - β₁ᵗ) and
    v̂ = v / (1 - β₂ᵗ) undo the start from zero. With `amsgrad`, v̂ takes the largest v so far.
    With `decoupled_weight_decay` p is multiplied by (1 - lr · weight_decay) instead, and g stays as it is (AdamW).

    State of a parameter: "step" (float32 scalar, CPU), "exp_avg" (m), "exp_avg_sq" (v), with amsgrad
    "max_exp_avg_sq". Complex parameters are updated as pairs of real ones. `foreach` and `fused` are accepted and
    change nothing: there is one implementation. With `differentiable` autograd records the step; the parameters must then
    be results of operations. Raises ValueError for rates out of range; a step with `capturable=True` raises AssertionError
    on the CPU, as in PyTorch, and NotImplementedError on a GPU.

    >>> import tdt
    >>> p = tdt.zeros(2, requires_grad=True)
    >>> optimizer = tdt.optim.Adam([p], lr=0.1)
    >>> (p * tdt.tensor([1.0, 2.0])).sum().backward()
    >>> optimizer.step()
    >>> p.detach()
    tensor([-0.1000, -0.1000])
    """

    _kernel = "optim.adam"
    _stepped = True

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        _check(lr, betas, eps, weight_decay, bool(foreach) and not capturable)
        check_implementation(foreach, fused, differentiable)
        defaults = {
            "lr": lr,
            "betas": tuple(betas),
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:  # saved by a version of PyTorch that did not have these yet
            for name in ("amsgrad", "maximize", "decoupled_weight_decay"):
                group.setdefault(name, False)

    def _names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq", "max_exp_avg_sq") if group["amsgrad"] else ("exp_avg", "exp_avg_sq")

    def _record(self, group: dict[str, Any], p: Tensor) -> None:
        _recorded.adam(p, group, self.state[p])

    def _update(self, group: dict[str, Any], plan: Plan, grads: list) -> None:
        steps = plan.count()
        beta1, beta2 = map(number, group["betas"])
        options = {
            "lr": number(group["lr"]),
            "beta1": beta1,
            "beta2": beta2,
            "eps": group["eps"],
            "weight_decay": group["weight_decay"],
            "decoupled": group["decoupled_weight_decay"],
            "amsgrad": group["amsgrad"],
            "maximize": group["maximize"],
        }
        for rows, table, kernel in plan.tables:
            given = [np.ascontiguousarray(grads[i]) for i in rows]
            table.point(1, given)
            kernel(table, np.array([(1 - beta1 ** steps[i], 1 - beta2 ** steps[i]) for i in rows]), **options)
        for piece in plan.pieces:
            step = steps[piece.first]
            _update_piece(piece, piece.gradient(grads), 1 - beta1**step, 1 - beta2**step, **options)


def _check(lr: Any, betas: Any, eps: float, weight_decay: float, foreach: bool) -> None:
    """ValueError for an option out of range; a tensor must have one element, and none goes with `foreach`."""
    options = {"lr": lr, "betas[0]": betas[0], "betas[1]": betas[1]}
    for name, value in options.items():
        if isinstance(value, Tensor):
            if foreach:
                raise ValueError(f"{name} as a Tensor is not supported for capturable=False and foreach=True")
            if value.numel() != 1:
                raise ValueError(f"Tensor {name} must be 1-element")
    if not number(lr) >= 0.0:
        raise ValueError(f"Invalid learning rate: {lr}")
    if not eps >= 0.0:
        raise ValueError(f"Invalid epsilon value: {eps}")
    for i, beta in enumerate(betas):
        if not 0.0 <= number(beta) < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")
    if not weight_decay >= 0.0:
        raise ValueError(f"Invalid weight_decay value: {weight_decay}")
    if not (all(isinstance(beta, float) for beta in betas) or all(isinstance(beta, Tensor) for beta in betas)):
        raise ValueError("betas must be either both floats or both Tensors")


def _update_piece(
    piece: Piece, g: Any, correction1: float, correction2: float, *, lr: float, beta1: float, beta2: float, eps: float,
    weight_decay: float, decoupled: bool, amsgrad: bool, maximize: bool,
) -> None:  # fmt: skip
    """One step of one piece, in the fewest operations: √v̂ + eps = (√v + eps · √c₂) / √c₂, so c₂ goes into the rate."""
    xp, work, (m, v, *top) = piece.xp, piece.work, piece.state
    if maximize:
        g = xp.negative(g, piece.grad)
    if weight_decay != 0 and not decoupled:
        g = piece.decayed(g, weight_decay)
    xp.subtract(g, m, work)
    xp.multiply(work, 1 - beta1, work)
    xp.add(m, work, m)
    xp.multiply(g, g, work)
    xp.multiply(work, 1 - beta2, work)
    xp.multiply(v, beta2, v)
    xp.add(v, work, v)
    if amsgrad:
        v = xp.maximum(top[0], v, out=top[0])
    root = correction2**0.5
    xp.sqrt(v, work)
    xp.add(work, eps * root, work)
    xp.divide(m, work, work)
    xp.multiply(work, -lr * root / correction1, work)
    if weight_decay != 0 and decoupled:
        xp.multiply(piece.values(piece.grad), 1 - lr * weight_decay, piece.grad)
        xp.add(work, piece.grad, work)
        piece.store()
    else:
        piece.apply()
