"""Texts by a `tokenizer.json`: the numbers are those of the library tokenizers, and a run needs the file no more."""

from __future__ import annotations

import csv
import json
import re
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import yaml

import tdt
from tdt.text import models
from tdt.text.models import GPT2LMHeadModel
from tdt.train import evaluate, fit
from tdt.train.data import tokenizer
from tdt.train.data.datasets.table import Table
from tdt.train.data.datasets.text import Text
from tdt.train.data.tokenizer import Tokenizer
from tests.commands.running import tdt_here
from tests.helpers import require
from tests.train.tokenizer_files import REVIEWS, TEXT, byte_level, word_piece

STRANGE = "déjà <|endoftext|> vu\n\n  🦊 end"


def reviews(folder: Path) -> Path:
    """A table of texts and labels."""
    path = folder / "reviews.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("text", "good"), *REVIEWS * 4])
    return path


def test_numbers_and_texts_are_those_of_the_library(tmp_path):
    library = byte_level(tmp_path / "tokenizer.json")
    ours = Tokenizer.of(tmp_path)
    expected = library.encode(STRANGE).ids
    assert ours.encode(STRANGE).tolist() == expected
    assert ours.decode(expected) == STRANGE
    assert ours.tokens == [library.id_to_token(number) for number in range(library.get_vocab_size())]
    assert Tokenizer.restored(json.loads(json.dumps(ours.state()))) == ours


def test_padded_texts_are_those_of_the_library(tmp_path):
    library = word_piece(tmp_path / "t.json")
    ours = Tokenizer.of(tmp_path / "t.json")
    texts = ["good soup", "", "the soup was good and the bread was bad and cold"]
    library.enable_truncation(8)
    library.enable_padding(length=8)
    expected = [encoding.ids for encoding in library.encode_batch(texts)]
    assert ours.encode_padded(texts, 8).tolist() == expected
    assert ours.encode("good soup").tolist() == expected[0][1:3]  # without [CLS] and [SEP], also after padding
    with pytest.raises(ValueError, match="has 2 special tokens, so length is at least 3"):
        ours.encode_padded(texts, 2)


def test_a_files_own_padding_and_truncation_are_not_those_of_the_dataset(tmp_path):
    library = byte_level(tmp_path / "t.json")
    expected = library.encode("the soup").ids
    library.enable_truncation(1)
    library.enable_padding(length=20, pad_id=7, pad_token="!")
    library.save(str(tmp_path / "t.json"))
    ours = Tokenizer.of(tmp_path / "t.json")
    assert ours.encode("the soup").tolist() == expected
    assert ours.encode_padded(["the soup"], 4).tolist() == [expected + [7] * (4 - len(expected))]


def test_a_long_text_in_pieces_has_the_tokens_of_the_whole(tmp_path, monkeypatch):
    library = byte_level(tmp_path / "t.json")
    text = (TEXT + "\n\n  new, 12\r\n\tand\n") * 3
    monkeypatch.setattr(tokenizer, "PIECE", 100)
    pieces = list(tokenizer._pieces(text))
    assert len(pieces) > 100
    assert "".join(pieces) == text
    assert Tokenizer.of(tmp_path / "t.json").encode(text).tolist() == library.encode(text).ids
    tokenizers = require("tokenizers")
    for kind in ("first", "always"):  # a text begins with a space, which pieces would repeat
        library.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace(prepend_scheme=kind)
        assert Tokenizer(library.to_str()).encode(text).tolist() == library.encode(text).ids


def test_windows_of_tokens_and_their_state(tmp_path):
    library = byte_level(tmp_path / "t.json")
    (tmp_path / "t.txt").write_text(TEXT)
    data = Text(tmp_path / "t.txt", 16, tokenizer=tmp_path / "t.json")
    expected = library.encode(TEXT).ids
    assert data[1][0].tolist() == expected[16:32]
    assert data[1][1].tolist() == expected[17:33]
    assert data.vocabulary_size == len(data.classes) == library.get_vocab_size()
    state = json.loads(json.dumps(data.state_dict()))
    restored = Text.restored(state, "gone.txt", 16, tokenizer="gone.json")
    assert restored.encode(STRANGE).tolist() == library.encode(STRANGE).ids
    assert restored.decode(restored.encode(STRANGE)) == STRANGE


