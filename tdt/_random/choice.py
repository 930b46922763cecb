"""Sampling from categorical distributions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tdt._backend.layout import empty_in_order
from tdt._kernels import UFUNCS, ranked, scanned
from tdt._random._generator import Generator
from tdt._random._mersenne import MersenneTwister
from tdt._random.continuous import exponential
from tdt._random.draws import WHOLE, assign_in_memory_order, uniform

MOST_SAVED = 500

_choices: dict[tuple, Any] = {}  # by type, shape and count: functions of a generator's words and weights
UFUNCS.append(_choices)


def _chosen(gen: Generator, weights: Any, count: int) -> Any:
    """`multinomial` with replacement by generated code; None, with nothing drawn, where there is none, or for invalid weights."""
    key = weights.dtype, weights.shape, count
    run = _choices.get(key)
    if run is None:
        if weights.dtype not in WHOLE or not weights.size or not isinstance(gen.engine, MersenneTwister):
            return None
        run = gen.engine.prepared_choices(weights, count)
        if run is None:
            return None
        if len(_choices) < MOST_SAVED:
            _choices[key] = run
    if gen.engine.__class__ is not MersenneTwister:
        return None
    with gen.lock:
        return run(gen.engine.words, weights)


def multinomial(gen: Generator, weights: Any, count: int, replacement: bool = False) -> Any:
    """`count` category numbers (int64) per row of `weights` (…, categories), which need not sum to 1.

    Without replacement, or for one draw, the categories with the largest weight / Exp(1): a race of exponential
    clocks. RuntimeError for weights that are negative, not finite or all zero, and for more draws than categories without
    replacement.
    """
    xp = gen.engine.xp
    if xp is not np and weights.dtype.name == "bfloat16":  # CuPy can neither sort nor add them up
        weights = weights.astype(np.float32)
    if not replacement and count > weights.shape[-1]:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    several = replacement and count > 1
    if several and (picked := _chosen(gen, weights, count)) is not None:
        return picked
    highest = weights.max(-1) if weights.size else xp.zeros(weights.shape[:-1])  # NaN of a row that has one
    if not ((weights.min() if weights.size else 0) >= 0 and (highest < np.inf).all()):
        raise RuntimeError(
            "invalid multinomial distribution (encountering probability entry < 0), or one that is infinite or NaN"
            if several
            else "probability tensor contains either `inf`, `nan` or element < 0"
        )
    if not (highest > 0).all():
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    if several:
        return _with_replacement(gen, weights, count)
    clocks = exponential(gen, weights.shape, weights.dtype)
    if not weights.flags.c_contiguous:
        drawn, clocks = clocks, empty_in_order(xp, weights)
        assign_in_memory_order(clocks, drawn)
    score = weights / clocks
    if count == 1:
        return score.argmax(-1, keepdims=True)
    best = ranked(-score, score.ndim - 1, count, "lowest") if 4 * count <= score.shape[-1] and count else None
    if best is not None:  # in order of index: a stable sort keeps it for equal scores
        order = xp.argsort(-xp.take_along_axis(score, best, -1), axis=-1, kind="stable")
        return xp.take_along_axis(best, order, -1)
    return xp.ascontiguousarray(xp.argsort(-score, axis=-1, kind="stable")[..., :count])


def _with_replacement(gen: Generator, weights: Any, count: int) -> Any:
    """Sampling by binary search of a 53-bit uniform in the cumulative weights."""
    xp = gen.engine.xp
    rows = weights.reshape(-1, weights.shape[-1])
    edges = scanned("narrow", rows, 1)
    if edges is None:
        edges = xp.cumsum(rows, axis=1, dtype=rows.dtype)
    edges /= edges[:, -1:]
    draws = uniform(gen, (len(rows), count), np.float64)
    if edges.dtype == np.float32:  # the least float32 that is not below a draw compares as the draw does
        near = draws.astype(np.float32)
        draws = xp.where(near < draws, xp.nextafter(near, np.float32(np.inf)), near)
    else:
        edges = edges.astype(np.float64)
    picked = xp.empty(draws.shape, np.int64)
    for row, e, d in zip(picked, edges, draws, strict=True):
        row[...] = xp.searchsorted(e, d)
    return picked.reshape(*weights.shape[:-1], count)
