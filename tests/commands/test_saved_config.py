"""A checkpoint or run may come from anyone: its config downloads nothing and makes no folders unless that is allowed."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from PIL import Image

from tdt.vision.datasets import MNIST
from tdt.vision.datasets.mnist import FILES
from tests.commands.running import tdt_here
from tests.configs.small_data import write_all

CONFIG = """\
name: foreign
device: cpu
data:
  train: {{type: MNIST, split: train, root: {root}, download: true}}
  valid: {{type: MNIST, split: valid, root: {root}, download: true}}
  transform: [ToTensor]
model: [Flatten, "Linear(784, 10)"]
loss: CrossEntropyLoss
optimizer: SGD(lr=0.1)
train: {{steps: 1}}
"""


@pytest.fixture(scope="module")
def work(tmp_path_factory) -> Iterator[Path]:
    """The folder of a run on data that have gone since."""
    work = tmp_path_factory.mktemp("work")
    (work / "foreign.yaml").write_text(CONFIG.format(root=work / "data"))
    with write_all(work / "data"), mock.patch.object(MNIST, "held_out", 4):
        done = tdt_here("train", "foreign.yaml", cwd=work)
        assert done.returncode == 0, done.stderr
        shutil.rmtree(work / "data")
        Image.new("L", (28, 28)).save(work / "digit.png")
        yield work


@pytest.fixture
def requested_urls(monkeypatch) -> list[str]:
    """The requested URLs of downloads; each request fails."""
    addresses: list[str] = []

    class Downloader:
        def __init__(self, **options):
            pass

        def __call__(self, url, target, owner):
            addresses.append(url)
            raise OSError("no network")

    monkeypatch.setattr("pooch.HTTPDownloader", Downloader)
    return addresses


COMMANDS = {
    "eval of a checkpoint": ("eval", "runs/foreign/1/checkpoints/last.safetensors"),
    "eval of a run": ("eval", "foreign"),
    "eval on other data of its own": ("eval", "foreign", "--split", "train", "--batch-size", "2"),
    "resume": ("train", "--resume", "foreign"),
    "predict": ("predict", "foreign", "digit.png"),
    "describe": ("describe", "foreign/1"),
    "describe a checkpoint": ("describe", "runs/foreign/1/checkpoints/last.safetensors"),
}


@pytest.mark.parametrize("what", COMMANDS)
def test_a_config_that_came_with_weights_downloads_nothing(work, requested_urls, what):
    ended = tdt_here(*COMMANDS[what], cwd=work)
    assert requested_urls == [] and not (work / "data").exists()
    if what.startswith(("predict", "describe")):
        assert ended.returncode == 0, ended.stderr
        return
    assert ended.returncode == 2
    assert f"into {work}/data/MNIST/raw; a file is missing there, and " in ended.stderr
    why = (
        "an evaluation downloads nothing"
        if what.startswith("eval")
        else "without download=true on the command line or --trust"
    )
    assert f"{why}; to download MNIST (12 MB): python -c " in ended.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("train", "--resume", "foreign", "--trust"),
        ("train", "foreign.yaml"),
    ],
)
def test_a_download_that_the_user_requests_is_run(work, requested_urls, arguments):
    ended = tdt_here(*arguments, cwd=work)
    assert requested_urls and "no network" in ended.stderr
    shutil.rmtree(work / "data")


EVALUATIONS = [
    ("eval", "foreign", "--trust"),
    ("eval", "foreign", "data.valid.download=true"),
    ("eval", "foreign", "--data", "MNIST(root=data, split=test, download=true)"),
]


@pytest.mark.parametrize("arguments", EVALUATIONS)
@pytest.mark.parametrize("terminal", [True, False])
def test_eval_downloads_nothing_and_names_the_command_that_does(work, monkeypatch, arguments, terminal: bool):
    fetched: list[str] = []
    monkeypatch.setattr("sys.stdin.isatty", lambda: terminal)
    monkeypatch.setattr("builtins.input", lambda *prompt: pytest.fail("a prompt"))
    monkeypatch.setattr("tdt.vision.datasets.mnist.fetch", lambda remote, folder: fetched.append(remote.name))
    ended = tdt_here(*arguments, cwd=work)
    assert (ended.returncode, ended.stdout, fetched) == (2, "", []) and not (work / "data").exists()
    names = [f"{name}.gz" for name in FILES["test" if "--data" in arguments else "train"]]
    assert f"MNIST: put {', '.join(names)} into " in ended.stderr and "y/N" not in ended.stderr
    command = re.search(r"to download MNIST \(12 MB\): (python -c .*)", ended.stderr)
    assert command is not None, ended.stderr
    program, option, code = shlex.split(command[1])
    assert (program, option) == ("python", "-c")
    with pytest.raises(FileNotFoundError):  # the fake source gives no file
        exec(code, {})
    assert fetched == names


def test_an_evaluation_prints_which_files_it_reads_for_the_checkpoint(tmp_path):
    rows = "\n".join(f"{i % 7},{i % 2}" for i in range(40))
    (tmp_path / "t.csv").write_text(f"a,b\n{rows}\n")
    table = "{type: Table, path: t.csv, target: b, split: %s, valid: 0.5}"
    lines = [f"  {split}: {table % split}" for split in ("train", "valid")]
    config = "name: t\ndevice: cpu\ndata:\n" + "\n".join(lines) + "\nmodel: [LazyLinear(2)]\nloss: CrossEntropyLoss\n"
    (tmp_path / "t.yaml").write_text(config + "optimizer: SGD(lr=0.1)\ntrain: {epochs: 1}\n")
    assert tdt_here("train", "t.yaml", cwd=tmp_path).returncode == 0
    own = tdt_here("eval", "t", cwd=tmp_path)
    assert own.returncode == 0 and own.stderr == ""
    (tmp_path / "runs/t/1").rename(tmp_path / "from-elsewhere")
    ended = tdt_here("eval", "from-elsewhere", cwd=tmp_path)
    assert ended.returncode == 0 and ended.stderr == f"data.valid, named by the checkpoint: {tmp_path}/t.csv\n"
    chosen = tdt_here("eval", "from-elsewhere", "--data", "{type: Table, path: t.csv, target: b}", cwd=tmp_path)
    assert chosen.returncode == 0 and chosen.stderr == ""
