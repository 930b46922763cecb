"""A run from start to end, new or resumed: folder, logs, training, final test.

Of several processes, rank 0 alone owns the run's folder, its lock, logs and checkpoints: it reads what a resumed run needs, and
sends it to the others, which therefore need no file system in common. They know the folder's path, and write nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import tdt
from tdt._activity import ACTIVITY
from tdt._files import read_file, replace_file
from tdt.backends import kernels
from tdt.distributed._launch import abort_at_exit
from tdt.train._agreement import arrays_of_first, by_first, send_model, together, watched
from tdt.train._printable import counted
from tdt.train._ranks import Ranks
from tdt.train._types import Arrays, Json
from tdt.train.checks.alike import check_alike, share_threads
from tdt.train.checks.compiling import Compilation
from tdt.train.checks.resuming import differences, refused
from tdt.train.checks.saved_config import restrict_saved_config
from tdt.train.config import Config, Draft, loads
from tdt.train.config.precision import default_dtype
from tdt.train.config.settings import settings
from tdt.train.data.fingerprints import Fingerprint, fingerprints
from tdt.train.data.fingerprints import differences as differences_of_data
from tdt.train.errors import CompileError, NonFiniteLoss, StepError, Stopped, reason
from tdt.train.logging.callbacks import Callback
from tdt.train.logging.events import (
    CheckpointSaved,
    Event,
    Events,
    MetricsLog,
    Notice,
    RunStopped,
    TensorBoardLog,
    TestDone,
)
from tdt.train.logging.model_log import ModelLog
from tdt.train.loop._signals import REPEATED, StopRequest
from tdt.train.loop.build import build
from tdt.train.loop.evaluation import evaluate
from tdt.train.loop.length import Length
from tdt.train.loop.parts import Parts
from tdt.train.loop.state import data_state, is_over, load_model, load_run, parts_of_metrics, restore_rng, state_errors
from tdt.train.loop.trainer import Trainer
from tdt.train.loop.warm_start import warm_start
from tdt.train.metrics import tagged
from tdt.train.model.computation import CHECK_EVERY
from tdt.train.runs._environment import versions
from tdt.train.runs.checkpoint import CheckpointError, load_meta
from tdt.train.runs.run import METRICS_FILE, ROOT, RunError, RunFolder, find_checkpoint

COMPILE_REPORT = "compile-difference.txt"
_SAVED_CONFIG_APPLIES = "a resumed run uses the config in its checkpoint"


@dataclass(frozen=True)
class Saved:
    """A loaded checkpoint."""

    path: Path
    tensors: Arrays
    meta: Json


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    reason: "done" or the name of a signal. by: what ended a run that is done: epochs, steps, time limit, early stopping
    or a callback. test: the scores on the test split.
    """

    reason: str
    by: str = ""
    test: Mapping[str, float] | None = None


