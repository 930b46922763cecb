"""YAML text → nodes. PyYAML scans and composes; this module resolves the values.

Not allowed, each with its own message: tags, anchors, aliases, merge keys, duplicate keys, keys that are not plain text,
deep nesting. Known mistakes are repaired after they are reported, so that the rest of the file is still checked.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

import yaml

from tdt.train.config import traps
from tdt.train.config.errors import ConfigErrors
from tdt.train.config.nodes import Mapping, Node, Scalar, Sequence, join
from tdt.train.config.scalars import resolve
from tdt.train.config.source import Source

DEEPEST = 40
MOST_NODES = 20_000  # keys and values of a file; bounds the time that a hostile file takes
MOST_REPAIRS = 100
MOST_REPAIRED = 1_000_000  # characters that are parsed again after repairs
MOST_PIECES = 32  # of a call that was split at its commas; bounds the time that a hostile file takes


class _TooMuch(Exception):
    """The file nests too deeply or has too many values; args: mark and message."""


class _Loader(yaml.SafeLoader):
    """Compose nodes without anchors, aliases and tags; each of these is recorded as (mark, message)."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.refused: list[tuple[yaml.Mark, str]] = []
        self._depth = self._nodes = 0

    def compose_node(self, parent: Any, index: Any) -> yaml.Node | None:
        event = self.peek_event()
        if self.check_event(yaml.AliasEvent):
            self.get_event()
            self.refused.append((event.start_mark, traps.alias_message(f"*{event.anchor}")))
            return yaml.ScalarNode("", "", event.start_mark, event.end_mark)
        if event.anchor is not None:
            message = f"anchors are not supported; write the value out, or quote it: '&{event.anchor} ...'"
            self.refused.append((event.start_mark, message))
            event.anchor = None
        elif event.tag is not None:
            shown = event.tag.replace("tag:yaml.org,2002:", "!!")
            message = f"the tag {shown} is not supported; a config holds plain values only"
            self.refused.append((event.start_mark, message))
        self._depth += 1
        self._nodes += 1
        if self._depth > DEEPEST:
            raise _TooMuch(event.start_mark, f"nested deeper than {DEEPEST} levels")
        if self._nodes > MOST_NODES:
            raise _TooMuch(event.start_mark, f"the config has more than {MOST_NODES:,} keys and values")
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def resolve(self, kind: Any, value: Any, implicit: Any) -> str:
        return ""  # scalars are resolved by scalars.resolve


