"""Winograd's convolutions beside PyTorch's in float64, the direct kernels, and themselves on other threads and vectors."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import tdt
from tdt._backend.layout import to_front, to_last
from tdt._kernels import KERNELS, _conv_conditions, _pool, conv_cpu, winograd_cpu
from tests._kernels.watch import watch
from tests.helpers import require_torch

HOW = {"stride": (1, 1), "dilation": (1, 1), "groups": 1}
# Batch, channels in and out, size, padding: sizes off the tiles, blocks off the register's tile, sums cut in two.
CASES = [
    (2, 16, 32, (8, 8), (1, 1)),
    (3, 64, 48, (7, 9), (1, 0)),
    (1, 16, 16, (3, 3), (0, 0)),
    (2, 48, 80, (5, 2), (2, 2)),
    (1, 272, 16, (6, 5), (0, 2)),
    (1, 32, 64, (40, 33), (1, 1)),
]
NAMES = ("conv", "conv_input_grad", "conv_weight_grad")


def problem(case: tuple, last: bool, mean: float = 0.0, deviation: float = 1.0) -> tuple:
    """x, w, b, a gradient of the result, and the padding."""
    batch, channels, out, size, padding = case
    rng = np.random.default_rng(channels + out + sum(size))
    result = [n + 2 * p - 2 for n, p in zip(size, padding, strict=True)]
    x, w, b, g = (
        (rng.standard_normal(s) * deviation + mean).astype(np.float32)
        for s in ((batch, channels, *size), (out, channels, 3, 3), (out,), (batch, out, *result))
    )
    if last:
        x, w, g = (to_front(np.ascontiguousarray(to_last(a))) for a in (x, w, g))
    return x, w, b, g, padding


def all_three(kernels, x, w, b, g, padding) -> list[np.ndarray]:
    """Result and gradients by the kernels of a module."""
    how = {**HOW, "padding": padding}
    return [
        kernels.conv(x, w, b, **how),
        kernels.conv_input_grad(g, w, size=x.shape[2:], **how),
        kernels.conv_weight_grad(g, x, kernel=(3, 3), **how),
    ]


def by_pytorch(x, w, b, g, padding, dtype: str) -> list[np.ndarray]:
    torch = require_torch()
    x, w, b = (torch.tensor(a, dtype=getattr(torch, dtype), requires_grad=True) for a in (x, w, b))
    result = torch.nn.functional.conv2d(x, w, b, padding=padding)
    result.backward(torch.tensor(g, dtype=x.dtype))
    return [a.detach().numpy() for a in (result, x.grad, w.grad)]


def close(value: np.ndarray, expected: np.ndarray) -> None:
    assert value.shape == expected.shape
    np.testing.assert_allclose(value, expected, rtol=0, atol=2e-6 * np.abs(expected).max())


@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels-last"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_results_and_gradients_are_those_of_a_direct_sum_in_the_memory_order_of_the_image(case, last):
    arrays = problem(case, last)
    direct = all_three(conv_cpu, *arrays)
    for value, expected in zip(all_three(winograd_cpu, *arrays), direct, strict=True):
        close(value, expected)
        assert (to_last(value) if last else value).flags.c_contiguous


@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels-last"])
def test_planes_of_volumes_have_the_values_of_images(last):
    depth = 3
    x, w, b, g, padding = problem((2 * depth, 32, 48, (9, 8), (1, 0)), False)
    images = all_three(winograd_cpu, x, w, b, g, padding)
    order = (lambda a: to_front(np.ascontiguousarray(to_last(a)))) if last else np.ascontiguousarray

    def volumes(a: np.ndarray) -> np.ndarray:
        return order(a.reshape(2, depth, *a.shape[1:]).swapaxes(1, 2))

    how = {"stride": (1, 1, 1), "padding": (0, *padding), "dilation": (1, 1, 1), "groups": 1}
    vx, vw, vg = volumes(x), order(w[:, :, None]), volumes(g)
    found = (
        winograd_cpu.conv(vx, vw, b, **how),
        winograd_cpu.conv_input_grad(vg, vw, size=vx.shape[2:], **how),
        winograd_cpu.conv_weight_grad(vg, vx, kernel=(1, 3, 3), **how),
    )
    for value, expected in zip(found, (volumes(images[0]), volumes(images[1]), images[2][:, :, None]), strict=True):
        np.testing.assert_array_equal(value, expected)
        assert (to_last(value) if last else value).flags.c_contiguous


@pytest.mark.skipif(os.environ.get("TDT_KERNELS") == "reference", reason="kernels are off")
def test_volumes_are_computed_so_whose_kernels_have_one_cell_along_the_depth():
    x, w, y = (np.broadcast_to(np.float32(0), s) for s in ((3, 64, 8, 16, 16), (64, 64, 1, 3, 3), (3, 64, 8, 16, 16)))
    how = {"stride": (1, 1, 1), "padding": (0, 1, 1), "dilation": (1, 1, 1), "groups": 1}
    calls_of_volumes = (
        ((x, w, None), how),
        ((y, w, None), {**how, "size": (8, 16, 16)}),
        ((y, x), {**how, "kernel": (1, 3, 3)}),
    )

    def chosen(**changes: object) -> list[bool]:
        return [KERNELS[f"winograd_cpu:{name}"].when(arrays, {**how, **changes})
                for name, (arrays, how) in zip(NAMES, calls_of_volumes, strict=True)]  # fmt: skip

    assert chosen() == [True] * 3
    assert chosen(stride=(2, 1, 1)) == chosen(padding=(1, 1, 1)) == [False] * 3


@pytest.mark.parametrize("case", [*CASES, (7, 32, 64, (21, 14), (1, 1)), (40, 16, 16, (4, 5), (1, 0))], ids=str)
def test_bits_do_not_depend_on_how_many_images_are_converted_at_a_time(case, monkeypatch):
    found = []
    for size in (1, 1 << 14, 1 << 40):
        monkeypatch.setattr(winograd_cpu, "CONVERTED", size)
        found.append([a.tobytes() for a in all_three(winograd_cpu, *problem(case, False))])
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_is_not_converted_at_once(name):
    x, w, _, g, padding = problem((32, 64, 64, (32, 32), (1, 1)), False)  # 8 MB each
    how = {**HOW, "padding": padding}
    calls = {
        "conv": lambda: winograd_cpu.conv(x, w, None, **how),
        "conv_input_grad": lambda: winograd_cpu.conv_input_grad(g, w, size=x.shape[2:], **how),
        "conv_weight_grad": lambda: winograd_cpu.conv_weight_grad(g, x, kernel=(3, 3), **how),
    }
    calls[name]()
    tracemalloc.start()
    try:
        result = calls[name]()
        assert tracemalloc.get_traced_memory()[1] - result.nbytes < 0.6 * x.nbytes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("mean", "deviation"), [(0, 1), (1, 1), (100, 0.01)])
@pytest.mark.parametrize("case", [(16, 64, 32, (7, 7), (1, 1)), (1, 48, 128, (32, 32), (1, 1))], ids=str)
def test_errors_are_at_most_three_times_those_of_pytorch(case, mean, deviation):
    x, w, b, g, padding = problem(case, False, mean, deviation)
    arrays = x, w, b, np.random.default_rng(0).standard_normal(g.shape).astype(np.float32), padding
    exact, theirs = by_pytorch(*arrays, "float64"), by_pytorch(*arrays, "float32")
    for value, single, expected in zip(all_three(winograd_cpu, *arrays), theirs, exact, strict=True):
        unit = np.spacing(np.abs(expected).max().astype(np.float32))
        assert np.abs(value - expected).max() <= max(3 * np.abs(single - expected).max(), unit)


def test_small_integers_are_computed_exactly():
    rng = np.random.default_rng(0)
    *arrays, padding = problem(CASES[1], False)
    arrays = [rng.integers(-4, 5, a.shape).astype(np.float32) for a in arrays]
    for value, expected in zip(*(all_three(k, *arrays, padding) for k in (winograd_cpu, conv_cpu)), strict=True):
        np.testing.assert_array_equal(value, expected)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, 3e38], ids=str)
def test_results_that_are_not_finite_are_computed_directly(special):
    for place in ((0, 1, 3, 4, 5), (1, 7, 5, 0, 2), (3, 0, 2, 2, 2)):  # in x, the weights, the gradient
        arrays = problem(CASES[1], False)
        arrays[place[0]][place[1:]] = special
        found = [all_three(kernels, *arrays) for kernels in (winograd_cpu, conv_cpu)]
        changed = [not np.isfinite(direct).all() for direct in found[1]]
        assert sum(changed) == 2 or special == 3e38
        for value, direct, infinite in zip(*found, changed, strict=True):
            if infinite:
                np.testing.assert_array_equal(value, direct)
            else:
                close(value, direct)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf], ids=str)
def test_nan_and_infinities_reach_the_places_that_they_reach_in_pytorch(special):
    arrays = problem(CASES[1], False)
    arrays[0][1, 3, 4, 5] = arrays[3][0, 2, 2, 2] = arrays[1][7, 5, 0, 2] = special
    theirs = by_pytorch(*arrays, "float32")
    for value, expected in zip(all_three(winograd_cpu, *arrays), theirs, strict=True):
        assert not np.isfinite(expected).all() and np.isfinite(expected).any()
        np.testing.assert_array_equal(np.isnan(value), np.isnan(expected))
        np.testing.assert_array_equal(value[np.isinf(expected)], expected[np.isinf(expected)])


def test_a_batch_without_samples_has_an_empty_result_and_gradients_of_zeros():
    x, w, b = (tdt.ones(s, requires_grad=True) for s in ((0, 64, 12, 12), (48, 64, 3, 3), (48,)))
    result = tdt.nn.functional.conv2d(x, w, b, padding=1)
    result.sum().backward()
    assert result.shape == (0, 48, 12, 12) and x.grad.shape == x.shape
    assert not w.grad.any() and not b.grad.any()


@pytest.mark.parametrize("case", [CASES[3], CASES[5]], ids=str)
def test_bits_depend_neither_on_the_number_of_threads_nor_on_the_memory_format(case):
    results = []
    before = _pool.get_num_threads()
    for last in (False, True):
        x, w, b, g, padding = problem(case, last)
        x, g = np.repeat(x, 5, 0), np.repeat(g, 5, 0)  # enough work for several threads
        if last:
            x, g = (to_front(np.ascontiguousarray(to_last(a))) for a in (x, g))
        for threads in (1, 2, 3, 4):
            _pool.set_num_threads(threads)
            results.append(b"".join(a.tobytes() for a in all_three(winograd_cpu, x, w, b, g, padding)))
    _pool.set_num_threads(before)
    assert len(set(results)) == 1


@pytest.mark.parametrize("width", [4, 16])
def test_vectors_of_other_widths_give_the_same_values(width, monkeypatch):
    arrays = problem(CASES[1], False)
    here = all_three(winograd_cpu, *arrays)
    monkeypatch.setattr(winograd_cpu, "vector_width", lambda: width)
    for value, expected in zip(all_three(winograd_cpu, *arrays), here, strict=True):
        np.testing.assert_array_equal(value, expected)


def test_strided_and_expanded_arrays():
    x, w, b, g, padding = problem(CASES[0], False)
    strided = np.repeat(np.repeat(x, 2, 2), 3, 3)[:, :, ::2, ::3]
    flipped = np.ascontiguousarray(g[:, :, ::-1])[:, :, ::-1]
    views = all_three(winograd_cpu, strided, w[::-1], b[::-1], flipped, padding)
    for a, e in zip(views, all_three(winograd_cpu, x, w[::-1].copy(), b[::-1].copy(), g, padding), strict=True):
        np.testing.assert_array_equal(a, e)
    ones = np.broadcast_to(np.float32(1), g.shape)
    how = {**HOW, "padding": padding, "size": x.shape[2:]}
    np.testing.assert_array_equal(*(winograd_cpu.conv_input_grad(a, w, **how) for a in (ones, ones.copy())))


def calls(batch: int, channels: int, out: int, size: int, padding: int = 1) -> list[tuple]:
    """The arguments of the three conditions for images of such a shape; the arrays have no memory of their own."""
    result = size + 2 * padding - 2
    shapes = (batch, channels, size, size), (out, channels, 3, 3), (batch, out, result, result)
    x, w, y = (np.broadcast_to(np.float32(0), shape) for shape in shapes)
    how = {**HOW, "padding": (padding, padding)}
    return [((x, w, None), how), ((y, w, None), {**how, "size": (size, size)}), ((y, x), {**how, "kernel": (3, 3)})]


@pytest.mark.skipif(os.environ.get("TDT_KERNELS") == "reference", reason="kernels are off")
def test_shape_and_dtype_alone_choose_winograd(monkeypatch):
    def chosen(*args: int, **changes: object) -> list[bool]:
        found = zip(NAMES, calls(*args), strict=True)
        return [KERNELS[f"winograd_cpu:{name}"].when(arrays, {**how, **changes}) for name, (arrays, how) in found]

    assert chosen(8, 64, 64, 32) == [True] * 3
    assert chosen(8, 64, 64, 32, 2) == [True] * 3
    assert chosen(5, 128, 128, 8) == [True] * 3 and chosen(2, 128, 128, 8) == [True, True, False], "few pixels"
    assert chosen(3, 512, 512, 8) == [False, False, True], "few pixels for many weights"
    assert chosen(1, 256, 256, 10)[:2] == [True] * 2 and chosen(1, 256, 256, 8)[:2] == [False] * 2
    assert chosen(1, 512, 512, 14) == [True] * 3
    assert chosen(5, 512, 512, 7) == [False] * 3 and chosen(6, 512, 512, 7) == [False, False, True], "in many tiles"
    assert chosen(64, 512, 512, 3) == [False] * 3, "tiles across the edges"
    for width in (8, 16):
        monkeypatch.setattr(_conv_conditions, "vector_width", lambda width=width: width)
        assert chosen(8, 32, 64, 8) == [True, True, width > 8], "sums of few channels pass through memory too often"
    assert chosen(8, 32, 32, 8) == [False] * 3, "little work"
    assert chosen(8, 40, 64, 32) == chosen(8, 64, 40, 32) == [False] * 3, "channels that fill no vector"
    assert chosen(64, 16, 64, 32) == chosen(64, 64, 16, 32) == [False] * 3, "few channels"
    assert chosen(8, 64, 64, 32, 3) == [False] * 3
    for change in ({"stride": (1, 2)}, {"dilation": (2, 1)}, {"groups": 2}):
        assert chosen(8, 64, 64, 32, **change) == [False] * 3
    for name, (arrays, how) in zip(NAMES, calls(8, 64, 64, 32), strict=True):
        doubles = [a if a is None else np.broadcast_to(np.float64(0), a.shape) for a in arrays]
        assert not KERNELS[f"winograd_cpu:{name}"].when(doubles, how)


@pytest.mark.skipif(os.environ.get("TDT_KERNELS") == "reference", reason="kernels are off")
@pytest.mark.parametrize(
    "case", [(64, 64, 8, 3), (32, 48, 7, 3), (3, 16, 20, 3), (40, 24, 5, 1), (300, 12, 2, 1)], ids=str
)
def test_the_values_of_a_sample_do_not_depend_on_its_batch(case):
    channels, out, size, kernel = case
    rng = np.random.default_rng(0)
    x = tdt.tensor(rng.standard_normal((9, channels, size, size), np.float32), requires_grad=True)
    w, b = (tdt.tensor(rng.standard_normal(s, np.float32)) for s in ((out, channels, kernel, kernel), (out,)))
    whole = tdt.nn.functional.conv2d(x, w, b, padding=kernel // 2)
    for count in (1, 2):
        part = tdt.nn.functional.conv2d(x[:count], w, b, padding=kernel // 2)
        gradients = [
            tdt.autograd.grad(y[:count].square().sum(), x, retain_graph=True)[0][:count] for y in (whole, part)
        ]
        for value, expected in ((part, whole[:count]), gradients):
            np.testing.assert_array_equal(value.detach().numpy(), expected.detach().numpy())


@pytest.mark.skipif(os.environ.get("TDT_KERNELS") == "reference", reason="kernels are off")
def test_a_layer_uses_winograd_unless_it_is_switched_off(monkeypatch):
    rng = np.random.default_rng(0)
    x, w = (
        tdt.tensor(rng.standard_normal(s), dtype=tdt.float32, requires_grad=True)
        for s in ((8, 64, 32, 32), (64, 64, 3, 3))
    )
    paths = {name: [f"{name}_cpu:{op}" for op in NAMES] for name in ("winograd", "conv")}
    called = watch(monkeypatch, *paths["winograd"], *paths["conv"])
    results = []
    for enabled in (True, False):
        with tdt.backends.winograd(enabled):
            assert tdt.backends.winograd.enabled() is enabled
            out = tdt.nn.functional.conv2d(x, w, padding=1)
            results.append([out, *tdt.autograd.grad(out.square().sum(), (x, w))])
    assert called == paths["winograd"] + paths["conv"]
    assert tdt.backends.winograd.enabled()
    for value, expected in zip(*results, strict=True):
        close(value.detach().numpy(), expected.detach().numpy())


PROGRAM = """
import sys, numpy as np
from tdt import _kernels
from tdt._kernels import winograd_cpu
how = dict(stride=(1, 1), padding=(1, 1), dilation=(1, 1), groups=1)
x, w = np.ones((1, 16, 4, 4), np.float32), np.ones((16, 16, 3, 3), np.float32)
winograd_cpu.conv(x, w, None, **how)
winograd_cpu.conv_weight_grad(x, x, kernel=(3, 3), **how)
print(_kernels.winograd_enabled(), sorted({"numba", "llvmlite"} & set(sys.modules)))
"""


def test_a_later_process_loads_no_compiler_and_the_environment_switches_winograd_off():
    all_three(winograd_cpu, *problem((1, 16, 16, (4, 4), (1, 1)), False))  # compiles what the process loads
    environment = {**os.environ, "TDT_WINOGRAD": "0", "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == "False []\n"
