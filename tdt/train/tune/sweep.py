"""A sweep in its folder: the trials of a study of Optuna, which several processes share.

journal.log  report.html  best.yaml  logs/N.txt  claims/N.lock  1/ 2/ … (a run per trial)

Each trial is claimed by one process, which holds `claims/N.lock` while it supervises the run in the folder N; the run's
process inherits the lock. It is released when both have ended, in whatever way: then another process resumes the trial.
"""

from __future__ import annotations

import itertools
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tdt._about import install_hint
from tdt.train.config import Config
from tdt.train.config.search import Choices, Domain
from tdt.train.runs._fault import fault_point
from tdt.train.runs._lock import Locked, holder, lock
from tdt.train.runs.run import RunError, RunFolder
from tdt.train.tune.candidates import grid_size

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler
    from optuna.study import Study
    from optuna.trial import FrozenTrial, Trial

RETRY_AFTER = 0.02  # seconds between two attempts to take a lock that is held for milliseconds only
JOURNAL = "journal.log"
_LONG = re.compile(r"[+-]?\d+\.\d{5,}(e[+-]?\d+)?")


def import_optuna() -> Any:
    """The module optuna. Raises RunError naming the extra if it is not installed."""
    try:
        import optuna
    except ImportError as error:
        raise RunError(f"tdt tune needs Optuna: {install_hint('tune')}") from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


@contextmanager
def waiting_lock(path: Path) -> Iterator[None]:
    """Hold the lock file `path`, waiting while another process holds it."""
    while True:
        try:
            file = lock(path)
            break
        except Locked:
            time.sleep(RETRY_AFTER)
    with file:
        yield


class _JournalLock:
    """The lock for writing Optuna's journal: released by the end of its process; Optuna's own waits half a minute."""

    def __init__(self, path: Path, journal: Path) -> None:
        self._path, self._journal = path, journal
        self._held: Any = None

    def acquire(self) -> bool:
        self._held = waiting_lock(self._path)
        self._held.__enter__()
        cut_torn_line(self._journal)
        return True

    def release(self) -> None:
        self._held.__exit__(None, None, None)


def cut_torn_line(journal: Path) -> None:
    """Remove the last line if it has no end: its process was killed or its disk full, and the next line would join it."""
    with open(journal, "rb+") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return
        file.seek(-1, os.SEEK_END)
        if file.read() != b"\n":
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)


@dataclass
class Claimed:
    """A trial that this process supervises: `number` from 1, its settings as texts, and its run's folder."""

    number: int
    trial: Trial
    values: dict[str, str]
    folder: Path
    lock: FileIO

    def release(self) -> None:
        """Let other processes take the trial."""
        self.lock.close()


