"""One side of a comparison, in a process of its own: `python -m benchmarks._side LIBRARY WORKLOAD LAYOUT`.

First it prints a line of JSON: the losses of the first steps and the memory held. Then, for each line `N` that it reads,
it does N steps and prints the seconds that one took.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path

from benchmarks.workloads import find


def memory_of(which: str) -> float:
    """MiB of memory held now ("VmRSS") or at most so far ("VmHWM")."""
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{which}:")[1].split()[0]) / 1024


def main(name: str, workload: str, layout: str) -> None:
    """Answer until the input ends."""
    library = importlib.import_module(name)
    step = find(workload)(library, layout == "channels-last")
    before = memory_of("VmRSS")
    losses = [step() for _ in range(3)]
    print(json.dumps({"losses": losses, "before": before, "peak": memory_of("VmHWM")}), flush=True)
    for line in sys.stdin:
        count = int(line)
        start = time.perf_counter()
        for _ in range(count):
            step()
        print((time.perf_counter() - start) / count, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
