"""Continue a text by the language model of a run."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import tdt
from tdt import Tensor
from tdt.text.generation import Sampling, TextStream, cache_kind, generate
from tdt.train.config.precision import default_dtype
from tdt.train.config.splits import undivided
from tdt.train.errors import EXPECTED_ERRORS, reason
from tdt.train.loop.prediction import Predictor

SHOWN = 5  # unknown characters that an error lists


class TextGenerator:
    """Generates text by a trained language model.

    Attributes:
        window: the most tokens that the model reads; None if it reads any number, as an RNN does.
    Raises:
        ValueError: the model is no language model.
    """

    def __init__(self, predictor: Predictor) -> None:
        self.predictor, self.dataset = predictor, predictor.dataset
        self.module = predictor.parts.scored
        if not hasattr(self.dataset, "decode"):
            where = undivided(predictor.config.data.train).name
            raise ValueError(f"this model is no language model: it was trained on {where}, not on the dataset Text")
        limits = [layer.max_length for layer in self.module.modules() if hasattr(layer, "max_length")]
        self.window: int | None = min(limits, default=predictor.facts["input"]["shape"][0])
        self._check_output()
        kind = cache_kind(self.module, self.logits, self.window)
        self._cached = kind is not None
        if kind == "state" and not limits:
            self.window = None

    def stream(
        self, prompt: str, length: int, sampling: Sampling, generator: tdt.Generator | None = None
    ) -> Iterator[str]:
        """The text that continues the prompt, for each of `length` tokens what it completes, which may be nothing.

        Raises ValueError for a length below 1, and a prompt that is empty or has unknown characters.
        """
        if length < 1:
            raise ValueError(f"length is at least 1, got {length}")
        tokens = self.encoded(prompt)
        text = TextStream(self.dataset.decode, tokens)
        found = generate(
            self.module, self.logits, tokens, sampling, cached=self._cached, window=self.window, generator=generator
        )
        return self._stream(islice(found, length), text)

    def _stream(self, tokens: Iterator[int], text: TextStream) -> Iterator[str]:
        for token in tokens:
            yield text.add(token)
        yield text.rest()

    def logits(self, tokens: Tensor) -> Tensor:
        """The logits (vocabulary,) of the token after those of a batch (1, length)."""
        return self._output(tokens)[0, : self.dataset.known_tokens, -1]

    def _output(self, tokens: Tensor) -> Tensor:
        parts, trained = self.predictor.parts, self.module.training
        if trained:
            self.module.eval()
        try:
            with default_dtype(parts.config.dtype):
                return parts.loss.output_part(parts.computation(self.module).forward.output(parts.place(tokens))).cpu()
        finally:
            if trained:
                self.module.train()

    def _check_output(self) -> None:
        length = min(2, self.window or 2)
        try:
            with tdt.no_grad():
                shape = tuple(self._output(tdt.zeros(1, length, dtype=tdt.int64)).shape)
        except EXPECTED_ERRORS as error:
            raise ValueError(f"this model reads no text of {length} tokens: {reason(error)}") from error
        known = self.dataset.known_tokens
        if len(shape) != 3 or shape[1] < known or shape[2] != length:
            raise ValueError(f"this model is no language model: for {length} tokens its output is of shape {shape}, not "
                             f"(1, {known}, {length})")  # fmt: skip

    def encoded(self, prompt: str) -> list[int]:
        """The tokens of a prompt. Raises ValueError if it has none, or characters that the model does not know."""
        if any("\ud800" <= character <= "\udfff" for character in prompt):
            raise ValueError("the prompt is not UTF-8 text")
        unknown = self.dataset.unknown_characters(prompt)
        if unknown:
            more = f" and {len(unknown) - SHOWN} more" if len(unknown) > SHOWN else ""
            raise ValueError(f"the prompt has characters that the training text lacks: {unknown[:SHOWN]!r}{more}")
        tokens = self.dataset.encode(prompt).tolist()
        if not tokens:
            raise ValueError("the prompt is empty; a model continues at least one token")
        return tokens
