"""Attention's kernels beside the portable form in float64."""

from __future__ import annotations

import numpy as np
import pytest

import tdt
from tdt._kernels import _pool
from tdt._kernels._attention_heads import DEPTH, ROWS
from tdt._kernels.attention_cpu import attention, attention_vjp
from tdt._ops.nn.attention import _attention
from tdt.nn.functional import scaled_dot_product_attention
from tests._kernels.watch import watch

# Leading sizes, queries, keys, width of both, and of values: around blocks, tiles and vectors.
SHAPES = [
    ((), 1, 1, 1, 1), ((1, 1), 3, 2, 5, 7), ((2,), ROWS, 128, 32, 32), ((3, 2), ROWS + 1, 129, 33, 17),
    ((2,), 2 * ROWS - 1, 259, 8, 40), ((1, 2), 37, 41, 65, 131), ((2, 1), 200, 7, 16, 1),
    ((1, 1), 9, 300, 1, 31), ((1, 1), 5, DEPTH + 1, 8, 8),
]  # fmt: skip
ARRAYS = ["out", "q", "k", "v", "mask"]


def operands(lead, length, places, width, size, seed=0):
    """q, k, v and the gradient of the result; heads of width 32 lie as in the result of one linear layer."""
    rng = np.random.default_rng(seed)
    shapes = [(*lead, length, width), (*lead, places, width), (*lead, places, size), (*lead, length, size)]
    arrays = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    if len(lead) == 2:
        arrays = [np.ascontiguousarray(a.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3) for a in arrays]
    return arrays


def by_kernel(q, k, v, g, mask=None, keep=None, **how):
    how = {"causal": False, "scale": 0.3, "dropped": 0.0, **how}
    out, norms = np.zeros((*q.shape[:-1], v.shape[-1]), np.float32), np.empty((*q.shape[:-1], 2), np.float32)
    attention(q, k, v, mask, keep, out, norms, **how)
    grads = [np.zeros(a.shape, np.float32) for a in (q, k, v)]
    of_mask = np.zeros(mask.shape, np.float32) if mask is not None and mask.dtype == np.float32 else None
    attention_vjp(g, q, k, v, mask, keep, out, norms, *grads, of_mask, **how)
    return (out, *grads) if of_mask is None else (out, *grads, of_mask)


def by_rule(q, k, v, g, mask=None, keep=None, kind=np.float64, **how):
    """By the portable form, and the rule on tensors."""
    how = {"causal": False, "scale": 0.3, "dropped": 0.0, **how}
    leaves = [tdt.tensor(a.astype(kind), requires_grad=True) for a in (q, k, v)]
    others = [None if a is None else tdt.tensor(a if a.dtype == bool else a.astype(kind)) for a in (mask, keep)]
    if mask is not None and mask.dtype != bool:
        leaves.append(others[0].requires_grad_())
    with tdt.backends.kernels(False):
        out = _attention(*leaves[:3], *others, **how)
        grads = tdt.autograd.grad((out * tdt.tensor(g.astype(kind))).sum(), leaves, create_graph=True)
    return tuple(t.detach().numpy() for t in (out, *grads))


def compare(arrays, mask=None, keep=None, **how):
    found, expected = by_kernel(*arrays, mask, keep, **how), by_rule(*arrays, mask, keep, **how)
    for name, a, b in zip(ARRAYS[: len(expected)], found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=4e-6 * max(1, np.abs(b).max(initial=0)), err_msg=name)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values_and_gradients_at_sizes_around_blocks_and_vectors(shape, causal):
    compare(operands(*shape), causal=causal)
    compare(operands(*shape), causal=causal, scale=-2.0)


@pytest.mark.parametrize("shape", SHAPES[1:5], ids=str)
def test_masks_and_dropped_weights(shape):
    lead, length, places = shape[:3]
    rng = np.random.default_rng(2)
    mask = rng.standard_normal((*lead, length, places)).astype(np.float32)
    mask[rng.random(mask.shape) < 0.4] = -np.inf
    mask[..., 0, :] = -np.inf
    keep = rng.random(mask.shape) < 0.7
    one = np.broadcast_to(mask[(0,) * len(lead)], mask.shape)
    for causal in (False, True):
        compare(operands(*shape), mask, causal=causal)
        compare(operands(*shape), one, keep, causal=causal, dropped=0.3)
        compare(operands(*shape), None, keep, causal=causal, dropped=0.3)
        for allowed in (mask > -1, mask[..., :1, :] > -1, mask[(0,) * len(lead)] > -1, mask[..., :1] > -1):
            compare(operands(*shape), allowed, causal=causal)


