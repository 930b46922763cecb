"""PyTorch's names for recorded ops, and for what they keep: `grad_fn.name()`, `grad_fn._saved_self`."""

from __future__ import annotations

from typing import Any

from tdt import _backend
from tdt._tensor import alias
from tdt.autograd._node import freed, overwritten

NAMES: dict[str, Any] = {}


def name_of(node: Any) -> str:
    """The name of a node: its op's in PyTorch, or made of tdt's."""
    op = node.back.op.name
    found = NAMES.get(op)
    if found is None:
        found = "".join(p.capitalize() for p in op.split("_")) + "Backward0"
    return found if isinstance(found, str) else found(node)


def saved_attribute(node: Any, name: str) -> Any:
    """`_saved_<parameter>` of a node: an operand or output that it kept, or a setting; AttributeError for anything else."""
    if not name.startswith("_saved_"):
        raise AttributeError(f"'{node.name()}' object has no attribute '{name}'")
    wanted, back = name.removeprefix("_saved_"), node.back
    if wanted in node.statics:
        return node.statics[wanted]
    values = (*back.names, *back.op.outputs)
    asked = {"self": 0, "other": 1, "exponent": 1, "result": len(back.names)}.get(wanted)
    places = [k for k, i in enumerate(back.keep) if i == asked or values[i] == wanted]
    if not places:
        raise AttributeError(f"'{node.name()}' object has no attribute '{name}'")
    if node.saved is None:
        raise freed()
    array, storage, version = list(node.saved)[places[0]]
    if storage is not None and storage.version != version:
        raise overwritten(array, storage, version, node)
    if not _backend.is_array(array):
        return array
    at = back.keep[places[0]]
    count = len(node.edges)
    edge = node.edges[at] if at < count else (node, at - count)
    return edge[0] if edge is not None and getattr(edge[0], "_a", None) is array else alias(array, edge, storage)
