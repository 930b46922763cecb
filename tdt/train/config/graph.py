"""`graph:`: named layers with the nodes that they take their inputs from.

graph:
  stem: Conv2d(3, 16, 3, padding=1)         # the first takes the input, each other the node before it
  left: [ReLU, "Conv2d(16, 16, 1)"]
  right: {type: Conv2d, in_channels: 16, out_channels: 16, kernel_size: 1, from: stem}
  both: {type: Add, from: [left, right]}
  head: {from: both, layer: [Flatten, LazyLinear(10)]}
inputs: [input]                             # the default
outputs: head                               # the default is the last node; a list gives a dict by name
"""

from __future__ import annotations

import heapq
from dataclasses import replace
from typing import TYPE_CHECKING

from tdt._did_you_mean import closest
from tdt.train.config import registry
from tdt.train.config.errors import ConfigErrors
from tdt.train.config.nodes import Mapping, Node, Scalar, Sequence, join, plain, present
from tdt.train.config.parts import Graph, Part

if TYPE_CHECKING:
    from tdt.train.config.models import ModelReader

RESERVED = ("type", "block", "graph", "from")
KEYS = ("graph", "inputs", "outputs")


def read_graph(reader: ModelReader, node: Mapping, path: str) -> Graph | None:
    """The graph that a mapping with `graph` declares; None after reporting mistakes."""
    errors, before = reader.errors, len(reader.errors)
    written, here = node.items["graph"], join(path, "graph")
    if not isinstance(written, Mapping) or not written.items:
        errors.add(written.key_source, "expected a mapping from names to layers", kind="wrong-type", key=here)
        return None
    for key in node.items.keys() - set(KEYS):
        errors.add_unknown(node.items[key].key_source, "unknown key", key, KEYS, key=join(path, key))
    inputs = _names(node.items.get("inputs"), join(path, "inputs"), errors) or ("input",)
    parts: dict[str, Part] = {}
    sources: dict[str, tuple[str, ...]] = {}
    previous = inputs[0]
    for name, item in written.items.items():
        at = join(here, name)
        if name in inputs:
            errors.add(item.key_source, f"{name} is an input of the graph; name the node differently",
                       kind="duplicate-key", key=at)  # fmt: skip
        elif is_layer_name(name, item, at, errors):
            layer, listed = _split(item, at, errors)
            part = None if layer is None else reader.read(layer, at)
            if part is not None:
                parts[name] = part
            sources[name] = listed or (previous,)
        previous = name
    outputs = _names(node.items.get("outputs"), join(path, "outputs"), errors) or (previous,)
    _check_names(node, sources, inputs, outputs, path, errors)
    if len(errors) > before or parts.keys() != sources.keys():  # an unreadable node has been reported
        return None
    order = _order(sources, inputs, written, here, errors)
    if order is None or not _all_used(sources, inputs, outputs, node, path, errors):
        return None
    several = isinstance(node.items.get("outputs"), Sequence)
    nodes = {name: parts[name] for name in order}
    return Graph(nodes, sources, inputs, outputs if several else outputs[0], node.where, path)


def _split(item: Node, path: str, errors: ConfigErrors) -> tuple[Node | None, tuple[str, ...]]:
    """The layer of a node, and its inputs: the names under `from`, or ()."""
    if not isinstance(item, Mapping):
        return item, ()
    if "from" not in item.items:
        near = closest("from", item.items) if "layer" in item.items else None
        if near is None:
            return item, ()
        errors.add(
            item.items[near].key_source, "unknown key beside layer", "from", kind="unknown-key", key=join(path, near)
        )
        return None, ()
    names = _names(item.items["from"], join(path, "from"), errors)
    rest = {key: value for key, value in item.items.items() if key != "from"}
    if not rest.keys() & {"type", "block", "graph"}:
        strangers = [key for key in rest if key != "layer"]
        meant = [key for key in strangers if closest(key, ("layer", "type", "block"))]
        for key in meant or strangers:  # the others are arguments of the misspelt one
            errors.add_unknown(
                rest[key].key_source, "unknown key beside from", key, ("layer", "type", "block"), key=join(path, key),
                listing="; write the layer under layer, type or block",
            )  # fmt: skip
        if "layer" not in rest and not strangers:
            errors.add(item.where, "has no layer; give it type, block or layer", kind="missing", key=path)
        return (None if strangers else rest.get("layer")), names
    return replace(item, items=rest), names


