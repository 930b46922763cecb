"""Steps as tensor operations that autograd records, for `differentiable=True`: gradients flow through the update."""

from __future__ import annotations

from typing import Any

from tdt._creation import ones, zeros_like
from tdt._dtype import float32
from tdt._tensor import Tensor

State = dict[str, Any]


def _pull(p: Tensor, group: dict[str, Any], decoupled: bool = False) -> Any:
    """The gradient that the group descends: negated by `maximize`, with that of the weight decay unless decoupled."""
    g: Any = -p.grad if group["maximize"] else p.grad  # type: ignore[attr-defined, operator]
    return g if decoupled or group["weight_decay"] == 0 else g + p * group["weight_decay"]  # type: ignore[operator]


def sgd(p: Any, group: dict[str, Any], state: State) -> None:
    """One step of SGD for `p`; the buffer of the first step is a constant, as in PyTorch."""
    g, momentum = _pull(p, group), group["momentum"]
    if momentum != 0:
        buffer = state.get("momentum_buffer")
        buffer = g.detach().clone() if buffer is None else buffer * momentum + g * (1 - group["dampening"])
        state["momentum_buffer"] = buffer
        g = g + buffer * momentum if group["nesterov"] else buffer
    p.sub_(g * group["lr"])


def adam(p: Any, group: dict[str, Any], state: State) -> None:
    """One step of Adam or AdamW for `p`."""
    lr, (beta1, beta2), decoupled = group["lr"], group["betas"], group["decoupled_weight_decay"]
    g = _pull(p, group, decoupled)
    if decoupled and group["weight_decay"] != 0:
        p.mul_(1 - lr * group["weight_decay"])
    names = ["exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if group["amsgrad"] else [])]
    for name in names:
        state.setdefault(name, zeros_like(p))
    step = state["step"] = state.get("step", 0) + ones((), dtype=float32)
    m = state["exp_avg"] = state["exp_avg"] * beta1 + g * (1 - beta1)
    v = state["exp_avg_sq"] = state["exp_avg_sq"] * beta2 + g * g.conj() * (1 - beta2)
    if group["amsgrad"]:
        v = state["max_exp_avg_sq"] = state["max_exp_avg_sq"].maximum(v)
    root = (v / (1 - beta2**step)).sqrt()
    p.sub_(m * (lr / (1 - beta1**step)) / (root + group["eps"]))
