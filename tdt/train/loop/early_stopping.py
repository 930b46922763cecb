"""The best score so far, and early stopping: how many validations may pass without a better one."""

from __future__ import annotations

import math
from collections.abc import Mapping

Scores = Mapping[str, Mapping[str, float]]  # by split and metric


class BestScore:
    """The best of the scores under `score`, (split, metric); None: no score is watched.

    A score is better that lies beyond the best by more than `min_delta`; NaN never is.

    >>> best = BestScore(("valid", "loss"), higher_is_better=False)
    >>> [best.update({"valid": {"loss": loss}}) for loss in (0.5, 0.3, 0.3, float("nan"), 0.2)], best.waited
    ([True, True, False, False, True], 0)
    """

    def __init__(self, score: tuple[str, str] | None, higher_is_better: bool, min_delta: float = 0.0):
        self.score, self.min_delta = score, min_delta
        self.sign = 1 if higher_is_better else -1
        self.value: float | None = None
        self.waited = 0  # scores since the best

    def update(self, scores: Scores) -> bool:
        """Whether the score is the best so far; False where it is not among these."""
        if self.score is None or self.score[0] not in scores:
            return False
        value = scores[self.score[0]][self.score[1]]
        better = not math.isnan(value) and (self.value is None or self.sign * (value - self.value) > self.min_delta)
        self.value = value if better else self.value
        self.waited = 0 if better else self.waited + 1
        return better


class EarlyStopping(BestScore):
    """The best score, and how many validations without a better one a run may have; None: any number."""

    def __init__(self, score: tuple[str, str] | None, higher_is_better: bool, min_delta: float, patience: int | None):
        super().__init__(score, higher_is_better, min_delta)
        self.patience = patience

    def should_stop(self, scores: Scores) -> bool:
        """Whether the run ends with these scores."""
        self.update(scores)
        return self.patience_is_over

    @property
    def patience_is_over(self) -> bool:
        return self.patience is not None and self.waited >= self.patience
