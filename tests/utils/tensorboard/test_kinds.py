"""Every `add_…` against PyTorch's writer: the same calls give the same events, read by both of TensorBoard's loaders."""

from __future__ import annotations

import io
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tensorboard.util import tensor_util

import tdt
from tdt import nn
from tdt.utils.tensorboard import SummaryWriter, summary
from tests.helpers import require_torch
from tests.utils.tensorboard.readers import event_files, points, untimed

RNG = np.random.default_rng(0)
GREY = RNG.random((5, 1, 6, 7), np.float32)
COLOUR = RNG.random((11, 3, 6, 7), np.float32) * 1.4 - 0.2
SPREAD = np.concatenate([RNG.normal(0, 1e-3, 500), RNG.normal(3, 9, 70), [0.0, 0.0, 1e30]])
LABELS, SCORES = RNG.integers(0, 2, 90), RNG.random(90).astype(np.float32)
POINTS, COLOURS, FACES = RNG.random((1, 5, 3)), RNG.integers(0, 256, (1, 5, 3)), RNG.integers(0, 5, (1, 4, 3))
BOXES = np.array([[1, 1, 20, 12], [4, 3, 30, 28.0]])
LAYOUT = {"loss": {"both": ["Multiline", ["a", "b"]], "range": ["Margin", ["a", "b", "c"]]}, "none": {}}


def counts() -> list[np.ndarray]:
    return [np.arange(4.0) + part for part in range(6)]


# Each takes a writer and a function from an array to a tensor: what both writers log.
CALLS: dict[str, Callable[[Any, Callable[[Any], Any]], None]] = {
    "tensors float": lambda w, t: w.add_tensor("x", t(np.array([[1.5, -2], [np.nan, np.inf]], np.float32)), 3),
    "tensors double": lambda w, t: w.add_tensor("x", t(np.zeros((0, 2))), 3, 12.5),
    "tensors int": lambda w, t: [w.add_tensor(f"x{k}", t(np.array([1, -3], k))) for k in ("i1", "i2", "i4", "i8")],
    "tensors bool": lambda w, t: w.add_tensor("x", t(np.array(True))),
    "tensors complex": lambda w, t: [w.add_tensor(k, t(np.array([1 + 2j, 3j], k))) for k in ("c8", "c16")],
    "histogram": lambda w, t: w.add_histogram("h", t(SPREAD), 1),
    "histogram floats": lambda w, t: w.add_histogram("h", SPREAD.astype(np.float32)[:500].reshape(20, 25), 2, walltime=9),
    "histogram of one value": lambda w, t: [w.add_histogram("h", np.full(3, v), 1) for v in (0.0, -1e-9, 1e19, -1e19)],
    "histogram ints": lambda w, t: w.add_histogram("h", t(np.arange(-3, 9)), 1),
    "histogram number": lambda w, t: w.add_histogram("h", 2.5, 1),
    "histogram bins": lambda w, t: [w.add_histogram(str(b), t(SPREAD[:570]), 1, b)
                                    for b in ("auto", "fd", "doane", "sqrt", 7, [-1, 0, 1, 20])],
    "histogram joined": lambda w, t: [w.add_histogram(str(n), SPREAD[:570], 1, "tensorflow", None, n)
                                      for n in (1, 2, 7, 100, 1000, 2000)],
    "histogram raw": lambda w, t: w.add_histogram_raw("h", -1.0, 3, 4, 5.5, 20.0, [0.0, 1, 3], [1, 2, 1], 6),
    "image": lambda w, t: [w.add_image(f"i{k}", t(x), 1) for k, x in enumerate((COLOUR[0], GREY[0]))],
    "image orders": lambda w, t: [w.add_image(f, t(x), 1, dataformats=f) for f, x in (
        ("HWC", COLOUR[0].transpose(1, 2, 0)), ("HW", GREY[0, 0]), ("WH", GREY[0, 0]), ("chw", COLOUR[1]),
        ("CWH", COLOUR[1]), ("NHWC", COLOUR.transpose(0, 2, 3, 1)))],
    "image bytes": lambda w, t: w.add_image("i", (COLOUR[0] * 100).astype(np.uint8), 1, 4.5),
    "image with opacity": lambda w, t: [w.add_image("i", RNG_4, 1), w.add_image("grey", RNG_4[:2], 1)],
    "images": lambda w, t: [w.add_images(f"i{k}", t(x), 1) for k, x in enumerate((COLOUR, GREY, COLOUR[:1]))],
    "boxes": lambda w, t: [
        w.add_image_with_boxes("b", np.ones((3, 30, 40)), BOXES, 1),
        w.add_image_with_boxes("l", t(np.ones((3, 30, 40))), t(BOXES), 1, labels=["a cat", "dog"]),
        w.add_image_with_boxes("one", np.ones((30, 40, 3), np.uint8), BOXES[:1], 1, dataformats="HWC", labels="x"),
        w.add_image_with_boxes("large", np.ones((3, 30, 40)), BOXES, 1, rescale=2, labels=["too few"]),
    ],
    "text": lambda w, t: [w.add_text("note", "# Größe\n\n|a|\n|-|\n|1|", 2), w.add_text("a/b", "")],
    "audio": lambda w, t: w.add_audio("beep", t(np.sin(np.arange(200.0) / 5)[None]), 1, 8000),
    "pr curve": lambda w, t: [w.add_pr_curve("p", t(LABELS), t(SCORES), 1), w.add_pr_curve("b", LABELS > 0, SCORES, 1, 9),
                              w.add_pr_curve("w", LABELS, SCORES, 2, 500, SCORES + 1)],
    "pr curve edges": lambda w, t: [w.add_pr_curve("none", np.zeros(3), np.array([0, 0.5, 1]), 1),
                                    w.add_pr_curve("all", np.ones(3), np.array([0, 0.5, 1]), 1)],
    "pr curve raw": lambda w, t: w.add_pr_curve_raw("p", *counts(), global_step=3, num_thresholds=4),
    "charts": lambda w, t: [w.add_custom_scalars(LAYOUT), w.add_custom_scalars_multilinechart(["a", "b"]),
                            w.add_custom_scalars_marginchart(["a", "b", "c"], "both", "title")],
    "mesh": lambda w, t: [w.add_mesh("m", t(POINTS), t(COLOURS), t(FACES), {"camera": {"fov": 75}}, 4),
                          w.add_mesh("cloud", t(POINTS.astype(np.float32))), w.add_mesh("list", POINTS.tolist())],
}  # fmt: skip
RNG_4 = RNG.random((4, 3, 5))


