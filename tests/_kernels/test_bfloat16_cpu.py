"""Products of bfloat16 by pairs: packing, blocks and rounding, with AMX's and AVX-512-BF16's instructions emulated.

Where the processor has the instructions, they run too, and have to give the emulated ones' bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tdt
from tdt._backend.layout import to_front, to_last
from tdt._kernels import _dots, attention_cpu, bfloat16_conv_cpu, bfloat16_cpu, product
from tdt._kernels._code import written
from tdt._kernels._registry import forget
from tdt.autograd._op import OPS
from tests._kernels.guarded import at_the_end
from tests._kernels.watch import watch
from tests.helpers import require, require_torch

BFLOAT16 = ml_dtypes.bfloat16
WAYS = ("emulated-amx", "emulated-avx512_bf16", *_dots.supported())
pytestmark = pytest.mark.skipif(not tdt.backends.kernels.enabled(), reason="kernels are off")


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """These instructions are those of the processor."""
    monkeypatch.setattr(_dots, "available", lambda: request.param)
    forget()
    yield request.param
    forget()


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(BFLOAT16)


def exact(a: np.ndarray, b: np.ndarray, bias: Any = 0) -> np.ndarray:
    return a.astype(float) @ b.astype(float) + np.asarray(bias, float)


def assert_rounded(result: np.ndarray, a: np.ndarray, b: np.ndarray, bias: Any = 0) -> None:
    """Each element is its exact sum within float32's error, rounded to bfloat16 once."""
    assert result.dtype == BFLOAT16
    expected = exact(a, b, bias)
    error = np.abs(result.astype(float) - expected)
    size = np.abs(a.astype(float)) @ np.abs(b.astype(float)) + 1e-30
    assert (error <= 2.0**-8 * np.abs(expected) + 1e-6 * size).all()


LAYOUTS = {
    "rows": lambda x: np.ascontiguousarray(x),
    "columns": lambda x: np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2),
    "part": lambda x: np.pad(x, [(0, 0)] * (x.ndim - 2) + [(1, 2), (3, 1)])[..., 1:-2, 3:-1],
    "gaps": lambda x: np.repeat(np.repeat(x, 2, -1), 2, -2)[..., ::2, ::2],
    "reversed": lambda x: np.ascontiguousarray(x[..., ::-1, :])[..., ::-1, :],
}


@pytest.mark.parametrize("left", LAYOUTS)
@pytest.mark.parametrize("right", LAYOUTS)
def test_operands_may_lie_in_any_order(way: str, left: str, right: str):
    a, b = LAYOUTS[left](numbers(2, 37, 51)), LAYOUTS[right](numbers(2, 51, 70, seed=1))
    assert_rounded(bfloat16_cpu.product(a, b), a, b)


@pytest.mark.parametrize(("left", "right"), [("rows", "columns"), ("columns", "rows"), ("gaps", "rows")])
def test_operands_of_float32_are_rounded_as_they_are_packed(way: str, left: str, right: str, monkeypatch):
    monkeypatch.setattr(bfloat16_cpu, "_packs_once", lambda left, right: False)
    rng = np.random.default_rng(0)
    a, b = (at_the_end(rng.standard_normal(shape, np.float32)) for shape in ((2, 37, 51), (2, 51, 70)))
    a, b = LAYOUTS[left](a), LAYOUTS[right](b)
    low, bias = (a.astype(BFLOAT16), b.astype(BFLOAT16)), numbers(70, seed=2)
    expected = bfloat16_cpu.product(*low, bias).view(np.uint16)
    for pair in ((a, b), (low[0], b), (a, low[1])):
        np.testing.assert_array_equal(bfloat16_cpu.product(*pair, bias.astype(np.float32)).view(np.uint16), expected)
        sums = bfloat16_cpu.product(*pair, None, np.dtype(np.float32))
        np.testing.assert_allclose(sums, low[0].astype(float) @ low[1].astype(float), 1e-5, 1e-4)


