"""Messages and exit codes for exceptions."""

from __future__ import annotations

import traceback
from typing import Any

import typer

ClickException: Any = typer.BadParameter.__mro__[2]  # from typer, since some versions of it bundle their own click
USAGE_ERRORS = (
    "ConfigError",
    "RunError",
    "UnsupportedDataError",
    "LaunchError",
)  # names only: importing them would load the core
RUNTIME_ERRORS = ("CheckpointError", "CompileError", "ExportError", "StepError")


def failure(error: BaseException, arguments: list[str]) -> tuple[str, int] | None:
    """The message and the exit code for an exception of `call`; None for a bug in tdt."""
    if isinstance(error, ClickException):
        if type(error).__name__ == "NoArgsIsHelpError":
            return error.format_message(), error.exit_code
        context = error.ctx.command_path if error.ctx else "tdt"
        return f"{context}: {error.format_message()}\nTry '{context} --help'.", error.exit_code
    if isinstance(error, (KeyboardInterrupt, typer.Abort)):
        return "stopped", 130
    code = _exit_code(error)
    if code is None:
        return None
    if "--traceback" in arguments:
        return "".join(traceback.format_exception(error)).rstrip("\n"), code
    return "\n".join([_message(error), *getattr(error, "__notes__", ())]), code


def _exit_code(error: BaseException) -> int | None:
    """The exit code for an error that the user can fix from its message; None for any other, which is a bug in tdt."""
    name = getattr(error, "kind", type(error).__name__)  # of an OtherRankError: the class on that rank
    if name in USAGE_ERRORS:
        return 2
    if name == "NonFiniteLoss":
        return 3
    return 1 if name in RUNTIME_ERRORS or isinstance(error, (OSError, MemoryError)) else None


def _message(error: BaseException) -> str:
    """The message of an error; for an OSError `file: message`, without its number."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error) or type(error).__name__
