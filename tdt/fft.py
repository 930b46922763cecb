"""Discrete Fourier transforms under PyTorch's names: `tdt.fft.fft`, `rfft`, `irfft2`, `fftfreq`, …

For a signal x of n points the transform is X[k] = Σ x[j] exp(-2πi jk/n) (Cooley and Tukey, 1965, compute it in n log n).
`norm`: "backward" (default) divides the inverse by n, "forward" the transform, "ortho" both by √n. `n`, `s`: so many points
along a dimension, cut or filled with zeros. Float32 gives complex64; half precision is refused, as by PyTorch on a CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tdt import Tensor
from tdt._core import dtype as _dtype
from tdt._core.calls import front
from tdt._core.dtype import SCALAR_NAMES
from tdt._core.ranges import arange
from tdt._ops._common import Dims, as_list, with_out, wrap_dim
from tdt._ops.nn.pad import pad
from tdt._ops.shape.reorder import roll
from tdt._ops.spectral.fft import ADJOINT, fft_c2c, fft_c2r, fft_r2c
from tdt.amp._autocast import cast_for

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft",
    "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

Sizes = Sequence[int] | int | None


@front
@with_out(packed=True)
def fft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The transform of `input`, real or complex, along `dim`.

    >>> import tdt
    >>> tdt.fft.fft(tdt.tensor([1.0, 0.0, 0.0, 0.0]))
    tensor([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j])
    """
    return _whole("fft", input, *_one(input, n, dim), norm, forward=True)


@front
@with_out(packed=True)
def ifft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `fft`.

    >>> import tdt
    >>> tdt.fft.ifft(tdt.ones(4))
    tensor([1.+0.j, 0.+0.j, 0.+0.j, 0.+0.j])
    """
    return _whole("ifft", input, *_one(input, n, dim), norm, forward=False)


@front
@with_out(packed=True)
def rfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The first n // 2 + 1 points of the transform of a real `input`; the others are their conjugates.

    >>> import tdt
    >>> tdt.fft.rfft(tdt.ones(4))
    tensor([4.+0.j, 0.+0.j, 0.+0.j])
    """
    return _half("rfft", input, *_one(input, n, dim), norm)


@front
@with_out(packed=True)
def irfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The real signal of `n` points, by default 2 · (size - 1), whose `rfft` is `input`.

    >>> import tdt
    >>> tdt.fft.irfft(tdt.tensor([4.0, 0.0, 0.0]))
    tensor([1., 1., 1., 1.])
    """
    return _back("irfft", input, *_one_back(input, n, dim), norm)


@front
@with_out(packed=True)
def hfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The real transform, of `n` points, of a signal that is Hermitian in time and of which `input` is the first half.

    >>> import tdt
    >>> tdt.fft.hfft(tdt.ones(3))
    tensor([4., 0., 0., 0.])
    """
    return _hermitian("hfft", input, *_one_back(input, n, dim), norm)


