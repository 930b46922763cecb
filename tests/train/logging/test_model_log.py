"""What `log` shows beyond numbers: what TensorBoard's readers find, held to scikit-learn, and the same after a kill."""

from __future__ import annotations

import io
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.special
import sklearn.metrics
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from tensorboard.util import tensor_util

import tdt
from tdt.train.config import ConfigError, imports, loads
from tdt.train.logging.collectors import EvaluatedBatch, Samples
from tdt.train.logging.events import Event, MetricsLog, RunStopped
from tdt.train.logging.pictures import CaptionedSample, captioned, matrix
from tdt.train.loop.build import build
from tdt.train.loop.evaluation import evaluate
from tdt.train.loop.state import load_run
from tdt.train.metrics import Reading
from tdt.train.session import Session
from tdt.utils.tensorboard._graph import model_graph
from tests.resume.test_every_feature import Killed, at_event, kill
from tests.utils.tensorboard.readers import event_files, untimed

CONFIG = """
name: shown
seed: 3
device: cpu
data:
  train: Digits(split=train)
  valid: Digits(split=valid)
  transform: [ToTensor]
  augment: ["RandomCrop(8, padding=1)"]
  loader: {batch_size: 512}
model: [Flatten, {hidden: "Linear(64, 16)", act: ReLU(inplace=True)}, Dropout(0.3), "Linear(16, 10)"]
loss: CrossEntropyLoss
metrics: [accuracy]
optimizer: {type: Adam, lr: 1e-2, param_groups: [{params: "*.bias", lr: 2e-2}]}
train: {epochs: 3, ema: 0.5, clip_grad_norm: 0.05}
checkpoint: {every: 2 steps}
log: {every: 1 step, histograms: 2 steps, images: 6, misclassified: 9, confusion: true, pr_curves: true, graph: true,
      embedding: {layer: 1.act, samples: 20}}
"""


def train(folder: Path, *listeners: Any, text: str = CONFIG) -> list[Event]:
    events: list[Event] = []
    with Session.start(loads(text, "shown.yaml"), folder=folder) as session:
        session.train(events.append, *listeners)
    return events


def logged(folder: Path) -> list[bytes]:
    """Every event that shows something, in order, without what two equal runs may differ in."""
    found = [event for path in event_files(folder) for event in untimed(path)]
    shown = [e for e in found if e.HasField("summary") or e.HasField("graph_def")]
    return [e.SerializeToString() for e in shown if not any(v.tag.startswith("time/") for v in e.summary.value)]


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> tuple[Path, list[Event]]:
    folder = tmp_path_factory.mktemp("shown") / "run"
    return folder, train(folder)


@pytest.fixture(scope="module")
def read(run) -> EventAccumulator:
    kinds = ("images", "tensors", "scalars", "histograms")
    found = EventAccumulator(str(run[0]), size_guidance=dict.fromkeys(kinds, 0))
    found.Reload()
    return found


@pytest.fixture(scope="module")
def scored(run) -> tuple[np.ndarray, np.ndarray]:
    """Outputs of the last checkpoint for the validation data, and their targets."""
    with Session.resume(run[0]) as session:
        assert session.complete
        assert session.saved is not None
        tensors, _ = load_run(session.saved.path)
    parts, pairs = build(loads(CONFIG, "shown.yaml")), []
    averaged = {
        key.removeprefix("ema/"): tdt.from_numpy(a.copy()) for key, a in tensors.items() if key.startswith("ema/")
    }
    parts.model.load_state_dict(averaged)
    evaluate(parts, "valid", lambda _, *pair: pairs.append(pair))
    output, target = (tdt.cat(list(side)).numpy() for side in zip(*pairs, strict=True))
    return output, target


def test_everything_requested_is_written(read):
    tags = read.Tags()
    names = ("1.hidden.weight", "1.hidden.bias", "3.weight", "3.bias")
    assert set(tags["histograms"]) == {
        *(f"watch_{kind}/{name}" for kind in ("weights", "gradients") for name in names),
        *(f"watch_activations/{name}" for name in ("0", "1.hidden", "1.act", "2", "3")),
    }
    assert tags["images"] == ["valid/samples", "valid/misclassified", "valid/confusion"]
    assert {"config/text_summary", "custom_scalars__config__", *(f"pr_curve/{i}" for i in range(10))} == set(
        tags["tensors"]
    )
    assert {"grad_norm", "lr/group0", "lr/group1", "time/peak_memory_mb", "time/samples_per_second"} <= set(
        tags["scalars"]
    )
    assert [h.step for h in read.Histograms("watch_weights/3.bias")] == [2, 4, 6, 8]
    nodes = {node.name for node in GraphDef.FromString(read.Graph().SerializeToString()).node}
    assert "Sequential/Sequential[1]/Linear[hidden]/linear" in nodes


