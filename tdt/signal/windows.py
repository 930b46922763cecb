"""Windows under PyTorch's names: `hann`, `kaiser`, `gaussian`, …

`M`: the number of points. `sym`: a window that is the same from either end, for filters; sym=False gives the first M points
of one of M + 1, which repeats without a seam, for spectra. Float32 or float64 (default: the default dtype); ValueError for
another dtype, a negative M, or a parameter that makes no window. With `requires_grad` the points at which the window is
taken require it, as in PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from tdt import Tensor
from tdt._core import dtype as _dtype
from tdt._core.creation import ones
from tdt._core.creation import tensor as as_new_tensor
from tdt._core.dtype import dtype as Dtype
from tdt._core.layout import strided
from tdt._core.ranges import arange, linspace
from tdt._ops.elementwise.special import i0

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming", "hann",
    "kaiser", "nuttall",
]  # fmt: skip


class _How:
    """The options that all windows share, checked: what their tensors are made with."""

    def __init__(self, name: str, M: int, dtype: Dtype | None, layout: Any, device: Any, requires_grad: bool):
        dtype = _dtype.get_default_dtype() if dtype is None else _dtype.as_dtype(dtype)
        if M < 0:
            raise ValueError(f"{name} requires non-negative window length, got M={M}")
        if layout is not strided:
            raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
        if dtype not in (_dtype.float32, _dtype.float64):
            raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
        self.options = {"dtype": dtype, "device": device, "requires_grad": requires_grad}
        self.M = M

    def points(self, start: Any, end: Any) -> Tensor:
        return linspace(start, end, self.M, **self.options)

    def ones(self) -> Tensor:
        return ones(self.M, **self.options)


def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, dtype: Dtype | None = None,
    layout: Any = strided, device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """exp(-|n - center| / tau) (Poisson's); another center than the middle is for sym=False alone.

    >>> import tdt
    >>> tdt.signal.windows.exponential(3)
    tensor([0.3679, 1.0000, 0.3679])
    """
    how = _How("exponential", M, dtype, layout, device, requires_grad)
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    if M == 0:
        return how.ones()
    center = _end(M, sym) / 2 if center is None else center
    return (-how.points(-center / tau, (M - 1 - center) / tau).abs()).exp()


def cosine(
    M: int, *, sym: bool = True, dtype: Dtype | None = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """sin(π (n + 0.5) / M): half a wave, without the zeros at its ends.

    >>> import tdt
    >>> tdt.signal.windows.cosine(3)
    tensor([0.5000, 1.0000, 0.5000])
    """
    how = _How("cosine", M, dtype, layout, device, requires_grad)
    if M == 0:
        return how.ones()
    step = math.pi / (_end(M, sym) + 1)
    return how.points(0.5 * step, (M - 0.5) * step).sin()


def gaussian(
    M: int, *, std: float = 1.0, sym: bool = True, dtype: Dtype | None = None, layout: Any = strided,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """exp(-n² / 2std²), n counted from the middle.

    >>> import tdt
    >>> tdt.signal.windows.gaussian(3)
    tensor([0.6065, 1.0000, 0.6065])
    """
    how = _How("gaussian", M, dtype, layout, device, requires_grad)
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    if M == 0:
        return how.ones()
    start, scale = -_end(M, sym) / 2, 1 / (std * math.sqrt(2))
    return (-how.points(start * scale, (start + M - 1) * scale).square()).exp()


def kaiser(
    M: int, *, beta: float = 12.0, sym: bool = True, dtype: Dtype | None = None, layout: Any = strided,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """I₀(beta · √(1 - (2n/N - 1)²)) / I₀(beta) (Kaiser, 1974): the larger beta, the smaller the side lobes.

    >>> import tdt
    >>> tdt.signal.windows.kaiser(3, beta=2.0)
    tensor([0.4387, 1.0000, 0.4387])
    """
    how = _How("kaiser", M, dtype, layout, device, requires_grad)
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    if M < 2:
        return how.ones()
    # Rounded before anything else, so that no point lies outside of it, where the root would be NaN.
    top = as_new_tensor(beta, dtype=how.options["dtype"], device=device)
    points = how.points(-top, top.minimum((M - 1) * (2 * top / _end(M, sym)) - top))
    return i0((top * top - points.square()).sqrt()) / i0(top)


def bartlett(
    M: int, *, sym: bool = True, dtype: Dtype | None = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A triangle from 0 to 1 and back to 0.

    >>> import tdt
    >>> tdt.signal.windows.bartlett(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    how = _How("bartlett", M, dtype, layout, device, requires_grad)
    if M < 2:
        return how.ones()
    return 1 - how.points(-1, (M - 1) * (2 / _end(M, sym)) - 1).abs()


def general_cosine(
    M: int, *, a: Iterable[float], sym: bool = True, dtype: Dtype | None = None, layout: Any = strided,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Σ (-1)ⁱ a[i] cos(2πi n/N).

    >>> import tdt
    >>> tdt.signal.windows.general_cosine(3, a=[0.5, 0.5])
    tensor([0., 1., 0.])
    """
    how = _How("general_cosine", M, dtype, layout, device, requires_grad)
    if M < 2:
        return how.ones()
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    weights = as_new_tensor([(-1) ** i * w for i, w in enumerate(a)], **how.options)
    if not len(weights):
        raise ValueError("Coefficients cannot be empty")
    points = how.points(0, (M - 1) * (2 * math.pi / _end(M, sym)))
    waves = arange(len(weights), **how.options).unsqueeze(-1) * points  # (coefficients, M)
    return (weights.unsqueeze(-1) * waves.cos()).sum(0)


def general_hamming(
    M: int, *, alpha: float = 0.54, sym: bool = True, dtype: Dtype | None = None, layout: Any = strided,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """alpha - (1 - alpha) cos(2πn/N).

    >>> import tdt
    >>> tdt.signal.windows.general_hamming(3, alpha=0.75)
    tensor([0.5000, 1.0000, 0.5000])
    """
    return general_cosine(
        M, a=(alpha, 1 - alpha), sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


def _end(M: int, sym: bool) -> int:
    """Where a window of M points that begins at 0 ends: at its last point, or behind it."""
    return M - 1 if sym or M == 1 else M


def _sum_of_cosines(name: str, a: tuple[float, ...], what: str, example: str) -> Callable[..., Tensor]:
    def window(
        M: int, *, sym: bool = True, dtype: Dtype | None = None, layout: Any = strided, device: Any = None,
        requires_grad: bool = False,
    ) -> Tensor:  # fmt: skip
        return general_cosine(M, a=a, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)

    window.__name__ = window.__qualname__ = name
    window.__doc__ = f"""{what}

    >>> import tdt
    >>> tdt.signal.windows.{name}(3).round(decimals=4).abs()
    tensor({example})
    """
    return window


hamming = _sum_of_cosines("hamming", (0.54, 1 - 0.54), "0.54 - 0.46 cos(2πn/N) (Hamming).", "[0.0800, 1.0000, 0.0800]")
hann = _sum_of_cosines("hann", (0.5, 0.5), "0.5 - 0.5 cos(2πn/N) (von Hann).", "[0., 1., 0.]")
blackman = _sum_of_cosines(
    "blackman", (0.42, 0.5, 0.08), "0.42 - 0.5 cos(2πn/N) + 0.08 cos(4πn/N) (Blackman and Tukey, 1958).", "[0., 1., 0.]"
)
nuttall = _sum_of_cosines(
    "nuttall",
    (0.3635819, 0.4891775, 0.1365995, 0.0106411),
    "The sum of four cosines whose side lobes are the lowest (Nuttall, 1981).",
    "[4.0000e-04, 1.0000e+00, 4.0000e-04]",
)
