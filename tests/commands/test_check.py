"""`tdt check` finds every mistake without training, and says what a sound config declares."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tdt.cli import run
from tests.commands.running import SMALL


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c.yaml").write_text(SMALL)


def test_a_valid_config_is_shown(capsys):
    assert run(["check", "c.yaml", "model.1=Linear(64, 10)", "--device", "cpu"]) == 0
    out = capsys.readouterr().out
    assert "650 parameters" in out
    assert (
        "samples: train 1,149, valid 288, test 360; 9 steps per epoch, 18 in total\nc.yaml: no mistakes found; next: "
        in out
    )
    assert out.endswith("next: tdt train c.yaml 'model.1=Linear(64, 10)' --device cpu\n")


def test_a_script_reads_one_object(capsys):
    assert run(["check", "c.yaml", "data.loader.drop_last=true", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["ok"], facts["parameters"], facts["steps_per_epoch"], facts["steps"]) == (True, 650, 8, 16)
    assert facts["samples"] == {"train": 1149, "valid": 288, "test": 360}
    assert facts["layers"][1]["shape"] == [10]


def test_all_mistakes_are_named_at_once_and_the_exit_code_is_2(capsys):
    Path("c.yaml").write_text(SMALL.replace("Linear(64, 10)", "Linear(65, 10)").replace("epochs: 2", "epoch: 2"))
    assert run(["check", "c.yaml"]) == 2
    err = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error:")]
    assert [line.split(" ")[1] for line in err] == ["c.yaml:9:18:", "c.yaml:13:9:"]
    assert run(["check", "c.yaml", "--json"]) == 2
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] is False
    assert [(p["line"], p["key"], p["kind"], p["suggestion"]) for p in found["problems"]] == [
        (9, "model.1", "shape", None),
        (13, "train.epoch", "unknown-key", "epochs"),
    ]


def test_nothing_is_written(capsys):
    assert run(["check", "c.yaml"]) == 0
    assert [path.name for path in Path().iterdir()] == ["c.yaml"]


def test_the_table_has_a_row_per_layer_and_verbose_one_per_parameter(capsys):
    assert run(["check", "c.yaml", "-v"]) == 0
    table = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert table[2] == ["1", "Linear(in_features=64,", "out_features=10,", "bias=True)", "10", "650", "640", "40"]
    assert table[3] == ["total", "650", "640", "296"]  # of Flatten 64 numbers, of Linear 10
    assert ["1.weight", "10x64", "0"] in table


def test_weights_that_are_not_there_are_reported(capsys):
    assert run(["check", "c.yaml", "weights.from=digits"]) == 2
    assert "weights.from: no run 'digits'" in capsys.readouterr().err
