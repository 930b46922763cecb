"""Muon: momentum made orthogonal, for the matrices inside a network."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tdt._core.creation import zeros_like
from tdt._core.dtype import bfloat16
from tdt._core.tensor import Tensor
from tdt.optim._params import number
from tdt.optim._tensorwise import TensorwiseOptimizer
from tdt.optim.optimizer import Params

ADJUSTMENTS = {
    "original": lambda rows, columns: math.sqrt(max(1, rows / columns)),
    "match_rms_adamw": lambda rows, columns: 0.2 * math.sqrt(max(rows, columns)),
}


class Muon(TensorwiseOptimizer):
    """Muon: momentum of matrices, orthogonalised by a Newton-Schulz iteration.

    Each step, with gradient g: b = momentum · b + (1 - momentum) · g; u = b, or with `nesterov`
    momentum · b + (1 - momentum) · g; o = u with its singular values moved close to 1;
    p = (1 - lr · weight_decay) · p - lr · f · o. State of a parameter: "momentum_buffer" (b).

    Args:
        ns_coefficients, ns_steps: a, b, c and the number of rounds of x = a x + (b x xᵀ + c (x xᵀ)²) x, in bfloat16,
            which
            start from u over its norm.
        eps: least value of that norm.
        adjust_lr_fn: the factor f for a (rows, columns) matrix: √max(1, rows / columns) ("original", or None), or
            0.2 √max(rows, columns) ("match_rms_adamw"), with which a learning rate tuned for AdamW fits.
    Raises:
        ValueError: when an option is out of range or a parameter is not a matrix; give the others to AdamW.
    Source: Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024; match_rms_adamw: Liu et al.,
        2025.

    >>> import tdt
    >>> p = tdt.ones(2, 2, requires_grad=True)
    >>> optimizer = tdt.optim.Muon([p], lr=0.5, weight_decay=0.5)
    >>> optimizer.step()  # no gradient, no change
    >>> p.detach()
    tensor([[1., 1.],
            [1., 1.]])
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        for name, value in {"Learning rate": lr, "momentum": momentum, "weight decay": weight_decay}.items():
            if not number(value) >= 0:
                raise ValueError(f"{name} should be >= 0 but is: {value}")
        if adjust_lr_fn not in (None, *ADJUSTMENTS):
            raise ValueError(
                f"Adjust learning rate function {adjust_lr_fn} is not supported: use one of {', '.join(ADJUSTMENTS)}"
            )
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:
            for p in group["params"]:
                if p.ndim != 2:
                    raise ValueError(
                        f"Muon only supports 2D parameters whereas we found a parameter with size: {p.size()}: "
                        "give it to another optimizer, such as AdamW"
                    )

    def _update(self, group: dict[str, Any], p: Any) -> None:
        own, g = self.state[p], p._grad._a
        lr, momentum, decay = [number(group[name]) for name in ("lr", "momentum", "weight_decay")]
        if "momentum_buffer" not in own:
            own["momentum_buffer"] = zeros_like(p)
        buffer = own["momentum_buffer"]._a
        buffer += (1 - momentum) * (g - buffer)
        update = g + momentum * (buffer - g) if group["nesterov"] else buffer
        direction = _orthogonal(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
        adjust = ADJUSTMENTS[group["adjust_lr_fn"] or "original"](*p.shape)
        p._a *= 1 - lr * decay
        p._a -= (lr * adjust) * direction.astype(g.dtype)


def _orthogonal(u: Any, coefficients: tuple[float, float, float], steps: int, eps: float) -> Any:
    """The matrix `u` with its singular values moved to between about 0.5 and 1.5, in the precision of bfloat16."""
    if steps >= 100:
        raise ValueError(f"Number of steps must be less than 100 for computational efficiency, got {steps}")
    if len(coefficients) != 3:
        raise ValueError(f"Coefficients must be a tuple of exactly 3 values, got {len(coefficients)}")
    (a, b, c), tall = coefficients, u.shape[0] > u.shape[1]
    x = _rounded(u.T if tall else u)  # the product of x and its transpose is then the smaller one
    norm = _rounded((x * x).sum() ** 0.5)
    x = _rounded(x / max(norm, eps))
    for _ in range(steps):
        square = _rounded(x @ x.T)
        x = _rounded(a * x + _rounded(b * square + c * (square @ square)) @ x)
    return x.T if tall else x


def _rounded(x: Any) -> Any:
    """Numbers of bfloat16, for computing in float32: PyTorch rounds each product with its sum once, too."""
    return x.astype(np.float32).astype(bfloat16.np).astype(np.float32)
