"""A run from start to end: folder, logs, training, final test; new or resumed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import tdt
from tdt.backends import kernels
from tdt.train._printable import counted
from tdt.train.checks.kept_config import kept_config
from tdt.train.checks.launchers import check_one_process
from tdt.train.checks.resuming import differences, refused
from tdt.train.config import Config, Draft, loads
from tdt.train.config.precision import default_dtype
from tdt.train.config.writer import settings
from tdt.train.data.fingerprints import Fingerprint, fingerprints
from tdt.train.data.fingerprints import differences as differences_of_data
from tdt.train.errors import NonFiniteLoss, StepError, Stopped, reason
from tdt.train.logging.events import Event, Events, MetricsLog, Notice, RunStopped, TensorBoardLog, TestDone
from tdt.train.logging.model_log import ModelLog
from tdt.train.loop._signals import StopRequest
from tdt.train.loop.build import build
from tdt.train.loop.evaluation import evaluate
from tdt.train.loop.length import Length
from tdt.train.loop.parts import Parts
from tdt.train.loop.state import data_state, fitting, is_over, load_model, load_run, parts_of_metrics, unpack_draws
from tdt.train.loop.trainer import Trainer
from tdt.train.loop.warm_start import warm_start
from tdt.train.metrics import tagged
from tdt.train.runs._environment import versions
from tdt.train.runs.checkpoint import CheckpointError, load_meta
from tdt.train.runs.run import METRICS_FILE, ROOT, Run, RunError, find_checkpoint
from tdt.utils._files import read_file

_KEPT = "a run goes on with the config in its checkpoint"


@dataclass(frozen=True)
class Saved:
    """A checkpoint as it was loaded."""

    path: Path
    tensors: dict[str, Any]
    meta: dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """How a run ended: "done" or the name of a signal; `by` what it was done: epochs, steps, time limit or early stopping;
    the test's scores."""

    reason: str
    by: str = ""
    test: Mapping[str, float] | None = None


