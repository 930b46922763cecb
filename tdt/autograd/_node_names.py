"""PyTorch's names of graph nodes and saved values: `grad_fn.name()`, `grad_fn._saved_self`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar, cast

from tdt import _backend
from tdt._core.errors import freed, overwritten
from tdt._core.tensor import Tensor, alias
from tdt._core.wrapping import wraps

F = TypeVar("F", bound=Callable[..., Any])


def ranks(node: Any) -> list[int]:
    """The numbers of dimensions of a node's operands: of all operands, or only of those that it saved."""
    if node.shapes is not None:
        return [len(shape) for shape in node.shapes]
    ndims = [saved[0].ndim for saved in node.saved or () if _backend.is_array(saved[0])]
    return ndims or [2]


def by_dim(name: str) -> Callable[[Any], str]:
    """Variant 0 over all dimensions, 1 over some."""
    return lambda node: f"{name}Backward{0 if node.attributes.get('dim') is None else 1}"


def by_number(name: str, operand: int, number: int = 0) -> Callable[[Any], str]:
    """One variant where an operand is a Python number, the other where it is a tensor."""
    return lambda node: f"{name}Backward{number if node.backward_plan.numbers >> operand & 1 else 1 - number}"


def by_windows(name: str) -> Callable[[Any], str]:
    return lambda node: name.format(len(node.attributes["kernel"]))


def name_of(node: Any) -> str:
    """The name of a node: what its function said, its op's in PyTorch, or one made of the op's name in tdt."""
    op = node.backward_plan.op
    found = getattr(node, "label", None) or op.node  # the slot may be empty
    if not found:
        return _spelt(op.name) + "Backward0"
    return found if isinstance(found, str) else found(node)


def _spelt(name: str) -> str:
    """`log1p` as `Log1P`, `masked_fill` as `MaskedFill`."""
    return re.sub(r"\d[a-z]", lambda found: found[0].upper(), "".join(part.capitalize() for part in name.split("_")))


def node_name(name: str) -> Callable[[F], F]:
    """Decorate a function of several ops that is one in PyTorch: its results' nodes show that one's `name`."""

    def decorate(function: F) -> F:
        @wraps(function)
        def labelled(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs) if kwargs else function(*args)
            if result.__class__ is Tensor and result._edge is None:
                return result
            for t in result if isinstance(result, tuple) else (result,):
                if isinstance(t, Tensor) and t._edge is not None and not any(t is x for x in (*args, *kwargs.values())):
                    label(t, name)
            return result

        return cast("F", labelled)

    return decorate


def label(t: Tensor, name: str) -> Tensor:
    """`t`, a fresh result, whose node shows `name`."""
    if t._edge is not None:
        t._edge[0].label = name
    return t


def saved_attribute(node: Any, name: str) -> Any:
    """`_saved_<parameter>` of a node: an operand or output that it kept, or a setting; AttributeError for anything else."""
    parameter, back = name.removeprefix("_saved_"), node.backward_plan
    if parameter in node.attributes:
        return node.attributes[parameter]
    values = (*back.names, *back.op.outputs)
    position = {"self": 0, "other": 1, "exponent": 1, "result": len(back.names)}.get(parameter)
    places = [k for k, i in enumerate(back.keep) if i == position or values[i] == parameter]
    if not places:
        ruled = {name for rule in back.op.rules.values() for name in rule.params}
        if position is not None and position < len(values) and values[position] in ruled:
            return None  # only needed for a gradient that is not computed
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
