"""Attention by cuDNN: values of its graphs, memory that they read, launches, and what takes its place."""

from __future__ import annotations

import ctypes

import pytest

import tdt
from tdt._kernels import _cudnn, _cudnn_attention, cudnn_attention_gpu
from tdt.nn import functional as F
from tests.gpu.test_cudnn import EXECUTE, normal, set_to

HALVES = {"float16": 3e-3, "bfloat16": 2.5e-2}  # of the largest number
# Leading sizes, lengths of queries and keys, sizes of queries and of values.
SHAPES = {
    "images": ((2, 3), 19, 19, 8, 8), "one image": ((3,), 20, 35, 16, 8), "no heads": ((), 35, 20, 8, 24),
    "parts of a batch": ((2, 2, 2), 9, 9, 8, 8),
}  # fmt: skip


def computed(start: list[tdt.Tensor], device: str, dtype: tdt.dtype, causal: bool, g: tdt.Tensor) -> list[tdt.Tensor]:
    """The result and all gradients."""
    leaves = [x.detach().to(device, dtype).requires_grad_() for x in start]
    out = F.scaled_dot_product_attention(*leaves, is_causal=causal)
    out.backward(g.to(device, dtype))
    return [out.detach().cpu(), *(leaf.grad.cpu() for leaf in leaves)]


def close(found: list[tdt.Tensor], exact: list[tdt.Tensor], within: float) -> None:
    for here, there in zip(found, exact, strict=True):
        assert (here.double() - there).abs().max().item() <= within * there.abs().max().item()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("shape", SHAPES)
def test_attention_and_its_gradients_are_those_of_float64_rounded(shape: str, dtype: str, causal: bool, cudnn, counted):
    lead, queries, keys, size, width = SHAPES[shape]
    sizes = (*lead, queries, size), (*lead, keys, size), (*lead, keys, width), (*lead, queries, width)
    *start, g = (normal(*each, dtype=dtype) for each in sizes)
    exact = computed(start, "cpu", tdt.float64, causal, g)
    for _ in range(3):  # decided on, noted, repeated
        with counted() as calls:
            found = computed(start, "cuda", getattr(tdt, dtype), causal, g)
        assert [name for _, name, _ in calls].count(EXECUTE) == 2
        close(found, exact, HALVES[dtype])


@pytest.mark.parametrize("dtype", HALVES)
def test_heads_are_read_where_they_lie_in_one_launch_each_way(dtype: str, cudnn, counted):
    x, results = normal(2, 7, 2 * 3 * 8, dtype=dtype), []
    for device in ("cpu", "cuda"):
        leaf = x.clone().to(device).requires_grad_()
        parts = tuple(part.unflatten(2, (2, 8)).transpose(1, 2) for part in leaf.split(16, 2))
        with counted() as calls:
            out = F.scaled_dot_product_attention(*parts, is_causal=True)
            grads = tdt.autograd.grad(out, parts, out.detach())
        assert [name for _, name, _ in calls] == ([EXECUTE] * 2 if device == "cuda" else [])
        results.append([t.detach().cpu() for t in (out, *grads)])
        strides = [t.stride() for t in (out, *grads)]
    assert strides == [t.stride() for t in results[0]]
    close(results[1], [t.double() for t in results[0]], 2 * HALVES[dtype])


def test_operands_that_engines_cannot_read_are_copied(cudnn, counted):
    flat = normal(1 + 3 * 2 * 9 * 8).half().cuda()
    odd = flat[1:].view(3, 2, 9, 8)  # begins between 16 bytes
    turned = normal(3, 2, 8, 9).half().cuda().mT  # the last dimension is spread
    apart = normal(3, 2, 9, 12).half().cuda()[..., :8]  # rows of 24 bytes
    with counted() as calls:
        found = F.scaled_dot_product_attention(odd, turned, apart)
    assert [name for _, name, _ in calls].count(EXECUTE) == 1
    exact = F.scaled_dot_product_attention(*(x.cpu().double() for x in (odd, turned, apart)))
    close([found.cpu()], [exact], HALVES["float16"])
    # The gradient of a sum has one number.
    leaf = odd.clone().requires_grad_()
    F.scaled_dot_product_attention(leaf, turned, apart).float().sum().backward()
    again = odd.cpu().double().requires_grad_()
    F.scaled_dot_product_attention(again, turned.cpu().double(), apart.cpu().double()).sum().backward()
    close([leaf.grad.cpu()], [again.grad], 2 * HALVES["float16"])


def attended(*size: int, dtype: str = "float16", **how: object) -> tdt.Tensor:
    q, k, v = (normal(*size, dtype=dtype).cuda().requires_grad_() for _ in range(3))
    out = F.scaled_dot_product_attention(q, k, v, **how)
    out.backward(tdt.ones_like(out))
    return out