def test_every_scalar_has_a_description(read):
    for tag in read.Tags()["scalars"]:
        text = read.SummaryMetadata(tag).summary_description
        assert re.fullmatch(r"[A-Z2].{15,}\.", text), (tag, text)
    assert read.SummaryMetadata("valid/accuracy").summary_description == "Accuracy of the validation data."


def test_a_block_of_the_config_has_its_name_in_the_graph(tmp_path):
    text = CONFIG.replace(
        "model: [Flatten, {hidden", 'blocks: {dense(n): ["Linear(n, n)", ReLU]}\nmodel: [Flatten, dense(64), {hidden'
    )
    session = Session.start(loads(text.replace("1.act", "2.act"), "shown.yaml"), folder=tmp_path / "run")
    with session:
        graph = model_graph(session.parts.model, tdt.zeros(1, 1, 8, 8))
    names = {node.name for node in graph.node}
    assert "Sequential/dense[1]/Linear[0]/weight" in names
    assert any(name.startswith("Sequential/Sequential[2]/Linear[hidden]/") for name in names)


def test_the_gradient_norm_is_that_before_clipping(run, read):
    norms = [point.value for point in read.Scalars("grad_norm")]
    assert len(norms) == 9
    assert min(norms) > 0.05
    unclipped = CONFIG.replace(", clip_grad_norm: 0.05", "").replace("epochs: 3", "steps: 1")
    first = train(run[0].parent / "unclipped", text=unclipped)
    found = [event.scalars["grad_norm"] for event in first if "grad_norm" in event.scalars]
    np.testing.assert_allclose(found, norms[:1], rtol=1e-6)


def test_the_confusion_matrix_is_scikit_learns(read, scored):
    output, target = scored
    expected = sklearn.metrics.confusion_matrix(target, output.argmax(1))
    drawn = matrix(expected, [str(i) for i in range(10)])
    image = Image.open(io.BytesIO(read.Images("valid/confusion")[-1].encoded_image_string))
    np.testing.assert_array_equal(np.asarray(image), drawn)
    assert not np.array_equal(drawn, matrix(expected.T, [str(i) for i in range(10)]))


def test_a_curve_is_scikit_learns_at_each_threshold(read, scored):
    output, target = scored
    scores = np.exp(output - output.max(1, keepdims=True))
    scores /= scores.sum(1, keepdims=True)
    for name in range(10):
        data = tensor_util.make_ndarray(read.Tensors(f"pr_curve/{name}")[-1].tensor_proto)
        for threshold in (1, 13, 64, 100):
            predicted = np.floor(scores[:, name] * 126) >= threshold
            expected = sklearn.metrics.confusion_matrix(target == name, predicted, labels=[False, True])
            tn, fp, fn, tp = expected.ravel()
            assert data[:4, threshold].tolist() == [tp, fp, tn, fn]
            assert data[4, threshold] == pytest.approx(tp / max(tp + fp, 1e-7), rel=1e-6)
            assert data[5, threshold] == pytest.approx(tp / (tp + fn), rel=1e-6)


def test_samples_and_mistakes_are_shown_with_their_predictions(read, scored):
    output, target = scored
    images = build(loads(CONFIG, "shown.yaml")).loaders["valid"].dataset
    predicted, shares = output.argmax(1), scipy.special.softmax(output, 1).max(1)

    def drawn(indices: Any) -> np.ndarray:
        return captioned(
            [CaptionedSample(images[int(i)][0].numpy(), str(target[i]), str(predicted[i]), shares[i]) for i in indices]
        )

    for tag, indices in (("samples", range(6)), ("misclassified", np.flatnonzero(predicted != target)[:9])):
        image = Image.open(io.BytesIO(read.Images(f"valid/{tag}")[-1].encoded_image_string))
        np.testing.assert_array_equal(np.asarray(image), drawn(indices))


