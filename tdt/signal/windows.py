"""Window functions under PyTorch's names: `hann`, `kaiser`, `gaussian`, …

`M` is the number of points; N in the formulas is M - 1 for a symmetric window, M for a periodic one. With `requires_grad`
the positions at which the window is evaluated require it, as in PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from tdt import Tensor
from tdt._core import dtype as _dtype
from tdt._core.creation import ones
from tdt._core.creation import tensor as as_new_tensor
from tdt._core.dtype import dtype as Dtype
from tdt._core.layout import layout as Layout
from tdt._core.layout import strided
from tdt._core.ranges import arange, linspace
from tdt._ops._common import Device
from tdt._ops.elementwise.special import i0

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming", "hann",
    "kaiser", "nuttall",
]  # fmt: skip


class _Options:
    """Checked arguments that all windows share. ValueError for a length, layout or dtype that is not supported."""

    def __init__(self, name: str, M: int, dtype: Dtype | None, layout: Layout, device: Device, requires_grad: bool):
        dtype = _dtype.get_default_dtype() if dtype is None else _dtype.as_dtype(dtype)
        if M < 0:
            raise ValueError(f"{name} requires non-negative window length, got M={M}")
        if layout is not strided:
            raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
        if dtype not in (_dtype.float32, _dtype.float64):
            raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
        self.tensor_options: dict[str, Any] = {"dtype": dtype, "device": device, "requires_grad": requires_grad}
        self.M = M

    def points(self, start: Any, end: Any) -> Tensor:
        return linspace(start, end, self.M, **self.tensor_options)

    def ones(self) -> Tensor:
        return ones(self.M, **self.tensor_options)


def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, dtype: Dtype | None = None,
    layout: Layout = strided, device: Device = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Exponential (Poisson) window: exp(-|n - center| / tau).

    Args:
        center: None is the middle; must be None with `sym`.
        tau: decay constant.
        sym: symmetric window, for filters; False gives a periodic one, for spectra.
        dtype: float32 or float64; None is the default dtype.
    Shape: result (M,).
    Raises:
        ValueError: when M is negative, `tau` not positive, `center` given with `sym`, or dtype or layout not supported.

    >>> import tdt
    >>> tdt.signal.windows.exponential(3)
    tensor([0.3679, 1.0000, 0.3679])
    """
    options = _Options("exponential", M, dtype, layout, device, requires_grad)
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    if M == 0:
        return options.ones()
    center = _last_position(M, sym) / 2 if center is None else center
    return (-options.points(-center / tau, (M - 1 - center) / tau).abs()).exp()


