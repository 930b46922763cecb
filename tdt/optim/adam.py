"""Adam: steps scaled by running moments of the gradient."""

from __future__ import annotations

from typing import Any

from tdt._core.creation import tensor
from tdt._core.tensor import Tensor
from tdt.optim._moments import Moments
from tdt.optim._params import check_betas, check_rates
from tdt.optim._planned import check_implementation
from tdt.optim.optimizer import Params


class Adam(Moments):
    """Adam: steps scaled by running means of the gradient and of its square.

    Each step, with gradient g (negated by `maximize`), to which weight_decay · p is added:
    m = β₁ m + (1 - β₁) g; v = β₂ v + (1 - β₂) g²; p = p - lr · m̂ / (√v̂ + eps), where m̂ = m / (1 - β₁ᵗ) and
    v̂ = v / (1 - β₂ᵗ) correct the bias of the start from zero.

    State of a parameter: "step" (float32 scalar, CPU), "exp_avg" (m), "exp_avg_sq" (v), with amsgrad
    "max_exp_avg_sq". Complex parameters are updated as pairs of real ones.

    Args:
        betas: weights β₁ and β₂ of the past in the running means.
        amsgrad: take the largest v so far for v̂.
        foreach, fused: accepted without effect; there is one implementation.
        capturable: a step raises AssertionError on the CPU, as in PyTorch. On a GPU every step can be captured, with or without.
        differentiable: autograd records the step; the parameters must then be results of operations.
        decoupled_weight_decay: multiply p by (1 - lr · weight_decay) and leave g as it is (AdamW).
    Raises:
        ValueError: when an option is out of range.
    Source: Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2015; amsgrad: Reddi, Kale and Kumar, 2018.

    >>> import tdt
    >>> p = tdt.zeros(2, requires_grad=True)
    >>> optimizer = tdt.optim.Adam([p], lr=0.1)
    >>> (p * tdt.tensor([1.0, 2.0])).sum().backward()
    >>> optimizer.step()
    >>> p.detach()
    tensor([-0.1000, -0.1000])
    """

    _recorded_scalar = staticmethod(tensor)  # a step that PyTorch records corrects for the start in float32
    _options = ("lr", "betas", "eps", "weight_decay", "amsgrad", "maximize", "decoupled_weight_decay")

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

    def _arrays(self, group: dict[str, Any]) -> dict[str, float]:
        return super()._arrays(group) | ({"max_exp_avg_sq": 0.0} if group["amsgrad"] else {})

    def _advance(self, options: dict[str, Any], fresh: bool, *scalars: float) -> tuple[tuple, tuple]:
        step, (beta1, beta2) = scalars[0] + 1, options["betas"]
        root = (1 - beta2**step) ** 0.5  # m̂ / (√v̂ + eps) = root / (1 - β₁ᵗ) · m / (√v + eps · root)
        return (step,), (-options["lr"] * root / (1 - beta1**step), 0.0, options["eps"] * root, True)


def _check(lr: Any, betas: Any, eps: float, weight_decay: float, foreach: bool) -> None:
    """ValueError for an option out of range; a tensor must have one element, and none goes with `foreach`."""
    for name, value in {"lr": lr, "betas[0]": betas[0], "betas[1]": betas[1]}.items():
        if isinstance(value, Tensor):
            if foreach:
                raise ValueError(f"{name} as a Tensor is not supported for capturable=False and foreach=True")
            if value.numel() != 1:
                raise ValueError(f"Tensor {name} must be 1-element")
    check_rates(lr=lr, eps=eps, weight_decay=weight_decay)
    check_betas(betas)
    if not (all(isinstance(beta, float) for beta in betas) or all(isinstance(beta, Tensor) for beta in betas)):
        raise ValueError("betas must be either both floats or both Tensors")
