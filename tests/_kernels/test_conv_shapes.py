"""Convolutions of shapes drawn at random, in one to three dimensions, beside PyTorch in double precision."""

from __future__ import annotations

import itertools
import os

import numpy as np
import pytest

import tdt
from tdt._backend.layout import to_front, to_last
from tdt._kernels import _phases, _pool, conv_cpu
from tests._kernels.guarded import at_the_end
from tests.helpers import require_torch

ONE_CELL = -1  # a seed, whose kernel has one cell


def drawn(seed: int, dims: int) -> tuple:
    """x, w, b, and how they are convolved."""
    rng = np.random.default_rng(abs(seed))

    def some(low: int, high: int) -> tuple[int, ...]:
        return tuple(int(n) for n in rng.integers(low, high + 1, dims))

    groups, one_cell = int(rng.choice([1, 1, 2, 3])), seed == ONE_CELL
    channels, out = (int(n) for n in rng.integers(1, 40, 2))
    kernel, stride, dilation, padding = some(1, 5 - dims // 2), some(1, 3), some(1, 4), some(0, 4)
    if one_cell:
        groups, kernel, stride, padding = 1, (1,) * dims, (1,) * dims, (0,) * dims
    least = [d * (k - 1) + 1 - 2 * p for k, d, p in zip(kernel, dilation, padding, strict=True)]
    size = tuple(max(n, m) for n, m in zip(some(1, (300, 18, 8)[dims - 1]), least, strict=True))
    shapes = (int(rng.integers(1, 5)), channels * groups, *size), (out * groups, channels, *kernel), (out * groups,)
    how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return *(rng.standard_normal(s, np.float32) for s in shapes), how


def three(x, w, b, y, how) -> list[np.ndarray]:
    """Result and gradients by the kernels."""
    return [
        conv_cpu.conv(x, w, b, **how),
        conv_cpu.conv_input_grad(y, w, size=x.shape[2:], **how),
        conv_cpu.conv_weight_grad(y, x, kernel=w.shape[2:], **how),
    ]


def channels_last(a: np.ndarray) -> np.ndarray:
    return to_front(np.ascontiguousarray(to_last(a)))


SHAPES = [(seed, dims) for dims in (1, 2, 3) for seed in range(12)] + [(ONE_CELL, 3)]


@pytest.mark.parametrize(("seed", "dims"), SHAPES)
def test_any_shape_agrees_with_pytorch_in_every_memory_order_bit_for_bit(seed, dims):
    torch = require_torch()
    x, w, b, how = drawn(seed, dims)
    theirs = [torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in (x, w)]
    result = getattr(torch.nn.functional, f"conv{dims}d")(*theirs, torch.tensor(b, dtype=torch.float64), **how)
    y = np.random.default_rng(1).standard_normal(result.shape).astype(np.float32)
    result.backward(torch.tensor(y, dtype=torch.float64))
    found = three(x, w, b, y, how)
    for value, expected in zip(found, (result.detach(), theirs[0].grad, theirs[1].grad), strict=True):
        assert value.shape == expected.shape
        np.testing.assert_allclose(value, expected.numpy(), rtol=0, atol=1e-5 * max(1.0, float(expected.abs().max())))
    for order in (channels_last, lambda a: np.ascontiguousarray(a[..., ::-1])[..., ::-1]):
        for value, again in zip(found, three(order(x), order(w), b, order(y), how), strict=True):
            np.testing.assert_array_equal(value, again)


@pytest.mark.parametrize(("seed", "dims"), [(1, 1), (2, 2), (3, 3), (ONE_CELL, 3)])
def test_bits_do_not_depend_on_the_number_of_threads_in_any_dimension(seed, dims):
    x, w, b, how = drawn(seed, dims)
    x = np.tile(x, (max(1, (1 << 20) // x.size), *(1,) * (dims + 1)))
    y = conv_cpu.conv(x, w, b, **how)
    before, results = _pool.get_num_threads(), []
    for threads in (1, 2, 5):
        _pool.set_num_threads(threads)
        results.append(b"".join(a.tobytes() for a in three(x, w, b, y, how)))
    _pool.set_num_threads(before)
    assert len(set(results)) == 1


@pytest.mark.parametrize("padding", [12, 9])
def test_a_border_that_a_large_dilation_would_sum_is_left_out(padding):
    """Where most of the kernel's cells lie outside, the others alone are summed: infinite weights there do not matter."""
    torch = require_torch()
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 9, 10, 10)).astype(np.float32), rng.standard_normal((7, 9, 3, 3)).astype(np.float32)
    how = {"stride": (1, 1), "padding": (padding,) * 2, "dilation": (12, 12), "groups": 1}
    if padding == 12:
        w[:, :, 0], w[:, :, 2], w[:, :, :, 0], w[:, :, :, 2] = np.inf, np.inf, np.inf, np.inf
    y = conv_cpu.conv(x, w, None, **how)
    expected = torch.nn.functional.conv2d(torch.tensor(x), torch.tensor(np.nan_to_num(w, posinf=0)), **how).numpy()
    np.testing.assert_allclose(y, expected, rtol=0, atol=1e-4)
    assert np.isfinite(conv_cpu.conv_input_grad(y, w, size=(10, 10), **how)).all()


@pytest.mark.parametrize("order", [np.ascontiguousarray, channels_last])
@pytest.mark.parametrize("kernel", [1, 3])
def test_nothing_is_read_past_the_end_of_an_image_or_of_weights(order, kernel):
    """The last tile has more rows than there are channels left."""
    rng = np.random.default_rng(0)
    shapes, how = ((2, 21, 9, 7), (19, 21, kernel, kernel)), {**conv_cpu.PLAIN, "stride": (2, 1)}
    x, w = (order(rng.standard_normal(shape).astype(np.float32)) for shape in shapes)
    y = order(rng.standard_normal(conv_cpu.conv(x, w, None, **how).shape).astype(np.float32))
    expected = three(x, w, None, y, how)
    guarded = (to_front(at_the_end(to_last(a))) if order is channels_last else at_the_end(a) for a in (x, w, y))
    x, w, y = guarded
    for value, again in zip(expected, three(x, w, None, y, how), strict=True):
        np.testing.assert_array_equal(value, again)


@pytest.mark.parametrize(("size", "stride"), [((128, 128), 2), ((224, 192), 2)])
def test_a_channels_last_stem_reads_the_image_where_it_lies(size, stride):
    """Windows on the edges are computed apart: no copy with a border is made of the image."""
    how = (3, 3), (stride,) * 2, (1, 1), (1, 1)
    gather = _phases.windows(size, tuple(-(-n // stride) for n in size), *how, 3, False)
    assert (gather.border, gather.size, gather.padded) == ((0, 0), size, False)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("stride", [1, 2])
def test_weights_and_gradients_that_are_not_finite_do_not_meet_the_border(value, stride):
    torch = require_torch()
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 9, 7, 7)).astype(np.float32), rng.standard_normal((5, 9, 3, 3)).astype(np.float32)
    how = {"stride": (stride,) * 2, "padding": (1, 1), "dilation": (1, 1), "groups": 1}
    y = rng.standard_normal(conv_cpu.conv(x, w, None, **how).shape).astype(np.float32)
    w[1, 2, 0, 0] = w[3, 4, 2, 1] = y[1, 2, 0, 0] = value
    leaves = [torch.tensor(a, requires_grad=True) for a in (x, w)]
    result = torch.nn.functional.conv2d(*leaves, **how)
    result.backward(torch.tensor(y))
    for value, expected in zip(
        three(x, w, None, y, how), (result.detach(), *(leaf.grad for leaf in leaves)), strict=True
    ):
        assert not np.isfinite(value).all() and np.isfinite(value).any()
        np.testing.assert_array_equal(np.isfinite(value), np.isfinite(expected.numpy()))


@pytest.mark.skipif(os.environ.get("TDT_KERNELS") == "reference", reason="kernels are off")
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_what_is_not_finite_never_meets_the_border_whatever_the_size(dims):
    """As of PyTorch's faster kernels. Where it gets to, a convolution of ones by its places alone is above zero."""
    rng = np.random.default_rng(dims)
    function = getattr(tdt.nn.functional, f"conv{dims}d")
    for _ in range(25):
        kernel, dilation, stride, padding, size = (
            tuple(int(n) for n in rng.choice(choices, dims))
            for choices in ([1, 2, 3, 3, 5], [1, 1, 2, 4], [1, 1, 2], [0, 1, 1, 2, 4], [9, 12, 17, 22])
        )
        groups = int(rng.choice([1, 1, 2, 8]))
        channels, out = (groups * int(n) for n in rng.choice([1, 2, 4, 16, 32], 2))
        if any(n + 2 * p <= d * (k - 1) for n, p, d, k in zip(size, padding, dilation, kernel, strict=True)):
            continue
        how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        x, w = np.ones((2, channels, *size), np.float32), np.ones((out, channels // groups, *kernel), np.float32)
        y = np.ones(tuple(function(tdt.tensor(x), tdt.tensor(w), **how).shape), np.float32)
        for special in (w, y):
            at = tuple(int(rng.integers(n)) for n in special.shape)

            def reached(number, dtype, last, x=x, w=w, y=y, how=how, special=special, at=at):
                special.fill(number != 1)  # in an array of ones; 1 alone
                special[at] = number
                leaves = [tdt.tensor(channels_last(a) if last else a, dtype=dtype) for a in (x, w)]
                for leaf in leaves[: 1 if special is w else 2]:
                    leaf.requires_grad_()
                result = function(*leaves, **how)
                result.backward(tdt.tensor(channels_last(y) if last else y, dtype=dtype))
                return [result.detach(), leaves[0].grad] if special is w else [leaf.grad for leaf in leaves]

            expected = [above.numpy() > 0 for above in reached(1, tdt.float64, False)]
            for value, last in itertools.product((np.nan, np.inf), (False, True)):
                for found, above in zip(reached(value, tdt.float32, last), expected, strict=True):
                    np.testing.assert_array_equal(~np.isfinite(found.numpy()), above, f"{value}, channels last: {last}")
            special.fill(1)


@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels-last"])
@pytest.mark.parametrize(("seed", "dims"), [(2, 1), (3, 2), (5, 2), (7, 3)])
def test_samples_computed_in_parts_have_the_same_bits(seed, dims, last, monkeypatch):
    x, w, b, how = drawn(seed, dims)
    x = np.concatenate([x, -x, x])
    x = channels_last(x) if last else x
    y = conv_cpu.conv(x, w, b, **how)
    expected = three(x, w, b, y, how)
    monkeypatch.setattr(conv_cpu, "CACHED", 1)
    for few in (1, 2 * y[0, 0].size):
        monkeypatch.setattr(conv_cpu, "FEW_TARGETS", few)
        for value, reference in zip(three(x, w, b, y, how), expected, strict=True):
            np.testing.assert_array_equal(value, reference)
            assert value.strides == reference.strides


@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels-last"])
@pytest.mark.parametrize("groups", [1, 2])
def test_weight_gradients_of_many_samples_are_summed_in_parts(groups, last, monkeypatch):
    torch = require_torch()
    rng = np.random.default_rng(0)
    how = {"stride": (2, 1), "padding": (1, 1), "dilation": (1, 1), "groups": groups}
    x, w = rng.standard_normal((7, 6, 19, 20), np.float32), np.zeros((4, 6 // groups, 3, 3), np.float32)
    y = rng.standard_normal((7, 4, 10, 20), np.float32)
    expected = torch.nn.grad.conv2d_weight(
        *(torch.tensor(x).double(), w.shape, torch.tensor(y).double()), **how
    ).numpy()
    parts, sum_windows = [], conv_cpu._sum_windows

    def counted(y, *arguments, **more):
        parts.append(len(y))
        return sum_windows(y, *arguments, **more)

    monkeypatch.setattr(conv_cpu, "_sum_windows", counted)
    monkeypatch.setattr(conv_cpu, "CACHED_SUMMED", 3 * 21 * 22 * 6)
    x, y = (channels_last(a) if last else a for a in (x, y))
    found = conv_cpu.conv_weight_grad(y, x, kernel=(3, 3), **how)
    assert parts == [3, 3, 1]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
