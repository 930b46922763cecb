"""What autograd does not offer says so, with what to use."""

import warnings

import pytest

import tdt


def test_forward_mode_is_refused_by_name():
    with pytest.raises(AttributeError, match=r"no forward-mode differentiation: functional\.jvp and func\.jvp"):
        _ = tdt.autograd.forward_ad
    with pytest.raises(NotImplementedError, match="define backward"):
        tdt.autograd.Function.jvp(None)


def test_anomaly_mode_shows_the_forward_call():
    x = tdt.tensor([0.0], requires_grad=True)
    with warnings.catch_warnings(record=True) as caught, tdt.autograd.detect_anomaly():
        warnings.simplefilter("always")
        y = x.sqrt()  # the line to find
        with pytest.raises(RuntimeError, match="Function 'SqrtBackward0' returned nan values in its 0th output"):
            (y * 0).sum().backward()
    text = "".join(str(w.message) for w in caught)
    assert "Error detected in SqrtBackward0. Traceback of forward call" in text
    assert "y = x.sqrt()  # the line to find" in text
