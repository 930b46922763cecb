"""`metrics:` by names of the config's own: the same metric twice, each logged, watched and compared by its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tdt.train.config import ConfigError, loads
from tdt.train.runs import history
from tdt.train.runs.run import RunFolder
from tdt.train.session import Session

TEXT = """\
name: small
device: cpu
data: {train: Digits(split=valid), valid: Digits(split=test), transform: [ToTensor], loader: {batch_size: 96}}
model: [Flatten, "Linear(64, 10)"]
loss: CrossEntropyLoss
optimizer: Adam(lr=1e-2)
train: {epochs: 1}
"""
NAMED = "metrics: {top1: accuracy, top5: top_k(k=5), top3: {type: top_k, k: 3}}\n"


def test_a_metric_is_measured_twice_under_chosen_names(tmp_path: Path):
    config = loads(TEXT + NAMED + "checkpoint: {best: valid/top3}\n")
    assert {name: str(metric.component) for name, metric in config.metrics.items()} == {
        "top1": "accuracy()", "top5": "top_k(k=5)", "top3": "top_k(k=3)",
    }  # fmt: skip
    assert loads(config.resolved()) == config
    with Session.start(config, root=tmp_path) as session:
        session.train()
        assert session.parts.monitor == ("valid", "top3")
    read = history.read(RunFolder.open("small", tmp_path))
    scores = {name: read.series[f"valid/{name}"][-1][1] for name in ("top1", "top3", "top5")}
    assert 0 < scores["top1"] < scores["top3"] < scores["top5"] < 1
    assert read.monitor == "valid/top3"


def test_a_named_error_is_better_when_less():
    parts = {"metrics.off": "mae", "loss.image": "MSELoss"}
    assert history.less_is_better("valid/off", parts) and history.less_is_better("valid/image", parts)
    assert not history.less_is_better("valid/top1", {"metrics.top1": "accuracy"})


@pytest.mark.parametrize(
    ("text", "key", "expected"),
    [
        ('metrics: ["top_k(k=3)", "top_k(k=5)"]', "metrics.1", "top_k is declared twice; remove one, or name them"),
        ("metrics: {loss: accuracy}", "metrics.loss", "'loss' is the name of a loss"),
        ("metrics: {top 1: accuracy}", "metrics.top 1", "cannot name a metric"),
        ("metrics: {top1: acuracy}", "metrics.top1", "did you mean 'accuracy'"),
        ("metrics: {typ: top_k, k: 3}", "metrics.typ", "did you mean 'type'"),
        ("metrics: {top1: accuracy}\ncheckpoint: {best: valid/accuracy}", "checkpoint.best", "is not measured"),
        ("metrics: {top1: accuracy}\ncheckpoint: {best: valid/top2}", "checkpoint.best", "did you mean 'top1'"),
    ],
)
def test_mistakes_in_metrics_are_reported(text: str, key: str, expected: str):
    with pytest.raises(ConfigError) as caught:
        loads(TEXT + text + "\n")
    [problem] = caught.value.problems
    assert problem.key == key and expected in str(problem)