def cosine(
    M: int, *, sym: bool = True, dtype: Dtype | None = None, layout: Layout = strided, device: Device = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Cosine window: sin(π (n + 0.5) / M), half a wave without the zeros at its ends.

    Args:
        sym: symmetric window, for filters; False gives a periodic one, for spectra.
        dtype: float32 or float64; None is the default dtype.
    Shape: result (M,).
    Raises:
        ValueError: when M is negative, or the dtype or layout is not supported.

    >>> import tdt
    >>> tdt.signal.windows.cosine(3)
    tensor([0.5000, 1.0000, 0.5000])
    """
    options = _Options("cosine", M, dtype, layout, device, requires_grad)
    if M == 0:
        return options.ones()
    step = math.pi / (_last_position(M, sym) + 1)
    return options.points(0.5 * step, (M - 0.5) * step).sin()


def gaussian(
    M: int, *, std: float = 1.0, sym: bool = True, dtype: Dtype | None = None, layout: Layout = strided,
    device: Device = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Gaussian window: exp(-n² / (2 std²)), n counted from the middle.

    Args:
        std: standard deviation.
        sym: symmetric window, for filters; False gives a periodic one, for spectra.
        dtype: float32 or float64; None is the default dtype.
    Shape: result (M,).
    Raises:
        ValueError: when M is negative, `std` is not positive, or the dtype or layout is not supported.

    >>> import tdt
    >>> tdt.signal.windows.gaussian(3)
    tensor([0.6065, 1.0000, 0.6065])
    """
    options = _Options("gaussian", M, dtype, layout, device, requires_grad)
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    if M == 0:
        return options.ones()
    start, scale = -_last_position(M, sym) / 2, 1 / (std * math.sqrt(2))
    return (-options.points(start * scale, (start + M - 1) * scale).square()).exp()


def kaiser(
    M: int, *, beta: float = 12.0, sym: bool = True, dtype: Dtype | None = None, layout: Layout = strided,
    device: Device = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Kaiser window: I₀(beta · √(1 - (2n/N - 1)²)) / I₀(beta).

    Args:
        beta: the larger, the lower the side lobes and the wider the main lobe.
        sym: symmetric window, for filters; False gives a periodic one, for spectra.
        dtype: float32 or float64; None is the default dtype.
    Shape: result (M,).
    Raises:
        ValueError: when M is negative, `beta` is negative, or the dtype or layout is not supported.
    Source: Kaiser, "Nonrecursive Digital Filter Design Using the I₀-sinh Window Function", 1974.

    >>> import tdt
    >>> tdt.signal.windows.kaiser(3, beta=2.0)
    tensor([0.4387, 1.0000, 0.4387])
    """
    options = _Options("kaiser", M, dtype, layout, device, requires_grad)
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    if M < 2:
        return options.ones()
    # Rounded before anything else, so that no point lies outside of it, where the root would be NaN.
    top = as_new_tensor(beta, dtype=options.tensor_options["dtype"], device=device)
    points = options.points(-top, top.minimum((M - 1) * (2 * top / _last_position(M, sym)) - top))
    return i0((top * top - points.square()).sqrt()) / i0(top)


def bartlett(
    M: int, *, sym: bool = True, dtype: Dtype | None = None, layout: Layout = strided, device: Device = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Bartlett window: a triangle from 0 to 1 and back to 0.

    Args:
        sym: symmetric window, for filters; False gives a periodic one, for spectra.
        dtype: float32 or float64; None is the default dtype.
    Shape: result (M,).
    Raises:
        ValueError: when M is negative, or the dtype or layout is not supported.

    >>> import tdt
    >>> tdt.signal.windows.bartlett(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    options = _Options("bartlett", M, dtype, layout, device, requires_grad)
    if M < 2:
        return options.ones()
    return 1 - options.points(-1, (M - 1) * (2 / _last_position(M, sym)) - 1).abs()


def general_cosine(
    M: int, *, a: Iterable[float], sym: bool = True, dtype: Dtype | None = None, layout: Layout = strided,
    device: Device = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Weighted sum of cosines: Σ (-1)ⁱ a[i] cos(2πi n/N).

    Args:
        a: the weights.
        sym: symmetric window, for filters; False gives a periodic one, for spectra.
        dtype: float32 or float64; None is the default dtype.
    Shape: result (M,).
    Raises:
        ValueError: when M is negative, `a` is empty, or the dtype or layout is not supported.
        TypeError: when `a` is not iterable.

    >>> import tdt
    >>> tdt.signal.windows.general_cosine(3, a=[0.5, 0.5])
    tensor([0., 1., 0.])
    """
    options = _Options("general_cosine", M, dtype, layout, device, requires_grad)
    if M < 2:
        return options.ones()
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    weights = as_new_tensor([(-1) ** i * w for i, w in enumerate(a)], **options.tensor_options)
    if not len(weights):
        raise ValueError("Coefficients cannot be empty")
    points = options.points(0, (M - 1) * (2 * math.pi / _last_position(M, sym)))
    waves = arange(len(weights), **options.tensor_options).unsqueeze(-1) * points  # (coefficients, M)
    return (weights.unsqueeze(-1) * waves.cos()).sum(0)


def general_hamming(
    M: int, *, alpha: float = 0.54, sym: bool = True, dtype: Dtype | None = None, layout: Layout = strided,
    device: Device = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Generalised Hamming window: alpha - (1 - alpha) cos(2πn/N).

    Args:
        sym: symmetric window, for filters; False gives a periodic one, for spectra.
        dtype: float32 or float64; None is the default dtype.
    Shape: result (M,).
    Raises:
        ValueError: when M is negative, or the dtype or layout is not supported.

    >>> import tdt
    >>> tdt.signal.windows.general_hamming(3, alpha=0.75)
    tensor([0.5000, 1.0000, 0.5000])
    """
    return general_cosine(
        M, a=(alpha, 1 - alpha), sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


def _last_position(M: int, sym: bool) -> int:
    """Position at which a window that starts at 0 ends: that of its last point, or of the next one unless `sym`."""
    return M - 1 if sym or M == 1 else M


def hamming(
    M: int, *, sym: bool = True, dtype: Dtype | None = None, layout: Layout = strided, device: Device = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Hamming window: 0.54 - 0.46 cos(2πn/N).

    Args:
        sym: symmetric window, for filters; False gives a periodic one, for spectra.
        dtype: float32 or float64; None is the default dtype.
    Shape: result (M,).
    Raises:
        ValueError: when M is negative, or the dtype or layout is not supported.
    Source: Blackman and Tukey, "The Measurement of Power Spectra", 1958.

    >>> import tdt
    >>> tdt.signal.windows.hamming(3).round(decimals=4).abs()
    tensor([0.0800, 1.0000, 0.0800])
    """
    a = (0.54, 1 - 0.54)
    return general_cosine(M, a=a, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


def hann(
    M: int, *, sym: bool = True, dtype: Dtype | None = None, layout: Layout = strided, device: Device = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Hann window: 0.5 - 0.5 cos(2πn/N).

    Args:
        sym: symmetric window, for filters; False gives a periodic one, for spectra.
        dtype: float32 or float64; None is the default dtype.
    Shape: result (M,).
    Raises:
        ValueError: when M is negative, or the dtype or layout is not supported.
    Source: Blackman and Tukey, "The Measurement of Power Spectra", 1958.

    >>> import tdt
    >>> tdt.signal.windows.hann(3).round(decimals=4).abs()
    tensor([0., 1., 0.])
    """
    a = (0.5, 0.5)
    return general_cosine(M, a=a, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


def blackman(
    M: int, *, sym: bool = True, dtype: Dtype | None = None, layout: Layout = strided, device: Device = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Blackman window: 0.42 - 0.5 cos(2πn/N) + 0.08 cos(4πn/N).

    Args:
        sym: symmetric window, for filters; False gives a periodic one, for spectra.
        dtype: float32 or float64; None is the default dtype.
    Shape: result (M,).
    Raises:
        ValueError: when M is negative, or the dtype or layout is not supported.
    Source: Blackman and Tukey, "The Measurement of Power Spectra", 1958.

    >>> import tdt
    >>> tdt.signal.windows.blackman(3).round(decimals=4).abs()
    tensor([0., 1., 0.])
    """
    a = (0.42, 0.5, 0.08)
    return general_cosine(M, a=a, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


def nuttall(
    M: int, *, sym: bool = True, dtype: Dtype | None = None, layout: Layout = strided, device: Device = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Nuttall window: a weighted sum of four cosines with low side lobes.

    Args:
        sym: symmetric window, for filters; False gives a periodic one, for spectra.
        dtype: float32 or float64; None is the default dtype.
    Shape: result (M,).
    Raises:
        ValueError: when M is negative, or the dtype or layout is not supported.
    Source: Nuttall, "Some Windows with Very Good Sidelobe Behavior", 1981.

    >>> import tdt
    >>> tdt.signal.windows.nuttall(3).round(decimals=4).abs()
    tensor([4.0000e-04, 1.0000e+00, 4.0000e-04])
    """
    a = (0.3635819, 0.4891775, 0.1365995, 0.0106411)
    return general_cosine(M, a=a, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)
