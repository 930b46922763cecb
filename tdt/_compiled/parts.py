"""Gradients of many parts of one tensor, such as of x[:, t] for each t: joined in one pass.

The engine adds one after the other (`autograd/_parts.py`), the first two among zeros. What is joined has the same bits once 0 is
added to it, which only -0 notices.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tdt._compiled.regions import MOST_REGIONS
from tdt.autograd._node import Node

ndarray = np.ndarray
TYPES = np.dtype(np.float32), np.dtype(np.float64)


class PartGradient(NamedTuple):
    """The gradient of a view of a part, with the part's index in a tensor of some shape."""

    gradient: Any
    part: tuple[Any, ...]
    shape: tuple[int, ...]


class Parts:
    """Gradients that have arrived at one place.

    Attributes:
        whole: the sum of what arrived before the parts, if anything did.
    """

    def __init__(self, whole: Any):
        self.whole = whole
        self.parts: list[PartGradient] = []


def views_of_many_parts(nodes: Iterable[Any], key: Callable[[Any], Any]) -> dict[Any, tuple[Any, ...]]:
    """The nodes of views of many parts of a tensor, each two the same or without a common element; their indices.

    key: of the place that an edge leads to. Few parts are zeros and sums, which become regions of a chain.
    """
    found: dict[Any, list[Any]] = defaultdict(list)
    for node in nodes:
        if node.__class__ is Node and node.backward_plan.op.part and node.edges[0] is not None and node.hooks is None:
            found[key(node.edges[0]), node.edges[0][1]].append(node)
    indices: dict[Any, tuple[Any, ...]] = {}
    for own in found.values():
        if len(own) > MOST_REGIONS:
            each = {node: node.backward_plan.op.part(**node.attributes) for node in own}
            different = {repr(index): index for index in each.values()}
            if len(different) > MOST_REGIONS and _covered(own[0].shapes[0], [*different.values()]) is not None:
                indices.update(each)
    return indices


def layers(parts: Iterable[PartGradient]) -> list[list[PartGradient]]:
    """The gradients in groups, in each of which a part is once: the first gradients of all, the second ones, …"""
    found: list[list[PartGradient]] = []
    times: dict[str, int] = defaultdict(int)
    for each in parts:
        name = repr(each.part)
        if times[name] == len(found):
            found.append([])
        found[times[name]].append(each)
        times[name] += 1
    return found


def joined(shape: tuple[int, ...], indices: Sequence[tuple[Any, ...]]) -> Callable[..., ndarray]:
    """The function of the parts that gives the whole, with zeros where no part is."""
    create = np.empty if _covered(shape, indices) else np.zeros

    def join(*parts: Any) -> ndarray:
        out = create(shape, parts[0].dtype)
        for index, part in zip(indices, parts, strict=True):
            out[index] = part
        return out

    return join


def plus_zero(a: ndarray) -> ndarray:
    """The array with 0 in the place of -0."""
    return a + a.dtype.type(0)


def _covered(shape: tuple[int, ...], indices: Sequence[tuple[Any, ...]]) -> bool | None:
    """Whether parts cover all elements; None where they have some in common."""
    marks = np.zeros(shape, np.bool_)
    count = 0
    for index in indices:
        count += marks[index].size
        marks[index] = True
    total = int(np.count_nonzero(marks))
    return None if total != count else total == marks.size
