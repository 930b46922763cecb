"""A job of several ranks that a test kills, signals or waits for: its processes are found by a variable of their environment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType

from benchmarks.machines import Machines
from tests.mpi.launching import LONGEST, environment, launcher

MARK = "TDT_TEST_JOB"
RANKS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK")


class Job:
    """`tdt ARGUMENTS` on some ranks, as a context, which ends it.

    Args:
        by_mpirun: whether mpirun starts it; default: if there are several ranks.
        cwd: the folder in which it runs; its output is kept there.
        variables: of its environment.
    """

    def __init__(
        self, ranks: int, *arguments: object, cwd: Path, by_mpirun: bool | None = None, **variables: str
    ) -> None:
        start, settings = launcher(ranks) if (ranks > 1 if by_mpirun is None else by_mpirun) else ([], {})
        command = [*start, sys.executable, "-m", "tdt", *map(str, arguments)]
        self._start(
            ranks,
            cwd,
            lambda mark, **how: subprocess.Popen(command, env=environment(**settings, **variables, **mark), **how),
        )

    @classmethod
    def on(cls, machines: Machines, ranks: int, *arguments: object, cwd: Path) -> Job:
        """The same, `ranks` on each of some machines."""
        job = cls.__new__(cls)
        command = [sys.executable, "-m", "tdt", *map(str, arguments)]
        job._start(
            ranks * machines.count, cwd, lambda mark, **how: machines.mpirun(command, ranks, variables=mark, **how)
        )
        return job

    def _start(self, ranks: int, cwd: Path, start: Callable[..., subprocess.Popen[str]]) -> None:
        self.ranks, self.mark = ranks, uuid.uuid4().hex
        self.log = cwd / f"{self.mark}.log"
        with self.log.open("w") as log:
            how = {"stdout": log, "stderr": subprocess.STDOUT, "cwd": cwd, "start_new_session": True}
            self.process = start({MARK: self.mark}, **how)

    def __enter__(self) -> Job:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pid, _ in self.processes():
            _kill(pid, signal.SIGKILL)
        self.process.wait()

    @property
    def text(self) -> str:
        """What it has printed so far."""
        return self.log.read_text(errors="replace")

    def processes(self) -> Iterator[tuple[int, int | None]]:
        """The processes of the job and the rank of each, None for those of the launcher."""
        for folder in Path("/proc").iterdir():
            if folder.name.isdecimal():
                try:
                    variables = (folder / "environ").read_bytes().decode(errors="replace").split("\0")
                    is_ended = (folder / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"
                except OSError:
                    continue  # it has ended
                values = dict(text.split("=", 1) for text in variables if "=" in text)
                if values.get(MARK) == self.mark and not is_ended:
                    rank = next((int(values[name]) for name in RANKS if name in values), 0 if self.ranks == 1 else None)
                    yield int(folder.name), rank

    def pid(self, rank: int) -> int:
        """The process of a rank, not one of its loader's workers: the first that it has started."""
        return min(pid for pid, of in self.processes() if of == rank)

    def kill(self, rank: int, number: signal.Signals = signal.SIGKILL) -> bool:
        """Send a rank a signal. Returns whether there was one."""
        try:
            return _kill(self.pid(rank), number)
        except ValueError:  # the job has ended, or not begun
            return False

    def wait_for(self, file: Path, timeout: float = LONGEST) -> None:
        """Wait until it has written something to a file. AssertionError if it ends before."""
        until = time.monotonic() + timeout
        while not file.exists() or not file.stat().st_size:
            assert self.process.poll() is None and time.monotonic() < until, self.text
            time.sleep(0.02)

    def end_of_ranks(self, timeout: float = LONGEST) -> None:
        """Wait until no process of a rank is left. AssertionError if one is."""
        until = time.monotonic() + timeout
        while any(rank is not None for _, rank in self.processes()):
            assert time.monotonic() < until, self.text
            time.sleep(0.02)

    def end(self, timeout: float = LONGEST) -> int:
        """Wait for its end. Returns the exit code. AssertionError if processes are left half a second later."""
        code = self.process.wait(timeout)
        until = time.monotonic() + 0.5
        while left := list(self.processes()):
            assert time.monotonic() < until, f"processes (pid, rank) are left: {left}\n{self.text}"
            time.sleep(0.02)
        return code


def _kill(pid: int, number: signal.Signals) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
