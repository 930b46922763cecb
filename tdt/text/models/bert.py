"""BERT (Devlin et al., BERT: Pre-training of Deep Bidirectional Transformers, 2018)."""

from __future__ import annotations

from dataclasses import dataclass

import tdt
from tdt import Tensor, nn
from tdt.nn import functional as F
from tdt.text.models import _api
from tdt.text.models._api import Settings, TextModel, of_head
from tdt.text.models._heads import Layers, WithHead

__all__ = ["BertForMaskedLM", "BertForSequenceClassification", "BertModel"]


@dataclass(frozen=True, kw_only=True)
class BertSettings(Settings):
    """Settings of BERT; the defaults are those of BERT base.

    Args:
        type_vocab_size: number of segments, such as question and answer.
        classifier_dropout: probability that an input of the classifier is zeroed in training; None for hidden_dropout_prob.
    """

    model_type = "bert"
    required = {"is_decoder": False, "add_cross_attention": False, "position_embedding_type": "absolute"}

    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    pad_token_id: int | None = 0
    mask_padding: bool = False
    tie_word_embeddings: bool = of_head("language_model", True)
    classifier_dropout: float | None = of_head("classification", None)
    num_labels: int = of_head("classification", 2)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hidden_size % self.num_attention_heads:
            sizes = f"hidden_size {self.hidden_size} is not a multiple of num_attention_heads"
            raise ValueError(f"{sizes} {self.num_attention_heads}")


class BertEmbeddings(nn.Module):
    """The sum of the vectors of token, position and segment, normalised."""

    def __init__(self, config: BertSettings) -> None:
        super().__init__()
        self.most = config.max_position_embeddings
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id)
        self.position_embeddings = nn.Embedding(self.most, config.hidden_size)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, input_ids: Tensor, token_type_ids: Tensor | None, position_ids: Tensor | None) -> Tensor:
        """(n, length) → (n, length, hidden_size)."""
        if position_ids is None:
            _api.check_length(self, input_ids.shape[1], self.most, "max_position_embeddings")
            positions = self.position_embeddings.weight[: input_ids.shape[1]]
        else:
            positions = self.position_embeddings(position_ids)
        types = tdt.zeros_like(input_ids) if token_type_ids is None else token_type_ids
        x = self.word_embeddings(input_ids) + self.token_type_embeddings(types) + positions
        return self.dropout(self.LayerNorm(x))


class BertSelfAttention(nn.Module):
    """Multi-head self-attention, without the layer after it."""

    def __init__(self, config: BertSettings) -> None:
        super().__init__()
        self.heads, hidden = config.num_attention_heads, config.hidden_size
        self.query, self.key, self.value = (
            nn.Linear(hidden, hidden),
            nn.Linear(hidden, hidden),
            nn.Linear(hidden, hidden),
        )
        self.dropout = nn.Dropout(config.attention_probs_dropout_prob)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """(n, length, hidden_size) → same."""
        q, k, v = (_api.split_heads(layer(x), self.heads) for layer in (self.query, self.key, self.value))
        dropout = self.dropout.p if self.training else 0.0
        return _api.join_heads(F.scaled_dot_product_attention(q, k, v, mask, dropout))


class BertOutput(nn.Module):
    """A linear layer whose result is added to the input of the branch, and normalised."""

    def __init__(self, inputs: int, config: BertSettings) -> None:
        super().__init__()
        self.dense = nn.Linear(inputs, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, x: Tensor, around: Tensor) -> Tensor:
        """(n, length, inputs) and (n, length, hidden_size) → (n, length, hidden_size)."""
        return self.LayerNorm(self.dropout(self.dense(x)) + around)


class BertAttention(nn.Module):
    """Self-attention and the layer after it."""

    def __init__(self, config: BertSettings) -> None:
        super().__init__()
        self.add_module("self", BertSelfAttention(config))
        self.output = BertOutput(config.hidden_size, config)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """(n, length, hidden_size) → same."""
        return self.output(self.get_submodule("self")(x, mask), x)


