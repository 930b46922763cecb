"""Checkpoints: arrays and JSON in one `.safetensors` file, written atomically, and the folder of a run's checkpoints.

    model/<key>  optimizer/<state>/<parameter name>  ema/<key>  rng/<name>      the arrays
    __metadata__ = {"tdt": "{crc32c, format, tensors: {name: [dtype, shape, crc32c]}, …}"}   all else, as JSON

The safetensors library is used only here, and only to read: its writer silently corrupts strided and Fortran arrays,
copies everything into one buffer, and aborts the process if memory runs out. So the file is written here, chunk by
chunk: arrays as little-endian bytes in C order, bfloat16 as uint16 and complex numbers as pairs of floats. The entry
`tensors` has the original dtypes; checksums (CRC-32C) of the JSON and of each array are verified on loading.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tdt._activity import ACTIVITY
from tdt._files import fsync_folder, remove_temporary, replacing, write_whole
from tdt.train._strict_json import pack, unpack
from tdt.train._types import Json
from tdt.train.runs._fault import fault_point

if TYPE_CHECKING:
    import numpy as np

FORMAT = 1
_RESERVED = ("crc32c", "format", "tensors")
_HEAD = '{"crc32c": "%s", '
_INTACT = "earlier checkpoints are intact"
_CHUNK = 1 << 22  # bytes that are converted, checked and written at a time
# NumPy's name of a dtype → safetensors'; the other way, with the byte order of the file
_CODES = {"bool": "BOOL"} | {f"{kind}{bits}": f"{code}{bits}" for kind, code in (("float", "F"), ("uint", "U"), ("int", "I"))
                             for bits in (8, 16, 32, 64) if (kind, bits) != ("float", 8)}  # fmt: skip
_NUMPY = {code: f"<{code[0].lower()}{int(code[1:]) // 8}" for code in _CODES.values() if code != "BOOL"} | {"BOOL": "?"}
# safetensors' names of dtypes that NumPy lacks, only in files of other programs → their names in ml_dtypes
_OTHERS = {"BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2"}
# dtype -> the dtype it is stored as, with a last dimension of 2 for the complex ones
_STORED = {
    **{name: name for name in ("bool", "float16", "float32", "float64")},
    **{f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "bfloat16": "uint16",
    "complex64": "float32",
    "complex128": "float64",
}


class CheckpointError(Exception):
    """A checkpoint cannot be written, found or read, or is not valid; the message names the file and the reason.

    damaged: whether the file was read but its content is not what was written.
    """

    def __init__(self, message: str, *, damaged: bool = False) -> None:
        self.damaged = damaged
        super().__init__(message)


def save(path: str | os.PathLike[str], tensors: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> None:
    """Write `tensors` and `meta` to `path` atomically: after a crash the file is the old one or the whole new one.

    The file is written under another name in the same folder, fsynced and renamed; then the folder is fsynced.

    Args:
        meta: dicts with string keys, lists, strings, numbers (also inf and nan), bools, None; tuples load as lists.
    Raises:
        CheckpointError: the contents could not be restored exactly, or the disk is full or fails.

    >>> from tdt.train.runs.checkpoint import load, save
    >>> import tempfile, numpy as np
    >>> path = tempfile.mkdtemp() + "/x.safetensors"
    >>> save(path, {"model/weight": np.ones((2, 2), np.float32).T}, {"step": 7})
    >>> tensors, meta = load(path)
    >>> tensors["model/weight"].tolist(), meta
    ([[1.0, 1.0], [1.0, 1.0]], {'step': 7})
    """
    path = Path(path)
    try:
        stored = _in_order({name: _stored(path, name, array) for name, array in tensors.items()})
        head = _header(path, tensors, stored, meta)
    except MemoryError as error:
        raise CheckpointError(f"{path}: could not be written: not enough memory; {_INTACT}") from error
    try:
        _write(path, head, stored)
    except (OSError, MemoryError) as error:
        size = len(head) + sum(array.nbytes for array in stored.values())
        why = "not enough memory" if isinstance(error, MemoryError) else error.strerror or error
        raise CheckpointError(f"{path}: could not write {size:,} bytes: {why}; {_INTACT}") from error


def save_plain(path: str | os.PathLike[str], tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> None:
    """Write arrays alone, atomically, as other programs read `.safetensors`. metadata: texts in the file's header.

    Raises:
        CheckpointError: an array has a dtype that the format does not have.
        OSError: the file cannot be written.

    >>> from tdt.train.runs.checkpoint import load_plain, save_plain
    >>> import tempfile, numpy as np
    >>> path = tempfile.mkdtemp() + "/model.safetensors"
    >>> save_plain(path, {"weight": np.ones((2, 2), np.float32).T}, {"format": "pt"})
    >>> load_plain(path)["weight"].shape
    (2, 2)
    """
    path = Path(path)
    codes = _CODES | {name: code for code, name in _OTHERS.items()}
    for name, array in tensors.items():
        if array.dtype.name not in codes:
            raise CheckpointError(f"{path}: {name} is {array.dtype.name}, which .safetensors files do not hold")
    stored = _in_order(dict(tensors))
    _write(
        path,
        _packed({"__metadata__": dict(metadata)}, {n: codes[a.dtype.name] for n, a in stored.items()}, stored),
        stored,
    )


def _write(path: Path, head: bytes, stored: Mapping[str, np.ndarray]) -> None:
    with replacing(path, buffering=0) as file:
        write_whole(file, head)
        for number, array in enumerate(stored.values()):
            if number == len(stored) // 2:
                fault_point("checkpoint.write")
            for chunk in _chunks(array):
                write_whole(file, chunk.data)
                ACTIVITY.report()


def load(path: str | os.PathLike[str]) -> tuple[dict[str, np.ndarray], Json]:
    """Load (tensors, meta) as given to `save`, and verify every checksum.

    Raises:
        CheckpointError: the file is missing, truncated, damaged, not a checkpoint of tdt, or of a newer format.
    """
    path = Path(path)
    with _opened(path) as (checked, file):
        meta, notes = _read_meta(path, checked.metadata())
        _same_names(path, set(checked.keys()), set(notes))
        entries, begin = _read_header(file)
        tensors = {name: _restore(path, name, _read(file, begin, entries[name]), note) for name, note in notes.items()}
    return tensors, meta


def load_plain(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Load the arrays of a `.safetensors` file of any program, bfloat16 and the floats of 8 bits too.

    Raises:
        CheckpointError: the file is missing, truncated, damaged, or has a dtype that tdt does not have.
    """
    path = Path(path)
    with _opened(path) as (_, file):
        entries, begin = _read_header(file)
        entries.pop("__metadata__", None)
        for name, entry in entries.items():
            if entry["dtype"] not in _NUMPY | _OTHERS:
                raise CheckpointError(f"{path}: {name} is {entry['dtype']}, a dtype that tdt does not have")
        return {name: _read(file, begin, entry) for name, entry in entries.items()}