class Session:
    """A run that this process trains. Use `start` or `resume`, then `train`; as a context it lets go of the run.

    parts: what the config declares; those of a resumed run are as its last checkpoint has them. saved: that checkpoint.
    changes: what the resumed run was given, or found, to be another one than before; notices: what else to know about it.

    >>> import tempfile
    >>> from tdt.train.config import load
    >>> with Session.start(load("digits-mlp", ["train.epochs=1"]), root=tempfile.mkdtemp()) as session:
    ...     session.train().reason
    'done'
    """

    def __init__(
        self,
        run: Run,
        parts: Parts,
        saved: Saved | None,
        fresh: bool,
        data_files: dict[str, Fingerprint],
        changes: Sequence[str] = (),
        notices: Sequence[str] = (),
    ):
        self.run, self.parts, self.saved, self.fresh = run, parts, saved, fresh
        self.data_files, self.changes, self.notices = data_files, changes, notices
        self.store = run.checkpoints(parts.config.checkpoint.keep)
        self._events = Events()
        self._stop = StopRequest()

    @cached_property
    def _trainer(self) -> Trainer:
        return Trainer(self.parts, self._events, self.store, self._describe(), self._check_stop)

    def _check_stop(self) -> None:
        """End the run if a signal has asked for it."""
        if (reason := self._stop.reason) is not None:
            text = f"{reason}: stopping; a second one stops at once"
            self._events.emit(Notice(step=self._trainer.step, text=text))
            raise Stopped(reason)

    @classmethod
    def start(
        cls,
        config: Config | Draft,
        *,
        root: str | os.PathLike[str] = ROOT,
        folder: str | os.PathLike[str] | None = None,
    ) -> Session:
        """A new run `root/<name>/<n>`, or in `folder`. ConfigError, before there is a folder, with all that is wrong; RunError
        where a launcher has started several processes."""
        check_one_process()
        # NumPy's BLAS is on one thread from here on, not from the first kernel: products have the same bits throughout.
        tdt.set_num_threads(tdt.get_num_threads())
        parts = build(config)
        warm = warm_start(parts, root)
        files = fingerprints(parts.files)
        run = Run.create(root, parts.config.name, parts.config.annotated(), folder=folder, extra={"weights": warm})
        return cls(run, parts, None, True, files)

    @classmethod
    def resume(
        cls,
        where: str | os.PathLike[str],
        *,
        root: str | os.PathLike[str] = ROOT,
        overrides: Sequence[str] = (),
        changed_data: bool = False,
    ) -> Session:
        """Go on with a run from its last checkpoint; one that was killed before its first starts again.

        `parts` have the checkpoint's weights and buffers, and the states of optimizer, schedulers, loaders and generators.
        overrides: `key=value` of what may differ from here on (`resuming.ALLOWED`); the run keeps it. changed_data: go on
        also where the files of its data have changed.
        RunError if there is no such run, another process trains it, a launcher has started several processes, an override
        is refused, or the data have changed; CheckpointError if the checkpoint is damaged.
        """
        check_one_process()
        if wrong := refused(overrides):
            raise RunError("\n".join(wrong))
        run = Run.open(where, root)
        run.check_links()
        run.lock()
        with ExitStack() as failing:
            failing.callback(run.close)
            run.clean()
            saved = _last(run)
            text = saved.meta["config"] if saved else run.config_text()
            file = str(run.folder / "config.yaml")
            config = loads(text, file, overrides)
            changes = differences(loads(text, file), config) if overrides else []
            tdt.set_num_threads(saved.meta["threads"] if saved else tdt.get_num_threads())
            with kept_config(overrides):
                parts = build(config, data_state=data_state(saved.meta) if saved else None, kept=True)
            if not saved:
                warm_start(parts, root)
            if saved and changes:
                _check_longer(parts, saved.meta["step"])
            files = fingerprints(parts.files, saved.meta.get("data_files", {}) if saved else {})
            session = cls(run, parts, saved, False, files, changes, _config_edits(run, saved) if saved else ())
            if saved:
                session._check_data(changed_data)
                session._unpack(saved)
            if changes:
                run.rewrite_config(config.resolved())
            failing.pop_all()
        return session

    def _check_data(self, changed: bool) -> None:
        """RunError where the files of the data are others than before, unless that is wanted: then it is a change."""
        assert self.saved is not None
        lines = differences_of_data(self.saved.meta.get("data_files", {}), self.data_files)
        if lines and not changed:
            told = "; ".join(lines)
            raise RunError(
                f"{told}: the run would not end as if it had not been stopped. Put the data back as they were, or go on "
                "with them as they are: --changed-data"
            )
        self.changes = [*self.changes, *lines]

    def _unpack(self, saved: Saved) -> None:
        """Make the parts what they were at the checkpoint."""
        with fitting(saved.path):
            self._trainer.resume(saved.tensors, saved.meta)
        with suppress(CheckpointError):  # one that is damaged says itself what it is, where it is read
            files = {step: self.store.path(step) for step in self.store.steps()}
            self._trainer.rows.clean({step: parts_of_metrics(load_meta(path)) for step, path in files.items()})

    @property
    def complete(self) -> bool:
        """Whether nothing is left to do: trained to the end, tested if there is a test split, and all that is in the logs."""
        if self.saved is None:
            return False
        with fitting(self.saved.path):
            if not is_over(self.parts, self.saved.meta):
                return False
        try:
            return b'"reason": "done"' in read_file(self.run.folder / METRICS_FILE)
        except FileNotFoundError:
            return False

    def train(self, *listeners: Callable[[Event], object], at_once: Callable[[], object] = lambda: None) -> Outcome:
        """Train to the end, or until SIGINT, SIGTERM or SIGHUP; then test the model with the best weights, else the last.

        listeners: called with every event beside the logs. at_once: called before a second signal ends the process.
        Raises NonFiniteLoss and StepError, with a note on which checkpoint was kept; CheckpointError and OSError where
        the disk is full or fails.
        """
        events = self._events
        with ExitStack() as stack:
            stack.enter_context(default_dtype(self.parts.config.dtype))
            self._stop = stack.enter_context(StopRequest(at_once))
            stack.callback(events.close)
            self._open_logs(events)
            for listener in listeners:
                events.subscribe(listener)
            trainer = self._trainer
            if self.saved:
                unpack_draws(self.parts, self.saved.tensors, self.saved.meta)
                for change in (*self.changes, *self.notices):
                    events.emit(Notice(step=trainer.step, text=change))
                if self.changes:  # kept from here on, whatever comes
                    trainer.saved_at = None
                    trainer.save()
                for difference in _differences(self.saved.meta):
                    events.emit(Notice(step=trainer.step, text=f"{difference}: bits may differ from the first part's"))
            elif self.parts.config.weights is not None:
                trainer.save()  # where these weights came from may be gone or changed by the time of a resume
            return self._run(trainer)

    def _run(self, trainer: Trainer) -> Outcome:
        def ended(reason: str, by: str) -> None:
            trainer.events.emit(RunStopped(step=trainer.step, epoch=trainer.epoch, reason=reason, by=by))

        try:
            trainer.fit()
            by = trainer.length.ended_by(trainer.step, trainer.stopping.patience_is_over)
            path = self._restore()
            outcome = Outcome("done", by, self._test(trainer, path) if "test" in self.parts.loaders else None)
            trainer.events.sync()  # a log that waits for its thread would lack the test's scores for ever
            ended("done", by)
            return outcome
        except Stopped as stop:
            ended("interrupted", stop.reason)
            return Outcome(stop.reason)
        except Exception as error:
            if isinstance(error, (NonFiniteLoss, StepError, MemoryError)):
                error.add_note(self._kept())
            with suppress(OSError):  # the disk may be what failed, and `error` says so
                ended("non-finite" if isinstance(error, NonFiniteLoss) else "failed", reason(error))
            raise

    def _kept(self) -> str:
        try:
            return f"kept: {find_checkpoint(self.run.folder)}"
        except CheckpointError:
            return "no checkpoint had been written"

    def _open_logs(self, events: Events) -> None:
        lengths, step = (self.saved.meta["logs"], self.saved.meta["step"]) if self.saved else ({}, 0)
        cut_to = None if self.fresh else lengths
        board = events.subscribe(TensorBoardLog(self.run.folder, cut_to, step))
        events.subscribe(ModelLog(self.parts, board.writer))
        events.subscribe(MetricsLog(self.run.folder, cut_to))  # last: a run is complete once it has said so

    def _describe(self) -> dict[str, Any]:
        return {
            "config": self.parts.config.resolved(),
            "data": self.parts.facts,
            "data_files": self.data_files,
            **_circumstances(),
        }

    def _restore(self) -> Path:
        """Put the best weights, else the last, into the model; returns the checkpoint that they are from."""
        path = find_checkpoint(self.run.folder)
        tensors, _ = load_run(path)
        with fitting(path):
            load_model(self.parts, tensors)
        self.parts.average = None  # it is the model, if there was one
        return path

    def _test(self, trainer: Trainer, path: Path) -> dict[str, float]:
        _, meta = load_run(path)
        scores = evaluate(self.parts, "test", check_stop=self._check_stop)
        epoch = meta["epoch"] - (meta["step"] == meta["epoch"] * trainer.length.steps_per_epoch)
        event = TestDone(step=meta["step"], epoch=epoch, scalars=tagged("test", scores), checkpoint=path)
        trainer.events.emit(event)
        return scores

    def close(self) -> None:
        """Let others train this run."""
        self.run.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _last(run: Run) -> Saved | None:
    store = run.checkpoints()
    if not store.steps() and not (store.folder / "last.safetensors").exists():
        return None
    path = store.resolve("last")
    try:
        saved = Saved(path, *load_run(path))
        # A run saves wherever it has a better score: one in its first checkpoint is that checkpoint's own.
        store.finish_save(best=saved.meta.get("best") is not None)
        return saved
    except CheckpointError as error:
        files = {step: store.path(step) for step in store.steps()}
        same = [step for step, file in files.items() if file.samefile(path)]
        before = [step for step in files if step not in same]
        if before and error.damaged:
            damaged = " ".join(map(str, dict.fromkeys([path, *(files[step] for step in same)])))
            error.add_note(f"to go on from the checkpoint before it, of step {before[-1]}, remove {damaged}")
        raise


