"""Convolutions by cuDNN: values, engines, memory formats, launches, and what happens where cuDNN has no engine."""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import json
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import cupy
import numpy as np
import pytest

import tdt
from tdt._compiled.captured import Captured
from tdt._kernels import _cudnn, cudnn_gpu
from tdt._ops.nn.conv import ON_GPU
from tdt.nn import functional as F
from tests.gpu.steps import LAUNCHES_BY_CUDNN, step_of
from tests.helpers import require_program

NUMBERS = np.random.default_rng(4)
HERE = Path(__file__).resolve().parent
EXECUTE = "cudnnBackendExecute"
# Rounding of the largest magnitude, of results and gradients that sum a few hundred products.
TOLERANCE = {"float32": 2e-6, "float16": 2e-3, "bfloat16": 1.6e-2}
SHAPES = {
    "lines": ((2, 4, 13), (6, 4, 3), {}),
    "images": ((2, 3, 9, 8), (5, 3, 3, 3), {"padding": 1}),
    "strided": ((2, 3, 11, 10), (5, 3, 3, 2), {"stride": (2, 3), "padding": (1, 0)}),
    "dilated": ((2, 3, 11, 10), (5, 3, 3, 2), {"dilation": (2, 3), "padding": 2}),
    "in groups": ((2, 6, 7, 7), (4, 3, 3, 3), {"groups": 2}),
    "depthwise": ((2, 4, 7, 7), (4, 1, 3, 3), {"groups": 4, "padding": 1}),
    "by one cell": ((2, 8, 5, 5), (4, 8, 1, 1), {}),
    "volumes": ((2, 3, 5, 6, 4), (4, 3, 2, 3, 2), {"padding": 1, "stride": (1, 2, 1)}),
}


def normal(*size: int, dtype: str = "float32") -> tdt.Tensor:
    return tdt.tensor(NUMBERS.normal(size=size)).to(getattr(tdt, dtype))


def convolve(x: tdt.Tensor, w: tdt.Tensor, b: tdt.Tensor | None, **how: object) -> tdt.Tensor:
    return (F.conv1d, F.conv2d, F.conv3d)[x.ndim - 3](x, w, b, **how)


def gradient_like(out: tdt.Tensor, dtype: tdt.dtype) -> tdt.Tensor:
    """Numbers of `dtype`, on the device of `out` and in its type."""
    return tdt.cos(tdt.arange(out.numel()).reshape(out.shape)).to(dtype).to(out.dtype).to(out.device)


def with_gradients(start: list[tdt.Tensor], device: str, how: dict, exactly: bool = False) -> list[tdt.Tensor]:
    """The result of a convolution, and the gradients of all operands for fixed ones of the result."""
    leaves = [t.detach().to(tdt.float64 if exactly else t.dtype).to(device).requires_grad_() for t in start]
    out = convolve(*leaves, **how)
    out.backward(gradient_like(out, start[0].dtype))
    return [out.detach().cpu(), *(leaf.grad.cpu() for leaf in leaves)]


def close(found: tdt.Tensor, exact: tdt.Tensor, dtype: str) -> None:
    tdt.testing.assert_close(
        found.double(), exact.double(), rtol=0, atol=TOLERANCE[dtype] * max(1.0, exact.abs().max().item())
    )


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_convolution_and_its_gradients_are_those_of_float64_rounded(
    shape: str, dtype: str, last: bool, cudnn, counted
):
    x, w, how = SHAPES[shape]
    start = [normal(*x, dtype=dtype), normal(*w, dtype=dtype), normal(w[0], dtype=dtype)]
    if last:
        if len(x) == 3:
            pytest.skip("lines have no such format")
        format = tdt.channels_last if len(x) == 4 else tdt.channels_last_3d
        start[:2] = (t.to(memory_format=format) for t in start[:2])
    with tdt.backends.cudnn.flags(enabled=True, allow_tf32=False):
        with counted() as calls:
            found = with_gradients(start, "cuda", how)
    assert [name for _, name, _ in calls].count(EXECUTE) == 3
    for value, exact in zip(found, with_gradients(start, "cpu", how, exactly=True), strict=True):
        assert value.dtype is start[0].dtype
        close(value, exact, dtype)
    if last and x[1] > 1 < w[1]:
        assert found[0].is_contiguous(memory_format=format) and found[1].is_contiguous(memory_format=format)


