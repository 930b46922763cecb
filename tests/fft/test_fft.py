"""tdt.fft beyond the op database: frequencies, the inverse of the inverse, gradients of what is cut and filled, errors."""

from __future__ import annotations

import numpy as np
import pytest

import tdt
from tdt import _kernels
from tdt._ops.spectral import fft as spectral
from tdt.autograd import gradcheck, gradgradcheck
from tests.helpers import require_torch

RNG = np.random.default_rng(0)
PAIRS = [("fft", "ifft"), ("rfft", "irfft"), ("ihfft", "hfft"), ("fft2", "ifft2"), ("rfft2", "irfft2"), ("ihfft2", "hfft2"),
         ("fftn", "ifftn"), ("rfftn", "irfftn"), ("ihfftn", "hfftn")]  # fmt: skip


@pytest.mark.parametrize("n", [1, 2, 7, 8])
@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
def test_frequencies_are_pytorchs(name, n):
    torch = require_torch()
    for spacing, kind in ((1.0, None), (0.3, None), (1.0, "float64")):
        ours, theirs = (getattr(lib.fft, name)(n, spacing, dtype=kind and getattr(lib, kind)) for lib in (tdt, torch))
        assert ours.tolist() == theirs.tolist()
        assert str(ours.dtype) == str(theirs.dtype).replace("torch", "tdt")


@pytest.mark.parametrize(("there", "back"), PAIRS)
@pytest.mark.parametrize("norm", [None, "forward", "ortho"])
def test_a_signal_round_trips(there, back, norm):
    x = tdt.from_numpy(RNG.standard_normal((3, 4, 6)))
    returned = getattr(tdt.fft, back)(getattr(tdt.fft, there)(x, norm=norm), norm=norm)
    np.testing.assert_allclose(returned.resolve_conj().numpy(), x.numpy(), atol=1e-14)


@pytest.mark.parametrize(("there", "back"), PAIRS[:3])
@pytest.mark.parametrize("n", [3, 5, 6, 9])
def test_second_gradients_through_cut_and_filled_signals(there, back, n):
    x = tdt.from_numpy(RNG.standard_normal((2, 6))).requires_grad_()
    for function in (lambda x: getattr(tdt.fft, there)(x, n=n, norm="ortho"),
                     lambda x: getattr(tdt.fft, back)(tdt.complex(x, x * x), n=n)):  # fmt: skip
        assert gradcheck(function, (x,))
        assert gradgradcheck(function, (x,))


def test_types_follow_the_input():
    for dtype, complexes in ((tdt.float32, tdt.complex64), (tdt.float64, tdt.complex128), (tdt.int64, tdt.complex64)):
        x = tdt.ones(4, dtype=dtype)
        assert tdt.fft.fft(x).dtype is complexes
        assert tdt.fft.rfft(x).dtype is complexes
        assert tdt.fft.irfft(x).dtype is complexes.to_real()


