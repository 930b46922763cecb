"""Pickles written opcode by opcode, archives around them, and a watch over what happens while one is loaded."""

from __future__ import annotations

import builtins
import codecs
import collections
import copyreg
import io
import operator
import os
import pickle
import struct
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tdt
import tdt.nn
from tdt.serialization import _names, _read, _rebuild, _restricted

# What `load` documents for a file that it refuses.
EXPECTED_ERRORS = (EOFError, RuntimeError, ValueError, pickle.UnpicklingError)
# Events of Python's audit hooks that no file may cause. `open` and imports are listed since loads here are from memory.
FORBIDDEN = (
    "exec",
    "compile",
    "import",
    "open",
    "os.",
    "posix.",
    "subprocess.",
    "shutil.",
    "socket.",
    "ctypes.",
    "marshal.",
    "pickle.",
    "code.",
    "function.",
    "builtins.input",
    "urllib.",
    "tempfile.",
    "glob.",
    "webbrowser.",
    "signal.",
)
# Modules in whose namespaces a file might plant or overwrite a name.
WATCHED = (
    builtins,
    collections,
    copyreg,
    os,
    pickle,
    sys,
    tdt._core.layout,
    tdt._core.dtype,
    tdt.serialization,
    _names,
    _read,
    _rebuild,
    _restricted,
)


class Raw(bytes):
    """Opcodes that stand where a value is meant."""


def name(module: str, word: str) -> Raw:
    """The opcode that names an object of a module."""
    return Raw(b"c" + module.encode() + b"\n" + word.encode() + b"\n")


def value(v: Any) -> bytes:
    """The opcodes of plain data, in which `Raw` stands as it is."""
    if isinstance(v, Raw):
        return v
    if isinstance(v, str):
        data = v.encode()
        return b"X" + struct.pack("<I", len(data)) + data
    if isinstance(v, bytes):
        return b"B" + struct.pack("<I", len(v)) + v
    if v is None or isinstance(v, bool):
        return {None: b"N", True: b"\x88", False: b"\x89"}[v]
    if isinstance(v, int):
        data = v.to_bytes(v.bit_length() // 8 + 1, "little", signed=True)
        return b"\x8a" + bytes([len(data)]) + data
    if isinstance(v, float):
        return b"G" + struct.pack(">d", v)
    if isinstance(v, tuple | list):
        return b"(" + b"".join(map(value, v)) + (b"t" if isinstance(v, tuple) else b"l")
    return b"(" + b"".join(value(k) + value(w) for k, w in v.items()) + b"d"


def call(function: bytes, *args: Any) -> Raw:
    """The opcodes that call a function."""
    return Raw(function + value(args) + b"R")


def storage(
    kind: str = "FloatStorage", key: Any = "0", count: Any = 4, place: Any = "cpu", tag: Any = "storage"
) -> Raw:
    """The opcodes of a storage, as files refer to one."""
    module = "torch.storage" if kind == "UntypedStorage" else "torch"
    return Raw(value((tag, name(module, kind), key, place, count)) + b"Q")


def tensor(memory: Any = None, offset: Any = 0, size: Any = (4,), stride: Any = (1,), *rest: Any) -> Raw:
    """The opcodes of a tensor; `memory`: those of its storage."""
    memory_or_new = memory or storage()
    return call(
        name("torch._utils", "_rebuild_tensor_v2"), memory_or_new, offset, size, stride, *(rest or (False, None))
    )


def archive(text: bytes, entries: dict[str, bytes] | None = None, compression: int = zipfile.ZIP_STORED) -> bytes:
    """The `.pt` archive of a pickle; entries: storages by their keys, or any other by "/" and its whole name."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as zipped:
        zipped.writestr("archive/data.pkl", text)
        for key, data in ({"0": bytes(range(16))} if entries is None else entries).items():
            zipped.writestr(key[1:] if key.startswith("/") else f"archive/data/{key}", data)
    return file.getvalue()


class Watch:
    """Notes forbidden audit events while it is active. One hook for the process, since hooks cannot be removed."""

    def __init__(self) -> None:
        self.active, self.events = False, []  # type: ignore[var-annotated]
        sys.addaudithook(self._hook)

    def _hook(self, event: str, args: tuple) -> None:
        if self.active and event.startswith(FORBIDDEN):
            self.active = False
            self.events.append(f"{event} {str(args)[:200]}")
            self.active = True

    @contextmanager
    def over(self) -> Iterator[None]:
        """A block in which nothing forbidden may happen, and no watched namespace may change."""
        namespaces = [*map(vars, WATCHED), _names.ALLOWED_GLOBALS]
        before = [dict(names) for names in namespaces]
        self.active, self.events = True, []
        try:
            yield
        finally:
            self.active = False
        assert not self.events, f"the file caused {self.events[:5]}"
        for old, new in zip(before, namespaces, strict=True):
            same = old.keys() == new.keys() and all(map(operator.is_, old.values(), new.values()))
            assert same, "the file changed a module"


_watch: list[Watch] = []


def watched() -> Any:
    """A block under the process's one `Watch`."""
    if not _watch:
        for codec in ("ascii", "cp437", "latin-1", "raw_unicode_escape", "unicode_escape", "utf-8"):
            codecs.lookup(codec)  # Python's own, by names that no file chooses
        tdt.cuda.is_available()  # imports what is imported late, as does a first load
        tdt.load(io.BytesIO(archive(b"\x80\x02" + tensor() + b".")))
        _watch.append(Watch())
    return _watch[0].over()


def outcome(data: bytes) -> str:
    """What comes of loading a file: "loaded", or the message of a documented refusal. AssertionError for anything worse."""
    with watched():
        try:
            loaded = tdt.load(io.BytesIO(data))
        except EXPECTED_ERRORS as error:
            message = str(error)
            assert message and len(message) < 3000, f"a message of {len(message)} characters"
            return message
    _check_tensors(loaded)
    return "loaded"


def _check_tensors(loaded: Any) -> None:
    """AssertionError where a tensor in what was loaded looks outside its storage."""
    level, visited = [loaded], set()
    while level:
        item = level.pop()
        if id(item) in visited:
            continue
        visited.add(id(item))
        if isinstance(item, tdt.Tensor):
            if item.layout is tdt.strided and item.device.type == "cpu" and item.numel():
                low, high = tdt._backend.byte_bounds(item._a)
                whole = item.untyped_storage()
                assert whole.data_ptr() <= low and high <= whole.data_ptr() + whole.nbytes(), (
                    "a tensor outside its storage"
                )
            level.extend(vars(item).values())
        elif isinstance(item, dict):
            level.extend([*item.keys(), *item.values()])
        elif isinstance(item, list | tuple | set):
            level.extend(item)
