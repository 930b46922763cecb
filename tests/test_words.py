"""Identifiers use the terms of PyTorch, Keras and Lightning: the words below are not used in names, each with its term."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("tdt", "tests", "scripts", "benchmarks", "examples")

# Whole names.
NAMES = {
    "Back": "BackwardPlan",
    "Explained": "error_context",
    "Learning": "TrainStep",
    "OFFERED": "ALLOWED_GLOBALS",
    "Recipe": "FetcherFactory",
    "SAYS_NO": "CONSTRUCTOR_ERRORS",
    "Sealed": "SentFactory",
    "Verbs": "LazyGroup",
    "go_on": "resume",
    "say": "print_lines or emit",
    "share_out": "split_indices",
}
# Parts of names: `_obey`, `obey_signal` and `Obeying` contain `obey`.
PARTS = {
    "asked": "requested",
    "asks": "requests or calls",
    "bookmark": "snapshot",
    "due": "pending",
    "fate": "exit_reason",
    "given": "inputs, args or arguments",
    "grown": "resized or extended",
    "hear": "receive, or on_<event> for a callback",
    "heard": "received or calls",
    "kept": "saved or remaining",
    "knows": "has or supports",
    "laid": "layout, or to_<layout> for a function",
    "lane": "fast_path",
    "lent": "aliased or borrowed",
    "lone": "single",
    "made": "the kind of object: module, output, result, built",
    "mended": "fixed",
    "mine": "own, or left and right in a comparison",
    "obey": "check_stop",
    "owed": "pending or remaining",
    "parcel": "message",
    "rivals": "candidates",
    "said": "message, output or stderr",
    "says": "message or reports",
    "seen": "visited, received or calls",
    "settle": "after_step or finish",
    "settled": "finished",
    "sound": "valid",
    "spelled": "text or name",
    "stale": "outdated",
    "statics": "attributes",
    "tells": "reports",
    "told": "message or report",
    "twin": "copy or clone",
    "unfit": "UnsupportedDataError",
    "wanted": "expected or required",
    "wants": "requires",
    "warmth": "warmup_factor",
}
# Names that stay, since files of before have them.
SAVED = {"settled"}  # a key in the metadata of checkpoints
# Parsing takes long: a file without these texts, outside of strings and comments, has no such name.
STRINGS = re.compile(r'"""[\s\S]*?"""|"(?:\\.|[^"\\\n])*"|#.*')
NAME = re.compile(r"[A-Za-z_]\w+")


def sources() -> Iterator[tuple[str, str]]:
    """The path and the text of each Python file, scripts without a suffix too."""
    for path in sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*")):
        if path.suffix == ".py" or (not path.suffix and path.parent.name == "scripts" and path.is_file()):
            text = path.read_text(encoding="utf-8")
            if path.suffix or "python" in text.partition("\n")[0]:
                yield str(path.relative_to(ROOT)), text


def is_suspect(text: str) -> bool:
    """Whether `text` may define one of the names."""
    code = STRINGS.sub("", text)
    lower = code.lower()  # a search for constants is much faster than the rest
    mentioned = any(name in code for name in NAMES) or any(part in lower for part in PARTS)
    return mentioned and any(map(term_for, set(NAME.findall(code))))


def parts_of(name: str) -> list[str]:
    """The words of a name in snake_case or CamelCase, in lower case.

    >>> parts_of("_check_stop"), parts_of("LazyGroup"), parts_of("SAYS_NO")
    (['check', 'stop'], ['lazy', 'group'], ['says', 'no'])
    """
    return [part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)]


def identifiers(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The names that a file gives to functions, classes, parameters, variables and attributes, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


@functools.cache
def term_for(name: str) -> str | None:
    """The field's term for a name that is not used here; None for a name that may be used."""
    if name in SAVED:
        return None
    return NAMES.get(name) or next((PARTS[part] for part in parts_of(name) if part in PARTS), None)


def faults(source: str, file: str) -> list[str]:
    """`file:line: name: use term` for each identifier in `source` that is not used here."""
    found = {
        (line, f"{file}:{line}: {name}: use {term}")
        for line, name in identifiers(ast.parse(source))
        if (term := term_for(name))
    }
    return [text for _, text in sorted(found)]


def test_names_use_the_terms_of_the_field():
    found = [fault for file, text in sources() if is_suspect(text) for fault in faults(text, file)]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def obey(): ...", ["a.py:1: obey: use check_stop"]),
        ("x = 1\nclass Unfit(Exception): ...", ["a.py:2: Unfit: use UnsupportedDataError"]),
        ("def f(warmth): ...", ["a.py:1: warmth: use warmup_factor"]),
        ("def f(self):\n    self._bookmark = 1", ["a.py:2: _bookmark: use snapshot"]),
        ("class Learning: ...", ["a.py:1: Learning: use TrainStep"]),
        ("twin = x.clone()", ["a.py:1: twin: use copy or clone"]),
        ("class LearningRate: ...\ndef planes(shear): ...\nclass Backward: ...", []),
        ("def test_a_full_disk_is_told(): ...", ["a.py:1: test_a_full_disk_is_told: use message or report"]),
        ("settled: int = 0", []),  # in files of before
        ("x = other.obey()", []),  # defined elsewhere: that file has the fault
    ],
)
def test_a_name_is_reported_with_file_line_and_term(source, expected):
    assert faults(source, "a.py") == expected
    assert is_suspect(source) or not expected
