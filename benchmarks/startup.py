"""Start-up times, as ratios to the import time of the required libraries.

python -m benchmarks.startup
"""

from __future__ import annotations

import subprocess
import sys
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


def main() -> None:
    """Print a line for each pair."""
    print(settings())
    for name, (ours, theirs) in PAIRS.items():
        for side in (ours, theirs):
            process(side)()  # warm the file cache
        report(name, ratios(process(ours), process(theirs), 15))


if __name__ == "__main__":
    main(*arguments(__doc__))
