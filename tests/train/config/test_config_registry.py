"""Registries find the real classes, and what they say in their signatures is what a config is checked against."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from tdt.train.config import ConfigError, bundled, load, loads, registry
from tdt.train.config.signatures import fit, parameters_of, spell_type
from tdt.train.model.from_config import build_model
from tests.test_startup import loaded_by

ROOT = Path(__file__).parents[3]
MISFIT = fit(int, "no int")


def test_registries_have_the_classes_of_this_version():
    expected = {
        registry.layers: "Linear LazyLinear Conv2d MaxPool2d AvgPool2d AdaptiveAvgPool2d BatchNorm1d BatchNorm2d Dropout "
        "Flatten ReLU Sigmoid Tanh GELU Softmax",
        registry.losses: "CrossEntropyLoss MSELoss NLLLoss",
        registry.metrics: "accuracy auroc average_precision f1 loss mae mse perplexity precision r2 recall rmse top_k",
        registry.datasets: "Digits",
        registry.transforms: "ToTensor Normalize RandomCrop",
        registry.optimizers: "SGD Adam AdamW Adadelta Adafactor Adagrad Adamax ASGD Muon NAdam RAdam RMSprop Rprop "
        "SparseAdam",
        registry.schedulers: "StepLR CosineAnnealingLR OneCycleLR ChainedScheduler ConstantLR CosineAnnealingWarmRestarts "
        "CyclicLR ExponentialLR LinearLR MultiStepLR PolynomialLR ReduceLROnPlateau SequentialLR",
        registry.initializers: "zeros_ constant_ normal_ uniform_ kaiming_normal_ xavier_uniform_ orthogonal_",
    }
    for known, names in expected.items():
        assert set(names.split()) <= set(known.names()), known
        for name in known.names():
            assert callable(known.find(name))


def test_registries_refuse_what_is_no_component():
    for name in ("Module", "Sequential", "ModuleList", "ParameterDict", "DataParallel", "Parameter", "MSELoss", "functional",
                 "_Loss", "nothing"):  # fmt: skip
        assert registry.layers.find(name) is None
    for known, name in (
        (registry.schedulers, "LambdaLR"),
        (registry.schedulers, "LRScheduler"),
        (registry.optimizers, "Optimizer"),
        (registry.optimizers, "LBFGS"),
        (registry.transforms, "Compose"),
        (registry.initializers, "calculate_gain"),
    ):
        assert known.find(name) is None


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("CosineAnnealingLR(T_max=${run.epochs})", "LambdaLR(lr_lambda=f)",
         "scheduler: LambdaLR takes a Python function, and a config holds no code; use another scheduler"),
        ("flatten: Flatten", 'flatten: {type: Sequential, args: [Flatten]}',
         "model.flatten: Sequential is what a list (or a mapping) of layers becomes; write [ReLU, Flatten], or a layer on "),
        ("[ToTensor,", "[Compose, ToTensor,", "data.transform.0: Compose is what a list of transforms becomes; write [ToT"),
    ],
)  # fmt: skip
def test_another_spelling_than_that_of_configs_gets_it_suggested(old: str, new: str, expected: str):
    text = (ROOT / "configs" / "digits-cnn.yaml").read_text()
    assert old in text
    with pytest.raises(ConfigError) as caught:
        loads(text.replace(old, new))
    assert len(caught.value.problems) == 1 and expected in str(caught.value)


def test_a_registry_imports_nothing_before_the_first_lookup():
    modules = loaded_by("from tdt.train import registry")
    assert "tdt.train.config.registry" in modules
    assert not {"numpy", "tdt.nn", "tdt._core.tensor"} & modules


def test_registered_names_win_and_are_created_with_their_arguments(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(registry.layers, "entries", {})
    registry.layers.register("Mine", dict)
    assert registry.layers.find("Mine") is dict
    with pytest.raises(ValueError, match="needs an identifier"):
        registry.layers.register("my layer", dict)


@pytest.mark.parametrize("name", sorted(bundled()))
def test_bundled_configs_fit_the_real_classes(name: str):
    config = load(name)
    assert config.name == name
    assert loads(config.resolved()) == config
    errors = config.draft().errors
    _, sources = build_model(config.model, errors)
    assert not errors.problems
    for layer, component in sources.items():
        assert type(layer).__name__ == component.name


def test_mistakes_in_real_layers_are_found():
    text = (ROOT / "configs" / "digits-cnn.yaml").read_text()
    for old, new in {
        "Conv2d(1, 32, 3, padding=1)": "Conv2d(1, 32, 3, paddin=1)",
        "MaxPool2d(2)": "MaxPool2d",
        "Dropout(0.2)": "Dropout(little)",
        "mode=fan_out": "mod=fan_out",
        "dataset: Digits": "dataset: Digits(spilt=vaild)",
        "momentum: 0.9": "momentum: high",
        "CosineAnnealingLR(": "CosineAnealingLR(",
    }.items():
        assert old in text
        text = text.replace(old, new, 1)
    with pytest.raises(ConfigError) as caught:
        loads(text)
    assert [(p.key, p.kind) for p in caught.value.problems] == [
        ("data.dataset.spilt", "unknown-key"),
        ("model.features.conv1.paddin", "unknown-key"),
        ("model.features.pool.kernel_size", "missing"),
        ("model.classifier.2.p", "wrong-type"),
        ("init.0.with.mod", "unknown-key"),
        ("optimizer.momentum", "wrong-type"),
        ("scheduler", "unknown-name"),
    ]


FITS = [
    (int, 3, 3),
    (float, 3, 3),
    (complex, 0.5, 0.5),
    (int | tuple[int, int], [3, 4], (3, 4)),
    (tuple[int, ...], [1, 2, 3], (1, 2, 3)),
    (tuple, [1, "a"], (1, "a")),
    (list[float], (1, 2), [1, 2]),
    (str | None, None, None),
    (Literal["a", 1], 1, 1),
    (dict, {"a": 1}, {"a": 1}),
    (Any, object, object),
]
MISFITS = [
    (int, True), (int, 1.0), (float, "1"), (float, False), (bool, 1), (bool, "true"), (str, 1), (str, None),
    (tuple[int, int], [1]), (tuple[int, int], [1, 2.5]), (list[int], 3), (Literal["a"], "b"), (Literal[1], True),
    (None, 0), (dict, []), (Path, "x"),
]  # fmt: skip


@pytest.mark.parametrize(("annotation", "value", "fitted"), FITS)
def test_values_that_fit_an_annotation(annotation: Any, value: Any, fitted: Any):
    assert fit(annotation, value) == fitted
    assert type(fit(annotation, value)) is type(fitted)


@pytest.mark.parametrize(("annotation", "value"), MISFITS)
def test_values_that_do_not(annotation: Any, value: Any):
    assert fit(annotation, value) is MISFIT


def test_annotations_are_shown_as_a_config_writes_them():
    assert spell_type(int | tuple[int, int] | None) == "int or [int, int] or null"
    assert spell_type(float | Path) == "float"
    assert spell_type(Literal["a", "b"]) == "one of 'a', 'b'"
    assert spell_type(list[float] | bool) == "a list of float or bool"


def test_an_annotation_for_type_checkers_leaves_the_others_checked():
    def function(tensor: Unseen, size: int, flag=True, rest: Unseen | int = 0):  # noqa: F821
        return tensor

    found = parameters_of(function, supplied=1)
    assert {name: p.annotation for name, p in found.items()} == {"size": int, "flag": bool, "rest": Any}


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("RandomRotation(30, expand=true)", "RandomRotation has none: images of several sizes would make no batch"),
        (
            "Normalize(0.5, 0.5, inplace=true)",
            "Normalize has none: a step leaves the images that it is given as they are",
        ),
    ],
)
def test_an_option_of_torchvisions_that_a_transform_has_not_is_refused_with_the_reason(step: str, expected: str):
    with pytest.raises(ConfigError) as caught:
        load("digits-mlp", [f'data.transform=[ToTensor, "{step}"]'])
    assert len(caught.value.messages) == 1 and expected in caught.value.messages[0]
