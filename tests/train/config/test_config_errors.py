"""A wrong config is answered with file, line, column, key and a suggestion: every mistake, each once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tdt.train.config import ConfigError, Problem, load, loads
from tests.train import fakes

CONFIGS = Path(__file__).parents[1] / "configs"
GOOD = (CONFIGS / "good.yaml").read_text()


@pytest.fixture(autouse=True)
def _fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes.install(monkeypatch)


def problems(text: str, *overrides: str) -> list[Problem]:
    with pytest.raises(ConfigError) as caught:
        loads(text, file="c.yaml", overrides=overrides)
    return caught.value.problems


def test_six_different_mistakes_get_exactly_six_messages(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(CONFIGS)
    with pytest.raises(ConfigError) as caught:
        load("six_mistakes.yaml")
    assert str(caught.value).splitlines() == [
        "six_mistakes.yaml:6:23: data.valid.split: expected one of 'train', 'valid', 'test', got 'vaild'; "
        "did you mean 'valid'?",
        "six_mistakes.yaml:7:37: data.loader.shuffle: expected true or false, got 'yes'; write true",
        "six_mistakes.yaml:11:5: model.1: no layer is called 'Lineer'; did you mean 'Linear'?",
        "six_mistakes.yaml:13:5: model.3.out_features: Linear needs it",
        "six_mistakes.yaml:19:3: optimizer.lrr: unknown argument of SGD; did you mean 'lr'?",
        "six_mistakes.yaml:21:17: train.epochs: expected int, got '017'; a number has no leading zero: write 17",
    ]


# (what is written in the good config, what instead, line, key, kind, suggestion)
MUTATIONS = [
    # keys misspelt
    ("seed: 0", "sede: 0", 2, "sede", "unknown-key", "seed"),
    ("batch_size", "batchsize", 11, "data.loader.batchsize", "unknown-key", "batch_size"),
    ("  flatten: Flatten", "  block: Flatten", 18, "model.block", "unknown-name", None),
    ("momentum:", "momentun:", 31, "optimizer.momentun", "unknown-key", "momentum"),
    ("epochs: 10", "epoch: 10", 36, "train.epoch", "unknown-key", "epochs"),
    ("every: 20 steps", "every: 20 steps, histogram: 1 epoch", 38, "log.histogram", "unknown-key", "histograms"),
    ("3, padding=1)", "3, paddin=1)", 15, "model.features.conv1.paddin", "unknown-key", "padding"),
    ('params: "*.bias"', 'param: "*.bias"', 23, "init.1.param", "unknown-key", "params"),
    ("  type: SGD", "  typo: SGD", 29, "optimizer.typo", "unknown-key", "type"),
    # keys dropped: at the line of what should hold them
    ("loss: CrossEntropyLoss\n", "", 1, "loss", "missing", None),
    ("  train: Digits(split=train)\n", "", 5, "data.train", "missing", None),
    ("epochs: 10, ", "", 36, "train.epochs", "missing", None),
    (', with: zeros_}', "}", 23, "init.1.with", "missing", None),
    ("Conv2d(1, 32, 3, padding=1)", "Conv2d(1, 32)", 15, "model.features.conv1.kernel_size", "missing", None),
    # values retyped
    ("lr: 5e-2", "lr: fast", 30, "optimizer.lr", "wrong-type", None),
    ("Dropout(0.2)", "Dropout(a)", 19, "model.classifier.2.p", "wrong-type", None),
    ("keep: 3", "keep: three", 37, "checkpoint.keep", "wrong-type", None),
    ("metrics: [accuracy]", "metrics: [7]", 26, "metrics.0", "wrong-type", None),
    ("model:\n", "model:\n  extra: [1]\n", 14, "model.extra.0", "wrong-type", None),
    ("seed: 0", "seed: -1", 2, "seed", "bad-value", None),
    ("device: auto", "device: gpu", 3, "device", "bad-value", None),
    ("every: 1 epoch", "every: 0 steps", 37, "checkpoint.every", "bad-value", None),
    ("best: valid/accuracy", "best: test/accuracy", 37, "checkpoint.best", "bad-value", "valid/accuracy"),
    ("mode=fan_out", "mode=fan_ot", 22, "init.0.with.mode", "bad-value", "fan_out"),
    # names
    ("Conv2d(1", "Conv2D_(1", 15, "model.features.conv1", "unknown-name", "Conv2d"),
    ("  type: SGD", "  type: sgdd", 29, "optimizer", "unknown-name", "SGD"),
    ("zeros_}", "zeroes_}", 23, "init.1.with", "unknown-name", "zeros_"),
    ("metrics: [accuracy]", "metrics: [acuracy]", 26, "metrics.0", "unknown-name", "accuracy"),
    # moved, doubled, unused
    ("train: {epochs: 10", "seed: 1\ntrain: {epochs: 10", 36, "seed", "duplicate-key", None),
    ("Linear(128, 10)", "Linear(128, 10, True, 4)", 19, "model.classifier.3", "too-many", None),
    ("MaxPool2d(2)", "MaxPool2d(2, kernel_size=1)", 17, "model.features.pool1.kernel_size", "duplicate-key", None),
    ("num_workers: 0", "num_workers: 0, prefetch_factor: 2", 11, "data.loader.prefetch_factor", "unused", None),
    (", lr: 1e-2}", "}", 33, "optimizer.param_groups.0", "unused", None),
    ("metrics: [accuracy]\n", "\n", 37, "checkpoint.best", "unused", None),
    ("  valid: Digits(split=valid)\n", "\n", 37, "checkpoint.best", "unused", None),
    ("log: {every: 20 steps}", "weights: {from: x, onyl: y}", 38, "weights.onyl", "unknown-key", "only"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "line", "key", "kind", "suggestion"), MUTATIONS, ids=lambda v: str(v)[:40])
def test_a_mutated_config_gets_one_message_at_its_place(old, new, line, key, kind, suggestion):
    assert old in GOOD
    found = problems(GOOD.replace(old, new, 1))
    expected = [(line, key, kind, suggestion)]
    assert [(p.source.line, p.key, p.kind, p.suggestion) for p in found] == expected


def test_a_message_is_placed_where_the_mistake_is():
    lines = GOOD.replace("padding=1", "paddin=1").replace("lr: 5e-2", "lr: 'five'").splitlines()
    for problem in problems("\n".join(lines)):
        assert lines[problem.source.line - 1][problem.source.column - 1 :].startswith(("paddin=1", "'five'"))


def test_places_inside_calls_count_characters_not_bytes():
    text = GOOD.replace("flatten: Flatten", "flatten: Wrap(ReLU(), text='äöü', nam=3)")
    (problem,) = problems(text)
    assert text.splitlines()[17][problem.source.column - 1 :].startswith("nam=3")


def test_mistakes_in_all_sections_are_reported_together():
    text = GOOD
    for old, new in (("Digits(split=test)", "Digit"), ("ToTensor", "ToTensr"), ("RandomCrop", "RandomCorp"),
                     ("MaxPool2d(2)", "MaxPool2d"), ("zeros_", "zero"), ("CrossEntropyLoss", "CrossEntropy"),
                     ("momentum: 0.9", "momentum: high"), ("T_max=10", "T_min=10"), ("keep: 3", "keep: 0")):  # fmt: skip
        assert old in text
        text = text.replace(old, new, 1)
    found = problems(text)
    assert len(found) == 9
    assert [p.source.line for p in found] == sorted(p.source.line for p in found)


def test_a_misspelt_section_is_not_also_missing():
    (problem,) = problems(GOOD.replace("optimizer:", "optimiser:"))
    assert str(problem) == "c.yaml:28:1: optimiser: unknown key; did you mean 'optimizer'?"


def test_an_unknown_argument_without_a_close_name_lists_those_of_the_component():
    (problem,) = problems(GOOD.replace("ReLU\n", "ReLU(colour=red)\n", 1))
    assert problem.message == "unknown argument of ReLU; it takes: inplace"


def test_a_trap_inside_an_argument_is_reported_once():
    for written in ("{type: Conv2d, in_channels: 1, out_channels: 2, kernel_size: [3, *x]}", "{type: Wrap, inner: %x}"):
        (problem,) = problems(GOOD.replace("flatten: Flatten", f"flatten: {written}"))
        assert problem.kind == "yaml"


def test_mistakes_in_a_nested_component_and_around_it_are_both_reported():
    found = problems(GOOD.replace("flatten: Flatten", "flatten: Wrap(Conv2d(1, 2, tree), txt=1)"))
    assert [p.key for p in found] == ["model.flatten.0.kernel_size", "model.flatten.txt"]
    (problem,) = problems(GOOD.replace("flatten: Flatten", "flatten: Wrap(Convolve(1))"))
    assert (problem.key, problem.kind) == ("model.flatten.0", "unknown-name")


def test_what_tdt_passes_itself_is_refused():
    assert "given by tdt" in problems(GOOD.replace("momentum: 0.9", "params: x"))[0].message
    assert "whole run" in problems(GOOD.replace("Linear(128, 10)", "Linear(128, 10, device=cpu)"))[0].message


def test_layer_names_that_torch_would_refuse_are_refused():
    for name in ("append", "training", "a.b", "from", "graph"):
        (problem,) = problems(GOOD.replace("flatten: Flatten", f"{name}: Flatten"))
        assert (problem.source.line, problem.source.column, problem.key) == (18, 3, f"model.{name}")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("nn.Flatten", "has a dot; write 'Flatten' alone"),
        ("nn.Flatten(1)", "has a dot; write 'Flatten' alone"),
        ("Flatten(1+1)", "1+1 is an expression, and nothing is evaluated"),
        ("Flatten(*x)", "*x is an expression"),
        ("Flatten(**x)", "** cannot be used"),
        ("Flatten(1 2)", "cannot be read as a name or a call"),
        ("Flatten(1", "'(' was never closed"),
        ("Flatten()()", "expected a name before '('"),
        ("a-b", "expected a name like ReLU or a call like Linear(64, 10), got a-b"),
        ("__import__('os').system('x')", "has a dot"),
        ("Flatten(a if b else c)", "is an expression"),
        ("Flatten(1j)", "is an expression"),
        ("Flatten(" + "9" * 50 + ")", "more than 40 characters"),
        ("Flatten(1e999)", "too large"),
        ("${other}", "${other}: the config has no other"),
        ("Flatten(${loss}(3))", "expected a name before '('"),
        ("3", "expected a layer, like Name or Name(arg=1), got 3"),
        ("", "got nothing"),
        ("{type: Flatten(1)}", "expected a bare name"),
        ("{type: [Flatten]}", "expected a bare name"),
        ("{}", "has no layers"),
        ("[]", "has no layers"),
    ],
)
def test_a_value_that_is_not_a_component_is_explained(written: str, expected: str):
    found = problems(GOOD.replace("flatten: Flatten", f"flatten: {written}"))
    assert len(found) == 1
    assert expected in found[0].message
    assert found[0].source.line == 18


OVERRIDES = {
    "optimizer.lrr=0.1": (1, "optimizer.lrr", "unknown-key", "lr"),
    "optimzer.lr=1": (1, "optimzer", "unknown-key", "optimizer"),
    "optimizer.lr=fast": (14, "optimizer.lr", "wrong-type", None),
    "data.loader.shuffle=yes": (21, "data.loader.shuffle", "wrong-type", None),
    "model.classifier.9=ReLU": (1, "model.classifier.9", "unknown-key", None),
    "model.classifier.0=Linear(1": (20, "model.classifier.0", "bad-value", None),
    "model.features.conv1.paddin=2": (1, "model.features.conv1.paddin", "unknown-key", "padding"),
    "data.augment=[RandomCrop(8, 1)]": (15, "data.augment.0", "yaml", None),
    "data.augment=[": (15, "data.augment", "yaml", None),
    "seed.x=1": (1, "seed", "wrong-type", None),
    "seed": (1, "", "bad-value", None),
    "=1": (1, "", "bad-value", None),
    "a." * 5000 + "b=1": (1, "", "bad-value", None),
    "train.epochs=1e999": (14, "train.epochs", "bad-value", None),
    "loss=null": (6, "loss", "missing", None),
}


@pytest.mark.parametrize("override", OVERRIDES)
def test_a_wrong_override_is_located_in_its_own_text(override: str):
    column, key, kind, suggestion = OVERRIDES[override]
    (problem,) = problems(GOOD, "seed=3", override)
    assert (str(problem.source), problem.key) == (f"<command line>:2:{column}", key or problem.key)
    assert (problem.kind, problem.suggestion) == (kind, suggestion)
    assert problem.override == override


def test_overrides_change_what_they_name():
    config = loads(GOOD, overrides=["optimizer.lr=1", "model.classifier.2=Dropout(0.5)", "log.every=1 epoch",
                                    "scheduler=null", "data.augment=[]", "model.features.conv1.kernel_size=5"])  # fmt: skip
    assert config.optimizer.component.kwargs["lr"] == 1
    assert config.model.entries[2][1].entries[2][1].args == (0.5,)
    assert str(config.log.every) == "1 epoch"
    assert config.scheduler is None
    assert config.data.augment == ()
    assert config.model.entries[0][1].entries[0][1].args == (1, 32, 5)


def test_errors_of_the_file_come_before_those_of_the_command_line():
    found = problems(GOOD.replace("epochs: 10", "epochs: ten"), "optimizer.lr=x")
    assert [p.source.file for p in found] == ["c.yaml", "<command line>"]


def test_a_wrong_file_name_gets_the_nearest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(GOOD)
    for name, suggestion in (("digits-cn", "digits-cnn"), ("digits-mpl.yaml", "digits-mlp"),
                             (str(tmp_path / "mien.yaml"), str(tmp_path / "mine.yaml"))):  # fmt: skip
        with pytest.raises(ConfigError) as caught:
            load(name)
        assert caught.value.problems[0].suggestion == suggestion
        assert str(caught.value).startswith(f"{name}: no such file")


def test_a_key_of_another_section_gets_its_section_suggested():
    found = problems(GOOD, "epochs=3", "lr=0.1", "train.batch_size=8", "data.every=3")
    assert [p.suggestion for p in found] == ["train.epochs", "optimizer.lr", "data.loader.batch_size", None]


def test_a_list_without_brackets_gets_them_suggested():
    [problem] = problems(GOOD.replace("metrics: [accuracy]", "metrics: accuracy, loss"))
    assert problem.message.endswith("got accuracy, loss; a list is written with [ ]: [accuracy, loss]")
