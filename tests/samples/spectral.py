"""Samples of Fourier transforms, held to SciPy's."""

import numpy as np

from tests.samples._sample import call, samples, x, z

samples(
    "fft_c2c",
    lambda a, dims, norm, forward: (np.fft.fftn if forward else np.fft.ifftn)(a, axes=dims, norm=norm),
    *(call(z(3, 5), dims=(1,), norm=norm, forward=way) for norm in ("backward", "forward", "ortho") for way in (True, False)),
    call(z(2, 3, 4), dims=(2, 0), norm="backward", forward=True),
    call(z(2, 3, 4), dims=(1,), norm="ortho", forward=False),
    call(z(1), dims=(0,), norm="backward", forward=True),
    call(z(0, 3), dims=(1,), norm="backward", forward=True),
)  # fmt: skip
samples(
    "fft_r2c",
    lambda a, dims, norm: np.fft.rfftn(a, axes=dims, norm=norm),
    *(call(x(3, n), dims=(1,), norm=norm) for norm in ("backward", "forward", "ortho") for n in (4, 5)),
    call(x(4, 3, 2), dims=(2, 0), norm="backward"),
    call(x(2, 1), dims=(1,), norm="backward"),
    call(x(0, 3), dims=(1,), norm="forward"),
)


def _half(a):
    """A half spectrum as a real signal has it."""
    return np.fft.rfftn(a, axes=(1,))


samples(
    "fft_c2r",
    lambda a, dims, norm, n: np.fft.irfftn(a, s=[*(a.shape[d] for d in dims[:-1]), n], axes=dims, norm=norm),
    *(call(_half(x(3, n)), dims=(1,), norm=norm, n=n) for norm in ("backward", "forward", "ortho") for n in (4, 5)),
    call(_half(x(3, 4, 2)), dims=(2, 1), norm="backward", n=4),
    call(_half(x(2, 1)), dims=(1,), norm="backward", n=1),
)
samples(
    "fft_scaled",
    lambda a, dim, n, by: a * np.where((k := np.arange(a.shape[dim])) * (k <= n - a.shape[dim]), by, 1),
    call(z(2, 3), dim=1, n=4, by=2.0),
    call(z(2, 3), dim=1, n=5, by=0.5),
    call(z(2, 1), dim=1, n=1, by=2.0),
)


def _added(a, dim, step, n):
    frames = np.moveaxis(a, dim, 0)
    total = np.zeros((n, *frames.shape[1:-1]), a.dtype)
    for i, frame in enumerate(frames):
        total[i * step : i * step + a.shape[-1]] += np.moveaxis(frame, -1, 0)
    return np.moveaxis(total, 0, dim)


samples(
    "overlap_add",
    _added,
    *(call(x(2, 3, 5), dim=1, step=step, n=2 * step + 5) for step in (1, 2, 5, 7)),
    call(z(3, 2, 4), dim=0, step=3, n=12),
    call(x(1, 3), dim=0, step=2, n=4),
)
