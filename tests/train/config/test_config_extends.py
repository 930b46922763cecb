"""A config extends another, refers to its own keys and to the environment, and knows where each value comes from."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tdt.train.config import Config, ConfigError, load, loads, registry
from tests.train import fakes

CONFIGS = Path(__file__).parents[1] / "configs"
GOOD = (CONFIGS / "good.yaml").read_text()


@pytest.fixture(autouse=True)
def _fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes.install(monkeypatch)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "base.yaml").write_text(GOOD)
    return tmp_path


def extending(folder: Path, text: str, *overrides: str) -> Config:
    (folder / "c.yaml").write_text(text)
    return load(folder / "c.yaml", overrides)


def wrong(folder: Path, text: str, *overrides: str) -> list[tuple[str, int, str, str, str | None]]:
    """(file, line, key, kind, suggestion) of each problem."""
    with pytest.raises(ConfigError) as caught:
        extending(folder, text, *overrides)
    return [(Path(p.source.file).name, p.source.line, p.key, p.kind, p.suggestion) for p in caught.value.problems]


def test_a_config_states_only_what_differs_from_its_base(folder: Path):
    base = load(folder / "base.yaml")
    assert extending(folder, "extends: base.yaml\n") == base
    config = extending(
        folder,
        "extends: ./base.yaml\n"
        "model: {features: {conv1: 'Conv2d(1, 8, 3)', relu1: null}, classifier: [LazyLinear(10)]}\n"
        "optimizer: {lr: 0.5}\ninit: null\n",
    )
    features = config.model.entries[0][1]
    assert [(name, str(entry)) for name, entry in features.entries] == [
        ("conv1", "Conv2d(1, 8, 3)"),
        ("pool1", "MaxPool2d(2)"),
    ]
    assert len(config.model.entries[2][1].entries) == 1
    assert config.optimizer.component.kwargs == {"lr": 0.5, "momentum": 0.9}
    assert (config.init, config.train) == ((), base.train)


def test_a_component_keeps_its_arguments_as_long_as_its_name_stays(folder: Path):
    def scheduler(text: str) -> str:
        return str(extending(folder, f"extends: base.yaml\nscheduler: {text}\n").scheduler.component)

    assert scheduler("{T_max: 3}") == "CosineAnnealingLR(T_max=3)"
    assert scheduler("{type: CosineAnnealingLR, eta_min: 0.1}") == "CosineAnnealingLR(T_max=10, eta_min=0.1)"
    assert scheduler("{type: OneCycleLR, max_lr: 0.1}") == "OneCycleLR(max_lr=0.1)"
    assert scheduler("OneCycleLR(0.2)") == "OneCycleLR(0.2)"


def test_a_positional_argument_is_overridden_by_its_name(folder: Path):
    (folder / "base.yaml").write_text(GOOD.replace("ReLU", "Conv2d(1, 8, 3, padding=1)", 1))
    config = extending(folder, "extends: base.yaml\nmodel: {features: {relu1: {out_channels: 9, padding: 2}}}\n")
    assert str(config.model.entries[0][1].entries[1][1]) == "Conv2d(1, 9, 3, padding=2)"


def test_bundled_configs_and_chains_are_extended(folder: Path):
    (folder / "sub").mkdir()
    (folder / "middle.yaml").write_text("extends: base.yaml\nseed: 4\ntrain: {epochs: 3}\n")
    config = extending(folder / "sub", "extends: ../middle.yaml\nseed: 5\n")
    assert (config.seed, config.train.epochs, config.train.clip_grad_norm) == (5, 3, 1.0)
    assert extending(folder, "extends: digits-cnn\nmodel: LazyLinear(2)\n").name == "digits-cnn"


def test_a_mistake_is_reported_in_the_file_that_holds_it(folder: Path):
    (folder / "base.yaml").write_text(GOOD.replace("momentum:", "momentun:"))
    assert wrong(folder, "extends: base.yaml\ntrain: {epoch: 3}\nseed: x\n") == [
        ("base.yaml", 31, "optimizer.momentun", "unknown-key", "momentum"),
        ("c.yaml", 2, "train.epoch", "unknown-key", "epochs"),
        ("c.yaml", 3, "seed", "wrong-type", None),
    ]


def test_what_cannot_be_extended_is_explained(folder: Path):
    first = ("c.yaml", 1, "extends")
    assert wrong(folder, "extends: bas.yaml\n")[0] == (*first, "file", "base.yaml")
    assert wrong(folder, "extends: [base.yaml]\n")[0] == (*first, "wrong-type", None)
    assert wrong(folder, "extends: c.yaml\n")[0] == (*first, "bad-value", None)
    (folder / "base.yaml").write_text("extends: c.yaml\n")
    assert wrong(folder, "extends: base.yaml\n")[0][:3] == ("base.yaml", 1, "extends")
    (folder / "base.yaml").write_text(GOOD)
    assert wrong(folder, "extends: base.yaml\n", "extends=other")[0][2:4] == ("extends", "bad-value")


def test_paths_start_from_the_folder_of_the_file_that_names_them(folder: Path):
    (folder / "deep").mkdir()
    (folder / "deep" / "base.yaml").write_text(GOOD + "weights: {from: ./w.safetensors}\n")
    assert extending(folder, "extends: deep/base.yaml\n").weights.source == str(folder / "deep" / "w.safetensors")


def test_paths_of_data_start_where_they_are_named_whoever_refers_to_them(folder: Path, monkeypatch: pytest.MonkeyPatch):
    class Rows(fakes.Digits):
        def __init__(self, root: str | Path, split: str = "train", extra: str | os.PathLike[str] = "x"):
            self.split = split

    monkeypatch.setitem(registry.datasets.entries, "Rows", Rows)
    monkeypatch.chdir(folder)
    (folder / "deep").mkdir()
    data = (
        "  train: {type: Rows, root: a/b, extra: c}\n  valid: {type: Rows, root: '${data.train.root}', extra: ../d}\n"
    )
    text = GOOD[: GOOD.index("  train:")] + data + GOOD[GOOD.index("  transform") :]
    (folder / "deep" / "base.yaml").write_text(text)

    def paths(config: Config) -> list[str]:
        parts = [config.data.train, config.data.valid]
        found = [value for part in parts for value in (*part.args, *part.kwargs.values())]
        return [Path(path).relative_to(folder).as_posix() for path in found]

    def named(text: str, *overrides: str) -> list[str]:
        config = extending(folder, text, *overrides)
        assert paths(loads(config.resolved(), str(folder / "far" / "c.yaml"))) == paths(config)
        return paths(config)

    assert named("extends: deep/base.yaml\n") == ["deep/a/b", "deep/c", "deep/a/b", "d"]
    assert named("extends: deep/base.yaml\ndata: {train: {root: z}}\n") == ["z", "deep/c", "z", "d"]
    assert named("extends: deep/base.yaml\n", "data.train.extra=y") == ["deep/a/b", "y", "deep/a/b", "d"]
    assert named("extends: deep/base.yaml\n", "data.valid=Rows(y)")[2:] == ["y"]


def test_a_reference_takes_the_value_that_ends_up_there(folder: Path):
    text = GOOD.replace("T_max=10", "T_max=${train.epochs}").replace("LazyLinear(128)", '"LazyLinear(${seed})"')
    config = loads(text.replace("seed: 0", "seed: 128"), "c.yaml", ["train.epochs=7", "name=n-${seed}"])
    assert config.scheduler.component.kwargs == {"T_max": 7}
    assert config.model.entries[2][1].entries[0][1].args == (128,)
    assert config.name == "n-128"
    assert loads(GOOD, "c.yaml", ["optimizer.param_groups=[{params: 'x.*', lr: '${optimizer.momentum}'}]"]
                 ).optimizer.param_groups[0].options == {"lr": 0.9}  # fmt: skip
    assert loads(GOOD, "c.yaml", ["data.valid=${data.test}"]).data.valid.kwargs == {"split": "test"}
    assert loads(GOOD, "c.yaml", ["model.features.conv1.padding=${model.features.conv1.2}"])


@pytest.mark.parametrize(
    ("override", "expected", "suggestion"),
    [
        ("scheduler=CosineAnnealingLR(${run.epoch})", "${run.epoch}: the config has no run", "${run.epochs}"),
        ("seed=${train.epoch}", "${train.epoch}: the config has no train.epoch", "${train.epochs}"),
        ("seed=${seed}", "the reference is circular: seed -> seed", None),
        ("seed=${train.epochs.x}", "the config has no train.epochs.x", None),
        ("name=a${optimizer}", "a list or mapping cannot be part of a text", None),
        ("name=a${seed", "'${' begins a reference and needs a '}'", None),
        ("seed=${env:TDT_SEEDS}", "the environment variable TDT_SEEDS is not set", "${env:TDT_SEED}"),
        ("seed=${file:x}", "${file:x} is not a reference; write ${path.to.key}, or ${env:NAME}", None),
        ("scheduler=CosineAnnealingLR(${nothing})", "${nothing}: the config has no nothing", None),
    ],
)
def test_a_reference_that_leads_nowhere_is_explained(
    override: str, expected: str, suggestion: str | None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TDT_SEED", "3")
    with pytest.raises(ConfigError) as caught:
        loads(GOOD, "c.yaml", [override])
    assert [(expected in p.message, p.suggestion) for p in caught.value.problems] == [(True, suggestion)]


def test_a_variable_is_saved_as_its_reference_never_as_its_value(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TDT_WHERE", "a secret")
    monkeypatch.setenv("TDT_EPOCHS", "12")
    text = GOOD.replace("epochs: 10", 'epochs: "${env:TDT_EPOCHS}"').replace(
        "flatten: Flatten", "flatten: Wrap(ReLU(), text='in ${env:TDT_WHERE}')"
    )
    config = loads(text, "c.yaml", ["optimizer.param_groups.0.lr=${train.epochs}"])
    assert config.model.entries[1][1].kwargs == {"text": "in a secret"}
    assert (config.train.epochs, config.optimizer.param_groups[0].options) == (12, {"lr": 12})
    saved = config.annotated()
    assert "secret" not in saved and "12" not in saved.replace("c.yaml:12", "").replace("128", "")
    assert loads(saved, "c.yaml") == config
    monkeypatch.delenv("TDT_WHERE")
    with pytest.raises(ConfigError, match="the environment variable TDT_WHERE is not set"):
        loads(saved)


def test_every_value_of_the_resolved_config_states_its_source(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(folder)
    Path("c.yaml").write_text("extends: base.yaml\nseed: 2\nweights: {from: x, map: {a.b: c}}\n")
    config = load("c.yaml", ["train.epochs=3"])
    found = dict(line.split("#") for line in config.annotated().splitlines() if "#" in line)
    origins = {key.strip(): origin.strip() for key, origin in found.items()}
    assert origins["seed: 2"] == "c.yaml:2"
    assert origins["a.b: c"] == "c.yaml:3"
    assert origins["epochs: 3"] == "command line"
    assert origins["clip_grad_norm: 1.0"] == "base.yaml:36"
    assert origins["conv1: Conv2d(1, 32, 3, padding=1)"] == "base.yaml:15"
    assert origins["drop_last: false"] == "default"
    assert loads(config.annotated()) == config


def test_an_override_takes_out_what_is_written():
    config = loads(GOOD, "c.yaml", ["~scheduler", "~model.features.relu1", "~model.features.conv1.padding", "~init.0"])
    assert config.scheduler is None
    assert [name for name, _ in config.model.entries[0][1].entries] == ["conv1", "pool1"]
    assert config.model.entries[0][1].entries[0][1].kwargs == {}
    assert [rule.params for rule in config.init] == [("*.bias",)]
    for override, key, suggestion in (
        ("~schedule", "schedule", "scheduler"),
        ("~optimizer.lrr", "optimizer.lrr", "lr"),
        ("~seed.x", "seed", None),
    ):
        with pytest.raises(ConfigError) as caught:
            loads(GOOD, "c.yaml", [override])
        assert [(p.key, p.suggestion) for p in caught.value.problems] == [(key, suggestion)]
