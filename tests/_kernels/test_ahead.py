"""The process that compiles ahead: what it makes is what a training run asks for, and a run does without it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tdt._kernels import _ahead, _cache

pytestmark = pytest.mark.skipif(os.environ.get("TDT_KERNELS") == "reference", reason="kernels are off")


def python(code: str, cache: Path, *arguments: str) -> subprocess.CompletedProcess:
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "OMP_NUM_THREADS": "2"}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


def kept(cache: Path) -> Counter:
    """How many files there are of each kernel: one for each combination of types."""
    return Counter(path.name.partition("-")[0] for path in cache.rglob("*.o"))


def test_a_first_training_run_asks_for_just_what_the_process_makes(tmp_path):
    assert python("from tdt._kernels._ahead import make; make()", tmp_path).returncode == 0
    assert kept(tmp_path) == dict.fromkeys(_ahead.MAKES, 1)
    code = "from tdt.cli import main; main()"
    made = python(code, tmp_path, "train", "digits-cnn", "train.epochs=1", "--run-dir", str(tmp_path / "run"))
    assert made.returncode == 0, made.stderr
    assert kept(tmp_path).keys() > set(_ahead.MAKES)
    assert set(kept(tmp_path).values()) == {1}  # of other types, the process would have made them in vain


BEGIN = """
import subprocess, time
from tdt._kernels import _ahead
{}
_ahead.begin()
print(_ahead._process is not None)
"""


def test_it_is_started_where_kernels_are_missing_and_there_is_a_core(tmp_path):
    one_core = "import os; os.sched_getaffinity = lambda pid: {0}; os.cpu_count = lambda: 1"
    assert python(BEGIN.format(one_core), tmp_path).stdout == "False\n"
    assert python(BEGIN.format("import tdt; tdt.backends.kernels(False)"), tmp_path).stdout == "False\n"
    ended_with_its_parent = python(BEGIN.format("") + "print(_ahead._process.pid)", tmp_path)
    answer, pid = ended_with_its_parent.stdout.split()
    assert answer == "True" and not Path("/proc", pid).exists()
    folder = next(tmp_path.rglob("kernels-*"))
    for name in _ahead.MAKES:
        (folder / f"{name}-x.o").touch()
    assert python(BEGIN.format(""), tmp_path).stdout == "False\n"


def test_a_kernel_is_waited_for_only_while_it_can_come(monkeypatch):
    found = iter([None, None, b"code"])
    monkeypatch.setattr(_cache, "load", lambda name: next(found))
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    monkeypatch.setattr(_ahead, "_process", sleeper)
    assert _ahead.made(_ahead.MAKES[0], "x") == b"code"
    monkeypatch.setattr(_cache, "load", lambda name: None)
    assert _ahead.made("another.kernel", "x") is None
    sleeper.kill()
    sleeper.wait()
    assert _ahead.made(_ahead.MAKES[0], "x") is None
