"""A command line in one of several processes that mpirun or srun has started: one output, errors by rank, one end.

An error that all processes have found together (they exchange it, or it is in the arguments) is printed once, and all end with
its exit code. Any other exception, `sys.exit` included, ends the whole run: the others may wait for this process.
"""

from __future__ import annotations

import os
import socket
import sys
import time
import traceback
from collections.abc import Callable, Collection
from typing import NoReturn

from tdt._activity import ACTIVITY, PREPARING
from tdt._launched import Launch, rank_hint
from tdt.commands._errors import ClickException, failure, paint
from tdt.commands._output import print_lines

SHARED = ("train", "eval", "predict")  # commands whose work several processes share
HELP = {"-h", "--help", "-V", "--version"}
WAIT = 1.0  # seconds in which rank 0 prints its message: a launcher may end all when the first process ends


def run_as_rank(
    arguments: list[str], launch: Launch, call: Callable[[list[str]], int], commands: Collection[str]
) -> int:
    """Run a command line, of which rank 0 alone prints the output. Returns the exit code, or aborts all processes.

    call: runs the command line; commands: their names.
    """
    first = rank_hint() == 0
    if not first:
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - stays open until the process exits
    if (text := _refusal(arguments, launch, commands)) is not None:
        return _end_alike(text, 2, first)
    try:
        code = call(arguments)
    except BaseException as error:  # noqa: BLE001 (sys.exit and MemoryError too: the others must not wait for this process)
        text, code = _failure(error, arguments)
        if not _is_shared(error):
            _abort(text, code)
        return _end_alike(text, code, first)
    if _is_working():  # the command line has turned a KeyboardInterrupt into an exit code
        _abort("stopped", code or 1)
    _finish()
    return code


def _refusal(arguments: list[str], launch: Launch, commands: Collection[str]) -> str | None:
    """Why a command is refused in several processes; None if it is not."""
    command = next((text for text in arguments if not text.startswith("-")), None)
    if command not in commands or command in SHARED or HELP & set(arguments):
        return None
    unset = " ".join(f"-u {name}" for name in launch.variables)
    return (
        f"error: {launch.variable}={launch.size}: a launcher has started {launch.size} processes, but `tdt {command}` is one "
        f"process's work, unlike {', '.join(SHARED)}: start it alone, without mpirun, srun or torchrun (if each of them is "
        f"meant to do it: env {unset} tdt {command} …)"
    )


def _failure(error: BaseException, arguments: list[str]) -> tuple[str, int]:
    """The message for an exception, and an exit code that is not 0."""
    if isinstance(error, SystemExit):
        return f"error: sys.exit({error.code!r}) was called", error.code if isinstance(
            error.code, int
        ) and error.code else 1
    return failure(error, arguments) or ("".join(traceback.format_exception(error)), 1)


def _is_shared(error: BaseException) -> bool:
    """Whether all processes end with this error, or with that of another one, of their own accord."""
    if getattr(error, "shared", False) or getattr(error.__cause__, "shared", False):
        return True
    alike = (
        type(error).__name__ == "LaunchError" and error.__cause__ is None
    )  # else a library is missing, maybe only here
    return not _has_begun() and (isinstance(error, ClickException) or alike)


def _has_begun() -> bool:
    mpi = sys.modules.get("mpi4py.MPI")
    return mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized()


def _is_working() -> bool:
    """Whether this process has not ended its part of a run."""
    return _has_begun() and ACTIVITY.doing not in ("", PREPARING)


def _abort(text: str, code: int) -> NoReturn:
    """Print a message of this process alone, and end all."""
    print_lines("\n".join(f"{_name()}: {line}" for line in text.splitlines()), file=sys.__stderr__, flush=True)
    from tdt.distributed._watchdog import abort_all

    abort_all(code)


def _end_alike(text: str, code: int, first: bool) -> int:
    """Print a message that all processes have, once."""
    if first and text:
        print_lines(text, file=sys.stderr, flush=True, paint=paint)
    if not first and not _has_begun():
        time.sleep(WAIT)
    _finish()
    return code


def _finish() -> None:
    """End MPI: no process ends before all have printed, since a launcher may end all after the first."""
    sys.stdout.flush()
    sys.stderr.flush()
    if _has_begun():
        from tdt.distributed._watchdog import stop_all

        stop_all()
        sys.modules["mpi4py.MPI"].Finalize()


def _name() -> str:
    return f"rank {rank_hint()} on {socket.gethostname()}"
