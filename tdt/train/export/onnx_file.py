"""A run as an ONNX file, checked in onnxruntime before it has its name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tdt._about import install_hint
from tdt._files import naming
from tdt.onnx._check import compare, session_of
from tdt.onnx._export import Arguments, ONNXProgram, program_of
from tdt.onnx._trace import OnnxExporterError
from tdt.train.config.precision import default_dtype
from tdt.train.errors import EXPECTED_ERRORS, reason
from tdt.train.export.deployed import Deployed, ExportError
from tdt.train.runs.run import RunError
from tdt.utils._nested import tensors_in

BATCHES = (1, 7)  # sizes of the batches on which the file is checked


@dataclass(frozen=True)
class Exported:
    """An exported model.

    Attributes:
        path: the file or folder.
        inputs, outputs: name, dtype and sizes of each tensor of the graph; empty for weights alone.
        difference: the largest difference from tdt, as a part of the largest number of its output, or of 1.
        samples: the split that it was measured on, "" for random inputs.
        notes: what else the user should know.
    """

    path: Path
    inputs: Sequence[tuple[str, str, Sequence[Any]]] = ()
    outputs: Sequence[tuple[str, str, Sequence[Any]]] = ()
    difference: float | None = None
    samples: str = ""
    notes: Sequence[str] = ()


def check_installed() -> None:
    """RunError with the command that installs them, if the packages of the extra `onnx` are missing."""
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
    except ImportError as error:
        raise RunError(f"tdt export --to onnx needs onnx and onnxruntime: {install_hint('onnx')}") from error


def write(deployed: Deployed, path: Path, opset: int = 20) -> Exported:
    """Export a model with any batch size, check it on batches of 1 and 7 inputs, and give the file its name.

    Raises:
        ExportError: an op has no form in ONNX, or onnxruntime's results differ by more than 1e-5.
        OSError: the file cannot be written.
    """
    items, source = deployed.samples()
    program = _program(deployed, items, opset)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    beside = temporary.with_name(f"{temporary.name}.data")
    try:
        with naming(path, temporary):
            program.save(temporary)
        difference = _check(deployed, items, temporary)
        if beside.exists():  # the file names it
            temporary.unlink()
            beside.unlink()
            program.save(path)
        else:
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
        beside.unlink(missing_ok=True)
    graph = program.model_proto.graph
    notes = [] if source else ["the run's data were not found; the check used random inputs"]
    if deployed.before:
        notes.append(f"before the model, apply {', '.join(map(repr, deployed.before))}")
    if deployed.predictor.config.train.amp:
        notes.append(
            f"the model was trained with amp: {deployed.predictor.config.train.amp}; the file computes in float32"
        )
    return Exported(path, _described(graph.input), _described(graph.output), difference, source, notes)


def _program(deployed: Deployed, items: Sequence[Any], opset: int) -> ONNXProgram:
    try:
        batch = deployed.batch(items[:2])
        called = Arguments(deployed, (batch,), {}, deployed.input_names(batch))
        dynamic = {"batch": [(number, 0) for number in range(len(called.tensors))]}
        count = len(deployed.expected(items[:1]))
        with default_dtype(deployed.predictor.config.dtype):
            return program_of(
                deployed, called, dynamic, deployed.output_names(count), opset, deployed.metadata(), root=deployed.model
            )
    except EXPECTED_ERRORS as error:
        raise ExportError(f"the model cannot be exported to ONNX: {reason(error)}") from error


def _check(deployed: Deployed, items: Sequence[Any], path: Path) -> float:
    """The largest difference between onnxruntime and tdt; ExportError if it is too large."""
    worst = 0.0
    try:
        session = session_of(str(path))
        names = [entry.name for entry in session.get_inputs()]
        for size in BATCHES:
            chosen = [items[i % len(items)] for i in range(size)]
            feeds = {name: t.numpy() for name, t in zip(names, tensors_in(deployed.batch(chosen)), strict=True)}
            worst = max(worst, compare(session, feeds, deployed.expected(chosen)))
    except OnnxExporterError as error:
        raise ExportError(f"the exported model is wrong, and was not kept: {error}") from error
    return worst


def _described(values: Any) -> list[tuple[str, str, list[Any]]]:
    import onnx

    found = []
    for value in values:
        kind = value.type.tensor_type
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type).name
        found.append((value.name, dtype, [d.dim_param or d.dim_value for d in kind.shape.dim]))
    return found
