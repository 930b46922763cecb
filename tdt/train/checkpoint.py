"""Checkpoints: arrays and JSON in one `.safetensors` file, written whole or not at all, and the folder of a run's.

    model/<key>  optimizer/<state>/<parameter name>  ema/<key>  rng/<name>      the arrays
    __metadata__ = {"tdt": "{crc32c, format, tensors: {name: [dtype, shape, crc32c]}, …}"}   all else, as JSON

safetensors' NumPy front is called here alone, for it silently corrupts strided and Fortran arrays, cannot load
bfloat16, refuses complex128 and notices no flipped bit. So arrays are made contiguous and little-endian, bfloat16
is stored as uint16 and complex numbers as pairs of floats, the entry `tensors` notes what each one was, and
checksums (CRC-32C) over the JSON and over each array are verified on loading.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tdt.train._fault import fault_point
from tdt.train._strict_json import pack, unpack
from tdt.utils._files import fsync_folder, write_whole

if TYPE_CHECKING:
    import numpy as np

FORMAT = 1
_RESERVED = ("crc32c", "format", "tensors")
_HEAD = '{"crc32c": "%s", '
# dtype -> the dtype it is stored as, with a last dimension of 2 for the complex ones
_STORED = {
    **{name: name for name in ("bool", "float16", "float32", "float64")},
    **{f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "bfloat16": "uint16",
    "complex64": "float32",
    "complex128": "float64",
}


class CheckpointError(Exception):
    """A checkpoint that cannot be written, found, read or believed; the message names the file and the reason."""


def save(path: str | os.PathLike[str], tensors: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> None:
    """Write `tensors` and `meta` to `path`, so that whatever happens the file is the old one or the whole new one.

    meta: dicts with string keys, lists, strings, numbers (any float, also inf and nan), bools, None; tuples come back
    as lists. The file is written under another name in the same folder, fsynced and renamed; then the folder is
    fsynced. Raises CheckpointError for contents that would not come back equal, and where the disk is full or fails.

    >>> import tempfile, numpy as np
    >>> path = tempfile.mkdtemp() + "/x.safetensors"
    >>> save(path, {"model/weight": np.ones((2, 2), np.float32).T}, {"step": 7})
    >>> tensors, meta = load(path)
    >>> tensors["model/weight"].tolist(), meta
    ([[1.0, 1.0], [1.0, 1.0]], {'step': 7})
    """
    path = Path(path)
    data = _serialize(path, tensors, meta)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb", buffering=0) as file:
            write_whole(file, data[: len(data) // 2])
            fault_point("checkpoint.write")
            write_whole(file, data[len(data) // 2 :])
            os.fsync(file.fileno())
        os.replace(temporary, path)
        fsync_folder(path.parent)
    except OSError as error:
        what = f"could not write {len(data):,} bytes: {error.strerror or error}"
        raise CheckpointError(f"{path}: {what}; checkpoints written before are whole") from error
    finally:
        temporary.unlink(missing_ok=True)


def load(path: str | os.PathLike[str]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The (tensors, meta) that `save` was given, every checksum verified.

    Raises CheckpointError for a file that is missing, truncated, damaged, no checkpoint of tdt, or of a newer format.
    """
    import safetensors
    import safetensors.numpy  # the front for NumPy; imports it

    path = Path(path)
    if not path.is_file():
        what = "is a folder; a checkpoint is a file" if path.is_dir() else "no such checkpoint file"
        raise CheckpointError(f"{path}: {what}")
    try:
        path.open("rb").close()  # safetensors takes a file that may not be read for one that is missing
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        with safetensors.safe_open(str(path), framework="np") as file:
            meta, notes = _read_meta(path, file.metadata())
            _same_names(path, set(file.keys()), set(notes))
            tensors = {name: _restore(path, name, file, note) for name, note in notes.items()}
    except (safetensors.SafetensorError, OSError, ValueError, MemoryError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path}: damaged or no checkpoint: {error}") from error
    return tensors, meta


def make_folder(folder: Path) -> None:
    """Make a folder within a run's, unless it is there; CheckpointError where the run's own has been removed."""
    if folder.is_dir():
        return
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        gone = isinstance(error, FileNotFoundError)
        what = f"{folder.parent} has been removed" if gone else error.strerror or str(error)
        raise CheckpointError(f"{folder}: could not be made: {what}") from error
    fsync_folder(folder.parent)


