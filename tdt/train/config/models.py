"""Nodes → models: chains of layers, layers that take layers, blocks, graphs.

a list                       Chain: Sequential(...)
a mapping                    Chain: Sequential(OrderedDict(...)), its keys name the layers
{type: …} or a call          Component; an argument annotated as Module may be any model
{block: …} or a call         the body of a block with its arguments (`blocks`)
{graph: …}                   Graph (`graph`)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tdt._did_you_mean import closest
from tdt.train.config import registry
from tdt.train.config.blocks import Block, fill
from tdt.train.config.components import Reader
from tdt.train.config.errors import ConfigErrors
from tdt.train.config.graph import RESERVED, is_layer_name, read_graph
from tdt.train.config.nodes import BROKEN, Call, Mapping, Node, Scalar, Sequence, join, present
from tdt.train.config.parts import Chain, Component, Factory, Part
from tdt.train.config.scalars import spell
from tdt.train.config.signatures import layer_argument_kind
from tdt.train.config.source import Source

MOST_PARTS = 20_000  # blocks in blocks multiply: bounds the time that a hostile file takes


class ModelReader(Reader):
    """Read models. `inside`: the blocks being expanded, and the position of the outermost use."""

    def __init__(self, errors: ConfigErrors, blocks: dict[str, Block] | None = None) -> None:
        super().__init__(registry.layers, errors)
        self.blocks = blocks or {}
        self.inside: tuple[str, ...] = ()
        self.used: Source | None = None
        self.parts = 0

    def read(self, node: Node, path: str) -> Part | None:
        """A model; None after reporting mistakes."""
        if isinstance(node, Sequence):
            return self._chain([(str(number), item) for number, item in enumerate(node.items)], node, path)
        if isinstance(node, Mapping) and "block" in node.items:
            call = self._block_call(node, path)
            return None if call is None else self.check(call, path)
        if isinstance(node, Mapping) and "graph" in node.items:
            return read_graph(self, node, path)
        if isinstance(node, Mapping) and "from" in node.items:
            where = node.items["from"].key_source
            self.errors.add(where, "belongs to a node of a graph", kind="unknown-key", key=join(path, "from"))
            return None
        if isinstance(node, Mapping) and "type" not in node.items and not _is_misspelt_component(node):
            return self._chain(list(node.items.items()), node, path)
        return super().read(node, path)

    def check(self, call: Call, path: str, also: tuple[str, ...] = ()) -> Part | None:
        """Like Reader.check; the call may name a block."""
        self.parts += 1
        if call.name in self.blocks:
            return self._expand(self.blocks[call.name], call, path)
        if self.known.find(call.name) is None and call.name not in self.known.refused:
            near = closest(call.name, [*self.blocks, *self.known.names()])
            if near in self.blocks:
                message = f"no layer and no block is called {call.name!r}"
                self.errors.add(call.source, message, near, kind="unknown-name", key=path)
                return None
        found = super().check(call, path, also)
        return found if found is None or self.used is None else replace(found, used=self.used)

    def argument(self, node: Node, path: str, annotation: Any) -> Any:
        """Like Reader.argument; an argument annotated as Module may be any model."""
        expected = layer_argument_kind(annotation)
        if expected is None or present(node) is None:
            return super().argument(node, path, annotation)
        if expected != "layers":
            part = self.read(node, path)
            if part is None or not self._is_accepted(part, annotation, node, path):
                return BROKEN
            return Factory(part) if expected == "factory" else part
        if isinstance(node, Sequence):
            return [self.read(item, join(path, i)) or BROKEN for i, item in enumerate(node.items)]
        if isinstance(node, Mapping) and not any(key in RESERVED for key in node.items):
            return dict(self._named(list(node.items.items()), path, BROKEN))
        message = "expected branches, as a list or as a mapping from names to layers"
        self.errors.add(node.where, message, kind="wrong-type", key=path)
        return BROKEN

    def _is_accepted(self, part: Part, annotation: Any, node: Node, path: str) -> bool:
        """Whether a component has the class that an argument is annotated with, as the layer of a TransformerEncoder."""
        built = self.known.find(part.name) if isinstance(part, Component) else registry.find_sequential()
        if not (isinstance(annotation, type) and isinstance(built, type)) or issubclass(built, annotation):
            return True
        got = spell(part.name) if isinstance(part, Component) else "several layers"
        message = f"expected a {annotation.__name__}, got {got}"
        self.errors.add(node.where, message, kind="wrong-type", key=path)
        return False

    def _chain(self, pairs: list[tuple[str, Node]], node: Node, path: str) -> Chain:
        if not pairs:
            self.errors.add(node.where, "has no layers", kind="missing", key=path)
        if isinstance(node, Mapping):
            entries = [(name, part) for name, part in self._named(pairs, path, None) if part is not None]
        else:
            read = [(name, self.read(item, join(path, name))) for name, item in pairs]
            entries = [(name, part) for name, part in read if part is not None]
        return Chain(tuple(entries), isinstance(node, Mapping), node.where, path)

    def _named(self, pairs: list[tuple[str, Node]], path: str, wrong: Any) -> Iterator[tuple[str, Any]]:
        """Models by name; `wrong` in place of one that could not be read."""
        for name, item in pairs:
            here = join(path, name)
            is_name = is_layer_name(name, item, here, self.errors)
            yield name, (self.read(item, here) if is_name else None) or wrong

    def _block_call(self, node: Mapping, path: str) -> Call | None:
        """`{block: name, …}` as a call of that block; None after reporting an unknown one."""
        kind, here = node.items["block"], join(path, "block")
        if not isinstance(kind, Scalar) or kind.broken or not isinstance(kind.value, str):
            if not (isinstance(kind, Scalar) and kind.broken):
                self.errors.add(kind.where, "expected the name of a block", kind="wrong-type", key=here)
            return None
        if kind.value not in self.blocks:
            message, listing = f"no block is called {kind.value!r}", "; there are none: write them under blocks:"
            self.errors.add_unknown(
                kind.where, message, kind.value, self.blocks, key=here, kind="unknown-name",
                listing=None if self.blocks else listing,
            )  # fmt: skip
            return None
        kwargs = {key: item for key, item in node.items.items() if key != "block"}
        return Call(kind.source, node.key_source or node.source, kind.value, kwargs=kwargs)

    def _expand(self, block: Block, call: Call, path: str) -> Part | None:
        """The body of a block with its parameters replaced by the arguments of `call`."""
        if block.broken:
            return None
        block.used = True
        if block.name in self.inside:
            way = " → ".join((*self.inside[self.inside.index(block.name) :], block.name))
            self.errors.add(call.source, f"the block uses itself: {way}", key=path)
            return None
        if self.parts > MOST_PARTS:
            self.errors.add(block.source, f"the model has more than {MOST_PARTS:,} parts", key=f"blocks.{block.name}")
            return None
        values = block.bind(call, path, self.errors)
        if values is None:
            return None
        outer = self.inside, self.used
        self.inside, self.used = (*self.inside, block.name), self.used or call.source
        try:
            return self.read(fill(block.body, values, path, self.errors), f"blocks.{block.name}")
        finally:
            self.inside, self.used = outer


def _is_misspelt_component(node: Mapping) -> bool:
    """Whether a mapping is a component with `type` misspelt: a key close to it, and a value no layer could have."""
    close = closest("type", node.items)
    if close is None or not isinstance(node.items[close], Scalar):
        return False
    others = [item for key, item in node.items.items() if key != close]
    return any(isinstance(item, Scalar) and not isinstance(item.value, str) and present(item) for item in others)
