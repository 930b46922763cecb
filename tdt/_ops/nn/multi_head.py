"""Multi-head attention: projections, masks and heads around `scaled_dot_product_attention`."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

from tdt._core.dtype import bool as BOOL
from tdt._core.dtype import dtype
from tdt._core.tensor import Tensor
from tdt._ops.nn.attention import scaled_dot_product_attention
from tdt._ops.nn.functional import dropout, softmax
from tdt._ops.nn.linear import linear
from tdt._ops.nn.pad import pad
from tdt._ops.shape.join import cat
from tdt.autograd._remembered import calls_by_shape


def multi_head_attention_forward(
    query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: int, num_heads: int, in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None, bias_k: Tensor | None, bias_v: Tensor | None, add_zero_attn: bool, dropout_p: float,
    out_proj_weight: Tensor, out_proj_bias: Tensor | None, training: bool = True, key_padding_mask: Tensor | None = None,
    need_weights: bool = True, attn_mask: Tensor | None = None, use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None, k_proj_weight: Tensor | None = None, v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None, static_v: Tensor | None = None, average_attn_weights: bool = True,
    is_causal: bool = False) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Attention of several heads, each with its own projections: the forward pass of `nn.MultiheadAttention`.

    Args:
        embed_dim_to_check: E.
        in_proj_weight, in_proj_bias: projections of query, key and value, for K = V = E, and their biases.
        bias_k, bias_v, add_zero_attn: one more key and value for every sequence: these, or zeros.
        key_padding_mask, attn_mask: bool, True where a query may not attend; or numbers that are added. `is_causal` is a
            hint that attn_mask is the causal mask.
        need_weights, average_attn_weights: whether to return the weights, and their mean over the heads.
        use_separate_proj_weight: use q_proj_weight, k_proj_weight and v_proj_weight instead of `in_proj_weight`.
        static_k, static_v: used instead of the projected keys and values.
    Shape: query (L, N, E), key (S, N, K), value (S, N, V), or all without N; in_proj_weight (3E, E), in_proj_bias (3E,),
        q_, k_ and v_proj_weight (E, E), (E, K) and (E, V), out_proj_weight (E, E), out_proj_bias (E,), bias_k and bias_v
        (1, 1, E), static_k and static_v (N · heads, S, E / heads), key_padding_mask (N, S), attn_mask (L, S) or
        (N · heads, L, S).
    Returns: the result (L, N, E), or (L, E); and the weights (N, L, S), or (N, heads, L, S) if not averaged, or None.
    Raises:
        AssertionError, RuntimeError: when sizes, numbers of dimensions, masks or static keys do not fit.
    Source: Vaswani et al., "Attention Is All You Need", 2017.

    >>> import tdt
    >>> x, w, forward = tdt.ones(2, 1, 4), tdt.eye(4), tdt.nn.functional.multi_head_attention_forward
    >>> forward(x, x, x, 4, 2, tdt.cat([w, w, w]), None, None, None, False, 0.0, w, None)[1]
    tensor([[[0.5000, 0.5000],
             [0.5000, 0.5000]]])
    """
    batched = _check_ranks(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        query, key, value = each(lambda t: t.unsqueeze(1), query, key, value)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    padding = float_mask(key_padding_mask, "key_padding_mask", query.dtype, attn_mask, "attn_mask")
    if is_causal and attn_mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint. nn.Transformer.generate_square_subsequent_mask "
                           "makes one.")  # fmt: skip
    causal = is_causal and padding is None and not need_weights
    mask = None if causal else float_mask(attn_mask, "attn_mask", query.dtype)
    (length, batch, width), places = query.shape, key.shape[0]
    _check_sizes(query, key, value, embed_dim_to_check, num_heads, use_separate_proj_weight)
    separate = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    q, k, v = _project(query, key, value, in_proj_weight, separate, in_proj_bias)
    mask = _bias(mask, batch, num_heads, length, places)
    extra = _extra(bias_k, bias_v, static_k, static_v)
    if extra:
        k, v = (cat([t, more.expand(1, batch, width)]) for t, more in zip((k, v), extra, strict=True))
    if static_k is not None:
        k = _static(static_k, "static_k", batch, num_heads, width)
    if static_v is not None:
        v = _static(static_v, "static_v", batch, num_heads, width)
    if add_zero_attn:
        k, v = (
            cat([t, t.new_zeros((*t.shape[:2], 1, t.shape[3]))], 2)
            for t in (_heads(k, num_heads), _heads(v, num_heads))
        )
    mask = _joined(mask, padding, (extra is not None) + bool(add_zero_attn), batch, k)
    dropout_p = dropout_p if training else 0.0
    weights = None
    if need_weights:
        scaled = q * math.sqrt(num_heads / width)
        weights = dropout(_weights(scaled, k, mask, num_heads), dropout_p)
        out = _weighted(weights, v, num_heads)
        weights = weights.mean(1) if average_attn_weights else weights
    else:
        q, k, v = (_heads(t, num_heads) for t in (q, k, v))
        out = _side_by_side(scaled_dot_product_attention(q, k, v, mask, dropout_p, causal))
    out = linear(out, out_proj_weight, out_proj_bias)
    return (out, weights) if batched else (out.squeeze(1), None if weights is None else weights.squeeze(0))


