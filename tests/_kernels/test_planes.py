"""Grouped convolutions of contiguous images: PyTorch's values, for any shape, and the same bits for any number of threads."""

from __future__ import annotations

import itertools
import os
import random

import numpy as np
import pytest

import tdt
from tdt._kernels import KERNELS, _planes, _pool, depthwise_cpu
from tests._kernels.guarded import at_the_end
from tests._kernels.watch import watch
from tests.helpers import require_torch

# (samples, groups, channels in and out of a group, size, kernel, stride, padding, dilation)
CASES = [
    (3, 5, 1, 1, (7, 7), (3, 3), (1, 1), (1, 1), (1, 1)),
    (2, 3, 1, 1, (33, 14), (5, 5), (2, 2), (1, 4), (3, 2)),
    (2, 2, 1, 3, (9, 200), (3, 5), (1, 3), (1, 2), (1, 2)),
    (3, 2, 17, 6, (13, 21), (3, 3), (2, 1), (1, 0), (1, 1)),
    (1, 4, 4, 4, (1, 300), (1, 7), (1, 1), (0, 3), (1, 1)),
    (2, 2, 5, 11, (6, 9), (1, 1), (1, 2), (0, 0), (1, 1)),
    (7, 1, 3, 17, (9, 22), (3, 3), (2, 2), (1, 1), (1, 1)),
    (5, 1, 18, 2, (6, 14), (5, 3), (1, 1), (2, 1), (1, 1)),
    (2, 4, 1, 1, (11, 17), (9, 9), (1, 1), (4, 4), (1, 1)),
]


def problem(case: tuple) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict]:
    count, groups, per, out, size, kernel, stride, padding, dilation = case
    rng = np.random.default_rng(0)
    x = rng.standard_normal((count, groups * per, *size), np.float32)
    w = rng.standard_normal((groups * out, per, *kernel), np.float32)
    how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return x, w, rng.standard_normal(groups * out, np.float32), how


def all_three(x, w, b, y, how) -> list[np.ndarray | None]:
    return [
        _planes.result(x, w, b, **how),
        _planes.input_grad(y, w, None, size=x.shape[2:], **how),
        _planes.weight_grad(y, x, kernel=w.shape[2:], **how),
    ]


def expected(x, w, b, how) -> tuple[np.ndarray, list[np.ndarray]]:
    """A gradient of the result; the result and the gradients of PyTorch in float64."""
    torch = require_torch()
    leaves = [torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in (x, w, b)]
    out = torch.nn.functional.conv2d(*leaves, **how)
    y = np.random.default_rng(1).standard_normal(out.shape).astype(np.float32)
    out.backward(torch.tensor(y, dtype=torch.float64))
    return y, [a.numpy() for a in (out.detach(), leaves[0].grad, leaves[1].grad)]


def check(case: tuple) -> None:
    x, w, b, how = problem(case)
    y, references = expected(x, w, b, how)
    for k, (value, reference) in enumerate(zip(all_three(x, w, b, y, how), references, strict=True)):
        if value is None:
            assert k == 1 and max(how["stride"]) > 2, "only gradients of inputs have a limit on strides"
            continue
        np.testing.assert_allclose(value, reference, rtol=0, atol=1e-5 * np.abs(reference).max())


@pytest.mark.parametrize(
    "case",
    [
        CASES[0],
        (2, 3, 1, 3, (11, 17), (5, 3), (1, 1), (2, 0), (2, 3)),
        (2, 3, 1, 1, (14, 29), (3, 5), (2, 2), (1, 2), (1, 1)),
        (1, 2, 1, 2, (5, 1), (3, 3), (1, 2), (1, 2), (1, 1)),
        (1, 1, 1, 1, (21, 30), (7, 7), (3, 1), (0, 3), (1, 1)),
        (2, 1, 37, 3, (19, 45), (3, 3), (1, 1), (1, 1), (1, 1)),
        (2, 2, 5, 1, (12, 40), (3, 5), (2, 2), (1, 2), (1, 1)),
        (1, 1, 3, 20, (9, 33), (5, 5), (1, 2), (2, 2), (1, 1)),
        (2, 2, 18, 13, (10, 14), (3, 3), (1, 1), (1, 1), (1, 1)),
    ],
    ids=str,
)
def test_planes_read_where_they_lie_give_the_bits_of_copied_ones(case, monkeypatch):
    x, w, b, how = problem(case)
    y, _ = expected(x, w, b, how)
    x, y = at_the_end(x), at_the_end(y)

    def computed(most: int) -> list[np.ndarray | None]:
        monkeypatch.setattr(_planes, "IN_PLACE", most)
        _planes._plan.cache_clear()
        results = all_three(x, w, b, y, how)[:2]
        return [a for a in results if a is not None]

    in_place, copied = computed(8), computed(0)
    assert in_place and all(map(np.array_equal, in_place, copied))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_values_are_those_of_pytorch(case):
    check(case)


