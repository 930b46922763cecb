"""The values of a config by key path, without checks."""

from __future__ import annotations

from collections.abc import Iterator

from tdt.train.config import calls, reader
from tdt.train.config.errors import ConfigErrors
from tdt.train.config.nodes import Call, Mapping, Node, Scalar, Sequence, join
from tdt.train.config.scalars import spell


def settings(text: str, file: str) -> dict[str, str]:
    """The values of a config's text by key path; empty if it is not a mapping. Nothing is checked.

    A component with only keyword arguments is its name, with its arguments below: `Adam(lr=0.1)` and
    `{type: Adam, lr: 0.1}` give the same.
    """
    root = reader.read(text, file, ConfigErrors())
    return dict(_settings(root, "")) if isinstance(root, Mapping) else {}


def _settings(node: Node, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(node, Scalar) and calls.looks_like_call(node):
        call = calls.parse(node, path, ConfigErrors())
        node = node if call.broken or call.args else call
    below = node.kwargs if isinstance(node, Call) else node.items if isinstance(node, Mapping) else {}
    if isinstance(node, Call):
        yield path, node.name
    elif isinstance(node, Scalar) and node.value is not None:
        yield path, node.value if isinstance(node.value, str) else spell(node.value)
    elif isinstance(node, Sequence):
        below = {str(number): item for number, item in enumerate(node.items)}
    for key, item in below.items():
        yield from _settings(item, path if key == "type" and isinstance(node, Mapping) else join(path, key))
