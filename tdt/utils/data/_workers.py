"""The parent's side of loader workers: starting, feeding, hearing from and stopping them."""

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
from tdt.utils.data._worker import LOAD, RESTART, STOP, Orders, work

PATIENCE = 1.0  # seconds that a worker may take to end before it is terminated
LOOK = 5.0  # seconds between looks at a silent worker

GUARD = 'if __name__ == "__main__":'

_open_ends: weakref.WeakSet = weakref.WeakSet()  # the parent's ends of all loaders' pipes; forked children close theirs


class Workers:
    """Worker processes, each at one end of a pipe of its own. No lock is shared: one that is killed blocks nobody."""

    def __init__(self, context: Any, orders: list[Orders]) -> None:
        _check_guard(context)
        self._owner = os.getpid()
        self.ended = ""  # why there are no workers any more
        self._imports_program = context.get_start_method() != "fork"
        self._answered: set[int] = set()  # workers that have sent something
        self._connections: list[Connection] = []
        self._processes: list[Any] = []
        held = _hold_back_sigint()
        try:
            with safe_path():
                for order in orders:
                    self._start(context, order)
        finally:
            _let_sigint_through(held)
        self._send_recipes(orders)

    def _send_recipes(self, orders: list[Orders]) -> None:
        """Send the workers that were not forked what they are to load. RuntimeError for one that has died already."""
        for worker, order in enumerate(orders):
            if order.recipe.pickled is not None:
                try:
                    self._connections[worker].send_bytes(order.recipe.pickled)
                except (BrokenPipeError, ConnectionResetError):
                    raise self._death(worker) from None
                order.recipe.pickled = None

    def _start(self, context: Any, order: Orders) -> None:
        ours, theirs = context.Pipe()
        _open_ends.add(ours)
        others = list(_open_ends) if context.get_start_method() == "fork" else []
        process = context.Process(
            target=work, args=(theirs, others, order), name=f"tdt-loader-{order.worker}", daemon=True
        )
        process.start()
        theirs.close()  # so that the end of the worker ends the pipe
        self._connections.append(ours)
        self._processes.append(process)

    def load(self, worker: int, index: Any) -> None:
        """Ask `worker` for the batch `index`."""
        self._tell(worker, (LOAD, index))

    def restart(self) -> None:
        """Make every worker start its dataset's stream anew."""
        for worker in range(len(self._processes)):
            self._tell(worker, (RESTART, None))

    def _tell(self, worker: int, message: tuple) -> None:
        self._check()
        try:
            self._connections[worker].send(message)
        except (BrokenPipeError, ConnectionResetError):
            raise self._death(worker) from None

    def _check(self) -> None:
        if self.ended:
            raise RuntimeError(self.ended)

    def receive(self, workers: list[int], timeout: float) -> tuple[int, Any]:
        """The next answer of one of `workers`: its number, and (batch, generator states or None).

        RuntimeError at once when a worker has died, and after `timeout` seconds (0: never) without an answer.
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
                    raise self._death(worker) from None
                except BaseException:  # the rest of this answer would be taken for the next one
                    self.close("an answer of a DataLoader worker could not be read")
                    raise
            left = min(LOOK, max(deadline - time.monotonic(), 0)) if timeout else LOOK
            ready = wait([*connections, *(process.sentinel for process in self._processes)], left)
            if any(connection in ready for connection in connections):
                continue
            dead = [worker for worker, process in enumerate(self._processes) if not process.is_alive()]
            if dead:
                raise self._death(*dead)
            if timeout and time.monotonic() >= deadline:
                raise RuntimeError(f"DataLoader timed out after {timeout} seconds")

    def _death(self, *workers: int) -> RuntimeError:
        """The error that says which workers ended, and how; the others are stopped."""
        fates = []
        for worker in workers:
            process = self._processes[worker]
            process.join(PATIENCE)
            fates.append(f"worker {worker} {_fate(process.exitcode)}")
        failed = [w for w in workers if self._processes[w].exitcode == 1 and w not in self._answered]
        if failed and self._imports_program:
            advice = f"A worker that is not forked imports the program: all that trains must stand under {GUARD}"
        else:
            advice = "Set num_workers=0 to see the error where it happens"
        pids = ", ".join(str(self._processes[worker].pid) for worker in workers)
        self.close(f"DataLoader worker (pid(s) {pids}) exited unexpectedly: {'; '.join(fates)}. {advice}")
        return RuntimeError(self.ended)

    def close(self, why: str = "this epoch of the DataLoader is over") -> None:
        """Stop all workers and wait until they have ended. Does nothing in a forked copy or the second time.

        why: what every later call says.
        """
        if self._owner != os.getpid():
            return
        self.ended = self.ended or why
        connections, self._connections = self._connections, []
        for connection in connections:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # one that has ended by itself
                connection.send((STOP, None))
            connection.close()
        deadline = time.monotonic() + PATIENCE
        for process in self._processes:
            process.join(max(deadline - time.monotonic(), 0))
        for stop in ("terminate", "kill"):
            late = [process for process in self._processes if process.is_alive()]
            for process in late:
                getattr(process, stop)()
            for process in late:
                process.join(PATIENCE)


def _check_guard(context: Any) -> None:
    """RuntimeError in a process that is importing the program it was started for, which would start workers again."""
    if getattr(current_process(), "_inheriting", False) and context.get_start_method() != "fork":
        program, method = sys.argv[0] or "the program", context.get_start_method()
        raise RuntimeError(
            f"DataLoader: {program} starts worker processes whenever it is imported, as each worker does at its start "
            f"with {method!r}: put all that trains under {GUARD}"
        )


def default_start_method() -> str:
    """fork on Linux, where it is quick and the dataset need not be pickled; spawn elsewhere."""
    return "fork" if sys.platform == "linux" else "spawn"


def _fate(exitcode: int | None) -> str:
    if exitcode is None:
        return "closed its pipe and still runs"
    if exitcode >= 0:
        return f"ended with exit code {exitcode}"
    name = signal.Signals(-exitcode).name
    hint = ", as the system does when memory runs out" if name == "SIGKILL" else ""
    return f"was killed by {name}{hint}"


def _hold_back_sigint() -> bool:
    """Block SIGINT while processes start, until they ignore it themselves. Returns whether it was let through before."""
    if not hasattr(signal, "pthread_sigmask"):
        return False
    return signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def _let_sigint_through(held: bool) -> None:
    if held:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
