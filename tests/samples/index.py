"""Samples of indexing by tensors, scattering, masks, and copying."""

import numpy as np

import tdt
from tests.samples._sample import bools, call, ints, samples, x, z

A = x(3, 4)
ROWS, INNER = np.array([2, 0, 2]), np.array([0, 3, 1])


def indexed(a, *tensors, dims):
    where = [slice(None)] * a.ndim
    for d, t in zip(dims, tensors, strict=True):
        where[d] = t
    return a[tuple(where)]


def index_put(a, values, *tensors, dims, accumulate):
    """The elements one after another, as the words say."""
    out, places = a.copy(), np.arange(a.size).reshape(a.shape)
    targets = indexed(places, *tensors, dims=dims)
    for at, value in zip(targets.reshape(-1), np.broadcast_to(values, targets.shape).reshape(-1), strict=True):
        out.reshape(-1)[at] = value + (out.reshape(-1)[at] if accumulate else 0)
    return out


samples(
    "index",
    indexed,
    call(A, ROWS, dims=(0,)),
    call(A, ROWS, INNER, dims=(0, 1)),
    call(x(2, 3, 4), ints(2, 2, low=0, high=3), dims=(1,)),
)
samples(
    "index_mask",
    lambda a, mask: a[mask],
    call(A, bools(3, 4)),
    call(x(3, 2, 2), bools(3)),
    call(z(2, 2), bools(2, 2)),
)
samples(
    "index_put",
    index_put,
    call(A, x(3), ROWS, INNER, dims=(0, 1), accumulate=True),
    call(A, x(2, 4), np.array([2, 0]), dims=(0,), accumulate=False),
    call(z(3, 2), z(2), ROWS, dims=(0,), accumulate=True),
)


def gather(a, index, dim):
    return np.take_along_axis(
        a[tuple(slice(n) if d != dim else slice(None) for d, n in enumerate(index.shape))], index, dim
    )


def scattered(combine):
    """Write each source element to the place that the index names, one after another."""

    def oracle(a, index, src, dim, **how):
        out = a.copy()
        for where in np.ndindex(*index.shape):
            to = (*where[:dim], index[where], *where[dim + 1 :])
            out[to] = combine(out[to], src[where] if isinstance(src, np.ndarray) else src)
        return out

    return oracle


def scatter_reduce(a, index, src, dim, reduce, include_self):
    found = {where: [a[where]] if include_self else [] for where in np.ndindex(*a.shape)}
    for where in np.ndindex(*index.shape):
        found[*where[:dim], index[where], *where[dim + 1 :]].append(src[where])
    function = {"sum": np.sum, "prod": np.prod, "mean": np.mean, "amax": np.max, "amin": np.min}[reduce]
    return np.array([function(found[w]) if found[w] else a[w] for w in np.ndindex(*a.shape)]).reshape(a.shape)


INDEX = ints(2, 4, low=0, high=3)
WITH_ZEROS = np.array([[0.0, 1.5, 0.0], [0.0, 0.0, 2.0]])
UNREPEATED = np.array([[0, 1, 2, 0], [2, 0, 1, 1]])
samples("gather", gather, call(A, INDEX, dim=0), call(A, ints(3, 2, low=0, high=4), dim=1))
samples(
    "scatter_add",
    scattered(np.add),
    call(A, INDEX, x(2, 4, seed=1), dim=0),
    call(A, ints(3, 2, low=0, high=4), x(3, 2), dim=1),
)
samples(
    "scatter",
    scattered(lambda old, new: new),
    call(A, UNREPEATED, x(2, 4, seed=1), dim=0),
    call(A, UNREPEATED, 0.5, dim=0),
)
samples(
    "scatter_reduce",
    scatter_reduce,
    *(
        call(z(2, 3), np.array([[0, 1, 1]]), z(2, 3, seed=1), dim=0, reduce=r, include_self=True)
        for r in ("sum", "prod")
    ),
    *(
        call(A, INDEX, x(2, 4, seed=1), dim=0, reduce=r, include_self=s)
        for r in ("sum", "prod", "mean", "amax", "amin")
        for s in (True, False)
    ),
    *(
        call(
            WITH_ZEROS,
            np.array([[0, 0, 2, 2], [1, 1, 0, 1]]),
            WITH_ZEROS[:, [1, 0, 2, 1]],
            dim=1,
            reduce="prod",
            include_self=s,
        )
        for s in (True, False)
    ),
)


def along(change):
    def oracle(a, index, value, dim, **how):
        out = a.copy()
        rows = np.moveaxis(out, dim, 0)
        for k, i in enumerate(index):
            rows[i] = change(rows[i], np.moveaxis(value, dim, 0)[k] if value.ndim else value, **how)
        return out

    return oracle


