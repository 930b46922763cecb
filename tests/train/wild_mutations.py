"""Bundled configs changed without regard for what they mean: each must be sound, or answered with places in short lines.

Where `mutations` knows what must be reported, here only the form of the answer is known: a ConfigError whose lines name
file, line and column, in printable characters, soon; never another exception.
"""

from __future__ import annotations

import os
import random
import re
import tempfile
import time
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path

from tdt.train.config import ConfigError, bundled, draft
from tdt.train.loop.build import build
from tests.train.mutations import GRAPH

NAMES = ("digits-cnn", "digits-mlp", "autoencoder", "iris-mlp", "char-lstm")
LONGEST_LINE, LONGEST_TIME = 2_000, 5.0  # characters; seconds of this process
SECRET = "hunter2-is-a-secret"
PLACE = re.compile(r".+:\d+:\d+: ", re.DOTALL)
VALUES = (
    "0", "-1", "-0", "1", "2", "0.5", "-0.5", "1e-5", "1e300", "1e999", ".inf", "-.inf", ".nan", "99999999999", "9" * 50, "017",
    "0x10", "true", "yes", "null", "~", "''", "[]", "{}", "[1]", "[[1]]", "{a: 1}", "{type: 1}", "{type: SGD}", "x", "x y", "é",
    "Linear", "Linear()", "Linear(64, 10)", "Linear(-1, 0)", "Linear(64, 10", "Repeat(1000000000, ReLU)", "Conv2d(1, 2, 3, 0)",
    "LSTM(8, 8, 1000000)", "Dropout(7)", "[ReLU, Flatten]", "1 epoch", "3 steps", "0 epochs", "'1'", "[1, a, null]", "\"\\0\"",
    '"\\e[2J"', '"\\u202e"', "'${seed}'", "${model}", "${env:TDT_WILD}", "'a${env:TDT_WILD}b'", "${run.steps}", "${nope}", "${",
    "*a", "&a", "&a [*a]", "&a {b: *a}", "!!python/object:os.system x", "!x", "<<", "? x", "|", ">", "%", "@", "`", "- ", "#",
    "((",
)  # fmt: skip
KEYS = ("0", "-1", "''", "null", "type", "from", "block", "graph", "training", "a.b", '"\\e[31m"', '"\\u202e"', "x" * 300,
        "extends",
        "<<", "*a", "? a", "&a b", "${seed}", "é", "Linear(1)", "f(a, b=1)")  # fmt: skip
ALIASES = (
    "&a [*a]\n", "a: &a\n  - *a\n", "base: &b {x: 1}\n", "<<: *a\n", "k: *a\n", "? *a\n: &a x\n", "&x\n", "*x\n", "--- &a [*a]\n",
    "extends: ${env:TDT_WILD}\n", "extends: [a]\n", "extends: .\n", "extends: c.yaml\n", "extends: /dev/zero\n",
    "extends: nope\n",
    "extends: digits-mlp\n", "extends: pipe.yaml\n", "extends: digits-cnn\n", "imports: /dev/zero\n", "imports: [x.py]\n",
    "weights: {from: nope}\n", "weights: {from: [1]}\n", "blocks: {f(a): [ReLU], f(b): f(1)}\n", "blocks: {f: [f]}\n",
)  # fmt: skip
OVERRIDES = ("model", "model.0", "optimizer.lr", "optimizer", "train.epochs", "data.train", "data.loader.batch_size",
             "scheduler",
             "loss", "metrics", "log.every", "name", "seed", "extends", "x", "", "model.0.0.0", "~model", "~",
             "data.transform.0")  # fmt: skip
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e-?\d+)?(?![\w.])")
WORD = re.compile(r"[A-Za-z_]\w+")
VALUE = re.compile(r"(?<=: )[^\s,{}\[\]#][^,{}\[\]#\n]*")


@dataclass(frozen=True)
class Wild:
    """A config's text with overrides, and in which ways it was changed."""

    text: str
    overrides: tuple[str, ...]
    ways: tuple[str, ...]


def texts() -> list[str]:
    """The configs that are changed."""
    return [*(bundled()[name].read_text() for name in NAMES), GRAPH]


def wild(draw: random.Random) -> Wild:
    """One of `texts` with one to three changes."""
    text, ways = draw.choice(texts()), []
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        way = draw.choice(list(WAYS))
        text = WAYS[way](text, draw)
        ways.append(way)
    overrides: list[str] = []
    if draw.random() < 0.15:
        ways.append("override")
        key, value = draw.choice(OVERRIDES), draw.choice(VALUES)
        overrides = [key if key.startswith("~") else f"{key}={value}"]
    return Wild(text, tuple(overrides), tuple(ways))


def _replaced(pattern: re.Pattern[str], values: tuple[str, ...], text: str, draw: random.Random) -> str:
    found = list(pattern.finditer(text))
    if not found:
        return text
    match = draw.choice(found)
    return text[: match.start()] + draw.choice(values) + text[match.end() :]


