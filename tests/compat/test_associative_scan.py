"""`torch._higher_order_ops.associative_scan` against PyTorch's."""

from __future__ import annotations

import importlib

import pytest

import tdt
from tdt.compat._higher_order_ops import associative_scan
from tests.helpers import require_torch


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 16, 33])
def test_scans_and_their_gradients_are_pytorchs(size: int, reverse: bool):
    torch = require_torch()
    theirs = importlib.import_module("torch._higher_order_ops").associative_scan
    values = torch.randn(2, 3, size, 2, generator=torch.Generator().manual_seed(0))
    found = []
    for library, scan in ((tdt, associative_scan), (torch, theirs)):
        a, b = (library.tensor(x.numpy()).requires_grad_() for x in values)

        def linear(x, y):  # h = a·h + b, as in state space models
            return {"a": x["a"] * y["a"], "b": y["a"] * x["b"] + y["b"]}

        result = scan(linear, {"a": a, "b": b}, 1, reverse=reverse, combine_mode="generic")
        (result["a"].sum() + (result["b"] ** 2).sum()).backward()
        found.append([result["a"].detach(), result["b"].detach(), a.grad, b.grad])
    for own, other in zip(*found, strict=True):
        torch.testing.assert_close(torch.from_numpy(own.numpy().copy()), other)


def test_sums_are_cumulative_sums_along_any_dimension():
    x = tdt.arange(24.0).reshape(2, 3, 4)
    for dim in (0, 1, 2, -1):
        assert tdt.equal(associative_scan(tdt.add, x, dim), x.cumsum(dim))


@pytest.mark.parametrize(("xs", "mode"), [(tdt.ones(0), "generic"), ([], "generic"), (tdt.ones(2), "other"),
                                          ([tdt.ones(2), tdt.ones(3)], "generic"), ([tdt.ones(2), 3], "generic")])  # fmt: skip
def test_what_cannot_be_scanned_is_an_error(xs, mode):
    with pytest.raises(ValueError, match=r"associative_scan|mode"):
        associative_scan(lambda a, b: a, xs, 0, combine_mode=mode)
