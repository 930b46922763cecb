"""`tdt describe`: the layers of a model, and the time and memory that training takes."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tdt.commands import _complete
from tdt.commands._help import examples
from tdt.commands._options import Device, Json, Overrides, Root, Traceback, Trust, Wide
from tdt.commands._output import print_lines
from tdt.commands._tables import layers, paint, print_json, text

if TYPE_CHECKING:
    from tdt.train.config import Draft
    from tdt.train.loop.costs import Costs
    from tdt.train.loop.parts import Parts

EXAMPLE = examples("tdt describe digits-cnn data.loader.batch_size=256", "tdt describe digits-cnn/1 --json")


def describe(
    what: Annotated[
        str,
        typer.Argument(
            metavar="CONFIG|RUN|CHECKPOINT",
            help="A YAML file, the name of a config that comes with tdt, a run, or a checkpoint file.",
            autocompletion=_complete.anything,
        ),
    ],
    overrides: Overrides = None,
    compile: Annotated[
        bool, typer.Option("--compile", help="Show whether training steps are compiled and what they call, or why not.")
    ] = False,
    depth: Annotated[
        int | None, typer.Option("--depth", min=1, metavar="N", help="Sum the layers below N levels of modules.")
    ] = None,
    wide: Wide = False,
    json: Json = False,
    device: Device = None,
    runs_root: Root = Path("runs"),
    trust: Trust = False,
    traceback: Traceback = False,
) -> int:
    """Show the layers of a model with shapes, parameters and multiply-adds, and the time and memory of a training step."""
    from tdt.train.config import ConfigErrors
    from tdt.train.data.loading import open_splits
    from tdt.train.loop.build import build
    from tdt.train.loop.costs import compiled, estimate

    parts = build(
        _read(what, [*(overrides or ()), *([f"device={device}"] if device else ())], runs_root), splits=(), resumed=True
    )
    errors = ConfigErrors()
    splits = open_splits(
        parts.config.data, errors, needed=()
    )  # for the shape of a sample, which many datasets know without their files
    errors.raise_if_any()
    costs = estimate(parts, splits["train"])
    steps = compiled(parts, splits["train"]) if compile else None
    if json:
        return print_json(_facts(parts, costs) | ({"compiled": steps._asdict()} if steps else {}))
    print_lines(layers(parts, depth, wide), whole=True, paint=paint)
    print_lines(f"\n{_as_text(costs, parts.length.steps_per_epoch)}", whole=True)
    if steps is not None:
        print_lines(str(steps))
    return 0


def _read(what: str, overrides: list[str], root: Path) -> Draft:
    """The config of a YAML file, a bundled config, a checkpoint or a run."""
    from tdt.train.config import bundled, draft, loads

    path = Path(what)
    if path.suffix in (".yaml", ".yml") or (what in bundled() and not path.exists()):
        return draft(what, overrides)
    if path.suffix == ".safetensors":
        from tdt.train.loop.state import load_run

        return loads(load_run(path)[1]["config"], what, overrides).draft()
    from tdt.train.runs.run import RunFolder

    run = RunFolder.open(what, root)
    return loads(run.config_text(), str(run.folder / "config.yaml"), overrides).draft()


def _as_text(costs: Costs, steps: int) -> str:
    from tdt.train._printable import counted, duration

    how = (
        "measured on a batch of copies of one sample"
        if costs.measured
        else f"estimated: 3 forward passes at {costs.rate / 1e9:.1f} G multiply-adds per second"
    )
    rows = [(name, f"{size / 2**20:,.2f} MiB") for name, size in _memory(costs).items() if size]
    epoch = f"epoch of {counted(steps, 'step')}", duration(steps * costs.seconds)
    rows[:0] = [("step time", f"{costs.seconds * 1e3:,.2f} ms"), epoch]
    return f"a training step of {counted(costs.samples, 'sample')}, {how}\n" + text(("", ""), rows, right=(1,)).lstrip(
        "\n"
    )


def _memory(costs: Costs) -> dict[str, int]:
    return {
        "parameters": costs.parameters,
        "buffers": costs.buffers,
        "gradients": costs.gradients,
        "average of weights": costs.average,
        "optimizer state": costs.optimizer,
        "activations": costs.activations,
        "peak memory": costs.peak,
    }


def _facts(parts: Parts, costs: Costs) -> dict[str, Any]:
    """The JSON output."""
    parameters = list(parts.model.parameters())
    return {
        "name": parts.config.name,
        "device": str(parts.device),
        "layers": [asdict(row) for row in parts.rows],
        "parameters": sum(p.numel() for p in parameters),
        "trainable": sum(p.numel() for p in parameters if p.requires_grad),
        "multiply_adds": sum(row.flops for row in parts.rows),
        "samples": costs.samples,
        "step_seconds": costs.seconds,
        "epoch_seconds": costs.seconds * parts.length.steps_per_epoch,
        "samples_per_second": costs.samples / costs.seconds,
        "measured": costs.measured,
        "bytes": {name.replace(" ", "_"): size for name, size in _memory(costs).items()},
    }
