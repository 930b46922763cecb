"""`tdt generate`, and `generate` of a loaded model."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

import tdt
from tdt.train import fit
from tests.commands.running import COMMAND, SMALL, environment, tdt_here
from tests.helpers import require, require_torch
from tests.train.tokenizer_files import TEXT, byte_level

MODEL = """\
name: {name}
data:
  train: {{type: Text, path: t.txt, length: 16, split: train{more}}}
  valid: {{type: Text, path: t.txt, length: 16, split: valid{more}}}
model: {model}
loss: CrossEntropyLoss
optimizer: AdamW(lr={lr}, weight_decay=0)
train: {{epochs: {epochs}}}
"""
GPT2 = "{type: GPT2LMHeadModel, vocab_size: 300, n_positions: 24, n_embd: 32, n_layer: 1, n_head: 2, class_dim: 1}"
LSTM = '["Embedding(40, 24)", "LSTM(24, 24, batch_first=true)", Pick(0), "Linear(24, 40)", "Transpose(1, 2)"]'


def train(
    folder: Path, name: str, model: str, more: str = "", more_keys: str = "", epochs: int = 1, lr: float = 1e-2
) -> None:
    """A run called `name`. more: arguments of the dataset; more_keys: lines of the config."""
    text = MODEL.format(name=name, model=model, more=more, epochs=epochs, lr=lr)
    (folder / f"{name}.yaml").write_text(text + more_keys)
    fit(folder / f"{name}.yaml", root=folder / "runs", quiet=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Runs of a GPT-2 with a tokenizer, which learns the text by heart, and of an LSTM of characters."""
    folder = tmp_path_factory.mktemp("texts")
    byte_level(folder / "tokenizer.json")
    (folder / "t.txt").write_text(TEXT)
    train(folder, "gpt", GPT2, ", tokenizer: tokenizer.json, stride: 3", epochs=12)
    train(folder, "lstm", LSTM)
    for name in ("tokenizer.json", "t.txt"):
        (folder / name).unlink()
    return folder


def test_a_tuned_model_continues_its_text_beyond_its_window(folder):
    done = tdt_here("generate", "gpt", "--prompt", "the soup was", "--length", 60, "--temperature", 0, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("the soup was good and warm: yes\nbad bread, never again: no\n")
    assert "60 tokens, " in done.stderr
    model = tdt.load_model("gpt", root=folder / "runs")
    continued = model.generate("the soup was", length=60, temperature=0)
    assert f"the soup was{continued}\n" == done.stdout
    assert "".join(model.stream("the soup was", length=60, temperature=0)) == continued


def test_a_seed_gives_the_same_texts(folder):
    call = ["generate", "lstm", "--prompt", "the", "--length", 30, "--count", 2, "--json", "--seed"]
    first, again, other = (tdt_here(*call, seed, cwd=folder).stdout for seed in (3, 3, 4))
    assert first == again != other
    texts = [json.loads(line) for line in first.splitlines()]
    assert [(text["prompt"], text["tokens"], text["seed"], text["number"]) for text in texts] == [
        ("the", 30, 3, 0), ("the", 30, 3, 1)
    ]  # fmt: skip
    assert texts[0]["text"] != texts[1]["text"]
    model = tdt.load_model("lstm", root=folder / "runs").train()
    assert model.generate("the", length=30, seed=3) == texts[0]["text"]
    assert model.training


def test_text_goes_to_a_file(folder):
    call = ["generate", "lstm", "--prompt", "the", "--length", 9, "--seed", 1, "--count", 2]
    shown = tdt_here(*call, cwd=folder).stdout
    assert tdt_here(*call, "--output", "a.txt", cwd=folder).stdout == ""
    assert (folder / "a.txt").read_text() == shown
    assert shown.count("\n---\nthe") == 1
    as_json = tdt_here(*call, "--output", "a.jsonl", "--json", cwd=folder).stdout
    assert (folder / "a.jsonl").read_text() == as_json
    assert [len(json.loads(line)["text"]) for line in as_json.splitlines()] == [9, 9]
    done = tdt_here(*call, "--output", "a.csv", cwd=folder)
    assert (done.returncode, "its ending says no format; use .txt or .jsonl" in done.stderr) == (2, True)


def test_the_prompt_is_read_from_stdin(folder, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"the soup\n")))
    done = tdt_here("generate", "lstm", "--prompt", "-", "--length", 1, "--json", cwd=folder)
    assert json.loads(done.stdout)["prompt"] == "the soup"


