"""Discrete Fourier transforms under PyTorch's names: `tdt.fft.fft`, `rfft`, `irfft2`, `fftfreq`, …

float32 gives complex64, integers the complex form of the default dtype; half precision raises RuntimeError, as in PyTorch
on the CPU.
"""

from __future__ import annotations

from tdt import Tensor
from tdt._core import dtype as _dtype
from tdt._core.calls import front, in_namespace
from tdt._core.layout import layout as Layout
from tdt._core.ranges import arange
from tdt._ops._common import Device, Dims, Ints, with_out
from tdt._ops.shape.reorder import roll
from tdt._ops.spectral._transforms import (
    complex_transform,
    dim_and_output_size,
    dim_and_size,
    dims_and_output_sizes,
    dims_and_sizes,
    dims_of,
    hermitian_transform,
    inverse_hermitian_transform,
    inverse_real_transform,
    real_transform,
)
from tdt.autograd._remembered import calls_by_shape

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft",
    "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip


@calls_by_shape
@with_out(packed=True)
def fft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Discrete Fourier transform along `dim`: X[k] = Σ x[j] exp(-2πi jk/n).

    Args:
        n: number of points: the input is cut or padded with zeros; None is its size.
        norm: "backward" (None) divides the inverse by n, "forward" the transform, "ortho" both by √n.
    Shape: input (*, m, *), m along `dim`; result (*, n, *), complex.
    Raises:
        RuntimeError: when n < 1, `norm` is unknown, or the dtype has half precision.
        IndexError: when `dim` is out of range.
    Source: Cooley and Tukey, "An Algorithm for the Machine Calculation of Complex Fourier Series", 1965.

    >>> import tdt
    >>> tdt.fft.fft(tdt.tensor([1.0, 0.0, 0.0, 0.0]))
    tensor([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j])
    """
    return complex_transform("fft", input, *dim_and_size(input, n, dim), norm, forward=True)


@calls_by_shape
@with_out(packed=True)
def ifft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Inverse of `fft` along `dim`.

    Args:
        n: number of points: the input is cut or padded with zeros; None is its size.
        norm: "backward" (None) divides the inverse by n, "forward" the transform, "ortho" both by √n.
    Shape: input (*, m, *), m along `dim`; result (*, n, *), complex.
    Raises:
        RuntimeError: when n < 1, `norm` is unknown, or the dtype has half precision.
        IndexError: when `dim` is out of range.

    >>> import tdt
    >>> tdt.fft.ifft(tdt.ones(4))
    tensor([1.+0.j, 0.+0.j, 0.+0.j, 0.+0.j])
    """
    return complex_transform("ifft", input, *dim_and_size(input, n, dim), norm, forward=False)


