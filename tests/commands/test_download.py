"""A bundled config downloads its dataset on a yes; without a terminal and --yes nothing is asked or downloaded."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from tdt.cli import run
from tests.commands.running import SMALL


@pytest.fixture
def attempts(tmp_path: Path, monkeypatch) -> list[str]:
    """The files that were to be downloaded; each attempt fails."""
    found: list[str] = []

    def fetch(remote, folder):
        found.append(remote.name)
        raise OSError(f"download of {remote.name} failed")

    monkeypatch.setattr("tdt.vision.datasets.mnist.fetch", fetch)
    monkeypatch.setenv("TDT_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    return found


def answer(monkeypatch, text: str, terminal: bool) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    monkeypatch.setattr("sys.stdin.isatty", lambda: terminal)


def test_on_a_terminal_the_size_is_named_and_a_yes_downloads(attempts, monkeypatch, capsys):
    answer(monkeypatch, "y\n", terminal=True)
    assert run(["train", "lenet5"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("download MNIST (12 MB)? [y/N] ") and "train-images-idx3-ubyte.gz failed" in err
    assert attempts[0] == "train-images-idx3-ubyte.gz"


@pytest.mark.parametrize(("text", "terminal"), [("n\n", True), ("", True), ("y\n", False)])
def test_without_a_yes_nothing_is_downloaded(attempts, monkeypatch, capsys, text: str, terminal: bool):
    answer(monkeypatch, text, terminal)
    assert run(["train", "lenet5"]) == 2
    out, err = capsys.readouterr()
    assert not attempts and not out and "MNIST: put train-images-idx3-ubyte.gz" in err
    assert ("download MNIST (12 MB)? [y/N]" in err) == terminal
    assert ("to download MNIST (12 MB): --yes" in err) == (not terminal)
    assert not Path("runs").exists() and not Path("data").exists()


def test_yes_downloads_without_a_question(attempts, monkeypatch, capsys):
    answer(monkeypatch, "", terminal=False)
    assert run(["train", "lenet5", "--yes"]) == 2
    assert attempts and "[y/N]" not in capsys.readouterr().err


def test_no_question_comes_if_something_else_is_wrong(attempts, monkeypatch, capsys):
    answer(monkeypatch, "y\n", terminal=True)
    assert run(["train", "lenet5", "optimizer.lrr=1"]) == 2
    assert not attempts and "[y/N]" not in capsys.readouterr().err


def test_eval_never_downloads(attempts, monkeypatch, capsys, tmp_path: Path):
    (tmp_path / "small.yaml").write_text(SMALL)
    assert run(["train", "small.yaml", "train.epochs=1"]) == 0
    answer(monkeypatch, "y\n", terminal=True)
    assert run(["eval", "small", "data.valid=MNIST(split=valid)"]) == 2
    assert not attempts and "[y/N]" not in capsys.readouterr().err


def test_windows_line_endings_change_no_position(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    wrong = SMALL.replace("Linear(64", "Liner(64").replace("epochs: 2", "epocs: 2")
    shown = []
    for name, text in (("c.yaml", wrong), ("d.yaml", wrong.replace("\n", "\r\n"))):
        Path(name).write_bytes(text.encode())
        assert run(["check", name]) == 2
        shown.append(capsys.readouterr().err.replace(name, "FILE"))
    assert shown[0] == shown[1] and "\\r" not in shown[0]
    Path("d.yaml").write_bytes(SMALL.replace("\n", "\r\n").encode())
    assert run(["check", "d.yaml"]) == 0


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_named_with_the_fix(tmp_path: Path, monkeypatch, capsys, encoding: str):
    monkeypatch.chdir(tmp_path)
    Path("c.yaml").write_text(SMALL, encoding=encoding)
    assert run(["check", "c.yaml"]) == 2
    assert capsys.readouterr().err == "error: c.yaml:1:1: is UTF-16; save it as UTF-8\n"
