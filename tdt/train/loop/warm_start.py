"""`weights: {from: …}`: start from the weights of another run or checkpoint."""

from __future__ import annotations

import fnmatch
import os
from typing import Any

import tdt
from tdt._core.tensor import wrap
from tdt._did_you_mean import closest
from tdt.train._types import Json
from tdt.train.config import ConfigErrors, Weights
from tdt.train.loop.parts import Parts
from tdt.train.loop.state import scored_prefix
from tdt.train.runs import checkpoint
from tdt.train.runs.checkpoint import CheckpointError
from tdt.train.runs.run import RunError, find_checkpoint


def warm_start(parts: Parts, root: str | os.PathLike[str]) -> Json | None:
    """Load the weights that the section `weights` names into the model.

    Args:
        root: the folder where runs are found by name.
    Returns:
        Which checkpoint was read and which names were loaded; None without a section `weights`.
    Raises:
        ConfigError: no such run, a pattern or prefix that matches nothing, a missing name, or another shape.
    """
    found = check_source(parts, root)
    if found is None:
        return None
    path, step, arrays = found
    own = parts.model.state_dict()
    with tdt.no_grad():
        for name, array in arrays.items():
            own[name].copy_(wrap(array))
    return {"checkpoint": path, "step": step, "taken": sorted(arrays)}


def check_source(parts: Parts, root: str | os.PathLike[str]) -> tuple[str, int, Json] | None:
    """The checkpoint's path and step, and the arrays that `warm_start` would load, by their names in the model.

    The model may be on the device meta. Raises as `warm_start`.
    """
    weights = parts.config.weights
    if weights is None:
        return None
    errors = ConfigErrors(parts.config)
    source = _read(weights, root, errors)
    errors.raise_if_any()
    assert source is not None
    path, step, found = source
    arrays = _choose(weights, _renamed(weights, found, errors), parts.model.state_dict(), errors)
    errors.raise_if_any()
    return path, step, arrays


def _read(weights: Weights, root: str | os.PathLike[str], errors: ConfigErrors) -> tuple[str, int, Json] | None:
    try:
        path = find_checkpoint(weights.source, root)
        tensors, meta = checkpoint.load(path)
    except (RunError, CheckpointError) as error:
        errors.add("weights.from", str(error), kind="file")
        return None
    prefix = f"{scored_prefix(tensors)}/"
    model = {name.removeprefix(prefix): array for name, array in tensors.items() if name.startswith(prefix)}
    return str(path.resolve()), meta["step"], model


def _renamed(weights: Weights, found: dict[str, Any], errors: ConfigErrors) -> Json:
    """The checkpoint's arrays with prefixes renamed by `map`: the first that matches, up to a dot or the whole name."""
    renamed, used = {}, set()
    for name, array in found.items():
        for old, new in weights.map.items():
            if name == old or name.startswith(old.rstrip(".") + "."):
                used.add(old)
                rest = name[len(old.rstrip(".")) :].lstrip(".")
                name = ".".join(filter(None, [new.rstrip("."), rest]))
                break
        renamed[name] = array
    for old in weights.map.keys() - used:
        near = closest(old, {name.rpartition(".")[0] for name in found} | set(found))
        errors.add(f"weights.map.{old}", f"no name in {weights.source} begins with '{old}'", near, kind="unused")
    return renamed


def _choose(weights: Weights, found: dict[str, Any], own: dict[str, Any], errors: ConfigErrors) -> Json:
    """The arrays in `found` that match `only` and the model."""
    patterns = weights.only or ("*",)
    for pattern in patterns:
        if not any(fnmatch.fnmatchcase(name, pattern) for name in own):
            near = closest(pattern, own)
            errors.add("weights.only", f"'{pattern}' matches no parameter of this model", near, kind="unused")
    chosen = {}
    for name, target in own.items():
        if not any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns):
            continue
        if name in found and found[name].shape == tuple(target.shape):
            chosen[name] = found[name]
        elif weights.strict and name not in found:
            message = f"{weights.source} has no {name}; rename with map, leave it out with only, or set strict: false"
            errors.add("weights", message, closest(name, found), kind="missing")
        elif weights.strict:
            shapes = f"{tuple(found[name].shape)} in {weights.source}, but {tuple(target.shape)} here"
            errors.add("weights", f"{name} is {shapes}; leave it out with only, or set strict: false", kind="shape")
    if not chosen and not errors:
        errors.add("weights", f"nothing in {weights.source} fits this model", kind="unused")
    return chosen
