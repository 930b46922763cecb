"""`${path.to.key}` and `${env:NAME}` → what they stand for.

A value that is one reference takes what stands there, of any type; inside a longer text a reference becomes text.
What came from the environment is remembered as it was written: a run saves the reference, never the value.
"""

from __future__ import annotations

import copy
import dataclasses
import os
import re

from tdt.train.config import calls, scalars
from tdt.train.config.errors import ConfigErrors
from tdt.train.config.nodes import Call, Mapping, Node, Scalar, Sequence, join
from tdt.train.registry import nearest

_REFERENCE = re.compile(r"\$\{([^{}]*)\}")


def resolve(root: Mapping, errors: ConfigErrors) -> None:
    """Replace every reference in the tree; one that leads nowhere is added to `errors`."""
    _Resolver(root, errors).tree(root, "")


class _Resolver:
    def __init__(self, root: Mapping, errors: ConfigErrors):
        self.root, self.errors = root, errors
        self.under_way: list[str] = []  # the references that led here

    def tree(self, node: Node, path: str) -> Node:
        """The node with what the references in it stand for."""
        if isinstance(node, Mapping):
            node.items = {key: self.tree(item, join(path, key)) for key, item in node.items.items()}
        elif isinstance(node, Sequence):
            node.items = [self.tree(item, join(path, number)) for number, item in enumerate(node.items)]
        elif isinstance(node, Call):
            node.args = [self.tree(item, join(path, number)) for number, item in enumerate(node.args)]
            node.kwargs = {key: self.tree(item, join(path, key)) for key, item in node.kwargs.items()}
        elif isinstance(node, Scalar) and isinstance(node.value, str) and "${" in node.value:
            return self.scalar(node, path)
        return node

    def scalar(self, node: Scalar, path: str) -> Node:
        assert isinstance(node.value, str)
        if calls.looks_like_call(node):
            call = calls.parse(node, path, self.errors)
            return self.broken(node) if call.broken else self.tree(call, path)
        if whole := _REFERENCE.fullmatch(node.value):
            found = self.target(whole[1], node, path)
            return self.broken(node) if found is None else found
        pieces = [self.target(match[1], node, path) for match in _REFERENCE.finditer(node.value)]
        if "${" in _REFERENCE.sub("", node.value):
            self.errors.add(node.where, "'${' begins a reference and needs a '}'", key=path)
            return self.broken(node)
        texts = [piece.text for piece in pieces if isinstance(piece, Scalar) and not piece.broken]
        if len(texts) < len(pieces):
            if None not in pieces:
                self.errors.add(node.where, "a list or mapping cannot be part of a text", kind="wrong-type", key=path)
            return self.broken(node)
        rest = iter(texts)
        text = _REFERENCE.sub(lambda _: next(rest), node.value)
        secret = any(isinstance(piece, Scalar) and piece.written for piece in pieces)
        return dataclasses.replace(node, value=text, text=text, exact=False, written=node.value if secret else None)

    def broken(self, node: Scalar) -> Scalar:
        return Scalar(node.source, node.key_source, broken=True)

    def target(self, name: str, node: Scalar, path: str) -> Node | None:
        """What `${name}` in `node` stands for, placed where it is used; None after reporting that it is nothing."""
        kind, colon, variable = name.partition(":")
        if colon:
            return self.variable(kind, variable, node, path)
        if name in self.under_way:
            circle = " -> ".join([*self.under_way[self.under_way.index(name) :], name])
            self.errors.add(node.where, f"the reference goes in a circle: {circle}", key=path)
            return None
        found: Node = self.root
        for number, part in enumerate(parts := name.split(".")):
            below = calls.child_of(found, part)
            if below is None:
                self.add_missing(name, found, parts[:number], part, node, path)
                return None
            found = below
        self.under_way.append(name)
        found = copy.copy(self.tree(copy.deepcopy(found), name))
        self.under_way.pop()
        if isinstance(found, Scalar):
            found.origin = found.named_at
        found.source, found.key_source = node.source, node.key_source
        return found

    def add_missing(self, name: str, found: Node, above: list[str], part: str, node: Scalar, path: str) -> None:
        keys = found.items if isinstance(found, Mapping) else found.kwargs if isinstance(found, Call) else ()
        close = nearest(part, keys)
        suggestion = "${" + ".".join([*above, close]) + "}" if close else None
        message = f"${{{name}}}: the config has no {'.'.join([*above, part])}"
        self.errors.add(node.where, message, suggestion, kind="unknown-name", key=path)

    def variable(self, kind: str, name: str, node: Scalar, path: str) -> Scalar | None:
        if kind != "env" or not name:
            shown = f"${{{kind}:{name}}}"
            message = f"{shown} is no reference; write ${{path.to.key}}, or ${{env:NAME}} for a variable"
            self.errors.add(node.where, message, key=path)
            return None
        text = os.environ.get(name)
        if text is None:
            close = nearest(name, os.environ)
            suggestion = f"${{env:{close}}}" if close else None
            message = f"the environment variable {name} is not set"
            self.errors.add(node.where, message, suggestion, kind="missing", key=path)
            return None
        try:
            value = scalars.resolve(text)
        except ValueError:
            value = text
        return Scalar(node.source, node.key_source, value, text, written=f"${{env:{name}}}")
