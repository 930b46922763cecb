"""Kernels for GPUs, compiled for the host, with every thread of their blocks: held to float64, and to the CPU's bits."""

from __future__ import annotations

import functools
import re
from types import ModuleType

import cupy
import numpy as np
import pytest

import tdt
from tdt._kernels import (
    _cuda,
    capture_gpu,
    chains_gpu,
    conv_gpu,
    embedding_gpu,
    fold_gpu,
    gpu_lookup,
    norm_gpu,
    norm_last_gpu,
    pool_gpu,
)
from tdt._kernels.formula_gpu import Elementwise
from tdt._ops.nn.attention import _attention
from tdt._ops.nn.conv import _bias_grad
from tdt.nn import functional as F

RANDOM = np.random.default_rng(0)
EPS = 2.0**-23


pytestmark = pytest.mark.usefixtures("all_threads")


def numbers(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape)


def gradients(function, arrays: list[np.ndarray], device: str, dtype: tdt.dtype) -> list[np.ndarray]:
    """The result of a function of tensors and the gradients of all of them, in float64."""
    leaves = [tdt.tensor(a).to(device, dtype).requires_grad_() for a in arrays]
    out = function(*leaves)
    slope = tdt.tensor(np.cos(np.arange(out.numel())).reshape(out.shape)).to(device, dtype)
    (out * slope).sum().backward()
    return [t.detach().cpu().double().numpy() for t in (out, *(leaf.grad for leaf in leaves))]


def held_to_float64(function, *arrays: np.ndarray, within: float = 40 * EPS) -> None:
    """Fails unless results and gradients of float32 on the GPU are near those of float64 on the CPU."""
    expected = gradients(function, list(arrays), "cpu", tdt.float64)
    for got, want in zip(gradients(function, list(arrays), "cuda", tdt.float32), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=within, atol=within * max(1.0, np.abs(want).max(initial=0)))


def launched(counted, call) -> list[str]:
    with counted() as found:
        call()
    return [name for kind, name, _ in found if kind == "launches"]


@pytest.mark.parametrize("shape", [(3, 1), (5, 7), (2, 32), (3, 33), (2, 3, 257), (1, 1500), (70, 40)])
def test_layer_norm(shape: tuple, counted):
    x, w, b = numbers(*shape) + 3, numbers(shape[-1]), numbers(shape[-1])
    held_to_float64(lambda x, w, b: F.layer_norm(x, shape[-1:], w, b), x, w, b)
    held_to_float64(lambda x, w: F.rms_norm(x, shape[-1:], w, eps=1e-5), x, w)
    on_gpu = tdt.tensor(x, device="cuda").float()
    assert launched(counted, lambda: F.layer_norm(on_gpu, shape[-1:])) == ["layer_norm"]


REDUCTIONS = {
    "sum": (tdt.sum, np.sum, "sum"), "mean": (tdt.mean, np.mean, "sum"), "amax": (tdt.amax, np.max, "extreme"),
    "amin": (tdt.amin, np.min, "extreme"),
    "var": (tdt.var, functools.partial(np.var, ddof=1), "variance"),
    "std": (functools.partial(tdt.std, correction=0), np.std, "variance"),
    "norm": (lambda x, dim: tdt.linalg.vector_norm(x, 2, dim), lambda x, axis: np.sqrt((x * x).sum(axis)), "sum"),
    "norm 1": (lambda x, dim: tdt.linalg.vector_norm(x, 1, dim), lambda x, axis: np.abs(x).sum(axis), "sum"),
    "largest size": (lambda x, dim: tdt.linalg.vector_norm(x, np.inf, dim), lambda x, axis: np.abs(x).max(axis), "extreme"),
}  # fmt: skip


LONG = fold_gpu.PART + 70  # elements that several blocks share


@pytest.mark.parametrize(("shape", "dim"), [
    ((3,), (0,)), ((5, 7), 1), ((4, 70), -1), ((70, 5), 0), ((2, 3, 57), (0, 2)), ((2, 41, 33), 1), ((3, 4, 5, 2), (1, 3)),
    ((1, LONG), 1), ((LONG, 2), 0),
])  # fmt: skip
def test_reductions(shape: tuple, dim: int | tuple, counted):
    long = LONG in shape
    for dtype in (tdt.float32,) if long else (tdt.float32, tdt.float64, tdt.bfloat16):
        x = tdt.tensor(numbers(*shape) * 2 + 1).to(dtype)
        for turned in (x,) if x.ndim == 1 or long else (x, x.mT.contiguous().mT):
            for name, (function, exact, kernel) in REDUCTIONS.items():
                if name not in ("sum", "amax", "var") if long else dtype is tdt.bfloat16 and name != "sum":
                    continue
                with counted() as found:
                    result = function(turned.cuda(), dim)
                assert [each for kind, each, _ in found if kind == "launches"] == [f"fold_{kernel}"]
                want = exact(x.double().numpy().astype(np.longdouble), axis=dim)
                within = tdt.finfo(dtype).eps * (8 if dtype is tdt.float64 else 1)  # others are rounded once
                np.testing.assert_allclose(result.cpu().double().numpy(), want, rtol=within, atol=within, err_msg=name)


def test_reductions_of_nan_infinities_and_one_element():
    x = tdt.tensor([[np.nan, 1.0, 2.0], [np.inf, -np.inf, 0.0], [-0.0, -0.0, -0.0], [np.inf, 1.0, 2.0]])
    for function, _, _ in REDUCTIONS.values():
        for part in (x, x[:, :1], x.double()):
            here, there = function(part, 1), function(part.cuda(), 1).cpu()
            np.testing.assert_array_equal(there.numpy(), here.numpy())
            np.testing.assert_array_equal(np.signbit(there.numpy()), np.signbit(here.numpy()))


PAIR_LOSSES = {
    "mse_loss": F.mse_loss, "l1_loss": F.l1_loss, "bce": F.binary_cross_entropy_with_logits, "soft margin": F.soft_margin_loss,
}  # fmt: skip


