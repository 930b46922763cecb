"""searchsorted, histograms, quantiles and similar functions: what PyTorch's op database does not test, mainly errors."""

import numpy as np
import pytest

import tdt
from tests.helpers import require_torch

torch = require_torch()

from tests.parity.attempts import attempt  # noqa: E402
from tests.parity.compare import difference, error_difference, first_clause  # noqa: E402

NAN, INF = float("nan"), float("inf")


def _slopes(lib, function, values):
    """The gradient of a function at `values`."""
    x = lib.tensor(values, requires_grad=True)
    return lib.autograd.grad(function(x), x)


def _long_rows(lib, dtype):
    """Three rows of 50 and as many with an infinity, several greatest and least elements each, and NaN where there are some."""
    rows = np.random.default_rng(4).integers(-9, 9, (6, 50)).astype(dtype)
    if rows.dtype.kind == "f":
        rows[3:, 7], rows[4, 20:30], rows[5, ::9] = INF, NAN, -0.0
    return lib.from_numpy(rows)


def _searches(lib):
    """The places of values among few and many edges: in order, out of order, with a NaN, and of values laid out across."""
    rng = np.random.default_rng(5)
    values = rng.integers(-20, 20, (30, 4)).astype(np.float32)
    values[0, :3] = NAN, INF, -INF
    for n, right, small in ((3, False, False), (40, True, False), (70, False, True)):
        edges = np.sort(rng.integers(-20, 20, n)).astype(np.float32)
        for row in (edges, edges[::-1].copy(), np.append(edges[1:], np.float32(NAN))):
            for x in (lib.from_numpy(values), lib.from_numpy(values).t()):
                yield lib.bucketize(x, lib.from_numpy(row), right=right, out_int32=small)


