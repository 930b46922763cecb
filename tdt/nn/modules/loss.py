"""Loss layers: each calls its function; see there for shapes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

from tdt._core.tensor import Tensor
from tdt._ops.nn.loss._front import reduction_of
from tdt._ops.nn.loss.ctc import Lengths
from tdt._ops.nn.loss.linear_cross_entropy import LinearCrossEntropyOptions
from tdt.nn import functional as F
from tdt.nn._types import Device, Dtype
from tdt.nn.modules.distance import PairwiseDistance
from tdt.nn.modules.linear import Linear
from tdt.nn.modules.module import Module


class _Loss(Module):
    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"):
        super().__init__()
        # An unknown reduction is refused when the loss is computed, as PyTorch does.
        old_style = size_average is not None or reduce is not None
        self.reduction = reduction_of(size_average, reduce, reduction) if old_style else reduction


class _WeightedLoss(_Loss):
    def __init__(self, weight: Tensor | None = None, size_average: bool | None = None, reduce: bool | None = None,
                 reduction: str = "mean"):  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class _ClassLoss(_WeightedLoss):
    def __init__(self, weight: Tensor | None = None, size_average: bool | None = None, ignore_index: int = -100,
                 reduce: bool | None = None, reduction: str = "mean"):  # fmt: skip
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index


class CrossEntropyLoss(_ClassLoss):
    """Cross-entropy between softmax(input) and target classes, given as indices or as probabilities.

    Args:
        weight: (C,), factor of each class's loss; the mean is weighted by it.
        ignore_index: target index without loss.
        reduction: "mean", "sum", or "none" for the loss of each sample (formerly size_average, reduce).
        label_smoothing: part of each target, in [0, 1], that is spread evenly over all classes.
    Shape: input (N, C, *) or (C,) logits; target indices (N, *) or (), or probabilities of the input's shape; result (), or
        (N, *) with reduction="none".

    >>> import tdt
    >>> tdt.nn.CrossEntropyLoss()(tdt.zeros(1, 2), tdt.tensor([0]))
    tensor(0.6931)
    """

    weight: Tensor | None

    def __init__(self, weight: Tensor | None = None, size_average: bool | None = None, ignore_index: int = -100,
                 reduce: bool | None = None, reduction: str = "mean", label_smoothing: float = 0.0):  # fmt: skip
        super().__init__(weight, size_average, ignore_index, reduce, reduction)
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction,
                               label_smoothing=self.label_smoothing)  # fmt: skip


class LinearCrossEntropyLoss(_WeightedLoss):
    """Cross-entropy of a linear layer's classes, without storing the logits of all samples at once.

    Args:
        in_features: features of the input.
        num_classes: number of classes.
        bias: whether the linear layer has a bias.
        out_features: further dimensions of the target, for each of which the layer has its own classes.
        weight: (num_classes,), factor of each class's loss.
        ignore_index: target index without loss.
        label_smoothing: part of each target, in [0, 1], that is spread evenly over all classes.
        options: how many samples a chunk has and how it is computed.
    Shape: input (*, in_features), target (*); result (), or (*) with reduction="none".
    Raises:
        RuntimeError: when `weight` is not (num_classes,) or `label_smoothing` is outside [0, 1].

    >>> import tdt
    >>> tdt.nn.LinearCrossEntropyLoss(3, 4)(tdt.zeros(2, 3), tdt.tensor([0, 1]))
    tensor(1.3863, grad_fn=<NllLossBackward0>)
    """

    weight: Tensor | None

    def __init__(self, in_features: int, num_classes: int, *, out_features: tuple[int, ...] = (), bias: bool = False,
                 device: Device = None, dtype: Dtype = None, reduction: str = "mean", weight: Tensor | None = None,
                 ignore_index: int | None = None, label_smoothing: float = 0.0,
                 options: LinearCrossEntropyOptions | None = None):  # fmt: skip
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}")
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(f"expected label_smoothing to be in range [0, 1], got {label_smoothing}")
        super().__init__(weight, reduction=reduction)
        self.num_classes, self.out_features, self.options = num_classes, out_features, options
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing
        self.linear = Linear(in_features, math.prod(out_features, start=num_classes), bias, device, dtype)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        rows, bias = (self.num_classes, *self.out_features), self.linear.bias
        return F.linear_cross_entropy(
            input, self.linear.weight.reshape(*rows, self.linear.in_features), target,
            linear_bias=None if bias is None else bias.reshape(rows), weight=self.weight, reduction=self.reduction,
            ignore_index=self.ignore_index, label_smoothing=self.label_smoothing, options=self.options,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, out_features={self.out_features}, "
            f"bias={self.linear.bias is not None}, reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )


class NLLLoss(_ClassLoss):
    """Negative log-likelihood: minus the log-probability of the target class.

    Args:
        weight: (C,), factor of each class's loss; the mean is weighted by it.
        ignore_index: target index without loss.
        reduction: "mean", "sum", or "none" for the loss of each sample (formerly size_average, reduce).
    Shape: input (N, C, *) or (C,) log-probabilities; target (N, *) or () indices; result (), or (N, *) with
        reduction="none".

    >>> import tdt
    >>> tdt.nn.NLLLoss()(tdt.tensor([[-1.0, -2.0]]), tdt.tensor([1]))
    tensor(2.)
    """

    weight: Tensor | None

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class MSELoss(_Loss):
    """Squared error (input - target)².

    Args:
        reduction: "mean", "sum", or "none" for the error of each element (formerly size_average, reduce).
    Shape: input (*), target (*); result (), or (*) with reduction="none".

    >>> import tdt
    >>> tdt.nn.MSELoss()(tdt.tensor([1.0, 3.0]), tdt.zeros(2))
    tensor(5.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)


