"""Modules of LLVM IR become kernels: written once, kept, and remembered where the processor cannot run them."""

from __future__ import annotations

import ctypes
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


LOOP = """
define i64 @entry(ptr %words, i64 %first, i64 %last) {
entry:
  %place = alloca i64
  store i64 0, ptr %place
  br label %head
head:
  %k = load i64, ptr %place
  %more = icmp slt i64 %k, %last
  br i1 %more, label %body, label %end
body:
  %i = load i64, ptr %place
  %at = getelementptr double, ptr %words, i64 %i
  %x = load double, ptr %at, align 8
  %y = fmul double %x, 1.5
  store double %y, ptr %at, align 8
  %next = add i64 %i, 1
  store i64 %next, ptr %place
  br label %head
end:
  ret i64 0
}
"""


def test_loops_give_the_same_values_with_all_passes_and_with_few(files):
    for vectorize in (True, False):
        module = f'target triple = "{target_triple()}"\n{LOOP}'
        [address] = linked(
            f"loop{vectorize}", ["entry"], lambda module=module: module, optimize=True, vectorize=vectorize
        )
        x = np.arange(9.0)
        assert NativeKernel("loop", address, "").entry.call(x.ctypes.data_as(ctypes.c_char_p), 0, 8) == 0
        np.testing.assert_array_equal(x, [0, 1.5, 3, 4.5, 6, 7.5, 9, 10.5, 8])
    assert files["loopFalse.o"] != files["loopTrue.o"]


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
