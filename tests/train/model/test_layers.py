"""Layers that join layers: sums, branches, repetitions, graphs; what they compute, and how their weights are called."""

from __future__ import annotations

import pytest

import tdt
from tdt import nn
from tdt.train.model.layers import (
    Add,
    CausalSelfAttention,
    Concat,
    Graph,
    Parallel,
    Pick,
    Positions,
    Repeat,
    Residual,
    Transpose,
)


@pytest.fixture
def x():
    tdt.manual_seed(0)
    return tdt.randn(3, 4)


def names(module):
    return [name for name, _ in module.named_parameters()]


def test_residual_adds_the_input_or_the_shortcut(x):
    body, shortcut = nn.Linear(4, 2), nn.Linear(4, 2)
    assert tdt.equal(Residual(body, shortcut)(x), body(x) + shortcut(x))
    square = nn.Linear(4, 4)
    assert tdt.equal(Residual(square)(x), square(x) + x)
    assert names(Residual(body, shortcut)) == ["body.weight", "body.bias", "shortcut.weight", "shortcut.bias"]


def test_a_residual_of_two_shapes_raises_an_error_with_a_remedy(x):
    with pytest.raises(ValueError, match=r"the body returns \(3, 2\), the input is \(3, 4\).*add a shortcut"):
        Residual(nn.Linear(4, 2))(x)
    with pytest.raises(ValueError, match=r"the shortcut is \(3, 1\)"):
        Residual(nn.Linear(4, 2), nn.Linear(4, 1))(x)


def test_branches_are_added_or_joined_and_named(x):
    one, two = nn.Linear(4, 2), nn.Linear(4, 2)
    assert tdt.equal(Add([one, two])(x), one(x) + two(x))
    assert tdt.equal(Concat({"a": one, "b": two})(x), tdt.cat([one(x), two(x)], 1))
    assert tdt.equal(Concat(dim=0)(x, x), tdt.cat([x, x], 0)) and tdt.equal(Add()(x, x, x), x + x + x)
    assert names(Add([one, two]))[::2] == ["0.weight", "1.weight"]
    assert names(Concat({"a": one, "b": two}))[::2] == ["a.weight", "b.weight"]


@pytest.mark.parametrize(
    ("join", "message"),
    [
        (Add(), r"Add: input 0 is \(3, 4\), input 1 is \(3, 2\): different shapes"),
        (Concat(dim=0), r"Concat: .*they may differ in dim 0 alone"),
        (Concat(dim=5), r"Concat: .*there is no dim 5"),
        (Concat(dim=-3), r"Concat: .*there is no dim -3"),
    ],
)
def test_what_cannot_be_joined_names_each_shape(join, message, x):
    with pytest.raises(ValueError, match=message):
        join(x, tdt.zeros(3, 2))


def test_parallel_returns_a_tuple_for_a_list_and_a_dict_for_a_mapping(x):
    one, two = nn.Linear(4, 2), nn.Linear(4, 3)
    first, second = Parallel([one, two])(x)
    assert tdt.equal(first, one(x)) and tdt.equal(second, two(x))
    named = Parallel({"a": one, "b": two})(x)
    assert list(named) == ["a", "b"] and tdt.equal(named["b"], two(x))


def test_repetitions_have_weights_of_their_own():
    tdt.manual_seed(0)
    first, second = Repeat(2, lambda: nn.Linear(4, 4))
    assert not tdt.equal(first.weight, second.weight)
    with pytest.raises(ValueError, match="times must be at least 1, got 0"):
        Repeat(0, lambda: nn.Linear(4, 4))


def test_a_graph_runs_its_nodes_and_takes_tensors_a_tuple_or_a_dict(x):
    one, two = nn.Linear(4, 3), nn.Linear(2, 3)
    graph = Graph({"one": one, "two": two, "sum": Add()}, {"one": "x", "two": "y", "sum": ["one", "two"]}, "xy", "sum")
    y = tdt.ones(3, 2)
    expected = one(x) + two(y)
    assert all(tdt.equal(graph(*inputs), expected) for inputs in [(x, y), ((x, y),), ([x, y],), ({"y": y, "x": x},)])
    graph.outputs = ("one", "sum")
    assert list(graph(x, y)) == ["one", "sum"]
    with pytest.raises(ValueError, match=r"takes 2 inputs \(x, y\), got 1"):
        graph(x)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [({"a": "b", "b": "x"}, "'a' takes from 'b', which is not before it"), ({"x": "x"}, "'x' already exists")],
)
def test_a_graph_out_of_order_is_refused(nodes, message):
    with pytest.raises(ValueError, match=message):
        Graph({name: nn.ReLU() for name in nodes}, {name: [source] for name, source in nodes.items()}, ["x"], "b")


def test_pick_and_transpose(x):
    assert Pick("a")({"a": 1}) == 1 and Pick(1)((1, 2)) == 2
    assert tdt.equal(Transpose(0, 1)(x), x.T)
    assert repr(Pick("a")) == "Pick('a')" and repr(Transpose(1, 2)) == "Transpose(1, 2)"


def test_attention_is_causal_and_equals_multihead_attention():
    tdt.manual_seed(0)
    layer, reference = CausalSelfAttention(8, 2), nn.MultiheadAttention(8, 2, batch_first=True)
    with tdt.no_grad():
        reference.in_proj_weight.copy_(layer.in_proj.weight)
        reference.in_proj_bias.copy_(layer.in_proj.bias)
        reference.out_proj.weight.copy_(layer.out_proj.weight)
        reference.out_proj.bias.copy_(layer.out_proj.bias)
    x = tdt.randn(3, 5, 8)
    mask = tdt.ones(5, 5).triu(1).bool()
    assert tdt.allclose(layer(x), reference(x, x, x, attn_mask=mask)[0], atol=1e-6)
    changed = x.clone()
    changed[:, 3:] = 7.0
    assert tdt.equal(layer(x)[:, :3], layer(changed)[:, :3])
    with pytest.raises(ValueError, match="embed_dim 8 is not a multiple of num_heads 3"):
        CausalSelfAttention(8, 3)


def test_positions_are_added_and_end():
    layer = Positions(4, 2)
    assert tdt.equal(layer(tdt.zeros(1, 3, 2))[0], layer.weight[:3])
    with pytest.raises(ValueError, match="length 5, but max_length is 4"):
        layer(tdt.zeros(1, 5, 2))
