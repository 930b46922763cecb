"""`tdt.onnx.export`: names, sizes, files and errors; whole networks in onnxruntime."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tdt
from tdt import nn
from tdt.onnx import OnnxExporterError, ONNXProgram, export
from tdt.text import models as text
from tdt.utils._nested import tensors_in
from tdt.vision import models as vision
from tests.helpers import require, require_torch

BATCH = {"x": {0: "batch"}}


def results(program: ONNXProgram, *arrays: np.ndarray) -> list[np.ndarray]:
    ort = require("onnxruntime")
    session = ort.InferenceSession(program.model_proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {entry.name: array for entry, array in zip(session.get_inputs(), arrays, strict=True)})


def close(ours: np.ndarray, theirs: Any) -> None:
    theirs = theirs.detach().numpy()
    assert ours.shape == theirs.shape and np.abs(ours - theirs).max() <= 1e-5 * max(1, np.abs(theirs).max())


def nets() -> dict[str, tuple[nn.Module, tuple[int, ...]]]:
    return {
        "resnet": (vision.resnet18(num_classes=5), (3, 32, 32)),
        "mobilenet": (vision.mobilenet_v3_small(num_classes=5), (3, 32, 32)),
        "swin": (vision.SwinTransformer([2, 2], 8, [1, 1], [2, 2], [4, 4], num_classes=5), (3, 16, 16)),
        "lstm": (nn.LSTM(4, 6, 2, batch_first=True, bidirectional=True), (5, 4)),
        "gru": (nn.GRU(4, 6, batch_first=True), (5, 4)),
        "rnn": (nn.RNN(4, 6, nonlinearity="relu", bias=False, batch_first=True), (5, 4)),
        "encoder": (nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2), (5, 8)),
    }


def varied(model: nn.Module) -> nn.Module:
    """The model with running statistics and scales that are not those of the start."""
    draw = tdt.Generator().manual_seed(0)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1, generator=draw)
            module.running_var.uniform_(0.5, 2, generator=draw)
    return model


@pytest.mark.parametrize("name", ["resnet", "mobilenet", "swin", "lstm", "gru", "rnn", "encoder"])
def test_a_network_computes_the_same_in_onnxruntime(name: str):
    model, shape = nets()[name]
    model = varied(model)
    program = export(model, tdt.zeros(1, *shape), input_names=["x"], dynamic_axes=BATCH)
    assert model.training, "the mode is restored"
    model.eval()
    for batch in (1, 7):
        x = np.random.RandomState(batch).randn(batch, *shape).astype(np.float32)
        expected = model(tdt.tensor(x))
        expected = tensors_in(expected)
        found = results(program, x)
        for ours, theirs in zip(found, expected, strict=True):
            close(ours, theirs)


SMALL = {"vocab_size": 30, "max_position_embeddings": 12, "hidden_size": 16, "intermediate_size": 24}
TEXTS = {
    "GPT2LMHeadModel": {"vocab_size": 30, "n_positions": 12, "n_embd": 16, "n_layer": 2, "n_head": 2},
    "LlamaForCausalLM": {**SMALL, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2},
    "BertForSequenceClassification": {**SMALL, "num_hidden_layers": 2, "num_attention_heads": 4},
    "DistilBertForMaskedLM": {"vocab_size": 30, "max_position_embeddings": 12, "dim": 16, "hidden_dim": 24, "n_layers": 2,
                              "n_heads": 2},
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_model_takes_any_batch_and_length_and_a_mask(name: str):
    model = getattr(text, name)(**TEXTS[name]).eval()
    ids, mask = tdt.ones(2, 5, dtype=tdt.int64), tdt.ones(2, 5, dtype=tdt.int64)
    axes = {key: {0: "batch", 1: "length"} for key in ("input_ids", "attention_mask")}
    program = export(model, (ids,), kwargs={"attention_mask": mask}, dynamic_axes=axes)
    for batch, length in ((1, 3), (7, 12)):
        draw = np.random.RandomState(length)
        tokens = draw.randint(1, 30, (batch, length))
        visible = (np.arange(length) < draw.randint(1, length + 1, (batch, 1))).astype(np.int64)
        close(results(program, tokens, visible)[0], model(tdt.tensor(tokens), attention_mask=tdt.tensor(visible)))


class Two(nn.Module):
    """Two inputs, and outputs by name."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 2)

    def forward(self, a: tdt.Tensor, rest: dict[str, tdt.Tensor], *, scale: float = 1.0) -> dict[str, tdt.Tensor]:
        return {"sum": (a + rest["b"]) * scale, "score": self.inner(a)}


