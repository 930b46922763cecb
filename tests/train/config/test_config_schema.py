"""`tdt schema` is JSON Schema, takes every bundled config, and refuses what the checker refuses."""

from __future__ import annotations

import json

import jsonschema
import jsonschema_rs
import pytest

from tdt.cli import run
from tdt.train.config import ConfigErrors, bundled, find, loads, reader
from tdt.train.config.nodes import plain
from tdt.train.config.schema import as_json, schema

SCHEMA = schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
OLDER = jsonschema.Draft7Validator(SCHEMA)  # the draft by which editors' YAML extensions go
BUNDLED = {name: path.read_text(encoding="utf-8") for name, path in bundled().items()}


def errors(text: str) -> list[str]:
    written = plain(reader.read(text, "", ConfigErrors()))
    found = [error.json_path for error in VALIDATOR.iter_errors(written)]
    assert bool(found) == bool(list(OLDER.iter_errors(written)))
    return found


def test_it_is_a_schema_of_the_draft_it_names_and_of_the_one_that_editors_know(capsys, tmp_path):
    assert SCHEMA["$schema"] == VALIDATOR.META_SCHEMA["$id"]
    jsonschema_rs.meta.validate(SCHEMA)  # raises where it is none
    jsonschema_rs.meta.validate({**SCHEMA, "$schema": OLDER.META_SCHEMA["$id"]})
    assert run(["schema"]) == 0
    printed = capsys.readouterr().out
    assert json.loads(printed) == schema()  # of what is known by now
    assert run(["schema", "--output", str(tmp_path / "s.json")]) == 0
    assert (tmp_path / "s.json").read_text(encoding="utf-8") == printed


@pytest.mark.parametrize("name", BUNDLED)
def test_a_bundled_config_matches_the_schema_that_it_names(name: str):
    assert errors(BUNDLED[name]) == []
    first = BUNDLED[name].partition("\n")[0]
    assert first == "# yaml-language-server: $schema=tdt.schema.json"


def test_the_schema_beside_the_bundled_configs_is_what_is_printed():
    """Else: tdt schema --output configs/tdt.schema.json"""
    bundled = find.bundled_folder() / find.SCHEMA
    assert bundled.read_text(encoding="utf-8") == as_json(SCHEMA)


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
        ("dataset: Digits", "dataset: Digit"),
        ("dataset: Digits", "train: Digits\n  dataset: Digits"),
        ("dataset: Digits", "split: {valid: 0.1}"),
        ("dataset: Digits", "dataset: Digits\n  split: {valid: 1}"),
        ("dataset: Digits", "dataset: Digits\n  split: {val: 0.1}"),
    ],
)
def test_a_mistake_is_refused(old: str, new: str):
    assert old in BUNDLED["digits-cnn"]
    assert errors(BUNDLED["digits-cnn"].replace(old, new))


REST = """\
data: {train: Digits(split=train), valid: Digits(split=valid), transform: [ToTensor]}
metrics: [accuracy]
optimizer: {type: Adam, lr: 1e-3}
train: {epochs: 1}
"""
MODEL = 'model: [Flatten, "Linear(64, 10)"]\n'
LOSS = "loss: CrossEntropyLoss\n"
GRAPH = """\
model:
  graph:
    stem: Flatten
    left: ["Linear(64, 8)", ReLU]
    right: {type: Linear, in_features: 64, out_features: 8, from: stem}
    sum: {from: [left, right], layer: Add}
    digit: {type: Linear, in_features: 8, out_features: 10, from: sum}
    image: {layer: ["Linear(8, 64)", "Unflatten(1, [1, 8, 8])"], from: sum}
  outputs: [digit, image]
"""
LOSSES = """\
loss:
  digit: {type: CrossEntropyLoss, input: output/digit}
  image: {type: MSELoss, input: output/image, target: input, weight_in_total: 0.5}
"""
BLOCKS = """\
blocks:
  dense(inp, out, act=ReLU):
    linear: {type: Linear, in_features: inp, out_features: out}
    act: act
  twice(width): {type: Residual, body: ["dense(width, width)", {block: dense, inp: width, out: width}]}
model: [Flatten, "dense(64, 8)", {block: twice, width: 8}, {type: Repeat, times: 2, layer: twice(8)}, "Linear(8, 10)"]
"""
NESTED = """\
model:
  flatten: Flatten
  both: {type: Concat, branches: {one: "Linear(64, 8)", two: ["Linear(64, 8)", ReLU]}}
  deep: {type: Residual, body: {type: Repeat, times: 2, layer: {type: Linear, in_features: 16, out_features: 16}}}
  head: Linear(16, 10)
"""


