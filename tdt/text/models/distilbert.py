"""DistilBERT (Sanh et al., DistilBERT, a distilled version of BERT, 2019)."""

from __future__ import annotations

from dataclasses import dataclass

from tdt import Tensor, nn
from tdt.nn import functional as F
from tdt.text.models import _api
from tdt.text.models._api import Settings, TextModel, of_head
from tdt.text.models._heads import Layers, WithHead

__all__ = ["DistilBertForMaskedLM", "DistilBertForSequenceClassification", "DistilBertModel"]

EPS = 1e-12  # of all norms; no setting of Hugging Face's


@dataclass(frozen=True, kw_only=True)
class DistilBertSettings(Settings):
    """Settings of DistilBERT; the defaults are those of DistilBERT base.

    Args:
        seq_classif_dropout: probability that an input of the classifier is zeroed in training.
    """

    model_type = "distilbert"
    aliases = {"hidden_size": "dim", "num_attention_heads": "n_heads", "num_hidden_layers": "n_layers"}

    vocab_size: int = 30522
    dim: int = 768
    n_layers: int = 6
    n_heads: int = 12
    hidden_dim: int = 3072
    activation: str = "gelu"
    dropout: float = 0.1
    attention_dropout: float = 0.1
    max_position_embeddings: int = 512
    initializer_range: float = 0.02
    pad_token_id: int | None = 0
    mask_padding: bool = False
    tie_word_embeddings: bool = of_head("language_model", True)
    seq_classif_dropout: float = of_head("classification", 0.2)
    num_labels: int = of_head("classification", 2)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dim % self.n_heads:
            raise ValueError(f"dim {self.dim} is not a multiple of n_heads {self.n_heads}")


class Embeddings(nn.Module):
    """The sum of the vectors of token and position, normalised."""

    def __init__(self, config: DistilBertSettings) -> None:
        super().__init__()
        self.most = config.max_position_embeddings
        self.word_embeddings = nn.Embedding(config.vocab_size, config.dim, padding_idx=config.pad_token_id)
        self.position_embeddings = nn.Embedding(self.most, config.dim)
        self.LayerNorm = nn.LayerNorm(config.dim, eps=EPS)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, input_ids: Tensor, position_ids: Tensor | None) -> Tensor:
        """(n, length) → (n, length, dim)."""
        if position_ids is None:
            _api.check_length(self, input_ids.shape[1], self.most, "max_position_embeddings")
            positions = self.position_embeddings.weight[: input_ids.shape[1]]
        else:
            positions = self.position_embeddings(position_ids)
        return self.dropout(self.LayerNorm(self.word_embeddings(input_ids) + positions))


class SelfAttention(nn.Module):
    """Multi-head self-attention."""

    def __init__(self, config: DistilBertSettings) -> None:
        super().__init__()
        self.heads, dim = config.n_heads, config.dim
        self.q_lin, self.k_lin, self.v_lin = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.out_lin = nn.Linear(dim, dim)
        self.dropout = nn.Dropout(config.attention_dropout)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """(n, length, dim) → same."""
        q, k, v = (_api.split_heads(layer(x), self.heads) for layer in (self.q_lin, self.k_lin, self.v_lin))
        dropout = self.dropout.p if self.training else 0.0
        return self.out_lin(_api.join_heads(F.scaled_dot_product_attention(q, k, v, mask, dropout)))


