"""`tdt tune`: search for the settings with the best metric."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tdt.commands import _startup
from tdt.commands._help import examples
from tdt.commands._options import ConfigName, Json, Overrides, Root, Traceback, Trust
from tdt.commands._output import print_lines

if TYPE_CHECKING:
    from tdt.train.tune.sweep import Sweep

EXAMPLE = examples(
    "tdt tune my.yaml",
    "tdt tune my.yaml sweep.trials=100 sweep.parallel.cpus=2",
    "tdt runs list my-tune --by valid/accuracy",
)

SweepDir = Annotated[
    Path | None,
    typer.Option("--sweep-dir", metavar="DIR", help="The folder of the sweep; default: RUNS_ROOT/name-tune."),
]


def tune(
    config: ConfigName,
    overrides: Overrides = None,
    sweep_dir: SweepDir = None,
    runs_root: Root = Path("runs"),
    json: Json = False,
    trust: Trust = False,
    traceback: Traceback = False,
) -> int:
    """Search for the settings with the best metric, as the config's section sweep declares; run again to join or resume."""
    from tdt.train.loop._signals import exit_code
    from tdt.train.tune.report import write_report
    from tdt.train.tune.sweep import import_optuna

    import_optuna()
    written = list(overrides or ())
    sweep = _open(config, written, sweep_dir, runs_root)
    metric = sweep.settings.metric
    _startup.finish()
    reason = _search(sweep, config, written, ["--runs-root", str(runs_root), *(["--trust"] if trust else ())], json)
    best, page = sweep.write_best(), write_report(sweep.study, metric, sweep.folder)
    code = exit_code(reason) if reason is not None else 1 if best is None else 0
    if json:
        from tdt.commands._tables import print_json

        return print_json(_facts(sweep), code)
    if best is not None:
        trial = sweep.best()
        assert trial is not None
        print_lines(
            f"best: trial {trial.number + 1}, {metric} {trial.value:.6g}; to train it again: tdt train {shlex.quote(str(best))}"
        )
    print_lines(f"report: {page}; logs: tensorboard --logdir {shlex.quote(str(sweep.folder))}")
    if reason is not None:
        print_lines(f"stopped by {reason}; the same command continues")
    elif best is None:
        print_lines(f"no trial has completed; the output of each: {sweep.folder / 'logs'}", file=sys.stderr)
    return code


def _open(config: str, overrides: list[str], folder: Path | None, root: Path) -> Sweep:
    """The checked sweep, which is begun if it is new. Raises ConfigError with every mistake."""
    from tdt.train.config import load
    from tdt.train.tune.candidates import check_sweep
    from tdt.train.tune.sweep import Sweep

    parts = check_sweep(config, overrides)
    checked = load(config, overrides)
    assert checked.sweep is not None
    mode, metric = checked.sweep.mode, checked.sweep.metric.partition("/")[2]
    minimize = not parts.higher_is_better(metric) if mode is None else mode == "min"
    return Sweep(folder or root / f"{checked.name}-tune", checked, minimize)


def _search(sweep: Sweep, config: str, overrides: list[str], options: list[str], json: bool) -> str | None:
    """Work on the sweep until it is done. Returns the signal that stopped it, or None."""
    from tdt.commands._sweep_console import sweep_console
    from tdt.train.errors import Stopped
    from tdt.train.loop._signals import StopRequest
    from tdt.train.tune.worker import Worker

    passed = [text for text in overrides if not text.lstrip("~").startswith("sweep")]
    parallel = sweep.settings.parallel
    if parallel is not None:
        passed.append("device=cuda" if parallel.gpus else "device=cpu")
    with StopRequest() as stop, sweep_console(sys.stderr if json else sys.stdout, sweep) as console:

        def check_stop() -> None:
            if stop.reason is not None:
                raise Stopped(stop.reason)

        worker = Worker(
            sweep,
            config,
            passed,
            options,
            slots=1 if parallel is None else parallel.gpus or parallel.cpus or 1,
            gpus=parallel is not None and parallel.gpus is not None,
            on_change=lambda line: console.show(worker, line),
            check_stop=check_stop,
        )
        try:
            worker.run()
        except Stopped as stopped:
            return stopped.reason
    return None


def _facts(sweep: Sweep) -> dict[str, object]:
    """The sweep in the JSON output."""
    from tdt.train.tune.report import importances

    best = sweep.best()
    trials = [
        {
            "trial": trial.number + 1,
            "state": trial.state.name.lower(),
            "value": trial.value,
            "settings": dict(trial.params),
            "run": str(sweep.run_of(trial)),
            "error": trial.user_attrs.get("error"),
        }
        for trial in sweep.trials()
    ]
    return {
        "folder": str(sweep.folder),
        "metric": sweep.settings.metric,
        "mode": "min" if sweep.minimize else "max",
        "best": None if best is None else best.number + 1,
        "importances": importances(sweep.study),
        "trials": trials,
    }