@calls_by_shape
@with_out(packed=True)
def rfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Discrete Fourier transform of a real `input` along `dim`: the first n // 2 + 1 points.

    The other points are their conjugates.

    Args:
        n: number of points: the input is cut or padded with zeros; None is its size.
        norm: "backward" (None) divides the inverse by n, "forward" the transform, "ortho" both by √n.
    Shape: input (*, m, *), m along `dim`; result (*, n // 2 + 1, *), complex.
    Raises:
        RuntimeError: when n < 1, `norm` is unknown, or the dtype has half precision, or `input` is complex.
        IndexError: when `dim` is out of range.

    >>> import tdt
    >>> tdt.fft.rfft(tdt.ones(4))
    tensor([4.+0.j, 0.+0.j, 0.+0.j])
    """
    return real_transform("rfft", input, *dim_and_size(input, n, dim), norm)


@calls_by_shape
@with_out(packed=True)
def irfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Inverse of `rfft` along `dim`: a real signal of `n` points.

    Args:
        n: number of points; None is 2 (m - 1).
        norm: "backward" (None) divides the inverse by n, "forward" the transform, "ortho" both by √n.
    Shape: input (*, m, *), m along `dim`; result (*, n, *), real.
    Raises:
        RuntimeError: when n < 1, `norm` is unknown, or the dtype has half precision.
        IndexError: when `dim` is out of range.

    >>> import tdt
    >>> tdt.fft.irfft(tdt.tensor([4.0, 0.0, 0.0]))
    tensor([1., 1., 1., 1.])
    """
    return inverse_real_transform("irfft", input, *dim_and_output_size(input, n, dim), norm)


@calls_by_shape
@with_out(packed=True)
def hfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Discrete Fourier transform of a Hermitian signal, of which `input` is the first half; it is real.

    Args:
        n: number of points; None is 2 (m - 1).
        norm: "backward" (None) divides the inverse by n, "forward" the transform, "ortho" both by √n.
    Shape: input (*, m, *), m along `dim`; result (*, n, *), real.
    Raises:
        RuntimeError: when n < 1, `norm` is unknown, or the dtype has half precision.
        IndexError: when `dim` is out of range.

    >>> import tdt
    >>> tdt.fft.hfft(tdt.ones(3))
    tensor([4., 0., 0., 0.])
    """
    return hermitian_transform("hfft", input, *dim_and_output_size(input, n, dim), norm)


@calls_by_shape
@with_out(packed=True)
def ihfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Inverse of `hfft`: the first n // 2 + 1 points of a Hermitian signal whose transform is the real `input`.

    Args:
        n: number of points: the input is cut or padded with zeros; None is its size.
        norm: "backward" (None) divides the inverse by n, "forward" the transform, "ortho" both by √n.
    Shape: input (*, m, *), m along `dim`; result (*, n // 2 + 1, *), complex.
    Raises:
        RuntimeError: when n < 1, `norm` is unknown, or the dtype has half precision, or `input` is complex.
        IndexError: when `dim` is out of range.

    >>> import tdt
    >>> tdt.fft.ihfft(tdt.tensor([4.0, 0.0, 0.0, 0.0]))
    tensor([1.-0.j, 1.-0.j, 1.-0.j])
    """
    return inverse_hermitian_transform("ihfft", input, *dim_and_size(input, n, dim), norm)


@calls_by_shape
@with_out(packed=True)
def fftn(input: Tensor, s: Ints | None = None, dim: Dims = None, norm: str | None = None) -> Tensor:
    """Discrete Fourier transform along several dimensions.

    Args:
        s: number of points along each of `dim`: the input is cut or padded with zeros; None or -1 is its size.
        dim: None is the last len(s) dimensions, or all.
        norm: "backward" (None) divides the inverse by the number of points, "forward" the transform, "ortho" both by its root.
    Shape: input (*); result (*) with the sizes `s` along `dim`, complex.
    Raises:
        RuntimeError: when `s` and `dim` do not match, or a size, `norm` or the dtype is not supported.
        IndexError: when a dimension is out of range.

    >>> import tdt
    >>> tdt.fft.fftn(tdt.ones(2, 2))
    tensor([[4.+0.j, 0.+0.j],
            [0.+0.j, 0.+0.j]])
    """
    return complex_transform("fftn", input, *dims_and_sizes(input, s, dim), norm, forward=True)


@calls_by_shape
@with_out(packed=True)
def ifftn(input: Tensor, s: Ints | None = None, dim: Dims = None, norm: str | None = None) -> Tensor:
    """Inverse of `fftn` along several dimensions.

    Args:
        s: number of points along each of `dim`: the input is cut or padded with zeros; None or -1 is its size.
        dim: None is the last len(s) dimensions, or all.
        norm: "backward" (None) divides the inverse by the number of points, "forward" the transform, "ortho" both by its root.
    Shape: input (*); result (*) with the sizes `s` along `dim`, complex.
    Raises:
        RuntimeError: when `s` and `dim` do not match, or a size, `norm` or the dtype is not supported.
        IndexError: when a dimension is out of range.

    >>> import tdt
    >>> tdt.fft.ifftn(tdt.ones(2, 2))
    tensor([[1.+0.j, 0.+0.j],
            [0.+0.j, 0.+0.j]])
    """
    return complex_transform("ifftn", input, *dims_and_sizes(input, s, dim), norm, forward=False)


@calls_by_shape
@with_out(packed=True)
def rfftn(input: Tensor, s: Ints | None = None, dim: Dims = None, norm: str | None = None) -> Tensor:
    """Discrete Fourier transform of a real `input` along several dimensions, the last of them halved.

    Args:
        s: number of points along each of `dim`: the input is cut or padded with zeros; None or -1 is its size.
        dim: None is the last len(s) dimensions, or all.
        norm: "backward" (None) divides the inverse by the number of points, "forward" the transform, "ortho" both by its root.
    Shape: input (*); result (*) with the sizes `s` along `dim`, s // 2 + 1 along the last, complex.
    Raises:
        RuntimeError: when `s` and `dim` do not match, or a size, `norm` or the dtype is not supported, or `input` is complex.
        IndexError: when a dimension is out of range.

    >>> import tdt
    >>> tdt.fft.rfftn(tdt.ones(2, 4))
    tensor([[8.+0.j, 0.+0.j, 0.+0.j],
            [0.+0.j, 0.+0.j, 0.+0.j]])
    """
    return real_transform("rfftn", input, *dims_and_sizes(input, s, dim), norm)


@calls_by_shape
@with_out(packed=True)
def irfftn(input: Tensor, s: Ints | None = None, dim: Dims = None, norm: str | None = None) -> Tensor:
    """Inverse of `rfftn` along several dimensions: a real signal.

    Args:
        s: number of points along each of `dim`; None or -1 is the input's size, along the last 2 (size - 1).
        dim: None is the last len(s) dimensions, or all.
        norm: "backward" (None) divides the inverse by the number of points, "forward" the transform, "ortho" both by its root.
    Shape: input (*); result (*) with the sizes `s` along `dim`, real.
    Raises:
        RuntimeError: when `s` and `dim` do not match, or a size, `norm` or the dtype is not supported.
        IndexError: when a dimension is out of range.

    >>> import tdt
    >>> tdt.fft.irfftn(tdt.fft.rfftn(tdt.ones(2, 2)))
    tensor([[1., 1.],
            [1., 1.]])
    """
    return inverse_real_transform("irfftn", input, *dims_and_output_sizes("irfftn", input, s, dim), norm)


@calls_by_shape
@with_out(packed=True)
def hfftn(input: Tensor, s: Ints | None = None, dim: Dims = None, norm: str | None = None) -> Tensor:
    """Discrete Fourier transform of a Hermitian signal along several dimensions: `hfft` along the last, `fft` along the others.

    Args:
        s: number of points along each of `dim`; None or -1 is the input's size, along the last 2 (size - 1).
        dim: None is the last len(s) dimensions, or all.
        norm: "backward" (None) divides the inverse by the number of points, "forward" the transform, "ortho" both by its root.
    Shape: input (*); result (*) with the sizes `s` along `dim`, real.
    Raises:
        RuntimeError: when `s` and `dim` do not match, or a size, `norm` or the dtype is not supported.
        IndexError: when a dimension is out of range.

    >>> import tdt
    >>> tdt.fft.hfftn(tdt.ones(2, 2))
    tensor([[4., 0.],
            [0., 0.]])
    """
    return hermitian_transform("hfftn", input, *dims_and_output_sizes("hfftn", input, s, dim), norm)


@calls_by_shape
@with_out(packed=True)
def ihfftn(input: Tensor, s: Ints | None = None, dim: Dims = None, norm: str | None = None) -> Tensor:
    """Inverse of `hfftn` along several dimensions.

    Args:
        s: number of points along each of `dim`: the input is cut or padded with zeros; None or -1 is its size.
        dim: None is the last len(s) dimensions, or all.
        norm: "backward" (None) divides the inverse by the number of points, "forward" the transform, "ortho" both by its root.
    Shape: input (*); result (*) with the sizes `s` along `dim`, s // 2 + 1 along the last, complex.
    Raises:
        RuntimeError: when `s` and `dim` do not match, or a size, `norm` or the dtype is not supported, or `input` is complex.
        IndexError: when a dimension is out of range.

    >>> import tdt
    >>> tdt.fft.ihfftn(tdt.ones(2, 2)).real
    tensor([[1., 0.],
            [0., 0.]])
    """
    return inverse_hermitian_transform("ihfftn", input, *dims_and_sizes(input, s, dim), norm)


@calls_by_shape
@with_out(packed=True)
def fft2(input: Tensor, s: Ints | None = None, dim: Dims = (-2, -1), norm: str | None = None) -> Tensor:
    """Discrete Fourier transform along two dimensions.

    Args:
        s: number of points along each of `dim`: the input is cut or padded with zeros; None or -1 is its size.
        norm: "backward" (None) divides the inverse by the number of points, "forward" the transform, "ortho" both by its root.
    Shape: input (*); result (*) with the sizes `s` along `dim`, complex.
    Raises:
        RuntimeError: when `s` and `dim` do not match, or a size, `norm` or the dtype is not supported.
        IndexError: when a dimension is out of range.

    >>> import tdt
    >>> tdt.fft.fft2(tdt.ones(2, 2))
    tensor([[4.+0.j, 0.+0.j],
            [0.+0.j, 0.+0.j]])
    """
    return fftn(input, s, dim, norm)


@calls_by_shape
@with_out(packed=True)
def ifft2(input: Tensor, s: Ints | None = None, dim: Dims = (-2, -1), norm: str | None = None) -> Tensor:
    """Inverse of `fft2` along two dimensions.

    Args:
        s: number of points along each of `dim`: the input is cut or padded with zeros; None or -1 is its size.
        norm: "backward" (None) divides the inverse by the number of points, "forward" the transform, "ortho" both by its root.
    Shape: input (*); result (*) with the sizes `s` along `dim`, complex.
    Raises:
        RuntimeError: when `s` and `dim` do not match, or a size, `norm` or the dtype is not supported.
        IndexError: when a dimension is out of range.

    >>> import tdt
    >>> tdt.fft.ifft2(tdt.ones(2, 2))
    tensor([[1.+0.j, 0.+0.j],
            [0.+0.j, 0.+0.j]])
    """
    return ifftn(input, s, dim, norm)


@calls_by_shape
@with_out(packed=True)
def rfft2(input: Tensor, s: Ints | None = None, dim: Dims = (-2, -1), norm: str | None = None) -> Tensor:
    """Discrete Fourier transform of a real `input` along two dimensions, the last of them halved.

    Args:
        s: number of points along each of `dim`: the input is cut or padded with zeros; None or -1 is its size.
        norm: "backward" (None) divides the inverse by the number of points, "forward" the transform, "ortho" both by its root.
    Shape: input (*); result (*) with the sizes `s` along `dim`, s // 2 + 1 along the last, complex.
    Raises:
        RuntimeError: when `s` and `dim` do not match, or a size, `norm` or the dtype is not supported, or `input` is complex.
        IndexError: when a dimension is out of range.

    >>> import tdt
    >>> tdt.fft.rfft2(tdt.ones(2, 4))
    tensor([[8.+0.j, 0.+0.j, 0.+0.j],
            [0.+0.j, 0.+0.j, 0.+0.j]])
    """
    return rfftn(input, s, dim, norm)


@calls_by_shape
@with_out(packed=True)
def irfft2(input: Tensor, s: Ints | None = None, dim: Dims = (-2, -1), norm: str | None = None) -> Tensor:
    """Inverse of `rfft2` along two dimensions: a real signal.

    Args:
        s: number of points along each of `dim`; None or -1 is the input's size, along the last 2 (size - 1).
        norm: "backward" (None) divides the inverse by the number of points, "forward" the transform, "ortho" both by its root.
    Shape: input (*); result (*) with the sizes `s` along `dim`, real.
    Raises:
        RuntimeError: when `s` and `dim` do not match, or a size, `norm` or the dtype is not supported.
        IndexError: when a dimension is out of range.

    >>> import tdt
    >>> tdt.fft.irfft2(tdt.fft.rfftn(tdt.ones(2, 2)))
    tensor([[1., 1.],
            [1., 1.]])
    """
    return irfftn(input, s, dim, norm)


@calls_by_shape
@with_out(packed=True)
def hfft2(input: Tensor, s: Ints | None = None, dim: Dims = (-2, -1), norm: str | None = None) -> Tensor:
    """Discrete Fourier transform of a Hermitian signal along two dimensions: `hfft` along the last, `fft` along the others.

    Args:
        s: number of points along each of `dim`; None or -1 is the input's size, along the last 2 (size - 1).
        norm: "backward" (None) divides the inverse by the number of points, "forward" the transform, "ortho" both by its root.
    Shape: input (*); result (*) with the sizes `s` along `dim`, real.
    Raises:
        RuntimeError: when `s` and `dim` do not match, or a size, `norm` or the dtype is not supported.
        IndexError: when a dimension is out of range.

    >>> import tdt
    >>> tdt.fft.hfft2(tdt.ones(2, 2))
    tensor([[4., 0.],
            [0., 0.]])
    """
    return hfftn(input, s, dim, norm)


@calls_by_shape
@with_out(packed=True)
def ihfft2(input: Tensor, s: Ints | None = None, dim: Dims = (-2, -1), norm: str | None = None) -> Tensor:
    """Inverse of `hfft2` along two dimensions.

    Args:
        s: number of points along each of `dim`: the input is cut or padded with zeros; None or -1 is its size.
        norm: "backward" (None) divides the inverse by the number of points, "forward" the transform, "ortho" both by its root.
    Shape: input (*); result (*) with the sizes `s` along `dim`, s // 2 + 1 along the last, complex.
    Raises:
        RuntimeError: when `s` and `dim` do not match, or a size, `norm` or the dtype is not supported, or `input` is complex.
        IndexError: when a dimension is out of range.

    >>> import tdt
    >>> tdt.fft.ihfft2(tdt.ones(2, 2)).real
    tensor([[1., 0.],
            [0., 0.]])
    """
    return ihfftn(input, s, dim, norm)


@front
@with_out(packed=True)
def fftfreq(
    n: int, d: float = 1.0, *, dtype: _dtype.dtype | None = None, layout: Layout | None = None,
    device: Device = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Frequencies of the points of `fft`: 0, 1, …, -2, -1 over n · d.

    Args:
        n: number of points.
        d: distance of the samples.
        dtype: None is the default dtype.
        layout, pin_memory: have no effect.
    Shape: result (n,).

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
    n: int, d: float = 1.0, *, dtype: _dtype.dtype | None = None, layout: Layout | None = None,
    device: Device = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Frequencies of the points of `rfft`: 0, 1, …, n // 2 over n · d.

    Args:
        n: number of points of the signal.
        d: distance of the samples.
        dtype: None is the default dtype.
        layout, pin_memory: have no effect.
    Shape: result (n // 2 + 1,).

    >>> import tdt
    >>> tdt.fft.rfftfreq(4)
    tensor([0.0000, 0.2500, 0.5000])
    """
    steps = arange(n // 2 + 1, dtype=dtype or _dtype.get_default_dtype(), device=device)
    return (steps * (1.0 / (n * d))).requires_grad_(requires_grad)


@calls_by_shape
def fftshift(input: Tensor, dim: Dims = None) -> Tensor:
    """`input` rolled so that the frequency 0 moves to the middle of each dimension in `dim`.

    Args:
        dim: None is all.
    Shape: input (*); result the same.
    Raises:
        IndexError: when a dimension is out of range.

    >>> import tdt
    >>> tdt.fft.fftshift(tdt.fft.fftfreq(4))
    tensor([-0.5000, -0.2500,  0.0000,  0.2500])
    """
    dims = dims_of(input, dim)
    return roll(input, [input.shape[i] // 2 for i in dims], dims)


@calls_by_shape
def ifftshift(input: Tensor, dim: Dims = None) -> Tensor:
    """Inverse of `fftshift`: moves the frequency 0 from the middle to the front.

    Args:
        dim: None is all.
    Shape: input (*); result the same.
    Raises:
        IndexError: when a dimension is out of range.

    >>> import tdt
    >>> tdt.fft.ifftshift(tdt.tensor([-0.5, -0.25, 0.0, 0.25]))
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    dims = dims_of(input, dim)
    return roll(input, [-(input.shape[i] // 2) for i in dims], dims)


in_namespace(__name__, globals())
