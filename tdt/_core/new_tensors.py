"""Methods that make a tensor of this one's dtype and device: new_zeros, new_tensor, …"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from tdt._core.aliases import Device, Number
from tdt._core.creation import _shape_of, _sizes, full, make, tensor
from tdt._core.dtype import dtype as Dtype
from tdt._core.methods import method, named_like
from tdt._core.strided_creation import empty_strided
from tdt._core.tensor import Tensor

if TYPE_CHECKING:
    from tdt._core.layout import layout as Layout

F = TypeVar("F", bound=Callable[..., Any])


@method()
def new_tensor(
    self: Tensor, data: Any, *, dtype: Dtype | None = None, device: Device = None, requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A new tensor that holds a copy of `data`, by default with the dtype and device of this tensor.

    Args:
        pin_memory: has no effect.
    Shape: result the shape of `data`.

    >>> import tdt
    >>> tdt.zeros(1, dtype=tdt.float64).new_tensor([1, 2])
    tensor([1., 2.], dtype=tdt.float64)
    """
    return tensor(
        data, dtype=dtype or self.dtype, device=self.device if device is None else device, requires_grad=requires_grad
    )


@method()
def new_full(
    self: Tensor, size: Sequence[int], fill_value: Number, *, dtype: Dtype | None = None, device: Device = None,
    requires_grad: bool = False, layout: Layout | None = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of the given size with every element `fill_value`, by default with this tensor's dtype and device.

    Args:
        pin_memory, layout: have no effect.
    Shape: result of shape `size`.

    >>> import tdt
    >>> tdt.zeros(1).new_full((2,), 7)
    tensor([7., 7.])
    """
    return full(
        size, fill_value, dtype=dtype or self.dtype, device=self.device if device is None else device, requires_grad=requires_grad
    )  # fmt: skip


def _new(definition: F) -> F:
    """Give `new_zeros`, `new_ones` or `new_empty`, each a `def` with an empty body, the body that they share."""
    name = definition.__name__
    kind = name.removeprefix("new_")

    def function(
        self: Tensor, *sizes: Any, size: Any = None, dtype: Dtype | None = None, device: Any = None,
        requires_grad: bool = False, layout: Any = None, pin_memory: bool = False,
    ) -> Tensor:  # fmt: skip
        target = self.device if device is None else device
        shape = _shape_of(_sizes(name, sizes, size))
        return make(kind, shape, None, dtype or self.dtype, target, requires_grad)

    return cast("F", named_like(function, definition))


@method()
@_new
def new_zeros(
    self: Tensor, *sizes: int | Sequence[int], size: Sequence[int] | None = None, dtype: Dtype | None = None,
    device: Device = None, requires_grad: bool = False, layout: Layout | None = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of the given size, all 0, by default with this tensor's dtype and device.

    Args:
        sizes: one by one, or as one sequence; or the sequence as `size`.
        layout, pin_memory: have no effect.
    Shape: result of shape `size`.
    Raises:
        TypeError: when no size is given, or two.
        RuntimeError: when a size is negative.

    >>> import tdt
    >>> tdt.tensor([5]).new_zeros(2)
    tensor([0, 0])
    """


@method()
@_new
def new_ones(
    self: Tensor, *sizes: int | Sequence[int], size: Sequence[int] | None = None, dtype: Dtype | None = None,
    device: Device = None, requires_grad: bool = False, layout: Layout | None = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of the given size, all 1, by default with this tensor's dtype and device.

    Args:
        sizes: one by one, or as one sequence; or the sequence as `size`.
        layout, pin_memory: have no effect.
    Shape: result of shape `size`.
    Raises:
        TypeError: when no size is given, or two.
        RuntimeError: when a size is negative.

    >>> import tdt
    >>> tdt.tensor([5]).new_ones(2)
    tensor([1, 1])
    """


@method()
@_new
def new_empty(
    self: Tensor, *sizes: int | Sequence[int], size: Sequence[int] | None = None, dtype: Dtype | None = None,
    device: Device = None, requires_grad: bool = False, layout: Layout | None = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of the given size, not initialized, by default with this tensor's dtype and device.

    Args:
        sizes: one by one, or as one sequence; or the sequence as `size`.
        layout, pin_memory: have no effect.
    Shape: result of shape `size`.
    Raises:
        TypeError: when no size is given, or two.
        RuntimeError: when a size is negative.

    >>> import tdt
    >>> tdt.tensor([5]).new_empty(2).dtype
    tdt.int64
    """


@method()
def new_empty_strided(
    self: Tensor, size: Sequence[int], stride: Sequence[int], *, dtype: Dtype | None = None, layout: Layout | None = None,
    device: Device = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """An uninitialized tensor of the given size and strides, by default with this tensor's dtype and device.

    Args:
        stride: in elements.
        layout, pin_memory: have no effect.
    Shape: result of shape `size`.

    >>> import tdt
    >>> tdt.zeros(1).new_empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    target = self.device if device is None else device
    return empty_strided(size, stride, dtype=dtype or self.dtype, device=target, requires_grad=requires_grad)
