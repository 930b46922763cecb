"""`tdt train digits-cnn` compared with the same training as a PyTorch script: whole process, training loop, peak memory.

    python -m benchmarks.digits [PAIRS] [SEEDS] [CONFIG]

CONFIG: digits-cnn or digits-mlp.

Needs tdt installed and the extra `parity`. Both sides use their default threads. The compiled cache is warm, but for the
line that says cold. With SEEDS, the test accuracy of that many seeds is printed too.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks._pairs import arguments, ratios, report, settings

ROOT = Path(__file__).resolve().parents[1]
# From the first step to the last epoch's validation and checkpoint; PyTorch's script times the same span itself.
LOOP = """
import sys, time
from tdt.train.config import load
from tdt.train.logging.events import Event, RunStarted, Validated
from tdt.train.session import Session
times = []
with Session.start(load(sys.argv[1]), root="runs") as session:
    session.train(lambda event: times.append(time.perf_counter()) if isinstance(event, (RunStarted, Validated)) else None)
print(times[-1] - times[0])
"""


class Run(NamedTuple):
    """A finished process: its output, wall seconds, and the most memory it held, in MiB."""

    output: str
    seconds: float
    peak: float


def run(command: list[str], **environment: str) -> Run:
    """Run a process in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        env = os.environ | {"PYTHONPATH": str(ROOT)} | environment
        start = time.perf_counter()
        process = subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, text=True)
        output = process.stdout.read()  # type: ignore[union-attr]
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
    if status:
        raise SystemExit(f"{' '.join(command)} ended with status {status}")
    return Run(output, seconds, usage.ru_maxrss / 1024)


def sides(config: str) -> tuple[list[str], list[str]]:
    """The command lines of tdt and of PyTorch's script."""
    script = f"tests.parity_scripts.{config.replace('-', '_')}"
    return [sys.executable, "-m", "tdt", "train", config], [sys.executable, "-m", script]


def cold(ours: list[str]) -> float:
    """Seconds of the whole process on a machine that has compiled nothing yet."""
    with tempfile.TemporaryDirectory() as cache:
        return run(ours, XDG_CACHE_HOME=cache).seconds


def accuracy(ours: list[str], seed: int) -> float:
    """Test accuracy of a seed."""
    line = next(line for line in run([*ours, f"seed={seed}"]).output.splitlines() if line.startswith("test "))
    return float(line.split("accuracy ")[1].split()[0])


def main(pairs: int = 5, seeds: int = 0, config: str = "digits-cnn") -> None:
    """Print the ratios, tdt's over PyTorch's."""
    print(settings())
    ours, theirs = sides(config)
    run(ours)
    report("whole process", ratios(lambda: run(ours).seconds, lambda: run(theirs).seconds, pairs))
    loop = [sys.executable, "-c", LOOP, config]
    report(
        "first to last step",
        ratios(lambda: float(run(loop).output), lambda: json.loads(run(theirs).output)["seconds"], pairs),
    )
    report("peak memory", ratios(lambda: run(ours).peak, lambda: run(theirs).peak, 3))
    print(f"cold first run minus warm run: {cold(ours) - run(ours).seconds:.1f} s")
    if seeds:
        found = [accuracy(ours, seed) for seed in range(seeds)]
        print(f"test accuracy of seeds 0–{seeds - 1}: {found}, mean {statistics.mean(found):.4f}")


if __name__ == "__main__":
    main(*arguments(__doc__, pairs=5, seeds=0, config="digits-cnn"))
