"""Node types of pytrees: how a container is flattened to a list of children and rebuilt from them."""

from __future__ import annotations

import dataclasses
import sys
import warnings
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from tdt._core.size import Size

PyTree = Any
Context = Any
DumpableContext = Any
FlattenFn = Callable[[PyTree], tuple[list[Any], Context]]
UnflattenFn = Callable[[Iterable[Any], Context], PyTree]
ToDumpableContextFn = Callable[[Context], DumpableContext]
FromDumpableContextFn = Callable[[DumpableContext], Context]


@dataclasses.dataclass(frozen=True, slots=True)
class SequenceKey:
    """A step of a key path: an index of a sequence."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """The element of `sequence` at this index."""
        return sequence[self.idx]


@dataclasses.dataclass(frozen=True, slots=True)
class MappingKey:
    """A step of a key path: a key of a mapping."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """The value of `mapping` at this key."""
        return mapping[self.key]


@dataclasses.dataclass(frozen=True, slots=True)
class GetAttrKey:
    """A step of a key path: an attribute."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """This attribute of `obj`."""
        return getattr(obj, self.name)


KeyEntry = SequenceKey | MappingKey | GetAttrKey
KeyPath = tuple[Any, ...]
FlattenWithKeysFn = Callable[[PyTree], tuple[list[tuple[Any, Any]], Any]]

FlattenFunc, UnflattenFunc, FlattenWithKeysFunc = FlattenFn, UnflattenFn, FlattenWithKeysFn  # their old names


# ---- the registry of node types


class NodeDef(NamedTuple):
    """How a type of node becomes a list of children and a context, and is rebuilt from them."""

    type: Any
    flatten_fn: FlattenFn
    unflatten_fn: UnflattenFn
    flatten_with_keys_fn: FlattenWithKeysFn | None


class _SerializeNodeDef(NamedTuple):
    typ: Any
    serialized_type_name: str
    to_dumpable_context: ToDumpableContextFn | None
    from_dumpable_context: FromDumpableContextFn | None


NO_SERIALIZED_TYPE_NAME_FOUND = "NO_SERIALIZED_TYPE_NAME_FOUND"
SUPPORTED_NODES: dict[Any, NodeDef] = {}
SUPPORTED_SERIALIZED_TYPES: dict[Any, _SerializeNodeDef] = {}
SERIALIZED_TYPE_TO_PYTHON_TYPE: dict[str, Any] = {}
STANDARD_DICT_TYPES = frozenset({dict, OrderedDict, defaultdict})
BUILTIN_TYPES: frozenset[Any] = frozenset({tuple, list, dict, namedtuple, OrderedDict, defaultdict, deque})
CONSTANT_NODES: set[type] = set()


def register_pytree_node(
    cls: type, flatten_fn: FlattenFn, unflatten_fn: UnflattenFn, *, serialized_type_name: str | None = None,
    to_dumpable_context: ToDumpableContextFn | None = None, from_dumpable_context: FromDumpableContextFn | None = None,
    flatten_with_keys_fn: FlattenWithKeysFn | None = None,
) -> None:  # fmt: skip
    """Make `cls` a node type; subclasses are not included.

    Args:
        cls: the type. ValueError if it is registered already.
        flatten_fn: object → (children, context).
        unflatten_fn: (children, context) → object.
        serialized_type_name: the name that `treespec_dumps` writes.
        to_dumpable_context, from_dumpable_context: context → what JSON can write, and back; both or none.
        flatten_with_keys_fn: object → ([(key, child), …], context), which functions with paths need.
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    _private_register_pytree_node(
        cls, flatten_fn, unflatten_fn, serialized_type_name=serialized_type_name,
        to_dumpable_context=to_dumpable_context, from_dumpable_context=from_dumpable_context,
        flatten_with_keys_fn=flatten_with_keys_fn,
    )  # fmt: skip


def _private_register_pytree_node(
    cls: Any, flatten_fn: FlattenFn, unflatten_fn: UnflattenFn, *, serialized_type_name: str | None = None,
    to_dumpable_context: ToDumpableContextFn | None = None, from_dumpable_context: FromDumpableContextFn | None = None,
    flatten_with_keys_fn: FlattenWithKeysFn | None = None,
) -> None:  # fmt: skip
    if cls in SUPPORTED_NODES:
        message = f"{cls} is already registered as pytree node. Overwriting the previous registration."
        warnings.warn(message, stacklevel=2)
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or registered.")
    name = serialized_type_name or NO_SERIALIZED_TYPE_NAME_FOUND
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)
    SUPPORTED_SERIALIZED_TYPES[cls] = _SerializeNodeDef(cls, name, to_dumpable_context, from_dumpable_context)
    SERIALIZED_TYPE_TO_PYTHON_TYPE[name] = cls


