"""What tensor hooks see of one another."""

from __future__ import annotations

from types import ModuleType

import pytest

import tdt
from tests.helpers import require_torch


def hook_calls(library: ModuleType, leaf: bool) -> list:
    """Whether each of three hooks, of which the second sets a tag and returns a new gradient, sees the tag."""
    gradients = []

    def tag(gradient):
        gradient.tag = 1
        return gradient * 3

    x = library.tensor([1.0, -1.0], requires_grad=True)
    y = x if leaf else x * 2
    y.register_hook(gradients.append)
    y.register_hook(tag)
    y.register_hook(gradients.append)
    (y * 1).sum().backward()
    return [(hasattr(gradient, "tag"), gradient.tolist()) for gradient in gradients] + [x.grad.tolist()]


@pytest.mark.parametrize("leaf", [False, True])
def test_hooks_on_a_tensor_get_one_gradient_until_one_replaces_it(leaf: bool):
    assert hook_calls(tdt, leaf) == hook_calls(require_torch(), leaf)


def test_a_retained_gradient_is_left_as_it_is_by_the_next_backward():
    x = tdt.tensor([1.0, 2.0], requires_grad=True)
    y = x * 1
    y.retain_grad()
    y.sum().backward(retain_graph=True)
    first, leaf = y.grad, x.grad
    y.sum().backward()
    assert (first.tolist(), y.grad.tolist()) == ([1.0, 1.0], [2.0, 2.0])
    assert leaf is x.grad
