"""The declarations in a config: components with checked arguments, and models of components."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tdt.train.config.nodes import join
from tdt.train.config.source import Source


class Numbers(list):
    """A (nested) list of numbers that a registry converts to a tensor."""


class Part:
    """A component, or a model of several components."""

    source: Source
    key_path: str


@dataclass(frozen=True)
class Component(Part):
    """A name with arguments that were checked against its signature.

    args, kwargs: plain values of the annotated types; a nested component is a Component.
    arg_sources: position of each argument's value, by index or name. used: position where its block is used.
    """

    name: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    source: Source = field(default=Source("", 1, 1), compare=False)
    arg_sources: dict[int | str, Source] = field(default_factory=dict, compare=False, repr=False)
    key_path: str = field(default="", compare=False)
    used: Source | None = field(default=None, compare=False, repr=False)

    def at_fault(self, message: str) -> tuple[Source, str]:
        """Position and key path for an exception that the constructor raised.

        That of the component; or that of an argument changed by an override or an extending config: the one that the
        message names, else the last.
        """
        changed = {key: place for key, place in self.arg_sources.items() if place.file != self.source.file}
        words = set(re.findall(r"\w+", message))
        named = [key for key in self.arg_sources if key in words]
        if not changed or (named and not any(key in changed for key in named)):
            return self.source, self.key_path
        key = next((key for key in reversed(changed) if key in words), list(changed)[-1])
        return changed[key], join(self.key_path, key)

    def __str__(self) -> str:
        args = [_shown(value) for value in self.args] + [f"{key}={_shown(value)}" for key, value in self.kwargs.items()]
        return f"{self.name}({', '.join(args)})"


def _shown(value: Any) -> str:
    if isinstance(value, dict) or (isinstance(value, list) and any(isinstance(item, Part) for item in value)):
        return "…"
    return str(value) if isinstance(value, Component) else "…" if isinstance(value, Part) else repr(value)


@dataclass(frozen=True)
class Chain(Part):
    """A sequence of layers. `named`: written as a mapping (Sequential(OrderedDict)); else their names are indices."""

    entries: tuple[tuple[str, Part], ...]
    named: bool
    source: Source = field(default=Source("", 1, 1), compare=False)
    key_path: str = field(default="", compare=False)

    def components(self) -> Iterator[Component]:
        """Every component of the chain and of the chains in it, in order."""
        for _, entry in self.entries:
            if isinstance(entry, Chain):
                yield from entry.components()
            elif isinstance(entry, Component):
                yield entry


@dataclass(frozen=True)
class Graph(Part):
    """Parts by name, in topological order. sources: the names of each part's inputs."""

    nodes: dict[str, Part]
    sources: dict[str, tuple[str, ...]]
    inputs: tuple[str, ...]
    outputs: str | tuple[str, ...]
    source: Source = field(default=Source("", 1, 1), compare=False)
    key_path: str = field(default="", compare=False)


@dataclass(frozen=True)
class Factory(Part):
    """A part that is passed as a function, which a layer calls for as many copies as it needs."""

    part: Part

    @property
    def source(self) -> Source:  # type: ignore[override]
        """Position of the part."""
        return self.part.source
