"""AdamW: Adam whose weight decay stays out of the moments."""

from __future__ import annotations

from typing import Any

from tdt._core.tensor import Tensor
from tdt.optim.adam import Adam
from tdt.optim.optimizer import Params


class AdamW(Adam):
    """Adam with decoupled weight decay: each step multiplies p by (1 - lr · weight_decay) before Adam's update.

    State, options and errors are those of `Adam`.

    Raises:
        ValueError: when an option is out of range.
    Source: Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019.

    >>> import tdt
    >>> p = tdt.ones(2, requires_grad=True)
    >>> optimizer = tdt.optim.AdamW([p], lr=0.1, weight_decay=0.5)
    >>> p.sum().backward()
    >>> optimizer.step()
    >>> p.detach()
    tensor([0.8500, 0.8500])
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize, capturable=capturable,
            differentiable=differentiable, fused=fused, decoupled_weight_decay=True,
        )  # fmt: skip

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:  # whatever was saved, also by Adam: this class decays the weights apart
            group["decoupled_weight_decay"] = True
