"""Processes that workers start in: what lies in the working folder does not run there unless it would in their parent."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOSTILE = ("random", "pickle", "numpy", "tdt", "struct", "yaml")


@pytest.fixture
def hostile(tmp_path) -> Path:
    """A working folder whose modules tell that they ran, and then fail."""
    folder = tmp_path / "work"
    folder.mkdir()
    for name in HOSTILE:
        (folder / f"{name}.py").write_text(
            f"open({str(tmp_path)!r} + '/ran-{name}', 'w').close()\nraise SystemExit(3)\n"
        )
    return folder


def run(folder: Path, program: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
    """`python program arguments` in `folder`, with tdt on the path; at an end after a minute, should it hang."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **environment}
    command = [sys.executable, str(program), *arguments]
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=60)


CONFIG = """
data:
  train: Digits(split=train)
  transform: [ToTensor]
  loader: {batch_size: 600, num_workers: 2, multiprocessing_context: spawn}
model: [Flatten, LazyLinear(10)]
loss: CrossEntropyLoss
optimizer: SGD(lr=0.1)
train: {steps: 2}
"""


@pytest.mark.budget("toolkit")
def test_workers_of_the_command_run_nothing_of_the_working_folder(hostile, tmp_path):
    script = tmp_path / "bin/tdt"  # as pip writes it
    script.parent.mkdir()
    script.write_text("import sys\nfrom tdt.cli import main\nif __name__ == '__main__':\n    sys.exit(main())\n")
    (tmp_path / "small.yaml").write_text(CONFIG)
    ended = run(hostile, script, "train", str(tmp_path / "small.yaml"), "--run-dir", str(tmp_path / "run"))
    assert ended.returncode == 0, ended.stderr
    assert not list(tmp_path.glob("ran-*"))


PROGRAM = """
import os, sys
import tdt
def told(number, path):
    with open(path, "a") as file:
        file.write(f"{os.environ.get('PYTHONSAFEPATH')} {sys.path[0]}\\n")
if __name__ == "__main__":
    for method in ("spawn", "forkserver"):
        tdt.multiprocessing.start_processes(told, (sys.argv[1],), 1, start_method=method)
    assert "PYTHONSAFEPATH" not in os.environ
"""


def test_processes_of_a_script_elsewhere_start_safely_and_leave_their_programs_alone(hostile, tmp_path):
    script = tmp_path / "bin/script.py"
    script.parent.mkdir()
    script.write_text(PROGRAM)
    ended = run(hostile, script, str(tmp_path / "out"))
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "out").read_text() == f"None {script.parent}\n" * 2
    assert not list(tmp_path.glob("ran-*"))


def test_a_script_in_the_working_folder_finds_its_own_modules(tmp_path):
    (tmp_path / "mine.py").write_text("VALUE = 7\n")
    script = tmp_path / "script.py"
    script.write_text(PROGRAM.replace("import tdt\n", "import tdt, mine\n"))
    ended = run(tmp_path, script, str(tmp_path / "out"))
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "out").read_text() == f"None {tmp_path}\n" * 2


FAILING = """
import tdt
if __name__ == "__mp_main__":
    raise SystemExit(5)  # as a script without a guard may
from tdt.utils.data import DataLoader, TensorDataset
if __name__ == "__main__":
    dataset = TensorDataset(tdt.zeros(1000, 1000))  # larger than a pipe takes at once
    try:
        next(iter(DataLoader(dataset, num_workers=1, multiprocessing_context="spawn")))
    except RuntimeError as error:
        print(error)
"""


def test_a_worker_that_fails_at_its_start_is_an_error_and_no_hang(tmp_path):
    (tmp_path / "script.py").write_text(FAILING)
    ended = run(tmp_path, tmp_path / "script.py")
    assert "worker 0 exited with code 5" in ended.stdout, ended.stderr
