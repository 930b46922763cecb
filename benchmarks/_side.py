"""One side of a comparison, in a process of its own: `python -m benchmarks._side LIBRARY NAME LAYOUT CLOCK`.

NAME is a workload, or "FAMILY: SIZE" of `benchmarks.families`; CLOCK a function of `time`. First it prints a line of JSON:
the losses of the first steps, the outputs of the networks, and the memory held. Then, for each line `MODE N` that it reads, it
does N steps of that mode and prints the seconds that one took.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import families
from benchmarks.workloads import Step, find

TRAINING = "training"
INFERENCE = {f"inference, batch {count}": count for count in families.INFERENCE_BATCHES}
STEPS = 3  # training steps whose losses are compared


def memory_of(which: str) -> float:
    """MiB of memory held now ("VmRSS") or at most so far ("VmHWM")."""
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{which}:")[1].split()[0]) / 1024


def steps_by_mode(library: Any, name: str, layout: str) -> dict[str, Callable[[], Step]]:
    """For each mode what returns its step. A workload has one mode."""
    family, _, size = name.partition(": ")
    if size not in families.SIZES:
        step = find(name)(library, layout == "channels-last")
        return {TRAINING: lambda: step}
    network = families.network(library, family, size)

    def infer(count: int) -> Callable[[], Step]:
        return lambda: network.inference(count)

    return {TRAINING: network.training, **{mode: infer(count) for mode, count in INFERENCE.items()}}


def main(library_name: str, name: str, layout: str, clock_name: str) -> None:
    """Answer until the input ends."""
    library, clock = importlib.import_module(library_name), getattr(time, clock_name)
    imported = memory_of("VmRSS")
    modes = steps_by_mode(library, name, layout)
    step = modes[TRAINING]()
    losses = [step() for _ in range(STEPS)]
    facts: dict[str, Any] = {"imported": imported, "peak": memory_of("VmHWM"), "losses": losses}
    facts["compiled"] = "llvmlite" in sys.modules  # its memory is no part of training: a later process loads the code
    facts["outputs"] = [modes[mode]()() for mode in modes if mode != TRAINING]
    print(json.dumps(facts), flush=True)
    current = None
    for line in sys.stdin:
        mode, _, count = line.rpartition(" ")
        if mode != current:
            current, step = mode, modes[mode]()
        start = clock()
        for _ in range(int(count)):
            step()
        print((clock() - start) / int(count), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