def test_text_columns_of_tokens(tmp_path):
    library = word_piece(tmp_path / "t.json")
    table = Table(reviews(tmp_path), "good", {"text": "text"}, length=10, tokenizer=tmp_path / "t.json")
    first = library.encode(REVIEWS[0][0]).ids
    assert table[0][0].tolist() == [*first, *[0] * (10 - len(first))]
    state = json.loads(json.dumps(table.state_dict()))
    restored = Table.restored(state, "gone.csv", "good", {"text": "text"}, length=10, tokenizer="gone.json")
    assert np.array_equal(restored.encode({"text": [REVIEWS[0][0]]}), table.data[:1])


def test_what_is_no_tokenizer_is_refused(tmp_path, monkeypatch):
    (tmp_path / "t.txt").write_text(TEXT)
    for content, message in ((b"{}", "t.json: is no tokenizer.json of the library"), (b"\xff", "is not UTF-8")):
        (tmp_path / "t.json").write_bytes(content)
        with pytest.raises(ValueError, match=message):
            Text(tmp_path / "t.txt", tokenizer=tmp_path / "t.json")
    huge = {"model": {"type": "WordLevel", "vocab": {"a": 0, "b": 2**32 - 1}, "unk_token": "a"}}
    (tmp_path / "t.json").write_text(json.dumps(huge))
    with pytest.raises(ValueError, match=r"t.json: numbers a token 4,294,967,295; expected less than 16,777,216"):
        Text(tmp_path / "t.txt", tokenizer=tmp_path / "t.json")
    with pytest.raises(FileNotFoundError):
        Text(tmp_path / "t.txt", tokenizer=tmp_path / "none.json")
    word_piece(tmp_path / "t.json")
    with pytest.raises(ValueError, match="tokens: bytes and a tokenizer exclude each other"):
        Text(tmp_path / "t.txt", tokens="bytes", tokenizer=tmp_path / "t.json")
    with pytest.raises(ValueError, match="tokenizer has no effect, as no column is of type text"):
        Table(reviews(tmp_path), "good", {"text": "category"}, tokenizer=tmp_path / "t.json")
    with pytest.raises(ValueError, match="max_words has no effect with a tokenizer"):
        Table(reviews(tmp_path), "good", {"text": "text"}, max_words=50, tokenizer=tmp_path / "t.json")
    state = Tokenizer.of(tmp_path / "t.json").state()
    with pytest.raises(ValueError, match="copy is cut"):
        Tokenizer.restored(state[:400])
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(RuntimeError, match=r"needs the library tokenizers: pip install 'tdt-train\[text\]'"):
        Text(tmp_path / "t.txt", tokenizer=tmp_path / "t.json")


CLASSIFIER = """\
name: reviews
data:
  train: {type: Table, path: reviews.csv, target: good, columns: {text: text}, length: 12, tokenizer: tokenizer.json,
          split: train}
  valid: {type: Table, path: reviews.csv, target: good, columns: {text: text}, length: 12, tokenizer: tokenizer.json,
          split: valid}
  loader: {batch_size: 8}
model:
  type: BertForSequenceClassification
  vocab_size: 100
  hidden_size: 16
  num_hidden_layers: 1
  num_attention_heads: 2
  intermediate_size: 32
  max_position_embeddings: 16
  mask_padding: true
loss: CrossEntropyLoss
metrics: [accuracy]
optimizer: AdamW(lr=1e-2)
train: {epochs: 6}
"""


DISTILBERT = """\
  type: DistilBertForSequenceClassification
  vocab_size: 100
  dim: 16
  n_layers: 1
  n_heads: 2
  hidden_dim: 32
  max_position_embeddings: 16
  mask_padding: true
"""


