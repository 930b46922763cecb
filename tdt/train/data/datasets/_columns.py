"""Encode the columns of a table as numbers: standardised or one-hot, fitted to the training rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

import tdt
from tdt.train.data.datasets._values import (
    DATE_PARTS,
    PLAIN,
    boolean,
    date,
    date_format,
    date_part,
    is_missing,
    is_number,
    number,
    number_format,
    vocabulary,
    words,
)
from tdt.train.data.tokenizer import Tokenizer

FEW = 20  # a column of integers with at most so many different values is treated as classes
MANY = 500  # a column with more different texts, if most are unique, is treated as names or remarks
KINDS = ("number", "category", "boolean", "date", "text")
PADDING, UNKNOWN = 0, 1  # the numbers of no word and of a word that is not in the vocabulary
Lines = Sequence[int] | np.ndarray  # the line in the file of each row


@dataclass(frozen=True)
class Column:
    """The encoding of a column.

    number, boolean, date: (value - shift) / scale, where a missing value is `fill`; a boolean is 0 or 1, and of a date it
    is one `part`: a date is encoded by several Columns with its name. category: one-hot. text: numbers of the first
    `length` words, or tokens of a `tokenizer`. format: how numbers or dates are written. categories: those of a category,
    or the words of a text.
    """

    name: str
    kind: str
    shift: float = 0.0
    scale: float = 1.0
    fill: float = 0.0
    categories: tuple[str, ...] = ()
    format: str = PLAIN
    part: str = ""
    length: int = 0
    tokenizer: Tokenizer | None = None

    @property
    def width(self) -> int:
        """Number of features of the column."""
        return {"category": len(self.categories), "text": self.length}.get(self.kind, 1)

    @cached_property
    def _place(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.categories)}

    def encode(self, texts: Sequence[str], lines: Lines) -> np.ndarray:
        """Features (n, width), in the default dtype; those of texts are int64. A missing or unknown category is all zeros."""
        if self.kind == "text":
            return self._encode_words(texts)
        if self.kind == "category":
            chosen = np.array([self._place.get(text.strip(), -1) for text in texts], dtype=np.int64)
            encoded = np.zeros((len(texts), self.width), dtype=tdt.get_default_dtype().np)
            encoded[np.flatnonzero(chosen >= 0), chosen[chosen >= 0]] = 1
            return encoded
        found = values(self, texts, lines)
        return ((np.where(np.isnan(found), self.fill, found) - self.shift) / self.scale).astype(
            tdt.get_default_dtype().np
        )[:, None]

    def _encode_words(self, texts: Sequence[str]) -> np.ndarray:
        if self.tokenizer is not None:
            return self.tokenizer.encode_padded(["" if is_missing(text) else text for text in texts], self.length)
        encoded = np.full((len(texts), self.length), PADDING, dtype=np.int64)
        for row, text in zip(encoded, texts, strict=True):
            found = [] if is_missing(text) else words(text)[: self.length]
            row[: len(found)] = [self._place.get(word, UNKNOWN - 2) + 2 for word in found]
        return encoded

    def unseen(self, texts: Sequence[str]) -> list[int]:
        """The rows with a category that does not occur in the training rows."""
        if self.kind != "category":
            return []
        return [i for i, text in enumerate(texts) if text.strip() not in self._place and not is_missing(text)]

    def encode_target(self, texts: Sequence[str], lines: Lines) -> np.ndarray:
        """Class numbers, int64 (n,), or values, in the default dtype (n, 1). Raises ValueError for a missing or unknown one."""
        _refuse_missing(self.name, np.array([is_missing(text) for text in texts], bool), lines)
        if self.kind != "category":
            return values(self, texts, lines).astype(tdt.get_default_dtype().np)[:, None]
        for text, line in zip(texts, lines, strict=True):
            if text.strip() not in self._place:
                raise ValueError(
                    f"line {line}: {self.name} is {text.strip()!r}, which does not occur in the training rows"
                )
        return np.array([self._place[text.strip()] for text in texts], dtype=np.int64)

    def state(self) -> dict[str, Any]:
        """The column in JSON types, without its tokenizer, which all columns of a table share."""
        found = asdict(replace(self, tokenizer=None)) | {"categories": list(self.categories)}
        del found["tokenizer"]
        return found

    @classmethod
    def of(cls, state: Mapping[str, Any], tokenizer: Tokenizer | None = None) -> Column:
        """The inverse of `state`. tokenizer: of the table's texts."""
        own = tokenizer if state["kind"] == "text" else None
        return cls(**{**state, "categories": tuple(state["categories"]), "tokenizer": own})