@pytest.mark.parametrize(
    ("channels", "out", "kernel", "stride", "size", "by_rows"),
    [(3, 512, 4, 2, 16, False), (3, 64, 3, 1, 128, True), (1, 40, 5, 1, 32, True), (20, 2, 3, 1, 9, True)],
    ids=str,
)
def test_weight_gradients_in_one_group_are_summed_along_rows_unless_the_tile_takes_less_time(
    channels, out, kernel, stride, size, by_rows, monkeypatch
):
    x, w, b, how = problem((2, 1, channels, out, (size, size), (kernel, kernel), (stride, stride), (1, 1), (1, 1)))
    y, (_, _, expected_sums) = expected(x, w, b, how)
    called, weight_grad = [], _planes.weight_grad
    monkeypatch.setattr(_planes, "weight_grad", lambda *a, **k: called.append(1) or weight_grad(*a, **k))
    sums = depthwise_cpu.conv_weight_grad(y, x, kernel=w.shape[2:], **how)
    np.testing.assert_allclose(sums, expected_sums, rtol=0, atol=1e-5 * np.abs(expected_sums).max())
    assert bool(called) == by_rows


def test_sums_of_a_tile_and_what_a_weight_meets_leave_registers_free():
    for vector, registers in ((8, 16), (16, 32)):
        for targets in ((112, 112), (61, 61), (14, 14), (7, 30)):
            for outer, phases in itertools.product((2, 3, 4, 12, 64), (1, 2)):
                channels, rows, vectors = _planes._tile(targets, outer, phases, vector, False)
                sums = channels * phases * rows * vectors
                assert sums + rows * vectors + 1 < registers, "else sums are moved to memory and back"


def test_results_with_long_sums_are_computed_along_rows_of_wide_vectors_alone(monkeypatch):
    for out, per, kernel, stride, groups, vectors in (
        (64, 3, 4, 2, 1, {16}),
        (64, 3, 4, 1, 1, {8, 16}),
        (64, 3, 3, 2, 1, {8, 16}),
        (20, 12, 3, 1, 1, {8, 16}),
        (512, 16, 3, 1, 32, {16}),
        (256, 8, 3, 1, 32, {8, 16}),
    ):
        w = np.zeros((out, per, kernel, kernel), np.float32)
        for vector in (8, 16):
            monkeypatch.setattr(depthwise_cpu, "vector_width", lambda vector=vector: vector)
            found = depthwise_cpu._results_by_rows(w, (stride, stride), groups, 32)
            assert found == (vector in vectors), f"{out} x {per} x {kernel}, {vector}"


