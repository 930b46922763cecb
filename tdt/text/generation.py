"""Generate tokens by a language model: sampling, a cache of what the model has read, and text as it comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import tdt
from tdt import Tensor, nn
from tdt.text._cache import DecodingCache

UNFINISHED = "\N{REPLACEMENT CHARACTER}"  # decodes the first bytes of a character
PROBE = 3  # tokens by which a model is found to use the cache


@dataclass(frozen=True)
class Sampling:
    """How the next token is drawn: logits are divided by `temperature`, then `top_k` and `top_p` leave out tokens.

    Args:
        temperature: 0 takes the most likely token.
        top_k: draw from so many most likely tokens, and those as likely as the last of them.
        top_p: draw from the fewest most likely tokens whose probabilities add up to this (Holtzman et al., The Curious
            Case of Neural Text Degeneration, 2020).
    Raises:
        ValueError: temperature below 0, top_k below 1, or top_p outside 0 to 1.

    >>> import tdt
    >>> from tdt.text.generation import Sampling
    >>> Sampling(top_k=1).draw(tdt.tensor([0.1, 2.0, 0.3]))
    1
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < float("inf"):
            raise ValueError(f"temperature is 0 or a positive number, got {self.temperature}")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k is at least 1, got {self.top_k}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValueError(f"top_p is above 0 and at most 1, got {self.top_p}")

    def draw(self, logits: Tensor, generator: tdt.Generator | None = None) -> int:
        """The number of a token, drawn by its logits (vocab_size,)."""
        if self.temperature == 0:
            return int(logits.argmax())
        return int(tdt.multinomial(self.filtered(logits).softmax(-1), 1, generator=generator))

    def filtered(self, logits: Tensor) -> Tensor:
        """The logits (vocab_size,) over the temperature, -inf for tokens that are left out."""
        logits = logits / self.temperature if self.temperature != 1 else logits
        if self.top_k is not None and self.top_k < len(logits):
            logits = logits.masked_fill(logits < logits.topk(self.top_k).values[-1], -float("inf"))
        if self.top_p is not None and self.top_p < 1:
            ascending, numbers = logits.sort()
            left_out = ascending.softmax(-1).cumsum(-1) <= 1 - self.top_p
            left_out[-1] = False
            logits = logits.masked_fill(tdt.zeros_like(left_out).scatter(0, numbers, left_out), -float("inf"))
        return logits


def generate(
    model: nn.Module,
    logits_of: Callable[[Tensor], Tensor],
    tokens: Sequence[int],
    sampling: Sampling,
    *,
    cached: bool,
    window: int | None = None,
    generator: tdt.Generator | None = None,
) -> Iterator[int]:
    """The tokens after `tokens`, without end.

    A model reads at most `window` tokens. With the cache it reads on until the window is full, and then the last half of it
    again; without it reads the last `window` tokens for each new one.

    Args:
        model: whose layers use the cache; in eval mode.
        logits_of: the logits (vocab_size,) of the token after those of a batch (1, length), by this model.
        cached: whether to use the cache; see `cache_kind`.
        window: the most tokens that the model reads; None for any number.
    Raises:
        ValueError: `tokens` is empty.
    """
    context = list(tokens if window is None else tokens[-window:])
    if not context:
        raise ValueError("the prompt is empty; a model continues at least one token")
    cache, unread = DecodingCache(model), context
    while True:
        if cached and window is not None and cache.length + len(unread) > window:
            cache, unread = DecodingCache(model), context[-(window // 2 + 1) :]
        with tdt.no_grad():
            if cached:
                with cache.reading(len(unread)):
                    logits = logits_of(tdt.tensor([unread]))
            else:
                logits = logits_of(tdt.tensor([context]))
            token = sampling.draw(logits, generator)
        unread = [token]
        context = [*context, token] if window is None else [*context, token][-window:]
        yield token


def cache_kind(
    model: nn.Module, logits_of: Callable[[Tensor], Tensor], window: int | None = None
) -> Literal["attention", "state"] | None:
    """What the cache keeps for the model: keys and values of every token, or only a state, as of RNNs.

    None if the logits are others when the model reads tokens one after the other with the cache: where a layer that has
    no part in it mixes tokens, as a convolution does.
    """
    if window is not None and window < PROBE:
        return None
    tokens = tdt.arange(PROBE)[None] % 2
    cache = DecodingCache(model)
    with tdt.no_grad():
        whole = logits_of(tokens)
        for part in (tokens[:, :-1], tokens[:, -1:]):
            with cache.reading(part.shape[1]):
                logits = logits_of(part)
    tolerance = 1e-3 if whole.dtype in (tdt.float32, tdt.float64) else 5e-2
    if (logits - whole).abs().max() > tolerance * whole.abs().max():
        return None
    return "attention" if cache.holds_attention else "state"


class TextStream:
    """The text of tokens as they come, in whole characters.

    Args:
        decode: the text of a list of tokens.
        tokens: those before, which decide whether a word begins with a space.

    >>> from tdt.text.generation import TextStream
    >>> stream = TextStream(lambda numbers: bytes(numbers).decode(errors="replace"))
    >>> [stream.add(byte) for byte in "é!".encode()], stream.rest()
    (['', 'é', '!'], '')
    """

    def __init__(self, decode: Callable[[Sequence[int]], str], tokens: Sequence[int] = ()) -> None:
        self._decode = decode
        self._tokens, self._shown = list(tokens), decode(tokens)
        self._new = 0  # tokens of which no text has been returned

    def add(self, token: int) -> str:
        """The text that `token` completes; none within a character."""
        self._tokens.append(token)
        self._new += 1
        text = self._decode(self._tokens)
        return "" if text.endswith(UNFINISHED) else self._after(text)

    def rest(self) -> str:
        """The text of a character that no token has completed."""
        return self._after(self._decode(self._tokens))

    def _after(self, text: str) -> str:
        found = text[len(self._shown) :]
        self._tokens = self._tokens[-self._new :] if self._new else self._tokens
        self._shown, self._new = self._decode(self._tokens), 0
        return found
