"""The state of a model between the tokens that it generates: keys and values of attention, hidden states of RNNs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import tdt
from tdt import Tensor, nn
from tdt.nn import functional as F

_current: ContextVar[DecodingCache | None] = ContextVar("decoding_cache", default=None)


class DecodingCache:
    """What the layers of a model keep of the tokens that it has read, so that the next one is all that they compute.

    Within `with cache.reading(model):` a call of the model reads its tokens as the continuation of those before.

    length: number of tokens read. capacity: the most that it has room for.
    """

    def __init__(self, capacity: int) -> None:
        self.length, self.capacity = 0, capacity
        self._keys: dict[nn.Module, tuple[Tensor, Tensor]] = {}
        self._hidden: dict[nn.Module, Any] = {}

    @contextmanager
    def reading(self, model: nn.Module) -> Iterator[None]:
        """Context manager in which the layers of `model` use this cache."""
        hooks: list[Any] = []
        for layer in model.modules():
            if isinstance(layer, nn.RNNBase):
                hooks.append(layer.register_forward_pre_hook(self._with_hidden))
                hooks.append(layer.register_forward_hook(self._keep_hidden))
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)
            for hook in hooks:
                hook.remove()

    def extended(self, layer: nn.Module, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """The layer's keys and values of all tokens, those of the new ones (n, heads, new, width) appended."""
        if layer not in self._keys:
            n, heads, _, width = keys.shape
            rooms = (keys.new_empty(n, heads, self.capacity, width),
                     values.new_empty(n, heads, self.capacity, values.shape[-1]))  # fmt: skip
            self._keys[layer] = rooms
        end = self.length + keys.shape[2]
        joined = []
        for room, new in zip(self._keys[layer], (keys, values), strict=True):
            room[:, :, self.length : end] = new
            joined.append(room[:, :, :end])
        return joined[0], joined[1]

    def _with_hidden(self, layer: nn.Module, args: Any) -> Any:
        return (args[0], self._hidden[layer]) if layer in self._hidden else args

    def _keep_hidden(self, layer: nn.Module, args: Any, output: Any) -> None:
        self._hidden[layer] = output[1]


def first_position() -> int:
    """The position of the first token of this call: the number of tokens that the current cache has read, or 0."""
    cache = _current.get()
    return 0 if cache is None else cache.length


def causal_attention(
    layer: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Tensor | None = None,
    dropout: float = 0.0,
    scale: float | None = None,
) -> Tensor:
    """Attention of each token to itself and earlier ones, with those of the current cache before them.

    Args:
        layer: whose keys and values the cache keeps.
        mask: bool, broadcastable to (n, heads, length, length); False where a token may not be attended to.
    Shape: query (n, heads, length, width); key and value too, whose heads may be fewer (grouped-query attention).
    """
    cache, length = _current.get(), query.shape[2]
    shared = query.shape[1] != key.shape[1]
    if cache is not None:
        if mask is not None:
            raise ValueError(f"{type(layer).__name__}: takes no attention_mask while it generates")
        key, value = cache.extended(layer, key, value)
        if length == 1:
            return F.scaled_dot_product_attention(query, key, value, scale=scale, enable_gqa=shared)
    total = key.shape[2]
    if mask is None and total == length:
        return F.scaled_dot_product_attention(
            query, key, value, dropout_p=dropout, is_causal=True, scale=scale, enable_gqa=shared
        )
    allowed = tdt.ones(length, total, dtype=tdt.bool, device=query.device).tril(total - length)
    allowed = allowed if mask is None else allowed & mask
    return F.scaled_dot_product_attention(query, key, value, allowed, dropout, scale=scale, enable_gqa=shared)
