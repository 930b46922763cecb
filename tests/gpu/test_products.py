"""Products of matrices by cuBLASLt: values of all layouts, precisions, and what happens where it has no algorithm."""

from __future__ import annotations

import ctypes
import importlib.util
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from cupy import _cublas_lt

import tdt
from tdt._kernels import _cublas_lt as binding
from tdt._kernels import product_gpu
from tests.helpers import require_program

NUMBERS = np.random.default_rng(3)
TOLERANCE = {"float32": 1e-6, "float64": 1e-15, "float16": 2e-3, "bfloat16": 1e-2}


def cuda(*size: int, dtype: str = "float32") -> tdt.Tensor:
    return tdt.tensor(NUMBERS.normal(size=size)).to(getattr(tdt, dtype)).cuda()


LAYOUTS = {
    "rows": lambda d: (cuda(5, 7, dtype=d), cuda(7, 3, dtype=d)),
    "columns": lambda d: (cuda(7, 5, dtype=d).T, cuda(3, 7, dtype=d).T),
    "a part of rows": lambda d: (cuda(5, 9, dtype=d)[:, 1:8], cuda(7, 6, dtype=d)[:, 3:]),
    "every second element": lambda d: (cuda(5, 14, dtype=d)[:, ::2], cuda(14, 3, dtype=d)[::2]),
    "one row": lambda d: (cuda(1, 7, dtype=d), cuda(7, 3, dtype=d)),
    "one column": lambda d: (cuda(5, 7, dtype=d), cuda(7, 1, dtype=d)),
    "one term": lambda d: (cuda(5, 1, dtype=d), cuda(1, 3, dtype=d)),
    "vectors": lambda d: (cuda(7, dtype=d), cuda(7, dtype=d)),
    "a vector and a matrix": lambda d: (cuda(7, dtype=d), cuda(7, 3, dtype=d)),
    "a stack and a vector": lambda d: (cuda(2, 5, 7, dtype=d), cuda(7, dtype=d)),
    "stacks": lambda d: (cuda(2, 3, 5, 7, dtype=d), cuda(2, 3, 7, 4, dtype=d)),
    "a stack and a matrix": lambda d: (cuda(2, 3, 5, 7, dtype=d), cuda(7, 4, dtype=d)),
    "a matrix and a stack": lambda d: (cuda(5, 7, dtype=d), cuda(6, 7, 4, dtype=d)),
    "heads": lambda d: (cuda(2, 5, 3, 8, dtype=d).transpose(1, 2), cuda(2, 6, 3, 8, dtype=d).permute(0, 2, 3, 1)),
    "broadcast inside": lambda d: (cuda(2, 1, 5, 7, dtype=d), cuda(2, 3, 7, 4, dtype=d)),
    "expanded": lambda d: (cuda(1, 7, dtype=d).expand(5, 7), cuda(7, 3, dtype=d)),
    "turned round": lambda d: (cuda(5, 7, dtype=d).flip(0), cuda(7, 3, dtype=d)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_product_is_that_of_float64_rounded_once(layout: str, dtype: str):
    a, b = LAYOUTS[layout](dtype)
    exact = np.matmul(a.cpu().double().numpy(), b.cpu().double().numpy())
    found = a @ b
    assert found.dtype is a.dtype and found.shape == exact.shape
    np.testing.assert_allclose(found.cpu().double().numpy(), exact, TOLERANCE[dtype], TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("without", [0, binding.EPILOGUE_BIAS, binding.EPILOGUE_BGRADB, binding.EPILOGUE_DEFAULT])
def test_a_linear_layer_and_its_gradients_agree_with_the_cpu(dtype: str, without: int, monkeypatch):
    """without: an epilogue of cuBLASLt that the GPU does not have."""
    setting = ctypes.c_int.in_dll(_cublas_lt.library, "lt_without")
    product_gpu._plans.clear()
    binding.plan.cache_clear()
    setting.value = without
    try:
        results = []
        start = [cuda(4, 6, 5, dtype=dtype), cuda(3, 5, dtype=dtype), cuda(3, dtype=dtype)]
        for device in ("cpu", "cuda"):
            x, w, b = leaves = [t.detach().to(device).requires_grad_() for t in start]
            out = tdt.nn.functional.linear(x, w, b)
            out.square().sum().backward()
            results.append([out.detach().cpu(), *(leaf.grad.cpu() for leaf in leaves)])
        for found, expected in zip(*results[::-1], strict=True):
            scale = expected.abs().max().item()
            tdt.testing.assert_close(found, expected, rtol=0, atol=3 * TOLERANCE[dtype] * scale)
    finally:
        setting.value = 0
        product_gpu._plans.clear()
        binding.plan.cache_clear()


def test_a_product_with_a_bias_and_one_with_its_gradient_are_one_launch_each(counted):
    layer, x = tdt.nn.Linear(5, 3).cuda(), cuda(4, 5)
    with counted() as found:
        out = layer(x)
    assert [name for _, name, _ in found] == ["cublasLtMatmul"]
    g = cuda(4, 3)
    with counted() as found:
        out.backward(g)
    assert [name for _, name, _ in found] == ["cublasLtMatmul"]


def test_tf32_rounds_operands_to_ten_bits_where_it_is_allowed():
    a, b = cuda(16, 16), cuda(16, 16)
    exact = a.cpu().double() @ b.cpu().double()

    def error() -> float:
        return ((a @ b).cpu().double() - exact).abs().max().item()

    assert error() < 1e-5
    try:
        tdt.backends.cuda.matmul.allow_tf32 = True
        assert tdt.get_float32_matmul_precision() == "high"
        assert 1e-4 < error() < 1e-2
        wide = a.double() @ b.double()
        assert (wide.cpu() - exact).abs().max().item() < 1e-13  # other types stay as they are
    finally:
        tdt.set_float32_matmul_precision("highest")
    assert error() < 1e-5


def test_without_the_library_cupy_multiplies(monkeypatch, counted):
    monkeypatch.setattr(binding, "library", lambda: None)
    a, b = cuda(5, 7), cuda(7, 3)
    with counted() as found:
        c = a @ b
    assert "cublasLtMatmul" not in {name for _, name, _ in found}
    tdt.testing.assert_close(c.cpu(), a.cpu() @ b.cpu())


def test_empty_operands_and_sums_of_no_terms_are_cupys():
    assert (cuda(0, 7) @ cuda(7, 3)).shape == (0, 3)
    assert (cuda(5, 0) @ cuda(0, 3)).cpu().tolist() == [[0.0] * 3] * 5


def test_constants_and_signatures_are_those_of_nvidias_header():
    """The declarations of the fake library, by which tdt's are tested, against `cublasLt.h` where it is installed."""
    require_program("gcc")
    spec = importlib.util.find_spec("nvidia")
    folders = [Path(p, "cu13/include") for p in (spec.submodule_search_locations or ())] if spec else []
    if (nvcc := shutil.which("nvcc")) is not None:
        folders.append(Path(nvcc).resolve().parents[1] / "include")
    if not any((folder / "cublasLt.h").is_file() for folder in folders):
        pytest.skip("NVIDIA's cublasLt.h is not installed: pip install 'nvidia-cublas[ctk]'")
    paths = [f"-I{path}" for folder in folders for path in (folder, folder / "cccl")]
    command = ["gcc", "-fsyntax-only", "-DNVIDIA_HEADER", *paths, "-x", "c", str(_cublas_lt.SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