def both(tmp_path: Path, log: Callable[..., Any]) -> tuple[Path, Path]:
    """The folders of what our writer and PyTorch's make of the same calls, with tensors of either library."""
    torch = require_torch()
    from torch.utils.tensorboard import SummaryWriter as Theirs

    for name, kind, tensor in (("ours", SummaryWriter, tdt.from_numpy), ("theirs", Theirs, torch.from_numpy)):
        with kind(tmp_path / name) as writer:
            log(writer, lambda array, tensor=tensor: tensor(np.asarray(array).copy()))
    return tmp_path / "ours", tmp_path / "theirs"


@pytest.mark.parametrize("name", CALLS)
def test_events_equal_pytorchs(tmp_path, name):
    ours, theirs = ([untimed(path) for path in event_files(folder)] for folder in both(tmp_path, CALLS[name]))
    assert [len(file) > 1 for file in ours] == [True]
    assert ours == theirs


def test_hyper_parameters_equal_pytorchs(tmp_path):
    def log(writer, tensor):
        settings = {"lr": 0.1, "n": 3, "deep": True, "kind": "cnn", "none": None, "at": tensor([2.5])}
        domains = {"kind": ["cnn", "mlp"], "n": [1, 3], "deep": [True, False]}
        writer.add_hparams(settings, {"accuracy": 0.5, "loss": 2}, domains, run_name="trial", global_step=7)
        writer.add_hparams({"lr": 1}, {}, run_name="none")

    ours, theirs = both(tmp_path, log)
    for run in ("trial", "none"):
        (our,), (their,) = event_files(ours / run), event_files(theirs / run)
        assert untimed(our) == untimed(their)
    assert points(ours / "trial") == {"accuracy": [(7, 0.5)], "loss": [(7, 2.0)]}


