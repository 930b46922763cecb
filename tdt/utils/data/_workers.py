"""The parent's side of dataloader workers: starts and stops them, sends indices and receives batches."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import weakref
from multiprocessing import current_process
from multiprocessing.connection import Connection, wait
from typing import Any

from tdt._safe_path import safe_path
from tdt.utils.data._transport import receive
from tdt.utils.data._worker import LOAD, RESTART, STOP, WorkerConfig, work

JOIN_TIMEOUT = 1.0  # seconds until a worker that does not exit is terminated
POLL_INTERVAL = 5.0  # seconds between checks whether the workers are alive

GUARD = 'if __name__ == "__main__":'

_open_ends: weakref.WeakSet = weakref.WeakSet()  # the parent's ends of all loaders' pipes; forked children close theirs


class Workers:
    """Worker processes, each with its own pipe. They share no lock, so a killed worker cannot block the others."""

    def __init__(self, context: Any, configs: list[WorkerConfig]) -> None:
        _check_guard(context)
        self._owner = os.getpid()
        self.ended = ""  # the reason why the workers have been stopped
        self._imports_program = context.get_start_method() != "fork"
        self._answered: set[int] = set()  # workers that have sent a reply
        self._connections: list[Connection] = []
        self._processes: list[Any] = []
        blocked = _block_sigint()
        try:
            with safe_path():
                for config in configs:
                    self._start(context, config)
        finally:
            _unblock_sigint(blocked)
        self._send_factories(configs)

    def _send_factories(self, configs: list[WorkerConfig]) -> None:
        """Send the pickled factories to workers that were not forked. RuntimeError if a worker has died."""
        for worker, config in enumerate(configs):
            if config.factory.pickled is not None:
                try:
                    self._connections[worker].send_bytes(config.factory.pickled)
                except (BrokenPipeError, ConnectionResetError):
                    raise self._worker_error(worker) from None
                config.factory.pickled = None

    def _start(self, context: Any, config: WorkerConfig) -> None:
        ours, theirs = context.Pipe()
        _open_ends.add(ours)
        others = list(_open_ends) if context.get_start_method() == "fork" else []
        process = context.Process(
            target=work, args=(theirs, others, config), name=f"tdt-loader-{config.worker}", daemon=True
        )
        process.start()
        theirs.close()  # so that the pipe closes when the worker exits
        self._connections.append(ours)
        self._processes.append(process)

    def load(self, worker: int, index: Any) -> None:
        """Request the batch `index` from `worker`."""
        self._send(worker, (LOAD, index))

    def restart(self) -> None:
        """Make every worker iterate over its dataset from the start."""
        for worker in range(len(self._processes)):
            self._send(worker, (RESTART, None))

    def _send(self, worker: int, message: tuple) -> None:
        self._check()
        try:
            self._connections[worker].send(message)
        except (BrokenPipeError, ConnectionResetError):
            raise self._worker_error(worker) from None

    def _check(self) -> None:
        if self.ended:
            raise RuntimeError(self.ended)

    def receive(self, workers: list[int], timeout: float) -> tuple[int, Any]:
        """The next reply of one of `workers`: its number, and (batch, generator states or None).

        RuntimeError immediately when a worker has died, and after `timeout` seconds (0: never) without a reply.
        """
        self._check()
        connections = [self._connections[worker] for worker in workers]
        deadline = time.monotonic() + timeout
        while True:
            for worker, connection in zip(workers, connections, strict=True):
                try:
                    if connection.poll():
                        answer = receive(connection)
                        self._answered.add(worker)
                        return worker, answer
                except (EOFError, OSError):
                    raise self._worker_error(worker) from None
                except BaseException:  # the pipe may contain the rest of this reply
                    self.close("a reply of a DataLoader worker could not be read")
                    raise
            left = min(POLL_INTERVAL, max(deadline - time.monotonic(), 0)) if timeout else POLL_INTERVAL
            ready = wait([*connections, *(process.sentinel for process in self._processes)], left)
            if any(connection in ready for connection in connections):
                continue
            dead = [worker for worker, process in enumerate(self._processes) if not process.is_alive()]
            if dead:
                raise self._worker_error(*dead)
            if timeout and time.monotonic() >= deadline:
                raise RuntimeError(f"DataLoader timed out after {timeout} seconds")

    def _worker_error(self, *workers: int) -> RuntimeError:
        """Stop all workers; returns the error that names the workers that have exited, with the reason."""
        reasons = []
        for worker in workers:
            process = self._processes[worker]
            process.join(JOIN_TIMEOUT)
            reasons.append(f"worker {worker} {_exit_reason(process.exitcode)}")
        failed = [w for w in workers if self._processes[w].exitcode == 1 and w not in self._answered]
        if failed and self._imports_program:
            advice = f"Spawned workers import the main program: put the training code under {GUARD}"
        else:
            advice = "Set num_workers=0 to see the error where it happens"
        pids = ", ".join(str(self._processes[worker].pid) for worker in workers)
        self.close(f"DataLoader worker (pid(s) {pids}) exited unexpectedly: {'; '.join(reasons)}. {advice}")
        return RuntimeError(self.ended)

    def close(self, why: str = "this epoch of the DataLoader is over") -> None:
        """Stop all workers and wait until they have exited. Does nothing in a forked child or the second time.

        why: the message of the RuntimeError that every later call raises.
        """
        if self._owner != os.getpid():
            return
        self.ended = self.ended or why
        connections, self._connections = self._connections, []
        for connection in connections:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the worker has exited by itself
                connection.send((STOP, None))
            connection.close()
        deadline = time.monotonic() + JOIN_TIMEOUT
        for process in self._processes:
            process.join(max(deadline - time.monotonic(), 0))
        for stop in ("terminate", "kill"):
            late = [process for process in self._processes if process.is_alive()]
            for process in late:
                getattr(process, stop)()
            for process in late:
                process.join(JOIN_TIMEOUT)


def _check_guard(context: Any) -> None:
    """RuntimeError in a spawned worker that is still importing the main program: it would start workers recursively."""
    if getattr(current_process(), "_inheriting", False) and context.get_start_method() != "fork":
        program, method = sys.argv[0] or "the program", context.get_start_method()
        raise RuntimeError(
            f"DataLoader: {program} starts worker processes when it is imported, and each worker imports it (start method "
            f"{method!r}): put the training code under {GUARD}"
        )


def default_start_method() -> str:
    """fork on Linux, which is fast and does not pickle the dataset; spawn elsewhere."""
    return "fork" if sys.platform == "linux" else "spawn"


def _exit_reason(exitcode: int | None) -> str:
    if exitcode is None:
        return "closed its pipe but is still running"
    if exitcode >= 0:
        return f"exited with code {exitcode}"
    name = signal.Signals(-exitcode).name
    hint = ", as the system does when memory runs out" if name == "SIGKILL" else ""
    return f"was killed by {name}{hint}"


def _block_sigint() -> bool:
    """Block SIGINT while worker processes start and have not yet ignored it. Returns whether it was unblocked before."""
    if not hasattr(signal, "pthread_sigmask"):
        return False
    return signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def _unblock_sigint(blocked: bool) -> None:
    if blocked:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
