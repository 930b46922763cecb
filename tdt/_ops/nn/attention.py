"""Scaled dot-product attention as one op that never stores all weights at once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from tdt._backend.waiting import repeatable
from tdt._core.broadcasting import check_broadcast
from tdt._core.dtype import FLOATING, float32
from tdt._core.dtype import bool as BOOL
from tdt._core.tensor import Tensor
from tdt._kernels import (
    LOWER,
    chosen,
    float_attention,
    gpu_attention,
    gpu_kernel,
    kernel,
    lazy,
    narrow,
    prepares,
    product,
    widen,
    zeros_like,
)
from tdt._kernels._formulas import BFLOAT16, FLOAT32
from tdt._ops._common import C_NAMES, unrecorded
from tdt._ops.elementwise._front import tensor_argument
from tdt.autograd._autocast import cast_for
from tdt.autograd._op import op
from tdt.autograd._remembered import calls_by_shape

BLOCK = 1 << 18  # attention weights in memory at a time: the number of rows follows from it, and is at least 1


def _shape(q: tuple, k: tuple, v: tuple, *rest: Any, **how: Any) -> tuple:
    return (*q[:-1], v[-1])


def _flops(q: tuple, k: tuple, v: tuple, *rest: Any, **how: Any) -> int:
    return math.prod(q[:-1]) * k[-2] * (q[-1] + v[-1])


_BLOCKS = (kernel("attention_cpu:attention", float_attention),)
_prepared = lazy("attention_cpu:prepared")
_BLOCKS_GRAD = (kernel("attention_cpu:attention_vjp", float_attention),)
_ON_GPU = (
    gpu_kernel("cudnn_attention_gpu:attention", lazy("cudnn_attention_gpu:fits")),
    gpu_kernel("attention_gpu:attention", gpu_attention),
)
_GRAD_ON_GPU = (
    gpu_kernel("cudnn_attention_gpu:attention_vjp", lazy("cudnn_attention_gpu:vjp_fits")),
    gpu_kernel("attention_gpu:attention_vjp", gpu_attention),
)


@op(
    dtypes=FLOATING,
    promote=(),
    broadcasts=False,
    aux=("norms",),
    shape=_shape,
    flops=_flops,
    node="ScaledDotProductFlashAttentionForCpuBackward0",
    autocast="lower",
    half="everywhere",
)
@repeatable
def _attention(xp, q, k, v, mask=None, keep=None, *, causal, scale, dropped):
    """softmax(scale q kᵀ + mask) v for q (*, L, E), k (*, S, E), v (*, S, D), and a mask that broadcasts to (*, L, S) or None.

    mask: numbers, or bools that say which scores are not -inf; one that requires a gradient has all dimensions.
    keep: None, or bools (*, L, S) that say which weights are not dropped; these are divided by 1 - dropped. causal: row i
    sees the places up to i. Weights of a row whose scores are all -inf are 0. aux: for each row the largest score, and 1
    over the sum of the exponentials of the scores less it, (*, L, 2); of cuDNN the logarithm of that sum, (*, L, 1).

    Rows are computed a few at a time, so memory grows with L + S, not with L S (Rabe and Staats, 2021); the gradient makes
    the weights anew, from those two numbers (Dao et al., 2022).
    """
    if on_gpu := chosen(_ON_GPU, xp, q, k, v, mask, keep):
        return on_gpu(q, k, v, mask, keep, causal=causal, scale=scale, dropped=dropped)
    low = q.dtype in LOWER
    out, norms = _room(xp, q, v, keep), xp.zeros((*q.shape[:-1], 2), FLOAT32 if low else q.dtype)
    if fast := chosen(_BLOCKS, xp, q, k, v, mask, keep):
        fast(q, k, v, mask, keep, out, norms, causal=causal, scale=scale, dropped=dropped)
        return out, norms
    if low:
        how = {"causal": causal, "scale": scale, "dropped": dropped}
        wide, norms = _attention.forward(xp, *widen((q, k, v, mask)), keep, **how)
        return narrow(wide, q.dtype), norms
    mask = _whole(xp, mask, q, k)
    for rows, visible in _blocks(q, k, causal) if k.shape[-2] else ():
        weights = _scores(xp, q, k, mask, rows, visible, causal, scale)
        top = weights.max(axis=-1, keepdims=True)
        top[top == -math.inf] = 0
        xp.exp(xp.subtract(weights, top, out=weights), out=weights)
        total = weights.sum(axis=-1, keepdims=True)
        total[total == 0] = math.inf
        norms[..., rows, :1], norms[..., rows, 1:] = top, 1 / total
        weights *= norms[..., rows, 1:]
        _drop(weights, keep, rows, visible, dropped)
        out[..., rows, :] = product(xp, weights, v[..., visible, :])
    return out, norms


@prepares(_attention.forward, strided=True, large=True)
def _(q, k, v, mask=None, keep=None, *, causal, scale, dropped, recorded):
    if keep is not None or chosen(_BLOCKS, np, q, k, v, mask, keep) is None:
        return None
    out, rows, kind = _room(np, q, v, keep), (*q.shape[:-1], 2), FLOAT32 if q.dtype in LOWER else q.dtype
    compute, shape = _prepared(q, k, v, mask, out, causal=causal, scale=scale), out.shape
    contiguous = out.flags.c_contiguous

    def run(q, k, v, mask, keep):
        out = np.zeros(shape, q.dtype) if contiguous else _zeros_like(np, q)
        norms = np.zeros(rows, kind)
        compute(q, k, v, mask, out, norms)
        return (out, norms) if recorded else out

    return run


def _whole(xp: Any, mask: Any, q: Any, k: Any) -> Any:
    """A mask (*, L, S)."""
    return None if mask is None else xp.broadcast_to(mask, (*q.shape[:-1], k.shape[-2]))


def _room(xp: Any, q: Any, v: Any, keep: Any) -> Any:
    """Zeros for the result: in q's memory order where PyTorch's fused form has it so, else contiguous."""
    if q.ndim == 4 and q.shape[-1] == v.shape[-1] and keep is None:
        return _zeros_like(xp, q)
    return xp.zeros((*q.shape[:-1], v.shape[-1]), q.dtype)


def _zeros_like(xp: Any, x: Any) -> Any:
    """Zeros in x's memory order if that has the last dimension in a row, else contiguous."""
    ordered = x.strides[-1] == x.itemsize and 0 not in x.strides
    return zeros_like(xp, x) if ordered else xp.zeros(x.shape, x.dtype)