class CheckpointStore:
    """The checkpoints of one run: `step-<n>.safetensors`, and the names `last` and `best` for two of them.

    folder: made by the first `save`. keep: so many step files stay, None for all; what `best` and `last` name is kept
    whatever its age, since they are hard links (copies, where the file system has none).

    >>> import tempfile
    >>> store = CheckpointStore(tempfile.mkdtemp(), keep=2)
    >>> for step in (10, 20, 30):
    ...     _ = store.save(step, {}, {"step": step}, best=step == 10)
    >>> store.steps(), load(store.resolve("best"))[1]
    ([20, 30], {'step': 10})
    """

    def __init__(self, folder: str | os.PathLike[str], keep: int | None = 3) -> None:
        if keep is not None and keep < 1:
            raise ValueError(f"keep must be at least 1, or None for all, got {keep}")
        self.folder = Path(folder)
        self.keep = keep

    def save(
        self, step: int, tensors: Mapping[str, np.ndarray], meta: Mapping[str, Any], *, best: bool = False
    ) -> Path:
        """Write the checkpoint of `step`, make it `last`, with `best` also the best, and drop those too many.

        Step files beyond `step` are dropped too: they belong to a course of training that a resume has abandoned.
        Returns the file's path. Raises CheckpointError; then `last` and `best` are what they were, or whole and new.
        """
        make_folder(self.folder)
        path = self._step_file(step)
        save(path, tensors, meta)
        fault_point("checkpoint.renamed")
        try:
            # best before last: killed in between, a resume starts at the older one and comes to this step again
            for name in ("best", "last") if best else ("last",):
                self._point(name, path)
            self._prune(step)
            fsync_folder(self.folder)
        except OSError as error:
            raise CheckpointError(f"{path}: written, but not linked as last: {error.strerror or error}") from error
        return path

    def steps(self) -> list[int]:
        """The steps that have a file, ascending."""
        found = (re.fullmatch(r"step-(\d{8,})\.safetensors", path.name) for path in self.folder.glob("step-*"))
        return sorted(int(match[1]) for match in found if match)

    def resolve(self, which: str | os.PathLike[str] = "last") -> Path:
        """The file of "last" or "best", or the path `which` itself. Raises CheckpointError where there is none."""
        if which in ("last", "best"):
            path = self.folder / f"{which}.safetensors"
            if path.exists():
                return path
            if which == "last" and self.steps():  # killed between the first file's rename and its link
                return self._step_file(self.steps()[-1])
        elif Path(which).is_file():
            return Path(which)
        have = [name for name in ("best", "last") if (self.folder / f"{name}.safetensors").exists()]
        there = ", ".join([*have, *(f"step {step}" for step in self.steps())]) or "no checkpoint"
        raise CheckpointError(f"no checkpoint {str(which)!r}; {self.folder} has {there}")

    def clean(self) -> None:
        """Remove what a killed process left half-written. Only for who holds the run's lock."""
        for path in self.folder.rglob(".*.tmp"):
            path.unlink(missing_ok=True)

    def _step_file(self, step: int) -> Path:
        return self.folder / f"step-{step:08d}.safetensors"

    def _point(self, name: str, target: Path) -> None:
        link = self.folder / f"{name}.safetensors"
        temporary = self.folder / f".{link.name}.{os.getpid()}.tmp"
        temporary.unlink(missing_ok=True)
        try:
            os.link(target, temporary)
        except OSError:  # no hard links here, as on FAT and some network folders
            shutil.copyfile(target, temporary)
            with open(temporary, "rb+") as file:
                os.fsync(file.fileno())
        os.replace(temporary, link)
        temporary.unlink(missing_ok=True)  # POSIX leaves it where both were one file already

    def _prune(self, newest: int) -> None:
        steps = self.steps()
        current = [step for step in steps if step <= newest]
        kept = current if self.keep is None else current[-self.keep :]
        for step in set(steps) - set(kept):
            self._step_file(step).unlink(missing_ok=True)