@pytest.mark.parametrize("length", [1, 70])
def test_a_mask_of_bools_has_the_bits_of_one_of_numbers(length):
    arrays, rng = operands((2, 3), length, 130, 16, 16), np.random.default_rng(0)
    for shape in ((length, 130), (2, 1, 1, 130), (2, 3, length, 130), (3, length, 1), (1, 1)):
        allowed = rng.random(shape) < 0.8
        masks = allowed, np.where(allowed, 0, -np.inf).astype(np.float32)
        found = [by_kernel(*arrays, np.broadcast_to(mask, (2, 3, length, 130))) for mask in masks]
        found.append(by_kernel(*arrays, allowed))
        for one, other, third in zip(*found, strict=False):
            np.testing.assert_array_equal(one, other)
            np.testing.assert_array_equal(one, third)


@pytest.mark.parametrize("column", [0, 16, 36])  # in a vector's body and in its tail
def test_special_values(column):
    q, k, v, g = operands((1,), 12, 37, 8, 8)
    special_values = [np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-45, -0.0]
    mask = np.zeros((1, 12, 37), np.float32)
    for row, value in enumerate(special_values):
        mask[0, row, column] = value
    mask[0, 8] = -np.inf
    mask[0, 9] = 1e30
    with np.errstate(all="ignore"):
        found, expected = by_kernel(q, k, v, g, mask), by_rule(q, k, v, g, mask, kind=np.float32)
    for name, a, b in zip(ARRAYS[: len(expected)], found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5, err_msg=name)
    for bad in (np.nan, np.inf):
        broken = q.copy()
        broken[0, 3, 5] = bad
        assert np.isnan(by_kernel(broken, k, v, g)[0]).any(-1).sum() == 1
    for tiny in (0.0, -0.0, 1e-45):
        compare([np.full_like(q, tiny), k, v, g])


def test_reads_every_memory_order():
    q, k, v, g = operands((2, 3), 20, 30, 8, 8)
    turned = np.asfortranarray(q), k[..., ::-1].copy()[..., ::-1], np.repeat(v, 2, -1)[..., ::2]
    for a, b in zip(by_kernel(*turned, np.asfortranarray(g)), by_kernel(q, k, v, g), strict=True):
        np.testing.assert_array_equal(a, b)
    one = np.broadcast_to(k[:1, :1], k.shape)
    for a, b in zip(by_kernel(q, one, v, g), by_kernel(q, one.copy(), v, g), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("width, size", [(8, 8), (16, 16), (64, 64), (37, 100), (5, 150)])
def test_a_query_alone_has_the_bits_that_it_has_among_others(width, size):
    q, k, v, g = operands((1, 2), 5, 77, width, size)
    together = by_kernel(q, k, v, g)[0]
    for row in range(5):
        alone = by_kernel(q[..., row : row + 1, :], k, v, g[..., row : row + 1, :])[0]
        np.testing.assert_array_equal(alone, together[..., row : row + 1, :])


@pytest.mark.parametrize("causal", [False, True])
def test_bits_do_not_depend_on_the_number_of_threads(causal):
    before, found = _pool.get_num_threads(), []
    arrays = operands((3, 5), 150, 170, 16, 16)
    for threads in (1, 2, 5):
        _pool.set_num_threads(threads)
        found.append(by_kernel(*arrays, causal=causal))
    _pool.set_num_threads(before)
    for again in found[1:]:
        for a, b in zip(found[0], again, strict=True):
            np.testing.assert_array_equal(a, b)


def test_attention_uses_them_for_float32_weights(monkeypatch):
    if not tdt.backends.kernels.enabled():
        pytest.skip("kernels are off")
    both = ["attention_cpu:attention", "attention_cpu:attention_vjp"]
    calls = watch(monkeypatch, *both)
    length = 91

    def run(size, dtype=tdt.float32, **how):
        calls.clear()
        x = tdt.randn(1, 1, size, 4, dtype=dtype, requires_grad=True)
        scaled_dot_product_attention(x, x, x, **how).sum().backward()
        return list(calls)

    assert run(length) == run(length, is_causal=True) == run(length, attn_mask=tdt.zeros(length, length)) == both
    assert run(8) == run(1) == both
    assert run(length, attn_mask=tdt.zeros(length, 1)) == run(length, attn_mask=tdt.ones(1, length) > 0) == both
    assert run(length, dtype=tdt.float64) == []
    mask = tdt.zeros(length, length, requires_grad=True)
    assert run(length, attn_mask=mask) == both
    assert mask.grad.shape == mask.shape
