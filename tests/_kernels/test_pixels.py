"""Grouped convolutions of channels-last images: PyTorch's values, for any shape, and the same bits for any number of threads."""

from __future__ import annotations

import numpy as np
import pytest

from tdt._backend.layout import to_front, to_last
from tdt._kernels import _pixels, _pool, depthwise_cpu
from tests._kernels.test_planes import expected, problem

# (samples, groups, channels in and out of a group, size, kernel, stride, padding, dilation)
CASES = [
    (2, 67, 1, 1, (7, 9), (3, 3), (1, 1), (1, 1), (1, 1)),
    (1, 5, 1, 1, (33, 40), (5, 2), (2, 2), (2, 1), (1, 3)),
    (2, 13, 2, 2, (9, 21), (3, 3), (1, 1), (1, 2), (1, 1)),
    (3, 9, 4, 4, (12, 7), (1, 3), (1, 3), (0, 0), (1, 2)),
    (1, 9, 8, 8, (14, 11), (3, 3), (2, 2), (1, 1), (1, 1)),
    (2, 3, 16, 16, (1, 6), (1, 1), (1, 2), (0, 0), (1, 1)),
    (1, 3, 12, 32, (5, 5), (2, 2), (1, 1), (0, 1), (1, 1)),
    (5, 1, 3, 32, (13, 20), (3, 3), (2, 2), (1, 1), (1, 1)),
    (1, 24, 1, 1, (20, 400), (3, 1), (1, 1), (2, 0), (2, 1)),
    (2, 3, 1, 1, (6, 8), (3, 3), (1, 1), (1, 1), (1, 1)),
    (1, 2, 24, 48, (6, 5), (3, 2), (1, 2), (1, 1), (1, 1)),
    (9, 24, 1, 1, (9, 7), (7, 7), (2, 1), (3, 3), (1, 1)),
]


def last(a: np.ndarray) -> np.ndarray:
    return to_front(np.ascontiguousarray(to_last(a)))


def all_three(x, w, b, y, how) -> list[np.ndarray | None]:
    return [
        _pixels.result(x, w, b, **how),
        _pixels.input_grad(y, w, None, size=x.shape[2:], **how),
        _pixels.weight_grad(y, x, kernel=w.shape[2:], **how),
    ]


def check(case: tuple) -> None:
    x, w, b, how = problem(case)
    y, references = expected(x, w, b, how)
    results = all_three(last(x), w, b, last(y), how)
    assert results[0] is not None and results[2] is not None
    for value, reference in zip(results, references, strict=True):
        if value is not None:  # as many channels in a group as a vector has, or fewer on both sides
            np.testing.assert_allclose(value, reference, rtol=0, atol=1e-5 * np.abs(reference).max())


@pytest.mark.parametrize("case", CASES, ids=str)
def test_values_are_those_of_pytorch(case):
    check(case)


@pytest.mark.parametrize("case", [CASES[0], CASES[3], CASES[6], CASES[10]], ids=str)
def test_bits_do_not_depend_on_the_memory_order_of_weights(case):
    x, w, b, how = problem(case)
    x = last(x)
    y = np.random.default_rng(1).standard_normal(_pixels.result(x, w, b, **how).shape, np.float32)
    for order in (last(w), np.repeat(w, 2, axis=-1)[..., ::2]):
        for value, usual in zip(all_three(x, order, b, y, how)[:2], all_three(x, w, b, y, how)[:2], strict=True):
            np.testing.assert_array_equal(value, usual)


def test_large_dilations_are_left_to_other_code():
    x, w, b, how = problem((1, 16, 1, 1, (90, 90), (3, 3), (1, 1), (40, 40), (40, 40)))
    assert _pixels.result(last(x), w, b, **how) is None


@pytest.mark.parametrize("case", [CASES[0], CASES[1], CASES[4], CASES[6], CASES[7], CASES[11]], ids=str)
def test_weight_gradients_of_contiguous_images_have_the_bits_of_channels_last_ones(case):
    x, w, b, how = problem(case)
    y = np.random.default_rng(1).standard_normal(_pixels.result(last(x), w, b, **how).shape, np.float32)
    found = [_pixels.weight_grad(*arrays, kernel=w.shape[2:], **how) for arrays in ((y, x), (last(y), last(x)))]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("case", [CASES[2], CASES[4]], ids=str)
