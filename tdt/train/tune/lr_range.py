"""The learning-rate range test: the loss while the learning rate increases exponentially."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from tdt import Tensor
from tdt.train.config import Config, Draft
from tdt.train.config.precision import default_dtype
from tdt.train.errors import error_context
from tdt.train.loop.build import build
from tdt.train.loop.evaluation import batches
from tdt.train.loop.parts import Parts
from tdt.train.loop.train_step import TrainStep

SMOOTHING = 0.9  # weight of the previous steps in the mean of the loss
DIVERGED = 4.0  # times the smallest smoothed loss
FEWEST = 10  # steps from which a rate is suggested; the mean of the first ones is of few batches


@dataclass(frozen=True)
class RangeTest:
    """The rate, the loss and the smoothed loss of each step, and why the test ended early: "" if it did not."""

    rates: tuple[float, ...]
    losses: tuple[float, ...]
    smoothed: tuple[float, ...]
    stopped: str

    @property
    def steepest(self) -> float | None:
        """The rate at which the smoothed loss falls fastest over the logarithm of the rate, up to its minimum.

        None if the loss does not fall, or after too few steps.
        """
        end = int(np.argmin(self.smoothed)) + 1 if self.smoothed else 0
        if end < FEWEST:
            return None
        slopes = np.gradient(np.asarray(self.smoothed[:end]), np.log(self.rates[:end]))
        best = int(np.argmin(slopes[FEWEST // 2 :])) + FEWEST // 2
        return self.rates[best] if slopes[best] < 0 else None

    @property
    def tenth_of_minimum(self) -> float | None:
        """A tenth of the rate with the smallest smoothed loss; None without a step."""
        return self.rates[int(np.argmin(self.smoothed))] / 10 if self.smoothed else None


def range_test(
    config: Config | Draft,
    start: float = 1e-6,
    end: float = 10.0,
    steps: int = 100,
    check_stop: Callable[[], None] = lambda: None,
) -> RangeTest:
    """Train for `steps` steps, the learning rate rising exponentially from `start` to `end`; leaves no run behind.

    The rates of other parameter groups keep their ratio to the first one's. Scheduler and warm-up have no effect. The test
    ends when the smoothed loss exceeds `DIVERGED` times its minimum, or is not finite.

    Raises:
        ConfigError: with every mistake in the config.
        StepError: data, model or loss raised an exception.
    Source: Smith, Cyclical Learning Rates for Training Neural Networks, 2017.

    >>> from tdt.train.config import load
    >>> from tdt.train.tune.lr_range import range_test
    >>> found = range_test(load("digits-mlp"), steps=20)
    >>> len(found.rates) <= 20, found.rates[0]
    (True, 1e-06)
    """
    parts = build(config, splits=("train",))
    step = TrainStep(parts, parts.length.steps_per_epoch)
    step.warm_after = 0
    groups = parts.optimizer.param_groups
    ratios = [float(group["lr"]) / (float(groups[0]["lr"]) or 1.0) for group in groups]
    rates: list[float] = []
    losses: list[float] = []
    smoothed: list[float] = []
    mean, stopped = 0.0, ""
    parts.train_mode()
    explained = error_context(lambda: f"step {len(rates) + 1} failed")
    with default_dtype(parts.config.dtype), explained:
        for number, group in enumerate(islice(_groups(parts, check_stop), steps)):
            rate = start * (end / start) ** (number / max(steps - 1, 1))
            for options, ratio in zip(groups, ratios, strict=True):
                options["lr"] = rate * ratio
            loss = _train(step, group, number + 1)
            if not math.isfinite(loss):
                stopped = f"the loss became {loss} at {rate:.3g}"
                break
            mean = SMOOTHING * mean + (1 - SMOOTHING) * loss
            rates.append(rate)
            losses.append(loss)
            smoothed.append(mean / (1 - SMOOTHING ** (number + 1)))
            if number >= FEWEST and smoothed[-1] > DIVERGED * min(smoothed):
                stopped = f"the loss diverged at {rate:.3g}"
                break
    return RangeTest(tuple(rates), tuple(losses), tuple(smoothed), stopped)


def _train(step: TrainStep, group: list[tuple[Tensor, Tensor]], number: int) -> float:
    """One optimizer step; returns the mean loss of its batches."""
    values = []
    for inputs, targets in group:
        _, targets, loss = step.forward(inputs, targets)
        step.backward(loss, targets)
        values.append(loss.item())
    step.step(number)
    return sum(values) / len(values)


def _groups(parts: Parts, check_stop: Callable[[], None]) -> Iterator[list[tuple[Tensor, Tensor]]]:
    """The batches of each step, epoch after epoch."""
    while True:
        each = batches(parts, "train", check_stop)
        while group := list(islice(each, parts.config.train.accumulate)):
            check_stop()
            yield group