@front
@with_out(packed=True)
def ihfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `hfft`: of a real `input`, the first n // 2 + 1 points of a Hermitian signal.

    >>> import tdt
    >>> tdt.fft.ihfft(tdt.tensor([4.0, 0.0, 0.0, 0.0]))
    tensor([1.-0.j, 1.-0.j, 1.-0.j])
    """
    return _hermitian_half("ihfft", input, *_one(input, n, dim), norm)


@front
@with_out(packed=True)
def fftn(input: Tensor, s: Sizes = None, dim: Dims = None, norm: str | None = None) -> Tensor:
    """The transform along several dimensions, by default all, or the last ones for which `s` gives sizes."""
    return _whole("fftn", input, *_several(input, s, dim), norm, forward=True)


@front
@with_out(packed=True)
def ifftn(input: Tensor, s: Sizes = None, dim: Dims = None, norm: str | None = None) -> Tensor:
    """The inverse of `fftn`."""
    return _whole("ifftn", input, *_several(input, s, dim), norm, forward=False)


@front
@with_out(packed=True)
def rfftn(input: Tensor, s: Sizes = None, dim: Dims = None, norm: str | None = None) -> Tensor:
    """As `fftn` of a real `input`, with half of the spectrum along the last of the dimensions."""
    return _half("rfftn", input, *_several(input, s, dim), norm)


@front
@with_out(packed=True)
def irfftn(input: Tensor, s: Sizes = None, dim: Dims = None, norm: str | None = None) -> Tensor:
    """The inverse of `rfftn`; the last size is 2 · (size - 1) where `s` does not give it."""
    return _back("irfftn", input, *_several_back("irfftn", input, s, dim), norm)


@front
@with_out(packed=True)
def hfftn(input: Tensor, s: Sizes = None, dim: Dims = None, norm: str | None = None) -> Tensor:
    """As `hfft` along the last of the dimensions, and `fft` along the others."""
    return _hermitian("hfftn", input, *_several_back("hfftn", input, s, dim), norm)


@front
@with_out(packed=True)
def ihfftn(input: Tensor, s: Sizes = None, dim: Dims = None, norm: str | None = None) -> Tensor:
    """The inverse of `hfftn`."""
    return _hermitian_half("ihfftn", input, *_several(input, s, dim), norm)


@front
@with_out(packed=True)
def fft2(input: Tensor, s: Sizes = None, dim: Dims = (-2, -1), norm: str | None = None) -> Tensor:
    """`fftn` along the last two dimensions."""
    return fftn(input, s, dim, norm)


@front
@with_out(packed=True)
def ifft2(input: Tensor, s: Sizes = None, dim: Dims = (-2, -1), norm: str | None = None) -> Tensor:
    """`ifftn` along the last two dimensions."""
    return ifftn(input, s, dim, norm)


@front
@with_out(packed=True)
def rfft2(input: Tensor, s: Sizes = None, dim: Dims = (-2, -1), norm: str | None = None) -> Tensor:
    """`rfftn` along the last two dimensions."""
    return rfftn(input, s, dim, norm)


@front
@with_out(packed=True)
def irfft2(input: Tensor, s: Sizes = None, dim: Dims = (-2, -1), norm: str | None = None) -> Tensor:
    """`irfftn` along the last two dimensions."""
    return irfftn(input, s, dim, norm)


@front
@with_out(packed=True)
def hfft2(input: Tensor, s: Sizes = None, dim: Dims = (-2, -1), norm: str | None = None) -> Tensor:
    """`hfftn` along the last two dimensions."""
    return hfftn(input, s, dim, norm)


@front
@with_out(packed=True)
def ihfft2(input: Tensor, s: Sizes = None, dim: Dims = (-2, -1), norm: str | None = None) -> Tensor:
    """`ihfftn` along the last two dimensions."""
    return ihfftn(input, s, dim, norm)


@front
@with_out(packed=True)
def fftfreq(
    n: int, d: float = 1.0, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """The frequencies of the points of `fft` for `n` samples `d` apart.

    >>> import tdt
    >>> tdt.fft.fftfreq(4)
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    steps = arange(n, dtype=dtype or _dtype.get_default_dtype(), device=device)
    steps[(n + 1) // 2 :] -= n
    return (steps * (1.0 / (n * d))).requires_grad_(requires_grad)


@front
@with_out(packed=True)
def rfftfreq(
    n: int, d: float = 1.0, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """The frequencies of the points of `rfft` for `n` samples `d` apart.

    >>> import tdt
    >>> tdt.fft.rfftfreq(4)
    tensor([0.0000, 0.2500, 0.5000])
    """
    steps = arange(n // 2 + 1, dtype=dtype or _dtype.get_default_dtype(), device=device)
    return (steps * (1.0 / (n * d))).requires_grad_(requires_grad)


@front
def fftshift(input: Tensor, dim: Dims = None) -> Tensor:
    """`input` with the frequency 0 moved to the middle, along `dim`, by default all.

    >>> import tdt
    >>> tdt.fft.fftshift(tdt.fft.fftfreq(4))
    tensor([-0.5000, -0.2500,  0.0000,  0.2500])
    """
    dims = _named(input, dim)
    return roll(input, [input.shape[i] // 2 for i in dims], dims)


@front
def ifftshift(input: Tensor, dim: Dims = None) -> Tensor:
    """The inverse of `fftshift`.

    >>> import tdt
    >>> tdt.fft.ifftshift(tdt.tensor([-0.5, -0.25, 0.0, 0.25]))
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    dims = _named(input, dim)
    return roll(input, [-(input.shape[i] // 2) for i in dims], dims)


def _named(input: Tensor, dim: Dims) -> list[int]:
    if dim is None:
        return list(range(input.ndim))
    return [wrap_dim(i, input.ndim) for i in as_list(dim)]


def _one(input: Tensor, n: int | None, dim: int) -> tuple[list[int], list[int]]:
    """The dimension and the number of points there, each as a list."""
    where = wrap_dim(dim, input.ndim, scalar_ok=False)
    return [where], [input.shape[where] if n is None else n]


def _one_back(input: Tensor, n: int | None, dim: int) -> tuple[list[int], list[int]]:
    where = wrap_dim(dim, input.ndim, scalar_ok=False)
    return [where], [2 * (input.shape[where] - 1) if n is None else n]


def _several(input: Tensor, s: Sizes, dim: Dims) -> tuple[list[int], list[int]]:
    """The dimensions and the number of points along each."""
    sizes = as_list(s)
    if dim is not None:
        dims = [wrap_dim(i, input.ndim, scalar_ok=False) for i in as_list(dim)]
        if len(set(dims)) != len(dims):
            raise RuntimeError("FFT dims must be unique")
        if sizes is not None and len(sizes) != len(dims):
            raise RuntimeError("When given, dim and shape arguments must have the same length")
    elif sizes is not None:
        if len(sizes) > input.ndim:
            raise RuntimeError(f"Got shape with {len(sizes)} values but input tensor only has {input.ndim} dimensions.")
        dims = list(range(input.ndim - len(sizes), input.ndim))
    else:
        dims = list(range(input.ndim))
    wanted = [-1] * len(dims) if sizes is None else sizes
    return dims, [input.shape[i] if n == -1 else n for i, n in zip(dims, wanted, strict=True)]


def _several_back(name: str, input: Tensor, s: Sizes, dim: Dims) -> tuple[list[int], list[int]]:
    dims, sizes = _several(input, s, dim)
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    given = as_list(s)
    if given is None or given[-1] == -1:
        sizes[-1] = 2 * (input.shape[dims[-1]] - 1)
    return dims, sizes


def _whole(name: str, input: Tensor, dims: list[int], sizes: list[int], norm: str | None, forward: bool) -> Tensor:
    x = _sized(_floated(name, input, complex=True), dims, sizes)
    mode = _mode(name, norm)
    return fft_c2c(x, dims=tuple(dims), norm=mode, forward=forward) if dims else x


def _half(name: str, input: Tensor, dims: list[int], sizes: list[int], norm: str | None) -> Tensor:
    x = _real_input(name, input, dims, sizes)
    return fft_r2c(x, dims=tuple(dims), norm=_mode(name, norm))


def _back(name: str, input: Tensor, dims: list[int], sizes: list[int], norm: str | None) -> Tensor:
    x = _half_input(name, input, dims, sizes)
    return fft_c2r(x, dims=tuple(dims), norm=_mode(name, norm), n=sizes[-1])


def _hermitian(name: str, input: Tensor, dims: list[int], sizes: list[int], norm: str | None) -> Tensor:
    x, mode = _half_input(name, input, dims, sizes), _mode(name, norm)
    if len(dims) > 1:
        x = fft_c2c(x, dims=tuple(dims[:-1]), norm=mode, forward=True)
    return fft_c2r(x.conj(), dims=(dims[-1],), norm=ADJOINT[mode], n=sizes[-1])


def _hermitian_half(name: str, input: Tensor, dims: list[int], sizes: list[int], norm: str | None) -> Tensor:
    x, mode = _real_input(name, input, dims, sizes), _mode(name, norm)
    half = fft_r2c(x, dims=(dims[-1],), norm=ADJOINT[mode]).conj()
    return fft_c2c(half, dims=tuple(dims[:-1]), norm=mode, forward=False) if len(dims) > 1 else half


def _mode(name: str, norm: str | None) -> str:
    mode = "backward" if norm is None else norm
    if mode not in ADJOINT:
        raise RuntimeError(f'Invalid normalization mode: "{norm}"; {name} knows "backward", "forward" and "ortho"')
    return mode


def _floated(name: str, input: Tensor, complex: bool) -> Tensor:
    """`input` as floating point, or complex where that is wanted; RuntimeError for half precision outside of `autocast`."""
    (input,) = cast_for("float32", input)
    dtype = input.dtype if input.dtype.category >= _dtype.FLOAT else _dtype.get_default_dtype()
    if dtype in (_dtype.float16, _dtype.bfloat16):
        raise RuntimeError(
            f"Unsupported dtype {SCALAR_NAMES[dtype]}: {name} takes float32, float64 and complex numbers"
        )
    return input.to(dtype.to_complex() if complex else dtype)


def _real_input(name: str, input: Tensor, dims: list[int], sizes: list[int]) -> Tensor:
    if input.is_complex():
        raise RuntimeError(f"{name} expects a real input tensor, but got {SCALAR_NAMES[input.dtype]}")
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    return _sized(_floated(name, input, complex=False), dims, sizes)


def _half_input(name: str, input: Tensor, dims: list[int], sizes: list[int]) -> Tensor:
    if sizes[-1] < 1:
        raise RuntimeError(f"Invalid number of data points ({sizes[-1]}) specified")
    return _sized(_floated(name, input, complex=True), dims, [*sizes[:-1], sizes[-1] // 2 + 1])


def _sized(x: Tensor, dims: list[int], sizes: list[int]) -> Tensor:
    """`x` cut, or filled with zeros, to `sizes` along `dims`. RuntimeError for none at all."""
    for dim, n in zip(dims, sizes, strict=True):
        if n < 1:
            raise RuntimeError(f"Invalid number of data points ({n}) specified")
        if n < x.shape[dim]:
            x = x.narrow(dim, 0, n)
        elif n > x.shape[dim]:
            x = pad(x, [0] * (2 * (x.ndim - 1 - dim)) + [0, n - x.shape[dim]])
    return x
