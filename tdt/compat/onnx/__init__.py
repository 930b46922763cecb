"""`torch.onnx`, importable: tdt does not export models."""

from __future__ import annotations

from tdt.compat._refusal import refused, refused_class

__all__ = ["ONNXProgram", "OnnxExporterError", "export", "is_in_onnx_export"]

REASON = "tdt does not export models to ONNX; save the state_dict, load it into the same module in PyTorch and export it there"
export = refused("onnx.export", REASON)
dynamo_export = refused("onnx.dynamo_export", REASON)
ONNXProgram = refused_class("onnx.ONNXProgram", REASON)


class OnnxExporterError(RuntimeError):
    """Error of a failed export: never raised."""


def is_in_onnx_export() -> bool:
    """Whether a model is being exported: never."""
    return False
