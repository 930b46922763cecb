"""Convolutions and attention by cuDNN under the real CuPy: streams, capture, launches of a step, memory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import cupy
import pytest

import tdt
from tdt._kernels import _cudnn, cudnn_attention_gpu, cudnn_gpu
from tdt.nn import functional as F
from tests.gpu.null import wheel
from tests.gpu.steps import LAUNCHES_BY_CUDNN, step_of

EXECUTE = "cudnnBackendExecute"


@pytest.fixture(autouse=True)
def cudnn(monkeypatch) -> Iterator[ctypes.CDLL]:
    """The fake of cuDNN is installed."""
    library = wheel.called("libcudnn_fake.so.9")

    def again() -> None:
        cudnn_gpu._plans.clear()
        cudnn_attention_gpu._plans.clear()
        _cudnn.forget()

    monkeypatch.setattr(_cudnn, "loaded", lambda: library)
    again()
    yield library
    monkeypatch.undo()
    again()


def images(*size: int, dtype: tdt.dtype = tdt.float32) -> tdt.Tensor:
    return tdt.ones(*size, device="cuda", dtype=dtype, requires_grad=True)


@pytest.mark.parametrize("dtype", [tdt.float32, tdt.float16, tdt.bfloat16])
@pytest.mark.parametrize("nd", [1, 2, 3])
def test_a_convolution_and_its_gradients_go_to_the_current_stream(nd: int, dtype: tdt.dtype):
    x, w = images(2, 4, *[7] * nd, dtype=dtype), images(6, 2, *[3] * nd, dtype=dtype)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        with wheel.watch() as calls:
            out = (F.conv1d, F.conv2d, F.conv3d)[nd - 1](x, w, None, groups=2)
            out.backward(tdt.ones_like(out))
    assert [call.stream for call in calls if call.name == EXECUTE] == [stream.ptr] * 3
    assert out.dtype is dtype and x.grad.shape == x.shape and w.grad.dtype is dtype


def assert_captured(stream: Any, step: Callable[[], object], plans: int) -> None:
    """A capture of a step launches so many of cuDNN's plans, and waits for nothing."""
    stream.begin_capture()
    try:
        with wheel.watch() as calls:
            step()
    finally:
        stream.end_capture()
    assert [call.name for call in calls].count(EXECUTE) == plans
    assert {call.kind for call in calls} <= wheel.WORK | {"allocate"}


@pytest.mark.parametrize("dtype", [tdt.float16, tdt.bfloat16])
def test_attention_and_its_gradients_go_to_the_current_stream_and_are_captured(dtype: tdt.dtype):
    x = images(2, 9, 48, dtype=dtype)

    def step() -> None:
        parts = [part.unflatten(2, (2, 8)).transpose(1, 2) for part in x.split(16, 2)]
        out = F.scaled_dot_product_attention(*parts, is_causal=True)
        out.backward(tdt.ones_like(out))

    with cupy.cuda.Stream(non_blocking=True) as stream:
        for _ in range(3):
            with wheel.watch() as calls:
                step()
            assert [call.stream for call in calls if call.name == EXECUTE] == [stream.ptr] * 2
        assert {call.kind for call in calls} <= wheel.WORK | {"event"}
        assert_captured(stream, step, 2)


def test_convolutions_are_captured_after_one_call():
    x, w, b = images(2, 3, 8, 8), images(4, 3, 3, 3), images(4)

    def step() -> None:
        F.conv2d(x, w, b).square().sum().backward()

    with cupy.cuda.Stream(non_blocking=True) as stream:
        for _ in range(2):
            step()
        assert_captured(stream, step, 3)


@pytest.mark.parametrize("name", LAUNCHES_BY_CUDNN)
def test_a_step_launches_what_the_stand_in_counts_and_takes_no_new_memory(name: str):
    step = step_of(name, "SGD")
    for _ in range(4):
        with wheel.watch() as calls:
            step()
    assert {call.kind for call in calls} <= wheel.WORK | {"event"}
    assert sum(call.kind in wheel.WORK for call in calls) == LAUNCHES_BY_CUDNN[name]
