"""The namespace `tdt.masked`, beside what the op database tests."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import tdt
from tests.helpers import require_torch

REDUCTIONS = ("sum", "prod", "amax", "amin", "mean", "logsumexp", "norm", "var", "std")
ALONG = ("cumsum", "cumprod", "softmax", "log_softmax", "softmin")


def test_names_and_signatures_are_pytorchs():
    torch = require_torch()
    for name in tdt.masked.__all__:
        theirs = inspect.signature(getattr(torch.masked, name)).parameters
        ours = inspect.signature(getattr(tdt.masked, name)).parameters
        assert [(p.name, p.kind, p.default) for p in ours.values()] == [
            (p.name, p.kind, p.default) for p in theirs.values()
        ], name


@pytest.mark.parametrize("name", (*REDUCTIONS, *ALONG))
def test_what_is_masked_out_changes_neither_the_result_nor_a_gradient(name: str):
    left = np.array([[True, False, True, True], [False, True, True, True]])
    results = []
    for hidden in (np.nan, 1e30, -np.inf):
        x = tdt.tensor(np.where(left, np.arange(8.0).reshape(2, 4) * 0.3 + 0.1, hidden), requires_grad=True)
        result = getattr(tdt.masked, name)(x, dim=1, mask=tdt.tensor(left))
        result = result if result.ndim == 1 else result[tdt.tensor(left)]
        (gradient,) = tdt.autograd.grad((result * tdt.arange(1.0, result.numel() + 1)).sum(), x)
        assert (gradient.numpy()[~left] == 0).all()
        results.append((result.tolist(), gradient.tolist()))
    assert results[0] == results[1] == results[2]


def test_a_mask_of_numbers_of_a_smaller_shape_is_broadcast():
    x = tdt.arange(6.0).reshape(2, 3)
    assert tdt.masked.sum(x, 1, mask=tdt.tensor([2, 0, -1])).tolist() == [2.0, 8.0]
    assert tdt.masked.argmax(x, 0, mask=tdt.tensor([[True], [False]])).tolist() == [0.0, 0.0, 0.0]
    assert tdt.masked.mean(x, mask=tdt.tensor(False)).isnan()


def test_bad_calls_are_refused_as_by_pytorch():
    torch = require_torch()
    bad = (
        (IndexError, lambda t: t.masked.sum(t.ones(2), mask=t.ones(1, 2))),
        (NotImplementedError, lambda t: t.masked.amax(t.ones(2) > 0, mask=t.ones(2) > 0)),
        (ValueError, lambda t: t.masked.mean(t.arange(3))),
        (ValueError, lambda t: t.masked.median(t.arange(3), mask=t.zeros(3))),
        (AssertionError, lambda t: t.masked.var(t.ones(3), 0, True, correction=1)),
        (RuntimeError, lambda t: t.masked.sum(t.ones(2, 2), (0, -2))),
        (IndexError, lambda t: t.masked.softmax(t.ones(2), 1)),
    )
    for kind, ask in bad:
        for lib in (torch, tdt):
            with pytest.raises(kind):
                ask(lib)


def test_masked_tensors_are_refused_in_a_sentence():
    with pytest.raises(AttributeError, match="tdt has no masked tensors"):
        tdt.masked.masked_tensor  # noqa: B018
