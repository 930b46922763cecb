"""`add_graph`: every op of a forward pass in its module's scope, joined from the inputs to the outputs."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorboard.compat.proto.graph_pb2 import GraphDef

import tdt
from tdt import nn
from tdt.autograd._meta import meta
from tdt.nn import functional as F
from tdt.utils.tensorboard import SummaryWriter
from tdt.utils.tensorboard._graph import model_graph
from tests.helpers import require_torch
from tests.utils.tensorboard.readers import event_files, untimed


def net(nn: Any) -> Any:
    """A model of either library: nested, with a layer used twice, an in-place activation and ops of its own."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.features = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(inplace=True), nn.BatchNorm2d(4))
            self.twice = nn.Linear(4, 4)
            self.head = nn.Linear(4, 2, bias=False)

        def forward(self, x, scale):
            x = self.features(x).mean((2, 3))
            return self.head(self.twice(self.twice(x)) * scale)

    return Net()


def graph_of(folder: Path) -> dict[str, Any]:
    """The nodes of the graph in the folder's event file, by name; they have names of their own."""
    (event,) = (event for event in untimed(*event_files(folder)) if event.graph_def)
    graph = GraphDef.FromString(event.graph_def)
    nodes = {node.name: node for node in graph.node}
    assert len(nodes) == len(graph.node)
    return nodes


def shape_of(node: Any) -> list[int]:
    return [dim.size for dim in node.attr["_output_shapes"].list.shape[0].dim]


def ancestors(nodes: dict[str, Any], name: str) -> set[str]:
    found, waiting = set(), [name]
    while waiting:
        for source in nodes[waiting.pop()].input:
            source = source.split(":")[0]
            if source not in found:
                found.add(source)
                waiting.append(source)
    return found


def test_a_graph_has_every_op_in_its_modules_scope(tmp_path):
    model = net(nn)
    model.features.eval()
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    with SummaryWriter(tmp_path) as writer:
        writer.add_graph(model, (tdt.randn(5, 1, 8, 8), tdt.ones(4)))
    nodes = graph_of(tmp_path)
    scopes = {name.rpartition("/")[0] for name in nodes}
    assert scopes == {
        "input", "output", "Net", "Net/Linear[twice]", "Net/Linear[head]", "Net/Sequential[features]/Conv2d[0]",
        "Net/Sequential[features]/ReLU[1]", "Net/Sequential[features]/BatchNorm2d[2]",
    }  # fmt: skip
    conv = nodes["Net/Sequential[features]/Conv2d[0]/conv"]
    assert shape_of(conv) == [5, 4, 6, 6]
    assert "stride : (1, 1)" in conv.attr["attr"].s.decode().replace("]", ")").replace("[", "(")
    assert shape_of(nodes["Net/Sequential[features]/Conv2d[0]/weight"]) == [4, 1, 3, 3]
    assert nodes["Net/Linear[head]/weight"].op == "Parameter"
    assert len([name for name in nodes if name.startswith("Net/Linear[twice]/linear")]) == 2
    before = ancestors(nodes, "output/output.1")
    assert {"input/x", "input/scale"} <= before
    assert all(name in before for name, node in nodes.items() if name != "output/output.1")
    assert [m.training for m in model.modules()] == [True, False, False, False, False, True, True]
    assert all(np.array_equal(value, weights[name]) for name, value in model.state_dict().items())


def test_a_graphs_scopes_and_shapes_are_pytorchs(tmp_path):
    torch = require_torch()
    from torch.utils.tensorboard import SummaryWriter as Theirs

    with Theirs(tmp_path / "theirs") as writer, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        writer.add_graph(net(torch.nn), (torch.randn(5, 1, 8, 8), torch.ones(4)))
    with SummaryWriter(tmp_path / "ours") as writer:
        writer.add_graph(net(nn), (tdt.randn(5, 1, 8, 8), tdt.ones(4)))
    ours, nodes = graph_of(tmp_path / "ours"), graph_of(tmp_path / "theirs")
    own = {"weight", "bias", "running_mean", "running_var", "num_batches_tracked"}  # PyTorch's are scopes themselves
    scopes = {n.rpartition("/")[0] for n in nodes}
    assert {n.rpartition("/")[0] for n in ours} == {n for n in scopes if n.rpartition("/")[2] not in own}

    def kinds(found: dict[str, Any]) -> list[tuple[str, list[int]]]:
        """(scope, shape) of the results of convolutions and products of matrices, and of inputs and outputs."""
        compared_ops = {"conv", "linear", "aten::_convolution", "aten::linear"}
        return sorted(
            (name.rpartition("/")[0], shape_of(node))
            for name, node in found.items()
            if node.op in compared_ops or name.startswith(("input/", "output/"))
        )

    assert kinds(ours) == kinds(nodes)


def test_a_model_that_fails_leaves_no_trace(tmp_path):
    model = net(nn)
    with SummaryWriter(tmp_path) as writer, pytest.raises(RuntimeError):
        writer.add_graph(model, (tdt.randn(5, 2, 8, 8), tdt.ones(4)))
    assert model.training
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert len(untimed(*event_files(tmp_path))) == 1
    assert model(tdt.randn(2, 1, 8, 8), tdt.ones(4)).grad_fn is not None  # no handler is left at work


