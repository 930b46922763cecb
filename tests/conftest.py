"""Fixtures for every test, and the suite's time budget.

A group's time is the wall time of its tests' set-up, call and tear-down, on 2 cores; where several processes share the
tests (`pytest -n 2`), that time divided by their number. A group over its budget, or a whole run over TOTAL, fails: a
suite that takes longer than a coffee is not run. `pytest --no-budget` only prints.
"""

from __future__ import annotations

import gc
import re
import sys
import time
from collections import defaultdict
from collections.abc import Generator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

# Group → (seconds, folders under tests/). A file takes the longest folder that fits; `@pytest.mark.budget` overrides.
BUDGETS: dict[str, tuple[float, tuple[str, ...]]] = {
    "op table": (
        105,
        ("_ops", "_backend", "autograd", "parity", "samples", "ops", "fft", "signal", "sparse", "testing"),
    ),
    "nn": (110, ("nn", "optim", "utils/data")),
    "kernels": (145, ("_kernels",)),
    "toolkit": (215, ("train", "commands", "vision", "configs")),
    "resume": (75, ("resume", "train/resume")),
    "TensorBoard": (60, ("utils/tensorboard",)),
    "scripts": (
        60,
        (
            "distributions",
            "examples",
            "compat/test_absent.py",
            "test_amp.py",
            "test_as_torch.py",
            "test_cuda.py",
            "test_distributed.py",
            "test_gpu_check.py",
            "test_multiprocessing.py",
            "test_profiler.py",
        ),
    ),
    "export": (35, ("onnx", "commands/test_export.py")),
    "compile": (105, ("_compiled",)),  # which come first, and compile most kernels
    "documents": (60, ("test_docs.py", "test_release.py", "test_site.py")),
    "rest": (85, ("",)),
}
# Tests of what surrounds the computation: what is read, printed, written, drawn or refused, when a run is killed, how the source
# is laid out. Some train a small network on the way, but no claim of theirs is about its numbers; those are asked of ops, layers,
# optimizers and training loops. They pass on portable code too; .ci/run does not repeat them on it (`pytest --numbers`).
SURROUNDINGS = (
    "commands",
    "serialization",
    "train/checks",
    "train/config",
    "train/logging",
    "train/runs",
    "train/tune",
    "utils/data/test_resume.py",
    "utils/data/test_workers.py",
    "utils/tensorboard",
    "test_architecture.py",
    "test_cli.py",
    "test_docs.py",
    "test_docstrings.py",
    "test_gpu_check.py",
    "test_package.py",
    "test_public_annotations.py",
    "test_release.py",
    "test_run_libraries.py",
    "test_site.py",
    "test_startup.py",
    "test_words.py",
)
# Tests that call kernels themselves, or ask how these are compiled, loaded and kept: TDT_KERNELS=reference changes nothing of
# what they run.
KERNELS = tuple(
    f"_kernels/test_{name}.py"
    for name in (
        "column_softmax_cpu", "copies", "fused_fold", "jit", "loader", "native", "pack", "pixels", "private",
        "references", "row_dots", "stated", "stream", "tile", "views",
    )
)  # fmt: skip
COMPUTING = tuple(  # the commands among them whose tests ask for numbers, or for the kernels
    f"commands/test_{name}.py"
    for name in ("doctor", "eval", "export", "find_lr", "generate", "predict", "predict_tasks", "train")
)
TOTAL = 720.0
LONG = 480.0  # of the tests marked `long`, which have no group
PROGRAMS = re.compile(r"\b(import|from) torch|as_torch|torch_scripts|gpu_check")


def is_below(path: Path, folder: str) -> bool:
    """Whether a test file, named from tests/, is `folder` or lies in it; "" is tests/."""
    return not folder or path.is_relative_to(folder)


@cache
def group_of(path: Path) -> str:
    """The budget group of a test file."""
    path = path.relative_to(Path(__file__).parent)
    fits = {folder: group for group, (_, folders) in BUDGETS.items() for folder in folders if is_below(path, folder)}
    return fits[max(fits, key=len)]


def surrounds(path: Path) -> bool:
    """Whether a test file, named from tests/, is one of SURROUNDINGS or KERNELS."""
    return any(is_below(path, folder) for folder in (*SURROUNDINGS, *KERNELS)) and path.as_posix() not in COMPUTING


@pytest.fixture(autouse=True, scope="session")
def short_ways_at_once() -> None:
    """A call that a test makes twice takes its short way, which users' programs prepare for the fourth."""
    from tdt.autograd import _call_counts

    _call_counts.TIMES = 1


