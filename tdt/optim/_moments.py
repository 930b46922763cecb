"""The formula that Adam and its relatives share."""

from __future__ import annotations

from typing import Any

from tdt._kernels import kernel, some
from tdt.optim._planned import PlannedOptimizer


class Moments(PlannedOptimizer):
    """Steps along running means of the gradient and of its square: p = p + (a m + b g) / (√v + e), or p = p + a m.

    m = β₁ m + (1 - β₁) g; v = β₂ v + (1 - β₂) g². Subclasses give the numbers (a, b, e, whether there is a divisor).
    """

    _kernel = kernel("optim_cpu:moments", some)

    def _arrays(self, group: dict[str, Any]) -> dict[str, float]:
        return {"exp_avg": 0.0, "exp_avg_sq": 0.0}

    def _change(self, xp: Any, g: Any, p: Any, state: list, numbers: tuple, **options: Any) -> Any:
        (m, v, *top), (a, b, e, divided), (beta1, beta2) = state, numbers, options["betas"]
        m += (1 - beta1) * (g - m)
        v[...] = beta2 * v + (1 - beta2) * g * g
        for most in top:  # AMSGrad divides by the largest so far
            v = xp.maximum(most * 1, v)  # of a copy, since a recorded maximum keeps what it compared
            most[...] = v
        step = a * m + b * g if b else a * m
        return step / (xp.sqrt(v) + e) if divided else step
