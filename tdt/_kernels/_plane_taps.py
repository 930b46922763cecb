"""Where the cells of a kernel read in the padded planes of `_planes`, and what its machine code is made for."""

from __future__ import annotations

import functools
from typing import NamedTuple

BUFFER = 1 << 15  # floats: 128 KB of the stack
MOST_READ = 1 << 12  # pixels that a tile of `_pixels` reads, whose addresses are on the stack: 32 KB
PIXEL_BUFFER = 1 << 13  # floats: a chunk of the gradient of `_pixels`
PIXEL_SUMS = 12  # vectors of sums that a weight gradient of `_pixels` holds in registers, at most
TOGETHER = 2  # targets in a row that a weight gradient of `_pixels` sums in a round of the loop
SUMS = 1 << 15  # floats: sums of the weight gradient, on the stack too

WORDS = {
    "values": ("source", "weight", "bias", "target", "groups", "inner", "outer", "inner_step", "outer_step", "height",
               "width", "target_height", "target_width", "rows", "columns", "tile_rows", "tile_columns", "top", "left",
               "pitch"),
    "weights": ("source", "gradient", "target", "samples", "inner", "outer", "groups", "height", "width", "target_height",
                "target_width", "tile_rows", "tile_columns", "top", "left", "pitch", "together", "part", "some", "far"),
    "pixel_values": ("source", "weight", "bias", "target", "inner", "group_vectors", "weight_group", "weight_vector",
                     "weight_step", "source_channels", "target_channels", "height", "width", "target_height",
                     "target_width", "rows", "columns", "top", "left", "zeros", "strips", "vectors"),
    "pixel_chunks": ("source", "weight", "bias", "target", "inner", "group_vectors", "weight_group", "weight_vector",
                     "weight_step", "source_channels", "target_channels", "height", "width", "target_height",
                     "target_width", "rows", "columns", "top", "left", "chunks", "strips", "tile_rows", "source_chunk",
                     "target_chunk", "line", "buffer_columns"),
    "pixel_weights": ("source", "gradient", "target", "samples", "inner", "group_vectors", "source_channels",
                      "target_channels", "source_chunk", "target_chunk", "height", "width", "target_height", "target_width",
                      "tile_rows", "top", "left", "line", "buffer_columns", "turn", "chunks", "part", "chain"),
    "pixel_sums": ("source", "gradient", "target", "samples", "channels", "height", "width", "target_height",
                   "target_width", "top", "chunks", "part", "chain", "vectors", "together"),
}  # fmt: skip


class Kind(NamedTuple):
    """What the machine code is made for.

    Attributes:
        what: "result", "input" or "weights".
        padding: only of "input".
        tile: channels, rows and vectors of a tile; of "weights" the channels alone count.
        vector: floats in a vector.
        single: one channel is summed over.
        in_place: a row of the source is read where it lies, without the buffer.
    """

    what: str
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int]
    tile: tuple[int, int, int]
    vector: int
    single: bool
    in_place: bool = False


class PixelKind(NamedTuple):
    """What the machine code for channels-last images is made for.

    Attributes:
        what, kernel, stride, dilation, padding, vector: as of `Kind`.
        form: how a vector of targets meets its sources. "own": each its own channel; "mixed": a vector holds several groups of
            `per` channels; "spread": all targets of a vector are of one group, and meet one number at a time.
        per: channels of a group that are written out: of "mixed", and of "spread" weights how many are summed at once.
        tile: rows and columns of targets in registers.
        pixel: floats from one pixel of the buffer to the next; 0 where images are read where they lie.
        out: of "weights", targets in a chunk of channels; else floats from the weights of a cell to those of the next.
        planes: images are contiguous instead, and turned as they are copied to the buffer; only of "weights".
        together: vectors of targets, of one group, that a tile has; only of "spread" results and input gradients.
        half: images are of bfloat16, and converted as they are turned; only of `planes`.
    """

    what: str
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int]
    form: str
    per: int
    tile: tuple[int, int]
    pixel: int
    out: int
    vector: int
    planes: bool
    together: int = 1
    half: bool = False


class Tap(NamedTuple):
    """A cell of the kernel: its number; for which column phase of the target; where it reads in the buffer."""

    number: int
    target_phase: int
    row: int
    phase: int
    column: int


class Taps(NamedTuple):
    """The taps of each row phase of the target, by columns of the kernel; the least row and column; the span of both."""

    phases: tuple[tuple[tuple[Tap, ...], ...], ...]
    low: tuple[int, int]
    span: tuple[int, int]


@functools.lru_cache(256)
def taps(what: str, kernel: tuple, stride: tuple, dilation: tuple, padding: tuple) -> Taps:
    """Where the cells of the kernel read, from the first pixel that the first target needs on."""
    (rows, columns), (down, across) = kernel, stride
    if what != "input":
        found = [[Tap(i * columns + j, 0, i * dilation[0], j * dilation[1] % across, j * dilation[1] // across)
                  for i in range(rows)] for j in range(columns)]  # fmt: skip
        phases, low = [found], (0, 0)
    else:
        phases = []
        for phase in range(down):
            found = [[] for _ in range(columns)]
            for j in range(columns):
                for i in range(rows):
                    (here, row), (target, column) = _met(i, 0, kernel, stride, dilation, padding, phase), _met(
                        j, 1, kernel, stride, dilation, padding, None)  # fmt: skip
                    if here:
                        found[j].append(Tap(i * columns + j, target, row, 0, column))
                found[j].sort(key=lambda tap: tap.row)
            phases.append(found)
        every = [tap for found in phases for column in found for tap in column]
        low = min(tap.row for tap in every), min(tap.column for tap in every)
        phases = [
            [[tap._replace(row=tap.row - low[0], column=tap.column - low[1]) for tap in column] for column in found]
            for found in phases
        ]
    every = [tap for found in phases for column in found for tap in column]
    span = max(tap.row for tap in every) + 1, max(tap.column for tap in every) + 1
    return Taps(tuple(tuple(map(tuple, found)) for found in phases), low, span)


def _met(k: int, dim: int, kernel: tuple, stride: tuple, dilation: tuple, padding: tuple, phase: int | None) -> tuple:
    """Cell k in one dimension of an input gradient: (whether it meets pixels of `phase`, or which phase; its window)."""
    step, at = stride[dim], k * dilation[dim]
    own = (at - padding[dim]) % step
    window = (own + padding[dim]) // step - at // step
    return (own if phase is None else own == phase), window


def most_sums(width: int) -> int:
    """Sums that fill the registers, of which there are 32 for vectors of 16 floats, beside what is multiplied."""
    return 24 if width == 16 else 12
