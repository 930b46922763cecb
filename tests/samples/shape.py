"""Samples of views, of their backward forms, and of ops that move values."""

import numpy as np
import scipy.linalg as sl

import tdt
from tdt.autograd._op_table import OPS
from tests.samples._sample import call, samples, x, z

A = x(2, 3, 4)
EVERY = (None, None, None)


def index_of(spec):
    return tuple(slice(*e) if isinstance(e, tuple) else e for e in spec)


def placed(a, shape, spec):
    out = np.zeros(shape, a.dtype)
    out[index_of(spec)] = a
    return out


for _name in ("view", "reshape"):
    samples(
        _name,
        lambda a, shape: np.reshape(a, shape),
        call(A, shape=(6, 4)),
        call(x(1), shape=()),
        call(x(0, 3), shape=(3, 0)),
    )
samples(
    "view_dtype",
    lambda a, dtype: a.view(dtype.np),
    call(A, dtype=tdt.int64),
    call(x(2, 2), dtype=tdt.float32, grad=False),
)
samples("permute", lambda a, dims: np.transpose(a, dims), call(A, dims=(2, 0, 1)), call(z(2, 3), dims=(1, 0)))
samples("squeeze", lambda a, dims: np.squeeze(a, dims), call(x(1, 3, 1), dims=(0,)), call(x(1, 3, 1), dims=(0, 2)))
samples("unsqueeze", lambda a, dim: np.expand_dims(a, dim), call(A, dim=1), call(A, dim=3), call(x(), dim=0))
samples("expand", lambda a, shape: np.broadcast_to(a, shape), call(x(1, 3), shape=(2, 4, 3)), call(x(), shape=(2, 2)))
samples(
    "slice",
    lambda a, spec: a[index_of(spec)],
    call(A, spec=(1, ...)),
    call(A, spec=(EVERY, (0, 3, 2), None, ...)),
    call(A, spec=(..., -1)),
    call(A, spec=((5, 9, None), ...)),
)
samples(
    "slice_backward",
    placed,
    call(x(3, 4), shape=(2, 3, 4), spec=(1, ...)),
    call(x(2, 2, 4), shape=(2, 3, 4), spec=(EVERY, (0, 3, 2), ...)),
)


def diagonal_placed(a, shape, offset, dim1, dim2):
    out = np.zeros(shape, a.dtype)
    np.einsum("...ii->...i", np.moveaxis(out, (dim1, dim2), (-2, -1)))[...] = a
    return out


samples(
    "diagonal",
    lambda a, offset, dim1, dim2: np.diagonal(a, offset, dim1, dim2),
    call(x(3, 3), offset=0, dim1=0, dim2=1),
    call(A, offset=1, dim1=1, dim2=2),
    call(A, offset=-1, dim1=0, dim2=2),
)
samples(
    "diagonal_backward",
    diagonal_placed,
    call(x(3), shape=(3, 3), offset=0, dim1=0, dim2=1),
    call(x(2, 3), shape=(2, 3, 3), offset=0, dim1=1, dim2=2),
)


def unfolded(a, dim, size, step):
    every = np.lib.stride_tricks.sliding_window_view(a, size, dim)
    return every[(slice(None),) * dim + (slice(None, None, step),)]


samples("unfold", unfolded, call(x(7), dim=0, size=3, step=2), call(x(2, 5), dim=1, size=2, step=1))
samples(
    "split",
    lambda a, sizes, dim: tuple(np.split(a, np.cumsum(sizes)[:-1], dim)),
    call(A, sizes=(2, 1), dim=1),
    call(A, sizes=(1, 0, 3), dim=2),
)
samples("unbind", lambda a, dim: tuple(np.moveaxis(a, dim, 0)), call(A, dim=0), call(A, dim=1))


def strided(a, size, stride, offset, at):
    flat = a.reshape(-1)
    return np.array(
        [flat[offset + sum(i * s for i, s in zip(where, stride, strict=True))] for where in np.ndindex(*size)]
    ).reshape(size)


samples(
    "as_strided",
    strided,
    call(x(6), size=(3, 2), stride=(1, 2), offset=1, at=((6,), (1,), 0)),
    call(x(2, 3), size=(2, 2), stride=(3, 2), offset=0, at=((2, 3), (3, 1), 0)),
)


def written(base, new, chain, order):
    out = base.copy()
    out[index_of(chain[0][1]["spec"])] = new
    return out


SECOND = ((OPS["slice"], {"spec": (1, ...)}, None),)
samples("copy_slices", written, *(call(A, x(3, 4), chain=SECOND, order=order) for order in ((0, 1, 2), (2, 0, 1))))
samples("linked", lambda dx, x: np.copy(dx), call(A, A))
samples("unaware", np.copy, call(A))

samples(
    "rot90",
    lambda a, turns, dims: np.rot90(a, turns, dims),
    *[call(A, turns=turns, dims=(2, 0)) for turns in range(4)],
)
samples("flip", lambda a, dims: np.flip(a, dims), call(A, dims=(0, 2)), call(z(3), dims=(0,)))
samples("repeat", lambda a, times: np.tile(a, times), call(A, times=(2, 1, 3)), call(x(3), times=(2, 2)))
samples(
    "repeat_each",
    lambda a, dim, times: np.repeat(a, times, dim),
    call(A, dim=1, times=3),
    call(A, dim=2, times=0),
    call(x(3), dim=0, times=1),
)
samples(
    "roll",
    lambda a, shifts, dims: np.roll(a, shifts, dims),
    call(A, shifts=(1, -2), dims=(0, 2)),
    call(A, shifts=(5,), dims=None),
)
samples("block_diag", sl.block_diag, call(x(2, 3), x(3, 1, seed=1)), call(x(2), x(1, 2), x(2, 2, seed=1)))
samples("tril", lambda a, diagonal: np.tril(a, diagonal), call(x(3, 4), diagonal=0), call(A, diagonal=-1))
samples("triu", lambda a, diagonal: np.triu(a, diagonal), call(x(3, 4), diagonal=0), call(A, diagonal=1))
samples(
    "pad_constant",
    lambda a, before, after, value: np.pad(
        a[tuple(slice(max(0, -b), n - max(0, -c)) for n, b, c in zip(a.shape, before, after, strict=True))],
        [(max(0, b), max(0, c)) for b, c in zip(before, after, strict=True)],
        constant_values=value,
    ),
    call(A, before=(0, 1, 2), after=(0, 0, 1), value=0.5),
    call(A, before=(0, -1, 1), after=(1, 0, -2), value=0),
)


def overwritten(a, src, spec):
    out = a.copy()
    out[index_of(spec)] = src
    return out


samples(
    "slice_scatter",
    overwritten,
    call(A, x(2, 3, 2, seed=1), spec=(EVERY, EVERY, (None, None, 2), ...)),
    call(A, x(1, 3, 4, seed=1), spec=((1, 9, None), ...)),
    call(A, x(0, 3, 4), spec=((2, 1, None), ...)),
)
