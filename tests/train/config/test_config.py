"""A config is read into what it says; the three ways of writing a component are one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tdt.train.config import (
    Chain,
    Component,
    Config,
    ConfigError,
    ConfigErrors,
    Every,
    bundled,
    draft,
    find,
    load,
    loads,
    registry,
)
from tests.test_startup import loaded_by
from tests.train import fakes

CONFIGS = Path(__file__).parents[1] / "configs"
GOOD = (CONFIGS / "good.yaml").read_text()


@pytest.fixture(autouse=True)
def _fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes.install(monkeypatch)


def with_(old: str, new: str) -> Config:
    assert old in GOOD
    return loads(GOOD.replace(old, new, 1), file="c.yaml")


def test_the_example_of_the_design_is_read_whole():
    config = load(CONFIGS / "good.yaml")
    assert (config.name, config.seed, config.device) == ("digits-cnn", 0, "auto")
    assert config.data.splits() == {s: Component("Digits", kwargs={"split": s}) for s in ("train", "valid", "test")}
    assert config.data.transform == (Component("ToTensor"), Component("Normalize", (0.5, 0.5)))
    assert config.data.augment == (Component("RandomCrop", (8,), {"padding": 1}),)
    assert [name for name, _ in config.model.entries] == ["features", "flatten", "classifier"]
    assert config.model.named
    assert str(config.model.entries[0][1].entries[0][1]) == "Conv2d(1, 32, 3, padding=1)"
    assert config.optimizer.component == Component("SGD", kwargs={"lr": 0.05, "momentum": 0.9})
    assert config.optimizer.param_groups[0].params == ("classifier.*",)
    assert config.optimizer.param_groups[0].options == {"lr": 0.01}
    assert config.init[0].function == Component("kaiming_normal_", kwargs={"mode": "fan_out", "nonlinearity": "relu"})
    assert config.scheduler.interval == "epoch"
    assert config.train.clip_grad_norm == 1.0
    assert config.checkpoint.every == Every(1, "epoch")
    assert config.checkpoint.best == "valid/accuracy"
    assert config.log.every == Every(20, "step")


def test_other_splits_are_read_whole_and_in_order():
    config = with_(
        "num_workers: 0}", "num_workers: 2, prefetch_factor: 3, drop_last: true}\n  eval_loader: {batch_size: 9}"
    )
    assert config.data.loader.shuffle
    assert config.data.loader.drop_last
    assert not config.data.eval_loader.shuffle
    assert not config.data.eval_loader.drop_last
    assert config.data.eval_loader.batch_size == 9
    assert config.data.eval_loader.prefetch_factor == 3


@pytest.mark.parametrize(
    "written",
    [
        "Conv2d(1, 32, kernel_size=(3, 3))",
        '"Conv2d(1, 32, kernel_size=[3, 3])"',
        "{type: Conv2d, in_channels: 1, out_channels: 32, kernel_size: [3, 3]}",
        "\n      type: Conv2d\n      in_channels: 1\n      out_channels: 32\n      kernel_size:\n        - 3\n        - 3",
        "Conv2d(1,\n           32, kernel_size=(3, 3))",
    ],
)
def test_three_ways_of_writing_build_the_same_layer(written: str):
    conv = with_("Conv2d(1, 32, 3, padding=1)", written).model.entries[0][1].entries[0][1]
    layer = registry.layers.create(conv)
    assert layer.args == (1, 32, (3, 3), 1, 0, True, "zeros")


def test_a_list_is_a_chain_of_numbered_layers_and_a_single_layer_is_itself():
    chain = loads(
        GOOD[: GOOD.index("model:")] + "model: [Flatten, LazyLinear(10)]\n" + GOOD[GOOD.index("loss:") :]
    ).model
    assert chain == Chain((("0", Component("Flatten")), ("1", Component("LazyLinear", (10,)))), named=False)
    assert [c.name for c in chain.components()] == ["Flatten", "LazyLinear"]
    single = loads(GOOD[: GOOD.index("model:")] + "model: LazyLinear(10)\n" + GOOD[GOOD.index("loss:") :]).model
    assert single == Component("LazyLinear", (10,))


def test_components_nest():
    config = with_("flatten: Flatten", "flatten: Wrap(Conv2d(1, 2, 3), names=[a, b], text='x, y')")
    layer = registry.layers.create(config.model.entries[1][1])
    assert layer.args[0].args[:3] == (1, 2, 3)
    assert layer.args[1:] == (["a", "b"], "x, y")


def test_a_number_stays_the_type_it_was_written_in():
    assert with_("lr: 5e-2", "lr: 1e-5").optimizer.component.kwargs["lr"] == 1e-5
    assert with_("lr: 5e-2", "lr: 1").optimizer.component.kwargs["lr"] == 1
    assert with_("name: digits-cnn", "name: no").name == "no"
    assert with_("name: digits-cnn", "name: 2024-01-02").name == "2024-01-02"


def test_names_in_calls_are_strings_but_true_false_and_null_are_values():
    conv = with_("ReLU\n", "ReLU(inplace=true)\n").model.entries[0][1].entries[1][1]
    assert conv.kwargs == {"inplace": True}
    pool = with_("MaxPool2d(2)", "MaxPool2d(2, stride=null)").model.entries[0][1].entries[2][1]
    assert pool.kwargs == {"stride": None}


def test_a_scheduler_may_step_every_optimizer_step():
    for written in ("{type: OneCycleLR, max_lr: 0.1, interval: step}", "OneCycleLR(0.1, interval=step)"):
        config = with_("CosineAnnealingLR(T_max=10)", written)
        assert config.scheduler.interval == "step"
        assert "interval" not in config.scheduler.component.kwargs


def test_the_name_defaults_to_that_of_the_file():
    text = GOOD.replace("name: digits-cnn\n", "")
    assert loads(text, file="some/my net.yaml").name == "my-net"


def test_defaults_are_those_of_the_documentation():
    text = GOOD[: GOOD.index("checkpoint:")].replace("shuffle: true, ", "")
    config = loads(text)
    assert config.checkpoint.every == Every(1, "epoch")
    assert (config.checkpoint.keep, config.checkpoint.best, config.log.every) == (3, None, Every(20, "step"))
    assert config.data.loader.shuffle


def test_weights_name_a_run_or_a_path_relative_to_the_config(tmp_path: Path):
    def weights(text: str, *overrides: str):
        return loads(GOOD + text, file=str(tmp_path / "c.yaml"), overrides=overrides).weights

    by_name = weights('weights: {from: digits-cnn, only: "features.*"}\n')
    assert (by_name.source, by_name.only, by_name.strict) == ("digits-cnn", ("features.*",), True)
    by_path = weights("weights: {from: ../a/b.safetensors, map: {old.x: new.x}}\n")
    assert by_path.source == str(tmp_path.parent / "a" / "b.safetensors")
    assert by_path.map == {"old.x": "new.x"}
    overridden = weights("weights: {from: x}\n", "weights.from=./b.safetensors")
    assert overridden.source == str(Path.cwd() / "b.safetensors")


RESOLVED_CASES = {
    "as it is": (GOOD, ()),
    "strings that look like values": (GOOD + 'weights: {from: "1e-5", only: ["*.bias", "017", "no"]}\n', ()),
    "a quoted hash": (GOOD.replace("flatten: Flatten", "flatten: \"Wrap(ReLU(), text='a #b')\""), ()),
    "overridden call": (GOOD, ("model.features.conv1.kernel_size=5", "model.features.conv1.bias=false")),
    "overridden scheduler": (GOOD, ("scheduler.interval=step", "scheduler.T_max=3", "scheduler.eta_min=1e-5")),
    "groups in a call": (
        GOOD.replace("CosineAnnealingLR(T_max=10)", "null").replace("5e-2", "0.1"),
        ("optimizer=SGD(0.5)", "optimizer.param_groups=[{params: 'x.*', lr: 1}]"),
    ),
    "nothing but what is needed": (
        GOOD[: GOOD.index("scheduler:")] + "train: {epochs: 1}\n",
        ("init=null", "metrics=null"),
    ),
}


@pytest.mark.parametrize("case", RESOLVED_CASES)
def test_the_resolved_text_reads_as_the_same_config(case: str):
    text, overrides = RESOLVED_CASES[case]
    config = loads(text, file="c.yaml", overrides=overrides)
    again = loads(config.resolved(), file="runs/1/config.yaml")
    assert again == config
    assert again.resolved() == config.resolved()


def test_the_resolved_text_holds_absolute_paths(tmp_path: Path):
    config = loads(GOOD + "weights: {from: ./a.safetensors}\n", file=str(tmp_path / "c.yaml"))
    assert loads(config.resolved(), file="/elsewhere/config.yaml").weights.source == str(tmp_path / "a.safetensors")


def test_every_key_path_has_its_place():
    config = loads(GOOD, file="c.yaml", overrides=["train.epochs=3"])
    lines = GOOD.splitlines()
    for path, text in {
        "seed": "0",
        "model.features.conv1": "Conv2d",
        "model.features.conv1.padding": "1)",
        "model.features.conv1.0": "1, 32",
        "model.classifier.2": "Dropout",
        "optimizer.param_groups.0.lr": "1e-2",
        "init.1.with": "zeros_",
    }.items():
        place = config.source(path)
        assert lines[place.line - 1][place.column - 1 :].startswith(text), path
    assert str(config.source("train.epochs")) == "<command line>:1:14"
    assert str(config.source("scheduler.nothing.here")) == "c.yaml:35:12"


def test_what_is_found_while_building_is_reported_in_the_same_form():
    config = loads(GOOD, file="c.yaml")
    errors = ConfigErrors(config)
    errors.add(config.model.entries[2][1].entries[3][1], "expects 128 features, gets 64")
    errors.add("init.0.params", "matches no parameter", "features.conv1.weight", kind="unused")
    with pytest.raises(ConfigError) as caught:
        errors.raise_if_any()
    assert caught.value.messages == [
        "c.yaml:19:53: model.classifier.3: expects 128 features, gets 64",
        "c.yaml:22:14: init.0.params: matches no parameter; did you mean 'features.conv1.weight'?",
    ]


def test_a_path_beats_a_bundled_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "digits-cnn").write_text(GOOD.replace("seed: 0", "seed: 77"))
    monkeypatch.chdir(tmp_path)
    assert load("digits-cnn").seed == 77
    assert {"digits-cnn", "digits-mlp", "digits-finetune"} <= set(bundled())


def test_reading_a_config_needs_neither_numpy_nor_the_terminal_libraries():
    code = (
        "import tests.train.fakes as f, pytest; f.install(pytest.MonkeyPatch())\n"
        f"from tdt.train.config import load; load({str(CONFIGS / 'good.yaml')!r})\n"
        "from tdt.train import registry\n"
    )
    modules = loaded_by(code)
    assert "tdt.train.config.loading" in modules
    assert not {"numpy", "typer", "rich", "tdt._core.tensor"} & modules


def test_listing_bundled_configs_loads_no_pydantic():
    modules = loaded_by("from tdt.train.config import bundled; bundled()")
    assert "tdt.train.config.find" in modules and "pydantic" not in modules


def test_what_is_found_while_building_is_reported_with_what_was_found_while_reading(tmp_path: Path):
    file = tmp_path / "c.yaml"
    file.write_text(GOOD.replace("epochs: 10", "epochs: ten").replace("zeros_", "zero"))
    sketch = draft(file)
    assert [name for name, _ in sketch.model.entries] == ["features", "flatten", "classifier"]
    assert len(sketch.init) == 1
    assert sketch.param_groups[0].params == ("classifier.*",)
    sketch.errors.add(sketch.param_groups[0], "matches nothing", kind="unused")
    sketch.errors.add("init.0.params", "matches nothing", kind="unused")
    with pytest.raises(ConfigError) as caught:
        sketch.finish()
    assert [p.source.line for p in caught.value.problems] == [22, 23, 33, 36]


def test_a_draft_has_no_model_or_data_where_they_are_wrong(tmp_path: Path):
    file = tmp_path / "c.yaml"
    file.write_text(GOOD.replace("flatten: Flatten", "flatten: *x"))
    assert draft(file).model is None
    assert draft(file).data is not None
    file.write_text(GOOD.replace("batch_size: 64", "batch_size: 0"))
    assert draft(file).model is not None
    assert draft(file).data is None
    file.write_text(GOOD)
    assert draft(file, ["seed=3"]).finish() == load(file, ["seed=3"])


def test_a_config_is_its_own_draft_without_mistakes():
    config = loads(GOOD, file="c.yaml")
    again = config.draft()
    assert again.finish() is config
    again.errors.add("optimizer.lr", "is not used", kind="unused")
    with pytest.raises(ConfigError, match=r"c.yaml:30:7: optimizer.lr: is not used"):
        again.finish()


def test_bundled_configs_are_found_where_the_wheel_installs_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "tdt" / "configs").mkdir(parents=True)
    (tmp_path / "tdt" / "configs" / "inside.yaml").write_text(GOOD)
    monkeypatch.setattr(find, "__file__", str(tmp_path / "tdt" / "train" / "config" / "find.py"))
    assert list(bundled()) == ["inside"]
    assert load("inside") == load("inside.yaml") == loads(GOOD)