@dataclass(frozen=True)
class Reading:
    """How the columns of a table are read: the settings of `Table` that apply to each of them."""

    normalize: str | None = None
    decimal: str | None = None
    day_first: bool = False
    max_words: int = 0
    length: int = 0
    tokenizer: Tokenizer | None = None

    def format(self, kind: str | None, texts: Sequence[str]) -> str:
        """The format in which numbers or dates are written; if there is none that fits all, one that fits some."""
        if kind == "number":
            found = number_format(texts, self.decimal)
            return self.decimal or "." if found is None else found
        if kind == "date":
            present = [text for text in texts if not is_missing(text)]
            return date_format(present, self.day_first) or date_format(present[:1], self.day_first) or "%Y-%m-%d"
        return PLAIN


def fit(
    name: str,
    texts: Sequence[str],
    kind: str | None,
    how: Reading,
    lines: Lines,
    format: str = PLAIN,
) -> list[Column]:
    """Fit a column to the training rows; a date becomes several. The kind is guessed if `kind` is None."""
    requested, kind = kind, kind or ("number" if all(is_missing(t) or is_number(t) for t in texts) else "category")
    if kind == "category":
        categories = _sorted({text.strip() for text in texts if not is_missing(text)})
        if requested is None and len(categories) > max(MANY, len(texts) // 2):
            raise ValueError(f"column {name} has {len(categories):,} different texts in {len(texts):,} rows: leave it "
                             "out, by naming the others in columns, or say there that it is a category")  # fmt: skip
        return [Column(name, kind, categories=categories)]
    if kind == "text" and how.tokenizer is not None:
        return [Column(name, kind, length=how.length, tokenizer=how.tokenizer)]
    if kind == "text":
        known = vocabulary([text for text in texts if not is_missing(text)], how.max_words - 2)
        return [Column(name, kind, categories=known, length=how.length)]
    if kind == "date":
        parts = [
            _scaled(Column(name, kind, format=format, part=part), texts, lines, how.normalize) for part in DATE_PARTS
        ]
        varying = [column for column, differs in parts if differs]
        return varying or [parts[0][0]]
    normalize = how.normalize if kind == "number" else None
    return [_scaled(Column(name, kind, format=format), texts, lines, normalize)[0]]


def _scaled(column: Column, texts: Sequence[str], lines: Lines, normalize: str | None) -> tuple[Column, bool]:
    """The column with shift, scale and fill of the training rows, and whether these differ."""
    found = values(column, texts, lines)
    found = found[np.isfinite(found)]  # infinite values stay: training reports their samples
    if not len(found):
        kind = "finite value" if column.kind == "number" else "value"
        raise ValueError(f"column {column.name}: the training rows have no {kind}; leave it out of columns")
    mean = float(found.mean())
    shift, scale = 0.0, 1.0
    if normalize == "standard":
        shift, scale = mean, float(found.std())
    elif normalize == "minmax":
        shift, scale = float(found.min()), float(np.ptp(found))
    scaled = Column(column.name, column.kind, shift, scale or 1.0, mean, format=column.format, part=column.part)
    return scaled, bool(np.ptp(found))


def fit_target(name: str, texts: Sequence[str], kind: str | None, how: Reading, lines: Lines) -> Column:
    """The target column: classes if it has texts or few different integers, else numbers, which are not scaled."""
    if kind is None:
        different = {text.strip() for text in texts}
        whole = all(is_number(text) and float(text).is_integer() for text in different)
        kind = "category" if not all(map(is_number, different)) or (whole and len(different) <= FEW) else "number"
    unscaled = Reading(decimal=how.decimal)
    return fit(name, texts, kind, unscaled, lines, unscaled.format(kind, texts))[0]


def values(column: Column, texts: Sequence[str], lines: Lines) -> np.ndarray:
    """The numbers of a column of numbers, booleans or dates, NaN if missing.

    Raises ValueError with line and column for anything else.
    """
    found = np.full(len(texts), math.nan)
    for i, (text, line) in enumerate(zip(texts, lines, strict=True)):
        if is_missing(text):
            continue
        value = _value(column, text)
        if value is None:
            raise ValueError(f"line {line}: {column.name} is {text.strip()!r}, {_expected(column)}")
        found[i] = value
    return found


def _value(column: Column, text: str) -> float | None:
    if column.kind == "number":
        return number(text, column.format)
    if column.kind == "boolean":
        return boolean(text)
    when = date(text, column.format)
    return None if when is None else date_part(when, column.part)


def _expected(column: Column) -> str:
    if column.kind == "number":
        return "which is not a number; is the column a category?"
    if column.kind == "boolean":
        return "which is neither yes nor no, true nor false, 1 nor 0"
    return f"which is no date of the form {column.format}"


def _refuse_missing(name: str, missing: np.ndarray, lines: Lines) -> None:
    if missing.any():
        line = lines[int(missing.argmax())]
        raise ValueError(f"line {line}: {name}, the target, is missing; missing_target: drop leaves such rows out")


def _sorted(names: set[str]) -> tuple[str, ...]:
    """Sort numerically if all are numbers, else alphabetically."""
    return tuple(sorted(names, key=(lambda text: (float(text), text)) if all(map(is_number, names)) else None))