def test_vectors_of_sixteen_give_the_same_values(case, monkeypatch):
    monkeypatch.setattr(_pixels, "vector_width", lambda: 16)
    plans = _pixels._values_plan, _pixels._weights_plan
    for plan in plans:
        plan.cache_clear()
    try:
        check(case)
    finally:
        for plan in plans:
            plan.cache_clear()


@pytest.mark.parametrize("stride", [(1, 1), (2, 2)])
def test_two_vectors_of_a_group_together_have_the_bits_of_one_at_a_time(stride, monkeypatch):
    monkeypatch.setattr(_pixels, "vector_width", lambda: 16)
    case = (2, 3, 32, 32, (9, 10), (3, 3), stride, (1, 1), (1, 1))
    x, w, b, how = problem(case)
    found, together = [], []
    for most in (0, _pixels.PAIRED):
        monkeypatch.setattr(_pixels, "PAIRED", most)
        _pixels._values_plan.cache_clear()
        out = _pixels.result(last(x), w, b, **how)
        y = np.random.default_rng(1).standard_normal(out.shape, np.float32)
        found.append((out, _pixels.input_grad(last(y), w, None, size=x.shape[2:], **how)))
        shape = ("result", (3, 3), stride, (1, 1), (0, 0)), out.shape[2:], 32, 32, 3
        together.append(_pixels._values_plan(*shape).kind.together)
    _pixels._values_plan.cache_clear()
    assert together == [1, 2]
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)
    check(case)
    for plan in (_pixels._values_plan, _pixels._weights_plan):  # not for vectors of the processor's own width
        plan.cache_clear()


@pytest.mark.parametrize("case", [CASES[0], CASES[4], CASES[7]], ids=str)
def test_bits_do_not_depend_on_the_number_of_threads(case, monkeypatch):
    monkeypatch.setattr(_pixels, "GRAIN", 1)
    x, w, b, how = problem(case)
    x = last(x)
    y = np.ones_like(_pixels.result(x, w, b, **how))
    before, found = _pool.get_num_threads(), set()
    for threads in (1, 2, 3, 4):
        _pool.set_num_threads(threads)
        found.add(b"".join(a.tobytes() for a in all_three(x, w, b, y, how) if a is not None))
    _pool.set_num_threads(before)
    assert len(found) == 1


@pytest.mark.parametrize("channels", [1, 4, 8])
def test_an_element_has_one_value_whatever_the_size_of_the_image(channels):
    x, w, b, how = problem((1, 12, channels, channels, (30, 41), (3, 3), (1, 1), (0, 0), (1, 1)))
    whole = _pixels.result(last(x), w, b, **how)
    for rows, columns in ((3, 3), (10, 9), (17, 35)):
        part = _pixels.result(last(x[:, :, 2 : 2 + rows, 5 : 5 + columns]), w, b, **how)
        np.testing.assert_array_equal(part, whole[:, :, 2:rows, 5 : 3 + columns])


def test_infinite_weights_and_gradients_do_not_meet_the_padding():
    x, w, b, how = problem(CASES[0])
    x, w[2, 0, 0, 0] = last(x), np.inf
    result = depthwise_cpu.conv(x, w, b, **how)
    assert not np.isnan(result).any() and np.isinf(result[:, 2, 1:, 1:]).all()
    assert np.isfinite(result[:, 2, 0]).all() and np.isfinite(result[:, 2, :, 0]).all()
    y = np.ones_like(result)
    y[0, 1, 0, 0] = np.inf
    grad = depthwise_cpu.conv_weight_grad(y, x, kernel=(3, 3), **how)
    assert not np.isnan(grad).any() and np.isinf(grad[1, 0, 1:, 1:]).all() and np.isfinite(grad[1, 0, 0]).all()
