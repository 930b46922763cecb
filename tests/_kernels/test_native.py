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
        kernel = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(address)
        assert kernel(x.ctypes.data, 0, 8) == 0
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


WORDS = """
define i64 @words(ptr %words, i64 %first, i64 %last) {
  %target.place = getelementptr i64, ptr %words, i64 4
  %target = load ptr, ptr %target.place
  %size = sub i64 %last, %first
  %bytes = mul i64 %size, 8
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %words, i64 %bytes, i1 false)
  ret i64 0
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""


class Derived(np.ndarray):
    pass


def of_words(letters: str = "qqdqq") -> NativeKernel:
    """A kernel that copies its words into its fifth argument."""
    [address] = linked("words", ["words"], lambda: f'target triple = "{target_triple()}"\n{WORDS}')
    return NativeKernel("words", address, letters)


def test_arguments_become_words_in_every_way_of_calling_a_kernel(files):
    kernel, a, out = of_words(), np.ones(3), np.zeros(5, np.int64)
    for array in (a, a.view(Derived), a[:1].astype(np.int32).view(Derived)):
        expected = [array.ctypes.data, -5, np.float64(0.25).view(np.int64), 0, out.ctypes.data]
        for run in (
            lambda x: kernel(0, 5, x, -5, 0.25, None, out),
            lambda x: kernel.run(5, (x,), -5, 0.25, None, out),
            lambda x: kernel.with_last(5, 0.25, 0, out)(x, -5),
            lambda x: kernel.entry.call(kernel.prepare((x, -5, 0.25, None, out))[1], 0, 5),
        ):
            out[:] = 7
            run(array)
            np.testing.assert_array_equal(out, expected)
    kernel(0, 5, np.int64(3), True, 1, a, out)  # what has an index, and an integer for a float
    np.testing.assert_array_equal(out, [3, 1, np.float64(1).view(np.int64), a.ctypes.data, out.ctypes.data])


@pytest.mark.parametrize(
    "arguments", [(1, 2, 0.5, 3), ("a", 2, 0.5, 3, 4), (1, 2, "a", 3, 4), (1 << 70, 2, 0.5, 3, 4), ()]
)
def test_arguments_that_do_not_fit_are_refused(files, arguments):
    kernel = of_words()
    with pytest.raises((TypeError, OverflowError)):
        kernel(0, 5, *arguments)
    with pytest.raises((TypeError, OverflowError)):
        kernel.prepare(arguments)


@pytest.mark.parametrize("arguments", [(3, 0, 1), (b"", "a", 1), (b"", 0, 1 << 70)])
def test_words_and_blocks_that_do_not_fit_are_refused(files, arguments):
    with pytest.raises((TypeError, OverflowError)):
        of_words().entry.call(*arguments)


def test_calls_keep_no_references(files):
    kernel, out, big = of_words(), np.zeros(5, np.int64), 1 << 40
    prepared = kernel.with_last(5, 0.5, big, out)
    counts = [sys.getrefcount(each) for each in (out, big)]
    for _ in range(1000):
        kernel(0, 5, out, big, 0.5, None, out)
        kernel.entry.call(kernel.prepare((out, big, 0.5, None, out))[1], 0, 5)
        prepared(out, big)
    assert [sys.getrefcount(each) for each in (out, big)] == counts


def test_a_process_ends_while_threads_call_kernels():
    code = """
import threading, time, numpy as np
from tdt._kernels import arithmetic
from tdt._kernels._pool import set_num_threads
set_num_threads(1)
def work():
    a, b, add = np.ones((200, 100), np.float32), np.ones(100, np.float32), arithmetic("add")
    while True:
        add(a, b)
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.3)
print("end")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")
