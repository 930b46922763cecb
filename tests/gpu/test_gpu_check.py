"""`scripts/gpu_check` tried out on the stand-in: every command, and each result in its file."""

from __future__ import annotations

import ctypes
import json
import math
import subprocess
import sys
import tomllib
from pathlib import Path

import cupy
import pytest

import tdt
from tdt._kernels import _cudnn
from tdt.nn import functional as F
from tests import gpu_kernels, runs_on_gpu
from tests.helpers import require

ROOT = Path(__file__).parents[2]


def gpu_check(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts/gpu_check"), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)


def test_correctness_writes_ops_and_configs(tmp_path):
    done = gpu_check("correctness", "--only", "ops", "--ops", "softmax", "tanh", "--results", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    checks = json.loads((tmp_path / "correctness.json").read_text())["ops"]
    names = {f"{name}{parts}" for name in ("softmax", "tanh") for parts in ("", " of parts")}
    assert {check["name"] for check in checks.values()} == names | {f"{name} backward" for name in names}
    done = gpu_check("--only", "configs", "--configs", "digits-mlp", "--steps", "2", "--results", str(tmp_path))
    found = json.loads((tmp_path / "correctness.json").read_text())
    assert done.returncode == 0 and found["configs"]["digits-mlp"]["wrong"] is None and found["ops"] == checks


@pytest.mark.parametrize("stage", ["kernels", "cudnn", "graphs", "chains", "compiled", "checkpoints", "sanitizer"])
def test_a_stage_writes_what_it_checked(stage: str, tmp_path):
    done = gpu_check("correctness", "--only", stage, "--results", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    records = json.loads((tmp_path / "correctness.json").read_text())[stage]
    assert records and ({*records.values()} == {None} if stage != "sanitizer" else [*records] == ["tool"])


def test_runs_that_differ_are_found(monkeypatch):
    name = "float16 that overflows"
    others = {*runs_on_gpu.RUNS} - {name}
    assert dict(runs_on_gpu.check_runs("cuda", others)) == {name: None}
    monkeypatch.setattr(runs_on_gpu, "OVERFLOWS", 1000)
    assert dict(runs_on_gpu.check_runs("cuda", others)) == {name: "losses: no step was skipped"}


def test_the_op_database_is_checked(tmp_path):
    require("torch")
    done = gpu_check("--only", "op database", "--ops", "tanh", "gather", "--jobs", "1", "--results", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "correctness.json").read_text())["op database"]
    assert found == {"tanh": None, "gather": None}


@pytest.mark.parametrize(
    ("name", "wrong", "bytes"), [("sums", 1.001, 4), ("sums", math.nan, 4), ("group norm", 1.1, 2)]
)
def test_kernels_that_are_far_from_float64_are_found(name: str, wrong: float, bytes: int, monkeypatch):
    def clean(new):
        return [new(2, 40).sum()] if name == "sums" else [F.group_norm(new(2, 4, 5), 2)]

    def case(new):
        return [out * (wrong if out.is_cuda and out.itemsize == bytes else 1) for out in clean(new)]

    monkeypatch.setattr(gpu_kernels, "CASES", {name: case})
    ((found_name, found),) = gpu_kernels.check_kernels("cuda")
    assert found_name == name and found is not None and "from float64" in found


def test_kernels_that_are_looked_at_are_tdts_own(cudnn, counted, monkeypatch):
    """Of convolutions too, where cuDNN is installed."""
    name = "convolution"
    monkeypatch.setattr(gpu_kernels, "CASES", {name: gpu_kernels.CASES[name]})
    with counted() as calls:
        assert dict(gpu_kernels.check_kernels("cuda")) == {name: None}
    names = {which for _, which, _ in calls}
    assert "conv" in names and "cudnnBackendExecute" not in names and tdt.backends.cudnn.enabled


def test_convolutions_by_cudnn_are_compared(cudnn, monkeypatch):
    small = {"lines": ((1, 2, 9), (3, 2, 5), {}), "images": ((1, 2, 7, 7), (3, 2, 3, 3), {}),
             "long sums": ((2, 2, 18, 18), (3, 2, 3, 3), {})}  # fmt: skip
    monkeypatch.setattr(gpu_kernels, "CONVOLUTIONS", small)
    monkeypatch.setattr(gpu_kernels, "ATTENTION", {"attention": (1, 2, 9, 12, 8)})
    found = dict(gpu_kernels.check_cudnn("cuda"))
    assert len(found) == 3 * (2 + 4 + 4) + 2 * 4 and {*found.values()} == {None}
    with monkeypatch.context() as older:
        older.setattr(tdt.cuda, "get_device_capability", lambda device=None: (7, 5))
        left_out = {*found} - {*dict(gpu_kernels.check_cudnn("cuda"))}
    assert left_out == {title for title in found if "bfloat16" in title and title.endswith("by cuDNN")} != set()
    monkeypatch.setattr(gpu_kernels, "_too_far", lambda *args: "far")
    assert {*dict(gpu_kernels.check_cudnn("cuda")).values()} == {"far"}
    ctypes.c_int.in_dll(cudnn, "cudnn_without").value = _cudnn.FORWARD
    _cudnn.forget()
    by = {wrong and wrong.partition(",")[0]: name.rpartition(" ")[2] for name, wrong in gpu_kernels.check_cudnn("cuda")}
    ctypes.c_int.in_dll(cudnn, "cudnn_without").value = 0
    assert by == {"cuDNN has not computed the result": "cuDNN", "far": "tdt"}


@pytest.mark.filterwarnings("ignore")
def test_speed_measures_what_runs_and_reserve_profiles_it(tmp_path):
    small = ["--workloads", "mlp", "--sizes", "small", "--steps", "2", "--results", str(tmp_path)]
    done = gpu_check("speed", *small)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads((tmp_path / "speed.json").read_text())["speed"]
    row = rows["mlp small"]
    assert row["tdt"]["ms"] > 0 and row["tdt"]["peak_bytes"] > 1 << 20
    assert rows["mlp small, compiled"]["tdt compiled"]["ms"] > 0 and row["tdt compiled step"]["ms"] > 0
    assert row["tdt graph"]["ms"] > 0 and row["tdt graph"]["loss"] < row["tdt"]["loss"]  # of some steps later
    done = gpu_check("reserve", *small)
    assert (
        done.returncode == 0
        and json.loads((tmp_path / "reserve.json").read_text())["reserve"]["workload"] == "mlp small"
    )


def test_the_stand_in_offers_the_oldest_wheel_that_is_installed():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    oldest = {
        requirement.split(">=")[1]
        for name in ("cuda12", "cuda13")
        for requirement in extras[name]
        if "cupy" in requirement
    }
    assert {version.split(".")[:2] == cupy.__version__.split(".")[:2] for version in oldest} == {True}
