"""An event file: callers queue events, a background thread writes them as records.

`add` only appends to a deque. The thread writes when `max_queue` events are queued or `flush_secs` have passed; `flush`,
`sync` and `close` write immediately. A disk error closes the file permanently, because readers stop at an incomplete record;
the next call raises the error.
"""

from __future__ import annotations

import atexit
import itertools
import os
import re
import socket
import threading
import time
from collections import deque
from collections.abc import Iterable
from contextlib import ExitStack
from io import FileIO
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from tensorboard.compat.proto.event_pb2 import Event, SourceMetadata, TaggedRunMetadata
from tensorboard.compat.proto.summary_pb2 import Summary

from tdt._files import fsync, fsync_folder, write_whole
from tdt.utils.tensorboard._record import parts

if TYPE_CHECKING:
    from tensorboard.compat.proto.config_pb2 import RunMetadata
    from tensorboard.compat.proto.graph_pb2 import GraphDef

# If the queue grows to this multiple of max_queue, the caller writes it itself, so that memory stays bounded.
_QUEUES_BEHIND = 100
_numbers = itertools.count()
_open: set[FileWriter] = set()


class FileWriter:
    """An `events.out.tfevents.<time>.<host>.<pid>.<number><filename_suffix>` in `log_dir`, made at once.

    A forked child that adds events writes a file of its own; what the parent had queued stays the parent's.
    Raises OSError where the file cannot be made or written.

    >>> import tdt
    >>> import tempfile
    >>> from tdt.utils.tensorboard import summary
    >>> file = tdt.utils.tensorboard.FileWriter(tempfile.mkdtemp())
    >>> file.add_summary(summary.scalar("loss", 0.5), global_step=1)
    >>> file.close()
    """

    def __init__(
        self, log_dir: str | PathLike[str], max_queue: int = 10, flush_secs: float = 120, filename_suffix: str = ""
    ) -> None:
        self.folder = Path(log_dir)
        self._max_queue = max(1, max_queue)
        self._interval = max(0.1, flush_secs)  # 0 would be a busy loop
        self._suffix = filename_suffix
        self._closed = False
        self._start()

    def _start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.path = _new_path(self.folder, self._suffix)
        self.length = 0
        self._named = False  # whether the folder entry of the file was flushed to the disk
        self._file: FileIO | None = FileIO(self.path, "x")
        self._pending: deque[bytes] = deque()
        self._failure: OSError | None = None
        self._writing = threading.Lock()
        self._wake = threading.Event()
        source = SourceMetadata(writer="tdt.utils.tensorboard")
        self.add_event(Event(file_version="brain.Event:2", source_metadata=source))
        self._write_pending()
        self._thread = threading.Thread(target=self._run, name=self.path.name, daemon=True)
        self._thread.start()
        _open.add(self)

    def get_logdir(self) -> str:
        """The folder it lies in."""
        return str(self.folder)

    def add_event(self, event: Event, step: int | None = None, walltime: float | None = None) -> None:
        """Queue `event`, of now or of `walltime`, in seconds since 1970."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.add(event)

    def add_summary(self, summary: Summary, global_step: int | None = None, walltime: float | None = None) -> None:
        """Queue an event of `summary`."""
        self.add_event(Event(summary=summary), global_step, walltime)

    def add_graph(self, graph_profile: tuple[GraphDef, RunMetadata], walltime: float | None = None) -> None:
        """Queue events of a graph and of what is known about its run."""
        graph, profile = graph_profile
        self.add_onnx_graph(graph, walltime)
        tagged = TaggedRunMetadata(tag="step1", run_metadata=profile.SerializeToString())
        self.add_event(Event(tagged_run_metadata=tagged), None, walltime)

    def add_onnx_graph(self, graph: GraphDef, walltime: float | None = None) -> None:
        """Queue an event of a graph alone."""
        self.add_event(Event(graph_def=graph.SerializeToString()), None, walltime)

    def add(self, event: Event) -> None:
        """Queue one event as it is."""
        if self._closed:
            raise ValueError(f"event file {self.path} is closed")
        if self._file is None:  # the first event in a forked child
            self._start()
        self._check()
        self._pending.append(event.SerializeToString())
        waiting = len(self._pending)
        if waiting >= _QUEUES_BEHIND * self._max_queue:
            self._write_pending()
        elif waiting >= self._max_queue and not self._wake.is_set():
            self._wake.set()

    def flush(self) -> None:
        """Hand all queued events to the operating system."""
        if self._file is not None:
            self._write_pending()

    def sync(self) -> int:
        """Put all queued events on the disk; returns the file's length in bytes."""
        self.flush()
        if self._file is not None:
            fsync(self._file.fileno(), self.path)
            if not self._named:
                fsync_folder(self.folder)
                self._named = True
        return self.length

    def close(self) -> None:
        """Write what is queued and close the file; closing twice is allowed."""
        if self._closed:
            return
        self._closed = True
        _open.discard(self)
        if self._file is None:  # a forked child without events
            return
        self._wake.set()
        self._thread.join()
        try:
            self._write_pending()
        finally:
            self._file.close()

    def _run(self) -> None:
        while not self._closed and self._failure is None:
            self._wake.wait(self._interval)
            self._wake.clear()
            try:
                self._write_pending()
            except OSError:
                return  # stored in _failure; the caller's next call raises it

    def _write_pending(self) -> None:
        assert self._file is not None
        with self._writing:
            self._check()
            waiting = list[bytes]()
            while self._pending:
                waiting += parts(self._pending.popleft())
            data = b"".join(waiting)
            try:
                write_whole(self._file, data)
            except OSError as error:
                self._failure = error
                self._check()
            self.length += len(data)

    def _check(self) -> None:
        if self._failure is not None:
            reason = f"{self._failure.strerror or self._failure}; it ends after {self.length} whole bytes"
            raise OSError(self._failure.errno, f"event file could not be written: {reason}", str(self.path))

    def _forget(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None


def _new_path(folder: Path, suffix: str) -> Path:
    """A name that sorts behind the event files already there: TensorBoard reads a folder's files in that order."""
    found = [re.match(r"events\.out\.tfevents\.(\d+)\.", path.name) for path in folder.glob("events.out.tfevents.*")]
    newest = max((int(match[1]) for match in found if match), default=-1)
    stamp = max(int(time.time()), newest + 1)
    return folder / f"events.out.tfevents.{stamp:010d}.{socket.gethostname()}.{os.getpid()}.{next(_numbers)}{suffix}"


@atexit.register
def _close_all() -> None:
    close_each(list(_open))


def close_each(files: Iterable[FileWriter]) -> None:
    """Close all of `files`, also where one fails; raises the last one's error."""
    with ExitStack() as stack:
        for file in files:
            stack.callback(file.close)


def _forget_all() -> None:
    """In a forked child: the thread is not there, and the queued events are the parent's to write."""
    for file in list(_open):
        file._forget()
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