def is_checkpoint(path: str | os.PathLike[str]) -> bool:
    """Whether a `.safetensors` file says that tdt wrote it. False for a file that cannot be read."""
    try:
        with open(path, "rb") as file:
            return "tdt" in (_read_header(file)[0].get("__metadata__") or {})
    except (OSError, *_DAMAGED, struct.error):
        return False


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, IO[bytes]]]:
    """The file, with its header checked by safetensors; what is wrong with it becomes a CheckpointError."""
    import safetensors
    import safetensors.numpy  # the front for NumPy; imports it

    try:
        if not path.is_file():
            what = "is a folder; a checkpoint is a file" if path.is_dir() else "no such checkpoint file"
            raise CheckpointError(f"{path}: {what}")
        path.open("rb").close()  # safetensors reports an unreadable file as missing
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        with safetensors.safe_open(str(path), framework="np") as checked, open(path, "rb") as file:
            yield checked, file
    except (OSError, MemoryError) as error:
        why = "not enough memory" if isinstance(error, MemoryError) else error.strerror or error
        raise CheckpointError(f"{path}: cannot be read: {why}") from error
    except (*_DAMAGED, safetensors.SafetensorError) as error:
        raise _damaged(path, f"damaged or not a checkpoint: {error}") from error


def load_meta(path: str | os.PathLike[str]) -> Json:
    """Load `meta` without reading the tensors. Raises CheckpointError as `load`."""
    path = Path(path)
    try:
        with open(path, "rb") as file:
            return _read_meta(path, _read_header(file)[0].get("__metadata__"))[0]
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror}") from error
    except (*_DAMAGED, struct.error) as error:
        raise _damaged(path, f"damaged or not a checkpoint: {error}") from error


