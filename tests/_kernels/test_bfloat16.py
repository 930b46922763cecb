"""Kernels that read and write bfloat16: the bits of float32's kernels, rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tdt
import tdt.nn.functional as F
from tdt import _kernels
from tdt._kernels import _dots, _formulas, product_cpu
from tdt._kernels._conditions import vectors_of_eight
from tdt._ops.nn import _conv_half
from tdt.autograd._accumulate import accumulate
from tests.oracles.rounding import assert_rounded_once

FLOAT32, BFLOAT16 = np.dtype(np.float32), np.dtype(ml_dtypes.bfloat16)
pytestmark = pytest.mark.skipif(
    not (tdt.backends.kernels.enabled() and vectors_of_eight()), reason="kernels are off, or have no long vectors"
)


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(1, 3, shape).astype(BFLOAT16)


def tensor(*shape: int, seed: int = 0, dtype: Any = tdt.bfloat16) -> tdt.Tensor:
    return tdt.tensor(numbers(*shape, seed=seed).astype(np.float32)).to(dtype)


def bits(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x).view(np.uint16 if x.itemsize == 2 else np.uint32)


def assert_same_bits(found: Any, expected: Any) -> None:
    found, expected = (x.detach()._a if isinstance(x, tdt.Tensor) else x for x in (found, expected))
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(bits(found), bits(expected))


ORDERS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "rows": lambda x: x,
    "columns": lambda x: np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2),
    "part": lambda x: np.pad(x, [(0, 0)] * (x.ndim - 2) + [(1, 2), (3, 1)])[..., 1:-2, 3:-1],
    "gaps": lambda x: np.repeat(x, 2, -1)[..., ::2],
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("sizes", [(7, 9, 5), (70, 300, 37), (5, 700, 130), (200, 257, 33)])
def test_products_of_bfloat16_and_float32(sizes: tuple[int, int, int], order: str):
    m, k, n = sizes
    a, b = ORDERS[order](numbers(2, m, k)), ORDERS[order](numbers(2, k, n, seed=1))
    bias = np.arange(n, dtype=np.float32)
    expected = product_cpu.product(a.astype(np.float32), b.astype(np.float32), bias)
    for left, right in ((a, b), (a, b.astype(np.float32)), (a.astype(np.float32), b)):
        assert_same_bits(product_cpu.product(left, right, bias), expected)
        assert_same_bits(product_cpu.product(left, right, bias, BFLOAT16), _kernels.astype(expected, BFLOAT16))


def test_a_product_of_bfloat16_has_one_value_for_any_number_of_threads():
    a, b, before = numbers(300, 520), numbers(520, 290, seed=1), tdt.get_num_threads()
    try:
        found = []
        for count in (1, 2):
            tdt.set_num_threads(count)
            found.append(product_cpu.product(a, b, None, BFLOAT16))
    finally:
        tdt.set_num_threads(before)
    assert_same_bits(found[0], found[1])


def test_rounding_keeps_infinities_ties_and_nan():
    halves = np.array([1 + 2.0**-8, 1 + 3 * 2.0**-8, 3.4e38, -np.inf, np.nan, 1e-40], np.float32)
    identity, columns = np.eye(6, dtype=np.float32), np.tile(halves, (6, 1)).T
    found = product_cpu.product(np.tile(identity, (200, 1)), np.tile(np.nan_to_num(columns, nan=1, neginf=-5), (1, 200)),
                                None, BFLOAT16)  # fmt: skip
    expected = np.nan_to_num(halves, nan=1, neginf=-5).astype(BFLOAT16)
    np.testing.assert_array_equal(found[:6, 0].astype(float), expected.astype(float))
    of_nan = product_cpu.product(np.full((300, 40), np.nan, np.float32), np.ones((40, 300), np.float32), None, BFLOAT16)
    assert np.isnan(of_nan.astype(float)).all()


def norm(kind: str, x: tdt.Tensor, w: Any, b: Any) -> tdt.Tensor:
    if kind == "layer":
        return F.layer_norm(x, x.shape[-1:], w, b)
    return F.rms_norm(x, x.shape[-1:], w) if kind == "rms" else F.batch_norm(x, None, None, w, b, True)


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("shape", [(3, 5), (4, 6, 9, 7), (5, 200), (2, 8, 12, 12)])
@pytest.mark.parametrize("kind", ["layer", "rms", "batch"])
def test_norms_with_parameters_of_float32(kind: str, shape: tuple[int, ...], create_graph: bool):
    channels = shape[1] if kind == "batch" else shape[-1]
    g, found = tensor(*shape, seed=3), []
    for wide in (False, True):
        x = tensor(*shape).requires_grad_()
        params = [tensor(channels, seed=k, dtype=tdt.float32).requires_grad_() for k in (1, 2)]
        out = norm(kind, x.float(), *params).bfloat16() if wide else norm(kind, x, *params)
        leaves = [x, *params[: 1 if kind == "rms" else 2]]
        found.append([out, *tdt.autograd.grad(out, leaves, g, create_graph=create_graph)])
    for own, expected in zip(*found, strict=True):
        assert_same_bits(own, expected)
    with tdt.no_grad():
        assert_same_bits(norm(kind, tensor(*shape), *params), found[1][0])
        if kind == "batch":
            statistics = [tensor(channels, seed=k, dtype=tdt.float32).abs() for k in (3, 4)]
            results = [F.batch_norm(v, *statistics, *params) for v in (tensor(*shape), tensor(*shape).float())]
            assert_same_bits(results[0], results[1].bfloat16())


@pytest.mark.parametrize("dtype", [tdt.bfloat16, tdt.float16])
def test_gradients_of_half_precision_are_added_in_float32_and_rounded(dtype: Any):
    for size in (3, 40_000):
        a, b = tensor(size, dtype=dtype), tensor(size, seed=1, dtype=dtype)
        expected = (a.float() + b.float()).to(dtype)
        assert_same_bits(_kernels.add(a._a, b._a), expected)
        leaf = tdt.zeros(size, dtype=dtype, requires_grad=True)
        for g in (a, b):
            accumulate(leaf, g._a, False)
        assert_same_bits(leaf.grad, expected)
        assert_same_bits(a + b, expected)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sizes", [(1, 1, 9, 16), (2, 3, 17, 8), (1, 250, 250, 20)])
def test_attention(sizes: tuple[int, ...], causal: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_dots, "available", lambda: "")
    heads, length, places, width = sizes
    operands = [tensor(2, heads, n, width, seed=k) for k, n in enumerate((length, places, places))]
    operands[0] = operands[0].transpose(1, 2).contiguous().transpose(1, 2)
    g, found = tensor(2, heads, length, width, seed=5), []
    for wide in (False, True):
        leaves = [x.detach().requires_grad_() for x in operands]
        taken = [x.float() for x in leaves] if wide else leaves
        out = F.scaled_dot_product_attention(*taken, is_causal=causal)
        found.append([out.bfloat16(), *tdt.autograd.grad(out, leaves, g.float() if wide else g)])
        with tdt.no_grad():
            assert_same_bits(F.scaled_dot_product_attention(*taken, is_causal=causal), out)
    leaves = [x.detach().requires_grad_() for x in operands]
    for _ in range(4):  # later calls are remembered
        out = F.scaled_dot_product_attention(*leaves, is_causal=causal)
        for own, each in zip((out, *tdt.autograd.grad(out, leaves, g)), found[0], strict=True):
            assert_same_bits(own, each)
    # The sum that softmax's gradient subtracts is made of the result, which is rounded.
    assert_same_bits(found[0][0], found[1][0])
    assert_same_bits(found[0][3], found[1][3])
    for own, expected in zip(found[0][1:3], found[1][1:3], strict=True):
        assert (own.float() - expected.float()).abs().max() <= 0.02 * expected.float().abs().max()


READING = [  # images, weights, stride, padding: Winograd's algorithm both ways, patches of small images
    ((3, 64, 12, 12), (64, 64, 3, 3), 1, 1),
    ((3, 128, 3, 3), (512, 128, 3, 3), 1, 1),
    ((2, 128, 4, 4), (512, 128, 3, 3), 2, 1),
    ((1, 128, 3, 3), (512, 128, 3, 3), 1, 1),
]
PREPARED = [  # 1 × 1: of few, of small images, of many channels; the transposed weight gradient; depthwise, and in groups
    ((2, 24, 16, 17), (40, 24, 1, 1), 1, 0),
    ((8, 32, 4, 4), (48, 32, 1, 1), 1, 0),
    ((1, 300, 15, 15), (210, 300, 1, 1), 1, 0),
    ((2, 64, 12, 12), (7, 64, 1, 1), 1, 0),
    ((2, 70, 9, 19), (70, 1, 3, 3), 1, 1),
    ((2, 12, 17, 17), (12, 1, 3, 3), 2, 1),
    ((2, 16, 8, 20), (16, 4, 3, 3), 1, 1),
]
CONVOLUTIONS = [  # as well: Winograd's algorithm, the direct sum, 1 × 1, small images, groups
    ((2, 32, 17, 15), (48, 32, 3, 3), 1, 1),
    ((2, 5, 9, 8), (7, 5, 3, 3), 2, 1),
    ((1, 3, 20, 20), (16, 3, 7, 7), 2, 3),
    ((2, 8, 6, 6), (12, 8, 1, 1), 1, 0),
    ((2, 1, 6, 6), (12, 1, 3, 3), 1, 1),
    ((3, 6, 14, 14), (16, 6, 5, 5), 1, 0),
    ((2, 16, 8, 20), (24, 4, 3, 3), 1, 1),
]


def convolved(shapes: tuple, last: bool, dtype: Any = None, absolute: bool = False) -> list[tdt.Tensor]:
    """Result and gradients, for weights of float32: under autocast, or computed in `dtype`.

    absolute: for the absolute values of all operands.
    """
    image, weights, stride, padding = shapes
    taken = tdt.abs if absolute else tdt.clone
    x = taken(tensor(*image))
    x = (x.to(memory_format=tdt.channels_last) if last else x).requires_grad_()
    params = [
        taken(tensor(*shape, seed=k, dtype=tdt.float32)).requires_grad_()
        for k, shape in enumerate((weights, weights[:1]))
    ]
    how = {"stride": stride, "padding": padding, "groups": image[1] // weights[1]}
    with tdt.autocast("cpu", enabled=dtype is None):
        out = F.conv2d(*[t.to(dtype) if dtype else t for t in (x, *params)], **how)
    return [out.detach(), *tdt.autograd.grad(out, [x, *params], taken(tensor(*out.shape, seed=5)).to(out.dtype))]


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("shapes", [*CONVOLUTIONS, *READING, *PREPARED], ids=str)
def test_convolutions_with_weights_of_float32(shapes: tuple, last: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        _dots, "available", lambda: ""
    )  # else autocast rounds the weights and their gradients: see below
    expected = convolved(shapes, last, tdt.float32)
    for _ in range(3):  # later calls are prepared
        for own, each in zip(convolved(shapes, last), [expected[0].bfloat16(), *expected[1:]], strict=True):
            assert_same_bits(own, each)


@pytest.mark.parametrize("shapes", [*READING[:3], *PREPARED], ids=str)  # one image alone lies as its patches do
def test_kernels_that_read_bfloat16_convert_no_images(shapes: tuple, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_dots, "available", lambda: "")
    _kernels.forget()
    converted, astype = [], _formulas.astype

    def noted(x: np.ndarray, dtype: Any) -> np.ndarray:
        converted.append(x.shape)
        return astype(x, dtype)

    monkeypatch.setattr(_formulas, "astype", noted)
    monkeypatch.setattr(_conv_half, "conversion_like", lambda x, dtype: lambda a: noted(a, dtype))
    for _ in range(3):  # the second call prepares those that follow
        converted.clear()
        *_, gradient, _ = [each.shape for each in convolved(shapes, last=False)]
    _kernels.forget()
    assert gradient not in converted  # weights stay float32
    assert shapes[0] not in converted


@pytest.mark.parametrize("kind", ["LSTM", "RNN"])
def test_recurrent_layers_with_weights_of_float32(kind: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_dots, "available", lambda: "")
    layer, found = getattr(tdt.nn, kind)(8, 12), []
    for low in (False, True):
        x = tensor(5, 3, 8, dtype=tdt.float32).requires_grad_()
        with tdt.autocast("cpu", enabled=low):
            out, _ = layer(x)
        g = tensor(5, 3, 12, seed=1).to(out.dtype)
        found.append([out, *tdt.autograd.grad(out, [x, *layer.parameters()], g, retain_graph=True)])
        recorded = tdt.autograd.grad(out, [x, *layer.parameters()], g, create_graph=True)
        for own, each in zip(recorded, found[-1][1:], strict=True):
            assert own.dtype == each.dtype == tdt.float32
            assert (own - each).abs().max() <= 0.02 * each.abs().max()
        assert all(tdt.isfinite(each).all() for each in tdt.autograd.grad(recorded[1].square().sum(), [x]))
    (expected, *_), (own, gx, *of_weights) = found
    assert_same_bits(own, expected.bfloat16())
    assert tdt.equal(gx, gx.bfloat16().float())  # of the input, which was rounded
    assert not all(tdt.equal(each, each.bfloat16().float()) for each in of_weights)


def test_mixed_operands_stay_an_error_where_autocast_casts_none():
    x, w = tensor(1, 2, 5, 5), tensor(3, 2, 3, 3, dtype=tdt.float32)
    with tdt.autocast("cuda", tdt.bfloat16), pytest.raises(RuntimeError, match="should be the same"):
        F.conv2d(x, w)
    with tdt.autocast("cuda", tdt.bfloat16), pytest.raises(RuntimeError, match="same dtype"):
        F.linear(x, tensor(7, 5, dtype=tdt.float32))


def test_mixed_operands_stay_an_error_after_autocast_has_computed_such_convolutions(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_dots, "available", lambda: "")
    x, w = tensor(1, 2, 5, 5), tensor(3, 2, 3, 3, dtype=tdt.float32)
    for _ in range(3):
        with tdt.autocast("cpu", tdt.bfloat16):
            assert F.conv2d(x.float(), w).dtype is tdt.bfloat16
        with pytest.raises(RuntimeError, match="should be the same"):
            F.conv2d(x, w)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("shapes", CONVOLUTIONS, ids=str)
@pytest.mark.parametrize("way", [*_dots.EMULATED, *_dots.supported()])
def test_autocast_rounds_weights_where_the_processor_multiplies_bfloat16(
    shapes: tuple, last: bool, way: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(_dots, "available", lambda: way)
    found = convolved(shapes, last)
    assert [each.dtype for each in found] == [tdt.bfloat16, tdt.bfloat16, tdt.float32, tdt.float32]
    exact, magnitude = (convolved(shapes, last, tdt.float64, absolute) for absolute in (False, True))
    out, size = shapes[1][0], math.prod(shapes[1])
    terms = 1 + max(size // out, size // shapes[1][1], found[0].numel() // out)
    for ours, *wide in zip(found, exact, magnitude, strict=True):
        assert tdt.equal(ours, ours.bfloat16().to(ours.dtype))
        assert_rounded_once(ours.bfloat16()._a, *(each._a for each in wide), terms=terms)


@pytest.mark.parametrize("dtype", [tdt.bfloat16, tdt.float16])
def test_conversions_are_recorded_for_a_gradient_and_keep_the_memory_order(dtype: Any):
    x = tensor(3, 4, dtype=tdt.float32)
    leaf = x.clone().requires_grad_()
    for source in (x, x.t(), x[:, ::2], x[0, 0], x.expand(2, 3, 4), leaf, leaf.t()):
        low = source.half() if dtype is tdt.float16 else source.bfloat16()
        assert low.dtype is dtype and low.stride() == source.to(dtype).stride()
        assert_same_bits(low, source.detach().to(dtype))
        assert low.requires_grad is source.requires_grad
        assert_same_bits(low.float(), low.detach().to(tdt.float32))
    leaf.half().sum().backward()
    assert leaf.grad.dtype is tdt.float32 and x.half()._st is not x._st and x.float() is x
