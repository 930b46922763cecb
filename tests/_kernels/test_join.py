"""Machine code joins small tensors as NumPy's `concatenate` and `stack`, and leaves all others alone."""

from __future__ import annotations

import sys
import weakref

import numpy as np
import pytest

import tdt
from tdt import _kernels
from tdt._core.tensor import View
from tdt._kernels._join import LARGE, join, join_of

pytestmark = pytest.mark.skipif(not _kernels.enabled(), reason="kernels are off")


def numbers(*shape: int, dtype: str = "f") -> np.ndarray:
    return np.random.default_rng(len(shape)).integers(-99, 99, shape).astype(dtype)


def joined(arrays, dim: int, new: bool):
    """By both functions."""
    found = join()(arrays, dim, new)
    of_tensors = join_of(tdt.Tensor, View)(type(arrays)(map(tdt.from_numpy, arrays)), dim, new, True)
    assert (found is None) == (of_tensors is None)
    if found is not None:
        np.testing.assert_array_equal(found, of_tensors, strict=True)
    return found


CASES = {
    "columns": (numbers(3, 4), numbers(3, 5)),
    "rows": (numbers(4, 3), numbers(2, 3)),
    "vectors": (numbers(5), numbers(2), numbers(1)),
    "single elements": (numbers(3, 1), numbers(3, 1), numbers(3, 1)),
    "pairs": (numbers(3, 2), numbers(3, 1), numbers(3, 2)),
    "four dimensions": (numbers(2, 3, 1, 4), numbers(2, 3, 1, 4)),
    "one": (numbers(2, 3),),
    "many": (numbers(2, 3),) * 100,
    "empty": (numbers(0, 3), numbers(0, 3)),
    "some empty": (numbers(3, 0), numbers(3, 4)),
    "bytes": (numbers(3, 4) > 0, numbers(3, 5) > 0),
    "halves": (numbers(3, 4, dtype="e"), numbers(3, 5, dtype="e")),
    "complex": (numbers(3, 1, dtype="F"), numbers(3, 2, dtype="F")),
    "integers": (numbers(3, 4, dtype="l"), numbers(3, 5, dtype="l")),
    "gaps": (numbers(4, 6)[:, ::2], numbers(4, 3)),
    "order": (numbers(3, 4).T, numbers(4, 3)),
    "halves of rows": (numbers(2, 3, 8)[..., 4:], numbers(2, 3, 8)[..., :4]),
    "heads": (numbers(2, 3, 4, 6).transpose(0, 2, 1, 3)[..., 3:], numbers(2, 4, 3, 3)),
    "columns of a matrix": (numbers(3, 8)[:, :1], numbers(3, 8)[:, 5:6], numbers(3, 1)),
    "every second": (numbers(5)[::2], numbers(6)[::3]),
    "repeated": (np.broadcast_to(numbers(3, 1), (3, 3)), numbers(3, 3).T),
    "halves with gaps": (numbers(6, 6, dtype="e").T[1::2], numbers(3, 6, dtype="e")),
    "complex with gaps": (numbers(6, 4, dtype="D").T[::2], numbers(2, 6, dtype="D")),
    "bytes with gaps": (numbers(6, 4).T[::2] > 0, numbers(2, 6) > 0),
    "eight dimensions": (numbers(1, 2, 1, 2, 1, 2, 1, 2).T, numbers(2, 1, 2, 1, 2, 1, 2, 1)),
    "bfloat16": (tdt.ones(3, 2).bfloat16()._a, tdt.zeros(3, 2).bfloat16()._a),
    "odd bytes": (tdt.ones(3, 1).bfloat16()._a, tdt.zeros(3, 2).bfloat16()._a, tdt.ones(3, 4).bfloat16()._a),
}


@pytest.mark.parametrize("kind", [list, tuple])
@pytest.mark.parametrize("arrays", CASES.values(), ids=CASES)
def test_arrays_are_joined_as_by_numpy(arrays, kind):
    ndim = arrays[0].ndim
    fits = False
    for dim in range(-ndim, ndim):
        found = joined(kind(arrays), dim, False)
        try:
            expected = np.concatenate(arrays, dim)
        except ValueError:
            assert found is None
            continue
        fits = True
        np.testing.assert_array_equal(found, expected, strict=True)
        assert (found.dtype is expected.dtype, found.base, found.flags.c_contiguous) == (True, None, True)
    assert fits
    for dim in range(-ndim - 1, ndim + 1):
        found = joined(kind(arrays), dim, True)
        if len({each.shape for each in arrays}) > 1:
            assert found is None
        else:
            np.testing.assert_array_equal(found, np.stack(arrays, dim), strict=True)


