"""The schema of a checkpoint's metadata.

A checksum says that a file is whole, not who wrote it. So everything that reads a checkpoint comes through here first, and
the states of optimizer, schedulers and metrics are compared with those of freshly built ones before they are loaded.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

MOST_THREADS = 4096
ARRAY = "array"  # the one key of what stands in the place of an array
LARGEST = 2**53  # up to which a float is every whole number

Count = Annotated[int, Field(ge=0, lt=2**63)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def _is_file_name(name: str) -> str:
    if Path(name).name != name or name in ("", "..") or "\0" in name:
        raise ValueError("expected the name of a file in the run's own folder")
    return name


class _Section(BaseModel):
    """Strict: True is no number, "1" neither; what is not named here is not checked."""

    model_config = ConfigDict(strict=True, extra="allow", protected_namespaces=(), defer_build=True)


class Form(_Section):
    """Mode of an image, or shape and dtype of an array; under `parts` those of several."""

    mode: str = ""
    shape: list[Count] = []
    dtype: str = ""
    parts: dict[str, Form] | list[Form] = []


class TargetScale(_Section):
    """What `TargetScale` takes: statistics of the training rows, for each number of a target or for all."""

    shift: list[Finite] | Finite
    scale: list[Positive] | Positive


class Data(_Section):
    """What `Split.facts` gives, and under `targets` the statistics of scaled targets, by the path of the target."""

    classes: list[str] = []
    classes_by_target: dict[str, list[str]] = {}
    item: Form
    input: Form
    state: dict[str, Any] | None
    targets: dict[str, TargetScale] = {}


class Group(_Section):
    """A parameter group: names of parameters, beside its settings."""

    params: list[str]


class Optimizer(_Section):
    """State that is not in tensors, by `<key>/<parameter>`, and the groups."""

    state: dict[str, Any]
    groups: list[Group]


class MetricState(_Section):
    """What a metric has counted; `parts` are the files of `checkpoints/rows` that belong to it."""

    parts: list[Count] = []


class Fingerprint(_Section):
    """What `data_files.Fingerprint` keeps of the files of a split."""

    files: Count
    size: Count
    names: str
    times: str
    content: str


# A default is that of checkpoints of older versions, or of runs that have no such thing; null is not taken for it.
class Meta(_Section):
    """All that `state.pack` and `Session` write."""

    config: str
    step: Count
    epoch: Count
    threads: Annotated[int, Field(ge=1, le=MOST_THREADS)]
    versions: dict[str, str]
    kernels: str
    logs: dict[Annotated[str, AfterValidator(_is_file_name)], Count]
    data: Data = Data.model_construct()
    data_files: dict[str, Fingerprint] = {}
    settled: Count = 0
    over: bool = False
    best: float | None = None
    stopping: Annotated[tuple[float | None, Count], Field(strict=False)] = (None, 0)
    optimizer: Optimizer = Optimizer.model_construct()
    scheduler: dict[str, Any] | None = None
    swa_scheduler: dict[str, Any] | None = None
    metrics: dict[str, MetricState] = {}
    loaders: dict[str, dict[str, Any]] = {}
    callbacks: dict[str, dict[str, Any]] = {}
    stopped_by: str | None = None
    averaged: Count = 0
    amp: dict[str, Any] = {}
    shards: dict[str, Count] = {}
    elapsed: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0


def wrong_keys(meta: dict[str, Any]) -> list[str]:
    """The keys of `meta` that are missing or not as a run writes them.

    >>> from tdt.train.runs.checkpoint_meta import wrong_keys
    >>> wrong_keys({"step": "3"})
    ['config', 'step', 'epoch', 'threads', 'versions', 'kernels', 'logs']
    """
    try:
        Meta.model_validate(meta)
    except ValidationError as error:
        return list(dict.fromkeys(str(problem["loc"][0]) for problem in error.errors(include_url=False)))
    return []


def check_alike(what: str, saved: Any, own: Any) -> None:
    """ValueError where `saved` cannot be a later state of `own`, the same of a new object.

    It has keys that `own` lacks, another text (a text is a setting), a number out of range, or a value of another kind. A
    number may be any number, or an array; what is None at first may become a number.

    >>> from tdt.train.runs.checkpoint_meta import check_alike
    >>> check_alike("scheduler", {"last_epoch": 3}, {"last_epoch": 0, "gamma": 0.1})
    >>> check_alike("scheduler", {"step": 3}, {"last_epoch": 0})
    Traceback (most recent call last):
    ValueError: scheduler.step is unknown
    """
    if isinstance(own, dict) and isinstance(saved, dict):
        if ARRAY in own and ARRAY not in saved:
            raise ValueError(f"{what} is no array")
        for key, value in saved.items():
            if key not in own:
                raise ValueError(f"{what}.{key} is unknown")
            check_alike(f"{what}.{key}", value, own[key])
    elif isinstance(own, (list, tuple)) and isinstance(saved, (list, tuple)):
        if len(saved) != len(own):  # a list of as many numbers as there were steps, say
            own = [own[0] if own else 0] * len(saved)
        for index, pair in enumerate(zip(saved, own, strict=True)):
            check_alike(f"{what}[{index}]", *pair)
    elif isinstance(own, str) and saved != own:
        raise ValueError(f"{what} is {saved!r}, expected {own!r}")
    elif _kind(saved) != _kind(own) and not (own is None and _kind(saved) is int):
        raise ValueError(f"{what} is {type(saved).__name__}, expected {type(own).__name__}")
    elif type(saved) is int and abs(saved) > LARGEST:
        raise ValueError(f"{what} is {saved}, out of range")


def _kind(value: Any) -> type:
    return list if isinstance(value, tuple) else int if isinstance(value, (float, np.ndarray)) else type(value)
