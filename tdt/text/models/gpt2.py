"""GPT-2 (Radford et al., Language Models are Unsupervised Multitask Learners, 2019)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import tdt
from tdt import Tensor, nn
from tdt.nn import init
from tdt.text._cache import causal_attention, first_position
from tdt.text.models import _api
from tdt.text.models._api import Settings, TextModel, of_head
from tdt.text.models._heads import CausalLM, LastTokenClassifier

__all__ = ["GPT2ForSequenceClassification", "GPT2LMHeadModel", "GPT2Model"]


@dataclass(frozen=True, kw_only=True)
class GPT2Settings(Settings):
    """Settings of GPT-2; the defaults are those of the model with 124 million parameters.

    Args:
        n_inner: width between the two linear layers of a block; None for four times n_embd.
        embd_pdrop: probability that an element of the embeddings is zeroed in training.
        scale_attn_weights: whether scores of attention are divided by the root of a head's width.
        scale_attn_by_inverse_layer_idx: whether scores of attention are divided by the number of their block too.
    """

    model_type = "gpt2"
    aliases = {
        "hidden_size": "n_embd", "max_position_embeddings": "n_positions", "num_attention_heads": "n_head",
        "num_hidden_layers": "n_layer",
    }  # fmt: skip
    required = {"add_cross_attention": False}

    vocab_size: int = 50257
    n_positions: int = 1024
    n_embd: int = 768
    n_layer: int = 12
    n_head: int = 12
    n_inner: int | None = None
    activation_function: str = "gelu_new"
    resid_pdrop: float = 0.1
    embd_pdrop: float = 0.1
    attn_pdrop: float = 0.1
    layer_norm_epsilon: float = 1e-5
    initializer_range: float = 0.02
    scale_attn_weights: bool = True
    scale_attn_by_inverse_layer_idx: bool = False
    tie_word_embeddings: bool = of_head("language_model", True)
    num_labels: int = of_head("classification", 2)
    pad_token_id: int | None = of_head("classification", None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_embd % self.n_head:
            raise ValueError(f"n_embd {self.n_embd} is not a multiple of n_head {self.n_head}")

    @property
    def hidden_size(self) -> int:
        """Width of the hidden states."""
        return self.n_embd


class Conv1D(nn.Module):
    """A linear layer whose weight is (in, out), the transpose of Linear's."""

    def __init__(self, width: int, inputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(tdt.empty(inputs, width))
        self.bias = nn.Parameter(tdt.empty(width))

    def forward(self, input: Tensor) -> Tensor:
        """input · weight + bias."""
        return nn.functional.linear(input, self.weight.t(), self.bias)

    def extra_repr(self) -> str:
        return f"{self.weight.shape[1]}, {self.weight.shape[0]}"


class GPT2Attention(nn.Module):
    """Causal multi-head self-attention."""

    def __init__(self, config: GPT2Settings, index: int) -> None:
        super().__init__()
        self.heads = config.n_head
        self.scale = (config.n_embd // config.n_head) ** -0.5 if config.scale_attn_weights else 1.0
        if config.scale_attn_by_inverse_layer_idx:
            self.scale /= index + 1
        self.c_attn = Conv1D(3 * config.n_embd, config.n_embd)
        self.c_proj = Conv1D(config.n_embd, config.n_embd)
        self.attn_dropout, self.resid_dropout = nn.Dropout(config.attn_pdrop), nn.Dropout(config.resid_pdrop)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """(n, length, n_embd) → same."""
        q, k, v = (_api.split_heads(part, self.heads) for part in self.c_attn(x).chunk(3, dim=-1))
        dropout = self.attn_dropout.p if self.training else 0.0
        attended = causal_attention(self, q, k, v, mask=mask, dropout=dropout, scale=self.scale)
        return self.resid_dropout(self.c_proj(_api.join_heads(attended)))


class GPT2MLP(nn.Module):
    """Two layers at each position."""

    def __init__(self, config: GPT2Settings) -> None:
        super().__init__()
        inner = config.n_inner or 4 * config.n_embd
        self.c_fc, self.c_proj = Conv1D(inner, config.n_embd), Conv1D(config.n_embd, inner)
        self.act = _api.activation(config.activation_function)
        self.dropout = nn.Dropout(config.resid_pdrop)

    def forward(self, x: Tensor) -> Tensor:
        """(n, length, n_embd) → same."""
        return self.dropout(self.c_proj(self.act(self.c_fc(x))))


class GPT2Block(nn.Module):
    """Attention and two layers, each after a norm and added to its input."""

    def __init__(self, config: GPT2Settings, index: int) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.n_embd, eps=config.layer_norm_epsilon)
        self.attn = GPT2Attention(config, index)
        self.ln_2 = nn.LayerNorm(config.n_embd, eps=config.layer_norm_epsilon)
        self.mlp = GPT2MLP(config)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """(n, length, n_embd) → same."""
        x = x + self.attn(self.ln_1(x), mask)
        return x + self.mlp(self.ln_2(x))


class SmallResidual(TextModel):
    """Base of GPT-2's models: the last layers of residual branches begin small, so that their sum keeps its deviation."""

    def reset_parameters(self) -> None:
        """Initialise the weights."""
        super().reset_parameters()
        deviation = self.config.initializer_range / math.sqrt(2 * self.config.n_layer)
        for module in self.modules():
            if isinstance(module, GPT2Attention | GPT2MLP):
                init.normal_(module.c_proj.weight, std=deviation)


class GPT2Model(SmallResidual):
    """GPT-2 without a head: tokens → hidden states after the last norm.

    Args: those of Hugging Face's `GPT2Config`.
    Shape: input_ids (n, length), int64; attention_mask (n, length), 0 at padding; result (n, length, n_embd).
    Raises:
        TypeError: an argument that is not one of the model.
        ValueError: a sequence of more than `n_positions` tokens, or sizes that do not fit.
    Source: Radford et al., Language Models are Unsupervised Multitask Learners, 2019.

    >>> import tdt
    >>> from tdt.text.models import GPT2Model
    >>> GPT2Model(vocab_size=9, n_positions=4, n_embd=8, n_layer=1, n_head=2)(tdt.tensor([[1, 2]])).shape
    tdt.Size([1, 2, 8])
    """

    settings_class = GPT2Settings
    config: GPT2Settings

    def _build(self) -> None:
        config = self.config
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.wpe = nn.Embedding(config.n_positions, config.n_embd)
        self.drop = nn.Dropout(config.embd_pdrop)
        self.h = nn.ModuleList([GPT2Block(config, index) for index in range(config.n_layer)])
        self.ln_f = nn.LayerNorm(config.n_embd, eps=config.layer_norm_epsilon)

    @property
    def max_length(self) -> int:
        """The longest sequence that the model takes."""
        return self.config.n_positions

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, position_ids: Tensor | None = None
    ) -> Tensor:
        """The hidden states of the tokens."""
        mask = _api.key_mask(self, input_ids, attention_mask)
        if position_ids is None:
            start = first_position()
            end = start + input_ids.shape[1]
            _api.check_length(self, end, self.config.n_positions, "n_positions")
            placed = self.wpe.weight[start:end]
        else:
            placed = self.wpe(position_ids)
        x = self.drop(self.wte(input_ids) + placed)
        for block in self.h:
            x = block(x, mask)
        return self.ln_f(x)


