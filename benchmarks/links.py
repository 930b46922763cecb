"""Compare the time of an all-reduce over slow links with that of the α-β model, fitted on two sizes, at a larger third.

    python -m benchmarks.links [--machines 4] [--mbit 10,100,1000] [--transport ucx]

An all-reduce of n bytes over p ranks sends p - 1 messages of n/p bytes, twice: it takes 2 (p - 1) (α + β n/p) seconds, where α is
the time of a message without bytes and β that of a byte. The machines are network namespaces: see benchmarks.machines, and what
it needs. Exit 1 where the model is more than 25 % off, 2 where there can be no namespaces.

Source: Thakur, Rabenseifner, Gropp, Optimization of Collective Communication Operations in MPICH, 2005.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass

from benchmarks.machines import TCP, Machines, missing

SIZES = {
    10: (1 << 18, 1 << 19, 1 << 20),
    100: (1 << 17, 1 << 19, 1 << 21),
}  # by megabits a second: two that are fitted, a third; messages of 16 KiB at 10 go before TCP must wait
FAST = (1 << 19, 1 << 21, 1 << 23)  # of faster links
OFF = 0.25


@dataclass(frozen=True)
class Link:
    """A link between ranks: seconds of a message without bytes, and of each byte."""

    alpha: float
    beta: float

    def all_reduce(self, size: float, ranks: int) -> float:
        """Seconds of an all-reduce of `size` bytes.

        >>> round(Link(alpha=1e-5, beta=1e-9).all_reduce(1e6, ranks=4), 9)
        0.00156
        """
        return 2 * (ranks - 1) * (self.alpha + self.beta * size / ranks)


def fit(ranks: int, small: tuple[float, float], large: tuple[float, float]) -> Link:
    """The link on which all-reduces of two sizes take what they took: (bytes, seconds) each.

    >>> link = Link(alpha=1e-5, beta=1e-9)
    >>> found = fit(4, *((size, link.all_reduce(size, 4)) for size in (1e5, 1e6)))
    >>> round(found.alpha, 9), round(found.beta, 12)
    (1e-05, 1e-09)
    """
    messages = 2 * (ranks - 1)
    beta = (large[1] - small[1]) / (large[0] - small[0]) * ranks / messages
    return Link(small[1] / messages - beta * small[0] / ranks, beta)


def measured(machines: Machines, transport: str, sizes: tuple[int, ...], rounds: int) -> dict[int, float]:
    """Seconds of tdt's all-reduce of each size, a rank on each machine."""
    program = [sys.executable, "-m", "benchmarks.collectives", "--json", "--rounds", str(rounds)]
    done = machines.mpirun(
        [*program, "--sizes", ",".join(map(str, sizes))], transport=transport, stdout=subprocess.PIPE
    )
    out = done.communicate()[0]
    if done.returncode:
        raise RuntimeError(f"mpirun ended with {done.returncode}: {out}")
    return {int(size): ours for size, (ours, _) in json.loads(out.strip().splitlines()[-1]).items()}


def compare(count: int, mbit: float, transport: str, rounds: int) -> float:
    """Print a line for one rate. Returns by how much the model is off at the third size."""
    sizes = SIZES.get(int(mbit), FAST)
    with Machines(count, mbit) as machines:
        seconds = measured(machines, transport, sizes, rounds)
    small, large, third = sizes
    link = fit(count, (small, seconds[small]), (large, seconds[large]))
    predicted = link.all_reduce(third, count)
    off = predicted / seconds[third] - 1
    rate = 8e-6 / link.beta
    print(f"{mbit:>6g} {small >> 10:>8} {large >> 10:>8} {1e6 * link.alpha:>8.0f} {rate:>10.1f} {third >> 10:>8} "
          f"{1e3 * predicted:>12.1f} {1e3 * seconds[third]:>11.1f} {100 * off:>+7.1f} %", flush=True)  # fmt: skip
    return off


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machines", type=int, default=4, help="how many (4)")
    parser.add_argument(
        "--mbit", default="10,100,1000", help="rates in megabits a second, with commas between (%(default)s)"
    )
    parser.add_argument("--transport", choices=TCP, default="", help="default: openmpi in Open MPI, ucx in MPICH")
    parser.add_argument(
        "--rounds", type=int, default=5, help="measurements of each size, of which the median is taken (5)"
    )
    args = parser.parse_args()
    why = missing()
    if why is not None:
        parser.exit(2, f"benchmarks.links: not run: {why}\n")
    print(f"{args.machines} machines of one rank; sizes in KiB, times in ms")
    print(f"{'Mbit/s':>6} {'fitted':>8} {'and':>8} {'α, µs':>8} {'β, Mbit/s':>10} {'third':>8} "
          f"{'predicted':>12} {'measured':>11} {'off':>9}", flush=True)  # fmt: skip
    found = [compare(args.machines, float(mbit), args.transport, args.rounds) for mbit in args.mbit.split(",")]
    return int(max(map(abs, found)) > OFF)


if __name__ == "__main__":
    sys.exit(main())
