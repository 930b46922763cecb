"""The best score so far, and early stopping after a number of scores without a better one."""

from __future__ import annotations

import math
from collections.abc import Mapping

Scores = Mapping[str, Mapping[str, float]]  # by split and metric


class BestScore:
    """The best value so far of the score that `monitor` names by split and metric; None monitors no score.

    A score is better if it improves on the best by more than `min_delta`; NaN is never better.

    >>> from tdt.train.loop.early_stopping import BestScore
    >>> best = BestScore(("valid", "loss"), higher_is_better=False)
    >>> [best.update({"valid": {"loss": loss}}) for loss in (0.5, 0.3, 0.3, float("nan"), 0.2)], best.value, best.waited
    ([True, True, False, False, True], 0.2, 0)
    """

    def __init__(self, monitor: tuple[str, str] | None, higher_is_better: bool, min_delta: float = 0.0) -> None:
        self.monitor, self.higher_is_better, self.min_delta = monitor, higher_is_better, min_delta
        self.value: float | None = None
        self.waited = 0  # scores since the best

    def update(self, scores: Scores) -> bool:
        """Compare the monitored score with the best. Returns whether it is better; False if it is not among `scores`."""
        if self.monitor is None or self.monitor[0] not in scores:
            return False
        split, metric = self.monitor
        value = scores[split][metric]
        better = self._is_better(value)
        self.value = value if better else self.value
        self.waited = 0 if better else self.waited + 1
        return better

    def _is_better(self, value: float) -> bool:
        if math.isnan(value) or self.value is None:
            return not math.isnan(value)
        gain = value - self.value if self.higher_is_better else self.value - value
        return gain > self.min_delta


class EarlyStopping(BestScore):
    """The best score, and whether `patience` scores in a row were no better, so that the run should stop.

    patience: with None the run never stops early.

    >>> from tdt.train.loop.early_stopping import EarlyStopping
    >>> stopping = EarlyStopping(("valid", "loss"), higher_is_better=False, min_delta=0.0, patience=2)
    >>> [stopping.update({"valid": {"loss": loss}}) for loss in (0.5, 0.6, 0.5)], stopping.patience_is_over
    ([True, False, False], True)
    """

    def __init__(
        self, monitor: tuple[str, str] | None, higher_is_better: bool, min_delta: float, patience: int | None
    ) -> None:
        super().__init__(monitor, higher_is_better, min_delta)
        self.patience = patience

    @property
    def patience_is_over(self) -> bool:
        return self.patience is not None and self.waited >= self.patience