@pytest.mark.parametrize("name", PAIR_LOSSES)
def test_losses_of_pairs_take_one_launch_each_way(name: str, counted):
    loss = PAIR_LOSSES[name]
    x, y = numbers(30, 5), np.abs(numbers(30, 5))
    for reduction in ("mean", "sum", "none"):
        held_to_float64(lambda x: loss(x, tdt.tensor(y).to(x.device, x.dtype), reduction=reduction), x)
    here = tdt.tensor(x).float().cuda().requires_grad_()
    out, slope = loss(here, tdt.tensor(y).float().cuda()), tdt.ones(1, device="cuda")[0]
    names = launched(counted, lambda: loss(here, here.detach()))
    assert names == ["fold_sum"]
    assert len(launched(counted, lambda: tdt.autograd.grad(out, here, slope))) == 1


@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 5), (3, 2, 4, 5), (40, 2, 6, 6), (2, 33, 3, 3)])
@pytest.mark.parametrize("last", [False, True])
def test_batch_norm_and_its_running_statistics(shape: tuple, last: bool, counted):
    if last and len(shape) != 4:
        return
    x, w, b = numbers(*shape) * 2 + 1, numbers(shape[1]), numbers(shape[1])

    def in_format(x):
        return x.contiguous(memory_format=tdt.channels_last) if last else x

    def norm(x, w, b):
        return F.batch_norm(in_format(x), None, None, w, b, training=True)

    held_to_float64(norm, x, w, b, within=100 * EPS)
    running = {}
    for device, dtype in (("cpu", tdt.float64), ("cuda", tdt.float32)):
        mean, var = (tdt.full((shape[1],), v, device=device, dtype=dtype) for v in (0.5, 2.0))
        F.batch_norm(in_format(tdt.tensor(x).to(device, dtype)), mean, var, training=True, momentum=0.3)
        running[device] = [mean.cpu().double().numpy(), var.cpu().double().numpy()]
    np.testing.assert_allclose(running["cuda"], running["cpu"], rtol=20 * EPS, atol=20 * EPS)
    on_gpu, mean = in_format(tdt.tensor(x, device="cuda").float()), tdt.zeros(shape[1], device="cuda")
    calls = launched(counted, lambda: F.batch_norm(on_gpu, mean, mean.clone(), training=True))
    assert calls == ["elementwise_copy", "batch_norm"]
    assert F.batch_norm(on_gpu, mean, mean + 1).stride() == on_gpu.stride()
    assert F.gelu(on_gpu.double()).stride() == on_gpu.stride()  # which CuPy computes


@pytest.mark.parametrize("insert", [1, 2, 3, (2, 4)])
def test_batch_norm_over_inserted_dimensions(insert: int | tuple, counted):
    """These have a step of 0, in the images as in the gradient."""
    x, places = numbers(4, 3, 8), (insert,) if isinstance(insert, int) else insert

    def inserted(x):
        for place in places:
            x = x.unsqueeze(place)
        return x

    held_to_float64(lambda x: F.batch_norm(inserted(x), None, None, training=True), x, within=100 * EPS)
    shape = tuple(inserted(tdt.ones(4, 3, 8)).shape)
    norm = functools.partial(F.batch_norm, running_mean=None, running_var=None, training=True)
    held_to_float64(lambda x: norm(x).squeeze(places), x.reshape(shape), within=100 * EPS)
    on_gpu = tdt.tensor(x, device="cuda").float()
    assert "batch_norm" in launched(counted, lambda: norm(inserted(on_gpu)))


def many_values() -> np.ndarray:
    """Channels of so many values that two blocks share each."""
    x = numbers(3, 5, 70, 47) * 2 + 300
    assert norm_gpu.PART < x.size // 5 < 2 * norm_gpu.PART
    return x


def test_batch_norm_of_long_channels(counted):
    x, w, b = many_values() - 299, numbers(5), numbers(5)
    held_to_float64(lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), x, w, b, within=100 * EPS)
    layers = []
    for device, dtype in (("cpu", tdt.float64), ("cuda", tdt.float32)):
        layers.append(tdt.nn.BatchNorm2d(5, momentum=0.3).to(device, dtype))
        layers[-1](tdt.tensor(x).to(device, dtype))
    for right, found in zip(layers[0].buffers(), layers[1].buffers(), strict=True):
        np.testing.assert_allclose(found.cpu().double().numpy(), right.double().numpy(), rtol=20 * EPS, atol=20 * EPS)
    on_gpu = tdt.tensor(x).cuda().float().requires_grad_()
    with counted() as found:
        out = layers[1](on_gpu)
        out.backward(out.detach())
    names = [name for kind, name, _ in found if kind == "launches"]
    assert names == ["batch_statistics", "batch_normalised", "batch_norm_sums", "batch_norm_slopes"]


def test_long_channels_have_the_same_bits_however_their_blocks_are_launched(monkeypatch, counted):
    x = tdt.tensor(many_values()).float().cuda()
    slope = tdt.cos(tdt.arange(x.numel(), device="cuda")).reshape(x.shape)

    def bits(format: tdt.memory_format) -> list[np.ndarray]:
        leaf = x.detach().contiguous(memory_format=format).requires_grad_()
        out = F.batch_norm(leaf, None, None, training=True)
        out.backward(slope.contiguous(memory_format=format))
        return [out.detach().cpu().numpy(), leaf.grad.cpu().numpy()]

    whole = bits(tdt.contiguous_format)
    assert all(map(np.array_equal, whole, bits(tdt.channels_last)))
    monkeypatch.setattr(norm_last_gpu, "FEWEST", 5)
    with counted() as found:
        assert all(map(np.array_equal, whole, bits(tdt.channels_last)))
    names = [name for _, name, _ in found if name.startswith("batch")]
    assert names == [f"batch_{name}_last" for name in ("statistics", "normalised", "norm_sums", "norm_slopes")]
    monkeypatch.setattr(capture_gpu, "TICKETS", 2)
    assert all(map(np.array_equal, whole, bits(tdt.contiguous_format)))