def read(text: str, file: str, errors: ConfigErrors) -> Node | None:
    """The tree of `text`; None if it is empty or cannot be read. Adds mistakes to `errors`."""
    reported: dict[tuple[int, int], str] = {}  # (line, column) from 0 -> message
    for _ in range(max(1, min(MOST_REPAIRS, MOST_REPAIRED // max(len(text), 1)))):
        try:
            loader = _Loader(text)
            root = loader.get_single_node()
            break
        except yaml.reader.ReaderError as error:
            _add_unreadable_character(text, error, file, errors)
            return None
        except _TooMuch as error:
            _report_reported(reported, file, errors)
            mark, message = error.args
            errors.add(Source(file, mark.line + 1, mark.column + 1), message, kind="yaml")
            return None
        except yaml.MarkedYAMLError as error:
            trap = traps.find(text, error)
            if trap is None:
                _report_reported(reported, file, errors)
                line, column, message = traps.describe(text, error)
                errors.add(Source(file, line + 1, column + 1), message, kind="yaml")
                return None
            reported[trap.line, trap.column] = trap.message
            text = trap.repaired
    else:
        _report_reported(reported, file, errors)
        return None
    reported.update({(mark.line, mark.column): message for mark, message in loader.refused})
    if root is None:
        _report_reported(reported, file, errors)
        return None
    return _Converter(text, file, errors, reported).convert_root(root)


def _report_reported(reported: dict[tuple[int, int], str], file: str, errors: ConfigErrors) -> None:
    for (line, column), message in reported.items():
        errors.add(Source(file, line + 1, column + 1), message, kind="yaml")


def _add_unreadable_character(text: str, error: yaml.reader.ReaderError, file: str, errors: ConfigErrors) -> None:
    before = text[: error.position]
    source = Source(file, before.count("\n") + 1, len(before) - before.rfind("\n"))
    errors.add(source, f"the character U+{error.character:04X} is not allowed in YAML; delete it", kind="yaml")


class _Converter:
    """Convert PyYAML's nodes to ours, and report each trap with its key path."""

    def __init__(self, text: str, file: str, errors: ConfigErrors, reported: dict[tuple[int, int], str]) -> None:
        self.text, self.file, self.errors, self.reported = text, file, errors, reported

    def convert_root(self, root: yaml.Node) -> Node:
        node = self.convert(root, "", None)
        _report_reported(self.reported, self.file, self.errors)  # those at positions without a value
        return node

    def convert(self, node: yaml.Node, path: str, key_source: Source | None) -> Node:
        source = self.source(node.start_mark)
        message = self.reported.pop((node.start_mark.line, node.start_mark.column), None)
        if message is not None:
            return self.broken(source, key_source, path, message)
        if isinstance(node, yaml.MappingNode):
            return Mapping(source, key_source, self.mapping_items(node, path))
        if isinstance(node, yaml.SequenceNode):
            return Sequence(source, key_source, self.sequence_items(node, path))
        assert isinstance(node, yaml.ScalarNode)
        return self.scalar(node, path, source, key_source)

    def source(self, mark: yaml.Mark) -> Source:
        return Source(self.file, mark.line + 1, mark.column + 1)

    def broken(self, source: Source, key_source: Source | None, path: str, message: str, kind: str = "yaml") -> Scalar:
        self.errors.add(source, message, kind=kind, key=path)
        self.errors.mark_reported(source)
        return Scalar(source, key_source, broken=True)

    def scalar(self, node: yaml.ScalarNode, path: str, source: Source, key_source: Source | None) -> Scalar:
        if node.style is not None:
            start = node.start_mark.index + 1
            exact = self.text.startswith(node.value, start) and node.style in "'\""
            return Scalar(source, key_source, node.value, node.value, exact, inset=1)
        if traps.is_open_call(node.value) and (rest := self.comment_after(node)):
            whole = f"{node.value} {rest}"
            message = f"{node.value!r} is cut at '#', which begins a comment; quote it: {traps.quoted(whole)}"
            return self.broken(source, key_source, path, message)
        try:
            value = resolve(node.value)
        except ValueError as error:
            return self.broken(source, key_source, path, str(error), "bad-value")
        exact = self.text.startswith(node.value, node.start_mark.index)
        return Scalar(source, key_source, value, node.value, exact)

    def comment_after(self, node: yaml.Node) -> str:
        """The comment that follows a node on its line, with its '#'."""
        match = re.compile(r"[ \t]+(#.*)").match(self.text, node.end_mark.index)
        return match[1].rstrip() if match else ""

    def sequence_items(self, node: yaml.SequenceNode, path: str) -> list[Node]:
        items: list[Node] = []
        pending = list(node.value)
        while pending:
            first = pending.pop(0)
            if node.flow_style and (rest := self.rest_of_call(first, iter(pending))):
                items.append(self.cut_call([first, *rest], join(path, len(items)), None, "[ ]"))
                del pending[: len(rest)]
            else:
                items.append(self.convert(first, join(path, len(items)), None))
        return items

    def rest_of_call(self, first: yaml.Node, following: Iterator[yaml.Node]) -> list[yaml.Node]:
        """The further nodes of a call that YAML has split at the commas inside its brackets; else []."""
        text = _plain_text(first)
        if text is None or not traps.is_open_call(text):
            return []
        rest: list[yaml.Node] = []
        for node in itertools.islice(following, MOST_PIECES):
            piece = _plain_text(node)
            if piece is None:
                return []
            text += ", " + piece
            rest.append(node)
            if not traps.is_open_call(text):
                return rest
        return []

    def cut_call(self, pieces: list[yaml.Node], path: str, key: Source | None, brackets: str) -> Scalar:
        whole = " ".join(self.text[pieces[0].start_mark.index : pieces[-1].end_mark.index].split())
        if whole.startswith("("):
            message = f"a tuple is written with [ ]: [{whole[1:-1]}]"
        else:
            message = f"quote a call inside {brackets}: {traps.quoted(whole)}"
        return self.broken(self.source(pieces[0].start_mark), key, path, message)

    def mapping_items(self, node: yaml.MappingNode, path: str) -> dict[str, Node]:
        items: dict[str, Node] = {}
        pending = list(node.value)
        while pending:
            key_node, value_node = pending.pop(0)
            where = self.source(key_node.start_mark)
            key = self.key(key_node, path)
            if key is None:
                continue
            here = join(path, key)
            bare = (k for k, v in pending if _plain_text(v) == "")
            if node.flow_style and (rest := self.rest_of_call(value_node, bare)):
                value: Node = self.cut_call([value_node, *rest], here, where, "{ }")
                del pending[: len(rest)]
            else:
                value = self.convert(value_node, here, where)
            if key in items:
                line = items[key].where.line
                message = f"the key is written twice, first in line {line}; remove one"
                self.errors.add(where, message, kind="duplicate-key", key=here)
            else:
                items[key] = value
        return items

    def key(self, node: yaml.Node, path: str) -> str | None:
        """The text of a key; None after reporting an invalid one."""
        source = self.source(node.start_mark)
        message = self.reported.pop((node.start_mark.line, node.start_mark.column), None)
        if message is None and not isinstance(node, yaml.ScalarNode):
            message = "a key must be plain text, not a list or mapping; is a value in { } or [ ] meant to be quoted?"
        if message is None and _plain_text(node) == "<<":
            message = "merge keys are not supported; write the keys out"
        if message is None and not node.value:
            message = "a key is missing before ':'"
        if message is not None:
            self.errors.add(source, message, kind="yaml", key=path)
            return None
        return node.value


def _plain_text(node: yaml.Node) -> str | None:
    """The text of an unquoted scalar, else None."""
    return node.value if isinstance(node, yaml.ScalarNode) and node.style is None else None
