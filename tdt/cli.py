"""The command line `tdt`: loads the module of a subcommand, and turns errors into messages and exit codes.

0 success · 1 failed while running · 2 invalid command line or config, nothing was run · 3 the loss became
non-finite · 129, 130, 143 stopped by SIGHUP, SIGINT, SIGTERM. Messages go to stderr as plain lines.
"""

from __future__ import annotations

import importlib
import io
import os
import pkgutil
import sys
import traceback
import warnings
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tdt import commands
from tdt._about import __version__
from tdt.commands import _help, _options
from tdt.commands._output import print_lines

if TYPE_CHECKING:
    from typer._click import Command, Context

ClickException: Any = typer.BadParameter.__mro__[2]  # from typer, since some versions of it bundle their own click
USAGE_ERRORS = ("ConfigError", "RunError", "UnsupportedDataError")  # names only: importing them would load the core
RUNTIME_ERRORS = ("CheckpointError", "ExportError", "StepError")


# The order of the commands in `tdt --help`; a command that is not listed comes last.
ORDER = (
    "init",
    "check",
    "describe",
    "find-lr",
    "train",
    "tune",
    "eval",
    "predict",
    "generate",
    "export",
    "runs",
    "config",
    "schema",
    "doctor",
)


class LazyGroup(_help.Group):
    """Imports `tdt.commands.<name>` (with "_" for "-") when that command is used; `tdt --help` imports all."""

    def __init__(self, **settings: Any) -> None:
        found = (
            module.name.replace("_", "-") for module in pkgutil.iter_modules(commands.__path__) if module.name[0] != "_"
        )
        names = sorted(found, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))
        super().__init__(**(settings | {"commands": dict.fromkeys(names)}))

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        if cmd_name not in self.commands:
            return None
        module, target = _load(cmd_name)
        if not isinstance(target, typer.Typer):  # a Typer has subcommands, as `tdt runs`
            single = typer.Typer(**_options.PLAIN)
            single.command(cmd_name, cls=_help.Command, epilog=module.EXAMPLE)(target)
            target = single
        return typer.main.get_command(target)

    def summaries(self, ctx: Context) -> list[tuple[str, str]]:
        """Each command with its summary line, without building the commands, which would take four times as long."""
        targets = {name: _load(name)[1] for name in self.list_commands(ctx)}
        return [
            (name, _help.first_line(target.info.help if isinstance(target, typer.Typer) else target.__doc__))
            for name, target in targets.items()
        ]


def _load(name: str) -> tuple[Any, Any]:
    """The module of a command, and its function (or Typer of subcommands), which has the same name."""
    name = name.replace("-", "_")
    module = importlib.import_module(f"tdt.commands.{name}")
    return module, getattr(module, name)


# rich_markup_mode=None: plain-text help and usage errors. Importing Rich would take longer than everything else here.
app = typer.Typer(cls=LazyGroup, rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]})


def _print_version(value: bool) -> None:
    if value:
        print_lines(f"tdt {__version__}")
        raise typer.Exit


@app.callback(
    no_args_is_help=True,
    epilog=_help.examples("tdt init flowers.csv", "tdt train digits-cnn", "tdt eval digits-cnn", "tdt runs"),
)
def _tdt(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Train neural networks from a YAML file."""


def main() -> None:
    """Run the command line and exit."""
    for name in ("stdout", "stderr"):  # closed by the parent process: the next opened file would get its descriptor
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - stays open until the process exits
    if isinstance(sys.stdout, io.TextIOWrapper):  # escape characters that the terminal's encoding lacks
        sys.stdout.reconfigure(errors="backslashreplace")
    warnings.showwarning = _show_warning
    sys.excepthook = _show_error
    # NumPy reads this on import. tdt's own thread pool uses all cores, for large matrix products too.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run a command line; returns the exit code. With `--traceback`, errors are printed with their traceback."""
    command = typer.main.get_command(app)
    try:
        return command.main(arguments, prog_name="tdt", standalone_mode=False) or 0
    except ClickException as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            return _print_error(error.format_message(), error.exit_code)
        context = error.ctx.command_path if error.ctx else "tdt"
        return _print_error(f"{context}: {error.format_message()}\nTry '{context} --help'.", error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return _print_error("stopped", 130)
    except Exception as error:
        code = _exit_code(error)
        if code is None:
            raise
        if "--traceback" in arguments:
            print_lines(traceback.format_exc(), file=sys.stderr, end="")
            return code
        return _print_error("\n".join([_message(error), *getattr(error, "__notes__", ())]), code)


def _exit_code(error: Exception) -> int | None:
    """The exit code for an error that the user can fix from its message; None for any other, which is a bug in tdt."""
    name = type(error).__name__
    if name in USAGE_ERRORS:
        return 2
    if name == "NonFiniteLoss":
        return 3
    return 1 if name in RUNTIME_ERRORS or isinstance(error, (OSError, MemoryError)) else None


def _message(error: Exception) -> str:
    """The message of an error; for an OSError `file: message`, without its number."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error) or type(error).__name__


def _print_error(text: str, code: int) -> int:
    print_lines(text, file=sys.stderr)
    return code


def _show_warning(message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None) -> None:
    print_lines(f"warning: {message}", file=file or sys.stderr)


def _show_error(kind: Any, error: BaseException, trace: Any) -> None:
    """Print an unexpected error with its traceback, escaped: its message may contain untrusted text."""
    print_lines("".join(traceback.format_exception(kind, error, trace)), file=sys.stderr, end="")
