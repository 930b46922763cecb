"""Bundled configs with one change each, and what must be said about it: the same ones for the same seed."""

from __future__ import annotations

import random
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tdt.train.config import ConfigError, Draft, Problem, bundled, draft
from tdt.train.loop.build import build

BASES = ("digits-cnn", "digits-mlp")
GRAPH = """\
name: graph
seed: 0
data:
  train: Digits(split=train)
  valid: Digits(split=valid)
  transform: [ToTensor]
  loader: {batch_size: 32, shuffle: true}
blocks:
  dense(inp, out): ["Linear(inp, out)", ReLU]
model:
  graph:
    flat: Flatten
    left: dense(64, 8)
    right: {block: dense, inp: 64, out: 8, from: flat}
    both: {type: Concat, from: [left, right]}
    digit: {layer: "Linear(16, 10)", from: both}
    image: {layer: ["Linear(16, 64)", "Unflatten(1, [1, 8, 8])"], from: both}
  outputs: [digit, image]
loss:
  digit: {type: CrossEntropyLoss, input: output/digit}
  image: {type: MSELoss, input: output/image, target: input, weight_in_total: 0.5}
metrics: {top1: accuracy, top3: top_k(k=3)}
optimizer: {type: SGD, lr: 5e-2, momentum: 0.9}
train: {epochs: 10}
checkpoint: {every: 1 epoch, keep: 3, best: valid/top3}
log: {every: 20 steps}
"""
KEYS = ("seed", "loader", "batch_size", "shuffle", "loss", "metrics", "optimizer", "train", "epochs", "checkpoint", "keep",
        "every", "log", "transform", "augment", "valid", "test", "dataset",
        "device", "best", "lr", "momentum", "outputs", "from", "layer",
        "block", "inp", "type", "target", "weight_in_total")  # fmt: skip
WRONG = {
    "seed": ("-1", "x", "[1]"), "batch_size": ("0", "many", "2.5"), "shuffle": ("yes", "3"), "epochs": ("0", "ten"),
    "keep": ("0", "all"), "every": ("3", "often"), "device": ("gpu", "[cpu]"), "best": ("test/accuracy", "accuracy"),
    "lr": ("fast", "true"), "momentum": ("high", "null"), "outputs": ("3", "{digit: 1}"), "from": ("7", "[]"),
    "block": ("[dense]", "3"), "weight_in_total": ("half", "[1]"), "target": ("2", "images"),
}  # fmt: skip
VALID = {
    "seed": ("1", "0x10"), "batch_size": ("7", "64"), "shuffle": ("false", "true"), "epochs": ("2", "300"),
    "keep": ("1", "9"), "lr": ("1", "1e-5"), "momentum": ("0", "0.5"), "device": ("cpu",),
    "weight_in_total": ("2", "1e-3"), "best": ("valid/loss",),
}  # fmt: skip
NAMES = {  # a name that something else has → where it is used, the key and the kinds of what is then wrong
    "both": ("from: ", "from", ("unknown-name",)), "flat": ("from: ", "from", ("unknown-name",)),
    "image": (r"outputs: \[digit, ", "outputs", ("unknown-name",)), "left": (r"from: \[", "from", ("unknown-name",)),
    "dense": ("block: |left: ", "", ("unknown-name",)), "Concat": ("type: ", "both", ("unknown-name",)),
    "MSELoss": ("type: ", "image", ("unknown-name",)), "top_k": ("top3: ", "top3", ("unknown-name",)),
    "digit": ("output/", "digit", ("shape",)), "top3": ("valid/", "best", ("unknown-name",)),
    "ReLU": (", ", "", ("unknown-name",)), "Digits": ("train: |dataset: ", "", ("unknown-name",)),
}  # fmt: skip
SHAPES = (r"Linear\((\d+)(?=, )", r"Conv2d\((\d+)(?=, )")


@dataclass(frozen=True)
class Mutation:
    """A config's text; line, key and kinds of the one problem that must be found, or None where it is still sound."""

    text: str
    what: str
    expected: tuple[int, str, tuple[str, ...]] | None


def mutations(count: int, seed: int = 0) -> list[Mutation]:
    """`count` of them, a quarter sound."""
    draw = random.Random(seed)
    texts = [*(bundled()[name].read_text() for name in BASES), GRAPH]
    makers = (_valid, _misspelt, _retyped, _dropped, _moved, _resized, _valid, _renamed)
    found: list[Mutation] = []
    while len(found) < count:
        options = list(makers[len(found) % len(makers)](draw.choice(texts), draw))
        if options:
            found.append(draw.choice(options))
    return found


