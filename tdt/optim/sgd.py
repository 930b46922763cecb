"""SGD: stochastic gradient descent with momentum."""

from __future__ import annotations

from typing import Any

import numpy as np

from tdt._sparse import SparseCOO
from tdt._tensor import Tensor, wrap
from tdt.optim import _recorded
from tdt.optim._params import number
from tdt.optim._plan import Piece, Plan
from tdt.optim._planned import PlannedOptimizer, check_implementation
from tdt.optim.optimizer import Params


class SGD(PlannedOptimizer):
    """Stochastic gradient descent; with momentum as Sutskever et al. write it (2013), Nesterov's as an option.

    Each step, with gradient g (negated by `maximize`) and d = g + weight_decay · p:
    buffer = momentum · buffer + (1 - dampening) · d, at first buffer = d; p = p - lr · buffer, or with `nesterov`
    p = p - lr · (d + momentum · buffer). Without momentum p = p - lr · d.

    State of a parameter: "momentum_buffer". Sparse gradients change only their rows (and make the buffer sparse).
    `foreach` and `fused` are accepted and change nothing: there is one implementation. With `differentiable` autograd
    records the step; the parameters must then be results of operations. Raises ValueError for negative rates, or Nesterov's
    form without momentum or with dampening.

    >>> import tdt
    >>> p = tdt.zeros(2, requires_grad=True)
    >>> optimizer = tdt.optim.SGD([p], lr=0.1)
    >>> (p * tdt.tensor([1.0, 2.0])).sum().backward()
    >>> optimizer.step()
    >>> p.detach()
    tensor([-0.1000, -0.2000])
    """

    _kernel = "optim.sgd"

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

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:  # saved by a version of PyTorch that did not have these yet
            for name, value in {"nesterov": False, "maximize": False, "foreach": None, "fused": None}.items():
                group.setdefault(name, value)

    def _names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("momentum_buffer",) if group["momentum"] != 0 else ()

    def _record(self, group: dict[str, Any], p: Tensor) -> None:
        _recorded.sgd(p, group, self.state[p] if group["momentum"] != 0 else {})

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
            kept = self.state[p].get("momentum_buffer")
            buffer = g
            if kept is not None:
                buffer = _times(g, 1 - group["dampening"]) + _times(kept._a, group["momentum"])
                buffer = buffer.coalesce() if isinstance(buffer, SparseCOO) else buffer
            self.state[p]["momentum_buffer"] = wrap(buffer)
            g = g + _times(buffer, group["momentum"]) if group["nesterov"] else buffer
        p._a[...] = _times(g, -number(group["lr"])) + p._a

    def _update(self, group: dict[str, Any], plan: Plan, grads: list) -> None:
        rest = 1 - group["dampening"]
        options = {
            "lr": number(group["lr"]),
            "momentum": group["momentum"],
            "weight_decay": number(group["weight_decay"]),
            "nesterov": group["nesterov"],
            "maximize": group["maximize"],
        }
        for rows, table, kernel in plan.tables:
            given = [np.ascontiguousarray(grads[i]) for i in rows]
            table.point(1, given)
            homes = [plan.homes[i] for i in rows]
            kernel(table, np.array([1.0 if slab.fresh[i] else rest for slab, i in homes], np.float64), **options)
        for piece in plan.pieces:
            _update_piece(piece, piece.gradient(grads), 1.0 if piece.fresh else rest, **options)
        if plan.fresh:
            plan.settle()


def _times(a: Any, factor: float) -> Any:
    """An array times a number, sparse if it is."""
    return SparseCOO(a.indices, a.values * factor, a.shape, a.coalesced) if isinstance(a, SparseCOO) else a * factor


def _update_piece(
    piece: Piece,
    g: Any,
    fraction: float,
    *,
    lr: float,
    momentum: float,
    weight_decay: float,
    nesterov: bool,
    maximize: bool,
) -> None:
    """One step of one piece. fraction: how much of the gradient enters the buffer, which is zero at first."""
    xp, work = piece.xp, piece.work
    if maximize:
        g = xp.negative(g, piece.grad)
    if weight_decay != 0:
        g = piece.decayed(g, weight_decay)
    if momentum != 0:
        (buffer,) = piece.state
        xp.multiply(buffer, momentum, buffer)
        xp.add(buffer, g if fraction == 1 else xp.multiply(g, fraction, work), buffer)
        if nesterov:
            xp.add(g, xp.multiply(buffer, momentum, work), work)
            g = work
        else:
            g = buffer
    xp.multiply(g, -lr, work)
    piece.apply()
