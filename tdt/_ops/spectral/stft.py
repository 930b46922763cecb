"""Short-time Fourier transform and its inverse."""

from __future__ import annotations

import warnings
from typing import Any

from tdt._core.creation import ones
from tdt._core.dtype import COMPLEX, FLOAT, SCALAR_NAMES
from tdt._core.methods import method
from tdt._core.tensor import Tensor
from tdt._ops._common import tensor_argument
from tdt._ops.elementwise.complex_numbers import view_as_real
from tdt._ops.nn.pad import constant_pad_nd, pad
from tdt._ops.spectral.fft import fft_c2c, fft_c2r, fft_r2c
from tdt._ops.spectral.frames import _unfold, overlap_add
from tdt.autograd._autocast import autocast

__all__ = ["istft", "stft"]


@method()
@autocast("float32")
def stft(
    input: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Tensor | None = None,
    center: bool = True, pad_mode: str = "reflect", normalized: bool = False, onesided: bool | None = None,
    return_complex: bool | None = None, align_to_window: bool | None = None,
) -> Tensor:  # fmt: skip
    """Short-time Fourier transform: the spectrum of each frame of a signal.

    Args:
        n_fft: points of a frame.
        hop_length: distance of the frames; None is n_fft // 4.
        win_length: points of the window, at most `n_fft`; None is `n_fft`. A shorter window is centred in the frame.
        window: factors of the points of a frame; None is ones, with a warning.
        center: frame t is centred at the point t · hop_length of the signal, which is padded by n_fft // 2 at both ends.
        pad_mode: mode of that padding, see `nn.functional.pad`.
        normalized: divide by √n_fft.
        onesided: return n_fft // 2 + 1 frequencies instead of all; None is True for real signals and windows.
        return_complex: must be given for a real signal; False (deprecated) returns real and imaginary parts in one more
            dimension.
        align_to_window: with center=False, the first window starts with the signal, not the first frame.
    Shape: input (time,) or (N, time), window (win_length,); result (frequencies, frames) or (N, frequencies, frames).
    Raises:
        RuntimeError: when arguments do not fit each other or the signal, or its dtype is not supported.
    Source: Allen and Rabiner, "A Unified Approach to Short-Time Fourier Analysis and Synthesis", 1977.

    >>> import tdt
    >>> tdt.stft(tdt.ones(8), 4, window=tdt.ones(4), center=False, return_complex=True).abs()
    tensor([[4., 4., 4., 4., 4.],
            [0., 0., 0., 0., 0.],
            [0., 0., 0., 0., 0.]])
    """
    tensor_argument("stft", input)
    if window is not None:
        tensor_argument("stft", window, "window", 5)
    if center and align_to_window is not None:
        raise RuntimeError("stft align_to_window should only be set when center = false")
    hop, size = n_fft // 4 if hop_length is None else hop_length, n_fft if win_length is None else win_length
    if return_complex is None and not (input.is_complex() or (window is not None and window.is_complex())):
        raise RuntimeError(
            "stft requires the return_complex parameter be given for real inputs; give return_complex=True, and take "
            "view_as_real() of the result for real and imaginary parts"
        )
    if return_complex is False:
        _warn("stft with return_complex=False is deprecated; take view_as_real() of the complex result")
    x = _signal(input, n_fft, hop, size, window, n_fft // 2 if center else 0, pad_mode)
    if window is None:
        _warn(
            "A window was not provided. All points of a frame count alike, which blurs the spectrum; give "
            "window=tdt.hann_window(n_fft), or tdt.ones(n_fft) for no window"
        )
    if align_to_window:
        x = constant_pad_nd(x, _sides(size, n_fft))
    x = _unfold(x, dim=1, size=n_fft, step=hop)  # (batch, frames, n_fft)
    if window is not None or size < n_fft:
        x = x * _whole_window(window, size, n_fft, x)
    if x.dtype.itemsize == 2:
        raise RuntimeError(
            f"Unsupported dtype {SCALAR_NAMES[x.dtype]}: stft takes float32, float64 and complex numbers"
        )
    spectra = _transform(x, onesided, "ortho" if normalized else "backward")
    spectra = spectra.transpose(1, 2) if input.ndim == 2 else spectra[0].T
    return view_as_real(spectra) if return_complex is False else spectra


def _transform(frames: Tensor, onesided: bool | None, norm: str) -> Tensor:
    """The spectra of frames (N, frames, n_fft). RuntimeError for half of the spectrum of complex ones."""
    if frames.is_complex():
        if onesided:
            raise RuntimeError("Cannot have onesided output if window or input is complex")
        return fft_c2c(frames, dims=(2,), norm=norm, forward=True)
    if onesided is False:
        return fft_c2c(frames.to(frames.dtype.to_complex()), dims=(2,), norm=norm, forward=True)
    return fft_r2c(frames, dims=(2,), norm=norm)


def _signal(x: Tensor, n_fft: int, hop: int, size: int, window: Tensor | None, border: int, mode: str) -> Tensor:
    """The signal with a batch dimension and its borders. RuntimeError where stft cannot cut it into frames."""
    what = f"stft({x.type()}{list(x.shape)}, n_fft={n_fft}, hop_length={hop}, win_length={size}): expected"
    if x.dtype.category not in (FLOAT, COMPLEX):
        raise RuntimeError(f"{what} a tensor of floating point or complex values")
    if x.ndim not in (1, 2):
        raise RuntimeError(f"{what} a 1D or 2D tensor: (time) or (batch, time)")
    signal = x if x.ndim == 2 else x.unsqueeze(0)
    if border > 0:
        signal = pad(signal.unsqueeze(0), (border, border), mode).squeeze(0)
    if not 0 < n_fft <= signal.shape[1]:
        raise RuntimeError(f"{what} 0 < n_fft <= {signal.shape[1]}, the length of the signal, but got n_fft={n_fft}")
    if hop <= 0:
        raise RuntimeError(f"{what} hop_length > 0, but got hop_length={hop}")
    if not 0 < size <= n_fft:
        raise RuntimeError(f"{what} 0 < win_length <= n_fft, but got win_length={size}")
    if window is not None and window.shape != (size,):
        raise RuntimeError(
            f"{what} a 1D window tensor of size equal to win_length={size}, but got window with size {list(window.shape)}"
        )
    return signal


@method()
@autocast("keep")
def istft(
    input: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Tensor | None = None,
    center: bool = True, normalized: bool = False, onesided: bool | None = None, length: int | None = None,
    return_complex: bool = False,
) -> Tensor:  # fmt: skip
    """Signal whose `stft` with the same arguments is closest to `input` in the least-squares sense.

    Args:
        n_fft, hop_length, win_length, window, center, normalized, onesided: as for `stft`.
        length: points of the result; None is as many as the frames cover.
        return_complex: whether the signal is complex.
    Shape: input (frequencies, frames) or (N, frequencies, frames), complex, window (win_length,); result (time,) or
        (N, time).
    Raises:
        RuntimeError: when arguments do not fit each other or the input, or the windows leave a point without weight.
    Source: Griffin and Lim, "Signal Estimation from Modified Short-Time Fourier Transform", 1984.

    >>> import tdt
    >>> window, x = tdt.hann_window(4), tdt.arange(8.0)
    >>> tdt.istft(tdt.stft(x, 4, window=window, return_complex=True), 4, window=window)
    tensor([0., 1., 2., 3., 4., 5., 6., 7.])
    """
    tensor_argument("istft", input)
    if window is not None:
        tensor_argument("istft", window, "window", 5)
    hop, size = n_fft // 4 if hop_length is None else hop_length, n_fft if win_length is None else win_length
    if window is None:
        _warn(
            "A window was not provided. All points of a frame count alike; give the window that stft had, or "
            "tdt.ones(n_fft) if it had none"
        )
    what = f"istft({input.type()}{list(input.shape)}, n_fft={n_fft}, hop_length={hop}, win_length={size}, {center=})"
    half = _check_spectrum(f"{what}: ", input, n_fft, hop, size, window, onesided)
    x, norm = input.transpose(-1, -2), "ortho" if normalized else "backward"
    x = x.unsqueeze(0) if input.ndim == 2 else x  # (batch, frames, frequencies)
    if return_complex:
        if half:
            raise RuntimeError("Cannot have onesided output if window or input is complex")
        x = fft_c2c(x, dims=(2,), norm=norm, forward=False)
    else:
        if window is not None and window.is_complex():
            raise RuntimeError("Complex windows are incompatible with return_complex=False")
        x = fft_c2r(x if half else x[..., : n_fft // 2 + 1], dims=(2,), norm=norm, n=n_fft)
    n = n_fft + hop * (x.shape[1] - 1)
    start = n_fft // 2 if center else 0
    end = n - start if length is None else start + length
    if end <= start:
        raise RuntimeError(f"{what}: expected a signal of at least 1 point, but got {end - start}")
    signal = _joined(what, x, _whole_window(window, size, n_fft, x), hop, slice(start, end))
    if end > n:
        _warn(
            "The length of signal is shorter than the length parameter. Result is being padded with zeros in the tail. "
            "Please check your center and hop_length settings."
        )
        signal = constant_pad_nd(signal, (0, end - n))
    return signal if input.ndim == 3 else signal.squeeze(0)


def _joined(what: str, x: Tensor, window: Tensor, hop: int, part: slice) -> Tensor:
    """`part` of the signal that frames (batch, frames, n_fft) give; RuntimeError where it has points under no window."""
    frames, n_fft = x.shape[1:]
    n = n_fft + hop * (frames - 1)
    cover = overlap_add(window.square().expand(1, frames, n_fft), dim=1, step=hop, n=n)[:, part]
    if cover.device.type != "meta" and bool((cover.abs() < 1e-11).any()):
        raise RuntimeError(
            f"{what} window overlap add min: 1 or more points are under no frame, or where all windows are 0; a smaller "
            "hop_length, center=True or another window covers them"
        )
    return overlap_add(x * window, dim=1, step=hop, n=n)[:, part] / cover


def _check_spectrum(
    what: str, x: Tensor, n_fft: int, hop: int, size: int, window: Tensor | None, onesided: bool | None
) -> bool:
    """Whether x has the frequencies of one side. RuntimeError where it, or a setting, does not fit the others."""
    if not x.is_complex():
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with return_complex=True."
        )
    if x.ndim not in (2, 3):
        error = IndexError if x.ndim < 2 else RuntimeError
        raise error(f"{what}expected a tensor with 2 or 3 dimensions, (batch, frequency, frame), but got {x.ndim}")
    if not x.numel():
        raise RuntimeError(f"{what}input tensor cannot be empty.")
    count = x.shape[-2]
    half = count != n_fft if onesided is None else onesided
    if count != (n_fft // 2 + 1 if half else n_fft):
        expected = "n_fft / 2 + 1" if half else "n_fft"
        raise RuntimeError(
            f"{what}expected the frequency dimension (next to last) of the input tensor to match {expected} when "
            f"onesided={half}, but got {count}"
        )
    if not 0 < hop <= size:
        raise RuntimeError(f"{what}expected 0 < hop_length <= win_length")
    if not 0 < size <= n_fft:
        raise RuntimeError(f"{what}expected 0 < win_length <= n_fft")
    if window is not None and window.shape != (size,):
        raise RuntimeError(
            f"{what}Invalid window shape. window has to be 1D and length of `win_length`, but got {list(window.shape)}"
        )
    return half


def _sides(size: int, n_fft: int) -> tuple[int, int]:
    """What a window of `size` points in the middle of a frame leaves free before and behind it."""
    left = (n_fft - size) // 2
    return left, n_fft - size - left


def _whole_window(window: Tensor | None, size: int, n_fft: int, x: Tensor) -> Tensor:
    """The window, by default of ones, in the middle of a frame of zeros."""
    if window is None:
        window = ones(size, dtype=x.dtype.to_real(), device=x.device)
    return window if size == n_fft else constant_pad_nd(window, _sides(size, n_fft))


def _warn(message: str) -> Any:
    warnings.warn(message, stacklevel=4)  # the line that calls the function, beyond the wrapper of `@autocast`
