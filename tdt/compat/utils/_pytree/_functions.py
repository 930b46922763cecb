"""Functions of pytrees."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import Any

from tdt.compat.utils._pytree._nodes import SUPPORTED_NODES, KeyPath, PyTree, _get_node_type
from tdt.compat.utils._pytree._spec import _LEAF_SPEC, TreeSpec

IsLeaf = Callable[[PyTree], bool] | None
Types = type | tuple[type, ...] | types.UnionType


def tree_is_leaf(tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether `tree` is a leaf: `is_leaf` returns True for it, or its type is not registered.

    >>> from tdt.compat.utils._pytree._functions import tree_is_leaf
    >>> tree_is_leaf(None), tree_is_leaf([1]), tree_is_leaf((1, 2), is_leaf=lambda x: isinstance(x, tuple))
    (True, False, True)
    """
    return (is_leaf is not None and bool(is_leaf(tree))) or _get_node_type(tree) not in SUPPORTED_NODES


def tree_flatten(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """The leaves of a tree and its structure.

    Args:
        tree: any object.
        is_leaf: called with each subtree; where it returns True the subtree is a leaf.
    """
    leaves: list[Any] = []
    return leaves, _flatten_into(leaves, tree, is_leaf)


def _flatten_into(leaves: list[Any], tree: PyTree, is_leaf: IsLeaf) -> TreeSpec:
    if tree_is_leaf(tree, is_leaf):
        leaves.append(tree)
        return _LEAF_SPEC
    kind = _get_node_type(tree)
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    return TreeSpec(kind, context, [_flatten_into(leaves, child, is_leaf) for child in children])


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> PyTree:
    """The tree of structure `treespec` with these leaves; the arguments may come in either order."""
    if not isinstance(treespec, TreeSpec):
        if not isinstance(leaves, TreeSpec):
            raise TypeError(
                f"Expected `treespec` to be an instance of PyTreeSpec but got item of type {type(treespec)}."
            )
        leaves, treespec = treespec, leaves
    return treespec.unflatten(leaves)


def tree_iter(tree: PyTree, is_leaf: IsLeaf = None) -> Iterator[Any]:
    """The leaves of a tree, one by one."""
    if tree_is_leaf(tree, is_leaf):
        yield tree
        return
    for child in SUPPORTED_NODES[_get_node_type(tree)].flatten_fn(tree)[0]:
        yield from tree_iter(child, is_leaf)


def tree_leaves(tree: PyTree, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves of a tree."""
    return list(tree_iter(tree, is_leaf))


def arg_tree_leaves(*args: PyTree, **kwargs: PyTree) -> list[Any]:
    """The leaves of all arguments."""
    return tree_leaves((*args, *kwargs.values()))


def tree_structure(tree: PyTree, is_leaf: IsLeaf = None) -> TreeSpec:
    """The structure of a tree."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """The tree of what `func` returns for each leaf.

    Args:
        func: called with a leaf of `tree` and the subtree at its place in each of `rests`.
        tree: the tree whose structure counts.
        rests: trees of the same structure, or with subtrees in the place of leaves.
        is_leaf: as in `tree_flatten`.

    >>> from tdt.compat.utils._pytree._functions import tree_map
    >>> tree_map(lambda x, y: [x, *y], {"a": 5, "b": (6,)}, {"a": [7, 9], "b": ([1, 2],)})
    {'a': [5, 7, 9], 'b': ([6, 1, 2],)}
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    return spec.unflatten(map(func, leaves, *[spec.flatten_up_to(rest) for rest in rests]))


def tree_map_(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """Call `func` as `tree_map` does, for its side effects. Returns `tree`."""
    leaves, spec = tree_flatten(tree, is_leaf)
    for arguments in zip(leaves, *[spec.flatten_up_to(rest) for rest in rests], strict=True):
        func(*arguments)
    return tree


def map_only(type_or_types_or_pred: Types | Callable[[Any], bool], /) -> Callable[[Callable], Callable]:
    """A decorator: the function maps values of these types (or that satisfy the predicate); others are unchanged."""
    chosen = type_or_types_or_pred
    if not callable(chosen) and not isinstance(chosen, (tuple, types.UnionType)):
        raise TypeError("Argument must be a type, a tuple of types, or a callable.")

    def decorate(func: Callable[[Any], Any]) -> Callable[[Any], Any]:
        @wraps(func)
        def mapped(x: Any) -> Any:
            fits = isinstance(x, chosen) if isinstance(chosen, (type, tuple, types.UnionType)) else chosen(x)
            return func(x) if fits else x

        return mapped

    return decorate


def tree_map_only(
    type_or_types_or_pred: Types | Callable[[Any], bool], /, func: Callable[[Any], Any], tree: PyTree,
    is_leaf: IsLeaf = None,
) -> PyTree:  # fmt: skip
    """`tree_map` for leaves of these types, or for which the predicate holds; other leaves stay.

    >>> from tdt.compat.utils._pytree._functions import tree_map_only
    >>> tree_map_only(int, lambda x: x + 1, [1, "a", (2.5, 3)])
    [2, 'a', (2.5, 4)]
    """
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: Types | Callable[[Any], bool], /, func: Callable[[Any], Any], tree: PyTree,
    is_leaf: IsLeaf = None,
) -> PyTree:  # fmt: skip
    """`tree_map_only` for the function's side effects. Returns `tree`."""
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether `pred` holds for all leaves."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether `pred` holds for a leaf."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(
    type_or_types: Types, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None
) -> bool:  # fmt: skip
    """Whether `pred` holds for all leaves of these types."""
    return all(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def tree_any_only(
    type_or_types: Types, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None
) -> bool:  # fmt: skip
    """Whether `pred` holds for a leaf of these types."""
    return any(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def _broadcast_to_and_flatten(tree: PyTree, treespec: TreeSpec, is_leaf: IsLeaf = None) -> list[Any] | None:
    """The leaves of `tree`, each repeated for every leaf of `treespec` below it; None if the structures do not match."""
    full = treespec.unflatten([0] * treespec.num_leaves)
    found: list[Any] = []
    try:
        tree_map_(lambda x, below: found.extend([x] * len(tree_leaves(below, is_leaf))), tree, full, is_leaf=is_leaf)
    except ValueError:
        return None
    return found


# ---- with the path to each leaf


def tree_flatten_with_path(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """The leaves of a tree, each with its key path, and the structure. ValueError for a node type without keys."""
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_leaves_with_path(tree: PyTree, is_leaf: IsLeaf = None) -> list[tuple[KeyPath, Any]]:
    """The leaves of a tree, each with its key path.

    >>> from tdt.compat.utils._pytree._functions import keystr, tree_leaves_with_path
    >>> [(keystr(path), leaf) for path, leaf in tree_leaves_with_path({"a": [1, 2], "b": 3})]
    [("['a'][0]", 1), ("['a'][1]", 2), ("['b']", 3)]
    """
    return list(_generate_key_paths((), tree, is_leaf))


def _generate_key_paths(key_path: KeyPath, tree: PyTree, is_leaf: IsLeaf = None) -> Iterator[tuple[KeyPath, Any]]:
    if tree_is_leaf(tree, is_leaf):
        yield key_path, tree
        return
    node = SUPPORTED_NODES[_get_node_type(tree)]
    if node.flatten_with_keys_fn is None:
        raise ValueError(
            f"Did not find a flatten_with_keys_fn for type: {node.type}. Please pass a flatten_with_keys_fn argument "
            "to register_pytree_node."
        )
    for key, child in node.flatten_with_keys_fn(tree)[0]:
        yield from _generate_key_paths((*key_path, key), child, is_leaf)


def tree_map_with_path(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """`tree_map` whose function takes the leaf's key path before the leaf."""
    leaves, spec = tree_flatten_with_path(tree, is_leaf)
    paths = [path for path, _ in leaves]
    values = [leaf for _, leaf in leaves]
    return spec.unflatten(map(func, paths, values, *[spec.flatten_up_to(rest) for rest in rests]))


def keystr(kp: KeyPath) -> str:
    """A key path in Python's notation."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: KeyPath) -> Any:
    """The value at a key path of `obj`."""
    for key in kp:
        obj = key.get(obj)
    return obj