class L1Loss(_Loss):
    """Absolute error |input - target|.

    Args:
        reduction: "mean", "sum", or "none" for the error of each element (formerly size_average, reduce).
    Shape: input (*), target (*); result (), or (*) with reduction="none".

    >>> import tdt
    >>> tdt.nn.L1Loss()(tdt.tensor([1.0, -3.0]), tdt.zeros(2))
    tensor(2.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, reduction=self.reduction)


class NLLLoss2d(NLLLoss):
    """Deprecated alias of `NLLLoss`; warns when it is constructed.

    Shape: input (N, C, H, W), target (N, H, W); result (), or (N, H, W) with reduction="none".

    >>> import warnings, tdt
    >>> with warnings.catch_warnings(action="ignore"):
    ...     loss = tdt.nn.NLLLoss2d()
    >>> loss(tdt.full((1, 2, 1, 1), -1.5), tdt.zeros(1, 1, 1, dtype=tdt.int64))
    tensor(1.5000)
    """

    def __init__(self, weight: Tensor | None = None, size_average: bool | None = None, ignore_index: int = -100,
                 reduce: bool | None = None, reduction: str = "mean"):  # fmt: skip
        warnings.warn("`NLLLoss2d` has been deprecated. Please use `NLLLoss` instead as a drop-in replacement.",
                      FutureWarning, stacklevel=2)  # fmt: skip
        super().__init__(weight, size_average, ignore_index, reduce, reduction)


class SmoothL1Loss(_Loss):
    """Absolute error, quadratic below `beta`: `HuberLoss` with delta=beta, divided by beta.

    Args:
        beta: absolute error at which the loss becomes linear; 0 gives `L1Loss`.
        reduction: "mean", "sum", or "none" for the loss of each element (formerly size_average, reduce).
    Shape: input (*), target (*); result (), or (*) with reduction="none".
    Source: Girshick, "Fast R-CNN", 2015.

    >>> import tdt
    >>> tdt.nn.SmoothL1Loss()(tdt.tensor([3.0]), tdt.zeros(1))
    tensor(2.5000)
    """

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
                 beta: float = 1.0):  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """Half the squared error where it is below `delta`, growing linearly beyond: delta (|input - target| - delta / 2).

    Args:
        delta: absolute error at which the loss becomes linear.
        reduction: "mean", "sum", or "none" for the loss of each element.
    Shape: input (*), target (*); result (), or (*) with reduction="none".
    Raises:
        TypeError: when `delta` is not a number.
    Source: Huber, "Robust Estimation of a Location Parameter", 1964.

    >>> import tdt
    >>> tdt.nn.HuberLoss(delta=2.0)(tdt.tensor([3.0]), tdt.zeros(1))
    tensor(4.)
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0):
        if not isinstance(delta, float | int):
            raise TypeError(f"delta must be a float or int, got: {type(delta)}")
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class CTCLoss(_Loss):
    """Connectionist temporal classification: minus the log-probability of label sequences, summed over their alignments.

    Args:
        blank: index of the blank label.
        reduction: "mean" (each loss divided by its target's length first), "sum" or "none".
        zero_infinity: 0 in the place of infinite losses, which arise where an input is too short for its target.
    Shape: log_probs (T, N, C) or (T, C) log-probabilities; targets (N, S) or their concatenation (sum of lengths,);
        input_lengths and target_lengths (N,) or (); result (), or (N,) with reduction="none".
    Source: Graves et al., "Connectionist Temporal Classification", 2006.

    >>> import tdt
    >>> tdt.nn.CTCLoss()(tdt.zeros(3, 1, 2).log_softmax(2), tdt.tensor([[1]]), [3], [1])
    tensor(0.2877)
    """

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False):
        super().__init__(reduction=reduction)
        self.blank, self.zero_infinity = blank, zero_infinity

    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Lengths, target_lengths: Lengths) -> Tensor:
        return F.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity
        )


