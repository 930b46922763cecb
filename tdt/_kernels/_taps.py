"""Tables of offsets of a convolution for the register tile: the pixels that each cell of the kernel is multiplied with.

In one dimension cell k of the kernel, at window o, lies on pixel i = o·stride - padding + k·dilation. Result and input
gradient ask, for each target (window or pixel), which cells meet which source; targets that meet the same cells form a
class, whose sources lie at fixed distances from the first. So nothing outside the image is ever multiplied, there is no
border, and the phases of a strided input gradient are classes like the corners of an image.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

ROWS = 240  # targets in a block: with their sources they fit in the level-two cache

Pairs = tuple[tuple[int, int, int], ...]


@functools.lru_cache(256)
def meetings(size: int, windows: int, kernel: int, stride: int, padding: int, dilation: int) -> Pairs:
    """All (window, cell, pixel) in one dimension where the cell of the window is on the pixel."""
    found = []
    for o in range(windows):
        for k in range(kernel):
            i = o * stride - padding + k * dilation
            if 0 <= i < size:
                found.append((o, k, i))
    return tuple(found)


class Targets(NamedTuple):
    """Offsets for one group of samples. A run is a row of `runs`: see `targets`."""

    samples: int
    rows: np.ndarray
    places: np.ndarray
    cells: np.ndarray
    lines: np.ndarray
    runs: np.ndarray


@functools.lru_cache(64)
def targets(
    count: int, pairs: tuple[Pairs, Pairs], forward: bool, source: tuple, target: tuple, kernel: tuple, panel: int,
    channels: int,
) -> Targets:  # fmt: skip
    """Tables for targets of shape (H, W, channels) that gather the first `channels` of sources of such a shape.

    forward: targets are windows, else pixels. Each row of `runs` says: first row of its class, targets of the class in a
    sample, from and to which of them (over samples) this run goes, first and last place in cells and lines; and two zeros.
    """
    height, width, out_channels = target
    pixels = height * width
    samples = min(count, 8 * -(-ROWS // (8 * pixels)) if pixels <= 4 * ROWS else 1)
    rows, places, cells, lines, runs = [], [], [], [], []
    row = cell = 0
    summed = np.arange(channels)
    for ys, down in _classes(pairs[0], height, forward).items():
        for xs, across in _classes(pairs[1], width, forward).items():
            first = _plane(down[0], across[0], source[1], source[2])
            sample = np.arange(samples)[:, None]
            rows.append((sample * math.prod(source) + first).reshape(-1))
            place = _plane([t for t, _ in down[1]], [t for t, _ in across[1]], width, out_channels)
            places.append((sample * math.prod(target) + place).reshape(-1))
            here = _plane([d for _, d in ys], [d for _, d in xs], source[1], source[2])
            cells.append((here[:, None] + summed).reshape(-1))
            number = _plane([k for k, _ in ys], [k for k, _ in xs], kernel[1], channels)
            lines.append(((number[:, None] + summed) * panel).reshape(-1))
            total, stop = samples * first.size, cell + cells[-1].size
            for low in range(0, total, ROWS):
                runs.append((row, first.size, low, min(low + ROWS, total), cell, stop, 0, 0))
            row, cell = row + total, stop
    return Targets(samples, *(np.concatenate(a) for a in (rows, places, cells, lines)), np.array(runs))


def _classes(pairs: Pairs, size: int, forward: bool) -> dict:
    """{((cell, distance of its source from the first), …): ([first source, …], [(target, first source), …])}."""
    met: dict[int, list] = {t: [] for t in range(size)}
    for o, k, i in pairs:
        met[o if forward else i].append((k, i if forward else o))
    found: dict[tuple, tuple[list, list]] = {}
    for t, cells in met.items():
        base = cells[0][1] if cells else 0
        starts, members = found.setdefault(tuple((k, s - base) for k, s in cells), ([], []))
        starts.append(base)
        members.append((t, base))
    return found


def _plane(rows: list, columns: list, width: int, channels: int) -> np.ndarray:
    """Offsets of all pairs of a row and a column."""
    down, across = np.array(rows, np.int64), np.array(columns, np.int64)
    return ((down[:, None] * width + across) * channels).reshape(-1)


class Patches(NamedTuple):
    """Offsets for the weight gradient of all cells at once, for one group of samples; see `patches`."""

    samples: int
    rows: np.ndarray
    places: np.ndarray
    windows: np.ndarray
    lines: np.ndarray
    parts: np.ndarray


@functools.lru_cache(64)
def patches(count: int, pairs: tuple[Pairs, Pairs], image: tuple, result: tuple, kernel: tuple) -> Patches:
    """For each class of windows the cells of kernel (KH, KW, C / groups) that meet the image, and the windows to sum over.

    Each row of `parts` says for a class: its first and last place in rows and places, its first place in windows and lines,
    and how many windows there are in a sample.
    """
    samples = min(count, -(-ROWS // (result[0] * result[1])))
    sample = np.arange(samples)[:, None]
    rows, places, windows, lines, parts = [], [], [], [], []
    row = window = 0
    for ys, down in _classes(pairs[0], result[0], True).items():
        for xs, across in _classes(pairs[1], result[1], True).items():
            first = _plane(down[0], across[0], image[1], image[2])
            met = _plane([o for o, _ in down[1]], [o for o, _ in across[1]], result[1], result[2])
            windows.append((sample * math.prod(image) + first).reshape(-1))
            lines.append((sample * math.prod(result) + met).reshape(-1))
            rows.append(_plane([d for _, d in ys], [d for _, d in xs], image[1], image[2]))
            places.append(_plane([k for k, _ in ys], [k for k, _ in xs], kernel[1], kernel[2] * image[2]))
            parts.append((row, row + rows[-1].size, window, first.size))
            row, window = row + rows[-1].size, window + windows[-1].size
    return Patches(samples, *(np.concatenate(a) for a in (rows, places, windows, lines)), np.array(parts))
