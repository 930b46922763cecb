"""Methods that make a tensor of this one's dtype and device: new_zeros, new_tensor, …"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tdt._core.creation import _shape_of, _sizes, empty_strided, full, make, tensor
from tdt._core.dtype import dtype as Dtype
from tdt._core.methods import method
from tdt._core.tensor import Tensor


@method()
def new_tensor(
    self: Tensor, data: Any, *, dtype: Dtype | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A tensor of `data` with this tensor's dtype and device."""
    return tensor(
        data, dtype=dtype or self.dtype, device=self.device if device is None else device, requires_grad=requires_grad
    )


@method()
def new_full(
    self: Tensor, size: Sequence[int], fill_value: Any, *, dtype: Dtype | None = None, device: Any = None,
    requires_grad: bool = False, layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of this tensor's dtype and device, every element `fill_value`."""
    return full(
        size, fill_value, dtype=dtype or self.dtype, device=self.device if device is None else device, requires_grad=requires_grad
    )  # fmt: skip


def _new(kind: str) -> Any:
    def function(
        self: Tensor, *sizes: Any, size: Any = None, dtype: Dtype | None = None, device: Any = None,
        requires_grad: bool = False, layout: Any = None, pin_memory: bool = False,
    ) -> Tensor:  # fmt: skip
        target = self.device if device is None else device
        shape = _shape_of(_sizes(f"new_{kind}", sizes, size))
        return make(kind, shape, None, dtype or self.dtype, target, requires_grad)

    function.__name__ = function.__qualname__ = f"new_{kind}"
    function.__doc__ = f"`tdt.{kind}` with this tensor's dtype and device."
    return function


new_zeros, new_ones, new_empty = _new("zeros"), _new("ones"), _new("empty")


@method()
def new_empty_strided(
    self: Tensor, size: Any, stride: Any, *, dtype: Dtype | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """`tdt.empty_strided` with this tensor's dtype and device."""
    return empty_strided(
        size,
        stride,
        dtype=dtype or self.dtype,
        device=self.device if device is None else device,
        requires_grad=requires_grad,
    )


for _method in (new_zeros, new_ones, new_empty):
    method()(_method)
