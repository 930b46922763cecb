"""Llama (Touvron et al., LLaMA: Open and Efficient Foundation Language Models, 2023)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import tdt
from tdt import Tensor, nn
from tdt.text._cache import causal_attention, first_position
from tdt.text.models import _api
from tdt.text.models._api import Settings, TextModel, of_head
from tdt.text.models._heads import CausalLM, LastTokenClassifier

__all__ = ["LlamaForCausalLM", "LlamaForSequenceClassification", "LlamaModel"]

SCALINGS = {"default": (), "linear": ("factor",),
            "llama3": ("factor", "high_freq_factor", "low_freq_factor", "original_max_position_embeddings")}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class LlamaSettings(Settings):
    """Settings of Llama; the defaults are those of the model with 7 billion parameters.

    Args:
        num_key_value_heads: heads of keys and values, each shared by several of the queries; None for as many as queries have.
        head_dim: width of a head; None for hidden_size / num_attention_heads.
        rope_theta: base of the wavelengths of rotary positions.
        rope_scaling: how rotary positions are stretched: a mapping with `rope_type` default, linear or llama3.
        attention_bias, mlp_bias: whether the linear layers of attention, or of the other branch, have biases.
    """

    model_type = "llama"

    vocab_size: int = 32000
    hidden_size: int = 4096
    intermediate_size: int = 11008
    num_hidden_layers: int = 32
    num_attention_heads: int = 32
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    hidden_act: str = "silu"
    max_position_embeddings: int = 2048
    initializer_range: float = 0.02
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10000.0
    rope_scaling: dict[str, Any] | None = None
    attention_bias: bool = False
    attention_dropout: float = 0.0
    mlp_bias: bool = False
    pad_token_id: int | None = None
    tie_word_embeddings: bool = of_head("language_model", False)
    num_labels: int = of_head("classification", 2)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.head_dim is None and self.hidden_size % self.num_attention_heads:
            sizes = f"hidden_size {self.hidden_size} is not a multiple of num_attention_heads"
            raise ValueError(f"{sizes} {self.num_attention_heads}")
        if self.num_attention_heads % self.key_value_heads:
            heads = f"num_attention_heads {self.num_attention_heads} is not a multiple of num_key_value_heads"
            raise ValueError(f"{heads} {self.key_value_heads}")
        if self.width % 2:
            raise ValueError(f"rotary positions need heads of an even width, got {self.width}")
        scaling = self.rope_scaling or {}
        kind = scaling.get("rope_type", scaling.get("type", "default"))
        if kind not in SCALINGS:
            raise ValueError(f"rope_scaling of type {kind!r} is not supported; known: {', '.join(SCALINGS)}")
        if lacking := [key for key in SCALINGS[kind] if key not in scaling]:
            raise ValueError(f"rope_scaling of type {kind!r} has no {', '.join(lacking)}")

    @property
    def key_value_heads(self) -> int:
        """Heads of keys and values."""
        return self.num_key_value_heads or self.num_attention_heads

    @property
    def width(self) -> int:
        """Width of a head."""
        return self.head_dim or self.hidden_size // self.num_attention_heads

    @classmethod
    def adapted(cls, found: dict[str, Any]) -> dict[str, Any]:
        """With `rope_parameters` of newer files as the older `rope_theta` and `rope_scaling`."""
        rope = found.get("rope_parameters")
        if rope is None:
            return found
        return found | {"rope_theta": rope.get("rope_theta", cls.rope_theta), "rope_scaling": dict(rope)}


def rotary_frequencies(config: LlamaSettings) -> Tensor:
    """The angle per position of each pair of a head's numbers, (width / 2,).

    Source: Su et al., RoFormer, 2021; scaled for longer contexts as in Llama 3.1.
    """
    frequencies = 1.0 / (config.rope_theta ** (tdt.arange(0, config.width, 2, dtype=tdt.float32) / config.width))
    scaling = config.rope_scaling or {}
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind == "default":
        return frequencies
    slowed = frequencies / scaling["factor"]
    if kind == "linear":
        return slowed
    turns = scaling["original_max_position_embeddings"] * frequencies / (2 * math.pi)  # in the original context
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    share = ((turns - low) / (high - low)).clamp(0, 1)  # 1 for those of many turns, 0 for those of few
    return (1 - share) * slowed + share * frequencies


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate the pairs (i, i + width / 2) of each head's numbers by the angles of its position."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + tdt.cat([-second, first], dim=-1) * sin


class LlamaAttention(nn.Module):
    """Causal attention with rotary positions; several heads of queries share one of keys and values."""

    def __init__(self, config: LlamaSettings) -> None:
        super().__init__()
        self.heads, self.groups, self.dropout = (
            config.num_attention_heads,
            config.key_value_heads,
            config.attention_dropout,
        )
        hidden, bias = config.hidden_size, config.attention_bias
        self.q_proj = nn.Linear(hidden, self.heads * config.width, bias)
        self.k_proj = nn.Linear(hidden, self.groups * config.width, bias)
        self.v_proj = nn.Linear(hidden, self.groups * config.width, bias)
        self.o_proj = nn.Linear(self.heads * config.width, hidden, bias)

    def forward(self, x: Tensor, angles: tuple[Tensor, Tensor], mask: Tensor | None = None) -> Tensor:
        """(n, length, hidden_size) → same."""
        q = rotated(_api.split_heads(self.q_proj(x), self.heads), *angles)
        k = rotated(_api.split_heads(self.k_proj(x), self.groups), *angles)
        v = _api.split_heads(self.v_proj(x), self.groups)
        dropout = self.dropout if self.training else 0.0
        return self.o_proj(_api.join_heads(causal_attention(self, q, k, v, mask=mask, dropout=dropout)))


class LlamaMLP(nn.Module):
    """SwiGLU: two layers at each position, the first with a gate (Shazeer, GLU Variants Improve Transformer, 2020)."""

    def __init__(self, config: LlamaSettings) -> None:
        super().__init__()
        hidden, inner, bias = config.hidden_size, config.intermediate_size, config.mlp_bias
        self.gate_proj, self.up_proj = nn.Linear(hidden, inner, bias), nn.Linear(hidden, inner, bias)
        self.down_proj = nn.Linear(inner, hidden, bias)
        self.act_fn = _api.activation(config.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        """(n, length, hidden_size) → same."""
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class LlamaDecoderLayer(nn.Module):
    """Attention and two layers, each after a norm and added to its input."""

    def __init__(self, config: LlamaSettings) -> None:
        super().__init__()
        self.self_attn, self.mlp = LlamaAttention(config), LlamaMLP(config)
        self.input_layernorm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(self, x: Tensor, angles: tuple[Tensor, Tensor], mask: Tensor | None = None) -> Tensor:
        """(n, length, hidden_size) → same."""
        x = x + self.self_attn(self.input_layernorm(x), angles, mask)
        return x + self.mlp(self.post_attention_layernorm(x))


class LlamaModel(TextModel):
    """Llama without a head: tokens → hidden states after the last norm.

    Args: those of Hugging Face's `LlamaConfig`; `rope_scaling` of type default, linear or llama3.
    Shape: input_ids (n, length), int64; attention_mask (n, length), 0 at padding; result (n, length, hidden_size).
    Raises:
        TypeError: an argument that is not one of the model.
        ValueError: sizes that do not fit.
    Source: Touvron et al., LLaMA: Open and Efficient Foundation Language Models, 2023.

    >>> import tdt
    >>> from tdt.text.models import LlamaModel
    >>> sizes = dict(vocab_size=9, hidden_size=8, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2)
    >>> LlamaModel(**sizes, num_key_value_heads=1)(tdt.tensor([[1, 2]])).shape
    tdt.Size([1, 2, 8])
    """

    settings_class = LlamaSettings
    config: LlamaSettings
    inv_freq: Tensor

    def _build(self) -> None:
        config = self.config
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id)
        self.layers = nn.ModuleList([LlamaDecoderLayer(config) for _ in range(config.num_hidden_layers)])
        self.norm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.register_buffer("inv_freq", rotary_frequencies(config), persistent=False)

    @property
    def max_length(self) -> int:
        """The longest sequence that the model was made for; it takes longer ones."""
        return self.config.max_position_embeddings

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, position_ids: Tensor | None = None
    ) -> Tensor:
        """The hidden states of the tokens."""
        mask = _api.key_mask(self, input_ids, attention_mask)
        if position_ids is None:
            start = first_position()
            position_ids = tdt.arange(start, start + input_ids.shape[1], device=input_ids.device)[None]
        x = self.embed_tokens(input_ids)
        turns = position_ids[:, None, :, None].float() * self.inv_freq.float()  # (n or 1, 1, length, width / 2)
        turns = tdt.cat([turns, turns], dim=-1)
        angles = turns.cos().to(x.dtype), turns.sin().to(x.dtype)
        for layer in self.layers:
            x = layer(x, angles, mask)
        return self.norm(x)


class LlamaForCausalLM(CausalLM):
    """Llama as a language model: tokens → logits of each next token.

    Args: those of LlamaModel, and
        class_dim: dimension of the vocabulary in the result: -1, or 1 as CrossEntropyLoss expects it.
    Shape: input_ids, attention_mask (n, length); result (n, length, vocab_size), with class_dim=1 (n, vocab_size, length).
    Raises:
        TypeError: an argument that is not one of the model.
        ValueError: sizes that do not fit.
    Source: Touvron et al., LLaMA: Open and Efficient Foundation Language Models, 2023.

    >>> import tdt
    >>> from tdt.text.models import LlamaForCausalLM
    >>> sizes = dict(vocab_size=9, hidden_size=8, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2)
    >>> LlamaForCausalLM(**sizes)(tdt.tensor([[1, 2]])).shape
    tdt.Size([1, 2, 9])
    """

    base, base_name = LlamaModel, "model"
    tied = ("lm_head", "model.embed_tokens")


class LlamaForSequenceClassification(LastTokenClassifier):
    """Llama with a linear layer on the last token of each sequence that is not `pad_token_id`.

    Args: those of LlamaModel, and `num_labels`.
    Shape: input_ids, attention_mask (n, length); result (n, num_labels).
    Raises:
        TypeError: an argument that is not one of the model.
        ValueError: several sequences without `pad_token_id`, or sizes that do not fit.
    Source: Touvron et al., LLaMA: Open and Efficient Foundation Language Models, 2023.

    >>> import tdt
    >>> from tdt.text.models import LlamaForSequenceClassification
    >>> sizes = dict(vocab_size=9, hidden_size=8, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2)
    >>> LlamaForSequenceClassification(**sizes, num_labels=3, pad_token_id=0)(tdt.tensor([[1, 2], [1, 0]])).shape
    tdt.Size([2, 3])
    """

    base, base_name = LlamaModel, "model"
