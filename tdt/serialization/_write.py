"""Writes PyTorch's `.pt` format: a zip archive of one pickle and its storages, each aligned to 64 bytes."""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
from collections import OrderedDict
from types import FunctionType
from typing import IO, Any

from isal import isal_zlib

from tdt import _backend
from tdt._backend.device import device
from tdt._core.layout import layout
from tdt._core.size import Size
from tdt._core.storage import STORAGES, TypedStorage, UntypedStorage
from tdt._core.tensor import Tensor
from tdt.serialization import _names

ALIGNMENT = 64


PLAIN = frozenset({type(None), bool, int, float, str, bytes, tuple, list, dict})
_SMALL = [pickle.BININT1 + bytes([n]) for n in range(256)]
_SHORT_TUPLES = b"", pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3
_BINPUT, _LONG_BINPUT = struct.Struct("<cB").pack, struct.Struct("<cI").pack
_Pickler: Any = pickle._Pickler  # the pure-Python pickler: its methods that write names can be overridden


class Pickler(_Pickler):
    """Writes PyTorch's names for tdt's classes and functions, and persistent ids for storages, collected in `storages`."""

    def __init__(self, file: IO[bytes], protocol: int) -> None:
        super().__init__(file, protocol)
        self.storages: list[UntypedStorage] = []
        self.kinds: dict[tuple[int, int], tuple[str, Any]] = {}  # (address, bytes) → (key, element type)

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        """Write `obj`; plain values without the questions that only other objects need."""
        kind = type(obj)
        if kind is Tensor and self.proto == 2 and not obj.__dict__ and id(obj) not in self.memo:
            function, args = _names.reduce_tensor(obj)
            if function is _names._rebuild_tensor_v2:
                self._save_tensor(obj, args)
                return
        if kind not in PLAIN:
            super().save(obj, save_persistent_id)
            return
        self.framer.commit_frame()
        known = self.memo.get(id(obj))
        if known is None:
            self.dispatch[kind](self, obj)
        else:
            self.write(self.get(known[0]))

    def _save_tensor(self, tensor: Tensor, args: tuple) -> None:
        """Write what `save_reduce` writes for `_rebuild_tensor_v2(*args)`, without its calls for each number and tuple."""
        storage, offset, shape, stride, requires_grad, hooks = args
        write, identifier = self._file_write, self.persistent_id(storage)
        assert identifier is not None
        self._save_known(_names._rebuild_tensor_v2)
        write(pickle.MARK + pickle.MARK)
        for part in identifier[:-1]:
            self._save_known(part)
        write(_number(identifier[-1]) + pickle.TUPLE + self._put(identifier) + pickle.BINPERSID + _number(offset))
        for sizes in (shape, stride):
            count = len(sizes)
            numbers = b"".join(map(_number, sizes))
            if not count:
                write(pickle.EMPTY_TUPLE)
            elif count <= 3:
                write(numbers + _SHORT_TUPLES[count] + self._put(sizes))
            else:
                write(pickle.MARK + numbers + pickle.TUPLE + self._put(sizes))
        write(pickle.NEWTRUE if requires_grad else pickle.NEWFALSE)
        self._save_known(OrderedDict)
        write(pickle.EMPTY_TUPLE + pickle.REDUCE + self._put(hooks))
        write(pickle.TUPLE + self._put(args) + pickle.REDUCE + self._put(tensor))

    def _save_known(self, obj: Any) -> None:
        """`save` for what has usually been written before."""
        known = self.memo.get(id(obj))
        if known is None:
            self.save(obj)
        else:
            self._file_write(self.get(known[0]))

    def _put(self, obj: Any) -> bytes:
        """The opcode of `memoize`, which also keeps `obj`."""
        memo = self.memo
        place = len(memo)
        memo[id(obj)] = place, obj
        return _BINPUT(pickle.BINPUT, place) if place < 256 else _LONG_BINPUT(pickle.LONG_BINPUT, place)

    def persistent_id(self, obj: Any) -> tuple | None:
        """PyTorch's persistent id of a storage; None for any other object."""
        if isinstance(obj, TypedStorage):
            memory, kind, count = obj.untyped(), obj.dtype, len(obj)
        elif isinstance(obj, UntypedStorage):
            memory, kind, count = obj, None, len(obj)
        else:
            return None
        place = (memory.data_ptr(), memory.nbytes()) if memory.nbytes() else (-len(self.storages) - 1, 0)
        key, first = self.kinds.setdefault(place, (str(len(self.storages)), kind))
        if first is not kind and None not in (first, kind):
            raise RuntimeError(
                "Cannot save multiple tensors or storages that view the same data as different types: the data is viewed as "
                f"{first} and as {kind}; clone() one of them"
            )
        if int(key) == len(self.storages):
            self.storages.append(memory)
        return "storage", UntypedStorage if kind is None else STORAGES[kind], key, str(memory.device), count

    def reducer_override(self, obj: Any) -> Any:
        """How instances of classes that PyTorch has too are reduced to a function and its arguments."""
        if isinstance(obj, Tensor):
            return _names.reduce_tensor(obj)
        if isinstance(obj, Size):
            return Size, (tuple(obj),)
        if isinstance(obj, device):
            return device, (obj.type,) if obj.index is None else (obj.type, obj.index)
        if isinstance(obj, layout):
            return _names._get_layout, (f"torch.{obj.name}",)
        return NotImplemented

    def save_global(self, obj: Any, name: str | None = None) -> None:
        """Write the name of a function, class or constant: PyTorch's name if PyTorch has it."""
        known = _names.GLOBAL_NAMES.get(id(obj))
        if obj is _names.parameter():
            known = "torch.nn.parameter.Parameter"
        if known is None:
            super().save_global(obj, name)
            return
        module, _, word = known.rpartition(".")
        self.write(pickle.GLOBAL + f"{module}\n{word}\n".encode())
        self.memoize(obj)

    def save_type(self, obj: Any) -> None:
        """Write a class by its name; the types of None, NotImplemented and Ellipsis as pickle writes them."""
        if obj in (type(None), type(NotImplemented), type(...)):
            super().save_type(obj)
        else:
            self.save_global(obj)

    dispatch = {**_Pickler.dispatch, FunctionType: save_global, type: save_type}


