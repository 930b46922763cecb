"""Losses of classes in one pass beside PyTorch's: weights, ignored samples and label smoothing, for rows and for pixels."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tdt
from tdt._kernels import KERNELS, _pool, class_loss_cpu
from tdt.nn import functional as F
from tests._kernels.test_softmax_cpu import both_ways, logits, portable, share_all
from tests._kernels.watch import watch
from tests.helpers import require_torch

ROWS = [(1, 1), (5, 7), (1, 16), (70, 17), (33, 127), (3, 1000)]
IMAGES = [(5,), (3, 7), (2, 5, 3, 4), (2, 19, 9, 9), (1, 70, 66), (3, 9, 1, 1)]


@pytest.mark.parametrize("shape", ROWS, ids=str)
def test_losses_and_gradients_of_rows(shape):
    x, t = logits(shape), np.random.default_rng(2).integers(0, shape[1], shape[0])
    how = {"ignore_index": -100, "smoothing": 0.0}
    losses, shares, (tops, sums) = class_loss_cpu.cross_entropy(x, t, None, **how)
    logs = portable("log_softmax", x)
    np.testing.assert_allclose(losses, -logs[np.arange(len(t)), t], rtol=2e-6, atol=1e-6)
    np.testing.assert_allclose(np.exp(x - tops[:, None]) / sums[:, None], np.exp(logs), rtol=4e-6)
    np.testing.assert_array_equal(shares, 1)
    scale = logits(shape[:1], 3)
    onehot = np.arange(shape[1]) == t[:, None]
    for factor in (scale, scale[0]):
        expected = (np.exp(logs) - onehot) * np.broadcast_to(factor, shape[:1])[:, None]
        grad = class_loss_cpu.cross_entropy_vjp(np.asarray(factor), x, t, None, (tops, sums), **how)
        np.testing.assert_allclose(grad, expected, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("shape", IMAGES, ids=str)
@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels last"])
def test_as_pytorch_with_weights_smoothing_and_ignored_samples(shape, last):
    torch = require_torch()
    rng = np.random.default_rng(0)
    classes, where = shape[min(1, len(shape) - 1)], () if len(shape) == 1 else (shape[0], *shape[2:])
    x, weight = logits(shape), rng.uniform(0.2, 1.2, classes).astype(np.float32)
    if last and len(shape) == 4:
        x = x.transpose(0, 2, 3, 1).copy().transpose(0, 3, 1, 2)
    t = np.asarray(rng.integers(0, classes, where))
    some = t.copy()
    if some.size > 2:
        some.flat[1] = -100
    for reduction, by_class, smoothing, ignored in itertools.product(
        ("mean", "sum", "none"), (0, 1), (0, 0.3), (-100, 1)
    ):
        found = []
        for lib in (torch, tdt):
            leaf = lib.from_numpy(x).detach().requires_grad_()
            target = lib.tensor(some if ignored == -100 else t)
            how = {"ignore_index": ignored, "reduction": reduction, "weight": lib.tensor(weight) if by_class else None}
            loss = lib.nn.functional.cross_entropy(leaf, target, label_smoothing=smoothing, **how)
            loss.backward(lib.ones_like(loss) * 1.7)
            found.append([loss.detach().numpy(), leaf.grad.numpy()])
            if not smoothing:
                logs = leaf.detach().log_softmax(1 if len(shape) > 1 else 0).requires_grad_()
                loss = lib.nn.functional.nll_loss(logs, target, **how)
                loss.backward(lib.ones_like(loss) * 1.7)
                found[-1] += [loss.detach().numpy(), logs.grad.numpy()]
        for expected, value in zip(*found, strict=True):
            np.testing.assert_allclose(value, expected, rtol=3e-5, atol=3e-6)


@pytest.mark.parametrize("by_class", [False, True], ids=["plain", "weights"])
def test_second_derivatives_with_label_smoothing(by_class):
    rng = np.random.default_rng(0)
    t = tdt.tensor([[0, 2], [-100, 1]])
    weight = tdt.tensor(rng.uniform(0.5, 1.5, 3)) if by_class else None
    x = tdt.tensor(rng.normal(0, 1, (2, 3, 2)), requires_grad=True)
    for reduction in ("mean", "none"):
        loss = lambda x, r=reduction: F.cross_entropy(x, t, weight, label_smoothing=0.2, reduction=r)  # noqa: E731
        assert tdt.autograd.gradcheck(loss, (x,)) and tdt.autograd.gradgradcheck(loss, (x,))


def test_the_loss_of_a_pixel_has_the_bits_of_a_row():
    x, t = logits((2, 21, 700)), np.random.default_rng(1).integers(0, 21, (2, 700))
    weight, rows = np.linspace(0.5, 1.5, 21, dtype=np.float32), np.ascontiguousarray(x.swapaxes(1, 2)).reshape(-1, 21)
    for smoothing in (0.0, 0.1):
        how = {"ignore_index": 3, "smoothing": smoothing}
        of_pixels = class_loss_cpu.cross_entropy(x, t.reshape(-1), weight, **how)
        of_rows = class_loss_cpu.cross_entropy(rows, t.reshape(-1), weight, **how)
        for pixels, values in zip((*of_pixels[:2], *of_pixels[2]), (*of_rows[:2], *of_rows[2]), strict=True):
            np.testing.assert_array_equal(pixels, values)
        g = np.float32(0.3)
        grads = [
            class_loss_cpu.cross_entropy_vjp(np.asarray(g), values, t.reshape(-1), weight, sums, **how)
            for values, (_, _, sums) in ((x, of_pixels), (rows, of_rows))
        ]
        np.testing.assert_array_equal(grads[0].swapaxes(1, 2).reshape(-1, 21), grads[1])


def test_bits_do_not_depend_on_the_number_of_threads():
    x, t = logits((3, 21, 3001)), np.arange(9003) % 21
    before, found = _pool.get_num_threads(), []
    for threads in (1, 2, 3):
        _pool.set_num_threads(threads)
        *arrays, sums = class_loss_cpu.cross_entropy(x, t, None, ignore_index=2, smoothing=0.0)
        grad = class_loss_cpu.cross_entropy_vjp(arrays[0], x, t, None, sums, ignore_index=2, smoothing=0.0)
        found.append(b"".join(a.tobytes() for a in (*arrays, *sums, grad)))
    _pool.set_num_threads(before)
    assert len(set(found)) == 1


@pytest.mark.skipif(not tdt._kernels.enabled(), reason="kernels are off")
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("rows", [3, 700])
def test_the_loss_uses_the_kernels(reduction, rows, monkeypatch):
    called = watch(monkeypatch, *[path for path in KERNELS if path.startswith("class_loss_cpu:")])
    rng = np.random.default_rng(0)
    t, weight = rng.integers(0, 65, rows), tdt.tensor(rng.uniform(0.5, 2, 65).astype(np.float32))
    for x, target in (
        (logits((rows, 65)), t),
        (logits((2, 65, rows // 2 + 1)), rng.integers(0, 65, (2, rows // 2 + 1))),
    ):
        for how in ({}, {"weight": weight}, {"ignore_index": 3}, {"label_smoothing": 0.1}):
            called.clear()
            loss = lambda leaf, t=target, k=how: F.cross_entropy(leaf, tdt.tensor(t), reduction=reduction, **k)  # noqa: E731
            fast, reference = both_ways(loss, x)
            plain = x.ndim == 2 and how.keys() <= {"ignore_index"} and reduction != "none"
            short = plain and x.size < tdt._kernels._threads.THREADS.rows
            name = "class_loss_cpu:mean_cross_entropy" if short else "class_loss_cpu:cross_entropy"
            assert called == [name, f"{name}_vjp"]
            for value, expected in zip(fast, reference, strict=True):
                np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_the_reduced_loss_has_the_same_bits_on_all_threads(reduction, monkeypatch):
    x, t = logits((1500, 7)), np.arange(1500) % 7
    found = []
    for threads in (1, 2):
        if threads == 2:
            share_all(monkeypatch)
        leaf = tdt.tensor(x, requires_grad=True)
        loss = F.cross_entropy(leaf, tdt.tensor(t), reduction=reduction)
        loss.backward(tdt.tensor(0.7))
        found.append(loss.detach().numpy().tobytes() + leaf.grad.numpy().tobytes())
    assert found[0] == found[1]


@pytest.mark.parametrize("ignored", [-100, 2])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_ignored_classes_give_the_bits_of_the_long_way(ignored, reduction):
    x, t = logits((65, 33)), np.arange(65) % 33
    t[[0, 7, 40]] = ignored
    x[7] = np.nan  # its loss is left out, its gradient is not a number
    g, mean = np.float32(0.7), reduction == "mean"
    loss, sums, norm = class_loss_cpu.mean_cross_entropy(x, t, mean=mean, ignore_index=ignored)
    losses, shares, known = class_loss_cpu.cross_entropy(x, t, None, ignore_index=ignored, smoothing=0.0)
    assert norm == (shares.sum() if mean else 1)
    assert loss == (class_loss_cpu.mean(losses, shares)[0] if mean else class_loss_cpu.total(losses))
    grad = class_loss_cpu.mean_cross_entropy_vjp(x, t, sums, g, norm, ignore_index=ignored)
    slope = np.asarray(g / norm)
    expected = class_loss_cpu.cross_entropy_vjp(slope, x, t, None, known, ignore_index=ignored, smoothing=0.0)
    np.testing.assert_array_equal(grad, expected)


def test_a_class_that_is_out_of_range_takes_the_long_way_and_ignored_ones_are_as_if_absent():
    x = logits((4, 5))
    for bad in (-1, 5, -100):
        assert class_loss_cpu.mean_cross_entropy(x, np.array([0, bad, 2, 4]), mean=True, ignore_index=-99) is None
    t = tdt.tensor([0, -100, 2, 4])
    expected = F.cross_entropy(tdt.tensor(x[[0, 2, 3]]), tdt.tensor([0, 2, 4]))
    np.testing.assert_array_equal(F.cross_entropy(tdt.tensor(x), t).numpy(), expected.numpy())
    assert np.isnan(F.cross_entropy(tdt.tensor(x), t * 0 - 100).item())
    for how in ({}, {"label_smoothing": 0.1}, {"weight": tdt.ones(5)}):
        with pytest.raises(IndexError, match="Target 5 is out of bounds"):
            F.cross_entropy(tdt.tensor(x), tdt.tensor([0, 5, 2, 4]), **how)
    with pytest.raises(IndexError, match="Target 5 is out of bounds"):
        F.nll_loss(tdt.tensor(x), tdt.tensor([0, 5, 2, 4]))
    for shape in ((2, 0), (2, 0, 3)):
        with pytest.raises(IndexError, match="Target 0 is out of bounds"):
            F.cross_entropy(tdt.zeros(shape), tdt.zeros(2, *shape[2:], dtype=tdt.int64))


@pytest.mark.parametrize("bad", [-5, -1, 100, 10**9])
def test_classes_that_changed_since_the_loss_are_refused(bad):
    classes, how = np.zeros(1000, np.int64), {"ignore_index": -100, "smoothing": 0.0}
    x = np.ones((1000, 100), np.float32)
    *_, sums = class_loss_cpu.cross_entropy(x, classes, None, **how)
    classes[3] = bad
    with pytest.raises(IndexError, match="out of bounds"):
        class_loss_cpu.cross_entropy_vjp(np.ones((), np.float32), x, classes, None, sums, **how)
    with pytest.raises(IndexError, match="out of bounds"):
        class_loss_cpu.mean_cross_entropy_vjp(x, classes, sums, np.float32(1), np.float32(1), ignore_index=-100)
    with pytest.raises(IndexError, match="out of bounds"):
        class_loss_cpu.nll_loss_vjp(np.ones((), np.float32), None, classes, None, (1000, 100), ignore_index=-100)
