"""Training from a program: `fit` and `evaluate`, and runs with their metrics as arrays."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import tdt
from tdt.train.config import Config, Draft, draft, loads
from tdt.train.config.errors import ConfigErrors
from tdt.train.config.imports import trusting
from tdt.train.config.nodes import plain
from tdt.train.config.reader import read as read_nodes
from tdt.train.logging.callbacks import Callback
from tdt.train.logging.console import Console
from tdt.train.loop._signals import exit_code
from tdt.train.loop.evaluation import Evaluation, evaluate_checkpoint
from tdt.train.runs import history
from tdt.train.runs import run as folders
from tdt.train.session import Outcome, Session
from tdt.train.trained_model import TrainedModel, checkpoint_file, load_model


class Series(NamedTuple):
    """The values of a metric, and the optimizer steps after which they were measured. Unpacks as (steps, values)."""

    steps: np.ndarray
    values: np.ndarray


class Best(NamedTuple):
    """The best value of the metric that chooses the best checkpoint."""

    metric: str
    step: int
    value: float


class Run:
    """A run in its folder, running or finished. Everything is read from the folder when it is asked for.

    Args:
        where: the run's folder, its name "digits/1", or "digits" for the newest run of that name.
        root: the folder of the runs.
    Raises:
        RunError: there is no such run.

    >>> import tempfile
    >>> from tdt.train import Run, fit
    >>> folder = fit("digits-mlp", train__epochs=2, run_dir=tempfile.mkdtemp(), quiet=True).folder
    >>> run = Run(folder)
    >>> run.state, run.step, run.config["train"]["epochs"]
    ('done', 36, 2)
    >>> steps, values = run.metrics["valid/accuracy"]
    >>> steps
    array([18, 36])
    >>> run.best.metric, run.best.step, [*run.checkpoints]
    ('valid/accuracy', 36, [18, 36])
    """

    def __init__(self, where: str | os.PathLike[str], root: str | os.PathLike[str] = folders.ROOT) -> None:
        self._files = folders.RunFolder.open(where, root)

    @property
    def folder(self) -> Path:
        """The run's folder."""
        return self._files.folder

    @property
    def name(self) -> str:
        """`<name>/<number>`: the last two parts of the folder's path."""
        return self._files.name

    @property
    def config(self) -> dict[str, Any]:
        """The run's configuration with every default: sections as dicts, components as they are written in YAML."""
        node = read_nodes(self._files.config_text(), str(self.folder / "config.yaml"), ConfigErrors())
        value = plain(node) if node is not None else None
        return value if isinstance(value, dict) else {}

    @property
    def metrics(self) -> dict[str, Series]:
        """Everything that the run logged, by tag: "train/loss", "valid/accuracy", "lr", "test/accuracy", …"""
        series = history.read(self._files).series
        return {
            tag: Series(np.array([step for step, _ in points]), np.array([value for _, value in points]))
            for tag, points in series.items()
        }

    @property
    def best(self) -> Best | None:
        """The best value of the metric that chooses the best checkpoint; None before the first."""
        record = history.read(self._files, steps=False)
        found = None if record.monitor is None else record.best(record.monitor)
        return None if found is None else Best(str(record.monitor), *found)

    @property
    def checkpoints(self) -> dict[int, Path]:
        """The checkpoint files that are kept, by step."""
        store = self._files.checkpoints()
        return {step: store.path(step) for step in store.steps()}

    @property
    def step(self) -> int:
        """Optimizer steps so far, as far as they are logged."""
        return history.read(self._files, steps=False).step

    @property
    def state(self) -> str:
        """running, done, interrupted, failed, non-finite, or killed (no end was logged)."""
        return history.read(self._files, steps=False).state

    @property
    def ended_by(self) -> str | None:
        """What ended it: epochs, steps, time limit, early stopping, a signal, an error's text; None if not logged."""
        return history.read(self._files, steps=False).ended_by

    def load_model(
        self, checkpoint: str | int = "best", *, device: str | tdt.device | None = None, trust: bool = False
    ) -> TrainedModel:
        """The run's model, as `tdt.load_model` returns it."""
        return load_model(self.folder, checkpoint, device=device, trust=trust)

    def __fspath__(self) -> str:
        """The folder: a run may stand wherever its path may."""
        return str(self.folder)

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r}, {self.state}, step {self.step})"


def list_runs(root: str | os.PathLike[str] = folders.ROOT) -> list[Run]:
    """Every run under `root`, by name and number.

    >>> import tempfile
    >>> from tdt.train import list_runs
    >>> list_runs(tempfile.mkdtemp())
    []
    """
    return [Run(run.folder) for run in folders.RunFolder.all(root)]


