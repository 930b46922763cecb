"""`torch.export`, importable: tracing a model into a graph is refused; `tdt.onnx.export` writes models to ONNX."""

from __future__ import annotations

from tdt.compat._refusal import refused, refused_class

__all__ = ["Dim", "ExportedProgram", "ShapesCollection", "export", "load", "register_dataclass", "save", "unflatten"]

REASON = "tdt does not trace Python into graphs; save the state_dict, or write ONNX by onnx.export"


class _DimHint:
    """How a size of an exported graph may vary."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Dim.{self.name}"


class Dim:
    """A size of an exported graph, which tdt does not make: NotImplementedError. Its constants can be named."""

    AUTO = _DimHint("AUTO")
    DYNAMIC = _DimHint("DYNAMIC")
    STATIC = _DimHint("STATIC")

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        raise NotImplementedError(f"export.Dim: {REASON}")


ExportedProgram = refused_class("export.ExportedProgram", REASON)
ShapesCollection = refused_class("export.ShapesCollection", REASON)
export = refused("export.export", REASON)
load = refused("export.load", REASON)
register_dataclass = refused("export.register_dataclass", REASON)
save = refused("export.save", REASON)
unflatten = refused("export.unflatten", REASON)
