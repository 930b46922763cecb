"""Models that are more than a chain, from YAML: layers in layers, blocks, graphs; every mistake at its line."""

from __future__ import annotations

import pytest

import tdt
from tdt import nn
from tdt.train.config import ConfigError, Graph, loads
from tdt.train.loop.build import build
from tdt.train.model import layers

TEXT = """\
device: cpu
data: {train: Digits, transform: [ToTensor]}
loss: CrossEntropyLoss
optimizer: SGD(lr=0.1)
train: {epochs: 1}
"""
CONV = """\
blocks:
  conv(inp, out, stride=1, act=ReLU):
    conv: Conv2d(inp, out, 3, stride=stride, padding=1)
    act: act
"""  # from line 6 on


def parts(model: str):
    return build(loads(TEXT + model, "c.yaml"))


def build_layers(model: str) -> nn.Module:
    return parts(model).model


def problems(model: str) -> list[tuple[int, str, str]]:
    with pytest.raises(ConfigError) as caught:
        parts(model)
    return [
        (p.source.line, p.key, p.message + (f" → {p.suggestion}" if p.suggestion else ""))
        for p in caught.value.problems
    ]


def only(model: str) -> tuple[int, str, str]:
    found = problems(model)
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize(
    "model",
    [
        'model: [Flatten, "Residual([Linear(64, 64), ReLU])", "Linear(64, 10)"]',
        "model: [Flatten, {type: Residual, body: ['Linear(64, 64)', ReLU]}, LazyLinear(10)]",
        "model: [Flatten, {type: Residual, body: {0: 'Linear(64, 64)', 1: ReLU}, shortcut: null}, LazyLinear(10)]",
    ],
)
def test_a_layer_takes_layers_in_every_form(model: str):
    built = build_layers(model)
    assert type(built[1]) is layers.Residual and type(built[1].body[0]) is nn.Linear
    assert [name for name, _ in built.named_parameters()][:2] == ["1.body.0.weight", "1.body.0.bias"]
    config = loads(TEXT + model)
    assert loads(config.resolved()) == config


def test_layers_of_tdt_nn_take_layers_too():
    rows = [
        "Unflatten(1, [8, 8])",
        "TransformerEncoder(TransformerEncoderLayer(8, 2, 16, activation=gelu, batch_first=true), 2)",
    ]
    built = build_layers(f"model: [Flatten, {', '.join(map(repr, rows))}, Flatten, LazyLinear(10)]")
    assert len(built[2].layers) == 2
    line, key, message = only('model: [Flatten, "TransformerEncoder(Linear(8, 8), 2)"]')
    assert (line, key) == (6, "model.1.0") and "expected a TransformerEncoderLayer, got 'Linear'" in message


def test_branches_by_list_and_by_name():
    built = build_layers("""\
model:
  - {type: Concat, branches: ["Conv2d(1, 2, 1)", ["Conv2d(1, 3, 3, padding=1)", ReLU]]}
  - {type: Add, branches: {left: "Conv2d(5, 4, 1)", right: "LazyConv2d(4, 1)"}}
  - Flatten
  - LazyLinear(10)
""")
    assert [name for name, _ in built.named_parameters()][::2] == [
        "0.0.weight", "0.1.0.weight", "1.left.weight", "1.right.weight", "3.weight",
    ]  # fmt: skip


def test_repeat_builds_each_layer_separately():
    built = build_layers(
        'model: [Flatten, "Linear(64, 32)", "Repeat(3, Residual([Linear(32, 32), ReLU]))", LazyLinear(10)]'
    )
    assert len(built[2]) == 3
    assert not tdt.equal(built[2][0].body[0].weight, built[2][1].body[0].weight)
    lazy = build_layers("model: [Flatten, {type: Repeat, times: 2, layer: LazyLinear(10)}]")
    assert lazy[1][0].weight.shape == (10, 64) and lazy[1][1].weight.shape == (10, 10)


@pytest.mark.parametrize(
    ("model", "line", "key", "expected"),
    [
        ("model: [Residual]", 6, "model.0.body", "Residual needs it"),
        ("model: [Residual(3)]", 6, "model.0.0", "expected a layer, like Name or Name(arg=1), got 3"),
        ("model: [Residual(Relu)]", 6, "model.0.0", "no layer is called 'Relu' → ReLU"),
        (
            "model:\n  type: Residual\n  body:\n    - ReLU\n    - Linear(3)",
            10,
            "model.body.1.out_features",
            "Linear needs it",
        ),
        ("model: [Concat(3)]", 6, "model.0.0", "expected branches"),
        ("model: [{type: Concat, branches: {type: ReLU}}]", 6, "model.0.branches", "expected branches"),
        ("model: [{type: Add, branches: {a.b: ReLU}}]", 6, "model.0.branches.a.b", "a layer name has no dot"),
        ('model: ["Repeat(0, ReLU)"]', 6, "model.0", "times must be at least 1, got 0"),
        ("model: [Graph]", 6, "model.0", "Graph is written as `graph:`"),
        ('model: ["Linear(64, 10, dtype=float64)"]', 6, "model.0.dtype", "dtype is set for the whole run"),
    ],
)
def test_a_layer_among_arguments_that_is_wrong(model: str, line: int, key: str, expected: str):
    found = only(model)
    assert found[:2] == (line, key) and expected in found[2], found


