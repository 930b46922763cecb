"""The config as a tree of values with their positions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tdt.train.config.source import Source


@dataclass
class Node:
    """A value with its position: `source` of the value, `key_source` of its key (None for list items and the root)."""

    source: Source
    key_source: Source | None = None

    @property
    def named_at(self) -> Source:
        """Position of the value, in whose file's folder a relative path starts."""
        return self.source

    @property
    def where(self) -> Source:
        """Position for error messages: that of the key if a list or mapping begins further down."""
        key = self.key_source
        return self.source if key is None or (key.file, key.line) == (self.source.file, self.source.line) else key


@dataclass
class Scalar(Node):
    """A single value. `exact`: the text is in the file verbatim, so that positions inside it are known."""

    value: Any = None
    text: str = ""
    exact: bool = False
    inset: int = 0  # width of the opening quote
    broken: bool = False  # unreadable, and reported
    written: str | None = None  # its reference, if that is saved in place of the value
    origin: Source | None = None  # position of the value that a reference was resolved to

    @property
    def named_at(self) -> Source:
        """Position of the value, in whose file's folder a relative path starts."""
        return self.origin or self.source

    @property
    def where(self) -> Source:
        """Position of its beginning, with the opening quote."""
        return self.source

    def at(self, offset: int) -> Source:
        """Position of character `offset` of the text."""
        if not self.exact:
            return self.source
        return Source(self.source.file, self.source.line, self.source.column + self.inset + offset)


@dataclass
class Mapping(Node):
    """`key: value` pairs, in order; keys are unique."""

    items: dict[str, Node] = field(default_factory=dict)


@dataclass
class Sequence(Node):
    """A list, in block or flow notation."""

    items: list[Node] = field(default_factory=list)


@dataclass
class Call(Node):
    """A component: written as a bare name, a call, or a mapping with `type`."""

    name: str = ""
    args: list[Node] = field(default_factory=list)
    kwargs: dict[str, Node] = field(default_factory=dict)
    broken: bool = False


class Broken:
    """Placeholder in plain data for a value that could not be read."""


BROKEN = Broken()


def plain(node: Node) -> Any:
    """The tree as Python dicts, lists and scalars; calls stay nodes."""
    if isinstance(node, Mapping):
        return {key: plain(item) for key, item in node.items.items()}
    if isinstance(node, Sequence):
        return [plain(item) for item in node.items]
    if isinstance(node, Scalar):
        return BROKEN if node.broken else node.value
    return node


def present(node: Node | None) -> Node | None:
    """The node, or None if it is missing or null."""
    return None if isinstance(node, Scalar) and node.value is None and not node.broken else node


def join(path: str, key: str | int) -> str:
    """The dotted path of `key` under `path`: "optimizer.lr"."""
    return f"{path}.{key}" if path else str(key)


def child(node: Node | None, key: str) -> Node | None:
    """The node under `key` (an index for lists and positional arguments), or None."""
    if isinstance(node, Mapping):
        return node.items.get(key)
    if isinstance(node, Call) and key in node.kwargs:
        return node.kwargs[key]
    items = node.items if isinstance(node, Sequence) else node.args if isinstance(node, Call) else []
    return items[int(key)] if key.isdecimal() and len(key) < 9 and int(key) < len(items) else None


def children(node: Node) -> list[Node]:
    """The nodes right below `node`."""
    if isinstance(node, Call):
        return [*node.args, *node.kwargs.values()]
    return list(node.items.values()) if isinstance(node, Mapping) else node.items if isinstance(node, Sequence) else []


def at(node: Node, *path: str) -> Node:
    """The node at a path that must exist."""
    for part in path:
        below = child(node, part)
        assert below is not None
        node = below
    return node
