"""`tdt schema` is JSON Schema, takes every bundled config, and refuses what the checker refuses."""

from __future__ import annotations

import json

import jsonschema
import pytest

from tdt.cli import run
from tdt.train.config import ConfigErrors, bundled, reader
from tdt.train.config.nodes import plain
from tdt.train.config.schema import schema

SCHEMA = schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def errors(text: str) -> list[str]:
    return [error.json_path for error in VALIDATOR.iter_errors(plain(reader.read(text, "", ConfigErrors())))]


def test_it_is_a_schema_of_the_draft_it_names(capsys):
    VALIDATOR.check_schema(SCHEMA)
    assert run(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == SCHEMA


@pytest.mark.parametrize("name", bundled())
def test_a_bundled_config_fits(name: str):
    assert errors(bundled()[name].read_text()) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("seed: 0", "sede: 0"),
        ("seed: 0", "seed: [0]"),
        ("batch_size: 32", "batch_size: 0"),
        ("shuffle: true", "shuffle: 3"),
        ("pool: MaxPool2d(2)", "pool: MaxPol2d(2)"),
        ("pool: MaxPool2d(2)", "pool: {type: MaxPool2d, kernel: 2}"),
        ("pool: MaxPool2d(2)", "pool: {type: MaxPool2d}"),
        ("pool: MaxPool2d(2)", "pool: {type: MaxPool2d, kernel_size: two, ceil_mode: 1}"),
        ("type: SGD", "type: SDG"),
        ("lr: 5e-2", "lr: fast"),
        ("momentum: 0.9", "momentun: 0.9"),
        ("loss: CrossEntropyLoss", "loss: CrossEntropy"),
        ("loss: CrossEntropyLoss", "los: CrossEntropyLoss"),
        ("metrics: [accuracy]", "metrics: [acuracy]"),
        ("with: zeros_", "with: zeros"),
        ("epochs: 10", "epochs: ten"),
        ("every: 20 steps", "every: 20"),
        ("test: Digits(split=test)", "test: Digit(split=test)"),
    ],
)
def test_a_mistake_is_refused(old: str, new: str):
    text = bundled()["digits-cnn"].read_text()
    assert old in text
    assert errors(text.replace(old, new))


@pytest.mark.parametrize(
    "text",
    [
        "extends: digits-cnn\noptimizer: {lr: 0.1}\n",
        "extends: digits-cnn\nseed: ${env:SEED}\ntrain: {epochs: '${seed}', ema: 0.9, freeze: 'features.*'}\n",
    ],
)
def test_references_and_configs_that_extend_fit(text: str):
    assert errors(text) == []
