"""Runs with different settings, side by side in the HParams tab of a real TensorBoard."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any
from urllib.request import Request, urlopen

from tdt.train.config import loads
from tdt.train.session import Session
from tests.utils.tensorboard.server import tensorboard

CONFIG = """\
device: cpu
data: {{train: Digits(split=valid), valid: Digits(split=test), transform: [ToTensor], loader: {{batch_size: 96}}}}
model: {model}
loss: CrossEntropyLoss
metrics: [{metric}]
optimizer: {optimizer}
train: {{epochs: 2{train}}}
"""
RUNS = {
    "a": {"optimizer": "SGD(0.1, momentum=0.9)", "metric": "accuracy", "train": "", "model": '[Flatten, "Linear(64, 10)"]'},
    "b": {"optimizer": "{type: Adam, lr: 0.01, param_groups: [{params: '*.bias', lr: 0.02}]}", "metric": "f1",
          "train": ", clip_grad_norm: 1.0", "model": '{flat: Flatten, out: "Linear(64, 10)"}'},
    "c": {"optimizer": "SGD\nscheduler: {type: ExponentialLR, gamma: 0.5}", "metric": "accuracy", "train": ", ema: 0.9",
          "model": '[Flatten, "Linear(64, 10)"]'},
}  # fmt: skip
EVERY = {"experimentName": "", "colParams": [], "startIndex": 0, "sliceSize": 9,
         "allowedStatuses": ["STATUS_UNKNOWN", "STATUS_SUCCESS", "STATUS_FAILURE", "STATUS_RUNNING"]}  # fmt: skip


def response(address: str, path: str, **body: Any) -> Any:
    request = Request(
        f"{address}/data/plugin/hparams/{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urlopen(request, timeout=10) as got:
        return json.loads(got.read())


def test_the_columns_are_those_of_all_runs(tmp_path):
    for name, change in RUNS.items():
        with Session.start(loads(CONFIG.format(**change), "c.yaml"), folder=tmp_path / "logs" / name) as session:
            session.train()
    with tensorboard(tmp_path / "logs", "true") as address:
        end = time.monotonic() + 40
        while len((groups := response(address, "session_groups", **EVERY)).get("sessionGroups", ())) < len(RUNS):
            assert time.monotonic() < end, "TensorBoard has not read the runs"
            time.sleep(0.2)
        experiment = response(address, "experiment", experimentName="")
    columns = {info["name"] for info in experiment["hparamInfos"]}
    assert columns >= {
        "seed", "data.loader.batch_size", "loss.type", "optimizer.type", "optimizer.lr", "optimizer.weight_decay",
        "scheduler.type", "train.epochs", "model.parameters",  # which all have
        "optimizer.momentum", "optimizer.betas", "optimizer.group1.lr", "scheduler.gamma", "train.clip_grad_norm",
        "train.ema.decay", "model.1", "model.out",  # which some have
    }  # fmt: skip
    differs = [bool(info.get("differs")) for info in experiment["hparamInfos"]]
    assert differs == sorted(differs, reverse=True)  # a table of many settings begins with those that matter
    assert {info["name"] for info in experiment["hparamInfos"][: sum(differs)]} >= {"optimizer.lr", "optimizer.type"}
    metrics = {info["name"]["tag"] for info in experiment["metricInfos"]}
    assert metrics >= {"valid/loss", "valid/accuracy", "valid/f1"}
    rows = {group["sessions"][0]["name"]: group["hparams"] for group in groups["sessionGroups"]}
    assert {name: (row["optimizer.type"], row["optimizer.lr"]) for name, row in rows.items()} == {
        "a": ("SGD", 0.1), "b": ("Adam", 0.01), "c": ("SGD", 0.001),
    }  # fmt: skip
    assert [rows[name]["scheduler.type"] for name in "abc"] == ["none", "none", "ExponentialLR"]
    assert all(session["status"] == "STATUS_SUCCESS" for g in groups["sessionGroups"] for session in g["sessions"])


def test_the_names_are_tensorboards():
    from tensorboard.plugins.hparams import metadata

    from tdt.utils.tensorboard.summary import _hparams

    names = [name for name in vars(_hparams) if name.isupper() and hasattr(metadata, name)]
    assert len(names) == 5 and all(getattr(metadata, name) == getattr(_hparams, name) for name in names)


def test_a_run_starts_without_tensorboards_readers():
    code = (
        "import sys, tdt.train.logging.model_log\nfrom tdt.utils.tensorboard.summary import hparams\n"
        "hparams({'lr': 1.0}, {})\nassert not {'fsspec', 'asyncio'} & set(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