class Session:
    """A run that this process trains: `start` or `resume` it, then `train`. A context manager that releases the run's lock.

    Attributes:
        parts: model, data and run, built from the config; for a resumed run in the state of its last checkpoint.
        saved: that checkpoint.
        ranks: the processes that train it.
        changes: settings and data files that differ from the run so far.
        notices: other messages about the resumed run; of a new one, which weights it starts from.

    >>> from tdt.train.session import Session
    >>> import tempfile
    >>> from tdt.train.config import load
    >>> with Session.start(load("digits-mlp", ["train.epochs=1"]), root=tempfile.mkdtemp()) as session:
    ...     session.train().reason
    'done'
    """

    def __init__(
        self,
        run: RunFolder,
        parts: Parts,
        saved: Saved | None,
        fresh: bool,
        data_files: dict[str, Fingerprint],
        changes: Sequence[str] = (),
        notices: Sequence[str] = (),
        ranks: Ranks | None = None,
    ) -> None:
        self.ranks = ranks or Ranks.alone()
        self.run, self.parts, self.saved, self.fresh = run, parts, saved, fresh
        self.data_files, self.changes, self.notices = data_files, changes, notices
        compiles = parts.computation(parts.model).reason is None
        self.store = run.checkpoints(parts.config.checkpoint.keep, CHECK_EVERY if compiles else None)
        self._events = Events()
        self._stop, self._reported = StopRequest(), False  # reported: whether the log has the reason

    @cached_property
    def _trainer(self) -> Trainer:
        store = self.store if self.ranks.first else None
        return Trainer(self.parts, self._events, store, self._describe(), self._check_stop)

    def _check_stop(self) -> None:
        """Report progress, and end the run if a signal has requested it."""
        ACTIVITY.report()
        if (reason := self._stop.reason) is not None:
            if not self._reported:
                self._reported = True
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
        callbacks: Sequence[Callback] = (),
    ) -> Session:
        """Start a new run in `root/<name>/<n>`, or in `folder`. callbacks: in addition to those of the config.

        Raises:
            ConfigError: with every mistake, before the folder is created.
            RunError: the processes that a launcher has started differ in what their numbers depend on.
            LaunchError: they cannot talk to one another.
        """
        ranks = Ranks.of_launch()
        share_threads(ranks)
        parts = together(ranks, lambda: build(config, ranks=ranks))
        parts.callbacks += tuple(callbacks)
        record, lines = _warm_start(ranks, parts, root)
        files = together(ranks, lambda: fingerprints(parts.files))
        check_alike(ranks, parts.config, files, parts.device)
        name, text = parts.config.name, parts.config.annotated()
        run = _owned(ranks, lambda: RunFolder.create(root, name, text, folder=folder, extra={"weights": record}))
        return cls(run, parts, None, True, files, notices=lines, ranks=ranks)

    @classmethod
    def resume(
        cls,
        where: str | os.PathLike[str],
        *,
        root: str | os.PathLike[str] = ROOT,
        overrides: Sequence[str] = (),
        changed_data: bool = False,
        callbacks: Sequence[Callback] = (),
    ) -> Session:
        """Resume a run from its last checkpoint, or from the beginning if it has none yet.

        `parts` get the checkpoint's weights and buffers, and the states of optimizer, schedulers, loaders and generators.

        Args:
            where: a run's folder or name.
            root: folder of all runs.
            overrides: `key=value` settings that may change on resume (`resuming.ALLOWED`); the run keeps them.
            changed_data: resume even if the data files have changed.
            callbacks: those that the run was started with, in addition to the config's.
        Raises:
            RunError: there is no such run, another process trains it, an override may not change, or the data have changed.
            CheckpointError: the checkpoint is damaged.
        """
        ranks = Ranks.of_launch()
        run = _owned(ranks, lambda: _opened(where, root, overrides))
        with ExitStack() as failing:
            failing.callback(run.close)
            saved = _of_first(ranks, lambda: _read_last(run))
            text = saved.meta["config"] if saved else by_first(ranks, run.config_text)
            file = str(run.folder / "config.yaml")
            config = together(ranks, lambda: loads(text, file, overrides))
            changes = differences(loads(text, file), config) if overrides else []
            if saved and ranks.size == 1:
                tdt.set_num_threads(saved.meta["threads"])
            else:
                share_threads(ranks)
            parts = together(ranks, lambda: _rebuilt(ranks, config, saved, overrides))
            if parts.shards is None and (wrong := refused(overrides, sharded=False)):
                raise RunError("\n".join(wrong))
            parts.callbacks += tuple(callbacks)
            if not saved:
                _warm_start(ranks, parts, root)
            known = saved.meta.get("data_files", {}) if saved else {}
            files = together(ranks, lambda: fingerprints(parts.files, known))
            check_alike(ranks, parts.config, files, parts.device)
            notices = by_first(ranks, lambda: _config_edits(run, saved)) if saved else ()
            session = cls(run, parts, saved, False, files, changes, notices, ranks)
            if saved:
                together(ranks, lambda: session._restart(saved, changes, changed_data))
            if changes:
                by_first(ranks, lambda: run.rewrite_config(config.resolved()))
            failing.pop_all()
        return session

    @classmethod
    def resume_or_start(
        cls, config: Draft, folder: str | os.PathLike[str], *, root: str | os.PathLike[str] = ROOT
    ) -> Session:
        """Resume the run in `folder` if there is one, which must be of this config; else start it there.

        Raises:
            RunError: a setting that may not change on resume differs from the run's; and as `start` and `resume`.
            ConfigError: as `start`.
        """
        run, ranks = RunFolder(folder), Ranks.of_launch()
        if not by_first(ranks, lambda: run.has_config):
            by_first(ranks, run.remove_remnant)
            return cls.start(config, root=root, folder=folder)
        return cls.resume(run.folder, root=root, overrides=by_first(ranks, lambda: _overrides(run, config)))

    def _check_data(self, changed: bool) -> None:
        """Raise RunError if the data files have changed; with `changed`, record that in `changes` instead."""
        assert self.saved is not None
        lines = differences_of_data(self.saved.meta.get("data_files", {}), self.data_files)
        if lines and not changed:
            raise RunError(
                f"{'; '.join(lines)}: a resumed run would not give the result of an uninterrupted one. Restore the data, or "
                "resume with the changed data: --changed-data"
            )
        self.changes = [*self.changes, *lines]

    def _restart(self, saved: Saved, changes: Sequence[str], changed_data: bool) -> None:
        """Restore the state of the parts at the checkpoint, after a check that the run can go on from there."""
        if changes:
            _check_longer(self.parts, saved.meta["step"])
        self._check_data(changed_data)
        with state_errors(saved.path):
            self._trainer.resume(saved.tensors, saved.meta)
        for name in [name for name in saved.tensors if not name.startswith(("rng/", "loader/"))]:
            del saved.tensors[name]  # memory; `restore_rng` needs the others
        if self._trainer.rows is None:  # of rank 0 alone
            return
        with suppress(CheckpointError):  # a damaged checkpoint raises where it is used
            files = {step: self.store.path(step) for step in self.store.steps()}
            self._trainer.rows.clean({step: parts_of_metrics(load_meta(path)) for step, path in files.items()})

    @property
    def complete(self) -> bool:
        """Whether nothing is left to do: training and, with a test split, the test are over and logged."""
        if self.saved is None:
            return False
        with state_errors(self.saved.path):
            if not is_over(self.parts, self.saved.meta):
                return False
        return by_first(self.ranks, self._is_logged_as_done)

    @property
    def compilation(self) -> Compilation | None:
        """Whether steps are compiled; None while that is not known yet."""
        return self._trainer.train_step.compilation

    def _is_logged_as_done(self) -> bool:
        try:
            return b'"reason": "done"' in read_file(self.run.folder / METRICS_FILE)
        except FileNotFoundError:
            return False

    def train(self, *listeners: Callable[[Event], None], at_once: Callable[[], None] = lambda: None) -> Outcome:
        """Train to the end, then test the model with its best weights (the last ones if there are no best).

        SIGINT, SIGTERM or SIGHUP stops the run after the step, with a checkpoint.

        Args:
            listeners: called with every event, in addition to the logs.
            at_once: called before a second signal ends the process.
        Raises:
            NonFiniteLoss, StepError: with a note that names the last checkpoint.
            CheckpointError, OSError: the disk is full or fails.
        """
        events = self._events
        with ExitStack() as stack:
            stack.enter_context(default_dtype(self.parts.config.dtype))
            self._stop = stack.enter_context(StopRequest(at_once, REPEATED if self.ranks.size > 1 else 0.0))
            stack.callback(events.close)
            self._open_logs(events)
            for listener in listeners:
                events.subscribe(listener)
            trainer = self._trainer
            for note in dict.fromkeys(note for notes in self.parts.notes.values() for note in notes):
                splits = (f"data.{split}" for split, notes in self.parts.notes.items() if note in notes)
                events.emit(Notice(step=trainer.step, text=f"{', '.join(splits)}: {note}"))
            if self.ranks.unwatched:
                names = ", ".join(map(self.ranks.name, self.ranks.unwatched))
                events.emit(
                    Notice(step=trainer.step, text=f"{names}: no connection to rank 0; a hang is not noticed there")
                )
            if (reason := self.ranks.connect(self.parts.device)) is not None:
                events.emit(Notice(step=trainer.step, text=f"gradients go through the host, by MPI: {reason}"))
            if self.saved:
                restore_rng(self.parts, self.saved.tensors, self.saved.meta)
                for change in (*self.changes, *self.notices):
                    events.emit(Notice(step=trainer.step, text=change))
                if self.changes:  # part of the run from now on
                    trainer.saved_at = None
                    trainer.save()
                else:  # the states of callbacks in the checkpoint are from before this event
                    trainer.callbacks(self._saved_event(self.saved))
                for difference in _differences(self.saved.meta):
                    events.emit(Notice(step=trainer.step, text=f"{difference}: results may differ in the last bits"))
            elif self.parts.config.weights is not None:
                for notice in self.notices:
                    events.emit(Notice(step=trainer.step, text=notice))
                trainer.save()  # the source of these weights may be gone or changed by the time of a resume
            with watched(self.ranks, self.parts.config.train.stall_timeout.seconds, "training"):
                ACTIVITY.report(step=trainer.step)
                try:
                    outcome = self._run(trainer)
                except BaseException:
                    abort_at_exit()
                    raise
            if self.ranks.size > 1 and outcome.reason != "done":
                self._stop.ignore()  # a launcher's signal comes to some processes after others have stopped the run
            return outcome

    def _run(self, trainer: Trainer) -> Outcome:
        def ended(reason: str, by: str) -> None:
            trainer.events.emit(RunStopped(step=trainer.step, epoch=trainer.epoch, reason=reason, by=by))

        try:
            trainer.fit()
            waited = trainer.stopping.patience_is_over
            by = trainer.callbacks.stopped_by or trainer.length.ended_by(trainer.step, waited)
            best = self._restore()
            outcome = Outcome("done", by, self._test(trainer, best) if "test" in self.parts.loaders else None)
            trainer.events.sync()  # else a log that is written by a thread could miss the test scores
            ended("done", by)
            return outcome
        except Stopped as stop:
            ended("interrupted", stop.reason)
            return Outcome(stop.reason)
        except Exception as error:
            if self.ranks.first and isinstance(error, CompileError):
                error.add_note(self._verified_checkpoint(error, trainer))
            elif self.ranks.first and isinstance(error, (NonFiniteLoss, StepError, MemoryError)):
                error.add_note(self._last_checkpoint())
            with suppress(OSError):  # if the disk has failed, `error` says so
                ended("non-finite" if isinstance(error, NonFiniteLoss) else "failed", reason(error))
            raise

    def _saved_event(self, saved: Saved) -> CheckpointSaved:
        """The event that followed the writing of a checkpoint."""
        step, best = saved.meta["step"], self.store.folder / "best.safetensors"
        is_best = best.exists() and load_meta(best).get("step") == step
        return CheckpointSaved(step=step, epoch=saved.meta["epoch"], path=self.store.path(step), best=is_best)

    def _last_checkpoint(self) -> str:
        try:
            return f"kept: {find_checkpoint(self.run.folder)}"
        except CheckpointError:
            return "no checkpoint has been written"

    def _verified_checkpoint(self, error: CompileError, trainer: Trainer) -> str:
        """Go back to the last checkpoint that compiled steps cannot have spoilt, and write a report. Returns a note on both."""
        verified = trainer.step // CHECK_EVERY * CHECK_EVERY
        path, report = self.store.go_back(verified), self.run.folder / COMPILE_REPORT
        facts = {"step": trainer.step + 1, "verified": verified, "threads": tdt.get_num_threads(), **_environment()}
        replace_file(report, f"{error}\n{json.dumps(facts, indent=1)}\n\n{error.source}".encode())
        saved = f"kept, verified: {path}; a resumed run starts there" if path else (
            "no checkpoint is verified: start the run again"
        )  # fmt: skip
        return f"{saved}\nreport: {report}"

    def _open_logs(self, events: Events) -> None:
        if not self.ranks.first:
            events.subscribe(self._trainer.callbacks)
            return
        lengths, step = (self.saved.meta["logs"], self.saved.meta["step"]) if self.saved else ({}, 0)
        cut_to = None if self.fresh else lengths
        board = events.subscribe(TensorBoardLog(self.run.folder, cut_to, step))
        events.subscribe(ModelLog(self.parts, board.writer))
        events.subscribe(self._trainer.callbacks)
        events.subscribe(MetricsLog(self.run.folder, cut_to))  # last: its RunStopped line marks a run as complete

    def _describe(self) -> dict[str, Any]:
        return {
            "config": self.parts.config.resolved(),
            "data": self.parts.facts,
            "data_files": self.data_files,
            **_environment(),
        }

    def _restore(self) -> Saved:
        """Load the best weights, else the last, into the model. Returns their checkpoint."""
        ACTIVITY.report("loading the best weights")
        best = _of_first(self.ranks, self._best)
        assert best is not None
        with state_errors(best.path):
            load_model(self.parts, best.tensors)
        self.parts.average = None  # an average is loaded into the model itself
        return best

    def _best(self) -> Saved:
        path = find_checkpoint(self.run.folder)
        return Saved(path, *load_run(path))

    def _test(self, trainer: Trainer, best: Saved) -> dict[str, float]:
        meta = best.meta
        ACTIVITY.report("testing")
        scores = evaluate(self.parts, "test", check_stop=self._check_stop)
        epoch = meta["epoch"] - (meta["step"] == meta["epoch"] * trainer.length.steps_per_epoch)
        event = TestDone(step=meta["step"], epoch=epoch, scalars=tagged("test", scores), checkpoint=best.path)
        trainer.events.emit(event)
        return scores

    def close(self) -> None:
        """Release the run's lock."""
        self.run.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _owned(ranks: Ranks, obtain: Callable[[], RunFolder]) -> RunFolder:
    """The run's folder, which rank 0 obtains and locks; to the others it is only a path."""
    own: list[RunFolder] = []

    def path() -> Path:
        own.append(obtain())
        return own[0].folder

    folder = by_first(ranks, path)
    return own[0] if own else RunFolder(folder)


