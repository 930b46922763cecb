"""Machines with shorter vectors, which compile other code: AVX2, and x86-64 without any fused multiply-add."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tdt._kernels._native import vector_width

ROOT = Path(__file__).parents[2]
# Name → features, and the numbers in a vector that they give.
CPUS = {"haswell": ("+avx,+avx2,+fma,+sse4.2,-avx512f", 8), "x86-64": ("+sse2,-avx", 4)}
CHECKS = """
from tdt._kernels._native import vector_width
assert vector_width() == {width}, vector_width()
from tests._kernels import test_class_loss_cpu, test_conv_cpu, test_expression, test_generated, test_pool_cpu, test_recurrent_cpu
# The other kernels are made of the same parts.
for case in test_conv_cpu.ALL:
    for last in (False, True):
        test_conv_cpu.test_kernels_compute_the_portable_values_in_the_portable_memory_order(case, last)
test_conv_cpu.test_nan_and_infinities_reach_the_same_places(test_conv_cpu.CASES[2], True)
test_generated.test_special_values("softplus", 1)
test_expression.test_the_error_is_within_the_bound_and_special_values_are_exact("expm1")
test_generated.test_values_and_gradients_at_sizes_off_every_vector_width("softplus", 127)
for shape in [(70, 17), (3, 1000)]:
    test_class_loss_cpu.test_losses_and_gradients_of_rows(shape)
for sizes, size in [*test_recurrent_cpu.PADDED, test_recurrent_cpu.PACKED[0]]:
    test_recurrent_cpu.compare("gru", sizes, size)
for last in (False, True):
    test_pool_cpu.test_all_windows_have_the_portable_values_and_gradients(
        test_pool_cpu.SHAPES[2], test_pool_cpu.OTHERS[0], last)
"""


@pytest.mark.long
@pytest.mark.skipif(not sys.platform.startswith("linux") or os.uname().machine != "x86_64", reason="names x86 vectors")
def test_machines_with_shorter_vectors_get_the_same_values(tmp_path):
    processes = []
    for name, (features, width) in CPUS.items():  # at once: compiling takes most of the time
        if width == vector_width():
            continue  # every other test runs on such vectors
        environment = {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": features, "XDG_CACHE_HOME": str(tmp_path / name),
                       "TDT_KERNELS": ""}  # fmt: skip
        processes.append(subprocess.Popen(
            [sys.executable, "-c", CHECKS.format(width=width)], cwd=ROOT, stderr=subprocess.PIPE, text=True,
            env={**os.environ, **environment, "PYTHONPATH": str(ROOT)},
        ))  # fmt: skip
    assert processes
    for process in processes:
        _, error = process.communicate(timeout=120)
        assert process.returncode == 0, error
