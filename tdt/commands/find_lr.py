"""`tdt find-lr`: the learning-rate range test."""

from __future__ import annotations

import math
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tdt.commands import _startup
from tdt.commands._help import examples
from tdt.commands._options import ConfigName, Device, Json, Overrides, Traceback, Trust
from tdt.commands._output import print_lines
from tdt.commands._tables import print_json, terminal_width

if TYPE_CHECKING:
    from tdt.train.tune.lr_range import RangeTest

EXAMPLE = examples("tdt find-lr digits-mlp", "tdt find-lr my.yaml --start 1e-5 --end 1 --steps 200 --output lr.png")
WIDTH, HEIGHT = 64, 10  # of the curve, in characters

Start = Annotated[float, typer.Option("--start", metavar="LR", help="The first learning rate.")]
End = Annotated[float, typer.Option("--end", metavar="LR", help="The last learning rate.")]
Steps = Annotated[int, typer.Option("--steps", metavar="N", help="Optimizer steps from the first to the last.", min=10)]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE.png", help="Also draw the curve into a file (needs matplotlib)."),
]


def find_lr(
    config: ConfigName,
    overrides: Overrides = None,
    start: Start = 1e-6,
    end: End = 10.0,
    steps: Steps = 100,
    output: Output = None,
    device: Device = None,
    json: Json = False,
    trust: Trust = False,
    traceback: Traceback = False,
) -> int:
    """Suggest a learning rate: train briefly while it rises exponentially, and draw the loss; leaves no run behind."""
    if not 0 < start < end < math.inf:
        raise typer.BadParameter(f"expected 0 < --start < --end, got {start:g} and {end:g}")
    if output is not None:
        _check_drawing(output)
    from tdt.train.config import draft
    from tdt.train.tune.lr_range import range_test

    read = draft(config, [*(overrides or ()), *([f"device={device}"] if device else ())])
    _startup.finish()
    found = range_test(read, start, end, steps)
    if output is not None:
        _draw(found, output)
    rate = found.steepest
    if json:
        facts = {"suggestion": rate, "tenth_of_minimum": found.tenth_of_minimum, "stopped": found.stopped}
        series = {"rates": found.rates, "losses": found.losses, "smoothed": found.smoothed}
        return print_json(facts | series, 0 if rate is not None else 1)
    if found.rates:
        print_lines(_chart(found))
    if found.stopped:
        print_lines(f"ended after step {len(found.rates)}: {found.stopped}")
    if rate is None:
        print_lines("no suggestion: the loss did not fall; try other --start, --end or --steps", file=sys.stderr)
        return 1
    override = f"optimizer.lr={rate:.2g}"
    print_lines(
        f"suggestion: {rate:.2g}, where the loss falls fastest (a tenth of the rate of the minimum: "
        f"{found.tenth_of_minimum:.2g})",
        f"to use it: {shlex.join(['tdt', 'train', config, *(overrides or ()), override])}",
    )
    return 0


def _chart(found: RangeTest) -> str:
    """The smoothed loss over the learning rate, on a logarithmic scale, as text."""
    count, width = len(found.rates), min(WIDTH, (terminal_width() or 80) - 12)  # 12: of a label and the axis
    columns = [
        found.smoothed[i * count // width : max((i + 1) * count // width, i * count // width + 1)] for i in range(width)
    ]
    means = [sum(part) / len(part) for part in columns]
    low = min(means)
    high = min(max(means), 2 * max(found.smoothed[0], low))  # what diverges is cut
    rows = [round((min(mean, high) - low) / ((high - low) or 1.0) * (HEIGHT - 1)) for mean in means]
    lines = []
    for row in reversed(range(HEIGHT)):
        label = high if row == HEIGHT - 1 else low if row == 0 else None
        lines.append(
            f"{'' if label is None else f'{label:.4g}':>9} |{''.join('*' if r == row else ' ' for r in rows)}".rstrip()
        )
    first, last = f"{found.rates[0]:.2g}", f"{found.rates[-1]:.2g}"
    return "\n".join([*lines, f"{'loss':>9} +{'-' * width}", f"{'lr':>9}  {first}{last:>{width - len(first)}}"])


def _check_drawing(path: Path) -> None:
    """Raise before the test runs if its curve could not be drawn to `path`."""
    try:
        from matplotlib.backend_bases import FigureCanvasBase
    except ImportError as error:
        raise typer.BadParameter("--output needs matplotlib: pip install matplotlib") from error
    if path.suffix[1:].lower() not in FigureCanvasBase.get_supported_filetypes():
        raise typer.BadParameter(f"{path}: its ending says no format; use .png, .svg or .pdf")
    os.stat(os.path.join(path.parent, ""))  # a missing folder is named


def _draw(found: RangeTest, path: Path) -> None:
    from matplotlib.figure import Figure

    from tdt._files import replacing

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    axes.plot(found.rates, found.losses, alpha=0.3, label="loss")
    axes.plot(found.rates, found.smoothed, label="smoothed")
    if found.steepest is not None:
        axes.axvline(found.steepest, linestyle="--", label=f"steepest: {found.steepest:.2g}")
    axes.set(xscale="log", xlabel="learning rate", ylabel="training loss")
    axes.legend()
    with replacing(path) as file:
        figure.savefig(file, dpi=110, format=path.suffix[1:].lower())
