"""The graph of an ONNX file for TensorBoard."""

from __future__ import annotations

from os import PathLike

from tensorboard.compat.proto.attr_value_pb2 import AttrValue
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.compat.proto.node_def_pb2 import NodeDef
from tensorboard.compat.proto.versions_pb2 import VersionDef

from tdt._about import install_hint
from tdt.utils.tensorboard.summary._common import shape_proto


def onnx_graph(path: str | PathLike[str]) -> GraphDef:
    """Inputs, outputs and nodes of the ONNX model in the file `path`. Raises ImportError without the package onnx."""
    try:
        import onnx
    except ImportError as error:
        raise ImportError(f"reading an ONNX file needs onnx: {install_hint('onnx')}") from error
    graph = onnx.load(path).graph
    nodes = []
    for value in (*graph.input, *graph.output):
        kind = value.type.tensor_type
        shape = shape_proto(tuple(size.dim_value for size in kind.shape.dim))
        attributes = {"dtype": AttrValue(type=kind.elem_type), "shape": AttrValue(shape=shape)}
        nodes.append(NodeDef(name=value.name, op="Variable", attr=attributes))
    for node in graph.node:
        settings = ", ".join(" = ".join(str(value) for _, value in item.ListFields()) for item in node.attribute)
        attributes = {"parameters": AttrValue(s=settings.encode())}
        nodes.append(NodeDef(name=node.output[0], op=node.op_type, input=node.input, attr=attributes))
    return GraphDef(node=nodes, versions=VersionDef(producer=22))
