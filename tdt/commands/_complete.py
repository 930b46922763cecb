"""Shell completion of configs, runs, columns and metrics, without importing NumPy or the core."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import typer


def configs(incomplete: str) -> list[str]:
    """The configs that come with tdt, and the YAML files in the folder of `incomplete`."""
    from tdt.train.config import bundled

    return _matching(incomplete, [*bundled(), *_files(incomplete, (".yaml", ".yml"))])


def runs(ctx: typer.Context, incomplete: str) -> list[str]:
    """The runs under --runs-root: by name, name/number, and folder."""
    root = Path(ctx.params.get("runs_root") or "runs")
    found = []
    for name in _folders(root):
        numbers = [path.name for path in _folders(name) if path.name.isdigit()]
        found += [name.name] * bool(numbers) + [f"{name.name}/{number}" for number in sorted(numbers, key=int)]
    return _matching(incomplete, [*found, *(f"{root}/{run}" for run in found if "/" in run)])


def checkpoints(ctx: typer.Context, incomplete: str) -> list[str]:
    """The runs, and the checkpoint files in the folder of `incomplete`."""
    return runs(ctx, incomplete) + _matching(incomplete, list(_files(incomplete, (".safetensors",))))


def anything(ctx: typer.Context, incomplete: str) -> list[str]:
    """Configs, runs and checkpoint files."""
    return configs(incomplete) + checkpoints(ctx, incomplete)


def starts(incomplete: str) -> list[str]:
    """Templates, tables and folders: the arguments of `tdt init`."""
    from tdt.train.config import bundled

    folder = Path(incomplete[: incomplete.rfind("/") + 1])
    return _matching(
        incomplete,
        [*bundled(), *_files(incomplete, (".csv", ".tsv")), *(f"{folder / path.name}/" for path in _folders(folder))],
    )


def overrides(ctx: typer.Context, incomplete: str) -> list[str]:
    """Settings, one level at a time (`optimizer.`, then `optimizer.lr=`), and after `=` the values that can be listed."""
    from tdt.train.config import keys

    written = _settings(ctx)
    key, equals, _ = incomplete.partition("=")
    if equals:
        listed = devices("") if key == "device" else keys.values(key, written)
        return _matching(incomplete, [f"{key}={value}" for value in listed])
    if incomplete.startswith("~"):
        return _matching(incomplete, [f"~{name}" for name in written])
    level = incomplete.count(".") + 1
    present = [parts for parts in (name.split(".") for name in written) if len(parts) >= level]
    below = {".".join(parts[:level]) for parts in present if len(parts) > level}
    found = dict.fromkeys(".".join(parts[:level]) + "=" for parts in present if len(parts) == level)
    parent = incomplete.rpartition(".")[0]
    for name, schema in keys.keys(parent, written).items():
        path = f"{parent}.{name}" if parent else name
        if path in keys.KINDS:
            below |= {path} if written.get(path) else set()
            found |= {f"{path}=": None}
        elif keys.has_keys(schema):
            below.add(path)
        else:
            found |= {f"{path}=": None}
    return _matching(incomplete, [*found, *(f"{path}." for path in sorted(below))])


def explainable(incomplete: str) -> list[str]:
    """The keys of the sections, and the names of components."""
    from tdt.train.config import keys

    found: list[str] = []
    sections = [""]
    while sections:
        parent = sections.pop(0)
        for name, schema in keys.keys(parent, {}).items():
            path = f"{parent}.{name}" if parent else name
            found.append(path)
            if path not in keys.KINDS and keys.has_keys(schema):
                sections.append(path)
    names = (name for path in keys.KINDS for name in keys.values(path, {}))
    return _matching(incomplete, [*found, *dict.fromkeys(names)])


def _settings(ctx: typer.Context) -> dict[str, str]:
    """The settings of the config on the command line, with those that are written after it."""
    from tdt.train.config.written import written

    name = ctx.params.get("config") or ctx.params.get("what")
    changes = (text.partition("=") for text in ctx.params.get("overrides") or ())
    return (written(str(name)) if name else {}) | {key: value for key, _, value in changes}


def splits(incomplete: str) -> list[str]:
    """The names of the splits."""
    return _matching(incomplete, ["train", "valid", "test"])


def columns(ctx: typer.Context, incomplete: str) -> list[str]:
    """The column names of the table on the command line."""
    tables = [arg for arg in ctx.args if arg.endswith((".csv", ".tsv")) and Path(arg).is_file()]
    if not tables:
        return []
    with open(tables[0], encoding="utf-8-sig", errors="replace") as file:
        first = file.readline(1 << 16).rstrip("\r\n")
    return _matching(incomplete, [name.strip(' "') for name in re.split(r"[,;\t|]", first)])


def tags(ctx: typer.Context, incomplete: str) -> list[str]:
    """The tags that the runs under --runs-root have logged per epoch."""
    from tdt.train.runs.index import summaries
    from tdt.train.runs.run import RunFolder

    root = Path(ctx.params.get("runs_root") or "runs")
    found = {tag for one in summaries(RunFolder.all(root), root) for tag in one.series}
    return _matching(incomplete, sorted(found))


def devices(incomplete: str) -> list[str]:
    """The values of --device."""
    return _matching(incomplete, ["auto", "cpu", "cuda"])


def _matching(incomplete: str, words: list[str]) -> list[str]:
    return [word for word in words if word.startswith(incomplete) and word.isprintable()]


def _files(incomplete: str, suffixes: tuple[str, ...]) -> Iterator[str]:
    """The files with these suffixes in the folder of `incomplete`, with the same prefix."""
    folder = incomplete[: incomplete.rfind("/") + 1]
    if Path(folder).is_dir():
        yield from sorted(folder + path.name for path in Path(folder).iterdir() if path.suffix in suffixes)


def _folders(parent: Path) -> list[Path]:
    return sorted(path for path in parent.iterdir() if path.is_dir()) if parent.is_dir() else []
