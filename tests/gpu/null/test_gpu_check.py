"""`scripts/gpu_check` under the real CuPy, each stage in its process: what it asks for is accepted, and it writes results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
SMALL = ["--no-values", "--ops", "tanh", "gather", "hermite_polynomial_h", "--configs", "digits-mlp", "--runs", "float16",
         "--workloads", "mlp", "--sizes", "small", "--steps", "2", "--jobs", "2", "--minutes", "5"]  # fmt: skip


def test_all_stages_are_accepted(tmp_path):
    paths = os.pathsep.join([str(Path(__file__).with_name("started")), str(ROOT)])
    command = [sys.executable, str(ROOT / "scripts/gpu_check"), "all", *SMALL, "--results", str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": paths}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=360)
    output = done.stdout + done.stderr
    (path,) = tmp_path.iterdir()
    found = json.loads(path.read_text())
    values = "from float64", "losses", "differs from a call", "was not reported"  # which no kernel computes here
    for stage in ("kernels", "cudnn", "graphs", "chains", "compiled", "runs", "programs", "checkpoints"):
        assert found[stage], output
        for name, wrong in found[stage].items():
            assert wrong is None or any(value in wrong for value in values), f"{stage}, {name}: {wrong}\n{output}"
    checks = found["ops"]
    names = {f"{name}{parts}" for name in ("tanh", "gather") for parts in ("", " of parts")}
    names |= {f"{name} backward" for name in names}
    names |= {"hermite_polynomial_h", "hermite_polynomial_h of parts"}  # in a module that is imported when used
    assert {check["name"] for check in checks.values()} == names
    assert not any(check["wrong"] for check in checks.values()), output
    assert found["configs"]["digits-mlp"]["wrong"] is None or "finite" in found["configs"]["digits-mlp"]["wrong"]
    assert found["speed"]["mlp small"]["tdt graph"]["ms"] > 0 and found["reserve"]["functions"]
    assert found["convolutions"] == found["attention"] == {"all": "cuDNN is not installed"}
    assert {*found} == {
        *("kernels", "programs", "cudnn", "graphs", "chains", "compiled", "runs", "nccl", "attention", "convolutions", "speed"),
        *("sanitizer", "reserve", "ops", "op database", "configs", "checkpoints"),
    }  # fmt: skip
    assert {*found["op database"].values()} <= {None}, output