def _swap_lines(text: str, draw: random.Random) -> str:
    lines = text.split("\n")
    one, other = draw.randrange(len(lines)), draw.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]
    return "\n".join(lines)


def _swap_values(text: str, draw: random.Random) -> str:
    found = list(VALUE.finditer(text))
    one, other = draw.choice(found), draw.choice(found)
    return text[: one.start()] + other[0] + text[one.end() :]


def _drop_line(text: str, draw: random.Random) -> str:
    lines = text.split("\n")
    del lines[draw.randrange(len(lines))]
    return "\n".join(lines)


def _repeat_line(text: str, draw: random.Random) -> str:
    lines = text.split("\n")
    at = draw.randrange(len(lines))
    lines[at:at] = [lines[at]] * draw.choice((1, 2, 400))
    return "\n".join(lines)


def _indent(text: str, draw: random.Random) -> str:
    lines = text.split("\n")
    at = draw.randrange(len(lines))
    lines[at] = draw.choice(("  ", " ", "\t", "    ")) + lines[at] if draw.random() < 0.6 else lines[at].lstrip()
    return "\n".join(lines)


def _characters(text: str, draw: random.Random) -> str:
    at, cut = draw.randrange(len(text)), draw.choice((0, 1, 1, 5, 60))
    marks = ("\x1b[2J", "\x00", "\x85", "\u2028", "\u202e", "\ufeff", "\r", "\t", "'", '"', "{", "}", "[", "]", ":", ": ", "#",
           "*", "&", "!", "|", ">", "%", "@", "`", ",", "-", "?", "\\", "(", ")", "\ud800", "${", "\U0001f600", "")  # fmt: skip
    return text[:at] + draw.choice(marks) * draw.choice((1, 1, 1, 3, 2000)) + text[at + cut :]


def _structure(text: str, draw: random.Random) -> str:
    at = draw.choice([0, len(text), *(match.start() for match in re.finditer(r"^(?=\w)", text, re.MULTILINE))])
    return text[:at] + draw.choice(ALIASES) + text[at:]


def _bomb(text: str, draw: random.Random) -> str:
    n = draw.choice((40, 300, 3000))
    bombs = (
        "".join(f"k{i}: ${{k{i + 1}}}${{k{i + 1}}}\n" for i in range(n)) + f"k{n}: x\n",
        "".join(f"key{i}: {i}\n" for i in range(n)),
        "log: [" + "a, " * n + "]\n",
        "log: " + "[" * n + "\n",
        "log: {" + ", ".join(f"a{i}: *b" for i in range(n)) + "}\n",
        "k: " + "x" * n * 50 + "\n",
        "blocks:\n"
        + "".join(f"  b{i}: [b{i + 1}, b{i + 1}]\n" for i in range(min(n, 60)))
        + f"  b{min(n, 60)}: ReLU\n",
        "metrics: [" + ", ".join(f"m{i}" for i in range(n)) + "]\n",
    )
    return text + "\n" + draw.choice(bombs)


WAYS = {
    "value": lambda text, draw: _replaced(VALUE, VALUES, text, draw),
    "number": lambda text, draw: _replaced(NUMBER, VALUES[:16], text, draw),
    "word": lambda text, draw: _replaced(WORD, tuple(match[0] for match in WORD.finditer(text)), text, draw),
    "key": lambda text, draw: _replaced(re.compile(r"\b[A-Za-z_]\w*(?=: )"), KEYS, text, draw),
    "swap values": _swap_values,
    "swap lines": _swap_lines,
    "drop line": _drop_line,
    "repeat line": _repeat_line,
    "indent": _indent,
    "characters": _characters,
    "structure": _structure,
    "bomb": _bomb,
}


def verdict(one: Wild) -> tuple[str, str]:
    """("sound" or "answered", ""), or ("wrong", what was not as it must be)."""
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file = Path(folder, "c.yaml")
        file.write_text(one.text, encoding="utf-8", errors="surrogatepass")
        os.mkfifo(Path(folder, "pipe.yaml"))
        os.environ["TDT_WILD"] = SECRET
        try:
            build(draft(file, one.overrides), splits=(), dry_run=True)
            outcome, wrong = "sound", ""
        except ConfigError as error:
            outcome, wrong = "answered", next(filter(None, map(_fault, error.messages)), "")
        except Exception:  # noqa: BLE001 - whatever it is, it is a mistake of tdt's
            outcome, wrong = "wrong", traceback.format_exc()[-1500:]
        finally:
            del os.environ["TDT_WILD"]
    took = time.process_time() - began
    if took > LONGEST_TIME:
        wrong = wrong or f"took {took:.1f} s"
    return ("wrong", wrong) if wrong else (outcome, "")


def _fault(line: str) -> str:
    """What is wrong with a line of an answer; "" where nothing is."""
    if not PLACE.match(line):
        return f"no place: {line[:300]!r}"
    if len(line) > LONGEST_LINE:
        return f"{len(line)} characters: {line[:300]!r}"
    if not line.isprintable():
        return f"control characters: {line[:300]!r}"
    return f"a value from the environment: {line[:300]!r}" if SECRET in line else ""
