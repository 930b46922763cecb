"""The command line, in a process of its own or in this one."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from tdt import cli
from tests.commands.fork_server import TDT, Fork

COMMAND = [sys.executable, "-c", TDT]

SMALL = """\
name: small
device: cpu
data:
  train: Digits(split=train)
  valid: Digits(split=valid)
  test: Digits(split=test)
  transform: [ToTensor]
  loader: {batch_size: 128}
model: [Flatten, "Linear(64, 10)"]
loss: CrossEntropyLoss
metrics: [accuracy]
optimizer: Adam(lr=1e-2)
train: {epochs: 2}
log: {every: 5 steps}
"""


def environment(**more: str) -> dict[str, str]:
    """This process's, with the repository on the path wherever the command runs, and one thread."""
    root = str(Path(__file__).parents[2])
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": root, **more}


def tdt(*arguments: Any, cwd: Path, largest: int | None = None, **more: str) -> subprocess.CompletedProcess[str]:
    """Run `tdt` with these arguments in `cwd`, in a process of its own.

    more: environment variables. largest: no file may grow beyond so many bytes.
    """
    process = Fork(arguments, cwd=cwd, env=environment(**more), largest=largest)
    out, err = process.communicate(timeout=120)
    return subprocess.CompletedProcess(["tdt", *process.arguments], process.wait(), out, err)


def python(program: str, *arguments: Any, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """As `python -c`, in a process that has loaded tdt already; more: environment variables."""
    process = Fork(arguments, cwd=cwd, env=environment(**more), program=program)
    out, err = process.communicate(timeout=120)
    return subprocess.CompletedProcess(process.arguments, process.wait(), out, err)


def tdt_here(*arguments: Any, cwd: Path) -> subprocess.CompletedProcess[str]:
    """As `tdt`, in this process. What would be a traceback is raised."""
    written = list(map(str, arguments))
    with chdir(cwd), redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        code = cli.run(written)
    return subprocess.CompletedProcess(["tdt", *written], code, out.getvalue(), err.getvalue())
