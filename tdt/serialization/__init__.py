"""PyTorch's `torch.serialization`: `save` and `load` objects with tensors in them, in PyTorch's `.pt` files.

Either library reads what the other wrote. `load` runs no code of the file's unless it is told to (`weights_only=False`).
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from contextlib import nullcontext
from types import TracebackType
from typing import IO, Any

from tdt._device import device
from tdt._storage import UntypedStorage
from tdt.utils._files import replacing

__all__ = [
    "add_safe_globals", "clear_safe_globals", "default_restore_location", "get_safe_globals", "get_unsafe_globals_in_checkpoint",
    "load", "save", "safe_globals",
]  # fmt: skip

_trusted: dict[str, Any] = {}  # what the user allows files to name, beside what is safe in any case


def save(
    obj: Any, f: str | os.PathLike[str] | IO[bytes], pickle_module: Any = pickle, pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True, _disable_byteorder_record: bool = False,
) -> None:  # fmt: skip
    """Write `obj`, with all tensors in it, to a path or a binary file, as PyTorch's `.pt` archive.

    Tensors that share memory share it again when they are loaded; a slice takes all of its memory along. A path is the old
    file or the whole new one, whatever happens. RuntimeError for a folder that is not there.

    >>> import io, tdt
    >>> file = io.BytesIO()
    >>> tdt.save({"step": 3, "weight": tdt.ones(2)}, file)
    >>> _ = file.seek(0); tdt.load(file)
    {'step': 3, 'weight': tensor([1., 1.])}
    """
    from tdt.serialization._write import write

    if not _use_new_zipfile_serialization:
        raise ValueError(
            "save writes the zip archive, which PyTorch reads since 1.4; its older format can only be read"
        )
    if not isinstance(f, str | os.PathLike):
        if not hasattr(f, "write"):
            raise AttributeError(
                "expected 'f' to be string, path, or a file-like object with a 'write' attribute, "
                f"not {type(f).__name__}"
            )
        write(obj, f, "archive", pickle_protocol)
        return
    from pathlib import Path  # 3 ms, which `import tdt` need not wait for

    path = Path(f)
    if not path.parent.is_dir():
        raise RuntimeError(f"Parent directory {path.parent} does not exist.")
    if path.exists() and not path.is_file():  # a device or a pipe, which nothing can replace
        with open(path, "wb") as file:
            write(obj, file, "archive", pickle_protocol)
        return
    with replacing(path) as file:
        write(obj, file, path.stem or "archive", pickle_protocol)


def load(
    f: str | os.PathLike[str] | IO[bytes], map_location: Any = None, pickle_module: Any = None, *,
    weights_only: bool | None = None, mmap: bool | None = None, **pickle_load_args: Any,
) -> Any:  # fmt: skip
    """The object in a file that `save` or PyTorch's `torch.save` wrote, the format of before 1.6 included.

    map_location: where tensors go: a device, a dictionary from places to places, or a function (storage, place) → storage;
    by default where they were. weights_only: read tensors, numbers, strings and plain containers, and nothing that could
    run code (the default); False unpickles whatever is there, so trust the file. mmap: map the file into memory instead of
    reading it; writes stay in memory. UnpicklingError for what a file must not name, RuntimeError for a damaged one.

    >>> import io, tdt
    >>> file = io.BytesIO()
    >>> tdt.save(tdt.arange(3), file)
    >>> _ = file.seek(0); tdt.load(file, map_location="cpu")
    tensor([0, 1, 2])
    """
    from tdt.serialization._read import read_archive, read_legacy

    only = pickle_module is None if weights_only is None else weights_only
    if only and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    is_path = isinstance(f, str | os.PathLike)
    if not is_path and not (hasattr(f, "read") and hasattr(f, "seek")):
        raise AttributeError(f"load needs a path or a file that can be read and sought, not {type(f).__name__}")
    if mmap and not is_path:
        raise ValueError("f must be a file path in order to use the mmap argument")

    def unpickle(file: IO[bytes], persistent: Callable[[Any], Any]) -> Any:
        if only:
            return _unpickled_safely(file, persistent)
        return _unpickled(file, persistent, pickle_module or pickle, pickle_load_args)

    def move(memory: UntypedStorage, location: str) -> UntypedStorage:
        return _restored(memory, location, map_location)

    source: Any = open(f, "rb") if is_path else nullcontext(f)  # type: ignore[arg-type]  # noqa: SIM115
    with source as file:
        start = file.tell()
        head = file.read(4)
        file.seek(start)
        if not head:
            raise EOFError("Ran out of input: the file is empty")
        if head.startswith(b"PK\x03\x04"):
            return read_archive(file, unpickle, move, os.fspath(f) if mmap else None)  # type: ignore[arg-type]
        return read_legacy(file, unpickle, move)


def _unpickled_safely(file: IO[bytes], persistent: Callable[[Any], Any]) -> Any:
    from tdt.serialization import _names
    from tdt.serialization._restricted import Machine

    def find(name: str) -> Any:
        return _trusted.get(name) or _names.safe(name)

    try:
        return Machine(file, find, {value for value in _trusted.values() if isinstance(value, type)}, persistent).load()
    except pickle.UnpicklingError as error:
        raise pickle.UnpicklingError(
            f"Weights only load failed. {error}\nThe file was read without running any code of it. If you trust where it comes "
            "from, allow a name with tdt.serialization.add_safe_globals([…]) or the safe_globals block, or load all of it "
            "with weights_only=False."
        ) from error


def _unpickled(file: IO[bytes], persistent: Callable[[Any], Any], module: Any, options: dict[str, Any]) -> Any:
    from tdt.serialization import _names

    class Unpickler(module.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            known = _names.safe(f"{_names.MOVED.get(module, module)}.{name}")
            if known is not None:
                return known
            if module == "torch" or module.startswith("torch."):
                module = "tdt" + module[5:]
            return super().find_class(module, name)

        def persistent_load(self, named: Any) -> Any:
            return persistent(named)

    return Unpickler(file, **{"encoding": "utf-8", **options}).load()


def _restored(memory: UntypedStorage, location: str, where: Any) -> UntypedStorage:
    """A storage where `map_location` wants it."""
    if where is None:
        return default_restore_location(memory, location)
    if isinstance(where, dict):
        return default_restore_location(memory, where.get(location, location))
    if isinstance(where, str | device | int):
        return default_restore_location(memory, str(device(where)))
    moved = where(memory, location)
    return default_restore_location(memory, location) if moved is None else moved


def default_restore_location(storage: UntypedStorage, location: str) -> UntypedStorage:
    """A storage that was read, on the device named `location`; RuntimeError where that is missing."""
    target = device(location)
    if target.type == "cuda":
        from tdt._backend import cuda_device_count

        if not cuda_device_count():
            raise RuntimeError(
                "Attempting to deserialize object on a CUDA device but tdt.cuda.is_available() is False. If you are running on "
                "a CPU-only machine, please use tdt.load with map_location=tdt.device('cpu') to map your storages to the CPU."
            )
    return storage if target == storage.device else storage.to(device=target)


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Let `load` make and fill these classes, and call these functions, when a file names them.

    safe_globals: classes and functions, or pairs of one and the dotted name that files call it by.

    >>> import collections, tdt
    >>> tdt.serialization.add_safe_globals([collections.defaultdict])
    >>> tdt.serialization.get_safe_globals()
    [<class 'collections.defaultdict'>]
    >>> tdt.serialization.clear_safe_globals()
    """
    for entry in safe_globals:
        value, name = entry if isinstance(entry, tuple) else (entry, f"{entry.__module__}.{entry.__qualname__}")
        _trusted[name] = value


