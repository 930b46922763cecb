"""Reductions of formulas in one pass: the bits of the fold of an array that holds the formula's values."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest

import tdt
from tdt._kernels import functions
from tdt._kernels._launches import watch
from tdt._kernels._tape import Tape
from tdt._kernels.expression import Expression, as_expression
from tdt._kernels.fold_cpu import fold
from tdt._kernels.fused import Layout, _codes, fused
from tdt._kernels.fused_fold import FEW, Folding, fused_fold
from tdt._ops.nn.loss import elements
from tdt.autograd import _call_counts

pytestmark = pytest.mark.skipif(not tdt.backends.kernels.enabled(), reason="portable code is not fused")

X, Y = Expression("input", 0), Expression("input", 1)
SHAPES = [(64, 64), (8, 128, 256), (4096,), (300_000,), (3, 5, 7, 129), (17, 1000), (1000, 17), (5000, 8), (9000, 1),
          (2, 3000, 70), (40, 3, 64, 5), (2000, 700), (3, 2, 50_000), (100_019, 3), (40, 20_000)]  # fmt: skip


@pytest.fixture(params=[1, 2])
def threads(request):
    before = tdt.get_num_threads()
    tdt.set_num_threads(request.param)
    yield request.param
    tdt.set_num_threads(before)


def drawn(shape, seed, turned=False):
    """Numbers; turned: the first dimension is the innermost in memory."""
    draw = np.random.default_rng(seed).standard_normal(shape[::-1] if turned else shape).astype(np.float32)
    return draw.T if turned else draw


def folding_of(name, values, axis, keepdims, packed=False):
    """The reduction, and its result by `fold`."""
    shape = np.empty(values.shape, np.bool_).any(axis, keepdims=keepdims).shape
    folding = Folding(name, Layout.of(values), axis, keepdims, shape, packed)
    expected = np.asarray(fold(name, values, axis, keepdims, None, folding.number))
    return folding, expected.copy() if packed else expected


def layout_of(a):
    """Strides and bits, but the strides of dimensions of one element, which do not count."""
    return a.shape, [s for s, n in zip(a.strides, a.shape, strict=True) if n > 1], a.tobytes()


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_formula_is_folded_to_the_bits_of_its_values_in_memory(shape, turned, threads):
    x = drawn(shape, 0, turned)
    output = as_expression(functions.exp(X) * Y + X)
    dims, used, tried = range(x.ndim), 0, 0
    for small in {shape, shape[-1:], (*shape[:-1], 1), (1,) * x.ndim}:
        y = drawn(small, 1)
        layouts = [Layout.of(x), Layout.of(y)]
        plain = fused([output], layouts, layouts[:1])
        values = np.empty_like(x)
        values[...] = plain(x, y)
        several = itertools.chain.from_iterable(itertools.combinations(dims, k + 1) for k in dims)
        for axis in [None, *several]:
            name = ("sum", "sum", "mean", "max", "norm2")[tried % 5]
            stores, keepdims = bool(tried & 1), bool(tried & 2)
            tried += 1
            folding, expected = folding_of(name, values, axis, keepdims, packed=bool(tried & 4))
            run = fused_fold([output], layouts, [Layout.of(values)], folding, stores)
            if run is None:
                continue
            used += 1
            found = run(x, y)
            if stores:
                found, stored = found
                assert layout_of(stored) == layout_of(values)
            assert layout_of(found) == layout_of(expected), (small, axis, name, stores, keepdims)
            if name == "sum":
                exact = values.astype(np.float64).sum(axis, keepdims=keepdims)
                np.testing.assert_allclose(found, exact, rtol=2e-6, atol=2e-6 * np.abs(values).sum(axis).max())
    assert used or x.size < FEW or min(shape) < 16


def test_other_results_are_stored_in_the_same_pass(threads):
    x, y = drawn((200, 300), 0), drawn((300,), 1)
    values = [x * y, x + y, x < y]
    layouts = [Layout.of(x), Layout.of(y)]
    folding, expected = folding_of("sum", values[0], 0, False)
    for stores in (False, True):
        run = fused_fold([X * Y, X + Y, X < Y], layouts, [*map(Layout.of, values)], folding, stores)
        found, *stored = run(x, y)
        assert found.tobytes() == expected.tobytes()
        assert [a.tobytes() for a in stored] == [a.tobytes() for a in values[not stores :]]


def test_operands_that_lie_in_another_way_give_the_same_bits():
    x, y = drawn((100, 200), 0), drawn((100, 200), 1)
    folding, expected = folding_of("mean", x * y, 1, True)
    for stores in (False, True):
        run = fused_fold([X * Y], [Layout.of(x), Layout.of(y)], [Layout.of(x)], folding, stores)
        for a, b in ((np.asfortranarray(x), y), (x, np.repeat(y, 2, 1)[:, ::2])):
            found = run(a, b)
            assert (found[0] if stores else found).tobytes() == expected.tobytes()
            if stores:
                assert found[1].tobytes() == (x * y).tobytes()


@pytest.mark.parametrize("shape, axis", [((90, 100), 0), ((90, 100), 1), ((90, 100), None), ((100_019, 3), 0)])
def test_a_tape_launches_it(shape, axis):
    x, y = drawn(shape, 0), drawn(shape, 1)
    folding, _ = folding_of("sum", x, axis, False)
    run = fused_fold([X * Y], [Layout.of(x), Layout.of(y)], [Layout.of(x)], folding, False)
    with watch() as trace:
        found = run(x, y)
    assert trace.complete
    tape = Tape(trace.launches)
    x[...] = drawn(shape, 2)
    assert tape.run()
    assert found.tobytes() == np.asarray(fold("sum", x * y, axis, False)).tobytes()


def test_what_saves_nothing_is_not_fused():
    def run(x, axis, small=None):
        y = x if small is None else small
        folding, _ = folding_of("sum", x, axis, False)
        return fused_fold([X * Y], [Layout.of(x), Layout.of(y)], [Layout.of(x)], folding, False)

    assert run(drawn((100, 100), 0), 1) is not None
    assert run(drawn((10, 10), 0), 1) is None  # few elements
    assert run(drawn((1000, 10), 0), 1) is None  # short rows, which are folded side by side
    assert run(drawn((1000, 20), 0), 1, drawn((20,), 0)) is None  # and those of a broadcast operand
    assert run(drawn((200, 200), 0)[:, ::2], 1) is None  # with gaps
    assert run(drawn((100, 100), 0).astype(np.float64), 1) is None


@pytest.mark.parametrize("count", [1000, FEW, 40_001, 300_007])
@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "soft_margin_loss",
                                  "binary_cross_entropy_with_logits"])  # fmt: skip
def test_a_loss_has_the_bits_of_its_elements_folded(name, reduction, count, threads):
    loss = getattr(tdt.nn.functional, name)
    x, y = (tdt.from_numpy(drawn((count,), seed)) for seed in (0, 1))
    elements = loss(x, y, reduction="none").sum()
    expected = elements / count if reduction == "mean" else elements
    for _ in range(_call_counts.TIMES + 1):
        assert loss(x, y, reduction=reduction).numpy().tobytes() == expected.numpy().tobytes()


def test_a_loss_with_a_number_has_one_code_for_all_its_values():
    x, y = (tdt.from_numpy(drawn((FEW,), seed)) for seed in (0, 1))
    for _ in range(_call_counts.TIMES):
        tdt.nn.functional.huber_loss(x, y, delta=0.5)
    before = len(_codes)
    for delta in (0.125, 0.3, 1, 2.5, 1e39):
        found = tdt.nn.functional.huber_loss(x, y, delta=delta)
        assert found == tdt.nn.functional.huber_loss(x, y, delta=delta, reduction="none").sum() / FEW
    assert len(_codes) == before


def test_a_loss_is_prepared_for_shapes_that_are_often_met(monkeypatch):
    prepared, times = [], 4
    monkeypatch.setattr(_call_counts, "TIMES", times)
    monkeypatch.setattr(elements, "total_of", lambda compute, x, y: prepared.append(x.shape))
    for n in (5001, 5002, 5003, *[5004] * (times + 1)):
        x = tdt.ones(n)
        assert tdt.nn.functional.l1_loss(x, x * 3) == 2
    assert prepared == [(5004,)]  # later ones are remembered by the function


def test_a_large_loss_makes_no_array_of_its_elements():
    x, y = (tdt.from_numpy(drawn((1 << 20,), seed)) for seed in (0, 1))
    for _ in range(_call_counts.TIMES):
        tdt.nn.functional.huber_loss(x, y, delta=0.5)
    tracemalloc.start()
    tdt.nn.functional.huber_loss(x, y, delta=0.5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < x.nbytes // 8
