"""Identifiers use the terms of PyTorch, Keras and Lightning: the words below are not used in names, each with its term."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "tdt"

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
    "bookmark": "snapshot",
    "fate": "exit_reason",
    "grown": "resized or extended",
    "hear": "receive, or on_<event> for a callback",
    "knows": "has or supports",
    "laid": "layout, or to_<layout> for a function",
    "lane": "fast_path",
    "lent": "aliased or borrowed",
    "lone": "single",
    "mended": "fixed",
    "mine": "own, or left and right in a comparison",
    "obey": "check_stop",
    "owed": "pending or remaining",
    "parcel": "message",
    "rivals": "candidates",
    "says": "message or reports",
    "statics": "attributes",
    "twin": "copy or clone",
    "unfit": "UnsupportedDataError",
    "warmth": "warmup_factor",
}
# Parsing takes long: a file without these texts, outside of comments and docstrings, has no such name.
PROSE = re.compile(r'"""[\s\S]*?"""|#.*')
MENTIONED = re.compile(
    "|".join(rf"\b{name}\b(?! \w)" for name in NAMES)
    + "".join(rf"|(?<![a-z]){part}(?![a-z])|{part.capitalize()}(?![a-z])|{part.upper()}" for part in PARTS)
)


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


def term_for(name: str) -> str | None:
    """The field's term for a name that is not used here; None for a name that may be used."""
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
    texts = {str(path.relative_to(PACKAGE.parent)): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    found = [
        fault
        for file, text in sorted(texts.items())
        if MENTIONED.search(PROSE.sub("", text))
        for fault in faults(text, file)
    ]
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
        ("class LearningRate: ...\ndef planes(heard): ...\nclass Backward: ...", []),
        ("x = other.obey()", []),  # defined elsewhere: that file has the fault
    ],
)
def test_a_name_is_reported_with_file_line_and_term(source, expected):
    assert faults(source, "a.py") == expected
