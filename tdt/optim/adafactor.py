"""Adafactor: adaptive steps with little memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from tdt import _backend
from tdt._core.dtype import finfo
from tdt._core.tensor import Tensor, wrap
from tdt.optim._params import number
from tdt.optim._plan import scalar_dtypes
from tdt.optim._tensorwise import TensorwiseOptimizer
from tdt.optim.optimizer import Params


class Adafactor(TensorwiseOptimizer):
    """Adafactor: adaptive steps in sublinear memory; a matrix keeps a row and a column of mean squares.

    Step t, with gradient g (negated by `maximize`) and β = 1 - t^beta2_decay: r and c are running means, with weight β,
    of
    the mean squares of g over its last and its last but one dimension; v = r c / max(mean of r, eps[0]). A vector keeps
    v
    itself. Then u = g / max(√v, eps[0]) and p = p - α u / max(1, rms(u) / d), where
    α = max(eps[1], rms(p)) · min(lr, 1 / √t). Before that p is multiplied by (1 - lr · weight_decay).

    State of a parameter: "step", "row_var" (r) and "col_var" (c), or "variance" (v). A step raises RuntimeError for
    sparse
    gradients and complex parameters.

    Args:
        eps: bounds from below, of mean squares and of the parameters' scale; eps[0] None stands for the machine
            epsilon.
        d: bound of the update's root mean square.
        foreach: accepted without effect.
    Raises:
        ValueError: when an option is out of range.
    Source: Shazeer and Stern, "Adafactor: Adaptive Learning Rates with Sublinear Memory Cost", 2018.

    >>> import tdt
    >>> p = tdt.ones(2, 2, requires_grad=True)
    >>> optimizer = tdt.optim.Adafactor([p], lr=0.1)
    >>> (p * tdt.tensor([1.0, -2.0])).sum().backward()
    >>> optimizer.step()
    >>> p.detach()
    tensor([[0.9000, 1.1000],
            [0.9000, 1.1000]])
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        for words, value in {
            "Learning rate should be >= 0": number(lr),
            "beta2_decay should be <= 0": -beta2_decay,
            "epsilon1 should be >= 0": eps[0] or 0,
            "epsilon2 should be >= 0": eps[1],
            "Clipping threshold d should be >= 1": d - 1,
            "weight_decay should be >= 0": weight_decay,
        }.items():
            if not value >= 0:
                shown = {"beta": beta2_decay, "Clip": d}.get(words[:4], value)
                raise ValueError(f"{words} but is: {shown}")
        defaults = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def _update(self, group: dict[str, Any], p: Any) -> None:
        xp = _backend.namespace(p._a)
        g, lr, (eps1, eps2) = -p._grad._a if group["maximize"] else p._grad._a, number(group["lr"]), group["eps"]
        eps1 = finfo(p.dtype).eps if eps1 is None else eps1
        step = float(self.state[p].get("step", 0)) + 1
        self.state[p]["step"] = wrap(np.asarray(step, scalar_dtypes(self.state[p], ["step"])[0]))
        alpha = max(eps2, _rms(p._a)) * min(lr, step**-0.5)
        p._a *= 1 - lr * number(group["weight_decay"])
        fresh = step ** group["beta2_decay"]
        if g.ndim > 1:
            row = self._mean(p, "row_var", xp.mean(g * g, axis=-1, keepdims=True), fresh)
            column = self._mean(p, "col_var", xp.mean(g * g, axis=-2, keepdims=True), fresh)
            v = row @ column / xp.maximum(xp.mean(row, axis=-2, keepdims=True), eps1)
        else:
            v = self._mean(p, "variance", g * g, fresh)
        u = g / xp.sqrt(xp.maximum(v, eps1 * eps1))
        p._a -= alpha / max(1.0, _rms(u) / group["d"]) * u

    def _mean(self, p: Tensor, name: str, now: Any, weight: float) -> Any:
        """The running mean that the state calls `name`, after `now` has entered it with `weight`."""
        if name not in self.state[p]:
            self.state[p][name] = wrap(_backend.namespace(p._a).zeros(now.shape, now.dtype))
        mean = self.state[p][name]._a
        mean += weight * (now - mean)
        return mean


def _rms(a: Any) -> float:
    """The root of the mean square."""
    return float((a * a).sum() / a.size) ** 0.5 if a.size else float("nan")
