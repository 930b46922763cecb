"""`sweep.search`: the values that `tdt tune` tries for each setting.

sweep:
  metric: valid/accuracy
  search:
    optimizer.lr: log(1e-4, 1)              # a float on a logarithmic scale
    optimizer.momentum: float(0, 0.95)      # a float on a linear scale; a third number is the step
    model.0.out_features: int(16, 128, 16)  # an integer; `logint(16, 1024)` on a logarithmic scale
    data.loader.batch_size: [32, 64]        # one of these values
"""

from __future__ import annotations

import math
import random
import re
from dataclasses import dataclass
from typing import Literal

from tdt.train.config import writer
from tdt.train.config.errors import ConfigErrors
from tdt.train.config.nodes import Mapping, Node, Scalar, Sequence, child, join
from tdt.train.config.scalars import resolve, spell
from tdt.train.config.source import Source

Kind = Literal["log", "float", "int", "logint"]
KINDS: tuple[Kind, ...] = ("log", "float", "int", "logint")
EXAMPLES = "log(1e-4, 1), float(0, 0.5), int(16, 128), logint(16, 1024) or a list of values"
MOST_IN_GRID = 10_000  # values of a range
_RANGE = re.compile(r"\s*([A-Za-z_]\w*)\s*\((.*)\)\s*", re.DOTALL)


@dataclass(frozen=True)
class Range:
    """The numbers from `low` to `high`, both included; log and logint on a logarithmic scale."""

    kind: Kind
    low: float
    high: float
    step: float | None
    source: Source
    key_source: Source

    def candidates(self) -> list[tuple[str, Source]]:
        """Both ends, each as the text of an override with its position."""
        return [(repr(self.low), self.source), (repr(self.high), self.source)]

    def draw(self, chance: random.Random) -> str:
        """A number as the text of an override."""
        count = 0 if self.step is None else int((self.high - self.low) / self.step + 1e-9)
        if count:
            return repr(self.low + chance.randint(0, count) * (self.step or 1))
        if self.logarithmic:
            value = math.exp(chance.uniform(math.log(self.low), math.log(self.high)))
        else:
            value = chance.uniform(self.low, self.high)
        return repr(round(value) if self.whole else value)

    def grid(self) -> list[str] | None:
        """Every value as the text of an override; None if they cannot be counted."""
        if self.kind not in ("int", "float") or (self.kind == "float" and self.step is None):
            return None
        step = 1 if self.step is None else self.step
        count = int((self.high - self.low) / step + 1e-9) + 1
        return [repr(self.low + number * step) for number in range(count)] if count <= MOST_IN_GRID else None

    @property
    def whole(self) -> bool:
        """Whether its numbers are integers."""
        return self.kind in ("int", "logint")

    @property
    def logarithmic(self) -> bool:
        return self.kind in ("log", "logint")

    def __str__(self) -> str:
        return f"{self.kind}({', '.join(repr(n) for n in (self.low, self.high, self.step) if n is not None)})"


@dataclass(frozen=True)
class Choices:
    """One of some values, each as the text of an override; `sources`: the position of each."""

    values: tuple[str, ...]
    sources: tuple[Source, ...]
    key_source: Source

    def candidates(self) -> list[tuple[str, Source]]:
        """Each value as the text of an override with its position."""
        return list(zip(self.values, self.sources, strict=True))

    def draw(self, chance: random.Random) -> str:
        """A value as the text of an override."""
        return chance.choice(self.values)

    def grid(self) -> list[str] | None:
        """Every value as the text of an override."""
        return list(self.values)

    def __str__(self) -> str:
        return f"[{', '.join(self.values)}]"


Domain = Range | Choices


def read_search(root: Mapping, errors: ConfigErrors) -> dict[str, Domain]:
    """The domain of each key in `sweep.search`; mistakes are added to `errors`. Whether the keys exist is not checked."""
    node = child(root.items.get("sweep"), "search")
    if not isinstance(node, Mapping):
        return {}  # reported with the other settings of the section
    found = {key: _read_domain(item, join("sweep.search", key), errors) for key, item in node.items.items()}
    return {key: domain for key, domain in found.items() if domain is not None}


def _read_domain(node: Node, path: str, errors: ConfigErrors) -> Domain | None:
    if isinstance(node, Sequence):
        texts = [override_text(item) for item in node.items]
        if not texts:
            errors.add(node.where, "the list is empty; write the values to try", key=path)
        for number, text in enumerate(texts):
            if text in texts[:number]:
                errors.add(node.items[number].where, f"{text} is listed twice", kind="duplicate-key", key=path)
        sources = tuple(item.where for item in node.items)
        return Choices(tuple(texts), sources, node.key_source or node.source) if texts else None
    if isinstance(node, Scalar) and node.broken:
        return None  # reported already
    if isinstance(node, Scalar) and isinstance(node.value, str) and (match := _RANGE.fullmatch(node.value)):
        return _read_range(match[1], match[2], node, path, errors)
    shown = spell(node.value) if isinstance(node, Scalar) else "a mapping"
    errors.add(node.where, f"expected {EXAMPLES}, got {shown}", kind="wrong-type", key=path)
    return None


def _read_range(name: str, inside: str, node: Scalar, path: str, errors: ConfigErrors) -> Range | None:
    kind = next((kind for kind in KINDS if kind == name), None)
    if kind is None:
        errors.add_unknown(node.where, f"unknown range {name!r}", name, KINDS, key=path, kind="unknown-name")
        return None
    whole, counts = kind in ("int", "logint"), (2,) if kind in ("log", "logint") else (2, 3)
    numbers: list[int | float] = []
    for text in (part.strip() for part in inside.split(",")):
        try:
            value = resolve(text)
        except ValueError as error:
            errors.add(node.where, str(error), key=path)
            return None
        if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)) or value != value:
            errors.add(node.where, f"expected {'integers' if whole else 'numbers'}, got {text!r}", key=path)
            return None
        numbers.append(value if whole else float(value))
    if len(numbers) not in counts:
        form = f"{kind}(low, high)" if counts == (2,) else f"{kind}(low, high) or {kind}(low, high, step)"
        errors.add(node.where, f"expected {form}, got {len(numbers)} numbers", key=path)
        return None
    low, high, step = (*numbers, None)[:3]
    assert low is not None and high is not None
    message = None
    if low >= high:
        message = f"the low end must be less than the high end, got {low} and {high}"
    elif kind in ("log", "logint") and low <= 0:
        message = f"a logarithmic scale begins above 0, got {low}"
    elif float("inf") in (abs(low), abs(high)):
        message = "the ends must be finite"
    elif step is not None and not 0 < step <= high - low:
        message = f"the step must be more than 0 and at most {high - low}, got {step}"
    if message is not None:
        errors.add(node.where, message, key=path)
        return None
    return Range(kind, low, high, step, node.where, node.key_source or node.source)


def override_text(node: Node) -> str:
    """The text of a value in an override, `key=text`, that is read as the same value."""
    if isinstance(node, Scalar) and not isinstance(node.value, str):
        return node.text or "null"
    return writer.flow(node)
