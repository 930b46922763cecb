"""What a wrong command line probably meant: commands and options of other tools, and settings written as options."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Collection, Sequence
from typing import Any

from tdt._did_you_mean import closest

# Commands of other tools, with what does the same here.
COMMANDS = {
    "rm": "delete", "remove": "delete", "del": "delete", "ls": "list", "info": "show", "cat": "show",
    "evaluate": "eval", "validate": "eval", "val": "eval", "test": "eval", "score": "eval", "fit": "train", "run": "train",
    "new": "init", "create": "init", "generate-config": "init", "inference": "predict", "infer": "predict",
    "get": "explain", "summary": "describe", "info-model": "describe", "lint": "check", "lr-find": "find-lr", "sweep": "tune",
    "search": "tune", "hpo": "tune", "sample": "generate", "convert": "export", "env": "doctor", "collect-env": "doctor",
}  # fmt: skip
LINES = {  # words that are no commands: what to write instead
    "version": "tdt --version", "help": "tdt --help", "resume": "tdt train --resume RUN",
    "tensorboard": "tensorboard --logdir runs", "explain": "tdt config explain KEY",
    "list": "tdt runs list", "ls": "tdt runs list", "compare": "tdt runs compare RUN RUN", "delete": "tdt runs delete RUN",
    "rm": "tdt runs delete RUN",
}  # fmt: skip
# Options of other tools.
OPTIONS = {
    "gpu": "--device cuda", "gpus": "--device cuda", "cuda": "--device cuda", "accelerator": "--device",
    "devices": "--device cuda", "cpu": "--device cpu", "no-cuda": "--device cpu",
    "output": "--run-dir DIR", "output-dir": "--run-dir DIR", "out-dir": "--run-dir DIR", "save-dir": "--run-dir DIR",
    "logdir": "--run-dir DIR",
    "project": "--runs-root DIR", "results-dir": "--runs-root DIR",
    "resume-from-checkpoint": "--resume RUN", "ckpt-path": "--resume RUN", "checkpoint": "--resume RUN",
    "dry-run": "tdt check CONFIG", "summary": "tdt describe CONFIG", "help-all": "--help",
    "o": "--output", "out": "--output", "output-file": "--output", "predictions": "--output",
    "force": "--yes", "no-input": "--yes", "debug": "--traceback", "trust-remote-code": "--trust",
}  # fmt: skip
CONFIG = ("config", "cfg", "config-file", "config-name", "c", "f", "file", "model", "data", "yaml")


def usage(error: Any, arguments: Sequence[str]) -> str:
    """The message for a wrong command line: what is wrong, where, what was probably meant, and how to get help."""
    context = error.ctx.command_path if error.ctx else "tdt"
    lines: list[str] = []
    text = error.format_message().removeprefix("Invalid value: ").replace("\n\t", " ")  # choices are lines of their own
    if type(error).__name__ == "NoSuchOption":
        text, lines = _option(error, arguments)
    elif type(error).__name__ == "BadOptionUsage" and error.ctx:
        text = _without_value(error.option_name, error.ctx) or text
    return "\n".join([f"{context}: {text}", *lines, f"Try '{context} --help'."])


def no_command(name: str, known: Collection[str]) -> str:
    """The message for a command that there is not."""
    start = f"there is no command {name!r}"
    if (meant := COMMANDS.get(name)) in known:
        return f"{start}; did you mean {meant!r}?"
    if name in LINES and "train" in known:  # of `tdt` itself
        return f"{start}; did you mean `{LINES[name]}`?"
    if name.endswith((".yaml", ".yml")) and "train" in known:
        return f"{start}; did you mean `tdt train {shlex.quote(name)}`?"
    near = closest(name, known)
    return f"{start}; did you mean {near!r}?" if near else f"{start}; there are: {', '.join(known)}"


def _option(error: Any, arguments: Sequence[str]) -> tuple[str, list[str]]:
    """The message for an unknown option, and the command line with a mark below it."""
    from tdt.commands._excerpts import in_arguments

    option = error.option_name
    place = next((n for n, text in enumerate(arguments) if text.partition("=")[0] == option), None)
    if place is None:  # as in -xyz
        place = next((n for n, text in enumerate(arguments) if text.startswith(option)), None)
    written = arguments[place] if place is not None else option
    _, equals, value = written.partition("=")
    following = arguments[place + 1] if place is not None and len(arguments) > place + 1 else ""
    value = value if equals else "" if following.startswith("-") or "=" in following else following
    meant = _meant(option.lstrip("-"), value, error.ctx)
    lines = in_arguments(arguments, place, 1, len(written))
    return f"there is no option {option}{f'; {meant}' if meant else ''}", lines


def _without_value(option: str, context: Any) -> str:
    """The message for an option whose value is missing; empty for an option that takes none."""
    of_option = [parameter for parameter in context.command.params if option in parameter.opts]
    values = [parameter.metavar or "VALUE" for parameter in of_option if not parameter.is_flag]
    return f"{option} needs a value: {option} {values[0]}" if values else ""


def _meant(name: str, value: str, context: Any) -> str:
    parameters = context.command.params if context else []
    takes = {option for parameter in parameters for option in (*parameter.opts, *parameter.secondary_opts)}
    metavars = {parameter.metavar for parameter in parameters if parameter.param_type_name == "argument"}
    if name in CONFIG and "CONFIG" in metavars:
        return f"the config is an argument: {context.command_path} {shlex.quote(value or 'CONFIG')}"
    hint = OPTIONS.get(name, "")
    if hint and (not hint.startswith("-") or hint.split()[0] in takes):
        return f"did you mean `{hint}`?"
    if any(str(metavar).startswith("KEY=VALUE") for metavar in metavars) and (key := _setting(name)):
        return f"a setting is written without dashes: {key}={shlex.quote(value) if value else 'VALUE'}"
    near = difflib.get_close_matches(f"--{name}", [option for option in takes if option != "--help"], n=1, cutoff=0.7)
    return f"did you mean {near[0]}?" if near else ""


def _setting(name: str) -> str | None:
    """The key path of the setting that an option is named after, as `train.epochs` for epochs and max-epochs."""
    from tdt.train.config.validate import key_path

    return name if "." in name else key_path(name.replace("-", "_"))
