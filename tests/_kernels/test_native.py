"""Modules of LLVM IR become kernels: written once, kept, and remembered where the processor cannot run them."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from tdt._kernels import _cache, _native
from tdt._kernels._native import NativeKernel, linked, target_triple

TEXT = """
define i64 @add(ptr %words, i64 %first, i64 %last) {
  %array = load ptr, ptr %words, align 8
  %place = getelementptr i64, ptr %words, i64 1
  %more = load double, ptr %place, align 8
  %before = load double, ptr %array, align 8
  %sum = fadd double %before, %more
  store double %sum, ptr %array, align 8
  ret i64 0
}
define i64 @fail(ptr %words, i64 %first, i64 %last) {
  ret i64 1
}
"""


@pytest.fixture
def files(monkeypatch) -> dict[str, bytes]:
    """An empty cache, and a process that has linked nothing."""
    files: dict[str, bytes] = {}
    monkeypatch.setattr(_cache, "load", files.get)
    monkeypatch.setattr(_cache, "keep", files.__setitem__)
    monkeypatch.setattr(_native, "_libraries", {})
    return files


def module() -> str:
    return f'target triple = "{target_triple()}"\n{TEXT}'


def missing() -> None:
    raise AssertionError("the module is there")


@pytest.mark.parametrize("optimize", [False, True])
def test_a_kernel_gets_addresses_and_numbers_and_reports_failure(files, optimize):
    add, fail = linked("sums", ["add", "fail"], module, optimize=optimize)
    x = np.array([1.5])
    assert NativeKernel("add", add, "qd")(0, 1, x, 0.25) is True
    assert x[0] == 1.75
    assert NativeKernel("fail", fail, "")(0, 1) is False


def test_a_module_is_written_once_for_all_processes(files, monkeypatch):
    addresses = linked("sums", ["add"], module)
    assert linked("sums", ["add"], missing) == addresses
    monkeypatch.setattr(_native, "_libraries", {})  # another process
    linked("sums", ["add"], missing)
    assert list(files) == ["sums.o"]


def test_a_module_that_the_processor_cannot_run_is_remembered(files, monkeypatch):
    assert linked("absent", ["add"], lambda: None) == []
    monkeypatch.setattr(_native, "_libraries", {})
    assert linked("absent", ["add"], missing) == []


@pytest.mark.skipif(os.environ.get("TDT_KERNELS") == "reference", reason="kernels are off")
def test_a_first_training_run_of_a_convolutional_network_compiles_without_numba(tmp_path):
    code = (
        "import atexit, sys; atexit.register(lambda: print('numba' in sys.modules)); from tdt.cli import main; main()"
    )
    arguments = ["train", "digits-cnn", "train.epochs=1", "--run-dir", str(tmp_path / "run")]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "OMP_NUM_THREADS": "2"}
    command = [sys.executable, "-W", "error", "-c", code, *arguments]
    completed = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert completed.returncode == 0, completed.stderr
    assert completed.stdout.splitlines()[-1] == "False"
    assert list(tmp_path.rglob("_conv_loops.gather.o")), "kernels are not in use"
