"""Sums, means, extremes, statistics, order and running sums in ONNX."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tdt.onnx._forms import FORMS, form
from tdt.onnx._graph import BOOL, INT64, Formulas, Graph, Ref, Unsupported

KINDS = {
    "sum": "ReduceSum", "mean": "ReduceMean", "prod": "ReduceProd", "amax": "ReduceMax", "amin": "ReduceMin",
    "logsumexp": "ReduceLogSumExp",
}  # fmt: skip


def reduced(graph: Graph, kind: str, x: Ref, dim: Any, keepdim: bool) -> Ref:
    """A reduction over dimensions, an integer or several; None for all."""
    axes = [] if dim is None else [*dim] if isinstance(dim, (tuple, list)) else [dim]
    if dim is not None and not axes:
        return graph.op("Identity", x)
    return graph.op(kind, x, graph.ints(axes) if axes else None, keepdims=int(keepdim))


def _register() -> None:
    for name, kind in KINDS.items():
        FORMS[name] = _reduction(kind)


def _reduction(kind: str) -> Any:
    def write(graph: Graph, x: Ref, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Ref:
        out = graph.outputs[0].dtype
        x = graph.cast(x, out) if kind in ("ReduceSum", "ReduceProd", "ReduceMean") else x
        if x.dtype == BOOL:
            return graph.cast(reduced(graph, kind, graph.cast(x, np.int32), dim, keepdim), BOOL)
        return reduced(graph, kind, x, dim, keepdim)

    return write


_register()


@form("all")
def _all(graph: Graph, x: Ref, dim: Any = None, keepdim: bool = False) -> Ref:
    return _truth(graph, "ReduceMin", x, dim, keepdim)


@form("any")
def _any(graph: Graph, x: Ref, dim: Any = None, keepdim: bool = False) -> Ref:
    return _truth(graph, "ReduceMax", x, dim, keepdim)


def _truth(graph: Graph, kind: str, x: Ref, dim: Any, keepdim: bool) -> Ref:
    truth = graph.cast(graph.cast(x, BOOL), np.int32)
    return graph.cast(reduced(graph, kind, truth, dim, keepdim), graph.outputs[0].dtype)


@form("count_nonzero")
def _count_nonzero(graph: Graph, x: Ref, dim: Any) -> Ref:
    return reduced(graph, "ReduceSum", graph.cast(graph.cast(x, BOOL), INT64), dim, False)


@form("argmax")
def _argmax(graph: Graph, x: Ref, dim: int | None = None, keepdim: bool = False) -> Ref:
    return _place(graph, "ArgMax", x, dim, keepdim)


@form("argmin")
def _argmin(graph: Graph, x: Ref, dim: int | None = None, keepdim: bool = False) -> Ref:
    return _place(graph, "ArgMin", x, dim, keepdim)


def _place(graph: Graph, kind: str, x: Ref, dim: int | None, keepdim: bool) -> Ref:
    if dim is not None:
        return graph.op(kind, x, dtype=INT64, axis=dim, keepdims=int(keepdim))
    flat = graph.op(kind, graph.op("Reshape", x, graph.ints([-1])), dtype=INT64, axis=0, keepdims=0)
    return graph.op("Reshape", flat, graph.ints([1] * x.ndim)) if keepdim else flat


@form("max_dim")
def _max_dim(graph: Graph, x: Ref, dim: int, keepdim: bool = False) -> list[Ref]:
    return [reduced(graph, "ReduceMax", x, dim, keepdim), _place(graph, "ArgMax", x, dim, keepdim)]


@form("min_dim")
def _min_dim(graph: Graph, x: Ref, dim: int, keepdim: bool = False) -> list[Ref]:
    return [reduced(graph, "ReduceMin", x, dim, keepdim), _place(graph, "ArgMin", x, dim, keepdim)]


@form("sort")
def _sort(graph: Graph, x: Ref, dim: int, descending: bool = False, keepdim: bool = True) -> list[Ref]:
    assert x.shape is not None
    return _ordered(graph, x, x.shape[dim], dim, descending)


@form("topk")
def _topk(graph: Graph, x: Ref, k: int, dim: int, largest: bool = True, keepdim: bool = True) -> list[Ref]:
    return _ordered(graph, x, k, dim, largest)


def _ordered(graph: Graph, x: Ref, k: Any, dim: int, largest: bool) -> list[Ref]:
    return graph.ops("TopK", x, graph.size(k), dtypes=[None, INT64], axis=dim, largest=int(largest), sorted=1)


@form("cumsum")
def _cumsum(graph: Graph, x: Ref, dim: int, reverse: bool = False) -> Ref:
    x = graph.cast(x, graph.outputs[0].dtype)
    return graph.op("CumSum", x, graph.ref(dim, INT64), reverse=int(reverse))


@form("var")
def _var(graph: Graph, x: Ref, dim: Any, correction: float = 1, keepdim: bool = False) -> Ref:
    axes = list(range(x.ndim)) if dim is None else [*dim]
    centred = x - reduced(graph, "ReduceMean", x, axes, True)
    count = math.prod([x.shape[d] for d in axes] if x.shape else [])
    total = reduced(graph, "ReduceSum", centred * centred, axes, keepdim)
    divisor = count - correction if isinstance(count, int) else graph.ref(count, x.dtype) - correction
    return total / divisor


@form("std")
def _std(graph: Graph, x: Ref, dim: Any, correction: float = 1, keepdim: bool = False) -> Ref:
    return graph.op("Sqrt", _var(graph, x, dim, correction, keepdim))


@form("vector_norm")
def _vector_norm(graph: Graph, x: Ref, ord: float, dim: Any, keepdim: bool) -> Ref:
    if ord == 2:
        return reduced(graph, "ReduceL2", x, dim, keepdim)
    size = graph.op("Abs", x)
    if ord == 1:
        return reduced(graph, "ReduceSum", size, dim, keepdim)
    if math.isinf(ord):
        return reduced(graph, "ReduceMax" if ord > 0 else "ReduceMin", size, dim, keepdim)
    if not ord:
        return reduced(graph, "ReduceSum", graph.cast(size != 0, x.dtype), dim, keepdim)
    return reduced(graph, "ReduceSum", size**ord, dim, keepdim) ** (1 / ord)


@form("cosine_similarity")
def _cosine_similarity(graph: Graph, x: Ref, y: Ref, dim: int, eps: float) -> Ref:
    units = [v / graph.op("Max", _vector_norm(graph, v, 2.0, (dim,), True), graph.ref(eps, v.dtype)) for v in (x, y)]
    return reduced(graph, "ReduceSum", units[0] * units[1], (dim,), False)


@form("cdist")
def _cdist(graph: Graph, x: Ref, y: Ref, p: float) -> Ref:
    rows, columns = (graph.op("Unsqueeze", v, graph.ints([axis])) for v, axis in ((x, -2), (y, -3)))
    return _vector_norm(graph, rows - columns, p, -1, False)


@form("nansum")
def _nansum(graph: Graph, x: Ref, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Ref:
    x = graph.cast(x, graph.outputs[0].dtype)
    return reduced(graph, "ReduceSum", graph.where(Formulas(graph).isnan(x), 0.0, x), dim, keepdim)


@form("nanmean")
def _nanmean(graph: Graph, x: Ref, dim: Any = None, keepdim: bool = False) -> Ref:
    missing = Formulas(graph).isnan(x)
    count = reduced(graph, "ReduceSum", graph.cast(~missing, x.dtype), dim, keepdim)
    return reduced(graph, "ReduceSum", graph.where(missing, 0.0, x), dim, keepdim) / count


@form("softmax")
def _softmax(graph: Graph, x: Ref, dim: int) -> Ref:
    return graph.op("Softmax", x, axis=dim) if x.ndim else graph.op("Exp", x - x)


@form("log_softmax")
def _log_softmax(graph: Graph, x: Ref, dim: int) -> Ref:
    return graph.op("LogSoftmax", x, axis=dim) if x.ndim else x - x


def sizes_known(values: Sequence[Any], what: str) -> list[int]:
    """Sizes that do not depend on the dynamic dimensions, else Unsupported."""
    if not all(isinstance(n, int) for n in values):
        raise Unsupported(f"needs {what} that does not depend on the dynamic dimensions")
    return list(values)
