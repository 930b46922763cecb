"""Ops that move values: reshape, transpose, slice, join, index, gather and scatter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tdt.onnx._forms import form
from tdt.onnx._graph import INT64, Graph, Ref, Unsupported

FAR = np.iinfo(np.int64).max


@form("view", "reshape")
def _reshape(graph: Graph, x: Ref, shape: Sequence[Any]) -> Ref:
    return graph.reshape(x, graph.outputs[0].shape)


@form("permute")
def _permute(graph: Graph, x: Ref, dims: Sequence[int]) -> Ref:
    return graph.transpose(x, dims)


@form("squeeze")
def _squeeze(graph: Graph, x: Ref, dims: Any) -> Ref:
    axes = [d for d, n in enumerate(x.shape or ()) if n == 1 and (dims is None or d in _every(dims, x.ndim))]
    return graph.op("Squeeze", x, graph.ints(axes)) if axes else graph.op("Identity", x)


def _every(dims: Any, ndim: int) -> list[int]:
    return [d % ndim for d in (dims if isinstance(dims, (tuple, list)) else (dims,))]


@form("unsqueeze")
def _unsqueeze(graph: Graph, x: Ref, dim: int) -> Ref:
    return graph.op("Unsqueeze", x, graph.ints([dim]))


@form("expand")
def _expand(graph: Graph, x: Ref, shape: Sequence[Any]) -> Ref:
    return graph.op("Expand", x, graph.shape(graph.outputs[0].shape))


@form("repeat")
def _repeat(graph: Graph, x: Ref, times: Sequence[int]) -> Ref:
    if (more := len(times) - x.ndim) > 0:
        x = graph.op("Unsqueeze", x, graph.ints([*range(more)]))
    return graph.op("Tile", x, graph.shape(times)) if len(times) else graph.op("Identity", x)


@form("repeat_each")
def _repeat_each(graph: Graph, x: Ref, dim: int, times: int) -> Ref:
    repeats = [times if d == dim + 1 else 1 for d in range(x.ndim + 1)]
    several = graph.op("Tile", graph.op("Unsqueeze", x, graph.ints([dim + 1])), graph.shape(repeats))
    return graph.reshape(several, graph.outputs[0].shape)


@form("clone")
def _clone(graph: Graph, x: Ref, **how: Any) -> Ref:
    return graph.op("Identity", x)


@form("cat")
def _cat(graph: Graph, *tensors: Ref, dim: int) -> Ref:
    parts = [t for t in tensors if t.shape != (0,)]
    return graph.op("Concat", *parts, axis=dim)


@form("stack")
def _stack(graph: Graph, *tensors: Ref, dim: int) -> Ref:
    axis = graph.ints([dim])
    return graph.op("Concat", *[graph.op("Unsqueeze", t, axis) for t in tensors], axis=dim)


@form("split")
def _split(graph: Graph, x: Ref, sizes: Sequence[Any], dim: int) -> list[Ref]:
    return graph.ops("Split", x, graph.shape(sizes), dtypes=[None] * len(sizes), axis=dim)


@form("unbind")
def _unbind(graph: Graph, x: Ref, dim: int) -> list[Ref]:
    count = len(graph.outputs)
    parts = graph.ops("Split", x, dtypes=[None] * count, axis=dim, num_outputs=count)
    return [graph.op("Squeeze", part, graph.ints([dim])) for part in parts]


@form("slice")
def _slice(graph: Graph, x: Ref, spec: Sequence[Any]) -> Ref:
    """Integers, None, and slices as (start, stop, step); an Ellipsis stands for the dimensions that are not named."""
    starts, ends, steps, axes, dropped, added = [], [], [], [], [], []
    axis, place, named = 0, 0, sum(part is not None and part is not ... for part in spec)
    for part in spec:
        if part is ...:
            axis, place = axis + x.ndim - named, place + x.ndim - named
        elif part is None:
            added.append(place)
            place += 1
        elif isinstance(part, tuple):
            start, stop, step = part
            if part != (None, None, None):
                starts.append(0 if start is None else start)
                ends.append(FAR if stop is None else stop)
                steps.append(1 if step is None else step)
                axes.append(axis)
            axis, place = axis + 1, place + 1
        else:
            last = part == -1
            starts.append(part)
            ends.append(FAR if last else part + 1)
            steps.append(1)
            axes.append(axis)
            dropped.append(axis)
            axis += 1
    out = graph.slice(x, starts, ends, axes, None if set(steps) <= {1} else steps) if axes else x
    out = graph.op("Squeeze", out, graph.ints(dropped)) if dropped else out
    out = graph.op("Unsqueeze", out, graph.ints(added)) if added else out
    return graph.op("Identity", x) if out is x else out


@form("flip")
def _flip(graph: Graph, x: Ref, dims: Sequence[int]) -> Ref:
    axes = [d % x.ndim for d in dims]
    return graph.slice(x, [-1] * len(axes), [-FAR] * len(axes), axes, [-1] * len(axes))


@form("rot90")
def _rot90(graph: Graph, x: Ref, turns: int, dims: Sequence[int]) -> Ref:
    a, b = (d % x.ndim for d in dims)
    turned = _flip(graph, x, ((), (b,), (a, b), (a,))[turns]) if turns else x
    order = list(range(x.ndim))
    if turns % 2:
        order[a], order[b] = b, a
    return graph.op("Transpose", turned, perm=order)


@form("roll")
def _roll(graph: Graph, x: Ref, shifts: Sequence[int], dims: Sequence[int] | None) -> Ref:
    assert x.shape is not None
    if dims is None:
        flat = graph.op("Reshape", x, graph.ints([-1]))
        return graph.reshape(_rolled(graph, flat, shifts[0], 0), x.shape)
    for shift, d in zip(shifts, dims, strict=True):
        n = x.shape[d]
        x = _rolled(graph, x, shift % n if isinstance(n, int) and n else shift, d, x.shape)
    return x


@form("cross")
def _cross(graph: Graph, x: Ref, y: Ref, dim: int) -> Ref:
    (a, b), (c, d) = ([_rolled(graph, each, 3 - places, dim % each.ndim) for places in (1, 2)] for each in (x, y))
    return a * d - b * c


def _rolled(graph: Graph, x: Ref, shift: int, d: int, shape: Any = None) -> Ref:
    if not shift:
        return graph.op("Identity", x, shape=shape)
    parts = [graph.slice(x, [low], [high], [d]) for low, high in ((-shift, FAR), (0, -shift))]
    return graph.op("Concat", *parts, axis=d, shape=shape)


@form("tril")
def _tril(graph: Graph, x: Ref, diagonal: Any) -> Ref:
    return _triangle(graph, x, diagonal, 0)


@form("triu")
def _triu(graph: Graph, x: Ref, diagonal: Any) -> Ref:
    return _triangle(graph, x, diagonal, 1)


def _triangle(graph: Graph, x: Ref, diagonal: Any, upper: int) -> Ref:
    whole = graph.cast(x, np.int64) if x.dtype.kind in "biu" else x  # runtimes lack other integers
    return graph.cast(graph.op("Trilu", whole, graph.ref(diagonal, INT64), upper=upper), x.dtype)


@form("diagonal")
def _diagonal(graph: Graph, x: Ref, offset: int, dim1: int, dim2: int) -> Ref:
    assert x.shape is not None
    dim1, dim2 = dim1 % x.ndim, dim2 % x.ndim
    count = graph.outputs[0].shape[-1]
    if not isinstance(count, int):
        raise Unsupported("takes the diagonal of dynamic dimensions")
    rows = np.arange(count) + max(0, -offset)
    columns = np.arange(count) + max(0, offset)
    order = [dim1, dim2, *[d for d in range(x.ndim) if d not in (dim1, dim2)]]
    picked = graph.op("GatherND", graph.transpose(x, order), np.stack([rows, columns], -1))
    return graph.transpose(picked, [*range(1, x.ndim - 1), 0])


@form("pad_constant")
def _pad_constant(graph: Graph, x: Ref, before: Sequence[Any], after: Sequence[Any], value: Any) -> Ref:
    return graph.op("Pad", x, graph.shape([*before, *after]), graph.ref(value, x.dtype))


@form("pad_border")
def _pad_border(graph: Graph, x: Ref, before: Sequence[Any], after: Sequence[Any], mode: str) -> Ref:
    axes = list(range(x.ndim - len(before), x.ndim))
    name = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode]
    return graph.op("Pad", x, graph.shape([*before, *after]), None, graph.ints(axes), mode=name)


@form("unfold")
def _unfold(graph: Graph, x: Ref, dim: int, size: int, step: int) -> Ref:
    """Windows along a dimension; their cells are the last dimension."""
    count = graph.outputs[0].shape[dim % max(1, x.ndim)]
    if not isinstance(count, int):
        raise Unsupported("takes windows of a dynamic dimension")
    places = np.arange(count)[:, None] * step + np.arange(size)
    windows = graph.op("Gather", x, places, axis=dim)
    d = dim % x.ndim
    return graph.transpose(windows, [i for i in range(x.ndim + 1) if i != d + 1] + [d + 1])


@form("rearrange")
def _rearrange(graph: Graph, x: Ref, split: Sequence[Any], order: Sequence[int], joined: Sequence[Any]) -> Ref:
    return graph.reshape(graph.transpose(graph.reshape(x, split), order), joined)


@form("embedding")
def _embedding(graph: Graph, w: Ref, indices: Ref, **how: Any) -> Ref:
    return graph.op("Gather", w, indices, dtype=w.dtype, axis=0)


@form("index_select")
def _index_select(graph: Graph, x: Ref, index: Ref, dim: int) -> Ref:
    return graph.op("Gather", x, graph.op("Reshape", index, graph.ints([-1])), axis=dim)


@form("gather")
def _gather(graph: Graph, x: Ref, index: Ref, dim: int) -> Ref:
    return graph.op("GatherElements", x, index, axis=dim)


@form("take")
def _take(graph: Graph, x: Ref, index: Ref) -> Ref:
    return graph.op("Gather", graph.op("Reshape", x, graph.ints([-1])), index, axis=0)


@form("index")
def _index(graph: Graph, x: Ref, *tensors: Ref, dims: Sequence[int]) -> Ref:
    """x at integer tensors, which are broadcast, in the place of `dims`; in front, if these do not follow one another."""
    if len(tensors) == 1:
        return graph.op("Gather", x, tensors[0], axis=dims[0])
    rank = max(t.ndim for t in tensors)
    first = dims[0] if list(dims) == list(range(dims[0], dims[0] + len(dims))) else 0
    rest = [d for d in range(x.ndim) if d not in dims]
    found = graph.op("GatherND", graph.transpose(x, [*dims, *rest]), _indices(graph, tensors))
    places = [*range(rank, rank + len(rest))]
    order = [*places[:first], *range(rank), *places[first:]]
    return found if order == sorted(order) else graph.transpose(found, order)


def _indices(graph: Graph, tensors: Sequence[Ref]) -> Ref:
    """Index tensors, broadcast and stacked along a last dimension."""
    columns = [graph.cast(t, INT64) for t in tensors]
    whole = columns[0] * 0
    for column in columns[1:]:
        whole = whole + column * 0
    return graph.op("Concat", *[graph.op("Unsqueeze", column + whole, graph.ints([-1])) for column in columns], axis=-1)


@form("index_put")
def _index_put(graph: Graph, x: Ref, values: Ref, *tensors: Ref, dims: Sequence[int], accumulate: bool) -> Ref:
    if list(dims) != list(range(len(dims))):
        raise Unsupported(f"writes to indices of dimensions {list(dims)}; only the first ones can be exported")
    assert x.shape is not None
    indices = _indices(graph, tensors)
    rank = max(t.ndim for t in tensors)
    shape = graph.op("Shape", indices, dtype=INT64, end=rank)
    target = graph.op("Concat", shape, graph.shape(x.shape[len(dims) :]), axis=0) if x.ndim > len(dims) else shape
    values = graph.op("Expand", graph.cast(values, x.dtype), target)
    return graph.op("ScatterND", x, indices, values, reduction="add" if accumulate else None)


@form("scatter")
def _scatter(graph: Graph, x: Ref, index: Ref, src: Any, dim: int) -> Ref:
    return graph.op("ScatterElements", x, index, _source(graph, x, index, src), axis=dim)


@form("scatter_add")
def _scatter_add(graph: Graph, x: Ref, index: Ref, src: Any, dim: int) -> Ref:
    return graph.op("ScatterElements", x, index, _source(graph, x, index, src), axis=dim, reduction="add")


def _source(graph: Graph, x: Ref, index: Ref, src: Any) -> Ref:
    """The values that a scatter writes, in the shape of its index."""
    assert index.shape is not None
    if not isinstance(src, Ref) or not src.shape:
        return graph.op("Expand", graph.ref(src, x.dtype), graph.shape(index.shape))
    if src.shape == index.shape:
        return src
    axes = list(range(index.ndim))
    return graph.slice(src, [0] * len(axes), index.shape, axes)


@form("one_hot")
def _one_hot(graph: Graph, x: Ref, classes: int) -> Ref:
    return graph.op("OneHot", x, graph.ints([classes]), graph.ints([0, 1]), dtype=INT64, axis=-1)
