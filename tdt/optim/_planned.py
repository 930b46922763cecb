"""What SGD, Adam and AdamW share: the walk over groups, plans, and the options they do not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tdt._tensor import Tensor
from tdt.optim._params import run_closure
from tdt.optim._plan import Plan
from tdt.optim.optimizer import Optimizer

_REFUSED = {
    "differentiable": "a step that gradients flow through; write the update as tensor operations instead",
    "capturable": "a step inside a captured CUDA graph",
}


class PlannedOptimizer(Optimizer):
    """An optimizer that updates each group by a `Plan`: subclasses say which state they keep and how a plan is done."""

    _kernel: str
    _stepped = False

    def _names(self, group: dict[str, Any]) -> tuple[str, ...]:
        """The arrays of state that the group's options call for."""
        raise NotImplementedError

    def _update(self, group: dict[str, Any], plan: Plan, grads: list) -> None:
        """Update the parameters of `plan`, whose gradients are the arrays `grads`."""
        raise NotImplementedError

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient.

        closure: computes the loss and its gradients again; it is run first, and what it returns is returned.
        """
        loss = run_closure(closure)
        with np.errstate(all="ignore"):
            for group in self.param_groups:
                live = [p for p in group["params"] if p._grad is not None]
                if live:
                    plan = self._plan(group, live)
                    self._update(group, plan, _dense([p._grad for p in plan.live]))
                    for p in plan.live:
                        p._st.version += 1
        return loss

    def _plan(self, group: dict[str, Any], live: list[Tensor]) -> Plan:
        names, plan = self._names(group), self._plans.get(id(group))
        if plan is None or not plan.fits(live, names, self.state):
            once = list(dict.fromkeys(live))
            plan = self._plans[id(group)] = Plan(once, names, self._stepped, self.state, self._kernel, plan)
        return plan

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """As `Optimizer.add_param_group`. NotImplementedError for `differentiable` and `capturable`."""
        for name, meaning in _REFUSED.items():
            if isinstance(param_group, dict) and param_group.get(name, self.defaults.get(name)):
                raise NotImplementedError(f"{type(self).__name__}({name}=True), {meaning}, is not supported")
        super().add_param_group(param_group)


def check_implementation(foreach: bool | None, fused: bool | None) -> None:
    """RuntimeError if both implementations are asked for. Either one means ours."""
    if foreach and fused:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


def _dense(grads: list[Any]) -> list:
    """The arrays of gradients. RuntimeError for a sparse one."""
    arrays = [g._a for g in grads]
    for a in arrays:
        if type(a) is not np.ndarray and getattr(a, "is_sparse", False):
            raise RuntimeError("sparse gradients are not supported by this optimizer; use p.grad = p.grad.to_dense()")
    return arrays
