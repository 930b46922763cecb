"""Batch and group normalisation kernels beside the portable form in float64, and PyTorch's errors of rounding."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tdt
from tdt import _kernels
from tdt._backend.layout import to_front, to_last
from tdt._kernels import _pool, group_norm_cpu, plane_norm_cpu, row_norm_cpu
from tdt._kernels._threads import THREADS
from tdt._kernels.norm_cpu import BLOCK, affine, batch_norm_sums, group_norm
from tdt._ops.nn.batch_norm import _batch_norm, _batch_norm_eval, _moving_average
from tdt._ops.nn.group_norm import _group_norm

SHAPES = [
    (2, 1), (7, 3), (1000, 64), (33, 300), (2, 1, 1, 1), (2, 3, 1, 5), (5, 17, 6, 7), (64, 16, 32, 32), (3, 5, 4, 3, 2),
    (3, BLOCK + 5, 1, 2), (2, 3, 200, 101),
]  # fmt: skip
BFLOAT16 = ml_dtypes.bfloat16
ORDERS = ["contiguous", "channels-last"]


def array(shape: tuple, order: str, seed: int = 0) -> np.ndarray:
    """Values far from 0 compared with their spread: sums of plain squares would lose them."""
    x = (np.random.default_rng(seed).standard_normal(shape) + 50).astype(np.float32)
    return to_front(np.ascontiguousarray(to_last(x))) if order == "channels-last" and x.ndim > 2 else x


def numbers(channels: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-2, 2, channels).astype(np.float32)


def module_of(x: np.ndarray):
    """The kernels of batch norm for this shape and memory order."""
    return row_norm_cpu if x.ndim == 2 or not x.flags.c_contiguous else plane_norm_cpu


def batch_norm(x, w, b, **how):
    return module_of(x).batch_norm(x, w, b, **how)


def batch_norm_vjp(g, x, *rest):
    return module_of(x).batch_norm_vjp(g, x, *rest)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_statistics_that_are_arguments(shape, order):
    x, g = array(shape, order), array(shape, "contiguous", 3)
    mean, var, w, b = (np.abs(numbers(shape[1], k)) + np.float32(0.1) for k in range(4))
    found = module_of(x).batch_norm_eval(x, mean, var, w, b, eps=1e-3)
    expected = _batch_norm_eval.forward(np, *(v.astype(np.float64) for v in (x, mean, var, w, b)), eps=1e-3)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    grad, plain, weighted = module_of(x).batch_norm_eval_vjp(g, x, mean, w)
    axes, by_channel = (0, *range(2, x.ndim)), (-1, *(1,) * (x.ndim - 2))
    np.testing.assert_array_equal(grad, g * w.reshape(by_channel))
    np.testing.assert_allclose(plain, g.sum(axes, dtype=np.float64), rtol=2e-7)
    products = g.astype(np.float64) * (x - mean.reshape(by_channel))
    np.testing.assert_allclose(weighted, products.sum(axes), rtol=2e-6)
    assert found.strides == grad.strides == x.strides


@pytest.mark.parametrize("shape", [(4000, 100), (9, 24, 50, 31)], ids=str)
def test_rows_have_the_same_bits_in_one_call_and_on_threads(shape, monkeypatch):
    x, g, w = array(shape, "channels-last"), array(shape, "channels-last", 1), np.abs(numbers(shape[1], 1))
    found = []
    for grain in (1 << 30, 1):
        monkeypatch.setattr(row_norm_cpu, "GRAIN", grain)
        normed = row_norm_cpu.batch_norm(x, w, w, eps=1e-5)
        arrays = [*normed, *row_norm_cpu.batch_norm_vjp(g, x, w, *normed[1:3], *normed[1:3])]
        arrays += [row_norm_cpu.batch_norm_eval(x, w, w, w, w, eps=1e-5), *row_norm_cpu.batch_norm_eval_vjp(g, x, w, w)]
        found.append(b"".join(a.tobytes() for a in arrays))
    assert found[0] == found[1]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_result_and_statistics(shape, order):
    x, w, b = array(shape, order), numbers(shape[1], 1), numbers(shape[1], 2)
    for weight, bias in ((w, b), (None, b), (w, None)):
        out, mean, rstd, var = batch_norm(x, weight, bias, eps=1e-3)
        promoted = (None if v is None else v.astype(np.float64) for v in (x, weight, bias))
        expected = _batch_norm.forward(np, *promoted, eps=1e-3)
        np.testing.assert_allclose(mean, expected[1], rtol=2e-7)
        np.testing.assert_allclose(rstd, expected[2], rtol=1e-6)
        np.testing.assert_allclose(var, expected[3], rtol=2e-6)
        np.testing.assert_allclose(out, expected[0], rtol=1e-5, atol=2e-5)
        assert out.strides == x.strides
        assert (out.dtype, mean.dtype, rstd.dtype) == (np.float32,) * 3


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("grad_order", ORDERS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gradient(shape, grad_order, order):
    x, w, b = array(shape, order), numbers(shape[1], 1), numbers(shape[1], 2)
    g = array(shape, grad_order, 3) - np.float32(50)
    _, mean, rstd, _ = batch_norm(x, w, b, eps=1e-3)
    promoted = [v.astype(np.float64) for v in (x, w, b, g)]
    leaves = [tdt.tensor(v, requires_grad=True) for v in promoted[:3]]
    out = tdt.nn.functional.batch_norm(leaves[0], None, None, leaves[1], leaves[2], True, 0.1, 1e-3)
    out.backward(tdt.tensor(promoted[3]))
    zeros = np.zeros_like(mean)
    grad, gw, gb = batch_norm_vjp(g, x, w, mean, rstd, zeros, zeros)
    count, scale = x.size // shape[1], rstd * w
    np.testing.assert_allclose(gb, leaves[2].grad.numpy(), rtol=1e-5, atol=1e-5 * count**0.5)
    np.testing.assert_allclose(gw, leaves[1].grad.numpy(), rtol=1e-4, atol=1e-4 * count**0.5)
    np.testing.assert_allclose(grad, leaves[0].grad.numpy(), rtol=1e-3, atol=1e-3 * np.abs(scale).max())
    assert grad.strides == x.strides


GROUPS = {1: 1, 3: 3, 5: 5, 16: 4, 17: 1, 64: 8, 300: 30, BLOCK + 5: 13}


GROUP_NORMS = pytest.mark.parametrize("group_norm", [group_norm, group_norm_cpu.group_norm], ids=["large", "cached"])


IMAGES = [(2, 3, 1, 5), (5, 17, 6, 7), (3, 5, 4, 3, 2), (9, 50, 1, 2), (2, 3, 200, 101), (2, 3, 5), (1, 1, 2100)]


@pytest.mark.parametrize("shape", IMAGES, ids=str)
def test_planes_have_the_portable_results_and_gradients(shape):
    x, w, b, g = array(shape, "contiguous"), numbers(shape[1], 1), numbers(shape[1], 2), array(shape, "contiguous", 3)
    for groups in (0, 1, shape[1]):
        op, how = (_group_norm, {"groups": groups, "eps": 1e-3}) if groups else (_batch_norm, {"eps": 1e-3})
        name = "group_norm" if groups else "batch_norm"
        found = getattr(plane_norm_cpu, name)(x, w, b, **how)
        leaves = [tdt.tensor(v.astype(np.float64), requires_grad=True) for v in (x, w, b)]
        outs = op(*leaves, **how)
        for value, reference in zip(found, outs, strict=True):
            np.testing.assert_allclose(value, reference.detach().numpy(), rtol=1e-5, atol=2e-5)
        upstream = [np.random.default_rng(4).standard_normal(a.shape) for a in outs[:3]]
        exact = tdt.autograd.grad(outs[:3], leaves, [tdt.tensor(v) for v in upstream], create_graph=True)
        small = [v.astype("f") for v in upstream]
        grads = getattr(plane_norm_cpu, f"{name}_vjp")(small[0], x, w, *found[1:3], *small[1:])
        size = max(1.0, float(found[2].max())) ** 3 * g[0, 0].size ** 0.5
        for ours, reference in zip(grads, exact, strict=True):
            np.testing.assert_allclose(ours, reference.detach().numpy(), rtol=1e-4, atol=5e-5 * size)


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("shape", [(2, 5, 3, 3), (3, 4, 21), (4, 16, 33, 40)], ids=str)
def test_running_statistics_normalise_planes_as_the_portable_form_does_and_alike_in_every_batch(
    shape, affine, monkeypatch
):
    monkeypatch.setattr(THREADS, "elementwise", 5000)
    rng = np.random.default_rng(3)
    x = rng.standard_normal(shape, np.float32)
    mean, var, w, b = (rng.random(shape[1], np.float32) for _ in range(4))
    if not affine:
        w = b = None
    tensors = [None if a is None else tdt.tensor(a) for a in (mean, var, w, b)]
    got = tdt.nn.functional.batch_norm(tdt.tensor(x), *tensors, training=False).numpy()
    with tdt.backends.kernels(False):
        want = tdt.nn.functional.batch_norm(tdt.tensor(x), *tensors, training=False).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    recorded = tdt.nn.functional.batch_norm(tdt.tensor(x, requires_grad=True), *tensors, training=False)
    assert np.array_equal(got, recorded.detach().numpy())
    alone = tdt.nn.functional.batch_norm(tdt.tensor(x[:1]), *tensors, training=False).numpy()
    assert np.array_equal(got[:1], alone)


def test_planes_have_the_same_bits_on_all_threads(monkeypatch):
    x, g, w = array((6, 8, 9, 7), "contiguous"), array((6, 8, 9, 7), "contiguous", 1), numbers(8, 1)
    found = []
    for grain in (1, 1 << 15):
        monkeypatch.setattr(plane_norm_cpu, "GRAIN", grain)
        batch, groups = (
            plane_norm_cpu.batch_norm(x, w, w, eps=1e-5),
            plane_norm_cpu.group_norm(x, w, w, groups=4, eps=1e-5),
        )
        arrays = [*batch, *groups, *plane_norm_cpu.batch_norm_vjp(g, x, w, *batch[1:3], *batch[1:3])]
        arrays += plane_norm_cpu.group_norm_vjp(g, x, w, *groups[1:], *groups[1:])
        found.append(b"".join(a.tobytes() for a in arrays))
    assert found[0] == found[1]


@GROUP_NORMS
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_groups(shape, order, group_norm):
    x, w, b = array(shape, order), numbers(shape[1], 1), numbers(shape[1], 2)
    groups = GROUPS[shape[1]]
    for weight, bias in ((w, b), (None, b), (w, None)):
        found = group_norm(x, weight, bias, groups=groups, eps=1e-3)
        promoted = (None if v is None else v.astype(np.float64) for v in (x, weight, bias))
        expected = _group_norm.forward(np, *promoted, groups=groups, eps=1e-3)
        for value, reference, near in zip(found, expected, (2e-5, 0, 0), strict=True):
            np.testing.assert_allclose(value, reference, rtol=1e-5, atol=near)
        assert found[0].strides == x.strides
        assert [a.dtype for a in found] == [np.float32] * 3


@pytest.mark.skipif(not tdt._kernels.enabled(), reason="kernels are off")
@pytest.mark.parametrize("grad_order", ORDERS)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("groups", [1, 4, 16])
@pytest.mark.parametrize("cached", [_kernels.CACHED, 0], ids=["cached", "large"])
def test_gradients_of_groups_are_those_of_float64(cached, groups, order, grad_order, monkeypatch):
    monkeypatch.setattr(_kernels._conditions, "CACHED", cached)
    x = array((8, 16, 31, 33), order)
    g = array(x.shape, grad_order, 3) - np.float32(50)
    leaves, promoted = ([tdt.tensor(v.astype(kind)) for v in (x, numbers(16, 1), numbers(16, 2))] for kind in "fd")
    leaves[0], found = tdt.from_numpy(x), []
    for tensors in (leaves, promoted):
        for t in tensors:
            t.requires_grad_()
        out = tdt.nn.functional.group_norm(tensors[0], groups, *tensors[1:], eps=1e-3)
        found.append(tdt.autograd.grad(out, tensors, tdt.from_numpy(g).to(out.dtype)))
    for ours, exact, error in zip(*found, (1e-4, 2e-3, 2e-3), strict=True):
        np.testing.assert_allclose(ours.numpy(), exact.numpy(), rtol=1e-4, atol=error)
    assert found[0][0].numpy().strides == x.strides


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gradients_of_groups_take_in_those_of_their_statistics(shape, order):
    x, w, groups = array(shape, order), numbers(shape[1], 1), GROUPS[shape[1]]
    leaves = [tdt.from_numpy(v.astype(np.float64)).requires_grad_() for v in (x, w, w)]
    outs = _group_norm(*leaves, groups=groups, eps=1e-1)
    grads = [np.random.default_rng(4).standard_normal(a.shape) for a in outs]
    exact = tdt.autograd.grad(outs, leaves, [tdt.tensor(v) for v in grads], create_graph=True)  # by the rule on tensors
    _, mean, rstd = group_norm_cpu.group_norm(x, w, w, groups=groups, eps=1e-1)
    found = group_norm_cpu.group_norm_vjp(grads[0].astype("f"), x, w, mean, rstd, *(v.astype("f") for v in grads[1:]))
    for ours, reference in zip(found, exact, strict=True):
        np.testing.assert_allclose(ours, reference.detach().numpy(), rtol=1e-4, atol=1e-4 * x[:, 0].size ** 0.5)
    assert found[0].strides == x.strides


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_affine(shape, order):
    x, numbers_ = array(shape, order), [numbers(shape[1], i) for i in range(3)]
    out = affine(x, *numbers_)
    mean, scale, shift = (v.reshape(-1, *(1,) * (x.ndim - 2)) for v in numbers_)
    np.testing.assert_allclose(out, (x - mean) * scale + shift, rtol=1e-6, atol=1e-5)
    np.testing.assert_allclose(affine(x, *numbers_[:2], None), (x - mean) * scale, rtol=1e-6, atol=1e-5)
    assert out.strides == x.strides


@pytest.mark.parametrize("order", ORDERS)
def test_non_finite_values_stay_in_their_channel(order):
    x = array((64, 16, 32, 32), order)
    x[0, 3, 0, 0], x[5, 7, 31, 31] = np.nan, np.inf
    out, mean, rstd, _ = batch_norm(x, None, None, eps=1e-5)
    assert [i for i in range(16) if not np.isfinite(mean[i]) or np.isnan(rstd[i])] == [3, 7]
    assert np.isnan(out[:, 3]).all()
    assert np.isfinite(np.delete(out, [3, 7], axis=1)).all()


@GROUP_NORMS
@pytest.mark.parametrize("order", ORDERS)
def test_non_finite_values_stay_in_their_group(order, group_norm):
    x = array((4, 16, 32, 32), order)
    x[0, 3, 0, 0], x[2, 7, 31, 31], x[1, 4:8] = np.nan, np.inf, 7.1
    out = group_norm(x, None, None, groups=4, eps=1e-30)[0].reshape(4, 4, -1)
    assert np.argwhere(np.isnan(out).any(axis=2)).tolist() == [[0, 0], [2, 1]]
    assert not out[1, 1].any()


@pytest.mark.parametrize("order", ORDERS)
def test_bits_do_not_depend_on_the_number_of_threads(order):
    x, g = array((64, 16, 32, 32), order), array((64, 16, 32, 32), order, 1)
    before, found = _pool.get_num_threads(), []
    for threads in (1, 2, 5):
        _pool.set_num_threads(threads)
        out, mean, rstd, _ = batch_norm(x, None, None, eps=1e-5)
        grouped = group_norm(x, None, None, groups=4, eps=1e-5)
        sums = *batch_norm_vjp(g, x, None, mean, rstd, mean, rstd), *batch_norm_sums(g, x, grouped[1].repeat(4, axis=1))
        cached = group_norm_cpu.group_norm(x, None, None, groups=4, eps=1e-5)
        grads = group_norm_cpu.group_norm_vjp(g, x, None, *cached[1:], *cached[1:])
        found.append(b"".join(a.tobytes() for a in (out, mean, rstd, *grouped, *sums, *cached, *grads)))
    _pool.set_num_threads(before)
    assert len(set(found)) == 1


@pytest.mark.skipif(not tdt._kernels.enabled(), reason="kernels are off")
@pytest.mark.parametrize("last", [False, True], ids=ORDERS)
def test_a_layer_computes_the_portable_results(last):
    x = tdt.tensor(array((64, 16, 32, 32), "contiguous") - np.float32(50))
    x = x.contiguous(memory_format=tdt.channels_last) if last else x
    found = []
    for kernels in (True, False):
        with tdt.backends.kernels(kernels):
            layer, leaf = tdt.nn.BatchNorm2d(16), x.detach().requires_grad_()
            y = layer(leaf)
            (y * y * y).sum().backward()
            trained = y.detach(), leaf.grad, layer.weight.grad, layer.bias.grad, layer.running_mean, layer.running_var
            found.append([t.numpy() for t in (*trained, layer.eval()(leaf).detach())])
    for fast, portable in zip(*found, strict=True):
        np.testing.assert_allclose(fast, portable, rtol=1e-3, atol=1e-3 * np.abs(portable).max())
        assert fast.strides == portable.strides


@pytest.mark.parametrize("order", [(0, 2, 1), (0, 3, 1, 2), (2, 0, 1, 3), (0, 4, 1, 2, 3)], ids=str)
def test_a_result_lies_in_memory_the_same_with_and_without_a_graph(order):
    x = tdt.randn(*range(2, 2 + len(order))).permute(order)
    channels = x.shape[1]
    out = tdt.nn.functional.batch_norm(x.requires_grad_(), tdt.zeros(channels), tdt.ones(channels))
    with tdt.no_grad():
        assert tdt.nn.functional.batch_norm(x, tdt.zeros(channels), tdt.ones(channels)).stride() == out.stride()


@pytest.mark.parametrize("channels", [1, 7, 16, 45])
def test_running_statistics_have_the_bits_of_the_portable_form(channels):
    rng = np.random.default_rng(channels)
    running, value = rng.standard_normal((2, channels)).astype(np.float32)
    expected = _moving_average.forward(np, running, value, momentum=0.1)
    assert plane_norm_cpu.moving_average(running, value, momentum=0.1) is running
    np.testing.assert_array_equal(running, expected)


@pytest.mark.parametrize("affine", [True, False])
def test_a_sample_has_the_same_bits_alone_and_in_a_batch(affine):
    rng = np.random.default_rng(0)
    x, mean, bias = (tdt.tensor(rng.standard_normal(shape).astype("f")) for shape in ((64, 40), 40, 40))
    var, weight = (tdt.tensor(rng.uniform(0.1, 2, 40).astype("f")) for _ in range(2))
    how = (mean, var, weight, bias) if affine else (mean, var)
    batch = tdt.nn.functional.batch_norm(x, *how)
    for k in (1, 3):
        assert tdt.nn.functional.batch_norm(x[:k], *how).numpy().tobytes() == batch[:k].numpy().tobytes()


@pytest.mark.parametrize("shape", [(3, 17, 6, 7), (8, 16, 33, 32), (2, 300, 5)], ids=str)
@pytest.mark.parametrize("order", ["channels-last", "gradient contiguous"])
def test_channels_last_images_of_bfloat16_have_the_rounded_bits_of_float32(shape, order):
    x, g = (
        to_front(np.ascontiguousarray(to_last(np.random.default_rng(seed).standard_normal(shape).astype(BFLOAT16))))
        for seed in (1, 2)
    )
    wide_g = g.astype(np.float32)
    if order == "gradient contiguous":
        g = np.ascontiguousarray(g.view(np.uint16)).view(BFLOAT16)
    w, b, zeros = numbers(shape[1], 3), numbers(shape[1], 4), np.zeros(shape[1], np.float32)
    wide = x.astype(np.float32)
    out, *statistics = row_norm_cpu.batch_norm(x, w, b, eps=1e-5)
    expected, *known = row_norm_cpu.batch_norm(wide, w, b, eps=1e-5)
    grads = row_norm_cpu.batch_norm_vjp(g, x, w, *statistics[:2], zeros, zeros)
    others = row_norm_cpu.batch_norm_vjp(wide_g, wide, w, *statistics[:2], zeros, zeros)
    assert out.dtype == BFLOAT16 == grads[0].dtype and out.strides == x.strides == grads[0].strides
    for value, reference in zip([out, *statistics, *grads], [expected, *known, *others], strict=True):
        np.testing.assert_array_equal(value.astype(np.float32), reference.astype(value.dtype).astype(np.float32))