def test_a_large_transform_is_numpys_in_either_precision():
    x = RNG.standard_normal((3, 1009))
    expected = np.fft.rfft(x)
    assert abs(tdt.fft.rfft(tdt.from_numpy(x)).numpy() - expected).max() < 1e-11
    assert abs(tdt.fft.rfft(tdt.from_numpy(x.astype(np.float32))).numpy() - expected).max() < 1e-3


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: tdt.fft.fft(tdt.ones(3).half()), RuntimeError, "Unsupported dtype Half"),
        (lambda: tdt.fft.fft(tdt.ones(3), norm="both"), RuntimeError, 'Invalid normalization mode: "both"'),
        (lambda: tdt.fft.fft(tdt.ones(3), n=0), RuntimeError, r"Invalid number of data points \(0\)"),
        (lambda: tdt.fft.irfft(tdt.ones(1)), RuntimeError, r"Invalid number of data points \(0\)"),
        (lambda: tdt.fft.fft(tdt.ones(())), IndexError, "no dimensions"),
        (lambda: tdt.fft.rfft(tdt.ones(3) + 0j), RuntimeError, "rfft expects a real input tensor, but got ComplexFloat"),
        (lambda: tdt.fft.fftn(tdt.ones(3, 3), dim=(0, -2)), RuntimeError, "FFT dims must be unique"),
        (lambda: tdt.fft.fftn(tdt.ones(3), s=(3, 3)), RuntimeError, "Got shape with 2 values"),
        (lambda: tdt.fft.fftn(tdt.ones(3, 3), s=(3,), dim=(0, 1)), RuntimeError, "must have the same length"),
    ],
)  # fmt: skip
def test_what_cannot_be_transformed_is_refused_with_pytorchs_message(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_later_calls_of_a_size_are_as_the_first_and_as_pytorchs(name, kind):
    torch = require_torch()
    for n, dim in ((None, -1), (5, -1), (12, -1), (None, 0), (6, 0)):
        for k in range(4):
            array = RNG.standard_normal((3, 4, 8)).astype(kind)
            recorded, results = k >= 2, []
            for lib in (tdt, torch):
                x = lib.from_numpy(array.transpose(0, 2, 1) if k == 3 else array).requires_grad_(recorded)
                y = getattr(lib.fft, name)(x, n=n, dim=dim)
                if recorded:
                    (y.abs() ** 2).sum().backward()
                results.append([y.detach().resolve_conj().numpy(), x.grad.numpy() if recorded else 0])
            for ours, theirs in zip(*results, strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4 if kind == "float32" else 1e-10)


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft"])
def test_calls_that_are_repeated_give_scipys_values(name, elsewhere, monkeypatch):
    scipy_fft = pytest.importorskip("scipy.fft")
    if elsewhere:
        monkeypatch.setattr(spectral, "_pocketfft", lambda: None)
    spectral._of_last.cache_clear()
    _kernels.forget()
    x = RNG.standard_normal((3, 5, 8)).astype("f")
    x = x if name == "rfft" else (x + 1j * RNG.standard_normal(x.shape)).astype("F")
    for _ in range(3):
        for norm in ("backward", "forward", "ortho", None):
            for arguments in ({}, {"dim": 1}, {"n": 6}, {"n": 11, "dim": 0}):
                found = getattr(tdt.fft, name)(tdt.from_numpy(x), norm=norm, **arguments)
                axis = {"n": arguments.get("n"), "axis": arguments.get("dim", -1)}
                expected = getattr(scipy_fft, name)(x, norm=norm, **axis)
                np.testing.assert_array_equal(found.numpy(), expected, strict=True)
    spectral._of_last.cache_clear()
    _kernels.forget()


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "fft2"])
def test_repeated_calls_along_several_dimensions_give_scipys_values(name, elsewhere, monkeypatch):
    torch = require_torch()
    scipy_fft = pytest.importorskip("scipy.fft")
    if elsewhere:
        monkeypatch.setattr(spectral, "_pocketfft", lambda: None)
    spectral._of_last.cache_clear()
    _kernels.forget()
    x = RNG.standard_normal((3, 4, 8)).astype("f")
    for array in (x, x.transpose(0, 2, 1)):
        for _ in range(3):
            for norm in ("backward", "forward", "ortho", None):
                for dims in ((-2, -1), (0, 1), (0, 1, 2), (2,)):
                    found = getattr(tdt.fft, name)(tdt.from_numpy(array), norm=norm, dim=dims)
                    expected = getattr(scipy_fft, name)(array, norm=norm, axes=dims)
                    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-5, strict=True)
                    assert found.stride() == getattr(torch.fft, name)(torch.from_numpy(array), dim=dims).stride()
    spectral._of_last.cache_clear()
    _kernels.forget()


def test_shifts_of_frequencies_are_pytorchs():
    torch = require_torch()
    for name in ("fftshift", "ifftshift"):
        for shape, dims in (((5,), None), ((4, 3), None), ((4, 3), 1), ((2, 5, 4), (0, -1))):
            x = RNG.standard_normal(shape).astype("f")
            for array in (x, x.T):
                for _ in range(3):
                    ours, theirs = (getattr(lib.fft, name)(lib.from_numpy(array), dim=dims) for lib in (tdt, torch))
                    np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
                    assert ours.stride() == theirs.stride()


def test_a_repeated_call_writes_to_its_target():
    x = tdt.tensor([1.0, 2.0, 3.0, 4.0])
    for _ in range(4):
        out = tdt.empty(3, dtype=tdt.complex64)
        assert tdt.fft.rfft(x, out=out) is out
        assert out.tolist() == [10, -2 + 2j, -2]
        assert tdt.fft.rfft(x).tolist() == out.tolist()
