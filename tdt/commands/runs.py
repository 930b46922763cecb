"""`tdt runs`: what was trained, how it went, and in what two runs differ."""

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
from tdt.commands._options import PLAIN, Json, Root, Traceback
from tdt.commands._output import one_line, say
from tdt.commands._tables import duration, print_json, sparkline, text

if TYPE_CHECKING:
    from tdt.train.runs.history import History
    from tdt.train.runs.run import Run

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
        help="What the best is chosen by, as valid/accuracy; else checkpoint.best.",
        autocompletion=_complete.tags,
    ),
]


@runs.command("list", cls=Command, epilog=examples("tdt runs list", "tdt runs list 'digits-*' --by valid/accuracy"))
def list_runs(
    names: Annotated[
        str, typer.Argument(metavar="NAME", help="Only runs whose name, or name/number, matches this pattern.")
    ] = "*",
    by: By = None,
    json: Json = False,
    runs_root: Root = Path("runs"),
    traceback: Traceback = False,
) -> int:
    """List the runs, with --by the best first."""
    from tdt.train.runs import history
    from tdt.train.runs.run import Run

    _go_on_deleting([runs_root])
    found = [
        run for run in Run.all(runs_root) if any(fnmatch.fnmatch(n, names) for n in (run.name, run.name.split("/")[0]))
    ]
    read = [history.read(run, steps=by is not None and by.startswith("train/")) for run in found]
    _print_faults(read)
    if by is not None:
        _check_tag(by, read)
        read.sort(key=lambda one: _rank(one, by))
    if json:
        return print_json({"runs": [_facts(one, by) for one in read]})
    if not read:
        say(f"no runs{f' called {names}' if names != '*' else ''} in {runs_root}; to begin one: tdt train CONFIG")
        return 0
    rows = []
    for one in read:
        tag = by or one.watched
        best = one.best(tag) if tag else None
        began = "" if one.began is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(one.began))
        score = (_number(best[1]), f"{best[0]:,}") if best else ("", "")
        rows.append((one.run.name, _state(one), began, duration(one.seconds), _epochs(one), *score, tag or ""))
    say(text(("run", "state", "began", "took", "epochs", "best", "step", "by"), rows, right=(3, 4, 5, 6)))
    return 0


@runs.command("show", cls=Command, epilog=examples("tdt runs show digits-cnn", "tdt runs show digits-cnn/1 --json"))
def show_run(run: RunName, json: Json = False, runs_root: Root = Path("runs"), traceback: Traceback = False) -> int:
    """Show the course of a run: every number that it logged, and how it was made."""
    from tdt.train.runs import history
    from tdt.train.runs.run import Run

    one = history.read(Run.open(run, runs_root))
    _print_faults([one])
    kept = sorted(path for path in one.run.checkpoints().folder.glob("*.safetensors") if path.is_file())
    about = _made(one.run)
    if json:
        series = {tag: [[step, _for_json(value)] for step, value in points] for tag, points in one.series.items()}
        return print_json(
            _facts(one, None)
            | {
                "checkpoints": [str(path) for path in kept],
                "environment": about,
                "settings": one.settings,
                "series": series,
            }
        )
    say(one_line(f"{one.run.name}  {_state(one)}{f' {one.trained_by}' if one.trained_by else ''}  {one.run.folder}"))
    if one.state in ("failed", "non-finite"):
        say(one_line(one.ended_by or ""))
    say(f"epochs {_epochs(one)}, steps {one.step:,}, {duration(one.seconds)}")
    if "command" in about:
        say(one_line(f"command: {about['command']}"))
    if kept:
        say(
            f"checkpoints: {', '.join(path.stem for path in kept)} ({sum(p.stat().st_size for p in kept) / 2**20:.1f} MiB)"
        )
    if one.series:
        say()
        _print_courses([one], [tag for tag in one.series if not tag.startswith("time/")])
    return 0


@runs.command("compare", cls=Command, epilog=examples("tdt runs compare digits-cnn/1 digits-cnn/2 --by valid/loss"))
def compare_runs(
    names: RunNames,
    by: By = None,
    all_tags: Annotated[bool, typer.Option("--all", help="Every number, not only the scores of whole splits.")] = False,
    json: Json = False,
    runs_root: Root = Path("runs"),
    traceback: Traceback = False,
) -> int:
    """Compare the scores and settings of runs: what was best, what was last, its course, and where the settings differ."""
    from tdt.train.runs import history

    read = [history.read(run) for run in _open_all(names, runs_root)]
    _print_faults(read)
    _check_tag(by, read)
    tag = by or next((one.watched for one in read if one.watched), None)
    ranked = sorted((one for one in read if tag and one.best(tag)), key=lambda one: _rank(one, tag or ""))
    settings = history.differing([one.settings for one in read])
    if json:
        best = ranked[0].run.name if ranked else None
        return print_json({"by": tag, "best": best, "runs": [_facts(one, tag) for one in read], "settings": settings})
    tags = list(dict.fromkeys(tag for one in read for tag in one.series if not tag.startswith("time/")))
    whole = [tag for tag in tags if tag.startswith(("train_epoch/", "valid/", "test/"))]
    _print_courses(read, tags if all_tags or not whole else whole)
    if ranked and tag is not None:
        step, value = ranked[0].best(tag) or (0, math.nan)
        say(f"\nbest by {tag}: {ranked[0].run.name} ({_number(value)} at step {step:,})")
    if settings:
        say()
    _print_settings(read, settings)
    return 0


