"""Text: windows of characters, bytes or tokens of a tokenizer for next-token prediction."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from tdt._core.tensor import Tensor, wrap
from tdt.train._encoding import decode
from tdt.train._regular_file import open_regular
from tdt.train.data.tokenizer import Tokenizer
from tdt.utils.data import Dataset
from tdt.utils.data._splits import Split, check_split, split_indices

UNKNOWN = "\N{REPLACEMENT CHARACTER}"  # decodes the number of unknown characters


class Text(Dataset):
    """Windows of a text. Items are (tokens, next tokens), int64 tensors (length,) that overlap in all but one token.

    path: a UTF-8 text file; by default the text is the source code of tdt itself.
    length: tokens in a window.
    stride: tokens between the beginnings of windows; by default windows do not overlap.
    tokens: "characters" of the training split, with one number for all others; or the 256 "bytes".
    tokenizer: instead, the tokens of a `tokenizer.json`, or of the one in a folder (library `tokenizers`).
    split: "train", "valid" or "test": the beginning of the text, then its shares `valid` and `test`. Without it all of it.

    classes: the token of each number. `encode` and `decode` convert text to numbers and back.
    `state_dict()` has the vocabulary or the tokenizer, which a run's checkpoints keep.

    Raises FileNotFoundError; ValueError if the text is shorter than a window, or not UTF-8, or the tokenizer is none.

    >>> from tdt.train.data.datasets.text import Text
    >>> data = Text(length=8, tokens="bytes")
    >>> inputs, targets = data[0]
    >>> inputs[1:].equal(targets[:-1]), len(data.classes)
    (True, 256)
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        length: int = 128,
        tokens: Literal["characters", "bytes"] = "characters",
        *,
        tokenizer: str | os.PathLike[str] | Tokenizer | None = None,
        stride: int | None = None,
        split: Split | None = None,
        valid: float = 0.1,
        test: float = 0.0,
    ) -> None:
        check_split("Text", split, valid, test)
        if length < 1 or (stride is not None and stride < 1):
            raise ValueError(f"Text: length and stride are at least 1, got {length} and {stride}")
        if tokenizer is not None and tokens == "bytes":
            raise ValueError("Text: tokens: bytes and a tokenizer exclude each other")
        self._name = "tdt's own source" if path is None else str(path)
        self._path = None if path is None else Path(path).expanduser()
        whole: Any = own_source() if self._path is None else _read(self._path)
        if tokens == "bytes":
            whole = whole.encode()
        parts = {name: whole[rows[0] : rows[-1] + 1] if len(rows) else whole[:0]
                 for name, rows in split_indices(len(whole), valid, test, None).items()}  # fmt: skip
        self.length, self.stride, self.tokens = length, stride or length, tokens
        self._text = whole if split is None else parts[split]
        fitted_on = whole if split is None else parts["train"]
        if tokenizer is not None:
            self._use(Tokenizer.of(tokenizer), None)
        else:
            self._use(None, "".join(sorted(set(fitted_on))) if tokens == "characters" else None)
        if len(self._numbers) <= length:
            unit = tokens if tokenizer is None else "tokens"
            raise ValueError(f"Text: {self._name}: {'' if split is None else f'its {split} split '}has "
                             f"{len(self._numbers)} {unit}, fewer than a window of {length} and its target")  # fmt: skip

    def source_files(self) -> list[Path]:
        """The text file; none for tdt's own source."""
        return [] if self._path is None else [self._path]

    @property
    def vocabulary_size(self) -> int:
        """Number of different tokens."""
        return len(self.classes)

    @property
    def known_tokens(self) -> int:
        """Number of tokens that stand for a text: all but the last one, of unknown characters."""
        return len(self.classes) - (self.vocabulary is not None)

    def unknown_characters(self, text: str) -> str:
        """The characters of `text` that are none of the vocabulary, each once."""
        return "" if self.vocabulary is None else "".join(sorted(set(text) - set(self.vocabulary)))

    def state_dict(self) -> dict[str, Any]:
        """The vocabulary of the training split, None for bytes; or the tokenizer's file."""
        if self.tokenizer is not None:
            return {"tokenizer": self.tokenizer.state()}
        return {"vocabulary": self.vocabulary}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Use the vocabulary, or the tokenizer, of another dataset."""
        tokenizer = Tokenizer.restored(state["tokenizer"]) if "tokenizer" in state else None
        if tokenizer is None or tokenizer != self.tokenizer:
            self._use(tokenizer, state.get("vocabulary"))

    def _use(self, tokenizer: Tokenizer | None, vocabulary: str | None) -> None:
        """Encode the text by a tokenizer, as characters of a vocabulary, or without both as bytes."""
        self.tokenizer, self.vocabulary = tokenizer, vocabulary
        if tokenizer is not None:
            self.classes = tokenizer.tokens
        elif vocabulary is None:
            self.classes = [chr(byte) for byte in range(256)]
        else:
            self._codes = np.array([ord(character) for character in vocabulary], dtype=np.uint32)
            self.classes = [*vocabulary, UNKNOWN]
        self._numbers = self.encode(self._text)

    @classmethod
    def restored(cls, state: dict[str, Any], *args: Any, **kwargs: Any) -> Self:
        """Like `cls(*args, **kwargs)`, with this state and without the file: it has one window, of zeros."""
        dataset = cls.__new__(cls)
        arguments = dict(zip(("path", "length", "tokens"), args, strict=False)) | kwargs
        dataset.length = dataset.stride = arguments.get("length", 128)
        dataset.tokens = arguments.get("tokens", "characters")
        dataset._name, dataset._text = str(arguments.get("path")), "" if dataset.tokens == "characters" else b""
        dataset.tokenizer = None
        dataset.load_state_dict(state)
        dataset._numbers = np.zeros(dataset.length + 1, dtype=np.int32)
        return dataset

    def encode(self, text: str | bytes) -> np.ndarray:
        """The token numbers of `text`, int32.

        >>> from tdt.train.data.datasets.text import Text
        >>> data = Text(length=8, tokens="bytes")
        >>> data.decode(data.encode("déjà"))
        'déjà'
        """
        if self.tokenizer is not None:
            assert isinstance(text, str)
            return self.tokenizer.encode(text).astype(np.int32)
        if self.vocabulary is None:
            raw = text.encode() if isinstance(text, str) else text
            return np.frombuffer(raw, np.uint8).astype(np.int32)
        assert isinstance(text, str)
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        places = np.searchsorted(self._codes, codes)
        known = self._codes.take(places, mode="clip") == codes if len(self._codes) else np.zeros(len(codes), bool)
        return np.where(known, places, len(self._codes)).astype(np.int32)

    def decode(self, numbers: Any) -> str:
        """The text of token numbers."""
        numbers = numbers.tolist() if isinstance(numbers, (Tensor, np.ndarray)) else numbers
        if self.tokenizer is not None:
            return self.tokenizer.decode(numbers)
        if self.vocabulary is None:
            return bytes(numbers).decode(errors="replace")
        return "".join(self.classes[number] for number in numbers)

    def __len__(self) -> int:
        return (len(self._numbers) - 1 - self.length) // self.stride + 1

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"Text: window {index} is out of range for {len(self)} windows")
        inputs, targets = self.batch([index % len(self)])
        return inputs[0], targets[0]

    def batch(self, indices: Sequence[int] | slice | np.ndarray) -> tuple[Tensor, Tensor]:
        """The windows at `indices` and their targets, int64 (n, length) each."""
        windows = np.lib.stride_tricks.sliding_window_view(self._numbers, self.length + 1)[:: self.stride]
        chosen = windows[indices].astype(np.int64)
        return wrap(chosen[:, :-1].copy()), wrap(chosen[:, 1:].copy())


@functools.cache  # every split of a config reads it
def own_source() -> str:
    """The Python files of tdt, concatenated in the order of their paths."""

    def walk(folder: Any) -> list[Any]:
        entries = sorted(folder.iterdir(), key=lambda entry: entry.name)
        return [found for entry in entries for found in (walk(entry) if entry.is_dir() else [entry])]

    sources = [entry for entry in walk(files("tdt")) if entry.name.endswith(".py")]
    return "\n".join(entry.read_text(encoding="utf-8") for entry in sources)


def _read(path: Path) -> str:
    try:
        with open_regular(path) as file:
            return decode(file.read()).replace("\r\n", "\n").replace("\r", "\n")
    except ValueError as error:
        raise ValueError(f"Text: {path}: {error}") from error