@pytest.mark.parametrize(
    ("text", "stands_alone"),
    [
        (REST + GRAPH + LOSSES, True),
        (REST + BLOCKS + LOSS, True),
        (REST + NESTED + LOSS, True),
        (
            REST.replace("[accuracy]", "{top1: accuracy, top5: 'top_k(k=5)', top3: {type: top_k, k: 3}}")
            + MODEL
            + LOSS,
            True,
        ),
        (REST + MODEL + "loss: {type: MSELoss, target: input}\n", False),
        (REST + MODEL + LOSS + "name: a\nseed: ${env:SEED}\ncheckpoint: {best: 'valid/${name}'}\n", False),
        ("imports: [./mine.py]\n" + REST + LOSS + "model: [Mine, {type: Own, depth: 3}]\n", False),
        ("imports: {file: mine.py, sha256: 0ab1}\n" + REST + MODEL + "loss: OwnLoss(3)\n", False),
        ("extends: digits-cnn\noptimizer: {lr: 0.1}\n", True),
        ("extends: digits-cnn\nseed: ${train.epochs}\ntrain: {ema: 0.9, freeze: 'features.*'}\n", True),
        ("extends: digits-cnn\ndata: {loader: {batch_size: 8}, test: null}\nscheduler: null\n", True),
        ("extends: digits-cnn\nmodel: {features: {conv1: {out_channels: 32}}}\nloss: {label_smoothing: 0.1}\n", True),
    ],
)
def test_every_valid_config_matches_the_schema(text: str, stands_alone: bool):
    assert errors(text) == []
    if stands_alone:
        loads(text)


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (GRAPH + LOSSES, "from: stem", "form: stem"),
        (GRAPH + LOSSES, "from: stem", "from: 3"),
        (GRAPH + LOSSES, "from: stem", "from: []"),
        (GRAPH + LOSSES, "layer: Add", "layr: Add"),
        (GRAPH + LOSSES, "layer: Add", "layer: Ad"),
        (GRAPH + LOSSES, "type: Linear", "type: Liner"),
        (GRAPH + LOSSES, "in_features: 64", "in_feature: 64"),
        (GRAPH + LOSSES, "out_features: 8", "out_features: eight"),
        (GRAPH + LOSSES, "left: [", "left.one: ["),
        (GRAPH + LOSSES, "outputs:", "output:"),
        (GRAPH + LOSSES, "weight_in_total: 0.5", "weight_in_total: half"),
        (GRAPH + LOSSES, "weight_in_total: 0.5", "weight: 0.5"),
        (GRAPH + LOSSES, "input: output/image", "input: image"),
        (GRAPH + LOSSES, "image: {type", "accuracy: {type"),
        (GRAPH + LOSSES, "type: MSELoss", "type: MSE"),
        (BLOCKS + LOSS, "dense(inp, out, act=ReLU):", "dense inp out:"),
        (BLOCKS + LOSS, "dense(inp, out, act=ReLU):", "Linear(inp, out):"),
        (BLOCKS + LOSS, "in_features: inp", "in_feature: inp"),
        (BLOCKS + LOSS, "body:", "bdy:"),
        (BLOCKS + LOSS, "block: twice", "block: [twice]"),
        (BLOCKS + LOSS, "times: 2", "times: two"),
        (NESTED + LOSS, "body:", "layer:"),
        (NESTED + LOSS, "ReLU]", "ReLUU]"),
        (NESTED + LOSS, "in_features: 16", "in_features: 1.5"),
        (NESTED + LOSS, "branches: {one", "branches: {o.ne"),
        (NESTED + LOSS, "deep: {", "deep: {from: both, "),
        (NESTED + LOSS, "flatten: Flatten", "forward: Flatten"),
        (NESTED + LOSS, "flatten: Flatten", "flatten: {block: dense}"),
        (MODEL + LOSS, "CrossEntropyLoss", "{type: CrossEntropyLoss, weight_in_total: 2}"),
        (MODEL + LOSS, "CrossEntropyLoss", "{digit: CrossEntropyLoss, image: MSE}"),
        ("imports: 3\n" + MODEL + LOSS, "", ""),
        ("imports: [{fil: mine.py}]\n" + MODEL + LOSS, "", ""),
        ("extends: [digits-mlp]\n" + MODEL + LOSS, "", ""),
        (MODEL + LOSS + "weights: {only: 'a.*'}\n", "", ""),
    ],
)
def test_a_config_that_the_schema_does_not_allow_is_refused(text: str, old: str, new: str):
    assert old in text
    assert errors(REST + text.replace(old, new, 1))
