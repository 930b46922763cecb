"""`tdt describe`: layers, and what a step costs, of a config, a run or a checkpoint."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tdt import cli
from tdt.train.config import load
from tdt.train.loop import costs
from tdt.train.session import Session


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def described(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = cli.run(["describe", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_layers_and_costs_are_shown(work, capsys):
    code, out, err = described(capsys, "digits-mlp")
    assert (code, err) == (0, "")
    assert re.search(r"^layer +output +parameters +multiply-adds +bytes$", out, re.M)
    assert re.search(r"^1 +Linear\(in_features=64, .*\) +128 +8,320 +8,192 +512$", out, re.M)
    assert "a training step of 64 samples, measured" in out
    assert re.search(r"^epoch of 18 steps +(\d+ ms|\d+\.\d s)$", out, re.M)
    assert re.search(r"^step time +\d+\.\d\d ms$", out, re.M) and re.search(r"^peak memory +\d\.\d\d MiB$", out, re.M)
    assert not list(work.iterdir())


def test_data_that_are_not_there_are_not_needed(work, capsys, monkeypatch):
    monkeypatch.setenv("TDT_DATA", str(work))
    code, out, err = described(capsys, "mlp")
    assert (code, err) == (0, "") and "a training step of 128 samples, measured" in out
    code, _, err = described(capsys, "digits-mlp", "data.train=NPZ(/data/x.npz)")
    assert code == 2 and err.startswith(
        "error: command line: data.train: NPZ(/data/x.npz) cannot be read as a name or a"
    )
    assert "invalid syntax; quote the text '/data/x.npz'" in err


def test_json_has_the_memory_of_parameters_and_of_a_step(work, capsys):
    found = json.loads(described(capsys, "digits-mlp", "data.loader.batch_size=256", "--json")[1])
    size = found["bytes"]
    count = 64 * 128 + 128 + 128 * 64 + 64 + 64 * 10 + 10
    assert found["parameters"] == found["trainable"] == count
    assert size["parameters"] == size["gradients"] == 4 * count and size["buffers"] == 0
    assert 2 * 4 * count <= size["optimizer_state"] <= 2 * 4 * count + 64  # Adam: two numbers for each, and a counter
    assert size["peak_memory"] == sum(n for name, n in size.items() if name != "peak_memory")
    saved = 256 * 4 * (64 + 128 + 64 + 10)  # inputs of the linear layers, and the scores
    assert saved < size["activations"] < 5 * saved
    assert found["measured"] and found["samples"] == 256
    assert found["samples_per_second"] == pytest.approx(256 / found["step_seconds"])


def test_what_training_adds_is_counted(work, capsys):
    more = ("train.accumulate=3", "train.ema={decay: 0.9}", "train.mixup=0.2")
    found = json.loads(described(capsys, "digits-mlp", *more, "--json")[1])
    assert found["samples"] == 3 * 64 and found["bytes"]["average_of_weights"] == found["bytes"]["parameters"]


def test_a_step_that_would_take_long_is_computed_with_a_warning(work, capsys, monkeypatch):
    monkeypatch.setattr(costs, "LONGEST", 0.0)
    _, out, _ = described(capsys, "digits-mlp")
    assert re.search(r"samples, estimated: 3 forward passes at \d+\.\d G multiply-adds per second$", out, re.M)
    found = json.loads(described(capsys, "digits-mlp", "--json")[1])
    assert not found["measured"] and found["bytes"]["activations"] == 64 * sum(row["bytes"] for row in found["layers"])
    assert found["bytes"]["optimizer_state"] >= 8 * found["parameters"]


def test_runs_and_checkpoints_are_described_as_they_are(work, capsys):
    with Session.start(
        load("digits-mlp", ["train.epochs=1", "name=small", "model.1=Linear(64, 32)", "model.3=Linear(32, 64)"])
    ) as session:
        session.train()
    for what in ("small", "runs/small/1", "runs/small/1/checkpoints/last.safetensors"):
        layers = json.loads(described(capsys, what, "--json")[1])["layers"]
        assert [row["shape"] for row in layers if row["parameters"]] == [[32], [64], [10]], what


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "no run 'nothing'"),
        (["no.yaml"], "no such file"),
        (["digits-mlp", "model.1=Linear(65, 128)"], "model.1"),
        (["digits-mlp", "lr=1"], "lr: unknown key"),
    ],
)
def test_mistakes_exit_with_2(work, capsys, arguments, message):
    code, out, err = described(capsys, *arguments)
    assert (code, out) == (2, "") and message in err


def test_layers_below_a_level_are_summed(work, capsys):
    rows = {}
    for depth in ("1", "9"):
        code, out, _ = described(capsys, "digits-cnn", "--depth", depth)
        assert code == 0
        rows[depth] = [line.split() for line in out.split("\n\n")[0].splitlines()[1:-1]]
    assert [row[:3] for row in rows["1"]][::2] == [
        ["features", "Sequential", "64x4x4"],
        ["classifier", "Sequential", "10"],
    ]
    assert rows["1"][-1] == rows["9"][-1]  # the totals
    inside = [int(row[-3].replace(",", "")) for row in rows["9"] if row[0].startswith("features.")]
    assert sum(inside) == int(rows["1"][0][-3].replace(",", ""))
