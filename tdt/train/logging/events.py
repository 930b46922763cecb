"""Events of a training run, and their subscribers: metrics.jsonl and TensorBoard scalars.

An event has numbers under tags (`scalars`) for any log: `train/loss`, `valid/accuracy`, `time/…`. Only numbers under
`time/` may differ between two equal runs.

Before a checkpoint the trainer calls `Events.sync` for the length of every log file on the disk and stores them in the
checkpoint; a log opened with those lengths is truncated to them and appended to.
"""

from __future__ import annotations

import json
import os
import re
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tdt._files import fsync, fsync_folder, open_file, replace_file, write_whole
from tdt.train._printable import redacted
from tdt.train._strict_json import text_of
from tdt.train._types import Nested
from tdt.train.logging.descriptions import description
from tdt.train.runs.run import METRICS_FILE

if TYPE_CHECKING:
    from tdt import Tensor
    from tdt.train.config import Every


@dataclass(frozen=True, kw_only=True)
class Event:
    """step: optimizer steps since the beginning of the run; epoch: the current one, from 0; scalars: numbers by tag."""

    step: int
    epoch: int = 0
    scalars: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RunStarted(Event):
    """Before the first step. `steps`, `epochs`: length of the whole run, None if only time limits it; `step`: its begin."""

    folder: Path
    steps: int | None
    epochs: int | None
    resumed: bool = False


@dataclass(frozen=True, kw_only=True)
class StepDone(Event):
    """After every step, on `samples` samples. `scalars` is empty unless the step is logged.

    loss: of the first step that this process trains, for the display; None of others, and with several processes.
    """

    samples: int = 0
    loss: float | None = None


@dataclass(frozen=True, kw_only=True)
class EpochDone(Event):
    """After the last step of an epoch, with the epoch's means. `validated`: a Validated event follows."""

    validated: bool = False


@dataclass(frozen=True, kw_only=True)
class Validated(Event):
    """After a validation, at the end of an epoch or within; `best`: whether its score is the best so far."""

    best: bool = False


@dataclass(frozen=True, kw_only=True)
class CheckpointSaved(Event):
    """`path` has been written and is the `last` checkpoint, with `best` also the best."""

    path: Path
    best: bool = False


@dataclass(frozen=True, kw_only=True)
class TestDone(Event):
    """After the test with the weights of `checkpoint`."""

    __test__ = False  # pytest would collect any class Test…
    checkpoint: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Notice(Event):
    """A message for the user."""

    text: str


@dataclass(frozen=True, kw_only=True)
class RunStopped(Event):
    """The last event of a run. reason: done, interrupted, failed or non-finite. by: epochs, SIGINT, an error's text."""

    reason: str = "done"
    by: str = ""


Handler = Callable[[Event], None]
HandlerT = TypeVar("HandlerT", bound=Handler)


def has_histograms(every: Every | None, event: Event) -> bool:
    """Whether histograms, written at the interval `every`, follow an event."""
    if every is None:
        return False
    if every.unit == "step":
        return isinstance(event, StepDone) and event.step % every.count == 0
    return isinstance(event, EpochDone) and (event.epoch + 1) % every.count == 0


class Events:
    """Call the subscribers with each event, in the order of subscription. Their exceptions reach the trainer.

    >>> from tdt.train.logging.events import EpochDone, Events, StepDone
    >>> events, seen = Events(), []
    >>> _ = events.subscribe(seen.append, StepDone)
    >>> events.emit(StepDone(step=1)), events.emit(EpochDone(step=1))
    (None, None)
    >>> [event.step for event in seen]
    [1]
    """

    def __init__(self) -> None:
        self._handlers: list[tuple[Handler, tuple[type[Event], ...]]] = []
        self._handlers_of: dict[type[Event], list[Handler]] = {}  # cache by class of event

    def subscribe(self, handler: HandlerT, *kinds: type[Event]) -> HandlerT:
        """Call `handler` with every event, or with those of `kinds`. Returns the handler."""
        self._handlers.append((handler, kinds or (Event,)))
        self._handlers_of.clear()
        return handler

    def emit(self, event: Event) -> None:
        """Call the subscribers with `event`."""
        kind = type(event)
        if kind not in self._handlers_of:
            self._handlers_of[kind] = [handler for handler, kinds in self._handlers if issubclass(kind, kinds)]
        for handler in self._handlers_of[kind]:
            handler(event)

    @property
    def take_batches(self) -> bool:
        """Whether a subscriber has a method `on_batch`."""
        return any(hasattr(handler, "on_batch") for handler, _ in self._handlers)

    def on_batch(self, inputs: Nested, output: Tensor, target: Tensor) -> None:
        """Call `on_batch` of the subscribers that have it with a batch of a validation."""
        for handler, _ in self._handlers:
            if hasattr(handler, "on_batch"):
                handler.on_batch(inputs, output, target)

    def sync(self) -> dict[str, int]:
        """Write all logs to the disk. Returns {file name in the run's folder: length in bytes}."""
        lengths: dict[str, int] = {}
        for handler, _ in self._handlers:
            if hasattr(handler, "sync"):
                lengths |= handler.sync()
        return lengths

    def close(self) -> None:
        """Close the subscribers that have a method `close`, all of them even if one fails."""
        with ExitStack() as stack:
            for handler, _ in reversed(self._handlers):
                if hasattr(handler, "close"):
                    stack.callback(handler.close)