class BertIntermediate(nn.Module):
    """A linear layer and its activation."""

    def __init__(self, config: BertSettings) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.intermediate_size)
        self.act = _api.activation(config.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        """(n, length, hidden_size) → (n, length, intermediate_size)."""
        return self.act(self.dense(x))


class BertLayer(nn.Module):
    """Attention, then two layers at each position."""

    def __init__(self, config: BertSettings) -> None:
        super().__init__()
        self.attention, self.intermediate = BertAttention(config), BertIntermediate(config)
        self.output = BertOutput(config.intermediate_size, config)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """(n, length, hidden_size) → same."""
        x = self.attention(x, mask)
        return self.output(self.intermediate(x), x)


class BertPooler(nn.Module):
    """The first token's hidden state, through a linear layer and tanh."""

    def __init__(self, config: BertSettings) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        """(n, length, hidden_size) → (n, hidden_size)."""
        return self.dense(x[:, 0]).tanh()


class BertModel(TextModel):
    """BERT without a head: tokens → hidden states. `model.pooler` makes one vector of a sequence's hidden states.

    Args: those of Hugging Face's `BertConfig`, and
        mask_padding: without an attention_mask, attend to no token `pad_token_id`.
    Shape: input_ids, token_type_ids (n, length), int64; attention_mask (n, length), 0 at padding;
        result (n, length, hidden_size).
    Raises:
        TypeError: an argument that is not one of the model.
        ValueError: a sequence of more than `max_position_embeddings` tokens, or sizes that do not fit.
    Source: Devlin et al., BERT: Pre-training of Deep Bidirectional Transformers, 2018.

    >>> import tdt
    >>> from tdt.text.models import BertModel
    >>> sizes = dict(vocab_size=9, hidden_size=8, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2)
    >>> BertModel(**sizes)(tdt.tensor([[1, 2]])).shape
    tdt.Size([1, 2, 8])
    """

    settings_class = BertSettings
    config: BertSettings
    pooler: BertPooler

    def _build(self) -> None:
        self.embeddings = BertEmbeddings(self.config)
        self.encoder = Layers(BertLayer(self.config) for _ in range(self.config.num_hidden_layers))
        self.pooler = BertPooler(self.config)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> Tensor:
        """The hidden states of the tokens."""
        mask = _api.key_mask(self, input_ids, attention_mask, self.config.mask_padding)
        return self.encoder(self.embeddings(input_ids, token_type_ids, position_ids), mask)


class BertTransform(nn.Module):
    """A layer, its activation and a norm."""

    def __init__(self, config: BertSettings) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.act = _api.activation(config.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        """(n, length, hidden_size) → same."""
        return self.LayerNorm(self.act(self.dense(x)))


class BertPredictions(nn.Module):
    """The scores of the vocabulary at each position."""

    def __init__(self, config: BertSettings) -> None:
        super().__init__()
        self.bias = nn.Parameter(tdt.zeros(config.vocab_size))
        self.transform = BertTransform(config)
        self.decoder = nn.Linear(config.hidden_size, config.vocab_size)
        self.decoder.bias = self.bias

    def forward(self, x: Tensor) -> Tensor:
        """(n, length, hidden_size) → (n, length, vocab_size)."""
        return self.decoder(self.transform(x))


class BertMaskedLMHead(nn.Module):
    """The head of the masked language model."""

    def __init__(self, config: BertSettings) -> None:
        super().__init__()
        self.predictions = BertPredictions(config)

    def forward(self, x: Tensor) -> Tensor:
        """(n, length, hidden_size) → (n, length, vocab_size)."""
        return self.predictions(x)


class BertWithHead(WithHead):
    """Base of BERT's models with a head, which take segments too."""

    base, base_name = BertModel, "bert"
    bert: BertModel

    def forward(  # type: ignore[override]  # arguments in transformers' order
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> Tensor:
        """The logits."""
        return self._result(self.bert(input_ids, attention_mask, token_type_ids, position_ids), input_ids)


class BertForMaskedLM(BertWithHead):
    """BERT as a masked language model: tokens → logits of the token at each position.

    Args: those of BertModel, and
        class_dim: dimension of the vocabulary in the result: -1, or 1 as CrossEntropyLoss expects it.
    Shape: input_ids, attention_mask, token_type_ids (n, length); result (n, length, vocab_size), with class_dim=1
        (n, vocab_size, length).
    Raises:
        TypeError: an argument that is not one of the model.
        ValueError: as BertModel.
    Source: Devlin et al., BERT: Pre-training of Deep Bidirectional Transformers, 2018.

    >>> import tdt
    >>> from tdt.text.models import BertForMaskedLM
    >>> sizes = dict(vocab_size=9, hidden_size=8, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2)
    >>> BertForMaskedLM(**sizes)(tdt.tensor([[1, 2]])).shape
    tdt.Size([1, 2, 9])
    """

    head = "language_model"
    tied = ("cls.predictions.decoder", "bert.embeddings.word_embeddings")

    def _build_head(self) -> None:
        del self.bert.pooler
        self.cls = BertMaskedLMHead(self.config)

    def _result(self, hidden: Tensor, input_ids: Tensor) -> Tensor:
        return _api.with_classes(self.cls(hidden), self.config.class_dim)


class BertForSequenceClassification(BertWithHead):
    """BERT with a linear layer on the first token's pooled hidden state.

    Args: those of BertModel, and `num_labels`, `classifier_dropout`.
    Shape: input_ids, attention_mask, token_type_ids (n, length); result (n, num_labels).
    Raises:
        TypeError: an argument that is not one of the model.
        ValueError: as BertModel.
    Source: Devlin et al., BERT: Pre-training of Deep Bidirectional Transformers, 2018.

    >>> import tdt
    >>> from tdt.text.models import BertForSequenceClassification
    >>> sizes = dict(vocab_size=9, hidden_size=8, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2)
    >>> BertForSequenceClassification(**sizes, num_labels=3)(tdt.tensor([[1, 2]])).shape
    tdt.Size([1, 3])
    """

    head = "classification"

    def _build_head(self) -> None:
        config = self.config
        self.dropout = nn.Dropout(
            config.hidden_dropout_prob if config.classifier_dropout is None else config.classifier_dropout
        )
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)

    def _result(self, hidden: Tensor, input_ids: Tensor) -> Tensor:
        return self.classifier(self.dropout(self.bert.pooler(hidden)))
