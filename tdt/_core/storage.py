"""Storages: the memory behind tensors, as bytes (UntypedStorage) or elements of one dtype (FloatStorage, …)."""

from __future__ import annotations

import mmap
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self, overload

import numpy as np

from tdt import _backend
from tdt._backend.device import as_device, device
from tdt._core import dtype as _dtype
from tdt._core.aliases import Device, Number
from tdt._core.dtype import dtype as Dtype
from tdt._core.methods import method
from tdt._core.mode import values_read
from tdt._core.tensor import Storage, Tensor, alias, wrap


class _FileMap(mmap.mmap):
    """A memory-mapped file. `filename`: the file if changes are written to it, otherwise None."""

    filename: str | None = None


def _map_file(filename: str | os.PathLike[str], shared: bool, nbytes: int) -> np.ndarray:
    """Map the first bytes of a file as an array; `shared`: writes change the file, which is created or extended."""
    name, mode = os.fspath(filename), "read-write" if shared else "read-only"
    try:
        handle = os.open(name, os.O_RDWR | os.O_CREAT if shared else os.O_RDONLY, 0o600)
    except OSError as error:
        raise RuntimeError(f"unable to open file <{name}> in {mode} mode: {error.strerror} ({error.errno})") from error
    try:
        size = os.fstat(handle).st_size
        if size < nbytes:
            if not shared:
                raise RuntimeError(f"file <{name}> size <{size}> is smaller than the required mapping size <{nbytes}>")
            os.ftruncate(handle, nbytes)
        if not nbytes:
            return np.empty(0, np.uint8)
        mapping = _FileMap(handle, nbytes, access=mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY)
    except (OSError, ValueError, OverflowError) as error:
        raise RuntimeError(f"unable to mmap {nbytes} bytes from file <{name}>: {error}") from error
    finally:
        os.close(handle)
    mapping.filename = name if shared else None
    return np.ndarray((nbytes,), np.uint8, mapping)