def test_the_mean_of_long_channels_may_be_far_from_zero():
    x = many_values()
    on_gpu = tdt.tensor(x).cuda().float()
    _, mean, rstd, var = norm_gpu.batch_norm(on_gpu._a, eps=1e-5)
    exact = x.astype(np.float32).astype(np.float64)
    np.testing.assert_allclose(mean.get(), exact.mean((0, 2, 3)), rtol=2 * EPS)
    np.testing.assert_allclose(var.get(), exact.var((0, 2, 3), ddof=1), rtol=20 * EPS)
    np.testing.assert_allclose(rstd.get(), 1 / np.sqrt(exact.var((0, 2, 3)) + 1e-5), rtol=20 * EPS)


@pytest.mark.parametrize("shape", [(3, 4, 5), (3, 5, 70, 47), (2, 3, 4, 5, 6)])
@pytest.mark.parametrize("dtype", [tdt.float32, tdt.float64, tdt.float16, tdt.bfloat16])
def test_the_gradient_of_a_convolutions_bias_is_summed_in_one_launch(shape: tuple, dtype: tdt.dtype, counted):
    g = tdt.tensor(numbers(*shape)).to(dtype)
    exact = g.double().numpy().sum((0, *range(2, g.ndim)))
    for each in (g, g.movedim(1, -1).contiguous().movedim(-1, 1))[: 1 if g.ndim == 3 else 2]:  # lines are contiguous
        with counted() as found:
            sums = _bias_grad(cupy, each.cuda()._a)
        assert [name for kind, name, _ in found if kind == "launches"] == ["channel_sums"]
        assert sums.dtype == (np.float64 if dtype is tdt.float64 else np.float32)
        np.testing.assert_allclose(sums.get(), exact, rtol=0, atol=1e-5 * np.sqrt(g.numel()))