def fit(
    config: str | os.PathLike[str] | Mapping[str, Any] | Config | Draft | None = None,
    *,
    resume: str | os.PathLike[str] | None = None,
    run_dir: str | os.PathLike[str] | None = None,
    root: str | os.PathLike[str] = folders.ROOT,
    quiet: bool = False,
    trust: bool = False,
    changed_data: bool = False,
    callbacks: Sequence[Callback] = (),
    **overrides: Any,
) -> Run:
    """Train the model that a configuration declares, or resume a run, as `tdt train` does.

    Ctrl-C ends the run after the current step with a checkpoint, and is then raised as KeyboardInterrupt.

    Args:
        config: the path of a YAML file, the name of a bundled configuration, a dict, YAML text (with a line break), or a
            loaded configuration.
        resume: in place of `config`: the run to resume, by folder or name.
        run_dir: the run's folder; by default `<root>/<name>/<number>`.
        root: the folder of the runs.
        quiet: whether to print nothing.
        trust: allow the Python files that the configuration imports to run.
        changed_data: resume even if the data files have changed.
        callbacks: called during the run, after those of the configuration. A resumed run needs the same.
        overrides: settings that replace those of the configuration. `__` stands for the dot of the command line:
            `train__epochs=3` is `train.epochs=3`. A key may also have dots, as in `**{"train.epochs": 3}`.
    Returns:
        The run, with its metrics and checkpoints.
    Raises:
        ConfigError: the configuration has mistakes; all of them are named.
        RunError: the folder is not empty, or the run to resume does not exist or is being trained.
        CheckpointError: the checkpoint to resume from is damaged.
        NonFiniteLoss, StepError: the training failed; the last checkpoint is kept.
        KeyboardInterrupt, SystemExit: a signal stopped the run; a checkpoint has been saved.

    >>> import tempfile
    >>> from tdt.train import fit
    >>> run = fit("digits-mlp", train__epochs=1, optimizer__lr=0.01, run_dir=tempfile.mkdtemp(), quiet=True)
    >>> run.state, run.config["optimizer"]
    ('done', 'Adam(lr=0.01)')
    >>> fit(resume=run, train__epochs=2, quiet=True).step
    36
    """
    if (config is None) == (resume is None):
        raise TypeError("fit: expected a config, or resume=RUN to resume a run")
    if resume is not None and run_dir is not None:
        raise TypeError("fit: a resumed run stays in its folder; give resume without run_dir")
    changes = [_override(key, value) for key, value in overrides.items()]
    with trusting(trust):
        if resume is not None:
            session = Session.resume(
                resume, root=root, overrides=changes, changed_data=changed_data, callbacks=callbacks
            )
        else:
            session = Session.start(_read(config, changes), root=root, folder=run_dir, callbacks=callbacks)
        return _train(session, quiet)


def _train(session: Session, quiet: bool) -> Run:
    """Train to the end; a signal is raised as the exception that Python has for it."""
    with session:
        listeners = () if quiet or not session.ranks.first else (Console(sys.stdout, session.parts),)
        outcome = Outcome("done") if session.complete else session.train(*listeners)
    if outcome.reason == "SIGINT":
        raise KeyboardInterrupt(
            f"the run stopped with a checkpoint; to resume it: fit(resume={str(session.run.folder)!r})"
        )
    if outcome.reason != "done":
        raise SystemExit(exit_code(outcome.reason))
    return Run(session.run.folder)


def evaluate(
    run: str | os.PathLike[str],
    split: str | None = None,
    *,
    checkpoint: str | int = "best",
    batch_size: int | None = None,
    trust: bool = False,
    root: str | os.PathLike[str] = folders.ROOT,
    **overrides: Any,
) -> Evaluation:
    """Loss and metrics of a run's model on a split of the data, bit for bit as the run computed them.

    Args:
        run: a run's folder or name, or a checkpoint file.
        split: "train", "valid" or "test"; by default "valid", else "test".
        checkpoint: "best" (the last, if none was chosen as best), "last", or the number of steps of a checkpoint.
        batch_size: by default that of `data.eval_loader`.
        trust: allow the Python files that the configuration imports to run.
        root: the folder of the runs.
        overrides: `device`, and settings of data, loss and metrics, as `fit` takes them.
    Returns:
        `scores` by metric, with `targets`, `predictions` and `confusion()`.
    Raises:
        LookupError: no such split, or an override of another section.
        RunError, CheckpointError, ConfigError: as in `load_model`.

    >>> import tempfile
    >>> from tdt.train import evaluate, fit
    >>> run = fit("digits-mlp", train__epochs=1, run_dir=tempfile.mkdtemp(), quiet=True)
    >>> result = evaluate(run, "test", metrics=["accuracy", "f1"])
    >>> [*result.scores], result.confusion().shape
    (['loss', 'accuracy', 'f1'], (10, 10))
    """
    device = overrides.pop("device", None)
    changes = [_override(key, value) for key, value in overrides.items()]
    path = checkpoint_file(run, checkpoint, root)
    with trusting(trust), _restoring_global_state():
        return evaluate_checkpoint(path, split, None if device is None else str(device), changes, batch_size=batch_size)


@contextmanager
def _restoring_global_state() -> Iterator[None]:
    """Restore the generators and the number of threads: an evaluation sets them to those of the run."""
    threads, python, numpy = tdt.get_num_threads(), random.getstate(), np.random.get_state()
    try:
        with tdt.random.fork_rng():
            yield
    finally:
        tdt.set_num_threads(threads)
        random.setstate(python)
        np.random.set_state(numpy)


def _read(config: Any, changes: list[str]) -> Config | Draft:
    """The configuration with the changes applied."""
    if isinstance(config, (Config, Draft)):
        if changes:
            raise TypeError(f"fit: {changes[0]}: a loaded config takes no changes; give them to config.load")
        return config
    if isinstance(config, Mapping):
        return loads(_yaml(config, flow=False), "<config>", changes)
    if isinstance(config, str) and "\n" in config:
        return loads(config, "<config>", changes)
    return draft(config, changes)


def _override(key: str, value: Any) -> str:
    """An override as the command line takes it."""
    text = value if isinstance(value, str) else _yaml(value, flow=True)
    return f"{key.replace('__', '.')}={text}"


def _yaml(value: Any, flow: bool) -> str:
    import yaml

    text = yaml.safe_dump(_plain(value), sort_keys=False, default_flow_style=flow, allow_unicode=True, width=2**30)
    return text.removesuffix("...\n").rstrip("\n") if flow else text


def _plain(value: Any) -> Any:
    """The value in types of YAML: numbers of NumPy, tuples and paths are converted."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    if isinstance(value, (tdt.device, os.PathLike)):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"a config holds numbers, texts, lists and dicts, got {type(value).__name__}")
