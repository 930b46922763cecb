"""`SummaryWriter`: what a script logs, as event files that TensorBoard reads."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from datetime import datetime
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event, SessionLog

from tdt.utils.tensorboard._event_file import EventFile
from tdt.utils.tensorboard._scalar import scalar


class SummaryWriter:
    """Writes an event file in `log_dir` that `tensorboard --logdir` shows, while training goes on.

    log_dir: a folder, made where missing; default `runs/<month><day>_<time>_<host><comment>`.
    purge_step: a run that crashed and is logged again from this step on: TensorBoard hides what it has from there.
    max_queue: as many summaries may wait in memory before they are written; flush_secs: and so long.
    filename_suffix: the end of the file's name.

    Summaries are written by a thread. A disk that is full or gone raises OSError from the call after.
    A closed writer that is used again starts a new file. A forked child writes files of its own.

    >>> import tempfile
    >>> with SummaryWriter(tempfile.mkdtemp()) as writer:
    ...     for step in range(3):
    ...         writer.add_scalar("train/loss", 1 / (step + 1), step)
    """

    def __init__(
        self,
        log_dir: str | PathLike[str] | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
    ) -> None:
        default = f"runs/{datetime.now():%b%d_%H-%M-%S}_{socket.gethostname()}{comment}"
        self.log_dir = log_dir or default
        self.purge_step = purge_step
        self.max_queue = max_queue
        self.flush_secs = flush_secs
        self.filename_suffix = filename_suffix
        self._files: dict[str, EventFile] = {}  # by folder under log_dir; "" is log_dir itself
        self._file()

    def get_logdir(self) -> str:
        """The folder of the event file."""
        return str(self.log_dir)

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """One number of the series `tag` at `global_step`.

        scalar_value: a number, or a tensor or array of one element, which is read from its device.
        walltime: seconds since 1970, instead of now.
        new_style: store it as a tensor, which TensorBoard loads faster; double_precision: as float64 (new style only).
        Raises ValueError for several elements, TypeError for what is no real number, OSError where the disk failed.
        """
        summary = scalar(tag, scalar_value, new_style, double_precision)
        self._file().add(_event(summary, global_step, walltime))

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Several numbers in one chart, `main_tag`: each key of `tag_scalar_dict` becomes a run of its own.

        The runs are the folders `log_dir/<main_tag>_<key>`, with `/` in main_tag replaced by `_`.
        """
        walltime = time.time() if walltime is None else walltime
        for key, value in tag_scalar_dict.items():
            folder = f"{main_tag.replace('/', '_')}_{key}"
            self._file(folder).add(_event(scalar(main_tag, value), global_step, walltime))

    def flush(self) -> None:
        """Write all that is queued, so that a TensorBoard at work sees it."""
        for file in self._files.values():
            file.flush()

    def sync(self) -> dict[str, int]:
        """Put all that is queued on the disk. Returns each event file's path in `log_dir` and length in bytes.

        A file cut to that length later holds exactly the summaries added before this call.
        """
        return {str(file.path.relative_to(self.log_dir)): file.sync() for file in self._files.values()}

    def close(self) -> None:
        """Write all that is queued and close the files."""
        files, self._files = self._files, {}
        for file in files.values():
            file.close()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _file(self, folder: str = "") -> EventFile:
        file = self._files.get(folder)
        if file is None:
            file = EventFile(Path(self.log_dir, folder), self.max_queue, self.flush_secs, self.filename_suffix)
            self._files[folder] = file
            if self.purge_step is not None and not folder:
                # The version first: readers of old files purge by restarts, of version 2 by this record.
                file.add(Event(step=self.purge_step, wall_time=time.time(), file_version="brain.Event:2"))
                start = SessionLog(status=SessionLog.START)
                file.add(Event(step=self.purge_step, wall_time=time.time(), session_log=start))
                self.purge_step = None
        return file


def _event(summary: Any, step: int | None, walltime: float | None) -> Event:
    event = Event(wall_time=time.time() if walltime is None else walltime, summary=summary)
    if step is not None:
        event.step = int(step)
    return event
