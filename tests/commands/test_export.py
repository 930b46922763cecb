"""`tdt export`: every bundled config as ONNX, weights alone, folders that transformers loads; errors leave nothing."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import tdt as library
from tdt.train import fit
from tdt.train.config import bundled, load
from tdt.train.data.tokenizer import Tokenizer
from tdt.train.session import Session
from tests.commands.running import tdt_here
from tests.configs.small_data import OVERRIDES, write_all
from tests.helpers import require, require_torch
from tests.train.tokenizer_files import REVIEWS, word_piece

STEPS = ["device=cpu", "train.epochs=1", "train.steps=1", "data.loader.batch_size=4", "checkpoint.every=1 step"]


def session_of(path: Path) -> Any:
    return require("onnxruntime").InferenceSession(str(path), providers=["CPUExecutionProvider"])


def metadata_of(session: Any) -> dict[str, Any]:
    found = session.get_modelmeta().custom_metadata_map
    return {
        key: value if key in ("input", "name", "tdt_version") else json.loads(value) for key, value in found.items()
    }


@pytest.mark.parametrize("name", bundled())
def test_every_bundled_config_is_exported_and_checked(name: str, tmp_path: Path):
    require("onnxruntime")
    with write_all(tmp_path) as folder:
        more = OVERRIDES.get(name, lambda folder: [])(folder)
        with Session.start(load(name, [*STEPS, *more]), root=tmp_path / "runs") as session:
            session.train()
        done = tdt_here("export", name, "--to", "onnx", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["difference"] <= 1e-5 and not found["notes"]
    session = session_of(tmp_path / f"{name}.onnx")
    assert [entry.shape[0] for entry in (*session.get_inputs(), *session.get_outputs())] == ["batch", "batch"]
    metadata = metadata_of(session)
    assert metadata["name"] == name and metadata["tdt_version"] == library.__version__
    if name == "iris-mlp":
        assert [column["name"] for column in metadata["columns"]][0] == "sepal_length"
    if name in ("digits-mlp", "resnet20", "iris-mlp"):
        assert len(metadata["classes"]) == session.get_outputs()[0].shape[1]


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that has runs/small, of a network on the digits."""
    folder = tmp_path_factory.mktemp("digits")
    config = {
        "name": "small",
        "device": "cpu",
        "data": {"train": "Digits(split=train)", "valid": "Digits(split=valid)",
                 "transform": ["ToTensor", "Normalize(0.4, 0.3)"], "loader": {"batch_size": 128}},
        "model": {"flatten": "Flatten", "inner": "Linear(64, 16)", "relu": "ReLU", "outer": "Linear(16, 10)"},
        "loss": "CrossEntropyLoss",
        "optimizer": "Adam(lr=1e-2)",
        "train": {"epochs": 2},
    }  # fmt: skip
    fit(config, root=folder / "runs", quiet=True)
    return folder


def test_an_onnx_file_takes_pixels_and_gives_what_tdt_predicts(digits: Path):
    done = tdt_here("export", "small", "--to", "onnx", "--output", "small.onnx", cwd=digits)
    assert done.returncode == 0, done.stderr
    assert "input image: float32 (batch, 8, 8)\noutput logits: float32 (batch, 10)\n" in done.stdout
    assert done.stdout.endswith("on the valid split, in batches of 1 and 7\nwrote small.onnx\n")
    model = library.load_model("small", root=digits / "runs")
    from tdt.vision.datasets import Digits

    images = Digits("test").data[:5]
    (logits,) = session_of(digits / "small.onnx").run(None, {"image": images.astype(np.float32)})
    for row, answer in zip(logits, model.predict(images), strict=True):
        scores = np.exp(row - row.max())
        np.testing.assert_allclose(
            scores / scores.sum(), [answer.probabilities[str(k)] for k in range(10)], rtol=1e-5, atol=1e-6
        )
    onnx = require("onnx")
    proto = onnx.load(digits / "small.onnx")
    assert {"inner.weight", "inner.bias", "outer.weight"} <= {tensor.name for tensor in proto.graph.initializer}