class Does(nn.Module):
    """A model whose forward is a function of it and its inputs."""

    def __init__(self, forward: Callable[..., Any], **children: nn.Module):
        super().__init__()
        self.does = forward
        for name, child in children.items():
            self.add_module(name, child)

    def forward(self, *inputs: Any) -> Any:
        return self.does(self, *inputs)


def writes_through_a_view(m: Any, x: Any) -> Any:
    y = m.layer(x)
    y.view(-1).mul_(2)
    return y


def fills_a_constant(m: Any, x: Any) -> Any:
    y = tdt.zeros(2, 3)
    y[:, 0] = x[:, 0]
    y[:, 1:] = m.layer(x)
    return y


def loops(m: Any, x: Any) -> Any:
    for _ in range(3):
        x = m.layer(x) if x.sum() > 0 else x * 2
    return x


PAIR, ROWS = tdt.ones(2, 2), tdt.ones(2, 3, 8)
TIED = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
TIED[1].weight = TIED[0].weight
MODELS: dict[str, tuple[nn.Module, Any]] = {
    "in place": (nn.Sequential(nn.Linear(2, 2), nn.ReLU(inplace=True), nn.Dropout(inplace=True), nn.ELU(1, True)), PAIR),
    "in place on the input": (Does(lambda m, x: m.layer(x.add_(1)), layer=nn.Linear(2, 2)), PAIR.clone()),
    "copy": (Does(lambda m, x: tdt.zeros(2, 2).copy_(x) + 1), PAIR),
    "data": (Does(lambda m, x: (x * 2).data + x.data), PAIR),
    "lazy": (nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(2)), tdt.ones(3, 1, 5, 5)),
    "half": (nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).to(tdt.bfloat16), PAIR.bfloat16()),
    "lstm": (Does(lambda m, x: m.layer(x)[0][:, -1], layer=nn.LSTM(8, 4, 2, batch_first=True, bidirectional=True)), ROWS),
    "transformer": (nn.Transformer(8, 2, 1, 1, 16, batch_first=True), (ROWS, ROWS * 2)),
    "self-attention": (nn.MultiheadAttention(8, 2, batch_first=True), (ROWS, ROWS, ROWS)),
    "dict": (Does(lambda m, d: {"sum": m.layer(d["a"]) + d["b"], "more": [d["b"], (d["a"] * 2,)]}, layer=nn.Linear(2, 2)),
             {"a": PAIR, "b": PAIR * 2}),
    "numbers and None": (Does(lambda m, x, n, none: x * n), (PAIR, 3, None)),
    "same layer twice": (nn.Sequential(TIED[0], nn.ReLU(), TIED[0]), PAIR),
    "tied weights": (TIED, PAIR),
    "lists and dicts of layers": (
        Does(lambda m, x: sum(f(x) for f in (*m.some, *m.more.values())), some=nn.ModuleList([nn.Linear(2, 2), nn.ReLU()]),
             more=nn.ModuleDict({"a b": nn.Linear(2, 2)})), PAIR),
    "nothing but the input": (nn.Sequential(), PAIR),
    "functions": (Does(lambda m, x: F.log_softmax(tdt.einsum("ij,kj->ik", tdt.stack(x.chunk(2)).sum(0), x), -1)), PAIR),
    "several devices": (nn.DataParallel(nn.Linear(2, 2)), PAIR),
    "checkpointed": (Does(lambda m, x: tdt.utils.checkpoint.checkpoint(m.layer, x, use_reentrant=False),
                          layer=nn.Linear(2, 2)), PAIR),
}  # fmt: skip
EAGER = {
    "view": (Does(writes_through_a_view, layer=nn.Linear(2, 2)), PAIR),
    "parts": (Does(fills_a_constant, layer=nn.Linear(2, 2)), PAIR),
    "loop": (Does(loops, layer=nn.Linear(2, 2)), PAIR),
}


@pytest.mark.parametrize(
    ("name", "shapes_alone"), [*((n, alone) for n in MODELS for alone in (False, True)), *((n, False) for n in EAGER)]
)
def test_a_graph_is_joined_from_the_inputs_to_the_outputs(name, shapes_alone):
    model, inputs = (MODELS | EAGER)[name]
    with meta() if shapes_alone else contextlib.nullcontext():
        graph = model_graph(model, inputs).node
    nodes = {node.name: node for node in graph}
    assert len(nodes) == len(graph)
    outputs = [name for name in nodes if name.startswith("output/")]
    assert outputs
    assert nodes.keys() == {*outputs}.union(*(ancestors(nodes, output) for output in outputs))


def test_a_graph_of_writes_in_place_goes_through_each():
    nodes = {node.name: node for node in model_graph(*MODELS["in place"]).node}
    order = ["output/output.1", "Sequential/ELU[3]/elu", "Sequential/ReLU[1]/relu", "Sequential/Linear[0]/linear"]
    for after, before in zip(order, order[1:], strict=False):
        assert list(nodes[after].input) == [before]
