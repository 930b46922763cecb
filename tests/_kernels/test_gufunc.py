"""Machine code along dimensions as NumPy's generalised ufuncs: any strides, and formulas with the bits of elementwise code."""

from __future__ import annotations

import numpy as np
import pytest

import tdt
from tdt import _kernels
from tdt._kernels import functions
from tdt._kernels._gufunc import contiguous, generalized, written
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
