"""Encode the columns of a table as numbers: standardised or one-hot, fitted to the training rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import tdt

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})
FEW = 20  # a column of integers with at most so many different values is treated as classes
MANY = 500  # a column with more different texts, if most are unique, is treated as names or remarks
KINDS = ("number", "category")
Lines = Sequence[int] | np.ndarray  # the line in the file of each row


@dataclass(frozen=True)
class Column:
    """The encoding of a column. number: (value - shift) / scale, a missing value is `fill`. category: one-hot."""

    name: str
    kind: str
    shift: float = 0.0
    scale: float = 1.0
    fill: float = 0.0
    categories: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """Number of features of the column."""
        return len(self.categories) if self.kind == "category" else 1

    def encode(self, texts: Sequence[str], lines: Lines) -> np.ndarray:
        """Features (n, width), in the default dtype. A missing or unknown category is all zeros."""
        if self.kind == "category":
            place = {name: i for i, name in enumerate(self.categories)}
            chosen = np.array([place.get(text.strip(), -1) for text in texts], dtype=np.int64)
            encoded = np.zeros((len(texts), self.width), dtype=tdt.get_default_dtype().np)
            encoded[np.flatnonzero(chosen >= 0), chosen[chosen >= 0]] = 1
            return encoded
        values = numbers(self.name, texts, lines)
        return ((np.where(np.isnan(values), self.fill, values) - self.shift) / self.scale).astype(
            tdt.get_default_dtype().np
        )[:, None]

    def encode_target(self, texts: Sequence[str], lines: Lines) -> np.ndarray:
        """Class numbers, int64 (n,), or values, in the default dtype (n, 1). Raises ValueError for a missing or unknown one."""
        if self.kind == "number":
            values = numbers(self.name, texts, lines)
            _refuse_missing(self.name, np.isnan(values), lines)
            return values.astype(tdt.get_default_dtype().np)[:, None]
        _refuse_missing(self.name, np.array([is_missing(text) for text in texts], bool), lines)
        number = {name: i for i, name in enumerate(self.categories)}
        for text, line in zip(texts, lines, strict=True):
            if text.strip() not in number:
                raise ValueError(
                    f"line {line}: {self.name} is {text.strip()!r}, which does not occur in the training rows"
                )
        return np.array([number[text.strip()] for text in texts], dtype=np.int64)

    def state(self) -> dict[str, Any]:
        """The column in JSON types."""
        return asdict(self) | {"categories": list(self.categories)}

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> Column:
        """The inverse of `state`."""
        return cls(**{**state, "categories": tuple(state["categories"])})


def fit(name: str, texts: Sequence[str], kind: str | None, normalize: str | None, lines: Lines) -> Column:
    """Fit a column to the training rows. Its kind is guessed if `kind` is None."""
    requested, kind = kind, kind or ("number" if all(is_missing(t) or is_number(t) for t in texts) else "category")
    if kind == "category":
        categories = _sorted({text.strip() for text in texts if not is_missing(text)})
        if requested is None and len(categories) > max(MANY, len(texts) // 2):
            raise ValueError(f"column {name} has {len(categories):,} different texts in {len(texts):,} rows: leave it "
                             "out, by naming the others in columns, or say there that it is a category")  # fmt: skip
        return Column(name, kind, categories=categories)
    values = numbers(name, texts, lines)
    values = values[np.isfinite(values)]  # infinite values stay: training reports their samples
    if not len(values):
        raise ValueError(f"column {name}: the training rows have no finite value; leave it out of columns")
    mean = float(values.mean())
    shift, scale = 0.0, 1.0
    if normalize == "standard":
        shift, scale = mean, float(values.std())
    elif normalize == "minmax":
        shift, scale = float(values.min()), float(np.ptp(values))
    return Column(name, kind, shift, scale or 1.0, mean)


def fit_target(name: str, texts: Sequence[str], kind: str | None, lines: Lines) -> Column:
    """The target column: classes if it has texts or few different integers, else numbers, which are not scaled."""
    if kind is None:
        different = {text.strip() for text in texts}
        whole = all(is_number(text) and float(text).is_integer() for text in different)
        kind = "category" if not all(map(is_number, different)) or (whole and len(different) <= FEW) else "number"
    return fit(name, texts, kind, None, lines)


def is_missing(text: str) -> bool:
    """Whether a field means a missing value."""
    return text.strip().lower() in MISSING


def is_number(text: str) -> bool:
    """Whether a field is a number, which may be infinite."""
    try:
        return not math.isnan(float(text))
    except ValueError:
        return False


def numbers(name: str, texts: Sequence[str], lines: Lines) -> np.ndarray:
    """The values of a column, NaN if missing. Raises ValueError with line and column for anything else."""
    for text, line in zip(texts, lines, strict=True):
        if not is_missing(text) and not is_number(text):
            raise ValueError(
                f"line {line}: {name} is {text.strip()!r}, which is not a number; is the column a category?"
            )
    return np.array([math.nan if is_missing(text) else float(text) for text in texts], dtype=np.float64)


def _refuse_missing(name: str, missing: np.ndarray, lines: Lines) -> None:
    if missing.any():
        raise ValueError(f"line {lines[int(missing.argmax())]}: {name}, the target, is missing")


def _sorted(names: set[str]) -> tuple[str, ...]:
    """Sort numerically if all are numbers, else alphabetically."""
    return tuple(sorted(names, key=(lambda text: (float(text), text)) if all(map(is_number, names)) else None))