samples(
    "one_hot",
    lambda a, classes: np.eye(classes, dtype=np.int64)[a],
    call(ints(2, 3, low=0, high=4), classes=4),
    call(ints(low=0, high=4), classes=5),
)
samples("index_select", lambda a, index, dim: a.take(index, dim), call(A, ROWS, dim=0), call(A, INNER, dim=1))
samples(
    "index_add",
    along(lambda old, new, alpha: old + alpha * new),
    call(A, ROWS, x(3, 4, seed=1), dim=0, alpha=1),
    call(A, INNER, x(3, 3), dim=1, alpha=-2.5),
    call(z(3), np.array([2, 0]), z(2, seed=1), dim=0, alpha=1 + 2j),
)
samples(
    "index_copy",
    along(lambda old, new: new),
    call(A, np.array([2, 0]), x(2, 4, seed=1), dim=0),
    call(A, INNER, x(3, 3), dim=1),
)
samples(
    "index_fill",
    along(lambda old, new: new),
    call(A, ROWS, np.array(0.5), dim=0),
    call(A, INNER, np.array(-1.0), dim=1),
)


def put(a, index, source, accumulate):
    out = a.copy()
    for at, value in zip(index.reshape(-1), source.reshape(-1), strict=True):
        out.reshape(-1)[at] = value + (out.reshape(-1)[at] if accumulate else 0)
    return out


samples("take", lambda a, index: a.reshape(-1)[index], call(A, ints(2, 3, low=-12, high=12)))
samples(
    "put",
    put,
    call(A, np.array([0, 5, 5]), x(3), accumulate=True),
    call(A, np.array([0, 5, -1]), x(3), accumulate=False),
)
samples(
    "masked_select",
    lambda a, mask: np.broadcast_arrays(a, mask)[0][np.broadcast_to(mask, np.broadcast_shapes(a.shape, mask.shape))],
    call(A, bools(3, 4)),
    call(A, bools(4)),
    call(x(4), bools(3, 4)),
)


def masked_scatter(a, mask, source):
    out = np.array(np.broadcast_to(a, np.broadcast_shapes(a.shape, mask.shape)))
    mask = np.broadcast_to(mask, out.shape)
    out[mask] = source.reshape(-1)[: mask.sum()]
    return out


samples("masked_scatter", masked_scatter, call(A, bools(3, 4), x(12)), call(A, bools(4), x(3, 4, seed=1)))
samples("nonzero", lambda a: np.argwhere(a), call(ints(3, 4, low=0, high=2)), call(np.zeros((2, 0))))
samples(
    "clone",
    lambda a, layout: a,
    call(A, layout=tdt.preserve_format),
    call(x(2, 3, 2, 2), layout=tdt.channels_last),
    call(z(2), layout=tdt.preserve_format),
)
samples("to_device", lambda a, target, source: a, call(A, target=tdt.device("cpu"), source=tdt.device("cpu")))

SORTED = np.array([0.5, 1.0, 1.0, 2.0])
samples(
    "searchsorted",
    lambda edges, values, right, small: np.searchsorted(edges, values, "right" if right else "left").astype(
        np.int32 if small else np.int64
    ),
    call(SORTED, np.array([[0.0, 1.0], [2.0, np.nan]]), right=False, small=False),
    call(SORTED, np.array([1.0, 2.0, 9.0]), right=True, small=True),
)
samples(
    "isin", np.isin, call(ints(2, 3, low=0, high=4), np.array([1, 2]), invert=False), call(x(3), x(3)[:1], invert=True)
)
samples(
    "bincount",
    lambda values, weights=None, *, minlength: np.bincount(values, weights, minlength),
    call(np.array([0, 2, 2]), minlength=5),
    call(np.array([0, 2, 2]), x(3), minlength=0),
)
samples(
    "histogram",
    lambda points, weights, *edges: np.histogramdd(points, edges, weights=weights)[0],
    call(x(7, 1), None, np.array([-1.0, 0.0, 0.5, 1.0])),
    call(x(9, 2), np.abs(x(9)), np.array([-1.0, 0.0, 1.0]), np.array([-0.5, 0.5])),
)
samples(
    "histc",
    lambda values, bins, low, high: np.histogram(values, bins, (low, high))[0].astype(values.dtype),
    call(x(20), bins=4, low=-1.0, high=1.0),
    call(np.array([np.nan, 0.0, 1.0, 2.0, -np.inf]), bins=2, low=0.0, high=2.0),
)
