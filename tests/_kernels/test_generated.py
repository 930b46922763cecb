"""Functions generated from the forwards' formulas beside float64, and the bit rule: an element has one value."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tdt
from tdt import _kernels
from tdt._backend.layout import to_front, to_last
from tdt._kernels import _pool
from tdt._kernels._emit_loops import BLOCK, BUFFER
from tdt._kernels._threads import PARALLEL, PARALLEL_ELEMENTWISE, THREADS
from tdt._kernels.generated import Elementwise
from tdt.autograd._op_table import OPS
from tests.helpers import require_torch

SIZES = [1, 2, 7, 15, 16, 17, 31, 127, BUFFER - 1, BUFFER, BUFFER + 1, BLOCK + 13]
SPECIAL = [
    0.0,
    -0.0,
    np.inf,
    -np.inf,
    np.nan,
    1e-40,
    -1e-40,
    1e-45,
    3e38,
    -3e38,
    -20.0,
    20.0,
    -88.0,
    88.0,
    0.625,
    -0.34,
]
SETTINGS = {
    "sigmoid": {}, "tanh": {}, "silu": {}, "leaky_relu": {"slope": -0.3},
    "elu": {"alpha": 1.7, "scale": 1.1, "input_scale": 0.6}, "softplus": {"beta": 2.0, "threshold": 4.0}, "mish": {},
    "log_sigmoid": {}, "hardtanh": {"low": -0.5, "high": 2.0}, "hardsigmoid": {}, "hardswish": {}, "relu": {},
    "gelu": {"approximate": "none"}, "hardshrink": {"width": 0.5}, "softshrink": {"shift": 0.5, "width": 0.5},
    "threshold": {"threshold": 0.1, "value": 20.0}, "exp": {}, "rsqrt": {}, "erf": {}, "sign": {}, "frac": {},
    "where": {}, "clamp": {}, "addcmul": {"value": -0.7}, "addcdiv": {"value": 0.7}, "lerp": {}, "maximum": {}, "minimum": {},
    "fmax": {}, "fmin": {}, "pow": {}, "hypot": {}, "sin": {}, "tan": {}, "asin": {}, "atan": {}, "sinh": {}, "asinh": {},
    "log2": {}, "log10": {}, "erfc": {}, "erfinv": {}, "logit": {"eps": 0.1}, "atan2": {}, "fmod": {}, "remainder": {},
    "logaddexp": {}, "xlogy": {}, "nan_to_num": {"nan": 0.5, "posinf": 2.0, "neginf": -3.0},
    "i0": {}, "i1e": {},
}  # fmt: skip
# All operands of functions of several, from one array, element by element.
OPERANDS = {
    "where": lambda x: (x > 0, x, x * 0.5), "clamp": lambda x: (x, -0.5, 2.0), "addcmul": lambda x: (x, -x, abs(x)),
    "addcdiv": lambda x: (x, x, 1 + abs(x)), "lerp": lambda x: (x, x * 2, 0.3), "pow": lambda x: (abs(x), 2.7),
    "hypot": lambda x: (x, 1 - 0.5 * x),
    "atan2": lambda x: (x, 1 - 0.5 * x), "fmod": lambda x: (x, 2.5), "remainder": lambda x: (x, -2.5),
    "logaddexp": lambda x: (x, 0.5 - x), "xlogy": lambda x: (x, abs(x)),
    **dict.fromkeys(("maximum", "minimum", "fmax", "fmin"), lambda x: (x, np.where(x > 1, x, 0.5 - x))),
}  # fmt: skip
every = pytest.mark.parametrize("name", SETTINGS)
kernels_on = pytest.mark.skipif(not _kernels.enabled(), reason="kernels are off")


def values(size: int) -> np.ndarray:
    return np.random.default_rng(size).normal(0, 3, size).astype(np.float32)


def run(name: str, x: np.ndarray, g: np.ndarray, graph: bool) -> list[np.ndarray]:
    """The op's value and the gradients of its operands, by their rules on arrays, or (`graph`) on tensors."""
    with np.errstate(all="ignore"):
        inputs = OPERANDS.get(name, lambda x: (x,))(x)
        operands = [tdt.from_numpy(a).detach() if isinstance(a, np.ndarray) else a for a in inputs]
        leaves = [a.requires_grad_() for a in operands if isinstance(a, tdt.Tensor) and a.is_floating_point()]
        out = OPS[name](*operands, **SETTINGS[name])
        slopes = tdt.autograd.grad(out, leaves, tdt.from_numpy(g), create_graph=graph)
    return [t.detach().numpy() for t in (out, *slopes)]