def test_an_embedding_is_the_output_of_the_layer(run, scored):
    step = 9
    rows = np.loadtxt(run[0] / f"{step:05d}" / "1.act" / "tensors.tsv")
    assert rows.shape == (20, 16)
    labels = (run[0] / f"{step:05d}" / "1.act" / "metadata.tsv").read_text().split()
    assert labels == [str(i) for i in scored[1][:20]]
    assert rows.min() == 0
    assert (run[0] / "projector_config.pbtxt").read_text().count("tensor_name") == 3


def test_settings_are_those_of_the_config(run):
    found = [v for path in event_files(run[0]) for e in untimed(path) for v in e.summary.value if "_hparams_" in v.tag]
    assert [v.tag.rpartition("/")[2] for v in found] == ["session_start_info", "session_end_info"]
    start = HParamsPluginData.FromString(found[0].metadata.plugin_data.content).session_start_info
    shown = {name: value.number_value or value.string_value for name, value in start.hparams.items()}
    assert shown == {
        "seed": 3, "dtype": "float32", "data.train": "Digits", "data.loader.batch_size": 512, "data.loader.shuffle": 1,
        "data.transform": "ToTensor()", "data.augment": "RandomCrop(8, padding=1)", "model.parameters": 1210,
        "model.0": "Flatten()", "model.1.hidden": "Linear(64, 16)", "model.1.act": "ReLU(inplace=True)",
        "model.2": "Dropout(0.3)", "model.3": "Linear(16, 10)", "loss.type": "CrossEntropyLoss", "optimizer.type": "Adam",
        "optimizer.lr": 0.01, "optimizer.betas": "0.9, 0.999", "optimizer.weight_decay": "", "optimizer.group1.lr": 0.02,
        "scheduler.type": "none", "train.epochs": 3, "train.accumulate": 1, "train.ema.decay": 0.5,
        "train.clip_grad_norm": 0.05,
    }  # fmt: skip


def test_a_run_killed_after_any_event_shows_the_same(run, tmp_path):
    folder, events = run
    expected = logged(folder)
    for number in range(1, len(events) + 1, 7):
        killed = tmp_path / str(number)
        with pytest.raises(Killed):
            train(killed, at_event(number, kill))
        with Session.resume(killed) as session:
            assert session.train().reason == "done"
        assert logged(killed) == expected, f"killed at event {number}, {events[number - 1]}"


def test_the_run_has_its_end_in_tensorboard_before_it_counts_as_complete(tmp_path, monkeypatch):
    write, there = MetricsLog.__call__, []

    def writes(log: MetricsLog, event: Event) -> None:
        if isinstance(event, RunStopped):
            there.append(untimed(event_files(tmp_path / "run")[-1])[-1].summary.value[0].tag)
        write(log, event)

    monkeypatch.setattr(MetricsLog, "__call__", writes)
    train(tmp_path / "run", text=CONFIG.replace("epochs: 3", "steps: 1"))
    assert there == ["_hparams_/session_end_info"]


NOISE = """
import tdt
from tdt import nn


class Noise(nn.Module):
    def forward(self, x):
        return x + tdt.randn_like(x) / 10
"""


def test_what_is_shown_changes_no_weight(tmp_path, monkeypatch):
    (tmp_path / "noise.py").write_text(NOISE)
    monkeypatch.setattr(imports, "_allowed", True)
    monkeypatch.chdir(tmp_path)
    shown = CONFIG.replace("model: [Flatten,", "imports: [noise.py]\nmodel: [Flatten,").replace("Dropout(0.3)", "Noise")
    train(tmp_path / "loud", text=shown)
    quiet = shown[: shown.index("log:")] + "log: {every: 1 step, config: false, hparams: false, charts: false}\n"
    train(tmp_path / "quiet", text=quiet)
    last = "checkpoints/last.safetensors"
    (ours, _), (theirs, _) = load_run(tmp_path / "loud" / last), load_run(tmp_path / "quiet" / last)
    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)
    assert len(logged(tmp_path / "quiet")) < len(logged(tmp_path / "loud")) / 2


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("layer: 1.act", "layer: 1.acct"), "log.embedding: there is no layer '1.acct'; did you mean '1.act'?"),
        (("  valid: Digits(split=valid)\n", ""), "log.confusion: is taken from the validation data, but there is no data.valid"),
        (("transform: [ToTensor]", "transform: [ToTensor, {type: Lambda}]"), "Lambda"),
        (("loss: CrossEntropyLoss", "loss: {type: MSELoss, target: input}"), "log.pr_curves: shows classes, but MSELoss"),
        (("samples: 20", "samples: 0"), "log.embedding.samples"),
        (("{layer: 1.act, samples: 20}", "1.atc"), "log.embedding: there is no layer '1.atc'; did you mean '1.act'?"),
        (("graph: true", "graf: true"), "did you mean 'graph'?"),
    ],
)  # fmt: skip
def test_what_cannot_be_shown_is_a_mistake_in_the_config(change, expected):
    with pytest.raises(ConfigError) as error:
        build(loads(CONFIG.replace(*change), "shown.yaml"))
    assert expected in str(error.value)


