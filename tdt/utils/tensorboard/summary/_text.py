"""Text summaries."""

from __future__ import annotations

from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.types_pb2 import DT_STRING
from tensorboard.plugins.text.plugin_data_pb2 import TextPluginData

from tdt.utils.tensorboard.summary._common import of_plugin, shape_proto


def text(tag: str, text: str) -> Summary:
    """A summary of `text`, which TensorBoard shows as Markdown.

    >>> from tdt.utils.tensorboard.summary._text import text
    >>> text("config", "*lr* 0.1").value[0].tensor.string_val
    [b'*lr* 0.1']
    """
    tensor = TensorProto(dtype=DT_STRING, string_val=[text.encode()], tensor_shape=shape_proto((1,)))
    return of_plugin(f"{tag}/text_summary", tensor, "text", TextPluginData(version=0).SerializeToString())
