"""What CuPy and CUDA's rules allow while a stream is captured for a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import cupy
import pytest

import tdt
from tdt import nn
from tdt.nn import functional as F
from tests.gpu.null import wheel


@contextmanager
def capture() -> Iterator[list[wheel.Call]]:
    """A block whose work in the current stream is captured; the calls that the driver got."""
    stream = cupy.cuda.get_current_stream()
    stream.begin_capture()
    try:
        with wheel.watch() as calls:
            yield calls
    finally:
        stream.end_capture()


@pytest.fixture(autouse=True)
def own_stream() -> Iterator[None]:
    # Streams before this one may have had the same address, and so the same memory in other pieces.
    cupy.get_default_memory_pool().free_all_blocks()
    with cupy.cuda.Stream(non_blocking=True):
        yield


def ones(*shape: int, **options: object) -> tdt.Tensor:
    return tdt.ones(*shape, device="cuda", **options)


def stepped() -> Callable[[], object]:
    params = [nn.Parameter(ones(n)) for n in (3, 5000)]
    update = tdt.optim.AdamW(params)
    for p in params:
        p.grad = tdt.ones_like(p)

    def step() -> None:
        nn.utils.clip_grad_norm_(params, 1.0)
        update.step()

    return step


X, IMAGES = ones(4, 8, requires_grad=True), ones(2, 3, 8, 8, requires_grad=True)
INDEX, MASK = tdt.tensor([0, 2, 1, 0], device="cuda"), ones(4, 8) > 0
CAPTURED = {
    "formulas": lambda: F.gelu(X * 2 + 1),
    "sums": lambda: X.sum() + X.sum(0).mean(),
    "products of matrices": lambda: (X @ X.T, F.linear(X, X, X[:, 0].contiguous()).sum().backward()),
    "layer norm": lambda: F.layer_norm(X, (8,)).square().sum().backward(),
    "batch norm": lambda: F.batch_norm(IMAGES, None, None, training=True).square().sum().backward(),
    "convolution": lambda: F.conv2d(IMAGES, IMAGES[:, :, :3, :3]).square().sum().backward(),
    "max pooling": lambda: F.max_pool2d(IMAGES, 2).square().sum().backward(),
    "cross-entropy": lambda: F.cross_entropy(X, INDEX).backward(),
    "embedding": lambda: F.embedding(INDEX, X).square().sum().backward(),
    "dropout": lambda: F.dropout(X, 0.5),
    "choice": lambda: tdt.where(MASK, X, 0.0),
    "writing": lambda: ones(3).copy_(X.detach()[0, :3]),
    "joining": lambda: tdt.cat([X, X]),
    "clipping and an optimizer's step": stepped(),
}


@pytest.mark.parametrize("what", CAPTURED)
def test_cupy_captures(what: str):
    for _ in range(3):
        CAPTURED[what]()
    with capture() as calls:
        CAPTURED[what]()
    assert any(call.kind in wheel.WORK for call in calls)
    assert {call.kind for call in calls} <= wheel.WORK | {"allocate"}  # CuPy's pool may cut its pieces another way


REFUSED = {
    "CuPy's product of matrices": (
        lambda: cupy.matmul(X._a, X._a.T),
        "calling cuBLAS API during stream capture is currently unsupported",
    ),
    "a read": (lambda: X.sum().item(), "the current stream is capturing, so D2H transfers are disallowed"),
    "an upload": (
        lambda: tdt.tensor([1.0, 2.0], device="cuda"),
        "the current stream is capturing, so H2D transfers are",
    ),
    "a choice by a mask": (lambda: X[MASK], "the current stream is capturing, so D2H transfers are disallowed"),
    "waiting": (lambda: tdt.cuda.current_stream().synchronize(), "operation not permitted when stream is capturing"),
}


@pytest.mark.refused
@pytest.mark.parametrize("what", REFUSED)
def test_cupy_or_the_driver_refuses_to_capture(what: str):
    call, message = REFUSED[what]
    call()
    with pytest.raises(Exception, match=message), capture():
        call()


@pytest.mark.refused
def test_work_of_the_default_stream_is_refused_while_a_stream_is_captured_that_waits_for_it():
    x = cupy.ones(3)
    with cupy.cuda.Stream():  # a blocking one
        x + x
        cupy.cuda.get_current_stream().begin_capture()
        try:
            with cupy.cuda.Stream.null, pytest.raises(Exception, match="legacy stream"):
                x + x
        finally:
            cupy.cuda.get_current_stream().end_capture()