def results(name: str, x: np.ndarray, g: np.ndarray) -> list[np.ndarray]:
    return run(name, x, g, False)


def compare(name: str, x: np.ndarray, g: np.ndarray) -> None:
    exact = run(name, x.astype(np.float64), g.astype(np.float64), True)
    with np.errstate(all="ignore"):
        for found, expected, error in zip(results(name, x, g), exact, (1e-6, 2e-6, 2e-6, 2e-6), strict=False):
            np.testing.assert_allclose(found, expected.astype(np.float32), rtol=error, atol=1e-6)


@every
@pytest.mark.parametrize("size", SIZES)
def test_values_and_gradients_at_sizes_off_every_vector_width(name, size):
    compare(name, values(size), values(size)[::-1].copy())


@every
@pytest.mark.parametrize("place", [0, 1, 17])  # in a vector's body and in its tail
def test_special_values(name, place):
    x = np.concatenate([np.full(place, 0.5), SPECIAL]).astype(np.float32)
    compare(name, x, np.ones_like(x))


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return np.array_equal(a.view(np.int32), b.view(np.int32))


@kernels_on
@every
def test_an_element_has_one_value_whatever_the_size_stride_place_and_number_of_threads(name):
    size = 4 * PARALLEL + 3
    x = np.resize(np.concatenate([SPECIAL, values(5000)]).astype(np.float32), size)
    g = values(size)
    before = _pool.get_num_threads()
    try:
        _pool.set_num_threads(1)
        all_at_once = results(name, x, g)
        for threads in (2, 3):
            _pool.set_num_threads(threads)
            THREADS.elementwise = PARALLEL  # so that arrays may be small
            assert all(map(same_bits, results(name, x, g), all_at_once))
    finally:
        _pool.set_num_threads(before)
    for first, count in ((0, 1), (3, 7), (5, 16), (9, 31), (2, BUFFER + 9), (1, 3 * BUFFER)):
        part = slice(first, first + count)
        for found, whole in zip(results(name, x[part].copy(), g[part].copy()), all_at_once, strict=True):
            assert same_bits(found, whole[part])
    few = slice(40, 7000, 3)
    for found, whole in zip(results(name, x[few], g[few]), all_at_once, strict=True):
        assert same_bits(found.copy(), whole[few].copy())
    found, whole = results(name, np.broadcast_to(x[20], (40, 3)), g[:120].reshape(40, 3))[0], all_at_once[0][20]
    assert same_bits(found.copy(), np.full((40, 3), whole))


@kernels_on
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 4, 7, 8, 9, 16, 17, 31, 50, 64, 512, 513])
def test_short_rows_of_broadcast_operands_have_the_bits_of_whole_ones(n, dtype):
    rows = 9000 // n + 3
    x = np.resize(np.concatenate([SPECIAL, values(5000)]), (rows, n)).astype(dtype)
    row, column = values(n).astype(dtype), values(rows).astype(dtype)[:, None]
    gap = np.resize(x, (rows, n + 3))[:, 1 : n + 1]
    for function in (
        Elementwise("short", lambda xp, x, y: x * y - x),
        Elementwise("least", lambda xp, x, y: xp.minimum(x, y)),
    ):
        for pair in ((x, row), (row, x), (x, column), (column, x), (x, x[0, 0] + column[:1]), (gap, column), (x, gap)):
            whole = [np.ascontiguousarray(np.broadcast_to(a, x.shape)).ravel() for a in pair]
            expected = function(tuple(whole)).reshape(x.shape)
            assert same_bits(np.ascontiguousarray(function(pair)), expected)
            for k, operand in enumerate(pair):
                if operand.shape == x.shape:
                    out = operand.copy()
                    operands = tuple(out if j == k else a for j, a in enumerate(pair))
                    assert function(operands, out=out) is out
                    assert same_bits(out, expected)


