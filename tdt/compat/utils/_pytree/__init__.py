"""PyTorch's `torch.utils._pytree`: nested containers as a flat list of leaves and a description of the nesting.

Tuples, lists, dicts, OrderedDicts, defaultdicts, deques and named tuples are nodes, as are types that
`register_pytree_node` adds; every other object is a leaf, `None` too.

>>> from tdt.compat.utils._pytree._functions import tree_flatten, tree_unflatten
>>> leaves, spec = tree_flatten({"x": 7, "y": (42, None)})
>>> leaves, spec.num_leaves
([7, 42, None], 3)
>>> tree_unflatten([1, 2, 3], spec)
{'x': 1, 'y': (2, 3)}
"""

from __future__ import annotations

from collections import OrderedDict, namedtuple

from tdt.compat.utils._pytree._functions import _broadcast_to_and_flatten as _broadcast_to_and_flatten
from tdt.compat.utils._pytree._functions import _generate_key_paths as _generate_key_paths
from tdt.compat.utils._pytree._functions import arg_tree_leaves as arg_tree_leaves
from tdt.compat.utils._pytree._functions import key_get as key_get
from tdt.compat.utils._pytree._functions import keystr as keystr
from tdt.compat.utils._pytree._functions import map_only as map_only
from tdt.compat.utils._pytree._functions import tree_all as tree_all
from tdt.compat.utils._pytree._functions import tree_all_only as tree_all_only
from tdt.compat.utils._pytree._functions import tree_any as tree_any
from tdt.compat.utils._pytree._functions import tree_any_only as tree_any_only
from tdt.compat.utils._pytree._functions import tree_flatten as tree_flatten
from tdt.compat.utils._pytree._functions import tree_flatten_with_path as tree_flatten_with_path
from tdt.compat.utils._pytree._functions import tree_is_leaf as tree_is_leaf
from tdt.compat.utils._pytree._functions import tree_iter as tree_iter
from tdt.compat.utils._pytree._functions import tree_leaves as tree_leaves
from tdt.compat.utils._pytree._functions import tree_leaves_with_path as tree_leaves_with_path
from tdt.compat.utils._pytree._functions import tree_map as tree_map
from tdt.compat.utils._pytree._functions import tree_map_ as tree_map_
from tdt.compat.utils._pytree._functions import tree_map_only as tree_map_only
from tdt.compat.utils._pytree._functions import tree_map_only_ as tree_map_only_
from tdt.compat.utils._pytree._functions import tree_map_with_path as tree_map_with_path
from tdt.compat.utils._pytree._functions import tree_structure as tree_structure
from tdt.compat.utils._pytree._functions import tree_unflatten as tree_unflatten
from tdt.compat.utils._pytree._nodes import BUILTIN_TYPES as BUILTIN_TYPES
from tdt.compat.utils._pytree._nodes import CONSTANT_NODES as CONSTANT_NODES
from tdt.compat.utils._pytree._nodes import NO_SERIALIZED_TYPE_NAME_FOUND as NO_SERIALIZED_TYPE_NAME_FOUND
from tdt.compat.utils._pytree._nodes import SERIALIZED_TYPE_TO_PYTHON_TYPE as SERIALIZED_TYPE_TO_PYTHON_TYPE
from tdt.compat.utils._pytree._nodes import STANDARD_DICT_TYPES as STANDARD_DICT_TYPES
from tdt.compat.utils._pytree._nodes import SUPPORTED_NODES as SUPPORTED_NODES
from tdt.compat.utils._pytree._nodes import SUPPORTED_SERIALIZED_TYPES as SUPPORTED_SERIALIZED_TYPES
from tdt.compat.utils._pytree._nodes import ConstantNode as ConstantNode
from tdt.compat.utils._pytree._nodes import Context as Context
from tdt.compat.utils._pytree._nodes import DumpableContext as DumpableContext
from tdt.compat.utils._pytree._nodes import FlattenFn as FlattenFn
from tdt.compat.utils._pytree._nodes import FlattenFunc as FlattenFunc
from tdt.compat.utils._pytree._nodes import FlattenWithKeysFn as FlattenWithKeysFn
from tdt.compat.utils._pytree._nodes import FlattenWithKeysFunc as FlattenWithKeysFunc
from tdt.compat.utils._pytree._nodes import FromDumpableContextFn as FromDumpableContextFn
from tdt.compat.utils._pytree._nodes import GetAttrKey as GetAttrKey
from tdt.compat.utils._pytree._nodes import KeyEntry as KeyEntry
from tdt.compat.utils._pytree._nodes import KeyPath as KeyPath
from tdt.compat.utils._pytree._nodes import MappingKey as MappingKey
from tdt.compat.utils._pytree._nodes import NodeDef as NodeDef
from tdt.compat.utils._pytree._nodes import PyTree as PyTree
from tdt.compat.utils._pytree._nodes import SequenceKey as SequenceKey
from tdt.compat.utils._pytree._nodes import ToDumpableContextFn as ToDumpableContextFn
from tdt.compat.utils._pytree._nodes import UnflattenFn as UnflattenFn
from tdt.compat.utils._pytree._nodes import UnflattenFunc as UnflattenFunc
from tdt.compat.utils._pytree._nodes import _deregister_pytree_node as _deregister_pytree_node
from tdt.compat.utils._pytree._nodes import _get_node_type as _get_node_type
from tdt.compat.utils._pytree._nodes import _private_register_pytree_node as _private_register_pytree_node
from tdt.compat.utils._pytree._nodes import _register_namedtuple as _register_namedtuple
from tdt.compat.utils._pytree._nodes import _register_pytree_node as _register_pytree_node
from tdt.compat.utils._pytree._nodes import _SerializeNodeDef as _SerializeNodeDef
from tdt.compat.utils._pytree._nodes import is_constant_class as is_constant_class
from tdt.compat.utils._pytree._nodes import is_namedtuple as is_namedtuple
from tdt.compat.utils._pytree._nodes import is_namedtuple_class as is_namedtuple_class
from tdt.compat.utils._pytree._nodes import is_namedtuple_instance as is_namedtuple_instance
from tdt.compat.utils._pytree._nodes import is_structseq as is_structseq
from tdt.compat.utils._pytree._nodes import is_structseq_class as is_structseq_class
from tdt.compat.utils._pytree._nodes import is_structseq_instance as is_structseq_instance
from tdt.compat.utils._pytree._nodes import register_constant as register_constant
from tdt.compat.utils._pytree._nodes import register_dataclass as register_dataclass
from tdt.compat.utils._pytree._nodes import register_pytree_node as register_pytree_node
from tdt.compat.utils._pytree._spec import _LEAF_SPEC as _LEAF_SPEC
from tdt.compat.utils._pytree._spec import (
    DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL as DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL,
)
from tdt.compat.utils._pytree._spec import EnumEncoder as EnumEncoder
from tdt.compat.utils._pytree._spec import LeafSpec as LeafSpec
from tdt.compat.utils._pytree._spec import PyTreeSpec as PyTreeSpec
from tdt.compat.utils._pytree._spec import TreeSpec as TreeSpec
from tdt.compat.utils._pytree._spec import enum_object_hook as enum_object_hook
from tdt.compat.utils._pytree._spec import treespec_dict as treespec_dict
from tdt.compat.utils._pytree._spec import treespec_dumps as treespec_dumps
from tdt.compat.utils._pytree._spec import treespec_leaf as treespec_leaf
from tdt.compat.utils._pytree._spec import treespec_loads as treespec_loads
from tdt.compat.utils._pytree._spec import treespec_pprint as treespec_pprint
from tdt.compat.utils._pytree._spec import treespec_tuple as treespec_tuple

_tuple_flatten, _tuple_unflatten, _tuple_flatten_with_keys = SUPPORTED_NODES[tuple][1:]
_list_flatten, _list_unflatten, _list_flatten_with_keys = SUPPORTED_NODES[list][1:]
_dict_flatten, _dict_unflatten, _dict_flatten_with_keys = SUPPORTED_NODES[dict][1:]
_namedtuple_flatten, _namedtuple_unflatten, _namedtuple_flatten_with_keys = SUPPORTED_NODES[namedtuple][1:]
_odict_flatten, _odict_unflatten, _ordereddict_flatten_with_keys = SUPPORTED_NODES[OrderedDict][1:]