@pytest.mark.parametrize("format", [tdt.contiguous_format, tdt.channels_last])
def test_a_convolution_is_one_launch_and_its_gradients_are_two(format, cudnn, counted):
    x = normal(2, 3, 9, 8).cuda().to(memory_format=format).requires_grad_()
    w = normal(5, 3, 3, 3).cuda().to(memory_format=format).requires_grad_()
    with counted() as calls:
        out = F.conv2d(x, w)
    assert [name for _, name, _ in calls] == [EXECUTE]
    g = tdt.ones_like(out)
    with counted() as calls:
        out.backward(g)
    assert [name for _, name, _ in calls] == [EXECUTE] * 2


@pytest.mark.parametrize("name", LAUNCHES_BY_CUDNN)
def test_a_step_of_training_makes_few_launches(name: str, cudnn, counted):
    step = step_of(name, "SGD")
    for _ in range(2):
        step()
    with counted() as calls:
        step()
    assert [which for which, _, _ in calls] == ["launches"] * LAUNCHES_BY_CUDNN[name]


def test_operands_that_lie_otherwise_are_copied_and_those_that_are_not_aligned_are_not(cudnn, counted):
    x, w = normal(2, 9, 8, 3).cuda().permute(0, 3, 2, 1)[:, :, ::2], normal(5, 3, 3, 3).cuda()
    with counted() as calls:
        found = F.conv2d(x, w, padding=1)
    assert [name for _, name, _ in calls].count(EXECUTE) == 1 < len(calls)
    close(found.cpu(), F.conv2d(x.cpu().double(), w.cpu().double(), padding=1), "float16")
    flat = normal(1 + 3 * 49).cuda()
    with counted() as calls:
        found = F.conv2d(flat[1:].view(1, 3, 7, 7), w)
    assert [name for _, name, _ in calls] == [EXECUTE]
    close(found.cpu(), F.conv2d(flat.cpu()[1:].view(1, 3, 7, 7).double(), w.cpu().double()), "float16")


def test_float32_is_rounded_to_tf32_only_where_that_is_allowed(cudnn):
    flags, x, w = tdt.backends.cudnn, normal(2, 3, 9, 8).cuda(), normal(5, 3, 3, 3).cuda()
    exact = F.conv2d(x.cpu().double(), w.cpu().double())

    def error() -> float:
        return (F.conv2d(x, w).cpu() - exact).abs().max().item()

    assert flags.allow_tf32 and 1e-4 < error() < 1e-2  # PyTorch's default
    with flags.flags(enabled=True, allow_tf32=False):
        assert error() < 1e-5
    try:
        flags.fp32_precision = "ieee"
        assert not flags.allow_tf32 and error() < 1e-5
        flags.fp32_precision = "tf32"
        assert error() > 1e-4
    finally:
        flags.fp32_precision, flags.allow_tf32 = "none", True


def test_flags_tell_the_truth(cudnn, counted):
    flags, x, w = tdt.backends.cudnn, normal(2, 3, 9, 8).cuda(), normal(5, 3, 3, 3).cuda()
    assert flags.is_available() and flags.version() == 92801
    assert flags.is_acceptable(x) and flags.is_acceptable(x.half())
    assert not flags.is_acceptable(x.double()) and not flags.is_acceptable(x.cpu())
    with flags.flags(enabled=False):
        assert not flags.is_acceptable(x)
        with counted() as calls:
            F.conv2d(x, w)
    assert [name for _, name, _ in calls] == ["conv"]


