"""Plain-text help: arguments by their metavar, commands with their whole summary line, one example per line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    from typer._click import Context, HelpFormatter


def examples(*commands: str) -> str:
    """The epilog of a command's help.

    >>> from tdt.commands._help import examples
    >>> print(examples("tdt runs", "tdt runs list").removeprefix("\\b").lstrip())
    Examples:
      tdt runs
      tdt runs list
    """
    return "\b\nExamples:\n" + "\n".join(f"  {command}" for command in commands)  # \b: do not wrap


class _Conversion:
    """Converts values of simple parameters; Typer 0.25 and later do with pydantic, whose import doubles the time of a start."""

    SIMPLE: dict[Any, Any] = {str: str, Path: Path, list[str]: list}

    def coerce(self, value: Any, param: Any, ctx: Context) -> Any:
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        convert = self.SIMPLE.get(param.type_descriptor.annotation)
        if convert is None:
            param._runtime_param = None  # Typer's own
            return param.get_runtime_param().coerce(value, param=param, ctx=ctx)
        return convert(value)


class _Light:
    """A command whose simple parameters are converted without pydantic."""

    get_params: Any

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        for param in self.get_params(ctx):
            if getattr(param, "_runtime_param", self) is None:
                param._runtime_param = _Conversion()
        try:
            return super().parse_args(ctx, args)  # type: ignore[misc]
        except Exception as error:
            if getattr(error, "ctx", ctx) is None:  # the parser's errors do not know their command
                error.ctx = ctx  # type: ignore[attr-defined]
            raise


class Command(_Light, TyperCommand):
    """A command whose help shows arguments by their metavar only; Typer would add braces, dots and Python types."""

    def collect_usage_pieces(self, ctx: Context) -> list[str]:
        names = [(_name(param), param.required) for param in self.params if _is_argument(param)]
        return ["[OPTIONS]", *(name if required else f"[{name}]" for name, required in names)]

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        params: list[Any] = self.get_params(ctx)
        arguments = [(_name(param), param.help or "") for param in params if _is_argument(param)]
        options = [param.get_help_record(ctx) for param in params if not _is_argument(param)]
        for title, rows in (("Arguments", arguments), ("Options", list(filter(None, options)))):
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


class Group(_Light, TyperGroup):
    """A command with subcommands."""

    def resolve_command(self, ctx: Context, args: list[str]) -> Any:
        if args and not ctx.resilient_parsing and args[0] not in self.list_commands(ctx) and args[0][0] != "-":
            from tdt.commands._hints import no_command

            ctx.fail(no_command(args[0], self.list_commands(ctx)))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(self.summaries(ctx)))

    def summaries(self, ctx: Context) -> list[tuple[str, str]]:
        """Each command with its summary line."""
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        return [(name, first_line(command.help)) for name, command in commands.items() if command]


def first_line(text: str | None) -> str:
    """The text before the first line break."""
    return (text or "").strip().partition("\n")[0]


def _is_argument(param: Any) -> bool:
    return bool(param.param_type_name == "argument")


def _name(param: Any) -> str:
    return str(param.metavar or param.name.upper())