def test_weights_of_linear_layers_stay_float32_under_autocast(way: str, monkeypatch: pytest.MonkeyPatch):
    called = watch(monkeypatch, "bfloat16_cpu:product")
    layer, x = tdt.nn.Linear(96, 160), tdt.tensor(numbers(130, 96).astype(np.float32)).bfloat16()
    low = [p.detach().bfloat16() for p in layer.parameters()]
    g = tdt.tensor(numbers(130, 160, seed=1).astype(np.float32)).bfloat16()
    x.requires_grad_()
    with tdt.autocast("cpu", tdt.bfloat16):
        y = layer(x)
    y.backward(g)
    assert len(called) == 3
    assert tdt.equal(y, tdt.nn.functional.linear(x, *low))
    assert tdt.equal(x.grad, g @ low[0])
    found, (a, b) = layer.weight.grad, (t.detach().double() for t in (g, x))
    assert found.dtype is tdt.float32
    tdt.testing.assert_close(found.double(), a.T @ b, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("seed", range(12))
def test_any_sizes_are_summed(way: str, seed: int):
    rng = np.random.default_rng(seed)
    m, k, n = (int(2 ** rng.uniform(0, 9)) for _ in range(3))
    stack = tuple(rng.integers(1, 4, int(rng.integers(0, 3))))
    a, b = numbers(*stack, m, k, seed=seed), numbers(*stack, k, n, seed=seed + 100)
    bias = numbers(n, seed=seed + 200)
    assert_rounded(bfloat16_cpu.product(a, b, bias), a, b, bias)


def test_a_long_sum_in_several_parts_is_rounded_once(way: str):
    a, b = numbers(40, 1700), numbers(1700, 33, seed=1)
    assert_rounded(bfloat16_cpu.product(a, b), a, b)


def test_a_stack_may_repeat_one_matrix(way: str):
    a, b = np.broadcast_to(numbers(33, 40), (3, 33, 40)), numbers(3, 40, 34, seed=1)
    assert_rounded(bfloat16_cpu.product(a, b), a, b)


@pytest.mark.parametrize("name", ["amx", "avx512_bf16"])
@pytest.mark.parametrize("size", [(1, 1, 1), (33, 70, 45), (64, 600, 96)], ids=str)
def test_instructions_of_the_processor_give_the_emulated_bits(
    name: str, size: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
):
    if name not in WAYS:
        pytest.skip(f"a processor or system without {name}")
    rows, depth, columns = size
    a, b = numbers(rows, depth), numbers(depth, columns, seed=1)
    results = []
    for way in (name, f"emulated-{name}"):
        monkeypatch.setattr(_dots, "available", lambda way=way: way)
        results.append(bfloat16_cpu.product(a, b))
    np.testing.assert_array_equal(*(each.view(np.uint16) for each in results))


def test_both_instructions_agree_but_for_rounding(monkeypatch: pytest.MonkeyPatch):
    a, b, found = numbers(64, 96), numbers(96, 64, seed=1), []
    for name in WAYS:
        monkeypatch.setattr(_dots, "available", lambda name=name: name)
        found.append(bfloat16_cpu.product(a, b).astype(np.float32))
    assert (np.abs(found[0] - found[1]) <= 2.0**-7 * np.abs(found[0]) + 1e-5).all()


def test_an_element_has_one_value_whatever_the_size_and_the_number_of_threads(way: str):
    a, b = numbers(300, 700), numbers(700, 290, seed=1)
    before = tdt.get_num_threads()
    try:
        tdt.set_num_threads(1)
        whole = bfloat16_cpu.product(a, b)
        tdt.set_num_threads(2)
        assert (bfloat16_cpu.product(a, b).view(np.uint16) == whole.view(np.uint16)).all()
    finally:
        tdt.set_num_threads(before)
    part = bfloat16_cpu.product(a[17:19], b[:, 100:150])
    assert (part.view(np.uint16) == whole[17:19, 100:150].view(np.uint16)).all()


@pytest.mark.parametrize("left", ["rows", "columns", "part"])
@pytest.mark.parametrize("shape", [(3, 150, 70, 40), (1, 1, 600, 300), (2, 33, 64, 290), (1, 300, 96, 20)], ids=str)
def test_blocks_that_pack_what_they_need_give_the_same_bits(
    way: str, shape: tuple[int, ...], left: str, monkeypatch: pytest.MonkeyPatch
):
    stack, m, k, n = shape
    a, b, bias = LAYOUTS[left](numbers(stack, m, k)), numbers(stack, k, n, seed=1), numbers(n, seed=2)
    found = []
    for packs in (True, False):
        monkeypatch.setattr(bfloat16_cpu, "_packs_once", lambda left, right, packs=packs: packs)
        found += [bfloat16_cpu.product(a, y, bias).view(np.uint16) for y in (b, LAYOUTS["columns"](b))]
    for each in found[1:]:
        np.testing.assert_array_equal(each, found[0])


@pytest.mark.parametrize("shape", [(1, 512, 512), (520, 515, 1), (40, 160, 170)], ids=str)
def test_large_products_and_those_of_one_row_or_column_sum_pairs(
    way: str, shape: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
):
    m, k, n = shape
    pieces, run = [], bfloat16_cpu.parallel
    monkeypatch.setattr(bfloat16_cpu, "parallel", lambda *args, **how: (pieces.append(args[1]), run(*args, **how)))
    assert_rounded(product(np, a := numbers(m, k), b := numbers(k, n, seed=1)), a, b)
    assert pieces


def attended(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: Any, causal: bool) -> np.ndarray:
    out = np.zeros((*q.shape[:-1], v.shape[-1]), BFLOAT16)
    norms = np.zeros((*q.shape[:-1], 2), np.float32)
    attention_cpu.attention(q, k, v, mask, None, out, norms, causal=causal, scale=0.2, dropped=0.0)
    return out


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sizes", [(70, 90, 40, 24), (128, 64, 32, 64), (33, 300, 65, 7)], ids=str)
def test_attention_sums_pairs(way: str, sizes: tuple[int, ...], causal: bool, monkeypatch: pytest.MonkeyPatch):
    length, places, width, size = sizes
    shapes = [(2, 2, length, width), (2, 2, places, width), (2, 2, places, size)]
    q, k, v = (at_the_end(numbers(*s, seed=i).view(np.uint16)).view(BFLOAT16) for i, s in enumerate(shapes))
    rng = np.random.default_rng(7)
    mask = np.where(rng.random((length, places)) < 0.2, -np.inf, rng.standard_normal((length, places))).astype(
        np.float32
    )
    mask[3] = -np.inf
    masks = [None] if causal else [None, np.broadcast_to(mask, (2, 2, length, places))]
    for each in masks:
        found = attended(q, k, v, each, causal)
        scores = 0.2 * q.astype(float) @ k.astype(float).swapaxes(-1, -2) + (0 if each is None else each)
        if causal:
            scores = np.where(np.tri(length, places, dtype=bool), scores, -np.inf)
        weights = np.exp(scores - np.maximum(scores.max(-1, keepdims=True), -1e30))
        weights /= np.maximum(weights.sum(-1, keepdims=True), 1e-30)
        error = np.abs(found.astype(float) - weights @ v.astype(float))
        assert (error <= 2.0**-7 * (weights @ np.abs(v.astype(float))) + 1e-30).all()
        part = attended(q[:, 1:, :32], k[:, 1:], v[:, 1:], None if each is None else each[:, 1:, :32], causal)
        np.testing.assert_array_equal(part.view(np.uint16), found[:, 1:, :32].view(np.uint16))
        before = tdt.get_num_threads()
        try:
            tdt.set_num_threads(3 - before if before < 3 else 1)
            np.testing.assert_array_equal(attended(q, k, v, each, causal).view(np.uint16), found.view(np.uint16))
        finally:
            tdt.set_num_threads(before)
        if not way.startswith("emulated"):
            monkeypatch.setattr(_dots, "available", lambda: f"emulated-{way}")
            np.testing.assert_array_equal(attended(q, k, v, each, causal).view(np.uint16), found.view(np.uint16))
            monkeypatch.setattr(_dots, "available", lambda: way)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sizes", [(70, 40, 33, 65)], ids=str)
def test_gradients_of_attention_sum_pairs(way: str, sizes: tuple[int, ...], causal: bool):
    length, places, width, size = sizes
    shapes = [(1, 2, length, width), (1, 2, places, width), (1, 2, places, size), (1, 2, length, size)]
    *operands, g = (numbers(*shape, seed=k).astype(np.float32) for k, shape in enumerate(shapes))
    rng = np.random.default_rng(7)
    mask = None if causal else rng.standard_normal((length, places)).astype(np.float32)

    def gradients(dtype: Any, part: slice = slice(None)) -> list[np.ndarray]:
        tensors = [tdt.tensor(x[:, part], dtype=dtype, requires_grad=True) for x in operands]
        bias = mask if mask is None else tdt.tensor(mask, requires_grad=True)
        low = bias if bias is None else bias.to(dtype)
        out = tdt.nn.functional.scaled_dot_product_attention(*tensors, attn_mask=low, is_causal=causal)
        out.backward(tdt.tensor(g[:, part], dtype=dtype))
        return [t.grad.double().numpy() for t in (*tensors, *([] if bias is None else [bias]))]

    found, expected = gradients(tdt.bfloat16), gradients(tdt.float64)
    for ours, exact in zip(found, expected, strict=True):
        assert np.abs(ours - exact).max() <= 2.0**-6 * np.abs(exact).max()
        assert np.linalg.norm(ours - exact) <= 2.0**-7 * np.linalg.norm(exact)
    for part, whole in zip(gradients(tdt.bfloat16, slice(1, 2))[:3], found, strict=False):
        np.testing.assert_array_equal(part[:, 0], whole[:, 1])


def test_numbers_that_are_not_finite_stay_in_their_rows_and_columns(way: str):
    a, b = numbers(40, 50), numbers(50, 45, seed=1)
    a[3, 49], b[7, 44] = np.nan, np.inf
    result = bfloat16_cpu.product(a, b).astype(float)
    odd = ~np.isfinite(result)
    assert odd[3].all() and odd[:, 44].all() and odd.sum() == 40 + 45 - 1
    assert np.isnan(result[3]).all()


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("right", [False, True])
def test_nothing_is_read_past_the_end_of_an_operand(way: str, turned: bool, right: bool):
    guarded = at_the_end(numbers(45, 37).view(np.uint16)).view(BFLOAT16)
    own = guarded.T if turned else guarded
    other = numbers(own.shape[0] if right else own.shape[1], 40, seed=1)
    a, b = (other.T, own) if right else (own, other)
    assert_rounded(bfloat16_cpu.product(a, b), a, b)


def test_pytorch_sums_alike(way: str):
    torch = require_torch()
    a, b, bias = numbers(60, 130), numbers(130, 50, seed=1), numbers(50, seed=2)
    ours = bfloat16_cpu.product(a, b, bias).astype(np.float32)
    theirs = torch.nn.functional.linear(
        *(torch.tensor(x.astype(np.float32)).bfloat16() for x in (a, b.T, bias))
    ).float()
    assert (np.abs(ours - theirs.numpy()) <= 2.0**-7 * np.abs(ours) + 1e-5).all()


CALLS = {
    "linear": lambda x, w, b: tdt.nn.functional.linear(x, w, b),
    "matmul": lambda x, w, b: x @ w.T + b,
    "bmm": lambda x, w, b: tdt.bmm(x.reshape(2, 64, 96), w.T.expand(2, 96, 160)) + b,
}


@pytest.mark.parametrize("name", CALLS)
def test_ops_and_their_gradients_are_products_of_pairs(way: str, name: str, monkeypatch: pytest.MonkeyPatch):
    called = watch(monkeypatch, "bfloat16_cpu:product")
    operands = [
        tdt.tensor(numbers(*shape, seed=k).astype(np.float32)) for k, shape in enumerate([(128, 96), (160, 96), (160,)])
    ]
    results = []
    for kind in (tdt.bfloat16, tdt.float32):
        low = [x.bfloat16().to(kind).requires_grad_() for x in operands]
        out = CALLS[name](*low)
        out.backward(tdt.ones_like(out) / 16)
        results.append([out, *(x.grad for x in low)])
    assert len(called) == 3
    for ours, expected in zip(*results, strict=True):
        assert ours.dtype is tdt.bfloat16
        tdt.testing.assert_close(ours.float(), expected, rtol=2e-2, atol=2e-2)


def test_a_processor_without_the_instructions_computes_in_float32(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_dots, "available", lambda: "")
    called = watch(monkeypatch, "bfloat16_cpu:product")
    a, b = numbers(128, 96), numbers(96, 128, seed=1)
    result = (tdt.tensor(a.astype(np.float32)).bfloat16() @ tdt.tensor(b.astype(np.float32)).bfloat16()).float().numpy()
    assert not called
    assert_rounded(result.astype(BFLOAT16), a, b)


# What only processors with the instructions can run.

ASSEMBLED = {
    ("amx", "sapphirerapids"): (
        "ldtilecfg",
        "tilezero",
        "tileloadd",
        "tdpbf16ps",
        "tilestored",
        "tilerelease",
        "vcvtneps2bf16",
    ),
    ("avx512_bf16", "cooperlake"): ("vdpbf16ps", "vcvtneps2bf16"),
    ("avx512_bf16", "znver4"): ("vdpbf16ps", "vcvtneps2bf16"),
}


@pytest.mark.parametrize(("name", "processor"), ASSEMBLED)
def test_the_code_has_the_processors_instructions(name: str, processor: str):
    llvm = require("llvmlite.binding")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple("x86_64-unknown-linux-gnu")
    machine = target.create_target_machine(cpu=processor, opt=2)
    text = written(bfloat16_cpu._blocks.__wrapped__, "q" * 13, (name, True))
    module = llvm.parse_assembly(text.replace(text.splitlines()[0], 'target triple = "x86_64-unknown-linux-gnu"'))
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    builder.getModulePassManager().run(module, builder)
    code = machine.emit_assembly(module)
    for instruction in ASSEMBLED[name, processor]:
        assert instruction in code


def test_the_configuration_of_tiles_is_that_of_the_manual():
    words = np.zeros(64, np.uint8)
    words[0] = 1  # the palette
    words[16:32].view(np.uint16)[:] = 64  # bytes of a row, for each of 8 tiles
    words[48:56] = 16  # rows
    assert _dots.CONFIGURATION == words.tobytes()


@pytest.mark.parametrize(
    ("flags", "permitted", "setting", "expected"),
    [
        ("amx_tile amx_bf16 avx512_bf16", True, None, "amx"),
        ("amx_tile amx_bf16 avx512_bf16", False, None, "avx512_bf16"),
        ("amx_tile avx512f", True, None, ""),
        ("amx_tile amx_bf16 avx512_bf16", True, "0", ""),
        ("amx_tile amx_bf16 avx512_bf16", True, "avx512_bf16", "avx512_bf16"),
        ("avx512f", True, "amx", ""),
        ("avx512f", True, "emulated-amx", "emulated-amx"),
    ],
)
def test_instructions_are_used_where_processor_and_system_have_them(
    monkeypatch: pytest.MonkeyPatch, flags: str, permitted: bool, setting: str | None, expected: str
):
    monkeypatch.setattr(_dots, "_processor_flags", lambda: frozenset(flags.split()))
    monkeypatch.setattr(_dots, "amx_permitted", lambda: permitted)
    monkeypatch.setattr("tdt._kernels._native.vector_width", lambda: 16)
    monkeypatch.delenv("NUMBA_CPU_NAME", raising=False)
    monkeypatch.delenv("NUMBA_CPU_FEATURES", raising=False)
    monkeypatch.setenv("TDT_BFLOAT16", setting) if setting else monkeypatch.delenv("TDT_BFLOAT16", raising=False)
    assert _dots.available.__wrapped__() == expected


def test_asking_for_permission_does_no_harm():
    assert _dots.amx_permitted() in (True, False)


@pytest.mark.parametrize("size", [(3, 37, 50), (2, 16, 16), (1, 32, 3), (2, 5, 40), (1, 70, 64), (1, 3, 2)])
def test_matrices_of_16_bits_are_transposed(size):
    source = np.arange(np.prod(size), dtype=np.uint16).reshape(size)
    np.testing.assert_array_equal(bfloat16_conv_cpu.transposed(source), source.swapaxes(1, 2))


@pytest.mark.parametrize(("groups", "rows"), [(7, 9), (9, 7), (1, 40), (40, 1), (33, 2)])
def test_rows_that_lie_in_two_dimensions_are_transposed(groups, rows):
    source = np.arange(2 * groups * rows * 35, dtype=np.uint16).reshape(2, rows, groups, 35).swapaxes(1, 2)
    expected = source.reshape(2, groups * rows, 35).swapaxes(1, 2)
    np.testing.assert_array_equal(bfloat16_conv_cpu.transposed(source), expected)
    image = np.full((2, groups + 3, 2 * rows, 35), 7, np.uint16)
    inside = image[:, 1 : groups + 1, 1::2]
    bfloat16_conv_cpu.transposed(np.ascontiguousarray(expected), inside)
    np.testing.assert_array_equal(inside, source)
    inside[...] = 7
    assert (image == 7).all()


# Convolutions.


def convolution(seed: int) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Operands and settings of a convolution, drawn at random."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 4))
    draw = lambda low, high: tuple(map(int, rng.integers(low, high, d)))  # noqa: E731
    kernel, how = draw(1, 5), {"stride": draw(1, 4), "padding": draw(0, 4), "dilation": draw(1, 3), "groups": 1}
    size = [max(int(rng.integers(1, 12)), e * (k - 1) + 1 - 2 * p)
            for k, e, p in zip(kernel, how["dilation"], how["padding"], strict=True)]  # fmt: skip
    count, channels, out = int(rng.integers(1, 4)), int(2 ** rng.uniform(0, 6)), int(2 ** rng.uniform(0, 6))
    operands = {
        "x": numbers(count, channels, *size),
        "w": numbers(out, channels, *kernel, seed=1),
        "b": numbers(out, seed=2),
    }
    for name in "xw":
        if rng.integers(0, 2):
            operands[name] = to_front(np.ascontiguousarray(to_last(operands[name])))
    return operands, how


@pytest.mark.parametrize("seed", range(16))
def test_convolutions_of_any_shape_have_float64s_results_and_gradients(way: str, seed: int):
    operands, how = convolution(seed)
    wide = {name: tdt.tensor(a.astype(float)).requires_grad_() for name, a in operands.items()}
    expected = OPS["conv"](wide["x"], wide["w"], wide["b"], **how)
    x, w, b = operands.values()
    result = bfloat16_conv_cpu.conv(x, w, b, **how)
    g = numbers(*expected.shape, seed=3)
    expected.backward(tdt.tensor(g.astype(float)))
    found = {
        "y": (result, expected),
        "x": (bfloat16_conv_cpu.conv_input_grad(g, w, size=x.shape[2:], **how), wide["x"].grad),
        "w": (bfloat16_conv_cpu.conv_weight_grad(g, x, kernel=w.shape[2:], **how), wide["w"].grad),
    }
    for name, (ours, exact_value) in found.items():
        exact_array = exact_value.detach().numpy()
        assert ours is not None and ours.shape == exact_array.shape and ours.dtype == BFLOAT16, name
        error = np.abs(ours.astype(float) - exact_array)
        assert (error <= 2.0**-8 * np.abs(exact_array) + 1e-5 * np.abs(exact_array).max() + 1e-6).all(), name


@pytest.mark.parametrize("last", [False, True])
def test_ops_convolve_bfloat16_by_pairs(way: str, last: bool, monkeypatch: pytest.MonkeyPatch):
    called = watch(
        monkeypatch, *(f"bfloat16_conv_cpu:{name}" for name in ("conv", "conv_input_grad", "conv_weight_grad"))
    )
    layout = tdt.channels_last if last else tdt.contiguous_format
    shapes = (2, 32, 18, 18), (64, 32, 5, 5), (64,)
    operands = [tdt.tensor(numbers(*shape, seed=k).astype(np.float32)) for k, shape in enumerate(shapes)]
    operands = [x.to(memory_format=layout) if x.ndim == 4 else x for x in operands]
    results = []
    for kind in (tdt.bfloat16, tdt.float32):
        low = [x.bfloat16().to(kind).requires_grad_() for x in operands]
        out = tdt.nn.functional.conv2d(*low, padding=2)
        out.backward(tdt.ones_like(out) / 16)
        results.append([out, *(x.grad for x in low)])
    assert called == [f"bfloat16_conv_cpu:{name}" for name in ("conv", "conv_input_grad", "conv_weight_grad")]
    for ours, expected in zip(*results, strict=True):
        assert ours.dtype is tdt.bfloat16 and ours.stride() == expected.stride()
        tdt.testing.assert_close(ours.float(), expected, rtol=2e-2, atol=2e-2)


# What would take longer than float32's code: few channels on one side, an input gradient of a convolution with a long stride.
SLOW = [((2, 3, 32, 32), (16, 3, 3, 3), 1), ((2, 8, 64, 64), (8, 8, 3, 3), 1), ((2, 3, 64, 64), (96, 3, 8, 8), 8),
        ((2, 64, 32, 32), (64, 64, 4, 4), 4), ((1, 16, 8, 8), (32, 16, 1, 1), 1)]  # fmt: skip


@pytest.mark.parametrize(("image", "weight", "stride"), SLOW, ids=str)
def test_convolutions_that_pairs_would_slow_down_run_in_float32(
    way: str, image: tuple, weight: tuple, stride: int, monkeypatch: pytest.MonkeyPatch
):
    called = watch(monkeypatch, "bfloat16_conv_cpu:conv", "bfloat16_conv_cpu:conv_input_grad")
    x, w = (tdt.tensor(numbers(*shape).astype(np.float32)).bfloat16().requires_grad_() for shape in (image, weight))
    y = tdt.nn.functional.conv2d(x, w, stride=stride)
    y.backward(tdt.ones_like(y))
    assert "bfloat16_conv_cpu:conv_input_grad" not in called
    assert ("bfloat16_conv_cpu:conv" in called) is (stride > 1)


@pytest.mark.parametrize("name", "xwg")
def test_infinities_meet_no_zeros_of_the_border(way: str, name: str):
    operands = {"x": numbers(2, 32, 20, 20), "w": numbers(32, 32, 3, 3, seed=1), "g": numbers(2, 32, 20, 20, seed=2)}
    operands[name].reshape(-1)[0] = np.inf
    found = []
    for kind in (tdt.bfloat16, tdt.float32):
        x, w, g = (tdt.tensor(a.astype(np.float32)).to(kind) for a in operands.values())
        x, w = x.requires_grad_(), w.requires_grad_()
        y = tdt.nn.functional.conv2d(x, w, padding=1)
        y.backward(g)
        found.append([t.detach().float().numpy() for t in (y, x.grad, w.grad)])
    for ours, expected in zip(*found, strict=True):
        assert (np.isnan(ours) == np.isnan(expected)).all() and (np.isposinf(ours) == np.isposinf(expected)).all()


@pytest.mark.parametrize("stride", [1, 2])
def test_windows_that_are_read_where_they_lie_give_the_bits_of_copied_ones(way: str, stride: int, monkeypatch):
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype(BFLOAT16) for s in ((2, 32, 6, 32 * stride), (40, 32, 3, 3)))
    x = x.transpose(0, 2, 3, 1).copy().transpose(0, 3, 1, 2)
    how = {"stride": (stride, stride), "padding": (1, 1), "dilation": (1, 1), "groups": 1}

    def computed() -> list[np.ndarray]:
        y = bfloat16_conv_cpu.conv(x, w, None, **how)
        gradients = (
            bfloat16_conv_cpu.conv_input_grad(y, w, size=x.shape[2:], **how),
            bfloat16_conv_cpu.conv_weight_grad(y, x, kernel=(3, 3), **how),
        )
        return [a.astype(np.float32) for a in (y, *gradients)]

    in_place = computed()
    monkeypatch.setattr(
        bfloat16_conv_cpu, "pitches_of", lambda lines, in_place: np.zeros(2 + len(lines) // 16, np.int64)
    )
    for cache in (bfloat16_conv_cpu._grid, bfloat16_conv_cpu._window_pitches):
        cache.cache_clear()
    for value, expected in zip(computed(), in_place, strict=True):
        np.testing.assert_array_equal(value, expected)
    for cache in (bfloat16_conv_cpu._grid, bfloat16_conv_cpu._window_pitches):
        cache.cache_clear()


@pytest.mark.parametrize("shape", [(33, 64, 70), (128, 96, 300), (200, 512, 33), (17, 32, 20)])
def test_rows_that_are_read_where_they_lie_give_the_bits_of_packed_ones(way: str, shape: tuple[int, int, int]):
    m, k, n = shape
    a, b, bias = numbers(m, k), numbers(k, n, seed=1), numbers(n, seed=2)
    ascending = numbers(k, m, seed=3).T  # the other order of memory is always packed
    gaps = np.pad(a, ((1, 2), (3, 61)))[1:-2, 3:-61]
    expected = bfloat16_cpu.product(np.ascontiguousarray(a.T).T, b, bias).view(np.uint16)
    for left in (a, gaps, at_the_end(a)):
        np.testing.assert_array_equal(bfloat16_cpu.product(left, b, bias).view(np.uint16), expected)
    assert_rounded(bfloat16_cpu.product(ascending, b, bias), ascending, b, bias)


def test_blocks_are_summed_in_pairs_of_rows_and_a_last_row(way: str):
    a, b = numbers(300, 64), numbers(64, 600, seed=1)
    found = [bfloat16_cpu.product(left, b) for left in (a, np.ascontiguousarray(a.T).T)]
    assert_rounded(found[0], a, b)
    np.testing.assert_array_equal(*(each.view(np.uint16) for each in found))


def test_small_results_are_rounded_alike_at_the_edge(way: str):
    """A sum with a bias may lie below 2⁻¹²⁶, which some processors round to zero."""
    bias = (np.arange(40) * 2.0**-133).astype(BFLOAT16)
    whole = bfloat16_cpu.product(np.zeros((40, 32), BFLOAT16), np.zeros((32, 40), BFLOAT16), bias).view(np.uint16)
    reversed_bias = np.ascontiguousarray(bias[::-1])
    other = bfloat16_cpu.product(np.zeros((40, 32), BFLOAT16), np.zeros((32, 40), BFLOAT16), reversed_bias).view(
        np.uint16
    )
    np.testing.assert_array_equal(whole, other[:, ::-1])


@pytest.mark.parametrize("forward", [True, False])
@pytest.mark.parametrize("kernel", [(3, 3), (5,), (3, 1, 3), (1, 7), (3, 3, 3)], ids=str)
def test_weights_are_packed_from_where_they_lie_as_by_way_of_transposed_ones(monkeypatch, kernel, forward):
    w = numbers(64, 96, *kernel)
    ones = (1,) * len(kernel)
    places = bfloat16_conv_cpu.Places(ones, kernel, kernel, ones, ones, 96 if forward else 64)
    found, joined = bfloat16_conv_cpu._packed_weights(places, w, forward)
    monkeypatch.setattr(bfloat16_conv_cpu, "MOST_CELLS", 0)
    expected, other = bfloat16_conv_cpu._packed_weights(places, w, forward)
    np.testing.assert_array_equal(found.memory, expected.memory)
    assert found[1:] == expected[1:]
    steps = [bfloat16_conv_cpu._run_steps(places, each) for each in (joined, other)]
    np.testing.assert_array_equal(*steps)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(("padding", "stride"), [(1, 1), (0, 1), (1, 2), (2, 1)])
def test_images_a_few_at_a_time_give_the_bits_of_all_at_once(way: str, last, padding, stride, monkeypatch):
    x, w = numbers(5, 32, 9, 7), numbers(32, 32, 3, 3, seed=1)
    x = x.transpose(0, 2, 3, 1).copy().transpose(0, 3, 1, 2) if last else x
    how = {"stride": (stride,) * 2, "padding": (padding,) * 2, "dilation": (1, 1), "groups": 1}
    found = []
    for cached in (1 << 30, 2 * 32 * (13 * 11 + 11 * 9) * 2, 1):
        monkeypatch.setattr(bfloat16_conv_cpu, "CACHED_IMAGES", cached)
        y = bfloat16_conv_cpu.conv(x, w, None, **how)
        found.append([y, bfloat16_conv_cpu.conv_input_grad(y, w, size=x.shape[2:], **how)])
    for pair in found[1:]:
        for value, expected in zip(pair, found[0], strict=True):
            assert value.strides == expected.strides
            np.testing.assert_array_equal(value.view(np.uint16), expected.view(np.uint16))