class MetricsLog:
    """`metrics.jsonl` in `folder`: one JSON object per line for every event with numbers, and for the end of the run.

        {"event": "Validated", "step": 36, "epoch": 1, "time/now": 1763640000.5, "valid/loss": 0.25}
        {"event": "RunStopped", "step": 36, "epoch": 2, "time/now": 1763640000.6, "reason": "done", "by": "epochs"}

    Numbers read back to the same float64; "nan", "inf" and "-inf" are strings, which `float()` reads. A line is written
    at once, so that a killed process loses at most the last, which is truncated on resume.

    lengths: the result of `Events.sync` in the checkpoint that a run resumes from; None for a new run.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from tdt.train.logging.events import MetricsLog, StepDone
    >>> log = MetricsLog(Path(tempfile.mkdtemp()))
    >>> log(StepDone(step=1, scalars={"train/loss": 0.5}))
    >>> log.sync().keys()
    dict_keys(['metrics.jsonl'])
    """

    def __init__(self, folder: Path, lengths: Mapping[str, int] | None = None) -> None:
        self._path = Path(folder, METRICS_FILE)
        if lengths is not None:
            _cut(self._path, lengths.get(METRICS_FILE, 0))
        new = os.O_EXCL if lengths is None else 0
        self._file = FileIO(open_file(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | new), "a")
        self._named = False  # whether the folder has been synced, too

    def __call__(self, event: Event) -> None:
        if not event.scalars and not isinstance(event, RunStopped):
            return
        head = {"event": type(event).__name__, "step": event.step, "epoch": event.epoch, "time/now": time.time()}
        if isinstance(event, RunStopped):
            head |= {"reason": redacted(event.reason), "by": redacted(event.by)}
        line = json.dumps(head | {tag: text_of(float(value)) for tag, value in event.scalars.items()}, allow_nan=False)
        try:
            write_whole(self._file, line.encode() + b"\n")
        except OSError as error:
            raise OSError(error.errno, f"metrics could not be written: {error.strerror}", str(self._path)) from error

    def sync(self) -> dict[str, int]:
        """Write the lines to the disk. Returns {"metrics.jsonl": length in bytes}."""
        fsync(self._file.fileno(), self._path)
        if not self._named:
            fsync_folder(self._path.parent)
            self._named = True
        return {METRICS_FILE: os.fstat(self._file.fileno()).st_size}

    def close(self) -> None:
        self._file.close()


class TensorBoardLog:
    """Event files in `folder`, which `tensorboard --logdir` shows: every number of every event, at the event's step.

    lengths, step: of the checkpoint that a run resumes from; None and 0 for a new run. On resume older files are
    truncated to those lengths, or removed if the checkpoint does not list them, and a new file begins with a record
    that makes a running TensorBoard drop points after `step`.
    """

    def __init__(
        self, folder: Path, lengths: Mapping[str, int] | None = None, step: int = 0, flush_secs: float = 10
    ) -> None:
        from tdt.utils.tensorboard import SummaryWriter

        self._older: dict[str, int] = {}
        if lengths is not None:
            self._older = _cut_event_files(Path(folder), lengths)
        # A new run's file has the record too, at 0: a running TensorBoard reacts only to the second.
        purge_step = 0 if lengths is None else step + 1
        self.writer = SummaryWriter(folder, purge_step=purge_step, flush_secs=flush_secs)
        self._described = set() if lengths is None else _tags(Path(folder), lengths)

    def __call__(self, event: Event) -> None:
        for tag, value in event.scalars.items():
            if tag in self._described:
                self.writer.add_scalar(tag, value, event.step)
            else:  # the first value of a tag describes it
                from tdt.utils.tensorboard.summary._scalar import described, scalar

                self._described.add(tag)
                self.writer.add_summary(described(scalar(tag, value), description(tag)), event.step)

    def sync(self) -> dict[str, int]:
        """Write all summaries to the disk. Returns {event file: length in bytes}, with the files before a resume."""
        return self._older | self.writer.sync()

    def close(self) -> None:
        self.writer.close()


def _tags(folder: Path, lengths: Mapping[str, int]) -> set[str]:
    """The tags in metrics.jsonl up to the checkpoint: each has a description in an event file."""
    try:
        handle = open_file(folder / METRICS_FILE, os.O_RDONLY)
    except FileNotFoundError:
        return set()
    with open(handle, "rb") as file:
        return {tag.decode() for tag in re.findall(rb'"([^"]+)": ', file.read(lengths.get(METRICS_FILE, 0)))}


def _cut_event_files(folder: Path, lengths: Mapping[str, int]) -> dict[str, int]:
    pattern = "events.out.tfevents.*"
    for path in folder.glob(pattern):
        if path.name not in lengths and (path.is_symlink() or not path.is_dir()):
            path.unlink()
    known = {name: length for name, length in lengths.items() if Path(name).match(pattern)}
    for name, length in known.items():
        _cut(folder / name, length)
    return {name: length for name, length in known.items() if (folder / name).exists()}


def _cut(path: Path, length: int) -> None:
    """Truncate a log to `length` bytes. Warns if it is shorter, as points are lost."""
    try:
        handle = open_file(path, os.O_RDWR)
    except FileNotFoundError:
        handle = None
    if handle is None:
        size = 0
    else:
        with open(handle, "rb+", buffering=0) as file:
            about = os.fstat(handle)
            size = about.st_size
            if about.st_nlink > 1:  # a backup by hard links shares the file; leave that unchanged
                replace_file(path, file.read(length))
            elif size >= length:
                os.ftruncate(handle, length)
    if size < length:
        warnings.warn(f"{path} has {size} bytes but had {length} at the checkpoint; the log continues with a gap")