@pytest.mark.parametrize("shape", [(1, 2), (5, 3), (4, 40), (3, 5, 2), (2, 1100)])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy(shape: tuple, reduction: str):
    x, weight = numbers(*shape) * 4, np.abs(numbers(shape[1])) + 0.1
    target = RANDOM.integers(0, shape[1], (shape[0], *shape[2:]))
    target.flat[-1] = -100 if target.size > 1 else target.flat[-1]
    for smoothing in (0.0, 0.2):
        for weights in (None, weight):

            def loss(x, weights=weights, smoothing=smoothing, function=F.cross_entropy):
                w = None if weights is None else tdt.tensor(weights).to(x.device, x.dtype)
                how = {"reduction": reduction} | ({"label_smoothing": smoothing} if smoothing else {})
                return function(x, tdt.tensor(target).to(x.device), w, **how)

            held_to_float64(loss, x)
            if not smoothing:
                held_to_float64(functools.partial(loss, function=F.nll_loss), x)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("lengths", "widths"), [
    ((1, 1), (4, 6)), ((5, 5), (4, 6)), ((7, 40), (4, 6)), ((70, 131), (4, 20)), ((131, 70), (20, 4)), ((9, 65), (131, 135)),
])  # fmt: skip
def test_attention(causal: bool, lengths: tuple, widths: tuple):
    q, k, v = numbers(2, lengths[0], widths[0]), numbers(2, lengths[1], widths[0]), numbers(2, lengths[1], widths[1])

    def attention(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    held_to_float64(attention, q, k, v, within=100 * EPS)
    exact, there = (gradients(attention, [q, k, v], device, tdt.float64) for device in ("cpu", "cuda"))
    for here, gpu in zip(exact, there, strict=True):
        np.testing.assert_allclose(gpu, here, rtol=1e-12, atol=1e-13)


def heads(x: tdt.Tensor) -> tuple:
    """Queries, keys and values (N, H, L, E) in one (N, L, 3 H E), as most models have them."""
    return tuple(part.unflatten(2, (3, -1)).transpose(1, 2) for part in x.split(x.shape[2] // 3, 2))


@pytest.mark.parametrize("dtype", [tdt.float32, tdt.float16, tdt.bfloat16])
def test_attention_reads_heads_where_they_lie_in_one_launch_each_way(dtype: tdt.dtype, counted):
    x, results = tdt.tensor(numbers(2, 7, 45)).to(dtype), []
    for device in ("cpu", "cuda"):
        leaf = x.clone().to(device).requires_grad_()
        with counted() as found:
            parts = heads(leaf)
            out = F.scaled_dot_product_attention(*parts, is_causal=True)
            there = [name for _, name, _ in found]
            grads = tdt.autograd.grad(out, parts, out.detach())
        assert there == (["attention"] if device == "cuda" else [])
        assert [name for _, name, _ in found][1:] == (["attention_vjp"] if device == "cuda" else [])
        results.append([(t.detach().cpu(), t.stride()) for t in (out, *grads)])
    within = (40 if dtype is tdt.float32 else 4) * tdt.finfo(dtype).eps
    for (here, stride), (there, stride_there) in zip(*results, strict=True):
        assert stride == stride_there
        tdt.testing.assert_close(there, here, rtol=within, atol=within)


MASKS = {
    "bools": lambda: tdt.tensor(RANDOM.random((70, 33)) < 0.6),
    "a row of bools": lambda: tdt.tensor(RANDOM.random((3, 1, 1, 33)) < 0.6),
    "numbers": lambda: tdt.tensor(numbers(2, 70, 33)), "nothing to see": lambda: tdt.arange(70)[:, None].expand(70, 33) > 3,
    "infinities": lambda: tdt.where(tdt.tensor(RANDOM.random((70, 33)) < 0.6), 0.0, -np.inf),
}  # fmt: skip


@pytest.mark.parametrize("name", MASKS)
def test_attention_with_a_mask_and_dropped_weights(name: str, counted):
    mask, arrays = MASKS[name](), [numbers(3, 2, 70, 5), numbers(3, 2, 33, 5), numbers(3, 2, 33, 6)]
    keep = tdt.tensor(RANDOM.random((3, 2, 70, 33)) < 0.7)

    def attention(q, k, v, keep=None):
        here = mask.to(q.device, mask.dtype if mask.dtype is tdt.bool else q.dtype)
        remaining = None if keep is None else keep.to(q.device)
        return _attention(q, k, v, here, remaining, causal=False, scale=0.4, dropped=0.0 if remaining is None else 0.3)

    for function in (attention, functools.partial(attention, keep=keep)):
        held_to_float64(function, *arrays, within=100 * EPS)
        exact, there = (gradients(function, arrays, device, tdt.float64) for device in ("cpu", "cuda"))
        for here, gpu in zip(exact, there, strict=True):
            np.testing.assert_allclose(gpu, here, rtol=1e-12, atol=1e-13)
    on_gpu = [tdt.tensor(a, device="cuda").half() for a in arrays]
    there = (mask if mask.dtype is tdt.bool else mask.half()).cuda().expand(3, 2, 70, 33)
    names = launched(counted, lambda: F.scaled_dot_product_attention(*on_gpu, there))
    assert [each for each in names if each != "copy"] == ["attention"]


def test_a_mask_that_requires_a_gradient():
    held_to_float64(lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, mask), numbers(2, 7, 4), numbers(2, 9, 4),
                    numbers(2, 9, 4), numbers(7, 9), within=100 * EPS)  # fmt: skip


def test_attention_with_few_or_many_leading_sizes_and_infinite_scores():
    for shape in ((5, 4), (3, 5, 4), (2, 1, 3, 5, 4)):
        held_to_float64(F.scaled_dot_product_attention, *(numbers(*shape) for _ in range(3)), within=100 * EPS)
    x = tdt.tensor(numbers(2, 70, 4)).float()
    x[0, 3, 1], x[1, 5] = np.nan, -np.inf
    outs = [F.scaled_dot_product_attention(x.to(device), x.abs().to(device), x.to(device).nan_to_num(0, 1, -1)).cpu()
            for device in ("cpu", "cuda")]  # fmt: skip
    tdt.testing.assert_close(outs[1], outs[0], equal_nan=True)


def test_a_layer_of_batch_norm_counts_its_batches_in_its_own_launch(counted):
    layer, x = tdt.nn.BatchNorm2d(3).cuda(), tdt.randn(2, 3, 4, 4, device="cuda")
    tracked = layer.num_batches_tracked
    version = tracked._version
    assert launched(counted, lambda: layer(x)) == ["batch_norm"]
    assert launched(counted, lambda: layer(x.half().float())) == ["elementwise_copy", "elementwise_copy", "batch_norm"]
    last = x.to(memory_format=tdt.channels_last)
    assert launched(counted, lambda: layer(last)) == ["batch_norm"]
    assert (tracked.item(), tracked._version) == (3, version + 3)
    layer.momentum = None
    layer(x)
    assert tracked.item() == 4
    layer.eval()(x)
    assert layer.num_batches_tracked.item() == 4
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        layer.train()(x[:1, :, :1, :1])


PLACED = {
    "border": lambda x: F.pad(x, (1, 2, 0, 3), value=7),
    "border and crop": lambda x: F.pad(x, (-1, 2, 3, -2), value=-2),
    "border of channels": lambda x: F.pad(x, (0, 0, 0, 0, 2, 1)),
    "steps": lambda x: x[1:, :, ::2, 1:4:3], "an entry": lambda x: x[1, ..., -2], "a row": lambda x: x[-1][2],
    "none": lambda x: x[:, None, :2], "one element": lambda x: x[0][0][0][0],
}  # fmt: skip


@pytest.mark.parametrize("name", PLACED)
@pytest.mark.parametrize("dtype", [tdt.float64, tdt.float32, tdt.bfloat16])
@pytest.mark.parametrize("last", [False, True])
def test_borders_and_the_gradients_of_slices(name: str, dtype: tdt.dtype, last: bool, counted):
    values, results = tdt.tensor(numbers(2, 3, 6, 7)).to(dtype), []
    for device in ("cpu", "cuda"):
        x = values.to(device).contiguous(memory_format=tdt.channels_last if last else tdt.contiguous_format)
        leaf = x.requires_grad_()
        out = PLACED[name](leaf)
        (grad,) = tdt.autograd.grad(out, leaf, out * 0 + out.detach() * 3)
        results.append([out.detach().cpu(), out.stride(), grad.cpu(), grad.stride()])
    assert results[0][1] == results[1][1]
    np.testing.assert_array_equal(*(each[0].double().numpy() for each in results))
    np.testing.assert_array_equal(*(each[2].double().numpy() for each in results))


@pytest.mark.parametrize("dtype", [tdt.float64, tdt.float16, tdt.bool])
def test_up_to_eight_arrays_are_joined_by_one_launch(dtype: tdt.dtype, counted):
    whole = tdt.tensor(numbers(4, 5, 8)).to(dtype)
    for count, dim in ((2, 0), (3, 1), (8, 2), (9, 2)):
        parts = [whole.transpose(0, 2).transpose(0, dim)[: k % 3 + 1].transpose(0, dim) for k in range(count)]
        there = [part.cuda().transpose(0, 1).contiguous().transpose(0, 1) for part in parts]
        assert tdt.equal(tdt.cat(there, dim).cpu(), tdt.cat(parts, dim))
        names = launched(counted, lambda there=there, dim=dim: tdt.cat(there, dim))
        assert names == (["join"] if count < 9 else ["concatenate"])
        assert tdt.equal(tdt.stack(there[:1] * 2, -1).cpu(), tdt.stack(parts[:1] * 2, -1))


def test_borders_and_the_gradients_of_slices_take_one_launch_each(counted):
    x = tdt.randn(2, 3, 6, 7, device="cuda").requires_grad_()
    out = x[:, :, ::2, 1]
    slope = tdt.ones_like(out)
    assert launched(counted, lambda: F.pad(x.detach(), (1, 1, 1, 1))) == ["place"]
    assert launched(counted, lambda: tdt.autograd.grad(out, x, slope)) == ["place"]
    assert F.pad(tdt.tensor([True, False], device="cuda"), (1, 1), value=True).tolist() == [True, True, False, True]
    integers = tdt.arange(4, device="cuda", dtype=tdt.int16).reshape(2, 2)
    assert F.pad(integers, (1, 0), value=-5).tolist() == [[-5, 0, 1], [-5, 2, 3]]


MEANS = {"2": {"kernel_size": 2}, "whole": {"kernel_size": (7, 8)}, "overlapping": {"kernel_size": 3, "stride": 2, "padding": 1},
         "without padding": {"kernel_size": (3, 4), "stride": (1, 3), "padding": (1, 2), "count_include_pad": False},
         "ceil": {"kernel_size": 3, "stride": 2, "ceil_mode": True}, "divisor": {"kernel_size": (1, 2), "divisor_override": 5},
         "gaps": {"kernel_size": 1, "stride": 3}}  # fmt: skip


@pytest.mark.parametrize("how", MEANS)
@pytest.mark.parametrize("last", [False, True])
def test_mean_pooling(how: str, last: bool, counted):
    def pool(x):
        return F.avg_pool2d(x.contiguous(memory_format=tdt.channels_last) if last else x, **MEANS[how])

    held_to_float64(pool, numbers(2, 3, 7, 8))
    x = tdt.randn(2, 3, 7, 8, device="cuda").requires_grad_()
    (name,) = launched(counted, lambda: F.avg_pool2d(x, **MEANS[how]))
    out = F.avg_pool2d(x, **MEANS[how])
    slope = tdt.ones_like(out)
    assert launched(counted, lambda: tdt.autograd.grad(out, x, slope)) == ["mean_pool_vjp"]
    assert name == ("mean_pool" if how == "whole" else "mean_pool_small")


WINDOWS = {"2": {"kernel_size": 2}, "overlapping": {"kernel_size": 3, "stride": 2, "padding": 1},
           "dilated": {"kernel_size": 2, "dilation": 2, "stride": 1}, "ceil": {"kernel_size": 3, "ceil_mode": True}}  # fmt: skip


@pytest.mark.parametrize("how", WINDOWS)
@pytest.mark.parametrize("last", [False, True])
def test_max_pooling(how: str, last: bool, counted):
    x = RANDOM.permutation(2 * 3 * 7 * 8).reshape(2, 3, 7, 8).astype(float)
    x[0, 0, 0, 0] = np.inf

    def pool(x):
        return F.max_pool2d(x.contiguous(memory_format=tdt.channels_last) if last else x, **WINDOWS[how])

    for got, want in zip(
        gradients(pool, [x], "cuda", tdt.float32), gradients(pool, [x], "cpu", tdt.float32), strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=4 * EPS, atol=4 * EPS)
    leaf = tdt.tensor(x, device="cuda").requires_grad_()
    with counted() as calls:
        tdt.autograd.grad(out := pool(leaf), leaf, tdt.ones_like(out))
    assert [name for _, name, _ in calls].count("max_pool_vjp" + "_apart" * (how in ("2", "ceil"))) == 1
    x[1, 1, 3, 3] = np.nan
    results = [pool(tdt.tensor(x, device=device)).cpu().numpy() for device in ("cpu", "cuda")]
    np.testing.assert_array_equal(*results)


CONVOLUTIONS = {
    "3 x 3": ((2, 3, 6, 7), (5, 3, 3, 3), {"padding": 1}),
    "strided": ((2, 3, 9, 8), (4, 3, 3, 2), {"stride": (2, 3), "padding": (1, 0)}),
    "dilated groups": ((1, 4, 9, 9), (6, 2, 2, 3), {"groups": 2, "dilation": 2}),
    "depthwise": ((2, 5, 6, 6), (5, 1, 3, 3), {"groups": 5, "padding": 1}),
    "1 x 1": ((3, 70, 4, 5), (66, 70, 1, 1), {}),
    "eighteen channels": ((2, 20, 5, 6), (18, 20, 3, 2), {"padding": (0, 1)}),
    "many samples": ((9, 2, 12, 12), (3, 2, 5, 5), {"padding": 2}),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("last", [False, True])
def test_convolution(name: str, last: bool, counted):
    size, weight, how = CONVOLUTIONS[name]

    def conv(x, w, b):
        return F.conv2d(x.contiguous(memory_format=tdt.channels_last) if last else x, w, b, **how)

    x, w, b = numbers(*size), numbers(*weight), numbers(weight[0])
    held_to_float64(conv, x, w, b, within=200 * EPS)
    on_gpu = [tdt.tensor(a, device="cuda").float() for a in (x, w, b)]
    assert launched(counted, lambda: F.conv2d(*on_gpu, **how)) == ["conv"]
    leaves = [tdt.tensor(a, device="cuda").float().requires_grad_() for a in (x, w)]
    out = conv(*leaves, None)
    both, slope = None, tdt.tensor(numbers(*out.shape), device="cuda").float()
    for required, kernels in (
        (leaves, ["conv_grads"]),
        (leaves[:1], ["conv_input_grad"]),
        (leaves[1:], ["conv_weight_grad"]),
    ):
        with counted() as found:
            grads = tdt.autograd.grad(out, required, slope, retain_graph=True)
        assert [name for _, name, _ in found if name.startswith("conv")] == kernels
        both = both or dict(zip(map(id, required), grads, strict=True))
        for leaf, grad in zip(required, grads, strict=True):
            assert tdt.equal(grad, both[id(leaf)])  # the same bits


@pytest.mark.parametrize("name", ["dilated groups", "many samples"])
def test_a_convolution_of_large_images_has_the_bits_of_one_with_short_numbers(name: str, monkeypatch):
    size, weight, how = CONVOLUTIONS[name]
    x, w, results = numbers(*size), numbers(*weight), []
    for most in (_cuda.MOST_INT, 0):
        monkeypatch.setattr(_cuda, "MOST_INT", most)
        results.append(gradients(lambda x, w: F.conv2d(x, w, **how), [x, w], "cuda", tdt.float32))
    for short, long in zip(*results, strict=True):
        np.testing.assert_array_equal(short, long)


COUNTED = {
    "max pooling": lambda x: F.max_pool2d(x, 3, 2, 1)[:, :, :2, :4] + F.max_pool2d(x, 2)[:, :, :2],
    "mean pooling": lambda x: F.avg_pool2d(x, 3, 2, 1) + F.avg_pool2d(x, 7)[:, :, :1, :1],
    "borders and slices": lambda x: F.pad(x[:, ::2], (1, 2, 0, 1), value=-1.0),
    "joined arrays": lambda x: tdt.cat([x, x[:, :2].transpose(2, 3).contiguous().transpose(2, 3), x * 2], 1),
    "rows of a table": lambda x: F.embedding(tdt.tensor([[1, 0], [2, 2]]).to(x.device), x.reshape(6, -1)),
}


@pytest.mark.parametrize("what", COUNTED)
def test_large_arrays_have_the_bits_of_those_that_are_counted_in_32_bits(what: str, monkeypatch, counted):
    x, results = numbers(2, 3, 7, 8), []
    for most in (_cuda.MOST_INT, 0):
        monkeypatch.setattr(_cuda, "MOST_INT", most)
        results.append(gradients(COUNTED[what], [x], "cuda", tdt.float32))
    for short, long in zip(*results, strict=True):
        np.testing.assert_array_equal(short, long)
    held_to_float64(COUNTED[what], x)


def test_formulas_of_large_arrays_have_the_bits_of_those_that_are_counted_in_32_bits(monkeypatch):
    x, y, results = cupy.asarray(numbers(4, 5, 6).astype("f")), cupy.asarray(numbers(5, 1).astype("f")), []
    for most in (_cuda.MOST_INT, 0):
        monkeypatch.setattr(_cuda, "MOST_INT", most)
        formula = Elementwise("scaled", lambda xp, x, y: xp.exp(x) * y)
        results.append(formula((x.transpose(0, 2, 1)[:, ::2].transpose(0, 2, 1), y), {}).get())
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize(("shape", "dim"), [((5, 10), 1), ((3, 100), -1), ((4, 7, 6), 1), ((2, 1100), 1)])
@pytest.mark.parametrize("function", [F.softmax, F.log_softmax])
def test_softmax(function, shape: tuple, dim: int, counted):
    held_to_float64(lambda x: function(x, dim), numbers(*shape))
    x = tdt.randn(*shape, device="cuda").requires_grad_()
    (name,) = launched(counted, lambda: function(x, dim))
    assert name == ("softmax" if shape[-1] >= 100 else "softmax_apart")
    g = tdt.ones_like(x)
    out = function(x, dim)
    assert launched(counted, lambda: tdt.autograd.grad(out, x, g, retain_graph=True)) == [f"{name}_vjp"]
    odd = np.tile(np.array([[1, np.inf, 2], [-np.inf] * 3, [np.nan, 1, 2]], "f"), (1, 20 if name == "softmax" else 1))
    here, there = (function(tdt.tensor(odd, device=device), 1).cpu().numpy() for device in ("cpu", "cuda"))
    np.testing.assert_array_equal(here, there)


@pytest.mark.parametrize("dtype", ["f", "d", "e"])
def test_kernels_that_read_ahead_have_the_bits_of_those_that_do_not(dtype: str, monkeypatch):
    (x, y), results = (cupy.asarray(numbers(3, 700).astype(dtype)) for _ in range(2)), []
    for large in (chains_gpu.LARGE, 1):
        monkeypatch.setattr(chains_gpu, "LARGE", large)
        formula = Elementwise("scaled", lambda xp, x, y: xp.maximum(x, 0) * y)
        results += [
            formula((x, y), {}).get(),
            formula((x[:, ::2], y[:, ::2]), {}).get(),
            formula((x, y), {}, x.copy()).get(),
        ]
    for plain, ahead in zip(results[:3], results[3:], strict=True):
        np.testing.assert_array_equal(plain, ahead)


def test_transposed_convolution_and_lines():
    held_to_float64(lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2, padding=1, output_padding=1, groups=2),
                    numbers(2, 4, 5, 4), numbers(4, 3, 3, 3), numbers(6), within=200 * EPS)  # fmt: skip
    held_to_float64(
        lambda x, w: F.conv1d(x, w, stride=2, padding=2), numbers(2, 3, 11), numbers(4, 3, 4), within=200 * EPS
    )


@pytest.mark.parametrize("dtype", [tdt.float64, tdt.float32, tdt.float16, tdt.uint8])
@pytest.mark.parametrize("places", [tdt.int64, tdt.int32])
def test_a_lookup_takes_one_launch(dtype: tdt.dtype, places: tdt.dtype, counted):
    table, indices = (
        tdt.tensor(numbers(9, 35) * 50).abs().to(dtype),
        tdt.tensor(RANDOM.integers(0, 9, (3, 50))).to(places),
    )
    table_there, indices_there = table.cuda(), indices.cuda().t()
    F.embedding(indices_there, table_there)  # the first call makes the flag of wrong indices
    names = launched(counted, lambda: F.embedding(indices_there, table_there))
    assert names[-1] == "embedding" and len(names) == 2  # and the indices in a row
    assert launched(counted, lambda: F.embedding(indices.long().cuda(), table_there)) == ["embedding"]
    assert tdt.equal(F.embedding(indices_there, table_there).cpu(), F.embedding(indices.t(), table))
    wrong = tdt.tensor([1, -3, 9], device="cuda")
    assert F.embedding(wrong, table_there).shape == (3, 35)
    with pytest.raises(IndexError, match="an index is -3, but the table has 9 rows"):
        tdt.cuda.synchronize()


@pytest.mark.parametrize("padding", [None, 2])
@pytest.mark.parametrize("large", [False, True])
def test_the_gradient_of_an_embedding_adds_in_the_order_of_the_indices(padding, large, monkeypatch, counted):
    indices = np.sort(RANDOM.integers(0, 7, (3, 500)), 1)
    if large:
        monkeypatch.setattr(embedding_gpu, "PIECE", 4)
        here, there = (
            tdt.tensor(numbers(9, 3), dtype=tdt.float32).to(device).requires_grad_() for device in ("cpu", "cuda")
        )
        total = F.embedding(tdt.tensor(indices, device="cuda"), there).sum()
        assert launched(counted, total.backward)[-3:] == ["clear", "mark_ends", "embedding_grad"]
        F.embedding(tdt.tensor(indices), here).sum().backward()
        assert tdt.equal(there.grad.cpu(), here.grad)
    held_to_float64(lambda w: F.embedding(tdt.tensor(indices, device=w.device), w, padding_idx=padding), numbers(9, 35),
                    within=400 * EPS)  # fmt: skip


def test_tables_of_any_size_have_the_kernel_where_few_of_their_rows_occur():
    how = {"padding_idx": None, "by_frequency": False}
    y, indices = np.broadcast_to(np.float32(0), (32_000, 1)), np.broadcast_to(0, 32_000)
    assert gpu_lookup([y, indices], {"rows": 50_000, **how}) and gpu_lookup([y, indices], {"rows": 10**9, **how})
    y, indices = np.broadcast_to(np.float32(0), (64_000, 1)), np.broadcast_to(0, 64_000)
    assert gpu_lookup([y, indices], {"rows": 9000, **how}) and not gpu_lookup([y, indices], {"rows": 50_000, **how})


@pytest.mark.parametrize("dtype, number", [(tdt.float32, 1e39), (tdt.float16, 1e6), (tdt.bfloat16, -1e39)])
def test_numbers_that_the_type_cannot_hold_fill_nothing(dtype: tdt.dtype, number: float):
    x = tdt.ones(3, dtype=dtype, device="cuda")
    for fill in (x.masked_fill, x.masked_fill_):
        fill(x > 2, 1.5)
        with pytest.raises(RuntimeError, match="value cannot be converted to type .* without overflow"):
            fill(x > 0, number)


def test_integers_are_wrapped_to_the_type_and_have_negative_powers():
    small, signed = tdt.tensor([1, 2], dtype=tdt.uint8), tdt.tensor([3, -1, -2])
    for function in (
        lambda x, y: x * -1,
        lambda x, y: 300 + x,
        lambda x, y: (-1) ** x,
        lambda x, y: (-1) ** y,
        lambda x, y: 2**y,
    ):
        assert tdt.equal(function(small.cuda(), signed.cuda()).cpu(), function(small, signed))


def test_dropout_draws_the_words_of_philox(monkeypatch, counted):
    x = tdt.ones(1001, device="cuda")
    turned = tdt.tensor(numbers(3, 4, 5, 7), device="cuda").permute(2, 0, 3, 1)
    assert launched(counted, lambda: F.dropout(turned, 0.3)) == ["dropout"]
    results = []
    for kernels in (True, False):
        tdt.backends.kernels(kernels)
        try:
            tdt.cuda.manual_seed(2**40 + 3)
            results.append([F.dropout(x, 0.3).cpu().numpy(), tdt.rand(7, device="cuda").cpu().numpy(),
                            F.dropout(x.half(), 0.5).cpu().numpy(), F.dropout(turned, 0.3).cpu().numpy()])  # fmt: skip
        finally:
            tdt.backends.kernels(True)
    for fast, portable in zip(*results, strict=True):
        np.testing.assert_array_equal(fast, portable)


OPTIMIZERS = {
    "SGD": {}, "SGD with momentum": {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}, "Adam": {},
    "Adam with AMSGrad": {"amsgrad": True, "weight_decay": 0.1}, "AdamW": {}, "RMSprop": {"centered": True, "momentum": 0.5},
    "Adagrad": {}, "Adamax": {}, "Adadelta": {}, "NAdam": {}, "RAdam": {}, "ASGD": {},
}  # fmt: skip


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("dtype", [tdt.float32, tdt.float64, tdt.bfloat16])
def test_an_optimizer_has_the_bits_of_the_cpus_formula_in_one_launch(name: str, dtype: tdt.dtype, counted):
    sizes = [(3, 4), (7,), (5000,), (), (2, 3, 4)]
    start, slopes = [numbers(*size) for size in sizes], [[numbers(*size) for size in sizes] for _ in range(4)]
    values = []
    for device in ("cpu", "cuda"):
        params = [tdt.nn.Parameter(tdt.tensor(a).to(device, dtype)) for a in start]
        optimizer = getattr(tdt.optim, name.split()[0])(params, lr=0.01, **OPTIMIZERS[name])
        schedule = tdt.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        with counted() as found:
            for step in slopes:
                for p, g in zip(params, step, strict=True):
                    p.grad = tdt.tensor(g).to(device, dtype)
                found.clear()
                optimizer.step()
                schedule.step()
        values.append([p.detach().cpu().double().numpy() for p in params])
        assert [name for _, name, _ in found] == (["optimizer_step"] if device == "cuda" else [])
    assert all(
        "_flat" not in vars(piece) for plan in vars(optimizer)["_plans"].values() for piece in plan.pieces
    )  # no buffers
    for here, there in zip(*values, strict=True):
        np.testing.assert_array_equal(there, here)


def test_the_norm_of_more_gradients_than_a_launch_holds_and_clipping(counted):
    params = [tdt.nn.Parameter(tdt.zeros(n, device="cuda")) for n in (1, 40, 4097, 3) * 30]
    exact = 0.0
    for p in params:
        g = numbers(*p.shape).astype("f")
        p.grad, exact = tdt.tensor(g, device="cuda"), exact + (g.astype("d") ** 2).sum()
    before = [p.grad.cpu().numpy() for p in params]
    tdt.nn.utils.clip_grad_norm_(params, 1e9)  # the first call in a stream makes its counters
    with counted() as found:
        total = tdt.nn.utils.clip_grad_norm_(params, 2.0)
    assert [name for _, name, _ in found] == ["squares", "squares", "clip", "clip"]
    assert abs(total.item() - exact**0.5) <= EPS * exact**0.5
    factor = np.float32(2.0) / (np.float32(total.item()) + np.float32(1e-6))
    for p, g in zip(params, before, strict=True):
        np.testing.assert_array_equal(p.grad.cpu().numpy(), g * factor)
    after = tdt.nn.utils.clip_grad_norm_(params, 1e9).item()
    assert after == pytest.approx(2.0, rel=1e-6)


@pytest.mark.parametrize("wrong", [None, np.inf, np.nan])
def test_unscaling_finds_gradients_that_are_not_finite(wrong, counted):
    p = tdt.nn.Parameter(tdt.ones(5000, device="cuda"))
    optimizer, scaler = tdt.optim.SGD([p], lr=1.0), tdt.amp.GradScaler("cuda", init_scale=8.0)
    scaler.scale(p.sum()).backward()
    if wrong is not None:
        p.grad[4999] = wrong
    with counted() as found:
        scaler.step(optimizer)
    assert [name for kind, name, _ in found if kind == "launches"][:2] == ["fill", "unscale"]
    assert p.detach().cpu().tolist()[0] == (0.0 if wrong is None else 1.0)


FORMULAS = {
    "gelu": lambda x: F.gelu(x), "silu": lambda x: F.silu(x), "tanh": lambda x: x.tanh(), "sin": lambda x: (x * 1e4).sin(),
    "pow": lambda x: x.abs() ** 1.7, "lgamma": lambda x: tdt.lgamma(x), "fmod": lambda x: tdt.fmod(x, 0.3),
    "across": lambda x: F.gelu(x.t()), "every second": lambda x: F.gelu(x[:, ::2]),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("dtype", [tdt.float32, tdt.float64, tdt.float16, tdt.bfloat16])
def test_a_generated_kernel_has_the_bits_and_the_strides_of_the_cpu(name: str, dtype: tdt.dtype):
    x = tdt.tensor(numbers(37, 50) * 20).to(dtype)
    x[0, :6] = tdt.tensor([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-40]).to(dtype)
    here, there = FORMULAS[name](x), FORMULAS[name](x.cuda())
    generated = dtype is not tdt.float64  # in which SciPy and CuPy compute some formulas
    assert there.dtype is here.dtype and (not generated or there.stride() == here.stride())
    within = 0 if generated else 1e-15
    np.testing.assert_allclose(there.cpu().double().numpy(), here.double().numpy(), rtol=within, atol=within)


@pytest.mark.parametrize("dtype", [tdt.float32, tdt.float64], ids=str)
def test_another_number_compiles_no_other_kernel(dtype: tdt.dtype):
    values, compiled = numbers(3, 4), []
    functions = [lambda x, k: x * k, lambda x, k: k * x, lambda x, k: x / k, lambda x, k: k / x]
    if dtype is tdt.float32:  # CuPy has the powers of float64
        functions += [lambda x, k: x.abs() ** k, lambda x, k: k.__abs__() ** x, lambda x, k: x.masked_fill(x > 0, k)]
    for number in (0.3, 1.3, 2.3, -4.0):
        for function in functions:
            here, there = (
                gradients(lambda x, f=function, k=number: f(x, k), [values], device, dtype)
                for device in ("cpu", "cuda")
            )
            np.testing.assert_array_equal(there, here)
        compiled.append(_cuda.bare.cache_info().currsize)
    assert len({*compiled}) == 1, compiled


@pytest.mark.parametrize("alpha", [np.float32(0.5), np.float64(0.5), np.int64(2)], ids=repr)
def test_factors_of_numpys_types_are_numbers(alpha: np.generic):
    held_to_float64(lambda x, y: tdt.add(x, y, alpha=alpha) * tdt.sub(y, x, alpha=alpha), numbers(3, 4), numbers(3, 4))


BARRIER = r"""
extern "C" __global__ void some(float* x, long long count) {
    if ((long long)threadIdx.x < count) __syncthreads();
    x[threadIdx.x] = 1;
}
"""


def test_a_barrier_that_not_all_threads_reach_is_found():
    kernel, x = cupy.RawKernel(BARRIER, "some"), cupy.zeros(64, "f")
    kernel((1,), (64,), (x, 64))
    assert x.get().tolist() == [1.0] * 64
    with pytest.raises(RuntimeError, match="a barrier that not all threads"):
        kernel((1,), (64,), (x, 40))
    x[:] = 0
    kernel((2,), (64,), (x, 64))  # by threads of which some have not come back from that barrier
    assert x.get().tolist() == [1.0] * 64


@pytest.mark.parametrize("module", [conv_gpu, pool_gpu])
def test_of_a_source_of_several_kernels_one_is_compiled_at_a_time(module: ModuleType):
    assert len(module.SOURCES) > 3
    for name, source in module.SOURCES.items():
        assert re.findall(r"__global__ void (?:__launch_bounds__\(\d+\) )?(\w+)", source) == [name]
        assert all(f"static __device__ void {other}(" in source for other in module.SOURCES if other != name)


@pytest.mark.parametrize(("arguments", "message"), [
    ((np.zeros(64, "f"), 1), "an argument for float\\* is ndarray"), ((cupy.zeros(64), 1), "of float64"),
    ((cupy.zeros(64, "f"), 1.0), "an argument for long long is float"), ((cupy.zeros(64, "f"),), "2 parameters"),
])  # fmt: skip
def test_a_kernel_refuses_arguments_of_other_types_than_its_parameters(arguments: tuple, message: str):
    with pytest.raises(TypeError, match=message):
        cupy.RawKernel(BARRIER, "some")((1,), (64,), arguments)
