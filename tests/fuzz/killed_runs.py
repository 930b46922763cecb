"""Runs of random configs, killed at random times and within random calls of the system, or given errors by it, then resumed:
each must end as the run that nobody disturbed.

Every run is a forked child of one process, in which everything is loaded already. `faults.c`, compiled and loaded before
libc, does what a disk or an administrator does: see `campaign`.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tdt.train.runs.checkpoint import CheckpointError

ROOT = Path(__file__).parents[2]
SOURCE = Path(__file__).with_name("faults.c")
KINDS = OPEN, WRITE, FSYNC, RENAME, LINK, UNLINK, TRUNCATE, MKDIR, LOCK = tuple(1 << bit for bit in range(9))
EVERYTHING = sum(KINDS)
# errno → the kinds of calls that answer with it, and whether all later ones do too
ERRORS = {
    errno.ENOSPC: (OPEN | WRITE | FSYNC | MKDIR | LINK | RENAME, True),
    errno.EDQUOT: (OPEN | WRITE | MKDIR, True),
    errno.EIO: (WRITE | FSYNC | RENAME | TRUNCATE | OPEN, False),
    errno.EROFS: (OPEN | WRITE | RENAME | LINK | UNLINK | MKDIR | TRUNCATE, True),
    errno.ENOLCK: (LOCK, True),
    errno.EINVAL: (FSYNC, True),
    errno.EPERM: (LINK, True),
}
SECONDS = 120.0  # after which a child counts as hanging

CONFIG = """\
name: net
seed: {seed}
device: cpu
data:
  train: Digits(split=valid)
  valid: Digits(split=valid)
{test}  transform: [ToTensor]
  augment: ["RandomCrop(8, padding=1)"]
  loader: {{batch_size: {batch}, num_workers: {workers}}}
  eval_loader: {{batch_size: 128, num_workers: 0}}
