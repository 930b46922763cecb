"""The state of a model between the tokens that it generates: keys and values of attention, hidden states of RNNs."""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import Any

import tdt
from tdt import Tensor, nn
from tdt._core.tensor import wrap
from tdt.nn import functional as F

_current: ContextVar[DecodingCache | None] = ContextVar("decoding_cache", default=None)


class DecodingCache:
    """What the layers of a model keep of the tokens that it has read, so that the next one is all that they compute.

    Within `with cache.reading(count):` the layers find the cache by `first_position` and `causal_attention`, and RNNs start
    from the hidden state of before.

    Args:
        model: whose layers use it.
    Attributes:
        length: number of tokens read.
    """

    def __init__(self, model: nn.Module) -> None:
        self.length = 0
        self._rnns = [layer for layer in model.modules() if isinstance(layer, nn.RNNBase)]
        self._rooms: dict[nn.Module, list[Any]] = {}  # arrays, as views of tensors would cost more than a step
        self._hidden: dict[nn.Module, Any] = {}

    @property
    def holds_attention(self) -> bool:
        """Whether layers keep keys and values of every token."""
        return bool(self._rooms)

    def reading(self, count: int) -> _Reading:
        """Context manager in which a call of the model reads `count` tokens as the continuation of those before.

        Nothing is recorded for gradients.
        """
        return _Reading(self, count)

    def extended(self, layer: nn.Module, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """The layer's keys and values of all tokens, those of the new ones (n, heads, new, width) appended."""
        end = self.length + keys.shape[2]
        rooms = self._rooms.get(layer)
        if rooms is None or end > rooms[0].shape[2]:
            larger = [_room(new, end) for new in (keys, values)]
            for room, old in zip(larger, rooms or (), strict=False):
                room[:, :, : self.length] = old[:, :, : self.length]
            rooms = self._rooms[layer] = larger
        for room, new in zip(rooms, (keys, values), strict=True):
            room[:, :, self.length : end] = new._a
        return wrap(rooms[0][:, :, :end]), wrap(rooms[1][:, :, :end])

    def _with_hidden(self, layer: nn.Module, args: Any) -> Any:
        return (args[0], self._hidden[layer]) if layer in self._hidden else args

    def _keep_hidden(self, layer: nn.Module, args: Any, output: Any) -> None:
        self._hidden[layer] = output[1]


def _room(like: Tensor, length: int) -> Any:
    """An array for tensors (n, heads, at least `length`, width): twice as much each time, so that copying is rare."""
    n, heads, _, width = like.shape
    return like.new_empty(n, heads, max(64, 1 << (length - 1).bit_length()), width)._a


class _Reading:
    def __init__(self, cache: DecodingCache, count: int) -> None:
        self.cache, self.count = cache, count
        self.hooks: list[Any] = []
        self.no_grad = tdt.no_grad()

    def __enter__(self) -> None:
        for layer in self.cache._rnns:
            self.hooks.append(layer.register_forward_pre_hook(self.cache._with_hidden))
            self.hooks.append(layer.register_forward_hook(self.cache._keep_hidden))
        self.no_grad.__enter__()
        self.token: Token[DecodingCache | None] = _current.set(self.cache)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        _current.reset(self.token)
        self.no_grad.__exit__(None, None, None)
        for hook in self.hooks:
            hook.remove()
        self.cache.length += self.count


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
