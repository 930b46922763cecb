"""PyTorch's files: the archive of today, and the row of pickles of before 1.6."""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
import zlib
from collections.abc import Callable
from typing import IO, Any

import numpy as np

from tdt import _backend
from tdt._storage import TypedStorage, UntypedStorage

MAGIC = 0x1950A86A20F9469CFC6C  # opens a file of before 1.6
# What zipfile raises for an archive that is not whole.
DAMAGE = (KeyError, zipfile.BadZipFile, OSError, EOFError, ValueError, NotImplementedError, struct.error, zlib.error)
Unpickle = Callable[[IO[bytes], Callable[[Any], Any]], Any]


class Storages:
    """The storages that a file's pickle names, each made once.

    fetch: (key, bytes) → flat uint8 array on the CPU. move: (storage, where the file says it was) → storage.
    """

    def __init__(self, fetch: Callable[[str, int], np.ndarray], move: Callable[[UntypedStorage, str], UntypedStorage]):
        self.fetch, self.move = fetch, move
        self.made: dict[str, UntypedStorage] = {}

    def __call__(self, named: Any) -> Any:
        """The storage of ('storage', class, key, location, elements)."""
        if not isinstance(named, tuple) or len(named) < 5 or named[0] != "storage":
            raise pickle.UnpicklingError(f"the pickle names {named!r}, which is no storage")
        _, kind, key, location, count = named[:5]
        if not (isinstance(kind, type) and issubclass(kind, TypedStorage | UntypedStorage) and isinstance(count, int)):
            raise pickle.UnpicklingError(f"the pickle names {kind!r}, which is no class of storages")
        element = getattr(kind, "_type", None)
        size = count * (element.itemsize if element else 1)
        if str(key) not in self.made:
            data = self.fetch(str(key), size)
            self.made[str(key)] = self.move(UntypedStorage.on(data), location)
        memory = self.made[str(key)]
        if memory.nbytes() < size:
            raise RuntimeError(
                f"storage {key} has {memory.nbytes()} bytes, but {size} are asked for: the file is damaged"
            )
        if len(named) > 5 and named[5] is not None:  # a view of a storage, as files of before 0.4 have them
            raise RuntimeError("the file holds views of storages, as PyTorch before 0.4 wrote them; save it anew")
        return memory if element is None else TypedStorage(wrap_storage=memory, dtype=element)


def read_archive(file: IO[bytes], unpickle: Unpickle, move: Callable, path: str | None) -> Any:
    """The object in a zip archive. path: of the file whose storages are to be mapped, not read."""
    try:
        archive = zipfile.ZipFile(file)
    except DAMAGE as error:
        raise RuntimeError(
            f"PytorchStreamReader failed reading zip archive: {error}; the file is cut short or damaged"
        ) from error
    with archive:
        names = archive.namelist()
        root = next((name.removesuffix("data.pkl") for name in names if name.endswith("/data.pkl")), None)
        if root is None:
            raise RuntimeError(
                "PytorchStreamReader failed locating file data.pkl: file not found; it is a zip of something else"
            )
        if root + "constants.pkl" in names:
            raise RuntimeError(
                "the file is a TorchScript program (torch.jit.save); tdt.load reads what torch.save wrote"
            )
        swapped = root + "byteorder" in names and _entry(archive, root + "byteorder") != b"little"
        if swapped:
            raise ValueError("the file was written on a big-endian machine, which tdt does not read")

        def fetch(key: str, size: int) -> np.ndarray:
            return _storage(archive, f"{root}data/{key}", path)

        text = io.BytesIO(_entry(archive, root + "data.pkl"))
        return unpickle(text, Storages(fetch, move))


def _entry(archive: zipfile.ZipFile, name: str) -> bytes:
    try:
        return archive.read(name)
    except DAMAGE as error:
        raise RuntimeError(f"PytorchStreamReader failed reading file {name}: {error}") from error


def _storage(archive: zipfile.ZipFile, name: str, path: str | None) -> np.ndarray:
    """The bytes of an entry, as an array of their own or as a private map of the file."""
    try:
        info = archive.getinfo(name)
        if path is not None and info.compress_type == zipfile.ZIP_STORED and info.file_size:
            with open(path, "rb") as file:
                file.seek(info.header_offset + 26)
                begin = info.header_offset + 30 + sum(struct.unpack("<HH", file.read(4)))
            return np.memmap(path, np.uint8, "c", begin, (info.file_size,)).view(np.ndarray)
        data = np.empty(info.file_size, np.uint8)
        with archive.open(info) as entry:
            rest = memoryview(data.data)
            while rest and (n := entry.readinto(rest)):  # type: ignore[attr-defined]
                rest = rest[n:]
            if rest or entry.read(1):  # past the end, the checksum is compared
                raise EOFError(f"{len(rest)} bytes are missing")
    except DAMAGE as error:
        raise RuntimeError(f"PytorchStreamReader failed reading file {name}: {error}") from error
    return data


def read_legacy(file: IO[bytes], unpickle: Unpickle, move: Callable) -> Any:
    """The object in a row of pickles: a number, a protocol, a machine's sizes, the object, its storages' keys; then bytes."""

    def nothing(named: Any) -> Any:
        raise pickle.UnpicklingError(f"a storage {named!r} where none belongs")

    if unpickle(file, nothing) != MAGIC or unpickle(file, nothing) != 1001:
        raise RuntimeError(
            "Invalid magic number; corrupt file? Nor is it a zip archive: torch.save or tdt.save write one"
        )
    machine = unpickle(file, nothing)
    if not isinstance(machine, dict) or not machine.get("little_endian", True):
        raise ValueError("the file was written on a big-endian machine, which tdt does not read")
    kept: dict[str, np.ndarray] = {}
    elements: dict[str, int] = {}

    def fetch(key: str, size: int) -> np.ndarray:
        return kept.setdefault(key, np.zeros(size, np.uint8))

    moves: list[tuple[UntypedStorage, UntypedStorage]] = []

    def later(memory: UntypedStorage, location: str) -> UntypedStorage:
        moved = move(memory, location)
        moves.append((moved, memory))
        return moved

    storages = Storages(fetch, later)

    def noted(named: Any) -> Any:
        made = storages(named)
        elements[str(named[2])] = named[4]
        return made

    result = unpickle(file, noted)
    keys = unpickle(file, nothing)
    if not isinstance(keys, list) or sorted(map(str, keys)) != sorted(kept):
        raise RuntimeError("the storages in the file are not those that its tensors name: the file is damaged")
    for key in keys:
        data, count = kept[str(key)], int.from_bytes(file.read(8), "little")
        raw = file.read(data.size)
        if count != elements[str(key)] or len(raw) != data.size:
            raise RuntimeError(
                f"storage {key} should have {elements[str(key)]} elements: the file is cut short or damaged"
            )
        data[:] = np.frombuffer(raw, np.uint8)
    for moved, memory in moves:  # the bytes came after the tensors
        if moved is not memory:
            moved._bytes[...] = _backend.to_device(memory._bytes, moved.device)
    return result
