"""The best score so far, and early stopping after a number of validations without a better one."""

from __future__ import annotations

import math
from collections.abc import Mapping

Scores = Mapping[str, Mapping[str, float]]  # by split and metric


class BestScore:
    """The best value so far of the score (split, metric); with None, no score is watched.

    A score is better if it improves on the best by more than `min_delta`; NaN is never better.

    >>> best = BestScore(("valid", "loss"), higher_is_better=False)
    >>> [best.update({"valid": {"loss": loss}}) for loss in (0.5, 0.3, 0.3, float("nan"), 0.2)], best.waited
    ([True, True, False, False, True], 0)
    """

    def __init__(self, score: tuple[str, str] | None, higher_is_better: bool, min_delta: float = 0.0) -> None:
        self.score, self.min_delta = score, min_delta
        self.sign = 1 if higher_is_better else -1
        self.value: float | None = None
        self.waited = 0  # scores since the best

    def update(self, scores: Scores) -> bool:
        """Whether the score is the best so far; False if it is not among `scores`."""
        if self.score is None or self.score[0] not in scores:
            return False
        value = scores[self.score[0]][self.score[1]]
        better = not math.isnan(value) and (self.value is None or self.sign * (value - self.value) > self.min_delta)
        self.value = value if better else self.value
        self.waited = 0 if better else self.waited + 1
        return better


class EarlyStopping(BestScore):
    """Stop after `patience` validations in a row without a better score; never with None."""

    def __init__(
        self, score: tuple[str, str] | None, higher_is_better: bool, min_delta: float, patience: int | None
    ) -> None:
        super().__init__(score, higher_is_better, min_delta)
        self.patience = patience

    def should_stop(self, scores: Scores) -> bool:
        """Update the best score. Returns whether the run ends now."""
        self.update(scores)
        return self.patience_is_over

    @property
    def patience_is_over(self) -> bool:
        return self.patience is not None and self.waited >= self.patience
