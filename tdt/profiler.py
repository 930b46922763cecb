"""Profiler: `profile` times every op of a block, every node of its backward, and the ranges that `record_function` names.

>>> import tdt
>>> with tdt.autograd.profiler.profile() as prof, tdt.autograd.profiler.record_function("product"):
...     _ = tdt.ones(2, 3) @ tdt.ones(3, 2)
>>> [row.key for row in prof.key_averages()]
['product', 'matmul']
"""

from __future__ import annotations

import contextlib
import enum
import json
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tdt._core.mode import _Mode, state
from tdt._core.tensor import Tensor
from tdt.autograd._dispatch import apply

__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "tensorboard_trace_handler",
]

_running: list[profile] = []


def kineto_available() -> bool:
    """Whether PyTorch's GPU tracing library is available: False.

    >>> import tdt
    >>> tdt.profiler.kineto_available()
    False
    """
    return False


class ProfilerActivity(enum.Enum):
    """The activities to time; on a GPU, the calls are timed, which do not wait for the GPU."""

    CPU, CUDA, XPU, MTIA, HPU, PrivateUse1 = range(6)


class ProfilerAction(enum.Enum):
    """What the profiler does in a step of its schedule."""

    NONE, WARMUP, RECORD, RECORD_AND_SAVE = range(4)


@dataclass
class Event:
    """One call: its name, when it began and ended (nanoseconds), and the shapes of its tensors."""

    name: str
    start: int
    end: int
    shapes: tuple = ()
    children: int = 0  # nanoseconds inside the calls within it

    cpu_time_total = property(lambda self: (self.end - self.start) / 1e3)

    @property
    def self_cpu_time_total(self) -> float:
        return (self.end - self.start - self.children) / 1e3


@dataclass
class Average:
    """All calls of one name; times in microseconds."""

    key: str
    input_shapes: tuple = ()
    count: int = 0
    cpu_time_total: float = 0.0
    self_cpu_time_total: float = 0.0

    cpu_time = property(lambda self: self.cpu_time_total / self.count)


SORTS = ("cpu_time_total", "self_cpu_time_total", "cpu_time", "count")


class Averages(list):
    """Rows of a profile, which `table` prints."""

    @property
    def self_cpu_time_total(self) -> float:
        return sum(row.self_cpu_time_total for row in self)

    def table(
        self, sort_by: str | None = None, row_limit: int = 100, max_src_column_width: int = 75,
        max_name_column_width: int = 55, max_shapes_column_width: int = 80, header: str | None = None,
        top_level_events_only: bool = False, time_unit: str | None = None,
    ) -> str:  # fmt: skip
        """The rows as text, the largest `sort_by` first: cpu_time_total, self_cpu_time_total, cpu_time or count."""
        if sort_by is not None and sort_by not in SORTS:
            raise ValueError(f"sort_by must be one of {', '.join(SORTS)}, not {sort_by!r}")
        rows = self if sort_by is None else sorted(self, key=lambda row: getattr(row, sort_by), reverse=True)
        rows = rows[: row_limit if row_limit >= 0 else None]
        total = self.self_cpu_time_total or 1.0
        width = min(max([len(row.key) for row in rows], default=4), max_name_column_width)
        titles = ("Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls")
        lines = [header] if header else []
        lines.append(" ".join(["Name".rjust(width), *(title.rjust(12) for title in titles)]))
        for row in rows:
            cells = (
                f"{100 * row.self_cpu_time_total / total:.2f}%", f"{row.self_cpu_time_total:.3f}us",
                f"{100 * row.cpu_time_total / total:.2f}%", f"{row.cpu_time_total:.3f}us", f"{row.cpu_time:.3f}us",
                str(row.count),
            )  # fmt: skip
            lines.append(" ".join([row.key[:width].rjust(width), *(cell.rjust(12) for cell in cells)]))
        return "\n".join([*lines, f"Self CPU time total: {self.self_cpu_time_total / 1e3:.3f}ms"]) + "\n"

    __str__ = table


@dataclass
class Recording:
    """The events of a recording: times ops as their handler, and the nodes of backward passes as their runner."""

    shapes: bool
    outer: Any
    nodes: Any
    events: list[Event] = field(default_factory=list)

    def handle(self, op: Any, operands: tuple, attributes: dict, target: Any) -> Any:
        shapes = tuple(tuple(x.shape) for x in operands if isinstance(x, Tensor)) if self.shapes else ()
        with self.range(op.name, shapes), _Mode(handler=self.outer):
            return apply(op, operands, attributes, target)

    def run(self, node: Any, slots: list, graph: bool) -> list:
        """Run and time a node of a backward pass."""
        with self.range(node.name()):
            return node.run(slots, graph) if self.nodes is None else self.nodes.run(node, slots, graph)

    @contextlib.contextmanager
    def range(self, name: str, shapes: tuple = ()) -> Any:
        event = Event(name, time.perf_counter_ns(), 0, shapes)
        self.events.append(event)
        try:
            yield
        finally:
            event.end = time.perf_counter_ns()

    def closed(self) -> list[Event]:
        """The events in the order of their start times, each with the time of the events inside it."""
        now = time.perf_counter_ns()
        around: list[Event] = []
        for event in self.events:
            event.end, event.children = event.end or now, 0
        for event in self.events:
            while around and around[-1].end < event.end:
                around.pop()
            if around:
                around[-1].children += event.end - event.start
            around.append(event)
        return self.events


