"""Nodes → components: reads the three notations, looks names up, checks arguments."""

from __future__ import annotations

from typing import Any

from tdt._did_you_mean import closest
from tdt.train.config import calls
from tdt.train.config.errors import ConfigErrors
from tdt.train.config.nodes import BROKEN, Call, Mapping, Node, Scalar, Sequence, join, plain, present
from tdt.train.config.parts import Component
from tdt.train.config.registry import Registry
from tdt.train.config.scalars import spell
from tdt.train.config.signatures import argument_types, check_arguments, is_component, item_type
from tdt.train.config.source import Source


def read_call(node: Node, path: str, errors: ConfigErrors, what: str) -> Call | None:
    """The call that a node contains in any of the three notations; None after reporting anything else.

    what: the expected kind for the message ("a loss").
    """
    if isinstance(node, Call):
        return node
    if isinstance(node, Mapping) and "type" in node.items:
        return _mapping_call(node, path, errors)
    if isinstance(node, Mapping):
        close = closest("type", [key for key in node.items if key != "type"]) if node.items else None
        if close:
            key_source = node.items[close].key_source
            errors.add(key_source, "unknown key", "type", kind="unknown-key", key=join(path, close))
        else:
            errors.add(node.where, f"is missing: the mapping must name {what}", kind="missing", key=join(path, "type"))
        return None
    if isinstance(node, Scalar) and isinstance(node.value, str):
        call = calls.parse(node, path, errors)
        return None if call.broken else call
    if isinstance(node, Scalar) and node.broken:
        return None
    got = "a list" if isinstance(node, Sequence) else spell(plain(node)) if present(node) else "nothing"
    kind = "wrong-type" if present(node) else "missing"
    errors.add(node.where, f"expected {what}, like Name or Name(arg=1), got {got}", kind=kind, key=path)
    return None


def _mapping_call(node: Mapping, path: str, errors: ConfigErrors) -> Call | None:
    kind = node.items["type"]
    if isinstance(kind, Scalar) and kind.broken:
        return None
    if not isinstance(kind, Scalar) or not isinstance(kind.value, str) or not kind.value.isidentifier():
        message = "expected a bare name; write the arguments beside it as keys"
        errors.add(kind.where, message, kind="bad-value", key=join(path, "type"))
        return None
    kwargs = {key: item for key, item in node.items.items() if key != "type"}
    return Call(kind.source, node.key_source or node.source, kind.value, kwargs=kwargs)


class Reader:
    """Read components of one kind: look names up in `known`, check arguments, add mistakes to `errors`."""

    def __init__(self, known: Registry, errors: ConfigErrors) -> None:
        self.known, self.errors = known, errors

    def read(self, node: Node, path: str) -> Any:
        """The component that a node contains; None after reporting mistakes."""
        article = "an" if self.known.kind[0] in "aeiou" else "a"
        call = read_call(node, path, self.errors, f"{article} {self.known.kind}")
        return None if call is None else self.check(call, path)

    def check(self, call: Call, path: str, also: tuple[str, ...] = ()) -> Any:
        """The component of a call, with name and arguments checked; None after reporting mistakes.

        also: keywords among the arguments that are read elsewhere.
        """
        target = self.known.find(call.name)
        if target is None:
            add_unknown_name(call.source, path, call.name, self.known, self.errors)
            return None
        before = len(self.errors)
        types = argument_types(target, len(call.args), len(self.known.supplied))
        args = [self.argument(node, join(path, i), types.get(i)) for i, node in enumerate(call.args)]
        written = {key: node for key, node in call.kwargs.items() if key not in also}
        kwargs = {key: self.argument(node, join(path, key), types.get(key)) for key, node in written.items()}
        args, kwargs = check_arguments(target, call, args, kwargs, path, self.known, self.errors, also)
        if len(self.errors) > before:
            return None
        sources: dict[int | str, Source] = {number: node.named_at for number, node in enumerate(call.args)}
        sources |= {key: node.named_at for key, node in call.kwargs.items()}
        return Component(call.name, tuple(args), kwargs, call.source, sources, path)

    def argument(self, node: Node, path: str, annotation: Any) -> Any:
        """An argument as a Python value; a nested call or mapping with `type` as a Component, or BROKEN after an error."""
        if isinstance(node, Call) or (isinstance(node, Mapping) and "type" in node.items):
            return self.read(node, path) or BROKEN
        if isinstance(node, Sequence):
            inner = item_type(annotation)
            return [self.argument(item, join(path, number), inner) for number, item in enumerate(node.items)]
        if isinstance(node, Scalar) and isinstance(node.value, str) and is_component(annotation):
            return self.read(node, path) or BROKEN
        if isinstance(node, Mapping):
            return {key: self.argument(item, join(path, key), None) for key, item in node.items.items()}
        return plain(node)


def read_component(node: Node, path: str, known: Registry, errors: ConfigErrors) -> Component | None:
    """The component that a node contains, looked up in `known` and checked; None after reporting mistakes."""
    return Reader(known, errors).read(node, path)


def check_call(
    call: Call, path: str, known: Registry, errors: ConfigErrors, also: tuple[str, ...] = ()
) -> Component | None:
    """Like `Reader.check`."""
    return Reader(known, errors).check(call, path, also)


def add_unknown_name(source: Source, path: str, name: str, known: Registry, errors: ConfigErrors) -> None:
    """Report an unknown name, with what to write instead, the closest known name, or all names if they are few."""
    instead, names = known.refused.get(name), known.names()
    message = f"{name} {instead}" if instead else f"no {known.kind} is called {name!r}"
    listing = f"; known: {', '.join(names)}" if len(names) <= 12 else ""
    errors.add_unknown(source, message, name, () if instead else names, key=path, kind="unknown-name", listing=listing)


def read_components(node: Node | None, path: str, known: Registry, errors: ConfigErrors) -> tuple[Component, ...]:
    """Components from a list, or from a single component."""
    node = present(node)
    if node is None:
        return ()
    if not isinstance(node, Sequence):
        return tuple(filter(None, [read_component(node, path, known, errors)]))
    found = [read_component(item, join(path, i), known, errors) for i, item in enumerate(node.items)]
    return tuple(filter(None, found))
