"""`tdt config` shows where values come from, and in what configs differ."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tdt.cli import run
from tdt.train.config import load, loads
from tdt.train.runs.run import RunFolder
from tests.commands.running import COMMAND, SMALL, environment
from tests.commands.terminal import Terminal


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("base.yaml").write_text(SMALL)
    Path("c.yaml").write_text("extends: base.yaml\noptimizer: {lr: 0.5}\n")


def test_show_prints_each_value_with_its_origin(capsys):
    assert run(["config", "show", "c.yaml", "train.epochs=7"]) == 0
    out = capsys.readouterr().out
    lines = {line.split("#")[0].strip(): line.split("#")[-1].strip() for line in out.splitlines()}
    assert lines["optimizer: Adam(lr=0.5)"] == "c.yaml:2"
    assert lines["epochs: 7"] == "command line"
    assert lines["- Flatten"] == "base.yaml:9"
    assert lines["seed: 0"] == "default"
    assert loads(out) == load("c.yaml", ["train.epochs=7"])


@pytest.mark.parametrize("width", [60, 80, 120])
def test_show_fits_the_terminal_and_keeps_origins(tmp_path: Path, width: int):
    folder = tmp_path / "a folder with a long name, which would leave no room for anything else" / "configs"
    folder.mkdir(parents=True)
    for name in ("base.yaml", "c.yaml"):
        Path(name).rename(folder / name)
    command = [*COMMAND, "config", "show", str(folder / "c.yaml"), "train.epochs=7"]
    with Terminal(command, cwd=tmp_path, environment=environment(), width=width, height=60) as terminal:
        assert terminal.exit_code() == 0
        lines = dict(line.split("#") for line in terminal.text.splitlines() if "#" in line)
    origins = {value.strip(): origin.strip() for value, origin in lines.items()}
    assert origins["optimizer: Adam(lr=0.5)"] == "c.yaml:2" and origins["- Flatten"] == "base.yaml:9"
    assert origins["epochs: 7"] == "command line" and origins["seed: 0"] == "default"
    assert len({len(value) for value in lines}) == 1


def test_show_for_a_script(capsys):
    assert run(["config", "show", "c.yaml", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["optimizer.lr"] == {"value": "0.5", "origin": "c.yaml:2"}
    assert values["train.epochs"] == {"value": "2", "origin": "base.yaml:13"}


def test_diff_names_what_differs_however_it_is_written(capsys):
    assert run(["config", "diff", "base.yaml", "c.yaml"]) == 0
    assert capsys.readouterr().out.splitlines() == ["setting       base.yaml  c.yaml", "optimizer.lr  0.01       0.5"]
    Path("same.yaml").write_text(SMALL.replace("Adam(lr=1e-2)", "{type: Adam, lr: 0.01}"))
    assert run(["config", "diff", "base.yaml", "same.yaml"]) == 0
    assert capsys.readouterr().out == "no differences\n"


def test_diff_reads_runs_and_bundled_configs(capsys):
    RunFolder.create("runs", "r", load("c.yaml").annotated()).close()
    assert run(["config", "diff", "r/1", "base.yaml", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "configs": ["r/1", "base.yaml"],
        "settings": {"optimizer.lr": ["0.5", "0.01"]},
    }
    assert run(["config", "diff", "digits-mlp", "digits-cnn"]) == 0
    assert "optimizer.momentum" in capsys.readouterr().out
    assert run(["config", "diff", "r/2", "base.yaml"]) == 2
    assert "no run 'r/2'; did you mean 'r/1'?" in capsys.readouterr().err


def test_show_down_to_a_level_marks_what_is_below(capsys):
    assert run(["config", "show", "c.yaml", "--depth", "1"]) == 0
    lines = [line.split("  #")[0].rstrip() for line in capsys.readouterr().out.splitlines()]
    assert {"name: small", "data: …", "loss: CrossEntropyLoss", "optimizer: Adam(lr=0.5)", "train: …"} <= set(lines)
    assert not any(line.startswith(" ") for line in lines)
    assert run(["config", "show", "c.yaml", "--depth", "2"]) == 0
    lines = [line.split("  #")[0].rstrip() for line in capsys.readouterr().out.splitlines()]
    assert {"  loader: …", "  train: Digits(split=train)", "- Flatten", "  epochs: 2"} <= set(lines)
    assert run(["config", "show", "c.yaml", "--depth", "9"]) == run(["config", "show", "c.yaml"]) == 0
    deep, whole = capsys.readouterr().out.split("name: small")[1:]
    assert deep == whole


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ("train.clip_grad_norm", ["Maximum norm of the gradient", "values: number, more than 0"]),
        ("train.epochs", ["values: whole number, at least 1"]),
        ("checkpoint.every", ["values: 1 epoch or 20 steps", "default: 1 epoch"]),
        ("train.amp", ["values: bfloat16, float16"]),
        ("checkpoint", ["every", "keep", "best", "How many of the newest checkpoints to keep"]),
        ("optimizer", ["The optimizer with its arguments", "one of: ASGD, Adadelta"]),
        ("optimizer.weight_decay", ["Factor by which weights decay"]),
        ("loss", ["The loss, or several by name.", "CrossEntropyLoss"]),
        ("AdamW", ["decoupled weight decay", "betas"]),
        ("Adam.lr", ["Learning rate.", "default: 0.001"]),
    ],
)
def test_a_key_is_explained(capsys, key: str, shown: list[str]):
    assert run(["config", "explain", key]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{key}: ") and all(text in out for text in shown), out


def test_a_key_is_explained_for_a_script(capsys):
    assert run(["config", "explain", "train.ema", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["key"] == "train.ema" and found["keys"]["decay"]["default"] == "0.999"


@pytest.mark.parametrize(("key", "meant"), [("train.epoch", "train.epochs"), ("Adm", "Adam"), ("clip_grad", None)])
def test_an_unknown_key_is_an_error_with_a_suggestion(capsys, key: str, meant: str | None):
    assert run(["config", "explain", key]) == 2
    err = capsys.readouterr().err
    assert f"there is no key {key!r}" in err and (meant is None or f"did you mean {meant!r}?" in err)


def test_every_key_that_completion_offers_is_explained(capsys):
    from tdt.commands._complete import explainable
    from tdt.train.config import keys

    names = explainable("")
    assert {"train.swa.start", "log.embedding.layer", "sweep.parallel.gpus", "AdamW", "ImageFolder"} <= set(names)
    assert all((keys.explained(name) or {}).get("description") for name in names)


def test_a_whole_explanation_is_shown_on_request(capsys):
    from tdt.train.config import keys

    for key in ("Table", "train"):
        assert run(["config", "explain", key, "--wide"]) == 0
        out = capsys.readouterr().out
        schema = keys.explained(key)
        assert schema is not None
        for name, one in keys.below(key, schema).items():
            assert one["description"] in out, name
