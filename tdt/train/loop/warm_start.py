"""`weights: {from: …}`: start from the weights of a run, a checkpoint, or a file of another program."""

from __future__ import annotations

import fnmatch
import itertools
import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tdt
from tdt import Tensor, nn
from tdt._did_you_mean import closest
from tdt.train._printable import counted
from tdt.train._types import Json
from tdt.train.config import ConfigErrors, Weights
from tdt.train.data.fingerprints import fingerprints
from tdt.train.loop.parts import Parts
from tdt.train.loop.state import scored_prefix
from tdt.train.runs import weight_files
from tdt.train.runs.checkpoint import CheckpointError
from tdt.train.runs.run import RunError

PREFIXES = (
    "module.",
    "model.",
    "_orig_mod.",
    "backbone.",
)  # of DataParallel, Lightning, torch.compile, and trained parts
MOST = 10  # names of a kind in messages
# Buffers that files may lack: they keep the values that the model gives them. PyTorch before 0.4.1 did not save the first.
COMPUTED = ("num_batches_tracked", "relative_position_index", "relative_coords_table")


@dataclass(frozen=True)
class Loading:
    """Which tensors of a file become the model's.

    path, files: what was read. step: of a checkpoint of tdt, else None. tensors: those to load, by their names in the model.
    changes: what was done to the file's names: a prefix removed or added, those of a library replaced. initial: the model's
    names and shapes that keep their initial values → the reason. unused: names and shapes in the file that the model does not
    take.
    """

    path: str
    files: tuple[str, ...]
    step: int | None
    tensors: Mapping[str, Tensor]
    changes: tuple[str, ...]
    initial: Mapping[str, str]
    unused: Mapping[str, tuple[int, ...]]

    def record(self) -> Json:
        """What the run keeps of it, with the fingerprint of the files."""
        return {
            "checkpoint": self.path,
            "step": self.step,
            "taken": sorted(self.tensors),
            "initial": sorted(self.initial),
            "unused": sorted(self.unused),
            "file": fingerprints({"weights": self.files})["weights"],
        }

    def lines(self) -> list[str]:
        """How many tensors are loaded; and a line for each that is not, on either side."""
        changes = "".join(f", {change}" for change in self.changes)
        if not self.initial and not self.unused:
            return [f"weights: all {counted(len(self.tensors), 'tensor')} from {self.path}{changes}"]
        total = len(self.tensors) + len(self.initial)
        head = f"weights: {len(self.tensors)} of {counted(total, 'tensor')} from {self.path}{changes}"
        unused = {name: f"{shape} in the file, unused" for name, shape in self.unused.items()}
        width = max(map(len, _first(self.initial) + _first(unused)))
        return [head, *_rows(self.initial, width), *_rows(unused, width)]


def _first(names: Mapping[str, str]) -> list[str]:
    return list(names)[:MOST]


def _rows(rows: Mapping[str, str], width: int) -> list[str]:
    shown = [f"  {name:{width}}  {rows[name]}" for name in _first(rows)]
    return [*shown, f"  … and {len(rows) - MOST} more"] if len(rows) > MOST else shown


def warm_start(parts: Parts, root: str | os.PathLike[str]) -> Loading | None:
    """Load the weights that the section `weights` names into the model.

    Args:
        root: the folder where runs are found by name.
    Returns:
        What was loaded; None without a section `weights`.
    Raises:
        ConfigError: no such file or run, a pattern or prefix that matches nothing, a missing name, or another shape.
    """
    loading = check_source(parts, root)
    if loading is None:
        return None
    own = parts.model.state_dict()
    with tdt.no_grad():
        for name, tensor in loading.tensors.items():
            own[name].copy_(tensor)
    return loading


def check_source(parts: Parts, root: str | os.PathLike[str]) -> Loading | None:
    """What `warm_start` would load. The model may be on the device meta. Raises as `warm_start`."""
    weights = parts.config.weights
    if weights is None:
        return None
    errors = ConfigErrors(parts.config)
    source = _read(weights, root, errors)
    errors.raise_if_any()
    assert source is not None
    own = parts.model.state_dict()
    changes, found = _best_names(weights, source.tensors, own, errors)
    chosen, initial = _choose(weights, found, own, _names_of_same(parts.model), errors)
    errors.raise_if_any()
    unused = {name: tuple(tensor.shape) for name, tensor in found.items() if name not in own}
    step = source.meta["step"] if source.meta else None
    return Loading(source.files[0], source.files, step, chosen, changes, initial, unused)


