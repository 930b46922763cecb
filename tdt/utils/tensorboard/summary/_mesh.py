"""Mesh and point-cloud summaries."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.types_pb2 import DT_FLOAT
from tensorboard.plugins.mesh import metadata
from tensorboard.plugins.mesh.plugin_data_pb2 import MeshPluginData

from tdt.utils.tensorboard.summary._arrays import ArrayOrList, Json, as_array
from tdt.utils.tensorboard.summary._common import shape_proto


def mesh(
    tag: str, vertices: ArrayOrList, colors: ArrayOrList | None, faces: ArrayOrList | None,
    config_dict: Mapping[str, Json] | None,
    display_name: str | None = None, description: str | None = None,
) -> Summary:  # fmt: skip
    """A summary of points `vertices` of shape (batch, points, 3), in `colors` of the same shape, in [0, 255].

    faces: three indices of points for each triangle, shape (batch, triangles, 3); without them it is a cloud.
    config_dict: settings of the scene, camera and material, by three.js's names.
    Raises ValueError for another shape.

    >>> from tdt.utils.tensorboard.summary._mesh import mesh
    >>> import numpy as np
    >>> [value.tag for value in mesh("cloud", np.zeros((1, 4, 3)), None, None, None).value]
    ['cloud_VERTEX']
    """
    parts = [
        (as_array(part, lists=True), kind)
        for part, kind in (
            (vertices, MeshPluginData.VERTEX),
            (faces, MeshPluginData.FACE),
            (colors, MeshPluginData.COLOR),
        )
        if part is not None
    ]
    components = metadata.get_components_bitmask([kind for _, kind in parts])
    settings = json.dumps(config_dict or {}, sort_keys=True)
    values = []
    for array, kind in parts:
        if array.ndim != 3 or array.shape[2] != 3:
            raise ValueError(f"mesh {tag!r} takes arrays of shape (batch, points or triangles, 3), got {array.shape}")
        about = metadata.create_summary_metadata(
            tag, display_name, kind, components, array.shape, description, json_config=settings
        )
        tensor = TensorProto(
            dtype=DT_FLOAT, float_val=array.reshape(-1).tolist(), tensor_shape=shape_proto(array.shape)
        )
        values.append(Summary.Value(tag=metadata.get_instance_name(tag, kind), tensor=tensor, metadata=about))
    return Summary(value=values)
