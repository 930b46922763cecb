"""Our own products: one value for an element, whatever the layout, the size, the path and the number of threads."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import tdt
from tdt import _kernels
from tdt._kernels import _direct, _pool, _product_conditions, product_cpu
from tdt._kernels._conditions import vectors_of_eight
from tdt._kernels._cut import cut
from tdt._kernels._direct_parts import STREAMED
from tdt._kernels._gufunc import ufunc_at
from tdt._kernels._tile import choose_with_edge
from tdt._kernels.product_cpu import COLUMNS, DEPTH, ROWS, product
from tests._kernels.guarded import at_the_end
from tests.helpers import require_torch

# Around the blocks, tiles and paths: few rows, few columns (turned), a shallow and a deep sum, transposed products.
SIZES = [
    (1, 1, 1), (1, 300, 7), (300, 1, 7), (2, 100, DEPTH), (3, 100, DEPTH + 1), (5, 33, 2 * DEPTH + 9), (13, 70, 40),
    (7, 260, 300), (40, 600, 3), (21, 5, 400), (64, 130, 100), (ROWS + 7, 24, DEPTH + 3), (50, COLUMNS + 17, 20), (130, 129, 131),
    (ROWS // 2 + 9, COLUMNS // 2 + 20, DEPTH + 70), (100, 2, 33), (70, 13, DEPTH + 50), (12, 7, DEPTH + 50),
    (17, 4, 50), (1400, 3, 40), (200, 130, 1),
]  # fmt: skip


@pytest.fixture(autouse=True)
def restored():
    before = _pool.get_num_threads()
    yield
    _pool.set_num_threads(before)
    product_cpu._plan.cache_clear()


@pytest.fixture
def packed(monkeypatch):
    """Packed operands at every size: else small products and few rows read them where they lie."""
    monkeypatch.setattr(product_cpu, "is_direct", lambda *sizes: False)
    product_cpu._plan.cache_clear()


def direct(width: int | None = None, item: int = 4) -> tuple:
    """The functions of `_direct` for elements of `item` bytes, which compile what they require and check that the bits stay."""
    parts = _direct.parts(width, item)

    def checked(ufunc):
        def call(*operands, **how):
            first = ufunc(*operands, **how).copy()
            parts.compile()
            second = ufunc(*operands, **how)
            np.testing.assert_array_equal(first, second)
            return second

        return call

    plain, biased = _direct.ufuncs(width, item)
    return checked(plain), checked(biased)


def matrices(rows: int, columns: int, depth: int, batch: tuple = ()) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(rows * 7 + columns)
    return (
        rng.normal(size=(*batch, rows, depth)).astype(np.float32),
        rng.normal(size=(*batch, depth, columns)).astype(np.float32),
    )


def orders(x: np.ndarray) -> list[np.ndarray]:
    """x in row, column, strided, reversed and padded order."""
    repeated = np.repeat(x, 2, axis=-1)
    return [
        x, np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2), repeated[..., ::2], x[..., ::-1].copy()[..., ::-1],
        np.concatenate([x, x], axis=-1)[..., : x.shape[-1]], x[..., ::-1, :].copy()[..., ::-1, :],
    ]  # fmt: skip


def close(found: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
    """Within what blocks of DEPTH products, rounded once each, can be off."""
    bound = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64) * 2.0**-24 * (DEPTH / 8 + 8)
    assert np.all(np.abs(found - a.astype(np.float64) @ b.astype(np.float64)) <= bound)


@pytest.mark.parametrize("size", SIZES)
def test_every_memory_order_number_of_threads_and_form_has_the_same_bits(size, monkeypatch, request):
    monkeypatch.setattr(product_cpu, "GRAIN", 1 << 10)
    a, b = matrices(*size)
    expected = product(a, b)
    close(expected, a, b)
    small, _ = direct()
    for form in ("direct", "packed"):
        if form == "packed":
            request.getfixturevalue("packed")
        for left in orders(a):
            for threads, right in zip((1, 2, 3, 4, 1, 2), orders(b), strict=True):
                _pool.set_num_threads(threads)
                np.testing.assert_array_equal(product(left, right), expected)
                np.testing.assert_array_equal(small(left, right), expected)


@pytest.mark.parametrize(("rows", "columns"), [(25, 257), (49, 129), (34, 65)])
@pytest.mark.parametrize("threads", [2, 3])
def test_a_piece_of_one_column_leaves_the_others_as_they_are(rows, columns, threads, monkeypatch):
    monkeypatch.setattr(product_cpu, "GRAIN", 1 << 10)
    a, b = matrices(rows, columns, 255)
    expected = product(a, b)
    close(expected, a, b)
    _pool.set_num_threads(threads)
    product_cpu._plan.cache_clear()
    for left in orders(a)[:2]:
        np.testing.assert_array_equal(product(left, b), expected)


@pytest.mark.parametrize("size", [(70, 130, 40), (200, 49, DEPTH + 3), (130, COLUMNS + 17, 20)])
def test_a_right_operand_is_not_read_behind_its_end_while_a_tile_packs_it(size, packed):
    a, b = matrices(*size)
    bias = np.arange(size[1], dtype=np.float32)
    small, biased = direct()
    np.testing.assert_array_equal(product(a, at_the_end(b)), small(a, b))
    np.testing.assert_array_equal(product(a.T.copy().T, at_the_end(b), bias), biased(a, b, bias))


@pytest.mark.parametrize("size", [(512, 17, DEPTH), (511, 63, 300), (128, 64, 2 * DEPTH + 5), (350, 30, 900)])
def test_transposed_left_operands_of_many_rows_and_few_columns_have_the_same_bits(size, monkeypatch):
    monkeypatch.setattr(product_cpu, "GRAIN", 1 << 10)
    a, b = matrices(*size)
    bias = np.arange(size[1], dtype=np.float32)
    expected = direct()[1](a, b, bias)
    for threads in (1, 2, 3):
        _pool.set_num_threads(threads)
        product_cpu._plan.cache_clear()
        np.testing.assert_array_equal(product(at_the_end(a.T.copy()).T, at_the_end(b), bias), expected)
        halves = product(np.stack([a.T, a.T]).swapaxes(1, 2), np.stack([b, b]))
        np.testing.assert_array_equal(halves[1], product(a, b))


def test_a_product_of_one_thread_is_a_new_contiguous_array_of_the_stack():
    a, b = (x.swapaxes(0, 1) for x in matrices(40, 70, 30, (3, 2)))
    bias = np.arange(70, dtype=np.float32)[::-1]
    found = product(a, b, bias)
    assert found.shape == (2, 3, 40, 70) and found.flags.c_contiguous and found.flags.owndata
    np.testing.assert_array_equal(found, np.stack([product(x, y) for x, y in zip(a, b, strict=True)]) + bias)


@pytest.mark.parametrize("rows", [1, 2, 3, 4])
def test_long_lines_read_along_their_whole_length_have_the_same_bits(rows, packed):
    for columns, depth in ((1030, DEPTH + 1), (STREAMED // 2 + 3, 2 * DEPTH + 1)):
        a, b = matrices(rows, columns, depth)
        bias = np.arange(columns, dtype=np.float32)
        for width in (8, 16):
            small, biased = direct(width)
            np.testing.assert_array_equal(small(a, b), product(a, b))
            np.testing.assert_array_equal(biased(a, b, bias), product(a, b, bias))


def test_nothing_is_written_outside_the_result():
    small, _ = direct()
    for rows, columns in ((1, 9), (2, 40), (7, 1), (13, 17), (30, 70)):
        a, b = matrices(rows, columns, 20)
        memory = np.full(rows * columns + 64, 7, np.float32)
        out = memory[32:-32].reshape(rows, columns)
        for left, right in zip(orders(a), orders(b), strict=True):
            np.testing.assert_array_equal(small(left, right, out=out), product(a, b))
            assert (memory[:32] == 7).all() and (memory[-32:] == 7).all()


@pytest.mark.parametrize("width", [8, 16])
@pytest.mark.parametrize(
    ("size", "kind", "sizes"),
    [
        ((6, 40, 30), "lines", {8: (6, 2), 16: (6, 2)}),
        ((24, 40, 300), "packing", {8: (6, 2), 16: (12, 2)}),
        ((1, 200, 30), "lines", {8: (1, 8), 16: (1, 8)}),
        ((1, 100, 300), "last_lines", {8: (1, 8), 16: (1, 8)}),
        ((2, 1100, 40), "stream", {8: (2, 0), 16: (2, 0)}),
        ((1, 260, 130), "stream", {8: (1, 0)}),
        ((4, 520, 70), "stream", {8: (4, 0)}),
        ((1, 33, 40), "columns", {8: (1, 2), 16: (1, 2)}),
        ((3, 10, 300), "last_columns", {8: (3, 1), 16: (3, 1)}),
        ((1, 32, 1024), "columns_in_parts", {8: (1, 1), 16: (1, 1)}),
        ((1, 6, 520), "last_columns_in_parts", {8: (1, 1), 16: (1, 1)}),
        ((30, 9, 400), "pack_columns", {8: (0, 2), 16: (0, 1)}),
        ((30, 5, 400), "columns", {8: (5, 1)}),
    ],
)
def test_a_product_requires_few_parts_and_has_the_same_bits_before_they_are_compiled(size, kind, sizes, width):
    if width not in sizes:
        pytest.skip("tiles of sixteen columns")
    a, b = matrices(*size)
    b = np.ascontiguousarray(b.T).T if "columns" in kind else b
    parts = _direct.Parts(width)
    address = _direct._addresses(width, foresees=False)[0]
    small = ufunc_at(address, _direct.SIGNATURES["tdt_loop"], "fff", 2, "product", parts.table)
    before = small(a, b)
    assert parts.required[0]
    while parts.required[0]:
        parts.compile()
        np.testing.assert_array_equal(small(a, b), before)
    assert (kind, *sizes[width]) in parts.compiled() and len(parts.compiled()) <= 5
    np.testing.assert_array_equal(before, product(a, b))


def test_direct_products_in_vectors_of_sixteen_have_the_same_bits():
    for size in (
        (1, 70, 40),
        (2, 40, 30),
        (4, 1100, DEPTH + 9),
        (8, 100, 30),
        (9, 33, 20),
        (16, 100, 40),
        (24, 49, DEPTH + 2),
        (30, 40, DEPTH + 1),
        (40, 1, 50),
    ):
        a, b = matrices(*size)
        bias = np.arange(size[1], dtype=np.float32)
        for left, right in zip(orders(a), orders(b), strict=True):
            for each, arguments in zip(range(2), ((left, right), (left, right, bias)), strict=True):
                np.testing.assert_array_equal(direct(16)[each](*arguments), direct(8)[each](*arguments))


@pytest.mark.parametrize(
    ("size", "packs"), [((32, 40, 8), True), ((64, 33, 20), True), ((31, 40, 8), False), ((32, 32, 8), False)]
)
def test_products_of_three_vectors_of_columns_are_packed_in_vectors_of_sixteen(size, packs, monkeypatch):
    monkeypatch.setattr(_product_conditions, "vector_width", lambda: 16)
    for strides in ((4 * size[2], 4), (4, 4 * size[0])):
        assert _product_conditions.is_direct(1, size, strides, (4, 4 * size[2]), (4, 4)) != packs


@pytest.mark.parametrize(
    ("size", "direct"),
    [((128, 32, 800), True), ((128, 33, 800), False), ((129, 32, 800), False), ((96, 64, 800), True)],
)
def test_up_to_128_rows_of_two_vectors_of_columns_are_read_in_place_in_vectors_of_sixteen(size, direct, monkeypatch):
    monkeypatch.setattr(_product_conditions, "vector_width", lambda: 16)
    _, columns, depth = size
    assert _product_conditions.is_direct(1, size, (4 * depth, 4), (4 * columns, 4), (4, 4)) == direct


@pytest.mark.parametrize(("count", "direct"), [(1, True), (2, True), (3, False)])
def test_columns_of_left_operands_larger_than_a_cache_are_packed_in_vectors_of_sixteen(count, direct, monkeypatch):
    monkeypatch.setattr(_product_conditions, "vector_width", lambda: 16)
    rows, columns, depth = 256, 32, 256
    assert (
        _product_conditions.is_direct(count, (rows, columns, depth), (4, 4 * rows), (4 * columns, 4), (4, 4)) == direct
    )


@pytest.mark.parametrize("rows", range(1, 14))
def test_contiguous_columns_of_few_rows_have_the_same_bits_in_vectors_of_eight_and_sixteen(rows):
    for columns, depth in (
        (49, 41),
        (32, 16),
        (70, DEPTH + 7),
        (2, 2 * DEPTH),
        (13, 35),
        (49, 5 * DEPTH + 9),
        (42, 4 * DEPTH),
    ):
        a, b = matrices(rows, columns, depth)
        right, bias = np.ascontiguousarray(b.T).T, np.arange(columns, dtype=np.float32)
        expected = product(a, b)
        for width in (8, 16):
            for left in orders(a):
                np.testing.assert_array_equal(direct(width)[0](left, right), expected)
            np.testing.assert_array_equal(direct(width)[1](a, right, bias), expected + bias)


@pytest.mark.parametrize(
    ("rows", "left", "direct"), [(8, True, True), (16, True, False), (8, False, False), (4, False, True)]
)
def test_up_to_eight_rows_meet_contiguous_columns_in_place_in_vectors_of_eight(rows, left, direct, monkeypatch):
    monkeypatch.setattr(_product_conditions, "vector_width", lambda: 8)
    columns, depth = 1024, 1024
    strides = (4 * depth, 4) if left else (4, 4 * rows)
    assert _product_conditions.is_direct(1, (rows, columns, depth), strides, (4, 4 * depth), (4, 4)) == direct


@pytest.mark.skipif(not _kernels.enabled(), reason="kernels are off")
def test_a_vector_has_the_bits_of_a_row_and_of_a_column():
    a, b = matrices(40, 70, DEPTH + 60)
    whole = product(a, b)
    small, _ = direct()
    for multiply in (product, small, lambda x, y: _kernels.product(np, x, y)):
        np.testing.assert_array_equal(multiply(a[3], b), whole[3])
        np.testing.assert_array_equal(multiply(a, b[:, 5]), whole[:, 5])
        np.testing.assert_array_equal(multiply(a, np.stack([b, b]))[1], whole)
        np.testing.assert_array_equal(multiply(np.stack([a, a]), b)[1], whole)
        np.testing.assert_array_equal(multiply(np.stack([a, a]), b[:, 0])[1], whole[:, 0])


@pytest.mark.parametrize("size", [(2, 200, 70), (60, 100, DEPTH + 9), (30, 250, 80)])
def test_vectors_of_sixteen_have_the_bits_of_vectors_of_eight(size, monkeypatch, packed):
    a, b = matrices(*size)
    operands = list(zip(orders(a)[:2], orders(b)[:2], strict=True))
    found = []
    for width in (8, 16):
        monkeypatch.setattr(product_cpu, "choose_with_edge", functools.partial(choose_with_edge, width=width))
        product_cpu._plan.cache_clear()
        found.append([product(*each) for each in operands])
    product_cpu._plan.cache_clear()
    np.testing.assert_array_equal(*found)


def test_an_element_is_the_same_alone_in_a_row_a_column_a_larger_matrix_and_a_stack(packed):
    a, b = matrices(40, 70, DEPTH + 60)
    whole = product(a, b)
    for rows, columns in ((1, 1), (1, 70), (3, 20), (9, 70), (40, 5), (17, 33)):
        np.testing.assert_array_equal(product(a[:rows], b[:, :columns]), whole[:rows, :columns])
        right = np.ascontiguousarray(b.T).T[:, :columns]
        np.testing.assert_array_equal(product(a[:rows], right), whole[:rows, :columns])
    stacked = product(np.stack([a[:9], a[9:18]]), np.stack([b, b]))
    np.testing.assert_array_equal(stacked.reshape(18, -1), whole[:18])


@pytest.mark.parametrize("batch", [(3,), (2, 5), (4, 1, 2), (2, 3, 2)])
def test_stacks_in_every_order_and_of_transposed_leading_sizes(batch):
    a, b = matrices(20, 30, 25, batch)
    expected = product(a, b)
    close(expected, a, b)
    for left, right in zip(orders(a), orders(b), strict=True):
        np.testing.assert_array_equal(product(left, right), expected)
    turned = np.ascontiguousarray(np.moveaxis(a, 0, -2)), np.ascontiguousarray(np.moveaxis(b, 0, -2))
    np.testing.assert_array_equal(product(*(np.moveaxis(x, -2, 0) for x in turned)), expected)


def test_broadcast_stacks_and_rows():
    a, b = matrices(24, 30, 20)
    for found in product(np.broadcast_to(a, (3, 24, 20)), np.broadcast_to(b, (3, 20, 30))):
        np.testing.assert_array_equal(found, product(a, b))
    rows = np.broadcast_to(a[:1], a.shape)
    np.testing.assert_array_equal(product(rows, b), np.broadcast_to(product(a, b)[:1], (24, 30)))


@pytest.mark.parametrize("size", SIZES)
def test_a_bias_is_added_to_every_row(size):
    a, b = matrices(*size)
    bias = np.random.default_rng(3).normal(size=2 * size[1]).astype(np.float32)
    for each in (bias[: size[1]], bias[::2], bias[::-2], np.broadcast_to(bias[0], size[1])):
        for right in (b, np.ascontiguousarray(b.T).T):
            expected = product(a, b) + each
            np.testing.assert_array_equal(product(a, right, each), expected)
            with tdt.backends.kernels(True):
                np.testing.assert_array_equal(_kernels.product(np, a, right, each), expected)


@pytest.mark.parametrize(("rows", "columns", "depth"), [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0)])
def test_empty_matrices_and_sums(rows, columns, depth):
    a, b = matrices(rows, columns, depth, (2,))
    np.testing.assert_array_equal(product(a, b), np.zeros((2, rows, columns), np.float32))
    bias = np.arange(columns, dtype=np.float32)
    small, biased = direct()
    np.testing.assert_array_equal(small(a, b), np.zeros((2, rows, columns), np.float32))
    for function in (product, biased):
        np.testing.assert_array_equal(function(a, b, bias), np.zeros((2, rows, columns), np.float32) + bias)


def test_non_finite_values_reach_their_own_rows_and_columns_alone():
    for rows, columns, depth in ((3, 40, 20), (40, 45, 30), (20, 300, 60)):
        a, b = matrices(rows, columns, depth)
        a[1, 5], a[2, 0], b[0, columns - 1] = np.nan, np.inf, -np.inf
        with np.errstate(invalid="ignore"):
            expected = a.astype(np.float64) @ b.astype(np.float64)
        for right in (b, np.ascontiguousarray(b.T).T):
            found = product(a, right)
            np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
            np.testing.assert_array_equal(np.isinf(found), np.isinf(expected))


@pytest.mark.parametrize("bias", [None, np.full(45, -0.0, np.float32)])
def test_sums_of_one_product_have_the_sign_of_zero_of_packed_ones(bias, packed):
    a = np.tile(np.array([0.0, -0.0, 1.0, -1e-30], np.float32), 5)[:, None]
    b = np.tile(np.array([0.0, -0.0, 1e-30, np.inf, -2.0], np.float32), 9)[None]
    small, biased = direct()
    found = small(a, b) if bias is None else biased(a, b, bias)
    np.testing.assert_array_equal(found.view(np.int32), product(a, b, bias).view(np.int32))


def test_errors_are_at_most_three_times_pytorchs():
    torch = require_torch()
    rng = np.random.default_rng(11)
    for rows, columns, depth, mean in ((40, 50, 3000, 0), (60, 40, 1000, 5), (3, 200, 4000, 0), (100, 30, 500, -1)):
        a, b = (rng.normal(mean, 1, shape).astype(np.float32) for shape in ((rows, depth), (depth, columns)))
        exact = a.astype(np.float64) @ b.astype(np.float64)
        ours, theirs = (
            np.abs(c - exact).max() for c in (product(a, b), torch.from_numpy(a).mm(torch.from_numpy(b)).numpy())
        )
        assert ours <= 3 * theirs


def test_linear_matmul_and_their_gradients_have_one_value_at_every_size():
    if not _kernels.enabled() or not vectors_of_eight():
        pytest.skip("kernels are off, or the processor has no vectors of eight")
    tdt.manual_seed(0)
    x, w, b, g = tdt.randn(300, 200), tdt.randn(150, 200), tdt.randn(150), tdt.randn(300, 150)
    whole = tdt.nn.functional.linear(x, w, b)
    for rows in (1, 2, 5, 30, 300):
        for columns in (1, 7, 150):
            inputs = [t[:size].clone().requires_grad_() for t, size in ((x, rows), (w, columns), (b, columns))]
            y = tdt.nn.functional.linear(*inputs)
            assert tdt.equal(y, whole[:rows, :columns])
            assert tdt.equal(inputs[0] @ inputs[1].t() + inputs[2], y)
            y.backward(g[:rows, :columns])
            assert tdt.equal(inputs[0].grad, g[:rows, :columns] @ w[:columns])
            assert tdt.equal(inputs[1].grad, tdt.matmul(x[:rows].t(), g[:rows, :columns]).t())


def test_stacks_in_permuted_order_give_contiguous_results():
    x = tdt.randn(5, 3, 7, 6).transpose(0, 1)
    y = x @ x.transpose(-1, -2)
    assert y.is_contiguous()
    np.testing.assert_array_equal(y[2, 4].numpy(), (x[2, 4] @ x[2, 4].t()).numpy())


@pytest.mark.parametrize("count, m, n, k", [(1, 128, 192, 64), (1, 64, 200, 800), (3, 512, 128, 512), (1, 1024, 128, 13),
                                            (1, 256, 768, 10), (1, 1000, 2048, 1)])  # fmt: skip
def test_two_threads_have_shares_that_differ_by_an_eighth_at_most(count, m, n, k):
    pieces = min(2 * product_cpu.PIECES, count * m * n * k // product_cpu.GRAIN)
    rows, columns = cut(pieces, count, (m, n), (6, 16), 2)
    areas = [
        min(rows, m - i) * min(columns, n - j)
        for _ in range(count)
        for i in range(0, m, rows)
        for j in range(0, n, columns)
    ]
    half = len(areas) // 2  # as the pool cuts them
    assert max(sum(areas[:half]), sum(areas[half:])) <= 1.125 * sum(areas) / 2


def test_threads_share_a_large_matrix_that_few_rows_meet():
    plan = product_cpu._plan((1, 1024), (4096, 4), (1024, 512), (4, 4096), 2)
    assert plan.pieces >= 2 and plan.pieces >= 2 * plan.grain
    plan = product_cpu._plan((1, 128), (512, 4), (128, 64), (4, 512), 2)
    assert plan.pieces == 1


@pytest.mark.parametrize("columns", [17, 33, 49])
def test_long_sums_of_few_columns_stay_within_the_packed_memory(columns):
    depth = product_cpu.COLUMNS * DEPTH // columns
    plan = product_cpu._plan((200, depth), (4 * depth, 4), (depth, columns), (4 * columns, 4), 1)
    words = plan.references[0]
    assert plan.parts is None
    tile, span = words[product_cpu.TILE_COLUMNS], words[product_cpu.SPAN]
    assert -(-columns // tile) * tile * span <= product_cpu.RIGHT_SIZE


@pytest.mark.skipif(not _kernels.enabled() or not vectors_of_eight(), reason="NumPy multiplies")
def test_a_linear_layer_that_is_not_recorded_calls_no_op_and_has_the_same_bits(monkeypatch):
    linear = tdt.nn.functional.linear
    cases = []
    for rows, inside, outside in ((1, 10, 3), (7, 300, 40), (130, 129, 131)):
        x, w = (tdt.from_numpy(a) for a in matrices(rows, outside, inside))
        w = w.T.contiguous().requires_grad_()
        for bias in (None, tdt.arange(outside, dtype=tdt.float32)):
            for batch in (x, x[None].expand(2, -1, -1), x[0]):
                cases.append(((batch, w, bias), linear(batch, w, bias)))
    monkeypatch.setattr("tdt._ops.nn.linear.ternary", None)
    with tdt.no_grad():
        for operands, recorded in cases:
            assert recorded.requires_grad and tdt.equal(linear(*operands), recorded)
            with pytest.raises(RuntimeError, match="features but weight expects"):
                linear(operands[0][..., 1:], *operands[1:])


@pytest.mark.skipif(not _kernels.enabled(), reason="kernels are off")
@pytest.mark.parametrize("size", [(1, 1, 1), (7, 30, 40), (60, 1, 50)])
def test_small_matrices_of_float64_that_are_not_recorded_call_no_op_and_have_the_same_bits(size, monkeypatch):
    a, b = (tdt.from_numpy(x.astype(np.float64)).requires_grad_() for x in matrices(*size))
    bias = tdt.arange(size[1], dtype=tdt.float64)
    product, layer = a @ b, tdt.nn.functional.linear(a, b.T, bias)
    monkeypatch.setattr("tdt._ops.linalg.products.binary", None)
    monkeypatch.setattr("tdt._ops.nn.linear.ternary", None)
    with tdt.no_grad():
        assert product.requires_grad and tdt.equal(a @ b, product) and tdt.equal(tdt.mm(a, b), product)
        assert layer.requires_grad and tdt.equal(tdt.nn.functional.linear(a, b.T, bias), layer)
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
            tdt.matmul(a, b[:, :1].T[:, :0].T)
