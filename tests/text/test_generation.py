"""Generation: the cache changes no logits, tokens are those of transformers and PyTorch, text comes in whole characters."""

from __future__ import annotations

import os
from itertools import islice
from typing import Any

import numpy as np
import pytest

import tdt
from tdt import Tensor, nn
from tdt.text import models
from tdt.text._cache import DecodingCache
from tdt.text.generation import Sampling, TextStream, cache_kind, generate
from tdt.train.model.layers import CausalSelfAttention, Pick, Positions, Residual
from tests.helpers import require, require_torch
from tests.train.tokenizer_files import byte_level

VOCABULARY, WINDOW = 11, 12
GPT2 = {
    "vocab_size": VOCABULARY,
    "n_positions": WINDOW,
    "n_embd": 8,
    "n_layer": 2,
    "n_head": 2,
    "initializer_range": 0.5,
}
LLAMA = {"vocab_size": VOCABULARY, "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": WINDOW, "initializer_range": 0.5}  # fmt: skip


def layers(*inner: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Embedding(VOCABULARY, 8), *inner, nn.Linear(8, VOCABULARY))


def build(name: str) -> nn.Module:
    tdt.manual_seed(0)
    built = {
        "GPT-2": lambda: models.GPT2LMHeadModel(**GPT2),
        "Llama": lambda: models.LlamaForCausalLM(**LLAMA),
        "layers of configs": lambda: layers(Positions(WINDOW, 8), Residual(CausalSelfAttention(8, 2)), nn.LayerNorm(8)),
        "LSTM": lambda: layers(nn.LSTM(8, 8, num_layers=2, batch_first=True), Pick(0)),
        "GRU": lambda: layers(nn.GRU(8, 8, batch_first=True), Pick(0)),
        "bidirectional": lambda: layers(nn.GRU(8, 4, batch_first=True, bidirectional=True), Pick(0)),
        "bigrams": lambda: layers(nn.Tanh()),
        "encoder": lambda: layers(nn.TransformerEncoderLayer(8, 2, 8, batch_first=True)),
    }
    return built[name]().eval()


def last(model: nn.Module):
    return lambda tokens: model(tokens)[0, -1]


@pytest.mark.parametrize("name", ["GPT-2", "Llama", "layers of configs", "LSTM", "GRU"])
def test_logits_with_the_cache_are_those_without(name: str):
    model, tokens = build(name), tdt.tensor([[3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]])
    cache, found = DecodingCache(model), []
    with tdt.no_grad():
        for part in tokens.split([3, 1, 1, 4, 1, 1, 1], dim=1):
            with cache.reading(part.shape[1]):
                found.append(model(part))
        np.testing.assert_allclose(tdt.cat(found, 1).numpy(), model(tokens).numpy(), rtol=1e-4, atol=1e-5)
    assert cache.length == tokens.shape[1]


def test_a_cache_of_many_tokens_grows():
    model = models.LlamaForCausalLM(**LLAMA | {"max_position_embeddings": 300}).eval()
    tokens, cache = tdt.randint(0, VOCABULARY, (1, 200)), DecodingCache(model)
    with tdt.no_grad():
        for part in tokens.split([60, 10, 129, 1], dim=1):
            with cache.reading(part.shape[1]):
                found = model(part)
        np.testing.assert_allclose(found[0, -1].numpy(), model(tokens)[0, -1].numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "name, kind",
    [("GPT-2", "attention"), ("LSTM", "state"), ("bigrams", "state"), ("bidirectional", None), ("encoder", None)],
)
def test_only_models_that_read_the_past_through_the_cache_use_it(name: str, kind: str | None):
    model = build(name)
    assert cache_kind(model, last(model)) == kind


@pytest.mark.parametrize("family, name", [("gpt2", "GPT2LMHeadModel"), ("llama", "LlamaForCausalLM")])
def test_greedy_tokens_are_those_of_transformers(family: str, name: str):
    torch = require_torch()
    os.environ["HF_HUB_OFFLINE"] = "1"
    transformers = require("transformers")
    sizes = GPT2 if family == "gpt2" else LLAMA
    torch.manual_seed(0)
    theirs = getattr(transformers, name)(transformers.AutoConfig.for_model(family, **sizes)).eval()
    ours = getattr(models, name)(**sizes).eval()
    ours.load_state_dict({key: tdt.from_numpy(value.numpy()) for key, value in theirs.state_dict().items()})
    expected = theirs.generate(
        torch.tensor([[3, 1]]), do_sample=False, max_new_tokens=9, eos_token_id=None, pad_token_id=0
    )[0, 2:].tolist()
    for cached in (True, False):
        tokens = generate(ours, last(ours), [3, 1], Sampling(temperature=0), cached=cached, window=WINDOW)
        assert list(islice(tokens, 9)) == expected


