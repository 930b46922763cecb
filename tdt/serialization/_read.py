"""Reads PyTorch's files: the zip format, and the sequence of pickles of versions before 1.6.

Sizes that a file claims are compared with the file's size before memory is allocated.
"""

from __future__ import annotations

import io
import pickle
import re
import struct
import zipfile
import zlib
from collections.abc import Callable
from typing import IO, Any

import numpy as np
from isal import isal_zlib

from tdt import _backend
from tdt._core.storage import STORAGES, TypedStorage, UntypedStorage
from tdt.serialization._rebuild import str_of

MAGIC = 0x1950A86A20F9469CFC6C  # at the start of a file of versions before 1.6
# Exceptions of zipfile for damaged archives.
DAMAGE = (KeyError, zipfile.BadZipFile, OSError, EOFError, ValueError, NotImplementedError, OverflowError, struct.error,
          zlib.error)  # fmt: skip
EXPANSION, ALLOWANCE = 16, 16 << 20  # largest decompressed size: EXPANSION bytes per byte of the file, plus ALLOWANCE
CHUNK = 1 << 18  # bytes read at a time: they are still in the cache when their checksum is computed
Unpickle = Callable[[IO[bytes], Callable[[Any], Any], int | None], Any]


def size_of(file: IO[bytes]) -> int:
    """The number of bytes from the current position to the end of a file."""
    here = file.tell()
    end = file.seek(0, 2)
    file.seek(here)
    return end - here


class Storages:
    """Resolves persistent ids to storages; creates each storage once.

    fetch: (key, number of bytes) → flat uint8 array of at least that size on the CPU. move: (storage, device name in the
    file) → storage.
    """

    def __init__(
        self, fetch: Callable[[str, int], np.ndarray], move: Callable[[UntypedStorage, str], UntypedStorage]
    ) -> None:
        self.fetch, self.move = fetch, move
        self.loaded: dict[str, UntypedStorage] = {}

    def __call__(self, pid: Any) -> Any:
        """The storage of the persistent id ('storage', class, key, location, elements)."""
        if type(pid) is not tuple or len(pid) < 5 or type(pid[0]) is not str or pid[0] != "storage":
            raise pickle.UnpicklingError("the pickle contains a persistent id that is not a storage")
        _, kind, key, location, count = pid[:5]
        if kind is not UntypedStorage and not any(kind is cls for cls in STORAGES.values()):
            raise pickle.UnpicklingError(f"the pickle refers to {str_of(kind)}, which is not a storage class")
        if type(key) is not str or not re.fullmatch(r"\w{1,64}", key, re.ASCII):
            raise pickle.UnpicklingError(f"{str_of(key)} is not a valid storage key: expected letters and digits")
        if type(location) is not str or len(location) > 32 or type(count) is not int or not 0 <= count < 2**63:
            raise pickle.UnpicklingError(f"storage {key} has an invalid device name or number of elements")
        if len(pid) > 5 and pid[5] is not None:  # a view of a storage, in files of versions before 0.4
            raise RuntimeError(
                "the file contains views of storages (PyTorch before 0.4); save it again with a newer version"
            )
        element = getattr(kind, "_type", None)
        size = count * (element.itemsize if element else 1)
        if key not in self.loaded:
            self.loaded[key] = self.move(UntypedStorage.on(self.fetch(key, size)), location)
        memory = self.loaded[key]
        if memory.nbytes() < size:
            raise _too_small(key, memory.nbytes(), size)
        return memory if element is None else TypedStorage(wrap_storage=memory, dtype=element)


def _too_small(key: str, size: int, needed: int) -> RuntimeError:
    return RuntimeError(f"storage {key} has {size} bytes, but {needed} are needed: the file is damaged")


