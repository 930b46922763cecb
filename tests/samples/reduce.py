"""Samples of reductions, of ops along a dimension, and of joining."""

import numpy as np
import scipy.special as sp

from tests.samples._sample import bools, by_torch, call, distinct, ints, samples, x, z

A, ALL, FAR = x(2, 3, 4), {"dim": None, "keepdim": False}, distinct(2, 3, 4)
DIMS = [ALL, {"dim": (1,), "keepdim": False}, {"dim": (0, 2), "keepdim": True}]


def reduced(function):
    """`function` with NumPy's names, from PyTorch's."""
    return lambda a, dim, keepdim, **how: function(a, axis=dim, keepdims=keepdim, **how)


def variance(function):
    return lambda a, dim, correction, keepdim: function(a, axis=dim, ddof=correction, keepdims=keepdim)


for _name, _function in {
    "sum": np.sum,
    "mean": np.mean,
    "mean_beside": np.mean,
    "amax": np.amax,
    "amin": np.amin,
    "logsumexp": sp.logsumexp,
}.items():
    _complex = [call(z(2, 3), dim=(0,), keepdim=False)] if _name in ("sum", "mean", "mean_beside", "logsumexp") else []
    samples(_name, reduced(_function), *(call(FAR, **how) for how in DIMS[_name == "logsumexp" :]), *_complex)
HOLES = np.array([[1.5, np.nan, 2.0], [np.nan, np.nan, 3.0]])
samples("nansum", reduced(np.nansum), *(call(A, **how) for how in DIMS), call(HOLES, dim=(1,), keepdim=False))
samples("nanmean", reduced(np.nanmean), *(call(A, **how) for how in DIMS), call(HOLES, dim=(1,), keepdim=False))
samples(
    "prod",
    reduced(np.prod),
    *(call(A, **how) for how in DIMS[:2]),
    call(z(2, 3), dim=(1,), keepdim=False),
    call(np.array([[1.5, 0.0, 2.0], [0.0, 0.0, 3.0]]), dim=(1,), keepdim=False),
)
for _name in ("var", "std"):
    samples(
        _name,
        variance(getattr(np, _name)),
        *(call(A, correction=1, **how) for how in DIMS),
        call(A, dim=(2,), correction=0, keepdim=True),
        call(z(3, 2), dim=(0,), correction=1, keepdim=False),
    )
for _name in ("all", "any"):
    samples(
        _name,
        reduced(getattr(np, _name)),
        *(call(bools(2, 3, 4), **how) for how in DIMS),
        call(np.zeros((0, 2)), **ALL),
    )
for _name in ("argmax", "argmin"):
    _arg = getattr(np, _name)
    samples(_name, reduced(_arg), call(FAR, **ALL), call(FAR, dim=1, keepdim=False), call(FAR, dim=2, keepdim=True))
samples(
    "hash_tensor",
    by_torch(lambda torch, a, dim, keepdim: torch.hash_tensor(a, () if dim is None else dim, keepdim=keepdim)),
    *(call(FAR, **how) for how in DIMS),
    call(ints(2, 5), dim=(1,), keepdim=True),
    call(x(), dim=None, keepdim=False),
)
samples(
    "count_nonzero",
    lambda a, dim: np.count_nonzero(a, axis=dim),
    call(ints(3, 4, low=0, high=2), dim=None),
    call(ints(3, 4, low=0, high=2), dim=(1,)),
)


def picked(place):
    """Values and indices, where `place(row)` gives the index within a row."""

    def oracle(a, dim, keepdim, **how):
        index = np.apply_along_axis(lambda row: place(row, **how), dim, a)
        values = np.take_along_axis(a, np.expand_dims(index, dim), dim)
        return (values, np.expand_dims(index, dim)) if keepdim else (values.squeeze(dim), index)

    return oracle


def most_common(row):
    """The smallest of the values that a row has most often."""
    values, counts = np.unique(row, return_counts=True)
    return values[counts.argmax()]