def test_a_block_is_used_by_call_and_by_mapping():
    use = '["conv(1, 4)", {block: conv, inp: 4, out: 8, stride: 2, act: [ReLU, Dropout]}, Flatten, LazyLinear(10)]'
    built = build_layers(f"{CONV}model: {use}")
    assert built[0].conv.stride == (1, 1) and built[1].conv.stride == (2, 2)
    assert type(built[0].act) is nn.ReLU and type(built[1].act[1]) is nn.Dropout
    assert "1.conv.weight" in dict(built.named_parameters())


def test_blocks_use_blocks_and_are_resolved_as_written():
    text = (
        TEXT
        + CONV
        + "  two(width):\n    - conv(1, width)\n    - {block: conv, inp: width, out: width}\n"
        + "model: [two(8), Flatten, LazyLinear(10)]"
    )
    config = loads(text, "c.yaml")
    assert loads(config.resolved()) == config
    assert build(config).model[0][1].conv.weight.shape == (8, 8, 3, 3)


USE = "model: [{block: conv, inp: 1, out: 4}, Flatten, LazyLinear(10)]"


@pytest.mark.parametrize(
    ("text", "line", "key", "expected"),
    [
        (CONV + USE.replace("inp: 1, ", ""), 10, "model.0", "the block conv needs inp"),
        (CONV + USE.replace("inp", "imp"), 10, "model.0.imp", "unknown parameter of the block conv → inp"),
        (CONV + USE.replace("block: conv", "block: cnv"), 10, "model.0.block", "no block is called 'cnv' → conv"),
        (
            CONV + USE.replace("{block: conv, inp: 1, out: 4}", '"conf(1, 4)"'),
            10,
            "model.0",
            "no block is called 'conf' → conv",
        ),
        (
            CONV + USE.replace("{block: conv, inp: 1, out: 4}", '"conv(1, 4, 1, ReLU, 7)"'),
            10,
            "model.0",
            "takes 4 by position, got 5",
        ),
        (
            CONV + USE.replace("{block: conv, inp: 1, out: 4}", '"conv(1, 4, inp=2)"'),
            10,
            "model.0.inp",
            "given inp twice",
        ),
        (CONV + USE.replace("out: 4", "out: four"), 10, "blocks.conv.conv.out_channels", "expected int, got 'four'"),
        (CONV + "model: [Flatten, LazyLinear(10)]", 7, "blocks.conv", "is not used"),
        (CONV.replace("stride=stride, ", "") + USE, 7, "blocks.conv", "stride is not used in the block"),
        (CONV.replace("Conv2d", "Conv2") + USE, 8, "blocks.conv.conv", "no layer is called 'Conv2' → Conv2d"),
        (
            CONV.replace("act: act", "act: conv(1, 2, 1, act)") + USE,
            9,
            "blocks.conv.act",
            "the block uses itself: conv → conv",
        ),
        (CONV.replace("conv(inp", "conv(in") + USE, 7, "blocks.conv", "'in' is a Python keyword"),
        (CONV.replace("conv(inp", "ReLU(inp") + "model: [ReLU]", 7, "blocks.ReLU", "ReLU is a layer"),
        (CONV + "  conv(inp):\n    - inp\n" + USE, 10, "blocks.conv(inp)", "there is already a block conv in line 7"),
        ("blocks: [ReLU]\nmodel: [ReLU]", 6, "blocks", "expected a mapping from `name(parameter"),
        (USE, 6, "model.0.block", "there are none: write them under blocks:"),
    ],
)
def test_what_is_wrong_with_a_block(text: str, line: int, key: str, expected: str):
    found = only(text)
    assert found[:2] == (line, key) and expected in found[2], found


def test_a_mistake_in_a_block_is_reported_once_however_often_it_is_used():
    found = only(CONV.replace("padding=1", "pading=1") + 'model: ["conv(1, 4)", "conv(4, 4)", Flatten, LazyLinear(10)]')
    assert found[:2] == (8, "blocks.conv.conv.pading")


def test_blocks_that_multiply_are_refused():
    text = "blocks:\n  b0: [ReLU, ReLU]\n" + "".join(f"  b{i}: [b{i - 1}, b{i - 1}]\n" for i in range(1, 40))
    assert any("more than 20,000 parts" in message for _, _, message in problems(text + "model: [b39]"))


GRAPH = """\
model:
  graph:
    stem: Conv2d(1, 4, 3, padding=1)
    left: ReLU
    right: {type: Conv2d, in_channels: 4, out_channels: 4, kernel_size: 1, from: stem}
    both: {type: Add, from: [left, right]}
    head: {from: both, layer: [Flatten, LazyLinear(10)]}
"""  # from line 6 on