def test_a_table_of_numbers_takes_them_as_they_are_in_the_file(tmp_path: Path):
    draw = np.random.RandomState(0)
    lines = [
        f"{1e5 * a:.3f},{'' if i % 7 == 0 else b},{3e5 + 1e4 * (a + b):.1f}"
        for i, (a, b) in enumerate(draw.rand(60, 2))
    ]
    (tmp_path / "houses.csv").write_text("\n".join(["area,rooms,price", *lines]))
    table = {"type": "Table", "path": str(tmp_path / "houses.csv"), "target": "price", "valid": 0.2}
    config = {
        "name": "houses",
        "device": "cpu",
        "data": {"train": {**table, "split": "train"}, "valid": {**table, "split": "valid"}},
        "targets": {"scale": "standard"},
        "model": ["Linear(2, 4)", "Tanh", "Linear(4, 1)"],
        "loss": "MSELoss",
        "optimizer": "Adam(lr=1e-2)",
        "train": {"epochs": 1},
    }
    fit(config, root=tmp_path / "runs", quiet=True)
    done = tdt_here("export", "houses", "--to", "onnx", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "input columns: float64 (batch, 2)\noutput output: float32 (batch, 1)\n" in done.stdout
    session = session_of(tmp_path / "houses.onnx")
    rows = [{"area": 2e4, "rooms": 0.5}, {"area": 9e4, "rooms": None}]
    (prices,) = session.run(None, {"columns": np.array([[2e4, 0.5], [9e4, np.nan]])})
    expected = [answer.value for answer in library.load_model("houses", root=tmp_path / "runs").predict(rows)]
    np.testing.assert_allclose(prices[:, 0], expected, rtol=1e-6)
    assert [column["name"] for column in metadata_of(session)["columns"]] == ["area", "rooms"]


def test_transforms_before_the_pixels_are_named(tmp_path: Path):
    draw = np.random.RandomState(0)
    for name in ("train/a", "train/b"):
        (tmp_path / name).mkdir(parents=True)
        for number in range(4):
            Image.fromarray(draw.randint(0, 256, (9, 12, 3)).astype(np.uint8)).save(tmp_path / name / f"{number}.png")
    config = {
        "name": "pets",
        "device": "cpu",
        "data": {"train": {"type": "ImageFolder", "root": str(tmp_path / "train")},
                 "transform": ["Resize([6, 6])", "ToTensor", "Normalize([0.5, 0.4, 0.3], 0.2)"]},
        "model": ["Conv2d(3, 4, 3)", "Flatten", "Linear(64, 2)"],
        "loss": "CrossEntropyLoss",
        "optimizer": "SGD(lr=0.1)",
        "train": {"epochs": 1},
    }  # fmt: skip
    fit(config, root=tmp_path / "runs", quiet=True)
    for path in (tmp_path / "train").rglob("*.png"):
        path.unlink()
    done = tdt_here("export", "pets", "--to", "onnx", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "input image: uint8 (batch, 6, 6, 3)\n" in done.stdout
    assert "on random inputs" in done.stdout and "note: before the model, apply Resize(" in done.stdout
    metadata = metadata_of(session_of(tmp_path / "pets.onnx"))
    assert metadata["classes"] == ["a", "b"] and metadata["preprocessing"]["inside"][0] == "ToTensor()"
    assert metadata["preprocessing"]["before"][0].startswith("Resize(")


PETS = "weight,length,colour,kind,age\n4,46,black,cat,3\n30,90,brown,dog,5\n5,50,white,cat,12\n22,70,black,dog,1\n"


def test_several_inputs_and_outputs_keep_their_names(tmp_path: Path):
    (tmp_path / "pets.csv").write_text(PETS)
    config = {
        "name": "pets",
        "device": "cpu",
        "data": {"train": {"type": "Table", "path": str(tmp_path / "pets.csv"), "target": "kind",
                           "columns": {"body": ["weight", "length"], "looks": ["colour"]}}},
        "model": {
            "graph": {
                "size": {"type": "Linear", "in_features": 2, "out_features": 4, "from": "body"},
                "coat": {"type": "Linear", "in_features": 3, "out_features": 4, "from": "looks"},
                "sum": {"type": "Add", "from": ["size", "coat"]},
                "kind": ["ReLU", "Linear(4, 2)"],
                "also": {"type": "Linear", "in_features": 4, "out_features": 3, "from": "sum"},
            },
            "inputs": ["body", "looks"],
            "outputs": ["kind", "also"],
        },
        "loss": {"type": "CrossEntropyLoss", "input": "output/kind"},
        "optimizer": "Adam(lr=1e-2)",
        "train": {"epochs": 1},
    }  # fmt: skip
    fit(config, root=tmp_path / "runs", quiet=True)
    done = tdt_here("export", "pets", "--to", "onnx", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [(one["name"], one["shape"]) for one in (*found["inputs"], *found["outputs"])] == [
        ("body", ["batch", 2]), ("looks", ["batch", 3]), ("kind", ["batch", 2]), ("also", ["batch", 3])
    ]  # fmt: skip


def test_a_model_in_float64_is_exported_in_float64(tmp_path: Path):
    config = [*STEPS, "dtype=float64", "name=wide"]
    fit(load("digits-mlp", config), root=tmp_path / "runs", quiet=True)
    done = tdt_here("export", "wide", "--to", "onnx", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "input image: float32 (batch, 8, 8)\noutput logits: float64 (batch, 10)\n" in done.stdout


def test_a_tokenizer_goes_along_and_transformers_names_the_classes(tmp_path: Path):
    transformers = require("transformers")
    require("tokenizers")
    word_piece(tmp_path / "tokenizer.json")
    with (tmp_path / "reviews.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [("text", "opinion"), *[(text, "good" if word == "yes" else "bad") for text, word in REVIEWS * 4]]
        )
    size = len(Tokenizer.of(tmp_path).tokens)
    config = {
        "name": "reviews",
        "device": "cpu",
        "data": {"train": {"type": "Table", "path": str(tmp_path / "reviews.csv"), "target": "opinion",
                           "columns": {"text": "text"}, "tokenizer": str(tmp_path / "tokenizer.json"), "length": 8}},
        "model": {"type": "BertForSequenceClassification", **BERT, "vocab_size": size, "num_labels": 2},
        "loss": "CrossEntropyLoss",
        "optimizer": "SGD(lr=0.1)",
        "train": {"epochs": 1, "steps": 1},
    }  # fmt: skip
    fit(config, root=tmp_path / "runs", quiet=True)
    done = tdt_here("export", "reviews", "--to", "hf", "--output", "folder", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "folder" / "tokenizer.json").read_text() == (tmp_path / "tokenizer.json").read_text()
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "folder").eval()
    assert theirs.config.id2label == {0: "bad", 1: "good"}
    tokens = np.random.RandomState(0).randint(1, size, (3, 8))
    ours = library.load_model("reviews", root=tmp_path / "runs")(library.tensor(tokens)).detach().numpy()
    np.testing.assert_allclose(ours, theirs(require_torch().tensor(tokens)).logits.detach().numpy(), atol=1e-5)
    done = tdt_here("export", "reviews", "--to", "onnx", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "input tokens: int64 (batch, 8)\noutput logits: float32 (batch, 2)\n" in done.stdout


def test_a_safetensors_file_has_the_best_weights_alone(digits: Path):
    torch_files = pytest.importorskip("safetensors.numpy")
    done = tdt_here("export", "small", "--to", "safetensors", "--output", "w.safetensors", cwd=digits)
    assert done.returncode == 0, done.stderr
    found = torch_files.load_file(digits / "w.safetensors")
    state = library.load_model("small", root=digits / "runs").module.state_dict()
    assert {name: array.tolist() for name, array in found.items()} == {name: t.tolist() for name, t in state.items()}


GPT = {"vocab_size": 256, "n_positions": 8, "n_embd": 16, "n_layer": 2, "n_head": 2, "class_dim": 1}
BERT = {"vocab_size": 256, "max_position_embeddings": 16, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
        "num_attention_heads": 4}  # fmt: skip
TEXTS: dict[str, dict[str, Any]] = {
    "GPT2LMHeadModel": GPT,
    "LlamaForCausalLM": {**BERT, "num_key_value_heads": 2, "class_dim": 1},
    "BertForMaskedLM": {**BERT, "class_dim": 1},
    "DistilBertForMaskedLM": {"vocab_size": 256, "max_position_embeddings": 8, "dim": 16, "hidden_dim": 24, "n_layers": 2,
                              "n_heads": 2, "class_dim": 1},
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_transformers_loads_the_folder_of_its_architectures(name: str, tmp_path: Path):
    transformers = require("transformers")
    torch = require_torch()
    (tmp_path / "text.txt").write_bytes(bytes(range(32, 127)) * 20)
    config = {
        "name": "texts",
        "device": "cpu",
        "data": {split: {"type": "Text", "path": str(tmp_path / "text.txt"), "length": 8, "tokens": "bytes", "split": split}
                 for split in ("train", "valid")},
        "model": {"type": name, **TEXTS[name]},
        "loss": "CrossEntropyLoss",
        "optimizer": "SGD(lr=0.1)",
        "train": {"epochs": 1, "steps": 1},
    }  # fmt: skip
    fit(config, root=tmp_path / "runs", quiet=True)
    done = tdt_here("export", "texts", "--to", "hf", "--output", "folder", cwd=tmp_path)
    assert done.returncode == 0 and "note" not in done.stdout, done.stderr
    assert {path.name for path in (tmp_path / "folder").iterdir()} == {"config.json", "model.safetensors", "tdt.yaml"}
    whole = getattr(transformers, name).from_pretrained(tmp_path / "folder").eval()
    body, info = transformers.AutoModel.from_pretrained(tmp_path / "folder", output_loading_info=True)
    assert not [key for key in info["missing_keys"] if "pooler" not in key]
    tokens = np.random.RandomState(0).randint(1, 256, (3, 8))
    ours = library.load_model("texts", root=tmp_path / "runs")(library.tensor(tokens)).detach().numpy()
    with torch.no_grad():
        theirs = whole(torch.tensor(tokens)).logits.numpy().swapaxes(1, 2)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    assert tdt_here("export", "texts", "--to", "onnx", cwd=tmp_path).returncode == 0


def test_a_folder_of_another_architecture_starts_a_new_run(digits: Path):
    done = tdt_here("export", "small", "--to", "hf", cwd=digits)
    assert done.returncode == 0, done.stderr
    assert "note: transformers has no such architecture" in done.stdout
    found = json.loads((digits / "small-hf" / "config.json").read_text())
    assert found["architectures"] == ["Sequential"] and found["id2label"]["3"] == "3"
    more = ["train.epochs=1", "optimizer.lr=0"]
    done = tdt_here("train", "small-hf/tdt.yaml", *more, "+weights.from=small-hf", "name=again", cwd=digits)
    done = done if done.returncode == 0 else tdt_here(
        "train", "small-hf/tdt.yaml", *more, "weights.from=small-hf", "name=again", cwd=digits)  # fmt: skip
    assert done.returncode == 0, done.stderr
    before, after = (
        library.load_model(name, root=digits / "runs").module.state_dict()["inner.weight"]
        for name in ("small", "again")
    )
    assert (before == after).all()


def test_what_exists_is_replaced_only_by_force(digits: Path):
    for target, output in (("onnx", "a.onnx"), ("safetensors", "a.safetensors"), ("hf", "a-hf")):
        command = ("export", "small", "--to", target, "--output", output)
        assert tdt_here(*command, cwd=digits).returncode == 0
        again = tdt_here(*command, cwd=digits)
        assert again.returncode == 2 and f"{output} exists; give --force to replace it" in again.stderr
        assert tdt_here(*command, "--force", cwd=digits).returncode == 0
    own = digits / "own"
    own.mkdir()
    (own / "thesis.txt").write_text("x")
    refused = tdt_here("export", "small", "--to", "hf", "--output", "own", "--force", cwd=digits)
    assert refused.returncode == 1 and "own: is not a folder that tdt export wrote" in refused.stderr
    refused = tdt_here("export", "small", "--to", "onnx", "--output", "own", "--force", cwd=digits)
    assert refused.returncode == 2 and "own is a folder; name a file" in refused.stderr
    assert (own / "thesis.txt").read_text() == "x" and not [*digits.glob(".*")]


@pytest.mark.parametrize("target", ["onnx", "safetensors", "hf"])
def test_a_place_that_cannot_be_written_is_named(target: str, digits: Path):
    (digits / "file").write_text("")
    for place, reason in (("file/x", "Not a directory"), ("missing/x", "No such file or directory")):
        done = tdt_here("export", "small", "--to", target, "--output", place, cwd=digits)
        assert done.returncode == 1 and f"{place.partition('/')[0]}/: {reason}" in done.stderr


def test_the_checkpoint_itself_is_not_replaced(digits: Path):
    checkpoint = next((digits / "runs" / "small" / "1" / "checkpoints").glob("best*"))
    before = checkpoint.read_bytes()
    done = tdt_here("export", "small", "--to", "onnx", "--output", str(checkpoint), "--force", cwd=digits)
    assert done.returncode == 2 and "is an input, and would be replaced" in done.stderr
    assert checkpoint.read_bytes() == before


def test_weights_that_do_not_fit_into_the_file_stand_beside_it(digits: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tdt.onnx._export.MOST_BYTES", 1000)
    done = tdt_here("export", "small", "--to", "onnx", "--output", "large.onnx", cwd=digits)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in digits.glob("*large*")} == {"large.onnx", "large.onnx.data"} and not [
        *digits.glob(".*")
    ]
    assert session_of(digits / "large.onnx").run(None, {"image": np.zeros((2, 8, 8), np.float32)})[0].shape == (2, 10)


def test_a_wrong_graph_is_not_saved(digits: Path, monkeypatch: pytest.MonkeyPatch):
    require("onnxruntime")
    from tdt.onnx._forms import FORMS

    monkeypatch.setitem(FORMS, "relu", lambda graph, x: graph.op("Sin", x))
    done = tdt_here("export", "small", "--to", "onnx", "--output", "wrong.onnx", cwd=digits)
    assert done.returncode == 1
    assert "is wrong, and was not kept: output 'logits' for image (1, 8, 8) differs by" in done.stderr
    monkeypatch.delitem(FORMS, "relu")
    monkeypatch.setattr("tdt.onnx._convert.formula_of", lambda op: None)
    done = tdt_here("export", "small", "--to", "onnx", "--output", "wrong.onnx", cwd=digits)
    assert done.returncode == 1 and "cannot be exported to ONNX: relu: op relu has no form in ONNX" in done.stderr
    assert not [*digits.glob("*wrong*"), *digits.glob(".*")]


def test_without_the_packages_the_extra_is_named(digits: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    done = tdt_here("export", "small", "--to", "onnx", "--output", "no.onnx", cwd=digits)
    assert done.returncode == 2
    assert done.stderr == "error: tdt export --to onnx needs onnx and onnxruntime: pip install 'tdt-train[onnx]'\n"
    assert tdt_here("export", "small", "--to", "safetensors", "--output", "no.safetensors", cwd=digits).returncode == 0


def test_a_run_that_does_not_exist_is_named(tmp_path: Path):
    done = tdt_here("export", "nothing", "--to", "hf", cwd=tmp_path)
    assert done.returncode == 2 and "nothing" in done.stderr