class BCELoss(_WeightedLoss):
    """Binary cross-entropy -(t log p + (1 - t) log(1 - p)) of probabilities p; use `BCEWithLogitsLoss` for logits.

    Args:
        weight: factor of each element's loss, broadcastable to it.
        reduction: "mean", "sum", or "none" for the loss of each element (formerly size_average, reduce).
    Shape: input (*) within [0, 1], target (*); result (), or (*) with reduction="none".

    >>> import tdt
    >>> tdt.nn.BCELoss()(tdt.tensor([0.5]), tdt.ones(1))
    tensor(0.6931)
    """

    weight: Tensor | None

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy(input, target, self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_WeightedLoss):
    """Binary cross-entropy of logits: sigmoid and `BCELoss` in one step, without overflow.

    Args:
        weight: factor of each element's loss, broadcastable to it.
        pos_weight: factor of the loss of positive targets, broadcastable to them: above 1 favours recall.
        reduction: "mean", "sum", or "none" for the loss of each element (formerly size_average, reduce).
    Shape: input (*), target (*); result (), or (*) with reduction="none".

    >>> import tdt
    >>> tdt.nn.BCEWithLogitsLoss(pos_weight=tdt.tensor([2.0]))(tdt.zeros(1), tdt.ones(1))
    tensor(1.3863)
    """

    weight: Tensor | None
    pos_weight: Tensor | None

    def __init__(self, weight: Tensor | None = None, size_average: bool | None = None, reduce: bool | None = None,
                 reduction: str = "mean", pos_weight: Tensor | None = None):  # fmt: skip
        super().__init__(weight, size_average, reduce, reduction)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(input, target, self.weight, reduction=self.reduction,
                                                  pos_weight=self.pos_weight)  # fmt: skip


class SoftMarginLoss(_Loss):
    """Logistic loss log(1 + exp(-target input)) of targets 1 and -1.

    Args:
        reduction: "mean", "sum", or "none" for the loss of each element (formerly size_average, reduce).
    Shape: input (*), target (*); result (), or (*) with reduction="none".

    >>> import tdt
    >>> tdt.nn.SoftMarginLoss()(tdt.zeros(1), tdt.ones(1))
    tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """Binary cross-entropy of logits, averaged over the classes.

    Args:
        weight: (C,), factor of each class's loss.
        reduction: "mean", "sum", or "none" for the loss of each sample (formerly size_average, reduce).
    Shape: input (N, C) or (C,), target the same shape; result (), or (N,) with reduction="none".

    >>> import tdt
    >>> tdt.nn.MultiLabelSoftMarginLoss()(tdt.zeros(1, 2), tdt.ones(1, 2))
    tensor(0.6931)
    """

    weight: Tensor | None

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_soft_margin_loss(input, target, self.weight, reduction=self.reduction)


class PoissonNLLLoss(_Loss):
    """Negative log-likelihood of counts under Poisson distributions.

    Args:
        log_input: whether the input is the logarithm of the rate; else it is the rate.
        full: add Stirling's approximation of log(target!).
        eps: added to the rate before its logarithm is taken.
        reduction: "mean", "sum", or "none" for the loss of each element (formerly size_average, reduce).
    Shape: input (*), target (*); result (), or (*) with reduction="none".

    >>> import tdt
    >>> tdt.nn.PoissonNLLLoss()(tdt.zeros(1), tdt.ones(1))
    tensor(1.)
    """

    def __init__(self, log_input: bool = True, full: bool = False, size_average: bool | None = None, eps: float = 1e-8,
                 reduce: bool | None = None, reduction: str = "mean"):  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.log_input, self.full, self.eps = log_input, full, eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        return F.poisson_nll_loss(log_input, target, self.log_input, self.full, eps=self.eps, reduction=self.reduction)


class GaussianNLLLoss(_Loss):
    """Negative log-likelihood of targets under normal distributions of the given means and variances.

    Args:
        full: add the constant log(2π) / 2.
        eps: least value of the variance.
        reduction: "mean", "sum", or "none" for the loss of each element.
    Shape: input (*), target (*), var (*) or with a last dimension of 1 or none; result (), or (*) with reduction="none".
    Source: Nix and Weigend, "Estimating the Mean and Variance of the Target Probability Distribution", 1994.

    >>> import tdt
    >>> tdt.nn.GaussianNLLLoss()(tdt.zeros(2), tdt.ones(2), tdt.ones(2))
    tensor(0.5000)
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean"):
        super().__init__(reduction=reduction)
        self.full, self.eps = full, eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        return F.gaussian_nll_loss(input, target, var, self.full, self.eps, self.reduction)


