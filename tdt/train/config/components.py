"""Nodes → components: one form from the three ways of writing, names looked up, arguments checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tdt.train import registry
from tdt.train.config import calls
from tdt.train.config.errors import ConfigErrors, Source
from tdt.train.config.nodes import BROKEN, Call, Mapping, Node, Scalar, Sequence, join, plain, present
from tdt.train.config.scalars import spell
from tdt.train.config.signatures import check_arguments
from tdt.train.registry import Registry, nearest

RESERVED = ("type", "block", "graph", "from")


@dataclass(frozen=True)
class Component:
    """A name with its arguments, checked against the signature of what it names.

    args, kwargs: plain values, in the types the signature asks for; a nested component is a Component.
    arg_sources: where each argument was written, by position or name.
    """

    name: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    source: Source = field(default=Source("", 1, 1), compare=False)
    arg_sources: dict[int | str, Source] = field(default_factory=dict, compare=False, repr=False)
    key_path: str = field(default="", compare=False)

    def __str__(self) -> str:
        args = [repr(value) for value in self.args] + [f"{key}={value!r}" for key, value in self.kwargs.items()]
        return f"{self.name}({', '.join(args)})"


@dataclass(frozen=True)
class Chain:
    """Layers one after another. `named`: written as a mapping, so Sequential(OrderedDict); else names are indices."""

    entries: tuple[tuple[str, Component | Chain], ...]
    named: bool
    source: Source = field(default=Source("", 1, 1), compare=False)
    key_path: str = field(default="", compare=False)

    def components(self) -> Iterator[Component]:
        """Every component of the chain and of the chains in it, in order."""
        for _, entry in self.entries:
            if isinstance(entry, Chain):
                yield from entry.components()
            else:
                yield entry


def read_call(node: Node, path: str, errors: ConfigErrors, what: str) -> Call | None:
    """The call that a node spells in any of the three forms; None after reporting what else it is.

    what: what is expected there ("a loss").
    """
    if isinstance(node, Call):
        return node
    if isinstance(node, Mapping) and "type" in node.items:
        return _mapping_call(node, path, errors)
    if isinstance(node, Mapping):
        close = nearest("type", [key for key in node.items if key != "type"]) if node.items else None
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
        message = "expected a bare name; the arguments stand beside it as keys"
        errors.add(kind.where, message, kind="bad-value", key=join(path, "type"))
        return None
    kwargs = {key: item for key, item in node.items.items() if key != "type"}
    return Call(kind.source, node.key_source or node.source, kind.value, kwargs=kwargs)


def read_component(node: Node, path: str, known: Registry, errors: ConfigErrors) -> Component | None:
    """The component a node spells, looked up in `known` and checked; None after reporting what is wrong."""
    article = "an" if known.kind[0] in "aeiou" else "a"
    call = read_call(node, path, errors, f"{article} {known.kind}")
    return None if call is None else check_call(call, path, known, errors)


def check_call(
    call: Call, path: str, known: Registry, errors: ConfigErrors, also: tuple[str, ...] = ()
) -> Component | None:
    """The component of a call whose name `known` has and whose arguments fit; None after reporting what is wrong.

    also: keywords that stand among the arguments and are read elsewhere.
    """
    target = known.find(call.name)
    if target is None:
        add_unknown_name(call.source, path, call.name, known, errors)
        return None
    before = len(errors)
    args = [_argument(node, join(path, number), known, errors) for number, node in enumerate(call.args)]
    kwargs = {
        key: _argument(node, join(path, key), known, errors) for key, node in call.kwargs.items() if key not in also
    }
    args, kwargs = check_arguments(target, call, args, kwargs, path, known, errors)
    if len(errors) > before:
        return None
    sources: dict[int | str, Source] = {number: node.source for number, node in enumerate(call.args)}
    sources.update({key: node.source for key, node in call.kwargs.items()})
    return Component(call.name, tuple(args), kwargs, call.source, sources, path)


def add_unknown_name(source: Source, path: str, name: str, known: Registry, errors: ConfigErrors) -> None:
    """Report a name the registry does not have: with what to write instead, the nearest one, or all if they are few."""
    instead, names = known.refused.get(name), known.names()
    suggestion = None if instead else known.nearest(name)
    listed = f"; known: {', '.join(names)}" if not suggestion and len(names) <= 12 else ""
    message = f"{name} {instead}" if instead else f"no {known.kind} is called {name!r}"
    errors.add(source, message + listed, suggestion, kind="unknown-name", key=path)


def _argument(node: Node, path: str, known: Registry, errors: ConfigErrors) -> Any:
    """An argument as a Python value; a nested call or mapping with `type` as a Component, or BROKEN if it is wrong."""
    if isinstance(node, Call) or (isinstance(node, Mapping) and "type" in node.items):
        return read_component(node, path, known, errors) or BROKEN
    if isinstance(node, Sequence):
        return [_argument(item, join(path, number), known, errors) for number, item in enumerate(node.items)]
    if isinstance(node, Mapping):
        return {key: _argument(item, join(path, key), known, errors) for key, item in node.items.items()}
    return plain(node)


def read_components(node: Node | None, path: str, known: Registry, errors: ConfigErrors) -> tuple[Component, ...]:
    """Components from a list, or from a single one standing alone."""
    node = present(node)
    if node is None:
        return ()
    if not isinstance(node, Sequence):
        return tuple(filter(None, [read_component(node, path, known, errors)]))
    found = [read_component(item, join(path, i), known, errors) for i, item in enumerate(node.items)]
    return tuple(filter(None, found))


def read_model(node: Node, path: str, errors: ConfigErrors) -> Component | Chain | None:
    """A model: a component, a list (Sequential) or a mapping without `type` (Sequential of an OrderedDict)."""
    if isinstance(node, Sequence):
        pairs = [(str(number), item) for number, item in enumerate(node.items)]
    elif isinstance(node, Mapping) and "type" not in node.items:
        if _is_misspelt_component(node):
            read_call(node, path, errors, "a layer")
            return None
        pairs = list(node.items.items())
    else:
        return read_component(node, path, registry.layers, errors)
    if not pairs:
        errors.add(node.where, "holds no layer", kind="missing", key=path)
    named = isinstance(node, Mapping)
    entries = []
    for name, item in pairs:
        here = join(path, name)
        if named and not _is_layer_name(name, item, here, errors):
            continue
        entry = read_model(item, here, errors)
        if entry is not None:
            entries.append((name, entry))
    return Chain(tuple(entries), named, node.where, path)


def _is_misspelt_component(node: Mapping) -> bool:
    """Whether a mapping is a component with `type` misspelt: a key close to it, and a value no layer could have."""
    close = nearest("type", node.items)
    if close is None or not isinstance(node.items[close], Scalar):
        return False
    others = [item for key, item in node.items.items() if key != close]
    return any(isinstance(item, Scalar) and not isinstance(item.value, str) and present(item) for item in others)


def _is_layer_name(name: str, node: Node, path: str, errors: ConfigErrors) -> bool:
    if name in RESERVED:
        errors.add(node.key_source, f"{name!r} is reserved and cannot name a layer", kind="unknown-key", key=path)
    elif "." in name:
        message = f"a layer name has no dot, since dots join names; write {name.replace('.', '_')!r}"
        errors.add(node.key_source, message, kind="bad-value", key=path)
    elif name == "training" or hasattr(registry.find_sequential(), name):
        message = f"{name!r} is an attribute of every module and cannot name a layer; write {name + '_'!r}"
        errors.add(node.key_source, message, kind="bad-value", key=path)
    else:
        return True
    return False
