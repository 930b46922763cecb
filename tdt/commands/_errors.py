"""Messages and exit codes for exceptions."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any, cast

import typer

from tdt.commands._output import styled

if TYPE_CHECKING:
    from tdt.train.config.errors import ConfigError

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
        from tdt.commands._hints import usage

        return f"error: {usage(error, arguments)}", error.exit_code
    if isinstance(error, (KeyboardInterrupt, typer.Abort)):
        return "stopped", 130
    code = _exit_code(error)
    if code is None:
        return None
    if "--traceback" in arguments:
        return "".join(traceback.format_exception(error)).rstrip("\n"), code
    if type(error).__name__ == "ConfigError":
        from tdt.commands._excerpts import located

        lines = [f"error: {text}" for text in located(cast("ConfigError", error), arguments)]
    else:
        lines = [f"error: {_message(error)}"]
    return "\n".join([*lines, *getattr(error, "__notes__", ())]), code


def paint(text: str) -> str:
    """The lines of a message with colours: the word error, and the mark below the place of a mistake."""
    import re

    text = re.sub(r"^error:", styled("error:", "red"), text, flags=re.MULTILINE)
    return re.sub(r"^( +(?:\| )? *)(\^+)$", lambda found: found[1] + styled(found[2], "red"), text, flags=re.MULTILINE)


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
