"""`tdt train`: start a new run from a config, or resume a run."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tdt.commands import _startup
from tdt.commands._complete import configs, runs
from tdt.commands._help import examples
from tdt.commands._options import Device, Overrides, Root, Traceback, Trust, Verbose, Yes, confirmed
from tdt.commands._progress import image_progress

if TYPE_CHECKING:
    from tdt.train.config import ConfigError, Draft
    from tdt.train.logging.events import Event
    from tdt.train.runs.run import RunFolder
    from tdt.train.session import Outcome, Session

EXAMPLE = examples(
    "tdt train digits-cnn train.epochs=5 optimizer.lr=0.1",
    "tdt train --resume digits-cnn/1 train.epochs=20",
    "tdt train digits-cnn --run-dir /scratch/digits --resume-or-start",
    "mpirun -n 4 tdt train digits-cnn",
)


ConfigFile = Annotated[
    str | None,
    typer.Argument(
        help="A YAML file, or the name of a config that comes with tdt.", metavar="CONFIG", autocompletion=configs
    ),
]
Resume = Annotated[
    str | None,
    typer.Option("--resume", metavar="RUN", help="Resume a run: its name, name/number or folder.", autocompletion=runs),
]
RunDir = Annotated[
    Path | None,
    typer.Option("--run-dir", metavar="DIR", help="The folder of this run; default: RUNS_ROOT/name/number."),
]
ChangedData = Annotated[
    bool,
    typer.Option("--changed-data", help="With --resume: accept data files that have changed since the run started."),
]
ResumeOrStart = Annotated[
    bool,
    typer.Option(
        "--resume-or-start",
        help="With --run-dir: resume the run there if it has begun, else start it; for schedulers that repeat a command.",
    ),
]


def train(
    config: ConfigFile = None,
    overrides: Overrides = None,
    resume: Resume = None,
    device: Device = None,
    run_dir: RunDir = None,
    runs_root: Root = Path("runs"),
    resume_or_start: ResumeOrStart = False,
    changed_data: ChangedData = False,
    verbose: Verbose = False,
    yes: Yes = False,
    trust: Trust = False,
    traceback: Traceback = False,
) -> int:
    """Train the model that a config declares, or resume a run."""
    if resume_or_start and (resume is not None or run_dir is None):
        raise typer.BadParameter("--resume-or-start needs CONFIG and --run-dir DIR, without --resume")
    from tdt.train._agreement import together
    from tdt.train._ranks import Ranks

    ranks = Ranks.of_launch()
    if resume is not None:
        written = [*([config] if config else []), *(overrides or ()), *([f"device={device}"] if device else ())]
        together(ranks, lambda: _check_resume(resume, written, run_dir is not None, runs_root))
        from tdt.train.session import Session

        with image_progress():
            session = Session.resume(resume, root=runs_root, overrides=written, changed_data=changed_data)
    elif changed_data:
        raise typer.BadParameter("--changed-data needs --resume RUN")
    else:
        settings = [*(overrides or ()), *([f"device={device}"] if device else ())]
        checked = together(ranks, lambda: _read(config, settings))
        from tdt.train.config import ConfigError

        try:
            session = _start(checked, run_dir, runs_root, resume_or_start)
        except ConfigError as error:
            missing = _downloads(error, checked)
            if not missing or not _may_download(error, missing, yes or ranks.size > 1, yes):
                raise
            settings += [f"data.{split}.download=true" for split in missing]
            session = _start(together(ranks, lambda: _read(config, settings)), run_dir, runs_root, resume_or_start)
    with session:
        return _train(session, runs_root, verbose)


def _start(checked: Draft, folder: Path | None, root: Path, resume: bool) -> Session:
    """Start the run in `folder`, or resume it if it is there."""
    from tdt.train.session import Session

    with image_progress():
        if resume and folder is not None:
            return Session.resume_or_start(checked, folder, root=root)
        return Session.start(checked, root=root, folder=folder)


def _downloads(error: ConfigError, checked: Draft) -> dict[str, tuple[str, int]]:
    """The dataset of each split and its size in bytes, if nothing is wrong but that files are missing that can be downloaded."""
    from tdt.train.config import registry

    def size(name: str) -> int:
        return int(getattr(registry.datasets.find(name), "download_size", 0))

    if checked.data is None or any(problem.kind != "download" for problem in error.problems):
        return {}
    keys = {problem.key for problem in error.problems}
    return {split: (one.name, size(one.name)) for split, one in checked.data.splits().items() if one.key_path in keys}


def _may_download(error: ConfigError, missing: dict[str, tuple[str, int]], silent: bool, yes: bool) -> bool:
    """Whether to download the datasets: --yes, or the answer on the terminal. Without both the error says how."""
    sizes = dict(missing.values())
    what = f"{', '.join(sizes)} ({sum(sizes.values()) / 1e6:,.0f} MB)"
    if silent or not sys.stdin.isatty():
        error.add_note(f"to download {what}: --yes")
        return yes
    return confirmed(f"download {what}? [y/N] ")


def _read(config: str | None, overrides: list[str]) -> Draft:
    if not config:
        raise typer.BadParameter("expected CONFIG or --resume RUN")
    from tdt.train.config import draft

    return draft(config, overrides)


def _check_resume(resume: str, written: list[str], otherwise: bool, root: Path) -> None:
    """Check the overrides of a resumed run: those that would change its results are errors."""
    if otherwise or not all("=" in text for text in written):
        raise typer.BadParameter(
            "a resumed run uses its own config and folder: give --resume RUN without CONFIG and --run-dir"
        )
    from tdt.train.checks.resuming import ALLOWED, refused

    if wrong := refused(written):
        from tdt.train.runs.run import RunFolder

        config = RunFolder.open(resume, root).folder / "config.yaml"
        new_run = shlex.join(["tdt", "train", str(config), *written, f"weights.from={resume}", *_at(root)])
        raise typer.BadParameter(
            f"{'; '.join(wrong)}\nA resumed run may change {', '.join(ALLOWED)}; "
            f"to start a new run from its weights with these values: {new_run}"
        )


def _train(session: Session, root: Path, verbose: bool) -> int:
    from tdt.commands._console import console_on
    from tdt.train.loop._signals import exit_code

    console = console_on(sys.stdout, session.parts)
    if verbose:
        from tdt.commands import _tables

        console.print_line(_tables.groups(session.parts))
    if session.complete:
        for notice in session.notices:
            console.print_line(notice)
        console.print_line(f"this run is complete; to evaluate it: tdt eval {_arguments(session.run, root)}")
        return 0
    messages: list[str] = []

    def tell(event: Event) -> None:
        if not messages and event.step and (found := session.compilation) is not None:
            messages.append(str(found))
            console.print_line(messages[0])

    _startup.finish()
    outcome = session.train(console, *([tell] if verbose else []), at_once=console.restore)
    console.print_line(_summary(session, outcome, root))
    return 0 if outcome.reason == "done" else exit_code(outcome.reason)


def _summary(session: Session, outcome: Outcome, root: Path) -> str:
    run = _arguments(session.run, root)
    if outcome.reason != "done":
        return f"stopped by {outcome.reason}; to resume: tdt train --resume {run}"
    folder = session.run.checkpoints().folder
    have = [n for n in ("best", "last") if (folder / f"{n}.safetensors").exists()]
    logs = root if _is_below(session.run.folder, root) else session.run.folder
    early = f"ended by {outcome.by}\n" if outcome.by not in ("epochs", "steps") else ""
    return (
        f"{early}checkpoints: {folder} ({', '.join(have)})\nto evaluate: tdt eval {run}\n"
        f"logs: tensorboard --logdir {shlex.quote(str(logs))}"
    )


def _arguments(run: RunFolder, root: Path) -> str:
    """The arguments that name the run on a command line."""
    if not _is_below(run.folder, root):
        return shlex.quote(str(run.folder))
    return shlex.join([run.name, *_at(root)])


def _at(root: Path) -> list[str]:
    return ["--runs-root", str(root)] if root != Path("runs") else []


def _is_below(folder: Path, root: Path) -> bool:
    return folder.resolve().parent.parent == root.resolve()
