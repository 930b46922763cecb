"""A message shows the line that it is about, of the config or of the command line, and what was probably meant."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tdt import cli
from tdt.commands._errors import paint
from tdt.commands._output import shows_colours
from tests.commands.running import COMMAND, SMALL, environment, tdt_here
from tests.commands.terminal import Terminal


@pytest.fixture
def work(tmp_path: Path, monkeypatch) -> Path:
    (tmp_path / "small.yaml").write_text(SMALL)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    return tmp_path


def stderr(work: Path, *arguments: str) -> list[str]:
    done = tdt_here(*arguments, cwd=work)
    assert (done.returncode, done.stdout) == (2, "")
    return done.stderr.splitlines()


def test_a_mistake_in_a_config_is_shown_in_its_line(work):
    (work / "wrong.yaml").write_text(SMALL.replace("Linear(64", "Liner(64").replace("epochs", "\u65e5\u672c: 1, epohs"))
    lines = stderr(work, "check", "wrong.yaml")
    assert lines[3].startswith("error: wrong.yaml:13:9: train.日本: unknown key; known: ")
    assert lines[:3] + lines[4:] == [
        "error: wrong.yaml:9:18: model.1: no layer is called 'Liner'; did you mean 'Linear'?",
        '    9 | model: [Flatten, "Liner(64, 10)"]',
        "      |                  ^^^^^^^^^^^^^^^",
        "   13 | train: {日本: 1, epohs: 2}",
        "      |         ^^^^",
        "error: wrong.yaml:13:16: train.epohs: unknown key; did you mean 'epochs'?",
        "   13 | train: {日本: 1, epohs: 2}",
        "      |                  ^^^^^",
    ]


def test_a_value_from_the_command_line_is_shown_there(work):
    assert stderr(work, "check", "small.yaml", "seed=3", "train.epochs=two") == [
        "error: command line: train.epochs: expected int, got 'two'",
        "  tdt check small.yaml seed=3 train.epochs=two",
        "                                           ^^^",
    ]
    _, line, mark = stderr(work, "check", "small.yaml", "model=[Flatten, 'Linear(64,9)', 'Linear(8,10)']")
    assert line[mark.index("^") : mark.rindex("^") + 1] == "'\"'\"'Linear(8,10)'\"'\"'"  # as the shell takes it
    for written in (["--device", "gpu"], ["--device=gpu"]):
        _, line, mark = stderr(work, "check", "small.yaml", *written)
        assert line[mark.index("^") : mark.rindex("^") + 1] == "gpu"
    assert tdt_here("train", "small.yaml", cwd=work).returncode == 0
    for written in (["--data", "Digitz"], ["--data=Digitz"]):
        error, line, mark = stderr(work, "eval", "small", *written)
        assert error.startswith("error: command line: data.test: no dataset is called 'Digitz'; did you mean 'Digits'?")
        assert line[mark.index("^") : mark.rindex("^") + 1] == "Digitz"


def test_the_choices_of_a_missing_option_are_in_its_line(work):
    assert stderr(work, "export", "small")[0].endswith("Missing option '--to'. Choose from: onnx, safetensors, hf")


def test_a_long_line_is_cut_around_the_mark(work):
    (work / "long.yaml").write_text(SMALL + f"# {'x' * 50}\ncallbacks: [{'Nothing, ' * 40}Wrong]\n")
    lines = stderr(work, "check", "long.yaml")
    marked = [(line, mark) for line, mark in zip(lines, lines[1:], strict=False) if mark.endswith("^")]
    assert marked and all(len(line) <= 100 for line, _ in marked)
    for line, mark in marked:
        assert line[mark.index("^") : mark.rindex("^") + 1] in ("Nothing", "Wrong")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("train small.yaml --epochs 5", "a setting is written without dashes: train.epochs=5"),
        ("train small.yaml --max-epochs=5", "a setting is written without dashes: train.epochs=5"),
        ("train small.yaml --batch_size 8", "a setting is written without dashes: data.loader.batch_size=8"),
        ("train small.yaml --optimizer.lr 0.1", "a setting is written without dashes: optimizer.lr=0.1"),
        ("train small.yaml --learning-rate 0.1", "a setting is written without dashes: optimizer.lr=0.1"),
        ("check small.yaml --seed", "a setting is written without dashes: seed=VALUE"),
        ("train --config small.yaml", "the config is an argument: tdt train small.yaml"),
        ("train -c small.yaml", "the config is an argument: tdt train small.yaml"),
        ("train small.yaml --gpu", "did you mean `--device cuda`?"),
        ("train small.yaml --dry-run", "did you mean `tdt check CONFIG`?"),
        ("train small.yaml --resume-from-checkpoint x", "did you mean `--resume RUN`?"),
        ("eval small --predictions x.csv", "did you mean `--output`?"),
        ("eval small --dvice cpu", "did you mean --device?"),
        ("train small.yaml +optimizer.nesterov=true", "did you mean 'optimizer.nesterov=true'?"),
        ("train small.yaml ++optimizer.lr=1", "did you mean 'optimizer.lr=1'?"),
        ("check small.yaml train.max_epochs=5", "did you mean 'epochs'?"),
        ("check small.yaml max_epochs=5", "did you mean 'train.epochs'?"),
        ("check small.yaml optimizer.learning_rate=1", "did you mean 'lr'?"),
        ("check small.yaml model=[Flatten,Dense(10)]", "did you mean 'Linear'?"),
        ("check small.yaml loss=cross_entropy", "did you mean 'CrossEntropyLoss'?"),
        ("check small.yaml optimizer=adam", "did you mean 'Adam'?"),
        ("runs rm small/1", "did you mean 'delete'?"),
        ("runs ls", "did you mean 'list'?"),
        ("runs nonsense", "there are: list, show, compare, diff, delete"),
        ("fit small.yaml", "did you mean 'train'?"),
        ("evaluate small", "did you mean 'eval'?"),
        ("resume small", "did you mean `tdt train --resume RUN`?"),
        ("version", "did you mean `tdt --version`?"),
        ("ls", "did you mean `tdt runs list`?"),
        ("rm small/1", "did you mean `tdt runs delete RUN`?"),
        ("train small.yaml --output here", "did you mean `--run-dir DIR`?"),
        ("small.yaml", "did you mean `tdt train small.yaml`?"),
        ("check small.yaml train.patience=3", "did you mean 'early_stopping'?"),
        ("config get train.epochs", "did you mean 'explain'?"),
        ("config list", "there are: show, explain, diff"),
        ("train small.yaml --resume", "tdt train: --resume needs a value: --resume RUN"),
    ],
)
def test_other_tools_spellings_get_a_hint(work, written: str, meant: str):
    first, *rest = stderr(work, *written.split())
    assert first.startswith("error: ") and meant in first
    for line, mark in zip(rest, rest[1:], strict=False):
        if mark.endswith("^"):  # below what is wrong
            wrong = line[mark.index("^") : mark.rindex("^") + 1]
            assert wrong in f"tdt {written}" and wrong.lstrip("+-").split("=")[0] in first.replace("'", "")


def test_a_length_that_the_command_line_removes_is_missing_there(work):
    lines = stderr(work, "check", "small.yaml", "train.epochs=")
    assert lines[0].startswith("error: command line: train.epochs: is missing") and lines[2].strip() == "^"


def test_every_error_has_the_same_beginning(work):
    for arguments in (
        ["eval", "nothing"],
        ["train", "none.yaml"],
        ["runs", "show", "x"],
        ["train"],
        ["init", "a", "b", "c"],
    ):
        assert stderr(work, *arguments)[0].startswith("error: ")


@pytest.mark.parametrize(
    ("variables", "terminal", "shown"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"TERM": "dumb"}, True, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, True, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
    ],
)
def test_the_environment_decides_about_colours(
    monkeypatch, capsys, variables: dict[str, str], terminal: bool, shown: bool
):
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with capsys.disabled():
        from types import SimpleNamespace

        assert shows_colours(SimpleNamespace(isatty=lambda: terminal)) is shown  # type: ignore[arg-type]


def test_on_a_terminal_error_and_mark_are_red(work):
    command = [*COMMAND, "check", "small.yaml", "seed=x"]
    with Terminal(command, cwd=work, environment=environment(TERM="xterm-256color"), width=70) as terminal:
        assert terminal.exit_code() == 2
        assert terminal.text.splitlines()[1:] == ["  tdt check small.yaml seed=x", " " * 28 + "^"]
        assert [terminal.style_of(text).fg for text in ("error:", "^", "seed")] == ["red", "red", "default"]


def test_text_of_a_config_cannot_colour_a_message():
    assert re.sub(r"\x1b\[[\d;]*m", "", paint("error: a\n  b\n  ^^")) == "error: a\n  b\n  ^^"


def test_both_spellings_show_the_version(capsys):
    assert cli.run(["-V"]) == cli.run(["--version"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == second
