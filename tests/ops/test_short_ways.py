"""Functions that compute small or unrecorded tensors by shorter ways, beside PyTorch: values, gradients, special values."""

from __future__ import annotations

import numpy as np
import pytest

import tdt
from tests.helpers import require_torch

torch = require_torch()
rng = np.random.default_rng(0)
ARRAYS = {n: rng.standard_normal(n).astype(np.float32) for n in ((3, 4), (4, 4), (4, 5), (5, 2), (2, 3, 4), (7, 9))}


def both(function, *shapes, gradient: bool, repeats: int = 3):
    """Results and gradients of both libraries agree, of the first call and of later ones."""
    for _ in range(repeats):
        found = []
        for lib in (torch, tdt):
            leaves = [lib.tensor(ARRAYS[s]).requires_grad_(gradient) for s in shapes]
            out = function(lib, *leaves)
            if gradient:
                (out * out).sum().backward()
            found.append([out.detach().numpy(), *[x.grad.numpy() for x in leaves if gradient]])
            stride = out.stride()
        assert stride == out.stride()
        for expected, value in zip(*found, strict=True):
            np.testing.assert_allclose(value, expected, rtol=2e-4, atol=1e-4)


@pytest.mark.parametrize("gradient", [False, True])
def test_products_of_several_matrices_are_pytorchs(gradient):
    both(lambda lib, *m: lib.linalg.multi_dot(m), (3, 4), (4, 5), (5, 2), gradient=gradient)
    both(lambda lib, *m: lib.linalg.multi_dot(m), (3, 4), (4, 5), gradient=gradient)
    both(lambda lib, a: lib.linalg.multi_dot([a, a, a.mT, a]), (4, 4), gradient=gradient)
    for n in (-2, -1, 0, 1, 2, 3, 5):
        both(lambda lib, a, n=n: lib.linalg.matrix_power(a, n), (4, 4), gradient=gradient)
    for dims in (1, 0, ([1], [0]), ([0], [1])):
        both(lambda lib, a, dims=dims: lib.tensordot(a, a, dims), (4, 4), gradient=gradient)
    both(lambda lib, a, b: lib.tensordot(a, b.mT[:, :3], ([1], [1])), (2, 3, 4), (4, 5), gradient=gradient)


def test_a_first_power_is_a_copy():
    x = tdt.tensor(ARRAYS[4, 4])
    assert tdt.linalg.matrix_power(x, 1).data_ptr() != x.data_ptr()


@pytest.mark.parametrize("dtype", [tdt.float32, tdt.float64])
def test_remembered_products_have_the_bits_of_a_product(dtype):
    x, y = tdt.tensor(ARRAYS[3, 4]).to(dtype), tdt.tensor(ARRAYS[4, 5]).to(dtype)
    for _ in range(3):
        assert tdt.tensordot(x, y, 1).equal(x @ y) and tdt.linalg.multi_dot([x, y]).equal(x @ y)


@pytest.mark.parametrize("gradient", [False, True])
def test_matrices_along_a_diagonal_are_pytorchs(gradient):
    both(lambda lib, a, b: lib.block_diag(a, b.mT, b[0], a[0, 0]), (3, 4), (4, 5), gradient=gradient)
    both(lambda lib, a: lib.block_diag(a[:0], a, a[:, :0]), (3, 4), gradient=gradient)
    assert tdt.block_diag(tdt.ones(1, dtype=tdt.int64), tdt.ones(1)).dtype is tdt.float32
    assert tdt.block_diag(tdt.ones(1, dtype=tdt.float16), tdt.tensor(1.0)).dtype is tdt.float16
    assert tdt.block_diag().shape == (1, 0)


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("value", [0.0, 1.5, float("nan")])
@pytest.mark.parametrize("batch_first", [False, True])
def test_padded_sequences_are_pytorchs(batch_first, value, side, gradient):
    def padded(lib, a, b):
        parts = [part[:, :2] for part in (a, b[:0], b[::3], a.mT)]
        return lib.nn.utils.rnn.pad_sequence(parts, batch_first, value, side).nan_to_num(3.0)

    both(padded, (3, 4), (7, 9), gradient=gradient)


