"""The command line: help, mistakes, exit codes; no traceback for what is the user's to mend."""

from __future__ import annotations

import re

import pytest
import typer

from tdt import cli
from tests.commands.running import SMALL, tdt

SIX = (
    SMALL.replace("name: small", "name: small\nsed: 1")  # line 2: unknown key
    .replace("ToTensor", "ToTensr")  # 8: unknown name
    .replace("batch_size: 128", "batch_size: 0")  # 9: out of range
    .replace("Linear(64, 10)", "Linear(64, 10, bais=False)")  # 10: unknown argument
    .replace("Adam(lr=1e-2)", "Adam(lr=fast)")  # 13: wrong type
    .replace("every: 5 steps", "every: 5")  # 15: no unit
)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = cli.run([*arguments])
    out, err = capsys.readouterr()
    return code, out, err


def verbs() -> list[list[str]]:
    """Every verb, and the commands of those that have some."""
    app = typer.main.get_command(cli.app)
    names = app.list_commands(None)
    groups = {name: getattr(app.get_command(None, name), "commands", {}) for name in names}
    return [[name, *below] for name in names for below in ([], *([command] for command in groups[name]))]


@pytest.mark.parametrize("verb", verbs(), ids=" ".join)
def test_each_verb_has_help_with_an_example(capsys, verb: list[str]):
    code, out, _ = run(capsys, *verb, "--help")
    assert code == 0 and re.search(rf"^  Examples:\n    tdt {verb[0]}", out, re.M)
    # Each example on a line; arguments and commands as a person writes them: no types of Python, nothing cut short.
    assert not re.search(r"<\w+|\{|(?<!ARGS)\]\.\.\.|[a-z]\.\.\.$|\[\[|tdt .*  \|  ", out, re.M), out


@pytest.mark.parametrize("arguments", [[], ["config"]])
def test_a_verb_alone_is_its_help(capsys, arguments: list[str]):
    _, helped, _ = run(capsys, *arguments, "--help")
    assert run(capsys, *arguments) == (2, "", helped)


def test_help_lists_the_verbs(capsys):
    code, out, _ = run(capsys, "--help")
    assert code == 0 and all(re.search(rf"^\s+{verb[0]}\s", out, re.M) for verb in verbs())


def test_the_version(capsys):
    from tdt import __version__

    assert run(capsys, "--version") == (0, f"tdt {__version__}\n", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["evla"], "there is no command 'evla'; did you mean 'eval'?"),
        (["train"], "expected CONFIG or --resume RUN"),
        (["train", "--lr", "1"], "there is no option --lr; a setting is written without dashes: optimizer.lr=1"),
        (["train", "digits-mlp", "--resume", "x"], "give --resume RUN without CONFIG"),
        (["eval"], "Missing"),
        (["eval", "nothing"], "no run 'nothing'"),
        (["eval", "no.safetensors"], "no.safetensors: no such checkpoint file"),
        (["train", "--resume", "nothing"], "no run 'nothing'"),
        (["train", "digits-mpl"], "did you mean 'digits-mlp'?"),
        (
            ["train", "digits-mlp", "lr=1"],
            "error: command line: lr: unknown key; did you mean 'optimizer.lr'?\n  tdt train digits-mlp lr=1\n",
        ),
        (["train", "digits-mlp", "--device", "gpu"], "expected auto, cpu, cuda or cuda:N"),
    ],
)
def test_a_wrong_command_line_exits_with_2_and_a_message(capsys, monkeypatch, tmp_path, arguments, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "") and message in err
    assert "Traceback" not in err and not list(tmp_path.iterdir())


def test_six_mistakes_are_six_sorted_lines_and_no_run(tmp_path):
    (tmp_path / "six.yaml").write_text(SIX)
    done = tdt("train", "six.yaml", cwd=tmp_path)
    lines = [line.removeprefix("error: ") for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert (done.returncode, done.stdout) == (2, "")
    assert [line.split(":")[:2] for line in lines] == [["six.yaml", str(n)] for n in (2, 8, 9, 10, 13, 15)]
    assert all(re.match(r"six\.yaml:\d+:\d+: [\w.]+: ", line) for line in lines)
    assert [path.name for path in tmp_path.iterdir()] == ["six.yaml"]


def test_a_run_whose_layers_do_not_fit_is_not_created(tmp_path):
    (tmp_path / "c.yaml").write_text(SMALL.replace("Linear(64, 10)", "Linear(65, 10)"))
    done = tdt("train", "c.yaml", cwd=tmp_path)
    assert done.returncode == 2 and "c.yaml:9:" in done.stderr and "0 (Flatten(), line 9)" in done.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("layer", ["Linear(64, 10000000000000)", "LazyLinear(10000000000000)"])
def test_a_layer_that_no_memory_holds_is_named(tmp_path, layer: str):
    (tmp_path / "c.yaml").write_text(SMALL.replace("Linear(64, 10)", layer))
    done = tdt("train", "c.yaml", cwd=tmp_path)
    assert done.returncode == 2 and re.match(r"error: c\.yaml:9:18: model.1: Unable to allocate .* PiB", done.stderr), (
        done.stderr
    )


def test_traceback_shows_where_an_error_arose(tmp_path):
    (tmp_path / "c.yaml").write_text(SIX)
    done = tdt("train", "c.yaml", "--traceback", cwd=tmp_path)
    assert "Traceback" in done.stderr and "ConfigError" in done.stderr


def test_an_error_that_is_no_users_fault_keeps_its_traceback(monkeypatch):
    def broken(*args, **kwargs):
        raise AssertionError("a bug")

    monkeypatch.setattr("tdt.train.config.draft", broken)
    with pytest.raises(AssertionError, match="a bug"):
        cli.run(["train", "digits-mlp"])


def test_a_full_disk_is_reported_in_one_line(capsys, monkeypatch, tmp_path):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device", "runs")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tdt.train.runs.run.RunFolder.create", full)
    code, _, err = run(capsys, "train", "digits-mlp")
    assert (code, err) == (1, "error: runs: No space left on device\n")