AGREE = {
    "max and min: long rows": lambda t: [
        tuple(find(x, dim, keepdim)) for dtype in (np.float32, np.float64, np.int32, np.int64, np.int8)
        for x in (_long_rows(t, dtype), _long_rows(t, dtype).reshape(2, 3, 50), _long_rows(t, dtype).T)
        for find in (t.max, t.min) for dim in (-1, 0) for keepdim in (False, True)],
    "max and min: many long rows": lambda t: [
        tuple(find(_long_rows(t, np.float32).repeat(200, 2), 1)) for find in (t.max, t.min)],
    "median: nothing": lambda t: (t.median(t.zeros(0, dtype=t.int64)), t.nanmedian(t.zeros(0))),
    "median: ties share the gradient": lambda t: _slopes(t, t.median, [2.0, 1.0, 2.0, 3.0, 2.0]),
    "nanmedian: ties share the gradient": lambda t: _slopes(t, t.nanmedian, [2.0, NAN, 2.0, 1.0, 3.0, 2.0]),
    "nanmedian: rows laid out across": lambda t: t.nanmedian(t.arange(24.0).reshape(4, 2, 3).permute(2, 0, 1), 0),
    "searchsorted: numbers": lambda t: t.searchsorted(t.tensor([1, 3, 5]), 3),
    "searchsorted: a float among integers": lambda t: t.searchsorted(t.tensor([1, 3, 5]), 2.5),
    "searchsorted: nan and infinities": lambda t: t.searchsorted(t.tensor([-INF, 0.0, INF, NAN]), t.tensor([NAN, INF, -INF])),
    "searchsorted: passes nans": lambda t: [
        t.searchsorted(t.tensor([0.0, 1.0, 2.0, INF, *[NAN] * n]), t.tensor([[0.0, 1.5], [INF, NAN]]), right=right)
        for right in (False, True) for n in range(1, 9)],
    "unique: a nan equals nothing": lambda t: t.unique(t.tensor([NAN, 1.0, NAN, 1.0]), return_inverse=True, return_counts=True),
    "unique: a row with a nan": lambda t: t.unique(t.tensor([[0.0, NAN], [0.0, NAN]]), dim=0, return_counts=True)[1],
    "unique: no slices": lambda t: t.unique(t.zeros(0, 3), dim=0, return_inverse=True),
    "mode: beside a nan": lambda t: tuple(t.mode(t.tensor([[2.0, 2.0, INF, INF, NAN], [1.0, 3.0, 3.0, 1.0, NAN]]))),
    "mode: nans alone": lambda t: tuple(t.mode(t.tensor([NAN, NAN]))),
    "median: of nothing": lambda t: [f(t.zeros(0, dtype=d)) for f in (t.median, t.nanmedian) for d in (
        t.uint8, t.int8, t.int32, t.int64, t.bool, t.float16, t.float32)],
    "searchsorted: values of another dtype": lambda t: t.searchsorted(t.tensor([1, 2, 3]), t.tensor([1.5, 3.5])),
    "searchsorted: right by side": lambda t: t.searchsorted(t.tensor([1, 3, 3]), t.tensor([3]), side="right"),
    "bucketize: edges in any order": lambda t: [*_searches(t)],
    "searchsorted: a sorter": lambda t: t.searchsorted(t.tensor([5, 1, 3]), t.tensor([2, 4]), sorter=t.tensor([1, 2, 0])),
    "searchsorted: values with gaps": lambda t: t.bucketize(t.rand(40, 3).t(), t.tensor([0.2, 0.5])).stride(),
    "searchsorted: few values, often": lambda t: [t.bucketize(t.tensor([1, 9]), t.tensor([1, 2])) for _ in range(6)],
    "bucketize: a number": lambda t: t.bucketize(4, t.tensor([1, 3, 5]), out_int32=True),
    "isin: nan equals nothing": lambda t: t.isin(t.tensor([NAN, 1.0]), t.tensor([NAN])),
    "isin: a number in a tensor": lambda t: t.isin(2, t.tensor([1, 2])),
    "isin: a float among integers": lambda t: t.isin(t.tensor([1, 2]), 1.5),
    "bincount: nothing": lambda t: t.bincount(t.tensor([], dtype=t.int64), minlength=2),
    "bincount: half weights": lambda t: t.bincount(t.tensor([0, 1, 1]), t.tensor([1.0, 2.0, 3.0], dtype=t.float16)),
    "histc: one value": lambda t: t.histc(t.tensor([2.0, 2.0]), 3),
    "histogram: one value": lambda t: t.histogram(t.tensor([2.0, 2.0]), 3),
    "histogram: nan in the values, edges given": lambda t: t.histogram(t.tensor([0.5, NAN, 2.0]), t.tensor([0.0, 1.0, 2.0])),
    "histogramdd: weights, density, range": lambda t: t.histogramdd(
        t.tensor([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]]), [2, 3], range=[0.0, 2.0, 0.0, 3.0], weight=t.tensor([1.0, 2.0, 5.0]),
        density=True),
    "quantile: nan": lambda t: t.quantile(t.tensor([[1.0, NAN], [3.0, 4.0]]), t.tensor([0.0, 0.3]), dim=1, keepdim=True),
    "nanquantile: a row of nan": lambda t: t.nanquantile(t.tensor([[NAN, NAN], [3.0, 4.0]]), 0.5, dim=1),
    "cov: one observation": lambda t: t.cov(t.tensor([[1.0], [2.0]])),
    "cov: no observation": lambda t: t.cov(t.zeros(2, 0)),
    "corrcoef: constants": lambda t: t.corrcoef(t.tensor([[1.0, 1.0], [2.0, 3.0]])),
    "trapezoid: no points": lambda t: t.trapezoid(t.zeros(2, 0)),
    "gradient: places": lambda t: t.gradient(t.tensor([1.0, 4.0, 16.0]), spacing=(t.tensor([0.0, 1.0, 3.0]),), edge_order=2),
    "gradient: one spacing for two dimensions": lambda t: t.gradient(t.arange(6.0).reshape(2, 3) ** 2, spacing=2.0),
    "renorm: infinity": lambda t: t.renorm(t.tensor([[3.0, -4.0], [0.1, 0.2]]), INF, 1, 1.0),
    "fill_diagonal_: a tall matrix": lambda t: t.zeros(7, 3).fill_diagonal_(2, wrap=True),
    "fill_diagonal_: a tall matrix, once": lambda t: t.zeros(7, 3).fill_diagonal_(2),
    "fill_diagonal_: a wide matrix": lambda t: t.zeros(3, 5).fill_diagonal_(2, True),
    "fill_diagonal_: a cube": lambda t: t.zeros(3, 3, 3).fill_diagonal_(2),
    "segment_reduce: an empty segment": lambda t: [
        t.segment_reduce(t.tensor([1.0, 2.0, 4.0]), how, lengths=t.tensor([2, 0, 1]))
        for how in ("sum", "mean", "max", "min", "prod")],
    "frobenius_norm": lambda t: t.frobenius_norm(t.tensor([[3.0, 4.0], [0.0, 12.0]]), (0, 1), keepdim=True),
    "nuclear_norm": lambda t: t.nuclear_norm(t.tensor([[3.0, 4.0], [0.0, 12.0]])),
    "unsafe_split_with_sizes": lambda t: t.unsafe_split_with_sizes(t.arange(6).reshape(2, 3), [1, 2], 1),
    "index_put_": lambda t: t.index_put_(t.zeros(3), (t.tensor([0, 0]),), t.ones(2), accumulate=True),
    "unravel_index: outside": lambda t: t.unravel_index(t.tensor([-1, 7]), (2, 3)),
    "std, var: of nothing": lambda t: [
        f(t.zeros(3, 0), dim, correction=-2) for f in (t.std, t.var) for dim in (0, 1, None)],
    "masked: bools among dimensions": lambda t: [
        t.masked.sum(t.ones(2, 3), True), t.masked.amax(t.ones(2, 3), (False,)), t.masked.median(t.ones(2, 3), False)],
    "embedding_bag: small integers": lambda t: t.nn.functional.embedding_bag(
        t.tensor([0, 1], dtype=t.int8), t.ones(3, 2), t.tensor([0])),
    "chunk: NumPy's small integers": lambda t: t.chunk(t.ones(600), np.uint8(2)),
}  # fmt: skip

