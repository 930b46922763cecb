"""The process that compiles ahead: it compiles the kernels that a training run loads, and a run works without it."""

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


def saved_kernels(cache: Path) -> Counter:
    """How many files there are of each kernel, "module.name": one for each combination of types."""
    labels = (path.stem.partition("-")[0] for path in cache.rglob("*.o"))
    return Counter(label for label in labels if "." in label)


def test_a_first_training_run_requests_exactly_the_kernels_that_it_compiles(tmp_path):
    assert python("from tdt._kernels._ahead import make; make()", tmp_path).returncode == 0
    assert saved_kernels(tmp_path).items() >= dict.fromkeys(_ahead.KERNELS, 1).items()
    code = "from tdt.cli import main; main()"
    completed = python(code, tmp_path, "train", "digits-cnn", "train.epochs=1", "--run-dir", str(tmp_path / "run"))
    assert completed.returncode == 0, completed.stderr
    assert saved_kernels(tmp_path).keys() > set(_ahead.KERNELS)
    assert {saved_kernels(tmp_path)[name] for name in _ahead.KERNELS} == {
        1
    }  # for other types, the process would have compiled them in vain


BEGIN = """
import subprocess, sys, time
from tdt._kernels import _ahead
{}
_ahead.begin()
print(_ahead._process is not None)
"""
EXPECTED_ERRORS = {
    "one core": "import os; os.sched_getaffinity = lambda pid: {0}; os.cpu_count = lambda: 1",
    "no kernels": "import tdt; tdt.backends.kernels(False)",
    "no interpreter": "sys.executable = None",
    "a frozen program": "sys.frozen = True",
    "an interpreter that is gone": "sys.executable = '/nowhere/python'",
    "a cache that is gone": "import shutil; from tdt._kernels import _cache; shutil.rmtree(_cache.cache_folder())",
}


@pytest.mark.parametrize("reason", EXPECTED_ERRORS)
def test_tensorboard_is_not_started_where_it_cannot_be(tmp_path, reason):
    ended = python(BEGIN.format(EXPECTED_ERRORS[reason]), tmp_path)
    assert ended.stdout == "False\n", ended.stderr


def test_it_is_started_where_kernels_are_missing_and_ends_with_its_parent(tmp_path):
    (tmp_path / "tdt.py").write_text("raise SystemExit('imported from the working directory')")
    ended = python(BEGIN.format("") + "print(_ahead._process.pid, _ahead._process.args[1])", tmp_path)
    answer, pid, safely = ended.stdout.split()
    assert answer == "True" and safely == "-P"
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)
    folder = next(tmp_path.rglob("kernels-*"))
    for name in _ahead.KERNELS:
        (folder / f"{name}-x.oab12cd").touch()  # what a killed process may leave
    assert python(BEGIN.format(""), tmp_path).stdout == "True\n"
    for name in _ahead.KERNELS:
        (folder / f"{name}-x.o").touch()  # damaged
    assert python(BEGIN.format(""), tmp_path).stdout == "True\n"
    keep = "from tdt._kernels import _cache\nfor name in _ahead.KERNELS: _cache.keep(f'{name}-x.o', b'code')"
    assert python(BEGIN.format(keep), tmp_path).stdout == "False\n"


def test_no_process_is_started_but_by_the_command(tmp_path):
    code = "import tdt; from tdt._kernels import _ahead; tdt.relu(tdt.ones(300, 300)); print(_ahead._process)"
    assert python(code, tmp_path).stdout == "None\n"


def test_a_kernel_is_waited_for_only_while_it_is_being_compiled(monkeypatch):
    found = iter([None, None, b"code"])
    monkeypatch.setattr(_cache, "load", lambda name: next(found))
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    monkeypatch.setattr(_ahead, "_process", sleeper)
    assert _ahead.load_or_wait(_ahead.KERNELS[0], "x") == b"code"
    monkeypatch.setattr(_cache, "load", lambda name: None)
    assert _ahead.load_or_wait("another.kernel", "x") is None
    monkeypatch.setattr(_ahead, "PATIENCE", 0.02)
    assert _ahead.load_or_wait(_ahead.KERNELS[0], "x") is None  # it hangs
    monkeypatch.undo()
    monkeypatch.setattr(_ahead, "_process", sleeper)
    monkeypatch.setattr(_cache, "load", lambda name: None)
    sleeper.kill()
    sleeper.wait()
    assert _ahead.load_or_wait(_ahead.KERNELS[0], "x") is None