FORMS = """
data:
  train: {type: NPZ, path: forms.npz, x: x, y: KIND, images: false}
  valid: {type: NPZ, path: forms.npz, x: x, y: KIND, images: false}
  loader: {batch_size: 16}
model: MODEL
loss: LOSS
optimizer: SGD(lr=0.01)
train: {epochs: 1}
log: {histograms: 1 step, graph: true, pr_curves: true, SHOWN}
"""
EVERY = "images: 4, misclassified: 99, confusion: true"
FLAT, FLAT_1 = '[Flatten, "Linear(64, 3)"]', '[Flatten, "Linear(64, 1)"]'
CHANNELS = '["Conv2d(1, 3, 1)"]'
FORMS_SHOWN = {  # data and models of other forms, and what is shown of them
    "yes or no": ("(y[:, None] > 0).astype('f4')", FLAT_1, "BCEWithLogitsLoss", f"{EVERY}, embedding: '1'"),
    "one number": ("(y > 0).astype('f4')", '[Flatten, "Linear(64, 1)", "Flatten(0)"]', "BCEWithLogitsLoss",
                   f"{EVERY}, embedding: '2'"),
    "some do not count": ("y - 1", FLAT, "CrossEntropyLoss(ignore_index=-1)", f"{EVERY}, embedding: '1'"),
    "probabilities": ("np.eye(3, dtype='f4')[y]", FLAT, "CrossEntropyLoss", f"{EVERY}, embedding: '1'"),
    "every pixel": ("(x[:, 0] * 3).astype(int)", CHANNELS, "CrossEntropyLoss", "images: 4, confusion: true, embedding: '0'"),
    "yes or no of every pixel": ("(x > 0.5).astype('f4')", '["Conv2d(1, 1, 1)"]', "BCEWithLogitsLoss",
                                 "images: 4, embedding: '0'"),
    "several answers": ("np.eye(3, dtype='f4')[y]", FLAT, "BCEWithLogitsLoss", "embedding: '1'"),
}  # fmt: skip
REFUSED = {
    "every pixel": ("(x[:, 0] * 3).astype(int)", CHANNELS, "CrossEntropyLoss", "misclassified: 4",
                    "log.misclassified: shows one class per sample, but there are 64 predictions"),
    "several answers": ("np.eye(3, dtype='f4')[y]", FLAT, "BCEWithLogitsLoss", "confusion: true",
                        "log.confusion: shows one class per sample, but there are 3 predictions"),
    "many classes": ("y", '[Flatten, "Linear(64, 1001)"]', "CrossEntropyLoss", "confusion: true",
                     "log.confusion: draws 1000 classes at most, but there are 1001"),
    "steps first": ("y", '["Flatten(1, 2)", "Transpose(0, 1)", "RNN(8, 3)", Pick(0), "Transpose(0, 1)", Flatten, '
                    '"Linear(24, 3)"]', "CrossEntropyLoss", "embedding: '2'",
                    "log.embedding: layer '2' returns (8, 13, 3) for 13 samples; expected a row for each"),
}  # fmt: skip