def test_without_the_library_tdts_kernels_compute(monkeypatch, cudnn, counted):
    monkeypatch.setattr(_cudnn, "loaded", lambda: None)
    _cudnn.forget()
    assert not tdt.backends.cudnn.is_available() and tdt.backends.cudnn.version() is None
    x, w = normal(2, 3, 9, 8).cuda(), normal(5, 3, 3, 3).cuda()
    with counted() as calls:
        F.conv2d(x, w)
    assert [name for _, name, _ in calls] == ["conv"]


@pytest.mark.parametrize("status", [_cudnn.NOT_INITIALIZED, 3007, 4000])
@pytest.mark.filterwarnings("ignore:tdt's own kernels compute")
def test_on_a_gpu_that_cudnn_does_not_support_tdts_kernels_compute(status: int, cudnn, counted):
    setting = ctypes.c_int.in_dll(cudnn, "cudnn_creates")
    x, w = normal(2, 3, 9, 8).cuda(), normal(5, 3, 3, 3).cuda()
    setting.value = status
    try:
        if status == 4000:
            with pytest.raises(_cudnn.CudnnError, match="Create failed with status 4000"):
                F.conv2d(x, w)
            return
        assert not tdt.backends.cudnn.is_available()
        with counted() as calls:
            F.conv2d(x, w)
    finally:
        setting.value = 0
    assert [name for _, name, _ in calls] == ["conv"]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("without", [_cudnn.FORWARD, _cudnn.INPUT_GRAD, _cudnn.WEIGHT_GRAD])
def test_where_cudnn_has_no_engine_tdts_kernels_compute(without: int, dtype: str, cudnn, counted):
    setting = ctypes.c_int.in_dll(cudnn, "cudnn_without")
    start = [normal(2, 3, 9, 8, dtype=dtype), normal(5, 3, 3, 3, dtype=dtype), normal(5, dtype=dtype)]
    setting.value = without
    try:
        with tdt.backends.cudnn.flags(enabled=True, allow_tf32=False), counted() as calls:
            found = with_gradients(start, "cuda", {})
    finally:
        setting.value = 0
    # In float32, tdt's kernel for both gradients takes the place of two launches where cuDNN computes no gradient of images.
    gradients_together = dtype == "float32" and without == _cudnn.INPUT_GRAD
    assert [name for _, name, _ in calls].count(EXECUTE) == (1 if gradients_together else 2)
    for value, exact in zip(found, with_gradients(start, "cpu", {}, exactly=True), strict=True):
        close(value, exact, dtype)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("tf32", [False, True])
def test_long_sums_of_weight_gradients_are_cut_into_parts_by_tdts_kernel(tf32: bool, last: bool, cudnn, counted):
    start = [normal(3, 4, 20, 20), normal(5, 4, 3, 3), normal(5)]
    if last:
        start[0] = start[0].contiguous(memory_format=tdt.channels_last)
    with tdt.backends.cudnn.flags(enabled=True, allow_tf32=tf32), counted() as calls:
        found = with_gradients(start, "cuda", {})
    own = not (tf32 or last)
    names = [name for _, name, _ in calls]
    assert (names.count(EXECUTE), names.count("conv_weight_grad")) == (3 - own, own)
    if not tf32:
        for value, exact in zip(found, with_gradients(start, "cpu", {}, exactly=True), strict=True):
            close(value, exact, "float32")


@pytest.mark.parametrize("how", [{}, {"stride": 2, "output_padding": 1}, {"groups": 3, "dilation": 2}])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_transposed_convolutions_and_their_gradients(how: dict, dtype: str, cudnn):
    x, w, b = normal(2, 3, 5, 6), normal(3, 4, 3, 3), normal(4 * how.get("groups", 1))
    results = []
    for device, kind in (("cuda", dtype), ("cpu", "float64")):
        leaves = [t.to(getattr(tdt, dtype)).to(getattr(tdt, kind)).to(device).requires_grad_() for t in (x, w, b)]
        with tdt.backends.cudnn.flags(enabled=True, allow_tf32=False):
            out = F.conv_transpose2d(*leaves, **how)
            out.backward(gradient_like(out, getattr(tdt, dtype)))
        results.append([out.detach().cpu(), *(leaf.grad.cpu() for leaf in leaves)])
    for found, exact in zip(*results, strict=True):
        close(found, exact, dtype)