def _opened(where: str | os.PathLike[str], root: str | os.PathLike[str], overrides: Sequence[str]) -> RunFolder:
    """The run to resume, locked and cleaned."""
    if wrong := refused(overrides):
        raise RunError("\n".join(wrong))
    run = RunFolder.open(where, root)
    run.check_links()
    run.lock()
    run.clean()
    return run


def _overrides(run: RunFolder, config: Draft) -> list[str]:
    """What differs between the config and that of the run. RunError if it may not change on resume."""
    declared = build(config, splits=(), dry_run=True).config.annotated()
    then, now = (settings(text, str(run.folder)) for text in (run.config_text(), declared))
    if "train.shards" not in now:  # as many as there were processes at the start
        then.pop("train.shards", None)
    changed = {key: now.get(key) for key in dict.fromkeys((*then, *now)) if then.get(key) != now.get(key)}
    overrides = [f"{key}={'null' if value is None else value}" for key, value in changed.items()]
    if wrong := refused(overrides):
        raise RunError(
            f"{run.folder} has a run with other settings:\n"
            + "\n".join(wrong)
            + "\nchoose another --run-dir for a new run"
        )
    return overrides


def _rebuilt(ranks: Ranks, config: Config, saved: Saved | None, overrides: Sequence[str]) -> Parts:
    with restrict_saved_config(overrides):
        return build(config, data_state=data_state(saved.meta) if saved else None, resumed=True, ranks=ranks)


