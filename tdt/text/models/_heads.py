"""What the networks of several families have in common: their layers in a row, and the heads on their hidden states."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from tdt import Tensor, nn
from tdt.text.models import _api
from tdt.text.models._api import TextModel


class Layers(nn.Module):
    """Layers one after the other, all with the same mask; they are called `layer.0`, `layer.1`, …"""

    def __init__(self, layers: Iterable[nn.Module]) -> None:
        super().__init__()
        self.layer = nn.ModuleList(layers)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """(n, length, width) → same."""
        for layer in self.layer:
            x = layer(x, mask)
        return x


class WithHead(TextModel):
    """Base of models with a head. `base` is the network without it, a submodule called by `base_name`."""

    base: ClassVar[type[TextModel]]
    base_name: ClassVar[str]

    def __init_subclass__(cls) -> None:
        if hasattr(cls, "base"):
            cls.settings_class = cls.base.settings_class
        super().__init_subclass__()

    def _build(self) -> None:
        self.add_module(self.base_name, self.base.part(self.config))
        self._build_head()
        self._tie()

    def _build_head(self) -> None:
        """Make the submodules of the head."""
        raise NotImplementedError

    def _result(self, hidden: Tensor, input_ids: Tensor) -> Tensor:
        """What the head computes from the hidden states (n, length, width) of the tokens (n, length)."""
        raise NotImplementedError

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, position_ids: Tensor | None = None
    ) -> Tensor:
        """The logits."""
        hidden = getattr(self, self.base_name)(input_ids, attention_mask, position_ids)
        return self._result(hidden, input_ids)


class CausalLM(WithHead):
    """Base of language models whose head is one layer, `lm_head`: logits of each next token."""

    head = "language_model"

    def _build_head(self) -> None:
        self.lm_head = nn.Linear(self.config.hidden_size, self.config.vocab_size, bias=False)

    def _result(self, hidden: Tensor, input_ids: Tensor) -> Tensor:
        return _api.with_classes(self.lm_head(hidden), self.config.class_dim)


class LastTokenClassifier(WithHead):
    """Base of classifiers whose head is one layer, `score`, on the last token that is no padding."""

    head = "classification"

    def _build_head(self) -> None:
        self.score = nn.Linear(self.config.hidden_size, self.config.num_labels, bias=False)

    def _result(self, hidden: Tensor, input_ids: Tensor) -> Tensor:
        return _api.last_token(self.score(hidden), input_ids, self.config.pad_token_id)