class FFN(nn.Module):
    """Two layers at each position."""

    def __init__(self, config: DistilBertSettings) -> None:
        super().__init__()
        self.lin1, self.lin2 = nn.Linear(config.dim, config.hidden_dim), nn.Linear(config.hidden_dim, config.dim)
        self.act = _api.activation(config.activation)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(n, length, dim) → same."""
        return self.dropout(self.lin2(self.act(self.lin1(x))))


class TransformerBlock(nn.Module):
    """Attention, then two layers at each position; each added to its input and normalised."""

    def __init__(self, config: DistilBertSettings) -> None:
        super().__init__()
        self.attention = SelfAttention(config)
        self.sa_layer_norm = nn.LayerNorm(config.dim, eps=EPS)
        self.ffn = FFN(config)
        self.output_layer_norm = nn.LayerNorm(config.dim, eps=EPS)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """(n, length, dim) → same."""
        x = self.sa_layer_norm(self.attention(x, mask) + x)
        return self.output_layer_norm(self.ffn(x) + x)


class DistilBertModel(TextModel):
    """DistilBERT without a head: tokens → hidden states.

    Args: those of Hugging Face's `DistilBertConfig`, and
        mask_padding: without an attention_mask, attend to no token `pad_token_id`.
    Shape: input_ids (n, length), int64; attention_mask (n, length), 0 at padding; result (n, length, dim).
    Raises:
        TypeError: an argument that is not one of the model.
        ValueError: a sequence of more than `max_position_embeddings` tokens, or sizes that do not fit.
    Source: Sanh et al., DistilBERT, a distilled version of BERT, 2019.

    >>> import tdt
    >>> from tdt.text.models import DistilBertModel
    >>> DistilBertModel(vocab_size=9, dim=8, hidden_dim=16, n_layers=1, n_heads=2)(tdt.tensor([[1, 2]])).shape
    tdt.Size([1, 2, 8])
    """

    settings_class = DistilBertSettings
    config: DistilBertSettings

    def _build(self) -> None:
        self.embeddings = Embeddings(self.config)
        self.transformer = Layers(TransformerBlock(self.config) for _ in range(self.config.n_layers))

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, position_ids: Tensor | None = None
    ) -> Tensor:
        """The hidden states of the tokens."""
        mask = _api.key_mask(self, input_ids, attention_mask, self.config.mask_padding)
        return self.transformer(self.embeddings(input_ids, position_ids), mask)


class DistilBertForMaskedLM(WithHead):
    """DistilBERT as a masked language model: tokens → logits of the token at each position.

    Args: those of DistilBertModel, and
        class_dim: dimension of the vocabulary in the result: -1, or 1 as CrossEntropyLoss expects it.
    Shape: input_ids, attention_mask (n, length); result (n, length, vocab_size), with class_dim=1 (n, vocab_size, length).
    Raises:
        TypeError: an argument that is not one of the model.
        ValueError: as DistilBertModel.
    Source: Sanh et al., DistilBERT, a distilled version of BERT, 2019.

    >>> import tdt
    >>> from tdt.text.models import DistilBertForMaskedLM
    >>> DistilBertForMaskedLM(vocab_size=9, dim=8, hidden_dim=16, n_layers=1, n_heads=2)(tdt.tensor([[1, 2]])).shape
    tdt.Size([1, 2, 9])
    """

    base, base_name = DistilBertModel, "distilbert"
    head = "language_model"
    tied = ("vocab_projector", "distilbert.embeddings.word_embeddings")

    def _build_head(self) -> None:
        config = self.config
        self.vocab_transform = nn.Linear(config.dim, config.dim)
        self.vocab_layer_norm = nn.LayerNorm(config.dim, eps=EPS)
        self.vocab_projector = nn.Linear(config.dim, config.vocab_size)
        self.act = _api.activation(config.activation)

    def _result(self, hidden: Tensor, input_ids: Tensor) -> Tensor:
        transformed = self.vocab_layer_norm(self.act(self.vocab_transform(hidden)))
        return _api.with_classes(self.vocab_projector(transformed), self.config.class_dim)


class DistilBertForSequenceClassification(WithHead):
    """DistilBERT with two linear layers on the first token's hidden state.

    Args: those of DistilBertModel, and `num_labels`, `seq_classif_dropout`.
    Shape: input_ids, attention_mask (n, length); result (n, num_labels).
    Raises:
        TypeError: an argument that is not one of the model.
        ValueError: as DistilBertModel.
    Source: Sanh et al., DistilBERT, a distilled version of BERT, 2019.

    >>> import tdt
    >>> from tdt.text.models import DistilBertForSequenceClassification
    >>> sizes = dict(vocab_size=9, dim=8, hidden_dim=16, n_layers=1, n_heads=2)
    >>> DistilBertForSequenceClassification(**sizes, num_labels=3)(tdt.tensor([[1, 2]])).shape
    tdt.Size([1, 3])
    """

    base, base_name = DistilBertModel, "distilbert"
    head = "classification"

    def _build_head(self) -> None:
        config = self.config
        self.pre_classifier = nn.Linear(config.dim, config.dim)
        self.classifier = nn.Linear(config.dim, config.num_labels)
        self.dropout = nn.Dropout(config.seq_classif_dropout)

    def _result(self, hidden: Tensor, input_ids: Tensor) -> Tensor:
        return self.classifier(self.dropout(F.relu(self.pre_classifier(hidden[:, 0]))))
