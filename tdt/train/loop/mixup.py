"""Mixup: convex combinations of pairs of samples (Zhang, Cissé, Dauphin, Lopez-Paz, *mixup*, 2018)."""

from __future__ import annotations

from typing import Any

import numpy as np

import tdt
from tdt import Generator
from tdt.train.data.nested import leaves, mapped


class Mixup:
    """Mix each sample of a batch with another one: share · x + (1 - share) · x[other]. Their losses are mixed likewise.

    One share per batch is drawn from Beta(alpha, alpha); it is at least 0.5, so that metrics can compare with the
    batch's own targets.

    >>> import tdt
    >>> from tdt.train.loop.mixup import Mixup
    >>> mixup = Mixup(1.0, tdt.Generator().manual_seed(0))
    >>> mixed, others, share = mixup(tdt.tensor([0.0, 1.0]), tdt.tensor([0, 1]))
    >>> len(mixed), len(others), 0.5 <= share <= 1
    (2, 2, True)
    """

    def __init__(self, alpha: float, generator: Generator) -> None:
        self.alpha, self.generator = alpha, generator

    def __call__(self, inputs: Any, targets: Any) -> tuple[Any, Any, float]:
        """The mixed inputs, the targets of the other samples, and the share of the batch's own."""
        first = next(leaves(inputs))
        other = tdt.randperm(len(first), generator=self.generator).to(first.device)
        seed = int(tdt.randint(2**31, (), generator=self.generator))
        share = float(np.random.default_rng(seed).beta(self.alpha, self.alpha))
        share = max(share, 1 - share)
        mixed = mapped(lambda part: part.lerp(part[other], 1 - share), inputs)
        return mixed, mapped(lambda part: part[other], targets), share