def test_embeddings_equal_pytorchs(tmp_path):
    def log(writer, tensor):
        mat = RNG_4[:, :, 0].astype(np.float32)
        writer.add_embedding(tensor(mat))
        writer.add_embedding(tensor(mat), ["a", "b c", "ü", "4"], tensor(COLOUR[:4]), 12, "layer/1\\2%")
        writer.add_embedding(mat, [["a", 1], ["b", 2], ["c", 3], ["d", 4]], tensor(GREY[:4]), 13, "x", ["name", "n"])

    ours, theirs = both(tmp_path, log)
    found = {p.relative_to(theirs) for p in theirs.rglob("*") if p.is_file() and "tfevents" not in p.name}
    assert len(found) == 8
    for path in found:
        assert (ours / path).read_bytes() == (theirs / path).read_bytes(), path


def test_a_projector_config_keeps_what_an_earlier_writer_named(tmp_path):
    for step in (1, 2, 2):
        with SummaryWriter(tmp_path) as writer:
            writer.add_embedding(np.eye(3), global_step=step)
    assert (tmp_path / "projector_config.pbtxt").read_text().count("tensor_name") == 2


def test_a_label_with_a_tab_or_a_line_break_stays_one_cell(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_embedding(np.eye(2), np.array([["a\tb", "c"], ["d", "e\nf"]]), metadata_header=["x", "y"])
    lines = (tmp_path / "00000" / "default" / "metadata.tsv").read_text().split("\n")
    assert lines == ["x\ty", "a b\tc", "d\te f", ""]


@pytest.mark.parametrize("several", [False, True])
def test_figures_equal_pytorchs(tmp_path, several):
    pytest.importorskip("matplotlib")
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    plt.close("all")

    def log(writer, tensor):
        drawn = []
        for _ in range(2):
            figure, axes = plt.subplots(figsize=(2, 1))
            axes.plot([1, 3, 2])
            drawn.append(figure)
        writer.add_figure("f", drawn if several else drawn[0], 3)
        assert len(plt.get_fignums()) == (0 if several else 1)
        writer.add_figure("kept", drawn[1], 3, close=False)
        plt.close("all")

    ours, theirs = ([untimed(path) for path in event_files(folder)] for folder in both(tmp_path, log))
    assert ours == theirs


@pytest.mark.parametrize("batch", [1, 2, 3, 4, 7])
def test_a_video_shows_its_frames_side_by_side_as_pytorchs(batch):
    require_torch()
    from torch.utils.tensorboard._utils import _prepare_video

    films = np.zeros((batch, 4, 3, 8, 10), np.uint8)
    for film in range(batch):
        for frame in range(4):
            films[film, frame, film % 3, (film + frame) % 8, :] = 255
    expected = _prepare_video(films)
    proto = summary.video("v", films, fps=5).value[0].image
    assert (proto.height, proto.width, proto.colorspace) == expected.shape[1:]
    gif = Image.open(io.BytesIO(proto.encoded_image_string))
    assert (gif.n_frames, gif.info["duration"], gif.info["loop"]) == (4, 200, 0)
    for frame in range(4):
        gif.seek(frame)
        np.testing.assert_array_equal(np.asarray(gif.convert("RGB")) / 255, expected[frame])
    with pytest.raises(ValueError, match=r"shape \(batch, frames"):
        summary.video("v", films[0])


@pytest.mark.parametrize("kind", ["float16", "uint8"])
def test_tensors_that_pytorch_garbles_read_back(kind):
    written = tdt.tensor([0, 1, 3, 200]).to(getattr(tdt, kind))
    read = tensor_util.make_ndarray(summary.tensor_proto("x", written).value[0].tensor)
    assert read.astype(np.float64).tolist() == [0, 1, 3, 200]


def test_a_bfloat16_is_stored_as_the_upper_half_of_its_float32():
    proto = summary.tensor_proto("x", tdt.tensor([1.0, -3.0], dtype=tdt.bfloat16)).value[0].tensor
    upper = np.array([1.0, -3.0], np.float32).view(np.uint32) >> 16
    assert list(proto.half_val) == upper.tolist()


def test_audio_beyond_its_range_is_clipped_with_a_warning():
    with pytest.warns(UserWarning, match="cut"):
        proto = summary.audio("loud", np.array([0.5, 2, -3])).value[0].audio
    with wave.open(io.BytesIO(proto.encoded_audio_string)) as wav:
        assert np.frombuffer(wav.readframes(3), "<i2").tolist() == [16383, 32767, -32767]


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda w: w.add_image("i", np.zeros((3, 2, 2)), dataformats="HW"), ValueError, r"shape \(3, 2, 2\)"),
        (lambda w: w.add_image("i", np.zeros((2, 2)), dataformats="HH"), ValueError, "letters NCHW"),
        (lambda w: w.add_images("i", np.zeros((2, 5, 4, 4))), ValueError, "1 to 4 colours"),
        (lambda w: w.add_images("i", np.zeros((0, 3, 4, 4))), ValueError, r"some pixels, got shape \(0, 3, 4, 4\)"),
        (lambda w: w.add_image_with_boxes("i", np.ones((3, 9, 9)), np.ones(4)), ValueError, r"\(boxes, 4\).*got \(4,\)"),
        (lambda w: w.add_image("i", "cat.png"), ValueError, "shape"),
        (lambda w: w.add_image("i", None), NotImplementedError, "got NoneType"),
        (lambda w: w.add_histogram("h", []), NotImplementedError, "got list"),
        (lambda w: w.add_histogram("h", np.zeros(0)), ValueError, "no values"),
        (lambda w: w.add_histogram("h", np.full(3, np.nan)), ValueError, "all 3 are NaN"),
        (lambda w: w.add_histogram_raw("h", 0, 1, 1, 1, 1, [1], [1, 2]), ValueError, "1 bucket_limits but 2"),
        (lambda w: w.add_audio("a", np.zeros((2, 3))), ValueError, r"got shape \(2, 3\)"),
        (lambda w: w.add_custom_scalars_marginchart(["a"]), ValueError, "takes 3 tags"),
        (lambda w: w.add_custom_scalars({"a": {"b": ["Multiline"]}}), ValueError, "chart 'b' must be"),
        (lambda w: w.add_mesh("m", np.zeros((5, 3))), ValueError, r"got \(5, 3\)"),
        (lambda w: w.add_hparams([], {}), TypeError, "hparam_dict must be a dict, got list"),
        (lambda w: w.add_hparams({"a": [1]}, {}), ValueError, r"hparam_dict\['a'\] must be a number.*got list"),
        (lambda w: w.add_hparams({"a": tdt.ones(2)}, {}), ValueError, "a tensor of one element, got Tensor"),
        (lambda w: w.add_hparams({"a": 1}, {}, {"a": ["x"]}), TypeError, "must be a list of what"),
        (lambda w: w.add_embedding(np.zeros(3)), ValueError, r"got \(3,\)"),
        (lambda w: w.add_embedding(np.zeros((3, 2)), ["a"]), ValueError, "metadata is for 1"),
        (lambda w: w.add_embedding(np.zeros((3, 2)), None, np.zeros((2, 1, 4, 4))), ValueError, "label_img is for 2"),
        (lambda w: w.add_graph(nn.Linear(2, 2)), TypeError, "needs input_to_model"),
    ],
)  # fmt: skip
def test_what_cannot_be_logged_is_an_error_and_nothing_is_written(tmp_path, call, kind, message):
    with SummaryWriter(tmp_path) as writer, pytest.raises(kind, match=message):
        call(writer)
    assert len(untimed(*event_files(tmp_path))) == 1
    assert len(list(tmp_path.iterdir())) == 1