@kernels_on
@every
def test_results_have_the_memory_order_of_images(name):
    x = to_front(np.ascontiguousarray(to_last(values(2 * 3 * 64 * 400).reshape(2, 3, 64, 400))))
    found = results(name, x, x)
    assert all(a.strides == x.strides for a in found)
    flat = results(name, np.ascontiguousarray(x), np.ascontiguousarray(x))
    assert all(same_bits(np.ascontiguousarray(a), b) for a, b in zip(found, flat, strict=True))


def test_gelus_gradient_by_tanh_does_not_cancel_far_below_0():
    x = np.linspace(-9, 3, 50_001, dtype=np.float32)
    leaf = tdt.from_numpy(x).requires_grad_()
    tdt.nn.functional.gelu(leaf, approximate="tanh").sum().backward()
    exact = x.astype(np.float64)
    u = math.sqrt(2 / math.pi) * (exact + 0.044715 * exact**3)
    s = 1 / (1 + np.exp(-2 * u))
    slope = s + exact * s / (1 + np.exp(2 * u)) * 2 * math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * exact**2)
    np.testing.assert_allclose(leaf.grad.numpy(), slope, rtol=1e-4, atol=1e-7)


def test_a_large_result_written_in_place_or_into_out_is_the_same():
    x = tdt.from_numpy(values(3 * PARALLEL_ELEMENTWISE))
    expected_values = x.exp()
    out = tdt.empty(3 * PARALLEL_ELEMENTWISE)
    assert tdt.exp(x, out=out) is out
    assert tdt.equal(out, expected_values)
    assert tdt.equal(x.clone().exp_(), expected_values)
    strided = tdt.zeros(6 * PARALLEL_ELEMENTWISE)[::2]
    tdt.exp(x, out=strided)
    assert tdt.equal(strided, expected_values)


@kernels_on
def test_float64_is_generated_for_exact_functions_exp_and_log_and_else_numpys():
    x = values(1000).astype(np.float64)
    cubes = Elementwise("cubes", lambda xp, x: xp.where(x > 0, x * x * x, -x))
    np.testing.assert_array_equal(cubes((x,)), np.where(x > 0, x * x * x, -x))
    assert Elementwise("sin", lambda xp, x: xp.sin(x))((x,)) is None


@kernels_on
def test_numbers_among_the_attributes_need_no_new_code_and_other_values_do():
    scaled = Elementwise("scaled", lambda xp, x, by, twice: x * by * 2 if twice else x * by)
    x = values(100)
    for by in (0.5, 3, -0.0):
        for twice in (False, True):
            expected = x * np.float32(by) * 2 if twice else x * np.float32(by)
            np.testing.assert_array_equal(scaled((x,), {"by": by, "twice": twice}), expected)
    assert len(scaled.functions) == 2


@kernels_on
def test_a_formula_that_branches_on_a_value_is_refused():
    with pytest.raises(TypeError, match="use where"):
        Elementwise("branch", lambda xp, x: x if x > 0 else -x)((values(3),))


LOWER = [tdt.float16, tdt.bfloat16]
HALF_OPS = {
    "add": lambda x, y: x + y, "scaled": lambda x, y: tdt.sub(x, y, alpha=2), "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y, "greater": lambda x, y: x > y, "exp": lambda x, y: x.exp(),
    "clamp": lambda x, y: x.clamp(-0.5, 2), "where": lambda x, y: tdt.where(x > y, x, y),
    "gelu": lambda x, y: tdt.nn.functional.gelu(x), "atan2": tdt.atan2,
}  # fmt: skip


