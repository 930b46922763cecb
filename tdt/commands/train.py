"""`tdt train`: a new run from a config, or a run that goes on."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tdt.commands._complete import configs, runs
from tdt.commands._options import Device, Root, Traceback

if TYPE_CHECKING:
    from tdt.train.config import Draft
    from tdt.train.session import Session

EXAMPLE = "Examples:  tdt train digits-cnn train.epochs=5 optimizer.lr=0.1  |  tdt train --resume digits-cnn/1"


ConfigFile = Annotated[
    str | None,
    typer.Argument(
        help="A YAML file, or the name of a config that comes with tdt.", metavar="CONFIG", autocompletion=configs
    ),
]
Overrides = Annotated[
    list[str] | None, typer.Argument(help="Other values, as in optimizer.lr=0.1.", metavar="KEY=VALUE...")
]
Resume = Annotated[
    str | None,
    typer.Option(
        "--resume", metavar="RUN", help="Go on with a run: its name, name/number or folder.", autocompletion=runs
    ),
]
RunDir = Annotated[
    Path | None, typer.Option("--run-dir", metavar="DIR", help="The run's own folder, instead of ROOT/name/number.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show layers, shapes, parameters and multiply-adds; train nothing.")
]
Verbose = Annotated[
    bool, typer.Option("-v", "--verbose", help="Show which group of the optimizer each parameter is in.")
]


def train(
    config: ConfigFile = None,
    overrides: Overrides = None,
    resume: Resume = None,
    device: Device = None,
    run_dir: RunDir = None,
    runs_root: Root = Path("runs"),
    dry_run: DryRun = False,
    verbose: Verbose = False,
    traceback: Traceback = False,
) -> int:
    """Train what a config declares, or go on with a run."""
    if resume is not None:
        written = [*([config] if config else []), *(overrides or ())]
        _check_resume(resume, written, run_dir is not None or dry_run, runs_root)
        from tdt.train.session import Session

        session = Session.resume(resume, root=runs_root, device=device)
    else:
        checked = _read(config, [*(overrides or ()), *([f"device={device}"] if device else ())])
        if dry_run:
            from tdt.train.build import build

            _show(build(checked), verbose, layers=True)
            return 0
        from tdt.train.session import Session

        session = Session.start(checked, root=runs_root, folder=run_dir)
    with session:
        _show(session.parts, verbose)
        return _train(session, runs_root)


def _read(config: str | None, overrides: list[str]) -> Draft:
    if config is None:
        raise typer.BadParameter("give a CONFIG, or --resume RUN")
    from tdt.train.config import draft

    return draft(config, overrides)


def _check_resume(resume: str, written: list[str], otherwise: bool, root: Path) -> None:
    """A resumed run ends as the run that was not stopped: nothing but its device may differ."""
    if otherwise or not all("=" in text for text in written):
        raise typer.BadParameter("a run goes on with its own config, in its own folder: give --resume RUN alone")
    if written:
        from tdt.train.run import Run

        values, config = " ".join(written), Run.open(resume, root).folder / "config.yaml"
        raise typer.BadParameter(
            f"{values}: a resumed run ends as if it had not been stopped, so only its --device may change; "
            f"to train on from its weights with other values: tdt train {config} {values} weights.from={resume}"
        )


def _show(parts: Any, verbose: bool, layers: bool = False) -> None:
    from tdt.commands import _tables

    if layers:
        print(_tables.layers(parts))
    if verbose:
        print(_tables.groups(parts))


def _train(session: Session, root: Path) -> int:
    from tdt.commands._console import Console
    from tdt.train._signals import exit_code

    name = session.run.name if _is_below(session.run.folder, root) else str(session.run.folder)
    if session.complete:
        print(f"{name} is complete; to score it: tdt eval {name}")
        return 0
    console = Console.on(sys.stdout, session)
    outcome = session.train(console, at_once=console.restore)
    print(_ending(session, outcome.reason, name, root))
    return 0 if outcome.reason == "done" else exit_code(outcome.reason)


def _ending(session: Session, reason: str, name: str, root: Path) -> str:
    elsewhere = "" if os.fspath(root) == "runs" or name == str(session.run.folder) else f" --runs-root {root}"
    if reason != "done":
        return f"stopped by {reason}; to go on: tdt train --resume {name}{elsewhere}"
    have = [n for n in ("best", "last") if (session.store.folder / f"{n}.safetensors").exists()]
    return (
        f"checkpoints: {session.store.folder} ({', '.join(have)}); to score: tdt eval {name}{elsewhere}\n"
        f"logs: tensorboard --logdir {root if name != str(session.run.folder) else session.run.folder}"
    )


def _is_below(folder: Path, root: Path) -> bool:
    return folder.resolve().parent.parent == root.resolve()
