"""A softmax over very many classes that computes few of them: frequent ones in a head, the others in clusters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tdt import _backend
from tdt._core.tensor import Tensor, wrap
from tdt._ops.shape.join import cat
from tdt.nn import functional as F
from tdt.nn._types import Device, Dtype
from tdt.nn.modules.container import ModuleList, Sequential
from tdt.nn.modules.linear import Linear
from tdt.nn.modules.module import Module


class _ASMoutput(NamedTuple):
    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Efficient softmax over very many classes: log-probability of each target and the mean loss.

    Classes must be numbered by falling frequency. Frequent ones, below cutoffs[0], and one entry for each cluster form
    the
    head; cluster i holds the classes from cutoffs[i] to below cutoffs[i + 1], behind a projection to
    in_features / div_value^(i + 1) features.

    Args:
        in_features: features of the input.
        n_classes: number of classes.
        cutoffs: ascending class indices in [1, n_classes - 1] at which clusters begin.
        div_value: factor by which each cluster's projection is smaller than the one before.
        head_bias: whether the head has a bias.
    Shape: input (N, in_features) or (in_features,), target (N,) or (); result a pair: output of the target's shape,
        loss ().
    Raises:
        ValueError: when `cutoffs` do not ascend within [1, n_classes - 1].
        RuntimeError: when shapes do not match or a target is out of range.
    Source: Grave et al., "Efficient softmax approximation for GPUs", 2017.

    >>> import tdt
    >>> layer = tdt.nn.AdaptiveLogSoftmaxWithLoss(4, 10, [2, 5])
    >>> output, loss = layer(tdt.zeros(3, 4), tdt.tensor([0, 4, 9]))
    >>> output.shape, bool(loss == -output.mean())
    (tdt.Size([3]), True)
    """

    def __init__(self, in_features: int, n_classes: int, cutoffs: Sequence[int], div_value: float = 4.0,
                 head_bias: bool = False, device: Device = None, dtype: Dtype = None):  # fmt: skip
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        whole = all(int(c) == c for c in cutoffs)
        if not whole or cutoffs != sorted(set(cutoffs)) or not 1 <= cutoffs[0] <= cutoffs[-1] <= n_classes - 1:
            raise ValueError("cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where "
                             f"each value is between 1 and n_classes-1; got {cutoffs} for {n_classes} classes")  # fmt: skip
        self.in_features, self.n_classes, self.div_value, self.head_bias = in_features, n_classes, div_value, head_bias
        self.cutoffs = [*cutoffs, n_classes]
        self.shortlist_size, self.n_clusters = cutoffs[0], len(cutoffs)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, head_bias, device, dtype)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            inside = int(in_features // div_value ** (i + 1))
            self.tail.append(Sequential(
                Linear(in_features, inside, False, device, dtype),
                Linear(inside, self.cutoffs[i + 1] - self.cutoffs[i], False, device, dtype),
            ))  # fmt: skip

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        for layer in self.modules():
            if isinstance(layer, Linear):
                layer.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        self._check(input_, target_)
        one = not target_.ndim
        input, target = (input_.unsqueeze(0), target_.unsqueeze(0)) if one else (input_, target_)
        xp = _backend.namespace(target._a)
        cluster = xp.searchsorted(xp.asarray(self.cutoffs), target._a, side="right")  # 0: in the head
        place = xp.where(cluster == 0, target._a, self.shortlist_size + cluster - 1)
        output = F.log_softmax(self.head(input), dim=1).gather(1, wrap(place).unsqueeze(1)).squeeze(1)
        for i, tail in enumerate(self.tail):
            (rows,) = map(wrap, xp.nonzero(cluster == i + 1))
            if len(rows):
                inside = (target[rows] - self.cutoffs[i]).unsqueeze(1)
                logs = F.log_softmax(tail(input.index_select(0, rows)), dim=1)
                output = output.index_add(0, rows, logs.gather(1, inside).squeeze(1))
        return _ASMoutput(output.squeeze(0) if one else output, -output.mean())

    def _check(self, input: Tensor, target: Tensor) -> None:
        """Refuse shapes that do not fit, and classes that do not exist."""
        if target.ndim > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if target.ndim and len(input) != len(target):
            raise RuntimeError("Input and target should have the same size in the batch dimension; got "
                               f"{len(input)} and {len(target)}")  # fmt: skip
        if input.ndim != target.ndim + 1:
            raise RuntimeError(f"{target.ndim}D target tensor expects {target.ndim + 1}D input tensors, but found inputs with "
                               f"size {input.shape}")  # fmt: skip
        low, high = (int(target.min()), int(target.max())) if target.numel() else (0, 0)
        if low < 0 or high >= self.n_classes:
            raise RuntimeError(f"Target values should be in [0, {self.n_classes - 1}], but values in range [{low}, {high}] "
                               "were found.")  # fmt: skip

    def log_prob(self, input: Tensor) -> Tensor:
        """The log-probabilities of all classes: (N, in_features) to (N, n_classes)."""
        return self._all(input, F.log_softmax(self.head(input), dim=1))

    def _all(self, input: Tensor, head: Tensor) -> Tensor:
        size = self.shortlist_size
        parts = [F.log_softmax(tail(input), dim=1) + head[:, size + i].unsqueeze(1) for i, tail in enumerate(self.tail)]
        return cat([head[:, :size], *parts], 1)

    def predict(self, input: Tensor) -> Tensor:
        """The most probable class of each sample: (N, in_features) to (N,). Clusters are evaluated only where they may win."""
        head = F.log_softmax(self.head(input), dim=1)
        best = head.argmax(1)
        (places,) = _backend.namespace(best._a).nonzero(best._a >= self.shortlist_size)
        if len(places):
            rows = wrap(places)
            best[rows] = self._all(input[rows], head[rows]).argmax(1)
        return best
