"""When training ends: after a number of epochs or steps, or a time limit, whichever comes first."""

from __future__ import annotations

import time

from tdt.train.config import Train


class Length:
    """Length of a run with `batches` batches per epoch, in optimizer steps. `steps`, `epochs`: None if only time limits it.

    The last step of an epoch may have fewer than `accumulate` batches. spent: seconds of training before a resume.

    >>> from tdt.train import config
    >>> from tdt.train.loop.length import Length
    >>> length = Length(config.Train(epochs=2, steps=5, accumulate=3), batches=8)
    >>> length.steps_per_epoch, length.steps, length.epochs, length.is_over(4), length.is_over(5)
    (3, 5, 2, False, True)
    >>> length.ended_by(5, waited=False)
    'steps'
    """

    def __init__(self, train: Train, batches: int) -> None:
        self.batches = batches
        self.steps_per_epoch = size = -(-batches // train.accumulate)
        bounds = {"epochs": None if train.epochs is None else train.epochs * size, "steps": train.steps}
        known = {name: bound for name, bound in bounds.items() if bound is not None}
        self._nearest = min(known, key=known.__getitem__, default="")
        self.steps = known.get(self._nearest)
        self.epochs = None if self.steps is None else -(-self.steps // size)
        self.seconds = None if train.time is None else train.time.seconds
        self.spent = 0.0
        self.agreed: float | None = None  # seconds of training after the last step, if several ranks must agree on them
        self._began = time.monotonic()

    def elapsed(self) -> float:
        """Seconds of training, before and after a resume."""
        return self.spent + time.monotonic() - self._began

    def is_over(self, step: int) -> bool:
        """Whether the run ends after this step."""
        return (self.steps is not None and step >= self.steps) or (
            self.seconds is not None and (self.elapsed() if self.agreed is None else self.agreed) >= self.seconds
        )

    def ended_by(self, step: int, waited: bool) -> str:
        """What has ended the run: epochs, steps, time limit or early stopping. waited: whether its patience is over."""
        if self.steps is not None and step >= self.steps:
            return self._nearest
        return "early stopping" if waited else "time limit"
