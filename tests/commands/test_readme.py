"""What README.md shows works as written: its config and its commands."""

from __future__ import annotations

import json
import math
import re
import shlex
from pathlib import Path

import pytest

from tdt import cli
from tests.commands.running import tdt

ROOT = Path(__file__).parents[2]
README, GUIDE = (ROOT / "README.md").read_text(), (ROOT / "docs" / "guide" / "index.md").read_text()
CONFIG = re.search(r"```yaml\n(.*?)```", README, re.DOTALL)
COMMANDS = re.findall(r"^    tdt (.*?)(?:\s+#.*)?$", README, re.MULTILINE)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the config as my.yaml, and a table."""
    assert CONFIG is not None
    folder = tmp_path_factory.mktemp("readme")
    (folder / "my.yaml").write_text(CONFIG[1])
    table = (ROOT / "configs" / "iris.csv").read_text()
    for name in ("flowers.csv", "new.csv"):
        (folder / name).write_text(table)
    return folder


def test_each_command_runs_as_documented(work, monkeypatch, capsys):
    monkeypatch.chdir(work)
    assert [line.split()[0] for line in COMMANDS] == ["train", "init", "train", "predict"]
    for line in COMMANDS:
        assert (cli.run(shlex.split(line)), capsys.readouterr().err) == (0, ""), line


def test_the_run_leaves_what_the_guide_lists(work):
    if not (work / "runs" / "my-digits").exists():
        tdt("train", "my.yaml", cwd=work)
    listed = re.search(r"^runs/my-digits/1/\n((?:  .*\n)+)", GUIDE, re.MULTILINE)
    assert listed is not None
    run = work / "runs" / "my-digits" / "1"
    patterns = [line.split()[0] for line in listed[1].splitlines()]
    assert len(patterns) == 5 and all(list(run.glob(pattern.rstrip("/"))) for pattern in patterns)
    names = {path.name for path in run.iterdir() if path.name != "run.lock"}
    assert len(names) == len(patterns)


def test_the_speed_is_what_was_measured():
    measured = json.loads((ROOT / "docs" / "measured" / "training.json").read_text())
    claimed, families = re.findall(
        r"step is ([\d.]+) × as fast as PyTorch's, the geometric mean of (\d+) families", README
    )[0]
    mean = math.prod(network["ratio"] for network in measured["networks"]) ** (1 / len(measured["networks"]))
    assert int(families) == measured["families"] and float(claimed) <= mean + 0.05, f"measured: {mean:.2f}"