def test_second_derivatives(cudnn):
    x, w = (normal(*size).cuda().requires_grad_() for size in ((1, 2, 5, 5), (3, 2, 3, 3)))
    results = []
    for device in ("cuda", "cpu"):
        leaves = [t.detach().to(device).requires_grad_() for t in (x, w)]
        with tdt.backends.cudnn.flags(enabled=True, allow_tf32=False):
            grads = tdt.autograd.grad(convolve(*leaves, None).square().sum(), leaves, create_graph=True)
            results.append(tdt.autograd.grad(sum(g.square().sum() for g in grads), leaves))
    for found, expected in zip(*results, strict=True):
        tdt.testing.assert_close(found.cpu(), expected, rtol=1e-5, atol=1e-3)


def test_a_captured_convolution_is_replayed_with_its_bits(cudnn):
    x, w = normal(2, 3, 9, 8).cuda(), normal(5, 3, 3, 3).cuda().requires_grad_()

    def step() -> tdt.Tensor:
        w.grad = None
        F.conv2d(x, w).square().sum().backward()
        return w.grad

    for _ in range(3):
        step()
    graph = tdt.cuda.CUDAGraph()
    with tdt.cuda.graph(graph):
        held = step()
    for _ in range(2):
        x.copy_(normal(2, 3, 9, 8))
        graph.replay()
        replayed = held.cpu()
        assert tdt.equal(replayed, step().cpu())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_bias_and_an_activation_are_one_launch_in_a_graph(dtype: str, cudnn, counted):
    kind = getattr(tdt, dtype)
    x, w, b = (normal(*size).cuda().to(kind) for size in ((2, 3, 9, 8), (5, 3, 3, 3), (5,)))
    expected = F.relu(F.conv2d(x, w, b))
    with counted() as calls:
        captured = Captured(lambda places: F.relu(F.conv2d(x, w, b)), [], 0, chains=True)
    names = [name for kind, name, _ in calls if kind == "launches"]
    assert names[:2] == [EXECUTE, "elementwise_chain"] and not [name for name in names[2:] if "elementwise" in name]
    captured.replay([])
    assert tdt.equal(captured.result, expected)


def test_each_gpu_has_plans_of_its_own(cudnn, two_gpus):
    cudnn_gpu._plans.clear()
    x, w = normal(2, 3, 9, 8), normal(5, 3, 3, 3)
    found = [F.conv2d(x.to(device), w.to(device)) for device in ("cuda:1", "cuda:0", "cuda:1")]
    assert [out.device.index for out in found] == [1, 0, 1]
    assert [plan.gpu for plan, _, _ in cudnn_gpu._plans.values()] == [1, 0]
    assert tdt.equal(found[0].cpu(), found[1].cpu())


def test_a_plan_keeps_its_descriptors_and_the_addresses_of_few_launches(cudnn, monkeypatch):
    monkeypatch.setattr(_cudnn, "MOST_PACKS", 2)
    alive = ctypes.c_int.in_dll(cudnn, "cudnn_alive")
    x, w = normal(2, 3, 9, 8).cuda(), normal(5, 3, 3, 3).cuda()
    F.conv2d(x, w)
    gc.collect()
    before = alive.value
    results = [F.conv2d(x, w) for _ in range(6)]  # each elsewhere in memory
    gc.collect()
    assert len({out.data_ptr() for out in results}) == 6
    assert before <= alive.value <= before + 1
    cudnn_gpu._plans.clear()
    _cudnn.forget()
    gc.collect()
    assert alive.value < before


@contextmanager
def set_to(library: ctypes.CDLL, name: str, value: int, kind: type = ctypes.c_int) -> Iterator[None]:
    """A block in which a setting of the fake has a value."""
    setting = kind.in_dll(library, name)
    before, setting.value = setting.value, value
    try:
        yield
    finally:
        setting.value = before