class Archive:
    """A zip archive written by `save`: its entries by their names in the folder that contains `data.pkl`.

    Raises:
        RuntimeError: when it is truncated, damaged or of another format, or its decompressed size is out of proportion.
        ValueError: when its numbers are big-endian.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self.size = size_of(file)
        self.room = {zipfile.ZIP_STORED: self.size, zipfile.ZIP_DEFLATED: EXPANSION * self.size + ALLOWANCE}
        try:
            self.zip = zipfile.ZipFile(file)
        except DAMAGE as error:
            raise RuntimeError(
                f"PytorchStreamReader failed reading zip archive: {error}; the file is truncated or damaged"
            ) from error
        names = self.zip.namelist()
        if len(set(names)) != len(names):
            raise RuntimeError("PytorchStreamReader failed reading zip archive: two entries have the same name")
        roots = [name.removesuffix("data.pkl") for name in names if re.fullmatch("[^/]+/data\\.pkl", name)]
        if len(roots) != 1:
            raise RuntimeError(
                "PytorchStreamReader failed locating file data.pkl: "
                + (f"{len(roots)} folders contain one" if roots else "file not found; the archive has another format")
            )
        self.root = roots[0]
        if self.root + "constants.pkl" in names:
            raise RuntimeError(
                "the file is a TorchScript program (torch.jit.save); tdt.load reads files written by torch.save"
            )
        if self.root + "byteorder" in names and (order := self.read("byteorder")) != b"little":
            if order != b"big":
                raise ValueError("Unknown endianness type: the archive's byteorder is neither little nor big")
            raise ValueError("the file was written on a big-endian machine, which tdt does not read")

    def entry(self, name: str, least: int = 0) -> zipfile.ZipInfo:
        """An entry whose claimed size is plausible and at least `least`."""
        try:
            info = self.zip.getinfo(self.root + name)
        except KeyError as error:
            raise _failed(name, error) from error
        if info.compress_type not in self.room or info.flag_bits & 1:
            raise _failed(name, "it is encrypted, or compressed with another method than deflate")
        stored = info.compress_type == zipfile.ZIP_STORED
        if info.compress_size > self.size or (stored and info.compress_size != info.file_size):
            raise _failed(name, f"it claims {info.file_size} bytes in a file of {self.size}")
        if info.file_size < least:
            raise _too_small(name.rpartition("/")[2], info.file_size, least)
        self.room[info.compress_type] -= info.file_size
        if self.room[info.compress_type] < 0:
            raise _failed(
                name, f"the archive's entries decompress to far more than its {self.size} bytes; if you trust the file, "
                "unzip it and zip it again without compression (zip -0 -r)"
            )  # fmt: skip
        return info

    def read(self, name: str) -> bytes:
        """The bytes of an entry."""
        return self.array(self.entry(name)).tobytes()

    def array(self, info: zipfile.ZipInfo, path: str | None = None) -> np.ndarray:
        """The bytes of an entry, as a new array or as a private memory map of the file at `path`."""
        try:
            if info.compress_type != zipfile.ZIP_STORED:
                with self.zip.open(info) as entry:
                    return _whole(entry, info)
            file: Any = self.zip.fp
            file.seek(info.header_offset + 26)
            begin = info.header_offset + 30 + sum(struct.unpack("<HH", file.read(4)))
            if path is not None and info.file_size:
                return np.memmap(path, np.uint8, "c", begin, (info.file_size,)).view(np.ndarray)
            file.seek(begin)
            return _whole(file, info)
        except DAMAGE as error:
            raise _failed(info.filename, error) from error


def _whole(file: IO[bytes], info: zipfile.ZipInfo) -> np.ndarray:
    """The bytes of an entry from an open file, verified by its checksum while they are in the cache."""
    data = np.empty(info.file_size, np.uint8)
    rest, checksum = memoryview(data.data), 0
    while rest:
        if hasattr(file, "readinto"):
            part = rest[: file.readinto(rest[:CHUNK])]
        else:
            raw = file.read(min(len(rest), CHUNK))
            part = rest[: len(raw)]
            part[:] = raw
        if not part:
            raise EOFError(f"{len(rest)} bytes are missing")
        checksum, rest = isal_zlib.crc32(part, checksum), rest[len(part) :]
    if checksum != info.CRC:
        raise zipfile.BadZipFile("Bad CRC-32")
    return data


def _failed(name: str, why: object) -> RuntimeError:
    return RuntimeError(f"PytorchStreamReader failed reading file {str_of(name)}: {str(why)[:500]}")


def read_archive(file: IO[bytes], unpickle: Unpickle, move: Callable, path: str | None) -> Any:
    """Load the object in a zip archive. path: the file to map storages from; None: read them."""
    archive = Archive(file)
    with archive.zip:

        def fetch(key: str, size: int) -> np.ndarray:
            return archive.array(archive.entry(f"data/{key}", size), path)

        text = archive.entry("data.pkl")
        return unpickle(io.BytesIO(archive.array(text).tobytes()), Storages(fetch, move), text.compress_size)


def read_legacy(file: IO[bytes], unpickle: Unpickle, move: Callable) -> Any:
    """Load the object in a sequence of pickles: magic number, protocol, system info, object, storage keys; then the bytes."""

    def no_storage(pid: Any) -> Any:
        raise pickle.UnpicklingError("the file refers to a storage outside its object")

    magic = unpickle(file, no_storage, None)
    if type(magic) is not int or magic != MAGIC or unpickle(file, no_storage, None) != 1001:
        raise RuntimeError(
            "Invalid magic number; corrupt file? It is not a zip archive either, the format of torch.save and tdt.save"
        )
    machine = unpickle(file, no_storage, None)
    if type(machine) is not dict or machine.get("little_endian", True) is not True:
        raise ValueError("the file was written on a big-endian machine, which tdt does not read")
    arrays: dict[str, np.ndarray] = {}
    elements: dict[str, int] = {}

    room = size_of(file)

    def fetch(key: str, size: int) -> np.ndarray:
        nonlocal room
        room -= size
        if room < 0:
            raise RuntimeError(
                f"storage {key} claims {size} bytes, more than are left in the file: it is truncated or damaged"
            )
        return arrays.setdefault(key, np.zeros(size, np.uint8))

    moves: list[tuple[UntypedStorage, UntypedStorage]] = []

    def record_move(memory: UntypedStorage, location: str) -> UntypedStorage:
        moved = move(memory, location)
        moves.append((moved, memory))
        return moved

    storages = Storages(fetch, record_move)

    def storage_of(pid: Any) -> Any:
        storage = storages(pid)
        elements[pid[2]] = pid[4]
        return storage

    result = unpickle(file, storage_of, None)
    keys = unpickle(file, no_storage, None)
    if type(keys) is not list or not all(type(key) is str for key in keys) or sorted(keys) != sorted(arrays):
        raise RuntimeError("the storages in the file do not match those of its tensors: the file is damaged")
    for key in keys:
        data, count = arrays[key], file.read(8)
        raw = file.read(data.size)
        if count != elements[key].to_bytes(8, "little") or len(raw) != data.size:
            raise RuntimeError(f"storage {key} should have {elements[key]} elements: the file is truncated or damaged")
        data[:] = np.frombuffer(raw, np.uint8)
    for moved, memory in moves:  # the bytes follow after the tensors
        if moved is not memory:
            moved._bytes[...] = _backend.to_device(memory._bytes, moved.device)
    return result