model: [Flatten, "Linear(64, 12)", {norm}ReLU, "Dropout(0.3)", "Linear(12, 10)"]
loss: CrossEntropyLoss
metrics: [{metrics}]
optimizer: {optimizer}
{scheduler}train: {{{train}}}
checkpoint: {{every: {every}, keep: {keep}}}
log: {{every: {log} step{shown}}}
"""
OPTIMIZERS = ("SGD(lr=0.1, momentum=0.9)", "Adam(lr=1e-2)", "AdamW(lr=1e-2)", "RMSprop(lr=1e-3)", "Adagrad(lr=1e-2)",
              "NAdam(lr=1e-2)", "{type: Adam, lr: 1e-2, param_groups: [{params: '*.bias', lr: 2e-2}]}")  # fmt: skip
SCHEDULERS = ("", "scheduler: {type: ExponentialLR, gamma: 0.9, interval: step}\n", "scheduler: StepLR(step_size=1, gamma=0.5)\n",
              "scheduler: ReduceLROnPlateau(patience=0, threshold=0.5, factor=0.5)\n",
              "scheduler: SequentialLR([LinearLR(total_iters=2), CosineAnnealingLR(5)], milestones=[1])\n")  # fmt: skip
TRAINING = ("accumulate: 2", "clip_grad_norm: 1.0", "warmup: 2 steps", "ema: 0.8", "mixup: 0.4", "validate: 2 steps",
            "early_stopping: {patience: 1, min_delta: 0.05}", "freeze: ['1.*']", "class_weights: balanced",
            "amp: float16", "amp: bfloat16")  # fmt: skip
SHOWN = ("histograms: 1 epoch", "embedding: '1'", "images: 2", "confusion: true", "pr_curves: true", "graph: true")


def _some(rng: random.Random, settings: tuple[str, ...]) -> list[str]:
    """Up to three of the settings, each key once."""
    return list({setting.partition(":")[0]: setting for setting in rng.sample(settings, rng.randint(0, 3))}.values())


def random_config(rng: random.Random, workers: bool = True) -> str:
    """A config of a run of a second or less, in which every generator matters."""
    return CONFIG.format(
        seed=rng.randrange(1000),
        test="  test: Digits(split=test)\n" * rng.randrange(2),
        batch=rng.choice((64, 96, 128)),
        workers=2 * (workers and rng.random() < 0.1),
        norm="BatchNorm1d(12), " * rng.randrange(2),
        metrics=", ".join(rng.sample(("accuracy", "f1", "auroc"), rng.randint(1, 3))),
        optimizer=rng.choice(OPTIMIZERS),
        scheduler=rng.choice(SCHEDULERS),
        train=", ".join([f"epochs: {rng.randint(1, 3)}", *_some(rng, TRAINING)]),
        every=rng.choice(("1 step", "2 steps", "3 steps", "1 epoch")),
        keep=rng.randint(1, 3),
        log=rng.randint(1, 3),
        shown="".join(f", {one}" for one in rng.sample(SHOWN, rng.randint(0, 2))),
    )


@dataclass
class Ended:
    """A child: its exit code, below zero for a signal, what it wrote, its seconds, and how many calls of each kind it made."""

    code: int
    text: str
    seconds: float
    calls: dict[int, int]


class Trial:
    """One config in a folder of its own, and the result of an undisturbed run of it."""

    def __init__(self, place: Path, config: str, shim: ctypes.CDLL):
        self.place, self.shim = place, shim
        self.config = place / "net.yaml"
        self.config.write_text(config)
        self.count = 0
        whole = self.child(place / "whole", self.start(place / "whole"))
        self.refusal = f"{config}\n{whole.text}" if whole.code else None
        if self.refusal:
            return
        self.calls, self.seconds, self.expected = whole.calls, whole.seconds, result(place / "whole" / "net" / "1")

    def new_root(self) -> Path:
        """A folder for runs that is not there yet."""
        self.count += 1
        return self.place / str(self.count)

    def start(self, root: Path) -> list[str]:
        return ["train", str(self.config), "--runs-root", str(root)]

    def resume(self, root: Path) -> list[str]:
        return ["train", "--resume", "net/1", "--runs-root", str(root)]

    def child(
        self, root: Path, arguments: list[str], *, nth: int = 0, error: int = 0, after: float | None = None
    ) -> Ended:
        """Run the command line in a child, which is killed in the n-th call or gets an error from it, or is killed later."""
        kinds, stays = ERRORS[error] if error else (EVERYTHING, False)
        began, log = time.perf_counter(), self.place / "log"
        log.unlink(missing_ok=True)
        process = os.fork()
        if process == 0:
            _be_child(self.shim, log, (str(root).encode(), nth, error, int(stays), kinds), arguments)
        if after is not None:
            time.sleep(after)
            os.kill(process, signal.SIGKILL)
        while not (ended := os.waitpid(process, os.WNOHANG))[0]:
            if time.perf_counter() - began > SECONDS:
                os.kill(process, signal.SIGKILL)
                raise RuntimeError(f"hangs: {arguments}")
            time.sleep(0.005)
        text, found, calls = (log.read_text(errors="replace") if log.exists() else "").partition("\ncalls:")
        counts = dict(zip(KINDS, json.loads(calls), strict=True)) if found else {}
        return Ended(os.waitstatus_to_exitcode(ended[1]), text, time.perf_counter() - began, counts)

    def finish(self, root: Path) -> str | None:
        """Let the run come to its end; what is wrong with it then."""
        if not (root / "net" / "1" / "config.yaml").exists():
            return self._finish_none(root)
        done = self.child(root, self.resume(root))
        if done.code:
            return f"resume ended with {done.code}: {done.text}"
        folder = root / "net" / "1"
        try:
            assert_equal(result(folder), self.expected)
        except (AssertionError, CheckpointError, OSError) as error:
            return f"another result: {str(error)[:2000]}"
        left = list(folder.rglob(".*"))
        return f"left behind: {left}" if left else None

    def _finish_none(self, root: Path) -> str | None:
        """What was ended before there was a run is no run, can be deleted, and does not keep another from starting."""
        if (root / "net" / "1" / "run.lock").exists():
            gone = self.child(root, ["runs", "delete", "net/1", "--yes", "--runs-root", str(root)])
            if gone.code or (root / "net" / "1").exists():
                return f"what is left of no run could not be deleted: {gone.code} {gone.text}"
        began = self.child(root, self.start(root))
        return f"no run could be started: {began.code} {began.text}" if began.code else None


def _be_child(shim: ctypes.CDLL, log: Path, fault: tuple[Any, ...], arguments: list[str]) -> None:
    """Never returns."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for number in (1, 2):
        os.dup2(file, number)
    code = 99
    try:
        from tdt import cli

        shim.tdt_fault_arm(*fault)
        code = cli.run(arguments)
    except BaseException:  # noqa: BLE001 - what would be a traceback is one in the log
        traceback.print_exc()
    finally:
        calls = [shim.tdt_fault_counted(kind) for kind in KINDS]
        sys.stdout.flush()
        sys.stderr.flush()
        os.write(file, f"\ncalls:{json.dumps(calls)}".encode())
        os._exit(code)


def result(folder: Path) -> dict[str, Any]:
    """All in which two equal runs are equal."""
    from tests.train.loop.test_resume import result as compared

    return compared(folder)


