"""Zero-copy exchange of memory: NumPy, DLPack, buffers, files."""

from __future__ import annotations

import ctypes
import os
import warnings
from typing import Any

import numpy as np

from tdt import _backend
from tdt._backend.device import as_device
from tdt._core import dtype as _dtype
from tdt._core.aliases import Device
from tdt._core.creation import _finished, as_tensor, from_numpy, tensor
from tdt._core.dtype import dtype as Dtype
from tdt._core.layout import layout as Layout
from tdt._core.methods import method
from tdt._core.storage import TypedStorage, UntypedStorage, tensor_on
from tdt._core.tensor import Tensor, wrap

__all__ = ["asarray", "from_dlpack", "from_file", "frombuffer", "to_dlpack"]


def asarray(
    obj: Any, *, dtype: Dtype | None = None, device: Device = None, copy: bool | None = None, requires_grad: bool | None = None
) -> Tensor:  # fmt: skip
    """`obj` as a tensor that shares its memory where possible.

    Args:
        obj: a tensor, a storage, an array, a bytes-like object, an object with `__dlpack__`, or nested sequences of numbers.
        copy: True: always copy; False: never; None: only if the dtype, the device or the kind of `obj` needs it.
        requires_grad: by default that of `obj`.
    Shape: result the shape of `obj`.
    Raises:
        ValueError: when copy=False and a copy is needed.

    >>> import tdt
    >>> tdt.asarray([1, 2])
    tensor([1, 2])
    """
    source = obj
    if not isinstance(obj, Tensor) and not _backend.is_array(obj):
        if isinstance(obj, UntypedStorage | TypedStorage):
            source = tensor_on(obj, dtype)
        elif hasattr(obj, "__dlpack__"):
            source = from_dlpack(obj)
        elif isinstance(obj, bytes | bytearray | memoryview):
            source = frombuffer(obj, dtype=_dtype.get_default_dtype() if dtype is None else dtype)
    shares = isinstance(source, Tensor) or _backend.is_array(source)
    if not shares and copy is False:
        raise ValueError(f"can't alias arbitrary sequence into a tensor: {type(obj).__name__}; leave copy unset")
    created = as_tensor(source, dtype, device) if shares and not copy else tensor(source, dtype=dtype, device=device)
    if copy is False and not _backend.may_overlap(created._a, source._a if isinstance(source, Tensor) else source):
        raise ValueError(
            f"can't alias tensor with dtype {created.dtype if dtype is None else source.dtype} into {created.dtype} on "
            f"{created.device} without a copy; leave copy unset"
        )
    if copy and isinstance(source, Tensor) and requires_grad is None and source.requires_grad:
        return source.clone()
    if requires_grad is None or created.requires_grad is requires_grad:
        return created
    return created.detach().requires_grad_(requires_grad)


def frombuffer(
    buffer: Any, *, dtype: Dtype, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:  # fmt: skip
    """A 1-d tensor on the memory of a bytes-like object.

    Args:
        count: number of elements; negative: all.
        offset: in bytes.
    Shape: result (count).
    Raises:
        ValueError: when `buffer` is not bytes-like or empty, or `count` and `offset` do not fit its length.

    >>> import tdt
    >>> tdt.frombuffer(bytearray([1, 0, 2, 0]), dtype=tdt.int16)
    tensor([1, 2], dtype=tdt.int16)
    """
    kind = _dtype.as_dtype(dtype)
    try:
        memory = memoryview(buffer).cast("B")
    except TypeError:
        raise ValueError(f"object does not implement Python buffer protocol: {type(buffer).__name__}") from None
    length, n = memory.nbytes, kind.itemsize
    if not length or not count:
        raise ValueError(f"both buffer length ({length}) and count ({count}) must not be 0")
    if not 0 <= offset < length:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({length} bytes) minus 1"
        )
    if count < 0 and (length - offset) % n:
        raise ValueError(
            f"buffer length ({length - offset} bytes) after offset ({offset} bytes) must be a multiple of element size ({n})"
        )
    count = (length - offset) // n if count < 0 else count
    if count * n > length - offset:
        raise ValueError(
            f"requested buffer length ({count} * {n} bytes) after offset ({offset} bytes) must not be greater than actual "
            f"buffer length ({length} bytes)"
        )
    if memory.readonly:
        warnings.warn("The given buffer is not writable; clone() the tensor before you write to it", UserWarning, 2)
    return _finished(np.frombuffer(memory, kind.np, count, offset), requires_grad)


