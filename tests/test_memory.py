"""How much memory training holds, and the settings of the C library's allocator for arrays."""

from __future__ import annotations

import platform
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

import tdt
from tdt import _kernels

PROGRAM = """
from pathlib import Path
import numpy as np
before = Path("/proc/self/statm").read_text().split()
import tdt._backend._malloc as m
m.keep_freed_memory()
after = Path("/proc/self/statm").read_text().split()
a = np.empty(8 << 20, np.uint8)
place = a.__array_interface__["data"][0] + a.size // 2  # its first part may lie in what the heap had before
flags = ""
for line in Path("/proc/self/smaps").read_text().splitlines():
    first = line.split()[0]
    if "-" in first:
        begin, end = (int(part, 16) for part in first.split("-"))
    elif first == "VmFlags:" and begin <= place < end:
        flags = line
print("hg" in flags.split(), int(after[0]) - int(before[0]) > 0, (int(after[1]) - int(before[1])) * 4096)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="asks glibc")
@pytest.mark.skipif(not Path("/sys/kernel/mm/transparent_hugepage").exists(), reason="the kernel has no huge pages")
def test_large_arrays_lie_in_huge_pages_and_asking_for_them_takes_no_memory():
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    huge, resized, used = run.stdout.split()
    assert huge == resized == "True"
    assert int(used) < 16 << 20


SIZE = 1 << 16  # elements of an activation, which take more than all that is not an array


def _peak(run) -> float:
    """The most memory that a later call of `run` takes, in activations of SIZE numbers of float32: the first ones prepare."""
    for _ in range(6):
        run()
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1] / (4 * SIZE)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "block", [lambda y: (y * 2.0).flip(0) + y, lambda y: y * 2.0 * 3.0 + y * 5.0 * 7.0], ids=["residual", "branches"]
)
def test_backward_holds_three_gradients_at_a_time(block):
    """What has come to the block, and two of its branches; a chain of blocks is no different."""
    x = tdt.ones(SIZE, requires_grad=True)
    y, passed = x, tdt.ones(SIZE)
    for _ in range(8):
        y = block(y)
    assert _peak(lambda: tdt.autograd.grad(y, x, passed, retain_graph=True)) < 3.5


def test_gradients_of_a_value_used_often_add_up_in_one_array():
    x, passed = tdt.ones(SIZE, requires_grad=True), tdt.ones(SIZE)
    total = sum((x * 2) * float(n) for n in range(3, 9))
    assert _peak(lambda: tdt.autograd.grad(total, x, passed, retain_graph=True)) < 3.5


def test_a_gradient_that_others_refer_to_is_not_added_to():
    """Adding up in place must spare the array that both operands of a sum, a hook and the caller have."""
    x = tdt.ones(4, requires_grad=True)
    a, b = x * 2, x * 3
    received, passed = [], tdt.ones(4)
    a.register_hook(lambda g: received.append(g))
    y = a + b
    z = y + a * 5 + y * 7
    gradients = tdt.autograd.grad(z, [x, a, b, y], passed)
    assert [g.tolist() for g in gradients] == [[2 * (8 + 5) + 3 * 8.0] * 4, [13.0] * 4, [8.0] * 4, [8.0] * 4]
    assert received[0].tolist() == [13.0] * 4 and passed.tolist() == [1.0] * 4


@pytest.mark.skipif(not _kernels.enabled(), reason="kernels are off")
@pytest.mark.parametrize("how", [{}, {"label_smoothing": 0.1}], ids=["plain", "smoothing"])
def test_cross_entropy_takes_as_much_memory_as_its_logits(how):
    """For the gradient alone: neither the forward pass nor the backward one keeps anything else of this size."""
    x, t = tdt.ones(SIZE // 64, 64, requires_grad=True), tdt.zeros(SIZE // 64, dtype=tdt.int64)
    assert _peak(lambda: tdt.autograd.grad(tdt.nn.functional.cross_entropy(x, t, **how), x)) < 1.5


@pytest.mark.parametrize(
    "layer", [lambda: tdt.nn.Conv2d(256, 256, 1, bias=False), lambda: tdt.nn.LSTM(128, 128)], ids=["conv", "LSTM"]
)
@pytest.mark.skipif(not _kernels.enabled(), reason="kernels are off")
def test_a_parameter_takes_over_the_gradient_that_was_computed(layer):
    """Also one that is a view of an array which nothing else needs, or one of several that its node gives."""
    layer = layer()
    x = tdt.ones(1, 256, 2, 2) if isinstance(layer, tdt.nn.Conv2d) else tdt.ones(1, 2, 128)
    size = sum(p.nbytes for p in layer.parameters())

    def run():
        layer.zero_grad()
        y = layer(x)
        (y if isinstance(y, tdt.Tensor) else y[0]).sum().backward()

    assert _peak(run) * 4 * SIZE < 1.4 * size