def _warm_start(ranks: Ranks, parts: Parts, root: str | os.PathLike[str]) -> tuple[Json | None, list[str]]:
    """Load the weights that the config names: rank 0 reads them. Returns what is recorded of them, and lines about them."""
    if parts.config.weights is None:
        return None, []

    def read() -> tuple[Json, list[str]]:
        loaded = warm_start(parts, root)
        assert loaded is not None
        return loaded.record(), loaded.lines()

    found = by_first(ranks, read)
    send_model(ranks, parts.model)
    return found


def _of_first(ranks: Ranks, read: Callable[[], Saved | None]) -> Saved | None:
    """A checkpoint that rank 0 reads."""
    own: list[Saved] = []

    def described() -> tuple[Path, Json] | None:
        own.extend(filter(None, [read()]))
        return (own[0].path, own[0].meta) if own else None

    found = by_first(ranks, described)
    return found and Saved(found[0], arrays_of_first(ranks, own[0].tensors if own else None), found[1])


def _read_last(run: RunFolder) -> Saved | None:
    """The run's last checkpoint; None if it has none yet."""
    store = run.checkpoints()
    if not store.steps() and not (store.folder / "last.safetensors").exists():
        return None
    path = store.resolve("last")
    try:
        saved = Saved(path, *load_run(path))
        # A run saves whenever its score improves, so a best score in the first checkpoint is that checkpoint's.
        store.finish_save(best=saved.meta.get("best") is not None)
        return saved
    except CheckpointError as error:
        files = {step: store.path(step) for step in store.steps()}
        same = [step for step, file in files.items() if file.samefile(path)]
        before = [step for step in files if step not in same]
        if before and error.damaged:
            damaged = " ".join(map(str, dict.fromkeys([path, *(files[step] for step in same)])))
            error.add_note(f"to resume from the previous checkpoint, of step {before[-1]}, remove {damaged}")
        raise


