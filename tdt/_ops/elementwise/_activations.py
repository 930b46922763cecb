"""What activations share: `inplace=True`."""

from __future__ import annotations

from typing import Any

from tdt._core.dtype import FLOAT
from tdt._core.from_data import held
from tdt._core.tensor import Tensor
from tdt._ops.elementwise._front import tensor_argument
from tdt.autograd._dispatch import unary
from tdt.autograd._op import Op


def factor(name: str, input: Tensor, value: Any) -> Any:
    """A number that activation `name` of floating-point elements computes with; RuntimeError for one that is too large."""
    dtype = tensor_argument(name, input).dtype
    return held(value, dtype, wide=True) if dtype.category == FLOAT else value


def run(record: Op, input: Tensor, inplace: bool, **attributes: Any) -> Tensor:
    """Apply an activation, to the memory of `input` if `inplace`; TypeError if `input` is not a Tensor."""
    if input.__class__ is Tensor and not inplace:
        return unary(record, input, attributes)
    tensor_argument(record.name, input)
    return record.inplace(input, **attributes) if inplace else record(input, **attributes)
