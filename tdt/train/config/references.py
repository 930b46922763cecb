"""Resolve the references `${path.to.key}`, `${env:NAME}` and `${run.epochs}`.

A value that is a single reference takes the target's value, of any type; inside a longer text, a reference becomes text.
Of values from the environment, runs save and messages show the reference, never the value. The length of the run is
known once the data are open (`run_length`).
"""

from __future__ import annotations

import copy
import dataclasses
import os
import re
from typing import TypeGuard

from tdt._did_you_mean import closest
from tdt.train.config import calls, scalars
from tdt.train.config.errors import ConfigErrors, Source
from tdt.train.config.nodes import Call, Mapping, Node, Scalar, Sequence, children, join
from tdt.train.config.reader import DEEPEST
from tdt.train.config.run_length import UNITS, RunLength

MOST_NODES = 5_000  # that all references may expand to: references to references multiply
MOST_CHARACTERS = 200_000  # of all texts with references
_REFERENCE = re.compile(r"\$\{([^{}]*)\}")


def resolve(root: Mapping, errors: ConfigErrors) -> None:
    """Replace every reference in the tree; add one without a target to `errors`.

    Raises:
        ConfigError: at once if references expand to more than a config can need.
    """
    _Resolver(root, errors).tree(root, "")


class _Resolver:
    def __init__(self, root: Mapping, errors: ConfigErrors) -> None:
        self.root, self.errors = root, errors
        self.resolving: list[str] = []  # the references being resolved
        self.nodes = self.characters = 0  # that references have expanded to so far
        self.missing: set[tuple[str, Source]] = set()  # reported references without a target

    def tree(self, node: Node, path: str) -> Node:
        """The node with all references resolved."""
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
            if isinstance(found, Scalar) and isinstance(found.value, RunLength) and not path.startswith("scheduler"):
                message = f"{found.value!r} is the length of the run for its scheduler, and is not known elsewhere"
                self.errors.add(node.where, message, key=path)
                return self.broken(node)
            return self.broken(node) if found is None else found
        pieces = [self.target(match[1], node, path) for match in _REFERENCE.finditer(node.value)]
        if "${" in _REFERENCE.sub("", node.value):
            self.errors.add(node.where, "'${' begins a reference and needs a '}'", key=path)
            return self.broken(node)
        texts = [piece.text for piece in pieces if _is_text(piece)]
        if len(texts) < len(pieces):
            invalid = [
                piece for piece in pieces if not _is_text(piece) and not (isinstance(piece, Scalar) and piece.broken)
            ]
            if invalid and None not in pieces:
                what = "the length of the run" if isinstance(invalid[0], Scalar) else "a list or mapping"
                self.errors.add(node.where, f"{what} cannot be part of a text", kind="wrong-type", key=path)
            return self.broken(node)
        rest = iter(texts)
        text = _REFERENCE.sub(lambda _: next(rest), node.value)
        self.count(0, len(text), node, path)
        secret = any(isinstance(piece, Scalar) and piece.written for piece in pieces)
        return dataclasses.replace(node, value=text, text=text, exact=False, written=node.value if secret else None)

    def broken(self, node: Scalar) -> Scalar:
        return Scalar(node.source, node.key_source, broken=True)

    def count(self, nodes: int, characters: int, node: Scalar, path: str) -> None:
        """Count the nodes and characters of a reference's target; raises ConfigError if they are too many."""
        self.nodes, self.characters = self.nodes + nodes, self.characters + characters
        if self.nodes > MOST_NODES or self.characters > MOST_CHARACTERS:
            most = f"{MOST_NODES:,} values or {MOST_CHARACTERS:,} characters"
            self.errors.add(node.where, f"the config's references expand to more than {most}", key=path)
            self.errors.raise_if_any()

    def target(self, name: str, node: Scalar, path: str) -> Node | None:
        """The target of `${name}` in `node`, at the position of its use; None after reporting that there is none."""
        kind, colon, variable = name.partition(":")
        if colon:
            return self.variable(kind, variable, node, path)
        if name.startswith("run.") and name[4:] in UNITS:
            length = RunLength(name[4:])
            return Scalar(node.source, node.key_source, length, repr(length), written=repr(length))
        if len(self.resolving) >= DEEPEST:
            self.errors.add(node.where, f"leads through more than {DEEPEST} other references", key=path)
            return None
        if name in self.resolving:
            circle = " -> ".join([*self.resolving[self.resolving.index(name) :], name])
            self.errors.add(node.where, f"the reference is circular: {circle}", key=path)
            return None
        found: Node = self.root
        for number, part in enumerate(parts := name.split(".")):
            below = calls.child_of(found, part)
            if below is None:
                self.add_missing(name, found, parts[:number], part, node, path)
                return None
            found = below
        self.count(_size(found), 0, node, path)
        self.resolving.append(name)
        copied = copy.copy(found) if isinstance(found, Scalar) else copy.deepcopy(found)  # deep copies are slow
        found = copy.copy(self.tree(copied, name))
        self.resolving.pop()
        if _depth(found) > DEEPEST:
            self.errors.add(node.where, f"expands to values nested deeper than {DEEPEST} levels", key=path)
            return None
        if isinstance(found, Scalar):
            found.origin = found.named_at
            if found.written is not None:
                self.errors.hide(found.text, found.value, found.written, path, node.source)
        found.source, found.key_source = node.source, node.key_source
        return found

    def add_missing(self, name: str, found: Node, above: list[str], part: str, node: Scalar, path: str) -> None:
        """Report that `part` of `${name}` does not exist, once for each position."""
        if (name, node.where) in self.missing:
            return
        self.missing.add((name, node.where))
        if above or not name.startswith("run."):
            keys = found.items if isinstance(found, Mapping) else found.kwargs if isinstance(found, Call) else ()
            close = closest(part, keys)
        else:
            close = closest(name, (f"run.{unit}" for unit in UNITS))
        suggestion = "${" + ".".join([*above, close]) + "}" if close else None
        message = f"${{{name}}}: the config has no {'.'.join([*above, part])}"
        self.errors.add(node.where, message, suggestion, kind="unknown-name", key=path)

    def variable(self, kind: str, name: str, node: Scalar, path: str) -> Scalar | None:
        if kind != "env" or not name:
            shown = f"${{{kind}:{name}}}"
            message = f"{shown} is not a reference; write ${{path.to.key}}, or ${{env:NAME}} for a variable"
            self.errors.add(node.where, message, key=path)
            return None
        text = os.environ.get(name)
        if text is None:
            close = closest(name, os.environ)
            suggestion = f"${{env:{close}}}" if close else None
            message = f"the environment variable {name} is not set"
            self.errors.add(node.where, message, suggestion, kind="missing", key=path)
            return None
        try:
            value = scalars.resolve(text)
        except ValueError:
            value = text
        reference = f"${{env:{name}}}"
        self.errors.hide(text, value, reference, path, node.source)
        return Scalar(node.source, node.key_source, value, text, written=reference)


def _is_text(piece: Node | None) -> TypeGuard[Scalar]:
    return isinstance(piece, Scalar) and not piece.broken and not isinstance(piece.value, RunLength)


def _size(node: Node) -> int:
    """Number of nodes of a tree."""
    return 1 + sum(map(_size, children(node)))


def _depth(node: Node) -> int:
    """Depth of a tree."""
    return 1 + max(map(_depth, children(node)), default=0)
