"""Methods that convert a tensor to the dtype that they are named after: `x.float()`, `x.long()`, …"""

from __future__ import annotations

from tdt._core import dtype as _dtype
from tdt._core.memory_format import memory_format, preserve_format
from tdt._core.methods import method
from tdt._core.tensor import Tensor, wrap_new
from tdt._kernels import CONVERSIONS, astype
from tdt._ops.shape.memory import to
from tdt.autograd._arrays import unrecorded
from tdt.autograd._dispatch import converted

__all__: list[str] = []


def _converted(x: Tensor, dtype: _dtype.dtype, layout: memory_format) -> Tensor:
    """`x` in another dtype and memory format."""
    # Between common types without a record, in a third less time.
    if layout is preserve_format and x.__class__ is Tensor and unrecorded(x):
        a, kind = x._a, dtype.np
        if a.flags.c_contiguous and (a.dtype, kind) in CONVERSIONS:
            return wrap_new(astype(a, kind))
    return converted(x, dtype) if layout is preserve_format else to(x, dtype, memory_format=layout)


@method()
def float(self: Tensor, memory_format: memory_format = preserve_format) -> Tensor:
    """The tensor converted to float32; the tensor itself if it has that dtype.

    Shape: self (*); result the same.

    >>> import tdt
    >>> tdt.tensor([1, 0]).float().dtype
    tdt.float32
    """
    return _converted(self, _dtype.float32, memory_format)


@method()
def double(self: Tensor, memory_format: memory_format = preserve_format) -> Tensor:
    """The tensor converted to float64; the tensor itself if it has that dtype.

    Shape: self (*); result the same.

    >>> import tdt
    >>> tdt.tensor([1, 0]).double().dtype
    tdt.float64
    """
    return _converted(self, _dtype.float64, memory_format)


@method()
def half(self: Tensor, memory_format: memory_format = preserve_format) -> Tensor:
    """The tensor converted to float16; the tensor itself if it has that dtype.

    Shape: self (*); result the same.

    >>> import tdt
    >>> tdt.tensor([1, 0]).half().dtype
    tdt.float16
    """
    return _converted(self, _dtype.float16, memory_format)


@method()
def bfloat16(self: Tensor, memory_format: memory_format = preserve_format) -> Tensor:
    """The tensor converted to bfloat16; the tensor itself if it has that dtype.

    Shape: self (*); result the same.

    >>> import tdt
    >>> tdt.tensor([1, 0]).bfloat16().dtype
    tdt.bfloat16
    """
    return _converted(self, _dtype.bfloat16, memory_format)


@method()
def int(self: Tensor, memory_format: memory_format = preserve_format) -> Tensor:
    """The tensor converted to int32; the tensor itself if it has that dtype.

    Shape: self (*); result the same.

    >>> import tdt
    >>> tdt.tensor([1, 0]).int().dtype
    tdt.int32
    """
    return _converted(self, _dtype.int32, memory_format)


@method()
def long(self: Tensor, memory_format: memory_format = preserve_format) -> Tensor:
    """The tensor converted to int64; the tensor itself if it has that dtype.

    Shape: self (*); result the same.

    >>> import tdt
    >>> tdt.tensor([1, 0]).long().dtype
    tdt.int64
    """
    return _converted(self, _dtype.int64, memory_format)


@method()
def short(self: Tensor, memory_format: memory_format = preserve_format) -> Tensor:
    """The tensor converted to int16; the tensor itself if it has that dtype.

    Shape: self (*); result the same.

    >>> import tdt
    >>> tdt.tensor([1, 0]).short().dtype
    tdt.int16
    """
    return _converted(self, _dtype.int16, memory_format)


@method()
def char(self: Tensor, memory_format: memory_format = preserve_format) -> Tensor:
    """The tensor converted to int8; the tensor itself if it has that dtype.

    Shape: self (*); result the same.

    >>> import tdt
    >>> tdt.tensor([1, 0]).char().dtype
    tdt.int8
    """
    return _converted(self, _dtype.int8, memory_format)


@method()
def byte(self: Tensor, memory_format: memory_format = preserve_format) -> Tensor:
    """The tensor converted to uint8; the tensor itself if it has that dtype.

    Shape: self (*); result the same.

    >>> import tdt
    >>> tdt.tensor([1, 0]).byte().dtype
    tdt.uint8
    """
    return _converted(self, _dtype.uint8, memory_format)


@method()
def bool(self: Tensor, memory_format: memory_format = preserve_format) -> Tensor:
    """The tensor converted to bool; the tensor itself if it has that dtype.

    Shape: self (*); result the same.

    >>> import tdt
    >>> tdt.tensor([1, 0]).bool().dtype
    tdt.bool
    """
    return _converted(self, _dtype.bool, memory_format)


@method()
def cfloat(self: Tensor, memory_format: memory_format = preserve_format) -> Tensor:
    """The tensor converted to complex64; the tensor itself if it has that dtype.

    Shape: self (*); result the same.

    >>> import tdt
    >>> tdt.tensor([1, 0]).cfloat().dtype
    tdt.complex64
    """
    return _converted(self, _dtype.complex64, memory_format)


@method()
def cdouble(self: Tensor, memory_format: memory_format = preserve_format) -> Tensor:
    """The tensor converted to complex128; the tensor itself if it has that dtype.

    Shape: self (*); result the same.

    >>> import tdt
    >>> tdt.tensor([1, 0]).cdouble().dtype
    tdt.complex128
    """
    return _converted(self, _dtype.complex128, memory_format)