def _config_edits(run: RunFolder, saved: Saved) -> list[str]:
    """The notice that the run's config.yaml differs from the config in the checkpoint, which the resumed run uses."""
    path = run.folder / "config.yaml"
    try:
        written = settings(run.config_text(), str(path))
    except FileNotFoundError:
        return []
    except RunError:  # not text
        written = {}
    if not written:
        return [f"{path} is no longer a config; {_SAVED_CONFIG_APPLIES}"]
    saved_settings = settings(saved.meta["config"], str(path))
    keys = [key for key in dict.fromkeys((*saved_settings, *written)) if saved_settings.get(key) != written.get(key)]
    if not keys:
        return []
    shown = [f"{key}: {saved_settings.get(key, 'not set')} → {written.get(key, 'not set')}" for key in keys[:3]]
    more = f" and {len(keys) - 3} more" * (len(keys) > 3)
    overrides = [f"{key}={written.get(key, 'null')}" for key in keys]
    wrong = refused(overrides[:1], sharded="shards" in saved.meta)
    advice = wrong[0] if wrong else f"give it on the command line: --resume {run.name} {overrides[0]}"
    return [f"{path} was edited ({', '.join(shown)}{more}), which has no effect: {_SAVED_CONFIG_APPLIES}; {advice}"]


def _check_longer(parts: Parts, done: int) -> None:
    """Raise RunError if the new length of the run is shorter than what it has trained."""
    steps = Length(parts.config.train, len(parts.loaders["train"])).steps
    if steps is not None and steps < done:
        raise RunError(
            f"train: the run has already trained {counted(done, 'step')}, but would end after {steps}; set a larger number"
        )


def _environment() -> dict[str, Any]:
    """What a run's exact numbers depend on besides its config and data."""
    return {"versions": versions(), "kernels": "fast" if kernels.enabled() else "reference"}


def _differences(meta: Mapping[str, Any]) -> Iterable[str]:
    now = _environment()
    for package in sorted(meta["versions"].keys() | now["versions"].keys()):
        then, here = meta["versions"].get(package, "none"), now["versions"].get(package, "none")
        if then != here:
            yield f"{package} was {then} and is {here}"
    if meta["kernels"] != now["kernels"]:
        yield f"kernels were {meta['kernels']} and are {now['kernels']}"
