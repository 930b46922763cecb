"""Evaluate on one's own file or folder: the dataset of the training with another path."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from tdt.train.config import Component, registry
from tdt.train.config.paths import path_parameters
from tdt.train.config.signatures import parameters_of
from tdt.train.config.source import Source
from tdt.train.config.splits import undivided

_OF_SPLITS = ("split", "valid", "test", "seed", "split_column", "stratify")


def is_path(text: str) -> bool:
    """Whether `text` names a file or a folder, not a dataset as in a config.

    >>> from tdt.train.data.own_files import is_path
    >>> is_path("new.csv"), is_path("Digits(split=test)"), is_path("Digits")
    (True, False, False)
    """
    if re.match(r"\w+\(", text) or text.startswith("{") or registry.datasets.find(text) is not None:
        return False
    return Path(text).exists() or bool(Path(text).suffix) or "/" in text


def with_path(component: Component, path: str) -> Component:
    """The dataset that reads all samples of `path` as `component` reads its file.

    Raises:
        LookupError: `component` reads no file.
    """
    component = undivided(component)
    target = registry.datasets.find(component.name)
    known = parameters_of(target)
    paths = path_parameters(target)
    if not paths:
        raise LookupError(
            f"{path}: the model was trained on {component}, which reads no file of your own; name the dataset too, as in "
            f"--data \"NPZ('{path}')\""
        )
    arguments = dict(zip(known, component.args, strict=False)) | component.kwargs
    arguments = {name: value for name, value in arguments.items() if name not in _OF_SPLITS} | {paths[0]: path}
    return replace(component, args=(), kwargs=arguments, key_path="", source=Source("--data"), arg_sources={})