def test_sampled_tokens_are_those_of_pytorch_with_the_same_seed():
    torch, model = require_torch(), build("GPT-2")
    random = torch.Generator().manual_seed(5)
    tokens, expected = [7], []
    for _ in range(10):  # nanoGPT's loop
        with tdt.no_grad():
            logits = torch.tensor(model(tdt.tensor([tokens]))[0, -1].numpy()) / 0.8
        logits[logits < torch.topk(logits, 4).values[-1]] = -float("inf")
        expected.append(int(torch.multinomial(torch.softmax(logits, -1), 1, generator=random)))
        tokens.append(expected[-1])
    found = generate(model, last(model), [7], Sampling(0.8, top_k=4), cached=True, window=WINDOW,
                     generator=tdt.Generator().manual_seed(5))  # fmt: skip
    assert list(islice(found, 10)) == expected


@pytest.mark.parametrize(
    "settings", [{"top_k": 3}, {"top_p": 0.5}, {"top_p": 0.01}, {"temperature": 0.3, "top_k": 5, "top_p": 0.9}]
)
def test_tokens_are_left_out_as_transformers_leaves_them_out(settings: dict[str, Any]):
    torch, rng = require_torch(), np.random.default_rng(0)
    warpers = require("transformers").generation.logits_process
    logits = rng.normal(size=20).astype(np.float32)
    logits[3] = logits[4]
    expected = torch.tensor(logits)[None] / settings.get("temperature", 1.0)
    if "top_k" in settings:
        expected = warpers.TopKLogitsWarper(settings["top_k"])(None, expected)
    if "top_p" in settings:
        expected = warpers.TopPLogitsWarper(settings["top_p"])(None, expected)
    found = Sampling(**settings).filtered(tdt.tensor(logits))
    np.testing.assert_allclose(found.numpy(), expected[0].numpy(), rtol=1e-6)


@pytest.mark.parametrize("settings", [{"temperature": -1}, {"temperature": float("nan")}, {"top_k": 0}, {"top_p": 1.5}])
def test_settings_out_of_range_are_refused(settings: dict[str, Any]):
    with pytest.raises(ValueError, match=next(iter(settings))):
        Sampling(**settings)


def test_a_full_window_is_read_again_from_its_middle():
    model = build("GPT-2")
    reads: list[list[int]] = []

    def logits_of(tokens: Tensor) -> Tensor:
        reads.append(tokens[0].tolist())
        return last(model)(tokens)

    tokens = [5, *islice(generate(model, logits_of, [5], Sampling(), cached=True, window=WINDOW), 30)]
    assert reads[:12] == [[token] for token in tokens[:12]]
    assert reads[12] == tokens[6:13]
    assert all(len(read) in (1, 7) for read in reads)
    uncached = list(islice(generate(model, last(model), tokens[:20], Sampling(0), cached=False, window=WINDOW), 1))
    with tdt.no_grad():
        assert uncached == [int(model(tdt.tensor([tokens[8:20]]))[0, -1].argmax())]
    with pytest.raises(ValueError, match="the prompt is empty"):
        next(generate(model, last(model), [], Sampling(), cached=True))


def test_text_comes_in_whole_characters(tmp_path):
    text = "déjà 🦊🦊 vu, naïve <|endoftext|> 東京\n\tok"
    tokenizer = byte_level(tmp_path / "t.json")
    ways = {
        "bytes": (list(text.encode()), lambda numbers: bytes(numbers).decode(errors="replace")),
        "byte-level": (
            tokenizer.encode(text).ids,
            lambda numbers: tokenizer.decode(numbers, skip_special_tokens=False),
        ),
    }
    for tokens, decode in ways.values():
        for start in range(4):
            stream = TextStream(decode, tokens[:start])
            pieces = [stream.add(token) for token in tokens[start:]]
            assert decode(tokens[:start]) + "".join(pieces) == text or "\ufffd" in decode(tokens[:start])
            assert not any("\ufffd" in piece for piece in pieces)
            assert stream.rest() == ""
    stream = TextStream(ways["bytes"][1])
    assert [stream.add(byte) for byte in b"\xc3\xc3\xa9\xe6"] == ["", "", "\ufffdé", ""]
    assert stream.rest() == "\ufffd"
