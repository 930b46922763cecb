"""Command lines and programs in processes of their own, which need not load Python and tdt: forks of one process that has them.

A fork begins as `python -c PROGRAM` does once it has imported the modules of a run: with the environment, folder and files that
it is given, one thread, and nothing computed. It ends as an interpreter does. What tdt and its libraries read from the
environment while they are imported is what the server was started with, apart from TDT_FAULT and OMP_NUM_THREADS.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import io
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import time
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from tdt._kernels import _threads
from tdt.train.runs import _fault

LOADED = (
    "numpy.random", "safetensors", "tdt.cli", "tdt.commands.eval", "tdt.commands.train", "tdt.commands._plain_console",
    "tdt.train.session", "tdt.utils.tensorboard", "tdt.vision.datasets.digits", "tdt._kernels.class_loss_cpu",
    "tdt._kernels.optim_cpu", "tdt._kernels.softmax_cpu",
)  # fmt: skip
TDT = "from tdt.cli import main; main()"
MOST = 1 << 17  # bytes of a request
SERVER = "from tests.commands.fork_server import serve; run = serve(); run and run()"


class Fork:
    """A process of the server that leads a session and runs a program with some arguments.

    It has a part of what `subprocess.Popen` has; at the end of a `with` it is killed, with its whole process group.

    Args:
        program: as for `python -c`; default: `tdt`.
        stdout: a descriptor, for a terminal or a pipe; default: a pipe to be read from, as stderr is.
        largest: no file may grow beyond so many bytes.
    """

    def __init__(
        self,
        arguments: Sequence[Any],
        *,
        cwd: Path,
        env: Mapping[str, str],
        program: str = TDT,
        stdout: int | None = None,
        largest: int | None = None,
    ) -> None:
        self.arguments = list(map(str, arguments))
        request = {
            "arguments": self.arguments,
            "cwd": str(cwd),
            "env": dict(env),
            "program": program,
            "largest": largest,
        }
        self._reply, theirs = socket.socketpair()
        read, out = os.pipe() if stdout is None else (None, os.dup(stdout))
        self.stdout = None if read is None else open(read, "rb", buffering=0)
        read, err = os.pipe()
        self.stderr = open(read, "rb", buffering=0)
        nothing = os.open(os.devnull, os.O_RDONLY)
        socket.send_fds(_server(), [json.dumps(request).encode()], [nothing, out, err, theirs.fileno()])
        for file in (nothing, out, err):
            os.close(file)
        theirs.close()
        self._lines = self._reply.makefile("r")
        self.pid = int(self._lines.readline())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, below zero for a signal; None if it still runs."""
        if self.returncode is None and select.select([self._reply], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once it has ended."""
        if self.returncode is None:
            if not select.select([self._reply], [], [], timeout)[0]:
                self._time_out(timeout)
            self.returncode = int(self._lines.readline())
            self._lines.close()
            self._reply.close()
        return self.returncode

    def communicate(self, timeout: float) -> tuple[str, str]:
        """What it writes, until it has ended."""
        end = time.monotonic() + timeout
        written = {file: b"" for file in (self.stdout, self.stderr) if file is not None}
        left = list(written)
        while left:
            ready, _, _ = select.select(left, [], [], max(end - time.monotonic(), 0))
            if not ready:
                self._time_out(timeout)
            for file in ready:
                if data := file.read(1 << 16):
                    written[file] += data
                else:
                    left.remove(file)
                    file.close()
        self.wait(max(end - time.monotonic(), 0))
        out, err = (written.get(file, b"").decode() for file in (self.stdout, self.stderr))
        return out, err

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def __enter__(self) -> Fork:
        return self

    def __exit__(self, *_: object) -> None:
        if self.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
            self.wait()
        for file in (self.stdout, self.stderr):
            if file is not None:
                file.close()

    def _time_out(self, seconds: float | None) -> NoReturn:
        os.killpg(self.pid, signal.SIGKILL)
        raise subprocess.TimeoutExpired(self.arguments, seconds or 0.0)


@functools.cache
def _server() -> socket.socket:
    """The connection to this process's server, which ends when it is closed."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    root = str(Path(__file__).parents[2])
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-c", SERVER, str(theirs.fileno())], pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
            start_new_session=True, env={**os.environ, "PYTHONPATH": root, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )  # fmt: skip
    atexit.register(process.wait)
    atexit.register(ours.close)  # before it
    return ours


def serve() -> Callable[[], Any] | None:
    """In the server: fork for each request, until the other end is closed. In a fork, returns what that is to run."""
    for name in LOADED:
        importlib.import_module(name)
    os.fsync = os.fstat  # as in tests.disk
    requests = socket.socket(fileno=int(sys.argv[1]))
    ended, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    replies: dict[int, socket.socket] = {}
    while True:
        if ended in select.select([ended, requests], [], [])[0]:
            os.read(ended, 1 << 10)
            _report(replies)
            continue
        data, files, _, _ = socket.recv_fds(requests, MOST, 4)
        if not data:
            return None
        reply = socket.socket(fileno=files.pop())
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for open_socket in (requests, reply, *replies.values()):
                open_socket.close()
            os.close(ended)
            os.close(wakes)
            return _become(json.loads(data), files)
        reply.sendall(b"%d\n" % pid)
        replies[pid] = reply
        for file in files:
            os.close(file)


def _report(replies: dict[int, socket.socket]) -> None:
    """Send the exit codes of the processes that have ended."""
    while replies:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with replies.pop(pid) as reply:
            try:
                reply.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
            except BrokenPipeError:  # nobody waits for it
                continue


def _become(request: dict[str, Any], files: Sequence[int]) -> Callable[[], Any]:
    """In a fork: take on what the request says; what to run."""
    os.setsid()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    sys.stdin = sys.__stdin__ = open(0, closefd=False)
    sys.stdout = sys.__stdout__ = open(1, "w", closefd=False, errors=sys.stdout.errors)
    err = io.FileIO(2, "w", closefd=False)
    sys.stderr = sys.__stderr__ = io.TextIOWrapper(
        io.BufferedWriter(err), sys.stderr.encoding, sys.stderr.errors, line_buffering=True
    )
    if request["largest"] is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (request["largest"], request["largest"]))
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    importlib.reload(_fault)
    _threads.THREADS.set(_threads._default())
    sys.argv = ["-c", *request["arguments"]]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    return functools.partial(exec, compile(request["program"], "<string>", "exec"), vars(main))
