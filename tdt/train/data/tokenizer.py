"""Tokenizers in a file `tokenizer.json`, which Hugging Face's library `tokenizers` reads."""

from __future__ import annotations

import base64
import functools
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from tdt._about import install_hint
from tdt.train._regular_file import open_regular

FILE = "tokenizer.json"
PADDING = ("[PAD]", "<pad>", "<|pad|>", "<|finetune_right_pad_id|>", "<|endoftext|>", "</s>")  # by preference
PIECE, AT_ONCE = 1 << 17, 16  # characters of a piece of a long text; pieces or texts that are encoded at once
BESIDE = 100  # characters beside a cut on which it is tried
LINE_BREAK = re.compile(r"(?<=\S)\n(?=\w)")
THREADS = "TOKENIZERS_PARALLELISM"
THREADS_SET = THREADS in os.environ
MOST_TOKENS = 1 << 24  # beyond the number of any token; each is a row of an embedding
MOST_BYTES = 1 << 28  # of a file that a checkpoint holds: the largest known have 2 ** 25


class Tokenizer:
    """Texts to numbers of tokens and back, by a `tokenizer.json`. Nothing in the file is executed.

    Args:
        content: the text of the file, which a run's checkpoints keep (`state`).
        name: of the file, for messages.
    Attributes:
        tokens: each token by its number, as the file writes it.
    Raises:
        ValueError: the content is no tokenizer.
        RuntimeError: the library `tokenizers` is not installed.

    >>> from tdt.train.data.tokenizer import Tokenizer
    >>> words = '{"model": {"type": "WordLevel", "vocab": {"a": 0, "rose": 1, "?": 2}, "unk_token": "?"}}'
    >>> Tokenizer(words).encode("rose").tolist()
    [1]
    """

    def __init__(self, content: str, name: str = FILE) -> None:
        self.content, self.name = content, name
        library = _import_tokenizers()
        try:
            self._library_tokenizer = library.Tokenizer.from_str(content)
        except Exception as error:  # noqa: BLE001 - the library raises nothing more special
            raise ValueError(f"{name}: is no {FILE} of the library tokenizers: {error}") from None
        self._own_padding = self._library_tokenizer.padding
        self._library_tokenizer.no_padding()
        self.tokens = self._named()

    @classmethod
    def of(cls, source: str | os.PathLike[str] | Tokenizer) -> Tokenizer:
        """A tokenizer as it is, or the one in a file, or in a folder's `tokenizer.json`.

        Raises:
            OSError: there is no such file, or it cannot be read.
            ValueError: it is no tokenizer.
        """
        if isinstance(source, Tokenizer):
            return source
        path = Path(source).expanduser()
        path = path / FILE if path.is_dir() else path
        with open_regular(path) as file:
            content = file.read()
        try:
            return cls(content.decode(), str(path))
        except UnicodeDecodeError:
            raise ValueError(f"{path}: is no {FILE}: it is not UTF-8 text") from None

    def state(self) -> str:
        """The file, compressed, in ASCII characters."""
        return base64.b64encode(zlib.compress(self.content.encode(), 9)).decode()

    @staticmethod
    @functools.lru_cache(maxsize=1)  # every split of a run has the same
    def restored(state: str) -> Tokenizer:
        """The inverse of `state`. Raises ValueError if it is damaged."""
        try:
            unpacking = zlib.decompressobj()
            content = unpacking.decompress(base64.b64decode(state, validate=True), MOST_BYTES)
        except zlib.error as error:
            raise ValueError(f"{FILE}: the checkpoint's copy is damaged: {error}") from None
        if not unpacking.eof:
            raise ValueError(f"{FILE}: the checkpoint's copy is cut, or larger than {MOST_BYTES:,} bytes")
        return Tokenizer(content.decode())

    def _named(self) -> list[str]:
        """Each token by its number; numbers that have none are written as `<number>`."""
        numbers = self._library_tokenizer.get_vocab(with_added_tokens=True)
        if not numbers:
            raise ValueError(f"{self.name}: has no tokens")
        most = max(numbers.values())
        if most >= MOST_TOKENS:
            raise ValueError(f"{self.name}: numbers a token {most:,}; expected less than {MOST_TOKENS:,}")
        names = [f"<{number}>" for number in range(most + 1)]
        for token, number in numbers.items():
            names[number] = token
        return names

    @functools.cached_property
    def padding(self) -> int:
        """The number that fills texts up: that of the file's padding, or of a usual padding token.

        Raises ValueError if it has none.
        """
        if self._own_padding is not None:
            return int(self._own_padding["pad_id"])
        found = (self._library_tokenizer.token_to_id(token) for token in PADDING)
        number = next((number for number in found if number is not None), None)
        if number is None:
            raise ValueError(f"{self.name}: has no padding token; add one of {', '.join(PADDING)}")
        return int(number)

    def encode(self, text: str) -> np.ndarray:
        """The numbers of a text's tokens, int64 (n,), without special tokens but those that it writes.

        A long text is encoded in pieces of whole lines, as the library takes two hundred bytes for a character.
        """
        self._library_tokenizer.no_truncation()
        pieces = _pieces(text) if self._is_divisible(text) else [text]
        found = [np.array(ids, dtype=np.int64) for ids in self._encode(pieces, False)]
        return found[0] if len(found) == 1 else np.concatenate(found)

    def _is_divisible(self, text: str) -> bool:
        """Whether pieces of the text have its tokens: not if each text begins with a space or the like, as Llama's do."""
        cut = LINE_BREAK.search(text, PIECE)
        if cut is None:
            return False
        before, after = text[cut.end() - BESIDE : cut.end()], text[cut.end() : cut.end() + BESIDE]
        whole, first, second = self._encode([before + after, before, after], False)
        return whole == first + second

    def encode_padded(self, texts: Sequence[str], length: int) -> np.ndarray:
        """Those of several texts, int64 (n, length): with special tokens, cut at the end, filled up with `padding`.

        Raises ValueError if `length` has no room for a token beside the special ones.
        """
        tokenizer = self._library_tokenizer
        special = tokenizer.num_special_tokens_to_add(False)
        if length <= special:
            raise ValueError(f"{self.name}: a text has {special} special tokens, so length is at least {special + 1}")
        tokenizer.enable_truncation(length)
        encoded = np.full((len(texts), length), self.padding, dtype=np.int64)
        for row, ids in zip(encoded, self._encode(texts, True), strict=True):
            row[: len(ids)] = ids
        return encoded

    def _encode(self, texts: Iterable[str], special: bool) -> Iterator[list[int]]:
        remaining = iter(texts)
        while some := list(islice(remaining, AT_ONCE)):
            with _threads():
                encodings = self._library_tokenizer.encode_batch_fast(some, add_special_tokens=special)
            yield from (encoding.ids for encoding in encodings)

    def decode(self, numbers: Sequence[int]) -> str:
        """The text of tokens, special ones too. Bytes that are not UTF-8 become U+FFFD."""
        return self._library_tokenizer.decode(list(numbers), skip_special_tokens=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tokenizer) and self.content == other.content

    def __hash__(self) -> int:
        return hash(self.content)


def _pieces(text: str) -> Iterator[str]:
    """The text in pieces of about `PIECE` characters, cut where a line begins with a word: no token spans that."""
    start = 0
    while cut := LINE_BREAK.search(text, start + PIECE):
        yield text[start : cut.end()]
        start = cut.end()
    yield text[start:]


@contextmanager
def _threads() -> Iterator[None]:
    """Context manager in which the library uses its threads, unless the user has decided. Elsewhere they are off, as a
    loader's forked workers do not have them."""
    if THREADS_SET:
        yield
        return
    os.environ[THREADS] = "true"
    try:
        yield
    finally:
        os.environ[THREADS] = "false"


def _import_tokenizers() -> Any:
    """The library `tokenizers`. Raises RuntimeError with the extra to install if it is missing."""
    try:
        import tokenizers
    except ImportError as error:
        raise RuntimeError(f"a {FILE} needs the library tokenizers: {install_hint('text')}") from error
    return tokenizers
