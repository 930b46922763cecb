"""stft and istft: PyTorch's numbers, gradients, warnings and errors, and signals that come back."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

import tdt
from tdt.autograd import gradcheck, gradgradcheck
from tests.helpers import require_torch

RNG = np.random.default_rng(0)
SIGNALS = {"one": RNG.standard_normal(31), "batch": RNG.standard_normal((2, 31)),
           "complex": RNG.standard_normal((2, 31)) + 1j * RNG.standard_normal((2, 31))}  # fmt: skip
SETTINGS = [
    {"n_fft": 8},
    {"n_fft": 7, "hop_length": 3, "normalized": True},
    {"n_fft": 8, "hop_length": 2, "win_length": 5},
    {"n_fft": 9, "hop_length": 4, "win_length": 6, "pad_mode": "constant"},
    {"n_fft": 8, "hop_length": 8, "center": False},
    {"n_fft": 8, "hop_length": 1, "pad_mode": "replicate"},
    {"n_fft": 8, "hop_length": 3, "pad_mode": "circular", "onesided": False},
    {"n_fft": 8, "hop_length": 3, "win_length": 4, "center": False, "align_to_window": True},
    {"n_fft": 8, "hop_length": 3, "win_length": 4, "center": False, "align_to_window": False},
]


def _run(lib, name, x, settings, **more):
    """What the library says, as an array, with its gradients by the input and by the window."""
    size = settings.get("win_length", settings["n_fft"])
    signal = lib.from_numpy(x).requires_grad_()
    window = lib.hann_window(size + 1, periodic=False, dtype=lib.float64)[:size].clone().requires_grad_()
    result = getattr(lib, name)(signal, window=window, **settings, **more)
    assert getattr(signal, name)(window=window, **settings, **more).equal(result)
    weights = lib.from_numpy(np.random.default_rng(1).standard_normal(result.shape))
    (result.abs() * weights).sum().backward()
    return result.detach(), signal.grad, window.grad


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("signal", SIGNALS)
def test_spectra_and_gradients_are_pytorchs(settings, signal):
    if signal == "complex":
        settings = {**settings, "onesided": False}
    torch = require_torch()
    for actual, expected in zip(*(_run(lib, "stft", SIGNALS[signal], settings, return_complex=True) for lib in (tdt, torch)),
                            strict=True):  # fmt: skip
        assert actual.shape == expected.shape
        assert actual.stride() == expected.stride()
        np.testing.assert_allclose(actual.numpy(), expected.numpy(), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("settings", "length"), [*itertools.product(SETTINGS[:4], (None, 20)), (SETTINGS[0], 40)], ids=str
)
@pytest.mark.parametrize("signal", SIGNALS)
@pytest.mark.filterwarnings("ignore:The length of signal is shorter")
def test_signals_and_gradients_back_are_pytorchs(settings, signal, length):
    torch = require_torch()
    window = torch.hann_window(settings.get("win_length", settings["n_fft"]), dtype=torch.float64)
    spectrum = torch.stft(torch.from_numpy(SIGNALS[signal]), window=window, **settings, return_complex=True).numpy()
    back = {k: v for k, v in settings.items() if k != "pad_mode"} | {"length": length}
    back["return_complex"] = signal == "complex"
    for actual, expected in zip(*(_run(lib, "istft", spectrum, back) for lib in (tdt, torch)), strict=True):
        assert actual.shape == expected.shape
        np.testing.assert_allclose(actual.resolve_conj().numpy(), expected.resolve_conj().numpy(), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("n_fft", "hop", "size", "normalized"), [*itertools.product([16, 15], [3, 5], [12], [True, False])]
)
@pytest.mark.parametrize("signal", SIGNALS)
def test_a_signal_round_trips(n_fft, hop, size, normalized, signal):
    x = tdt.from_numpy(SIGNALS[signal])
    how = {"n_fft": n_fft, "hop_length": hop, "win_length": size, "normalized": normalized,
           "window": tdt.hamming_window(size, dtype=tdt.float64)}  # fmt: skip
    spectrum = tdt.stft(x, **how, return_complex=True)
    back = tdt.istft(spectrum, **how, length=x.shape[-1], return_complex=x.is_complex())
    np.testing.assert_allclose(back.numpy(), x.numpy(), atol=1e-13)


def test_second_gradients():
    window = tdt.hamming_window(6, dtype=tdt.float64).requires_grad_()
    x = tdt.from_numpy(RNG.standard_normal((2, 9))).requires_grad_()
    forth = lambda x, w: tdt.stft(x, 6, 2, window=w, return_complex=True)  # noqa: E731
    there_and_back = lambda x, w: tdt.istft(forth(x, w) * (1 + x[0, 0]), 6, 2, window=w * w)  # noqa: E731
    for function in (forth, there_and_back):
        assert gradcheck(function, (x, window))
        assert gradgradcheck(function, (x, window))


def test_the_gradient_of_frames_reaches_every_dimension():
    torch = require_torch()
    data = RNG.standard_normal((7, 3, 5))
    for dim, size, step in itertools.product((0, 1, 2), (1, 3), (1, 2, 4)):
        grads = []
        for lib in (tdt, torch):
            x = lib.from_numpy(data).requires_grad_()
            (x.unfold(dim, size, step) ** 3).sum().backward()
            grads.append(x.grad.numpy())
        np.testing.assert_allclose(*grads, rtol=1e-14)


def test_real_pairs_as_in_old_code():
    x, window = tdt.from_numpy(SIGNALS["one"]), tdt.hann_window(8, dtype=tdt.float64)
    with pytest.warns(UserWarning, match="stft with return_complex=False is deprecated"):
        pairs = tdt.stft(x, 8, window=window, return_complex=False)
    assert pairs.equal(tdt.view_as_real(tdt.stft(x, 8, window=window, return_complex=True)))


def test_types_follow_signal_and_window():
    x, window = tdt.ones(20), tdt.hann_window(8)
    assert tdt.stft(x, 8, window=window, return_complex=True).dtype is tdt.complex64
    assert tdt.stft(x, 8, window=window.double(), return_complex=True).dtype is tdt.complex128
    assert tdt.stft(x, 8, window=window + 0j).shape == (8, 11)
    assert tdt.stft(x.to("meta"), 8, window=window.to("meta"), return_complex=True).shape == (5, 11)
    with tdt.autocast("cpu"):
        assert tdt.stft(x.bfloat16(), 8, window=window, return_complex=True).dtype is tdt.complex64
        assert tdt.fft.rfft(x.bfloat16()).dtype is tdt.complex64


@pytest.mark.parametrize("name", ["stft", "istft"])
def test_a_missing_window_warns_with_the_callers_line(name):
    x = tdt.ones(20) if name == "stft" else tdt.ones(5, 4) + 0j
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = getattr(tdt, name)(x, 8, return_complex=True) if name == "stft" else tdt.istft(x, 8)
    assert [str(w.message).partition(".")[0] for w in caught] == ["A window was not provided"]
    assert caught[0].filename == __file__
    same = {"window": tdt.ones(8), **({"return_complex": True} if name == "stft" else {})}
    assert result.equal(getattr(tdt, name)(x, 8, **same))


def test_a_signal_shorter_than_the_requested_length_is_padded_with_zeros():
    x, window = tdt.arange(20.0), tdt.hann_window(8)
    with pytest.warns(UserWarning, match="The length of signal is shorter than the length parameter"):
        back = tdt.istft(tdt.stft(x, 8, window=window, return_complex=True), 8, window=window, length=30)
    assert back.shape == (30,)
    assert back[24:].eq(0).all()


REFUSED = [
    ("stft(x, 8, window=h)", RuntimeError, "stft requires the return_complex parameter be given for real inputs"),
    ("stft(x, 8, window=h, center=True, align_to_window=True, return_complex=True)", RuntimeError,
     "stft align_to_window should only be set when center = false"),
    ("stft(c, 8, window=h, onesided=True)", RuntimeError, "Cannot have onesided output if window or input is complex"),
    ("stft(x, 8, 0, window=h, return_complex=True)", RuntimeError, "expected hop_length > 0, but got hop_length=0"),
    ("stft(x, 40, center=False, return_complex=True)", RuntimeError, "expected 0 < n_fft <=? 20"),
    ("stft(x, 40, return_complex=True)", RuntimeError, "Padding size should be less than the corresponding input dimension"),
    ("stft(x, 8, win_length=9, return_complex=True)", RuntimeError, "expected 0 < win_length <= n_fft, but got win_length=9"),
    ("stft(x, 8, win_length=6, window=h, return_complex=True)", RuntimeError,
     r"expected a 1D window tensor of size equal to win_length=6, but got window with size \[8\]"),
    ("stft(x.reshape(1, 2, 10), 8, window=h, return_complex=True)", RuntimeError, "expected a 1D or 2D tensor"),
    ("stft(x[0], 8, window=h, center=False, return_complex=True)", RuntimeError, "expected a 1D or 2D tensor"),
    ("stft(x.long(), 8, window=h, return_complex=True)", RuntimeError, "expected a tensor of floating point or complex values"),
    ("stft(x.half(), 8, window=h.half(), return_complex=True)", RuntimeError, "Half"),
    ("stft(x, 8, window='hann', return_complex=True)", TypeError, "stft"),
    ("istft(x, 8, window=h)", RuntimeError, "istft requires a complex-valued input tensor"),
    ("istft(S[None, None], 8, window=h)", RuntimeError, "expected a tensor with . or . dimensions"),
    ("istft(S[0], 8, window=h)", IndexError, "dimension|Dimension"),
    ("istft(S[:, :0], 8, window=h)", RuntimeError, "input tensor cannot be empty"),
    ("istft(S, 9, window=h)", RuntimeError, "Invalid window shape. window has to be 1D and length of `win_length`"),
    ("istft(S, 8, window=h, onesided=False)", RuntimeError, "to match n_fft when onesided=False, but got 5"),
    ("istft(S, 8, 9, window=h)", RuntimeError, "expected 0 < hop_length <= win_length"),
    ("istft(S, 8, win_length=9, window=h)", RuntimeError, "expected 0 < win_length <= n_fft"),
    ("istft(S, 8, window=h, center=False)", RuntimeError, "window overlap add min: 1"),
    ("istft(S, 8, window=h, length=0)", RuntimeError, "expected|Expected"),
    ("istft(S, 8, window=h, return_complex=True)", RuntimeError, "Cannot have onesided output if window or input is complex"),
    ("istft(S, 8, window=h + 0j)", RuntimeError, "Complex windows are incompatible with return_complex=False"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), REFUSED, ids=[call for call, *_ in REFUSED])
@pytest.mark.filterwarnings("ignore:A window was not provided", "ignore:ComplexHalf support is experimental")
def test_what_does_not_fit_is_refused_with_pytorchs_message(call, error, message):
    for lib in (tdt, require_torch()):
        x, h = lib.arange(20.0), lib.hann_window(8)
        names = {"x": x, "c": x + 0j, "h": h, "S": lib.stft(x, 8, window=h, return_complex=True)}
        with pytest.raises(error, match=message):
            eval(f"t.{call}", {"t": lib, **names})