def each(change: Callable[[Tensor], Tensor], *tensors: Tensor) -> tuple[Tensor, ...]:
    """`change` of each; those that are one tensor stay one."""
    changed = {id(t): change(t) for t in tensors}
    return tuple(changed[id(t)] for t in tensors)


@calls_by_shape
def _weights(q: Tensor, k: Tensor, mask: Tensor | None, heads: int) -> Tensor:
    """The weights (N, heads, L, S) of scaled queries and of keys, given as `_heads` takes them."""
    scores = _heads(q, heads) @ _heads(k, heads).transpose(-2, -1)
    return softmax(scores if mask is None else scores + mask, -1)


@calls_by_shape
def _weighted(weights: Tensor, v: Tensor, heads: int) -> Tensor:
    """The sums of values by these weights, (L, N, E)."""
    return _side_by_side(weights @ _heads(v, heads))


def float_mask(mask: Tensor | None, name: str, kind: dtype, other: Tensor | None = None,
               other_name: str = "") -> Tensor | None:  # fmt: skip
    """A mask as numbers to be added to scores: -inf where a bool one is True. Warns if `other` has another dtype.

    AssertionError for integers.
    """
    if mask is None:
        return None
    if not (mask.dtype is BOOL or mask.is_floating_point()):
        raise AssertionError(f"only bool and floating types of {name} are supported; got {mask.dtype}")
    if other is not None and other.dtype is not mask.dtype:
        warnings.warn(f"Support for mismatched {name} and {other_name} is deprecated. Use same type for both instead.",
                      stacklevel=3)  # fmt: skip
    return mask if mask.dtype is not BOOL else mask.new_zeros(mask.shape, dtype=kind).masked_fill(mask, -math.inf)


def _project(query: Tensor, key: Tensor, value: Tensor, weight: Any, separate: tuple | None,
             bias: Tensor | None) -> tuple[Tensor, ...]:  # fmt: skip
    """Query, key and value by weights of their own, or by the thirds of one: in one product where they are one tensor."""
    if separate is not None:
        return _project_each(query, key, value, separate, bias)
    if weight is None:
        raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
    if query is key and key is value:
        return linear(query, weight, bias).chunk(3, -1)
    width = query.shape[-1]
    parts = [width, 2 * width] if key is value else [width] * 3
    biases = [None] * 3 if bias is None else bias.split(parts)
    projected = [linear(t, w, b) for t, w, b in zip((query, key, value), weight.split(parts), biases, strict=False)]
    return (projected[0], *projected[1].chunk(2, -1)) if key is value else tuple(projected)


def _project_each(query: Tensor, key: Tensor, value: Tensor, weights: tuple, bias: Tensor | None) -> tuple[Tensor, ...]:
    width, projected = query.shape[-1], []
    biases = [None] * 3 if bias is None else bias.chunk(3)
    for what, t, w, b in zip(("query", "key", "value"), (query, key, value), weights, biases, strict=True):
        if w is None:
            raise AssertionError(f"use_separate_proj_weight is True but {what[0]}_proj_weight is None")
        for kind, param, expected in (("weights", w, (width, t.shape[-1])), ("bias", b, (width,))):
            if param is not None and param.shape != expected:
                raise AssertionError(f"expecting {what} {kind} shape of {expected}, but got {param.shape}")
        projected.append(linear(t, w, b))
    return tuple(projected)


def _extra(bias_k: Any, bias_v: Any, static_k: Any, static_v: Any) -> tuple[Tensor, Tensor] | None:
    """The key and the value that every sequence gets more, or None."""
    if (bias_k is None) != (bias_v is None):
        raise AssertionError(
            "bias_k is set but bias_v is None" if bias_v is None else "bias_v is set but bias_k is None"
        )
    if bias_k is None:
        return None
    for static, what in ((static_k, "key"), (static_v, "value")):
        if static is not None:
            raise AssertionError(f"bias cannot be added to static {what}.")
    return bias_k, bias_v