def _config_edits(run: Run, saved: Saved) -> list[str]:
    """What to say where the run's own config.yaml is another one than the checkpoint's, which the run goes on with."""
    path = run.folder / "config.yaml"
    try:
        written = settings(run.config_text(), str(path))
    except FileNotFoundError:
        return []
    except RunError:  # no text at all
        written = {}
    if not written:
        return [f"{path} holds no config any more; {_KEPT}"]
    kept = settings(saved.meta["config"], str(path))
    keys = [key for key in dict.fromkeys((*kept, *written)) if kept.get(key) != written.get(key)]
    if not keys:
        return []
    shown = [f"{key}: {kept.get(key, 'not set')} → {written.get(key, 'not set')}" for key in keys[:3]]
    more = f" and {len(keys) - 3} more" * (len(keys) > 3)
    given = [f"{key}={written.get(key, 'null')}" for key in keys]
    advice = (
        refused(given[:1])[0] if refused(given[:1]) else f"give it on the command line: --resume {run.name} {given[0]}"
    )
    return [f"{path} was edited ({', '.join(shown)}{more}), which has no effect: {_KEPT}; {advice}"]


def _check_longer(parts: Parts, done: int) -> None:
    """A run cannot end before where it stands."""
    steps = Length(parts.config.train, len(parts.loaders["train"])).steps
    if steps is not None and steps < done:
        raise RunError(f"train: the run has done {counted(done, 'step')}, and would end after {steps}; give it more")


def _circumstances() -> dict[str, Any]:
    """What a run's bits depend on beside its config."""
    return {"versions": versions(), "kernels": "fast" if kernels.enabled() else "reference"}


def _differences(meta: Mapping[str, Any]) -> Iterable[str]:
    now = _circumstances()
    for package in sorted(meta["versions"].keys() | now["versions"].keys()):
        then, here = meta["versions"].get(package, "none"), now["versions"].get(package, "none")
        if then != here:
            yield f"{package} was {then} and is {here}"
    if meta["kernels"] != now["kernels"]:
        yield f"kernels were {meta['kernels']} and are {now['kernels']}"
