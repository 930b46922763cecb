"""Internal functions of PyTorch that libraries call: `torch._shape_as_tensor`, `torch._cast_Long`, ….

>>> import tdt
>>> tdt._shape_as_tensor(tdt.ones(2, 3)), tdt._cast_Long(tdt.ones(2))
(tensor([2, 3]), tensor([1, 1]))
"""

from __future__ import annotations

from collections.abc import Callable

import tdt
from tdt._core.dtype import dtype
from tdt._core.tensor import Tensor

__all__ = ["_cast_Byte", "_cast_Char", "_cast_Double", "_cast_Float", "_cast_Half", "_cast_Int", "_cast_Long", "_cast_Short",
           "_log_softmax_backward_data", "_shape_as_tensor", "_softmax_backward_data"]  # fmt: skip


def _shape_as_tensor(self: Tensor) -> Tensor:
    """The sizes as an int64 tensor."""
    return tdt.tensor(self.shape, dtype=tdt.int64, device="cpu")


def _cast(name: str, kind: dtype) -> Callable[..., Tensor]:
    def cast(self: Tensor, non_blocking: bool = False) -> Tensor:
        return self.to(kind)

    cast.__name__ = cast.__qualname__ = f"_cast_{name}"
    cast.__doc__ = f"`self` as {kind.name}."
    return cast


_cast_Byte = _cast("Byte", tdt.uint8)
_cast_Char = _cast("Char", tdt.int8)
_cast_Short = _cast("Short", tdt.int16)
_cast_Int = _cast("Int", tdt.int32)
_cast_Long = _cast("Long", tdt.int64)
_cast_Half = _cast("Half", tdt.float16)
_cast_Float = _cast("Float", tdt.float32)
_cast_Double = _cast("Double", tdt.float64)


def _softmax_backward_data(grad_output: Tensor, output: Tensor, dim: int, input_dtype: dtype) -> Tensor:
    """The gradient of softmax's input, of its output and the output's gradient."""
    product = grad_output * output
    return (product - output * product.sum(dim, keepdim=True)).to(input_dtype)


def _log_softmax_backward_data(grad_output: Tensor, output: Tensor, dim: int, input_dtype: dtype) -> Tensor:
    """The gradient of log_softmax's input, of its output and the output's gradient."""
    return (grad_output - output.exp() * grad_output.sum(dim, keepdim=True)).to(input_dtype)
