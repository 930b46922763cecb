"""The config as a tree that remembers where each thing was written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tdt.train.config.source import Source


@dataclass
class Node:
    """A value with its place: `source` where it begins, `key_source` its key (None for list items and the root)."""

    source: Source
    key_source: Source | None = None

    @property
    def named_at(self) -> Source:
        """Where the value is written, from which a relative path starts."""
        return self.source

    @property
    def where(self) -> Source:
        """The place an error about this value names: its key where a list or mapping begins further down."""
        key = self.key_source
        return self.source if key is None or (key.file, key.line) == (self.source.file, self.source.line) else key


@dataclass
class Scalar(Node):
    """A single value. `exact`: the text stands in the file as it is, so places inside it are known."""

    value: Any = None
    text: str = ""
    exact: bool = False
    inset: int = 0  # width of the opening quote
    broken: bool = False  # could not be read; said already
    written: str | None = None  # the reference it was read from, where that is what may be saved
    origin: Source | None = None  # where a value is written that a reference stands for

    @property
    def named_at(self) -> Source:
        """Where the value is written, from which a relative path starts."""
        return self.origin or self.source

    @property
    def where(self) -> Source:
        """Where it begins, its opening quote included."""
        return self.source

    def at(self, offset: int) -> Source:
        """Where character `offset` of the text stands."""
        if not self.exact:
            return self.source
        return Source(self.source.file, self.source.line, self.source.column + self.inset + offset)


@dataclass
class Mapping(Node):
    """`key: value` pairs, in their order; a key stands once."""

    items: dict[str, Node] = field(default_factory=dict)


@dataclass
class Sequence(Node):
    """A list, in either notation."""

    items: list[Node] = field(default_factory=list)


@dataclass
class Call(Node):
    """A component as written: a bare name, a call, or a mapping with `type`, all alike."""

    name: str = ""
    args: list[Node] = field(default_factory=list)
    kwargs: dict[str, Node] = field(default_factory=dict)
    broken: bool = False


class Broken:
    """Stands in plain data for a value that could not be read."""


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
    """The node, or None where nothing or null is written."""
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
    """The node at a path that is known to be there."""
    for part in path:
        below = child(node, part)
        assert below is not None
        node = below
    return node
