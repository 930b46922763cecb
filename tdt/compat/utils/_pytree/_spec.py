"""The structure of a pytree, and its form in JSON."""

from __future__ import annotations

import dataclasses
import json
import sys
import warnings
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from functools import lru_cache
from typing import Any

from tdt.compat.utils._pytree._nodes import (
    BUILTIN_TYPES,
    NO_SERIALIZED_TYPE_NAME_FOUND,
    SERIALIZED_TYPE_TO_PYTHON_TYPE,
    STANDARD_DICT_TYPES,
    SUPPORTED_NODES,
    SUPPORTED_SERIALIZED_TYPES,
    ConstantNode,
    Context,
    PyTree,
    _get_node_type,
)


@dataclasses.dataclass(init=False, frozen=True, eq=False, repr=False, slots=True)
class TreeSpec:
    """The structure of a tree: a node's type, its context, and the structures of its children.

    Equal if types, contexts and children are.
    """

    type: Any
    _context: Context
    _children: list[TreeSpec]
    num_nodes: int
    num_leaves: int
    num_children: int

    def __init__(self, type: Any, context: Context, children_specs: list[TreeSpec]) -> None:
        leaf = type is None
        if leaf and (context is not None or children_specs):
            raise AssertionError("leaf node should not have a context or children")
        attributes = {
            "type": type,
            "_context": context,
            "_children": children_specs,
            "num_nodes": 1 + sum(child.num_nodes for child in children_specs),
            "num_leaves": 1 if leaf else sum(child.num_leaves for child in children_specs),
            "num_children": len(children_specs),
        }
        for name, value in attributes.items():
            object.__setattr__(self, name, value)

    def __repr__(self, indent: int = 0) -> str:
        indent += 2
        children = (",\n" + " " * indent).join(child.__repr__(indent) for child in self._children)
        return f"TreeSpec({self.type.__name__}, {self._context}, [{children}])"

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if other.__class__ is not self.__class__ or not isinstance(other, TreeSpec):
            return NotImplemented
        left, right = (str(self.type), self._context), (str(other.type), other._context)
        return left == right and self._children == other._children

    def __hash__(self) -> int:
        context = self._context
        if self.type is defaultdict:
            context = (context[0], tuple(context[1]))
        elif self.type in (dict, OrderedDict):
            context = tuple(context)
        elif isinstance(context, ConstantNode):
            context = context.value
        elif self.type is not None and self.type not in BUILTIN_TYPES:
            context = None
        return hash((self.type, context, tuple(self._children)))

    @property
    def context(self) -> Context:
        """The node's data besides its children: a dict's keys, a deque's maximal length."""
        return self._context

    @property
    def children_specs(self) -> list[TreeSpec]:
        """`children()` under its old name."""
        message = (
            "`treespec.children_specs` is deprecated. Use `treespec.child(index)` to access a single child, "
            "or `treespec.children()` to get all children."
        )
        warnings.warn(message, FutureWarning, stacklevel=2)
        return self._children

    def is_leaf(self) -> bool:
        """Whether this is the structure of a leaf."""
        return self.num_nodes == 1 and self.num_leaves == 1

    def children(self) -> list[TreeSpec]:
        """The structures of the children."""
        return self._children.copy()

    def child(self, index: int) -> TreeSpec:
        """The structure of the child at `index`."""
        return self._children[index]

    def flatten_up_to(self, tree: PyTree) -> list[PyTree]:
        """The subtrees of `tree` at the leaves of this structure. ValueError if `tree` has another structure."""
        if self.is_leaf():
            return [tree]
        children = _children_like(self, tree)
        return [x for child, spec in zip(children, self._children, strict=True) for x in spec.flatten_up_to(child)]

    def unflatten(self, leaves: Iterable[Any]) -> PyTree:
        """The tree of this structure with these leaves. ValueError if there are more or fewer than it has."""
        leaves = leaves if isinstance(leaves, (list, tuple)) else list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(leaves)} but the spec refers to a pytree that "
                f"holds {self.num_leaves} items ({self})."
            )
        return self._build(iter(leaves))

    def _build(self, leaves: Iterator[Any]) -> PyTree:
        if self.type is None:
            return next(leaves)
        children = [child._build(leaves) for child in self._children]
        return SUPPORTED_NODES[self.type].unflatten_fn(children, self._context)


PyTreeSpec = TreeSpec


