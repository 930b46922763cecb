"""Read scores, settings and state of finished and running runs from their folders, without NumPy."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any

from tdt._files import open_file
from tdt.train.runs._lock import holder
from tdt.train.runs.run import METRICS_FILE, PRUNED_FILE, RunError, RunFolder

Points = list[tuple[int, float]]  # (step, value), in the order of the log
_ABOUT = ("event", "step", "epoch", "time/now", "reason", "by")  # keys of a log line; all others are tags
_OF_STEPS = b'{"event": "StepDone"'
_LONGEST = 1 << 20  # bytes of a line; a longer one was not written by a run
_YEAR_9999 = 253_370_764_800  # seconds since 1970: later times have no date
_LESS_IS_BETTER = ("loss", "mae", "mse", "rmse", "perplexity")


@dataclass
class History:
    """A run as recorded in its files. What these lack, as in a run of an older version, is empty or None.

    series: the logged numbers by tag. settings: the resolved config, text by key path. step, epochs: completed ones.
    began, seconds: time of the first logged line, and until the last. trained_by: the process that trains it now.
    ended: how ("done", "interrupted", "pruned", "failed", "non-finite"), and by what. unreadable: numbers of invalid log lines,
    without an incomplete last one. faults: problems with its files.
    """

    run: RunFolder
    series: dict[str, Points] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    step: int = 0
    epochs: int = 0
    ended: tuple[str, str] | None = None
    began: float | None = None
    seconds: float = 0.0
    trained_by: str | None = None
    unreadable: list[int] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @property
    def of_epochs(self) -> int | None:
        """The number of epochs in the config, if any."""
        text = self.settings.get("train.epochs", "")
        return int(text) if re.fullmatch("[0-9]{1,18}", text) else None

    @property
    def state(self) -> str:
        """running, done, interrupted, pruned (by a sweep), failed, non-finite, or killed (no end was logged)."""
        return "running" if self.trained_by is not None else self.ended[0] if self.ended else "killed"

    @property
    def ended_by(self) -> str | None:
        """What ended it: epochs, steps, time limit or early stopping, a signal, an error's text; None if not logged."""
        return self.ended[1] if self.ended and self.trained_by is None else None

    @property
    def monitor(self) -> str | None:
        """The tag that selects the best checkpoint: `checkpoint.best`, else the first validated metric."""
        best_tag = self.settings.get("checkpoint.best", "").replace("train/", "train_epoch/")
        if best_tag in self.series:
            return best_tag
        scores = [tag for tag in self.series if tag.startswith(("valid/", "train_epoch/"))]
        terms = [key.removeprefix("loss.") for key in self.settings if key.startswith("loss.")]
        last = ["loss", *terms]  # metrics come before these
        rank = {tag: last.index(name) + 1 if (name := tag.partition("/")[2]) in last else 0 for tag in scores}
        scores.sort(key=lambda tag: (not tag.startswith("valid/"), rank[tag]))
        return scores[0] if scores else None

    def best(self, tag: str) -> tuple[int, float] | None:
        """Step and value of the best value of `tag`, the first of equals; None if it has no number."""
        points = [point for point in self.series.get(tag, ()) if not math.isnan(point[1])]
        if not points:
            return None
        return (
            min(points, key=lambda point: point[1])
            if less_is_better(tag, self.settings)
            else max(points, key=lambda point: point[1])
        )


def less_is_better(tag: str, settings: Mapping[str, str] = {}) -> bool:
    """Whether smaller values of a tag are better: of losses and errors, also under names in the config's `settings`.

    >>> from tdt.train.runs.history import less_is_better
    >>> less_is_better("valid/loss"), less_is_better("valid/accuracy")
    (True, False)
    >>> less_is_better("valid/off", {"metrics.off": "mae"}), less_is_better("valid/image", {"loss.image": "MSELoss"})
    (True, True)
    """
    name = tag.rpartition("/")[2]
    metric = settings.get(f"metrics.{name}", name).partition("(")[0]
    return f"loss.{name}" in settings or metric in _LESS_IS_BETTER


