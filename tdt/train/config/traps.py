"""Common mistakes with YAML's syntax: how to write what was meant, and a repair.

A repair replaces characters by as many others, so that positions stay and the rest of the file can be checked.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import yaml

_UNSTARTABLE = {"%": "begins a directive in YAML", "@": "is reserved in YAML", "`": "is reserved in YAML"}
LONGEST_LINE = 1000  # characters of a line that are searched; bounds the time that a hostile file takes
_TOKEN = re.compile(r"[^\s,\[\]{}]*")
_CALL_BEFORE = re.compile(r"([A-Za-z_][\w.]*\([^\n]*)$")


class Trap(NamedTuple):
    """A mistake at (line, column), both from 0, its message, and the repaired text."""

    line: int
    column: int
    message: str
    repaired: str


def is_open_call(text: str) -> bool:
    """Whether brackets opened in `text`, outside quotes, are still open at its end.

    >>> from tdt.train.config.traps import is_open_call
    >>> is_open_call("Linear(64"), is_open_call("Linear(64, 10)")
    (True, False)
    """
    bare = re.sub(r"'[^']*'|\"[^\"]*\"", "", text)
    return bare.count("(") > bare.count(")")


def quoted(text: str) -> str:
    """`text` as a quoted YAML scalar."""
    if '"' not in text and "\\" not in text:
        return f'"{text}"'
    return "'" + text.replace("'", "''") + "'"


def alias_message(token: str) -> str:
    """The message for `*token`, which YAML reads as an alias."""
    return f"an unquoted {token} is an alias in YAML; quote it: {quoted(token)}"


def find(text: str, error: yaml.MarkedYAMLError) -> Trap | None:
    """The trap that caused a syntax error; None if it is another mistake."""
    for look in (_alias, _unstartable, _reference, _call_cut_by_comment, _comment_in_call, _call_with_brackets):
        trap = look(text, error)
        if trap is not None:
            return trap
    return None


def _replace(text: str, start: int, end: int, message: str) -> Trap:
    """The trap at text[start:end], which the repair turns into a plain word."""
    before = text[:start]
    line, column = before.count("\n"), start - before.rfind("\n") - 1
    return Trap(line, column, message, before + "x" * (end - start) + text[end:])


def _token(text: str, start: int) -> str:
    """The unquoted word at `start`, without the colon that ends a key."""
    match = _TOKEN.match(text, start)
    return match[0].rstrip(":") if match else ""


def _alias(text: str, error: yaml.MarkedYAMLError) -> Trap | None:
    if error.context not in ("while scanning an alias", "while scanning an anchor") or error.context_mark is None:
        return None
    start = error.context_mark.index
    token = _token(text, start)
    if token.startswith("&"):
        return _replace(text, start, start + len(token), f"an unquoted & begins an anchor; quote it: {quoted(token)}")
    return _replace(text, start, start + len(token), alias_message(token))


def _unstartable(text: str, error: yaml.MarkedYAMLError) -> Trap | None:
    mark = error.problem_mark
    if mark is None or "cannot start any token" not in (error.problem or ""):
        return None
    character = text[mark.index]
    if character not in _UNSTARTABLE:
        return None
    token = _token(text, mark.index)
    message = f"an unquoted {character} {_UNSTARTABLE[character]}; quote it: {quoted(token)}"
    return _replace(text, mark.index, mark.index + len(token), message)


def _reference(text: str, error: yaml.MarkedYAMLError) -> Trap | None:
    """`${path}` inside { } or [ ], where the braces open a mapping."""
    mark = error.problem_mark
    if mark is None or mark.index == 0:
        return None
    match = re.compile(r"\$\{[^}\n]*\}?").match(text, mark.index - 1)
    if match is None:
        return None
    message = f"{match[0]} inside {{ }} or [ ] opens a mapping; quote it: {quoted(match[0])}"
    return _replace(text, match.start(), match.end(), message)


def _call_cut_by_comment(text: str, error: yaml.MarkedYAMLError) -> Trap | None:
    """`[Foo(s=a #b), Bar]`: the comment swallows the rest of the line and with it the closing brackets."""
    if not (error.context or "").startswith("while parsing a flow"):
        return None
    assert error.context_mark is not None and error.problem_mark is not None
    begin = text.rfind("\n", 0, error.context_mark.index) + 1
    for match in re.finditer(r"[^\n]*", text[begin : error.problem_mark.index]):
        line_start, line = begin + match.start(), match[0][:LONGEST_LINE]
        hit = re.match(r"(.*?)([A-Za-z_][\w.]*\([^()#]*)([ \t]#)([^)]*\)?)", line)
        if hit is not None and is_open_call(hit[2]):
            whole = hit[2] + hit[3] + hit[4]
            message = f"{hit[2]!r} is cut at '#', which begins a comment; quote it: {quoted(whole)}"
            return _replace(text, line_start + hit.start(2), line_start + hit.end(4), message)
    return None


def _comment_in_call(text: str, error: yaml.MarkedYAMLError) -> Trap | None:
    """A call over several lines with a comment after the first: the comment ends the unquoted scalar."""
    mark = error.problem_mark
    if mark is None or (error.context or "").startswith("while parsing a flow"):
        return None
    end = text.rfind("\n", 0, mark.index)
    begin = text.rfind("\n", 0, max(end, 0)) + 1
    line = text[begin : max(end, begin)][:LONGEST_LINE]
    hit = re.search(r"(?<![\w.])([A-Za-z_][\w.]*\([^#]*?)[ \t]+(#.*)", line)
    if hit is None or not is_open_call(hit[1]):
        return None
    message = f"{hit[1]!r} is cut at '#', which begins a comment; move the comment out of the call"
    trap = _replace(text, begin + hit.start(2), begin + hit.end(2), message)
    blank = " " * len(hit[2])
    return trap._replace(
        column=hit.start(1), repaired=text[: begin + hit.start(2)] + blank + text[begin + hit.end(2) :]
    )


def _call_with_brackets(text: str, error: yaml.MarkedYAMLError) -> Trap | None:
    """`[Foo(a=[1, 2]), Bar]`: the call's own brackets end the unquoted scalar."""
    mark = error.problem_mark
    if mark is None or not (error.context or "").startswith("while parsing a flow") or mark.index >= len(text):
        return None
    begin = max(text.rfind("\n", 0, mark.index) + 1, mark.index - LONGEST_LINE)
    before = _CALL_BEFORE.search(text[begin : mark.index])
    if text[mark.index] not in "[{" or before is None or not is_open_call(before[1]):
        return None
    start = mark.index - len(before[1])
    reach = min(len(text), start + LONGEST_LINE)
    end = next((i for i in range(mark.index, reach) if not is_open_call(text[start : i + 1])), None)
    if end is None or "\n" in text[start:end]:
        return None
    return _replace(text, start, end + 1, f"quote a call inside [ ] or {{ }}: {quoted(text[start : end + 1])}")


