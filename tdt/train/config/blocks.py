"""`blocks:`: named sub-models with parameters, which the model uses like layers.

    blocks:
      conv_bn(inp, out, stride=1):              # a key is a signature; a default makes a parameter optional
        - Conv2d(inp, out, 3, stride=stride, padding=1, bias=false)
        - BatchNorm2d(out)
    model: ["conv_bn(3, 16)", {block: conv_bn, inp: 16, out: 32, stride: 2}, Flatten, LazyLinear(10)]

In the body, an unquoted word that is the name of a parameter is replaced by its value. Nothing is computed.
"""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass, field, replace

from tdt._did_you_mean import closest
from tdt.train.config import calls, registry
from tdt.train.config.errors import ConfigErrors, takes
from tdt.train.config.nodes import Call, Mapping, Node, Scalar, Sequence, join, present
from tdt.train.config.source import Source

_FIXED = ("from", "inputs", "outputs", "block")  # keys whose values are names of nodes or blocks, never parameters


@dataclass
class Block:
    """A sub-model with parameters. parameters: name → default; None if it is required."""

    name: str
    parameters: dict[str, Node | None]
    body: Node
    source: Source
    used: bool = False
    broken: bool = False  # its mistakes have been reported
    places: dict[str, Source] = field(default_factory=dict)

    def bind(self, call: Call, path: str, errors: ConfigErrors) -> dict[str, Node] | None:
        """Parameter → argument of the call; None after reporting arguments that do not fit."""
        before, names = len(errors), list(self.parameters)
        if len(call.args) > len(names):
            message = f"{self.name} takes {len(names)} by position, got {len(call.args)}"
            errors.add(call.args[len(names)].source, message, kind="too-many", key=path)
        bound = dict(zip(names, call.args, strict=False))
        for key, node in call.kwargs.items():
            place, here = node.key_source or node.source, join(path, key)
            if key not in names:
                message = f"unknown parameter of the block {self.name}"
                errors.add_unknown(place, message, key, names, key=here, listing=takes(names))
            elif key in bound:
                message = f"{self.name} is given {key} twice, by position and by name; remove one"
                errors.add(place, message, kind="duplicate-key", key=here)
            else:
                bound[key] = node
        values = {name: bound.get(name, default) for name, default in self.parameters.items()}
        strangers = [key for key in call.kwargs if key not in names]
        missing = [n for n, node in values.items() if node is None and not any(closest(s, [n]) for s in strangers)]
        if missing:
            message = f"the block {self.name} needs {', '.join(missing)}"
            errors.add(call.where, message, kind="missing", key=path)
        return {n: node for n, node in values.items() if node} if len(errors) == before else None


def read_blocks(node: Node | None, errors: ConfigErrors) -> dict[str, Block]:
    """The blocks by name. Reports parameters that the body does not use."""
    node = present(node)
    if node is None:
        return {}
    if not isinstance(node, Mapping):
        if not (isinstance(node, Scalar) and node.broken):
            message = "expected a mapping from `name(parameter, other=default)` to a model"
            errors.add(node.where, message, kind="wrong-type", key="blocks")
        return {}
    found: dict[str, Block] = {}
    for key, body in node.items.items():
        block = _read_block(key, body, errors)
        if block is None:
            name = key.partition("(")[0].strip()
            block = Block(name, {}, body, body.key_source or body.source, broken=True)
        if block.name in found:
            message = f"there is already a block {block.name} in line {found[block.name].source.line}"
            errors.add(block.source, message, kind="duplicate-key", key=f"blocks.{key}")
        found.setdefault(block.name, block)
    return found


def _read_block(key: str, body: Node, errors: ConfigErrors) -> Block | None:
    path, source = f"blocks.{key.partition('(')[0]}", body.key_source or body.source
    literals = ("True", "False", "None")
    words = [word for word in re.findall(r"[A-Za-z_]\w*", key) if keyword.iskeyword(word) and word not in literals]
    if words:
        errors.add(
            source, f"{words[0]!r} is a Python keyword and cannot name a parameter; write {words[0] + '_'!r}", key=path
        )
        return None
    call = calls.parse(Scalar(source, value=key, text=key, exact=True), path, errors)
    if call.broken:
        return None
    if registry.layers.find(call.name) is not None or call.name in registry.layers.refused:
        errors.add(source, f"{call.name} is a layer; give the block another name", kind="duplicate-key", key=path)
        return None
    if present(body) is None:
        errors.add(source, "nothing is written here", kind="missing", key=path)
        return None
    block = Block(call.name, {}, body, source)
    for node in call.args:
        name = node.value if isinstance(node, Scalar) and node.text == node.value else None
        if not isinstance(name, str) or name in block.parameters:
            errors.add(node.source, "expected the names of parameters, each once, as in name(one, two=1)", key=path)
            return None
        block.parameters[name], block.places[name] = None, node.source
    for name, default in call.kwargs.items():
        block.parameters[name], block.places[name] = default, default.key_source or default.source
    used: set[str] = set()
    fill(body, {name: Scalar(source) for name in block.parameters}, path, ConfigErrors(), used)
    for name in block.parameters.keys() - used:
        errors.add(block.places[name], f"{name} is not used in the block; remove it", kind="unused", key=path)
    return block


def fill(node: Node, values: dict[str, Node], path: str, errors: ConfigErrors, used: set[str] | None = None) -> Node:
    """A copy of `node` in which unquoted parameter names are replaced by their values, inside calls too.

    used: collects the names that occur.
    """

    def walk(node: Node) -> Node:
        if isinstance(node, Scalar) and node.broken and used is not None:
            used.update(values)  # unreadable text may contain any of them
        if isinstance(node, Scalar) and node.value in values and not node.inset and node.text == node.value:
            if used is not None:
                used.add(node.value)
            return replace(values[node.value], key_source=node.key_source)
        if isinstance(node, Scalar) and calls.looks_like_call(node) and "(" in node.value:
            call = calls.parse(node, path, errors)
            return replace(node, broken=True) if call.broken else walk(call)
        if isinstance(node, Call):
            kwargs = {key: walk(item) for key, item in node.kwargs.items()}
            return replace(node, args=[walk(item) for item in node.args], kwargs=kwargs)
        if isinstance(node, Mapping):
            return replace(node, items={k: n if k in _FIXED else walk(n) for k, n in node.items.items()})
        return replace(node, items=[walk(item) for item in node.items]) if isinstance(node, Sequence) else node

    return walk(node)
