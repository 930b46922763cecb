"""Start-up times, as ratios to the import time of the required libraries; seconds to the first loss of a run.

python -m benchmarks.startup
"""

from __future__ import annotations

import os
import pty
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from benchmarks._pairs import arguments, ratios, report, settings

CHECKING = "numpy, typer, yaml, pydantic, PIL.Image, ml_dtypes"  # what `tdt check digits-mlp` loads of others
PAIRS = {
    "import tdt + first op / import numpy": (["-c", "import tdt; tdt.ones(2)"], ["-c", "import numpy"]),
    "tdt --help / import typer, rich": (["-m", "tdt", "--help"], ["-c", "import typer, rich"]),
    "tdt check / import its libraries": (["-m", "tdt", "check", "digits-mlp"], ["-c", f"import {CHECKING}"]),
    "tdt check / import torch": (["-m", "tdt", "check", "digits-mlp"], ["-c", "import torch"]),
    "import tdt + first op / import torch": (["-c", "import tdt; tdt.ones(2)"], ["-c", "import torch; torch.ones(2)"]),
}


def process(arguments: list[str]):
    """A measurement: seconds of a Python process with these arguments."""

    def measure() -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - start

    return measure


def first_loss(config: str):
    """A measurement: seconds from the start of `tdt train` until a loss is on the terminal; the run is then ended."""

    def measure() -> float:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "tdt", "train", config, "--run-dir", os.path.join(folder, "run")]
            start, shown = time.perf_counter(), b""
            process, terminal = pty.fork()
            if process == 0:
                os.execve(command[0], command, os.environ | {"COLUMNS": "80", "TERM": "xterm"})
            try:
                while not re.search(rb"loss \d+\.\d", shown):
                    shown += os.read(terminal, 1 << 16)  # OSError if the run ends without a loss
                return time.perf_counter() - start
            finally:
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)
                os.close(terminal)

    return measure


def recorded(measure, values: list[float]):
    """The measurement, whose results are added to `values`."""

    def measured() -> float:
        values.append(measure())
        return values[-1]

    return measured


def main() -> None:
    """Print a line for each pair."""
    print(settings())
    for name, (ours, theirs) in PAIRS.items():
        for side in (ours, theirs):
            process(side)()  # warm the file cache
        report(name, ratios(process(ours), process(theirs), 15))
    for config in ("digits-mlp", "digits-cnn"):
        seconds: list[float] = []
        first_loss(config)()  # compiles the kernels
        found = ratios(recorded(first_loss(config), seconds), process(["-c", "import torch"]), 15)
        report(f"first loss of {config} / import torch", found)
        print(f"{f'first loss of {config}, seconds':<44} {statistics.median(seconds):6.2f}   least {min(seconds):.2f}")


if __name__ == "__main__":
    main(*arguments(__doc__))