def from_file(
    filename: str | os.PathLike[str], shared: bool | None = None, size: int = 0, *, dtype: Dtype | None = None,
    layout: Layout | None = None, device: Device = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A 1-d tensor mapped from a file.

    Args:
        shared: True: writes to the tensor reach the file, which is created or extended if needed; else they stay in memory.
        size: number of elements.
        layout, device, pin_memory: have no effect.
    Shape: result (size).
    Raises:
        RuntimeError: when the file is missing or too short.

    >>> import pathlib, tdt
    >>> _ = pathlib.Path("numbers.bin").write_bytes(bytes([1, 2, 3]))
    >>> tdt.from_file("numbers.bin", size=3, dtype=tdt.uint8)
    tensor([1, 2, 3], dtype=tdt.uint8)
    """
    kind = _dtype.get_default_dtype() if dtype is None else _dtype.as_dtype(dtype)
    mapped = tensor_on(UntypedStorage.from_file(filename, bool(shared), size * kind.itemsize), kind)
    return mapped.requires_grad_(requires_grad)


class _Capsule:
    """Adapter that gives a DLPack capsule the `__dlpack__` protocol."""

    def __init__(self, capsule: Any):
        self.capsule = capsule

    def __dlpack__(self, **how: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def from_dlpack(ext_tensor: Any, *, device: Device = None, copy: bool | None = None) -> Tensor:
    """A tensor on the memory of another library's tensor, through DLPack.

    Args:
        ext_tensor: an object with `__dlpack__`, or a DLPack capsule.
        copy: True: copy the memory.
    Shape: result the shape of `ext_tensor`.
    Raises:
        RuntimeError: when `ext_tensor` is neither.
        BufferError: when DLPack or NumPy does not support the dtype.

    >>> import numpy, tdt
    >>> tdt.from_dlpack(numpy.arange(3))
    tensor([0, 1, 2])
    """
    source = ext_tensor if hasattr(ext_tensor, "__dlpack__") else _Capsule(ext_tensor)
    if isinstance(source, _Capsule) and type(ext_tensor).__name__ != "PyCapsule":
        raise RuntimeError(
            f"from_dlpack takes an object with __dlpack__ or a DLPack capsule, not {type(ext_tensor).__name__}"
        )
    on_gpu = int(source.__dlpack_device__()[0]) == 2
    created: Any = _backend.on(as_device("cuda" if on_gpu else "cpu")).from_dlpack(source)
    if isinstance(created, np.ndarray) and not created.flags.writeable and not isinstance(ext_tensor, np.ndarray):
        created = _writable(created)
    created = from_numpy(created) if isinstance(created, np.ndarray) else wrap(created)
    created = created.clone() if copy else created
    return created if device is None else created.to(device)


def _writable(array: np.ndarray) -> np.ndarray:
    """A writable view: NumPy treats capsules without flags as read-only, and PyTorch's have no flags."""
    low, high = _backend.byte_bounds(array)
    memory: Any = (ctypes.c_char * (high - low)).from_address(low)
    memory._keeps = array  # keeps it alive as long as the new array
    return np.ndarray(array.shape, array.dtype, memory, array.ctypes.data - low, array.strides)


def to_dlpack(tensor: Tensor) -> Any:
    """A DLPack capsule on the memory of a tensor, for one call of `from_dlpack`.

    Shape: tensor (*); result a capsule.
    Raises:
        BufferError: when the tensor requires grad or is bfloat16.

    >>> import tdt
    >>> tdt.from_dlpack(tdt.to_dlpack(tdt.arange(2)))
    tensor([0, 1])
    """
    return __dlpack__(tensor)


@method()
def __dlpack__(
    self: Tensor, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
) -> Any:
    """A DLPack capsule on the memory of the tensor.

    Raises:
        BufferError: when the tensor requires grad or is bfloat16.
    """
    if self.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if self.dtype is _dtype.bfloat16:
        raise BufferError("NumPy's DLPack does not know bfloat16; hand over tensor.view(tdt.int16), or tensor.float()")
    options = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
    return self._a.__dlpack__(**{name: value for name, value in options.items() if value is not None})


@method()
def __dlpack_device__(self: Tensor) -> tuple[int, int]:
    """DLPack's device type and index of the tensor."""
    return self._a.__dlpack_device__()


@method()
def __array_wrap__(self: Tensor, array: Any, context: Any = None, return_scalar: bool = False) -> Tensor:
    """Wrap the result of a NumPy function in a tensor. As in PyTorch, bools become uint8."""
    array = np.asarray(array)
    return from_numpy(array.astype(np.uint8) if array.dtype == np.bool_ else array)
