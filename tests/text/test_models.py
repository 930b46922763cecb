"""Text models against Hugging Face transformers: names of weights, and logits on the same weights."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tdt
from tdt.text import models
from tdt.text.models._api import TextModel
from tests.helpers import require, require_torch

SIZES: dict[str, dict[str, Any]] = {
    "bert": {"vocab_size": 11, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12,
                 "max_position_embeddings": 9},
    "distilbert": {"vocab_size": 11, "dim": 8, "n_layers": 2, "n_heads": 2, "hidden_dim": 12, "max_position_embeddings": 9},
    "gpt2": {"vocab_size": 11, "n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 9, "pad_token_id": 0},
    "llama": {"vocab_size": 11, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 12,
                  "num_key_value_heads": 2, "max_position_embeddings": 9, "pad_token_id": 0},
}  # fmt: skip
FAMILIES = {
    "bert": ("BertModel", "BertForMaskedLM", "BertForSequenceClassification"),
    "distilbert": ("DistilBertModel", "DistilBertForMaskedLM", "DistilBertForSequenceClassification"),
    "gpt2": ("GPT2Model", "GPT2LMHeadModel", "GPT2ForSequenceClassification"),
    "llama": ("LlamaModel", "LlamaForCausalLM", "LlamaForSequenceClassification"),
}
NAMES = [(family, name) for family, names in FAMILIES.items() for name in names]
# Settings that change what is computed, beside the defaults.
VARIANTS = {
    "LlamaForCausalLM": [
        {"tie_word_embeddings": True, "head_dim": 6, "attention_bias": True, "mlp_bias": True},
        {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 500.0}},
        {"rope_parameters": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                             "original_max_position_embeddings": 32, "rope_theta": 50.0}},
    ],
    "GPT2LMHeadModel": [{"scale_attn_by_inverse_layer_idx": True, "n_inner": 10, "tie_word_embeddings": False,
                         "activation_function": "relu"}],
    "BertForMaskedLM": [{"tie_word_embeddings": False, "hidden_act": "gelu_new"}],
}  # fmt: skip


def build(name: str, **settings: Any) -> TextModel:
    """A small model of this name."""
    family = next(family for family, names in FAMILIES.items() if name in names)
    return getattr(models, name).from_config(SIZES[family] | settings).eval()


@pytest.mark.parametrize("family, name", NAMES)
def test_logits_are_those_of_transformers_on_its_weights(family: str, name: str, tmp_path: Path):
    torch = require_torch()
    os.environ["HF_HUB_OFFLINE"] = "1"
    transformers = require("transformers")
    tokens = np.array([[3, 1, 4, 1, 5, 9], [2, 6, 5, 0, 0, 0]])
    for variant in ({}, *VARIANTS.get(name, ())):
        config = transformers.AutoConfig.for_model(family, **SIZES[family] | variant, num_labels=3)
        torch.manual_seed(0)
        theirs = getattr(transformers, name)(config).eval()
        with torch.no_grad():  # biases and norms that are not 0 and 1
            for value in theirs.parameters():
                value.add_(torch.randn(value.shape) * 0.3)
        config.save_pretrained(tmp_path)
        ours = getattr(models, name).from_config(tmp_path / "config.json").eval()
        weights = {key: tdt.from_numpy(value.numpy()) for key, value in theirs.state_dict().items()}
        assert list(ours.state_dict()) == list(weights)
        ours.load_state_dict(weights)
        for mask in (None, tokens != 0, np.array([[0, 1, 1, 1, 1, 1]] * 2)):
            arguments = {} if mask is None else {"attention_mask": torch.tensor(mask.astype(np.int64))}
            with torch.no_grad():
                expected = theirs(torch.tensor(tokens), **arguments)[0].numpy()
            with tdt.no_grad():
                found = ours(tdt.tensor(tokens), None if mask is None else tdt.tensor(mask.astype(np.int64))).numpy()
            if mask is not None and expected.ndim == 3:  # what padding gets counts for nothing
                expected, found = expected[mask != 0], found[mask != 0]
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name, output, embedding", [
    ("GPT2LMHeadModel", "lm_head", "transformer.wte"), ("LlamaForCausalLM", "lm_head", "model.embed_tokens"),
    ("BertForMaskedLM", "cls.predictions.decoder", "bert.embeddings.word_embeddings"),
    ("DistilBertForMaskedLM", "vocab_projector", "distilbert.embeddings.word_embeddings"),
])  # fmt: skip
def test_a_tied_weight_is_one_parameter(name: str, output: str, embedding: str):
    for tied in (True, False):
        model = build(name, tie_word_embeddings=tied)
        one, other = (model.get_submodule(place).get_parameter("weight") for place in (output, embedding))
        assert (one is other) == tied
        names = dict(model.named_parameters())
        assert (f"{output}.weight" in names) == (not tied)


def test_mask_padding_masks_the_padding_token():
    for name in ("BertForSequenceClassification", "DistilBertForSequenceClassification"):
        model, plain = build(name, num_labels=3), build(name, num_labels=3, mask_padding=True)
        plain.load_state_dict(model.state_dict())
        tokens = tdt.tensor([[4, 2, 0, 0]])
        assert plain(tokens).allclose(model(tokens, tokens != 0)) and not plain(tokens).allclose(model(tokens))


def test_class_dim_puts_the_vocabulary_where_the_loss_expects_it():
    model, other = build("GPT2LMHeadModel"), build("GPT2LMHeadModel", class_dim=1)
    other.load_state_dict(model.state_dict())
    tokens = tdt.tensor([[1, 2, 3]])
    assert other(tokens).equal(model(tokens).transpose(1, 2))


def test_initial_weights_follow_initializer_range():
    model = models.GPT2LMHeadModel(vocab_size=500, n_embd=64, n_layer=2, n_head=2, n_positions=50)
    assert model.transformer.wte.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert model.transformer.h[0].mlp.c_proj.weight.std().item() == pytest.approx(0.01, rel=0.05)
    assert not model.transformer.h[0].attn.c_attn.bias.any() and model.transformer.ln_f.weight.eq(1).all()
    assert not build("BertModel").get_parameter("embeddings.word_embeddings.weight")[0].any()


@pytest.mark.parametrize("call, error, message", [
    (lambda: models.GPT2Model(n_embed=8), TypeError, r"GPT2Model: has no argument 'n_embed'; did you mean 'n_embd'\?"),
    (lambda: models.GPT2Model(class_dim=1), TypeError, "has no argument 'class_dim'"),
    (lambda: models.GPT2LMHeadModel(class_dim=2), ValueError, "GPT2LMHeadModel: class_dim is -1 or 1, got 2"),
    (lambda: models.GPT2Model(n_embd=10, n_head=3), ValueError, "n_embd 10 is not a multiple of n_head 3"),
    (lambda: models.GPT2Model(n_layer=0), ValueError, "n_layer is a positive integer, got 0"),
    (lambda: models.BertModel(hidden_act="gelo"), ValueError, "no activation is called 'gelo'"),
    (lambda: models.LlamaModel(num_attention_heads=32, num_key_value_heads=5), ValueError, "is not a multiple of"),
    (lambda: models.LlamaModel(rope_scaling={"rope_type": "yarn"}), ValueError, "type 'yarn' is not supported"),
    (lambda: models.LlamaModel(rope_scaling={"rope_type": "linear"}), ValueError, "type 'linear' has no factor"),
    (lambda: models.BertModel.from_config({"model_type": "gpt2"}), ValueError, "of type 'gpt2', not 'bert'"),
    (lambda: models.BertModel.from_config({"is_decoder": True}), ValueError, "is_decoder=True is not supported"),
    (partial(build("GPT2Model"), tdt.zeros(1, 10, dtype=tdt.int64)), ValueError, "has 10 tokens, but n_positions is 9"),
    (partial(build("BertModel"), tdt.zeros(1, 10, dtype=tdt.int64)), ValueError, "max_position_embeddings is 9"),
    (partial(build("BertModel"), tdt.zeros(3, dtype=tdt.int64)), ValueError, r"takes tokens \(n, length\), got \(3,\)"),
    (partial(build("BertModel"), tdt.zeros(1, 3, dtype=tdt.int64), tdt.ones(1, 2)), ValueError, "attention_mask is of"),
    (partial(build("GPT2ForSequenceClassification", pad_token_id=None), tdt.ones(2, 3, dtype=tdt.int64)), ValueError,
     "needs pad_token_id"),
])  # fmt: skip
def test_a_wrong_call_names_the_mistake(call: Any, error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("content, message", [("{", "is not JSON"), ("[1]", "holds no mapping"),
                                              (json.dumps({"n_head": 5}), "config.json: n_embd 768 is not")])  # fmt: skip
def test_a_damaged_config_file_is_named(content: str, message: str, tmp_path: Path):
    path = tmp_path / "config.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        models.GPT2Model.from_config(path)
