"""Histogram summaries."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary

from tdt.utils.tensorboard.summary._arrays import Array, Bins, as_array


def default_bins() -> list[float]:
    """The limits of TensorFlow's histograms, 10 % apart from ±1e-12 to ±1e20, with 0 in the middle.

    >>> from tdt.utils.tensorboard.summary._histogram import default_bins
    >>> limits = default_bins()
    >>> len(limits), limits[774]
    (1549, 0)
    """
    limits, limit = [], 1e-12
    while limit < 1e20:
        limits.append(limit)
        limit *= 1.1
    return [*(-limit for limit in reversed(limits)), 0, *limits]


def histogram(name: str, values: Array, bins: Bins, max_bins: int | None = None) -> Summary:
    """A summary of how `values`, of any shape, are distributed over `bins`, as `numpy.histogram` takes them.

    max_bins: neighbouring bins are joined until there are about so many. Empty bins at both ends are left out.
    Raises ValueError for no values, or none in a bin.

    >>> import numpy as np
    >>> from tdt.utils.tensorboard.summary._histogram import histogram
    >>> proto = histogram("weights", np.array([0.5, 1.5, 1.5]), [0, 1, 2, 3]).value[0].histo
    >>> list(proto.bucket_limit), list(proto.bucket)
    ([0.0, 1.0, 2.0], [0.0, 1.0, 2.0])
    """
    flat = as_array(values).astype(np.float64).reshape(-1)
    if not flat.size:
        raise ValueError(f"histogram {name!r} has no values; expected at least one")
    counts, limits = np.histogram(flat, bins=bins)
    if max_bins is not None and len(counts) > max_bins:
        counts, limits = _joined(counts, limits, len(counts) // max_bins)
    (filled,) = np.nonzero(counts)
    if not filled.size:
        raise ValueError(f"histogram {name!r} has no value in a bin: all {flat.size} are NaN or beyond its limits")
    first, last = int(filled[0]), int(filled[-1]) + 1
    # Only right limits are stored: an empty bin in front stores the left limit of the first one.
    before = counts[first - 1 : first] if first else np.zeros(1, counts.dtype)
    return histogram_raw(
        name,
        min=flat.min(),
        max=flat.max(),
        num=flat.size,
        sum=flat.sum(),
        sum_squares=flat.dot(flat),
        bucket_limits=limits[first : last + 1].tolist(),
        bucket_counts=[*before.tolist(), *counts[first:last].tolist()],
    )


def histogram_raw(
    name: str, min: float, max: float, num: int, sum: float, sum_squares: float,
    bucket_limits: Iterable[float], bucket_counts: Iterable[float],
) -> Summary:  # fmt: skip
    """A summary of a histogram made elsewhere: moments of all values, the right limit of each bin and its count.

    >>> from tdt.utils.tensorboard.summary._histogram import histogram_raw
    >>> histogram_raw("x", 0, 2, 3, 3.0, 5.0, [1.0, 2.0], [1, 2]).value[0].histo.num
    3.0
    """
    histo = HistogramProto(
        min=min, max=max, num=num, sum=sum, sum_squares=sum_squares, bucket_limit=bucket_limits, bucket=bucket_counts
    )
    return Summary(value=[Summary.Value(tag=name, histo=histo)])


def _joined(counts: np.ndarray, limits: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Merge each `size` adjacent bins; the last group may be smaller."""
    padded = np.pad(counts, (0, -len(counts) % size))
    return padded.reshape(-1, size).sum(axis=1), np.append(limits[:-1:size], limits[-1])