def read(run: RunFolder, *, steps: bool = True) -> History:
    """The history of a run. steps=False skips the numbers that were logged per step, which is much faster.

    An unreadable file is listed in `faults`, so that one run does not hide the others.
    """
    history = History(run)
    for part in (_read_settings, read_holder, partial(_read_log, steps=steps)):
        try:
            part(history)
        except OSError as error:
            history.faults.append(f"{error.filename or run.folder}: {error.strerror or error}")
        except RunError as error:
            history.faults.append(str(error))
    if history.unreadable:
        lines = ", ".join(map(str, history.unreadable[:5])) + ", …" * (len(history.unreadable) > 5)
        history.faults.append(f"{run.folder / METRICS_FILE}: damaged, left out: line {lines}")
    return history


def _read_settings(history: History) -> None:
    """Read the run's config as plain YAML: that of an older version may not be valid today."""
    path = history.run.folder / "config.yaml"
    if os.path.lexists(path):
        from tdt.train.config.settings import settings  # on use: it loads PyYAML

        history.settings = settings(history.run.config_text(), str(path))
        if not history.settings:
            history.faults.append(f"{path}: damaged: its settings cannot be read")


def read_holder(history: History) -> None:
    """Check whether a process trains the run."""
    history.trained_by = holder(history.run.folder / "run.lock")


def _read_log(history: History, steps: bool) -> None:
    last = None
    for number, line in _lines(history.run.folder / METRICS_FILE, steps):
        event = _event(line)
        if event is None:
            history.unreadable.append(number)
            continue
        history.step = max(history.step, event["step"])
        if event["event"] == "EpochDone":
            history.epochs = max(history.epochs, event.get("epoch", 0) + 1)
        history.ended = (str(event.get("reason")), str(event.get("by"))) if event["event"] == "RunStopped" else None
        now = event.get("time/now")
        if now is not None:
            history.began = now if history.began is None else history.began
            last = now
        for tag, value in event.items() if steps or event["event"] != "StepDone" else ():
            if tag not in _ABOUT and (number_ := _number(value)) is not None:
                history.series.setdefault(tag, []).append((event["step"], number_))
    if history.ended and history.ended[0] == "interrupted" and os.path.lexists(history.run.folder / PRUNED_FILE):
        history.ended = ("pruned", history.ended[1])
    if last is not None and history.began is not None:
        history.seconds = max(last - history.began, 0.0)


def differing(configs: Sequence[dict[str, str]]) -> dict[str, list[str | None]]:
    """The settings that differ between configs: key path → the text in each, None if not set.

    >>> from tdt.train.runs.history import differing
    >>> differing([{"lr": "0.1", "seed": "0"}, {"lr": "0.2", "seed": "0"}])
    {'lr': ['0.1', '0.2']}
    """
    keys = dict.fromkeys(key for one in configs for key in one)
    rows = {key: [one.get(key) for one in configs] for key in keys}
    return {key: row for key, row in rows.items() if len(set(row)) > 1}


def _lines(path: Path, steps: bool) -> Iterator[tuple[int, bytes]]:
    """Number and text of each line, empty for one that is too long.

    steps=False skips lines of steps, except the first and the last line of all. Text after the last line break is
    ignored: it was being written when the run ended.
    """
    try:
        handle = open_file(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    with open(handle, "rb") as file:
        pending: tuple[int, bytes] | None = None  # skipped unless it is the last
        for number, line in enumerate(iter(partial(_line, file), None), 1):
            pending = None
            if steps or number == 1 or not line.startswith(_OF_STEPS):
                yield number, line
            else:
                pending = number, line
        if pending is not None:
            yield pending


def _line(file: IO[bytes]) -> bytes | None:
    """The next complete line, empty if it is too long to be of a run; None at the end."""
    line = file.readline(_LONGEST)
    if line.endswith(b"\n"):
        return line
    while line and not line.endswith(b"\n"):
        line = file.readline(_LONGEST)
    return b"" if line else None


def _event(line: bytes) -> dict[str, Any] | None:
    """Parse a log line; None if no run can have written it: not JSON, or with invalid counts and times."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
        return None
    now = event.get("time/now", 0)
    is_time = isinstance(now, (int, float)) and 0 <= now < _YEAR_9999
    return event if is_time and _is_count(event.get("step")) and _is_count(event.get("epoch", 0)) else None


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _number(value: Any) -> float | None:
    if value in ("nan", "inf", "-inf"):
        return float(value)
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:  # integers in JSON have no bound
        return math.copysign(math.inf, value)
