"""Mixup: convex combinations of pairs of samples (Zhang, Cissé, Dauphin, Lopez-Paz, *mixup*, 2018)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tdt
from tdt import Generator, Tensor
from tdt.train.data.nested import leaves, mapped

Loss = Callable[[Any, Any], Tensor]


class Mixup:
    """Mix each sample of a batch with another one: share · x + (1 - share) · x[other], and their losses likewise.

    One share per batch is drawn from Beta(alpha, alpha); it is at least 0.5, so that metrics can compare with the
    batch's own targets.

    >>> import tdt
    >>> from tdt.train.loop.mixup import Mixup
    >>> mixup = Mixup(1.0, tdt.Generator().manual_seed(0))
    >>> mixed, loss = mixup(tdt.tensor([0.0, 1.0]), tdt.tensor([0, 1]), lambda output, target: (output - target).sum())
    >>> len(mixed), float(loss(mixed)) < 1e-6
    (2, True)
    """

    def __init__(self, alpha: float, generator: Generator) -> None:
        self.alpha, self.generator = alpha, generator

    def __call__(self, inputs: Any, targets: Any, loss: Loss) -> tuple[Any, Callable[[Any], Tensor]]:
        """The mixed inputs, and the loss as a function of the model's output for them."""
        first = next(leaves(inputs))
        other = tdt.randperm(len(first), generator=self.generator).to(first.device)
        seed = int(tdt.randint(2**31, (), generator=self.generator))
        share = float(np.random.default_rng(seed).beta(self.alpha, self.alpha))
        share = max(share, 1 - share)
        mixed = mapped(lambda part: part.lerp(part[other], 1 - share), inputs)
        others = mapped(lambda part: part[other], targets)

        def mean(output: Any) -> Tensor:
            theirs = loss(output, others)  # first, so that the batch's own targets are the ones that metrics see
            return loss(output, targets).lerp(theirs, 1 - share)

        return mixed, mean
