"""Export to ONNX, in PyTorch's place: `export(model, args, f)`."""

from __future__ import annotations

from tdt.onnx._export import ONNXProgram, export
from tdt.onnx._trace import OnnxExporterError, is_tracing

__all__ = ["ONNXProgram", "OnnxExporterError", "export", "is_in_onnx_export"]


def is_in_onnx_export() -> bool:
    """Whether a model is being exported at the moment.

    >>> import tdt
    >>> tdt.onnx.is_in_onnx_export()
    False
    """
    return is_tracing()
