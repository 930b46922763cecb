"""Python's `multiprocessing` with PyTorch's `spawn`. Tensors in shared memory (`share_memory_`) are sent to processes,
queues and pipes by reference: both processes see each other's writes. All other tensors are sent by value.

>>> import tdt
>>> tdt.multiprocessing.get_all_sharing_strategies()
{'file_system'}
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing import *  # noqa: F403
from multiprocessing import connection
from typing import Any

from tdt._safe_path import leave_safe_path, safe_path

__all__ = ["ProcessContext", "ProcessExitedException", "ProcessRaisedException", "get_all_sharing_strategies",
           "get_sharing_strategy", "set_sharing_strategy", "spawn", "start_processes"]  # fmt: skip


class ProcessRaisedException(Exception):
    """A process ended with an error, which the message shows."""


class ProcessExitedException(Exception):
    """A process ended without an error of Python's: by a signal, or with an exit code."""


class ProcessContext:
    """Processes that `start_processes` started."""

    def __init__(self, processes: list[Any], errors: list[Any]) -> None:
        self.processes, self._errors = processes, errors

    def pids(self) -> list[int]:
        """The process ids."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None) -> bool:
        """Wait until at least one process ends; True when all have. If one fails, terminate the others and raise its error."""
        running = {process.sentinel: n for n, process in enumerate(self.processes) if process.is_alive()}
        ended = [running[mark] for mark in connection.wait(list(running), timeout)] if running else []
        for n in ended:
            self.processes[n].join()  # its sentinel may become ready before the exit code is set
        failed = [n for n, process in enumerate(self.processes) if process.exitcode]
        if not failed:
            return len(running) == len(ended)
        for process in self.processes:
            if process.is_alive():
                process.terminate()
            process.join()
        number = failed[0]
        if message := _last_words(self._errors[number]):
            raise ProcessRaisedException(f"\n\n-- Process {number} ended with this error:\n{message}")
        raise ProcessExitedException(f"process {number} ended with exit code {self.processes[number].exitcode}")


def _last_words(errors: Any) -> str:
    """The traceback that a process sent before it ended, or nothing."""
    try:
        return errors.recv()
    except EOFError:
        return ""


def _run(fn: Callable[..., Any], number: int, args: tuple[Any, ...], errors: Any) -> None:
    """Run `fn(number, *args)` in a process and write the traceback of its error to the pipe."""
    import sys
    import traceback

    leave_safe_path()
    try:
        fn(number, *args)
    except Exception:  # noqa: BLE001  (the parent gets every error)
        errors.send(traceback.format_exc())
        sys.exit(1)


def start_processes(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run `fn(number, *args)` in `nprocs` processes, numbered from 0; with join=False, return their ProcessContext at once.

    Raises ProcessRaisedException or ProcessExitedException for the first process that fails; the others are terminated.
    """
    context: Any = multiprocessing.get_context(start_method)
    processes, errors = [], []
    for number in range(nprocs):
        receiving, sending = context.Pipe(duplex=False)
        process = context.Process(target=_run, args=(fn, number, args, sending), daemon=daemon)
        with safe_path():
            process.start()
        sending.close()
        processes.append(process)
        errors.append(receiving)
    started = ProcessContext(processes, errors)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """`start_processes`, by the method "spawn"."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)


def get_all_sharing_strategies() -> set[str]:
    """The names of the strategies for sharing tensors between processes."""
    return {"file_system"}


def get_sharing_strategy() -> str:
    """'file_system'."""
    return "file_system"


def set_sharing_strategy(new_strategy: str) -> None:
    """Accept 'file_system' and 'file_descriptor' without effect: tdt has one way to share memory.

    AssertionError for another name.
    """
    if new_strategy not in ("file_system", "file_descriptor"):
        raise AssertionError(f"invalid sharing strategy {new_strategy!r}: 'file_system' or 'file_descriptor'")
