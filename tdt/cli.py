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
from tdt._launched import launched
from tdt.commands import _help, _options, _startup
from tdt.commands._errors import failure, paint
from tdt.commands._output import print_lines

if TYPE_CHECKING:
    from typer._click import Command, Context

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
        bool, typer.Option("-V", "--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Train neural networks from a YAML file."""


def main() -> None:
    """Run the command line and exit."""
    _startup.begin()
    for name in ("stdout", "stderr"):  # closed by the parent process: the next opened file would get its descriptor
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - stays open until the process exits
    if isinstance(sys.stdout, io.TextIOWrapper):  # escape characters that the terminal's encoding lacks
        sys.stdout.reconfigure(errors="backslashreplace")
    warnings.showwarning = _show_warning
    sys.excepthook = _show_error
    # NumPy reads this on import. tdt's own thread pool uses all cores, for large matrix products too.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if "_TDT_COMPLETE" in os.environ or any(text.endswith("-completion") for text in sys.argv[1:]):
        from tdt.commands import _shells

        _shells.use_scripts()
        if os.environ.get("_TDT_COMPLETE") == "complete_bash":
            sys.exit(_shells.complete(run))
    launch = launched()
    if launch is None:
        sys.exit(run(sys.argv[1:]))
    from tdt.commands._ranks import run_as_rank

    sys.exit(run_as_rank(sys.argv[1:], launch, call, ORDER))


def run(arguments: list[str]) -> int:
    """Run a command line; returns the exit code. With `--traceback`, errors are printed with their traceback."""
    try:
        return call(arguments)
    except BaseException as error:
        found = failure(error, arguments)
        if found is None:
            raise
        print_lines(found[0], file=sys.stderr, paint=paint)
        return found[1]


def call(arguments: list[str]) -> int:
    """Run a command line; returns the exit code, and raises what it raises."""
    return typer.main.get_command(app).main(arguments, prog_name="tdt", standalone_mode=False) or 0


def _show_warning(message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None) -> None:
    print_lines(f"warning: {message}", file=file or sys.stderr)


def _show_error(kind: Any, error: BaseException, trace: Any) -> None:
    """Print an unexpected error with its traceback, escaped: its message may contain untrusted text."""
    print_lines("".join(traceback.format_exception(kind, error, trace)), file=sys.stderr, end="")
