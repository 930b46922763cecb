"""`torch.utils.swap_tensors`."""

from __future__ import annotations

import weakref

from tdt._core.tensor import Tensor

_PARTS = ("_a", "_st", "_edge", "_view", "_grad", "__dict__", "__class__")


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Swap two tensors: each object becomes the other, with its memory, gradient, class and attributes.

    Args:
        t1, t2: leaves, or tensors of a graph which no later operation uses.
    Raises:
        RuntimeError: when one has weak references, whose owners would find another tensor.

    >>> import tdt
    >>> a, b = tdt.zeros(1), tdt.ones(2)
    >>> tdt.utils.swap_tensors(a, b)
    >>> a, b
    (tensor([1., 1.]), tensor([0.]))
    """
    for name, tensor in (("t1", t1), ("t2", t2)):
        if not isinstance(tensor, Tensor):
            raise AttributeError(f"swap_tensors: expected {name} to be a tensor, got {type(tensor).__name__}")
        if weakref.getweakrefs(tensor):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
    for part in _PARTS:
        first, second = getattr(t1, part), getattr(t2, part)
        setattr(t1, part, second)
        setattr(t2, part, first)
