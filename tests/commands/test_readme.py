"""What README.md shows works as written: its config, its commands, its messages, its Python."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tdt import cli
from tests.commands.running import environment, tdt

README = (Path(__file__).parents[2] / "README.md").read_text()
CONFIG = re.search(r"```yaml\n(.*?)```", README, re.DOTALL)
COMMANDS = re.findall(r"^    tdt (.*?)(?:\s+#.*)?$", README, re.MULTILINE)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the config as my.yaml, and a table."""
    assert CONFIG is not None
    folder = tmp_path_factory.mktemp("readme")
    (folder / "my.yaml").write_text(CONFIG[1])
    table = (Path(__file__).parents[2] / "configs" / "iris.csv").read_text()
    for name in ("flowers.csv", "new.csv"):
        (folder / name).write_text(table)
    return folder


def test_each_command_runs_as_documented(work, monkeypatch, capsys):
    monkeypatch.chdir(work)
    named = {"train", "check", "eval", "init", "find-lr", "predict", "export"}
    assert {line.split()[0] for line in COMMANDS} == named and len(COMMANDS) >= 12
    for line in ("train my.yaml", *COMMANDS):  # the first is what "the newest run of that name" and eval speak of
        assert (cli.run(shlex.split(line)), capsys.readouterr().err) == (0, ""), line


def test_the_run_leaves_what_is_listed(work):
    if not (work / "runs").exists():
        tdt("train", "my.yaml", cwd=work)
    listed = re.search(r"    runs/my-digits/1/\n((?:      .*\n)+)", README)
    assert listed is not None
    run = work / "runs" / "my-digits" / "1"
    patterns = [line.split()[0] for line in listed[1].splitlines()]
    assert len(patterns) == 5 and all(list(run.glob(pattern.rstrip("/"))) for pattern in patterns)
    names = {path.name for path in run.iterdir() if path.name != "run.lock"}
    assert len(names) == len(patterns)


def test_the_messages_are_those_of_the_config_with_the_mistakes(work):
    assert CONFIG is not None
    shown = [line.strip() for line in README.splitlines() if line.startswith("      my.yaml:")]
    (work / "wrong").mkdir()
    wrong = CONFIG[1].replace("Conv2d", "Conv2D").replace("  lr: 5e-2", "  lrr: 5e-2")
    (work / "wrong" / "my.yaml").write_text(wrong)
    done = tdt("train", "my.yaml", cwd=work / "wrong")
    errors = [line.removeprefix("error: ") for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert (done.returncode, errors) == (2, shown)


def test_the_python_runs():
    [code] = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