@pytest.fixture
def forms(tmp_path, monkeypatch):
    """Writes data whose targets are an expression of `x`, images, and `y`, one of three classes; gives a config of them."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x, y = rng.random((40, 1, 8, 8), np.float32), rng.integers(0, 3, 40)

    def make(target: str, model: str, loss: str, shown: str) -> Any:
        np.savez("forms.npz", x=x, t=eval(target, {"x": x, "y": y, "np": np}))
        text = FORMS.replace("KIND", "t").replace("MODEL", model).replace("LOSS", loss).replace("SHOWN", shown)
        return loads(text, "forms.yaml")

    return make


@pytest.mark.parametrize("case", FORMS_SHOWN)
def test_outputs_of_every_form_are_shown(forms, tmp_path, case):
    with Session.start(forms(*FORMS_SHOWN[case]), folder=tmp_path / "run") as session:
        assert session.train().reason == "done"
    found = EventAccumulator(str(tmp_path / "run"), size_guidance={"images": 0})
    found.Reload()
    images = {"valid/samples", "valid/misclassified", "valid/confusion"} if EVERY in FORMS_SHOWN[case][3] else set()
    images |= {"valid/masks"} if "every pixel" in case else set()
    assert images <= set(found.Tags()["images"])
    (labels,) = (tmp_path / "run").glob("*/*/metadata.tsv")
    assert len(labels.read_text().splitlines()) == len((labels.parent / "tensors.tsv").read_text().splitlines()) == 40


@pytest.mark.parametrize("case", REFUSED)
def test_outputs_that_cannot_be_shown_are_a_mistake_in_the_config(forms, case):
    *form, expected = REFUSED[case]
    with pytest.raises(ConfigError) as error:
        build(forms(*form))
    assert expected in str(error.value)


def test_a_sample_that_does_not_count_is_never_wrong():
    batch = EvaluatedBatch(
        tdt.zeros(3, 1, 2, 2),
        tdt.zeros(3, 2),
        tdt.tensor([-1, 1, 0]),
        np.array([0, 0, 0]),
        np.array([-1, 1, 0]),
        ["a", "b"],
    )
    reading = Reading(ignore_index=-1)
    wrong, some = Samples(9, True, reading), Samples(9, False, reading)
    for collector in (wrong, some):
        collector.see(batch)
    assert [row[1:] for row in wrong.found] == [("b", "a", 0.5)]
    assert [row[1:] for row in some.found] == [("none", "a", 0.5), ("b", "a", 0.5), ("a", "a", 0.5)]


@pytest.mark.parametrize(
    ("loss", "output", "expected"),
    [
        (tdt.nn.BCEWithLogitsLoss(), [[2.0], [-1.0]], [0.8807971, 0.7310586]),
        (tdt.nn.BCELoss(), [[0.9], [0.3]], [0.9, 0.7]),
    ],
)
def test_the_probability_of_a_binary_prediction_is_that_of_the_predicted_class(loss, output, expected):
    found = Samples(2, False, Reading.of(loss))
    found.see(
        EvaluatedBatch(
            tdt.zeros(2, 1, 2, 2), tdt.tensor(output), tdt.tensor([[1.0], [1.0]]), np.array([1, 0]), np.array([1, 1]),
            ["no", "yes"],
        )
    )  # fmt: skip
    assert [row.probability for row in found.found] == pytest.approx(expected)


def test_the_axes_of_a_matrix_have_titles():
    drawn = matrix(np.zeros((3, 3), int), ["a", "b", "c"])
    above, left = drawn[:12], drawn[:, :12]
    assert (above < 128).any() and (left < 128).any()
    assert (above[:, :30] > 128).all()  # it stands over the cells, not in the corner


@pytest.mark.parametrize("classes", [2, 40, 600])
def test_a_matrix_of_many_classes_is_no_larger_than_a_page(classes):
    counts = np.eye(classes, dtype=int) * 7
    counts[0, 1] = 70
    drawn = matrix(counts, [f"a class with a name that is far too long to be written, {i}" for i in range(classes)])
    assert max(drawn.shape) <= 2200
    assert drawn[-2, -2].tolist() == [8, 48, 107]
    assert drawn[-2, drawn.shape[1] * 3 // 5].tolist() == [255, 255, 255]


def test_images_of_any_values_are_drawn():
    strange = [np.full((1, 4, 4), np.nan), np.array([[[np.inf, 1], [-np.inf, 0]]]), np.zeros((3, 1, 1)),
               np.arange(16, dtype=np.uint16).reshape(1, 4, 4) * 4000, np.ones((1, 1, 5000), np.float16)]  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = [
            captioned([CaptionedSample(image, "a name\nof two lines, and longer than the image is wide", "b", 0.5)])
            for image in strange
        ]
    assert all(max(page.shape) <= 540 for page in drawn)
    assert drawn[1][0, 5:69:63, 0].tolist() == [255, 255]
    assert drawn[1][63, 5:69:63, 0].tolist() == [0, 0]
