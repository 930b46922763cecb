"""Supervise trials: start the process of each, read its scores, prune it, and record how it ended."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tdt._files import replace_file
from tdt.train.runs import history
from tdt.train.runs._fault import fault_point
from tdt.train.runs._lock import holder
from tdt.train.runs.history import History
from tdt.train.runs.run import METRICS_FILE, PRUNED_FILE, RunFolder
from tdt.train.tune.sweep import Claimed, Sweep, shown, trial_command

POLL = 0.1  # seconds between two looks at the trials of this process
SHOW_EVERY = 1.0  # seconds after which the running trials' times are shown anew
LOOK_FOR_DEAD = 1.0  # seconds between two looks for trials whose process has died
MOST_KILLS = 3  # a trial whose process was killed so often, as by the system when memory is short, has failed


@dataclass
class Active:
    """A trial with its process. began: when this process began to supervise it. value: the best so far."""

    claimed: Claimed
    process: subprocess.Popen[bytes]
    slot: int
    log: IO[bytes]
    began: float = field(default_factory=time.monotonic)
    value: float | None = None
    reported: int = 0
    size: int = -1  # of the metrics file when it was last read
    pruned: bool = False


class Worker:
    """Runs trials of `sweep` until all are done, `slots` at a time.

    Args:
        config, overrides, options: what `tdt train` gets for each trial.
        gpus: whether each slot is a GPU of its own.
        on_change: called when a trial begins or ends, with a line for that, and every second with "".
        check_stop: raises Stopped when the search should stop; then each trial stops with a checkpoint.
    """

    def __init__(
        self,
        sweep: Sweep,
        config: str,
        overrides: Sequence[str],
        options: Sequence[str],
        *,
        slots: int = 1,
        gpus: bool = False,
        on_change: Callable[[str], None] = lambda line: None,
        check_stop: Callable[[], None] = lambda: None,
    ) -> None:
        self.sweep, self.config, self.overrides, self.options = sweep, config, list(overrides), list(options)
        self.slots, self.gpus = slots, gpus
        self.on_change, self.check_stop = on_change, check_stop
        self.active: dict[int, Active] = {}
        limit = sweep.settings.time
        self._deadline = math.inf if limit is None else time.monotonic() + limit.seconds
        self.tag = sweep.settings.metric.replace("train/", "train_epoch/")

    def run(self) -> None:
        """Work until every trial is done, or until the time is over and this process's trials have ended.

        Raises:
            Stopped: by `check_stop`, after this process's trials have stopped.
        """
        looked, printed = -math.inf, time.monotonic()
        try:
            while True:
                self.check_stop()
                ended = [self._look(active) for active in list(self.active.values())]
                free = self.slots - len(self.active)
                if free and (any(ended) or time.monotonic() - looked >= LOOK_FOR_DEAD):
                    looked = time.monotonic()
                    while len(self.active) < self.slots and time.monotonic() < self._deadline and self._start_next():
                        pass
                    if not self.active and (self.sweep.finished or time.monotonic() >= self._deadline):
                        return
                if time.monotonic() - printed >= SHOW_EVERY:
                    printed = time.monotonic()
                    self.on_change("")
                time.sleep(POLL)
        except BaseException:
            self._stop_all()
            raise

    def _start_next(self) -> bool:
        """Take the next trial. Returns whether there was one."""
        claimed = self.sweep.claim(self.active)
        if claimed is None:
            return False
        if not self._ended_before(claimed):
            self._start(claimed)
        return True

    def _ended_before(self, claimed: Claimed) -> bool:
        """Record a trial whose run ended after its supervisor was killed. Returns whether it had ended."""
        if not RunFolder(claimed.folder).has_config:
            return False
        attributes = claimed.trial.user_attrs
        log = history.read(RunFolder(claimed.folder), steps=False)
        if log.state in ("done", "failed", "non-finite") or attributes.get("pruned"):
            pruned = bool(attributes.get("pruned")) and log.state != "done"
            self._record(claimed, log, pruned, log.ended_by or log.state)
            return True
        return False

    def _start(self, claimed: Claimed) -> None:
        slot = min(set(range(self.slots)) - {active.slot for active in self.active.values()})
        log = open(self.sweep.folder / "logs" / f"{claimed.number}.txt", "ab")  # noqa: SIM115 - closed with the trial
        RunFolder(claimed.folder).remove_remnant()
        command = trial_command(claimed, self.config, self.overrides, self.options)
        process = subprocess.Popen(
            [sys.executable, "-m", "tdt", *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=self._environment(slot),
            start_new_session=True,  # Ctrl-C reaches this process alone, which stops its trials itself
            pass_fds=(claimed.lock.fileno(),) if os.name == "posix" else (),  # the claim lasts as long as the run
        )
        fault_point("tune.started")
        resumed = "--resume" in command
        reported = max(self.sweep.trials()[claimed.number - 1].intermediate_values, default=0)
        self.active[claimed.number] = Active(claimed, process, slot, log, reported=reported)
        values = "  ".join(f"{key}={shown(value)}" for key, value in claimed.values.items())
        self.on_change(f"trial {claimed.number} {'resumes' if resumed else 'begins'}: {values}")

    def _environment(self, slot: int) -> dict[str, str]:
        """This process's environment, with an equal part of the cores or a GPU for the slot; logs have no colours."""
        changes = {"NO_COLOR": "1"}
        if "OMP_NUM_THREADS" not in os.environ and self.slots > 1:
            cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
            changes["OMP_NUM_THREADS"] = str(max(cores // self.slots, 1))
        if self.gpus:
            visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
            changes["CUDA_VISIBLE_DEVICES"] = visible[slot] if slot < len(visible) and visible[slot] else str(slot)
        return {**os.environ, **changes}

    def _look(self, active: Active) -> bool:
        """Read the new scores of a trial, prune it if they are bad, and record its end. Returns whether it ended."""
        code = active.process.poll()
        self._read_scores(active)
        if code is None:
            return False
        active.log.close()
        del self.active[active.claimed.number]
        claimed = active.claimed
        fault_point("tune.ended")
        if code != 0 and (who := holder(claimed.folder / "run.lock")) is not None:
            self.on_change(f"trial {claimed.number} is trained {who}")  # begun by a worker that was killed since
            claimed.release()
            return True
        log = history.read(RunFolder(claimed.folder), steps=False)
        killed = code < 0 or (log.state in ("killed", "interrupted") and code in (129, 130, 143))
        if killed and not active.pruned:
            kills = claimed.trial.user_attrs.get("kills", 0) + 1
            claimed.trial.set_user_attr("kills", kills)
            if kills < MOST_KILLS:
                self._start(claimed)
                return False
            self._record(claimed, log, False, f"was killed {kills} times, the last time by signal {abs(code) % 128}")
        else:
            reason = log.ended_by if log.state in ("failed", "non-finite") else self._last_line(claimed)
            self._record(claimed, log, active.pruned and code != 0, reason or f"exit code {code}")
        return True

    def _record(self, claimed: Claimed, log: History, pruned: bool, error: str) -> None:
        value = self._best(log)
        name = f"trial {claimed.number}"
        if pruned:
            replace_file(claimed.folder / PRUNED_FILE, b"")
            self.sweep.finish(claimed, "pruned")
            self.on_change(f"{name} pruned after {len(log.series.get(self.tag, ()))} validations")
        elif log.state == "done" and value is not None:
            self.sweep.finish(claimed, "complete", value)
            best = self.sweep.best()
            mark = "  best" if best is not None and best.number + 1 == claimed.number else ""
            self.on_change(f"{name} done: {self.sweep.settings.metric} {value:.6g}{mark}")
        else:
            reason = f"the run has no {self.sweep.settings.metric}" if log.state == "done" else error
            self.sweep.finish(claimed, "failed", error=reason)
            self.on_change(f"{name} failed: {reason}")

    def _read_scores(self, active: Active) -> None:
        """Report each new score to the pruner."""
        try:
            size = (active.claimed.folder / METRICS_FILE).stat().st_size
        except OSError:
            return
        if size == active.size:
            return
        active.size = size
        log = history.read(RunFolder(active.claimed.folder), steps=False)
        points, trial = log.series.get(self.tag, []), active.claimed.trial
        active.value = self._best(log)
        for number, (_, value) in enumerate(points[active.reported :], active.reported + 1):
            if not math.isnan(value):
                trial.report(value, number)
            active.reported = number
            if not active.pruned and not math.isnan(value) and trial.should_prune():
                active.pruned = True
                trial.set_user_attr("pruned", True)
                active.process.send_signal(signal.SIGTERM)

    def _best(self, log: History) -> float | None:
        values = [value for _, value in log.series.get(self.tag, ()) if not math.isnan(value)]
        return (min if self.sweep.minimize else max)(values) if values else None

    def _last_line(self, claimed: Claimed) -> str:
        """The last error that a trial printed, without the lines of the config below it, or else its last line."""
        path = Path(self.sweep.folder, "logs", f"{claimed.number}.txt")
        lines = [line.strip() for line in path.read_text(encoding="utf-8", errors="replace").split("\n")]
        errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
        return next(iter(reversed(errors or [line for line in lines if line])), "")

    def _stop_all(self) -> None:
        """Stop this process's trials, each with a checkpoint; they stay open for the next command."""
        for active in self.active.values():
            if active.process.poll() is None:
                active.process.send_signal(signal.SIGTERM)
        for active in self.active.values():
            active.process.wait()
            active.log.close()
            active.claimed.release()
        self.active.clear()