def _heads(t: Tensor, heads: int) -> Tensor:
    """`t` (T, N, E) as (N, heads, T, E / heads); itself if it has four dimensions."""
    if t.ndim == 4:
        return t
    length, batch, width = t.shape
    return t.reshape(length, batch, heads, width // heads).permute(1, 2, 0, 3)


def _side_by_side(t: Tensor) -> Tensor:
    """`t` (N, heads, T, E / heads) as (T, N, E)."""
    batch, heads, length, size = t.shape
    return t.permute(2, 0, 1, 3).reshape(length, batch, heads * size)


def _static(t: Tensor, name: str, batch: int, heads: int, width: int) -> Tensor:
    """`t` (N · heads, S, E / heads) as (N, heads, S, E / heads)."""
    for dim, expected in ((0, batch * heads), (2, width // heads)):
        if t.shape[dim] != expected:
            raise AssertionError(f"expecting {name}.size({dim}) of {expected}, but got {t.shape[dim]}")
    return t.reshape(batch, heads, *t.shape[1:])


def _bias(mask: Tensor | None, batch: int, heads: int, length: int, places: int) -> Tensor | None:
    """attn_mask so that it broadcasts to (N, heads, L, S)."""
    if mask is None:
        return None
    if mask.ndim not in (2, 3):
        raise RuntimeError(f"attn_mask's dimension {mask.ndim} is not supported")
    expected = (length, places) if mask.ndim == 2 else (batch * heads, length, places)
    if mask.shape != expected:
        raise RuntimeError(f"The shape of the {mask.ndim}D attn_mask is {mask.shape}, but should be {expected}.")
    return mask if mask.ndim == 2 else mask.reshape(batch, heads, length, places)


def _joined(mask: Tensor | None, padding: Tensor | None, more: int, batch: int, k: Tensor) -> Tensor | None:
    """The sum of both masks, over `more` further places that all see."""
    mask, padding = (pad(m, (0, more)) if more and m is not None else m for m in (mask, padding))
    if padding is None:
        return mask
    places = k.shape[0 if k.ndim == 3 else 2]
    for dim, expected in enumerate((batch, places)):
        if padding.shape[dim] != expected:
            raise AssertionError(
                f"Expected key_padded_mask.shape[{dim}] to be {expected}, but got {padding.shape[dim]}"
            )
    padding = padding.reshape(batch, 1, 1, places)
    return padding if mask is None else mask + padding


def _check_ranks(query: Tensor, key: Tensor, value: Tensor, padding: Tensor | None, mask: Tensor | None,
                 heads: int) -> bool:  # fmt: skip
    """Whether the sequences come in batches. AssertionError where the numbers of dimensions do not fit."""
    rank = query.ndim
    if rank not in (2, 3):
        raise AssertionError(f"query should be unbatched 2D or batched 3D tensor but received {rank}-D query tensor")
    if not key.ndim == value.ndim == rank:
        raise AssertionError(f"For {'un' * (rank == 2)}batched ({rank}-D) `query`, expected `key` and `value` to be {rank}-D "
                             f"but found {key.ndim}-D and {value.ndim}-D tensors respectively")  # fmt: skip
    for name, t, ranks in (("key_padding_mask", padding, (rank - 1,)), ("attn_mask", mask, (2, 3))):
        if t is not None and t.ndim not in ranks:
            kinds = f"`None` or {rank - 1}-D" if t is padding else "`None`, 2-D or 3-D"
            raise AssertionError(f"For {'un' * (rank == 2)}batched ({rank}-D) `query`, expected `{name}` to be {kinds} but "
                                 f"found {t.ndim}-D tensor instead")  # fmt: skip
    if rank == 2 and mask is not None and mask.ndim == 3:
        expected = heads, query.shape[0], key.shape[0]
        if mask.shape != expected:
            raise AssertionError(f"Expected `attn_mask` shape to be {expected} but got {mask.shape}")
    return rank == 3


def _check_sizes(query: Tensor, key: Tensor, value: Tensor, width: int, heads: int, separate: bool) -> None:
    """AssertionError where the sizes of query, key and value do not fit the module, or each other."""
    if query.shape[-1] != width:
        raise AssertionError(f"was expecting embedding dimension of {width}, but got {query.shape[-1]}")
    if width % heads:
        raise AssertionError(f"embed_dim {width} not divisible by num_heads {heads}")
    if separate and key.shape[:2] != value.shape[:2]:
        raise AssertionError(f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}")
    if not separate and key.shape != value.shape:
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")


__all__: list[str] = []