def words(t: tdt.Tensor) -> np.ndarray:
    return t.contiguous().view(tdt.int16).numpy() if t.element_size() == 2 else t.numpy()


@pytest.mark.parametrize("dtype", LOWER)
def test_conversions_round_to_the_nearest_once_and_keep_nan_and_infinity(dtype):
    bits = np.random.default_rng(0).integers(0, 1 << 32, 100_000, dtype=np.uint64).astype(np.uint32)
    halfway = np.arange(
        0x33000000, 0x47800000, 0x1000, dtype=np.uint32
    )  # between neighbours of float16, subnormal ones too
    ties = np.arange(0x3F800000, 0x3FC00000, 0x8000, dtype=np.uint32)  # of bfloat16
    x = np.concatenate([bits, halfway, halfway + 1, halfway - 1, ties, ties + 1, ties - 1]).view(np.float32)
    x = np.concatenate([x, -x, np.array([65519.996, 65520, np.inf, -0.0, 3.39e38, 3.4e38], np.float32)])
    found = tdt.from_numpy(x).to(dtype)
    with np.errstate(all="ignore"):
        expected = x.astype(dtype.np)
    nan = np.isnan(x)
    np.testing.assert_array_equal(words(found)[~nan], expected.view(np.int16)[~nan])
    assert found.isnan().numpy()[nan].all()
    every_number = tdt.from_numpy(np.arange(1 << 16, dtype=np.uint16).view(np.int16)).view(dtype)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(every_number.float().numpy(), every_number.numpy().astype(np.float32))
    strided = every_number[::3]
    numbers = ~strided.isnan().numpy()
    np.testing.assert_array_equal(words(strided.float().to(dtype))[numbers], words(strided)[numbers])


@pytest.mark.parametrize("dtype", LOWER)
@pytest.mark.parametrize("name", HALF_OPS)
def test_half_precision_is_computed_in_float32_and_rounded_once(name, dtype):
    for size in (5, 1000, 2 * PARALLEL_ELEMENTWISE + 3):
        x, y = (tdt.from_numpy(a).to(dtype) for a in (values(size), values(size)[::-1].copy()))
        found, exact = HALF_OPS[name](x, y), HALF_OPS[name](x.float(), y.float())
        np.testing.assert_array_equal(words(found), words(exact.to(found.dtype)))
        strided = HALF_OPS[name](x[::3], y[::3])
        np.testing.assert_array_equal(words(strided), words(found[::3]))


@pytest.mark.parametrize("dtype", LOWER)
def test_a_gradient_in_half_precision_is_rounded_once(dtype):
    x = tdt.from_numpy(values(1000)).to(dtype).requires_grad_()
    wide = x.detach().float().requires_grad_()
    g = tdt.from_numpy(values(1000)[::-1].copy()).to(dtype)
    tdt.nn.functional.silu(x).backward(g)
    tdt.nn.functional.silu(wide).backward(g.float())
    np.testing.assert_array_equal(words(x.grad), words(wide.grad.to(dtype)))


@pytest.mark.parametrize("dtype", LOWER)
@pytest.mark.parametrize("name", ["add", "subtract from", "scale", "multiply", "divide", "compare", "overflow"])
def test_numbers_are_rounded_to_half_precision_where_pytorch_rounds_them(name, dtype):
    torch = require_torch()
    call = {"add": lambda t, x: x + 1.7, "subtract from": lambda t, x: 1.7 - x, "scale": lambda t, x: t.add(x, x, alpha=3),
            "multiply": lambda t, x: x * 1.7, "divide": lambda t, x: x / 1.7, "compare": lambda t, x: x > 1.7,
            "overflow": lambda t, x: x + 1e39}[name]  # fmt: skip
    x = tdt.from_numpy(np.concatenate([values(500), np.linspace(1.69, 1.71, 50)]).astype(np.float32)).to(dtype)
    reference = torch.from_numpy(x.float().numpy()).to(getattr(torch, dtype.name))
    np.testing.assert_array_equal(call(tdt, x).float().numpy(), call(torch, reference).float().numpy())