def test_a_plan_keeps_what_it_refers_to_and_no_plan_that_was_refused(cudnn):
    alive = ctypes.c_int.in_dll(cudnn, "cudnn_alive")
    gc.collect()
    before = alive.value
    F.conv2d(normal(2, 3, 9, 8).cuda(), normal(5, 3, 3, 3).cuda())
    gc.collect()
    # Three tensors, a convolution, an operation, a graph, heuristics, a configuration, the plan, and the addresses of a launch.
    assert alive.value - before == 10


def test_threads_share_a_handle_and_use_it_one_at_a_time(cudnn, monkeypatch):
    """A handle is made once; nothing else uses it while a plan is made or a launch is under way."""
    functions, inside, together, created = dict(_cudnn.functions()), set(), [], []

    def alone(name: str):
        def call(*arguments):
            me = threading.get_ident()
            inside.add(me)
            time.sleep(0.001)
            together.extend(inside - {me})
            created.extend([name] if name == "Create" else [])
            status = functions[name](*arguments)
            inside.discard(me)
            return status

        return call

    with_handles = ("Create", "BackendFinalize", "SetStream", "BackendExecute")
    monkeypatch.setattr(_cudnn, "functions", lambda: {**functions, **{name: alone(name) for name in with_handles}})
    operands = [(normal(2, 3, 9, 8 + k).cuda(), normal(5, 3, 3, 3).cuda()) for k in range(4)]
    start = threading.Barrier(len(operands))

    def compute(x: tdt.Tensor, w: tdt.Tensor) -> None:
        start.wait()
        F.conv2d(x, w)

    threads = [threading.Thread(target=compute, args=pair) for pair in operands]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert (len(created), together) == (1, [])


def test_a_graph_keeps_its_plans(cudnn):
    x, w = normal(1, 3, 5, 5).cuda(), normal(2, 3, 3, 3).cuda()
    F.conv2d(x, w)
    (plan,) = [plan for plan, _, _ in cudnn_gpu._plans.values()]
    held = weakref.ref(plan)
    del plan
    graph = tdt.cuda.CUDAGraph()
    with tdt.cuda.graph(graph):
        F.conv2d(x, w)
    cudnn_gpu._plans.clear()
    _cudnn.forget()
    gc.collect()
    assert held() is not None
    graph.reset()
    gc.collect()
    assert held() is None


def test_versions_that_read_wrong_memory_of_large_tensors_are_refused(cudnn):
    for version, available in ((90299, False), (90300, True)):
        with set_to(cudnn, "cudnn_version", version, ctypes.c_size_t):
            _cudnn.forget()
            assert tdt.backends.cudnn.is_available() is available