ALONG = (call(FAR, dim=1, keepdim=False), call(FAR, dim=2, keepdim=True), call(FAR, dim=0, keepdim=False))
samples("max_dim", picked(lambda row: row.argmax()), *ALONG)
samples("min_dim", picked(lambda row: row.argmin()), *ALONG)
samples("median_dim", picked(lambda row: row.argsort()[(row.size - 1) // 2]), *ALONG)
samples("nanmedian_dim", picked(lambda row: row.argsort()[(row.size - 1) // 2]), *ALONG)
for _name in ("median", "nanmedian"):
    samples(_name, by_torch(lambda torch, a, _name=_name: getattr(torch, _name)(a)), call(FAR), call(x()))
samples(
    "mode",
    picked(lambda row: np.flatnonzero(row == most_common(row))[-1]),
    call(ints(3, 5, low=0, high=2).astype(float), dim=1, keepdim=False, grad=False),
    *ALONG[:1],
)
samples(
    "kthvalue",
    picked(lambda row, k: row.argsort()[k - 1]),
    call(FAR, k=2, dim=1, keepdim=False),
    call(FAR, k=1, dim=2, keepdim=True),
)


def ordered(a, dim, descending, keepdim=True):
    index = np.argsort(-a if descending else a, axis=dim, kind="stable")
    return np.take_along_axis(a, index, dim), index


def top(a, k, dim, largest, keepdim=True):
    values, index = ordered(a, dim, largest)
    return np.take(values, range(k), dim), np.take(index, range(k), dim)


samples(
    "sort",
    ordered,
    call(FAR, dim=1, descending=False),
    call(FAR, dim=2, descending=True),
    call(ints(2, 6, low=0, high=3), dim=1, descending=True),
)
samples("topk", top, call(FAR, k=2, dim=1, largest=True), call(FAR, k=3, dim=2, largest=False))


def running(better):
    def oracle(a, dim, keepdim=True):
        values, index = a.copy(), np.zeros(a.shape, np.int64)
        v, w = np.moveaxis(values, dim, 0), np.moveaxis(index, dim, 0)
        for i in range(1, len(v)):
            new = better(v[i], v[i - 1])
            w[i] = np.where(new, i, w[i - 1])
            v[i] = np.where(new, v[i], v[i - 1])
        return values, index

    return oracle


samples("cummax", running(np.greater_equal), call(FAR, dim=1), call(FAR, dim=2))
samples("cummin", running(np.less_equal), call(FAR, dim=1), call(FAR, dim=2))
samples("cumsum", lambda a, dim: np.cumsum(a, axis=dim), call(A, dim=1), call(z(2, 3), dim=0), call(x(0, 3), dim=0))
samples(
    "cumprod",
    lambda a, dim: np.cumprod(a, axis=dim),
    call(A, dim=1),
    call(np.array([1.5, 0.0, 2.0, 0.0, 3.0]), dim=0),
    call(z(2, 3), dim=1),
    call(np.array([1.5 + 1j, 0.0, 2.0 - 1j]), dim=0),
)
samples("logcumsumexp", lambda a, dim: np.log(np.cumsum(np.exp(a), axis=dim)), call(A, dim=1), call(A, dim=2),
        call(z(2, 3), dim=1))  # fmt: skip


def unique(a, dim):
    values, inverse, counts = np.unique(a, return_inverse=True, return_counts=True, axis=dim)
    return values, inverse.reshape(a.shape if dim is None else -1), counts


def runs(a, dim):
    flat = a.reshape(-1)
    new = np.append(True, flat[1:] != flat[:-1])
    at = np.flatnonzero(new)
    return flat[at], (np.cumsum(new) - 1).reshape(a.shape), np.diff(np.append(at, flat.size))


samples("unique", unique, call(ints(3, 4, low=0, high=4), dim=None), call(ints(5, 2, low=0, high=2), dim=0))
samples("unique_consecutive", runs, call(ints(3, 6, low=0, high=2), dim=None))


def softmax(a, dim):
    return sp.softmax(a, axis=dim)


samples("softmax", softmax, call(A, dim=1), call(A, dim=2), call(x(0, 3), dim=1))
samples("log_softmax", lambda a, dim: sp.log_softmax(a, axis=dim), call(A, dim=1), call(A, dim=2), call(x(0, 3), dim=1))

samples(
    "cat",
    lambda *ts, dim: np.concatenate(ts, dim),
    call(x(2, 3), x(1, 3), x(2, 3, seed=1), dim=0),
    call(z(2, 1), z(2, 2), dim=1),
)
samples(
    "stack",
    lambda *ts, dim: np.stack(ts, dim),
    call(x(2, 3), x(2, 3, seed=1), dim=0),
    call(x(2), x(2, seed=1), x(2, seed=2), dim=1),
)
