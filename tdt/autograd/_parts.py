"""Gradients of parts of one tensor, such as x[0], x[1], …: added where they belong, without zeros around each."""

from __future__ import annotations

from typing import Any

import numpy as np

from tdt._core.tensor import Tensor
from tdt._kernels import add_to
from tdt.autograd._accumulate import alone
from tdt.autograd._node import Node

ndarray = np.ndarray


def add_to_part(node: Node, g: Any, pending: dict, parts: dict) -> bool:
    """Add the gradient of a view of a part, such as x[:, t], to the pending gradient of the whole; False: nothing was done.

    The view's rule puts `g` among zeros, and the engine adds all of them to what is pending: n parts of one tensor take n²
    additions. From the third of disjoint parts on, adding to the part alone gives the same bits: each pending element has
    been added to a zero by one of the first two, so none is -0, the only number that adding zero changes.

    parts: for nodes and leaves whose gradients are pending, the index of the first part, or True after two disjoint ones.
    """
    edge = node.edges[0]
    if edge is None:
        return False
    target = edge[0]
    if target.outs is not None if target.__class__ is Node else not isinstance(target, Tensor):
        return False
    index_of: Any = node.backward_plan.op.part
    before = parts.get(target)
    if before is not True:
        index = index_of(**node.attributes)
        if before is None:
            parts[target] = index
        elif are_disjoint(before, index, node.shapes[0]):
            parts[target] = True
        return False
    if not alone(pending, target):
        return False
    whole = pending[target]
    if not whole.__class__ is g.__class__ is ndarray or not whole.flags.writeable:  # sparse ones have no parts
        return False
    if whole.dtype != g.dtype or whole.shape != node.shapes[0]:  # the tensor's `data` was replaced
        return False
    part = whole[index_of(**node.attributes)]
    if part.__class__ is not ndarray:  # a number: the index has no Ellipsis
        return False
    add_to(part, g)
    return True


def are_disjoint(a: tuple[Any, ...], b: tuple[Any, ...], shape: tuple[int, ...]) -> bool:
    """Whether two basic indices of a shape have no element in common, as far as their integers and slices of step 1 show."""
    for one, other, n in zip(a, b, shape, strict=False):
        if one is None or other is None or one is Ellipsis or other is Ellipsis:
            return False
        (first, end), (other_first, other_end) = _bounds(one, n), _bounds(other, n)
        if end <= other_first or other_end <= first:
            return True
    return False


def _bounds(part: Any, n: int) -> tuple[int, int]:
    """The first entry of `n` that an integer or a slice takes, and the one after the last."""
    if part.__class__ is slice:
        start, stop, _ = part.indices(n)
        return start, stop
    return part % n, part % n + 1