def test_numbers_are_stacked():
    np.testing.assert_array_equal(joined([np.array(2.0), np.array(3.0)], 0, True), [2.0, 3.0], strict=True)


def test_rows_of_any_width_are_joined():
    x = numbers(3, 5, 300, dtype="b")
    for width in (*range(1, 140), 255, 256, 257, 300):
        for rows in (x[..., :width], x[::-1, ::2, :width], np.ascontiguousarray(x[..., :width])):
            np.testing.assert_array_equal(join()([rows, rows], 2, False), np.concatenate([rows, rows], 2))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "float16"])
def test_copies_of_rows_with_gaps_or_in_reverse_order_are_numpys(dtype):
    x = numbers(12, 20, 30, dtype=dtype)
    for rows in (x[..., 3:], x[:, ::-1], x[::-1, ::2, :7], x[..., :1], x[:, 4], x.transpose(1, 0, 2), x.T):
        np.testing.assert_array_equal(_kernels.contiguous_copy(rows), rows)
        assert _kernels.contiguous_copy(rows).flags.c_contiguous
    assert _kernels.copied_rows(x.T) is None


OTHERS = {
    "nothing": ([], 0),
    "numbers": ([np.array(2.0)], 0),
    "another dimension": ([numbers(2, 3)], 2),
    "a negative one": ([numbers(2, 3)], -3),
    "a large one": ([numbers(2, 3)], 1 << 70),
    "types": ([numbers(2, 3), numbers(2, 3, dtype="d")], 0),
    "byte orders": ([numbers(2, 3), numbers(2, 3).astype(">f4")], 0),
    "numbers of dimensions": ([numbers(2, 3), numbers(2)], 0),
    "images that may be channels-last": ([numbers(2, 5, 5, 3).transpose(0, 3, 1, 2), numbers(2, 3, 5, 5)], 0),
    "many dimensions": ([numbers(1, 2, 1, 2, 1, 2, 1, 2, 3).T, numbers(3, 2, 1, 2, 1, 2, 1, 2, 1)], 0),
    "large": ([numbers(LARGE // 8), numbers(LARGE // 8 + 1)], 0),
}


@pytest.mark.parametrize(("arrays", "dim"), OTHERS.values(), ids=OTHERS)
def test_others_are_left(arrays, dim):
    assert join()(arrays, dim, False) is None
    if all(each.dtype.isnative for each in arrays):
        assert joined(arrays, dim, False) is None


def test_what_holds_no_tensors_is_left():
    tensors = join_of(tdt.Tensor, View)
    x = tdt.ones(2)
    for objects in ([x, 3], [x, None], {0: x}, "ab", x, None, [x, x._a], [[x]]):
        assert tensors(objects, 0, False, False) is None
        assert join()(objects, 0, False) is None
    assert join()([x._a.view(type("Derived", (np.ndarray,), {}))], 0, False) is None


def test_what_may_require_a_gradient_is_left_where_it_is_recorded():
    tensors = join_of(tdt.Tensor, View)
    leaf, plain = tdt.ones(2, requires_grad=True), tdt.ones(2)
    with tdt.no_grad():
        hidden = leaf[:]
    for x, takes in ((plain, True), (plain[:1], True), (leaf, False), (leaf * 2, False), (leaf.detach(), True), (hidden, False),
                     (tdt.nn.Parameter(plain), False), (tdt.nn.Parameter(plain, requires_grad=False), True)):  # fmt: skip
        assert (tensors([plain, x], 0, False, True) is not None) is takes
        assert tensors([plain, x], 0, False, False) is not None


def test_tensors_without_attributes_are_left():
    tensors = join_of(tdt.Tensor, View)
    x = tdt.ones(2)
    for name in ("_a", "_edge", "_view"):
        bare = tdt.ones(2)
        delattr(bare, name)
        for recorded in (False, True):
            assert (tensors([x, bare], 0, False, recorded) is None) is (recorded or name == "_a")
    with pytest.raises(AttributeError):
        tdt.cat([x, object.__new__(tdt.Tensor)])


def test_no_references_remain():
    arrays = [numbers(2, 3), numbers(2, 3)]
    dtype = arrays[0].dtype
    join()(arrays, 0, False)
    before = [sys.getrefcount(each) for each in (*arrays, arrays, dtype)]
    for _ in range(100):
        out = join()(arrays, 0, False)
        join()(arrays, 5, False)
    reference = weakref.ref(out)
    del out
    assert [sys.getrefcount(each) for each in (*arrays, arrays, dtype)] == before
    assert reference() is None
