"""A real TensorBoard, queried over HTTP for what each of its plugins shows of what the writer has logged."""

from __future__ import annotations

import io
import json
import time
import wave
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import numpy as np
import pytest
from PIL import Image

import tdt
from tdt import nn
from tdt.utils.tensorboard import SummaryWriter
from tests.utils.tensorboard.server import tensorboard

Ask = Callable[..., Any]


@pytest.fixture(scope="module")
def ask(tmp_path_factory) -> Iterator[Ask]:
    """Asks the TensorBoard that shows the run "one": ask("images/tags", run="one"), with a body where `post` is given."""
    logdir = tmp_path_factory.mktemp("plugins") / "logs"
    with SummaryWriter(logdir / "one") as writer:
        for step in range(3):
            writer.add_scalar("loss", 1 / (step + 1), step)
            writer.add_histogram("weights", np.linspace(-1, 1, 50) * (step + 1), step)
            writer.add_pr_curve("cats", np.array([0, 1, 1]), np.array([0.1, 0.6, 0.9]), step, num_thresholds=5)
        writer.add_image("picture", np.full((3, 4, 5), 0.5), 1)
        writer.add_audio("beep", np.zeros(80), 1, 8000)
        writer.add_text("note", "**bold**", 1)
        writer.add_graph(nn.Sequential(nn.Linear(3, 2), nn.ReLU()), tdt.zeros(1, 3))
        writer.add_embedding(np.eye(3), ["a", "b", "c"], np.ones((3, 1, 4, 4)), 1, "eye")
        writer.add_custom_scalars({"all": {"both": ["Multiline", ["loss", "other"]]}})
        writer.add_mesh("points", np.zeros((1, 4, 3)))
        writer.add_hparams({"lr": 0.1}, {"score": 0.5}, run_name="trial")
    with tensorboard(logdir, "true") as address:

        def ask(path: str, post: Any = None, **query: Any) -> Any:
            body = None if post is None else json.dumps(post).encode()
            request = Request(
                f"{address}/data/plugin/{path}?{urlencode(query)}", body, {"Content-Type": "application/json"}
            )
            with urlopen(request, timeout=10) as got:
                data = got.read()
            return json.loads(data) if "json" in got.headers["Content-Type"] else data

        end = time.monotonic() + 40
        while not _ready(ask):
            assert time.monotonic() < end, "TensorBoard has not read the run"
            time.sleep(0.2)
        yield ask


def _ready(ask: Ask) -> bool:
    return "score" in ask("scalars/tags").get("one/trial", {}) and "cats" in ask("pr_curves/tags").get("one", {})


def test_scalars(ask):
    assert [(step, value) for _, step, value in ask("scalars/scalars", run="one", tag="loss")] == [
        (0, 1), (1, 0.5), (2, pytest.approx(1 / 3)),
    ]  # fmt: skip


def test_histograms_and_distributions(ask):
    for plugin in ("histograms/histograms", "distributions/distributions"):
        found = ask(plugin, run="one", tag="weights")
        assert [step for _, step, _ in found] == [0, 1, 2]
    _, _, buckets = ask("histograms/histograms", run="one", tag="weights")[0]
    assert sum(count for _, _, count in buckets) == pytest.approx(50)


def test_images(ask):
    (found,) = ask("images/images", run="one", tag="picture", sample=0)
    assert found["step"] == 1
    picture = Image.open(io.BytesIO(ask(f"images/individualImage?{found['query']}&")))
    assert (picture.size, picture.getpixel((0, 0))) == ((5, 4), (127, 127, 127))


def test_audio(ask):
    (found,) = ask("audio/audio", run="one", tag="beep", sample=0)
    with wave.open(io.BytesIO(ask(f"audio/individualAudio?{found['query']}&"))) as wav:
        assert (wav.getframerate(), wav.getnframes()) == (8000, 80)


def test_text(ask):
    (found,) = ask("text/text", run="one", tag="note/text_summary")
    assert "<strong>bold</strong>" in found["text"]


def test_graphs(ask):
    assert ask("graphs/info")["one"]["run_graph"] is True
    graph = ask("graphs/graph", run="one", conceptual="false").decode()
    assert 'name: "Sequential/Linear[0]/linear"' in graph
    assert 'input: "Sequential/Linear[0]/linear"' in graph


def test_projector(ask):
    assert ask("projector/runs") == ["one"]
    (info,) = ask("projector/info", run="one")["embeddings"]
    assert (info["tensorName"], info["tensorShape"]) == ("eye:00001", [3, 3])
    tensor = np.frombuffer(ask("projector/tensor", run="one", name="eye:00001"), np.float32)
    assert tensor.tolist() == np.eye(3).reshape(-1).tolist()
    assert ask("projector/metadata", run="one", name="eye:00001") == b"a\nb\nc\n"
    assert ask("projector/sprite_image", run="one", name="eye:00001")[:4] == b"\x89PNG"


def test_precision_recall_curves(ask):
    curves = ask("pr_curves/pr_curves", run="one", tag="cats")["one"]
    assert [curve["step"] for curve in curves] == [0, 1, 2]
    assert curves[0]["recall"] == pytest.approx(
        [1, 1, 1, 0.5]
    )  # without the last, where no sample is predicted positive


def test_custom_scalars(ask):
    (category,) = ask("custom_scalars/layout")["category"]
    assert category["chart"][0]["multiline"]["tag"] == ["loss", "other"]


def test_meshes(ask):
    assert list(ask("mesh/tags")["one"]) == ["points"]


def test_hyper_parameters(ask):
    request = {"experimentName": "", "colParams": [], "startIndex": 0, "sliceSize": 9,
              "allowedStatuses": ["STATUS_UNKNOWN", "STATUS_SUCCESS", "STATUS_FAILURE", "STATUS_RUNNING"]}  # fmt: skip
    (group,) = ask("hparams/session_groups", post=request)["sessionGroups"]
    assert group["hparams"] == {"lr": 0.1}
    assert [session["name"] for session in group["sessions"]] == ["one/trial"]
