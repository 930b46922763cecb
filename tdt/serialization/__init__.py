"""PyTorch's `torch.serialization`: `save` and `load` objects with tensors in them, in PyTorch's `.pt` files.

Files are compatible in both directions. `load` does not execute code from the file unless weights_only=False.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from types import ModuleType, TracebackType
from typing import IO, Any

from tdt._backend.device import device
from tdt._core.storage import UntypedStorage
from tdt._files import replacing

__all__ = [
    "add_safe_globals", "clear_safe_globals", "default_restore_location", "get_safe_globals", "get_unsafe_globals_in_checkpoint",
    "load", "save", "safe_globals",
]  # fmt: skip

# The types of `map_location` and `f`, with PyTorch's names.
MAP_LOCATION = Callable[[UntypedStorage, str], UntypedStorage | None] | device | str | dict[str, str] | None
FileLike = str | os.PathLike[str] | IO[bytes]
SafeGlobal = Callable[..., Any] | tuple[Callable[..., Any], str]  # Any: the file says how it is called

_trusted: dict[
    str, SafeGlobal
] = {}  # name in files → entry of add_safe_globals: allowed by the user, in addition to the built-in table


def save(
    obj: Any, f: str | os.PathLike[str] | IO[bytes], pickle_module: ModuleType = pickle, pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True, _disable_byteorder_record: bool = False,
) -> None:  # fmt: skip
    """Save `obj`, with all tensors in it, to a path or a binary file, in PyTorch's `.pt` format.

    Tensors that share memory share it again after loading; a slice is saved with its whole storage. Writing to a path is
    atomic: after a crash the file is either the old or the complete new one.

    Raises:
        RuntimeError: when the folder of the path does not exist, or tensors of different dtypes share memory.
        AttributeError: when `f` is neither a path nor has a `write` method.
        ValueError: when _use_new_zipfile_serialization=False asks for the format before PyTorch 1.6.

    >>> import io, tdt
    >>> file = io.BytesIO()
    >>> tdt.save({"step": 3, "weight": tdt.ones(2)}, file)
    >>> _ = file.seek(0); tdt.load(file)
    {'step': 3, 'weight': tensor([1., 1.])}
    """
    from tdt.serialization._write import write

    if not _use_new_zipfile_serialization:
        raise ValueError("save writes the zip format, which PyTorch reads since 1.4; tdt only reads the older format")
    if not isinstance(f, str | os.PathLike):
        if not hasattr(f, "write"):
            raise AttributeError(
                "expected 'f' to be string, path, or a file-like object with a 'write' attribute, "
                f"not {type(f).__name__}"
            )
        write(obj, f, "archive", pickle_protocol)
        return
    from pathlib import Path  # imported here: it would add 3 ms to `import tdt`

    path = Path(f)
    if not path.parent.is_dir():
        raise RuntimeError(f"Parent directory {path.parent} does not exist.")
    if path.exists() and not path.is_file():  # a device or a pipe: cannot be replaced by a file
        with open(path, "wb") as file:
            write(obj, file, "archive", pickle_protocol)
        return
    with replacing(path) as file:
        write(obj, file, path.stem or "archive", pickle_protocol)


def load(
    f: str | os.PathLike[str] | IO[bytes], map_location: MAP_LOCATION = None, pickle_module: ModuleType | None = None, *,
    weights_only: bool | None = None, mmap: bool | None = None, **pickle_load_args: Any,
) -> Any:  # fmt: skip
    """Load an object from a file written by `save` or PyTorch's `torch.save`, also in the format before PyTorch 1.6.

    Args:
        map_location: the device for tensors, a dictionary from saved to new devices, or a function (storage, device name) →
            storage; default: the device on which they were saved.
        weights_only: whether to load only tensors, numbers, strings, plain containers and allowed classes, without executing
            code (the default). False unpickles any object, which can execute code: only for files that you trust.
        mmap: whether to map the file into memory instead of reading it; writes do not change the file.
    Raises:
        UnpicklingError: when the file refers to a name that is not allowed.
        RuntimeError: when the file is damaged, a device does not exist, or `pickle_module` is given with weights_only=True.
        EOFError: when the file is empty.
        AttributeError: when `f` is neither a path nor a seekable file.
        ValueError: when `mmap` is set and `f` is not a path, or the file was written on a big-endian machine.

    >>> import io, tdt
    >>> file = io.BytesIO()
    >>> tdt.save(tdt.arange(3), file)
    >>> _ = file.seek(0); tdt.load(file, map_location="cpu")
    tensor([0, 1, 2])
    """
    from tdt.serialization._read import read_archive, read_legacy, size_of
    from tdt.serialization._rebuild import loading

    only = pickle_module is None if weights_only is None else weights_only
    if only and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    is_path = isinstance(f, str | os.PathLike)
    if not is_path and not (hasattr(f, "read") and hasattr(f, "seek")):
        raise AttributeError(f"load needs a path or a seekable file with a 'read' attribute, not {type(f).__name__}")
    if mmap and not is_path:
        raise ValueError("f must be a file path in order to use the mmap argument")

    def unpickle(file: IO[bytes], persistent: Callable[[Any], Any], stored: int | None) -> Any:
        if only:
            return _unpickle_restricted(file, persistent, stored)
        return _unpickled(file, persistent, pickle_module or pickle, pickle_load_args)

    def move(memory: UntypedStorage, location: str) -> UntypedStorage:
        return _restored(memory, location, map_location)

    source: Any = open(f, "rb") if is_path else nullcontext(f)  # type: ignore[arg-type]  # noqa: SIM115
    with source as file, loading(size_of(file)):
        head = _first_bytes(file)
        if not head:
            raise EOFError("Ran out of input: the file is empty")
        if head.startswith(ZIP):
            return read_archive(file, unpickle, move, os.fspath(f) if mmap else None)  # type: ignore[arg-type]
        return read_legacy(file, unpickle, move)


ZIP = b"PK\x03\x04"


def _first_bytes(file: IO[bytes]) -> bytes:
    start = file.tell()
    head = file.read(len(ZIP))
    file.seek(start)
    return head


def _allowed() -> dict[str, Any]:
    """The functions and classes that the user allowed, by their names in files."""
    return {name: entry[0] if isinstance(entry, tuple) else entry for name, entry in _trusted.items()}


def _unpickle_restricted(file: IO[bytes], persistent: Callable[[Any], Any], stored: int | None) -> Any:
    from tdt.serialization._restricted import GlobalNotAllowed, RestrictedUnpickler

    try:
        return RestrictedUnpickler(file, _allowed(), persistent, stored).load()
    except GlobalNotAllowed as error:
        raise pickle.UnpicklingError(
            f"Weights only load failed. {error}\nNo code of the file was executed. If you trust the source of the file, allow "
            "the name with tdt.serialization.add_safe_globals([…]) or the safe_globals context manager, or load the whole "
            "file with weights_only=False."
        ) from error
    except pickle.UnpicklingError as error:
        raise pickle.UnpicklingError(f"Weights only load failed. {error}") from error


def _unpickled(file: IO[bytes], persistent: Callable[[Any], Any], module: Any, options: dict[str, Any]) -> Any:
    from tdt.serialization import _names

    class Unpickler(module.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            full = f"{module}.{name}"
            known = _names.safe(full)
            if known is not None:
                return known
            if full in _names.UNSUPPORTED:
                raise pickle.UnpicklingError(f"the file refers to {full}: it contains {_names.UNSUPPORTED[full]}.")
            if module == "torch" or module.startswith("torch."):
                module = "tdt" + module[5:]
            return super().find_class(module, name)

        def persistent_load(self, pid: Any) -> Any:
            return persistent(pid)

    return Unpickler(file, **{"encoding": "utf-8", **options}).load()


def _restored(memory: UntypedStorage, location: str, where: Any) -> UntypedStorage:
    """A storage on the device that `map_location` selects."""
    if where is None:
        return default_restore_location(memory, location)
    if isinstance(where, dict):
        return default_restore_location(memory, where.get(location, location))
    if isinstance(where, str | device | int):
        return default_restore_location(memory, str(device(where)))
    moved = where(memory, location)
    return default_restore_location(memory, location) if moved is None else moved


def default_restore_location(storage: UntypedStorage, location: str) -> UntypedStorage:
    """Move a loaded storage to the device named `location`; RuntimeError if there is no such device."""
    target = device(location)
    if target.type == "cuda":
        from tdt._backend import cuda_device_count

        if not cuda_device_count():
            raise RuntimeError(
                "Attempting to deserialize object on a CUDA device but tdt.cuda.is_available() is False. If you are running on "
                "a CPU-only unpickler, please use tdt.load with map_location=tdt.device('cpu') to map your storages to the CPU."
            )
    return storage if target == storage.device else storage.to(device=target)


def add_safe_globals(safe_globals: Sequence[SafeGlobal]) -> None:
    """Allow `load` to create instances of these classes, and to call these functions, when a file refers to them.

    Args:
        safe_globals: classes and functions, or pairs (class or function, its dotted name in files).
    Raises:
        ValueError: when a tuple does not have two items.
        TypeError: when the second item of a tuple is not a string.

    >>> import collections, tdt
    >>> tdt.serialization.add_safe_globals([collections.defaultdict])
    >>> tdt.serialization.get_safe_globals()
    [<class 'collections.defaultdict'>]
    >>> tdt.serialization.clear_safe_globals()
    """
    for entry in safe_globals:
        _trusted[_name_of(entry)] = entry


def _name_of(entry: SafeGlobal) -> str:
    """The dotted name, in files, of an entry of `add_safe_globals`."""
    if not isinstance(entry, tuple):
        return f"{entry.__module__}.{entry.__qualname__}"
    if len(entry) != 2:
        raise ValueError(
            f"Expected tuple of length 2 (global, str of callable full path), but got tuple of length: {len(entry)}"
        )
    if type(entry[1]) is not str:
        raise TypeError(f"Expected second item in tuple to be str of callable full path, but got: {type(entry[1])}")
    return entry[1]


def get_safe_globals() -> list[SafeGlobal]:
    """The entries that were passed to `add_safe_globals`."""
    return list(_trusted.values())


def clear_safe_globals() -> None:
    """Remove all entries of `add_safe_globals`."""
    _trusted.clear()


class safe_globals:
    """`add_safe_globals` as a context manager."""

    def __init__(self, safe_globals: Sequence[SafeGlobal]) -> None:
        self.safe_globals = safe_globals

    def __enter__(self) -> None:
        add_safe_globals(self.safe_globals)

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for entry in self.safe_globals:
            _trusted.pop(_name_of(entry), None)


def get_unsafe_globals_in_checkpoint(f: str | os.PathLike[str] | IO[bytes]) -> list[str]:
    """The names in a file that `load` would reject, sorted. Does not read the data of storages.

    Returns:
        The dotted names of classes and functions that are neither safe nor allowed by the user. If the list is empty, `load`
        accepts the whole pickle: it is loaded here, with storages of zeros.
    Raises:
        ValueError: when the file was not written by `save` or `torch.save` in the zip format.
        UnpicklingError: when `load` would reject the pickle for another reason than a name.
        RuntimeError: when the file is damaged.
    """
    import io

    import numpy as np

    from tdt.serialization._names import RENAMED_MODULES
    from tdt.serialization._read import Archive, Storages, size_of
    from tdt.serialization._rebuild import loading
    from tdt.serialization._restricted import RestrictedUnpickler, names_in

    source: Any = open(f, "rb") if isinstance(f, str | os.PathLike) else nullcontext(f)  # noqa: SIM115
    with source as file:
        file.seek(0)
        if _first_bytes(file) != ZIP:
            raise ValueError("Expected input to be a checkpoint returned by torch.save")
        size, archive = size_of(file), Archive(file)
        info = archive.entry("data.pkl")
        text = archive.array(info).tobytes()

        def zeros(key: str, size: int) -> Any:
            return np.zeros(archive.entry(f"data/{key}", size).file_size, np.uint8)

        unpickler = RestrictedUnpickler(
            io.BytesIO(text), _allowed(), Storages(zeros, lambda memory, _: memory), info.compress_size
        )
        try:
            names = names_in(io.BytesIO(text))
        except (LookupError, ValueError) as error:
            raise pickle.UnpicklingError(f"the pickle is damaged: {str(error)[:500]}") from error
        rejected = []
        for module, name in names:
            try:
                unpickler.find_global(RENAMED_MODULES.get(module, module), name)
            except pickle.UnpicklingError:
                rejected.append(f"{RENAMED_MODULES.get(module, module)}.{name}")
        if not rejected:
            with loading(size, values=False):
                unpickler.load()
        return sorted(rejected)