class LeafSpec(TreeSpec):
    """The structure of a leaf."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(None, None, [])

    def __repr__(self, indent: int = 0) -> str:
        return "*"


_LEAF_SPEC = LeafSpec()


def _children_like(spec: TreeSpec, node: PyTree) -> list[Any]:
    """The children of `node`, which must have the type and context of `spec`; all standard dicts count as one type."""
    kind = _get_node_type(node)
    dicts = spec.type in STANDARD_DICT_TYPES and kind in STANDARD_DICT_TYPES
    builtin = spec.type in BUILTIN_TYPES
    if kind != spec.type and not dicts:
        raise ValueError(f"{'Node type' if builtin else 'Type'} mismatch; expected {spec.type!r}, but got {kind!r}.")
    children, context = SUPPORTED_NODES[kind].flatten_fn(node)
    if len(children) != spec.num_children:
        raise ValueError(f"Node arity mismatch; expected {spec.num_children}, but got {len(children)}.")
    if dicts:
        keys = spec._context[1] if spec.type is defaultdict else spec._context
        if set(node) != set(keys):
            missing, extra = set(keys) - set(node), set(node) - set(keys)
            which = (f"; missing key(s): {missing}" if missing else "") + (f"; extra key(s): {extra}" if extra else "")
            raise ValueError(f"Node keys mismatch{which}.")
        return [node[key] for key in keys]
    if kind is not deque and context != spec._context:  # the maximal length of a deque does not matter
        if not builtin:
            raise ValueError(f"Node context mismatch for custom node type {spec.type!r}.")
        raise ValueError(
            f"Node context mismatch for node type {spec.type!r}; expected {spec._context!r}, but got {context!r}."
        )
    return children


def treespec_leaf() -> TreeSpec:
    """The structure of a leaf."""
    return _LEAF_SPEC


def treespec_tuple(iterable: Iterable[TreeSpec] = (), /) -> TreeSpec:
    """The structure of a tuple of trees."""
    return TreeSpec(tuple, None, _specs(list(iterable), "tuple"))


def treespec_dict(
    mapping: Mapping[Any, TreeSpec] | Iterable[tuple[Any, TreeSpec]] = (), /, **kwargs: TreeSpec
) -> TreeSpec:
    """The structure of a dict of trees."""
    entries = dict(mapping, **kwargs)
    return TreeSpec(dict, list(entries), _specs(list(entries.values()), "dictionary"))


def _specs(values: list[Any], container: str) -> list[TreeSpec]:
    if not all(isinstance(value, TreeSpec) for value in values):
        raise ValueError(f"Expected a {container} of TreeSpec values, got: {values!r}.")
    return values


# ---- JSON

DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL = 1


class EnumEncoder(json.JSONEncoder):
    """Writes members of enums by class and name."""

    def default(self, obj: object) -> Any:
        if isinstance(obj, Enum):
            kind = type(obj)
            return {"__enum__": True, "fqn": f"{kind.__module__}:{kind.__qualname__}", "name": obj.name}
        return super().default(obj)


def enum_object_hook(obj: dict[str, Any]) -> Any:
    """The member of an enum that `EnumEncoder` wrote; its module must be imported already."""
    if "__enum__" not in obj:
        return obj
    module, _, path = obj["fqn"].partition(":")
    if module not in sys.modules:  # importing a module that a file names would run it
        raise ValueError(f"the enum {path} is in the module {module}: import it first")
    kind = sys.modules[module]
    for name in path.split("."):
        kind = getattr(kind, name)
    if not (isinstance(kind, type) and issubclass(kind, Enum)):
        raise ValueError(f"{obj['fqn']} is no enum")
    return kind[obj["name"]]


def _to_json(spec: TreeSpec) -> dict[str, Any]:
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    node = SUPPORTED_SERIALIZED_TYPES.get(spec.type)
    if node is None:
        raise NotImplementedError(f"Serializing {spec.type} in pytree is not registered.")
    if node.serialized_type_name == NO_SERIALIZED_TYPE_NAME_FOUND:
        raise NotImplementedError(
            f"No registered serialization name for {spec.type} found. Please update your _register_pytree_node call "
            "with a `serialized_type_name` kwarg."
        )
    if node.to_dumpable_context is not None:
        context = node.to_dumpable_context(spec._context)
    else:
        try:
            context = json.dumps(spec._context, cls=EnumEncoder)
        except TypeError as error:
            raise TypeError(
                "Unable to serialize context. Please make the context json dump-able, or register a custom serializer "
                "using _register_pytree_node."
            ) from error
    return {"type": node.serialized_type_name, "context": context, "children_spec": [*map(_to_json, spec._children)]}


def _from_json(schema: dict[str, Any]) -> TreeSpec:
    if schema["type"] is None and schema["context"] is None and not schema["children_spec"]:
        return _LEAF_SPEC
    if schema["type"] not in SERIALIZED_TYPE_TO_PYTHON_TYPE:
        raise NotImplementedError(f"Deserializing {schema['type']} in pytree is not registered.")
    kind = SERIALIZED_TYPE_TO_PYTHON_TYPE[schema["type"]]
    load = SUPPORTED_SERIALIZED_TYPES[kind].from_dumpable_context
    try:
        context = load(schema["context"]) if load else json.loads(schema["context"], object_hook=enum_object_hook)
    except TypeError as error:
        raise TypeError(
            "Unable to deserialize context. Please make the context json load-able, or register a custom serializer "
            "using _register_pytree_node."
        ) from error
    return TreeSpec(kind, context, [*map(_from_json, schema["children_spec"])])


def _check_protocol(protocol: Any) -> None:
    if protocol != DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL:
        raise ValueError(
            f"Unknown protocol {protocol}. Available protocols: {[DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL]}"
        )


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """A structure as JSON. NotImplementedError for a node type without a `serialized_type_name`."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"Expected `treespec` to be an instance of PyTreeSpec but got item of type {type(treespec)}.")
    protocol = DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL if protocol is None else protocol
    _check_protocol(protocol)
    return json.dumps([protocol, _to_json(treespec)], cls=EnumEncoder)


@lru_cache
def treespec_loads(serialized: str) -> TreeSpec:
    """The structure that `treespec_dumps` wrote."""
    protocol, schema = json.loads(serialized)
    _check_protocol(protocol)
    return _from_json(schema)


class _Asterisk(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return "*"


def treespec_pprint(treespec: TreeSpec) -> str:
    """The structure's tree with an asterisk for each leaf."""
    return repr(treespec.unflatten([_Asterisk("*")] * treespec.num_leaves))