class UntypedStorage:
    """Memory as bytes: `UntypedStorage(8)` holds eight, `UntypedStorage([1, 2])` those values.

    What `tensor.untyped_storage()` gives shares the tensor's memory; two of the same memory are equal.

    >>> import tdt
    >>> tdt.zeros(2).untyped_storage().nbytes()
    8
    """

    __slots__ = ("_bytes", "_st")
    _bytes: Any
    _st: Storage | None

    def __init__(self, source: int | Sequence[int] = 0, *, device: Device = None):
        where = as_device(device)
        data = np.zeros(source, np.uint8) if isinstance(source, int) else np.array(source, np.uint8)
        self._bytes, self._st = _backend.to_device(data, where), None

    @classmethod
    def on(cls, data: np.ndarray, versions: Storage | None = None) -> UntypedStorage:
        """The storage of a flat uint8 array, sharing its memory; `versions`: the version counter of its tensors."""
        storage = cls.__new__(cls)
        storage._bytes, storage._st = data, versions
        return storage

    @classmethod
    def from_file(cls, filename: str | os.PathLike[str], shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """The first `nbytes` bytes of a file, mapped into memory: they are read on access.

        Args:
            shared: whether writes go to the file, which is created, or extended with zeros, if needed; else they do not.
        Raises:
            RuntimeError: the file cannot be opened or mapped, or is shorter than `nbytes` and not shared.

        >>> import tdt
        >>> tdt.UntypedStorage.from_file(tdt.__file__, nbytes=3).nbytes()
        3
        """
        return cls.on(_map_file(filename, bool(shared), nbytes))

    @property
    def filename(self) -> str | None:
        """The file that the memory is mapped from, if it is shared with it."""
        return getattr(_backend.owner(self._bytes).base, "filename", None)

    def shared(self) -> Storage:
        """The version counter that tensors on this memory share."""
        if self._st is None:
            self._st = Storage()
        return self._st

    def _written(self) -> UntypedStorage:
        self.shared().bump_version()
        return self

    def untyped(self) -> UntypedStorage:
        """The storage itself, as a typed one gives its bytes."""
        return self

    def nbytes(self) -> int:
        """How many bytes."""
        return self._bytes.size

    size = __len__ = nbytes

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes()

    def data_ptr(self) -> int:
        """Address of the first byte."""
        return _backend.byte_bounds(self._bytes)[0]

    @property
    def _cdata(self) -> int:
        return self.data_ptr()

    @property
    def device(self) -> device:
        """Where the memory lies."""
        return _backend.device_of(self._bytes)

    @property
    def is_cuda(self) -> bool:
        """Whether the memory is a GPU's."""
        return self.device.type == "cuda"

    def element_size(self) -> int:
        """1: the elements are bytes."""
        return 1

    def tolist(self) -> list[int]:
        """The bytes as Python numbers."""
        return self._bytes.tolist()

    def clone(self) -> UntypedStorage:
        """A storage with a copy of the bytes."""
        return type(self).on(_backend.copied(self._bytes))

    def copy_(self, source: UntypedStorage, non_blocking: bool = False) -> UntypedStorage:
        """Overwrite the bytes with those of another storage of the same size."""
        with _backend.on_gpu_of(self._bytes):
            self._bytes[...] = _backend.to_device(source._bytes, self.device)
        return self._written()

    def fill_(self, value: int) -> UntypedStorage:
        """Set every byte to `value`."""
        with _backend.on_gpu_of(self._bytes):
            self._bytes.fill(value)
        return self._written()

    def resize_(self, size: int) -> UntypedStorage:
        """Change the number of bytes in place.

        Raises:
            RuntimeError: when tensors use the storage: their memory would stay the old one.
        """
        if size != self.nbytes():
            if self._st is not None:
                raise RuntimeError(
                    f"resize_: tensors look into this storage of {self.nbytes()} bytes and would not follow it to {size}; "
                    "use resize_ of the tensor"
                )
            copied = min(size, self.nbytes())
            with _backend.on_gpu_of(self._bytes):
                resized = _backend.namespace(self._bytes).zeros(size, np.uint8)
                resized[:copied] = self._bytes[:copied]
            self._bytes = resized
        return self

    def cpu(self) -> UntypedStorage:
        """The storage in the main memory: itself if it is there."""
        return self.to(device="cpu")

    def cuda(self, device: Device = None, non_blocking: bool = False) -> UntypedStorage:
        """The storage on a GPU."""
        return self.to(device="cuda" if device is None else device)

    def to(self, *, device: Device, non_blocking: bool = False) -> UntypedStorage:
        """The storage on a device: itself if it is there."""
        moved = _backend.to_device(self._bytes, as_device(device))
        return self if moved is self._bytes else type(self).on(moved)

    share_memory_: Callable[[], UntypedStorage]  # `_ops/resize.py`

    def is_shared(self) -> bool:
        """Whether processes that are forked from this one see what is written (a GPU's always is)."""
        return self.is_cuda or isinstance(_backend.owner(self._bytes).base, mmap.mmap)

    def is_pinned(self, device: Device = None) -> bool:
        """Whether the memory is page-locked for copies to a GPU: False, as tdt copies through its own pinned memory."""
        return False

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> UntypedStorage: ...
    def __getitem__(self, index: int | slice) -> int | UntypedStorage:
        picked = self._bytes[index]
        return type(self).on(picked) if isinstance(index, slice) else int(picked)

    def __setitem__(self, index: int | slice, value: int) -> None:
        self._bytes[index] = value

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, UntypedStorage):
            return NotImplemented
        return self is other or (
            self.nbytes() > 0 and (self.data_ptr(), self.nbytes()) == (other.data_ptr(), other.nbytes())
        )

    def __hash__(self) -> int:
        return hash(self.data_ptr())

    def __repr__(self) -> str:
        rows = "".join(f" {value}\n" for value in self.tolist())
        return f"{rows}[tdt.storage.UntypedStorage(device={self.device}) of size {len(self)}]"