def _read(weights: Weights, root: str | os.PathLike[str], errors: ConfigErrors) -> weight_files.WeightFile | None:
    try:
        source = weight_files.read(weights.source, root)
    except (RunError, CheckpointError) as error:
        errors.add("weights.from", str(error), kind="file")
        return None
    if source.meta is None:
        return source
    prefix = f"{scored_prefix(source.tensors)}/"
    model = {name.removeprefix(prefix): one for name, one in source.tensors.items() if name.startswith(prefix)}
    return weight_files.WeightFile(source.files, model, source.meta)


Candidate = tuple[tuple[str, ...], dict[str, Tensor]]  # changes of names, and the tensors by the changed names


def _best_names(
    weights: Weights, found: dict[str, Tensor], own: Mapping[str, Tensor], errors: ConfigErrors
) -> Candidate:
    """The changes of names that make most names and shapes match, the first of those that are equally good."""
    most, best, tensors = (-1, -1), tuple[str, ...](), found
    for changes, candidate in _candidates(found, own):
        renamed = _renamed(weights, candidate)[0]
        both = [name for name in renamed if name in own]
        matching = sum(renamed[name].shape == own[name].shape for name in both), len(both)
        if matching > most:
            most, best, tensors = matching, changes, candidate
        if matching[0] == len(own):
            break
    renamed, unused, doubled = _renamed(weights, tensors)
    for old in unused:
        near = closest(old, {name.rpartition(".")[0] for name in tensors} | set(tensors))
        errors.add(f"weights.map.{old}", f"no name in {weights.source} begins with '{old}'", near, kind="unused")
    for name in doubled:
        errors.add("weights.map", f"two names in {weights.source} would both be {name}", kind="bad-value")
    return best, renamed


def _candidates(found: dict[str, Tensor], own: Mapping[str, Tensor]) -> Iterator[Candidate]:
    """The tensors as they are; with up to three prefixes removed from the names that have them; with the names of another
    library replaced by torchvision's; with a prefix of most of the model's own names put before all: of a part's file."""
    from tdt.vision.models._names import renamed as renamed_by_library  # on use: it loads all networks

    for first, stripped in _without_prefixes(found):
        libraries = ((f"a file of {what}", tensors) for what, tensors in renamed_by_library(stripped))
        for second, tensors in (("", stripped), *libraries):
            yield tuple(filter(None, (first, second))), tensors
            for prefix in _own_prefixes(own):
                added = {prefix + name: tensor for name, tensor in tensors.items()}
                yield tuple(filter(None, (first, second, f"with {prefix!r} put before its names"))), added


def _without_prefixes(found: dict[str, Tensor]) -> Iterator[tuple[str, dict[str, Tensor]]]:
    for count in range(4):
        for prefixes in itertools.product(PREFIXES, repeat=count):
            removed = "".join(prefixes)
            stripped = {name.removeprefix(removed): tensor for name, tensor in found.items()}
            if len(stripped) == len(found) and (not removed or any(name.startswith(removed) for name in found)):
                yield f"with {removed!r} removed from its names" if removed else "", stripped


def _own_prefixes(own: Mapping[str, Tensor]) -> list[str]:
    """The first part, or the first two, that most of the names begin with."""
    beginnings = Counter(
        ".".join(parts[:depth]) + "."
        for parts in (name.split(".") for name in own)
        for depth in (1, 2)
        if len(parts) > depth
    )
    return [beginning for beginning, count in beginnings.items() if count > len(own) / 2]


def _names_of_same(model: nn.Module) -> dict[str, set[str]]:
    """The names of each parameter that has several: tied weights."""
    names: dict[int, set[str]] = defaultdict(set)
    for name, p in model.named_parameters(remove_duplicate=False):
        names[id(p)].add(name)
    return {name: same - {name} for same in names.values() for name in same if len(same) > 1}


