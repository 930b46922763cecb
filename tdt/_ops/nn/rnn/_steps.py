"""The steps of a packed batch: the first rows of all samples, then the second rows of those that are longer, and so on."""

from __future__ import annotations

import functools
import itertools
from typing import Any, NamedTuple

import numpy as np


class Steps(NamedTuple):
    """The rows of a packed batch, and which state each begins from.

    `states` of such a batch are an array: a first state for every sample, and below them those after every row.
    """

    offsets: np.ndarray  # (T + 1,): the first row of every step, and the end
    before: np.ndarray  # for every row, the place in `states` it begins from
    last: slice | np.ndarray  # for every sample, the place of the state it ends in
    each: tuple[tuple[slice, slice, Any], ...]  # (rows, their places in `states`, those before), in computing order
    reverse: bool
    offsets_by_width: dict[tuple[int, int], tuple]  # of kernels, by the sizes of rows; found when they are first needed


@functools.lru_cache(256)
def steps_of(sizes: tuple[int, ...], reverse: bool) -> Steps:
    """The steps of a batch with `sizes[t]` samples at step t, which do not grow; from the last one on if `reverse`."""
    counts, batch = np.array(sizes), sizes[0]
    offsets = np.concatenate([[0], counts.cumsum()])
    step = np.repeat(np.arange(len(sizes)), counts)
    sample = np.arange(offsets[-1]) - offsets[step]
    lengths = (counts[:, None] > np.arange(batch)).sum(0)
    if reverse:
        begins, neighbour, last = step + 1 == lengths[sample], step + 1, np.zeros(batch, int)
    else:
        begins, neighbour, last = step == 0, step - 1, lengths - 1
    before = np.where(begins, sample, batch + offsets[neighbour] + sample)
    spans = [slice(int(low), int(high)) for low, high in itertools.pairwise(offsets)]
    each = tuple((rows, slice(rows.start + batch, rows.stop + batch), _run_of(before[rows])) for rows in spans)
    return Steps(
        offsets, before, _run_of(batch + offsets[last] + np.arange(batch)), each[::-1] if reverse else each, reverse, {}
    )


def _run_of(places: np.ndarray) -> slice | np.ndarray:
    """An equal slice if the indices are consecutive, as indexing with a slice does not copy."""
    if len(places) == 0 or (np.diff(places) == 1).all():
        start = int(places[0]) if len(places) else 0
        return slice(start, start + len(places))
    return places
