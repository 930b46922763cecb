"""A run's weights for other programs: a plain `.safetensors` file, or a folder as Hugging Face's libraries have it."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from tdt import nn
from tdt._about import __version__
from tdt._files import fsync_folder, replace_file
from tdt.text.models._api import TextModel
from tdt.train.export.deployed import Deployed, ExportError
from tdt.train.export.onnx_file import Exported
from tdt.train.runs.checkpoint import CheckpointError, save_plain

CONFIG, WEIGHTS, SETTINGS, TOKENIZER = "config.json", "model.safetensors", "tdt.yaml", "tokenizer.json"
HEADER = {"format": "pt"}  # which Hugging Face's libraries look for


def arrays_of(model: nn.Module, shared: bool = True) -> dict[str, np.ndarray]:
    """The parameters and buffers of a model by name. shared: whether one that has several names has an array for each."""
    found: dict[str, np.ndarray] = {}
    known: set[int] = set()
    for name, tensor in model.state_dict().items():
        if not shared and id(tensor._st) in known:
            continue
        known.add(id(tensor._st))
        found[name] = tensor.detach().cpu()._a
    return found


def write_file(deployed: Deployed, path: Path) -> Exported:
    """Write the model's weights, and nothing else, to a `.safetensors` file.

    Raises:
        ExportError: the format has no such dtype.
        OSError: the file cannot be written.
    """
    try:
        save_plain(path, arrays_of(deployed.model), HEADER)
    except CheckpointError as error:
        raise ExportError(str(error)) from error
    return Exported(path)


def write_folder(deployed: Deployed, path: Path) -> Exported:
    """Write the folder of a model: its configuration, weights, training config, and tokenizer if it has one.

    The folder is written under another name, and has its own at the end; an older export of that name is replaced.

    Raises:
        ExportError: `path` is there, and is no exported model; or the format has no such dtype.
        OSError: the folder cannot be written.
    """
    if path.exists() and not is_export(path):
        raise ExportError(f"{path}: is not a folder that tdt export wrote; it is not replaced")
    temporary, old = (path.with_name(f".{path.name}.{os.getpid()}.{ending}") for ending in ("tmp", "old"))
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir()
        _fill(deployed, temporary)
        if path.exists():
            os.replace(path, old)
        os.replace(temporary, path)
        fsync_folder(path.absolute().parent)
    except CheckpointError as error:
        raise ExportError(str(error)) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        if old.exists() and path.exists():
            shutil.rmtree(old, ignore_errors=True)
        elif old.exists():
            os.replace(old, path)
    is_theirs = isinstance(deployed.model, TextModel)
    notes = [] if is_theirs else ["transformers has no such architecture; tdt and safetensors read the folder"]
    return Exported(path, notes=notes)


def is_export(path: Path) -> bool:
    """Whether a folder holds what `write_folder` writes, and nothing else."""
    names = {file.name for file in path.iterdir()} if path.is_dir() else set()
    return {CONFIG, WEIGHTS, SETTINGS} <= names <= {CONFIG, WEIGHTS, SETTINGS, TOKENIZER}


def _fill(deployed: Deployed, folder: Path) -> None:
    predictor = deployed.predictor
    text = json.dumps(configuration(deployed), indent=2, ensure_ascii=False) + "\n"
    replace_file(folder / CONFIG, text.encode())
    save_plain(folder / WEIGHTS, arrays_of(deployed.model, shared=False), HEADER)
    replace_file(folder / SETTINGS, predictor.config.resolved().encode())
    tokenizer = getattr(predictor.dataset, "tokenizer", None)
    if tokenizer is not None:
        replace_file(folder / TOKENIZER, tokenizer.content.encode())


def configuration(deployed: Deployed) -> dict[str, Any]:
    """The contents of `config.json`: for an architecture of Hugging Face's with its keys, so that transformers loads it."""
    model, facts = deployed.model, deployed.predictor.facts
    dtype = next((p.dtype for p in model.parameters()), None)
    found: dict[str, Any] = {"architectures": [type(model).__name__], "model_type": "tdt", "tdt_version": __version__}
    if isinstance(model, TextModel):
        found["model_type"] = model.config.model_type
        found |= {key: value for key, value in asdict(model.config).items() if key not in ("class_dim", "num_labels")}
        if model.head == "classification" and not facts["classes"]:
            found["num_labels"] = model.config.num_labels
    else:
        found |= {
            key: _plain(value) for key, value in deployed.metadata().items() if key not in ("classes", "tdt_version")
        }
    if facts["classes"]:
        found["id2label"] = {str(number): name for number, name in enumerate(facts["classes"])}
        found["label2id"] = {name: number for number, name in enumerate(facts["classes"])}
    if dtype is not None:
        found["dtype"] = str(dtype).rpartition(".")[2]
    return found


def _plain(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


__all__ = ["configuration", "is_export", "write_file", "write_folder"]