class KLDivLoss(_Loss):
    """Kullback-Leibler divergence of the target distribution from the input, target (log target - input).

    Args:
        reduction: "mean" over elements, "batchmean" (the divergence per sample), "sum" or "none" (formerly size_average, reduce).
        log_target: whether the target holds log-probabilities.
    Shape: input (*) log-probabilities, target (*); result (), or (*) with reduction="none".
    Source: Kullback and Leibler, "On Information and Sufficiency", 1951.

    >>> import tdt
    >>> tdt.nn.KLDivLoss(reduction="batchmean")(tdt.tensor([[0.5, 0.5]]).log(), tdt.tensor([[1.0, 0.0]]))
    tensor(0.6931)
    """

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
                 log_target: bool = False):  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class _MarginLoss(_Loss):
    def __init__(self, margin: float = 0.0, size_average: bool | None = None, reduce: bool | None = None,
                 reduction: str = "mean"):  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.margin = margin


class MarginRankingLoss(_MarginLoss):
    """Ranking loss max(0, -target (input1 - input2) + margin): target 1 ranks input1 above input2, -1 the opposite.

    Args:
        reduction: "mean", "sum", or "none" for the loss of each pair (formerly size_average, reduce).
    Shape: input1 (*), input2 (*), target (*); result (), or (*) with reduction="none".

    >>> import tdt
    >>> tdt.nn.MarginRankingLoss()(tdt.tensor([1.0]), tdt.tensor([3.0]), tdt.ones(1))
    tensor(2.)
    """

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.margin_ranking_loss(input1, input2, target, self.margin, reduction=self.reduction)


class CosineEmbeddingLoss(_MarginLoss):
    """Loss of pairs by their cosine: 1 - cos where the target is 1, max(0, cos - margin) where it is -1.

    Args:
        margin: cosine, in [-1, 1], up to which unlike pairs have no loss.
        reduction: "mean", "sum", or "none" for the loss of each pair (formerly size_average, reduce).
    Shape: input1 and input2 (N, D) or (D,), target (N,) or (); result (), or the target's shape with reduction="none".
    Source: a margin loss of the cosine, as in siamese networks (Bromley et al., 1993).

    >>> import tdt
    >>> tdt.nn.CosineEmbeddingLoss()(tdt.tensor([[1.0, 0.0]]), tdt.tensor([[0.0, 1.0]]), tdt.ones(1))
    tensor(1.)
    """

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.cosine_embedding_loss(input1, input2, target, self.margin, reduction=self.reduction)


class HingeEmbeddingLoss(_Loss):
    """Hinge loss of distances: the input where the target is 1, max(0, margin - input) where it is -1.

    Args:
        reduction: "mean", "sum", or "none" for the loss of each element (formerly size_average, reduce).
    Shape: input (*), target (*) of 1 and -1; result (), or (*) with reduction="none".

    >>> import tdt
    >>> tdt.nn.HingeEmbeddingLoss()(tdt.tensor([0.25]), tdt.tensor([-1.0]))
    tensor(0.7500)
    """

    def __init__(self, margin: float = 1.0, size_average: bool | None = None, reduce: bool | None = None,
                 reduction: str = "mean"):  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.hinge_embedding_loss(input, target, self.margin, reduction=self.reduction)


