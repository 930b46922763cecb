"""Scalar summaries."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.types_pb2 import DT_DOUBLE, DT_FLOAT

from tdt.utils.tensorboard.summary._common import of_plugin

if TYPE_CHECKING:
    from tdt.utils.tensorboard.summary._arrays import Array


def scalar(
    name: str,
    tensor: Array,
    collections: Sequence[str] | None = None,
    new_style: bool = False,
    double_precision: bool = False,
) -> Summary:
    """A summary with the one number `tensor`: a simple value, or with `new_style` a tensor of no dimensions.

    Numbers are kept as float32 (beyond its range they become infinite); `double_precision` keeps all 53 bits, in the
    new style alone, as in PyTorch. `collections` is there for PyTorch's signature and ignored, as by PyTorch.

    >>> from tdt.utils.tensorboard.summary._scalar import scalar
    >>> scalar("loss", 0.5).value[0].simple_value
    0.5
    """
    number = as_float(name, tensor)
    if not new_style:
        return Summary(value=[Summary.Value(tag=name, simple_value=number)])
    if double_precision:
        proto = TensorProto(double_val=[number], dtype=DT_DOUBLE)
    else:
        proto = TensorProto(float_val=[number], dtype=DT_FLOAT)
    return of_plugin(name, proto, "scalars")


def described(summary: Summary, text: str) -> Summary:
    """The summary of a scalar with a description, which TensorBoard shows beside its chart.

    >>> from tdt.utils.tensorboard.summary._scalar import described, scalar
    >>> described(scalar("loss", 0.5), "Mean squared error.").value[0].metadata.summary_description
    'Mean squared error.'
    """
    metadata = summary.value[0].metadata
    metadata.summary_description = text
    metadata.plugin_data.plugin_name = "scalars"
    return summary


def as_float(tag: str, value: Any) -> float:
    """`value`, a Python or NumPy number, or an array or tensor of one element, as a float."""
    if isinstance(value, (float, int)):  # fast path: called in every step
        return float(value)
    shape = getattr(value, "shape", ())
    if any(size != 1 for size in shape):
        raise ValueError(f"scalar {tag!r} must be one number, got shape {tuple(shape)}; reduce it first, as by .mean()")
    try:
        return float(value.item() if hasattr(value, "item") else value)
    except TypeError as error:
        message = f"scalar {tag!r} must be a real number or a tensor of one element, got {type(value).__name__}"
        # PyTorch raises NotImplementedError for values that are not numbers, and programs catch it.
        is_number = isinstance(value, numbers.Number) or hasattr(value, "dtype")
        raise (TypeError if is_number else NotImplementedError)(message) from error
