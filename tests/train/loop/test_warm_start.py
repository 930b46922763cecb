"""`weights: {from: …}`: what is taken, and where what does not fit is reported."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

import tdt
from tdt.train.config import ConfigError, loads
from tdt.train.loop.build import build
from tdt.train.loop.parts import Parts
from tdt.train.loop.warm_start import warm_start
from tdt.train.runs import checkpoint
from tests.helpers import require, require_torch

CONFIG = """\
device: cpu
data:
  train: Digits
  transform: [ToTensor]
model:
  flatten: Flatten
  body: ["Linear(64, 8)", ReLU]
  head: Linear(8, 10)
loss: CrossEntropyLoss
optimizer: SGD(lr=0.1)
train: {epochs: 1}
weights: {from: SOURCE, MORE}
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    shapes = {"old.0.weight": (8, 64), "old.0.bias": (8,), "head.weight": (5, 8), "head.bias": (5,)}
    tensors = {f"model/{name}": rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    path = tmp_path / "source.safetensors"
    checkpoint.save(path, tensors, {"step": 3})
    return path


def started(source: Path | str, more: str) -> tuple[Parts, Any]:
    text = CONFIG.replace("SOURCE", str(source)).replace(", MORE", f", {more}" if more else "")
    parts = build(loads(text, "c.yaml"))
    return parts, warm_start(parts, source.parent if isinstance(source, Path) else "nowhere")


def messages(source: Path | str, more: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        started(source, more)
    return caught.value.messages


def test_renamed_and_chosen_weights_are_loaded_and_the_others_are_left(source):
    parts, report = started(source, 'map: {old: body}, only: "body.*"')
    saved, _ = checkpoint.load(source)
    assert np.array_equal(parts.model.body[0].weight.detach().numpy(), saved["model/old.0.weight"])
    assert parts.model.head.weight.shape == (10, 8)
    record = report.record()
    assert record.pop("file")["size"] == source.stat().st_size
    assert record == {
        "checkpoint": str(source), "step": 3, "taken": ["body.0.bias", "body.0.weight"],
        "initial": ["head.bias", "head.weight"], "unused": [],
    }  # fmt: skip


def test_not_strict_takes_what_fits(source):
    _, report = started(source, "map: {old: body}, strict: false")
    assert sorted(report.tensors) == ["body.0.bias", "body.0.weight"]


def test_missing_names_and_other_shapes_are_all_reported(source):
    found = messages(source, "")
    assert all(message.startswith("c.yaml:12:") for message in found)
    assert sum("has no body.0." in message for message in found) == 2
    assert sum("head." in message and "(5" in message and "(10" in message for message in found) == 2


def test_a_pattern_and_a_prefix_that_match_nothing(source):
    found = messages(source, 'map: {oldd: body}, only: ["bdy.*"]')
    assert any("'bdy.*' matches no parameter" in message for message in found)
    assert any("begins with 'oldd'" in message and "did you mean 'old" in message for message in found)


def test_nothing_that_fits_is_an_error_even_if_not_strict(source):
    assert "nothing in" in messages(source, "strict: false, only: head.weight")[0]


def test_a_run_that_is_not_there(tmp_path):
    [message] = messages("no-such-run", "")
    assert message.startswith("c.yaml:12:17: weights.from: no run 'no-such-run'")


def test_a_config_without_weights_starts_afresh():
    text = CONFIG[: CONFIG.index("weights:")]
    assert warm_start(build(loads(text)), "runs") is None


SHAPES = {"body.0.weight": (8, 64), "body.0.bias": (8,), "head.weight": (10, 8), "head.bias": (10,)}


def state(prefix: str = "", **shapes: tuple[int, ...]) -> dict[str, tdt.Tensor]:
    rng = np.random.default_rng(0)
    named = SHAPES | {name.replace("__", "."): shape for name, shape in shapes.items()}
    return {prefix + name: tdt.from_numpy(rng.normal(size=size).astype(np.float32)) for name, size in named.items()}


def arrays(tensors: dict[str, tdt.Tensor]) -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in tensors.items()}


def write(folder: Path, kind: str) -> Path:
    """A file of `state()`, or a folder, as another program would write it."""
    tensors = state("module._orig_mod." if kind == "compiled" else "model." if kind == "lightning" else "")
    if kind in ("plain", "folder"):
        safetensors.numpy.save_file(arrays(tensors), folder / "model.safetensors", {"format": "pt"})
        return folder / "model.safetensors" if kind == "plain" else folder
    if kind in ("index", "folder of parts"):
        parts = {
            "part-1.safetensors": ["body.0.weight"],
            "part-2.safetensors": ["body.0.bias", "head.weight", "head.bias"],
        }
        for part, names in parts.items():
            safetensors.numpy.save_file(arrays({name: tensors[name] for name in names}), folder / part)
        index = {"metadata": {}, "weight_map": {name: part for part, names in parts.items() for name in names}}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
        return folder / "model.safetensors.index.json" if kind == "index" else folder
    nested = {"state_dict": tensors, "epoch": 3} if kind == "lightning" else {"model": {"state_dict": tensors}}
    path = folder / ("weights.bin" if kind == "bin" else "weights.pth")
    tdt.save(nested if kind in ("lightning", "nested twice") else tensors, path)
    return path


KINDS = ["plain", "folder", "index", "folder of parts", "pth", "bin", "compiled", "lightning", "nested twice"]


@pytest.mark.parametrize("kind", KINDS)
def test_files_of_other_programs_are_read(kind, tmp_path):
    path = write(tmp_path, kind)
    parts, loading = started(path, "")
    for name, tensor in parts.model.state_dict().items():
        assert np.array_equal(tensor.numpy(), state()[name].numpy()), name
    removed = {"compiled": "module._orig_mod.", "lightning": "model."}.get(kind, "")
    assert (
        loading.changes == ((f"with {removed!r} removed from its names",) if removed else ()) and loading.step is None
    )
    assert loading.lines()[0].startswith(f"weights: all 4 tensors from {tmp_path}") and len(loading.lines()) == 1
    assert len(loading.files) == (3 if kind in ("index", "folder of parts") else 1)


def test_half_precision_is_read(tmp_path):
    tensors = {name: tensor.bfloat16() for name, tensor in state().items()}
    header, data = {}, b""
    for name, tensor in tensors.items():
        raw = tensor.view(tdt.uint16).numpy().tobytes()
        header[name] = {"dtype": "BF16", "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    (tmp_path / "x.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
    parts, _ = started(tmp_path / "x.safetensors", "")
    assert tdt.equal(parts.model.head.weight.detach(), tensors["head.weight"].float())


def test_a_new_head_keeps_its_initial_values_and_is_printed(tmp_path):
    path = tmp_path / "pretrained.pt"
    tdt.save(state(head__weight=(1000, 8), head__bias=(1000,), extra__weight=(2, 3)), path)
    refused = messages(path, "")
    assert len(refused) == 2 and "head.weight is (1000, 8) in" in refused[0]
    assert "but (10, 8) here; keep its initial values with skip: head*" in refused[0]
    parts, loading = started(path, 'skip: "head*"')
    assert sorted(loading.tensors) == ["body.0.bias", "body.0.weight"] and parts.model.head.weight.abs().max() < 0.4
    assert loading.lines() == [
        f"weights: 2 of 4 tensors from {path}",
        "  head.weight   (10, 8) here, (1000, 8) in the file, initial values: in skip",
        "  head.bias     (10,) here, (1000,) in the file, initial values: in skip",
        "  extra.weight  (2, 3) in the file, unused",
    ]
    assert "'haed*' matches no parameter" in messages(path, 'skip: "haed*"')[0]


def test_a_prefix_can_be_put_before_every_name(tmp_path):
    tdt.save({"0.weight": tdt.ones(8, 64), "0.bias": tdt.ones(8)}, tmp_path / "body.pt")
    parts, _ = started(tmp_path / "body.pt", 'map: {"*": body}, skip: "head*"')
    assert parts.model.body[0].weight.min() == 1


def test_no_match_at_all_is_one_error_with_names_of_both_sides(tmp_path):
    tdt.save({f"encoder.{i}.weight": tdt.ones(2) for i in range(9)}, tmp_path / "other.pt")
    for more in ("", "strict: false"):
        [message] = messages(tmp_path / "other.pt", more)
        assert "which has body.0.weight, body.0.bias, head.weight, …; the file has encoder.0.weight," in message
    assert "leave nothing of this model" in messages(tmp_path / "other.pt", 'skip: "*"')[0]


def test_many_missing_names_are_counted(tmp_path):
    config = CONFIG.replace("head: Linear(8, 10)", "head: [" + "'Linear(8, 8)', " * 9 + "'Linear(8, 10)']")
    tdt.save({"body.0.weight": tdt.ones(8, 64), "body.0.bias": tdt.ones(8)}, tmp_path / "x.pt")
    text = config.replace("SOURCE", str(tmp_path / "x.pt")).replace(", MORE", "")
    with pytest.raises(ConfigError) as caught:
        warm_start(build(loads(text)), "nowhere")
    assert len(caught.value.messages) == 11 and "10 more names are not in the file" in str(caught.value)


def test_whole_numbers_do_not_become_weights(tmp_path):
    tdt.save({name: tensor.to(tdt.int8) for name, tensor in state().items()}, tmp_path / "quantised.pt")
    assert "body.0.weight is tdt.int8 in" in messages(tmp_path / "quantised.pt", "")[0]


class Evil:
    def __reduce__(self):
        return os.mkdir, ("evil",)


def by_hand(offsets: dict[str, list[int]], dtype: str = "F32") -> bytes:
    """A safetensors file of tensors of two values whose header says that they are at `offsets`."""
    header = {name: {"dtype": dtype, "shape": [2], "data_offsets": place} for name, place in offsets.items()}
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(min(20, max(end for _, end in offsets.values())))


def _hostile(folder: Path) -> dict[str, tuple[Path, str]]:
    """Files that are damaged or meant to harm, with a part of the message."""
    plain, zipped = write(folder, "plain"), write(folder, "pth")
    files: dict[str, tuple[Any, str]] = {
        "truncated.safetensors": (plain.read_bytes()[:-9], "damaged or not a checkpoint"),
        "header.safetensors": (b"\xff" * 7 + b"\x7f{", "damaged or not a checkpoint"),
        "empty.safetensors": (b"", "damaged or not a checkpoint"),
        "truncated.pth": (zipped.read_bytes()[:-9], "cannot be read"),
        "empty.pt": (b"", "cannot be read"),
        "overlap.safetensors": (by_hand({"a": [0, 8], "b": [4, 12]}), "damaged or not a checkpoint"),
        "gap.safetensors": (by_hand({"a": [0, 8], "b": [12, 20]}), "damaged or not a checkpoint"),
        "outside.safetensors": (by_hand({"a": [0, 1 << 60]}), "damaged or not a checkpoint"),
        "dtype.safetensors": (by_hand({"a": [0, 8]}, "F31"), "damaged or not a checkpoint"),
        "small.safetensors": (by_hand({"a": [0, 1]}, "F4"), "a is F4, a dtype that tdt does not have"),
        "sizes.safetensors": (by_hand({"a": [0, 12]}), "damaged or not a checkpoint"),
        "text.bin": (b"not a file of weights", "text.bin: "),
        "code.pt": (pickle.dumps({"weight": Evil()}), "code.pt: "),
        "outside.index.json": (json.dumps({"weight_map": {"a": "../model.safetensors"}}).encode(), "in its own folder"),
        "lost.index.json": (
            json.dumps({"weight_map": {"a": "lost.safetensors"}}).encode(),
            "which is not in its folder",
        ),
        "name.index.json": (json.dumps({"weight_map": {"a": "model.safetensors"}}).encode(), "has no a, which"),
        "deep.index.json": (b"[" * 100_000, "is no index"),
        "list.index.json": (b"[]", "expected weight_map"),
    }
    found = {}
    for name, (content, message) in files.items():
        (folder / name).write_bytes(content)
        found[name] = (folder / name, message)
    tdt.save([tdt.ones(2)], folder / "list.pt")
    tdt.save({"weight": tdt.ones(2, device="meta")}, folder / "meta.pt")
    found["list.pt"] = folder / "list.pt", "holds no tensors by name"
    found["meta.pt"] = folder / "meta.pt", "has no values"
    found["absent.pth"] = folder / "absent.pth", "no such file"
    return found


def test_damaged_and_hostile_files_are_errors_that_run_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path, expected in _hostile(tmp_path).values():
        [message] = messages(path, "")
        assert "weights.from: " in message and expected in message, message
    assert not (tmp_path / "evil").exists()
    (tmp_path / "model.safetensors").unlink()
    assert "has several files of weights; give one of them" in messages(tmp_path, "")[0]


def test_a_file_of_timm_is_recognised_by_its_names(tmp_path):
    model = '["VisionTransformer(8, 4, 1, 2, 8, 16, num_classes=10)"]'
    text = CONFIG[: CONFIG.index("model:")] + f"model: {model}\n" + CONFIG[CONFIG.index("loss:") :]
    text = text.replace("[ToTensor]", "[ToTensor, Grayscale(num_output_channels=3)]").replace(
        "SOURCE, MORE", f"{tmp_path / 'timm.pt'}, map: {{'*': '0'}}, only: '*.ln_1.*'"
    )
    tdt.save({"blocks.0.norm1.weight": tdt.full((8,), 3.0), "blocks.0.norm1.bias": tdt.ones(8)}, tmp_path / "timm.pt")
    parts = build(loads(text))
    loading = warm_start(parts, "nowhere")
    assert parts.model.state_dict()["0.encoder.layers.encoder_layer_0.ln_1.weight"].min() == 3
    assert loading is not None and loading.lines()[0].endswith("timm.pt, a file of timm ViT")


def test_prefixes_are_removed_before_the_names_of_a_library_are_replaced(tmp_path):
    model = "VisionTransformer(8, 4, 1, 2, 8, 16, num_classes=10)"
    text = CONFIG[: CONFIG.index("model:")] + f'model: {{net: "{model}"}}\n' + CONFIG[CONFIG.index("loss:") :]
    text = text.replace("[ToTensor]", "[ToTensor, Grayscale(num_output_channels=3)]")
    text = text.replace("SOURCE, MORE", f"{tmp_path / 'timm.pt'}, only: '*.ln_1.*'")
    names = ("module.backbone.blocks.0.norm1.weight", "module.backbone.blocks.0.norm1.bias")
    tdt.save({name: tdt.full((8,), 3.0) for name in names}, tmp_path / "timm.pt")
    parts = build(loads(text))
    loading = warm_start(parts, "nowhere")
    assert parts.model.state_dict()["net.encoder.layers.encoder_layer_0.ln_1.bias"].min() == 3
    assert loading is not None and loading.changes == (
        "with 'module.backbone.' removed from its names",
        "a file of timm ViT",
        "with 'net.' put before its names",
    )


TEXTS = """\
device: cpu
data: {train: {type: Text, path: PATH, length: 8, tokens: bytes}}
model: {type: GPT2LMHeadModel, vocab_size: 256, n_embd: 16, n_layer: 2, n_head: 2, n_positions: 16, class_dim: 1}
loss: CrossEntropyLoss
optimizer: SGD(lr=0.1)
train: {epochs: 1}
weights: {from: SOURCE}
"""


@pytest.mark.parametrize("part", ["whole", "shards", "transformer"])
def test_a_gpt2_file_without_the_tied_output_layer_has_the_logits_of_transformers(tmp_path, part):
    torch, transformers = require_torch(), require("transformers")
    torch.manual_seed(0)
    theirs = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=256, n_embd=16, n_layer=2, n_head=2, n_positions=16)
    ).eval()
    size = "10KB" if part == "shards" else "1GB"
    (theirs.transformer if part == "transformer" else theirs).save_pretrained(tmp_path / "gpt2", max_shard_size=size)
    (tmp_path / "text.txt").write_text("hello " * 50)
    assert (tmp_path / "gpt2/model.safetensors.index.json").exists() == (part == "shards")
    parts = build(loads(TEXTS.replace("PATH", str(tmp_path / "text.txt")).replace("SOURCE", str(tmp_path / "gpt2"))))
    loading = warm_start(parts, "nowhere")
    assert loading is not None and not loading.initial and "lm_head.weight" not in loading.tensors
    tokens = np.arange(24).reshape(2, 12) * 7
    with torch.no_grad(), tdt.no_grad():
        expected = theirs(torch.from_numpy(tokens)).logits.numpy()
        found = parts.model.eval()(tdt.from_numpy(tokens)).numpy()
    np.testing.assert_allclose(found.transpose(0, 2, 1), expected, rtol=1e-5, atol=1e-5)


def test_a_tied_weight_that_differs_in_the_file_is_an_error(tmp_path):
    (tmp_path / "text.txt").write_text("hello " * 50)
    text = TEXTS.replace("PATH", str(tmp_path / "text.txt")).replace("SOURCE", str(tmp_path / "gpt2.pt"))
    state = build(loads(text)).model.state_dict()
    assert state["lm_head.weight"] is not state["transformer.wte.weight"]
    for change, message in (
        (0, None),
        (1, "lm_head.weight and transformer.wte.weight are one parameter here, but differ"),
    ):
        tdt.save(state | {"lm_head.weight": state["lm_head.weight"] + change}, tmp_path / "gpt2.pt")
        if message is None:
            assert warm_start(build(loads(text)), "nowhere") is not None
            continue
        with pytest.raises(ConfigError, match=message):
            warm_start(build(loads(text)), "nowhere")
        without = text.replace("gpt2.pt}", "gpt2.pt, skip: lm_head.weight}")
        loading = warm_start(build(loads(without)), "nowhere")
        assert loading is not None and not loading.initial
