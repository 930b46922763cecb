"""What SGD, Adam and AdamW share: the walk over groups, plans, and the options that change how a step is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tdt._sparse import SparseCOO
from tdt._tensor import Tensor
from tdt.autograd._mode import enable_grad
from tdt.optim._params import run_closure
from tdt.optim._plan import Plan
from tdt.optim.optimizer import Optimizer


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

    def _record(self, group: dict[str, Any], p: Tensor) -> None:
        """Update `p` by tensor operations that autograd records."""
        raise NotImplementedError

    def _update_sparse(self, group: dict[str, Any], p: Tensor) -> None:
        """Update `p`, whose gradient is sparse."""
        raise RuntimeError(
            f"{type(self).__name__} does not support sparse gradients: use SGD, or make them dense by p.grad.to_dense()"
        )

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient.

        closure: computes the loss and its gradients again; it is run first, and what it returns is returned.
        """
        loss = run_closure(closure)
        with np.errstate(all="ignore"):
            for group in self.param_groups:
                live = [p for p in group["params"] if p._grad is not None]
                if group.get("capturable"):
                    _refuse_capture(live)
                if group["differentiable"]:
                    with enable_grad():
                        for p in live:
                            self._record(group, p)
                else:
                    self._step_arrays(group, live)
        return loss

    def _step_arrays(self, group: dict[str, Any], live: list[Tensor]) -> None:
        """Update the parameters `live` of a group as arrays: no graph sees it."""
        dense = []
        for p in live:
            if p._grad._a.__class__ is SparseCOO:  # type: ignore[union-attr]
                self._update_sparse(group, p)
                p._st.version += 1
            else:
                dense.append(p)
        if dense:
            plan = self._plan(group, dense)
            self._update(group, plan, [p._grad._a for p in plan.live])  # type: ignore[union-attr]
            for p in plan.live:
                p._st.version += 1

    def _plan(self, group: dict[str, Any], live: list[Tensor]) -> Plan:
        names, plan = self._names(group), self._plans.get(id(group))
        if plan is None or not plan.fits(live, names, self.state):
            once = list(dict.fromkeys(live))
            plan = self._plans[id(group)] = Plan(once, names, self._stepped, self.state, self._kernel, plan)
        return plan


def check_implementation(foreach: bool | None, fused: bool | None, differentiable: bool) -> None:
    """RuntimeError for options that exclude each other. `foreach` and `fused` mean our one implementation."""
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if foreach and fused:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


def _refuse_capture(params: list[Tensor]) -> None:
    """The errors of `capturable=True`: as in PyTorch on the CPU; on a GPU the counts of steps are kept by the host."""
    if any(not p.is_cuda for p in params):
        raise AssertionError("If capturable=True, params and state_steps must be on supported devices: ['cuda'].")
    if params:
        raise NotImplementedError("capturable=True: a step inside a captured CUDA graph is not supported")
