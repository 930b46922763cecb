"""Bundled configs, checkpoints and commands on the stand-in, held to the CPU."""

from __future__ import annotations

import json
import math
from pathlib import Path

import cupy
import numpy as np
import pytest

from tdt._kernels import _cublas_lt
from tdt.train.checks import checkup
from tdt.train.config import bundled
from tdt.train.runs import checkpoint
from tests.commands.running import tdt_here
from tests.on_gpu import compare_config

CONFIG = """
name: digits
seed: 3
data:
  train: Digits(split=valid)
  valid: Digits(split=valid)
  transform: [ToTensor]
  loader: {batch_size: 64}
model: ["Conv2d(1, 8, 3, padding=1, bias=false)", "BatchNorm2d(8)", ReLU, "MaxPool2d(2)", Flatten, "LazyLinear(10)"]
loss: CrossEntropyLoss
metrics: [accuracy, f1]
optimizer: AdamW(lr=1e-2)
train: {epochs: 4, clip_grad_norm: 1.0, ema: 0.9}
checkpoint: {every: 1 epoch, keep: 5, best: valid/accuracy}
log: {every: 3 steps, histograms: 1 epoch}
"""


@pytest.mark.parametrize("name", bundled())
def test_a_bundled_config_has_the_losses_of_the_cpu(name: str):
    assert compare_config(name, "cuda") is None


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, Path]:
    """A run on each device, stopped after two of its four epochs."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "digits.yaml").write_text(CONFIG)
    for device in ("cpu", "cuda"):
        done = tdt_here("train", "digits.yaml", "--run-dir", device, f"device={device}", "train.epochs=2", cwd=folder)
        assert done.returncode == 0, done.stderr
    return {device: folder / device for device in ("cpu", "cuda")}


def weights(run: Path, name: str = "last") -> dict[str, np.ndarray]:
    tensors, _ = checkpoint.load(run / "checkpoints" / f"{name}.safetensors")
    return {key: array for key, array in tensors.items() if not key.startswith("rng/")}


def test_weights_and_optimizer_after_two_epochs_are_those_of_the_cpu(runs):
    here, there = weights(runs["cpu"]), weights(runs["cuda"])
    assert here.keys() == there.keys() and any(key.startswith("ema/") for key in here)
    for key in here:
        assert (here[key].dtype, here[key].shape) == (there[key].dtype, there[key].shape)
        np.testing.assert_allclose(there[key], here[key], rtol=2e-3, atol=2e-4, err_msg=key)


@pytest.mark.parametrize("ways", [("cpu", "cuda"), ("cuda", "cpu")], ids=" to ".join)
def test_a_run_of_one_device_goes_on_on_the_other(runs, tmp_path, ways):
    first, second = ways
    (tmp_path / "digits.yaml").write_text(CONFIG)
    whole = tdt_here("train", "digits.yaml", "--run-dir", "whole", f"device={first}", "train.epochs=3", cwd=tmp_path)
    begun = tdt_here("train", "digits.yaml", "--run-dir", "both", f"device={first}", "train.epochs=2", cwd=tmp_path)
    resumed = tdt_here("train", "--resume", "both", f"device={second}", "train.epochs=3", cwd=tmp_path)
    assert (whole.returncode, begun.returncode, resumed.returncode) == (0, 0, 0), resumed.stderr
    expected, got = weights(tmp_path / "whole"), weights(tmp_path / "both")
    for key in expected:
        np.testing.assert_allclose(got[key], expected[key], rtol=2e-3, atol=2e-4, err_msg=key)


@pytest.mark.parametrize("trained", ["cpu", "cuda"])
def test_a_checkpoint_has_one_score_on_both_devices(runs, trained):
    scores = []
    for device in ("cpu", "cuda"):
        done = tdt_here("eval", runs[trained], "--device", device, "--json", cwd=runs[trained])
        assert done.returncode == 0, done.stderr
        scores.append(json.loads(done.stdout))
    for name in ("loss", "accuracy", "f1"):
        assert math.isclose(scores[0][name], scores[1][name], rel_tol=1e-4), name


@pytest.mark.parametrize("amp", ["bfloat16", "float16"])
def test_mixed_precision_trains_as_on_the_cpu(tmp_path, amp: str):
    (tmp_path / "digits.yaml").write_text(CONFIG)
    losses = {}
    for device in ("cpu", "cuda"):
        changes = [f"device={device}", f"train.amp={amp}", "train.epochs=2", "train.ema=null"]
        done = tdt_here("train", "digits.yaml", "--run-dir", device, *changes, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        lines = [json.loads(line) for line in (tmp_path / device / "metrics.jsonl").read_text().splitlines()]
        losses[device] = [line["train/loss"] for line in lines if "train/loss" in line]
    assert len(losses["cuda"]) > 2
    np.testing.assert_allclose(losses["cuda"], losses["cpu"], rtol=2e-2)


@pytest.mark.parametrize("command", ["check", "describe", "find-lr", "doctor"])
def test_a_command_works_on_a_gpu(tmp_path, command: str):
    (tmp_path / "digits.yaml").write_text(CONFIG.replace("seed: 3", "seed: 3\ndevice: cuda"))
    done = tdt_here(command, *(["digits.yaml"] if command != "doctor" else []), cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    expected = {"check": "on cuda:0", "describe": "peak memory", "find-lr": "suggestion", "doctor": "1 visible, cupy"}
    assert expected[command] in done.stdout + done.stderr


def test_doctor_reports_that_cudas_libraries_are_missing(monkeypatch):
    def missing(a, b):
        raise ImportError('Failure finding "libcublas.so.13"')

    monkeypatch.setattr(_cublas_lt, "library", lambda: None)
    monkeypatch.setattr(cupy.ndarray, "dot", missing, raising=False)
    (finding,) = checkup._gpu()
    assert finding.state == "broken"
    assert "CUDA's libraries are missing: pip install" in finding.message and "libcublas" in finding.message
