"""Tensor summaries."""

from __future__ import annotations

import numpy as np
from tensorboard.compat.proto import types_pb2
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto

from tdt import Tensor
from tdt.utils.tensorboard.summary._common import of_plugin, shape_proto

# By dtype: the protobuf dtype, the field of the values, and their conversion.
_KINDS = {
    "float16": ("DT_HALF", "half_val", np.uint16),
    "bfloat16": ("DT_BFLOAT16", "half_val", np.uint16),
    "float32": ("DT_FLOAT", "float_val", None),
    "float64": ("DT_DOUBLE", "double_val", None),
    "uint8": ("DT_UINT8", "int_val", None),
    "int8": ("DT_INT8", "int_val", None),
    "int16": ("DT_INT16", "int_val", None),
    "int32": ("DT_INT32", "int_val", None),
    "int64": ("DT_INT64", "int64_val", None),
    "bool": ("DT_BOOL", "bool_val", None),
    "complex64": ("DT_COMPLEX64", "scomplex_val", np.float32),
    "complex128": ("DT_COMPLEX128", "dcomplex_val", np.float64),
}
_MOST_BYTES = 1 << 31


def tensor_proto(tag: str, tensor: Tensor) -> Summary:
    """A summary of all values of `tensor`, with its shape and type.

    PyTorch's event of the same tensor is the same but for float16 and bfloat16, where it puts the bits of float32 into
    fields of 16, and uint8, in a field where TensorBoard's `make_ndarray` does not look.
    Raises ValueError for 2 GiB and more, which a protobuf cannot hold, and for types that it does not know.

    >>> import tdt
    >>> from tdt.utils.tensorboard.summary._tensor import tensor_proto
    >>> list(tensor_proto("x", tdt.tensor([1, 2])).value[0].tensor.int64_val)
    [1, 2]
    """
    name = str(tensor.dtype).rpartition(".")[2]
    if tensor.numel() * tensor.element_size() >= _MOST_BYTES:
        raise ValueError(f"tensor {tag!r} of shape {tuple(tensor.shape)} has 2 GiB or more, which no event can hold")
    if name not in _KINDS:
        raise ValueError(f"tensor {tag!r} has the type {tensor.dtype}; events know {', '.join(_KINDS)}")
    kind, field, written = _KINDS[name]
    array = np.ascontiguousarray(tensor.detach().cpu()._a).reshape(-1)
    values = {field: (array if written is None else array.view(written)).tolist()}
    proto = TensorProto(dtype=types_pb2.DataType.Value(kind), tensor_shape=shape_proto(tuple(tensor.shape)), **values)
    return of_plugin(tag, proto, "tensor")