class MultiLabelMarginLoss(_Loss):
    """Hinge loss between every target class and every other class: the mean of max(0, 1 - (x[target] - x[other])).

    Args:
        reduction: "mean", "sum", or "none" for the loss of each sample (formerly size_average, reduce).
    Shape: input (N, C) or (C,); target the same shape, class indices followed by -1; result (), or (N,) with
        reduction="none".

    >>> import tdt
    >>> tdt.nn.MultiLabelMarginLoss()(tdt.tensor([[0.25, 0.5, 0.0]]), tdt.tensor([[1, -1, 0]]))
    tensor(0.4167)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiMarginLoss(_WeightedLoss):
    """Multi-class hinge loss: the mean over other classes of max(0, margin - (x[target] - x[other]))ᵖ.

    Args:
        p: power of each term, 1 or 2.
        weight: (C,), factor of each class's terms.
        reduction: "mean", "sum", or "none" for the loss of each sample (formerly size_average, reduce).
    Shape: input (N, C) or (C,), target (N,) or (); result (), or the target's shape with reduction="none".
    Raises:
        ValueError: when `p` is neither 1 nor 2, or `weight` is not one-dimensional.

    >>> import tdt
    >>> tdt.nn.MultiMarginLoss()(tdt.tensor([[0.25, 0.5]]), tdt.tensor([0]))
    tensor(0.6250)
    """

    weight: Tensor | None

    def __init__(self, p: int = 1, margin: float = 1.0, weight: Tensor | None = None, size_average: bool | None = None,
                 reduce: bool | None = None, reduction: str = "mean"):  # fmt: skip
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError("only p == 1 and p == 2 supported")
        if weight is not None and weight.ndim != 1:
            raise ValueError(f"MultiMarginLoss: expected weight to be None or 1D tensor, got {weight.ndim}D instead")
        self.p, self.margin = p, margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multi_margin_loss(input, target, self.p, self.margin, self.weight, reduction=self.reduction)


class TripletMarginLoss(_Loss):
    """Triplet loss max(0, d(anchor, positive) - d(anchor, negative) + margin) under a p-norm.

    Args:
        p: degree of the norm.
        eps: added to each difference.
        swap: take d(positive, negative) where it is less than d(anchor, negative).
        reduction: "mean", "sum", or "none" for the loss of each triplet (formerly size_average, reduce).
    Shape: anchor, positive and negative (N, D) or (D,); result (), or (N,) with reduction="none".
    Raises:
        ValueError: when `margin` is not positive.
    Source: Balntas et al., "Learning Local Feature Descriptors with Triplets and Shallow Convolutional Networks", 2016.

    >>> import tdt
    >>> tdt.nn.TripletMarginLoss(margin=2.0)(tdt.zeros(1, 2), tdt.zeros(1, 2), tdt.ones(1, 2))
    tensor(0.5858)
    """

    def __init__(self, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False,
                 size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"):  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        if margin <= 0:
            raise ValueError(f"TripletMarginLoss: expected margin to be greater than 0, got {margin} instead")
        self.margin, self.p, self.eps, self.swap = margin, p, eps, swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_loss(anchor, positive, negative, self.margin, self.p, self.eps, self.swap,
                                     reduction=self.reduction)  # fmt: skip


class TripletMarginWithDistanceLoss(_Loss):
    """Triplet loss max(0, d(anchor, positive) - d(anchor, negative) + margin) under a distance function d of the caller's.

    Args:
        distance_function: takes two batches of samples, returns their distances; None stands for the Euclidean distance.
        swap: take d(positive, negative) where it is less than d(anchor, negative).
        reduction: "mean", "sum", or "none" for the loss of each triplet.
    Shape: anchor, positive and negative (N, *), as the distance takes them; result (), or (N,) with reduction="none".
    Raises:
        ValueError: when `margin` is not positive.

    >>> import tdt
    >>> loss = tdt.nn.TripletMarginWithDistanceLoss(distance_function=lambda a, b: (a - b).abs().amax(-1))
    >>> loss(tdt.zeros(1, 2), tdt.zeros(1, 2), tdt.ones(1, 2))
    tensor(0.)
    """

    def __init__(self, *, distance_function: Callable[[Tensor, Tensor], Tensor] | None = None, margin: float = 1.0,
                 swap: bool = False, reduction: str = "mean"):  # fmt: skip
        super().__init__(reduction=reduction)
        if margin <= 0:
            raise ValueError(
                f"TripletMarginWithDistanceLoss: expected margin to be greater than 0, got {margin} instead"
            )
        self.distance_function = PairwiseDistance() if distance_function is None else distance_function
        self.margin, self.swap = margin, swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_with_distance_loss(anchor, positive, negative, distance_function=self.distance_function,
                                                   margin=self.margin, swap=self.swap, reduction=self.reduction)  # fmt: skip
