"""Windows: SciPy's values, and PyTorch's rules of dtype, gradient and error."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import scipy.signal

import tdt
from tests.helpers import require_torch

OLD = ("bartlett", "blackman", "hamming", "hann", "kaiser")
SETTINGS: dict[str, tuple[dict, tuple]] = {  # PyTorch's, and SciPy's in its order
    "exponential": ({"tau": 2.5}, (None, 2.5)),
    "gaussian": ({"std": 1.5}, (1.5,)),
    "general_cosine": ({"a": [0.6, 0.3, 0.1]}, ([0.6, 0.3, 0.1],)),
    "general_hamming": ({"alpha": 0.7}, (0.7,)),
    "kaiser": ({"beta": 5.0}, (5.0,)),
}


@pytest.mark.parametrize("name", tdt.signal.windows.__all__)
@pytest.mark.parametrize("sym", [True, False])
def test_windows_are_scipys(name: str, sym: bool):
    ours, theirs = SETTINGS.get(name, ({}, ()))
    for M in (0, 1, 2, 3, 8, 401):
        actual = getattr(tdt.signal.windows, name)(M, sym=sym, dtype=tdt.float64, **ours)
        expected = getattr(scipy.signal.windows, name)(M, *theirs, sym=sym)
        np.testing.assert_allclose(actual.numpy(), expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", OLD)
def test_the_old_names_are_periodic_by_default(name: str):
    new = {"beta": 12.0} if name == "kaiser" else {}
    for M in (0, 1, 2, 3, 8, 401):
        for periodic in (True, False):
            actual = getattr(tdt, f"{name}_window")(M, periodic, dtype=tdt.float64)
            expected = getattr(tdt.signal.windows, name)(M, sym=not periodic, dtype=tdt.float64, **new)
            np.testing.assert_allclose(actual.numpy(), expected.numpy(), rtol=0, atol=1e-13)
    assert getattr(tdt, f"{name}_window")(5).equal(getattr(tdt, f"{name}_window")(5, True))


@pytest.mark.parametrize("name", OLD)
def test_the_old_names_take_every_float_type_and_round_half_precision_once(name: str):
    function = getattr(tdt, f"{name}_window")
    assert function(4).dtype is tdt.float32
    assert function(4, dtype=tdt.float64).dtype is tdt.float64
    for dtype in (tdt.float16, tdt.bfloat16):
        assert function(33, dtype=dtype).equal(function(33).to(dtype))


@pytest.mark.parametrize(
    "name", [*(f"{n}_window" for n in OLD), *(f"signal.windows.{n}" for n in tdt.signal.windows.__all__)]
)
def test_values_and_settings_are_pytorchs(name: str):
    torch = require_torch()
    settings = SETTINGS.get(name.rpartition(".")[2], ({},))[0]
    function, theirs = (eval(f"lib.{name}", {"lib": lib}) for lib in (tdt, torch))
    for M, dtype in ((0, "float32"), (1, "float32"), (2, "float32"), (7, "float32"), (400, "float64")):
        actual, expected = (
            f(M, **settings, dtype=getattr(lib, dtype)) for f, lib in ((function, tdt), (theirs, torch))
        )
        np.testing.assert_allclose(actual.numpy(), expected.numpy(), rtol=1.3e-6, atol=1e-7, strict=True)
    if "signal" in name:
        names = [(p.name, p.kind) for p in inspect.signature(function).parameters.values()]
        assert names == [(p.name, p.kind) for p in inspect.signature(theirs).parameters.values()]


def test_the_coefficients_of_hamming_and_kaiser_come_after_the_kind():
    torch = require_torch()
    for call in ("hamming_window(6, True, 0.5)", "hamming_window(6, False, 0.5, 0.4)", "kaiser_window(6, True, 3)",
                 "kaiser_window(6, periodic=False, beta=0.0)"):  # fmt: skip
        actual, expected = (eval(f"t.{call}", {"t": lib}).numpy() for lib in (tdt, torch))
        np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-7)


def test_a_window_can_be_learnt():
    window = tdt.hann_window(4, requires_grad=True)
    assert window.is_leaf and window.requires_grad
    learnable = tdt.signal.windows.kaiser(4, beta=2.0, requires_grad=True)
    assert learnable.requires_grad and not learnable.is_leaf
    assert tdt.hann_window(4, device="meta").device.type == "meta"


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        ("hann_window(-1)", RuntimeError, "hann_window requires non-negative window_length, got window_length=-1"),
        ("hann_window(2.5)", TypeError, "argument 'window_length' .position 1. must be int, not float"),
        ("hann_window(4, dtype=t.int64)", RuntimeError, "hann_window expects floating point dtypes"),
        ("hann_window(4, dtype=t.complex64)", NotImplementedError, "not implemented for 'ComplexFloat'"),
        ("hann_window(4, layout=t.sparse_coo)", RuntimeError, "hann_window is not implemented for sparse types"),
        ("signal.windows.hann(4, layout=t.sparse_coo)", ValueError, "implemented for strided tensors only"),
        ("signal.windows.hann(-1)", ValueError, "requires non-negative window length, got M=-1"),
        ("signal.windows.hann(4, dtype=t.float16)", ValueError, "expects float32 or float64 dtypes"),
        (
            "signal.windows.hann(4.5)",
            TypeError,
            r"linspace\(\)",
        ),  # PyTorch lists what it could be, tdt names the argument
        ("signal.windows.kaiser(4, beta=-1)", ValueError, "beta must be non-negative, got: -1 instead"),
        ("signal.windows.gaussian(4, std=0)", ValueError, "Standard deviation must be positive, got: 0 instead"),
        ("signal.windows.exponential(4, tau=0)", ValueError, "Tau must be positive, got: 0 instead"),
        ("signal.windows.exponential(4, center=1)", ValueError, "Center must be None for symmetric windows"),
        ("signal.windows.general_cosine(4, a=1)", TypeError, "Coefficients must be a list/tuple"),
        ("signal.windows.general_cosine(4, a=[])", ValueError, "Coefficients cannot be empty"),
    ],
)
def test_invalid_windows_are_refused_with_pytorchs_message(call: str, error: type, message: str):
    for lib in (tdt, require_torch()):
        with pytest.raises(error, match=message):
            eval(f"t.{call}", {"t": lib})