def _register_pytree_node(
    cls: type, flatten_fn: FlattenFn, unflatten_fn: UnflattenFn, to_str_fn: Any = None, maybe_from_str_fn: Any = None,
    *, serialized_type_name: str | None = None, to_dumpable_context: ToDumpableContextFn | None = None,
    from_dumpable_context: FromDumpableContextFn | None = None, flatten_with_keys_fn: FlattenWithKeysFn | None = None,
) -> None:  # fmt: skip
    """`register_pytree_node` under its old name, with two arguments that PyTorch ignores as well."""
    if to_str_fn is not None or maybe_from_str_fn is not None:
        message = "`to_str_fn` and `maybe_from_str_fn` is deprecated. Please use `to_dumpable_context` and "
        warnings.warn(f"{message}`from_dumpable_context` instead.", FutureWarning, stacklevel=2)
    _private_register_pytree_node(
        cls, flatten_fn, unflatten_fn, serialized_type_name=serialized_type_name,
        to_dumpable_context=to_dumpable_context, from_dumpable_context=from_dumpable_context,
        flatten_with_keys_fn=flatten_with_keys_fn,
    )  # fmt: skip


def _deregister_pytree_node(cls: type) -> None:
    """Make `cls` a leaf again."""
    del SUPPORTED_NODES[cls]
    node = SUPPORTED_SERIALIZED_TYPES.pop(cls)
    del SERIALIZED_TYPE_TO_PYTHON_TYPE[node.serialized_type_name]
    CONSTANT_NODES.discard(cls)


def _register_namedtuple(cls: type, *, serialized_type_name: str) -> None:
    """Give a named tuple the name that `treespec_dumps` writes."""
    SUPPORTED_SERIALIZED_TYPES[cls] = _SerializeNodeDef(cls, serialized_type_name, None, None)
    SERIALIZED_TYPE_TO_PYTHON_TYPE[serialized_type_name] = cls


