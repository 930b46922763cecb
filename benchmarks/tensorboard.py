"""Cost of logging: SummaryWriter compared with PyTorch's, and the fraction of training time.

    python -m benchmarks.tensorboard [SCALARS] [PAIRS]

Printed are microseconds of the caller's thread per `add_scalar`; milliseconds of writing, and of the process, per MB of
events, for scalars, histograms of 25 kB and images of 1 MB; the same calls' processor time over PyTorch's, by turns; how
much of a training's processor time `add_…` and the writing thread take, with scalars every 20 steps; and time and memory
of SCALARS scalars (a million) in either writer, each in a process of its own.
"""

from __future__ import annotations

import importlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._pairs import ratios, report
from tdt.train.config import load
from tdt.train.session import Session
from tdt.utils.tensorboard import _event_file, writer

SIDES = {"tdt": "tdt.utils.tensorboard", "torch": "torch.utils.tensorboard"}


@contextmanager
def writing(side: str) -> Iterator[Any]:
    """A writer of either library in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        yield importlib.import_module(SIDES[side]).SummaryWriter(folder)


def scalars(count: int) -> Callable[[Any], None]:
    def log(target: Any) -> None:
        for step in range(count):
            target.add_scalar("train/loss", 0.5, step)

    return log


def histograms(target: Any) -> None:
    values = np.random.default_rng(0).normal(size=2000)
    for step in range(200):
        target.add_histogram("weights", values, step)


def images(target: Any) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (3, 600, 600), np.uint8)
    for step in range(5):
        target.add_image("noise", noise, step)


def process_seconds(side: str, log: Callable[[Any], None]) -> float:
    """Processor time of the whole process, until the file is closed."""
    with writing(side) as target:
        began = time.process_time()
        log(target)
        target.close()
        return time.process_time() - began


def caller_microseconds(count: int) -> float:
    """Processor time of the calling thread for one `add_scalar`: median of batches of 1,000."""
    found = []
    with writing("tdt") as target:
        for _ in range(count // 1000):
            began = time.thread_time()
            scalars(1000)(target)
            found.append(time.thread_time() - began)
            time.sleep(0.002)  # as between steps of a training
        target.close()
    return statistics.median(found) * 1e3


def per_megabyte(log: Callable[[Any], None]) -> tuple[float, float]:
    """(milliseconds of the writing thread, of the whole process) per MB of events."""
    with writing("tdt") as target, measured(_event_file.FileWriter, "_write_pending") as spent:
        began = time.process_time()
        log(target)
        target.close()
        whole = time.process_time() - began
        size = sum(path.stat().st_size for path in Path(target.log_dir).iterdir()) / 1e6
    return sum(spent) / size * 1e3, whole / size * 1e3


@contextmanager
def measured(owner: type, name: str) -> Iterator[list[float]]:
    """Collects the processor time that each call of a method takes of its thread."""
    method, spent = getattr(owner, name), list[float]()

    def timed(*args: Any, **kwargs: Any) -> Any:
        began = time.thread_time()
        try:
            return method(*args, **kwargs)
        finally:
            spent.append(time.thread_time() - began)

    setattr(owner, name, timed)
    try:
        yield spent
    finally:
        setattr(owner, name, method)


def share_of_training() -> float:
    """Of the processor time of `tdt train digits-cnn`, what logging takes on any thread."""
    config = load("digits-cnn", ["train.epochs=20"])
    with tempfile.TemporaryDirectory() as root, Session.start(config, root=root) as session:
        with (
            measured(writer.SummaryWriter, "add_scalar") as calls,
            measured(_event_file.FileWriter, "_write_pending") as thread,
        ):
            began = time.process_time()
            session.train()
            return (sum(calls) + sum(thread)) / (time.process_time() - began)


def alone(side: str, count: int) -> None:
    """Print seconds and MB of peak memory above the start for `count` scalars."""
    with writing(side) as target:
        target.add_scalar("train/loss", 0.5, 0)
        before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
        scalars(count)(target)
        target.close()
        took = time.perf_counter() - began
    print(took, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)


def main(count: int, pairs: int) -> None:
    print(f"add_scalar on the caller                     {caller_microseconds(100_000):6.2f} µs")
    for name, log in (("scalars", scalars(20_000)), ("histograms", histograms), ("images", images)):
        thread, whole = per_megabyte(log)
        print(f"{name + ', per MB of events':<44} {thread:6.2f} ms to write, {whole:.2f} ms in all")
        report(f"{name}, process time over PyTorch's", ratios(lambda log=log: process_seconds("tdt", log),
                                                         lambda log=log: process_seconds("torch", log), pairs))  # fmt: skip
    print(f"share of digits-cnn's processor time         {share_of_training():6.2%}")
    for side in SIDES:
        command = [sys.executable, "-c", f"from benchmarks.tensorboard import alone; alone({side!r}, {count})"]
        took, memory = map(
            float, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-2:]
        )
        print(f"{count:,} scalars, {side:<26} {took:8.1f} s   {memory:.0f} MB")


if __name__ == "__main__":
    sizes = [int(word) for word in sys.argv[1:]]
    main(*(sizes + [1_000_000, 9][len(sizes) :]))
