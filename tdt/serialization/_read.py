"""PyTorch's files: the archive of today, and the row of pickles of before 1.6.

Whatever a file claims about sizes is compared with what it holds before memory is taken for it.
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

from tdt import _backend
from tdt._core.storage import STORAGES, TypedStorage, UntypedStorage
from tdt.serialization._rebuild import str_of

MAGIC = 0x1950A86A20F9469CFC6C  # opens a file of before 1.6
# What zipfile raises for an archive that is not whole.
DAMAGE = (KeyError, zipfile.BadZipFile, OSError, EOFError, ValueError, NotImplementedError, OverflowError, struct.error,
          zlib.error)  # fmt: skip
UNFOLDED, LEEWAY = 16, 16 << 20  # bytes that compressed entries may unfold to: per byte of the file, and in any case
CHUNK = 1 << 24
Unpickle = Callable[[IO[bytes], Callable[[Any], Any], int | None], Any]


def size_of(file: IO[bytes]) -> int:
    """How many bytes are left in a file."""
    here = file.tell()
    end = file.seek(0, 2)
    file.seek(here)
    return end - here


class Storages:
    """The storages that a file's pickle names, each made once.

    fetch: (key, bytes) → flat uint8 array of at least as many on the CPU. move: (storage, where the file says it was) →
    storage.
    """

    def __init__(self, fetch: Callable[[str, int], np.ndarray], move: Callable[[UntypedStorage, str], UntypedStorage]):
        self.fetch, self.move = fetch, move
        self.made: dict[str, UntypedStorage] = {}

    def __call__(self, named: Any) -> Any:
        """The storage of ('storage', class, key, location, elements)."""
        if type(named) is not tuple or len(named) < 5 or type(named[0]) is not str or named[0] != "storage":
            raise pickle.UnpicklingError("the pickle names something by a persistent id that is no storage")
        _, kind, key, location, count = named[:5]
        if kind is not UntypedStorage and not any(kind is known for known in STORAGES.values()):
            raise pickle.UnpicklingError(f"the pickle names {str_of(kind)}, which is no class of storages")
        if type(key) is not str or not re.fullmatch(r"\w{1,64}", key, re.ASCII):
            raise pickle.UnpicklingError(f"{str_of(key)} is no key of a storage: expected letters and digits")
        if type(location) is not str or len(location) > 32 or type(count) is not int or not 0 <= count < 2**63:
            raise pickle.UnpicklingError(f"storage {key} has no valid place or number of elements")
        if len(named) > 5 and named[5] is not None:  # a view of a storage, as files of before 0.4 have them
            raise RuntimeError("the file holds views of storages, as PyTorch before 0.4 wrote them; save it anew")
        element = getattr(kind, "_type", None)
        size = count * (element.itemsize if element else 1)
        if key not in self.made:
            self.made[key] = self.move(UntypedStorage.on(self.fetch(key, size)), location)
        memory = self.made[key]
        if memory.nbytes() < size:
            raise _too_small(key, memory.nbytes(), size)
        return memory if element is None else TypedStorage(wrap_storage=memory, dtype=element)


def _too_small(key: str, held: int, asked: int) -> RuntimeError:
    return RuntimeError(f"storage {key} has {held} bytes, but {asked} are asked for: the file is damaged")


class Archive:
    """A zip archive that `save` wrote: its entries by their names below the folder that holds `data.pkl`.

    Raises:
        RuntimeError: it is cut short, damaged or of another kind, or an entry would unfold to far more than the file.
        ValueError: its numbers are big-endian.
    """

    def __init__(self, file: IO[bytes]):
        self.size = size_of(file)
        self.room = {zipfile.ZIP_STORED: self.size, zipfile.ZIP_DEFLATED: UNFOLDED * self.size + LEEWAY}
        try:
            self.zip = zipfile.ZipFile(file)
        except DAMAGE as error:
            raise RuntimeError(
                f"PytorchStreamReader failed reading zip archive: {error}; the file is cut short or damaged"
            ) from error
        names = self.zip.namelist()
        if len(set(names)) != len(names):
            raise RuntimeError("PytorchStreamReader failed reading zip archive: two entries have the same name")
        roots = [name.removesuffix("data.pkl") for name in names if re.fullmatch("[^/]+/data\\.pkl", name)]
        if len(roots) != 1:
            raise RuntimeError(
                "PytorchStreamReader failed locating file data.pkl: "
                + (f"{len(roots)} folders have one" if roots else "file not found; it is a zip of something else")
            )
        self.root = roots[0]
        if self.root + "constants.pkl" in names:
            raise RuntimeError(
                "the file is a TorchScript program (torch.jit.save); tdt.load reads what torch.save wrote"
            )
        if self.root + "byteorder" in names and (order := self.read("byteorder")) != b"little":
            if order != b"big":
                raise ValueError("Unknown endianness type: the archive's byteorder is neither little nor big")
            raise ValueError("the file was written on a big-endian machine, which tdt does not read")

    def entry(self, name: str, least: int = 0) -> zipfile.ZipInfo:
        """An entry whose size can be believed and is at least `least`."""
        try:
            info = self.zip.getinfo(self.root + name)
        except KeyError as error:
            raise _failed(name, error) from error
        if info.compress_type not in self.room or info.flag_bits & 1:
            raise _failed(name, "it is encrypted, or compressed in another way than deflate")
        stored = info.compress_type == zipfile.ZIP_STORED
        if info.compress_size > self.size or (stored and info.compress_size != info.file_size):
            raise _failed(name, f"it claims {info.file_size} bytes in a file of {self.size}")
        if info.file_size < least:
            raise _too_small(name.rpartition("/")[2], info.file_size, least)
        self.room[info.compress_type] -= info.file_size
        if self.room[info.compress_type] < 0:
            raise _failed(
                name, f"the archive's entries would unfold to far more than its {self.size} bytes; if you trust the file, "
                "unzip it and zip it again without compression (zip -0 -r)"
            )  # fmt: skip
        return info

    def read(self, name: str) -> bytes:
        """All bytes of an entry."""
        return self.array(self.entry(name)).tobytes()

    def array(self, info: zipfile.ZipInfo, path: str | None = None) -> np.ndarray:
        """The bytes of an entry, as an array of their own or as a private map of the file at `path`."""
        try:
            if path is not None and info.compress_type == zipfile.ZIP_STORED and info.file_size:
                with open(path, "rb") as file:
                    file.seek(info.header_offset + 26)
                    begin = info.header_offset + 30 + sum(struct.unpack("<HH", file.read(4)))
                return np.memmap(path, np.uint8, "c", begin, (info.file_size,)).view(np.ndarray)
            data = np.empty(info.file_size, np.uint8)
            with self.zip.open(info) as entry:
                rest = memoryview(data.data)
                while rest and (n := entry.readinto(rest[:CHUNK])):  # type: ignore[attr-defined]
                    rest = rest[n:]
                if rest or entry.read(1):  # past the end, the checksum is compared
                    raise EOFError(f"{len(rest)} bytes are missing")
        except DAMAGE as error:
            raise _failed(info.filename, error) from error
        return data


def _failed(name: str, why: object) -> RuntimeError:
    return RuntimeError(f"PytorchStreamReader failed reading file {str_of(name)}: {str(why)[:500]}")


def read_archive(file: IO[bytes], unpickle: Unpickle, move: Callable, path: str | None) -> Any:
    """The object in a zip archive. path: of the file whose storages are to be mapped, not read."""
    archive = Archive(file)
    with archive.zip:

        def fetch(key: str, size: int) -> np.ndarray:
            return archive.array(archive.entry(f"data/{key}", size), path)

        text = archive.entry("data.pkl")
        return unpickle(io.BytesIO(archive.array(text).tobytes()), Storages(fetch, move), text.compress_size)


def read_legacy(file: IO[bytes], unpickle: Unpickle, move: Callable) -> Any:
    """The object in a row of pickles: a number, a protocol, a machine's sizes, the object, its storages' keys; then bytes."""

    def nothing(named: Any) -> Any:
        raise pickle.UnpicklingError("the file names a storage where none belongs")

    magic = unpickle(file, nothing, None)
    if type(magic) is not int or magic != MAGIC or unpickle(file, nothing, None) != 1001:
        raise RuntimeError(
            "Invalid magic number; corrupt file? Nor is it a zip archive: torch.save or tdt.save write one"
        )
    machine = unpickle(file, nothing, None)
    if type(machine) is not dict or machine.get("little_endian", True) is not True:
        raise ValueError("the file was written on a big-endian machine, which tdt does not read")
    kept: dict[str, np.ndarray] = {}
    elements: dict[str, int] = {}

    room = size_of(file)

    def fetch(key: str, size: int) -> np.ndarray:
        nonlocal room
        room -= size
        if room < 0:
            raise RuntimeError(
                f"storage {key} claims {size} bytes, more than are left in the file: it is cut short or damaged"
            )
        return kept.setdefault(key, np.zeros(size, np.uint8))

    moves: list[tuple[UntypedStorage, UntypedStorage]] = []

    def later(memory: UntypedStorage, location: str) -> UntypedStorage:
        moved = move(memory, location)
        moves.append((moved, memory))
        return moved

    storages = Storages(fetch, later)

    def noted(named: Any) -> Any:
        made = storages(named)
        elements[named[2]] = named[4]
        return made

    result = unpickle(file, noted, None)
    keys = unpickle(file, nothing, None)
    if type(keys) is not list or not all(type(key) is str for key in keys) or sorted(keys) != sorted(kept):
        raise RuntimeError("the storages in the file are not those that its tensors name: the file is damaged")
    for key in keys:
        data, count = kept[key], int.from_bytes(file.read(8), "little")
        raw = file.read(data.size)
        if count != elements[key] or len(raw) != data.size:
            raise RuntimeError(f"storage {key} should have {elements[key]} elements: the file is cut short or damaged")
        data[:] = np.frombuffer(raw, np.uint8)
    for moved, memory in moves:  # the bytes came after the tensors
        if moved is not memory:
            moved._bytes[...] = _backend.to_device(memory._bytes, moved.device)
    return result