def _serialize(path: Path, tensors: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> memoryview:
    import safetensors.numpy

    stored, notes = {}, {}
    for name, array in tensors.items():
        stored[name] = _to_stored(path, name, array)
        notes[name] = [array.dtype.name, list(array.shape), _checksum(stored[name])]
    for key in _RESERVED:
        if key in meta:
            raise CheckpointError(f"{path}: meta key {key!r} is the format's own; choose another")
    try:
        body = json.dumps({"format": FORMAT, **pack(meta), "tensors": notes}, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: meta cannot be saved: {error}") from error
    rest = body[1:]
    text = _HEAD % _crc(rest.encode()) + rest
    return memoryview(safetensors.numpy.save(stored, metadata={"tdt": text}))


def _to_stored(path: Path, name: str, array: np.ndarray) -> np.ndarray:
    """`array` as safetensors keeps it safely: little-endian, C-contiguous, of a dtype that it knows."""
    import numpy as np

    if not isinstance(array, np.ndarray) or array.dtype.name not in _STORED:
        what = f"{array.dtype} array" if isinstance(array, np.ndarray) else type(array).__name__
        raise CheckpointError(f"{path}: {name} is a {what}; expected a NumPy array of {', '.join(_STORED)}")
    dtype = array.dtype.newbyteorder("<") if array.dtype.name != "bfloat16" else array.dtype
    # order="C" copies strided, Fortran and broadcast arrays; ascontiguousarray would make 0-d arrays 1-d
    whole = np.asarray(array, dtype=dtype, order="C")
    if array.dtype.kind == "c":
        return whole.reshape((*whole.shape, 1)).view(_STORED[array.dtype.name])
    return whole.view("uint16") if array.dtype.name == "bfloat16" else whole


def _restore(path: Path, name: str, file: Any, note: Any) -> np.ndarray:
    """The array `name`, as it was handed to `save`; CheckpointError where anything differs from its note."""
    import numpy as np

    dtype, shape, crc = note
    array = file.get_tensor(name)
    complex_ = dtype.startswith("complex")
    expected = (_STORED.get(dtype), [*shape, 2] if complex_ else shape)
    if (array.dtype.name, list(array.shape)) != expected:
        raise CheckpointError(
            f"{path}: damaged: {name} is {array.dtype.name} {list(array.shape)} where {dtype} {shape} was saved"
        )
    if _checksum(array) != crc:
        raise CheckpointError(f"{path}: damaged: the values of {name} do not match their checksum")
    if dtype == "bfloat16":
        import ml_dtypes

        return array.view(ml_dtypes.bfloat16)
    return array.view(np.dtype(dtype)).reshape(shape) if complex_ else array


def _read_meta(path: Path, metadata: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """(meta, notes about the tensors) from the header's string table."""
    if not isinstance(metadata, dict) or set(metadata) != {"tdt"}:
        found = sorted(metadata) if metadata else "none"
        raise CheckpointError(f"{path}: no checkpoint of tdt: expected one metadata key 'tdt', got {found}")
    text = metadata["tdt"]
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: damaged: its metadata is no JSON: {error}") from error
    version = body.get("format") if isinstance(body, dict) else None
    if isinstance(version, int) and version > FORMAT:
        raise CheckpointError(
            f"{path}: written by a newer tdt (format {version}; this one reads up to {FORMAT}), or damaged; "
            "install a newer tdt"
        )
    head = re.match(_HEAD % "([0-9a-f]{8})", text)
    if head is None or head[1] != _crc(text[head.end() :].encode()):
        raise CheckpointError(f"{path}: damaged: its metadata does not match its checksum")
    if version != FORMAT or not isinstance(body.get("tensors"), dict):
        raise CheckpointError(f"{path}: metadata lacks 'format' or 'tensors'; expected format {FORMAT}")
    notes = body["tensors"]
    meta = {key: unpack(value) for key, value in body.items() if key not in _RESERVED}
    return meta, notes


def _same_names(path: Path, present: set[str], noted: set[str]) -> None:
    if present != noted:
        lost, extra = sorted(noted - present), sorted(present - noted)
        raise CheckpointError(f"{path}: damaged: tensors missing {lost[:3]}, unknown {extra[:3]}")


def _checksum(array: np.ndarray) -> str:
    return _crc(array.reshape(-1).view("uint8"))


def _crc(data: bytes | np.ndarray) -> str:
    import google_crc32c

    return f"{google_crc32c.value(data):08x}"
