"""Gradient clipping against PyTorch's."""

import numpy as np
import pytest

import tdt
from tests.helpers import require_torch

torch = require_torch()


def pair(seed, scale, dtype="float32", shapes=((3, 4), (5,), (), (0, 2))):
    pairs = []
    for library in (torch, tdt):
        rng = np.random.default_rng(seed)
        params = []
        for shape in shapes:
            p = library.zeros(shape, dtype=getattr(library, dtype), requires_grad=True)
            p.grad = library.tensor(
                (scale * rng.standard_normal(shape)).tolist(), dtype=getattr(library, dtype)
            ).reshape(shape)
            params.append(p)
        params.append(library.zeros(2, requires_grad=True))  # without a gradient
        pairs.append(params)
    return pairs


@pytest.mark.parametrize("norm_type", [0, 1.0, 2.0, 3.5, -1.0, float("inf"), float("-inf")])
@pytest.mark.parametrize("scale", [1e-3, 10.0])
def test_clipping_by_norm_equals_pytorch(norm_type, scale):
    # An empty tensor has no largest magnitude: both refuse it.
    shapes = ((3, 4), (5,), (), (0, 2)) if 0 <= norm_type < float("inf") else ((3, 4), (5,), ())
    theirs, ours = pair(0, scale, shapes=shapes)
    expected = torch.nn.utils.clip_grad_norm_(theirs, 1.0, norm_type)
    actual = tdt.nn.utils.clip_grad_norm_(ours, 1.0, norm_type)
    np.testing.assert_allclose(actual.item(), expected.item(), rtol=1e-6)
    for t, p in zip(theirs[:-1], ours[:-1], strict=True):
        np.testing.assert_allclose(p.grad.numpy(), t.grad.numpy(), rtol=2e-6)
    assert ours[-1].grad is None


@pytest.mark.parametrize("norm_type", [0, 1.0, 2.0, float("inf")])
@pytest.mark.parametrize(
    "dtypes", [("float16",), ("bfloat16",), ("float32", "float64"), ("float16", "float32"), ("complex64",)]
)
def test_norms_in_other_types_are_pytorchs(norm_type, dtypes):
    pairs = [sum((pair(0, 10.0, dtype, ((3, 4), (5,)))[i] for dtype in dtypes), []) for i in (0, 1)]
    expected, actual = (
        lib.nn.utils.get_total_norm([p.grad for p in params if p.grad is not None], norm_type)
        for lib, params in zip((torch, tdt), pairs, strict=True)
    )
    assert str(actual.dtype).split(".")[1] == str(expected.dtype).split(".")[1]
    step = max(torch.finfo(getattr(torch, dtype)).eps for dtype in dtypes)  # each norm is rounded to its own type
    np.testing.assert_allclose(actual.double().item(), expected.double().item(), rtol=4 * step)


def test_clipping_by_value_equals_pytorch():
    theirs, ours = pair(1, 10.0)
    torch.nn.utils.clip_grad_value_(theirs, 0.5)
    tdt.nn.utils.clip_grad_value_(ours, 0.5)
    for t, p in zip(theirs[:-1], ours[:-1], strict=True):
        np.testing.assert_array_equal(p.grad.numpy(), t.grad.numpy())


def test_a_norm_that_is_not_finite_is_an_error_on_request():
    _, ours = pair(2, float("inf"))
    with pytest.raises(RuntimeError, match="total norm of order 2.0 for gradients from `parameters` is non-finite"):
        tdt.nn.utils.clip_grad_norm_(ours, 1.0, error_if_nonfinite=True)
    assert not np.isfinite(tdt.nn.utils.clip_grad_norm_(ours, 1.0).item())


def test_no_gradients_have_norm_zero():
    assert tdt.nn.utils.clip_grad_norm_([], 1.0).item() == 0.0