def get_safe_globals() -> list[Any]:
    """What `add_safe_globals` allowed."""
    return list(_trusted.values())


def clear_safe_globals() -> None:
    """Allow nothing beside what is safe in any case."""
    _trusted.clear()


class safe_globals:  # noqa: N801  (PyTorch's name)
    """`add_safe_globals` for a `with` block."""

    def __init__(self, safe_globals: list[Any]):
        self.added = safe_globals

    def __enter__(self) -> None:
        self.before = dict(_trusted)
        add_safe_globals(self.added)

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        _trusted.clear()
        _trusted.update(self.before)


def get_unsafe_globals_in_checkpoint(f: str | os.PathLike[str] | IO[bytes]) -> list[str]:
    """The names in an archive that `load` would refuse, sorted; nothing is loaded."""
    import pickletools
    import zipfile

    from tdt.serialization import _names

    with zipfile.ZipFile(f) as archive:
        text = archive.read(next(name for name in archive.namelist() if name.endswith("/data.pkl")))
    found = set()
    for opcode, arg, _ in pickletools.genops(text):
        if opcode.name == "GLOBAL" and arg is not None:
            module, name = arg.split(" ")
            found.add(f"{_names.MOVED.get(module, module)}.{name}")
    return sorted(name for name in found if name not in _trusted and _names.safe(name) is None)