class Cells(nn.Module):
    """One step of each kind of recurrence."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.gru, self.rnn = nn.LSTMCell(3, 4), nn.GRUCell(3, 4), nn.RNNCell(3, 4)

    def forward(self, x: tdt.Tensor) -> list[tdt.Tensor]:
        return [*self.lstm(x), self.gru(x), self.rnn(x)]


def test_cells_take_any_batch():
    model = Cells()
    program = export(model, tdt.ones(2, 3), dynamic_axes=BATCH)
    for batch in (1, 7):
        x = np.random.RandomState(batch).randn(batch, 3).astype(np.float32)
        for ours, theirs in zip(results(program, x), model(tdt.tensor(x)), strict=True):
            close(ours, theirs)


def test_names_are_those_of_arguments_results_and_the_state_dict():
    onnx = require("onnx")
    model = Two()
    program = export(model, (tdt.ones(2, 3), {"b": tdt.ones(2, 3)}), kwargs={"scale": 3.0}, metadata={"made": "here"})
    proto = program.model_proto
    onnx.checker.check_model(proto, full_check=True)
    assert repr(program).startswith("ONNXProgram(a, rest_0 -> sum, score; ")
    assert {tensor.name for tensor in proto.graph.initializer} >= set(model.state_dict())
    assert [node.name for node in proto.graph.node if node.op_type == "Gemm"] == ["inner/Gemm"]
    assert (proto.opset_import[0].version, proto.ir_version <= 10, proto.producer_name) == (20, True, "tdt")
    assert [(entry.key, entry.value) for entry in proto.metadata_props] == [("made", "here")]
    named = export(model, (tdt.ones(2, 3), {"b": tdt.ones(2, 3)}), input_names=["p", "q"], output_names=["r", "s"])
    assert repr(named).startswith("ONNXProgram(p, q -> r, s; ")
    assert results(program, np.ones((2, 3), np.float32), np.ones((2, 3), np.float32))[0].tolist() == [[6.0] * 3] * 2


def test_sizes_are_fixed_unless_they_are_named_as_dynamic():
    model = nn.Sequential(nn.Linear(3, 2))

    def sizes(**how: Any) -> list[Any]:
        proto = export(model, (tdt.ones(2, 5, 3),), **how).model_proto
        return [d.dim_param or d.dim_value for d in proto.graph.output[0].type.tensor_type.shape.dim]

    assert sizes() == [2, 5, 2]
    assert sizes(dynamic_axes={"input": [0]}) == ["input_dim_0", 5, 2]
    assert sizes(dynamic_shapes={"input": {0: "n", 1: "t"}}) == ["n", "t", 2]
    assert sizes(dynamic_shapes=({1: "t"},)) == [2, "t", 2]


def test_shapes_are_computed_from_those_of_the_inputs():
    class Shapes(nn.Module):
        def forward(self, x: tdt.Tensor) -> list[tdt.Tensor]:
            n, t, _ = x.shape
            places = tdt.arange(t) * 2
            visible = tdt.ones(t, t).tril()
            return [
                x.reshape(n * t, -1),
                x.new_zeros(n, 2 * t + 1),
                visible @ x + places[:, None],
                x[:, t - 1],
                x.expand(4, n, t, 3),
            ]

    model = Shapes()
    program = export(model, tdt.ones(2, 4, 3), dynamic_axes={"x": {0: "n", 1: "t"}})
    shapes = [
        [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim] for v in program.model_proto.graph.output
    ]
    assert shapes == [["n*t", 3], ["n", "1 + 2*t"], ["n", "t", 3], ["n", 3], [4, "n", "t", 3]]
    x = np.random.RandomState(0).rand(5, 7, 3).astype(np.float32)
    for ours, theirs in zip(results(program, x), model(tdt.tensor(x)), strict=True):
        close(ours, theirs)


def test_a_parameter_is_stored_once_where_it_is_shared_and_transposed():
    model = text.GPT2LMHeadModel(**TEXTS["GPT2LMHeadModel"])
    proto = export(model, tdt.ones(1, 4, dtype=tdt.int64)).model_proto
    stored = sum(np.prod(tensor.dims, dtype=int) for tensor in proto.graph.initializer)
    assert stored < sum(p.numel() for p in model.parameters()) + 500


def test_weights_stand_beside_the_file_where_they_are_too_large_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    ort = require("onnxruntime")
    monkeypatch.setattr("tdt.onnx._export.MOST_BYTES", 1000)
    model = nn.Linear(100, 20).eval()
    export(model, tdt.ones(1, 100), tmp_path / "large.onnx")
    assert {path.name for path in tmp_path.iterdir()} == {"large.onnx", "large.onnx.data"}
    assert (tmp_path / "large.onnx.data").stat().st_size == 100 * 20 * 4
    session = ort.InferenceSession(str(tmp_path / "large.onnx"), providers=["CPUExecutionProvider"])
    x = np.random.RandomState(0).rand(1, 100).astype(np.float32)
    close(session.run(None, {"input": x})[0], model(tdt.tensor(x)))


def test_verify_runs_the_model_and_reports_where_it_differs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    require("onnxruntime")
    model = nn.Sequential(nn.Linear(3, 2), nn.Tanh())
    export(model, tdt.ones(2, 3), verify=True)
    from tdt.onnx._forms import FORMS

    monkeypatch.setitem(FORMS, "tanh", lambda graph, x: graph.op("Sin", x))
    with pytest.raises(OnnxExporterError, match=r"output 'output' for input \(2, 3\) differs by .* at \[\d, \d\]"):
        export(model, tdt.ones(2, 3), tmp_path / "x.onnx", verify=True)
    assert not [*tmp_path.iterdir()]


class Calling(nn.Module):
    """A function as a module."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: tdt.Tensor) -> Any:
        return self.function(x)