def test_depthwise_convolutions_of_very_many_elements_are_tdts(cudnn, counted, monkeypatch):
    monkeypatch.setattr(cudnn_gpu, "MOST_DEPTHWISE", 2 * 4 * 49)
    operands = [(normal(2, 4, n, n).cuda(), normal(4, 4 // k, 3, 3).cuda(), k) for n, k in ((7, 4), (8, 4), (8, 1))]
    with counted() as calls:
        for x, w, groups in operands:
            F.conv2d(x, w, groups=groups)
    assert [name for _, name, _ in calls] == [EXECUTE, "conv", EXECUTE]


@pytest.fixture
def no_workspaces(monkeypatch) -> None:
    """A GPU whose memory has no room for workspaces."""
    empty = cupy.empty

    def full(size, dtype=float, *args, **how):
        if dtype == "B":
            raise tdt.OutOfMemoryError("no room")
        return empty(size, dtype, *args, **how)

    monkeypatch.setattr(cupy, "empty", full)


@pytest.mark.parametrize("smaller", [True, False])
def test_where_a_workspace_does_not_fit_a_smaller_one_is_used_or_tdts_kernel(
    smaller: bool, cudnn, counted, no_workspaces
):
    x, w = normal(2, 3, 9, 8).cuda(), normal(5, 3, 3, 3).cuda()
    with set_to(cudnn, "cudnn_takes", 1 << 20, ctypes.c_int64):
        with tdt.backends.cudnn.flags(enabled=True, allow_tf32=smaller), counted() as calls:
            found = [F.conv2d(x, w) for _ in range(2)]
    assert [name for _, name, _ in calls] == [EXECUTE if smaller else "conv"] * 2
    for each in found:
        close(each.cpu(), F.conv2d(x.cpu().double(), w.cpu().double()), "float16" if smaller else "float32")


def test_programs_do_without_a_workspace_that_does_not_fit_any_more(cudnn, request):
    x, w = (normal(*size).cuda().requires_grad_() for size in ((2, 3, 9, 8), (5, 3, 3, 3)))

    def results() -> list[tdt.Tensor]:
        x.grad = w.grad = None
        y = F.conv2d(x, w)
        y.backward(tdt.ones_like(y))
        return [t.detach().cpu() for t in (y, x.grad, w.grad)]

    with tdt.backends.cudnn.flags(enabled=True, allow_tf32=False):
        expected = [results() for _ in range(3)][-1]
        (call,) = ON_GPU.layouts.values()
        (gradient,) = call.gradients.values()
        assert call.forward.program is not None is not gradient.program
        request.getfixturevalue("no_workspaces")
        for _ in range(3):
            for value, exact in zip(results(), expected, strict=True):
                close(value, exact, "float32")


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape", ["lines", "in groups"])
def test_without_workspaces_gradients_are_those_of_float64_rounded(shape: str, dtype: str, cudnn, no_workspaces):
    x, w, how = SHAPES[shape]
    start = [normal(*x, dtype=dtype), normal(*w, dtype=dtype), normal(w[0], dtype=dtype)]
    with set_to(cudnn, "cudnn_takes", 1 << 20, ctypes.c_int64):
        with tdt.backends.cudnn.flags(enabled=True, allow_tf32=False):
            found = with_gradients(start, "cuda", how)
    for value, exact in zip(found, with_gradients(start, "cpu", how, exactly=True), strict=True):
        assert value.dtype is start[0].dtype
        close(value, exact, dtype)


def test_volumes_and_captures_raise_where_a_workspace_does_not_fit(cudnn, no_workspaces):
    with tdt.backends.cudnn.flags(enabled=True, allow_tf32=False):
        with pytest.raises(tdt.OutOfMemoryError, match="no room"):
            F.conv3d(normal(1, 2, 4, 4, 4).cuda(), normal(3, 2, 2, 2, 2).cuda())
        x, w = normal(2, 3, 9, 8).cuda(), normal(5, 3, 3, 3).cuda()
        with pytest.raises(tdt.OutOfMemoryError, match="no room"), tdt.cuda.graph(tdt.cuda.CUDAGraph()):
            F.conv2d(x, w)


def test_a_handle_that_could_not_be_created_is_requested_again(cudnn, counted, monkeypatch):
    freed: list[int] = []
    monkeypatch.setattr(type(cupy.get_default_memory_pool()), "free_all_blocks", lambda *_: freed.append(1))
    x, w = normal(2, 3, 9, 8).cuda(), normal(5, 3, 3, 3).cuda()
    with counted() as calls, set_to(cudnn, "cudnn_creates", _cudnn.NOT_INITIALIZED):
        with pytest.warns(UserWarning, match="cudnnCreate failed with status 1001: no handle"):
            F.conv2d(x, w)
        for _ in range(2):  # without another warning, which would be an error
            F.conv2d(x, w)
    assert [name for _, name, _ in calls] == ["conv"] * 3 and len(freed) == 1
    with counted() as calls:
        F.conv2d(x, w)
        monkeypatch.setattr(_cudnn, "_refused", {0: 0.0})  # the pause is over
        F.conv2d(x, w)
    assert [name for _, name, _ in calls] == ["conv", EXECUTE]


@pytest.mark.parametrize("status", [2000, 3000, 4004, 5003])
def test_plans_that_followed_an_error_that_may_pass_are_not_saved(status: int, cudnn, counted, monkeypatch):
    x, w = normal(2, 3, 9, 8).cuda(), normal(5, 3, 3, 3).cuda()
    with set_to(cudnn, "cudnn_refuses", status):
        if status == 2000:
            with pytest.raises(_cudnn.CudnnError, match="BackendFinalize failed with status 2000: the engine cannot"):
                F.conv2d(x, w)
            return
        with counted() as calls:
            F.conv2d(x, w)
    assert [name for _, name, _ in calls] == [EXECUTE]
    ((_, until),) = _cudnn._plans.values()
    assert len(cudnn_gpu._plans) == (status == 3000) and (until == float("inf")) is (status == 3000)


def test_an_error_reports_what_cudnn_reports(cudnn):
    with pytest.raises(_cudnn.CudnnError, match="SetAttribute failed with status 2000: the descriptor has no such"):
        _cudnn.Descriptor(_cudnn.TENSOR).set(_cudnn.GRAPH_OPS, "int64", 1)


@pytest.mark.parametrize("where", ["a wheel", "the system"])
def test_the_library_is_found(where: str, cudnn, tmp_path):
    from cupy._cudnn import LIBRARY

    folder = tmp_path / "nvidia/cudnn/lib" if where == "a wheel" else tmp_path
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "libcudnn.so.9").symlink_to(LIBRARY.path)
    # Where NVIDIA's own is installed, it would be found first.
    others = [each for each in sys.path if each and not Path(each, "nvidia/cudnn").exists()]
    path = os.pathsep.join([*([str(tmp_path)] if where == "a wheel" else ()), *others])
    environment = {**os.environ, "PYTHONPATH": path, "LD_LIBRARY_PATH": "" if where == "a wheel" else str(tmp_path)}
    code = "import tdt; print(tdt.backends.cudnn.version())"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["92801"], done.stderr


def _headers() -> list[Path]:
    """Folders with the headers of NVIDIA's wheels."""
    spec = importlib.util.find_spec("nvidia")
    roots = spec.submodule_search_locations or () if spec else ()
    return [Path(root, part) for root in roots for part in ("cudnn/include", "cu13/include")]


@pytest.mark.timeout(300)
def test_nvidias_library_finalizes_plans_for_a_gpu_that_is_not_there():
    """cuDNN itself, where it is installed with cuBLAS, has an admitted engine for every problem here, on three GPUs.

    Engines of attention are compiled by NVRTC.
    """
    require_program("gcc")
    spec = importlib.util.find_spec("nvidia")
    folders = [Path(root) for root in (spec.submodule_search_locations or () if spec else ())]
    folder = next((each for each in folders if (each / "cudnn/lib/libcudnn.so.9").is_file()), None)
    if folder is None or not [*folder.glob("cu1*/lib/libcublasLt.so.1*")]:
        pytest.skip("NVIDIA's libraries are not installed: pip install nvidia-cudnn-cu13")
    command = [sys.executable, "-m", "tests.gpu.cudnn_library", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == 3 * (10 * 4 * 2 * 3 * 2 + 8 * 2 * 2)
    assert [row for row in found if row[-1] < 0] == []


def test_constants_and_signatures_are_those_of_nvidias_header():
    """The declarations of the fake library, by which tdt's are tested, against `cudnn_graph.h` where it is installed."""
    require_program("gcc")
    if not any((folder / "cudnn_graph.h").is_file() for folder in _headers()):
        pytest.skip("NVIDIA's cudnn_graph.h is not installed: pip install nvidia-cudnn-cu13 nvidia-cuda-runtime")
    paths = [f"-I{folder}" for folder in _headers()]
    command = ["gcc", "-fsyntax-only", "-DNVIDIA_HEADER", *paths, "-x", "c", str(HERE / "cudnn.c")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
