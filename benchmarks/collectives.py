"""Time all_reduce of tdt.distributed, and mpi4py's Allreduce beside it, over sizes.

    mpirun -n 4 python -m benchmarks.collectives [--sizes 4096,1048576] [--json]

Both add float32 in place. A time is the median over rounds, in which the two alternate, of the slowest rank's. tdt's sum has the
same bits on every rank and for every MPI; MPI's own order of additions is left to its library.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable

import numpy as np

import tdt
from benchmarks._pairs import settings
from tdt import distributed
from tdt.distributed._launch import load_mpi

SIZES = tuple(4 << 3 * i for i in range(8))  # bytes: 4 to 8 Mi
ROUND = 0.02  # seconds that a round takes, at least


def slowest(run: Callable[[], object], repeat: int) -> float:
    """Seconds per call on the slowest rank."""
    comm = load_mpi().COMM_WORLD
    comm.Barrier()
    start = time.perf_counter()
    for _ in range(repeat):
        run()
    return float(comm.allreduce((time.perf_counter() - start) / repeat, load_mpi().MAX))


def measure(size: int, rounds: int) -> tuple[float, float]:
    """Seconds of an all_reduce of `size` bytes: tdt's, and mpi4py's."""
    mpi = load_mpi()
    tensor, array = tdt.zeros(size // 4), np.zeros(size // 4, np.float32)

    def theirs() -> None:
        mpi.COMM_WORLD.Allreduce(mpi.IN_PLACE, array)

    sides = (lambda: distributed.all_reduce(tensor), theirs)
    repeats = []
    for side in sides:
        side()
        repeats.append(max(1, min(200, round(ROUND / slowest(side, 1)))))
    found = [[slowest(side, repeat) for side, repeat in zip(sides, repeats, strict=True)] for _ in range(rounds)]
    ours, others = (statistics.median(times) for times in zip(*found, strict=True))
    return ours, others


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="bytes, with commas between (%(default)s)")
    parser.add_argument("--rounds", type=int, default=7, help="alternating measurements of each (7)")
    parser.add_argument("--json", action="store_true", help="print {size: [seconds of tdt, seconds of mpi4py]} alone")
    args = parser.parse_args()
    distributed.init_process_group("mpi")
    is_first = distributed.get_rank() == 0
    if is_first and not args.json:
        library = load_mpi().Get_library_version().split(",")[0].split("\n")[0]
        print(f"{distributed.get_world_size()} ranks, {library}; {settings()}")
        print(f"{'bytes':>10} {'tdt, µs':>12} {'mpi4py, µs':>12} {'mpi4py / tdt':>13}", flush=True)
    found = {}
    for size in map(int, args.sizes.split(",")):
        found[size] = ours, theirs = measure(size, args.rounds)
        if is_first and not args.json:
            print(f"{size:>10} {1e6 * ours:>12.1f} {1e6 * theirs:>12.1f} {theirs / ours:>13.2f}", flush=True)
    if is_first and args.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