def _written(x: tdt.Tensor) -> tdt.Tensor:
    y = x * 1
    y[:, 0] = 0
    return y + 1


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (tdt.linalg.svdvals, "1: op svdvals has no form in ONNX"),
        (tdt.lgamma, "1: op lgamma has no form in ONNX: it needs"),
        (lambda x: nn.functional.dropout(x, 0.5), "1: op dropout draws random numbers; export a model in evaluation mode"),
        (lambda x: x[x > 0], "1: op nonzero gives a shape that depends on values"),
        (_written, "1: reads a tensor of shape .* after a write in place to a part of its memory.*out of place"),
        (lambda x: x.sum() if len(x) > 2 else x, "calls . ops for one size .* and . for another; export it with fixed"),
        (lambda x: x.view_as(x).to(tdt.complex64), "computes in complex64"),
        (lambda x: nn.functional.max_pool2d(x[None, None], 2, return_indices=True), "1: output 'indices' of op max_pool_with"),
        (lambda x: [], "the model returns no tensor"),
    ],
)  # fmt: skip
def test_what_cannot_be_exported_names_the_module_and_the_op(function: Any, message: str, tmp_path: Path):
    model = nn.Sequential(nn.Linear(3, 3), Calling(function))
    with pytest.raises(OnnxExporterError, match=message):
        export(model, tdt.ones(3, 3), tmp_path / "x.onnx", dynamic_axes={"input": {0: "batch"}})
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ({"opset_version": 11}, ValueError, "opset_version must be from 20 to 23, got 11"),
        ({"export_params": False}, ValueError, "export_params=False"),
        ({"input_names": ["a", "b"]}, ValueError, "input_names has 2 names, but the arguments have 1 tensors"),
        ({"output_names": ["a", "b"]}, ValueError, "output_names has 2 names, but the model returns 1 tensors"),
        ({"dynamic_axes": {"input": {5: "n"}}}, ValueError, "input 'input' has 2 dimensions, so 5 is none of them"),
        ({"dynamic_shapes": {"y": {0: "n"}}}, ValueError, "dynamic_shapes names 'y'; the arguments are input"),
        ({"dynamic_shapes": {}, "dynamic_axes": {}}, ValueError, "dynamic_shapes or dynamic_axes, not both"),
        ({"args": ()}, TypeError, "args do not fit Linear.forward: missing a required argument: 'input'"),
        ({"input_names": ["weight"]}, ValueError, "two of inputs, outputs, parameters and buffers are named 'weight'"),
        ({"f": "no/such/folder/x.onnx"}, FileNotFoundError, "no/such/folder"),
    ],
)
def test_wrong_arguments_are_named(how: dict[str, Any], error: type[Exception], message: str):
    require("onnx")
    with pytest.raises(error, match=message):
        export(nn.Linear(3, 2), **{"args": (tdt.ones(2, 3),), **how})


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"tdt\.onnx\.export needs onnx: pip install 'tdt-train\[onnx\]'"):
        export(nn.Linear(3, 2), tdt.ones(1, 3))


def test_a_program_can_ask_whether_it_is_being_exported():
    require("onnx")
    answers = []
    export(Calling(lambda x: answers.append(tdt.onnx.is_in_onnx_export()) or x * 1), tdt.ones(2))
    assert answers == [True] and not tdt.onnx.is_in_onnx_export()


def test_the_arguments_are_pytorchs():
    import inspect

    theirs = inspect.signature(require_torch().onnx.export).parameters
    ours = inspect.signature(export).parameters
    assert [name for name in ours if name not in theirs] == ["metadata"]
    assert {name: (p.kind, p.default) for name, p in ours.items() if name in theirs} == {
        name: (p.kind, p.default) for name, p in theirs.items() if name in ours
    }
