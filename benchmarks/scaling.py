"""Plot the time of a training step over batch size and width, for tdt and PyTorch.

    python -m benchmarks.scaling [FILE.png]     # needs pip install -e '.[parity,bench]'

Left a network of two linear layers, right one of two convolutions (channels-last); above over the batch size, below over
the width. Each point is the median of blocks of steps that the two libraries did by turns.
"""

from __future__ import annotations

import statistics

from matplotlib import pyplot

from benchmarks._pairs import arguments
from benchmarks._side import TRAINING
from benchmarks.training import Side

BATCHES, WIDTHS = (1, 4, 16, 64, 256), (8, 32, 128, 512)
PLOTS = {  # family: (layout, width while the batch varies, batch while the width varies)
    "mlp": ("contiguous", 256, 64),
    "cnn": ("channels-last", 32, 32),
}
BLOCKS = 7


def times(family: str, layout: str, width: int, batch: int) -> tuple[float, float]:
    """Milliseconds of a step: tdt's and PyTorch's."""
    name = f"{family} {width} {batch}"
    with Side("tdt", name, layout, None) as ours, Side("torch", name, layout, None) as theirs:
        for side in (ours, theirs):
            side.wait()
            side.select(TRAINING)
        pairs = [(ours.seconds(), theirs.seconds()) for _ in range(BLOCKS)]
    our_ms, their_ms = (1e3 * statistics.median(side) for side in zip(*pairs, strict=True))
    print(f"{name:<16} tdt {our_ms:9.3f} ms   PyTorch {their_ms:9.3f} ms   {their_ms / our_ms:5.2f}", flush=True)
    return our_ms, their_ms


def main(file: str = "scaling.png") -> None:
    """Measure all points, print them and write the plot."""
    figure, axes = pyplot.subplots(2, len(PLOTS), figsize=(11, 8), layout="constrained")
    for column, (family, (layout, width, batch)) in enumerate(PLOTS.items()):
        widths = [w for w in WIDTHS if family == "mlp" or w <= 128]
        for row, (label, sizes, points) in enumerate((
            (f"batch size (width {width})", BATCHES, [(width, b) for b in BATCHES]),
            (f"width (batch size {batch})", widths, [(w, batch) for w in widths]),
        )):  # fmt: skip
            found = [times(family, layout, *point) for point in points]
            axis = axes[row][column]
            for name, values in zip(("tdt", "PyTorch"), zip(*found, strict=True), strict=True):
                axis.loglog(sizes, values, marker="o", label=name)
            axis.set(title=f"{family}, {layout}", xlabel=label, ylabel="ms a step", xticks=sizes, xticklabels=sizes)
            axis.grid(which="both", alpha=0.3)
            axis.legend()
    figure.savefig(file, dpi=120)
    print(f"plot: {file}")


if __name__ == "__main__":
    main(*arguments(__doc__, file="scaling.png"))