class GPT2LMHeadModel(SmallResidual, CausalLM):
    """GPT-2 as a language model: tokens → logits of each next token.

    Args: those of Hugging Face's `GPT2Config`, and
        class_dim: dimension of the vocabulary in the result: -1, or 1 as CrossEntropyLoss expects it.
    Shape: input_ids, attention_mask (n, length); result (n, length, vocab_size), with class_dim=1 (n, vocab_size, length).
    Raises:
        TypeError: an argument that is not one of the model.
        ValueError: a sequence of more than `n_positions` tokens, or sizes that do not fit.
    Source: Radford et al., Language Models are Unsupervised Multitask Learners, 2019.

    >>> import tdt
    >>> from tdt.text.models import GPT2LMHeadModel
    >>> GPT2LMHeadModel(vocab_size=9, n_positions=4, n_embd=8, n_layer=1, n_head=2)(tdt.tensor([[1, 2]])).shape
    tdt.Size([1, 2, 9])
    """

    base, base_name = GPT2Model, "transformer"
    tied = ("lm_head", "transformer.wte")


class GPT2ForSequenceClassification(SmallResidual, LastTokenClassifier):
    """GPT-2 with a linear layer on the last token of each sequence that is not `pad_token_id`.

    Args: those of Hugging Face's `GPT2Config`.
    Shape: input_ids, attention_mask (n, length); result (n, num_labels).
    Raises:
        TypeError: an argument that is not one of the model.
        ValueError: several sequences without `pad_token_id`; or as GPT2Model.
    Source: Radford et al., Language Models are Unsupervised Multitask Learners, 2019.

    >>> import tdt
    >>> from tdt.text.models import GPT2ForSequenceClassification
    >>> sizes = dict(vocab_size=9, n_positions=4, n_embd=8, n_layer=1, n_head=2)
    >>> GPT2ForSequenceClassification(**sizes, num_labels=3, pad_token_id=0)(tdt.tensor([[1, 2], [1, 0]])).shape
    tdt.Size([2, 3])
    """

    base, base_name = GPT2Model, "transformer"