class Passed:
    """Lists what passed, one a line: files of which every test did, and of other files the tests that did."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.passed: dict[str, dict[str, bool]] = defaultdict(dict)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        tests = self.passed[report.nodeid.partition("::")[0]]
        tests[report.nodeid] = tests.get(report.nodeid, True) and report.passed

    def pytest_sessionfinish(self) -> None:
        lines = []
        for path, tests in self.passed.items():
            lines += [path] if all(tests.values()) else [test for test, passed in tests.items() if passed]
        self.file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@cache
def passed_without_pytorch(file: Path) -> frozenset[str]:
    """What `Passed` has listed."""
    return frozenset(file.read_text(encoding="utf-8").splitlines())


def is_left_out(path: Path, name: str, config: pytest.Config) -> bool:
    """Whether `--without-passed` leaves out a test, or all of a file, as having passed."""
    file = config.getoption("--without-passed")
    return file is not None and name in passed_without_pytorch(file) and not runs_torch(path)


@cache
def runs_torch(path: Path) -> bool:
    """Whether a test file runs programs that import `torch`, which find PyTorch where it is installed."""
    return bool(PROGRAMS.search(path.read_text(encoding="utf-8")))


class TimeBudget:
    """Adds up each group's seconds, prints them against the budget, and fails a run that exceeds it."""

    def __init__(self, config: pytest.Config) -> None:
        self.enforce = not config.getoption("--no-budget")
        self.processes = config.getoption("numprocesses", None) or 1  # -n, of pytest-xdist
        self.long = config.getoption("--long")
        self.total = LONG if self.long == "only" else TOTAL
        self.start = time.perf_counter()
        self.seconds: dict[str, float] = defaultdict(float)
        self.group: dict[str, str] = {}

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        mark = item.get_closest_marker("budget")
        self.group[item.nodeid] = mark.args[0] if mark else group_of(item.path)
        item.user_properties.append(("budget group", self.group[item.nodeid]))  # for the process that collects nothing

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        group = config.getoption("--group")
        parts: dict[bool, list[pytest.Item]] = {True: [], False: []}
        for item in items:
            long = self.long in ("too", "only" if item.get_closest_marker("long") else "without")
            again = is_left_out(item.path, item.nodeid, config)
            parts[long and not again and group in (None, self.group[item.nodeid])].append(item)
        items[:] = parts[True]
        config.hook.pytest_deselected(items=parts[False])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        group = dict(report.user_properties).get("budget group")  # none where a process has crashed
        if group is not None:
            self.seconds[group] += report.duration / self.processes

    def over(self) -> list[str]:
        """The groups, and "all", that took longer than they may."""
        groups = [
            group for group, spent in self.seconds.items() if spent > BUDGETS[group][0] and self.long == "without"
        ]
        return groups + ["all"] * (time.perf_counter() - self.start > self.total)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.enforce and self.over() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("seconds per group / budget")
        over = self.over()
        rows = [(group, self.seconds[group], BUDGETS[group][0]) for group in BUDGETS if group in self.seconds]
        for group, spent, budget in [*rows, ("all", time.perf_counter() - self.start, self.total)]:
            note = "  OVER BUDGET" if group in over else ""
            terminalreporter.line(f"{group:<12}{spent:8.1f} /{budget:4.0f}{note}", red=bool(note))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-budget", action="store_true", help="print the time per group but do not fail over it")
    parser.addoption(
        "--long", choices=("without", "too", "only"), default="without",
        help="run the tests marked `long`: PyTorch's database of ops, long generators (default: without)",
    )  # fmt: skip
    parser.addoption("--numbers", action="store_true", help="leave out what is the same on portable code")
    parser.addoption("--group", choices=BUDGETS, help="run the tests of one group only")
    parser.addoption("--list-passed", metavar="FILE", type=Path, help="write the names of the tests that pass")
    parser.addoption(
        "--without-passed", metavar="FILE", type=Path,
        help="leave out what --list-passed listed where PyTorch was not installed, but for programs that import torch",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(TimeBudget(config), "tdt-time-budget")
    if (file := config.getoption("--list-passed")) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Passed(file), "tdt-passed")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no file of whose tests `--long`, `--numbers` or `--without-passed` leaves out all."""
    if collection_path.suffix != ".py":
        return None
    name, long = collection_path.relative_to(config.rootpath), config.getoption("--long")
    if config.getoption("--numbers") and surrounds(name.relative_to("tests")):
        return True
    if is_left_out(collection_path, name.as_posix(), config):
        return True
    if long == "too":
        return None
    source = collection_path.read_text()
    left_out = "pytest.mark.long" not in source if long == "only" else "\npytestmark = pytest.mark.long\n" in source
    return left_out or None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage while the tests are found, go through none of what they are made of later, and seldom collect.

    A full collection takes 70 ms here, and Python makes a tenth of the time of PyTorch's database of them.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(700, 10, 100)
        gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """`pytest -n 2`: each process runs neighbouring tests, which share fixtures, and takes over from another at its end."""
    if config.getoption("dist") != "load":
        return None
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)


def pytest_runtest_teardown() -> None:
    """End what a test may have begun for the rest of its process. A hook: fixtures would take seconds over all tests."""
    if (printing := sys.modules.get("tdt.train._printable")) is not None:
        printing._hidden.clear()  # values that were read from the environment; later tests print them
    if (overriding := sys.modules.get("tdt._core.torch_function")) is not None and overriding.ORIGINALS:
        overriding.end()  # functions look for `__torch_function__` from the first tensor of a subclass on


def devices() -> list[str]:
    """The devices that tests run on: "cpu", and "cuda" where CuPy finds a GPU."""
    from tdt._backend import cuda_device_count

    return ["cpu", "cuda"] if cuda_device_count() else ["cpu"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "device" in metafunc.fixturenames:
        metafunc.parametrize("device", devices())
