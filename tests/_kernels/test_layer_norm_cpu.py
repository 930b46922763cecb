"""Kernels of layer normalisation beside the portable form in float64."""

from __future__ import annotations

import numpy as np
import pytest

import tdt
from tdt._kernels import _pool
from tdt._kernels.group_norm_cpu import group_norm
from tdt._kernels.layer_norm_cpu import layer_norm, layer_norm_vjp
from tdt._ops.nn.layer_norm import _layer_norm
from tests._kernels.watch import watch

SHAPES = [(1, 1), (3, 2), (5, 7), (2, 16), (70, 17), (9, 31), (33, 127), (3, 1000), (2, 5003), (3, 5, 67)]


def rows(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Values far from 0 compared with their spread: sums of plain squares would lose them."""
    return (np.random.default_rng(seed).standard_normal(shape) + 50).astype(np.float32)


@pytest.mark.parametrize("dims", [1, 2])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("centred", [True, False])
def test_values_and_gradients_at_sizes_off_every_vector_width(shape, dims, affine, centred):
    rng = np.random.default_rng(1)
    x = rows(shape)
    w, b = (rng.standard_normal(shape[-dims:]).astype(np.float32) if affine else None for _ in range(2))
    how = {"dims": dims, "centred": centred}
    found = layer_norm(x, w, b, eps=1e-3, **how)
    leaves = [None if a is None else tdt.tensor(a.astype(np.float64), requires_grad=True) for a in (x, w, b)]
    outs = _layer_norm(*leaves, eps=1e-3, **how)
    for value, reference, error in zip(found, outs, (5e-5, 1e-5, 1e-5), strict=True):
        np.testing.assert_allclose(value, reference.detach().numpy(), rtol=2e-6, atol=error)
    upstream = [rng.standard_normal(a.shape) for a in outs]
    total = sum((out * tdt.tensor(g)).sum() for out, g in zip(outs, upstream, strict=True))
    inputs = [leaf for leaf in leaves if leaf is not None]
    expected = tdt.autograd.grad(total, inputs, create_graph=True)  # by the rule on tensors
    small = [g.astype(np.float32) for g in upstream]
    grads = layer_norm_vjp(small[0], x, w, *found[1:], *small[1:], **how)
    size = max(1, float(found[2].max())) ** 3
    for grad, reference in zip(grads, expected, strict=False):
        np.testing.assert_allclose(grad, reference.detach().numpy(), rtol=1e-4, atol=3e-5 * size)


@pytest.mark.parametrize("size", [20_000, 1 << 17])
@pytest.mark.parametrize("far", [0, 1000])
def test_long_rows_lose_no_more_than_their_own_rounding(far, size):
    x = (np.random.default_rng(0).standard_normal((2, size)) + far).astype(np.float32)
    promoted = x.astype(np.float64)
    expected = (promoted - promoted.mean(axis=1, keepdims=True)) / np.sqrt(promoted.var(axis=1, keepdims=True) + 1e-5)
    error = 1e-6 + far * 2.0**-24
    for values in (
        layer_norm(x, None, None, dims=1, eps=1e-5)[0],
        group_norm(x[:, None], None, None, groups=1, eps=1e-5)[0][:, 0],
    ):
        np.testing.assert_allclose(values, expected, rtol=3e-6, atol=error)


def test_non_finite_and_subnormal_values_stay_in_their_row():
    x = rows((8, 37))
    x[1, 3], x[4, 36], x[5, 0] = np.nan, np.inf, -np.inf
    x[6], x[7] = 1e-45, 0
    out, mean, rstd = layer_norm(x, None, None, dims=1, eps=1e-5)
    assert np.isnan(out).all(axis=1).tolist() == [False, True, False, False, True, True, False, False]
    assert np.isfinite(out[[0, 2, 3, 6, 7]]).all()
    assert not out[6:].any() and not mean[7]
    np.testing.assert_allclose(rstd[6:], 1e-5**-0.5, rtol=1e-6)


def test_bits_do_not_depend_on_the_number_of_threads():
    x, before, found = rows((1003, 101)), _pool.get_num_threads(), []
    for threads in (1, 2, 3):
        _pool.set_num_threads(threads)
        out, mean, rstd = layer_norm(x, None, None, dims=1, eps=1e-5)
        arrays = out, mean, rstd, *layer_norm_vjp(out, x, None, mean, rstd, mean, mean, dims=1)
        found.append(b"".join(a.tobytes() for a in arrays))
    _pool.set_num_threads(before)
    assert len(set(found)) == 1


@pytest.mark.skipif(not tdt._kernels.enabled(), reason="kernels are off")
def test_a_layer_uses_the_kernels_for_rows_of_any_size_and_layout(monkeypatch):
    both = ["layer_norm_cpu:layer_norm", "layer_norm_cpu:layer_norm_vjp"]
    called = watch(monkeypatch, *both)
    large = rows((3, 70, 64))
    for kind, x in (("fits", large), ("small", large[:, :10]), ("float64", large.astype(np.float64)),
                    ("strided", large.swapaxes(0, 1))):  # fmt: skip
        found = []
        for kernels in (True, False):
            called.clear()
            with tdt.backends.kernels(kernels):
                leaf = tdt.from_numpy(x).detach().requires_grad_()
                layer = tdt.nn.LayerNorm(64, dtype=leaf.dtype)
                out = layer(leaf)
                (out * out * out).sum().backward()
                tensors = out.detach(), leaf.grad, layer.weight.grad, layer.bias.grad
                found.append([t.numpy() for t in tensors])
            if kernels:
                assert called == ([] if kind == "float64" else both), kind
        for fast, reference in zip(*found, strict=True):
            np.testing.assert_allclose(fast, reference, rtol=1e-3, atol=1e-4 * np.abs(reference).max())
            assert fast.strides == reference.strides


def test_rows_whose_variance_overflows_or_vanishes_are_as_the_portable_form_has_them():
    x = np.random.default_rng(0).standard_normal((300, 113)).astype(np.float32)
    x[2, 5], x[3] = 3e19, x[3] * np.float32(1e-18)
    value = tdt.nn.functional.layer_norm(tdt.tensor(x), (113,), eps=0.0).numpy()
    with tdt.backends.kernels(False):
        expected = tdt.nn.functional.layer_norm(tdt.tensor(x), (113,), eps=0.0).numpy()
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("affine", ["both", "weight", "none"])
@pytest.mark.parametrize("shape", [(5, 7), (70, 17), (3, 5, 67)], ids=str)
def test_rows_and_parameters_of_bfloat16_are_computed_in_float32_and_rounded_once(shape, affine):
    rng = np.random.default_rng(0)
    sizes = [shape, *[shape[-1:]] * {"both": 2, "weight": 1, "none": 0}[affine]]
    low = [tdt.tensor(rng.standard_normal(size).astype(np.float32)).bfloat16().requires_grad_() for size in sizes]
    full = [x.detach().float().requires_grad_() for x in low]
    g = tdt.tensor(rng.standard_normal(shape).astype(np.float32)).bfloat16()
    found = []
    for x, *parameters in (low, full):
        y = tdt.nn.functional.layer_norm(x, shape[-1:], *parameters)
        found.append([y, *tdt.autograd.grad(y, [x, *parameters], g.to(y.dtype))])
    ours, expected = found
    assert all(x.dtype is tdt.bfloat16 for x in ours)
    assert tdt.equal(ours[0], expected[0].bfloat16())
    for value, reference in zip(
        ours[1:], expected[1:], strict=True
    ):  # mean and deviation of a row are kept in bfloat16
        tdt.testing.assert_close(value.float(), reference, rtol=3e-2, atol=3e-2)
