"""`tdt export`: a trained model as a file or folder for other programs."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tdt.commands._help import examples
from tdt.commands._options import Checkpoint, Json, Root, Traceback, Trust, check_output
from tdt.commands._output import one_line, print_lines

if TYPE_CHECKING:
    from tdt.train.export.onnx_file import Exported

EXAMPLE = examples(
    "tdt export digits-cnn --to onnx",
    "tdt export digits-cnn/2 --to safetensors --output weights/digits.safetensors",
    "tdt export gpt --to hf --output gpt-hf --force",
)


class Target(StrEnum):
    """What a model is exported to."""

    onnx = "onnx"
    safetensors = "safetensors"
    hf = "hf"


ENDINGS = {Target.onnx: ".onnx", Target.safetensors: ".safetensors", Target.hf: "-hf"}


def export(
    checkpoint: Checkpoint,
    to: Annotated[
        Target,
        typer.Option(
            "--to",
            metavar="onnx|safetensors|hf",
            help="onnx: a file with preprocessing; safetensors: weights; hf: a folder that transformers loads.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="PATH", help="Where to; default: the run's name, here."),
    ] = None,
    opset: Annotated[int, typer.Option("--opset", min=20, max=23, metavar="N", help="Opset of ONNX, 20 to 23.")] = 20,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file, or an exported folder.")] = False,
    json: Json = False,
    runs_root: Root = Path("runs"),
    trust: Trust = False,
    traceback: Traceback = False,
) -> int:
    """Export a trained model: the best weights of a run (or else the last), or a checkpoint.

    An ONNX file takes any batch size and is compared with tdt in onnxruntime before it is kept. Needs no dataset.
    """
    from tdt.train.runs.checkpoint import CheckpointError
    from tdt.train.runs.run import find_checkpoint

    try:
        path = find_checkpoint(checkpoint, runs_root)
    except CheckpointError as error:
        raise typer.BadParameter(str(error)) from error
    exported = _export(path, to, output, opset, force)
    if json:
        from tdt.commands._tables import print_json

        print_json({"checkpoint": str(path), "path": str(exported.path), "inputs": _tensors(exported.inputs),
                    "outputs": _tensors(exported.outputs), "difference": exported.difference,
                    "notes": list(exported.notes)})  # fmt: skip
    else:
        _print(path, exported)
    return 0


def _export(path: Path, to: Target, output: Path | None, opset: int, force: bool) -> Exported:
    if to is Target.onnx:
        from tdt.train.export.onnx_file import check_installed

        check_installed()
    from tdt.train.export.deployed import Deployed
    from tdt.train.export.onnx_file import write
    from tdt.train.export.weights import write_file, write_folder
    from tdt.train.loop.prediction import Predictor

    deployed = Deployed(Predictor(path, "cpu"))
    output = output or Path(f"{deployed.predictor.config.name}{ENDINGS[to]}")
    if output.is_dir() and to is not Target.hf:
        raise typer.BadParameter(f"{output} is a folder; name a file, as in --output {output / 'model'}{ENDINGS[to]}")
    if (output.exists() or output.is_symlink()) and not force:
        raise typer.BadParameter(f"{output} exists; give --force to replace it, or another --output")
    check_output(output, [path])
    os.stat(os.path.join(output.parent, ""))  # a missing folder is named before the model is exported
    if to is Target.onnx:
        return write(deployed, output, opset)
    return write_file(deployed, output) if to is Target.safetensors else write_folder(deployed, output)


def _tensors(tensors: Any) -> list[dict[str, Any]]:
    return [{"name": name, "dtype": dtype, "shape": list(sizes)} for name, dtype, sizes in tensors]


def _print(path: Path, exported: Exported) -> None:
    lines = [str(path)]
    for what, tensors in (("input", exported.inputs), ("output", exported.outputs)):
        lines += [f"{what} {name}: {dtype} ({', '.join(map(str, sizes))})" for name, dtype, sizes in tensors]
    if exported.difference is not None:
        source = f"the {exported.samples} split" if exported.samples else "random inputs"
        lines.append(
            f"onnxruntime differs from tdt by at most {exported.difference:.1e} on {source}, in batches of 1 and 7"
        )
    lines += [f"note: {one_line(note)}" for note in exported.notes]
    print_lines("\n".join([*lines, f"wrote {exported.path}"]))