def _read_header(file: IO[bytes]) -> tuple[dict[str, Any], int]:
    """The JSON header, and the offset of the arrays."""
    (length,) = struct.unpack("<Q", file.read(8))
    if length > os.fstat(file.fileno()).st_size:
        raise ValueError("it is truncated")
    return json.loads(file.read(length)), 8 + length


def _read(file: IO[bytes], begin: int, entry: dict[str, Any]) -> np.ndarray:
    """An array as stored. If memory runs out, this raises MemoryError; safetensors would abort."""
    import numpy as np

    first, end = entry["data_offsets"]
    raw = np.empty(end - first, np.uint8)
    file.seek(begin + first)
    if file.readinto(raw) != end - first:  # type: ignore[attr-defined]
        raise ValueError("it is truncated")
    if entry["dtype"] in _OTHERS:
        import ml_dtypes

        return raw.view(getattr(ml_dtypes, _OTHERS[entry["dtype"]])).reshape(entry["shape"])
    return raw.view(_NUMPY[entry["dtype"]]).reshape(entry["shape"])


# Exceptions of Python, NumPy and the JSON parser for invalid contents.
_DAMAGED = (ValueError, TypeError, AttributeError, KeyError, OverflowError, RecursionError)


def _damaged(path: Path, what: str) -> CheckpointError:
    return CheckpointError(f"{path}: {what}", damaged=True)


def make_folder(folder: Path) -> None:
    """Create a folder inside a run's unless it exists. Raises CheckpointError if the run's was removed, and for a link."""
    if folder.is_symlink():
        raise CheckpointError(f"{folder}: is a link, and links are not followed here; replace it by the folder itself")
    if folder.is_dir():
        return
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        gone = isinstance(error, FileNotFoundError)
        what = f"{folder.parent} has been removed" if gone else error.strerror or str(error)
        raise CheckpointError(f"{folder}: could not be created: {what}") from error
    fsync_folder(folder.parent)


