"""`tdt config`: show a resolved config with the origin of each value, or the differences between two."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from tdt.commands import _complete
from tdt.commands._help import Command, Group, examples
from tdt.commands._options import PLAIN, ConfigName, Json, Overrides, Root, Traceback, Trust, Wide
from tdt.commands._output import print_lines
from tdt.commands._tables import cut, paint, print_json, text

LONGEST_MEANING = 1000  # characters of a description
_ORIGIN = "  # "  # begins the comment with a value's origin

EXAMPLE = examples(
    "tdt config show digits-cnn optimizer.lr=0.1",
    "tdt config explain train.warmup",
    "tdt config diff digits-mlp digits-cnn",
)

config = typer.Typer(
    cls=Group,
    help="Show a resolved config, explain a key, or show the differences between two configs.",
    epilog=EXAMPLE,
    no_args_is_help=True,
    **PLAIN,
)

ConfigOrRun = Annotated[
    str,
    typer.Argument(metavar="CONFIG|RUN", help="A YAML file, a bundled config or a run.", autocompletion=_complete.runs),
]


@config.command(
    "show", cls=Command, epilog=examples("tdt config show digits-cnn", "tdt config show my.yaml train.epochs=3 --json")
)
def show(
    config: ConfigName,
    overrides: Overrides = None,
    depth: Annotated[
        int | None, typer.Option("--depth", min=1, metavar="N", help="Show N levels of keys; what is below as …")
    ] = None,
    wide: Wide = False,
    json: Json = False,
    trust: Trust = False,
    traceback: Traceback = False,
) -> int:
    """Print a config with extends, references, settings and defaults resolved, and the origin of each value."""
    from tdt.train.config import load
    from tdt.train.config.settings import settings

    checked = load(config, overrides or ())
    if json:
        values = settings(checked.resolved(), checked.file)
        return print_json(
            {key: {"value": value, "origin": checked.origin(tuple(key.split(".")))} for key, value in values.items()}
        )
    lines = checked.annotated(depth).rstrip("\n").split("\n")
    if sys.stdout.isatty() and not wide:
        lines = _fitted(lines, shutil.get_terminal_size().columns)
    print_lines(*lines, whole=True)
    return 0


def _fitted(lines: list[str], columns: int) -> list[str]:
    """The lines of a config, no longer than a terminal: origins with the names of their files, where each is of one file only,
    and close to their values."""
    parts = [line.rpartition(_ORIGIN) if _ORIGIN in line else (line, "", "") for line in lines]
    paths = {origin.rpartition(":")[0] for _, _, origin in parts}
    names = [Path(path).name for path in paths]
    rows = []
    for value, _, origin in parts:
        name = Path(origin).name
        rows.append((value.rstrip(), name if names.count(name.rpartition(":")[0]) == 1 else origin))
    room = columns - len(_ORIGIN) - max(len(origin) for _, origin in rows)
    aligned = max((len(value) for value, origin in rows if origin and len(value) <= room), default=0)
    return [cut(f"{value:<{aligned}}{_ORIGIN}{origin}" if origin else value, columns) for value, origin in rows]


@config.command(
    "explain",
    cls=Command,
    epilog=examples("tdt config explain train.clip_grad_norm", "tdt config explain train", "tdt config explain AdamW"),
)
def explain(
    key: Annotated[
        str,
        typer.Argument(
            metavar="KEY",
            help="A key, as train.epochs, or a component, as AdamW.",
            autocompletion=_complete.explainable,
        ),
    ],
    wide: Wide = False,
    json: Json = False,
    traceback: Traceback = False,
) -> int:
    """Explain what a key means, which values it takes and what its default is; or the arguments of a component."""
    from tdt.train.config import keys

    schema = keys.explained(key)
    if schema is None:
        from tdt._did_you_mean import did_you_mean

        known = _complete.explainable("")
        raise typer.BadParameter(f"there is no key {key!r}; {did_you_mean(key, known, 'tdt schema lists all')}")
    facts = _explanation(schema)
    below = {name: _explanation(one) for name, one in keys.below(key, schema).items()}
    names = keys.values(key, {}) if key in keys.KINDS else []
    if json:
        return print_json({"key": key, **facts, "keys": below, "components": names})
    about = [f"{name}: {facts[name]}" for name in ("values", "default") if facts[name] and not below]
    print_lines(f"{key}: {facts['meaning']}", *about)
    if below:
        rows = [(name, one["values"], one["default"], one["meaning"]) for name, one in below.items()]
        print_lines(
            "", text(("key", "values", "default", "meaning"), rows, fit=not wide, longest=LONGEST_MEANING), whole=True
        )
    if names:
        print_lines("", f"one of: {', '.join(names)}")
    return 0


def _explanation(schema: dict[str, Any]) -> dict[str, str]:
    from tdt.train.config.keys import accepted

    default = schema.get("default")
    shown = (
        ""
        if default is None or isinstance(default, dict)
        else str(default).lower()
        if default in (True, False)
        else str(default)
    )
    return {"meaning": schema.get("description", ""), "values": accepted(schema), "default": shown}


@config.command(
    "diff",
    cls=Command,
    epilog=examples("tdt config diff digits-mlp digits-cnn", "tdt config diff my.yaml digits-cnn/1"),
)
def diff(
    a: ConfigOrRun,
    b: ConfigOrRun,
    wide: Wide = False,
    json: Json = False,
    runs_root: Root = Path("runs"),
    trust: Trust = False,
    traceback: Traceback = False,
) -> int:
    """Show the settings that differ between two configs or runs."""
    from tdt.train.config.settings import settings
    from tdt.train.runs.history import differing

    rows = differing([settings(_text(name, runs_root), name) for name in (a, b)])
    if json:
        return print_json({"configs": [a, b], "settings": rows})
    if not rows:
        print_lines("no differences")
        return 0
    cells = [(key, *("-" if value is None else value for value in row)) for key, row in rows.items()]
    print_lines(text(("setting", a, b), cells, fit=not wide), whole=True, paint=paint)
    return 0


def _text(name: str, root: Path) -> str:
    """The resolved config of a file, of a bundled config, or of a run."""
    from tdt.train.config import bundled, load

    if Path(name).is_file() or name in bundled() or Path(name).suffix in (".yaml", ".yml"):
        return load(name).resolved()
    from tdt.train.runs.run import RunFolder

    return RunFolder.open(name, root).config_text()