class TypedStorage:
    """Memory as elements of one type; created by `FloatStorage(3)`, `FloatStorage([1, 2])` and the like.

    >>> import tdt
    >>> tdt.FloatStorage([1, 2]).tolist()
    [1.0, 2.0]
    """

    __slots__ = ("_untyped_storage", "dtype")
    _type: Dtype | None = None

    def __init__(
        self,
        *args: int | Sequence[Number],
        wrap_storage: UntypedStorage | None = None,
        dtype: Dtype | None = None,
        device: Device = None,
    ):
        self.dtype = self._type or dtype or _dtype.get_default_dtype()
        if wrap_storage is None:
            source = args[0] if args else 0
            values = np.zeros(source, self.dtype.np) if isinstance(source, int) else np.array(source, self.dtype.np)
            wrap_storage = UntypedStorage.on(_backend.to_device(values.view(np.uint8), as_device(device)))
        self._untyped_storage = wrap_storage

    @classmethod
    def from_file(cls, filename: str | os.PathLike[str], shared: bool = False, size: int = 0) -> TypedStorage:
        """The first `size` elements of a file, mapped into memory as `UntypedStorage.from_file` does."""
        storage = cls()
        storage._untyped_storage = UntypedStorage.from_file(filename, shared, size * storage.dtype.itemsize)
        return storage

    @property
    def _elements(self) -> Any:
        memory = self._untyped_storage._bytes
        return memory[: memory.size // self.dtype.itemsize * self.dtype.itemsize].view(self.dtype.np)

    def untyped(self) -> UntypedStorage:
        """The same memory as bytes."""
        return self._untyped_storage

    def size(self) -> int:
        """How many elements."""
        return self._elements.size

    __len__ = _size = size

    def nbytes(self) -> int:
        """How many bytes."""
        return self._untyped_storage.nbytes()

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes()

    def data_ptr(self) -> int:
        """Address of the first element."""
        return self._untyped_storage.data_ptr()

    def element_size(self) -> int:
        """Bytes per element."""
        return self.dtype.itemsize

    @property
    def device(self) -> device:
        """Where the memory lies."""
        return self._untyped_storage.device

    @property
    def is_cuda(self) -> bool:
        """Whether the memory is a GPU's."""
        return self._untyped_storage.is_cuda

    def tolist(self) -> list[Number]:
        """The elements as Python numbers."""
        return wrap(self._elements).tolist()

    def pickle_storage_type(self) -> str:
        """The name of the class that has this type, such as 'FloatStorage'."""
        return f"{_dtype.SCALAR_NAMES[self.dtype]}Storage"

    def clone(self) -> TypedStorage:
        """A storage with a copy of the elements."""
        return TypedStorage(wrap_storage=self._untyped_storage.clone(), dtype=self.dtype)

    def copy_(self, source: TypedStorage, non_blocking: bool = False) -> TypedStorage:
        """Overwrite the elements with those of another storage, converted."""
        with _backend.on_gpu_of(self._elements):
            self._elements[...] = _backend.to_device(source._elements, self.device)
        return self

    def fill_(self, value: Number) -> TypedStorage:
        """Set every element to `value`."""
        with _backend.on_gpu_of(self._elements):
            self._elements.fill(value)
        return self

    def resize_(self, size: int) -> TypedStorage:
        """Change how many elements there are, under the rules of `UntypedStorage.resize_`."""
        self._untyped_storage.resize_(size * self.dtype.itemsize)
        return self

    def cpu(self) -> TypedStorage:
        """The storage in the main memory."""
        return TypedStorage(wrap_storage=self._untyped_storage.cpu(), dtype=self.dtype)

    def share_memory_(self) -> Self:
        """Move to memory that other processes share; tensors on this storage move along."""
        self._untyped_storage.share_memory_()
        return self

    def is_shared(self) -> bool:
        """Whether processes that are forked from this one see what is written."""
        return self._untyped_storage.is_shared()

    def __getitem__(self, index: int) -> Number:
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        return wrap(self._elements)[index].item()

    def __setitem__(self, index: int | slice, value: Number) -> None:
        self._elements[index] = value

    def __iter__(self) -> Iterator[Number]:
        return iter(self.tolist())

    def __repr__(self) -> str:
        rows = "".join(f" {value}\n" for value in self.tolist())
        return f"{rows}[tdt.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of size {len(self)}]"


def _storage_doc(name: str, kind: Dtype) -> str:
    return f"""Memory as elements of dtype {kind}: a `TypedStorage` of a given size or with given values.

    >>> import tdt
    >>> tdt.{name}Storage([0, 1]).nbytes()
    {2 * kind.itemsize}
    """


STORAGES: dict[Dtype, type[TypedStorage]] = {
    kind: type(
        f"{name}Storage",
        (TypedStorage,),
        {"__doc__": _storage_doc(name, kind), "__slots__": (), "__module__": "tdt", "_type": kind},
    )
    for kind, name in _dtype.SCALAR_NAMES.items()
    if not name.startswith(("UInt", "Float8"))
}
globals().update({kind.__name__: kind for kind in STORAGES.values()})
__all__ = ["TypedStorage", "UntypedStorage", "is_storage"]
__all__ += [kind.__name__ for kind in STORAGES.values()]


def tensor_on(source: UntypedStorage | TypedStorage, dtype: Dtype | None) -> Tensor:
    """A 1-d tensor on all the memory of a storage, whose bytes are int64 by default; RuntimeError for another element type."""
    memory = source.untyped()
    kind = source.dtype if isinstance(source, TypedStorage) else (dtype or _dtype.int64)
    if dtype not in (None, kind):
        names = _dtype.SCALAR_NAMES
        raise RuntimeError(f"Expected a Storage of type {names[dtype]} or an UntypedStorage, but got {names[kind]}")
    whole = memory._bytes[: memory.nbytes() // kind.itemsize * kind.itemsize]
    return alias(whole.view(kind.np), None, memory.shared())


def is_storage(obj: Any) -> bool:
    """Whether `obj` is a storage.

    >>> import tdt
    >>> tdt.is_storage(tdt.zeros(1).untyped_storage())
    True
    """
    return isinstance(obj, (UntypedStorage, TypedStorage))


def own_bytes(t: Tensor) -> Any:
    """The bytes of a tensor's storage to copy or save; excludes the rest of a larger array that it is part of."""
    return part_of(t._a, t._st.whole)


def part_of(array: Any, part: Any) -> Any:
    """The bytes of the memory that `array` is a view of, or only those of the enclosing array `part`."""
    whole = _backend.raw(array)
    if part is None:
        return whole
    start, (low, high), (first, last) = (_backend.byte_bounds(whole)[0], *map(_backend.byte_bounds, (part, array)))
    return whole[low - start : high - start] if low <= first and last <= high else whole


@method()
def untyped_storage(self: Tensor) -> UntypedStorage:
    """The memory that the tensor and its views share, as bytes.

    Shape: self (*); result a storage.

    >>> import tdt
    >>> tdt.zeros(2).untyped_storage().nbytes()
    8
    """
    values_read("Tensor.untyped_storage()")
    return UntypedStorage.on(_backend.raw(self._a), self._st)


@method()
def storage(self: Tensor) -> TypedStorage:
    """The memory that the tensor and its views share, as elements; deprecated in favour of `untyped_storage`.

    Shape: self (*); result a storage.

    >>> import tdt
    >>> len(tdt.zeros(2).untyped_storage())
    8
    """
    warnings.warn(
        "TypedStorage is deprecated. To access UntypedStorage directly, use tensor.untyped_storage() instead of "
        "tensor.storage()",
        UserWarning,
        stacklevel=2,
    )
    return TypedStorage(wrap_storage=untyped_storage(self), dtype=self.dtype)


@method()
def storage_type(self: Tensor) -> type[TypedStorage]:
    """The class of the tensor's typed storage, such as FloatStorage.

    Shape: self (*); result a class.

    >>> import tdt
    >>> tdt.zeros(2).storage_type().__name__
    'FloatStorage'
    """
    return STORAGES[self.dtype]
