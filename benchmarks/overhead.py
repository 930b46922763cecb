"""Overhead of the trainer per step: `tdt train digits-mlp` with logging, compared with a plain loop (same layers and data).

    python -m benchmarks.overhead [STEPS]

A step of one and a step of the other take turns; printed is the median of the differences, with its 95 % interval. The
trainer's side counts metrics, looks at the loss, writes metrics.jsonl and the TensorBoard file every 20 steps, and prints
lines; checkpoints and validations, which a bare loop has none of, are left out.
"""

from __future__ import annotations

import io
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks._pairs import arguments, interval, settings
from tdt import nn
from tdt.train.config import load
from tdt.train.logging.console import Console
from tdt.train.logging.events import Events, MetricsLog, TensorBoardLog
from tdt.train.loop.build import build
from tdt.train.loop.parts import Parts
from tdt.train.loop.trainer import Trainer
from tdt.train.runs.checkpoint import CheckpointStore


def bare(parts: Parts) -> Iterator[None]:
    """The usual loop, a step at a time."""
    model, loss_fn, optimizer = parts.model.train(), nn.CrossEntropyLoss(), parts.optimizer
    while True:
        for inputs, targets in parts.loaders["train"]:
            optimizer.zero_grad()
            loss = loss_fn(model(inputs), targets)
            loss.backward()
            optimizer.step()
            yield


def differences(steps: int, folder: Path) -> tuple[list[float], list[float]]:
    """Microseconds of each trainer's step beyond the bare step after it; and of the bare steps."""
    changes = [f"train={{steps: {steps}}}", "data.valid=null", "data.test=null", "checkpoint={every: 99999 epochs}"]
    config = load("digits-mlp", changes)
    events = Events()
    for listener in (MetricsLog(folder), TensorBoardLog(folder), Console(io.StringIO())):
        events.subscribe(listener)
    trainer, step = Trainer(build(config), events, CheckpointStore(folder / "checkpoints"), {}), bare(build(config))
    found: list[float] = []
    plain: list[float] = []
    began = time.perf_counter()

    def take_turns() -> None:
        nonlocal began
        middle = time.perf_counter()
        next(step)
        end = time.perf_counter()
        plain.append((end - middle) * 1e6)
        found.append((middle - began) * 1e6 - plain[-1])
        began = time.perf_counter()

    trainer.check_stop = take_turns
    trainer.fit()
    events.close()
    return found, plain


def main(steps: int = 3000) -> None:
    """Print the median difference."""
    print(settings())
    with tempfile.TemporaryDirectory() as folder:
        found, plain = differences(steps, Path(folder))
    median, low, high = interval(found[50:])
    print(f"trainer over bare loop: {median:.1f} µs a step [{low:.1f}, {high:.1f}], {len(found) - 50} pairs; ", end="")
    print(f"a bare step takes {interval(plain[50:])[0]:.0f} µs")


if __name__ == "__main__":
    main(*arguments(__doc__, steps=3000))
