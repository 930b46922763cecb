"""Loss layers: each calls its function; see there for shapes."""

from __future__ import annotations

from tdt._ops.loss import _reduction
from tdt._tensor import Tensor
from tdt.nn import functional as F
from tdt.nn.modules.module import Module


class _Loss(Module):
    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"):
        super().__init__()
        # An unknown reduction is refused when the loss is computed, as PyTorch does.
        old_style = size_average is not None or reduce is not None
        self.reduction = _reduction(size_average, reduce, reduction) if old_style else reduction


class _ClassLoss(_Loss):
    def __init__(self, weight: Tensor | None = None, size_average: bool | None = None, ignore_index: int = -100,
                 reduce: bool | None = None, reduction: str = "mean"):  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index


class CrossEntropyLoss(_ClassLoss):
    """Cross-entropy of softmax(input) with classes or probabilities; see `nn.functional.cross_entropy`.

    >>> import tdt
    >>> tdt.nn.CrossEntropyLoss()(tdt.zeros(1, 2), tdt.tensor([0]))
    tensor(0.6931)
    """

    def __init__(self, weight: Tensor | None = None, size_average: bool | None = None, ignore_index: int = -100,
                 reduce: bool | None = None, reduction: str = "mean", label_smoothing: float = 0.0):  # fmt: skip
        super().__init__(weight, size_average, ignore_index, reduce, reduction)
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction,
                               label_smoothing=self.label_smoothing)  # fmt: skip


class NLLLoss(_ClassLoss):
    """Minus the log-probability of the right class; see `nn.functional.nll_loss`.

    >>> import tdt
    >>> tdt.nn.NLLLoss()(tdt.tensor([[-1.0, -2.0]]), tdt.tensor([1]))
    tensor(2.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class MSELoss(_Loss):
    """Squared difference: mean, sum or each element's.

    >>> import tdt
    >>> tdt.nn.MSELoss()(tdt.tensor([1.0, 3.0]), tdt.zeros(2))
    tensor(5.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)


class L1Loss(_Loss):
    """Absolute difference: mean, sum or each element's.

    >>> import tdt
    >>> tdt.nn.L1Loss()(tdt.tensor([1.0, -3.0]), tdt.zeros(2))
    tensor(2.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, reduction=self.reduction)
