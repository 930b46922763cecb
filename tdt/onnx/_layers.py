"""Layers in ONNX: products, convolution, pooling, normalisation, attention, resampling, recurrence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tdt._backend.windows import output_sizes
from tdt._ops.nn._resampling import taps
from tdt._ops.nn.loss.elements import PAIR_LOSSES
from tdt._ops.nn.pool_uneven import adaptive_cells
from tdt.onnx._forms import form
from tdt.onnx._graph import BOOL, Formulas, Graph, Ref, Unsupported, check_known
from tdt.onnx._reductions import reduced, sizes_known


@form("matmul")
def _matmul(graph: Graph, x: Ref, y: Ref) -> Ref:
    return graph.op("MatMul", x, y)


@form("addmm")
def _addmm(graph: Graph, x: Ref, a: Ref, b: Ref, beta: float, alpha: float) -> Ref:
    product = graph.op("MatMul", a, b)
    product = product if alpha == 1 else product * alpha
    return product + (x if beta == 1 else x * beta) if beta else product


@form("linear")
def _linear(graph: Graph, x: Ref, w: Ref, b: Ref | None = None) -> Ref:
    if x.ndim == 2 and w.ndim == 2 and (b is None or b.ndim == 1):
        return graph.op("Gemm", x, w, b, transB=1)
    product = graph.op("MatMul", x, graph.transpose(w, (1, 0)) if w.ndim == 2 else w)
    return product if b is None else product + b


@form("conv")
def _conv(
    graph: Graph, x: Ref, w: Ref, b: Ref | None = None, *, stride: Any, padding: Any, dilation: Any, groups: int
) -> Ref:
    return graph.op("Conv", x, w, b, strides=[*stride], pads=[*padding, *padding], dilations=[*dilation], group=groups)


@form("conv_input_grad")
def _conv_transpose(
    graph: Graph,
    y: Ref,
    w: Ref,
    b: Ref | None = None,
    *,
    size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Ref:
    assert y.shape is not None and w.shape is not None
    places = zip(y.shape[2:], w.shape[2:], stride, padding, dilation, size, strict=True)
    extra = [n - ((o - 1) * s - 2 * p + d * (k - 1) + 1) for o, k, s, p, d, n in places]
    extra = sizes_known(extra, "output padding")
    how: dict[str, Any] = {
        "strides": [*stride],
        "pads": [*padding, *padding],
        "dilations": [*dilation],
        "group": groups,
    }
    return graph.op("ConvTranspose", y, w, b, output_padding=extra, **how)


def _per_channel(graph: Graph, v: Ref, ndim: int) -> Ref:
    """A vector of channels, to be broadcast with (N, C, *)."""
    return graph.op("Reshape", v, graph.ints([-1, *[1] * (ndim - 2)])) if ndim > 2 else v


@form("batch_norm_eval")
def _batch_norm_eval(
    graph: Graph, x: Ref, mean: Ref, var: Ref, w: Ref | None = None, b: Ref | None = None, *, eps: float
) -> Ref:
    assert mean.shape is not None
    scale = graph.ref(np.ones(mean.shape, x.dtype)) if w is None else w
    shift = graph.ref(np.zeros(mean.shape, x.dtype)) if b is None else b
    return graph.op("BatchNormalization", x, scale, shift, mean, var, epsilon=float(eps))


@form("batch_norm")
def _batch_norm(graph: Graph, x: Ref, w: Ref | None = None, b: Ref | None = None, *, eps: float) -> list[Ref]:
    """Normalised by the statistics of the batch itself."""
    axes = [0, *range(2, x.ndim)]
    mean = reduced(graph, "ReduceMean", x, axes, True)
    centred = x - mean
    rstd = Formulas(graph).sqrt(reduced(graph, "ReduceMean", centred * centred, axes, True) + eps)
    out = centred / rstd
    out = out if w is None else out * _per_channel(graph, w, x.ndim)
    return [out if b is None else out + _per_channel(graph, b, x.ndim)]


@form("group_norm")
def _group_norm(
    graph: Graph, x: Ref, w: Ref | None = None, b: Ref | None = None, *, groups: int, eps: float
) -> list[Ref]:
    assert x.shape is not None
    shape = (x.shape[0], groups, math.prod(x.shape[1:]) // groups)
    grouped = x if groups == x.shape[1] and x.ndim > 2 else graph.reshape(x, shape)
    ones, zeros = (graph.ref(np.full(groups, value, x.dtype)) for value in (1, 0))
    out = graph.op("InstanceNormalization", grouped, ones, zeros, epsilon=float(eps))
    out = out if grouped is x else graph.reshape(out, x.shape)
    out = out if w is None else out * _per_channel(graph, w, x.ndim)
    return [out if b is None else out + _per_channel(graph, b, x.ndim)]


@form("layer_norm")
def _layer_norm(
    graph: Graph, x: Ref, w: Ref | None = None, b: Ref | None = None, *, dims: int, eps: float, centred: bool = True
) -> list[Ref]:
    if centred:
        scale = np.ones(tuple(sizes_known((x.shape or ())[x.ndim - dims :], "a size")), x.dtype) if w is None else w
        return [graph.op("LayerNormalization", x, scale, b, axis=-dims, epsilon=float(eps))]
    axes = list(range(x.ndim - dims, x.ndim))
    out = x / Formulas(graph).sqrt(reduced(graph, "ReduceMean", x * x, axes, True) + eps)
    out = out if w is None else out * w
    return [out if b is None else out + b]


@form("attention")
def _attention(
    graph: Graph, q: Ref, k: Ref, v: Ref, mask: Ref | None = None, keep: Any = None, *, causal: bool, scale: float,
    dropped: float,
) -> Ref:  # fmt: skip
    if keep is not None:
        raise Unsupported("drops weights at random; export a model in evaluation mode")
    assert q.shape is not None and k.shape is not None
    keys = graph.transpose(k, [*range(k.ndim - 2), k.ndim - 1, k.ndim - 2])
    scores = graph.op("MatMul", q * scale, keys)
    low = graph.ref(-math.inf, q.dtype)
    hidden: Ref | None = None
    if causal:
        whole = graph.op("Expand", graph.ref(1, np.int64), graph.shape([q.shape[-2], k.shape[-2]]))
        visible = graph.op("Trilu", whole, upper=0)
        hidden = visible == 0
    if mask is not None and mask.dtype == BOOL:
        hidden = ~mask if hidden is None else hidden | ~mask
    elif mask is not None:
        scores = scores + graph.cast(mask, q.dtype)
    scores = scores if hidden is None else graph.where(hidden, low, scores)
    weights = graph.op("Softmax", scores, axis=-1)
    if mask is not None:  # rows that see nothing have weights 0
        top = reduced(graph, "ReduceMax", scores, -1, True)
        weights = graph.where(top == low, graph.ref(0, q.dtype), weights)
    return graph.op("MatMul", weights, v)


def _windows(x: Ref, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> list[int]:
    """The padding before and behind each dimension that fits the number of windows, which tdt and ONNX count differently."""
    assert x.shape is not None
    if not ceil_mode:
        return [*padding, *padding]
    size = sizes_known(x.shape[2:], "a size of the image (for ceil_mode)")
    out = output_sizes(tuple(size), kernel, stride, padding, dilation, ceil_mode)
    ends = [
        max(p, (o - 1) * s + d * (k - 1) + 1 - n - p)
        for n, o, k, s, p, d in zip(size, out, kernel, stride, padding, dilation, strict=True)
    ]
    return [*padding, *ends]


@form("max_pool")
def _max_pool(graph: Graph, x: Ref, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Ref:
    pads = _windows(x, kernel, stride, padding, dilation, ceil_mode)
    how: dict[str, Any] = {"kernel_shape": [*kernel], "strides": [*stride], "dilations": [*dilation]}
    if max(pads) == 0 or not ceil_mode:
        return graph.op("MaxPool", x, pads=pads, **how)
    return graph.op("MaxPool", _bordered(graph, x, pads, -math.inf), **how)


@form("max_pool_with_indices")
def _max_pool_with_indices(graph: Graph, x: Ref, **how: Any) -> list[Ref]:
    return [_max_pool(graph, x, **how)]


def _bordered(graph: Graph, x: Ref, pads: Sequence[int], value: float) -> Ref:
    """x (N, C, *) with a border around its images."""
    n = len(pads) // 2
    return graph.op("Pad", x, graph.ints([0, 0, *pads[:n], 0, 0, *pads[n:]]), graph.ref(value, x.dtype))


@form("avg_pool")
def _avg_pool(
    graph: Graph,
    x: Ref,
    kernel: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    include_pad: bool,
    divisor: int | None,
) -> Ref:
    assert x.shape is not None
    how: dict[str, Any] = {"kernel_shape": [*kernel], "strides": [*stride]}
    if not ceil_mode and divisor is None:
        return graph.op("AveragePool", x, pads=[*padding, *padding], count_include_pad=int(include_pad), **how)
    pads = _windows(x, kernel, stride, padding, (1,) * len(kernel), ceil_mode)
    cells = math.prod(kernel)
    sums = graph.op("AveragePool", _bordered(graph, x, pads, 0.0), **how) * cells
    if divisor is not None:
        return sums / divisor
    # The cells of each window that count: those of the image, and with include_pad those of its own border.
    size = sizes_known(x.shape[2:], "a size of the image (for ceil_mode)")
    ones = np.ones([n + (2 * p if include_pad else 0) for n, p in zip(size, padding, strict=True)], x.dtype)
    n = len(size)
    ends = [end - (p if include_pad else 0) for end, p in zip(pads[n:], padding, strict=True)]
    ones = np.pad(ones, [(0 if include_pad else p, end) for p, end in zip(padding, ends, strict=True)])
    counts = np.lib.stride_tricks.sliding_window_view(ones, kernel)[tuple(slice(None, None, s) for s in stride)]
    return sums / np.ascontiguousarray(counts.sum(tuple(range(-n, 0)))).astype(x.dtype)


@form("adaptive_max")
def _adaptive_max(graph: Graph, x: Ref, windows: Sequence[int]) -> list[Ref]:
    assert x.shape is not None
    for axis, (size, count) in enumerate(zip(sizes_known(x.shape[2:], "a size of the image"), windows, strict=True), 2):
        x = _largest_of(graph, x, adaptive_cells(size, count)[0, 0], axis)
    return [x]


def _largest_of(graph: Graph, x: Ref, places: Any, axis: int) -> Ref:
    """The largest of the cells (windows, cells) along a dimension."""
    picked = graph.op("Gather", x, places, axis=axis)
    return Ref(graph, reduced(graph, "ReduceMax", picked, axis + 1, False).name, x.dtype, x.shape)


@form("resample")
def _resample(graph: Graph, x: Ref, axes: Sequence[Any]) -> Ref:
    """Each spatial axis by a product with the weights of its output places."""
    for d, axis in enumerate(axes, 2):
        if axis is None:
            continue
        check_known(axis, "axes")
        sizes_known([axis.inside, axis.outside], "a size of the image")
        if x.dtype.kind != "f":
            raise Unsupported(f"resamples {x.dtype}; convert the image to float32 first")
        table = taps(axis, x.dtype.char if x.dtype.char in "fd" else "f")
        if table.weight is None and table.each == 1:
            x = Ref(graph, graph.op("Gather", x, table.index, axis=d).name, x.dtype, x.shape)
            continue
        weights = np.zeros((table.count, axis.outside if axis.turned else axis.inside), x.dtype)
        rows = np.repeat(np.arange(table.count), np.diff(table.start))
        np.add.at(weights, (rows, table.index), 1 if table.weight is None else table.weight)
        assert x.shape is not None
        order = [*[i for i in range(len(x.shape)) if i != d], d]
        back = sorted(range(len(order)), key=order.__getitem__)
        product = graph.op("MatMul", graph.op("Transpose", x, perm=order), weights.T)
        x = Ref(graph, graph.op("Transpose", product, perm=back).name, x.dtype, x.shape)
    return x


@form("grid_sampler_2d")
def _grid_sampler(graph: Graph, x: Ref, grid: Ref, mode: str, padding: str, align: bool) -> Ref:
    mode = "linear" if mode == "bilinear" else mode
    return graph.op("GridSample", x, grid, mode=mode, padding_mode=padding, align_corners=int(align))


@form("col2im")
def _col2im(graph: Graph, x: Ref, size: Any, kernel: Any, stride: Any, padding: Any, dilation: Any) -> Ref:
    how: dict[str, Any] = {"dilations": [*dilation], "pads": [*padding, *padding], "strides": [*stride]}
    return graph.op("Col2Im", x, graph.shape(size), graph.ints(kernel), **how)


@form("im2col")
def _im2col(graph: Graph, x: Ref, kernel: Any, stride: Any, padding: Any, dilation: Any) -> Ref:
    """The cells of all windows, by a convolution with weights that pick one cell each."""
    assert x.shape is not None
    channels, cells = sizes_known([x.shape[1]], "channels")[0], math.prod(kernel)
    pick = np.tile(np.eye(cells, dtype=x.dtype).reshape(cells, 1, *kernel), (channels, *[1] * (len(kernel) + 1)))
    how: dict[str, Any] = {"strides": [*stride], "pads": [*padding, *padding], "dilations": [*dilation]}
    picked = graph.op("Conv", x, pick, group=channels, **how)
    return graph.reshape(picked, graph.outputs[0].shape)


def _gates(graph: Graph, v: Ref, order: Sequence[int]) -> Ref:
    """Rows of gates in another order, with a leading dimension for the direction."""
    if len(order) > 1:
        parts = graph.ops("Split", v, dtypes=[None] * len(order), axis=0, num_outputs=len(order))
        v = graph.op("Concat", *[parts[k] for k in order], axis=0)
    return graph.op("Unsqueeze", v, graph.ints([0]))


def _recurrence(
    graph: Graph, kind: str, x: Ref, states: Sequence[Ref], weights: Sequence[Ref | None], sizes: Any,
    order: Sequence[int], reverse: bool, **how: Any,
) -> list[Ref]:  # fmt: skip
    """A layer in one direction: every h (T, N, H), and the last states."""
    cell = x.ndim == 2 and isinstance(sizes, tuple) and len(sizes) == 1  # one step, of all samples
    if x.ndim != 3 and not cell:
        raise Unsupported("runs over packed sequences; export the model with padded ones")
    w_ih, w_hh, b_ih, b_hh = weights
    assert w_ih is not None and w_hh is not None and w_hh.shape is not None
    hidden = w_hh.shape[1]
    rows = hidden * len(order)
    biases = None
    if b_ih is not None or b_hh is not None:
        zeros = np.zeros((1, rows), x.dtype)
        both = [graph.ref(zeros) if b is None else _gates(graph, b, order) for b in (b_ih, b_hh)]
        biases = graph.op("Concat", *both, axis=1)
    first = [graph.op("Unsqueeze", s, graph.ints([0])) for s in states]
    out, *last = graph.ops(
        kind, graph.op("Unsqueeze", x, graph.ints([0])) if cell else x,
        *(_gates(graph, w, order) for w in (w_ih, w_hh)), biases, None, *first,
        dtypes=[x.dtype] * (1 + len(states)), hidden_size=hidden, direction="reverse" if reverse else "forward", **how,
    )  # fmt: skip
    every = graph.op("Squeeze", out, graph.ints([0, 1] if cell else [1]))
    return [every, *[graph.op("Squeeze", state, graph.ints([0])) for state in last]]


@form("lstm_sequence")
def _lstm(graph: Graph, x: Ref, h: Ref, c: Ref, *weights: Any, sizes: Any, reverse: bool = False) -> list[Ref]:
    plain: list[Any] = [*weights, *[None] * (5 - len(weights))]
    projection = plain.pop()
    if projection is not None:
        raise Unsupported("is an LSTM with projections (proj_size), which ONNX's LSTM does not have")
    return _recurrence(graph, "LSTM", x, (h, c), plain, sizes, (0, 3, 1, 2), reverse)


@form("gru_sequence")
def _gru(graph: Graph, x: Ref, h: Ref, *weights: Any, sizes: Any, reverse: bool = False) -> list[Ref]:
    plain = [*weights, *[None] * (4 - len(weights))]
    return _recurrence(graph, "GRU", x, (h,), plain, sizes, (1, 0, 2), reverse, linear_before_reset=1)


@form("rnn_sequence")
def _rnn(graph: Graph, x: Ref, h: Ref, *weights: Any, relu: bool, sizes: Any, reverse: bool = False) -> list[Ref]:
    plain = [*weights, *[None] * (4 - len(weights))]
    return _recurrence(graph, "RNN", x, (h,), plain, sizes, (0,), reverse, activations=["Relu" if relu else "Tanh"])


def _mean_of(graph: Graph, losses: Ref, reduction: str) -> Ref:
    kind = {"mean": "ReduceMean", "sum": "ReduceSum"}.get(reduction)
    return losses if kind is None else reduced(graph, kind, losses, None, False)


@form("probability_loss")
def _probability_loss(graph: Graph, x: Ref, t: Ref, dim: int, reduction: str) -> Ref:
    terms = graph.op("LogSoftmax", x, axis=dim) * t
    return _mean_of(graph, graph.op("Neg", reduced(graph, "ReduceSum", terms, dim, False)), reduction)


@form("huber_loss")
def _huber_loss(graph: Graph, x: Ref, y: Ref, delta: float, reduction: str) -> Ref:
    size = graph.op("Abs", x - y)
    losses = graph.where(size < delta, size * size * 0.5, (size - 0.5 * delta) * delta)
    return _mean_of(graph, losses, reduction)


def _pair_loss(name: str) -> None:
    """The form of a loss of pairs: its formula, reduced."""
    formula = PAIR_LOSSES[name]

    @form(name)
    def _(graph: Graph, x: Ref, y: Ref, reduction: str) -> Ref:
        return _mean_of(graph, formula(Formulas(graph), x, y), reduction)


for _name in PAIR_LOSSES:
    _pair_loss(_name)