def _renamed(weights: Weights, found: dict[str, Tensor]) -> tuple[dict[str, Tensor], list[str], list[str]]:
    """The tensors with prefixes renamed by `map`: the first that matches, up to a dot or the whole name. And the
    prefixes that match nothing, and the names that two tensors would have."""
    renamed: dict[str, Tensor] = {}
    used, doubled = set(), []
    for old_name, tensor in found.items():
        name = old_name
        for old, new in weights.map.items():
            prefix = "" if old == "*" else old.rstrip(".")
            if not prefix or name == old or name.startswith(prefix + "."):
                used.add(old)
                name = ".".join(filter(None, [new.rstrip("."), name[len(prefix) :].lstrip(".")]))
                break
        if name in renamed:
            doubled.append(name)
        renamed[name] = tensor
    return renamed, [old for old in weights.map if old not in used], doubled


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _choose(
    weights: Weights,
    found: Mapping[str, Tensor],
    own: Mapping[str, Tensor],
    tied: Mapping[str, set[str]],
    errors: ConfigErrors,
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors in `found` that match `only`, not `skip`, and the model; and why other names keep their values.

    tied: other names of the same parameter, of which one is enough.
    """
    to_load = _names_to_load(weights, found, own, errors)
    if errors:
        return {}, {}
    both = [name for name in to_load if name in found]
    chosen = {name: found[name] for name in both if _difference(found[name], own[name]) is None}
    initial, missing, mismatched = {}, {}, {}
    for name in (name for name in own if name not in chosen):
        here = f"{tuple(own[name].shape)} here"
        if name in both:
            there, target = _difference(found[name], own[name]) or (None, None)
            mismatched[name] = initial[name] = f"{target} here, {there} in the file, initial values"
        elif tied.get(name, set()) & chosen.keys():
            continue
        elif name not in to_load:
            in_file = f", {tuple(found[name].shape)} in the file" if name in found else ""
            why = "not in only" if not _matches(name, weights.only or "*") else "in skip"
            initial[name] = f"{here}{in_file}, initial values: {why}"
        elif not name.endswith(COMPUTED):
            missing[name] = initial[name] = f"{here}, initial values: not in the file"
    _check_tied(weights, chosen, tied, errors)
    if weights.strict:
        _report(weights, found, missing, mismatched, own, errors)
    if not chosen and not errors:
        errors.add("weights", f"nothing in {weights.source} fits this model", kind="unused")
    return chosen, initial


def _check_tied(
    weights: Weights, chosen: Mapping[str, Tensor], tied: Mapping[str, set[str]], errors: ConfigErrors
) -> None:
    """Report different tensors in the file for one parameter of the model."""
    for name, others in tied.items():
        for other in others & chosen.keys():
            if name in chosen and name < other and not tdt.equal(chosen[name], chosen[other]):
                message = f"{name} and {other} are one parameter here, but differ in {weights.source}; leave one out with skip"
                errors.add("weights", message, kind="bad-value")


def _names_to_load(
    weights: Weights, found: Mapping[str, Any], own: Mapping[str, Any], errors: ConfigErrors
) -> list[str]:
    """The model's names that match `only` and not `skip`. Patterns that match nothing, and a file with no name in common
    with the model, are errors."""
    for key, patterns in (("only", weights.only or ()), ("skip", weights.skip or ())):
        for pattern in patterns:
            if not any(fnmatch.fnmatchcase(name, pattern) for name in own):
                near = closest(pattern, own)
                errors.add(f"weights.{key}", f"'{pattern}' matches no parameter of this model", near, kind="unused")
    to_load = [name for name in own if _matches(name, weights.only or "*") and not _matches(name, weights.skip or ())]
    if not to_load and not errors:
        errors.add("weights", "only and skip leave nothing of this model to load", kind="unused")
    elif not errors and not any(name in found for name in to_load):
        have, expected = (_some([name for name in names if not name.endswith(COMPUTED)]) for names in (found, to_load))
        message = f"no name in {weights.source} is one of this model, which has {expected}; the file has {have}"
        errors.add("weights", f"{message}; rename with map: {{old: new}}", kind="missing")
    return to_load


def _difference(found: Tensor, target: Tensor) -> tuple[Any, Any] | None:
    """The shapes of a tensor in the file and the model's, or their dtypes, if the one cannot become the other."""
    if found.shape != target.shape:
        return tuple(found.shape), tuple(target.shape)
    exact = target.is_floating_point() and not found.is_floating_point()  # whole numbers of a quantised file
    return (found.dtype, target.dtype) if exact or (found.is_complex() and not target.is_complex()) else None


def _report(
    weights: Weights,
    found: Mapping[str, Tensor],
    missing: Mapping[str, str],
    mismatched: Mapping[str, str],
    own: Mapping[str, Tensor],
    errors: ConfigErrors,
) -> None:
    """Add the names that are missing in the file and those that do not fit, the first of each kind."""
    ways = "leave it out with skip, or set strict: false"
    free = [name for name in found if name not in own]
    for name in _first(missing):
        message = f"{weights.source} has no {name}; rename with map, {ways}"
        errors.add("weights", message, closest(name, free), kind="missing")
    for name in _first(mismatched):
        there, here = _difference(found[name], own[name]) or (None, None)
        message = f"{name} is {there} in {weights.source}, but {here} here; keep its initial values with skip: "
        errors.add("weights", f"{message}{name.rpartition('.')[0] or name}*, or set strict: false", kind="shape")
    for names, what in ((missing, "are not in the file"), (mismatched, "have another shape")):
        if len(names) > MOST:
            errors.add("weights", f"{len(names) - MOST} more names {what}; {ways}", kind="missing")


def _some(names: Sequence[str]) -> str:
    return ", ".join([*names[:3], *(["…"] if len(names) > 3 else [])]) or "none"