def verdict(mutation: Mutation) -> str:
    """ "" where exactly what is expected was reported; else what was."""
    try:
        build(_draft(mutation.text), splits=())
        found: list[Problem] = []
    except ConfigError as error:
        found = error.problems
    if mutation.expected is None:
        return "" if not found else f"{mutation.what}: sound, but {found[0]}"
    line, key, kinds = mutation.expected
    right = [p for p in found if p.source.line == line and key in ("", p.key.split(".")[-1]) and p.kind in kinds]
    return "" if right and len(found) == 1 else f"{mutation.what}: {line}, {key}, {kinds}, but {list(map(str, found))}"


def _draft(text: str) -> Draft:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "c.yaml")
        file.write_text(text)
        return draft(file)


def _places(text: str, key: str) -> Iterator[re.Match[str]]:
    code = re.sub(r"#[^\n]*", lambda match: " " * len(match[0]), text)
    yield from re.finditer(rf"(?<![\w.]){key}(?=: )", code)


def _line(text: str, index: int) -> int:
    return text.count("\n", 0, index) + 1


def _valid(text: str, draw: random.Random) -> Iterator[Mutation]:
    for key, values in VALID.items():
        yield from (Mutation(new, f"{key}: {v}", None) for v in values for new, _ in _with_value(text, key, v))


def _with_value(text: str, key: str, value: str) -> Iterator[tuple[str, int]]:
    for match in _places(text, key):
        old = re.compile(r": (\[[^\]]*\]|[^,}#\n]*[^,}#\n ])").match(text, match.end())
        if old and not old[1].startswith("{"):
            yield text[: old.start(1)] + value + text[old.end(1) :], _line(text, match.start())


def _misspelt(text: str, draw: random.Random) -> Iterator[Mutation]:
    for key in KEYS:
        for match in _places(text, key):
            at = draw.randrange(1, len(key))
            wrong = draw.choice((key[:at] + key[at] * 2 + key[at + 1 :], key[:at] + "x" + key[at:]))
            new = text[: match.start()] + wrong + text[match.end() :]
            yield Mutation(new, f"{key} as {wrong}", (_line(text, match.start()), wrong, ("unknown-key",)))


def _renamed(text: str, draw: random.Random) -> Iterator[Mutation]:
    for name, (before, key, kinds) in NAMES.items():
        for match in re.finditer(rf"(?:{before})({name})(?!\w)", text):
            at = draw.randrange(1, len(name))
            wrong = name[:at] + name[at] * 2 + name[at + 1 :]
            new = text[: match.start(1)] + wrong + text[match.end(1) :]
            yield Mutation(new, f"{name} as {wrong}", (_line(text, match.start(1)), key, kinds))


def _retyped(text: str, draw: random.Random) -> Iterator[Mutation]:
    for key, values in WRONG.items():
        for value in values:
            for new, line in _with_value(text, key, value):
                yield Mutation(new, f"{key}: {value}", (line, key, ("wrong-type", "bad-value", "missing")))


def _dropped(text: str, draw: random.Random) -> Iterator[Mutation]:
    first = next(i for i, line in enumerate(text.splitlines(), 1) if line and line[0] not in "#")
    for key in ("loss", "train"):
        new = re.sub(rf"^{key}:[^\n]*\n(  [^\n]*\n)*", "", text, count=1, flags=re.MULTILINE)
        yield Mutation(new, f"without {key}", (first, key, ("missing",)))
    for match in re.finditer(r"\{epochs: \d+\}", text):
        new = text[: match.start()] + "{}" + text[match.end() :]
        yield Mutation(new, "without epochs", (_line(text, match.start()), "epochs", ("missing",)))


def _moved(text: str, draw: random.Random) -> Iterator[Mutation]:
    for key in ("seed", "loss", "scheduler", "metrics"):
        line = f"  {key}: 1\n"
        at = text.index("data:\n") + len("data:\n")
        yield Mutation(text[:at] + line + text[at:], f"{key} in data", (_line(text, at), key, ("unknown-key",)))


def _resized(text: str, draw: random.Random) -> Iterator[Mutation]:
    for pattern in SHAPES:
        for match in re.finditer(pattern, text):
            size = str(int(match[1]) + draw.randint(1, 9))
            new = text[: match.start(1)] + size + text[match.end(1) :]
            yield Mutation(new, f"{match[0]} as {size}", (_line(text, match.start()), "", ("shape",)))
