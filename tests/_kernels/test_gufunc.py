"""Machine code along dimensions as NumPy's generalised ufuncs: any strides, and formulas with the bits of elementwise code."""

from __future__ import annotations

import sys
import tracemalloc
import weakref

import numpy as np
import pytest

import tdt
from tdt import _kernels
from tdt._kernels import functions
from tdt._kernels._gufunc import MOST, contiguous, for_arrays, generalized, written
from tdt._kernels._inline import inline

pytestmark = pytest.mark.skipif(not _kernels.enabled(), reason="kernels are off")

WIDTH = 8


@generalized("(n),()->(n),()")
def _powers(code, operands, sizes, limit: int) -> None:
    """exp(x) + y, by vectors of `limit` elements, and how many are above 1."""
    x, y, out, above = operands
    (n,) = sizes
    buffer = code.array("float", limit)
    number = code.load("float", y.address)
    count = code.variable("i64", 0)
    with code.loop(0, n, limit) as start:
        m = code.minimum(n - start, limit)
        row = contiguous(code, x, "float", start, m, buffer)

        def block(many: int, k, row=row, start=start) -> None:
            value = inline(code, functions.exp, code.load("float", row, k, many)) + code.splat(number, many)
            for i in range(max(many, 1)):
                each = code.extract(value, i) if many else value
                code.store(each, out.place(code, start + k + i))
                count.add(code.cast(each > 1.0, "i64", signed=False))

        code.choose(m == limit, lambda: block(limit, code.value(0, "i64")), lambda: None)
        with code.loop(code.select(m == limit, m, 0), m) as k:
            block(0, k)
    code.store(count.get(), above.address)


@pytest.mark.parametrize("lay", [np.ascontiguousarray, lambda x: np.repeat(x, 2, -1)[..., ::2], lambda x: x.T.copy().T])
def test_a_function_of_rows_takes_any_strides_and_gives_the_bits_of_elementwise_code(lay):
    x = np.random.default_rng(0).standard_normal((3, 4, 19)).astype("f")
    y = np.arange(4, dtype="f")
    values, above = _powers("fffq", WIDTH)(lay(x), y)
    expected = (tdt.tensor(x).exp() + tdt.tensor(y)[:, None]).numpy()
    assert values.tobytes() == expected.tobytes()
    np.testing.assert_array_equal(above, (expected > 1).sum(-1))


def test_results_are_written_to_out():
    x, out = np.zeros((2, 5), "f"), (np.empty((2, 5), "f"), np.empty(2, "q"))
    assert _powers("fffq", WIDTH)(x, np.float32(1), out=out)[0] is out[0]
    assert (out[0] == 2).all()
    assert (out[1] == 5).all()


def test_the_code_is_written_once_for_its_types_and_parameters():
    assert _powers("fffq", WIDTH) is _powers("fffq", WIDTH)
    assert "define void @tdt_loop" in written(_powers.__wrapped__, "(n),()->(n),()", "fffq", (WIDTH,))


LAYOUTS = {
    "contiguous": lambda x: x,
    "columns": lambda x: x.swapaxes(-1, -2),
    "transposed": lambda x: x.T,
    "gaps": lambda x: x[..., ::2],
}


def prepared(*arrays: np.ndarray, results=()) -> tuple:
    """The ufunc, and its form for arrays like these that does without NumPy."""
    ufunc = _powers("fffq", WIDTH)
    return ufunc, for_arrays(ufunc, ufunc, arrays, results)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("shape", [(1, 7), (3, 5), (1, 3, 5), (2, 3, 9), (2, 1, 3, 5)])
def test_the_form_for_some_shape_has_the_bits_of_the_ufunc(shape, layout):
    rng = np.random.default_rng(0)
    x = layout(rng.standard_normal(shape).astype("f"))
    for y in (np.array(2, "f"), rng.standard_normal(x.shape[:-1]), rng.standard_normal(x.shape[-2:-1])):
        ufunc, form = prepared(x, y := y.astype("f"))
        assert form is not ufunc
        first = form(x, y)
        form(-x, y)  # writes to other arrays
        for expected, found in zip(ufunc(x, y), first, strict=True):
            assert found.tobytes() == expected.tobytes()
            assert (found.shape, found.dtype, found.base) == (expected.shape, expected.dtype, None)
            assert found.flags.c_contiguous
            assert found.flags.writeable


def test_the_form_for_one_row():
    x, y = np.arange(5, dtype="f"), np.array(1, "f")
    ufunc, form = prepared(x, y)
    (values, count), expected = form(x, y), ufunc(x, y)
    np.testing.assert_array_equal(values, expected[0])
    assert (count, count.shape, type(count)) == (expected[1], (), np.ndarray)


def test_results_of_another_shape_and_order():
    x, y = np.random.default_rng(0).standard_normal((2, 3, 5)).astype("f"), np.array(1, "f")
    out, above = np.empty((2, 5, 3), "f"), np.empty((2, 1, 3), "q")
    ufunc, form = prepared(x, y, results=[(out, out.swapaxes(1, 2)), (above, above[:, 0])])
    values, counts = form(x, y)
    np.testing.assert_array_equal(values, ufunc(x, y)[0].swapaxes(1, 2))
    np.testing.assert_array_equal(counts, ufunc(x, y)[1][:, None])
    assert values.flags.c_contiguous


def test_the_ufunc_takes_what_the_form_does_not():
    x, y = np.zeros((4, 6, 8, 6), "f"), np.zeros((4, 6, 8), "f")
    for arrays in (
        (x[::2, ::2, ::2], y[::2, ::2, ::2].copy()),  # three loops
        (np.zeros((2, MOST), "f"), y[0, 0, :2]),  # large
        (x[:, :0], y[:, :0]),
    ):
        ufunc, form = prepared(*arrays)
        assert form is ufunc
    assert for_arrays(np.add, np.add, (x, x)) is np.add
    with pytest.raises(TypeError, match="number of arguments"):
        prepared(x, y)[1](x)


def test_calls_keep_no_references_and_free_their_results():
    x, y = np.zeros((3, 5), "f"), np.array(1, "f")
    _, form = prepared(x, y)
    before = [sys.getrefcount(each) for each in (x, y)]
    tracemalloc.start()
    for _ in range(100):
        form(x, y)
    start = tracemalloc.get_traced_memory()[0]
    for _ in range(1000):
        form(x, y)
    assert tracemalloc.get_traced_memory()[0] - start < 1000
    tracemalloc.stop()
    assert [sys.getrefcount(each) for each in (x, y)] == before
    values = form(x, y)[0]
    reference = weakref.ref(values)
    del values
    assert reference() is None
