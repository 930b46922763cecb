"""The programs in examples/torch_scripts on tdt and on PyTorch: the last loss of each side by side, and the seconds.

python -m benchmarks.torch_scripts [--pairs N] [NAME ...]

A time is that of a whole process, imports included, on the number of threads that OMP_NUM_THREADS says; the median of
the pairs. `off` is the largest relative difference of any number that the two print, beyond the digits printed.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import time

from tests.references.torch_scripts import FOLDER, SCRIPTS, difference


def timed(arguments: list[str]) -> tuple[str, float]:
    """What a Python process prints, and the seconds that it takes."""
    start = time.perf_counter()
    done = subprocess.run([sys.executable, *arguments], check=True, capture_output=True, text=True)
    return done.stdout, time.perf_counter() - start


def last_loss(output: str) -> str:
    """The number after the last word "loss" (or, in the fitted polynomial, the last one of a line of losses)."""
    return re.findall(r"(?:[Ll]oss(?:_\w+)?:?=? |layers \d+ )(-?\d+\.\d+)", output)[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SCRIPTS)}")
    parser.add_argument("--pairs", type=int, default=3)
    args = parser.parse_args()
    print(f"{'script':<12}{'loss: tdt':>14}{'PyTorch':>14}{'off':>10}{'s: tdt':>10}{'PyTorch':>10}{'ratio':>8}")
    for name in args.names or SCRIPTS:
        path = str(FOLDER / f"{name}.py")
        ours, theirs = [], []
        for _ in range(args.pairs):
            a, seconds = timed(["-m", "tdt.as_torch", path])
            ours.append(seconds)
            b, seconds = timed([path])
            theirs.append(seconds)
        x, y = statistics.median(ours), statistics.median(theirs)
        off = max(0.0, difference(a, b))
        print(f"{name:<12}{last_loss(a):>14}{last_loss(b):>14}{off:10.0e}{x:10.2f}{y:10.2f}{x / y:8.2f}", flush=True)


if __name__ == "__main__":
    main()
