"""Machines with AVX-512, which have vectors of sixteen numbers: the same values, and code that can be assembled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tdt._kernels._native import vector_width

ROOT = Path(__file__).parents[2]
FILES = (
    "attention_cpu",
    "conv_cpu",
    "layer_norm_cpu",
    "pixels",
    "planes",
    "product_cpu",
    "plane_pool_cpu",
    "softmax_cpu",
)


@pytest.mark.long
@pytest.mark.skipif(not sys.platform.startswith("linux") or os.uname().machine != "x86_64", reason="names x86 vectors")
@pytest.mark.skipif(vector_width() == 16, reason="every other test runs on such vectors")
def test_kernels_of_vectors_of_sixteen_give_the_same_values_and_can_be_assembled(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-m", "tests._kernels.wide", *[f"tests/_kernels/test_{name}.py" for name in FILES]],
        cwd=ROOT, capture_output=True, text=True, timeout=400,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path), "TDT_KERNELS": "", "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
    assert "modules assembled for sapphirerapids" in ended.stdout
