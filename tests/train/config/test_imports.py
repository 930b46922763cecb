"""`imports:`: the user's own Python in a config, behind --trust, and the same file for as long as its runs live."""

from __future__ import annotations

import json

import pytest

from tdt.cli import run
from tdt.train.config import ConfigError, imports, load
from tdt.train.loop.build import build
from tdt.train.session import Session

CODE = """\
from tdt import nn
from tdt.train.metrics import Mean
from tdt.vision.datasets import Digits


class Scale(nn.Module):
    def __init__(self, by: float = 2.0):
        super().__init__()
        self.by = by

    def forward(self, input):
        return input * self.by


class MeanLoss(nn.Module):
    def forward(self, output, target):
        return output.mean() - output[:, 0].mean()


class Largest(Mean):
    def batch_sum(self, output, target, loss):
        return output._a.max(1).sum(), len(target)


"""
CONFIG = """\
name: own
device: cpu
imports: [my_layers.py]
data:
  train: Digits(split=valid)
  valid: Digits(split=valid)
  transform: [ToTensor]
model: [Flatten, "Scale(by=0.5)", "Linear(64, 10)"]
loss: MeanLoss
metrics: [Largest]
optimizer: SGD(lr=0.01)
train: {epochs: 1}
"""


@pytest.fixture
def config(tmp_path, monkeypatch):
    """A config beside its Python file; trusted."""
    monkeypatch.setattr(imports, "_allowed", True)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_layers.py").write_text(CODE)
    (tmp_path / "c.yaml").write_text(CONFIG)
    return tmp_path / "c.yaml"


def message(path, changed: str = "") -> str:
    if changed:
        path.write_text(changed)
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert len(caught.value.messages) == 1, caught.value.messages
    return caught.value.messages[0]


def test_layers_losses_and_metrics_of_a_file_are_known(config):
    parts = build(load(config))
    assert parts.model[1].by == 0.5 and type(parts.loss.main).__name__ == "MeanLoss"
    assert list(parts.new_metrics()) == ["loss", "Largest"]
    assert "unknown argument of Scale; did you mean 'by'?" in message(config, CONFIG.replace("by=0.5", "bye=0.5"))


def test_a_file_is_looked_for_beside_the_config_that_names_it(config, tmp_path):
    (tmp_path / "deep").mkdir()
    for name in ("c.yaml", "my_layers.py"):
        (tmp_path / name).rename(tmp_path / "deep" / name)
    child = tmp_path / "child.yaml"
    child.write_text("extends: deep/c.yaml\n")
    assert load(child).imports[0].file == str(tmp_path / "deep" / "my_layers.py")
    assert load(child, ["imports=[deep/my_layers.py]"]) == load(child)
    assert "child_layers.py cannot be read" in message(child, "extends: deep/c.yaml\nimports: [child_layers.py]\n")


def test_without_trust_nothing_is_run(config, monkeypatch):
    monkeypatch.setattr(imports, "_allowed", False)
    (config.parent / "my_layers.py").write_text("raise SystemExit('it ran')")
    error = message(config)
    assert error.startswith(f"{config}:3:11: imports.0: runs the Python code in {config.parent / 'my_layers.py'}")
    assert error.endswith("read it, then pass --trust (in Python: trust=True)")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import nothing_like_it", "fails: ModuleNotFoundError: No module named 'nothing_like_it' (line 1)"),
        ("\nx = (", "fails: SyntaxError: '(' was never closed (line 2)"),
        ("def f():\n    1 / 0\nf()", "fails: ZeroDivisionError: division by zero (line 2)"),
        (
            "from tdt import nn\nclass Linear(nn.Linear):\n    pass",
            "it defines Linear, but tdt has a layer of that name",
        ),
    ],
)
def test_a_file_that_fails_reports_the_line(config, code: str, expected: str):
    (config.parent / "my_layers.py").write_text(code)
    assert expected in message(config)


@pytest.mark.parametrize(
    ("written", "expected"),
    [("[other.py]", "other.py cannot be read: No such file"), ("[3]", "expected the path of a Python file"),
     ("{file: my_layers.py, sha: x}", "expected the path of a Python file")],
)  # fmt: skip
def test_what_is_wrong_with_imports(config, written: str, expected: str):
    assert expected in message(config, CONFIG.replace("[my_layers.py]", written))


OWN_DATA = """
from tdt.utils.data import Dataset
from tdt.vision.transforms import Transform


class Odd(Dataset):
    def __init__(self):
        self.digits = Digits(split="train")

    def __len__(self):
        return len(self.digits) // 2

    def __getitem__(self, index):
        return self.digits[2 * index + 1]


class Dim(Transform):
    def batch(self, images):
        return images * 0.5
"""


def test_an_error_in_a_users_layer_is_raised_unchanged(config):
    (config.parent / "my_layers.py").write_text(
        CODE.replace("self.by\n\n\nclass MeanLoss", "self.bye\n\n\nclass MeanLoss")
    )
    with pytest.raises(
        ConfigError, match="model.1: AttributeError: 'Scale' object has no attribute 'bye'; its input comes"
    ):
        build(load(config))


def test_a_worker_process_that_is_not_forked_has_the_users_data_and_transforms(config):
    (config.parent / "my_layers.py").write_text(CODE + OWN_DATA)
    text = CONFIG.replace("Digits(split=valid)", "Odd", 1).replace("[ToTensor]", "[ToTensor, Dim]")
    batches = []
    for context in ("fork", "spawn"):
        loader = f"  loader: {{num_workers: 1, multiprocessing_context: {context}}}\n"
        config.write_text(text.replace("model:", loader + "model:"))
        batches.append([inputs.numpy().tobytes() for inputs, _ in build(load(config)).loaders["train"]])
    assert batches[0] == batches[1] and len(batches[0]) > 10


def test_a_run_is_resumed_and_evaluated_only_with_the_same_file(config, tmp_path, capsys):
    with Session.start(load(config, ["train.steps=2"]), root="runs") as session:
        session.train()
        saved = session.run.config_text()
    assert f"file: {tmp_path / 'my_layers.py'}" in saved and "sha256: " in saved
    assert run(["eval", "own", "--trust", "--json"]) == 0
    assert "Largest" in json.dumps(json.loads(capsys.readouterr().out))
    assert run(["eval", "own"]) == 2
    assert "read it, then pass --trust" in capsys.readouterr().err
    (tmp_path / "my_layers.py").write_text(CODE + "\n# changed\n")
    for command in (["eval", "own", "--trust"], ["train", "--resume", "own", "--trust"]):
        assert run(command) == 2
        assert "has changed: its SHA-256 is" in capsys.readouterr().err