@pytest.mark.parametrize(
    "case", ["float32", "odd sizes", "one query", "a mask", "dropped", "an old library", "switched off"]
)
def test_the_rest_is_computed_by_tdts_kernels(case: str, cudnn, counted, monkeypatch):
    size, dtype, how = (2, 2, 9, 8), "float16", {}
    if case == "float32":
        dtype = "float32"
    elif case == "odd sizes":
        size = 2, 2, 9, 12
    elif case == "one query":
        size = 2, 2, 1, 8
    elif case == "a mask":
        how = {"attn_mask": tdt.ones(9, 9, dtype=tdt.bool).cuda()}
    elif case == "dropped":
        how = {"dropout_p": 0.5}
    elif case == "an old library":
        ctypes.c_size_t.in_dll(cudnn, "cudnn_version").value, newer = _cudnn_attention.OLDEST - 1, 92801
    try:
        with tdt.backends.cudnn.flags(enabled=case != "switched off"), counted() as calls:
            attended(*size, dtype=dtype, **how)
    finally:
        if case == "an old library":
            ctypes.c_size_t.in_dll(cudnn, "cudnn_version").value = newer
    names = [name for _, name, _ in calls]
    assert EXECUTE not in names and {"attention", "attention_vjp"} <= {*names}


@pytest.mark.parametrize("passes", [1002, 1005])  # as the fake numbers graphs: by their products
def test_where_cudnn_has_no_engine_tdts_kernels_compute(passes: int, cudnn, counted):
    start, g = [normal(2, 2, 9, 8, dtype="float16") for _ in range(3)], normal(2, 2, 9, 8, dtype="float16")
    with set_to(cudnn, "cudnn_without", passes):
        for _ in range(3):
            with counted() as calls:
                found = computed(start, "cuda", tdt.float16, True, g)
            names = [name for _, name, _ in calls]
            assert names.count(EXECUTE) == (passes == 1005) and "attention_vjp" in names
            close(found, computed(start, "cpu", tdt.float64, True, g), HALVES["float16"])


def test_gradients_are_computed_for_some_heads_at_a_time(cudnn, counted, monkeypatch):
    for most, launches in ((1 << 14, 6), (2 << 14, 4), (3 << 14, 2), (6 << 14, 1)):
        monkeypatch.setattr(cudnn_attention_gpu, "MOST_WEIGHTS", most)
        start, g = [normal(2, 3, 9, 8, dtype="float16") for _ in range(3)], normal(2, 3, 9, 8, dtype="float16")
        with counted() as calls:
            found = computed(start, "cuda", tdt.float16, True, g)
        assert [name for _, name, _ in calls].count(EXECUTE) == 1 + launches
        close(found, computed(start, "cpu", tdt.float64, True, g), HALVES["float16"])
        cudnn_attention_gpu._plans.clear()


def test_where_a_workspace_does_not_fit_tdts_kernels_compute(cudnn, counted, monkeypatch):
    launch = _cudnn.Plan.__call__

    def full(plan, *pointers):
        if plan.problem.backward:
            raise _cudnn.NoRoomError
        launch(plan, *pointers)

    start, g = [normal(2, 2, 9, 8, dtype="float16") for _ in range(3)], normal(2, 2, 9, 8, dtype="float16")
    monkeypatch.setattr(_cudnn.Plan, "__call__", full)
    for _ in range(3):
        with counted() as calls:
            found = computed(start, "cuda", tdt.float16, True, g)
        assert "attention_vjp" in [name for _, name, _ in calls]
        close(found, computed(start, "cpu", tdt.float64, True, g), HALVES["float16"])


def test_a_captured_gradient_is_replayed_with_its_bits(cudnn):
    x = normal(2, 7, 48, dtype="bfloat16").cuda().requires_grad_()

    def step() -> tdt.Tensor:
        x.grad = None
        parts = (part.unflatten(2, (2, 8)).transpose(1, 2) for part in x.split(16, 2))
        F.scaled_dot_product_attention(*parts, is_causal=True).float().square().sum().backward()
        return x.grad

    for _ in range(3):
        step()
    graph = tdt.cuda.CUDAGraph()
    with tdt.cuda.graph(graph):
        held = step()
    with tdt.no_grad():
        x.copy_(normal(2, 7, 48))
    graph.replay()
    replayed = held.cpu()
    assert tdt.equal(replayed, step().cpu())


def test_a_second_derivative(cudnn):
    results = []
    for device, dtype in (("cuda", tdt.bfloat16), ("cpu", tdt.float64)):
        tdt.manual_seed(0)
        leaves = [tdt.randn(2, 5, 8).to(device, dtype).requires_grad_() for _ in range(3)]
        grads = tdt.autograd.grad(F.scaled_dot_product_attention(*leaves).sum(), leaves, create_graph=True)
        results.append([g.cpu() for g in tdt.autograd.grad(sum(g.square().sum() for g in grads), leaves)])
    close(*results, 0.1)