class CheckpointStore:
    """The checkpoints of one run: `step-<n>.safetensors`, and the names `last` and `best` for two of them.

    folder: created by the first `save`. keep: number of step files to keep, None for all. checked: the newest file up to the
    last step that is a multiple of this number stays too. `best` and `last` are hard links (copies if the file system has
    none), so that their contents stay in any case.

    >>> from tdt.train.runs.checkpoint import CheckpointStore, load
    >>> import tempfile
    >>> store = CheckpointStore(tempfile.mkdtemp(), keep=2)
    >>> for step in (10, 20, 30):
    ...     _ = store.save(step, {}, {"step": step}, best=step == 10)
    >>> store.steps(), load(store.resolve("best"))[1]
    ([20, 30], {'step': 10})
    """

    def __init__(self, folder: str | os.PathLike[str], keep: int | None = 3, checked: int | None = None) -> None:
        if keep is not None and keep < 1:
            raise ValueError(f"keep must be at least 1, or None for all, got {keep}")
        self.folder = Path(folder)
        self.keep, self.checked = keep, checked

    def save(
        self, step: int, tensors: Mapping[str, np.ndarray], meta: Mapping[str, Any], *, best: bool = False
    ) -> Path:
        """Write the checkpoint of `step`, link it as `last` (with `best` also as the best), and remove old step files.

        Step files after `step` are removed too: they are from before a resume at an earlier step.

        Returns:
            The file's path.
        Raises:
            CheckpointError: then `last` and `best` are the old files, or complete new ones.
        """
        make_folder(self.folder)
        path = self.path(step)
        save(path, tensors, meta)
        fault_point("checkpoint.renamed")
        try:
            # best before last: if killed in between, a resume starts from the older one and repeats this step
            for name in ("best", "last") if best else ("last",):
                self._point(name, path)
            self._prune(step)
            fsync_folder(self.folder)
        except OSError as error:
            raise CheckpointError(f"{path}: written, but not linked as last: {error.strerror or error}") from error
        return path

    def go_back(self, step: int) -> Path | None:
        """Let a resume start from the newest checkpoint up to `step`, which is linked as `last`. None if there is none."""
        before = [each for each in self.steps() if each <= step]
        if not before:
            return None
        self._point("last", self.path(before[-1]))
        fsync_folder(self.folder)
        return self.path(before[-1])

    def finish_save(self, best: bool) -> None:
        """Complete a first `save` that was killed: link the newest step file as `last`, with `best` also as the best."""
        names = ("best", "last") if best else ("last",)
        if steps := self.steps():
            for name in names:
                if not (self.folder / f"{name}.safetensors").exists():
                    self._point(name, self.path(steps[-1]))

    def steps(self) -> list[int]:
        """The steps with a file, ascending. Other files and folders are ignored."""
        names = {path.name for path in self.folder.glob("step-*") if path.is_file()}
        found = (re.fullmatch(r"step-([0-9]{8,19})\.safetensors", name) for name in names)
        return sorted(step for match in found if match and self.path(step := int(match[1])).name in names)

    def resolve(self, which: str | os.PathLike[str] = "last") -> Path:
        """The file of "last" or "best", or the path `which`. Raises CheckpointError if it does not exist."""
        if which in ("last", "best"):
            path = self.folder / f"{which}.safetensors"
            if path.exists():
                return path
            if which == "last" and self.steps():  # killed between the first file's rename and its link
                return self.path(self.steps()[-1])
        elif Path(which).is_file():
            return Path(which)
        have = [name for name in ("best", "last") if (self.folder / f"{name}.safetensors").exists()]
        there = ", ".join([*have, *(f"step {step}" for step in self.steps())]) or "no checkpoint"
        raise CheckpointError(f"no checkpoint {str(which)!r}; {self.folder} has {there}")

    def clean(self) -> None:
        """Remove temporary files of a killed process. The caller must hold the run's lock."""
        remove_temporary(self.folder)

    def path(self, step: int) -> Path:
        """The file of the checkpoint of `step`."""
        return self.folder / f"step-{step:08d}.safetensors"

    def _point(self, name: str, target: Path) -> None:
        link = self.folder / f"{name}.safetensors"
        temporary = self.folder / f".{link.name}.{os.getpid()}.tmp"
        temporary.unlink(missing_ok=True)
        try:
            os.link(target, temporary)
        except OSError:  # no hard links here, as on FAT and some network folders
            with open(target, "rb") as source, replacing(link) as file:
                shutil.copyfileobj(source, file, _CHUNK)
            return
        os.replace(temporary, link)
        temporary.unlink(missing_ok=True)  # POSIX keeps it if both are the same file already

    def _prune(self, newest: int) -> None:
        steps = self.steps()
        current = [step for step in steps if step <= newest]
        remaining = current if self.keep is None else current[-self.keep :]
        if self.checked is not None:
            remaining += [step for step in current if step <= newest // self.checked * self.checked][-1:]
        for step in set(steps) - set(remaining):
            self.path(step).unlink(missing_ok=True)


def _in_order(stored: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Sort by element size, descending, for alignment in the file, and by name, so that equal contents give equal files."""
    return {name: stored[name] for name in sorted(stored, key=lambda name: (-stored[name].itemsize, name))}


def _header(
    path: Path, tensors: Mapping[str, np.ndarray], stored: Mapping[str, np.ndarray], meta: Mapping[str, Any]
) -> bytes:
    """The file's header: length of the JSON, and the JSON, padded to align the first array."""
    for key in _RESERVED:
        if key in meta:
            raise CheckpointError(f"{path}: meta key {key!r} is the format's own; choose another")
    notes = {name: [array.dtype.name, list(array.shape), _checksum(stored[name])] for name, array in tensors.items()}
    try:
        body = json.dumps({"format": FORMAT, **pack(meta), "tensors": notes}, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: meta cannot be saved: {error}") from error
    rest = body[1:]
    codes = {name: _CODES[_STORED[tensors[name].dtype.name]] for name in stored}
    return _packed({"__metadata__": {"tdt": _HEAD % _crc(rest.encode()) + rest}}, codes, stored)


def _packed(entries: dict[str, Any], codes: Mapping[str, str], stored: Mapping[str, np.ndarray]) -> bytes:
    """A header with these entries and one for each array. codes: safetensors' names of the dtypes."""
    begin = 0
    for name, array in stored.items():
        shape = [*array.shape, 2] if array.dtype.kind == "c" else list(array.shape)
        entries[name] = {"dtype": codes[name], "shape": shape, "data_offsets": [begin, begin + array.nbytes]}
        begin += array.nbytes
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def _stored(path: Path, name: str, array: np.ndarray) -> np.ndarray:
    """`array` in its stored dtype (bfloat16 as uint16), any strides and byte order. Raises CheckpointError for others."""
    import numpy as np

    if not isinstance(array, np.ndarray) or array.dtype.name not in _STORED:
        what = f"{array.dtype} array" if isinstance(array, np.ndarray) else type(array).__name__
        raise CheckpointError(f"{path}: {name} is a {what}; expected a NumPy array of {', '.join(_STORED)}")
    return array.view("uint16") if array.dtype.name == "bfloat16" else array


def _chunks(array: np.ndarray) -> Iterator[np.ndarray]:
    """The array's bytes, little-endian and in C order, a chunk at a time; the whole is never copied."""
    import numpy as np

    little = array.dtype.newbyteorder("<")
    if array.flags.c_contiguous and array.dtype == little:
        flat = array.reshape(-1).view("uint8")
        yield from (flat[begin : begin + _CHUNK] for begin in range(0, len(flat), _CHUNK))
        return
    flags: Any = ["external_loop", "buffered", "zerosize_ok"]
    elements = _CHUNK // array.itemsize
    for part in np.nditer(array, flags, order="C", op_dtypes=[little], casting="equiv", buffersize=elements):
        yield np.ascontiguousarray(part).view("uint8")


def _restore(path: Path, name: str, array: np.ndarray, note: Any) -> np.ndarray:
    """The array `name`, as it was handed to `save`; CheckpointError where anything differs from its note."""
    import numpy as np

    dtype, shape, crc = note
    complex_ = dtype.startswith("complex")
    expected = (_STORED.get(dtype), [*shape, 2] if complex_ else shape)
    if (array.dtype.name, list(array.shape)) != expected:
        is_ = f"{array.dtype.name} {list(array.shape)}"
        raise _damaged(path, f"damaged: {name} is {is_} where {dtype} {shape} was saved")
    if _checksum(array) != crc:
        raise _damaged(path, f"damaged: the values of {name} do not match their checksum")
    if dtype == "bfloat16":
        import ml_dtypes

        return array.view(ml_dtypes.bfloat16)
    return array.view(np.dtype(dtype)).reshape(shape) if complex_ else array


def _read_meta(path: Path, metadata: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """(meta, notes about the tensors) from the header's string table."""
    if not isinstance(metadata, dict) or set(metadata) != {"tdt"}:
        found = sorted(metadata) if metadata else "none"
        raise _damaged(path, f"no checkpoint of tdt: expected one metadata key 'tdt', got {found}")
    text = metadata["tdt"]
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"damaged: its metadata is no JSON: {error}") from error
    version = body.get("format") if isinstance(body, dict) else None
    if isinstance(version, int) and version > FORMAT:
        raise CheckpointError(
            f"{path}: written by a newer tdt (format {version}; this one reads up to {FORMAT}), or damaged; "
            "install a newer tdt"
        )
    head = re.match(_HEAD % "([0-9a-f]{8})", text)
    if head is None or head[1] != _crc(text[head.end() :].encode()):
        raise _damaged(path, "damaged: its metadata does not match its checksum")
    if version != FORMAT or not isinstance(body.get("tensors"), dict):
        raise _damaged(path, f"metadata lacks 'format' or 'tensors'; expected format {FORMAT}")
    notes = body["tensors"]
    meta = {key: unpack(value) for key, value in body.items() if key not in _RESERVED}
    return meta, notes


def _same_names(path: Path, present: set[str], noted: set[str]) -> None:
    if present != noted:
        lost, extra = sorted(noted - present), sorted(present - noted)
        raise _damaged(path, f"damaged: tensors missing {lost[:3]}, unknown {extra[:3]}")


def _checksum(array: np.ndarray) -> str:
    import google_crc32c

    value = 0
    for chunk in _chunks(array):
        value = google_crc32c.extend(value, chunk)
    return f"{value:08x}"


def _crc(data: bytes) -> str:
    import google_crc32c

    return f"{google_crc32c.value(data):08x}"
