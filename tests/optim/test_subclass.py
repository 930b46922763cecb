"""What `optim.optimizer` offers to authors of optimizers, against PyTorch's."""

from __future__ import annotations

import importlib

import pytest

import tdt
from tdt.optim import optimizer as ours
from tests.helpers import require_torch


def pytorchs():
    return importlib.import_module(f"{require_torch().__name__}.optim.optimizer")


CALLS = [
    lambda t, o: o._get_value(t.tensor(2.0)), lambda t, o: o._get_value(3), lambda t, o: o._to_scalar(t.ones(1)).tolist(),
    lambda t, o: o._to_scalar(0.5), lambda t, o: str(o._get_scalar_dtype()).partition(".")[2],
    lambda t, o: str(o._get_scalar_dtype(is_fused=True)).partition(".")[2],
    lambda t, o: o._default_to_fused_or_foreach([t.ones(1)], False), lambda t, o: o._stack_if_compiling([1, 2]),
    lambda t, o: o._disable_dynamo_if_unsupported(len)(len) is not None,
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_helpers_of_optimizers_behave_like_pytorchs(number: int):
    torch = require_torch()
    assert CALLS[number](tdt, ours) == CALLS[number](torch, pytorchs())


@pytest.mark.parametrize("differentiable", [False, True])
def test_a_step_records_operations_only_if_the_optimizer_is_differentiable(differentiable: bool):
    modes = []
    for lib, module in ((tdt, ours), (require_torch(), pytorchs())):

        class Plain(lib.optim.Optimizer):
            @module._use_grad_for_differentiable
            def step(self):
                modes.append(lib.is_grad_enabled())  # noqa: B023

        Plain([lib.ones(1)], {"differentiable": differentiable}).step()
    assert modes == [differentiable] * 2


def test_complex_tensors_are_viewed_as_pairs_of_numbers():
    shown = []
    for lib, module in ((tdt, ours), (require_torch(), pytorchs())):
        params, grads = [lib.tensor([1 + 2j]), lib.ones(1)], [lib.tensor([3j]), lib.ones(1)]
        module._view_as_real(params, grads)
        shown.append([t.tolist() for t in (*params, *grads)])
    assert shown[0] == shown[1]