@runs.command("diff", cls=Command, epilog=examples("tdt runs diff digits-cnn/1 digits-cnn/2"))
def diff_runs(names: RunNames, json: Json = False, runs_root: Root = Path("runs"), traceback: Traceback = False) -> int:
    """Show the settings in which runs differ."""
    from tdt.train.runs import history

    if len(names) < 2:
        raise typer.BadParameter(f"give another run to compare {names[0]} with")
    read = [history.read(run, steps=False) for run in _open_all(names, runs_root)]
    _print_faults(read)
    settings = history.differing([one.settings for one in read])
    if json:
        return print_json({"runs": [one.run.name for one in read], "settings": settings})
    if not settings and all(one.settings for one in read):
        say("the same settings")
    _print_settings(read, settings)
    return 0


@runs.command(
    "delete",
    cls=Command,
    epilog=examples("tdt runs delete digits-cnn/1", "tdt runs delete digits-cnn/1 digits-cnn/2 --yes"),
)
def delete_runs(
    names: RunNames,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")] = False,
    json: Json = False,
    runs_root: Root = Path("runs"),
    traceback: Traceback = False,
) -> int:
    """Delete runs for good. All that are named; none, where one of them cannot be or is being trained."""
    from contextlib import ExitStack

    from tdt.train.runs.run import Run

    _go_on_deleting([runs_root, *{Path(name).parent.parent for name in names}])
    with ExitStack() as locks:
        opened = {run.folder.absolute(): run for run in (Run.open_exactly(name, runs_root) for name in names)}
        chosen = [locks.enter_context(run.lock_to_delete()) for run in opened.values()]
        for run in chosen:
            what = "a link" if run.folder.is_symlink() else f"{run.size() / 2**20:.1f} MiB"
            say(f"{run.folder}  {what}", file=sys.stderr)
        if not yes and not _agreed(f"delete {len(chosen)} run{'s' * (len(chosen) > 1)} for good? [y/N] "):
            say("nothing was deleted", file=sys.stderr)
            return 1
        for run in chosen:
            run.delete()
    say(f"deleted {len(chosen)} run{'s' * (len(chosen) > 1)}", file=sys.stderr)
    if json:
        return print_json({"deleted": [str(run.folder) for run in chosen]})
    return 0


def _open_all(names: Sequence[str], root: Path) -> list[Run]:
    """The runs, each once."""
    from tdt.train.runs.run import Run

    return list({run.folder.resolve(): run for run in (Run.open(name, root) for name in names)}.values())


def _go_on_deleting(roots: Sequence[Path]) -> None:
    """Remove what is left of runs whose deletion was cut short."""
    from tdt.train.runs.run import remove_deleted

    for root in roots:
        for fault in remove_deleted(root):
            say(one_line(fault), file=sys.stderr)


def _agreed(question: str) -> bool:
    say(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _check_tag(by: str | None, read: Sequence[History]) -> None:
    tags = sorted({tag for one in read for tag in one.series})
    if by is not None and read and by not in tags:
        from tdt.train.config.registry import nearest

        near = nearest(by, tags)
        there = f"did you mean {near!r}?" if near else f"there are {', '.join(tags) or 'none'}"
        raise typer.BadParameter(f"no run has logged {by!r}; {there}", param_hint="--by")


def _rank(one: History, tag: str) -> tuple[bool, float]:
    """Smaller is better; without a score last."""
    from tdt.train.runs.history import less_is_better

    best = one.best(tag)
    return (True, 0.0) if best is None else (False, best[1] if less_is_better(tag, one.settings) else -best[1])


def _print_courses(read: Sequence[History], tags: Sequence[str]) -> None:
    """For each tag a row per run: best, its step, last, and the course as a sparkline of one scale; `*` is the best."""
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
    say(text(("", "best", "step", "last", "course"), rows, right=(1, 2, 3)))


def _is_rate(tag: str) -> bool:
    """Whether it is a learning rate, of which none is the best."""
    return tag.partition("/")[0] == "lr"


def _print_settings(read: Sequence[History], settings: dict[str, list[str | None]]) -> None:
    if settings:
        rows = [(key, *("-" if value is None else value for value in row)) for key, row in settings.items()]
        say(text(("setting", *(one.run.name for one in read)), rows))


def _print_faults(read: Sequence[History]) -> None:
    for one in read:
        for fault in one.faults:
            say(one_line(fault), file=sys.stderr)


def _facts(one: History, by: str | None) -> dict[str, Any]:
    """What a script reads of a run."""
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
        "by": by or one.watched,
        "scores": scores,
        "faults": one.faults,
    }


def _state(one: History) -> str:
    """In a word; of a run that is done before all its epochs also why."""
    return f"done: {one.ended_by}" if one.state == "done" and one.ended_by != "epochs" else one.state


def _made(run: Run) -> dict[str, Any]:
    """What `env.json` tells; nothing where it is missing or torn."""
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
    from tdt.commands._console import number

    return number(value)


def _epochs(one: History) -> str:
    return str(one.epochs) if one.of_epochs is None else f"{one.epochs}/{one.of_epochs}"
