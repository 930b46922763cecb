"""Zero-copy exchange of memory: NumPy, DLPack, buffers, files."""

from __future__ import annotations

import ctypes
import os
import warnings
from typing import Any

import numpy as np

from tdt import _backend
from tdt._backend.device import device as Device
from tdt._core import dtype as _dtype
from tdt._core.creation import _finished, as_tensor, from_numpy, tensor
from tdt._core.dtype import dtype as Dtype
from tdt._core.storage import TypedStorage, UntypedStorage, tensor_on
from tdt._core.tensor import Tensor, wrap

__all__ = ["asarray", "from_dlpack", "from_file", "frombuffer", "to_dlpack"]


def asarray(
    obj: Any, *, dtype: Dtype | None = None, device: Any = None, copy: bool | None = None, requires_grad: bool | None = None
) -> Tensor:  # fmt: skip
    """A tensor of `obj` that shares its memory where it can: a tensor, a storage, an array, a buffer, what has `__dlpack__`.

    copy=True never shares; copy=False raises ValueError where it must. requires_grad: as `obj` has it unless it is given.

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
    made = as_tensor(source, dtype, device) if shares and not copy else tensor(source, dtype=dtype, device=device)
    if copy is False and not _backend.may_overlap(made._a, source._a if isinstance(source, Tensor) else source):
        raise ValueError(
            f"can't alias tensor with dtype {made.dtype if dtype is None else source.dtype} into {made.dtype} on {made.device} "
            "without a copy; leave copy unset"
        )
    if copy and isinstance(source, Tensor) and requires_grad is None and source.requires_grad:  # type: ignore[attr-defined]
        return source.clone()  # type: ignore[attr-defined]
    if requires_grad is None or made.requires_grad is requires_grad:  # type: ignore[attr-defined]
        return made
    return made.detach().requires_grad_(requires_grad)  # type: ignore[attr-defined]


def frombuffer(
    buffer: Any, *, dtype: Dtype, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:  # fmt: skip
    """A 1-d tensor on the memory of a bytes-like object: `count` elements (all, by default) from byte `offset` on.

    ValueError for what is no buffer or has not so many bytes. Warns of memory that must not be written to.

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
    layout: Any = None, device: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A 1-d tensor of `size` elements mapped from a file; what is written to it reaches the file only with shared=True,
    which also makes the file as long as it must be.

    RuntimeError for a file that is missing or too short.

    >>> import pathlib, tdt
    >>> _ = pathlib.Path("numbers.bin").write_bytes(bytes([1, 2, 3]))
    >>> tdt.from_file("numbers.bin", size=3, dtype=tdt.uint8)
    tensor([1, 2, 3], dtype=tdt.uint8)
    """
    kind = _dtype.get_default_dtype() if dtype is None else _dtype.as_dtype(dtype)
    return tensor_on(UntypedStorage.from_file(filename, bool(shared), size * kind.itemsize), kind)


class _Capsule:
    """Adapter that gives a DLPack capsule the `__dlpack__` protocol."""

    def __init__(self, capsule: Any):
        self.capsule = capsule

    def __dlpack__(self, **how: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor on the memory of another library's tensor, through DLPack: one with `__dlpack__`, or a capsule.

    BufferError for a type that DLPack or NumPy does not know.

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
    made: Any = _backend.on(Device("cuda" if on_gpu else "cpu")).from_dlpack(source)
    if isinstance(made, np.ndarray) and not made.flags.writeable and not isinstance(ext_tensor, np.ndarray):
        made = _unlocked(made)
    made = from_numpy(made) if isinstance(made, np.ndarray) else wrap(made)
    made = made.clone() if copy else made
    return made if device is None else made.to(device)


def _unlocked(array: np.ndarray) -> np.ndarray:
    """A writable view: NumPy treats capsules without flags as read-only, and PyTorch's have no flags."""
    low, high = _backend.byte_bounds(array)
    memory: Any = (ctypes.c_char * (high - low)).from_address(low)
    memory._keeps = array  # keeps it alive as long as the new array
    return np.ndarray(array.shape, array.dtype, memory, array.ctypes.data - low, array.strides)


def to_dlpack(tensor: Tensor) -> Any:
    """A DLPack capsule on the tensor's memory, which one `from_dlpack` may take."""
    return __dlpack__(tensor)


def __dlpack__(
    self: Tensor, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
) -> Any:
    if self.requires_grad:  # type: ignore[attr-defined]
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if self.dtype is _dtype.bfloat16:
        raise BufferError("NumPy's DLPack does not know bfloat16; hand over tensor.view(tdt.int16), or tensor.float()")
    options = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
    return self._a.__dlpack__(**{name: value for name, value in options.items() if value is not None})


def __dlpack_device__(self: Tensor) -> tuple[int, int]:
    return self._a.__dlpack_device__()


def __array_wrap__(self: Tensor, array: Any, context: Any = None, return_scalar: bool = False) -> Tensor:
    """Wrap the result of a NumPy function in a tensor. As in PyTorch, bools become uint8."""
    array = np.asarray(array)
    return from_numpy(array.astype(np.uint8) if array.dtype == np.bool_ else array)


for _method in (__dlpack__, __dlpack_device__, __array_wrap__):
    setattr(Tensor, _method.__name__, _method)