def _number(n: int) -> bytes:
    """The opcode of an integer that is not negative."""
    return _SMALL[n] if n < 256 else pickle.dumps(n, 2)[2:-1]


def write(obj: Any, file: IO[bytes], root: str, protocol: int) -> None:
    """Write `obj` as a zip archive whose entries are in the folder `root`."""
    text = io.BytesIO()
    pickler = Pickler(text, protocol)
    pickler.dump(obj)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        start = archive.start_dir
        _add(archive, f"{root}/data.pkl", text.getvalue(), start)
        _add(archive, f"{root}/.format_version", b"1", start)
        _add(archive, f"{root}/.storage_alignment", str(ALIGNMENT).encode(), start)
        _add(archive, f"{root}/byteorder", b"little", start)
        for key, memory in enumerate(pickler.storages):
            _add(archive, f"{root}/data/{key}", memoryview(_backend.to_device(memory._bytes, _backend.CPU)), start)
        _add(archive, f"{root}/version", b"3\n", start)


def _add(archive: zipfile.ZipFile, name: str, data: bytes | memoryview, start: int) -> None:
    """Add one entry with aligned data; the extra field of its header is the padding.

    `ZipFile.open` would pass over the data in small pieces and seek back to write their checksum.
    """
    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    info.file_size = info.compress_size = len(data)
    info.CRC = isal_zlib.crc32(data)
    info.external_attr = 0o600 << 16
    info.header_offset = archive.start_dir
    large = 20 if info.file_size > zipfile.ZIP64_LIMIT else 0  # the size of the ZIP64 field
    begin = info.header_offset - start + zipfile.sizeFileHeader + len(name.encode()) + 4 + large  # type: ignore[attr-defined]
    padding = -begin % ALIGNMENT
    info.extra = struct.pack("<2sH", b"FB", padding) + b"Z" * padding
    header = info.FileHeader()
    for part in (header, data):
        archive.fp.write(part)  # type: ignore[union-attr]
    archive.start_dir += len(header) + len(data)
    archive.filelist.append(info)
    archive.NameToInfo[name] = info
