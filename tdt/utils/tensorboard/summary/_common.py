"""Helpers of several summaries: values for plugins, and shapes."""

from __future__ import annotations

from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto


def of_plugin(tag: str, tensor: TensorProto, plugin: str, content: bytes = b"") -> Summary:
    """A summary of one tensor that the TensorBoard plugin `plugin` shows; `content`: its own settings."""
    metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name=plugin, content=content))
    return Summary(value=[Summary.Value(tag=tag, tensor=tensor, metadata=metadata)])


def shape_proto(shape: tuple[int, ...]) -> TensorShapeProto:
    """Sizes as a protobuf."""
    return TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in shape])