def test_text_that_moves_the_cursor_is_escaped(folder, tmp_path):
    byte_level(tmp_path / "tokenizer.json")
    (tmp_path / "t.txt").write_text(TEXT)
    train(tmp_path, "gpt", GPT2, ", tokenizer: tokenizer.json")
    done = tdt_here("generate", "gpt", "--prompt", "\x1b[2J\ta", "--length", 1, cwd=tmp_path)
    assert done.stdout.startswith("\\x1b[2J\ta")


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_a_model_of_transformers_generates_its_text_here(tmp_path, monkeypatch, family: str):
    torch = require_torch()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    transformers = require("transformers")
    sizes = {"n_positions": 48, "n_embd": 16, "n_layer": 2, "n_head": 2} if family == "gpt2" else {
        "max_position_embeddings": 48, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2}  # fmt: skip
    config = transformers.AutoConfig.for_model(family, vocab_size=300, initializer_range=0.3, **sizes)
    torch.manual_seed(0)
    theirs = transformers.AutoModelForCausalLM.from_config(config).eval()
    theirs.save_pretrained(tmp_path / "theirs")  # a file of GPT-2's has no lm_head
    byte_level(tmp_path / "theirs" / "tokenizer.json")
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "theirs" / "tokenizer.json"))
    (tmp_path / "t.txt").write_text(TEXT)
    name = "GPT2LMHeadModel" if family == "gpt2" else "LlamaForCausalLM"
    model = json.dumps({"type": name, "vocab_size": 300, "class_dim": 1, **sizes})
    train(
        tmp_path, "tuned", model, ", tokenizer: theirs", more_keys="weights: {from: theirs/model.safetensors}\n", lr=0.0
    )
    tokens = tokenizer("the soup was", return_tensors="pt")
    expected = theirs.generate(**tokens, do_sample=False, max_new_tokens=30, eos_token_id=None, pad_token_id=0)[0]
    done = tdt_here(
        "generate", "tuned", "--prompt", "the soup was", "--length", 30, "--temperature", 0, "--json", cwd=tmp_path
    )
    found = json.loads(done.stdout)
    assert found["prompt"] + found["text"] == tokenizer.decode(expected, clean_up_tokenization_spaces=False)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["lstm", "--prompt", "Žiže §"], "the prompt has characters that the training text lacks: '§Žž'"),
        (["lstm", "--prompt", ""], "the prompt is empty"),
        (["lstm", "--length", "0"], "--length"),
        (["lstm", "--temperature", "-1"], "--temperature"),
        (["lstm", "--top-p", "1.5"], "top_p is above 0 and at most 1, got 1.5"),
        (["none"], "none"),
        (["small"], "this model is no language model: it was trained on Digits, not on the dataset Text"),
    ],
)
def test_what_cannot_be_generated_is_refused(folder, arguments: list[str], message: str):
    if not (folder / "runs" / "small").exists():
        fit(SMALL, root=folder / "runs", train__steps=1, quiet=True)
    done = tdt_here("generate", *arguments, cwd=folder)
    assert done.returncode == 2
    assert message in done.stderr
    assert not done.stdout


def test_python_refuses_the_same(folder):
    model = tdt.load_model("lstm", root=folder / "runs")
    with pytest.raises(ValueError, match="length is at least 1, got 0"):
        model.generate("the", length=0)
    with pytest.raises(ValueError, match="characters that the training text lacks"):
        model.stream("§")


def test_a_reader_that_leaves_ends_the_command_without_a_traceback(folder):
    command = [*COMMAND, "generate", "lstm", "--prompt", "the", "--length", "100000"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder, env=environment()
    ) as process:
        assert process.stdout.read(3) == b"the"
        process.stdout.close()
        assert process.wait(60) == 1
        assert b"Traceback" not in process.stderr.read()
