"""`utils._pytree` against PyTorch's: leaves, structures, their text and JSON, what is refused."""

from __future__ import annotations

import dataclasses
import enum
import time
from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest

import tdt
from tdt.compat.utils import _pytree as ours
from tests.helpers import require_torch

Point = namedtuple("Point", "x y")


class Colour(enum.Enum):
    RED = 1


@dataclasses.dataclass
class Pair:
    first: object
    second: object = None


class Box:
    def __init__(self, *items):
        self.items = items

    def __eq__(self, other):
        return type(other) is Box and self.items == other.items

    def __repr__(self):
        return f"Box{self.items}"


@dataclasses.dataclass(frozen=True)
class Constant:
    norm: str


TREES = [
    1, None, "text", (), [], {}, (1, (2, 3), [4]), {"b": 1, "a": {"c": None}}, Point(1, [2, Point(3, 4)]),
    OrderedDict([("z", 1), ("a", (2,))]), defaultdict(list, {"k": [1, 2]}), deque([1, (2, 3)], maxlen=5),
    [deque([]), {1: (None, {})}, "ab"], {Colour.RED: 1}, time.gmtime(0), Box(1, Box(2, 3)), Pair(1, [2]), Pair(None, 3),
    [Constant("l2"), 1], range(3), {"deep": [[[[(1,)]]]]},
]  # fmt: skip


@pytest.fixture(scope="module")
def theirs():
    require_torch()
    import torch.utils._pytree as pytree

    return pytree


@pytest.fixture(autouse=True, scope="module")
def registered():
    modules = [ours]
    try:
        import torch.utils._pytree as pytree
    except ImportError:
        pass
    else:
        modules.append(pytree)
    for module in modules:
        module.register_pytree_node(
            Box,
            lambda box: (list(box.items), len(box.items)),
            lambda children, _: Box(*children),
            serialized_type_name="Box",
            flatten_with_keys_fn=lambda box: (
                [(module.SequenceKey(i), x) for i, x in enumerate(box.items)],
                len(box.items),
            ),
        )
        module.register_dataclass(Pair, serialized_type_name="Pair")
        module.register_constant(Constant)
        module._register_namedtuple(Point, serialized_type_name="Point")
    yield
    for module in modules:
        for kind in (Box, Pair, Constant):
            module._deregister_pytree_node(kind)


def outcome(call):
    try:
        return call()
    except (ValueError, TypeError, NotImplementedError, AssertionError) as error:
        return type(error)


def everything(pytree, tree) -> dict:
    leaves, spec = pytree.tree_flatten(tree)
    assert pytree.tree_unflatten(leaves, spec) == tree
    assert spec == pytree.tree_structure(tree)
    with_path = pytree.tree_leaves_with_path(tree)
    assert pytree.tree_flatten_with_path(tree) == (with_path, spec)
    dumped = outcome(lambda: pytree.treespec_dumps(spec))
    if isinstance(dumped, str):
        assert pytree.treespec_loads(dumped) == spec
    return {
        "leaves": leaves,
        "numbers": (spec.num_nodes, spec.num_leaves, spec.num_children),
        "repr": repr(spec),
        "pprint": pytree.treespec_pprint(spec),
        "context": repr(spec.context),
        "dumped": dumped,
        "paths": [(pytree.keystr(path), leaf) for path, leaf in with_path],
        "found": [outcome(lambda: pytree.key_get(tree, path)) for path, _ in with_path],
        "with path": pytree.tree_map_with_path(lambda path, x: (pytree.keystr(path), x), tree) if leaves else None,
        "shallow": pytree.tree_leaves(tree, is_leaf=lambda x: isinstance(x, tuple)),
        "mapped": pytree.tree_map(lambda x: [x], tree),
        "only": pytree.tree_map_only(int, lambda x: -x, tree),
        "predicate": pytree.tree_map_only(lambda x: x == 1, str, tree),
        "all": pytree.tree_all(bool, tree),
        "any": pytree.tree_any(bool, tree),
        "all only": pytree.tree_all_only((int, float), lambda x: x > 1, tree),
        "any only": pytree.tree_any_only(int, lambda x: x > 1, tree),
        "leaf": pytree.tree_is_leaf(tree),
        "kinds": (pytree.is_namedtuple(tree), pytree.is_structseq(tree)),
    }


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_a_tree_has_pytorchs_leaves_paths_and_structure(tree, theirs):
    actual, expected = everything(ours, tree), everything(theirs, tree)
    assert {key: repr(value) for key, value in actual.items()} == {key: repr(value) for key, value in expected.items()}