REFUSED = {
    "searchsorted: opposite sides": lambda t: t.searchsorted(t.tensor([1]), t.tensor([1]), side="left", right=True),
    "searchsorted: another side": lambda t: t.searchsorted(t.tensor([1]), t.tensor([1]), side="top"),
    "searchsorted: rows": lambda t: t.searchsorted(t.zeros(2, 3), t.zeros(3, 3)),
    "searchsorted: a number among rows": lambda t: t.searchsorted(t.zeros(2, 3), 1.0),
    "searchsorted: sorter's shape": lambda t: t.searchsorted(t.zeros(3), t.zeros(1), sorter=t.tensor([0])),
    "searchsorted: sorter's dtype": lambda t: t.searchsorted(t.zeros(1), t.zeros(1), sorter=t.tensor([0.0])),
    "searchsorted: sorter's range": lambda t: t.searchsorted(t.zeros(1), t.zeros(1), sorter=t.tensor([1])),
    "bucketize: rows": lambda t: t.bucketize(t.zeros(2), t.zeros(2, 2)),
    "kthvalue: of nothing": lambda t: t.kthvalue(t.zeros(2, 0), 1),
    "unique: slices of no elements": lambda t: t.unique(t.zeros(3, 0), dim=0),
    "unique_consecutive: slices of no elements": lambda t: t.unique_consecutive(t.zeros(3, 0), dim=0),
    "isin: complex": lambda t: t.isin(t.tensor([1j]), t.tensor([1.0])),
    "isin: bool": lambda t: t.isin(t.tensor([1.0]), t.tensor([True])),
    "bincount: negative": lambda t: t.bincount(t.tensor([-1])),
    "bincount: rows": lambda t: t.bincount(t.tensor([[1]])),
    "bincount: weights": lambda t: t.bincount(t.tensor([1]), t.ones(2)),
    "bincount: minlength": lambda t: t.bincount(t.tensor([1]), minlength=-1),
    "histc: no bins": lambda t: t.histc(t.ones(2), 0),
    "histc: nan": lambda t: t.histc(t.tensor([NAN, 1.0])),
    "histc: range": lambda t: t.histc(t.ones(2), 2, 3.0, 1.0),
    "histogram: range": lambda t: t.histogram(t.ones(2), 2, range=(3.0, 1.0)),
    "histogram: infinite": lambda t: t.histogram(t.tensor([INF, 1.0]), 2),
    "histogramdd: a vector": lambda t: t.histogramdd(t.ones(2), [1]),
    "histogramdd: bins": lambda t: t.histogramdd(t.ones(2, 2), [1]),
    "quantile: q": lambda t: t.quantile(t.ones(2), 1.5),
    "quantile: q's dtype": lambda t: t.quantile(t.ones(2), t.tensor([0.5], dtype=t.float64)),
    "quantile: integers": lambda t: t.quantile(t.tensor([1, 2]), 0.5),
    "quantile: nothing": lambda t: t.quantile(t.zeros(0), 0.5),
    "quantile: interpolation": lambda t: t.quantile(t.ones(2), 0.5, interpolation="cubic"),
    "cov: dimensions": lambda t: t.cov(t.ones(2, 2, 2)),
    "cov: fweights' dtype": lambda t: t.cov(t.ones(2, 2), fweights=t.ones(2)),
    "cov: aweights' length": lambda t: t.cov(t.ones(2, 2), aweights=t.ones(3)),
    "cov: weights of zero": lambda t: t.cov(t.ones(2, 2), aweights=t.zeros(2)),
    "renorm: norm": lambda t: t.renorm(t.ones(2, 2), 0, 0, 1),
    "renorm: a vector": lambda t: t.renorm(t.ones(2), 2, 0, 1),
    "trapezoid: places": lambda t: t.trapezoid(t.ones(3), t.ones(2)),
    "fill_diagonal_: a vector": lambda t: t.zeros(3).fill_diagonal_(1),
    "fill_diagonal_: other sizes": lambda t: t.zeros(3, 3, 2).fill_diagonal_(1),
    "index_reduce: how": lambda t: t.index_reduce(t.ones(2), 0, t.tensor([0]), t.ones(1), "sum"),
    "segment_reduce: lengths": lambda t: t.segment_reduce(t.ones(2), "sum", lengths=t.tensor([-1, 3])),
    "segment_reduce: integers": lambda t: t.segment_reduce(t.tensor([1]), "sum", lengths=t.tensor([1])),
    "unravel_index: floats": lambda t: t.unravel_index(t.ones(3), (2, 2)),
    "unravel_index: shape": lambda t: t.unravel_index(t.tensor([1]), (-2, 2)),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:cov")
@pytest.mark.parametrize("call", AGREE.values(), ids=AGREE)
def test_results_are_pytorchs(call):
    assert difference(call(tdt), call(torch)) is None


@pytest.mark.parametrize("call", [lambda x: x.amax(1), lambda x: x.amin((0, 1)), lambda x: x.max(), lambda x: x.min()])
def test_gradients_of_extremes_that_are_nan_are_pytorchs(call):
    gradients = []
    for lib in (tdt, torch):
        x = lib.tensor([[1.0, float("nan"), 2.0], [1.0, 2.0, 2.0]], requires_grad=True)
        call(x).sum().backward()
        gradients.append(x.grad.numpy())
    np.testing.assert_array_equal(*gradients)


@pytest.mark.parametrize("name", ["amax", "median"])
def test_a_share_of_a_tie_is_rounded_to_float64(name):
    x = tdt.ones(3, dtype=tdt.float64, requires_grad=True)
    assert tdt.autograd.grad(getattr(tdt, name)(x), x)[0].tolist() == [1 / 3] * 3


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_errors_begin_with_pytorchs_message(call):
    (_, ours), (_, theirs) = attempt(call, tdt), attempt(call, torch)
    assert theirs is not None
    assert error_difference(ours, theirs) is None
    assert first_clause(ours) == first_clause(theirs)


REFUSED_IN_OTHER_WORDS = {
    "index_add: int32": lambda t: t.zeros(3, 2).index_add(0, t.tensor([5], dtype=t.int32), t.ones(1, 2)),
    "stack: out among its inputs": lambda t: (lambda x: t.stack([x, x], out=x))(t.ones(2)),
    "embedding_bag: int16": lambda t: t.nn.functional.embedding_bag(t.zeros(1, 2, dtype=t.int16), t.ones(3, 2)),
    "unfold: a bool": lambda t: t.ones(4).unfold(0, 2, True),
    "tensor_split: a bool": lambda t: t.tensor_split(t.ones(4), True),
    "tensor_split: a bool among places": lambda t: t.tensor_split(t.ones(4), (True,)),
    "mul_: no operand": lambda t: [t.ones(3).mul_(t.ones(3)), t.ones(3000).mul_()],
    "round_: an operand": lambda t: t.ones(2, 2)[:, 0].round_(t.ones(2)),
    "round_: decimals of integers with gaps": lambda t: t.tensor([[1, 2], [3, 4]])[:, 0].round_(decimals=1),
    "round: a part of a decimal": lambda t: t.ones(3).round(decimals=1.5),
    "tril: a part of a diagonal": lambda t: t.ones(3, 3).tril(0.5),
    "triu_: a bool": lambda t: t.ones(3, 3, 2)[..., 0].triu_(True),
    "linspace: a bool": lambda t: t.linspace(0, 1, True),
    "max_pool2d: a huge window": lambda t: t.nn.functional.max_pool2d(t.ones(1, 4, 4), 2**62, padding=2**61),
    "avg_pool2d: a huge stride": lambda t: t.nn.functional.avg_pool2d(t.ones(1, 4, 4), 2, stride=2**62),
    "conv_transpose1d: a negative output padding": lambda t: t.nn.functional.conv_transpose1d(
        t.ones(1, 2), t.ones(1, 1, 2), stride=3, output_padding=-1),
    "conv_transpose1d: a huge stride": lambda t: t.nn.functional.conv_transpose1d(
        t.ones(1, 2), t.ones(1, 1, 2), stride=2**40),
}  # fmt: skip


def test_a_stride_longer_than_the_input_leaves_one_window():
    for conv, nd in ((tdt.conv1d, 1), (tdt.conv2d, 2), (tdt.conv3d, 3)):
        found = conv(tdt.ones(1, 1, *[4] * nd), tdt.ones(1, 1, *[2] * nd), stride=2**40)
        assert found.shape == (1, 1, *[1] * nd)
        assert found.item() == 2**nd


@pytest.mark.parametrize("call", REFUSED_IN_OTHER_WORDS.values(), ids=REFUSED_IN_OTHER_WORDS)
def test_errors_are_of_pytorchs_class(call):
    (_, ours), (_, theirs) = attempt(call, tdt), attempt(call, torch)
    assert theirs is not None
    assert type(ours) is type(theirs)


@pytest.mark.parametrize("function", ["unique", "unique_consecutive"])
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64"])
def test_distinct_elements_their_places_and_counts_are_pytorchs(function, dtype):
    rng = np.random.default_rng(8)
    limits = (0, 1) if dtype in ("bool", "float32", "float64") else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    for shape in ((0,), (1,), (40,), (7, 30), (20_000,)):
        for low, high in ((0, 3), limits):  # close together, and as far apart as the type allows
            x = rng.integers(low, high, shape, "int64", endpoint=True).astype(dtype)
            x = x[::-1].T if x.ndim > 1 else x
            for options in ({}, {"return_inverse": True}, {"return_counts": True},
                            {"return_inverse": True, "return_counts": True}):  # fmt: skip
                ours, theirs = (
                    getattr(lib, function)(lib.from_numpy(np.ascontiguousarray(x).copy()), **options)
                    for lib in (tdt, torch)
                )
                for a, b in zip(*(r if isinstance(r, tuple) else (r,) for r in (ours, theirs)), strict=True):
                    np.testing.assert_array_equal(a.numpy(), b.numpy(), strict=True)


def test_integers_above_int64_are_distinct():
    x = np.array([2**64 - 1, 0, 2**64 - 2, 2**64 - 1, 2**63], np.uint64)
    for values in (x, x | np.uint64(2**64 - 16)):
        found = tdt.unique(tdt.from_numpy(values), return_inverse=True, return_counts=True)
        for ours, theirs in zip(found, np.unique(values, return_inverse=True, return_counts=True), strict=True):
            np.testing.assert_array_equal(ours.numpy(), theirs)
