"""The command `tdt`: finds the verb, and turns errors into messages and exit codes.

0 done · 1 failed while running · 2 the command line or the config is wrong, nothing was run · 3 the loss became
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
from typing import Annotated, Any

import typer

from tdt import commands
from tdt._about import __version__
from tdt.commands import _help, _options
from tdt.commands._output import say

ClickException: Any = typer.BadParameter.__mro__[2]  # typer brings click, in some versions under a name of its own
WRONG = ("ConfigError", "RunError", "UnsupportedDataError")  # by name: importing them would load the core
FAILED = ("CheckpointError", "StepError")


# As one comes to need them; a verb that is not named here comes last.
ORDER = "init", "check", "describe", "train", "eval", "predict", "runs", "config", "schema", "doctor"


class Verbs(_help.Group):
    """Loads `tdt.commands.<verb>` when the verb is used, all of them for `tdt --help`."""

    def __init__(self, **settings: Any) -> None:
        found = (module.name for module in pkgutil.iter_modules(commands.__path__) if module.name[0] != "_")
        verbs = sorted(found, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))
        super().__init__(**(settings | {"commands": dict.fromkeys(verbs)}))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.commands:
            return None
        module, made = _load(cmd_name)
        if not isinstance(made, typer.Typer):  # else it has commands of its own, as `tdt runs`
            alone = typer.Typer(**_options.PLAIN)
            alone.command(cmd_name, cls=_help.Command, epilog=module.EXAMPLE)(made)
            made = alone
        return typer.main.get_command(made)

    def summaries(self, ctx: Any) -> list[tuple[str, str]]:
        """Without making them commands, which takes four times as long."""
        made = {name: _load(name)[1] for name in self.list_commands(ctx)}
        return [
            (name, _help.first_line(one.info.help if isinstance(one, typer.Typer) else one.__doc__))
            for name, one in made.items()
        ]


def _load(verb: str) -> tuple[Any, Any]:
    """A verb's module, and the function or the group of verbs that it is named after."""
    module = importlib.import_module(f"tdt.commands.{verb}")
    return module, getattr(module, verb)


# rich_markup_mode=None: help and usage errors as plain text. Rich's would take longer to load than all else here.
app = typer.Typer(cls=Verbs, rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]})


def _print_version(wanted: bool) -> None:
    if wanted:
        say(f"tdt {__version__}")
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
    for name in ("stdout", "stderr"):  # closed by who started us: else the next file to be opened would be in its place
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - for as long as the process lives
    if isinstance(sys.stdout, io.TextIOWrapper):  # a name that the terminal has no letters for is no reason to stop
        sys.stdout.reconfigure(errors="backslashreplace")
    warnings.showwarning = _show_warning
    sys.excepthook = _show_error
    # Read when NumPy is loaded: the cores belong to one pool, tdt's own, which large matrix products use too.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run a command line; returns the exit code. `--traceback` shows where any error arose."""
    command = typer.main.get_command(app)
    try:
        return command.main(arguments, prog_name="tdt", standalone_mode=False) or 0
    except ClickException as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            return _say(error.format_message(), error.exit_code)
        context = error.ctx.command_path if error.ctx else "tdt"
        return _say(f"{context}: {error.format_message()}\nTry '{context} --help'.", error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return _say("stopped", 130)
    except Exception as error:  # noqa: BLE001 - sorted here into those that are the user's to mend, and the others
        code = _exit_code(error)
        if code is None:
            raise
        if "--traceback" in arguments:
            say(traceback.format_exc(), file=sys.stderr, end="")
            return code
        return _say("\n".join([_text(error), *getattr(error, "__notes__", ())]), code)


def _exit_code(error: Exception) -> int | None:
    """The exit code for an error whose message is enough for the user; None for any other, which is a bug of ours."""
    name = type(error).__name__
    if name in WRONG:
        return 2
    if name == "NonFiniteLoss":
        return 3
    return 1 if name in FAILED or isinstance(error, (OSError, MemoryError)) else None


def _text(error: Exception) -> str:
    """What it says; an error of the operating system without its number, and the file first."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error) or type(error).__name__


def _say(text: str, code: int) -> int:
    say(text, file=sys.stderr)
    return code


def _show_warning(message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None) -> None:
    say(f"warning: {message}", file=file or sys.stderr)


def _show_error(kind: Any, error: BaseException, trace: Any) -> None:
    """An error of tdt's own, with its traceback: what it says may hold text from outside."""
    say("".join(traceback.format_exception(kind, error, trace)), file=sys.stderr, end="")