def test_a_graph_matches_its_description():
    built = parts(GRAPH).model
    assert type(built) is layers.Graph and list(built.sources) == ["stem", "left", "right", "both", "head"]
    assert built.sources["left"] == ("stem",) and built.sources["both"] == ("left", "right")
    x = tdt.rand(2, 1, 8, 8)
    stem = built.stem(x)
    assert tdt.allclose(built(x), built.head(stem.relu() + built.right(stem)), atol=1e-6)
    assert "head.1.weight" in dict(built.named_parameters())
    config = loads(TEXT + GRAPH)
    assert isinstance(config.model, Graph) and loads(config.resolved()) == config


def test_nodes_may_stand_in_any_order_and_graphs_in_graphs():
    text = """\
model:
  - graph:
      out: {type: Add, from: [a, b]}
      a: {type: Conv2d, in_channels: 1, out_channels: 2, kernel_size: 1, from: image}
      b: {from: a, graph: {one: ReLU, two: Identity}, outputs: two}
    inputs: image
    outputs: out
  - Flatten
  - LazyLinear(10)
"""
    assert list(build_layers(text)[0].sources) == ["a", "b", "out"]


@pytest.mark.parametrize(
    ("old", "new", "line", "key", "expected"),
    [
        ("from: stem", "from: stemm", 10, "model.graph.right.from", "there is no node 'stemm' → stem"),
        ("[left, right]", "[left]", 10, "model.graph.right", "leads to no output"),
        ("from: stem}", "from: head}", 10, "model.graph.right", "form a cycle: right → both → head → right"),
        ("from: stem}", "from: [3]}", 10, "model.graph.right.from", "expected a name or a list of names"),
        ("from: both, layer:", "from: both, layr:", 12, "model.graph.head.layr", "unknown key beside from → layer"),
        ("layer: [Flatten, LazyLinear(10)]", "", 12, "model.graph.head", "has no layer; give it type, block or layer"),
        ("    head:", "  output: head\n  graphh:", 12, "model.output", "unknown key → outputs"),
        ("left: ReLU", "input: ReLU", 9, "model.graph.input", "input is an input of the graph"),
        ("left: ReLU", "left: Relu", 9, "model.graph.left", "no layer is called 'Relu' → ReLU"),
        ("  graph:\n", "  inputs: [a, b]\n  graph:\n", 7, "model.inputs", "the input b is not used"),
        ("  graph:\n", "  outputs: haed\n  graph:\n", 7, "model.outputs", "there is no node 'haed' → head"),
    ],
)
def test_what_is_wrong_with_a_graph(old: str, new: str, line: int, key: str, expected: str):
    assert old in GRAPH
    found = problems(GRAPH.replace(old, new))
    assert any(p[:2] == (line, key) and expected in p[2] for p in found), found


@pytest.mark.parametrize(
    ("model", "key", "expected"),
    [
        ("[Flatten, 'LSTM(64, 4)', LazyLinear(10)]", "model.2", "gets a tuple of 2; put Pick before it"),
        ("{graph: {a: {type: Add, from: [x, y]}}, inputs: [x, y]}", "model", "takes 2 inputs (x, y), got 1"),
        (
            "[Flatten, {type: TransformerEncoder, encoder_layer: [ReLU], num_layers: 2}]",
            "model.1.encoder_layer",
            "several layers",
        ),
        ("[{type: Repeat, times: 3, layer: }]", "model.0.layer", "expected a layer, got null"),
        ("[Concat]", "model.0", "has no branches and one input"),
        (
            "[Flatten, 'CausalSelfAttention(64, 4)']",
            "model.1",
            "takes sequences (n, length, width), got the shape (2, 64)",
        ),
        ("[Pick(a)]", "model.0", "its input comes from the data"),
    ],
)
def test_a_layer_in_an_unsupported_place_is_reported(model: str, key: str, expected: str):
    found = only("model: " + model)
    assert found[0] == 6 and found[1] == key and expected in found[2], found


def test_from_outside_of_a_graph():
    assert only("model: [{type: ReLU, from: a}]") == (6, "model.0.from", "belongs to a node of a graph")


def test_sizes_that_differ_name_the_layers_of_a_graph_by_line():
    line, key, message = only(GRAPH.replace("out_channels: 4", "out_channels: 5"))
    assert (line, key) == (11, "model.graph.both")
    assert "input 0 is (2, 4, 8, 8), input 1 is (2, 5, 8, 8)" in message
    assert "its inputs come from left (ReLU(), line 9) and right (Conv2d(" in message and "line 10)" in message


def test_sizes_that_differ_in_a_block_name_its_line_and_where_it_is_used():
    line, key, message = only(CONV + "model:\n  - conv(1, 4)\n  - conv(5, 4)\n  - Flatten\n  - LazyLinear(10)")
    assert (line, key) == (8, "blocks.conv.conv")
    assert "comes from 0.act (ReLU(), line 7, of the block used in line 11)" in message
    assert message.endswith("as 1.conv of the block used in line 12")
