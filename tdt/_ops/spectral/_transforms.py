"""Bodies of the functions in `tdt.fft`: dimensions and sizes, dtypes, `norm`."""

from __future__ import annotations

from collections.abc import Sequence

from tdt._core import dtype as _dtype
from tdt._core.dtype import SCALAR_NAMES
from tdt._core.tensor import Tensor
from tdt._ops._common import Dims, Ints, as_list, wrap_dim
from tdt._ops.nn.pad import pad
from tdt._ops.spectral.fft import ADJOINT, fft_c2c, fft_c2r, fft_r2c
from tdt.autograd._autocast import cast_for
from tdt.autograd._remembered import calls_by_shape


def dims_of(input: Tensor, dim: Dims) -> list[int]:
    """The dimensions in `dim`, counted from the first; None is all."""
    if dim is None:
        return list(range(input.ndim))
    return [wrap_dim(i, input.ndim) for i in as_list(dim)]


def dim_and_size(input: Tensor, n: int | None, dim: int) -> tuple[list[int], list[int]]:
    """The dimension and the number of points there, each as a list."""
    where = wrap_dim(dim, input.ndim, scalar_ok=False)
    return [where], [input.shape[where] if n is None else n]


def dim_and_output_size(input: Tensor, n: int | None, dim: int) -> tuple[list[int], list[int]]:
    """As `dim_and_size`, for a half spectrum: by default 2 (size - 1) points."""
    where = wrap_dim(dim, input.ndim, scalar_ok=False)
    return [where], [2 * (input.shape[where] - 1) if n is None else n]


def dims_and_sizes(input: Tensor, s: Ints | None, dim: Dims) -> tuple[list[int], list[int]]:
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
    requested = [-1] * len(dims) if sizes is None else sizes
    return dims, [input.shape[i] if n == -1 else n for i, n in zip(dims, requested, strict=True)]


def dims_and_output_sizes(name: str, input: Tensor, s: Ints | None, dim: Dims) -> tuple[list[int], list[int]]:
    """As `dims_and_sizes`, for a half spectrum along the last dimension. RuntimeError for no dimension."""
    dims, sizes = dims_and_sizes(input, s, dim)
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    requested = as_list(s)
    if requested is None or requested[-1] == -1:
        sizes[-1] = 2 * (input.shape[dims[-1]] - 1)
    return dims, sizes


def complex_transform(
    name: str, input: Tensor, dims: list[int], sizes: list[int], norm: str | None, forward: bool
) -> Tensor:
    """The complex transform, or its inverse, along `dims`."""
    x, mode = _as_floating(name, input, complex=True), _norm_mode(name, norm)
    return _whole_spectrum(x, tuple(dims), tuple(sizes), mode, forward) if dims else x


@calls_by_shape
def _whole_spectrum(x: Tensor, dims: tuple[int, ...], sizes: tuple[int, ...], norm: str, forward: bool) -> Tensor:
    return fft_c2c(_resize(x, dims, sizes), dims=dims, norm=norm, forward=forward)


def real_transform(name: str, input: Tensor, dims: list[int], sizes: list[int], norm: str | None) -> Tensor:
    """The half spectrum of a real input."""
    return _half_spectrum(_real_input(name, input, dims), tuple(dims), tuple(sizes), _norm_mode(name, norm))


@calls_by_shape
def _half_spectrum(x: Tensor, dims: tuple[int, ...], sizes: tuple[int, ...], norm: str) -> Tensor:
    return fft_r2c(_resize(x, dims, sizes), dims=dims, norm=norm)


def inverse_real_transform(name: str, input: Tensor, dims: list[int], sizes: list[int], norm: str | None) -> Tensor:
    """The real signal of a half spectrum."""
    return _signal(_half_input(name, input, sizes), tuple(dims), tuple(sizes), _norm_mode(name, norm))


@calls_by_shape
def _signal(x: Tensor, dims: tuple[int, ...], sizes: tuple[int, ...], norm: str) -> Tensor:
    return fft_c2r(_resize(x, dims, _half_of(sizes)), dims=dims, norm=norm, n=sizes[-1])


def hermitian_transform(name: str, input: Tensor, dims: list[int], sizes: list[int], norm: str | None) -> Tensor:
    """The real transform of a Hermitian signal, given by its first half."""
    x, mode = _resize(_half_input(name, input, sizes), dims, _half_of(sizes)), _norm_mode(name, norm)
    if len(dims) > 1:
        x = fft_c2c(x, dims=tuple(dims[:-1]), norm=mode, forward=True)
    return fft_c2r(x.conj(), dims=(dims[-1],), norm=ADJOINT[mode], n=sizes[-1])


def inverse_hermitian_transform(
    name: str, input: Tensor, dims: list[int], sizes: list[int], norm: str | None
) -> Tensor:
    """The first half of the Hermitian signal whose transform is the real input."""
    x, mode = _resize(_real_input(name, input, dims), dims, sizes), _norm_mode(name, norm)
    half = fft_r2c(x, dims=(dims[-1],), norm=ADJOINT[mode]).conj()
    return fft_c2c(half, dims=tuple(dims[:-1]), norm=mode, forward=False) if len(dims) > 1 else half


def _norm_mode(name: str, norm: str | None) -> str:
    """`norm` as one of the three modes; RuntimeError for another."""
    mode = "backward" if norm is None else norm
    if mode not in ADJOINT:
        raise RuntimeError(f'Invalid normalization mode: "{norm}"; {name} takes "backward", "forward" and "ortho"')
    return mode


def _as_floating(name: str, input: Tensor, complex: bool) -> Tensor:
    """`input` as floating point, or complex; RuntimeError for half precision outside `autocast`."""
    (input,) = cast_for("float32", input)
    dtype = input.dtype if input.dtype.category >= _dtype.FLOAT else _dtype.get_default_dtype()
    if dtype in (_dtype.float16, _dtype.bfloat16):
        raise RuntimeError(
            f"Unsupported dtype {SCALAR_NAMES[dtype]}: {name} takes float32, float64 and complex numbers"
        )
    return input.to(dtype.to_complex() if complex else dtype)


def _real_input(name: str, input: Tensor, dims: list[int]) -> Tensor:
    """A real input as floating point. RuntimeError for a complex one, or no dimension."""
    if input.is_complex():
        raise RuntimeError(f"{name} expects a real input tensor, but got {SCALAR_NAMES[input.dtype]}")
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    return _as_floating(name, input, complex=False)


def _half_input(name: str, input: Tensor, sizes: list[int]) -> Tensor:
    """A half spectrum as complex. RuntimeError for a size of 0 output points."""
    if sizes[-1] < 1:
        raise RuntimeError(f"Invalid number of data points ({sizes[-1]}) specified")
    return _as_floating(name, input, complex=True)


def _half_of(sizes: Sequence[int]) -> list[int]:
    """The sizes of the half spectrum of so many points."""
    return [*sizes[:-1], sizes[-1] // 2 + 1]


def _resize(x: Tensor, dims: Sequence[int], sizes: Sequence[int]) -> Tensor:
    """`x` cut, or padded with zeros, to `sizes` along `dims`. RuntimeError for a size below 1."""
    for dim, n in zip(dims, sizes, strict=True):
        if n < 1:
            raise RuntimeError(f"Invalid number of data points ({n}) specified")
        if n < x.shape[dim]:
            x = x.narrow(dim, 0, n)
        elif n > x.shape[dim]:
            x = pad(x, [0] * (2 * (x.ndim - 1 - dim)) + [0, n - x.shape[dim]])
    return x
