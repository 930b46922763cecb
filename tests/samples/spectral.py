"""Samples of Fourier transforms, held to SciPy's."""

import numpy as np
import scipy.fft

from tests.samples._sample import call, samples, x, z

samples(
    "fft_c2c",
    lambda a, dims, norm, forward: (scipy.fft.fftn if forward else scipy.fft.ifftn)(a, axes=dims, norm=norm),
    *(call(z(3, 5), dims=(1,), norm=norm, forward=way) for norm in ("backward", "forward", "ortho") for way in (True, False)),
    call(z(2, 3, 4), dims=(2, 0), norm="backward", forward=True),
    call(z(2, 3, 4), dims=(1,), norm="ortho", forward=False),
    call(z(1), dims=(0,), norm="backward", forward=True),
    call(z(0, 3), dims=(1,), norm="backward", forward=True),
)  # fmt: skip
samples(
    "fft_r2c",
    lambda a, dims, norm: scipy.fft.rfftn(a, axes=dims, norm=norm),
    *(call(x(3, n), dims=(1,), norm=norm) for norm in ("backward", "forward", "ortho") for n in (4, 5)),
    call(x(4, 3, 2), dims=(2, 0), norm="backward"),
    call(x(2, 1), dims=(1,), norm="backward"),
    call(x(0, 3), dims=(1,), norm="forward"),
)


def _half(a):
    """A half spectrum as a real signal has it."""
    return scipy.fft.rfftn(a, axes=(1,))


samples(
    "fft_c2r",
    lambda a, dims, norm, n: scipy.fft.irfftn(a, s=[*(a.shape[d] for d in dims[:-1]), n], axes=dims, norm=norm),
    *(call(_half(x(3, n)), dims=(1,), norm=norm, n=n) for norm in ("backward", "forward", "ortho") for n in (4, 5)),
    call(_half(x(3, 4, 2)), dims=(2, 1), norm="backward", n=4),
    call(_half(x(2, 1)), dims=(1,), norm="backward", n=1),
)
samples(
    "fft_twice",
    lambda a, dim, n: a * (1 + ((np.arange(a.shape[dim]) > 0) & (np.arange(a.shape[dim]) <= n - a.shape[dim]))),
    call(z(2, 3), dim=1, n=4),
    call(z(2, 3), dim=1, n=5),
    call(z(2, 1), dim=1, n=1),
)
