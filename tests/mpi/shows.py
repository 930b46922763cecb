"""What runs on several ranks promise, shown one by one; the tests show the same with fewer steps. See scripts/ranks.

Each function raises AssertionError where a promise is broken, and returns what it has seen.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import signal
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from benchmarks._pairs import interval
from benchmarks.machines import Machines, missing
from tdt.train.runs import checkpoint
from tests.mpi.job import Job
from tests.mpi.launching import IS_OPEN_MPI

DIGITS = ["data.train=Digits(split=train)", "data.valid=Digits(split=valid)", "data.test=Digits(split=test)"]
TEXT = Path(__file__).parents[2] / "docs" / "architecture.md"
# Bundled configs on data that need no download, with what each needs for it.
NETWORKS: dict[str, list[str]] = {
    "digits-cnn": ["data.loader.batch_size=64", "data.augment=['RandomCrop(8, padding=1)']"],
    "resnet20": [
        *DIGITS, "data.transform=[ToTensor]", "data.augment=['RandomCrop(8, padding=1)', RandomHorizontalFlip]",
        "model.stem=['conv(1, 16)', ReLU]", "data.loader.batch_size=64", "scheduler=null",
    ],
    "resnet20 of 32x32": [
        *DIGITS, "data.transform=[ToTensor, Pad(12)]", "data.augment=[RandomHorizontalFlip]",
        "model.stem=['conv(1, 16)', ReLU]", "scheduler=null",
    ],
    "char-gpt": [
        f"data.train=Text(path='{TEXT}', length=128, tokens=bytes, split=train)", "data.loader.batch_size=16",
        f"data.valid=Text(path='{TEXT}', length=128, tokens=bytes, split=valid)",
        "model.blocks=Repeat(1, transformer(128, 4, 512))",
    ],
}  # fmt: skip
SECONDS = 5.0  # within which a job is over after one of its ranks has failed


def arguments(network: str, steps: int, shards: int, workers: int = 0) -> list[str]:
    """Of `tdt train`, for a bundled config."""
    train = [f"train.steps={steps}", "train.epochs=null", f"train.shards={shards}"]
    return [network.partition(" ")[0], *NETWORKS[network], *train, f"data.loader.num_workers={workers}", "log.every=5 steps",
            "checkpoint.every=3 steps"]  # fmt: skip


def digest(folder: Path) -> str:
    """SHA-256 of the weights, the optimizer's state, the step and the metrics of a run that has ended."""
    tensors, meta = checkpoint.load(folder / "checkpoints" / "last.safetensors")
    found = hashlib.sha256(str(meta["step"]).encode())
    for key, array in sorted(tensors.items()):
        if key.startswith(("model/", "optimizer/", "ema/")):
            found.update(f"{key} {array.dtype} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    for line in (folder / "metrics.jsonl").read_text().splitlines():
        values = json.loads(line)
        found.update(json.dumps({key: value for key, value in values.items() if not key.startswith("time/")}).encode())
    return found.hexdigest()


def train(place: Path, ranks: int, run: str, *more: object) -> str:
    """Train a run to its end in the folder `run`. Returns its digest."""
    with Job(ranks, "train", *more, "--run-dir", run, cwd=place) as job:
        assert job.end() == 0, job.text
    check_files(place / run)
    return digest(place / run)


def check_files(run: Path) -> None:
    """One event file, and none that is left of another rank or of an unfinished write."""
    assert len(list(run.glob("events.out.*"))) == 1, sorted(run.iterdir())
    names = {file.name for file in run.iterdir() if not file.name.startswith("events.out.")}
    assert names <= {"checkpoints", "config.yaml", "env.json", "metrics.jsonl", "run.lock", "plugins"}, names
    assert not list(run.rglob(".*")), list(run.rglob(".*"))


EVERY = tuple((ranks, workers) for ranks in (1, 2, 4) for workers in (0, 2))


def same_bits(
    place: Path, network: str, steps: int = 50, cases: Sequence[tuple[int, int]] = EVERY, shards: int = 8
) -> str:
    """Runs on other numbers of ranks and loader workers have one digest; it is returned. cases: of ranks and workers."""
    found = {
        (ranks, workers): train(
            place, ranks, f"{network}-{ranks}-{workers}", *arguments(network, steps, shards, workers)
        )
        for ranks, workers in cases
    }
    assert len(set(found.values())) == 1, found
    return next(iter(found.values()))


def killed(place: Path, kills: int, seed: int, ranks: Sequence[int] = (4, 2, 1), steps: int = 50) -> dict[str, int]:
    """A rank is killed at a random instant, and the run resumed on the next number of ranks, until it ends on the last.

    The optimizer's state is sharded every other time, and not in the uninterrupted run.
    """
    rng = random.Random(seed)
    settings = arguments("digits-cnn", steps, shards=8)
    begin = time.monotonic()
    expected = train(place, ranks[0], "whole", *settings)
    seconds = time.monotonic() - begin
    counts = {"kills": 0, "resumed": 0}
    number = 0
    while counts["kills"] < kills:
        number += 1
        command = ["train", *settings, "--run-dir", f"killed-{number}", "--resume-or-start"]
        for turn, count in enumerate(ranks[:-1]):
            sharded = ["train.shard_optimizer=true"] if (number + turn) % 2 else []
            with Job(count, *command, *sharded, cwd=place) as job:
                time.sleep(rng.uniform(0.2, 1.0) * seconds)
                if not job.kill(rng.randrange(count)):
                    break  # it has ended
                assert job.end(SECONDS) != 0, job.text
            counts["kills"] += 1
        with Job(ranks[-1], *command, cwd=place) as job:
            assert job.end() == 0, job.text
        counts["resumed"] += 1
        assert digest(place / f"killed-{number}") == expected, f"run killed-{number} differs (seed {seed})"
    return counts


BREAK = '''\
"""A layer that fails on one rank."""

import os
import time
from pathlib import Path

import tdt


class Break(tdt.nn.Module):
    def __init__(self, how: str, rank: int, call: int):
        super().__init__()
        self.how, self.rank, self.left = how, rank, call

    def forward(self, input):
        if self.training:
            self.left -= 1
        own = next(int(os.environ[name]) for name in ("OMPI_COMM_WORLD_RANK", "PMI_RANK") if name in os.environ)
        if self.left == 0 and own == self.rank:
            Path("failed").write_text(str(time.time()))
            if self.how == "exception":
                raise RuntimeError("the layer is broken")
            if self.how == "sys.exit":
                sys.exit(7)
            tdt.empty(1 << 48)
        return input
'''
FAILURES = {"exception": "the layer is broken", "sys.exit": "sys.exit(7)", "memory": "emory"}


def fails(place: Path, how: str, rank: int, ranks: int = 4) -> float:
    """A rank fails in a step: the job ends soon, with a message that names it. Returns the seconds from its failure."""
    (place / "broken.py").write_text(BREAK)
    (place / "failed").unlink(missing_ok=True)
    settings = arguments("digits-cnn", 50, shards=ranks)
    model = f"model.flatten=[Flatten, {{type: Break, how: {how}, rank: {rank}, call: 5}}]"
    with Job(
        ranks, "train", *settings, "imports=[./broken.py]", "--trust", model, "--run-dir", f"{how}-{rank}", cwd=place
    ) as job:
        code = job.end()
        seconds = time.time() - float((place / "failed").read_text())
        text = job.text
    assert code != 0, text
    assert f"rank {rank}" in text, text
    assert FAILURES[how] in text, text
    assert seconds <= SECONDS, f"{seconds:.1f} s\n{text}"
    return seconds


def cut_link(place: Path, stall: int = 10) -> float:
    """The link of a machine is cut while two train: the job ends, and names rank, machine and collective. Returns the seconds."""
    settings = [*arguments("digits-cnn", 1_000_000, shards=2), f"train.stall_timeout={stall} seconds"]
    with Machines(2) as machines:
        with Job.on(machines, 1, "train", *settings, "--run-dir", "cut", cwd=place) as job:
            job.wait_for(place / "cut" / "metrics.jsonl")
            machines.cut(2)
            begin = time.monotonic()
            job.end_of_ranks(stall + 30)
            seconds = time.monotonic() - begin
            if not IS_OPEN_MPI:  # whose mpirun waits for the machine that it cannot reach
                assert job.end() != 0, job.text
            text = job.text
    assert re.search(r"rank [01] on machine-[12]", text), text
    assert re.search(r"(waiting in|last collective:) \w", text), text
    assert seconds <= stall + 5, f"{seconds:.1f} s\n{text}"
    return seconds


def terminated(place: Path, seed: int, ranks: int = 4) -> int:
    """SIGTERM at other times on each rank, and on mpirun: all save one checkpoint of one step. Returns the step.

    Open MPI's mpirun gets none: it kills the ranks soon after.
    """
    rng = random.Random(seed)
    settings = [*arguments("digits-cnn", 100_000, shards=ranks), "checkpoint.every=1 epoch", "log.every=1 step"]
    run = place / f"terminated-{seed}"
    with Job(ranks, "train", *settings, "--run-dir", run.name, cwd=place) as job:
        job.wait_for(run / "metrics.jsonl")
        processes = [job.pid(rank) for rank in range(ranks)] + [job.process.pid] * (not IS_OPEN_MPI)
        for pid in rng.sample(processes, len(processes)):
            os.kill(pid, signal.SIGTERM)
            time.sleep(rng.uniform(0, 0.02))
        code, text = job.end(30), job.text
    assert code == 143, f"exit code {code}\n{text}"
    _, meta = checkpoint.load(run / "checkpoints" / "last.safetensors")
    steps = {int(file.stem.partition("-")[2]) for file in (run / "checkpoints").glob("step-*")}
    assert max(steps) == meta["step"], (steps, meta["step"])
    return int(meta["step"])


def scored(place: Path, ranks: Sequence[int] = (1, 4), rows: int = 1001) -> dict[str, float]:
    """`tdt eval` of a number of rows that no number of ranks divides prints the same on each number; it is returned."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows + 200, 4))
    label = (x @ [1, -2, 0.5, 0] + 0.3 * rng.normal(size=len(x)) > 0).astype(int)
    lines = [",".join([*map(repr, row.tolist()), "ab"[y]]) for row, y in zip(x, label, strict=True)]
    (place / "train.csv").write_text("\n".join(["p,q,r,s,kind", *lines[rows:]]))
    (place / "rows.csv").write_text("\n".join(["p,q,r,s,kind", *lines[:rows]]))
    (place / "rows.yaml").write_text(
        "data: {train: {type: Table, path: train.csv, target: kind}, loader: {batch_size: 64}}\n"
        'model: [LazyLinear(8), ReLU, "Linear(8, 2)"]\nloss: CrossEntropyLoss\nmetrics: [accuracy, auroc, f1]\n'
        "optimizer: Adam(lr=0.01)\ntrain: {epochs: 2}\n"
    )
    with Job(1, "train", "rows.yaml", "--run-dir", "scored", cwd=place) as job:
        assert job.end() == 0, job.text
    found = []
    for count in ranks:
        with Job(count, "eval", "scored", "--data", "rows.csv", "--batch-size", 100, "--json", cwd=place) as job:
            assert job.end() == 0, job.text
            found.append(json.loads(job.text[job.text.index("{") : job.text.rindex("}") + 1]))
    assert all(one == found[0] for one in found[1:]), found
    assert found[0]["samples"] == rows, found[0]
    return found[0]


MEET = '''\
"""A callback that waits after each step for that of another run: a barrier without MPI."""

import os

from tdt.train import Callback


class Meet(Callback):
    def __init__(self, own: str, other: str):
        self.own, self.other = (os.open(path, os.O_RDWR) for path in (own, other))

    def on_step(self, event, parts):
        os.write(self.other, b".")
        os.read(self.own, 1)
'''


class Side:
    """Runs of ResNet-20 on images of 32x32, 32 for each rank, which step only within `seconds`.

    jobs: of each the number of ranks, whether mpirun starts it, and arguments.
    """

    def __init__(self, place: Path, stack: ExitStack, jobs: Sequence[tuple[int, bool, Sequence[str]]]) -> None:
        self.jobs, self.logs = [], []
        for ranks, by_mpirun, more in jobs:
            run = Path(tempfile.mkdtemp(dir=place), "run")
            settings = [*arguments("resnet20 of 32x32", 1_000_000, ranks), f"data.loader.batch_size={32 * ranks}",
                        "checkpoint.every=1000 epochs", "train.validate=1000 epochs", "log.every=1 step"]  # fmt: skip
            command = "train", *settings, *more, "--run-dir", run
            job = Job(ranks, *command, cwd=place, by_mpirun=by_mpirun, OMP_NUM_THREADS="1")
            self.jobs.append(stack.enter_context(job))
            self.logs.append(run / "metrics.jsonl")
        for job, log in zip(self.jobs, self.logs, strict=True):
            job.wait_for(log)
        self._send(signal.SIGSTOP)

    def seconds(self, steps: int) -> float:
        """Seconds of a step: the median over this number of steps, of the slowest job."""
        before = [len(self._times(log)) for log in self.logs]
        self._send(signal.SIGCONT)
        while any(len(self._times(log)) < count + steps + 2 for log, count in zip(self.logs, before, strict=True)):
            assert all(job.process.poll() is None for job in self.jobs), "".join(job.text for job in self.jobs)
            time.sleep(0.1)
        self._send(signal.SIGSTOP)
        return max(
            float(np.median(np.diff(self._times(log)[count + 1 :])))  # without the step in which it stood still
            for log, count in zip(self.logs, before, strict=True)
        )

    def _send(self, number: signal.Signals) -> None:
        for job in self.jobs:
            for pid, rank in job.processes():
                if rank is not None:
                    os.kill(pid, number)

    @staticmethod
    def _times(log: Path) -> list[float]:
        events = [json.loads(line) for line in log.read_text().splitlines(keepends=True) if line.endswith("\n")]
        return [event["time/now"] for event in events if event["event"] == "StepDone"]


RATIOS = {  # what is compared, of `cost`
    "two ranks / two uncoupled processes": ("ranks", "uncoupled"),
    "of it, waiting for the slower one: a bare barrier / uncoupled": ("barrier", "uncoupled"),
    "two ranks / two processes with a bare barrier": ("ranks", "barrier"),
    "one rank under mpirun / without": ("mpirun", "alone"),
}


def cost(place: Path, pairs: int, steps: int = 10) -> dict[str, tuple[float, float, float]]:
    """Ratios of the time of a step, of runs that alternate: the median and its 95 % interval."""
    (place / "meet.py").write_text(MEET)
    ends = [str(place / name) for name in ("left", "right")]
    for end in ends:
        os.mkfifo(end)
    meeting = [
        ["imports=[./meet.py]", "--trust", f"callbacks=[{{type: Meet, own: {own}, other: {other}}}]"]
        for own, other in (ends, ends[::-1])
    ]
    jobs: dict[str, list[tuple[int, bool, Sequence[str]]]] = {
        "ranks": [(2, True, [])],
        "uncoupled": [(1, False, [])] * 2,
        "barrier": [(1, False, more) for more in meeting],
        "mpirun": [(1, True, [])],
        "alone": [(1, False, [])],
    }
    with ExitStack() as stack:
        sides = {name: Side(place, stack, each) for name, each in jobs.items()}
        rounds = []
        for number in range(pairs):
            order = list(sides) if number % 2 else list(sides)[::-1]
            rounds.append({name: sides[name].seconds(steps) for name in order})
    for name in sides:
        print(f"{name}: {1e3 * np.median([found[name] for found in rounds]):.1f} ms a step", flush=True)
    return {name: interval([found[a] / found[b] for found in rounds]) for name, (a, b) in RATIOS.items()}


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/ranks", description=__doc__)
    parser.add_argument("show", choices=("bits", "killed", "failures", "signals", "scores", "cost"))
    parser.add_argument("--steps", type=int, default=50, help="of each run (%(default)s)")
    parser.add_argument("--kills", type=int, default=20, help="(%(default)s)")
    parser.add_argument(
        "--pairs", type=int, default=15, help="alternating measurements, of 10 steps each (%(default)s)"
    )
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="default: a random one, printed")
    args = parser.parse_args()
    print(f"seed {args.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        if args.show == "bits":
            for network in ("digits-cnn", "resnet20", "char-gpt"):
                print(network, same_bits(place, network, args.steps), flush=True)
        elif args.show == "killed":
            print(json.dumps(killed(place, args.kills, args.seed, steps=args.steps)))
        elif args.show == "failures":
            for how in FAILURES:
                for rank in range(4):
                    print(f"{how} on rank {rank}: over after {fails(place, how, rank):.1f} s", flush=True)
            why = missing()
            print(f"cut link: not run: {why}" if why else f"cut link: over after {cut_link(place):.1f} s", flush=True)
        elif args.show == "signals":
            for number in range(5):
                print(f"SIGTERM: one checkpoint, of step {terminated(place, args.seed + number)}", flush=True)
        elif args.show == "scores":
            print(json.dumps(scored(place)))
        else:
            for name, (median, low, high) in cost(place, args.pairs).items():
                print(f"{name}: {median:.3f} [{low:.3f}, {high:.3f}]", flush=True)