def _late_quote(text: str, mark: yaml.Mark) -> yaml.Mark | None:
    """The beginning of a quoted text that ends in the line of `mark` but began above it."""
    found = None
    try:
        for token in yaml.scan(text[: mark.index], Loader=yaml.SafeLoader):
            if isinstance(token, yaml.ScalarToken) and token.style in ("'", '"') and token.end_mark.line == mark.line:
                found = token.start_mark if token.start_mark.line < mark.line else found
    except yaml.YAMLError:
        return found  # the error described here; the tokens before it count
    return found


def describe(text: str, error: yaml.MarkedYAMLError) -> tuple[int, int, str]:
    """(line, column, message), positions from 0, for a syntax error that is not a trap."""
    problem, context = error.problem or "", error.context or ""
    mark = error.problem_mark
    assert mark is not None  # PyYAML's scanner, parser and composer always set it
    start = error.context_mark or mark
    if "'\\t'" in problem:
        return mark.line, mark.column, "a tab cannot stand here; YAML indents with spaces"
    if problem == "mapping values are not allowed here":
        return (
            mark.line,
            mark.column,
            "a ':' is not expected here; quote the value that contains it, or correct the indentation",
        )
    if problem == "could not find expected ':'":
        line = text.splitlines()[start.line].strip()
        item = re.match(r"-(\w)", line)
        advice = f"; a list item has a space after its dash: '- {line[1:60]}'" if item else ""
        return start.line, start.column, f"expected 'key: value', got {line[:60]!r}{advice}"
    if context == "while scanning a quoted scalar":
        return start.line, start.column, "this quote is never closed"
    if context == "while parsing a flow node":
        return mark.line, mark.column, "a value or a closing bracket is missing here"
    if context.startswith("while parsing a flow"):
        bracket, closing = ("{", "}") if "mapping" in context else ("[", "]")
        return start.line, start.column, f"this {bracket} is not closed: a ',' or '{closing}' is missing after an item"
    if "expected a single document" in context:
        return mark.line, mark.column, "a second document begins here; a config is one document"
    if (quote := _late_quote(text, mark)) is not None:
        return quote.line, quote.column, f"this quote ends only in line {mark.line + 1}; is one missing before?"
    if "expected <block end>" in problem:
        return mark.line, mark.column, "the indentation matches nothing above; align it with its neighbours"
    return mark.line, mark.column, f"this is not YAML: {problem}" + (f" ({context})" if context else "")