class profile:
    """Time the calls of a block in this thread.

    schedule: maps the number of a `step()` to its ProfilerAction (see `schedule`); record_shapes: store the shapes of
    tensors; on_trace_ready: called with the profile at the end of each recording. PyTorch's other options have no effect.
    """

    def __init__(
        self, enabled: bool = True, *, activities: Iterable[Any] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None, on_trace_ready: Callable[[profile], Any] | None = None,
        record_shapes: bool = False, profile_memory: bool = False, with_stack: bool = False, with_flops: bool = False,
        with_modules: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        self.enabled, self.schedule, self.on_trace_ready, self.record_shapes = (
            enabled,
            schedule,
            on_trace_ready,
            record_shapes,
        )
        self.step_num = 0
        self._recording: Recording | None = None
        self._mode: Any = None
        self._events: list[Event] = []

    def _action(self) -> ProfilerAction:
        if not self.enabled:
            return ProfilerAction.NONE
        return self.schedule(self.step_num) if self.schedule is not None else ProfilerAction.RECORD

    def start(self) -> None:
        """Start profiling, as on entering the block."""
        _running.append(self)
        self._start_if_scheduled()

    def __enter__(self) -> profile:
        self.start()
        return self

    def _start_if_scheduled(self) -> None:
        records = self._action() in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        if records and self._recording is None:
            self._recording = Recording(self.record_shapes, state.handler, state.anomaly)
            self._mode = _Mode(handler=self._recording.handle, anomaly=self._recording)
            self._mode.__enter__()

    def _end(self) -> None:
        if self._recording is None:
            return
        self._mode.__exit__(None, None, None)
        self._events, self._recording = self._recording.closed(), None
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def step(self) -> None:
        """Begin the next step of the schedule."""
        if self._action() is ProfilerAction.RECORD_AND_SAVE:
            self._end()
        self.step_num += 1
        self._start_if_scheduled()

    def stop(self) -> None:
        """Stop profiling, as on leaving the block."""
        self._end()
        _running.remove(self)

    def __exit__(self, *error: Any) -> None:
        self.stop()

    def events(self) -> list[Event]:
        """All calls in the order of their start times."""
        return self._events if self._recording is None else self._recording.closed()

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> Averages:
        """A row for each name, or for each name and shapes; `print(prof.key_averages().table())`."""
        rows: dict[tuple, Average] = {}
        for event in self.events():
            shapes = event.shapes if group_by_input_shape else ()
            row = rows.setdefault((event.name, shapes), Average(event.name, shapes))
            row.count += 1
            row.cpu_time_total += event.cpu_time_total
            row.self_cpu_time_total += event.self_cpu_time_total
        return Averages(rows.values())

    def table(self, *args: Any, **kwargs: Any) -> str:
        """`key_averages().table(...)`."""
        return self.key_averages().table(*args, **kwargs)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the calls for chrome://tracing or Perfetto."""
        events = [
            {
                "name": e.name,
                "ph": "X",
                "ts": e.start / 1e3,
                "dur": (e.end - e.start) / 1e3,
                "pid": os.getpid(),
                "tid": 0,
            }
            for e in self.events()
        ]
        Path(path).write_text(json.dumps({"traceEvents": events}), encoding="utf-8")


class record_function(contextlib.ContextDecorator):
    """Name a range of the program in active profiles; without an active profile it has no effect."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args

    def __enter__(self) -> record_function:
        self._stack = contextlib.ExitStack()
        for running in _running:
            if running._recording is not None:
                self._stack.enter_context(running._recording.range(self.name))
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.close()

    def _recreate_cm(self) -> record_function:
        return record_function(self.name, self.args)  # a decorated function may call itself


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """Cycles of `wait` and `warmup` steps that are not recorded and `active` steps that are; repeat=0 is without an end.

    >>> import tdt
    >>> [tdt.profiler.schedule(wait=1, warmup=0, active=2)(n).name for n in range(3)]
    ['NONE', 'RECORD', 'RECORD_AND_SAVE']
    """
    if min(wait, warmup, active - 1, repeat, skip_first) < 0:
        raise AssertionError("Invalid profiler schedule arguments: active must be positive, no other below zero")

    def action(step: int) -> ProfilerAction:
        step -= skip_first
        cycle = wait + warmup + active
        if step < 0 or (repeat and step // cycle >= repeat):
            return ProfilerAction.NONE
        if skip_first_wait:
            step += wait  # the first cycle has no wait
        within = step % cycle
        if within < wait:
            return ProfilerAction.NONE
        if within < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if within < cycle - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """A function for `on_trace_ready` that writes each recording as a Chrome trace to the folder `dir_name`."""

    def write(prof: profile) -> None:
        Path(dir_name).mkdir(parents=True, exist_ok=True)
        name = worker_name or f"{os.uname().nodename}_{os.getpid()}"
        prof.export_chrome_trace(Path(dir_name, f"{name}.{time.time_ns()}.pt.trace.json"))

    return write


class emit_nvtx:
    """A block that marks operations for NVIDIA's tools. NotImplementedError on entry, unless `enabled` is False."""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled, self.record_shapes = enabled, record_shapes

    def __enter__(self) -> emit_nvtx:
        if self.enabled:
            raise NotImplementedError("emit_nvtx: tdt marks no ranges for NVIDIA's tools; use tdt.profiler.profile")
        return self

    def __exit__(self, *error: Any) -> None:
        pass