def _blocks(q: Any, k: Any, causal: bool) -> Iterator[tuple[slice, slice]]:
    """Some rows, and the places that they see, as often as it takes."""
    length, places = q.shape[-2], k.shape[-2]
    count = max(1, BLOCK // max(1, math.prod(q.shape[:-2]) * places))
    for i in range(0, length, count):
        yield slice(i, i + count), slice(0, min(places, i + count) if causal else places)


def _scores(xp: Any, q: Any, k: Any, mask: Any, rows: slice, visible: slice, causal: bool, scale: float) -> Any:
    """The scores of some rows for the keys in `visible`, -inf where causal attention masks a key."""
    scores = product(xp, q[..., rows, :] * q.dtype.type(scale), k[..., visible, :].swapaxes(-1, -2))
    if mask is not None and mask.dtype == bool:
        scores[~mask[..., rows, visible]] = -math.inf
    elif mask is not None:
        scores += mask[..., rows, visible]
    if causal:
        places = xp.arange(rows.start, rows.start + scores.shape[-2])
        xp.copyto(scores, -math.inf, where=places[:, None] < xp.arange(visible.stop))
    return scores


def _drop(weights: Any, keep: Any, rows: slice, visible: slice, dropped: float) -> None:
    if keep is not None:
        weights *= keep[..., rows, visible]
        weights /= weights.dtype.type(1 - dropped)


@_attention.vjp("q", "k", "v", "mask")
def _(g, needs, q, k, v, mask, keep, causal, scale, dropped):
    scores = (q * scale) @ k.mT
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype is BOOL else scores + mask
    if causal:
        scores = scores.masked_fill(scores.new_ones(scores.shape[-2:], dtype=BOOL).triu(1), -math.inf)
    unseen = (scores == -math.inf).all(-1, keepdim=True)
    weights = scores.masked_fill(unseen, 0).softmax(-1).masked_fill(unseen, 0)
    after_dropout, g_weights = weights, g @ v.mT
    if keep is not None:
        after_dropout, g_weights = after_dropout * keep / (1 - dropped), g_weights * keep / (1 - dropped)
    g_scores = weights * (g_weights - (weights * g_weights).sum(-1, keepdim=True))
    return (
        g_scores @ k * scale if needs[0] else None,
        g_scores.mT @ q * scale if needs[1] else None,
        after_dropout.mT @ g if needs[2] else None,
        g_scores if needs[3] else None,
    )


@_attention.fast_vjp("q", "k", "v", "mask")
@repeatable
def _(xp, g, needs, q, k, v, mask, keep, out, norms, causal, scale, dropped):
    if not needs[3] and xp is not np and (on_gpu := chosen(_GRAD_ON_GPU, xp, q, k, v, mask, keep, norms)):
        how = {"causal": causal, "scale": scale, "dropped": dropped}
        return *on_gpu(g, q, k, v, mask, keep, out, norms, needs=needs[:3], **how), None
    gq, gk, gv = (_zeros_like(xp, x) for x in (q, k, v))
    if q.dtype in LOWER and not chosen(_BLOCKS_GRAD, xp, q, k, v, mask, keep):
        g, q, k, v, mask, out = widen((g, q, k, v, mask, out))
        gq, gk, gv = (_zeros_like(xp, x) for x in (q, k, v))
    g_mask: Any = xp.zeros((*q.shape[:-1], k.shape[-2]), mask.dtype) if needs[3] else None
    if fast := chosen(_BLOCKS_GRAD, xp, q, k, v, mask, keep):
        fast(g, q, k, v, mask, keep, out, norms, gq, gk, gv, g_mask, causal=causal, scale=scale, dropped=dropped)
        return gq, gk, gv, g_mask
    mask = _whole(xp, mask, q, k)
    # The sum that softmax's gradient subtracts: of weights times their gradients, which equals that of `out` times `g`.
    shared = (g * out).sum(axis=-1, keepdims=True)
    for rows, visible in _blocks(q, k, causal):
        weights = _scores(xp, q, k, mask, rows, visible, causal, scale)
        xp.exp(xp.subtract(weights, norms[..., rows, :1], out=weights), out=weights)
        weights *= norms[..., rows, 1:]
        g_weights = product(xp, g[..., rows, :], v[..., visible, :].swapaxes(-1, -2))
        after_dropout = weights if keep is None else weights.copy()
        _drop(after_dropout, keep, rows, visible, dropped)
        _drop(g_weights, keep, rows, visible, dropped)
        gv[..., visible, :] += product(xp, after_dropout.swapaxes(-1, -2), g[..., rows, :])
        g_weights -= shared[..., rows, :]
        g_weights *= weights
        if needs[3]:
            g_mask[..., rows, visible] = g_weights
        g_weights *= q.dtype.type(scale)
        gq[..., rows, :] = product(xp, g_weights, k[..., visible, :])
        gk[..., visible, :] += product(xp, g_weights.swapaxes(-1, -2), q[..., rows, :])
    return gq, gk, gv, g_mask


@calls_by_shape
def _attended(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool, scale: float) -> Tensor:
    """Attention of operands that `_fit`."""
    return _attention(query, key, value, mask, None, causal=causal, scale=scale, dropped=0.0)


def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None,
                                 dropout_p: float = 0.0, is_causal: bool = False, *, scale: float | None = None,
                                 enable_gqa: bool = False) -> Tensor:  # fmt: skip
    """softmax(query · keyᵀ · scale + attn_mask) · value: weighted means of the values.

    The L × S weights are not stored as a whole, except with dropout, or when the mask requires grad.

    Args:
        attn_mask: bool, True where a query may attend; or numbers that are added. A query without any key gets zeros.
        dropout_p: probability of dropping a weight; applied whether training or not.
        is_causal: query i attends to the keys up to i only.
        scale: None is 1 / √E.
        enable_gqa: query may have a multiple of the heads, dimension -3, of key and value.
    Shape: query (*, L, E), key (*, S, E), value (*, S, D), attn_mask broadcastable to (*, L, S); result (*, L, D).
        Leading sizes are broadcast.
    Raises:
        RuntimeError: when sizes or dtypes do not fit, `dropout_p` is not in [0, 1], or a mask and `is_causal` are not
            supported together.
    Source: Vaswani et al., "Attention Is All You Need", 2017.

    >>> import tdt
    >>> from tdt.nn import functional
    >>> functional.scaled_dot_product_attention(tdt.zeros(1, 2), tdt.ones(2, 2), tdt.tensor([[1.0, 0.0], [3.0, 2.0]]))
    tensor([[2., 1.]])
    """
    if not dropout_p and _fit(query, key, value) and (attn_mask is None or _fits(attn_mask, query, key, is_causal)):
        if scale is None:  # most calls
            scale = 1 / math.sqrt(query._a.shape[-1])
        return _attended(query, key, value, attn_mask, bool(is_causal), float(scale))
    for position, (name, t) in enumerate((("query", query), ("key", key), ("value", value)), 1):
        tensor_argument("scaled_dot_product_attention", t, name, position)
    query, key, value, attn_mask = cast_for("lower", query, key, value, attn_mask)
    _check_operands(query, key, value, attn_mask, dropout_p)
    if enable_gqa:
        key, value = _shared_heads(query, key, "key"), _shared_heads(query, value, "value")
    fused = query.ndim == 4 and query.shape[:2] == key.shape[:2] == value.shape[:2] and not dropout_p
    if is_causal and attn_mask is not None and not (fused and not attn_mask.requires_grad):
        raise RuntimeError("_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True")
    batch = check_broadcast(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    query, key, value = (t if t.shape[:-2] == batch else t.expand(*batch, *t.shape[-2:]) for t in (query, key, value))
    weights = *batch, query.shape[-2], key.shape[-2]
    if attn_mask is not None:
        if check_broadcast(weights, tuple(attn_mask.shape)) != weights:
            raise RuntimeError(f"output with shape {list(weights)} doesn't match the broadcast shape "
                               f"{list(check_broadcast(weights, tuple(attn_mask.shape)))} (attn_mask)")  # fmt: skip
        if attn_mask.requires_grad:
            attn_mask = attn_mask.expand(weights)
    keep = None
    if dropout_p:
        keep = query.new_zeros(weights, dtype=BOOL)
        keep = keep.bernoulli_(1 - dropout_p) if dropout_p < 1 else keep  # nothing is drawn for a certain outcome
    if scale is None:
        scale = 1 / math.sqrt(query.shape[-1]) if query.shape[-1] else 1.0
    dropped = float(dropout_p) if dropout_p < 1 else 0.0  # if all weights are dropped, none is scaled
    return _attention(query, key, value, attn_mask, keep, causal=bool(is_causal), scale=float(scale), dropped=dropped)


def _fit(query: Any, key: Any, value: Any) -> bool:
    """Whether these are tensors that are not empty, of one batch and number of heads, and of sizes that fit; of float32, or of
    bfloat16 on the CPU."""
    try:
        q, k, v = query._a, key._a, value._a
    except AttributeError:
        return False
    if not q.dtype == k.dtype == v.dtype or not (q.size and k.size and v.size):
        return False
    if q.dtype != FLOAT32 and not (q.dtype == BFLOAT16 and q.__class__ is np.ndarray):
        return False
    shapes = q.shape, k.shape, v.shape
    leads = [s[:-2] for s in shapes]
    return (
        min(map(len, shapes)) >= 2
        and leads[0] == leads[1] == leads[2]
        and shapes[0][-1] == shapes[1][-1]
        and shapes[1][-2] == shapes[2][-2]
    )


def _fits(mask: Any, query: Tensor, key: Tensor, causal: bool) -> bool:
    """Whether a mask without a gradient, of bools or float32, broadcasts to the weights."""
    try:
        a = mask._a
    except AttributeError:
        return False
    shape = (*query._a.shape[:-1], key._a.shape[-2])
    if causal or not unrecorded(mask) or (a.dtype != np.bool_ and a.dtype != FLOAT32) or a.ndim > len(shape):
        return False
    return all(n == 1 or n == m for n, m in zip(reversed(a.shape), reversed(shape), strict=False))


def _check_operands(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, dropout_p: float) -> None:
    """RuntimeError for dtypes and sizes that do not match, and for a `dropout_p` outside of [0, 1]."""
    operands = {"query": query, "key": key, "value": value}
    if not query.dtype is key.dtype is value.dtype:
        names = [C_NAMES.get(t.dtype.name, t.dtype.name) for t in operands.values()]
        raise RuntimeError("Expected query, key, and value to have the same dtype, but got query.dtype: {} key.dtype: {} and "
                           "value.dtype: {} instead.".format(*names))  # fmt: skip
    if min(t.ndim for t in operands.values()) < 2:
        raise RuntimeError("Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
                           f"{query.ndim} key.dim: {key.ndim} and value.dim: {value.ndim} instead.")  # fmt: skip
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        shapes = ", ".join(f"{name} {list(t.shape)}" for name, t in operands.items())
        raise RuntimeError("scaled_dot_product_attention: query and key must have the same last size, and key and value the "
                           f"same last but one; got {shapes}")  # fmt: skip
    if attn_mask is not None and attn_mask.dtype not in (BOOL, float32, query.dtype):
        names = [C_NAMES.get(t.dtype.name, t.dtype.name) for t in (attn_mask, query)]
        raise RuntimeError("Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: "
                           "{} and  query.dtype: {} instead.".format(*names))  # fmt: skip
    if not 0 <= dropout_p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {dropout_p}")


def _shared_heads(query: Tensor, t: Tensor, name: str) -> Tensor:
    """`t` (*, H, S, E) with each head repeated for the query heads that share it."""
    if min(query.ndim, t.ndim) < 3:
        raise IndexError("Dimension out of range: enable_gqa=True needs heads, at dimension -3 of query, key and value")
    heads, own = query.shape[-3], t.shape[-3]
    if own == heads:
        return t
    if not own or heads % own:
        raise RuntimeError("Number of heads in key and value must divide the number of heads in query; got "
                           f"{own} in {name} and {heads} in query")  # fmt: skip
    return t.repeat_interleave(heads // own, -3)


__all__: list[str] = []
