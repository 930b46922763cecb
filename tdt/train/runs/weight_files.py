"""Files of weights of any program: `.safetensors`, whole or in parts, and PyTorch's `.pt`, `.pth` and `.bin`.

No code from a file is executed: PyTorch's are read by `tdt.load(weights_only=True)`.
"""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tdt
from tdt import Tensor
from tdt._core.tensor import wrap
from tdt.train._printable import shortened
from tdt.train.runs import checkpoint
from tdt.train.runs.checkpoint import CheckpointError
from tdt.train.runs.run import ROOT, find_checkpoint

PYTORCH = (".pt", ".pth", ".bin", ".ckpt", ".tar")  # endings of files that torch.save wrote
INDEX = ".index.json"  # ending of the list of parts of a file
# Names of a file in a folder of weights, the first that is there.
MAIN = ("model.safetensors", "model.safetensors" + INDEX, "pytorch_model.bin", "pytorch_model.bin" + INDEX)
NESTED = ("state_dict", "model_state_dict", "model", "module", "net", "network", "weights")  # keys of a state_dict
_LARGEST_INDEX = 1 << 26  # bytes


@dataclass(frozen=True)
class WeightFile:
    """Tensors by name. files: the paths that they were read from. meta: of a checkpoint of tdt, else None."""

    files: tuple[str, ...]
    tensors: dict[str, Tensor]
    meta: dict[str, Any] | None = None


def read(where: str | os.PathLike[str], root: str | os.PathLike[str] = ROOT) -> WeightFile:
    """The tensors of a run in the folder `root`, or of a file or folder of weights.

    The names of a checkpoint of tdt have its prefixes `model/`, `ema/`, ….

    Raises:
        RunError: there is no such run.
        CheckpointError: the file is missing, damaged, or holds something else than tensors.

    >>> import tempfile, tdt
    >>> from tdt.train.runs.weight_files import read
    >>> path = tempfile.mkdtemp() + "/model.pt"
    >>> tdt.save({"epoch": 3, "state_dict": {"weight": tdt.ones(2)}}, path)
    >>> read(path).tensors
    {'weight': tensor([1., 1.])}
    """
    path = _main_file(Path(where))
    if path.suffix in (*PYTORCH, ".json") and not path.exists():
        raise CheckpointError(f"{where}: no such file")
    path = find_checkpoint(path, root)
    if path.name.endswith(".json"):
        return _read_parts(path)
    if _is_safetensors(path):
        if checkpoint.is_checkpoint(path):
            arrays, meta = checkpoint.load(path)
            return WeightFile((str(path.resolve()),), _wrapped(arrays), meta)
        arrays = checkpoint.load_plain(path)
        return WeightFile((str(path.resolve()),), _wrapped(arrays))
    return WeightFile((str(path.resolve()),), _read_pytorch(path))


def _main_file(path: Path) -> Path:
    """The file of weights in a folder, if `path` is one and has one that stands out; else `path`."""
    if not path.is_dir() or (path / "config.yaml").exists():  # a run
        return path
    for name in MAIN:
        if (path / name).is_file():
            return path / name
    found = sorted(file for file in path.iterdir() if file.suffix == ".safetensors" or file.suffix in PYTORCH)
    if len(found) > 1:
        names = ", ".join(file.name for file in found[:5])
        raise CheckpointError(f"{path}: has several files of weights; give one of them, or their index: {names}")
    return found[0] if found else path


def _is_safetensors(path: Path) -> bool:
    """Whether the file begins as safetensors' do: the length of a JSON object, and the object."""
    if path.suffix in PYTORCH:
        try:
            with open(path, "rb") as file:
                return file.read(9)[8:] == b"{"
        except OSError as error:
            raise CheckpointError(f"{path}: cannot be read: {error.strerror}") from error
    return True


def _wrapped(arrays: Mapping[str, Any]) -> dict[str, Tensor]:
    return {name: wrap(array) for name, array in arrays.items()}


def _read_pytorch(path: Path) -> dict[str, Tensor]:
    try:
        value = tdt.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        why = str(error).strip().splitlines()[0]
        raise CheckpointError(
            f"{path}: {why}; only tensors are read from such a file: save model.state_dict() in PyTorch", damaged=True
        ) from error
    except (RuntimeError, EOFError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{path}: cannot be read: {error}", damaged=True) from error
    except (OSError, MemoryError) as error:
        why = "not enough memory" if isinstance(error, MemoryError) else error.strerror or str(error)
        raise CheckpointError(f"{path}: cannot be read: {why}") from error
    tensors = _state_dict(value)
    if not tensors:
        got = f"a dictionary with the keys {shortened(', '.join(map(repr, value)))}" if isinstance(value, dict) else ""
        raise CheckpointError(
            f"{path}: holds no tensors by name; expected a state_dict, also under one of the keys {', '.join(NESTED)}; "
            f"got {got or type(value).__name__}"
        )
    without = next((name for name, tensor in tensors.items() if tensor.is_meta), None)
    if without is not None:
        raise CheckpointError(f"{path}: {without} has no values: it was saved on the device meta")
    return tensors


def _state_dict(value: Any, depth: int = 3) -> dict[str, Tensor]:
    """The tensors by name in what a program saved: the dictionary itself, or one in it under a usual key."""
    if not isinstance(value, dict) or depth == 0:
        return {}
    for key in NESTED:
        if inner := _state_dict(value.get(key), depth - 1):
            return inner
    found = {name: one for name, one in value.items() if isinstance(name, str) and isinstance(one, Tensor)}
    return {name: (one.to_dense() if one.is_sparse else one).detach() for name, one in found.items()}


def _read_parts(path: Path) -> WeightFile:
    """The tensors of the files that an index lists, all in its own folder."""
    parts = _parts(path)
    files, tensors = [], {}
    for part in sorted(set(parts.values())):
        file = path.parent / part
        if not file.is_file():
            raise CheckpointError(f"{path}: lists {part}, which is not in its folder")
        if file.suffix not in (".safetensors", *PYTORCH):
            raise CheckpointError(f"{path}: lists {part}; expected .safetensors or {', '.join(PYTORCH)}")
        found = _wrapped(checkpoint.load_plain(file)) if _is_safetensors(file) else _read_pytorch(file)
        for name in (name for name, its_part in parts.items() if its_part == part):
            if name not in found:
                raise CheckpointError(f"{file}: has no {name}, which {path.name} says is there", damaged=True)
            tensors[name] = found[name]
        files.append(str(file.resolve()))
    return WeightFile((str(path.resolve()), *files), tensors)


def _parts(path: Path) -> dict[str, str]:
    """Name of a tensor → name of its file, from an index."""
    try:
        with open(path, "rb") as file:
            text = file.read(_LARGEST_INDEX + 1)
        if len(text) > _LARGEST_INDEX:
            raise CheckpointError(f"{path}: larger than an index is: more than {_LARGEST_INDEX >> 20} MiB")
        index = json.loads(text)
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: is no index of weights: no JSON: {error}", damaged=True) from error
    parts = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(parts, dict) or not parts or not all(isinstance(part, str) for part in parts.values()):
        raise CheckpointError(
            f"{path}: is no index of weights: expected weight_map, from names of tensors to names of files",
            damaged=True,
        )
    outside = next((part for part in parts.values() if part in ("", ".", "..") or {"/", "\\", "\0"} & set(part)), None)
    if outside is not None:
        raise CheckpointError(f"{path}: lists {outside!r}; expected names of files in its own folder", damaged=True)
    return parts
