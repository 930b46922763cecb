"""One side of a comparison, in a process of its own: `python -m benchmarks._side LIBRARY NAME LAYOUT CLOCK COMPILED DTYPE`.

NAME is a workload, or "FAMILY: SIZE" of `benchmarks.families`; CLOCK a function of `time`; COMPILED what of a family's training
is compiled: nothing, the "loss", or the "step"; DTYPE what it computes in: "float32", or "bfloat16" under autocast. First it
prints a line of JSON: the losses of the first steps, the seconds that the first took, the outputs of the networks, and the memory
held. Then, for each line `MODE N` that it reads, it does N steps of that mode and prints the seconds that one took. The mode
"losses" prints losses instead, see `first_losses`.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import families
from benchmarks.workloads import Step, find

TRAINING, LOSSES = "training", "losses"
INFERENCE = {f"inference, batch {count}": count for count in families.INFERENCE_BATCHES}
STEPS = 3  # training steps whose losses are compared
# Of compiled steps before they are measured: tdt's run natively after up to 150 of them.
WARM_STEPS, WARM_SECONDS = 160, 10.0


def memory_of(which: str) -> float:
    """MiB of memory held now ("VmRSS") or at most so far ("VmHWM")."""
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{which}:")[1].split()[0]) / 1024


def steps_by_mode(library: Any, name: str, layout: str, compiled: str, dtype: str) -> dict[str, Callable[[], Step]]:
    """For each mode what returns its step. A workload, and training that is compiled, has one mode."""
    family, _, size = name.partition(": ")
    if size not in families.SIZES:
        step = find(name)(library, layout == "channels-last")
        return {TRAINING: lambda: step}
    network = families.network(library, family, size)
    network.bfloat16 = dtype == "bfloat16"

    if compiled:
        return {TRAINING: lambda: network.training(compiled)}

    def infer(count: int) -> Callable[[], Step]:
        return lambda: network.inference(count)

    return {TRAINING: network.training, **{mode: infer(count) for mode, count in INFERENCE.items()}}


def first_losses(library: Any, name: str, seed: int) -> list[float] | None:
    """The losses of a family's first steps: in float64 (seed 0), or in float32 with every weight off by about a rounding error.

    None: the network has steps of its own, in float32 alone.
    """
    network = families.network(library, *name.split(": "))
    if network.step is not None:
        return None
    rng = np.random.default_rng(seed)
    if seed:
        with library.no_grad():
            for p in network.model.parameters():
                off = 1 + np.finfo(np.float32).eps * rng.uniform(-1, 1, tuple(p.shape))
                p.copy_(library.from_numpy((p.detach().numpy() * off).astype(np.float32)))
    else:
        network.model.double()
        arrays = network.sample
        network.sample = lambda *args: tuple(
            each.astype(np.float64) if each.dtype == np.float32 else each for each in arrays(*args)
        )
    step = network.training()
    return [step() for _ in range(STEPS)]


def main(
    library_name: str, name: str, layout: str, clock_name: str, compiled: str = "", dtype: str = "float32"
) -> None:
    """Answer until the input ends."""
    library, clock = importlib.import_module(library_name), getattr(time, clock_name)
    np.random.default_rng()  # draws the networks' data, whichever the library: 7 MiB are loaded
    imported = memory_of("VmRSS")
    modes = steps_by_mode(library, name, layout, compiled, dtype)
    step = modes[TRAINING]()
    start = time.perf_counter()
    losses = [step()]
    first = time.perf_counter() - start
    losses += [step() for _ in range(STEPS - 1)]
    for _ in range(WARM_STEPS if compiled else 0):
        step()
        if time.perf_counter() - start > WARM_SECONDS + first:
            break
    facts: dict[str, Any] = {"imported": imported, "peak": memory_of("VmHWM"), "losses": losses, "first": first}
    facts["compiled"] = "llvmlite" in sys.modules  # its memory is no part of training: a later process loads the code
    facts["outputs"] = [modes[mode]()() for mode in modes if mode != TRAINING]
    print(json.dumps(facts), flush=True)
    current = TRAINING if compiled else None
    for line in sys.stdin:
        mode, _, count = line.rpartition(" ")
        if mode == LOSSES:
            print(json.dumps(first_losses(library, name, int(count))), flush=True)
            continue
        if mode != current:
            current, step = mode, modes[mode]()
        start = clock()
        for _ in range(int(count)):
            step()
        print((clock() - start) / int(count), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