def test_every_pair_of_trees_is_mapped_or_refused_as_in_pytorch(theirs):
    def answers(pytree):
        def pair(a, b):
            calls = {
                "map": lambda: pytree.tree_map(lambda x, y: (x, y), a, b),
                "up to": lambda: pytree.tree_structure(a).flatten_up_to(b),
                "broadcast": lambda: pytree._broadcast_to_and_flatten(a, pytree.tree_structure(b)),
                "equal": lambda: pytree.tree_structure(a) == pytree.tree_structure(b),
                "unflatten": lambda: pytree.tree_unflatten(pytree.tree_leaves(a), pytree.tree_structure(b)),
            }
            return {name: outcome(call) for name, call in calls.items()}

        return [pair(a, b) for a in TREES for b in TREES]

    assert answers(ours) == answers(theirs)


def test_a_mismatch_is_named_as_in_pytorch(theirs):
    pairs = [((1, 2), [1, 2]), ((1, 2), (1,)), ({"a": 1}, {"b": 1}), (Box(1, 2), Box(1)), (Box(1), Constant("l1")),
             (Point(1, 2), namedtuple("Other", "x y")(1, 2))]  # fmt: skip
    for a, b in pairs:
        messages = []
        for pytree in (ours, theirs):
            with pytest.raises(ValueError) as caught:
                pytree.tree_map(lambda x, y: x, a, b)
            messages.append(str(caught.value))
        assert messages[0] == messages[1]
    with pytest.raises(ValueError, match="has length 1 but the spec refers to a pytree that holds 2 items"):
        ours.tree_unflatten([1], ours.tree_structure([1, 2]))


def test_equal_structures_have_equal_hashes(theirs):
    for tree in (1, (1, 2), {"a": 1}, OrderedDict(a=1), defaultdict(list, a=1), deque([1], 3), Constant("l2"), Box(1)):
        assert hash(ours.tree_structure(tree)) == hash(ours.tree_structure(tree))
    assert len({ours.tree_structure(x) for x in ((1, 2), (3, 4), [1, 2], {"a": 1}, {"b": 1})}) == 4


def test_tensors_and_their_sizes_are_mapped():
    tree = {"x": tdt.ones(2), "rest": [tdt.zeros(1), "name"]}
    doubled = ours.tree_map_only(tdt.Tensor, lambda x: x + 1, tree)
    assert doubled["x"].tolist() == [2, 2] and doubled["rest"][0].tolist() == [1] and doubled["rest"][1] == "name"
    assert type(ours.tree_map(lambda n: n + 1, tdt.Size([1, 2]))) is tdt.Size
    values = ours.tree_map(lambda x: x + 1, tdt.ones(3).max(0))
    assert values.values.item() == 2 and values.indices.item() == 1


def test_registering_checks_its_arguments():
    with pytest.raises(ValueError, match="already registered"):
        ours.register_pytree_node(Box, lambda box: ([], None), lambda children, _: Box())
    with pytest.raises(ValueError, match="Both to_dumpable_context and from_dumpable_context"):
        ours.register_pytree_node(set, list, lambda x, _: set(x), to_dumpable_context=str)
    assert set not in ours.SUPPORTED_NODES
    with pytest.raises(TypeError, match="non-default `__eq__`"):
        ours.register_constant(type("Plain", (), {}))
    with pytest.raises(ValueError, match=r"missing \['second'\]"):
        ours.register_dataclass(Pair, field_names=["first"])


def test_a_structure_from_json_imports_no_module():
    text = ours.treespec_dumps(ours.tree_structure(defaultdict(list, {"k": 1})))
    with pytest.raises(ValueError, match="import it first"):
        ours.treespec_loads(text.replace('"builtins"', '"antigravity"'))


def test_side_effects_keep_the_tree():
    tree, visited = {"a": [1, 2]}, []
    assert ours.tree_map_(visited.append, tree) is tree and visited == [1, 2]
    assert ours.tree_map_only_(int, visited.append, [3, "x"]) == [3, "x"] and visited == [1, 2, 3]
    assert ours.arg_tree_leaves([1, 2], x=(3,)) == [1, 2, 3]
