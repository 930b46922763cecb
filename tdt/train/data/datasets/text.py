"""Text: windows of characters or bytes for next-token prediction."""

from __future__ import annotations

import functools
import io
import os
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from tdt._core.tensor import Tensor, wrap
from tdt.train._regular_file import open_regular
from tdt.utils.data import Dataset
from tdt.utils.data._splits import Split, check_split, split_indices

UNKNOWN = "\N{REPLACEMENT CHARACTER}"  # decodes the number of unknown characters


class Text(Dataset):
    """Windows of a text. Items are (tokens, next tokens), int64 tensors (length,) that overlap in all but one token.

    path: a UTF-8 text file; by default the text is the source code of tdt itself.
    length: tokens in a window. stride: between the beginnings of windows; by default they do not overlap.
    tokens: "characters" of the training split, with one number for all others; or the 256 "bytes".
    split: "train", "valid" or "test": the beginning of the text, then its shares `valid` and `test`. Without it all of it.

    classes: the token of each number. `encode` and `decode` convert text to numbers and back.
    `state_dict()` has the vocabulary, which a run's checkpoints keep.

    Raises FileNotFoundError; ValueError if the text is shorter than a window, or not UTF-8.

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
        stride: int | None = None,
        split: Split | None = None,
        valid: float = 0.1,
        test: float = 0.0,
    ) -> None:
        check_split("Text", split, valid, test)
        if length < 1 or (stride is not None and stride < 1):
            raise ValueError(f"Text: length and stride are at least 1, got {length} and {stride}")
        self._name = "tdt's own source" if path is None else str(path)
        self._path = None if path is None else Path(path).expanduser()
        whole: Any = own_source() if self._path is None else _read(self._path)
        if tokens == "bytes":
            whole = whole.encode()
        parts = {name: whole[rows[0] : rows[-1] + 1] if len(rows) else whole[:0]
                 for name, rows in split_indices(len(whole), valid, test, None).items()}  # fmt: skip
        self.length, self.stride, self.tokens = length, stride or length, tokens
        self._text = whole if split is None else parts[split]
        if len(self._text) <= length:
            raise ValueError(f"Text: {self._name}: {'' if split is None else f'its {split} split '}has "
                             f"{len(self._text)} {tokens}, fewer than a window of {length} and its target")  # fmt: skip
        fitted_on = whole if split is None else parts["train"]
        self.load_state_dict({"vocabulary": "".join(sorted(set(fitted_on))) if tokens == "characters" else None})

    def source_files(self) -> list[Path]:
        """The text file; none for tdt's own source."""
        return [] if self._path is None else [self._path]

    def state_dict(self) -> dict[str, Any]:
        """The vocabulary of the training split; None for bytes."""
        return {"vocabulary": self.vocabulary}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Use the vocabulary of another dataset."""
        self.vocabulary: str | None = state["vocabulary"]
        if self.vocabulary is None:
            self.classes = [chr(byte) for byte in range(256)]
        else:
            self._codes = np.array([ord(character) for character in self.vocabulary], dtype=np.uint32)
            self.classes = [*self.vocabulary, UNKNOWN]
        self._numbers = self.encode(self._text)

    @classmethod
    def restored(cls, state: dict[str, Any], *args: Any, **kwargs: Any) -> Self:
        """Like `cls(*args, **kwargs)`, with this state and without the file: it has one window, of zeros."""
        dataset = cls.__new__(cls)
        arguments = dict(zip(("path", "length", "tokens"), args, strict=False)) | kwargs
        dataset.length = dataset.stride = arguments.get("length", 128)
        dataset.tokens = arguments.get("tokens", "characters")
        dataset._name, dataset._text = str(arguments.get("path")), "" if dataset.tokens == "characters" else b""
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
            return io.TextIOWrapper(file, encoding="utf-8").read()
    except UnicodeDecodeError as error:
        raise ValueError(f"Text: {path}: is not UTF-8 text: {error}") from error