@pytest.mark.parametrize("family", ["Bert", "DistilBert"])
def test_a_pretrained_text_classifier_learns_and_needs_no_outside_file(tmp_path, family: str):
    word_piece(tmp_path / "tokenizer.json")
    table = reviews(tmp_path)
    before, model, after = re.split(r"(?<=model:\n)|(?=loss:)", CLASSIFIER)
    model = DISTILBERT if family == "DistilBert" else model
    settings = yaml.safe_load(model)
    pretrained = getattr(models, settings.pop("type"))(**settings, num_labels=5)
    tdt.save(pretrained.state_dict(), tmp_path / "model.pt")
    weights = 'weights: {from: model.pt, skip: ["classifier.*", "pre_classifier.*"]}\n'
    weights = weights if family == "DistilBert" else 'weights: {from: model.pt, skip: "classifier.*"}\n'
    (tmp_path / "reviews.yaml").write_text(before + model + after + weights)
    run = fit(tmp_path / "reviews.yaml", root=tmp_path / "runs", quiet=True)
    accuracy = run.metrics["valid/accuracy"].values[-1]
    assert accuracy == 1.0
    (tmp_path / "tokenizer.json").unlink()
    assert evaluate(run.folder, "valid").scores["accuracy"] == accuracy
    answers = run.load_model().predict([{"text": text} for text, _ in REVIEWS])
    assert [answer.label for answer in answers] == [label for _, label in REVIEWS]
    table.unlink()
    assert run.load_model().predict({"text": "warm wine, good"}).label == "yes"


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("vocab_size: 100", "vocab_size: 50", "has 50 rows, but the text has .. tokens"),
        ("mask_padding: true", "pad_token_id: 1", "pad_token_id is 1, but the tokenizer pads texts with 0"),
        ("mask_padding: true", "pad_token_id: 0", "attends to padding; set mask_padding: true"),
    ],
)
def test_a_model_that_does_not_fit_the_tokenizer_is_reported(tmp_path, old: str, new: str, message: str):
    word_piece(tmp_path / "tokenizer.json")
    reviews(tmp_path)
    (tmp_path / "a.yaml").write_text(CLASSIFIER.replace(old, new))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        done = tdt_here("check", "a.yaml", cwd=tmp_path)
    assert re.search(message, f"{done.stderr}{caught[0].message if caught else ''}")
    assert done.returncode == (2 if "vocab" in old else 0)


LANGUAGE_MODEL = """\
name: sayings
data:
  train: {type: Text, path: t.txt, length: 16, tokenizer: tokenizer.json, split: train}
  valid: {type: Text, path: t.txt, length: 16, tokenizer: tokenizer.json, split: valid}
model: {type: GPT2LMHeadModel, vocab_size: 300, n_positions: 32, n_embd: 32, n_layer: 1, n_head: 2, class_dim: 1}
loss: CrossEntropyLoss
metrics: [perplexity]
optimizer: AdamW(lr=3e-3)
train: {epochs: 3}
"""


def test_a_pretrained_language_model_is_tuned_on_a_text(tmp_path):
    byte_level(tmp_path / "tokenizer.json")
    (tmp_path / "t.txt").write_text(TEXT)
    pretrained = GPT2LMHeadModel(vocab_size=300, n_positions=32, n_embd=32, n_layer=1, n_head=2)
    tdt.save(pretrained.state_dict(), tmp_path / "gpt2.pt")
    (tmp_path / "gpt.yaml").write_text(LANGUAGE_MODEL + "weights: {from: gpt2.pt}\n")
    run = fit(tmp_path / "gpt.yaml", root=tmp_path / "runs", quiet=True)
    scores = run.metrics["valid/perplexity"].values
    assert scores[-1] < scores[0] < 300
    (tmp_path / "tokenizer.json").unlink()
    assert evaluate(run.folder, "valid").scores["perplexity"] == pytest.approx(scores.min(), rel=1e-5)
    assert run.load_model().predict("the soup was").label in run.load_model().classes
