"""Export to ONNX, in PyTorch's place: `export(model, args, f)`."""

from __future__ import annotations

from enum import IntEnum

from tdt.onnx._export import ONNXProgram, export
from tdt.onnx._trace import OnnxExporterError, is_tracing

__all__ = ["ONNXProgram", "OnnxExporterError", "OperatorExportTypes", "TrainingMode", "export", "is_in_onnx_export"]


class OperatorExportTypes(IntEnum):
    """Options of PyTorch's older exporter, by which programs call it; `export` writes ONNX's own operators alone."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


class TrainingMode(IntEnum):
    """Options of PyTorch's older exporter, by which programs call it; `export` takes a model in the mode that it is in."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


def is_in_onnx_export() -> bool:
    """Whether a model is being exported at the moment.

    >>> import tdt
    >>> tdt.onnx.is_in_onnx_export()
    False
    """
    return is_tracing()
