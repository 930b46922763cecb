"""What the columns of a table hold: type, description, and whether they help to predict anything."""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tdt.train.data.datasets._columns import MANY
from tdt.train.data.datasets._values import (
    PLAIN,
    boolean,
    date,
    date_format,
    is_missing,
    is_number,
    number,
    number_format,
    words,
)

FEW_WORDS = 5  # texts that are rarely repeated and have on average so many words are read by their words
MANY_ROWS = 10  # from which numbers that differ in every row may be row numbers
_ID = re.compile(r"(?:^|[^a-z])(?:id|uuid|guid|index|idx|key|nr|no|row)$", re.IGNORECASE)
_CAMEL_ID = re.compile(r"[a-z](?:Id|ID)$")


@dataclass(frozen=True)
class Found:
    """The type of a column, a description, and why it is useless for predictions ("" if it is not).

    guessed: whether `Table` finds this type itself.
    """

    kind: str
    about: str
    useless: str = ""
    guessed: bool = True


def detect(name: str, texts: Sequence[str], lines: Sequence[int]) -> Found:
    """The type of a feature column."""
    present = [text.strip() for text in texts if not is_missing(text)]
    counts = Counter(present)
    lacking = f", {len(texts) - len(present):,} missing" if len(present) < len(texts) else ""
    if len(counts) <= 1:
        kind = "number" if all(map(is_number, present)) else "category"
        return Found(kind, f"{len(counts)} value{lacking}", "the same in every row")
    unparsed = [
        (line, text.strip())
        for line, text in zip(lines, texts, strict=True)
        if not is_missing(text) and not is_number(text)
    ]
    if not unparsed:
        return Found("number", f"number, {span(present)}{lacking}", _row_number(name, present))
    if all(boolean(text) is not None for text in counts):
        yes = sum(bool(boolean(text)) for text in present)
        return Found("boolean", f"boolean, {yes:,} yes, {len(present) - yes:,} no{lacking}", guessed=False)
    if (written := number_format(present)) is not None:
        about = f"number, {span(present, written)}{lacking}, written like {unparsed[0][1]}"
        return Found("number", about, guessed=False)
    if (written := date_format(present)) is not None:
        days = sorted(when for text in present if (when := date(text, written)))
        return Found(
            "date", f"date, {days[0]:%Y-%m-%d} to {days[-1]:%Y-%m-%d}{lacking}, written as {written}", guessed=False
        )
    many = len(counts) > max(20, len(present) // 2)
    if many and len(unparsed) <= len(present) // 10:
        line, text = unparsed[0]
        others = f" and {len(unparsed) - 1:,} others are" if len(unparsed) > 1 else " is"
        about = f"number, {span([text for text in present if is_number(text)])}{lacking}"
        return Found("number", about, f"{text[:30]!r} in line {line}{others} no number")
    if many and (mean := statistics.fmean(len(words(text)) for text in present)) >= FEW_WORDS:
        return Found("text", f"text, {mean:.0f} words on average{lacking}", guessed=False)
    useless = "nearly every row has another" if many else ""
    guessed = len(counts) <= max(MANY, len(texts) // 2) and not any(map(is_number, counts))
    return Found("category", f"category, {frequencies(counts)}{lacking}", useless, guessed)


def detect_target(name: str, texts: Sequence[str]) -> Found:
    """The type of a column without missing values that is predicted: number, boolean or category."""
    counts = Counter(text.strip() for text in texts)
    if len(counts) < 2:
        return Found("category", frequencies(counts), f"is {texts[0].strip()!r} in every row")
    whole = all(is_number(text) and float(text).is_integer() for text in counts)
    if whole and len(counts) <= 20:
        kind = "boolean" if all(boolean(text) is not None for text in counts) else "category"
        return Found(kind, frequencies(counts))
    if (written := number_format(counts)) is not None:
        about = span(list(counts), written)
        return Found("number", about, "" if written is None else _row_number(name, list(texts)))
    if all(boolean(text) is not None for text in counts):
        return Found("boolean", frequencies(counts))
    if date_format(counts) is not None:
        return Found("category", frequencies(counts), "is a date; a target is a class or a number")
    if len(counts) > max(20, len(texts) // 2):
        return Found("category", frequencies(counts), f"has {len(counts):,} different values in {len(texts):,} rows, too "
                     "many for classes, and they are not numbers")  # fmt: skip
    return Found("category", frequencies(counts))


def _row_number(name: str, texts: Sequence[str]) -> str:
    """Why the column of numbers identifies rows: 0, 1, 2, … or 1, 2, 3, …, or different integers under a name like id."""
    if len(texts) < MANY_ROWS:
        return ""
    if any(all(text == str(i) for i, text in enumerate(texts, start)) for start in (0, 1)):
        return "the number of the row"
    named = _ID.search(name) or _CAMEL_ID.search(name)
    whole = all(text.lstrip("-").isdecimal() for text in texts)
    return "another number in every row" if named and whole and len(set(texts)) == len(texts) else ""


def span(texts: Sequence[str], written: str = PLAIN) -> str:
    """The smallest and the largest number."""
    found = sorted(value for text in texts if (value := number(text, written)) is not None)
    infinite = sum(map(math.isinf, found))
    return f"{found[0]:g} to {found[-1]:g}" + (f", {infinite:,} infinite" if infinite else "")


def frequencies(counts: Counter[str], what: str = "values") -> str:
    """How often the most frequent values occur."""
    shown = ", ".join(f"{' '.join(name.split())[:30]} {count:,}" for name, count in counts.most_common(5))
    return f"{len(counts)} {what}: {shown}{', …' * (len(counts) > 5)}"