@pytest.mark.skipif(os.environ.get("TDT_KERNELS") == "reference", reason="kernels are off")
def test_convolutions_with_few_channels_on_one_side_are_computed_here(monkeypatch):
    here = [f"depthwise_cpu:{name}" for name in ("conv", "conv_input_grad", "conv_weight_grad")]
    called = watch(monkeypatch, *here, "lines_cpu:conv_weight_grad")  # the latter in vectors of eight
    for channels, out, kernel, count in (
        (3, 16, 3, 3),
        (1, 32, 5, 3),
        (20, 2, 3, 3),
        (3, 64, 3, 3),
        (3, 34, 3, 3),
        (3, 8, 1, 0),
    ):
        x = tdt.zeros(2, channels, 16, 16, requires_grad=True)
        w = tdt.zeros(out, channels, kernel, kernel, requires_grad=True)
        tdt.nn.functional.conv2d(x, w, padding=kernel // 2).sum().backward()
        assert len(called) == count, f"{channels} -> {out}, {kernel}: {called}"
        called.clear()


@pytest.mark.skipif(os.environ.get("TDT_KERNELS") == "reference", reason="kernels are off")
def test_how_well_rows_fill_vectors_decides_for_up_to_twelve_channels():
    def chosen(channels: int, out: int, size: int, kernel: int) -> list[bool]:
        x, y, w = (np.broadcast_to(np.float32(0), s) for s in ((2, channels, size, size), (2, out, size, size),
                                                               (out, channels, kernel, kernel)))  # fmt: skip
        how = {"stride": (1, 1), "padding": (kernel // 2,) * 2, "dilation": (1, 1), "groups": 1}
        calls = ("conv", (x, w, None), how), ("conv_input_grad", (y, w, None), {**how, "size": (size, size)})
        return [KERNELS[f"depthwise_cpu:{name}"].when(arrays, attributes) for name, arrays, attributes in calls]

    assert chosen(8, 16, 16, 3) == chosen(24, 12, 16, 3) == chosen(12, 40, 16, 3) == [True, True]
    assert chosen(12, 40, 16, 7) == [False, True], "short sums alone are worth turning nothing"
    assert chosen(24, 13, 16, 3) == [False, False], "many channels"
    assert chosen(24, 12, 20, 3) == chosen(10, 24, 8, 3) == [False, False], "rows that fill vectors badly"
    assert chosen(6, 16, 14, 5) == [False, True]


def test_channels_last_images_of_few_channels_have_the_bits_of_contiguous_ones():
    rng, how = np.random.default_rng(0), {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
    for channels, out in ((3, 20), (20, 3)):
        x, y, w, b = (rng.normal(size=s).astype(np.float32)
                      for s in ((2, channels, 24, 24), (2, out, 24, 24), (out, channels, 3, 3), (out,)))  # fmt: skip
        last = lambda a: np.ascontiguousarray(a.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)  # noqa: E731
        pairs = [(depthwise_cpu.conv(f(x), f(w), b, **how), depthwise_cpu.conv_input_grad(f(y), f(w), size=(24, 24), **how),
                  depthwise_cpu.conv_weight_grad(f(y), f(x), kernel=(3, 3), **how)) for f in (np.asarray, last)]  # fmt: skip
        few = [out <= 4, channels <= 4, out <= 4]
        for contiguous, found, same in zip(*pairs, few, strict=True):
            assert found.strides[1] == 4
            if same:
                np.testing.assert_array_equal(found, contiguous)
            np.testing.assert_allclose(found, contiguous, rtol=1e-4, atol=1e-4)


def test_values_are_right_for_random_shapes():
    draw = random.Random(3).choice
    for _ in range(2):
        kernel, dilation = (draw((1, 2, 3, 5)), draw((1, 3))), (draw((1, 2)), 1)
        size = tuple(draw((8, 14, 19, 40, 112)) for _ in range(2))
        check(
            (
                2,
                3,
                draw((1, 2, 8)),
                draw((1, 4, 7)),
                size,
                kernel,
                (draw((1, 2)), draw((1, 2))),
                (1, draw((0, 2))),
                dilation,
            )
        )


def test_vectors_of_sixteen_give_the_same_values(monkeypatch):
    monkeypatch.setattr(_planes, "vector_width", lambda: 16)
    plans = _planes._plan, _planes._weights_plan
    for plan in plans:
        plan.cache_clear()
    try:
        check(CASES[1])
    finally:
        for plan in plans:
            plan.cache_clear()


@pytest.mark.parametrize("case", [CASES[0], CASES[3], CASES[6]], ids=str)
def test_bits_do_not_depend_on_the_number_of_threads(case, monkeypatch):
    monkeypatch.setattr(_planes, "GRAIN", 1)
    x, w, b, how = problem(case)
    y = np.ones_like(_planes.result(x, w, b, **how))
    before, found = _pool.get_num_threads(), set()
    for threads in (1, 2, 3, 4):
        _pool.set_num_threads(threads)
        found.add(b"".join(a.tobytes() for a in all_three(x, w, b, y, how)))
    _pool.set_num_threads(before)
    assert len(found) == 1


def test_pieces_of_all_channels_have_the_bits_of_pieces_of_one(monkeypatch):
    x, w, _, how = problem((_planes.PARTS, 4, 3, 5, (9, 21), (3, 3), (1, 1), (1, 1), (1, 1)))
    y = np.random.default_rng(1).standard_normal((len(x), len(w), 9, 21), np.float32)
    counts = []
    original = _planes.parallel
    monkeypatch.setattr(
        _planes, "parallel", lambda f, n, *rest, **how: (counts.append(n), original(f, n, *rest, **how))
    )
    every = _planes.weight_grad(y, x, kernel=(3, 3), **how)
    monkeypatch.setattr(_planes, "SUMS", 5 * 9 * 16)  # of one channel
    np.testing.assert_array_equal(_planes.weight_grad(y, x, kernel=(3, 3), **how), every)
    assert counts == [4, 12], "a piece of each group, then of each of its three channels"


def test_an_element_has_one_value_whatever_the_size_of_the_image():
    x, w, b, how = problem((1, 4, 1, 1, (40, 60), (3, 3), (1, 1), (0, 0), (1, 1)))
    whole = _planes.result(x, w, b, **how)
    for rows, columns in ((3, 3), (10, 9), (17, 40)):
        part = _planes.result(np.ascontiguousarray(x[:, :, 2 : 2 + rows, 5 : 5 + columns]), w, b, **how)
        np.testing.assert_array_equal(part, whole[:, :, 2:rows, 5 : 3 + columns])


def test_infinite_weights_and_gradients_do_not_meet_the_padding():
    x, w, b, how = problem(CASES[0])
    w[2, 0, 0, 0] = np.inf
    result = depthwise_cpu.conv(x, w, b, **how)
    assert not np.isnan(result).any() and np.isinf(result[:, 2, 1:, 1:]).all()
    assert np.isfinite(result[:, 2, 0]).all() and np.isfinite(result[:, 2, :, 0]).all()
    y = np.ones_like(result)
    y[0, 1, 0, 0] = np.inf
    grad = depthwise_cpu.conv_weight_grad(y, x, kernel=(3, 3), **how)
    assert not np.isnan(grad).any() and np.isinf(grad[1, 0, 1:, 1:]).all() and np.isfinite(grad[1, 0, 0]).all()


def test_sums_over_many_channels_are_as_accurate_as_those_of_pytorch():
    torch = require_torch()
    rng = np.random.default_rng(0)
    y, w = (3 + rng.standard_normal(shape, np.float32) for shape in ((1, 64, 28, 28), (64, 3, 7, 7)))
    how = {"stride": (2, 2), "padding": (3, 3), "dilation": (1, 1), "groups": 1}
    value = _planes.input_grad(y, w, None, size=(56, 56), **how)
    exact, other = (
        torch.nn.grad.conv2d_input((1, 3, 56, 56), *(torch.tensor(a, dtype=kind) for a in (w, y)), 2, 3)
        .double()
        .numpy()
        for kind in (torch.float64, torch.float32)
    )
    assert np.abs(value - exact).mean() < 1.5 * np.abs(other - exact).mean()


@pytest.mark.parametrize("vector", [8, 16])
def test_the_sums_of_a_tile_and_what_its_weights_meet_fit_in_the_registers(vector):
    registers = 32 if vector == 16 else 16
    for outer in range(2, 40):
        for phases, size in ((1, (56, 56)), (1, (14, 14)), (1, (7, 7)), (2, (28, 28)), (2, (75, 75))):
            channels, rows, vectors = _planes._tile(size, outer, phases, vector, phases == 2)
            assert channels * phases * rows * vectors + rows * vectors < registers
            assert -(-outer // channels) * channels < 1.34 * outer
    assert _planes._tile((48, 48), 3, 1, 16, False) == (3, 6, 1)
    assert _planes._tile((14, 14), 16, 1, 16, False) == (8, 2, 1)
