"""Predict the time and efficiency of a training step on up to 1,000 ranks, from a step measured on this machine.

    python -m benchmarks.scale ["ResNet, basic blocks"] [--size large] [--plot scale.svg]

What is measured here: when each bucket of gradients of the network is complete in the backward pass, and the time of a step. The
rest is a PREDICTION. Each rank trains its own batch (the global batch grows with the ranks); an all-reduce takes the α-β model's
time (benchmarks.links); links have the nominal rate, of which TCP leaves 94 %. "alone" sends all buckets after the backward
pass; "overlap" begins each as soon as it is complete and the one before has ended, while backward goes on at full speed: a
bound that no run reaches, since messages take processor time too. Slower ranks, congestion and reading of data are not modelled.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

import tdt
from benchmarks import families
from benchmarks._pairs import settings
from benchmarks.links import Link
from tdt.nn.parallel._reducer import in_buckets

RANKS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000)
GIGABITS = (1, 25, 100)
PAYLOAD = 0.94  # of an Ethernet link's rate, with frames of 1,500 bytes
BUCKET = 25 << 20  # bytes: the default of DistributedDataParallel


@dataclass(frozen=True)
class Measured:
    """A training step in one process, in seconds.

    Args:
        step: the whole step.
        backward: from the begin of the step to the end of its backward pass.
        buckets: of each bucket of gradients, the time from the begin of the step until it is complete, and its bytes.
    """

    step: float
    backward: float
    buckets: tuple[tuple[float, int], ...]


def predicted(measured: Measured, link: Link, ranks: int, overlap: bool) -> float:
    """Seconds of a step on so many ranks.

    >>> one = Measured(step=1.0, backward=0.9, buckets=((0.5, 1_000_000), (0.9, 1_000_000)))
    >>> link = Link(alpha=0.0, beta=2e-7)  # 0.2 s for a bucket on two ranks
    >>> [round(predicted(one, link, 2, overlap), 3) for overlap in (False, True)]
    [1.4, 1.2]
    """
    if ranks == 1:
        return measured.step
    end = 0.0 if overlap else measured.backward
    for complete, size in measured.buckets:
        end = max(end, complete) + link.all_reduce(size, ranks)
    return measured.step + max(0.0, end - measured.backward)


def measure(family: str, size: str, steps: int, bucket: int) -> Measured:
    """Train a network of `benchmarks.families` for some steps. Returns medians."""
    network = families.network(tdt, family, size)
    parameters = [p for p in network.model.parameters() if p.requires_grad]
    buckets = in_buckets(parameters, bucket)
    complete = [0.0] * len(parameters)
    for i, parameter in enumerate(parameters):
        parameter.register_post_accumulate_grad_hook(lambda _, i=i: complete.__setitem__(i, time.perf_counter()))
    name, arguments = network.optimizer
    optimizer = getattr(tdt.optim, name)(parameters, **arguments)
    network.model.train()
    batch = network.tensors(network.batch)
    found = []
    for _ in range(steps + 2):  # the first two compile kernels and take memory
        begin = time.perf_counter()
        optimizer.zero_grad()
        network.loss(*batch).backward()
        backward = time.perf_counter()
        optimizer.step()
        times = [time.perf_counter(), backward, *(max(complete[i] for i in members) for members in buckets)]
        found.append([moment - begin for moment in times])
    step, backward, *ready = (statistics.median(moments) for moments in zip(*found[2:], strict=True))
    sizes = [sum(parameters[i].numel() * parameters[i].element_size() for i in members) for members in buckets]
    return Measured(step, backward, tuple(zip(ready, sizes, strict=True)))


def link_of(gigabits: float, alpha: float) -> Link:
    """An Ethernet link."""
    return Link(alpha, 8 / (gigabits * 1e9 * PAYLOAD))


def table(measured: Measured, alpha: float) -> dict[tuple[float, bool], list[float]]:
    """Print the predictions. Returns the efficiency over `RANKS` by rate and whether communication overlaps."""
    ways = [(gigabits, overlap) for gigabits in GIGABITS for overlap in (False, True)]
    print("PREDICTION: ms a step, and efficiency (the time of one rank / that of a step)")
    print(f"{'ranks':>6} " + " ".join(f"{f'{g} GbE, ' + ('overlap' if o else 'alone'):>18}" for g, o in ways))
    found: dict[tuple[float, bool], list[float]] = {way: [] for way in ways}
    for ranks in RANKS:
        line = f"{ranks:>6} "
        for gigabits, overlap in ways:
            seconds = predicted(measured, link_of(gigabits, alpha), ranks, overlap)
            found[gigabits, overlap].append(measured.step / seconds)
            line += f" {1e3 * seconds:>10.1f} {100 * measured.step / seconds:>5.1f} %"
        print(line)
    return found


def plot(found: dict[tuple[float, bool], list[float]], file: str, title: str) -> None:
    """Write the curves of efficiency as an image."""
    from matplotlib import pyplot

    pyplot.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "scale"}  # text as text, and the same file each time
    figure, axis = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
    for number, gigabits in enumerate(GIGABITS):
        for overlap in (False, True):
            label = f"{gigabits} GbE, {'overlap' if overlap else 'alone'}"
            style = "-" if overlap else "--"
            axis.plot(RANKS, found[gigabits, overlap], style, color=f"C{number}", marker=".", label=label)
    axis.set_xscale("log", base=2)
    axis.set(title=f"PREDICTION, not measured: {title}", xlabel="ranks", ylabel="efficiency", ylim=(0, 1.05))
    axis.set_xticks(RANKS, [str(ranks) for ranks in RANKS])
    axis.grid(alpha=0.3)
    axis.legend()
    figure.savefig(file, metadata={"Date": None} if file.endswith(".svg") else None)
    print(f"plot: {file}")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "family", nargs="?", default="ResNet, basic blocks", help="of benchmarks.families (%(default)s)"
    )
    parser.add_argument("--size", choices=families.SIZES, default="large", help="(%(default)s)")
    parser.add_argument("--steps", type=int, default=7, help="steps whose median is taken (%(default)s)")
    parser.add_argument("--bucket-mb", type=float, default=BUCKET >> 20, help="MiB of a bucket (%(default)s)")
    parser.add_argument("--alpha", type=float, default=50e-6, help="seconds of a message without bytes (%(default)s)")
    parser.add_argument("--plot", metavar="FILE", help="write the efficiency as SVG or PNG")
    args = parser.parse_args(arguments)
    if args.family not in families.FAMILIES:
        parser.error(f"no family {args.family!r}; there are {', '.join(families.FAMILIES)}")
    measured = measure(args.family, args.size, args.steps, round(args.bucket_mb * (1 << 20)))
    total = sum(size for _, size in measured.buckets)
    title = f"{args.family}, {args.size}"
    print(f"MEASURED: {title}: a step {1e3 * measured.step:.1f} ms, to the end of backward {1e3 * measured.backward:.1f} ms; "
          f"{settings()}")  # fmt: skip
    for complete, size in measured.buckets:
        print(f"  bucket of {size / (1 << 20):6.2f} MiB, complete after {1e3 * complete:7.1f} ms")
    print(f"  {total / (1 << 20):.2f} MiB of gradients; assumed: α = {1e6 * args.alpha:g} µs\n")
    found = table(measured, args.alpha)
    if args.plot:
        plot(found, args.plot, title)


if __name__ == "__main__":
    main()
