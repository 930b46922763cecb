"""`tdt runs`: list, show, compare and delete runs."""

from __future__ import annotations

import fnmatch
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tdt.commands import _complete
from tdt.commands._help import Command, Group, examples
from tdt.commands._options import PLAIN, Json, Root, Traceback, Wide, Yes, confirmed
from tdt.commands._output import one_line, print_lines
from tdt.commands._tables import paint, print_json, sparkline, text

if TYPE_CHECKING:
    from tdt.train.runs.history import History
    from tdt.train.runs.run import RunFolder

EXAMPLE = examples("tdt runs", "tdt runs compare digits-cnn/1 digits-cnn/2", "tdt runs delete digits-cnn/1")


class _Listing(Group):
    """`tdt runs` alone is `tdt runs list`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing and (not args or (args[0][0] == "-" and args[0] not in ctx.help_option_names)):
            args = ["list", *args]
        return super().parse_args(ctx, args)


runs = typer.Typer(cls=_Listing, help="List, show, compare and delete runs.", epilog=EXAMPLE, **PLAIN)

RunName = Annotated[
    str, typer.Argument(metavar="RUN", help="A run: name/number, name or folder.", autocompletion=_complete.runs)
]
RunNames = Annotated[
    list[str], typer.Argument(metavar="RUN...", help="Runs: name/number or folder.", autocompletion=_complete.runs)
]
By = Annotated[
    str | None,
    typer.Option(
        "--by",
        metavar="TAG",
        help="Rank runs by this tag, as in valid/accuracy; default: checkpoint.best.",
        autocompletion=_complete.tags,
    ),
]


@runs.command("list", cls=Command, epilog=examples("tdt runs list", "tdt runs list 'digits-*' --by valid/accuracy"))
def list_runs(
    names: Annotated[
        str, typer.Argument(metavar="NAME", help="Only runs whose name, or name/number, matches this pattern.")
    ] = "*",
    by: By = None,
    wide: Wide = False,
    json: Json = False,
    runs_root: Root = Path("runs"),
    traceback: Traceback = False,
) -> int:
    """List the runs; with --by, the best first."""
    from tdt.train._printable import duration
    from tdt.train.runs import history
    from tdt.train.runs.index import summaries
    from tdt.train.runs.run import RunFolder

    _finish_deletions([runs_root])
    found = [
        run
        for run in RunFolder.all(runs_root)
        if any(fnmatch.fnmatch(n, names) for n in (run.name, run.name.split("/")[0]))
    ]
    per_step = by is not None and by.startswith("train/")
    read = [history.read(run) for run in found] if per_step else summaries(found, runs_root)
    _print_faults(read)
    if by is not None:
        _check_tag(by, read)
        read.sort(key=lambda one: _rank(one, by))
    if json:
        return print_json({"runs": [_facts(one, by) for one in read]})
    if not read:
        print_lines(
            f"no runs{f' called {names}' if names != '*' else ''} in {runs_root}; to start one: tdt train CONFIG"
        )
        return 0
    rows = []
    for one in read:
        tag = by or one.monitor
        best = one.best(tag) if tag else None
        began = "" if one.began is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(one.began))
        score = (_number(best[1]), f"{best[0]:,}") if best else ("", "")
        rows.append((one.run.name, _state(one), began, duration(one.seconds), _epochs(one), *score, tag or ""))
    head = ("run", "state", "began", "took", "epochs", "best", "step", "by")
    print_lines(text(head, rows, right=(2, 3, 4, 5, 6), fit=not wide, drop=(6, 7, 3, 2, 4)), whole=True, paint=paint)
    return 0


@runs.command("show", cls=Command, epilog=examples("tdt runs show digits-cnn", "tdt runs show digits-cnn/1 --json"))
def show_run(
    run: RunName, wide: Wide = False, json: Json = False, runs_root: Root = Path("runs"), traceback: Traceback = False
) -> int:
    """Show a run: its state, command, checkpoints, and every metric that it logged."""
    from tdt.train._printable import duration
    from tdt.train.runs import history
    from tdt.train.runs.run import RunFolder

    one = history.read(RunFolder.open(run, runs_root))
    _print_faults([one])
    checkpoints = sorted(path for path in one.run.checkpoints().folder.glob("*.safetensors") if path.is_file())
    about = _environment(one.run)
    if json:
        series = {tag: [[step, _for_json(value)] for step, value in points] for tag, points in one.series.items()}
        return print_json(
            _facts(one, None)
            | {
                "checkpoints": [str(path) for path in checkpoints],
                "environment": about,
                "settings": one.settings,
                "series": series,
            }
        )
    print_lines(
        one_line(f"{one.run.name}  {_state(one)}{f' {one.trained_by}' if one.trained_by else ''}  {one.run.folder}")
    )
    if one.state in ("failed", "non-finite"):
        print_lines(one_line(one.ended_by or ""))
    print_lines(f"epochs {_epochs(one)}, steps {one.step:,}, {duration(one.seconds)}")
    if "command" in about:
        print_lines(one_line(f"command: {about['command']}"))
    if checkpoints:
        size = sum(path.stat().st_size for path in checkpoints)
        print_lines(f"checkpoints: {', '.join(path.stem for path in checkpoints)} ({size / 2**20:.1f} MiB)")
    if one.series:
        print_lines()
        _print_curves([one], [tag for tag in one.series if not tag.startswith("time/")], wide)
    return 0


@runs.command("compare", cls=Command, epilog=examples("tdt runs compare digits-cnn/1 digits-cnn/2 --by valid/loss"))
def compare_runs(
    names: RunNames,
    by: By = None,
    all_tags: Annotated[
        bool, typer.Option("--all", help="Show all tags, not only metrics per epoch and split.")
    ] = False,
    wide: Wide = False,
    json: Json = False,
    runs_root: Root = Path("runs"),
    traceback: Traceback = False,
) -> int:
    """Compare metrics (best, last and curve) and settings of runs."""
    from tdt.train.runs import history

    read = [history.read(run) for run in _open_all(names, runs_root)]
    _print_faults(read)
    _check_tag(by, read)
    tag = by or next((one.monitor for one in read if one.monitor), None)
    ranked = sorted((one for one in read if tag and one.best(tag)), key=lambda one: _rank(one, tag or ""))
    settings = history.differing([one.settings for one in read])
    if json:
        best = ranked[0].run.name if ranked else None
        return print_json({"by": tag, "best": best, "runs": [_facts(one, tag) for one in read], "settings": settings})
    tags = list(dict.fromkeys(tag for one in read for tag in one.series if not tag.startswith("time/")))
    whole = [tag for tag in tags if tag.startswith(("train_epoch/", "valid/", "test/"))]
    _print_curves(read, tags if all_tags or not whole else whole, wide)
    if ranked and tag is not None:
        step, value = ranked[0].best(tag) or (0, math.nan)
        print_lines(f"\nbest by {tag}: {ranked[0].run.name} ({_number(value)} at step {step:,})")
    if settings:
        print_lines()
    _print_settings(read, settings, wide)
    return 0


@runs.command("diff", cls=Command, epilog=examples("tdt runs diff digits-cnn/1 digits-cnn/2"))
def diff_runs(
    names: RunNames,
    wide: Wide = False,
    json: Json = False,
    runs_root: Root = Path("runs"),
    traceback: Traceback = False,
) -> int:
    """Show the settings that differ between runs."""
    from tdt.train.runs import history

    if len(names) < 2:
        raise typer.BadParameter(f"expected another run to compare {names[0]} with")
    read = [history.read(run, steps=False) for run in _open_all(names, runs_root)]
    _print_faults(read)
    settings = history.differing([one.settings for one in read])
    if json:
        return print_json({"runs": [one.run.name for one in read], "settings": settings})
    if not settings and all(one.settings for one in read):
        print_lines("no differences")
    _print_settings(read, settings, wide)
    return 0


@runs.command(
    "delete",
    cls=Command,
    epilog=examples("tdt runs delete digits-cnn/1", "tdt runs delete digits-cnn/1 digits-cnn/2 --yes"),
)
def delete_runs(
    names: RunNames,
    yes: Yes = False,
    json: Json = False,
    runs_root: Root = Path("runs"),
    traceback: Traceback = False,
) -> int:
    """Delete runs permanently. Deletes nothing if one of them does not exist or is still training."""
    from contextlib import ExitStack

    from tdt.train._printable import counted
    from tdt.train.runs.run import RunFolder

    _finish_deletions([runs_root, *{Path(name).parent.parent for name in names}])
    with ExitStack() as locks:
        opened = {run.folder.absolute(): run for run in (RunFolder.open_exactly(name, runs_root) for name in names)}
        chosen = [locks.enter_context(run.lock_to_delete()) for run in opened.values()]
        for run in chosen:
            what = "a link" if run.folder.is_symlink() else f"{run.size() / 2**20:.1f} MiB"
            print_lines(f"{run.folder}  {what}", file=sys.stderr)
        if not yes and not confirmed(f"delete {counted(len(chosen), 'run')} permanently? [y/N] "):
            print_lines("nothing was deleted", file=sys.stderr)
            return 1
        for run in chosen:
            run.delete()
    print_lines(f"deleted {counted(len(chosen), 'run')}", file=sys.stderr)
    if json:
        return print_json({"deleted": [str(run.folder) for run in chosen]})
    return 0


def _open_all(names: Sequence[str], root: Path) -> list[RunFolder]:
    """The runs, without duplicates."""
    from tdt.train.runs.run import RunFolder

    return list({run.folder.resolve(): run for run in (RunFolder.open(name, root) for name in names)}.values())


def _finish_deletions(roots: Sequence[Path]) -> None:
    """Remove what is left of runs whose deletion was interrupted."""
    from tdt.train.runs.run import remove_deleted

    for root in roots:
        for fault in remove_deleted(root):
            print_lines(one_line(fault), file=sys.stderr)


def _check_tag(by: str | None, read: Sequence[History]) -> None:
    tags = sorted({tag for one in read for tag in one.series})
    if by is not None and read and by not in tags:
        from tdt._did_you_mean import did_you_mean

        hint = did_you_mean(by, tags, f"logged tags: {', '.join(tags) or 'none'}")
        raise typer.BadParameter(f"no run has logged {by!r}; {hint}", param_hint="--by")


def _rank(one: History, tag: str) -> tuple[bool, float]:
    """Sort key: the best run first, runs without the tag last."""
    from tdt.train.runs.history import less_is_better

    best = one.best(tag)
    return (True, 0.0) if best is None else (False, best[1] if less_is_better(tag, one.settings) else -best[1])


def _print_curves(read: Sequence[History], tags: Sequence[str], wide: bool) -> None:
    """For each tag a row per run: best value, its step, last value and a sparkline; `*` marks the best run."""
    rows = []
    for tag in tags:
        having = [one for one in read if tag in one.series]
        finite = [value for one in having for _, value in one.series[tag] if math.isfinite(value)]
        low, high = (min(finite), max(finite)) if finite else (0.0, 0.0)
        scored = min(having, key=lambda one: _rank(one, tag)) if len(having) > 1 and not _is_rate(tag) else None
        if len(read) > 1:
            rows.append((tag, "", "", "", ""))
        for one in having:
            best = None if _is_rate(tag) else one.best(tag)
            score = (_number(best[1]), f"{best[0]:,}") if best else ("", "")
            values = [value for _, value in one.series[tag]]
            label = tag if len(read) == 1 else f"{'*' if one is scored else ' '} {one.run.name}"
            rows.append((label, *score, _number(values[-1]), sparkline(values, low, high)))
    table = text(("", "best", "step", "last", "curve"), rows, right=(1, 2, 3), fit=not wide, drop=(4, 2))
    print_lines(table, whole=True, paint=paint)


def _is_rate(tag: str) -> bool:
    """Whether the tag is a learning rate, which has no best value."""
    return tag.partition("/")[0] == "lr"


def _print_settings(read: Sequence[History], settings: dict[str, list[str | None]], wide: bool) -> None:
    if settings:
        rows = [(key, *("-" if value is None else value for value in row)) for key, row in settings.items()]
        print_lines(text(("setting", *(one.run.name for one in read)), rows, fit=not wide), whole=True, paint=paint)


def _print_faults(read: Sequence[History]) -> None:
    for one in read:
        for fault in one.faults:
            print_lines(one_line(fault), file=sys.stderr)


def _facts(one: History, by: str | None) -> dict[str, Any]:
    """A run in the JSON output."""
    scores = {}
    for tag, points in one.series.items():
        step, value = one.best(tag) or (None, math.nan)
        scores[tag] = {"best": _for_json(value), "step": step, "last": _for_json(points[-1][1])}
    return {
        "run": one.run.name,
        "folder": str(one.run.folder),
        "state": one.state,
        "ended_by": one.ended_by,
        "began": one.began,
        "seconds": one.seconds,
        "step": one.step,
        "epochs": one.epochs,
        "of_epochs": one.of_epochs,
        "by": by or one.monitor,
        "scores": scores,
        "faults": one.faults,
    }


def _state(one: History) -> str:
    """The state of a run, with the reason if it ended before all its epochs."""
    return f"done: {one.ended_by}" if one.state == "done" and one.ended_by != "epochs" else one.state


def _environment(run: RunFolder) -> dict[str, Any]:
    """The contents of `env.json`; empty if the file is missing or damaged."""
    import json

    try:
        found = json.loads((run.folder / "env.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _for_json(value: float) -> float | str:
    from tdt.train._strict_json import text_of

    return text_of(value)


def _number(value: float) -> str:
    from tdt.train._printable import number

    return number(value)


def _epochs(one: History) -> str:
    return str(one.epochs) if one.of_epochs is None else f"{one.epochs}/{one.of_epochs}"