class Sweep:
    """The sweep in `folder`, which is begun if it is new.

    Args:
        config: the checked config, with its `sweep`.
        minimize: whether smaller values of the metric are better.
    Raises:
        RunError: the folder has a sweep of another config, or Optuna is not installed.
    """

    def __init__(self, folder: Path, config: Config, minimize: bool) -> None:
        assert config.sweep is not None
        self.folder, self.settings, self.search = folder, config.sweep, config.search
        self.minimize, self.seed = minimize, config.seed
        self.total = config.sweep.trials
        if config.sweep.sampler == "grid":
            size = grid_size(config.search)
            self.total = size if self.total is None else min(self.total, size)
        optuna = import_optuna()
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend

        for part in ("logs", "claims"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        lock: Any = _JournalLock(folder / "claims" / "journal.lock", folder / JOURNAL)
        backend = JournalFileBackend(str(folder / JOURNAL), lock)
        with self._exclusive():
            self.study: Study = optuna.create_study(
                storage=JournalStorage(backend),
                study_name="tdt",
                direction="minimize" if minimize else "maximize",
                load_if_exists=True,
                sampler=self._sampler(0),
                pruner=self._pruner(),
            )
            self._check_same(config)
        self.distributions = {key: _distribution(domain) for key, domain in self.search.items()}

    def _exclusive(self) -> Any:
        return waiting_lock(self.folder / "claims" / "sweep.lock")

    def _check_same(self, config: Config) -> None:
        """Note what is searched in a new study; for an old one check that it is the same."""
        now = {
            "config": config.resolved(),
            "metric": self.settings.metric,
            "direction": "minimize" if self.minimize else "maximize",
            "search": {key: str(domain) for key, domain in self.search.items()},
        }
        then = self.study.user_attrs.get("sweep")
        if then is None:
            self.study.set_user_attr("sweep", now)  # at once: a process that is killed here leaves all of it or nothing
            return
        differing = [key for key, value in now.items() if then.get(key) != value]
        if differing:
            raise RunError(
                f"{self.folder} has a sweep whose {' and '.join(differing)} differ{'s' * (len(differing) == 1)}: results would "
                "not be comparable; start another with --sweep-dir DIR, or change it back (sampler, pruner, trials, time "
                "and parallel may change)"
            )

    def trials(self) -> list[FrozenTrial]:
        """Every trial so far, by number."""
        return self.study.get_trials(deepcopy=False)

    def run_of(self, trial: FrozenTrial) -> Path:
        """The folder of a trial's run."""
        return self.folder / str(trial.number + 1)

    @property
    def finished(self) -> bool:
        """Whether all trials are done."""
        trials = self.trials()
        return (
            all(trial.state.is_finished() for trial in trials) and self.total is not None and len(trials) >= self.total
        )

    def claim(self, ours: Mapping[int, object]) -> Claimed | None:
        """A trial to work on: one whose process has died, else a new one; None if there is none now.

        ours: the numbers of this process's trials.
        """
        with self._exclusive():
            for trial in self.trials():
                if trial.state.name == "RUNNING" and trial.number + 1 not in ours:
                    claimed = self._adopt(trial)
                    if claimed is not None:
                        return claimed
            count = sum(trial.state.name != "WAITING" for trial in self.trials())
            if self.total is not None and count >= self.total:
                return None
            return self._ask(count)

    def _adopt(self, trial: FrozenTrial) -> Claimed | None:
        """Claim a running trial whose supervisor and whose run's process have ended; None if one of them has not."""
        import optuna

        try:
            file = lock(self._claim_file(trial.number))
        except Locked:
            return None
        ended = self.trials()[trial.number].state.is_finished()  # recorded after `trial` was read
        if ended or holder(self.run_of(trial) / "run.lock") is not None:  # trained on after its supervisor was killed
            file.close()
            return None
        self.study.sampler = self._sampler(trial.number)
        return self._claimed(optuna.trial.Trial(self.study, trial._trial_id), file)

    def _ask(self, count: int) -> Claimed:
        self.study.sampler = self._sampler(count)
        if self.settings.sampler == "grid" and not any(trial.state.name == "WAITING" for trial in self.trials()):
            points = itertools.product(*(domain.grid() or () for domain in self.search.values()))
            texts = next(itertools.islice(points, count, None))
            values = (_number(domain, text) for domain, text in zip(self.search.values(), texts, strict=True))
            self.study.enqueue_trial(dict(zip(self.search, values, strict=True)))
        trial = self.study.ask()
        fault_point("tune.asked")
        return self._claimed(trial, lock(self._claim_file(trial.number)))

    def _claimed(self, trial: Trial, file: FileIO) -> Claimed:
        """The trial with a value for each setting: those that it lacks, as its process was killed, are drawn now."""
        drawn, values = trial.params, {}
        for key, distribution in self.distributions.items():
            if drawn and key in drawn:  # draw what was drawn before, so that the sampler goes on behind it
                frozen = self.trials()[trial.number]
                self.study.sampler.sample_independent(self.study, frozen, key, distribution)
            values[key] = _text(trial._suggest(key, distribution))
            fault_point("tune.drawn")
        return Claimed(trial.number + 1, trial, values, self.folder / str(trial.number + 1), file)

    def _claim_file(self, number: int) -> Path:
        return self.folder / "claims" / f"{number + 1}.lock"

    def finish(self, claimed: Claimed, state: str, value: float | None = None, error: str = "") -> None:
        """Record how a trial ended: "complete" with its value, "pruned", or "failed" with the reason."""
        from optuna.trial import TrialState

        if error:
            claimed.trial.set_user_attr("error", error)
        states = {"complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED, "failed": TrialState.FAIL}
        self.study.tell(claimed.trial, value, states[state], skip_if_finished=True)
        fault_point("tune.told")
        claimed.release()

    def best(self) -> FrozenTrial | None:
        """The completed trial with the best value, the first of equals."""
        complete = [trial for trial in self.trials() if trial.state.name == "COMPLETE" and trial.value is not None]
        sign = 1 if self.minimize else -1
        return min(complete, key=lambda trial: (sign * (trial.value or 0.0), trial.number), default=None)

    def write_best(self) -> Path | None:
        """Write the config of the best trial to `best.yaml`. Returns its path; None if no trial has completed."""
        from tdt._files import replace_file

        best = self.best()
        if best is None:
            return None
        replace_file(self.folder / "best.yaml", RunFolder(self.run_of(best)).config_text().encode())
        return self.folder / "best.yaml"

    def _sampler(self, number: int) -> BaseSampler:
        """The sampler for trial `number`: its draws depend on that, the config's seed and the trials before."""
        from optuna.samplers import RandomSampler, TPESampler

        seed = (self.seed * 1_000_003 + number) % 2**32
        if self.settings.sampler == "tpe":
            return TPESampler(seed=seed, constant_liar=True)  # running trials repel new ones
        return RandomSampler(seed=seed)

    def _pruner(self) -> BasePruner:
        from optuna import pruners

        makers: dict[str, Callable[[], BasePruner]] = {
            "median": pruners.MedianPruner,
            "halving": pruners.SuccessiveHalvingPruner,
            "hyperband": pruners.HyperbandPruner,
            "none": pruners.NopPruner,
        }
        return makers[self.settings.pruner]()


def _distribution(domain: Domain) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(domain, Choices):
        return CategoricalDistribution(domain.values)
    if domain.whole:
        step = 1 if domain.step is None else int(domain.step)
        return IntDistribution(int(domain.low), int(domain.high), log=domain.logarithmic, step=step)
    return FloatDistribution(domain.low, domain.high, log=domain.logarithmic, step=domain.step)


def _number(domain: Domain, text: str) -> Any:
    return text if isinstance(domain, Choices) else int(text) if domain.whole else float(text)


def _text(value: Any) -> str:
    """A value as an override writes it."""
    return value if isinstance(value, str) else repr(value)


def shown(value: object) -> str:
    """A setting in a table or a line: a number with many digits is rounded to four."""
    text = str(value)
    return f"{float(text):.4g}" if _LONG.fullmatch(text) else text


def trial_command(claimed: Claimed, config: str, overrides: Sequence[str], options: Sequence[str]) -> list[str]:
    """The arguments of `tdt` that begin or resume the trial's run."""
    if os.path.lexists(claimed.folder / "config.yaml"):
        return ["train", "--resume", str(claimed.folder), *options]
    chosen = [f"{key}={value}" for key, value in claimed.values.items()]
    return ["train", config, *overrides, *chosen, "--run-dir", str(claimed.folder), *options]