@pytest.mark.parametrize("dtype", ["int64", "bool", "bfloat16", "float16"])
def test_padded_sequences_keep_their_dtype(dtype):
    found = []
    for lib in (torch, tdt):
        parts = [lib.arange(n).to(getattr(lib, dtype)) for n in (3, 1)]
        found.append(lib.nn.utils.rnn.pad_sequence(parts, padding_value=1).float().numpy())
        found.append(lib.nn.utils.rnn.pad_sequence(parts).float().numpy())
        assert lib.nn.utils.rnn.pad_sequence(parts).dtype is getattr(lib, dtype)
    np.testing.assert_array_equal(found[:2], found[2:])


def test_sequences_whose_further_sizes_differ_are_refused():
    with pytest.raises(RuntimeError):
        tdt.nn.utils.rnn.pad_sequence([tdt.ones(2, 3), tdt.ones(1, 4)])


@pytest.mark.parametrize("name", ["cummax", "cummin"])
@pytest.mark.parametrize("shape", [(129, 67), (66, 130), (3, 50, 61), (8193,), (5, 1)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_running_extremes_of_any_number_of_columns_are_pytorchs(name, shape, dtype):
    x = np.random.default_rng(1).integers(-50, 50, shape).astype(dtype)
    if dtype != "int64":
        x.reshape(-1)[::97] = np.nan
    for dim in range(len(shape)):
        expected, found = (getattr(lib, name)(lib.tensor(x), dim) for lib in (torch, tdt))
        np.testing.assert_array_equal(found.values.numpy(), expected.values.numpy())
        np.testing.assert_array_equal(found.indices.numpy(), expected.indices.numpy())


def test_smallest_and_largest_elements_are_pytorchs():
    for x in (ARRAYS[2, 3, 4], np.float32([[np.nan, 1], [2, 3]]), np.float32(3.0), ARRAYS[7, 9].T):
        for options in ({}, {"keepdim": True}, {"dim": 0}, {"dim": -1, "keepdim": True}):
            expected, found = (lib.aminmax(lib.tensor(x), **options) for lib in (torch, tdt))
            np.testing.assert_array_equal(found.min.numpy(), expected.min.numpy())
            np.testing.assert_array_equal(found.max.numpy(), expected.max.numpy())
    both(lambda lib, a: lib.aminmax(a, dim=1).min + lib.aminmax(a, dim=1).max, (3, 4), gradient=True)
    leaf = tdt.ones(2, requires_grad=True)
    assert leaf.aminmax().min.grad_fn.name() == "AminmaxBackward0"


def test_buckets_of_values_and_numbers_are_pytorchs():
    edges = np.float32([0.1, 0.5, 0.5, 0.9, np.nan])
    for x in (ARRAYS[7, 9], ARRAYS[7, 9].T, np.float32(0.5), np.float32([np.nan, 0.5, np.inf]), np.zeros((0, 2), "f")):
        for options in ({}, {"right": True}, {"out_int32": True}):
            expected, found = (lib.bucketize(lib.tensor(x), lib.tensor(edges), **options) for lib in (torch, tdt))
            np.testing.assert_array_equal(found.numpy(), expected.numpy())
            assert str(found.dtype).split(".")[-1] == str(expected.dtype).split(".")[-1]
    assert tdt.bucketize(0.5, tdt.tensor(edges)).item() == 1
    with pytest.raises(RuntimeError, match="boundaries tensor must be 1 dimension"):
        tdt.bucketize(tdt.ones(2), tdt.ones(2, 2))


def test_equality_is_pytorchs():
    a = ARRAYS[4, 5]
    for x, y in (
        (a, a),
        (a, a + 1),
        (a, a.T),
        (a.T, a.T),
        (a, a.astype("d")),
        (a * np.nan, a),
        (a[:0], a[:0]),
        (a, a[:1]),
    ):
        assert tdt.equal(tdt.tensor(x), tdt.tensor(y)) == torch.equal(torch.tensor(x), torch.tensor(y))
    x = tdt.tensor([float("nan")])
    assert not tdt.equal(x, x.clone())


INTEGERS = ("uint8", "int8", "int16", "int32", "int64")


@pytest.mark.parametrize("dtype", INTEGERS)
def test_shifts_by_numbers_are_pytorchs(dtype):
    info = np.iinfo(dtype)
    x = np.array([[0, 1, 7, info.max], [info.min, info.max // 2, 3, 100]], dtype)
    for values in (x, x.T, x[0, 1], x[:0]):
        for by in (0, 1, 3, 7, 8, 31, 63, 64, 200, -1):
            for shift in (lambda t, b: t << b, lambda t, b: t >> b):
                expected, found = (shift(lib.tensor(values), by) for lib in (torch, tdt))
                np.testing.assert_array_equal(found.numpy(), expected.numpy())
                assert found.numpy().dtype == expected.numpy().dtype


@pytest.mark.parametrize("spread", [3, 1500, 10**6])
@pytest.mark.parametrize("dtype", [*INTEGERS, "uint16", "uint64", "bool"])
def test_unique_integers_are_numpys(dtype, spread):
    kind = np.dtype(dtype)
    low, high = (0, 1) if kind.kind == "b" else (np.iinfo(kind).min, np.iinfo(kind).max)
    for start in (low, max(low, high - spread)):
        x = np.random.default_rng(2).integers(start, min(high, start + spread), (37, 50), kind, endpoint=True)
        for values in (x, x.T, x[::2]):
            expected = np.unique(values, return_inverse=True, return_counts=True)
            found = tdt.unique(tdt.from_numpy(values), return_inverse=True, return_counts=True)
            np.testing.assert_array_equal(tdt.unique(tdt.from_numpy(values)).numpy(), expected[0])
            for result, value in zip(found, expected, strict=True):
                np.testing.assert_array_equal(result.numpy(), value.reshape(result.shape))
            assert found[0].numpy().dtype == kind and found[1].shape == values.shape


def same(call, *arrays, repeats=4):
    """Compare the results of repeated calls with PyTorch's: values, types and strides."""
    for _ in range(repeats):
        ours, theirs = (call(lib, *map(lib.from_numpy, map(np.copy, arrays))) for lib in (tdt, torch))
        for a, b in zip(*(r if isinstance(r, tuple) else (r,) for r in (ours, theirs)), strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy(), strict=True)
            assert a.stride() == b.stride()


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int16"])
@pytest.mark.parametrize("shape", [(6, 46), (200,), (2, 3, 40), (1, 70), (4, 300)])
def test_modes_and_elements_of_a_rank_are_pytorchs(shape, dtype):
    rng = np.random.default_rng(2)
    x = rng.integers(-4, 5, shape).astype(dtype)
    if dtype == "float32":
        x[..., ::7] = -0.0
    for dim in range(len(shape)):
        for keepdim in (False, True):
            same(lambda t, x: t.mode(x, dim, keepdim)[0], x)
            same(lambda t, x: t.kthvalue(x, (x.shape[dim] + 1) // 2, dim, keepdim)[0], x)
            values, places = tdt.mode(tdt.from_numpy(x), dim, True)
            last = np.where(x == values.numpy(), np.arange(shape[dim]).reshape(-1, *[1] * (len(shape) - 1 - dim)), -1)
            np.testing.assert_array_equal(places.numpy(), last.max(dim, keepdims=True))


@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "midpoint", "nearest"])
@pytest.mark.parametrize("name", ["quantile", "nanquantile"])
def test_quantiles_without_a_record_are_those_of_ops(name, interpolation):
    x = np.random.default_rng(1).standard_normal((5, 4, 7)).astype("f")
    x[0, 0, 3] = x[1, :, 0] = x[2, 2] = np.nan
    for q in (0.3, np.array([0.0, 0.25, 1.0], "f")):
        for dim in (None, 0, -1):
            for keepdim in (False, True):
                results = []
                for recorded in (False, True):
                    input = tdt.from_numpy(x).requires_grad_(recorded)
                    fraction = tdt.from_numpy(q) if isinstance(q, np.ndarray) else q
                    results.append(
                        getattr(tdt, name)(input, fraction, dim, keepdim, interpolation=interpolation).detach()
                    )
                np.testing.assert_array_equal(*[r.numpy() for r in results], strict=True)


@pytest.mark.parametrize("dtype", ["float32", "int64", "int8", "float16"])
def test_numbers_at_places_are_pytorchs(dtype):
    rng = np.random.default_rng(5)
    x = (rng.standard_normal((8, 12)) * 9).astype(dtype)
    for dim in (0, 1):
        index = rng.integers(0, x.shape[dim], x.shape)
        vector = rng.integers(-x.shape[dim], x.shape[dim], 7)
        same(lambda t, x, index: x.scatter(dim, index, 2), x, index)
        same(lambda t, x, index: x.clone().scatter_(dim, index, 2), x, index)
        same(lambda t, x, vector: x.index_fill(dim, vector, 3), x, vector)
        same(lambda t, x, vector: x.clone().index_fill_(dim, vector, 3), x, vector)
        vector[2] = 99
        with pytest.raises(IndexError, match="index 99 is out of"):
            tdt.from_numpy(x).index_fill(dim, tdt.from_numpy(vector), 3)


def test_results_into_several_targets_are_pytorchs():
    x = np.random.default_rng(6).standard_normal((4, 5)).astype("f")
    for name in ("max", "min", "median", "sort", "mode"):
        for lib in (tdt, torch):
            shape = (4, 5) if name == "sort" else (4,)
            for _ in range(3):
                values, places = lib.zeros(shape), lib.zeros(shape, dtype=lib.int64)
                found = getattr(lib, name)(lib.from_numpy(x), 1, out=(values, places))
                assert found[0] is values or lib is torch
                assert found.values.tolist() == values.tolist() == getattr(lib, name)(lib.from_numpy(x), 1)[0].tolist()
                assert places.tolist() == getattr(lib, name)(lib.from_numpy(x), 1)[1].tolist()


def test_joined_tensors_are_written_to_targets():
    x, y = (np.arange(6.0).reshape(2, 3) + k for k in (0, 9))
    for dim in (0, 1):
        same(
            lambda t, x, y: t.cat([x, y], dim, out=t.zeros(x.shape[0] * (2 - dim), 3 * (1 + dim), dtype=t.float64)),
            x,
            y,
        )
    whole = tdt.zeros(4, 3)
    with pytest.raises(RuntimeError):
        tdt.cat([whole[:2], whole[2:]], out=whole)


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_membership_is_pytorchs(dtype):
    x = np.array([[1, 2, 3], [0, 5, 2]], dtype)
    for tests in (np.array([2, 5, 9], dtype), np.array([], dtype), np.array([[1], [0]], dtype)):
        for invert in (False, True):
            same(lambda t, x, tests: t.isin(x, tests, invert=invert), x, tests)
    nan = np.array([np.nan, 1], "f")
    same(lambda t, x: t.isin(x, x), nan)


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "complex64", "float16"])
def test_strided_views_are_pytorchs(dtype):
    x = np.arange(24).reshape(4, 6).astype(dtype)
    for size, stride, offset in (((3, 3), (1, 2), None), ((2,), (5,), 3), ((), (), 4), ((2, 0), (1, 1), 0)):
        same(lambda t, x: x.as_strided(size, stride, offset), x)
        same(lambda t, x: x[1:].as_strided(size, stride), x)
    ours = tdt.from_numpy(x.copy())
    ours.as_strided((2, 2), (1, 6), 7).fill_(1)
    assert ours[1:3, 1:3].tolist() == tdt.ones(2, 2, dtype=ours.dtype).tolist()
    with pytest.raises(RuntimeError):
        ours.as_strided((5, 6), (6, 1))


@pytest.mark.parametrize("name", ["add", "sub"])
def test_an_integer_factor_counts_as_the_number(name):
    x, y = (np.random.default_rng(k).standard_normal((3, 4)).astype("f") for k in (0, 1))
    for alpha in (2, -3, 1 << 20, 1 << 40):
        same(lambda t, x, y, alpha=alpha: getattr(t, name)(x, y, alpha=alpha), x, y * 0 + 1)
        ours = [
            getattr(tdt, name)(tdt.from_numpy(x), tdt.from_numpy(y), alpha=a).numpy() for a in (alpha, float(alpha))
        ]
        np.testing.assert_array_equal(*ours)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(), (1,), (3, 4), (0, 2)])
def test_complex_numbers_of_parts_of_any_shape(shape, dtype):
    real, imag = np.random.default_rng(0).standard_normal((2, *shape)).astype(dtype)
    for _ in range(3):
        found = tdt.complex(tdt.tensor(real), tdt.tensor(imag)).numpy()
        np.testing.assert_array_equal(found, real + 1j * imag)
        assert found.shape == shape


@pytest.mark.parametrize("name", ["topk", "sort", "argsort", "max", "median", "gather"])
@pytest.mark.parametrize("recorded", [False, True])
def test_elements_of_vectors_with_gaps_are_pytorchs_at_first_and_later(name, recorded):
    calls = {
        "topk": lambda lib, x, i: x[:, 0].topk(3),
        "sort": lambda lib, x, i: x[:, 0].sort(descending=True),
        "argsort": lambda lib, x, i: (x[:, 0].argsort(),),
        "max": lambda lib, x, i: x[:, 0].max(0),
        "median": lambda lib, x, i: x[:, 0].median(0),
        "gather": lambda lib, x, i: (x[:, 1:].gather(1, i[:, ::2]),),
    }
    data, places = np.random.default_rng(0).normal(size=(20, 3)).astype("f"), np.arange(60).reshape(20, 3) % 2

    def outcome(lib):
        x, i = lib.tensor(data, requires_grad=recorded), lib.tensor(places)
        found = calls[name](lib, x, i)
        if recorded and name != "argsort":
            found = (*found, *lib.autograd.grad(found[0].sum(), x))
        return [each.tolist() for each in found], [each.stride() for each in found]

    expected = outcome(torch)
    for _ in range(6):
        assert outcome(tdt) == expected


@pytest.mark.parametrize("dtype", [tdt.float32, tdt.float64])
@pytest.mark.parametrize(("rows", "columns", "others"), [(600, 16, 10), (40, 2, 40), (30, 3, 5), (5, 3, 30)])
def test_distances_have_the_bits_of_those_that_are_recorded(rows, columns, others, dtype):
    x, y = tdt.randn(columns, rows, dtype=dtype).t(), tdt.randn(others, columns, dtype=dtype)
    y[0], y[1], x[2] = x[0], float("inf"), float("nan")
    found, recorded = tdt.cdist(x, y), tdt.cdist(x.clone().requires_grad_(), y).detach()
    assert found._a.tobytes() == recorded._a.tobytes() and found.is_contiguous()
    np.testing.assert_allclose(
        found[3:, 2:], torch.cdist(torch.tensor(x.numpy()), torch.tensor(y.numpy()))[3:, 2:], 1e-3
    )


def _added_to_part(lib, x, i):
    y = (x * 1).detach()
    y[1, 2] += y[0, 0]
    y[0] += y[1]
    y.index_put_((i[:2], i[1:]), y[2, :2].clone())
    return y


SMALL_CALLS = {
    "argmax": lambda lib, x, i: lib.stack([x.argmax(), *x.argmin(1), *x.argmax(0, True)[0]]),
    "x[:, i]": lambda lib, x, i: x[:, i],
    "x[i, j]": lambda lib, x, i: x[None, 1:][0, i - 1, i],
    "a vector and a matrix": lambda lib, x, i: x[0] @ x[:, :2],
    "vectors": lambda lib, x, i: x[0] @ x[1],
    "cat and stack": lambda lib, x, i: lib.cat([lib.stack([x[0], x[1]], -1), x[:, :2]], -2),
    "several views": lambda lib, x, i: x.chunk(2, 1)[1] * x.unbind(1)[0][:, None],
    "cholesky_solve": lambda lib, x, i: lib.cholesky_solve(x[:, 1:], (x + 9 * lib.eye(3)).tril()),
    "solve": lambda lib, x, i: lib.linalg.solve(x + 9 * lib.eye(3), x[:, :2]),
    "slogdet and inv": lambda lib, x, i: lib.linalg.inv(x + 9 * lib.eye(3)) + lib.logdet(x + 9 * lib.eye(3)),
    "x[i] += y": _added_to_part,
    **{
        f"scatter_reduce by {how}{' without its own' * (not own)}": lambda lib, x, i, how=how, own=own: x.scatter_reduce(
            1, i.expand(3, 3), x * 2, how, include_self=own
        )
        for how in ("sum", "mean", "amax") for own in (False, True)
    },
}  # fmt: skip


@pytest.mark.parametrize("name", SMALL_CALLS)
@pytest.mark.parametrize("recorded", [False, True])
def test_small_calls_are_pytorchs_at_first_and_later(name, recorded):
    data, places = np.random.default_rng(0).normal(size=(3, 3)).astype("f"), np.array([2, 0, 2])

    def outcome(lib):
        x = lib.tensor(data, requires_grad=recorded)
        found = SMALL_CALLS[name](lib, x, lib.tensor(places))
        grads = lib.autograd.grad((found * found).sum(), x) if found.requires_grad else ()
        return [each.detach().numpy() for each in (found, *grads)]

    expected = outcome(torch)
    for _ in range(7):
        for one, other in zip(outcome(tdt), expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