def assert_equal(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Equal, or the first difference by name."""
    from tests.train.loop.test_resume import assert_equal as compare

    compare(found, expected)


@dataclass
class Report:
    """What a campaign has done and found."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def found(self, what: str | None, about: str) -> None:
        if what is not None:
            self.wrong.append(f"{about}: {what}")


def kill_and_resume(trial: Trial, rng: random.Random, report: Report) -> None:
    """A run that is killed once or several times, at a random time or in a random call, then is resumed to its end."""
    root, story = trial.new_root(), []
    calls = sum(trial.calls.values())
    for number in range(rng.choice((1, 1, 2, 3, 5, 8))):
        begun = (root / "net" / "1" / "config.yaml").exists()
        arguments = trial.resume(root) if begun else trial.start(root)
        if number and not begun:
            break  # it is none yet: `finish` looks at what is left
        how: dict[str, Any] = (
            {"nth": rng.randint(1, max(1, calls >> rng.randrange(4)))}
            if rng.random() < 0.7
            else {"after": rng.uniform(0, trial.seconds)}
        )
        ended = trial.child(root, arguments, **how)
        story.append(f"{how} → {ended.code}")
        if ended.code == -signal.SIGKILL:
            report.counts["kills in a call" if "nth" in how else "kills at a time"] += 1
        elif ended.code:
            report.found(f"ended with {ended.code}: {ended.text}", f"{story}")
    report.counts["killed runs resumed"] += 1
    report.found(trial.finish(root), f"{story}")
    shutil.rmtree(root, ignore_errors=True)


def fail_and_resume(trial: Trial, rng: random.Random, report: Report) -> None:
    """A run whose n-th call fails, then is resumed to its end on a disk that works."""
    root, error = trial.new_root(), rng.choice(list(ERRORS))
    few = error in (errno.ENOLCK, errno.EPERM, errno.EINVAL)  # what a run can do without
    most = sum(count for kind, count in trial.calls.items() if kind & ERRORS[error][0])
    ended = trial.child(root, trial.start(root), nth=1 if few else rng.randint(1, most), error=error)
    about = f"{errno.errorcode[error]} → {ended.code}"
    report.counts[f"{errno.errorcode[error]}, exit code {ended.code}"] += 1
    if ended.code not in (0, 1) or "Traceback" in ended.text or (few and ended.code):
        report.found(ended.text, about)
    elif ended.code and os.strerror(error) not in ended.text:
        report.found(f"the message does not say why: {ended.text}", about)
    report.found(trial.finish(root), about)
    shutil.rmtree(root, ignore_errors=True)


def campaign(seed: int, kills: int, errors: int, seconds: float, workers: bool = True) -> Iterator[Report]:
    """Trials until so many kills and errors, or seconds, are reached; the report as it grows. Only below the shim."""
    from tdt import set_num_threads

    set_num_threads(1)
    shim = ctypes.CDLL(os.environ["LD_PRELOAD"])
    shim.tdt_fault_arm.argtypes = [ctypes.c_char_p, ctypes.c_long, ctypes.c_int, ctypes.c_int, ctypes.c_int]
    shim.tdt_fault_counted.restype = ctypes.c_long
    rng, report, until = random.Random(seed), Report(), time.monotonic() + seconds
    done = 0

    def is_over() -> bool:
        killed = report.counts["kills in a call"] + report.counts["kills at a time"]
        return time.monotonic() > until or (killed >= kills and done >= errors)

    with tempfile.TemporaryDirectory() as place:
        _load_everything(Path(place))
        while not is_over():
            folder = Path(tempfile.mkdtemp(dir=place))
            trial = Trial(folder, random_config(rng, workers), shim)
            if trial.refusal:  # settings that have no effect together are refused
                assert "Traceback" not in trial.refusal, trial.refusal
                continue
            report.counts["configs"] += 1
            for _ in range(30):
                if is_over():
                    break
                if done * max(kills, 1) < errors * sum(
                    report.counts[f"kills {how}"] for how in ("in a call", "at a time")
                ):
                    fail_and_resume(trial, rng, report)
                    done += 1
                else:
                    kill_and_resume(trial, rng, report)
            if report.wrong:
                report.wrong[-1] += f"\n{trial.config.read_text()}"
            shutil.rmtree(folder)
            yield report


def _load_everything(place: Path) -> None:
    """Run once in this process, so that the children need not load what is needed."""
    from tdt import cli

    (place / "net.yaml").write_text(random_config(random.Random(0), workers=False))
    with open(os.devnull, "w") as quiet:
        out, sys.stdout = sys.stdout, quiet
        code = cli.run(["train", str(place / "net.yaml"), "--runs-root", str(place / "runs")])
        sys.stdout = out
    assert code == 0
    result(place / "runs" / "net" / "1")


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    """This file's program in a process of its own, below the shim; see `--help`."""
    with tempfile.TemporaryDirectory() as place:
        shim = Path(place, "faults.so")
        subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", shim, SOURCE, "-ldl"], check=True)
        environment = os.environ | {"LD_PRELOAD": str(shim), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "tests.fuzz.killed_runs", *map(str, arguments)]
        return subprocess.run(command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE)


def main() -> None:
    """Print what was done as JSON, then what was wrong; exit 1 for anything."""
    parser = argparse.ArgumentParser(prog="killed_runs", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32), help="default: a random one, printed")
    parser.add_argument("--kills", type=int, default=1000, help="how many (default: %(default)s)")
    parser.add_argument("--errors", type=int, default=300, help="how many runs with errors (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=600, help="at most (default: %(default)s)")
    parser.add_argument("--no-workers", action="store_true", help="only runs that load their data themselves")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    report = Report()
    for report in campaign(options.seed, options.kills, options.errors, options.seconds, not options.no_workers):
        print(f"\r{report.counts.total()} …", end="", file=sys.stderr, flush=True)
    print(json.dumps(dict(sorted(report.counts.items())), indent=1), *report.wrong, sep="\n")
    sys.exit(bool(report.wrong))


if __name__ == "__main__":
    main()