def _names(node: Node | None, path: str, errors: ConfigErrors) -> tuple[str, ...]:
    """One name or a list of names; () if there is none, or after reporting something else."""
    node = present(node)
    if node is None or (isinstance(node, Scalar) and node.broken):
        return ()
    names = [plain(item) for item in (node.items if isinstance(node, Sequence) else [node])]
    if not names or not all(isinstance(name, str) and name for name in names):
        errors.add(node.where, "expected a name or a list of names", kind="wrong-type", key=path)
        return ()
    if len(set(names)) < len(names) and not path.endswith(".from"):
        errors.add(node.where, "a name is written twice", kind="duplicate-key", key=path)
    return tuple(names)


def _check_names(
    node: Mapping, sources: dict[str, tuple[str, ...]], inputs: tuple[str, ...], outputs: tuple[str, ...], path: str,
    errors: ConfigErrors,
) -> None:  # fmt: skip
    """Report names that are neither nodes nor inputs."""
    graph = node.items["graph"]
    assert isinstance(graph, Mapping)
    known = dict.fromkeys([*inputs, *graph.items])
    for name, input_names in sources.items():
        for source in input_names:
            if source not in known:
                item = graph.items[name]
                where = item.items["from"].where if isinstance(item, Mapping) and "from" in item.items else item.where
                key = join(path, f"graph.{name}.from")
                advice = "" if "inputs" in node.items else "; name the inputs of the model in inputs"
                errors.add_unknown(
                    where, f"there is no node {source!r}", source, known, key=key, kind="unknown-name", listing=advice
                )
    for name in outputs:
        if name not in known:
            where, key = node.items["outputs"].where, join(path, "outputs")
            errors.add(where, f"there is no node {name!r}", closest(name, known), kind="unknown-name", key=key)


def _order(
    sources: dict[str, tuple[str, ...]], inputs: tuple[str, ...], graph: Mapping, path: str, errors: ConfigErrors
) -> list[str] | None:
    """The nodes in topological order, otherwise as written; None after reporting a cycle."""
    takers: dict[str, list[str]] = {}
    awaited = {
        name: {source for source in input_names if source not in inputs} for name, input_names in sources.items()
    }
    for name, input_names in awaited.items():
        for source in input_names:
            takers.setdefault(source, []).append(name)
    number = {name: i for i, name in enumerate(sources)}
    ready, order = [i for name, i in number.items() if not awaited[name]], []
    names = list(sources)
    heapq.heapify(ready)
    while ready:
        done = names[heapq.heappop(ready)]
        order.append(done)
        for name in takers.get(done, ()):
            awaited[name].discard(done)
            if not awaited[name]:
                heapq.heappush(ready, number[name])
    if len(order) == len(names):
        return order
    placed = set(order)
    placed |= set(inputs)
    way = dict.fromkeys([next(name for name in names if name not in placed)])
    while (last := next(source for source in sources[next(reversed(way))] if source not in placed)) not in way:
        way[last] = None
    cycle = [*list(way)[list(way).index(last) :], last][::-1]
    lines = ", ".join(f"{name} in line {graph.items[name].where.line}" for name in cycle[1:])
    first = min(cycle, key=lambda name: graph.items[name].where)
    message = f"the nodes form a cycle: {' → '.join(cycle)} ({lines})"
    errors.add(graph.items[first].where, message, key=join(path, first))
    return None


def _all_used(
    sources: dict[str, tuple[str, ...]], inputs: tuple[str, ...], outputs: tuple[str, ...], node: Mapping, path: str,
    errors: ConfigErrors,
) -> bool:  # fmt: skip
    """Whether every node and input leads to an output. Reports those that do not."""
    reached, pending = set(outputs), list(outputs)
    while pending:
        new = [name for name in sources.get(pending.pop(), ()) if name not in reached]
        reached.update(new)
        pending += new
    graph = node.items["graph"]
    assert isinstance(graph, Mapping)
    for name in sources:
        if name not in reached:
            message = "leads to no output; remove it, or name it in outputs or in a from"
            errors.add(graph.items[name].where, message, kind="unused", key=join(path, f"graph.{name}"))
    for name in inputs:
        if name not in reached:
            where = node.items.get("inputs", graph)
            errors.add(where.where, f"the input {name} is not used", kind="unused", key=join(path, "inputs"))
    return reached >= {*sources, *inputs}


def is_layer_name(name: str, node: Node, path: str, errors: ConfigErrors) -> bool:
    """Whether a key may name a layer. Reports it if not."""
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