def register_dataclass(
    cls: type, *, field_names: list[str] | None = None, drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:  # fmt: skip
    """Make a dataclass a node type whose children are its fields.

    Args:
        cls: a dataclass, or with `field_names` any class that takes its fields as keyword arguments.
        field_names: the fields; by default all that `__init__` takes. ValueError if some of a dataclass are missing.
        drop_field_names: fields that are left out.
        serialized_type_name: the name that `treespec_dumps` writes.
    """
    own = {f.name for f in dataclasses.fields(cls) if f.init} if dataclasses.is_dataclass(cls) else None
    if field_names is None:
        if own is None:
            raise ValueError(
                f"field_names must be specified with a list of all fields used to initialize {cls}, "
                "as it is not a dataclass."
            )
        field_names = [f.name for f in dataclasses.fields(cls) if f.init]
    elif own is not None and (required := own - set(drop_field_names or ())) != set(field_names):
        raise ValueError(
            f"field_names does not include all dataclass fields: missing {sorted(required - set(field_names))}, "
            f"unexpected {sorted(set(field_names) - required)}. Name the missing ones in drop_field_names to leave them out."
        )
    names = field_names

    def flatten(obj: Any) -> tuple[list[Any], Context]:
        values = {name: getattr(obj, name) for name in names}
        present = [name for name in names if values[name] is not None]
        return [values[name] for name in present], [present, [name for name in names if values[name] is None]]

    def flatten_with_keys(obj: Any) -> tuple[list[tuple[Any, Any]], Context]:
        values, (present, _) = flatten(obj)
        return list(zip(map(GetAttrKey, present), values, strict=True)), present

    def unflatten(values: Iterable[Any], context: Context) -> Any:
        present, absent = context
        return cls(**dict(zip(present, values, strict=True)), **dict.fromkeys(absent))

    _private_register_pytree_node(
        cls, flatten, unflatten, serialized_type_name=serialized_type_name, flatten_with_keys_fn=flatten_with_keys
    )


@dataclasses.dataclass(frozen=True, slots=True)
class ConstantNode:
    """The context of an instance of a class that `register_constant` registered."""

    value: Any


def register_constant(cls: type) -> None:
    """Register `cls` as a node type without children. TypeError if it does not define `__eq__` and `__hash__`."""
    for method, default in (("__eq__", object.__eq__), ("__hash__", None)):
        if getattr(cls, method) is default:
            raise TypeError(f"register_constant(cls) expects `cls` to have a non-default `{method}` implementation.")

    def flatten(x: Any) -> tuple[list[Any], Context]:
        return [], ConstantNode(x)

    _private_register_pytree_node(
        cls, flatten, lambda _, context: context.value, flatten_with_keys_fn=flatten
    )  # fmt: skip
    CONSTANT_NODES.add(cls)


def is_constant_class(cls: type) -> bool:
    """Whether `register_constant` was called for `cls`."""
    return isinstance(cls, type) and cls in CONSTANT_NODES


# ---- kinds of tuples


def is_namedtuple_class(cls: Any) -> bool:
    """Whether `cls` is a class of named tuples."""
    return (
        isinstance(cls, type)
        and issubclass(cls, tuple)
        and isinstance(fields := getattr(cls, "_fields", None), tuple)
        and all(type(field) is str for field in fields)
        and callable(getattr(cls, "_make", None))
        and callable(getattr(cls, "_asdict", None))
    )


def is_namedtuple_instance(obj: object) -> bool:
    """Whether `obj` is a named tuple."""
    return is_namedtuple_class(type(obj))


def is_namedtuple(obj: object | type) -> bool:
    """Whether `obj` is a named tuple or a class of them."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_class(cls: Any) -> bool:
    """Whether `cls` is a class of C-level records such as `time.struct_time`."""
    return (
        isinstance(cls, type)
        and cls.__bases__ == (tuple,)
        and all(isinstance(getattr(cls, f"n_{kind}fields", None), int) for kind in ("", "sequence_", "unnamed_"))
        and not cls.__flags__ & 1 << 10  # Py_TPFLAGS_BASETYPE: may be subclassed
    )


def is_structseq_instance(obj: object) -> bool:
    """Whether `obj` is a record such as `time.localtime()`."""
    return is_structseq_class(type(obj))


def is_structseq(obj: object | type) -> bool:
    """Whether `obj` is a C-level record or a class of them."""
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


def _get_node_type(tree: Any) -> Any:
    return namedtuple if is_namedtuple_instance(tree) else type(tree)


# ---- the containers that are registered by default


def _sequence_keys(values: Iterable[Any]) -> list[tuple[Any, Any]]:
    return [(SequenceKey(i), value) for i, value in enumerate(values)]


def _mapping_keys(mapping: Mapping[Any, Any]) -> list[tuple[Any, Any]]:
    return [(MappingKey(key), value) for key, value in mapping.items()]


def _dict_unflatten(values: Iterable[Any], context: Context) -> dict[Any, Any]:
    return dict(zip(context, values, strict=True))


def _dump_namedtuple(context: Context) -> DumpableContext:
    node = SUPPORTED_SERIALIZED_TYPES.get(context)
    if node is None or node.serialized_type_name == NO_SERIALIZED_TYPE_NAME_FOUND:
        raise NotImplementedError(
            f"Can't serialize TreeSpec of namedtuple class {context} because it has no serialized_type_name. "
            "Please register one using `_register_namedtuple`."
        )
    return node.serialized_type_name


def _load_namedtuple(dumped: DumpableContext) -> Context:
    if dumped not in SERIALIZED_TYPE_TO_PYTHON_TYPE:
        raise NotImplementedError(
            f"Can't deserialize TreeSpec of namedtuple class {dumped} because no class is registered under this name."
        )
    return SERIALIZED_TYPE_TO_PYTHON_TYPE[dumped]


def _dump_defaultdict(context: Context) -> DumpableContext:
    factory, keys = context
    names = {"default_factory_module": factory.__module__, "default_factory_name": factory.__qualname__}
    return {**names, "dict_context": keys}


def _load_defaultdict(dumped: DumpableContext) -> Context:
    module, name = dumped["default_factory_module"], dumped["default_factory_name"]
    if module not in sys.modules:  # importing a module that a file names would run it
        raise ValueError(f"the default_factory {name} of a defaultdict is in the module {module}: import it first")
    return [getattr(sys.modules[module], name), dumped["dict_context"]]


def _register(
    cls: Any, name: str | None, flatten: Any, unflatten: Any, keys: Any, dump: Any = None, load: Any = None
) -> None:
    _private_register_pytree_node(
        cls, flatten, unflatten, serialized_type_name=name, to_dumpable_context=dump, from_dumpable_context=load,
        flatten_with_keys_fn=lambda node: (keys(node), flatten(node)[1]),
    )  # fmt: skip


_register(tuple, "builtins.tuple", lambda d: (list(d), None), lambda values, _: tuple(values), _sequence_keys)
_register(list, "builtins.list", lambda d: (d, None), lambda values, _: list(values), _sequence_keys)
_register(dict, "builtins.dict", lambda d: (list(d.values()), list(d)), _dict_unflatten, _mapping_keys)
_register(
    namedtuple, "collections.namedtuple", lambda d: (list(d), type(d)), lambda values, cls: cls(*values),
    lambda d: list(zip(map(GetAttrKey, d._fields), d, strict=True)), _dump_namedtuple, _load_namedtuple,
)  # fmt: skip
_register(
    OrderedDict, "collections.OrderedDict", lambda d: (list(d.values()), list(d)),
    lambda values, keys: OrderedDict(zip(keys, values, strict=True)), _mapping_keys,
)  # fmt: skip
_register(
    defaultdict, "collections.defaultdict", lambda d: (list(d.values()), [d.default_factory, list(d)]),
    lambda values, context: defaultdict(context[0], _dict_unflatten(values, context[1])), _mapping_keys,
    _dump_defaultdict, _load_defaultdict,
)  # fmt: skip
_register(
    deque, "collections.deque", lambda d: (list(d), d.maxlen), lambda values, size: deque(values, maxlen=size), _sequence_keys
)  # fmt: skip
_register(Size, "torch.Size", lambda d: (list(d), None), lambda values, _: Size(values), _sequence_keys)
